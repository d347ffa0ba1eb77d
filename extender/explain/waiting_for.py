"""What quota a workload lacks, and who has it."""

from collections.abc import Iterable
from typing import Final

from extender.api.visibility_v1beta2 import Holder, WaitingFor
from extender.explain.view import View, job_of, moment
from extender.queueing.flavors import Lack, Mode, Proposal, Quotas, assign, counts
from extender.queueing.quota import Node
from extender.queueing.readiness import Unready
from extender.resources.quantity import exact
from extender.state.queues.records import ClusterQueueInfo, FlavorResource, WorkloadInfo

HOLDERS: Final = 5
"""How many are named."""

_Held = tuple[int, WorkloadInfo, str]
"""Amount, who has it, and in which ClusterQueue."""
_Named = tuple[list[Holder], int]
"""Those who are named, and how many are not."""


class Lacks:
    """Answers about one view; equal pods are judged once."""

    def __init__(self, view: View) -> None:
        self._view = view
        self.unready = Unready(view.queues, view.options)
        self._proposals: dict[object, Proposal] = {}
        self._named: dict[tuple[FlavorResource, tuple[str, ...]], _Named] = {}

    def proposal(self, workload: WorkloadInfo, queue: ClusterQueueInfo) -> Proposal:
        """Return which flavors there are for a workload now if nobody has to go for it."""
        left = counts(workload)
        equals = (queue.name, *((x.name, left[x.name], x.shape) for x in workload.pod_sets))
        found = self._proposals.get(equals)
        if found is None:
            view = self._view
            quotas = Quotas(
                view.tree,
                view.tree.queue(queue.name),
                view.queues,
                view.options,
                lambda *_: (Mode.NO_CANDIDATES, 0),
            )
            found = assign(workload, left, queue=queue, quotas=quotas)
            self._proposals[equals] = found
        return found

    def waiting_for(self, lacks: Iterable[Lack], cluster_queue: str) -> list[WaitingFor]:
        """Return what is missing, and who has it."""
        missing: dict[FlavorResource, int] = {}
        for lack in lacks:
            if lack.what is not None and lack.missing > 0:
                missing[lack.what] = max(missing.get(lack.what, 0), lack.missing)
        node = self._view.tree.queue(cluster_queue)
        return [self._waiting_for(node, what, amount) for what, amount in missing.items()]

    def _waiting_for(self, node: Node, what: FlavorResource, missing: int) -> WaitingFor:
        flavor, resource = what
        holders, more = self._holders(what, self._within(node, what))
        return WaitingFor(
            flavor=flavor,
            resource=resource,
            missing=exact(resource, missing),
            holders=holders,
            more_holders=more,
        )

    def _within(self, node: Node, what: FlavorResource) -> tuple[str, ...]:
        """Return the queues of which somebody would have to end.

        Where the cohort has more than the queue may use it is its own limit that holds it back.
        """
        if node.parent is None:
            return (node.name,)
        own = max(0, node.kept.get(what, 0) - node.usage.get(what, 0))
        if node.available(what) < own + node.parent.available(what):
            return (node.name,)
        return tuple(self._view.tree.together(node.name))

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
        for holder in self._view.tree.holders.of(cluster_queue).holders.values():
            amount = holder.usage.get(what, 0)
            if amount:
                yield amount, holder.workload, cluster_queue


def _holder(each: _Held, resource: str) -> Holder:
    amount, workload, cluster_queue = each
    reserved = workload.condition("QuotaReserved")
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
