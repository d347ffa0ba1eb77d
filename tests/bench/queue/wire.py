"""What the benchmark reads of Workloads and Jobs, and nothing else of them."""

import msgspec
from typing_extensions import override

from extender.api.wellknown import QUEUE_LABEL
from extender.resources.quantity import CPU, amount
from tests.bench.queue.manifests import CLASS, RUNTIME_MS


class Condition(msgspec.Struct, rename="camel", omit_defaults=True):
    """All fields of a condition, so that it can be written back."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: str = ""
    observed_generation: int = 0


class Owner(msgspec.Struct):
    kind: str
    name: str


class Metadata(msgspec.Struct, rename="camel"):
    name: str = ""
    resource_version: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: list[Owner] = []

    @property
    def job(self) -> str:
        """The name of the Job that it belongs to, "" for none."""
        return next((each.name for each in self.owner_references if each.kind == "Job"), "")


class _Requests(msgspec.Struct):
    requests: dict[str, str] = {}


class _Container(msgspec.Struct):
    resources: _Requests


class _PodSpec(msgspec.Struct):
    containers: list[_Container]


class _Template(msgspec.Struct):
    spec: _PodSpec

    @property
    def request(self) -> int:
        """CPU of one pod, in thousandths of a core."""
        requests = (each.resources.requests for each in self.spec.containers)
        return sum(amount(CPU, each.get(CPU, "0")) for each in requests)


class _PodSet(msgspec.Struct):
    template: _Template


class _Assignment(msgspec.Struct, rename="camel"):
    name: str = ""
    count: int = 1
    resource_usage: dict[str, str] = {}

    @property
    def usage(self) -> int:
        """CPU of all its pods, in thousandths of a core."""
        return amount(CPU, self.resource_usage.get(CPU, "0"))


class _Admission(msgspec.Struct, rename="camel"):
    cluster_queue: str = ""
    pod_set_assignments: list[_Assignment] = []


class _Reclaimable(msgspec.Struct):
    name: str
    count: int


class _WorkloadSpec(msgspec.Struct, rename="camel"):
    queue_name: str = ""
    priority: int = 0
    pod_sets: list[_PodSet] = []


class _WorkloadStatus(msgspec.Struct, rename="camel"):
    conditions: list[Condition] = []
    admission: _Admission | None = None
    reclaimable_pods: list[_Reclaimable] = []


class _Conditioned(msgspec.Struct):
    metadata: Metadata

    @property
    def conditions(self) -> list[Condition]:
        """Those of its status."""
        raise NotImplementedError

    def condition(self, kind: str) -> Condition | None:
        """Return the condition of that type."""
        return next((each for each in self.conditions if each.type == kind), None)

    def is_true(self, kind: str) -> bool:
        """Return whether the condition of that type is True."""
        found = self.condition(kind)
        return found is not None and found.status == "True"


class Workload(_Conditioned):
    spec: _WorkloadSpec = msgspec.field(default_factory=_WorkloadSpec)
    status: _WorkloadStatus = msgspec.field(default_factory=_WorkloadStatus)

    @property
    @override
    def conditions(self) -> list[Condition]:
        return self.status.conditions

    @property
    def class_name(self) -> str:
        """Its class in the load."""
        return self.metadata.labels.get(CLASS, "")

    @property
    def runtime(self) -> float:
        """Seconds that it runs."""
        return int(self.metadata.annotations.get(RUNTIME_MS, "0")) / 1000

    @property
    def request(self) -> int:
        """CPU of the one pod that each Workload without a Job has, in thousandths of a core."""
        return sum(each.template.request for each in self.spec.pod_sets)

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
    def _assignments(self) -> list[_Assignment]:
        admission = self.status.admission
        if admission is None or self.is_true("Finished") or not self.is_true("QuotaReserved"):
            return []
        return admission.pod_set_assignments


class WorkloadEvent(msgspec.Struct):
    """One line of a watch, as the others below."""

    type: str
    object: Workload


class _JobSpec(msgspec.Struct):
    parallelism: int
    completions: int
    template: _Template
    suspend: bool = False


class _JobStatus(msgspec.Struct):
    conditions: list[Condition] = []
    succeeded: int = 0


class Job(_Conditioned, kw_only=True):
    spec: _JobSpec
    status: _JobStatus = msgspec.field(default_factory=_JobStatus)

    @property
    @override
    def conditions(self) -> list[Condition]:
        return self.status.conditions

    @property
    def queue(self) -> str:
        """The LocalQueue that it names."""
        return self.metadata.labels.get(QUEUE_LABEL, "")

    @property
    def used(self) -> int:
        """CPU of the pods that it may have running now, in thousandths of a core."""
        if self.spec.suspend or self.is_true("Complete") or self.is_true("Failed"):
            return 0
        pods = min(self.spec.parallelism, self.spec.completions - self.status.succeeded)
        return pods * self.spec.template.request


class JobEvent(msgspec.Struct):
    type: str
    object: Job
