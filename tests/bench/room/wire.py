"""What is read of Workloads and pods, and nothing else of them."""

import msgspec

from tests.bench.queue.wire import Condition
from tests.bench.queue.wire import Metadata as _Metadata


class Owner(msgspec.Struct):
    kind: str
    name: str


class Metadata(_Metadata, rename="camel"):
    uid: str = ""
    deletion_timestamp: str | None = None
    owner_references: list[Owner] = msgspec.field(default_factory=list)

    @property
    def job(self) -> str:
        """The name of the Job that it belongs to, "" for none."""
        return next((each.name for each in self.owner_references if each.kind == "Job"), "")


class WorkloadStatus(msgspec.Struct):
    conditions: list[Condition] = []


class Workload(msgspec.Struct):
    metadata: Metadata
    status: WorkloadStatus = msgspec.field(default_factory=WorkloadStatus)

    def reason(self, kind: str, status: str = "True") -> str:
        """Return the reason of a condition that has this status, "" where it has not."""
        found = (each for each in self.status.conditions if each.type == kind)
        return next((each.reason for each in found if each.status == status), "")


class WorkloadEvent(msgspec.Struct):
    type: str
    object: Workload


class PodSpec(msgspec.Struct, rename="camel"):
    node_name: str = ""


class PodStatus(msgspec.Struct):
    phase: str = ""


class Pod(msgspec.Struct):
    metadata: Metadata
    spec: PodSpec = msgspec.field(default_factory=PodSpec)
    status: PodStatus = msgspec.field(default_factory=PodStatus)


class PodEvent(msgspec.Struct):
    type: str
    object: Pod
