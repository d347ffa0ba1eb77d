"""What is read of Jobs and of their Workloads, and nothing else of them."""

import msgspec

from extender.api.wellknown import QUEUE_LABEL
from extender.resources.quantity import CPU, amount
from tests.bench.queue.wire import Condition
from tests.bench.room.wire import Metadata


class Requests(msgspec.Struct):
    requests: dict[str, str] = {}


class Container(msgspec.Struct):
    resources: Requests


class PodSpec(msgspec.Struct):
    containers: list[Container]


class Template(msgspec.Struct):
    spec: PodSpec


class JobSpec(msgspec.Struct, rename="camel"):
    parallelism: int
    completions: int
    template: Template
    suspend: bool = False


class JobStatus(msgspec.Struct):
    conditions: list[Condition] = []
    succeeded: int = 0


class Job(msgspec.Struct):
    metadata: Metadata
    spec: JobSpec
    status: JobStatus = msgspec.field(default_factory=JobStatus)

    def is_true(self, kind: str) -> bool:
        """Return whether the condition of that type is True."""
        return any(each.type == kind and each.status == "True" for each in self.status.conditions)

    @property
    def queue(self) -> str:
        """The LocalQueue that it names."""
        return self.metadata.labels.get(QUEUE_LABEL, "")

    @property
    def used(self) -> int:
        """CPU of the pods that it may have running now, in thousandths of a core."""
        if self.spec.suspend or self.is_true("Complete") or self.is_true("Failed"):
            return 0
        requests = (each.resources.requests for each in self.spec.template.spec.containers)
        pods = min(self.spec.parallelism, self.spec.completions - self.status.succeeded)
        return pods * sum(amount(CPU, each.get(CPU, "0")) for each in requests)


class JobEvent(msgspec.Struct):
    type: str
    object: Job


class Assignment(msgspec.Struct, rename="camel"):
    name: str
    count: int
    resource_usage: dict[str, str] = {}

    @property
    def usage(self) -> int:
        """CPU of all its pods, in thousandths of a core."""
        return amount(CPU, self.resource_usage.get(CPU, "0"))


class Admission(msgspec.Struct, rename="camel"):
    cluster_queue: str = ""
    pod_set_assignments: list[Assignment] = []


class Reclaimable(msgspec.Struct):
    name: str
    count: int


class WorkloadSpec(msgspec.Struct, rename="camel"):
    queue_name: str = ""


class WorkloadStatus(msgspec.Struct, rename="camel"):
    conditions: list[Condition] = []
    admission: Admission | None = None
    reclaimable_pods: list[Reclaimable] = []


class Workload(msgspec.Struct):
    metadata: Metadata
    spec: WorkloadSpec = msgspec.field(default_factory=WorkloadSpec)
    status: WorkloadStatus = msgspec.field(default_factory=WorkloadStatus)

    def is_true(self, kind: str) -> bool:
        """Return whether the condition of that type is True."""
        return any(each.type == kind and each.status == "True" for each in self.status.conditions)

    @property
    def granted(self) -> int:
        """Quota of its admission, in thousandths of a core; 0 where it holds none."""
        return sum(each.usage for each in self._assignments)

    @property
    def held(self) -> int:
        """The same without what its pods that are done gave back."""
        back = {each.name: each.count for each in self.status.reclaimable_pods}
        return sum(
            each.usage * (each.count - back.get(each.name, 0)) // each.count
            for each in self._assignments
        )

    @property
    def held_in(self) -> str:
        """The ClusterQueue of its admission."""
        return self.status.admission.cluster_queue if self.status.admission else ""

    @property
    def _assignments(self) -> list[Assignment]:
        admission = self.status.admission
        if admission is None or self.is_true("Finished") or not self.is_true("QuotaReserved"):
            return []
        return admission.pod_set_assignments


class WorkloadEvent(msgspec.Struct):
    type: str
    object: Workload
