"""Builders for tests of queues: what a test does not say has a plain default.

Workloads and LocalQueues live in the namespace `ns`, a LocalQueue is named after its ClusterQueue,
and a later workload is a younger one. Versions grow with each record made.
"""

from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any

from extender.api.core_v1 import LabelSelector
from extender.api.reasons import Unadmitted
from extender.queueing import cycle
from extender.queueing import lifecycle as to
from extender.queueing.cycle import Admit, NotAdmitted, Outcome
from extender.queueing.pending import PendingQueues
from extender.queueing.quota import QuotaTree
from extender.queueing.rules import AdmissionOptions, AdmissionRules
from extender.resources.quantity import Quantity, amount
from extender.room.nodes import NodeRoom
from extender.state.cluster.records import ConditionInfo, Shape
from extender.state.cluster.store import Cluster
from extender.state.queue import events as ev
from extender.state.queue.events import Record
from extender.state.queue.records import (
    AdmissionInfo,
    Assignment,
    ClusterQueueInfo,
    CohortInfo,
    FlavorInfo,
    FlavorQuotasInfo,
    LocalQueueInfo,
    Meta,
    NamespaceInfo,
    PodSetInfo,
    PreemptionPolicy,
    Quota,
    ResourceGroupInfo,
    Usage,
    WorkloadInfo,
    usage,
)
from extender.state.queue.store import Queues, add
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


def group(**flavors: Quantity | Quota | Mapping[str, Quota]) -> ResourceGroupInfo:
    """Return a group with these flavors: a number, or a quota, is one of CPU."""
    listed = []
    for name, given in flavors.items():
        if isinstance(given, Quota):
            resources: Mapping[str, Quota] = {"cpu": given}
        elif isinstance(given, Mapping):
            resources = given
        else:
            resources = {"cpu": quota(given)}
        listed.append(FlavorQuotasInfo(name.replace("_", "-"), resources))
    return ResourceGroupInfo(tuple(listed[0].resources), tuple(listed))


def cluster_queue(
    name: str = "cq",
    cpu: Quantity | Quota | ResourceGroupInfo | tuple[ResourceGroupInfo, ...] = 4,
    cohort: str | None = None,
    **more: Any,
) -> ClusterQueueInfo:
    """Return a ClusterQueue with so much CPU of the flavor `default`, open to all namespaces."""
    if isinstance(cpu, ResourceGroupInfo):
        groups: tuple[ResourceGroupInfo, ...] = (cpu,)
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


def stated(of: WorkloadInfo, kind: str) -> tuple[str, str, str]:
    """Return status, reason and message of a condition, which is there."""
    found = of.condition(kind)
    assert found is not None
    return found.status, found.reason, found.message


def admission(
    workload: WorkloadInfo, cluster_queue: str = "cq", flavor: str = "default"
) -> AdmissionInfo:
    """Return quota for all of a workload, of one flavor."""
    return AdmissionInfo(
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
    """Queues, the workloads in them, and cycles: the shell of tests, which writes at once."""

    def __init__(
        self,
        *records: Record,
        options: AdmissionOptions | None = None,
        cluster: Cluster | None = None,
    ) -> None:
        self.options = options or AdmissionOptions()
        self.queues = Queues()
        self.view = self.queues.view()
        self.pending = PendingQueues(self.options)
        self.room = NodeRoom(self.view, cluster.view()) if cluster is not None else None
        self.served = True
        """True if an autoscaler can be asked for nodes."""
        self.now = 1_000_000.0
        self.tree = QuotaTree(self.view)
        self.last = cycle.Result()
        self.put(NamespaceInfo(NAMESPACE), flavor())
        self.put(*records)

    @property
    def rules(self) -> AdmissionRules:
        """The rules of its cycles."""
        return AdmissionRules(self.options, self.room, self.view.flavors, lambda: self.served)

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
            self.pending.update(name, self.view, self.now)
        if change.structure:
            for name in self.pending.keys(self.view):
                self.pending.update(name, self.view, self.now)
            for _ in self.pending.requeue_all(self.view, self.now):
                pass
        self.pending.requeue_sharing(change.released, self.view, self.now)
        self.pending.requeue_namespaces(change.namespaces)

    def decide(self) -> tuple[Outcome, ...]:
        """Run a cycle without a pause, and do nothing about it."""
        for _ in self.decide_slowly():
            pass
        return self.last.outcomes

    def decide_slowly(self) -> Iterator[Outcome | None]:
        """Run a cycle that lets the caller change the state between its pieces."""
        self.tree = QuotaTree.current(self.view, self.tree)
        work = cycle.Cycle(
            self.view,
            self.pending,
            tree=self.tree,
            rules=self.rules,
            now=self.now,
        )
        yield from work.pieces()
        self.last = work.result()
        self.pending.requeue_sharing(self.last.freed, self.view, self.now)

    def run(self) -> tuple[Outcome, ...]:
        """Run a cycle, and assume what it admits."""
        outcomes = self.decide()
        for outcome in outcomes:
            if isinstance(outcome, Admit):
                self.apply(ev.Assumed(outcome.workload, outcome.admission))
        return outcomes

    def say(self) -> None:
        """Write to the workloads that the last cycle left why they wait, and what is kept."""
        said = {x.workload: x for x in self.last.outcomes if isinstance(x, NotAdmitted)}
        said |= {key: said[tried] for key, tried in self.pending.followers() if tried in said}
        for key, outcome in said.items():
            waits = self.view.workloads.get(key)
            if waits is None or self.view.admission(key) is not None:
                continue
            after = to.waiting(waits, outcome.reason, outcome.message, now=self.now)
            kept = self.room.kept_for(waits.key) if self.room is not None else None
            if kept is not None or outcome.reason == Unadmitted.WAITING_FOR_ROOM:
                after = to.waiting_for_room(after, kept, now=self.now)
            if after != waits:
                self.apply(ev.Applied(after))

    def admitted(self) -> list[str]:
        """Run a cycle and return the names of those that it admits, in order."""
        return [x.workload.split("/")[1] for x in self.run() if isinstance(x, Admit)]

    def waiting(self, cluster_queue: str = "cq") -> list[str]:
        """Return the names of those that wait, first to be served first."""
        return [name.split("/")[1] for name in self.pending.queue(cluster_queue).in_order()]


def validate_queues(queues: Queues) -> None:
    """Recount usage and reservations; AssertionError says what is wrong."""
    tables, view = queues._tables, queues.view()
    counted: dict[str, Usage] = {}
    for key in {*tables.workloads, *tables.assumed}:
        held = view.admission(key)
        if held is not None:
            taken = usage(held, tables.workloads[key])
            add(counted.setdefault(held.cluster_queue, {}), taken)
            assert key in tables.reserving[held.cluster_queue], f"{key} is not reserving"
    used = {name: amounts for name, amounts in tables.usage.items() if amounts}
    assert used == {n: a for n, a in counted.items() if a}, f"{used} != {counted}"
    reserving = {key for keys in tables.reserving.values() for key in keys}
    assert all(view.admission(key) for key in reserving), "a stale reservation"
