"""What the benchmark reads of a Workload, and nothing else of it."""

import msgspec

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


class Metadata(msgspec.Struct, rename="camel"):
    name: str = ""
    resource_version: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class Resources(msgspec.Struct):
    requests: dict[str, str] = {}


class Container(msgspec.Struct):
    resources: Resources


class Pod(msgspec.Struct):
    containers: list[Container]


class Template(msgspec.Struct):
    spec: Pod


class PodSet(msgspec.Struct):
    template: Template


class Spec(msgspec.Struct, rename="camel"):
    queue_name: str = ""
    priority: int = 0
    pod_sets: list[PodSet] = []


class Assignment(msgspec.Struct, rename="camel"):
    resource_usage: dict[str, str] = {}


class Admission(msgspec.Struct, rename="camel"):
    cluster_queue: str = ""
    pod_set_assignments: list[Assignment] = []


class Status(msgspec.Struct, rename="camel"):
    conditions: list[Condition] = []
    admission: Admission | None = None


class Workload(msgspec.Struct):
    """A Workload of the load."""

    metadata: Metadata
    spec: Spec = msgspec.field(default_factory=Spec)
    status: Status = msgspec.field(default_factory=Status)

    def condition(self, kind: str) -> Condition | None:
        """Return the condition of that type."""
        return next((each for each in self.status.conditions if each.type == kind), None)

    def is_true(self, kind: str) -> bool:
        """Return whether the condition of that type is True."""
        found = self.condition(kind)
        return found is not None and found.status == "True"

    @property
    def version(self) -> int:
        """Its resourceVersion: the API server promises that they can be compared."""
        return int(self.metadata.resource_version)

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
        """CPU of the one pod that each Workload of the load has, in thousandths of a core."""
        pods = (each.template.spec for each in self.spec.pod_sets)
        requests = (each.resources.requests for pod in pods for each in pod.containers)
        return sum(amount(CPU, each.get(CPU, "0")) for each in requests)

    @property
    def held(self) -> int:
        """Quota that it holds, in thousandths of a core."""
        admission = self.status.admission
        if admission is None or self.is_true("Finished") or not self.is_true("QuotaReserved"):
            return 0
        usages = (each.resource_usage for each in admission.pod_set_assignments)
        return sum(amount(CPU, usage.get(CPU, "0")) for usage in usages)


class Event(msgspec.Struct):
    """One line of a watch."""

    type: str
    object: Workload
