"""A second count of the tables of the cluster's state, from its pods, Jobs and reservations."""

from collections import Counter
from collections.abc import Mapping
from itertools import chain
from typing import Final

from extender.resources.quantity import CPU
from extender.state.cluster import events as ev
from extender.state.cluster.index import Natives
from extender.state.cluster.reservations import Reservations
from extender.state.cluster.seen import SchedulersOnNodes, Unseen
from extender.state.cluster.store import Cluster
from extender.state.cluster.view import NO_GROUP, ClusterTables

_RECOUNTED: Final = (
    *("pods", "groups", "controlled", "of_workload"),
    *("on_node", "ending", "shunning", "nominated", "jobs", "admissions", "priorities"),
    *("claimed", "claiming"),
)


def check_tables(cluster: Cluster) -> None:
    """Raise AssertionError where a table of a cluster is not the recount."""
    have, want = cluster._tables, _recounted(cluster._tables)
    assert list(have.queue) == list(want.queue), "the queue is not the recount"
    for name in _RECOUNTED:
        ours, theirs = getattr(have, name), getattr(want, name)
        assert ours == theirs, f"{name}: {ours} is not the recount {theirs}"
    check_reservations(have.reservations, want.reservations)
    view = cluster.view()
    bound = ((pod, view.bound_node(pod)) for pod in have.pods.values())
    there = {pod.uid: (node, pod.node is not None) for pod, node in bound if node is not None}
    check_unseen(have.unseen, there)
    for tally in have.groups.values():
        stages = [
            *(tally.bound, tally.binding, tally.waiting, tally.planned),
            *(tally.gated, tally.gated_by_us, tally.leaving),
        ]
        assert sum(map(len, stages)) == len(set().union(*stages)), f"overlap in {tally}"
        ours = {uid for uid in tally.members if have.pods[uid].is_gated_by_us}
        assert tally.all_gated_by_us.keys() == ours, f"gates in {tally}"
    assert have.refused.keys() <= have.pods.keys()
    _check_natives(have)
    by_group = {(r.pod.group or NO_GROUP, uid) for uid, r in have.refused.items()}
    assert by_group == {(g, uid) for g, uids in have.refused_of.items() for uid in uids}
    for name in ("fresh", "plain"):
        counted, recounted = getattr(have, name), getattr(want, name)
        assert counted.of == recounted.of, f"{name} pods are not the recount"
        assert counted.counts == recounted.counts
    assert have.pod_affinity_index.counts == want.pod_affinity_index.counts
    ours, theirs = (_counted(each.schedulers) for each in (have, want))
    assert ours == theirs, f"{ours} pods of schedulers are not the recount"
    for look in have.feasible_by_pattern:
        assert look.nodes <= want.nodes.keys(), f"looks at {look.nodes - want.nodes.keys()}"
    for order, again in ((have.left, want.left), (have.whole, want.whole)):
        assert order.all() == again.all(), "what nodes have left is not the recount"
        assert order.by(CPU) == again.by(CPU), "nodes are not in the order of what they have"


def _recounted(own: ClusterTables) -> ClusterTables:
    recount = Cluster()
    fresh = recount._tables
    fresh.nodes.update(own.nodes)
    recount._resized(fresh.nodes)
    fresh.pod_groups = dict(own.pod_groups)
    natives = own.natives
    fresh.natives = Natives(
        natives.ours, fixed=natives.fixed, cycles=natives.cycles, basic={*natives.basic}
    )
    fresh.failed_at = dict(own.failed_at)
    fresh.refused.update(own.refused)
    for job in own.jobs.by_uid.values():
        fresh.jobs.put(job)
    fresh.jobs.watched, fresh.jobs.managed = own.jobs.watched, own.jobs.managed
    fresh.admissions.in_use = own.admissions.in_use
    for workload in own.admissions.workloads.values():
        fresh.admissions.put(workload)
    for pod in own.pods.values():
        recount.apply(ev.ObjectApplied(natives.pods.get(pod.uid, pod)))
    for each in own.reservations.pods.values():
        recount._reserve(own.pods[each.owner], each.node, each.kind)
    recount._sort()
    return fresh


def check_reservations(have: Reservations, want: Reservations) -> None:
    """Raise AssertionError where a table of reservations is not the recount, made from pods."""
    for each in chain(have.claims.values(), have.grants.values(), have.nominated.values()):
        want.put(each)
    for name in ("pods", "on_node", "used", "kept"):
        ours, theirs = getattr(have, name), getattr(want, name)
        assert ours == theirs, f"{name}: {ours} is not the recount {theirs}"


def check_unseen(unseen: Unseen, there: Mapping[str, tuple[str, bool]]) -> None:
    """Raise AssertionError where the table disagrees with pods and reservations.

    `there` has the node of each pod that is or is being bound, and whether it is shown there.
    """
    pods = {pod.uid: (node, pod) for node, pods in unseen.nodes.items() for pod in pods.values()}
    assert len(pods) == len(unseen) == sum(map(len, unseen.nodes.values()))
    assert all(unseen.nodes.values()), "a node without unseen pods is kept"
    patterns = Counter(pod.pattern for _, pod in pods.values())
    assert unseen._patterns == patterns, "the patterns are not those of the unseen pods"
    shown = [*unseen.shown_until(unseen.version)]
    assert {*shown} <= pods.keys(), "a pod has a number that is not unseen"
    numbers = [unseen.number(uid) or 0 for uid in shown]
    assert numbers == sorted(numbers), "unseen pods are not in the order of their numbers"
    for uid, (node, _) in pods.items():
        assert unseen.node(uid) == node, "unseen pods by node are not those by UID"
        assert there.get(uid) == (node, uid in shown), f"{uid} is not unseen on {node}"


def _counted(schedulers: SchedulersOnNodes) -> dict[tuple[str, str], int]:
    found = schedulers._pods.items()
    return {(name, node): n for name, there in found for node, n in there.items() if n}


def _check_natives(tables: ClusterTables) -> None:
    named = {uid for uid, pod in tables.pods.items() if pod.native is not None}
    listed = {uid for uids in tables.natives.of.values() for uid in uids}
    assert tables.natives.pods.keys() == named == listed, "pods of native groups are not these"
