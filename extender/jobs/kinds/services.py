"""Services: StatefulSets, and the replicas of LeaderWorkerSets, as jobs without an end.

The Workload of a service is made before there are pods, and stays as long as the service does. Its
pods are held by our gate, and let go as `PlainPods` when it is admitted. A pod that is made in
place of another goes on in the same Workload.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import ClassVar, Final

from typing_extensions import override

from extender.api import wellknown
from extender.jobs import fields
from extender.jobs.fields import Object
from extender.jobs.job import Finished, GenericJob, Slot, Step, pod_sets_agree
from extender.jobs.kinds.plain_pods import WORKER_INDEX, PlainPods
from extender.jobs.templates import Placement
from extender.state.queue.records import WorkloadInfo

_SIZE: Final = ("spec", "leaderWorkerTemplate", "size")
_MOST: Final = 200
"""The most replicas of a LeaderWorkerSet that are queued: each is a decision."""
_EXCLUSIVE: Final = "leaderworkerset.sigs.k8s.io/exclusive-topology"
_Paths = tuple[tuple[str, ...], ...]
_LEADER: Final = ("spec", "leaderWorkerTemplate", "leaderTemplate")
_WORKER: Final = ("spec", "leaderWorkerTemplate", "workerTemplate")
TEMPLATES: Final[Mapping[tuple[str, str], tuple[str, _Paths]]] = {
    ("apps", "Deployment"): ("deployment", (("spec", "template"),)),
    ("apps", "StatefulSet"): ("statefulset", (("spec", "template"),)),
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): ("leaderworkerset", (_LEADER, _WORKER)),
}
"""The kinds whose pods are queued one by one or as services: the word for the kind in
`pod-suspending-parent`, and where its pod templates are."""
_COPIED: Final = (wellknown.QUEUE_LABEL, wellknown.PRIORITY_CLASS_LABEL)


def prepare(source: Object, group: str, kind: str) -> None:
    """Write into the pod templates of an object what its pods need to wait in its queue."""
    word, paths = TEMPLATES[group, kind]
    labels = {name: text for name in _COPIED if (text := fields.label(source, name))}
    for path in paths:
        if fields.mapping(source, *path):
            metadata = fields.ensure(source, *path, "metadata")
            fields.ensure(metadata, "labels").update(labels | {wellknown.MANAGED_LABEL: "true"})
            fields.ensure(metadata, "annotations")[wellknown.SUSPENDING_PARENT] = word


def group_of(pod: Object) -> str:
    """Return the name of the Workload that a new pod of a service belongs to, or nothing."""
    owners = fields.objects(pod, "metadata", "ownerReferences")
    by = next((fields.text(o, "name") for o in owners if fields.flag(o, "controller")), "")
    word = fields.annotation(pod, wellknown.SUSPENDING_PARENT)
    if by and word == "statefulset":
        return f"sts-{by}"
    # The StatefulSet of a group's workers has the name of its leader.
    is_leader = fields.label(pod, WORKER_INDEX) == "0"
    name = fields.text(pod, "metadata", "name") if is_leader else by
    return f"lws-{name}" if by and word == "leaderworkerset" else ""


class Service(GenericJob):
    """The pods of a service that start together."""

    serves: ClassVar = True

    def __init__(self, source: Object, index: int = 0) -> None:
        super().__init__(source)
        self.index = index
        self.pods: PlainPods | None = None
        """Its pods, those that wait too."""
        self.most: int | None = None
        """The number of pods that it is admitted for."""

    @override
    def is_suspended(self) -> bool:
        return not self.is_active()

    @override
    def finished(self) -> Finished | None:
        return None

    @override
    def is_active(self) -> bool:
        return self.pods is not None and self.pods.is_active()

    @override
    def pods_ready(self) -> bool:
        """Return whether those pods are ready that it is admitted for; others may wait."""
        ready, wanted = self.pods.ready if self.pods else 0, sum(s.count for s in self.slots())
        return ready >= (wanted if self.most is None else min(wanted, self.most))

    @override
    def problem(self) -> str:
        kind = self.kind
        for path in TEMPLATES[self.group, kind][1]:
            found = fields.mapping(self.object, *path)
            if found and not fields.annotation(found, wellknown.SUSPENDING_PARENT):
                return (
                    f"{'.'.join(path)} lacks the annotation {wellknown.SUSPENDING_PARENT}, so that "
                    "its pods do not wait: apply manifests/optional/queue-policies.yaml, or "
                    f"webhooks.yaml, and then change the {kind}"
                )
        return ""

    @override
    def equivalent_to_workload(self, workload: WorkloadInfo) -> bool:
        """Return whether the workload asks for what the service does, or has quota already."""
        held = workload.admission is not None and not workload.finished
        return held or pod_sets_agree(self.slots(), workload, exact=True)

    @override
    def makes(self, kind: str, name: str) -> bool:
        return False

    @override
    def start_steps(self, placements: Sequence[Placement]) -> Sequence[Step]:
        return ()

    @override
    def stop_steps(self, pod_sets: Sequence[Slot] | None) -> Sequence[Step]:
        return ()


class StatefulSet(Service):
    """A StatefulSet of apps/v1."""

    integration: ClassVar = "statefulset"
    kind: ClassVar = "StatefulSet"
    group: ClassVar = "apps"
    version: ClassVar = "v1"
    plural: ClassVar = "statefulsets"

    @override
    def workload_name(self, attempt: int = 0) -> str:
        return f"sts-{fields.text(self.object, 'metadata', 'name')}"

    @override
    def slots(self) -> list[Slot]:
        template = fields.ensure(self.object, "spec", "template")
        return [Slot("main", fields.count(self.object, "spec", "replicas", default=1), template)]

    @override
    def is_idle(self) -> bool:
        return self.slots()[0].count == 0

    @override
    def late_pod_sets(self) -> Collection[str]:
        parallel = fields.text(self.object, "spec", "podManagementPolicy") == "Parallel"
        return () if parallel else ("main",)


class LeaderWorkerGroup(Service):
    """One replica of a LeaderWorkerSet: a leader and its workers."""

    integration: ClassVar = "leaderworkerset.x-k8s.io/leaderworkerset"
    kind: ClassVar = "LeaderWorkerSet"
    group: ClassVar = "leaderworkerset.x-k8s.io"
    version: ClassVar = "v1"
    plural: ClassVar = "leaderworkersets"

    @override
    def workload_name(self, attempt: int = 0) -> str:
        return f"lws-{fields.text(self.object, 'metadata', 'name')}-{self.index}"

    @override
    def slots(self) -> list[Slot]:
        size = fields.count(self.object, *_SIZE, default=1)
        worker = fields.ensure(self.object, *_WORKER)
        if not fields.mapping(self.object, *_LEADER):
            if not self._leader_first():
                return [Slot("main", size, worker)]
            return [Slot("leader", 1, worker), Slot("worker", size - 1, worker)]
        leader = fields.ensure(self.object, *_LEADER)
        return [Slot("leader", 1, leader), Slot("worker", size - 1, worker)]

    @override
    def problem(self) -> str:
        replicas = fields.count(self.object, "spec", "replicas", default=1)
        if replicas > _MOST:
            return f"spec.replicas is {replicas}: use {_MOST} at most, and several of them"
        return super().problem()

    @override
    def late_pod_sets(self) -> Collection[str]:
        return ("worker",) if self._leader_first() else ()

    def _leader_first(self) -> bool:
        """Return whether its workers are made only when the leader is ready, or has a node."""
        exclusive = fields.annotation(self.object, _EXCLUSIVE)
        return bool(exclusive) or fields.text(self.object, "spec", "startupPolicy") == "LeaderReady"


def groups_of(source: Object) -> list[Service]:
    """Return the replicas of a LeaderWorkerSet, those too that it has beyond what it should."""
    wanted = fields.count(source, "spec", "replicas", default=1)
    there = fields.count(source, "status", "replicas")
    return [LeaderWorkerGroup(source, index) for index in range(min(_MOST, max(wanted, there)))]
