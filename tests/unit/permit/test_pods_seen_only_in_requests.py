"""Pods that only requests have shown, by virtual time."""

from dataclasses import dataclass

import pytest

from extender.permit.background import PodsSeenOnlyInRequests
from extender.permit.timing import LAG_SECONDS
from extender.state.cluster import events as ev
from extender.state.cluster.store import Cluster
from tests.makers import cluster_of, deleted, nodes, observe, planned, pod
from tests.recount import check_tables


@dataclass
class Clock:
    """Moves as the test says."""

    now: float = 5.0

    def monotonic(self) -> float:
        """Return seconds."""
        return self.now

    def wall(self) -> float:
        """Return the same."""
        return self.now


A, B = pod("a", group="gang"), pod("b", group="gang", on="n0")


@pytest.fixture
def clock() -> Clock:
    return Clock()


def looked(cluster: Cluster, clock: Clock, *after: float) -> Cluster:
    """Return the cluster after a look at each of these seconds."""
    unconfirmed = PodsSeenOnlyInRequests(cluster, clock=clock)
    for seconds in after:
        clock.now += seconds
        unconfirmed.look()
        check_tables(cluster)
    return cluster


def test_a_pod_that_no_watch_shows_leaves_nothing_behind(clock: Clock) -> None:
    empty = cluster_of(nodes(8))._tables
    cluster = cluster_of(nodes(8), ev.PodSeen(B), planned(b="n0"))
    tables = looked(cluster, clock, 0.0, LAG_SECONDS)._tables
    for name in ("pods", "groups", "reservations", "on_node", "seen", "controlled"):
        assert getattr(tables, name) == getattr(empty, name), name


def test_it_stays_until_its_time_is_over(clock: Clock) -> None:
    cluster = looked(cluster_of(ev.PodSeen(A)), clock, 0.0, LAG_SECONDS - 0.1)
    assert A.uid in cluster.view().pods


def test_one_that_the_watch_shows_stays(clock: Clock) -> None:
    cluster = looked(cluster_of(ev.PodSeen(A), A), clock, 0.0, LAG_SECONDS)
    assert A.uid in cluster.view().pods


def test_one_that_is_seen_anew_has_its_time_anew(clock: Clock) -> None:
    cluster = cluster_of(ev.PodSeen(A))
    unconfirmed = PodsSeenOnlyInRequests(cluster, clock=clock)
    unconfirmed.look()
    observe(cluster, A, deleted(A.uid))
    unconfirmed.look()
    observe(cluster, ev.PodSeen(pod("c")))
    clock.now += LAG_SECONDS
    unconfirmed.look()
    assert "c" in cluster.view().pods


def test_kube_scheduler_may_bring_a_dropped_pod_again(clock: Clock) -> None:
    cluster = looked(cluster_of(ev.PodSeen(A)), clock, 0.0, LAG_SECONDS)
    assert A.uid not in cluster.view().pods
    observe(cluster, ev.PodSeen(A))
    assert A.uid in cluster.view().pods
