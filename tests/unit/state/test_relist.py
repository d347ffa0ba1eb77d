"""Lists are taken in by slices; what comes between two of them, and how much is looked at."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from typing_extensions import override

from extender.api.wellknown import GROUP_X
from extender.state.cluster import events as ev
from extender.state.cluster.records import (
    BATCH_JOB,
    BudgetInfo,
    JobInfo,
    NodeInfo,
    PodGroupInfo,
    PodInfo,
)
from extender.state.cluster.store import Cluster
from extender.state.cluster.view import ClusterView
from extender.steps import PIECE
from tests.makers import NAMESPACE, key, node, nodes, observe, planned, pod, pod_group, pods
from tests.recount import check_tables

MANY = 5 * PIECE
MEMBERS = pods(MANY)
NODES = nodes(*[8] * MANY)
GROUPS = [pod_group(f"group-{number}") for number in range(MANY)]
JOBS = [JobInfo(f"job-{number}", key("gang"), 1, 0) for number in range(MANY)]
BUDGETS = [BudgetInfo(NAMESPACE, f"budget-{number}") for number in range(MANY)]
LISTS: dict[str, ev.ObjectsListed] = {
    "pods": ev.ObjectsListed(PodInfo, MEMBERS),
    "nodes": ev.ObjectsListed(NodeInfo, NODES),
    "PodGroups": ev.ObjectsListed(PodGroupInfo, GROUPS, GROUP_X),
    "Jobs": ev.ObjectsListed(JobInfo, JOBS, BATCH_JOB),
    "budgets": ev.ObjectsListed(BudgetInfo, BUDGETS),
}


def count(cluster: Cluster, kind: str) -> int:
    view = cluster.view()
    there = {
        "pods": view.pods,
        "nodes": view.nodes,
        "PodGroups": view.pod_groups,
        "Jobs": [job.uid for job in JOBS if view.job(job.uid)],
        "budgets": view.budgets(NAMESPACE),
    }
    return len(there[kind])


@pytest.mark.parametrize("kind", LISTS)
def test_objects_come_and_go_by_slices_after_each_of_which_the_tables_are_whole(
    kind: str, cluster: Cluster
) -> None:
    none = replace(LISTS[kind], records=[])
    for listed, sign, want in ((LISTS[kind], 1, MANY), (none, -1, 0)):
        before = count(cluster, kind)
        for _ in cluster.replace(listed):
            check_tables(cluster)
            assert 0 <= sign * (count(cluster, kind) - before) <= PIECE
            before = count(cluster, kind)
        assert before == want


def test_a_pod_and_the_one_made_in_its_place_are_never_both_there(cluster: Cluster) -> None:
    old = pods(MANY, on="n0")
    new = [replace(each, uid=f"new-{each.uid}") for each in old]
    cluster.apply(ev.ObjectsListed(PodInfo, old))
    for _ in cluster.replace(ev.ObjectsListed(PodInfo, new)):
        assert len(cluster.view().tally(key("gang")).bound) <= MANY
    assert cluster.view().pods.keys() == {each.uid for each in new}


def test_one_that_is_seen_between_two_slices_stays(cluster: Cluster) -> None:
    late = pod("late")
    cluster.apply(ev.ObjectsListed(PodInfo, MEMBERS))
    slices = cluster.replace(ev.ObjectsListed(PodInfo, MEMBERS[: PIECE * 4]))
    next(slices)
    cluster.apply(ev.PodSeen(late))
    for _ in slices:
        check_tables(cluster)
    assert late.uid in cluster.view().pods


def test_a_list_that_lacks_it_does_not_confirm_a_seen_pod(cluster: Cluster) -> None:
    observe(cluster, ev.PodSeen(MEMBERS[0]), ev.ObjectsListed(PodInfo, MEMBERS[1:]))
    assert list(cluster.view().seen) == [MEMBERS[0].uid]
    observe(cluster, ev.ObjectsListed(PodInfo, MEMBERS))
    assert list(cluster.view().seen) == []


def test_one_that_was_seen_before_the_list_was_asked_for_is_lacking(cluster: Cluster) -> None:
    """Its Binding may have been written, and the pod may have ended, while no watch ran."""
    observe(cluster, nodes(8, 8), ev.PodSeen(MEMBERS[0]), ev.PodBinding(MEMBERS[0], "n0"))
    observe(
        cluster, ev.PodsListing(), ev.PodSeen(MEMBERS[1]), ev.ObjectsListed(PodInfo, MEMBERS[2:])
    )
    view = cluster.view()
    assert MEMBERS[0].uid not in view.pods
    assert view.used("n0") == {}
    assert list(view.seen) == [MEMBERS[1].uid]


def test_room_that_is_planned_between_two_slices_yields_to_the_fact(cluster: Cluster) -> None:
    observe(cluster, nodes(8, 8), MEMBERS)
    last = replace(MEMBERS[-1], node="n1")
    slices = cluster.replace(ev.ObjectsListed(PodInfo, [*MEMBERS[:-1], last]))
    next(slices)
    cluster.apply(planned(**{last.uid: "n0"}))
    for _ in slices:
        check_tables(cluster)
    assert cluster.view().reservation(last.uid) is None
    assert list(cluster.view().pods_on("n1")) == [last.uid]


class Watched(dict[str, Any]):
    """A table that counts its values as they are looked at one after the other."""

    looked_at = 0

    @override
    def values(self) -> Any:
        """Count all of them."""
        self.looked_at += len(self)
        return super().values()

    @override
    def items(self) -> Any:
        """Count all of them."""
        self.looked_at += len(self)
        return super().items()

    @override
    def __getitem__(self, name: str) -> Any:
        """Count one."""
        self.looked_at += 1
        return super().__getitem__(name)


@pytest.fixture
def full(cluster: Cluster) -> tuple[Cluster, Watched, Watched]:
    """Return a cluster with pods on a hundred nodes, one planned there, and its watched tables."""
    tables = cluster._tables
    tables.pods, tables.reservations.pods = pods, reserved = Watched(), Watched()
    tables.__post_init__()
    cluster._view = ClusterView(tables)
    observe(cluster, nodes(*[8] * 100))
    for number in range(1000):
        cluster.apply(ev.ObjectApplied(pod(f"p{number}", group="gang", on=f"n{number % 100}")))
    for number in range(100):
        cluster.apply(ev.ObjectApplied(pod(f"q{number}", group="gang")))
        cluster.apply(planned(**{f"q{number}": f"n{number}"}))
    pods.looked_at = reserved.looked_at = 0
    return cluster, pods, reserved


@pytest.mark.parametrize(
    "event",
    [ev.ObjectApplied(node("n0", 8, ready=False)), ev.ObjectDeleted(NodeInfo, "n0")],
    ids=["not ready", "deleted"],
)
def test_a_node_that_fails_costs_its_own_pods_and_no_others(
    event: ev.ClusterEvent, full: tuple[Cluster, Watched, Watched]
) -> None:
    cluster, looked_pods, looked_assumed = full
    cluster.apply(event)
    assert looked_pods.looked_at <= 2 * 11
    assert looked_assumed.looked_at <= 2 * 11


def test_a_flip_concerns_the_groups_of_the_pods_on_the_node(cluster: Cluster) -> None:
    observe(cluster, nodes(8, 8), pod("a", group="x", on="n0"), pod("b", group="y", on="n1"))
    observe(cluster, pod("c", group="z", on="n0"), ev.ObjectDeleted(PodInfo, "c"))
    for statuses in ({key("x")}, set[str]()):
        change = cluster.apply(ev.ObjectApplied(node("n0", 8, ready=False)))
        assert change.statuses == statuses


def test_unchanged_pods_are_not_counted_anew(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[Sequence[str]] = []
    bound = pods(MANY, on="n0")
    cluster.apply(ev.ObjectsListed(PodInfo, bound))
    monkeypatch.setattr(cluster, "_count", lambda each: counted.append(each.uid))
    change = cluster.apply(ev.ObjectsListed(PodInfo, [replace(each) for each in bound]))
    assert (counted, change) == ([], ev.ClusterChange())
