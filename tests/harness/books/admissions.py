"""Whether pods carry what their admission gave them, and ask for no more than it.

Three rules, apart from the reconciler's own sums. A pod that a scheduler binds, and that is a part
of an admitted workload, carries the workload's annotation, the label of its pod set, the node
labels and tolerations of a flavor that it was given, and the PodGroup of its pod set's other pods.
A pod from before the admission, which names no workload, is gone when the first pod of the
admission is bound: a job that was created running is stopped, and starts when its pods are gone.
The live pods of a workload, those that are neither ended nor being deleted, never ask for more than
its admission has.

Pods, Jobs, workloads and flavors come in watches of their own. So facts are noted with their
resourceVersions, and judged when they are asked for.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from tests.harness.books.amounts import SLOTS, Amounts, Toleration, described, nanos
from tests.harness.objects import POD_GROUP_LABEL

WORKLOAD: Final = "kueue.x-k8s.io/workload"
POD_SET: Final = "kueue.x-k8s.io/podset"
_FOREVER: Final = 2**63


class Owner(msgspec.Struct, frozen=True, gc=False):
    """The owner of an object."""

    uid: str
    kind: str = ""
    controller: bool = False


class OwnedMeta(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The metadata of a Job or a workload."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = "0"
    owner_references: list[Owner] = []


class Job(msgspec.Struct, frozen=True, gc=False):
    """A Job, for its owner."""

    metadata: OwnedMeta


class _FlavorSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    node_labels: dict[str, str] = {}
    tolerations: list[Toleration] = []


class Flavor(msgspec.Struct, frozen=True, gc=False):
    """A ResourceFlavor."""

    metadata: OwnedMeta
    spec: _FlavorSpec = _FlavorSpec()


class _Assignment(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    name: str
    flavors: dict[str, str] = {}
    resource_usage: dict[str, str] = {}


class _Admission(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    pod_set_assignments: list[_Assignment] = []


class _WorkloadStatus(msgspec.Struct, frozen=True, gc=False):
    admission: _Admission | None = None


class Workload(msgspec.Struct, frozen=True, gc=False):
    """A Workload."""

    metadata: OwnedMeta
    status: _WorkloadStatus = _WorkloadStatus()


@dataclass(slots=True)
class PodLife:
    """A pod from its Binding to its end."""

    name: str
    namespace: str
    bound: int
    """The resourceVersion in which it had a node."""
    uses: Amounts
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    owners: Sequence[str]
    """UIDs of controllers."""
    selector: Mapping[str, str]
    tolerations: Sequence[Toleration]
    end: int = _FOREVER
    """The resourceVersion from which it ended or was being deleted."""


@dataclass(slots=True)
class _Held:
    """A workload, and what it was given from which resourceVersion on."""

    metadata: OwnedMeta
    given: list[tuple[int, _Admission | None]] = field(default_factory=list)

    def at(self, version: int) -> _Admission | None:
        """Return the admission in force at a version."""
        found = None
        for since, admission in self.given:
            if since <= version:
                found = admission
        return found


class Admissions:
    """The facts about admitted workloads and their pods."""

    def __init__(self) -> None:
        self._flavors: defaultdict[str, list[Flavor]] = defaultdict(list)
        self._makers: dict[str, Sequence[str]] = {}
        """Owners of Jobs, by UID of the Job."""
        self._held: dict[str, _Held] = {}
        self._pods: dict[str, PodLife] = {}
        self.versions: dict[str, int] = {}
        """By UID of a workload: the version that is known."""

    def flavor(self, found: Flavor) -> None:
        """Note a flavor; a pod may carry what an earlier version of it asked for."""
        self._flavors[found.metadata.name].append(found)

    def job(self, found: Job) -> None:
        """Note a Job. A user may name a Job as its owner, but no Job makes Jobs."""
        owners = [each for each in found.metadata.owner_references if each.kind != "Job"]
        self._makers[found.metadata.uid] = controllers(owners)

    def workload(self, found: Workload, *, deleted: bool = False) -> None:
        """Note a workload."""
        uid, version = found.metadata.uid, int(found.metadata.resource_version)
        held = self._held.setdefault(uid, _Held(found.metadata))
        held.metadata = found.metadata
        now = None if deleted else found.status.admission
        if not held.given or held.given[-1][1] != now:
            held.given.append((version, now))
        self.versions[uid] = version
        if deleted:
            del self.versions[uid]

    def bound(self, uid: str, pod: PodLife) -> None:
        """Note a pod that a scheduler has bound."""
        self._pods.setdefault(uid, pod)

    def ended(self, uid: str, version: int) -> None:
        """Note the end of a pod, or the beginning of its deletion."""
        pod = self._pods.get(uid)
        if pod is not None:
            pod.end = min(pod.end, version)

    def ask(self) -> list[str]:
        """Return what is wrong, and forget the pods that have ended."""
        found = [*self._judge()]
        self._pods = {uid: pod for uid, pod in self._pods.items() if pod.end == _FOREVER}
        return found

    def _judge(self) -> Iterator[str]:
        groups: defaultdict[str, list[PodLife]] = defaultdict(list)
        for pod in self._pods.values():
            uid = self._workload_of(pod)
            if uid is not None:
                groups[uid].append(pod)
        for uid, pods in groups.items():
            held = self._held[uid]
            yield from self._unlike(held, pods)
            yield from _beyond(held, pods)

    def _workload_of(self, pod: PodLife) -> str | None:
        """Return the workload that a pod names, or that of a controller above it."""
        named = pod.annotations.get(WORKLOAD)
        above = {*pod.owners, *(uid for owner in pod.owners for uid in self._makers.get(owner, ()))}
        for uid, held in self._held.items():
            meta = held.metadata
            if meta.namespace == pod.namespace and (
                meta.name == named or any(each.uid in above for each in meta.owner_references)
            ):
                return uid
        return None

    def _unlike(self, held: _Held, pods: Sequence[PodLife]) -> Iterator[str]:
        """Yield the pods that ran under an admission without what it gives."""
        named: defaultdict[tuple[int, str], set[str]] = defaultdict(set)
        for pod in pods:
            until = [since for since, _ in held.given[1:]] + [_FOREVER]
            for (since, admission), end in zip(held.given, until, strict=True):
                if admission is None or pod.bound >= end or pod.end <= since:
                    continue
                first = _first(held.metadata.name, pods, since, end)
                if WORKLOAD not in pod.annotations and first >= pod.end:
                    continue
                what = self._lacks(held, admission, pod)
                if what:
                    yield f"{pod.name} of workload {held.metadata.name} {what}"
                elif pod.bound >= since:
                    group = pod.labels.get(POD_GROUP_LABEL, "")
                    named[since, pod.labels[POD_SET]].add(group)
        for (_, pod_set), found in named.items():
            if len(found) > 1:
                yield f"pods of {pod_set} of {held.metadata.name} have PodGroups {sorted(found)}"

    def _lacks(self, held: _Held, admission: _Admission, pod: PodLife) -> str:
        if pod.annotations.get(WORKLOAD) != held.metadata.name:
            return f"has the annotation {pod.annotations.get(WORKLOAD)!r}"
        mine = [e for e in admission.pod_set_assignments if e.name == pod.labels.get(POD_SET)]
        if not mine:
            return f"is of pod set {pod.labels.get(POD_SET)!r}"
        for name in set(mine[0].flavors.values()):
            versions = self._flavors[name]
            if versions and not any(_carries(pod, each) for each in versions):
                return f"has not what flavor {name} asks for: {dict(pod.selector)}"
        return ""


def _first(workload: str, pods: Sequence[PodLife], since: int, end: int) -> int:
    """Return the version in which the first pod of an admission was bound; 0 if none was."""
    named = [each for each in pods if each.annotations.get(WORKLOAD) == workload]
    return min((each.bound for each in named if since <= each.bound < end), default=0)


def _carries(pod: PodLife, flavor: Flavor) -> bool:
    return flavor.spec.node_labels.items() <= pod.selector.items() and all(
        each in pod.tolerations for each in flavor.spec.tolerations
    )


def _beyond(held: _Held, pods: Sequence[PodLife]) -> Iterator[str]:
    """Yield each Binding with which a workload asked for more than it had."""
    for pod in pods:
        admission = held.at(pod.bound)
        if admission is None:
            continue
        limit: dict[str, int] = defaultdict(int)
        for each in admission.pod_set_assignments:
            for name, text in each.resource_usage.items():
                scale = 10**6 if name == "cpu" else 10**9
                limit[name] += -(-nanos(text) // scale)
        live = [each for each in pods if each.bound <= pod.bound < each.end]
        used = {n: sum(each.uses.get(n, 0) for each in live) for n in limit if n != SLOTS}
        over = {name: amount for name, amount in used.items() if amount > limit[name]}
        if over:
            what, has = ", ".join(described(over)), ", ".join(described(dict(limit)))
            yield f"workload {held.metadata.name} uses {what} with {pod.name}, and was given {has}"


def controllers(owners: Sequence[Owner]) -> list[str]:
    """Return the UIDs of the owners that control an object."""
    return [each.uid for each in owners if each.controller]
