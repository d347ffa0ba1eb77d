"""What quota a workload lacks, and which workloads hold it."""

from collections.abc import Iterable
from typing import Final

from extender.api.visibility_v1beta2 import Holder, WaitingFor
from extender.api.wellknown import WorkloadCondition
from extender.explain.facts import Facts, job_of, moment
from extender.queueing.flavors import FlavorLack, Mode, Proposal, Quotas, assigning, counts
from extender.queueing.quota import QuotaNode
from extender.queueing.readiness import Unready
from extender.resources.quantity import exact
from extender.state.queue.records import ClusterQueueInfo, FlavorResource, WorkloadInfo
from extender.steps import at_once

HOLDERS: Final = 5
"""How many are named."""

_Held = tuple[int, WorkloadInfo, str]
"""The amount, the workload that holds it, and its ClusterQueue."""
_Named = tuple[list[Holder], int]
"""The holders that are named, and how many are not."""


class Lacks:
    """Answers from the same facts; equal pods are judged once."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self.unready = Unready(facts.queues, facts.rules.options)
        self._proposals: dict[object, Proposal] = {}
        self._named: dict[tuple[FlavorResource, tuple[str, ...]], _Named] = {}

    def proposal(self, workload: WorkloadInfo, queue: ClusterQueueInfo) -> Proposal:
        """Return which flavors there are for a workload now without preemption."""
        left = counts(workload)
        equals = (queue.name, *((x.name, left[x.name], x.shape) for x in workload.pod_sets))
        found = self._proposals.get(equals)
        if found is None:
            facts = self._facts
            none = Mode.NO_CANDIDATES, 0
            node, options = facts.tree.queue(queue.name), facts.rules.options
            quotas = Quotas(facts.tree, node, facts.queues, options, lambda *_: none)
            found = at_once(assigning(workload, left, queue=queue, quotas=quotas))
            self._proposals[equals] = found
        return found

    def waiting_for(self, lacks: Iterable[FlavorLack], cluster_queue: str) -> list[WaitingFor]:
        """Return what is missing, and which workloads hold it."""
        missing: dict[FlavorResource, int] = {}
        for lack in lacks:
            if lack.what is not None and lack.missing > 0:
                missing[lack.what] = max(missing.get(lack.what, 0), lack.missing)
        node = self._facts.tree.queue(cluster_queue)
        return [self._waiting_for(node, what, amount) for what, amount in missing.items()]

    def _waiting_for(self, node: QuotaNode, what: FlavorResource, missing: int) -> WaitingFor:
        flavor, resource = what
        holders, more = self._holders(what, self._within(node, what))
        return WaitingFor(
            flavor=flavor,
            resource=resource,
            missing=exact(resource, missing),
            holders=holders,
            more_holders=more,
        )

    def _within(self, node: QuotaNode, what: FlavorResource) -> tuple[str, ...]:
        """Return the queues in which a workload would have to end.

        Where the cohort has more than the queue may use, only the queue's own limit is in the way.
        """
        if node.parent is None:
            return (node.name,)
        own = max(0, node.kept.get(what, 0) - node.usage.get(what, 0))
        if node.available(what) < own + node.parent.available(what):
            return (node.name,)
        return tuple(self._facts.tree.sharing_with(node.name))

    def _holders(self, what: FlavorResource, names: tuple[str, ...]) -> _Named:
        found = self._named.get((what, names))
        if found is None:
            held = sorted(
                (each for name in names for each in self._of(name, what)),
                key=lambda each: (-each[0], each[1].priority, each[1].key),
            )
            first = [_holder(each, what[1]) for each in held[:HOLDERS]]
            found = self._named[what, names] = first, max(0, len(held) - HOLDERS)
        return found

    def _of(self, cluster_queue: str, what: FlavorResource) -> Iterable[_Held]:
        for holder in self._facts.tree.holders.of(cluster_queue).holders.values():
            amount = holder.usage.get(what, 0)
            if amount:
                yield amount, holder.workload, cluster_queue


def _holder(each: _Held, resource: str) -> Holder:
    amount, workload, cluster_queue = each
    reserved = workload.condition(WorkloadCondition.QUOTA_RESERVED)
    known = reserved is not None and reserved.status == "True"
    return Holder(
        namespace=workload.meta.namespace,
        name=workload.meta.name,
        job=job_of(workload),
        cluster_queue=cluster_queue,
        amount=exact(resource, amount),
        priority=workload.priority,
        since=moment(reserved.transition) if reserved is not None and known else None,
        leaving=workload.evicted,
    )
