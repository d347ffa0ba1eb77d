"""Plain pods as a job: one alone, or those of a group.

A pod cannot be suspended. It is held by a scheduling gate until it is admitted, and is stopped by
deleting it; whoever made it may make it again. What is written on a pod when it is let go tells
that it is ours (`managed`), and of which pod set it is.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import ClassVar, Final

from extender.api.wellknown import POD_GROUP_LABEL
from extender.jobs import fields, names, templates
from extender.jobs.equivalence import template_of
from extender.jobs.fields import Object
from extender.jobs.generic_job import Finished, PodSet, Step
from extender.jobs.patch import merge_patch
from extender.jobs.pod import Pod, pod_of
from extender.jobs.steps import guarded
from extender.jobs.templates import Placement, PlacementError
from extender.jobs.workload import workload_name
from extender.state.queues.records import PodSetInfo, WorkloadInfo

_MARKS: Final = (names.ADMISSION_GATE.encode(), names.MANAGED.encode())
_BATCH: Final = 100
"""Pods that are let go in one look at their group; the next look goes on."""
_CHANGED: Final = {"metadata": ("labels", "annotations"), "spec": ("nodeSelector",)}


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

    def __init__(self, pods: Sequence[Pod]) -> None:
        self._done: Mapping[str, int] = {}
        self._take(pods)

    def _take(self, pods: Sequence[Pod]) -> None:
        """Take the pods as they are; what is asked several times is worked out here."""
        self._pods = sorted((each for each in pods if each.is_ours), key=_age)
        self._left = [each for each in self._pods if not each.is_leaving]
        self._counted = [each for each in self._left if each.counts]
        self._here = Counter(each.role for each in self._counted)
        self._first = next(iter(self._left or self._pods or pods))
        self._object = self._first.object
        self._total = self._said_total()

    def remember(self, done: Mapping[str, int]) -> None:
        """Take how many pods of each pod set are known to have succeeded, those too that are gone.

        Whoever made them may delete them as soon as they have ended.
        """
        self._done = done

    @property
    def object(self) -> Object:
        """The oldest pod, one that is not being deleted before those that are."""
        return self._object

    def skip(self) -> bool:
        """Return whether none of the pods is held for us, or was let go by us."""
        return not self._pods

    # -- one workload for all

    def owners(self) -> list[Object]:
        """Return an owner reference for each pod."""
        what: Object = {"apiVersion": self.version, "kind": self.kind}
        return [{**what, "name": each.name, "uid": each.uid} for each in self._pods]

    def succeeded(self) -> Sequence[tuple[str, str]]:
        """Return UID and pod set of the pods that have succeeded and are there."""
        return [(each.uid, each.role) for each in self._pods if each.has_succeeded]

    def lasting(self) -> Collection[str]:
        """Return the UIDs of the pods that have not ended and are not being deleted."""
        return {each.uid for each in self._left if not each.has_ended}

    def workload_name(self) -> str:
        """Return the group's name, or the name that a pod alone gives."""
        return group_of(self.object) or workload_name(self.object)

    def problem(self) -> str:
        """Return why no group can be made of the pods, whoever may come, or nothing."""
        if group_of(self.object) and self._total < 1:
            return f"annotation {names.POD_GROUP_TOTAL_COUNT} is no number above zero on all pods"
        if len({each.queue for each in self._left}) > 1:
            return "its pods do not name one queue"
        return ""

    def incomplete(self) -> str:
        """Return how many pods are missing, or nothing."""
        there = len(self._counted) + self._gone()
        return f"{there} of {self._total} pods are there" if there < self._total else ""

    def tidy_steps(self) -> list[Step]:
        """Return the deletion of pods that are too many: held ones first, then the youngest."""
        spare = len(self._counted) - self._total
        if spare <= 0 or self.problem():
            return []
        waiting = [each for each in self._counted if not each.has_ended]
        held_last = sorted(waiting, key=lambda pod: (pod.is_held, pod.age))
        return [_delete(each) for each in held_last[-spare:]]

    # -- the job

    def is_suspended(self) -> bool:
        """Return whether no pod was let go that has not ended."""
        return not any(each.runs for each in self._left)

    def suspend(self) -> None:
        """Do nothing: a pod cannot be suspended, it is deleted."""

    def unsuspend(self) -> None:
        """Let all pods go."""
        changed = {each.uid: each.object for each in self._left}
        for pod in changed.values():
            _let_go(pod)
        self._change(changed)

    def inject_node_selectors(self, placements: Sequence[Placement]) -> None:
        """Give each held pod its place; PlacementError where it wants something else."""
        by_name = {each.name: each for each in placements}
        changed: dict[str, Object] = {}
        for pod in self._left:
            if pod.is_held:
                changed[pod.uid] = pod.object
                _place(changed[pod.uid], pod.role, by_name.get(pod.role))
        self._change(changed)

    def restore_node_selectors(self, pod_sets: Sequence[PodSet]) -> None:
        """Do nothing: a pod that was let go never comes back."""

    def finished(self) -> Finished | None:
        """Return how it ended: all succeeded, or all are done and one says not to replace it."""
        total = self._total
        succeeded = sum(each.has_succeeded for each in self._pods) + self._gone()
        message = f"{succeeded} of {total} pods succeeded"
        if 0 < total <= succeeded:
            return Finished(success=True, message=message)
        if not all(each.has_ended for each in self._pods):
            return None
        last = any(each.is_last for each in self._pods)
        alone = not group_of(self.object)
        return Finished(success=False, message=message) if last or alone else None

    def pod_sets(self) -> list[PodSet]:
        """Return the pods by what they ask for, in the order of the names."""
        first = {pod.role: pod for pod in reversed(self._counted)}
        counts = self._here
        return [PodSet(role, counts[role], _template(first[role])) for role in sorted(first)]

    def equivalent_to_workload(self, workload: WorkloadInfo) -> bool:
        """Return whether a workload has room for the pods; some may be gone, or not there yet.

        Once some were let go it stays theirs: whoever comes late and does not fit in waits.
        """
        if not self.is_suspended():
            return True
        stored = {each.name: each for each in workload.pod_sets}
        held = {pod.role: pod for pod in self._counted if pod.is_held}
        return all(
            role in stored and count <= stored[role].count for role, count in self._here.items()
        ) and all(_asks_for(pod.object, stored[role]) for role, pod in held.items())

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
        done = sum(p.has_succeeded or (p.is_ready and not p.is_leaving) for p in self._pods)
        return 0 < self._total <= done + self._gone()

    def is_active(self) -> bool:
        """Return whether pods run, those that are being deleted too."""
        return any(each.runs for each in self._pods)

    def reclaimable_pods(self) -> Mapping[str, int]:
        """Return the pods that have succeeded, those too that were deleted since."""
        found = Counter(each.role for each in self._pods if each.has_succeeded)
        return found | Counter({name: done for name, done in self._done.items() if done > 0})

    def _gone(self) -> int:
        """Return how many pods have succeeded and are not there any more."""
        there = sum(each.has_succeeded for each in self._pods)
        return max(0, sum(self.reclaimable_pods().values()) - there) if self._done else 0

    # -- start and stop

    def is_stopping(self) -> bool:
        """Return False: what is left of a stop shows in the pods."""
        return False

    def start_steps(self, placements: Sequence[Placement]) -> list[Step]:
        """Return how held pods are let go, as many of each pod set as have quota."""
        steps: list[Step] = []
        for placement in placements:
            mine = [each for each in self._left if each.role == placement.name]
            room = placement.count - sum(each.runs for each in mine)
            held = [each for each in mine if each.is_held][: max(0, room)]
            for pod in held[: _BATCH - len(steps)]:
                before = pod.object
                changed = _copy(before)
                _place(changed, pod.role, placement)
                _let_go(changed)
                step = guarded(merge_patch(before, changed), before)
                steps.append(Step(step.patch, member=pod.name))
        return steps

    def stop_steps(self, _: Sequence[PodSet] | None) -> list[Step]:
        """Return how all pods that have not ended are deleted."""
        return [_delete(each) for each in self._left if not each.has_ended]

    def _change(self, changed: Mapping[str, Object]) -> None:
        """Take other objects, by UID, in place of those of some pods."""
        pods = (*self._pods, *(() if self._pods else (self._first,)))
        self._take([pod_of(changed[p.uid]) if p.uid in changed else p for p in pods])

    def _said_total(self) -> int:
        """Return how many pods make the group, 0 where its pods do not agree."""
        if not group_of(self.object):
            return 1
        said = {each.total for each in self._pods}
        count = next(iter(said)) if len(said) == 1 else ""
        return fields.whole(count)


def _age(pod: Pod) -> tuple[str, str]:
    return pod.age


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


def _place(pod: Object, role: str, placement: Placement | None) -> None:
    if placement is None:
        raise PlacementError(f"pod set {role} is given no place")
    templates.inject(pod, placement)
    fields.ensure(pod, "metadata", "annotations")[names.ROLE_HASH] = role


def _let_go(pod: Object) -> None:
    gates = fields.objects(pod, "spec", "schedulingGates")
    others = [each for each in gates if fields.text(each, "name") != names.ADMISSION_GATE]
    fields.put(fields.ensure(pod, "spec"), "schedulingGates", others)
    fields.ensure(pod, "metadata", "labels")[names.MANAGED] = "true"


def _template(pod: Pod) -> Object:
    """Return a pod as a template, without what only this one pod has."""
    found = pod.copy()
    spec = dict(fields.mapping(found, "spec"))
    for name in ("nodeName", "schedulingGates", "hostname"):
        spec.pop(name, None)
    return {"metadata": {"labels": fields.strings(found, "metadata", "labels")}, "spec": spec}


def _delete(pod: Pod) -> Step:
    return Step({"preconditions": {"uid": pod.uid}}, member=pod.name, delete=True)
