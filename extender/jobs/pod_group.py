"""Plain pods as a job: one alone, or those of a group.

A pod cannot be suspended. It is held by a scheduling gate until it is admitted, and is stopped by
deleting it; whoever made it may make it again. What is written on a pod when it is let go tells
that it is ours (`managed`), and of which pod set it is.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from copy import deepcopy
from functools import cached_property, lru_cache
from hashlib import sha256
from typing import ClassVar, Final

import msgspec

from extender.api.wellknown import POD_GROUP_LABEL
from extender.jobs import fields, names, templates
from extender.jobs.equivalence import template_of
from extender.jobs.fields import Object
from extender.jobs.generic_job import Finished, PodSet, Step
from extender.jobs.patch import merge_patch
from extender.jobs.steps import guarded
from extender.jobs.templates import Placement, PlacementError
from extender.jobs.workload import workload_name
from extender.state.queues.records import PodSetInfo, WorkloadInfo

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
_CONTROLLED: Final = ("batch", "jobset.x-k8s.io", "kubeflow.org", "ray.io")
"""Groups of jobs that are queued themselves."""
_MARKS: Final = (names.ADMISSION_GATE.encode(), names.MANAGED.encode())
_KNOWN: Final = 4096
"""Different texts of pods whose hash is kept."""
_BATCH: Final = 100
"""Pods that are let go in one look at their group; the next look goes on."""
_CHANGED: Final = {"metadata": ("labels", "annotations"), "spec": ("nodeSelector",)}
_ENDED: Final = frozenset(("Succeeded", "Failed"))


def group_of(pod: Mapping[str, object]) -> str:
    """Return the name of the group that a pod belongs to, nothing for one alone."""
    return fields.label(pod, names.POD_GROUP_NAME) or fields.label(pod, POD_GROUP_LABEL)


def may_concern(raw: bytes) -> bool:
    """Return whether a pod, as JSON, may be held for us or have been let go by us."""
    return any(mark in raw for mark in _MARKS)


class PodGroup:
    """The pods of a group, as far as they are ours, or one pod."""

    integration: ClassVar = "pod"
    kind: ClassVar = "Pod"
    group: ClassVar = ""
    version: ClassVar = "v1"
    plural: ClassVar = "pods"

    def __init__(self, pods: Sequence[Object]) -> None:
        ours = [each for each in pods if _is_ours(each)]
        self._all = pods
        self._pods = sorted(ours, key=_age)
        self._left = [each for each in self._pods if not _is_leaving(each)]
        self._told: Mapping[str, int] = {}
        self._suspended: bool | None = None
        """Whether it is, once that was asked: a decision asks some times."""

    def remember(self, done: Mapping[str, int]) -> None:
        """Take how many pods of each pod set are known to have succeeded, those too that are gone.

        Whoever made them may delete them as soon as they have ended.
        """
        self._told = done

    @property
    def object(self) -> Object:
        """The oldest pod, one that is not being deleted before those that are."""
        found = self._left or self._pods or self._all
        return next(iter(found))

    def skip(self) -> bool:
        """Return whether none of the pods is held for us, or was let go by us."""
        return not self._pods

    # -- one workload for all

    def members(self) -> Sequence[Object]:
        """Return the pods."""
        return self._pods

    def succeeded(self) -> Sequence[tuple[str, str]]:
        """Return UID and pod set of the pods that have succeeded and are there."""
        return [
            (fields.text(each, "metadata", "uid"), _role(each))
            for each in self._pods
            if _has_succeeded(each)
        ]

    def lasting(self) -> Sequence[Object]:
        """Return the pods that have not ended and are not being deleted."""
        return [each for each in self._left if not _has_ended(each)]

    def workload_name(self) -> str:
        """Return the group's name, or the name that a pod alone gives."""
        return group_of(self.object) or workload_name(self.object)

    def problem(self) -> str:
        """Return why no group can be made of the pods, whoever may come, or nothing."""
        if group_of(self.object) and self._total() < 1:
            return f"annotation {names.POD_GROUP_TOTAL_COUNT} is no number above zero on all pods"
        if len({fields.label(each, names.QUEUE_NAME) for each in self._left}) > 1:
            return "its pods do not name one queue"
        return ""

    def incomplete(self) -> str:
        """Return how many pods are missing, or nothing."""
        there = len(self._counted()) + self._gone()
        total = self._total()
        return f"{there} of {total} pods are there" if there < total else ""

    def tidy_steps(self) -> list[Step]:
        """Return the deletion of pods that are too many: held ones first, then the youngest."""
        spare = len(self._counted()) - self._total()
        if spare <= 0 or self.problem():
            return []
        waiting = [each for each in self._counted() if not _has_ended(each)]
        held_last = sorted(waiting, key=lambda pod: (_is_held(pod), _age(pod)))
        return [_delete(each) for each in held_last[-spare:]]

    # -- the job

    def is_suspended(self) -> bool:
        """Return whether no pod was let go that has not ended."""
        if self._suspended is None:
            self._suspended = all(_is_held(each) or _has_ended(each) for each in self._left)
        return self._suspended

    def suspend(self) -> None:
        """Do nothing: a pod cannot be suspended, it is deleted."""

    def unsuspend(self) -> None:
        """Let all pods go."""
        self._suspended = None
        for pod in self._left:
            _let_go(pod)

    def inject_node_selectors(self, placements: Sequence[Placement]) -> None:
        """Give each held pod its place; PlacementError where it wants something else."""
        by_name = {each.name: each for each in placements}
        for pod in filter(_is_held, self._left):
            _place(pod, by_name.get(_role(pod)))

    def restore_node_selectors(self, pod_sets: Sequence[PodSet]) -> None:
        """Do nothing: a pod that was let go never comes back."""

    def finished(self) -> Finished | None:
        """Return how it ended: all succeeded, or all are done and one says not to replace it."""
        total = self._total()
        succeeded = sum(map(_has_succeeded, self._pods)) + self._gone()
        message = f"{succeeded} of {total} pods succeeded"
        if 0 < total <= succeeded:
            return Finished(success=True, message=message)
        if not all(map(_has_ended, self._pods)):
            return None
        last = any(fields.annotation(p, names.RETRIABLE_IN_GROUP) == "false" for p in self._pods)
        alone = not group_of(self.object)
        return Finished(success=False, message=message) if last or alone else None

    def pod_sets(self) -> list[PodSet]:
        """Return the pods by what they ask for, in the order of the names."""
        first = {role: pod for pod, role in reversed(self._roles)}
        counts = self._here
        return [PodSet(role, counts[role], _template(first[role])) for role in sorted(first)]

    def equivalent_to_workload(self, workload: WorkloadInfo) -> bool:
        """Return whether a workload has room for the pods; some may be gone, or not there yet.

        Once some were let go it stays theirs: whoever comes late and does not fit in waits.
        """
        if not self.is_suspended():
            return True
        stored = {each.name: each for each in workload.pod_sets}
        held = {role: pod for pod, role in self._roles if _is_held(pod)}
        return all(
            role in stored and count <= stored[role].count for role, count in self._here.items()
        ) and all(_asks_for(pod, stored[role]) for role, pod in held.items())

    def priority_class(self) -> str:
        """Return the PriorityClass of the oldest pod, or nothing."""
        return fields.text(self.object, "spec", "priorityClassName")

    def queue_name(self) -> str:
        """Return the name of the LocalQueue, or nothing."""
        return fields.label(self.object, names.QUEUE_NAME)

    def ignore_from_queueing(self) -> bool:
        """Return whether the pods have not asked to be queued."""
        return not self.queue_name()

    def pods_ready(self) -> bool:
        """Return whether all pods are ready and stay, or have succeeded."""
        ready = [pod for pod in self._left if fields.condition(pod, "Ready") is not None]
        done = {_age(pod) for pod in (*ready, *filter(_has_succeeded, self._pods))}
        return 0 < self._total() <= len(done) + self._gone()

    def is_active(self) -> bool:
        """Return whether pods run, those that are being deleted too."""
        return any(not _is_held(each) and not _has_ended(each) for each in self._pods)

    def reclaimable_pods(self) -> Mapping[str, int]:
        """Return the pods that have succeeded, those too that were deleted since."""
        found = Counter(_role(each) for each in self._pods if _has_succeeded(each))
        return found | Counter({name: done for name, done in self._told.items() if done > 0})

    def _gone(self) -> int:
        """Return how many pods have succeeded and are not there any more."""
        there = sum(map(_has_succeeded, self._pods))
        return max(0, sum(self.reclaimable_pods().values()) - there) if self._told else 0

    # -- start and stop

    def is_stopping(self) -> bool:
        """Return False: what is left of a stop shows in the pods."""
        return False

    def start_steps(self, placements: Sequence[Placement]) -> list[Step]:
        """Return how held pods are let go, as many of each pod set as have quota."""
        steps: list[Step] = []
        roles = {id(pod): role for pod, role in self._roles}
        roles |= {id(pod): _role(pod) for pod in self._left if id(pod) not in roles}
        for placement in placements:
            mine = [each for each in self._left if roles[id(each)] == placement.name]
            room = placement.count - sum(map(_runs, mine))
            held = [each for each in mine if _is_held(each)][: max(0, room)]
            for pod in held[: _BATCH - len(steps)]:
                changed = _copy(pod)
                _place(changed, placement)
                _let_go(changed)
                step = guarded(merge_patch(pod, changed), pod)
                steps.append(Step(step.patch, member=fields.text(pod, "metadata", "name")))
        return steps

    def stop_steps(self, _: Sequence[PodSet] | None) -> list[Step]:
        """Return how all pods that have not ended are deleted."""
        return [_delete(each) for each in self._left if not _has_ended(each)]

    @cached_property
    def _roles(self) -> list[tuple[Object, str]]:
        """The pods that make up the group, each with its pod set."""
        return [(pod, _role(pod)) for pod in self._counted()]

    @cached_property
    def _here(self) -> Counter[str]:
        """How many pods there are of each pod set."""
        return Counter(role for _, role in self._roles)

    def _counted(self) -> list[Object]:
        """Return the pods that make up the group; one that failed has to be replaced."""
        return self._those_counted

    @cached_property
    def _those_counted(self) -> list[Object]:
        return [pod for pod in self._left if not _has_ended(pod) or _has_succeeded(pod)]

    def _total(self) -> int:
        """Return how many pods make the group, 0 where its pods do not agree."""
        return self._said_total

    @cached_property
    def _said_total(self) -> int:
        if not group_of(self.object):
            return 1
        said = {fields.annotation(each, names.POD_GROUP_TOTAL_COUNT) for each in self._pods}
        count = next(iter(said)) if len(said) == 1 else ""
        return fields.whole(count)


def _is_ours(pod: Object) -> bool:
    if not _is_held(pod) and fields.label(pod, names.MANAGED) != "true":
        return False
    owners = fields.objects(pod, "metadata", "ownerReferences")
    controllers = (each for each in owners if fields.flag(each, "controller"))
    return not any(
        fields.text(each, "apiVersion").partition("/")[0] in _CONTROLLED for each in controllers
    )


def _is_held(pod: Object) -> bool:
    spec = pod.get("spec")  # by hand, as the phase: a decision asks some ten times of each pod
    gates = spec.get("schedulingGates") if type(spec) is dict else None
    if not gates or type(gates) is not list:
        return False
    return any(type(g) is dict and g.get("name") == names.ADMISSION_GATE for g in gates)


def _is_leaving(pod: Object) -> bool:
    return bool(fields.text(pod, "metadata", "deletionTimestamp"))


def _phase(pod: Object) -> str:
    status = pod.get("status")
    phase = status.get("phase") if type(status) is dict else None
    return phase if type(phase) is str else ""


def _has_ended(pod: Object) -> bool:
    return _phase(pod) in _ENDED


def _has_succeeded(pod: Object) -> bool:
    return _phase(pod) == "Succeeded"


def _runs(pod: Object) -> bool:
    return not _is_held(pod) and not _has_ended(pod)


def _age(pod: Object) -> tuple[str, str]:
    meta = fields.mapping(pod, "metadata")
    created, name = meta.get("creationTimestamp"), meta.get("name")
    return created if type(created) is str else "", name if type(name) is str else ""


def _role(pod: Object) -> str:
    """Return the name of a pod's pod set: equal pods have one, whatever they are given later.

    The annotation counts only where we wrote it, when the pod was let go: any user can write one,
    and a large pod is not to be counted as a small one.
    """
    own = "" if _is_held(pod) else fields.annotation(pod, names.ROLE_HASH)
    return own or _hash(fields.mapping(pod, "spec"))


def _hash(spec: Mapping[str, object]) -> str:
    """Return the hash of what equal pods have in common; that of a known text is looked up."""
    return _hash_of(msgspec.json.encode([spec.get(name) for name in _SHAPE]))


@lru_cache(_KNOWN)
def _hash_of(parts: bytes) -> str:
    found = dict(zip(_SHAPE, msgspec.json.decode(parts), strict=True))
    spec: Mapping[str, object] = {name: each for name, each in found.items() if each is not None}
    shape = {name: spec[name] for name in _SHAPE if spec.get(name)}
    for name in ("initContainers", "containers"):
        containers = fields.objects(spec, name)
        shape[name] = [{n: c[n] for n in _OF_A_CONTAINER if n in c} for c in containers]
    text = json.dumps(shape, sort_keys=True)
    return sha256(text.encode(), usedforsecurity=False).hexdigest()[:8]


def _asks_for(pod: Object, stored: PodSetInfo) -> bool:
    """Return whether a pod set asks for what a pod of it does: another hand may have written it."""
    one, other = fields.mapping(pod, "spec"), fields.mapping(template_of(stored), "spec")
    return _amounts(one) == _amounts(other)


def _amounts(spec: Mapping[str, object]) -> list[object]:
    """Return everything of a pod that says how much it asks for."""
    found: list[object] = [
        (fields.mapping(each, "resources"), each.get("restartPolicy"))
        for name in ("initContainers", "containers")
        for each in fields.objects(spec, name)
    ]
    return [*found, *(fields.mapping(spec, name) for name in ("resources", "overhead"))]


def _copy(pod: Object) -> Object:
    """Return a pod of which everything may be changed that is changed to let it go."""
    copy = dict(pod)
    for part, names_ in _CHANGED.items():
        copy[part] = inner = dict(fields.mapping(pod, part))
        for name in names_:
            found = inner.get(name)
            if isinstance(found, dict):
                inner[name] = dict(found)
    return copy


def _place(pod: Object, placement: Placement | None) -> None:
    if placement is None:
        raise PlacementError(f"pod set {_role(pod)} is given no place")
    role = _role(pod)
    templates.inject(pod, placement)
    fields.ensure(pod, "metadata", "annotations")[names.ROLE_HASH] = role


def _let_go(pod: Object) -> None:
    gates = fields.objects(pod, "spec", "schedulingGates")
    others = [each for each in gates if fields.text(each, "name") != names.ADMISSION_GATE]
    fields.put(fields.ensure(pod, "spec"), "schedulingGates", others)
    fields.ensure(pod, "metadata", "labels")[names.MANAGED] = "true"


def _template(pod: Object) -> Object:
    """Return a pod as a template, without what only this one pod has."""
    spec = deepcopy(dict(fields.mapping(pod, "spec")))
    for name in ("nodeName", "schedulingGates", "hostname"):
        spec.pop(name, None)
    return {"metadata": {"labels": fields.strings(pod, "metadata", "labels")}, "spec": spec}


def _delete(pod: Object) -> Step:
    uid, name = (fields.text(pod, "metadata", each) for each in ("uid", "name"))
    return Step({"preconditions": {"uid": uid}}, member=name, delete=True)
