"""Builders for tests of queues: what a test does not say has a plain default.

Workloads and LocalQueues live in the namespace `ns`, a LocalQueue is named after its ClusterQueue,
and a later workload is a younger one. Versions grow with each record made.
"""

from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any

from extender.api.core_v1 import LabelSelector
from extender.queueing import cycle
from extender.queueing.cycle import Admit, Outcome
from extender.queueing.options import Options
from extender.queueing.pending import PendingQueues
from extender.queueing.quota import QuotaTree
from extender.resources.quantity import Quantity, amount
from extender.room.nodes import NodeRoom
from extender.state.cluster import Cluster
from extender.state.pod_groups import ConditionInfo
from extender.state.pods import Shape
from extender.state.queues import events as ev
from extender.state.queues.events import Record
from extender.state.queues.records import (
    Admission,
    Assignment,
    ClusterQueueInfo,
    CohortInfo,
    FlavorInfo,
    FlavorQuotas,
    LocalQueueInfo,
    Meta,
    NamespaceInfo,
    PodSetInfo,
    PreemptionPolicy,
    Quota,
    ResourceGroup,
    WorkloadInfo,
)
from extender.state.queues.store import Queues
from tests.makers import NAMESPACE, shape

EVERYTHING = LabelSelector()
_versions = count(1)


def meta(name: str, namespace: str = "", **more: Any) -> Meta:
    """Return metadata that is newer than any before; the UID is the name."""
    version = next(_versions)
    return Meta(
        **{
            "name": name,
            "namespace": namespace,
            "uid": name,
            "version": version,
            "generation": version,
            "created": float(version),
            **more,
        }
    )


def flavor(name: str = "default", **more: Any) -> FlavorInfo:
    """Return a ResourceFlavor."""
    return FlavorInfo(meta(name), **more)


def quota(
    nominal: Quantity,
    borrow: Quantity | None = None,
    lend: Quantity | None = None,
    *,
    resource: str = "cpu",
) -> Quota:
    """Return a quota: nominal, borrowing limit, lending limit."""
    limits = [None if x is None else amount(resource, x) for x in (borrow, lend)]
    return Quota(amount(resource, nominal), *limits)


def group(**flavors: Quantity | Quota | Mapping[str, Quota]) -> ResourceGroup:
    """Return a group with these flavors: a number, or a quota, is one of CPU."""
    listed = []
    for name, given in flavors.items():
        if isinstance(given, Quota):
            resources: Mapping[str, Quota] = {"cpu": given}
        elif isinstance(given, Mapping):
            resources = given
        else:
            resources = {"cpu": quota(given)}
        listed.append(FlavorQuotas(name.replace("_", "-"), resources))
    return ResourceGroup(tuple(listed[0].resources), tuple(listed))


def cluster_queue(
    name: str = "cq",
    cpu: Quantity | Quota | ResourceGroup | tuple[ResourceGroup, ...] = 4,
    cohort: str | None = None,
    **more: Any,
) -> ClusterQueueInfo:
    """Return a ClusterQueue with so much CPU of the flavor `default`, open to all namespaces."""
    if isinstance(cpu, ResourceGroup):
        groups: tuple[ResourceGroup, ...] = (cpu,)
    else:
        groups = cpu if isinstance(cpu, tuple) else (group(default=cpu),)
    preemption = more.pop("preemption", {})
    if isinstance(preemption, dict):
        preemption = PreemptionPolicy(**preemption)
    fields = {"namespace_selector": EVERYTHING, "preemption": preemption, **more}
    fields.setdefault("meta", meta(name))
    return ClusterQueueInfo(resource_groups=groups, cohort=cohort, **fields)


def cohort(name: str, parent: str | None = None, cpu: Quantity | Quota | None = None) -> CohortInfo:
    """Return a Cohort, with quota of its own if so much is said."""
    groups = () if cpu is None else (group(default=cpu),)
    return CohortInfo(meta(name), parent, groups)


def local_queue(name: str = "cq", target: str | None = None, **more: Any) -> LocalQueueInfo:
    """Return a LocalQueue of the ClusterQueue with its name, or of another one."""
    fields = {"meta": meta(name, NAMESPACE), "cluster_queue": target or name, **more}
    return LocalQueueInfo(**fields)


def pod_set(
    cpu: Quantity | Shape = 1, count: int = 1, *, name: str = "main", least: int | None = None
) -> PodSetInfo:
    """Return equal pods."""
    return PodSetInfo(name, count, cpu if isinstance(cpu, Shape) else shape(cpu), least)


def workload(
    name: str,
    cpu: Quantity | Shape | PodSetInfo | tuple[PodSetInfo, ...] = 1,
    queue: str = "cq",
    priority: int = 0,
    **more: Any,
) -> WorkloadInfo:
    """Return a workload of one pod, or of pod sets, that waits."""
    if isinstance(cpu, PodSetInfo):
        sets: tuple[PodSetInfo, ...] = (cpu,)
    else:
        sets = cpu if isinstance(cpu, tuple) else (pod_set(cpu),)
    fields: dict[str, Any] = {"queue_name": queue, "priority": priority, **more}
    created = fields.pop("created", None)
    said = {} if created is None else {"created": float(created)}
    fields.setdefault("meta", meta(name, NAMESPACE, **said))
    return WorkloadInfo(pod_sets=sets, **fields)


def condition(kind: str, reason: str = "", *, true: bool = True, at: float = 0.0) -> ConditionInfo:
    """Return a condition."""
    return ConditionInfo(kind, "True" if true else "False", reason or kind, "", at)


def admission(
    workload: WorkloadInfo, cluster_queue: str = "cq", flavor: str = "default"
) -> Admission:
    """Return quota for all of a workload, of one flavor."""
    return Admission(
        cluster_queue,
        tuple(
            Assignment(
                x.name,
                {name: flavor for name in x.shape.requests if name != "pods"},
                {n: a * x.count for n, a in x.shape.requests.items() if n != "pods"},
                x.count,
            )
            for x in workload.pod_sets
        ),
    )


class Admissions:
    """Queues, who waits in them, and cycles: the shell of tests, which writes at once."""

    def __init__(
        self, *records: Record, options: Options | None = None, cluster: Cluster | None = None
    ) -> None:
        self.options = options or Options()
        self.queues = Queues()
        self.snapshot = self.queues.snapshot()
        self.pending = PendingQueues(self.options)
        self.room = NodeRoom(self.snapshot, cluster.snapshot()) if cluster is not None else None
        self.now = 1_000_000.0
        self.tree = QuotaTree(self.snapshot)
        self.last = cycle.Result()
        self.put(NamespaceInfo(NAMESPACE), flavor())
        self.put(*records)

    def put(self, *records: Record) -> None:
        """Take records in, and do what a shell does about them."""
        for record in records:
            self.apply(ev.Applied(record))

    def drop(self, *records: Record) -> None:
        """Have objects deleted."""
        for record in records:
            self.apply(ev.Deleted(record))

    def apply(self, event: ev.Event) -> None:
        """Take an event in."""
        change = self.queues.apply(event)
        for name in sorted(change.workloads):
            self.pending.update(name, self.snapshot, self.now)
        if change.structure:
            for name in self.pending.keys(self.snapshot):
                self.pending.update(name, self.snapshot, self.now)
            for _ in self.pending.release_all(self.snapshot, self.now):
                pass
        self.pending.release(change.released, self.snapshot, self.now)
        self.pending.release_namespaces(change.namespaces)

    def decide(self) -> tuple[Outcome, ...]:
        """Run a cycle without a pause, and do nothing about it."""
        for _ in self.decide_slowly():
            pass
        return self.last.outcomes

    def decide_slowly(self) -> Iterator[Outcome | None]:
        """Run a cycle that lets the caller change the state between its pieces."""
        self.tree = QuotaTree.of(self.snapshot, self.tree)
        work = cycle.Cycle(
            self.snapshot,
            self.pending,
            tree=self.tree,
            options=self.options,
            now=self.now,
            room=self.room,
        )
        yield from work.pieces()
        self.last = work.result()
        self.pending.release(self.last.freed, self.snapshot, self.now)

    def run(self) -> tuple[Outcome, ...]:
        """Run a cycle, and assume what it admits."""
        outcomes = self.decide()
        for outcome in outcomes:
            if isinstance(outcome, Admit):
                self.apply(ev.Assumed(outcome.workload, outcome.admission))
        return outcomes

    def admitted(self) -> list[str]:
        """Run a cycle and return the names of those that it admits, in order."""
        return [x.workload.split("/")[1] for x in self.run() if isinstance(x, Admit)]

    def waiting(self, cluster_queue: str = "cq") -> list[str]:
        """Return the names of those that wait, first to be served first."""
        return [name.split("/")[1] for name in self.pending.positions(cluster_queue)]
