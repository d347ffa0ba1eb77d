"""Plain pods as a job: one alone, or those of a group.

A pod cannot be suspended. A scheduling gate holds it until it is admitted, and a stop deletes it;
its controller may make it again. A pod whose gate was removed has the label `managed`, and an
annotation with its pod set.
"""

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from hashlib import sha256
from typing import ClassVar, Final

import msgspec
from typing_extensions import override

from extender.api import wellknown
from extender.api.wellknown import POD_GROUP_LABEL
from extender.jobs import fields, templates
from extender.jobs.fields import Object
from extender.jobs.job import (
    Finished,
    GenericJob,
    Slot,
    Step,
    guarded,
    merge_patch,
    split_gates,
    template_of,
)
from extender.jobs.templates import Placement
from extender.state.queue.records import WorkloadInfo

_MARKS: Final = (wellknown.ADMISSION_GATE.encode(), wellknown.MANAGED_LABEL.encode())
_BATCH: Final = 100
"""Most pods whose gate one reconciliation removes; the next one goes on."""


_SHAPE: Final = (
    "initContainers",
    "containers",
    "nodeSelector",
    "affinity",
    "tolerations",
    "topologySpreadConstraints",
    "priorityClassName",
    "runtimeClassName",
    "overhead",
    "resources",
    "resourceClaims",
)
_OF_A_CONTAINER: Final = ("image", "resources", "ports", "restartPolicy")
WORKER_INDEX: Final = "leaderworkerset.sigs.k8s.io/worker-index"
"""A label of the pods of a LeaderWorkerSet; that of a leader is 0."""
_SERVICES: Final = frozenset(("statefulset", "leaderworkerset"))
_ENDED: Final = frozenset(("Succeeded", "Failed"))


@dataclass(frozen=True, slots=True)
class PlainPod:
    """A pod as the API server has it, and the fields that decisions read, worked out once.

    They are small enough to be kept as long as the pod does not change, which the decoded pod is
    not: a decision about a thousand pods asks some ten things of each.
    """

    source: bytes | Object = field(repr=False)
    """The pod as JSON, or as the object that a caller owns."""
    uid: str
    name: str
    created: str
    """The creation timestamp, as text of one form that sorts by time."""
    is_ours: bool
    """True if it has our gate or our label, and no queued job controls it."""
    is_held: bool
    """True if our scheduling gate is there."""
    is_leaving: bool
    has_ended: bool
    has_succeeded: bool
    is_ready: bool
    role: str
    """The name of its pod set; nothing for a pod that is not ours."""
    queue: str
    total: str
    """The number of pods in its group, from its annotation."""
    is_last: bool
    """True if its annotation says that a pod which failed is not replaced."""
    follows: bool
    """True if it is one of a service, whose Workload has the name of its group."""

    @property
    def object(self) -> Object:
        """The whole pod. Of one that was read from JSON each call returns another copy."""
        if isinstance(self.source, bytes):
            return _named(msgspec.json.decode(self.source))
        return self.source

    def copy(self) -> Object:
        """Return the whole pod as an object that is the caller's to change."""
        return self.object if isinstance(self.source, bytes) else deepcopy(self.source)

    @property
    def age(self) -> tuple[str, str]:
        """Return the sort key of pods; the oldest comes first."""
        return self.created, self.name

    @property
    def runs(self) -> bool:
        """Return whether it was let go and has not ended."""
        return not self.is_held and not self.has_ended

    @property
    def counts(self) -> bool:
        """Return whether it makes up its group; one that failed has to be replaced."""
        return not self.is_leaving and (not self.has_ended or self.has_succeeded)


def read(raw: bytes) -> PlainPod:
    """Return a pod that the API server has sent. Raises msgspec.MsgspecError where it is no JSON.

    `raw` is kept, and decoded again where the whole pod is needed.
    """
    return _pod(_named(msgspec.json.decode(raw)), raw)


def pod_of(source: Object) -> PlainPod:
    """Return an object as a pod. The caller gives the object away."""
    return _pod(source, _named(source))


def _named(source: Object) -> Object:
    """Add kind and apiVersion, which a pod out of a list lacks."""
    source.setdefault("apiVersion", "v1")
    source.setdefault("kind", "Pod")
    return source


def _pod(found: Object, source: bytes | Object) -> PlainPod:
    gates = fields.objects(found, "spec", "schedulingGates")
    held = any(each.get("name") == wellknown.ADMISSION_GATE for each in gates)
    ours, phase = _is_ours(found, held=held), fields.text(found, "status", "phase")
    return PlainPod(
        source,
        uid=fields.text(found, "metadata", "uid"),
        name=fields.text(found, "metadata", "name"),
        created=fields.text(found, "metadata", "creationTimestamp"),
        is_ours=ours,
        is_held=held,
        is_leaving=bool(fields.text(found, "metadata", "deletionTimestamp")),
        has_ended=phase in _ENDED,
        has_succeeded=phase == "Succeeded",
        is_ready=fields.condition(found, "Ready") is not None,
        role=_role(found, held=held) if ours else "",
        queue=fields.label(found, wellknown.QUEUE_LABEL),
        total=fields.annotation(found, wellknown.POD_GROUP_TOTAL_COUNT),
        is_last=fields.annotation(found, wellknown.RETRIABLE_IN_GROUP) == "false",
        follows=_follows(found),
    )


def _is_ours(pod: Object, *, held: bool) -> bool:
    """Return whether a pod has our gate or label, and is not the pod of a job that is queued.

    Such a pod names the workload of its job, as its template did. Pods that were held name theirs
    when they are let go, and then have their role, too.
    """
    if not held and fields.label(pod, wellknown.MANAGED_LABEL) != "true":
        return False
    if not fields.annotation(pod, wellknown.WORKLOAD_ANNOTATION):
        return True
    was_held = not held and bool(fields.annotation(pod, wellknown.ROLE_HASH))
    owners = fields.objects(pod, "metadata", "ownerReferences")
    return was_held or not any(fields.flag(each, "controller") for each in owners)


def _follows(pod: Object) -> bool:
    grouped = fields.label(pod, wellknown.QUEUE_POD_GROUP_LABEL)
    return bool(grouped) and fields.annotation(pod, wellknown.SUSPENDING_PARENT) in _SERVICES


def _role(pod: Object, *, held: bool) -> str:
    """Return the name of a pod's pod set: equal pods have one, whatever they are given later.

    The annotation counts only where we wrote it, when the pod was let go: any user can write one,
    and a large pod is not to be counted as a small one.
    """
    own, spec = fields.annotation(pod, wellknown.ROLE_HASH), fields.mapping(pod, "spec")
    if own and not held:
        return own
    if _follows(pod):
        index = fields.label(pod, WORKER_INDEX)
        return "main" if not index else "leader" if index == "0" else "worker"
    shape = {name: spec[name] for name in _SHAPE if spec.get(name)}
    for name in ("initContainers", "containers"):
        containers = fields.objects(spec, name)
        shape[name] = [{n: c[n] for n in _OF_A_CONTAINER if n in c} for c in containers]
    text = json.dumps(shape, sort_keys=True)
    return sha256(text.encode(), usedforsecurity=False).hexdigest()[:8]


def group_name_of(pod: Mapping[str, object]) -> str:
    """Return the name of the group that a pod belongs to, nothing for one alone."""
    return fields.label(pod, wellknown.QUEUE_POD_GROUP_LABEL) or fields.label(pod, POD_GROUP_LABEL)


def may_concern(raw: bytes) -> bool:
    """Return whether a pod, as JSON, may have our gate or our label."""
    return any(mark in raw for mark in _MARKS)


class PlainPods(GenericJob):
    """The pods of a group that are ours, or one pod."""

    integration: ClassVar = "pod"
    kind: ClassVar = "Pod"
    group: ClassVar = ""
    version: ClassVar = "v1"
    plural: ClassVar = "pods"
    is_composed: ClassVar = True

    def __init__(self, pods: Sequence[PlainPod]) -> None:
        self._done: Mapping[str, int] = {}
        self._leader: WorkloadInfo | None = None
        self._late: Collection[str] = ()
        self._pods = sorted((each for each in pods if each.is_ours), key=lambda pod: pod.age)
        self._left = [each for each in self._pods if not each.is_leaving]
        self._counted = [each for each in self._left if each.counts]
        self._here = Counter(each.role for each in self._counted)
        self._first = next(iter(self._left or self._pods or pods))
        self._object = self._first.object  # the oldest; one being deleted comes last
        self._total = self._said_total()

    @override
    def remember(self, done: Mapping[str, int], pods: int = 0) -> None:
        self._done, self._total = done, pods or self._total

    @override
    def skip(self) -> bool:
        return not self._pods

    # -- pods of a service

    @property
    def follows(self) -> bool:
        """True if these are the pods of a service."""
        return self._first.follows

    @property
    def ready(self) -> int:
        """The number of pods that were let go and are ready."""
        return sum(each.is_ready and each.runs for each in self._left)

    @property
    def held(self) -> Mapping[str, str]:
        """The pods that wait: the pod set of each, by its UID."""
        return {each.uid: each.role for each in self._left if each.is_held}

    def follow(self, workload: WorkloadInfo, late: Collection[str], fits: Collection[str]) -> None:
        """Join the Workload of the service; of the pods that wait only those that fit may go."""
        self._leader, self._late = workload, late
        self._left = [each for each in self._left if not each.is_held or each.uid in fits]

    @override
    def late_pod_sets(self) -> Collection[str]:
        return self._late

    # -- one workload for all

    @override
    def owners(self) -> list[Object]:
        if self._leader is not None:
            return [
                {"apiVersion": o.api_version, "kind": o.kind, "name": o.name, "uid": o.uid}
                for o in self._leader.owners
            ]
        what: Object = {"apiVersion": self.version, "kind": self.kind}
        return [{**what, "name": each.name, "uid": each.uid} for each in self._pods]

    @override
    def succeeded(self) -> Sequence[tuple[str, str]]:
        return [(each.uid, each.role) for each in self._pods if each.has_succeeded]

    @override
    def lasting(self) -> Collection[str]:
        return {each.uid for each in self._left if not each.has_ended}

    @override
    def workload_name(self, attempt: int = 0) -> str:
        """Return the group's name; without one, or for a further `attempt`, that of any job."""
        return (group_name_of(self.object) if not attempt else "") or super().workload_name(attempt)

    @override
    def admission_gate(self) -> str:
        """Return the controllers that hold any of the pods back."""
        said = (fields.annotation(each.object, wellknown.ADMISSION_GATED_BY) for each in self._left)
        return ",".join(dict.fromkeys(name for each in said for name in split_gates(each)))

    @override
    def problem(self) -> str:
        """Return why the pods can never become a group, whichever pods follow."""
        if group_name_of(self.object) and self._said_total() < 1:
            return (
                f"annotation {wellknown.POD_GROUP_TOTAL_COUNT} is no number above zero on all pods"
            )
        if len({each.queue for each in self._left}) > 1:
            return "its pods do not name one queue"
        return ""

    @override
    def incomplete(self) -> str:
        there = len(self._counted) + self._gone()
        return f"{there} of {self._total} pods are there" if there < self._total else ""

    @override
    def tidy_steps(self) -> list[Step]:
        """Return the deletions of surplus pods: held pods first, then the youngest."""
        spare = len(self._counted) - max(self._total, self._said_total())
        if spare <= 0 or self.problem():
            return []
        waiting = [each for each in self._counted if not each.has_ended]
        held_last = sorted(waiting, key=lambda pod: (pod.is_held, pod.age))
        return [_delete(each) for each in held_last[-spare:]]

    # -- the job

    @override
    def is_suspended(self) -> bool:
        return not any(each.runs for each in self._left)

    @override
    def finished(self) -> Finished | None:
        """Return the end: all pods succeeded, or all ended and one says that it is not replaced."""
        total = self._total
        succeeded = sum(each.has_succeeded for each in self._pods) + self._gone()
        message = f"{succeeded} of {total} pods succeeded"
        if 0 < total <= succeeded:
            return Finished(success=True, message=message)
        if not all(each.has_ended for each in self._pods):
            return None
        last = any(each.is_last for each in self._pods)
        alone = not group_name_of(self.object)
        return Finished(success=False, message=message) if last or alone else None

    @override
    def slots(self) -> list[Slot]:
        """Return one slot for each role. The templates are copies: a start changes each pod."""
        first = {pod.role: pod for pod in reversed(self._counted)}
        return [Slot(role, self._here[role], _template(first[role])) for role in sorted(first)]

    @override
    def pod_sets(self) -> list[Slot]:
        """Return the slots as pod sets: their templates are copies already."""
        return [Slot(each.name, each.count, each.template) for each in self.slots()]

    @override
    def equivalent_to_workload(self, workload: WorkloadInfo) -> bool:
        """Return whether the workload has enough pods of each kind; some pods may be missing.

        Once a pod runs the workload stays: a late pod that does not fit in waits.
        """
        if not self.is_suspended():
            return True
        stored = {each.name: each for each in workload.pod_sets}
        held = {pod.role: pod for pod in self._counted if pod.is_held}
        if any(r not in stored or n > stored[r].count for r, n in self._here.items()):
            return False
        # Any user may have written the pod set.
        return all(
            _amounts(pod.object) == _amounts(template_of(stored[role]))
            for role, pod in held.items()
        )

    @override
    def priority_class(self) -> str:
        return fields.text(self.object, "spec", "priorityClassName")

    @override
    def pods_ready(self) -> bool:
        """Return whether each pod has succeeded, or is ready and not being deleted."""
        done = sum(p.has_succeeded or (p.is_ready and not p.is_leaving) for p in self._pods)
        return 0 < self._total <= done + self._gone()

    @override
    def is_active(self) -> bool:
        return any(each.runs for each in self._pods)

    @override
    def reclaimable_pods(self) -> Mapping[str, int]:
        """Return the pods that have succeeded, including those deleted since."""
        found = Counter(each.role for each in self._pods if each.has_succeeded)
        return found | Counter({name: done for name, done in self._done.items() if done > 0})

    def _gone(self) -> int:
        """Return how many pods have succeeded and were deleted since."""
        there = sum(each.has_succeeded for each in self._pods)
        return max(0, sum(self.reclaimable_pods().values()) - there) if self._done else 0

    # -- start and stop

    @override
    def start_steps(self, placements: Sequence[Placement]) -> list[Step]:
        """Return the writes that remove our gate from as many pods as have quota."""
        steps: list[Step] = []
        for placement in placements:
            every = self.follows and placement.name == "main"
            mine = [each for each in self._left if every or each.role == placement.name]
            room = placement.count - sum(each.runs for each in mine)
            held = [each for each in mine if each.is_held][: max(0, room)]
            for pod in held[: _BATCH - len(steps)]:
                before = pod.object
                changed = pod.copy()
                templates.inject(changed, placement)
                fields.ensure(changed, "metadata", "annotations")[wellknown.ROLE_HASH] = (
                    placement.name
                )
                _let_go(changed)
                step = guarded(merge_patch(before, changed), before)
                steps.append(Step(step.patch, member=pod.name))
        return steps

    @override
    def stop_steps(self, pod_sets: Sequence[Slot] | None) -> list[Step]:
        """Return the deletions of all pods that have not ended."""
        return [_delete(each) for each in self._left if not each.has_ended]

    def _said_total(self) -> int:
        """Return how many pods make the group, 0 where its pods do not agree."""
        if not group_name_of(self.object):
            return 1
        said = {each.total for each in self._pods}
        count = next(iter(said)) if len(said) == 1 else ""
        return fields.whole(count)


def _amounts(pod: Object) -> list[object]:
    """Return everything of a pod, or a template, that says how much it asks for."""
    spec = fields.mapping(pod, "spec")
    found: list[object] = [
        (fields.mapping(each, "resources"), each.get("restartPolicy"))
        for name in ("initContainers", "containers")
        for each in fields.objects(spec, name)
    ]
    return [*found, *(fields.mapping(spec, name) for name in ("resources", "overhead"))]


def _let_go(pod: Object) -> None:
    gates = fields.objects(pod, "spec", "schedulingGates")
    others = [each for each in gates if fields.text(each, "name") != wellknown.ADMISSION_GATE]
    fields.put(fields.ensure(pod, "spec"), "schedulingGates", others)
    fields.ensure(pod, "metadata", "labels")[wellknown.MANAGED_LABEL] = "true"


def _template(pod: PlainPod) -> Object:
    """Return a pod as a template, without what only this one pod has."""
    found = pod.copy()
    spec = dict(fields.mapping(found, "spec"))
    for name in ("nodeName", "schedulingGates", "hostname"):
        spec.pop(name, None)
    metadata: Object = {"labels": fields.strings(found, "metadata", "labels")}
    if said := templates.topology_annotations(found):
        metadata["annotations"] = {**said}
    return {"metadata": metadata, "spec": spec}


def _delete(pod: PlainPod) -> Step:
    return Step({"preconditions": {"uid": pod.uid}}, member=pod.name, delete=True)
