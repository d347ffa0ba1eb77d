"""What a ClusterQueue has of what a workload asks for, by flavor."""

from collections.abc import Iterator
from itertools import product

from extender.api.visibility_v1beta2 import FlavorQuota
from extender.explain.facts import Facts
from extender.queueing.flavors import counts, unfit
from extender.resources.quantity import Resources, add, exact
from extender.state.queue.records import (
    AdmissionInfo,
    ClusterQueueInfo,
    FlavorResource,
    WorkloadInfo,
)
from extender.state.queue.usage import usage


def rows(
    workload: WorkloadInfo, queue: ClusterQueueInfo, held: AdmissionInfo | None, *, facts: Facts
) -> Iterator[FlavorQuota]:
    """Yield what there is of each flavor that it has, or that its queue could give it."""
    if held is not None:
        for what, amount in usage(held, workload).items():
            yield _row(queue, what, amount, facts=facts, has=True)
        return
    asked = _asked(workload)
    for number, group in enumerate(queue.resource_groups):
        wanted = [name for name in group.covered if asked.get(name)]
        for index, name in product(range(len(group.flavors)), wanted):
            why = _unfit(workload, queue, (number, index), facts=facts)
            what = (group.flavors[index].flavor, name)
            yield _row(queue, what, asked[name], unfit=why, facts=facts)


def _asked(workload: WorkloadInfo) -> Resources:
    left, asked = counts(workload), Resources()
    for each in workload.pod_sets:
        add(asked, {name: amount * left[each.name] for name, amount in each.shape.asked.items()})
    return asked


def _unfit(
    workload: WorkloadInfo, queue: ClusterQueueInfo, where: tuple[int, int], *, facts: Facts
) -> str | None:
    number, index = where
    found = (
        unfit(each, queue, number, tree=facts.tree, view=facts.queues)[index]
        for each in workload.pod_sets
    )
    return next((why for why in found if why is not None), None)


def _row(
    queue: ClusterQueueInfo,
    what: FlavorResource,
    asked: int,
    *,
    facts: Facts,
    unfit: str | None = None,
    has: bool = False,
) -> FlavorQuota:
    flavor, resource = what
    node = facts.tree.queue(queue.name)
    quota, available = node.quota(what), max(0, node.available(what))
    limit = quota.borrowing_limit
    return FlavorQuota(
        flavor=flavor,
        resource=resource,
        asked=exact(resource, asked),
        nominal=exact(resource, quota.nominal),
        borrowing_limit=None if limit is None else exact(resource, limit),
        used=exact(resource, node.usage.get(what, 0)),
        available=exact(resource, available),
        missing=exact(resource, 0 if has else max(0, asked - available)),
        unfit=unfit,
    )
