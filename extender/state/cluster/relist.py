"""A list of all objects of one kind, as events that are taken in a few at a time.

The rule: a list is complete before any of it counts. Then what it lacks is deleted, and after that
its objects are applied, both a slice at a time with other events between two slices. In this order
nothing is counted twice: a pod and the one made in its place are never both there.

What may come between slices: requests of kube-scheduler and steps of our own, and facts of other
kinds. Facts of the same kind may not: one task reads the list and then the watch that begins where
the list ended. What is lacking is therefore looked up slice by slice, as the tables are then. A pod
that only a request has shown is lacking if it was shown before the list was asked for: then it has
gone, or has ended. One that was shown later may be newer than the list.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, TypeVar

from extender.state.cluster import events as ev
from extender.state.cluster.events import Event, Listed
from extender.state.cluster.view import ClusterTables

AT_ONCE: Final = 64
"""Objects that are taken in before others may have their turn."""

T = TypeVar("T")


def slices(listed: Listed, tables: ClusterTables) -> Iterator[Sequence[Event]]:
    """Yield the events that make the tables say what a list says, `AT_ONCE` at a time."""
    match listed:
        case ev.PodsListed(pods):
            uids = {pod.uid for pod in pods}

            def is_newer(uid: str) -> bool:
                return tables.seen.get(uid) is False

            known = [*tables.pods, *tables.ended]
            yield from _some(known, lambda uid: uid in uids or is_newer(uid), ev.PodDeleted)
            yield from cut(map(ev.PodApplied, pods))
        case ev.NodesListed(nodes):
            names = {node.name for node in nodes}
            yield from _some([*tables.nodes], names.__contains__, ev.NodeDeleted)
            yield from cut(map(ev.NodeApplied, nodes))
        case ev.PodGroupsListed(api_group, pod_groups):
            keys = {(api_group, pod_group.key) for pod_group in pod_groups}
            gone = (name for name in [*tables.pod_groups] if name[0] == api_group)
            yield from _some(gone, keys.__contains__, lambda name: ev.PodGroupDeleted(*name))
            yield from cut(map(ev.PodGroupApplied, pod_groups))
        case ev.BatchJobsListed() | ev.WorkloadsListed():
            yield from _of_queues(listed, tables)
        case ev.BudgetsListed(budgets):
            listed_ones = {(each.namespace, each.name) for each in budgets}
            there = [(space, name) for space, found in tables.budgets.items() for name in found]
            yield from _some(there, listed_ones.__contains__, lambda name: ev.BudgetDeleted(*name))
            yield from cut(map(ev.BudgetApplied, budgets))
        case ev.ClaimObjectsListed(prefix, found):
            keys_there = {each.key for each in found}
            held = [each for each in tables.claim_objects.values() if each.key.startswith(prefix)]
            yield from _some(held, lambda each: each.key in keys_there, ev.ClaimObjectDeleted)
            yield from cut(map(ev.ClaimObjectApplied, found))


def _of_queues(
    listed: ev.BatchJobsListed | ev.WorkloadsListed, tables: ClusterTables
) -> Iterator[Sequence[Event]]:
    """Yield the same for what queues admit."""
    if isinstance(listed, ev.BatchJobsListed):
        uids = {job.uid for job in listed.jobs}
        known = [uid for uid, job in tables.jobs.by_uid.items() if job.kind == listed.kind]
        yield from _some(known, uids.__contains__, ev.BatchJobDeleted)
        yield from cut(map(ev.BatchJobApplied, listed.jobs))
        return
    keys = {each.key for each in listed.workloads}
    yield from _some([*tables.admissions.workloads], keys.__contains__, ev.WorkloadDeleted)
    yield from cut(map(ev.WorkloadApplied, listed.workloads))
    yield (ev.AdmissionKnown(listed.served),)


def _some(
    known: Iterable[T], stays: Callable[[T], bool], deleted: Callable[[T], Event]
) -> Iterator[Sequence[Event]]:
    """Yield deletions of what does not stay; where nothing of a slice goes, it is empty."""
    for some in cut(known, 16 * AT_ONCE):
        gone = [deleted(each) for each in some if not stays(each)]
        yield from cut(gone) if gone else ((),)


def cut(items: Iterable[T], size: int = AT_ONCE) -> Iterator[Sequence[T]]:
    """Yield items in order, so many at a time."""
    left = iter(items)
    while some := list(islice(left, size)):
        yield some
