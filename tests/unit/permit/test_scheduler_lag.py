"""When kube-scheduler counts as having seen what was bound ahead of it, by virtual time."""

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from extender.permit.group_memory import SchedulerLag
from extender.permit.timing import LAG_SECONDS, LATE_SECONDS, MOMENT_SECONDS
from extender.state.cluster import events as ev
from extender.state.cluster.store import Cluster
from tests.makers import ManualClock, nodes, observe, planned, pod, pod_group, pods

A, B = pods(2, 2)
ON_A, ON_B = replace(A, node="n0"), replace(B, node="n1")
LATE = LATE_SECONDS + 1


@dataclass
class Scene:
    """A cluster in which two members were bound ahead, and what is woken."""

    cluster: Cluster
    clock: ManualClock = field(default_factory=ManualClock)
    woken: list[tuple[str, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        plans = [nodes(4, 4), pod_group(min_member=2), A, B, planned(gang_0="n0", gang_1="n1")]
        observe(self.cluster, *plans, ev.BoundAhead({"gang-0": "n0", "gang-1": "n1"}))
        self.unseen = self.cluster.view().unseen
        self.lag = SchedulerLag(
            self.cluster, clock=self.clock, wake_after=lambda *each: self.woken.append(each)
        )

    def observe(self, *facts: Any) -> None:
        observe(self.cluster, *facts)
        self.lag.look()

    def is_behind(self) -> bool:
        return self.lag.behind

    def wait(self, seconds: float) -> None:
        """Have so many seconds pass, with a look each second."""
        for _ in range(int(seconds)):
            self.clock.now += 1
            self.lag.look()


@pytest.fixture
def scene(cluster: Cluster) -> Scene:
    return Scene(cluster)


def test_a_pod_that_kube_scheduler_binds_too_is_seen(scene: Scene) -> None:
    scene.lag.bound(A.uid)

    assert A.uid not in scene.unseen
    assert B.uid in scene.unseen


def test_a_pod_is_seen_some_time_after_our_own_watch_showed_it(scene: Scene) -> None:
    scene.observe(ON_A)
    scene.wait(LAG_SECONDS - 1)
    assert A.uid in scene.unseen
    scene.wait(1)

    assert A.uid not in scene.unseen
    assert B.uid in scene.unseen, "our watch has not shown it"


def test_a_pod_that_is_brought_long_after_it_was_bound_is_a_sign(scene: Scene) -> None:
    scene.observe(ON_A)
    scene.wait(LATE)
    assert not scene.is_behind()
    scene.lag.brought(ON_A)

    assert scene.is_behind()
    scene.wait(LAG_SECONDS - 1)
    assert scene.is_behind()
    scene.wait(1)
    assert not scene.is_behind()


NO_SIGN: dict[str, Any] = {
    "a pod without a node": A,
    "a pod that is bound just now": ON_B,
    "a pod that was not bound ahead": pod("plain", on="n0"),
}


@pytest.mark.parametrize("brought", NO_SIGN.values(), ids=NO_SIGN)
def test_other_pods_are_no_sign(brought: Any, scene: Scene) -> None:
    scene.observe(ON_A)
    scene.wait(LATE)
    scene.observe(brought)
    scene.lag.brought(brought)

    assert not scene.is_behind()


def test_the_time_of_all_pods_begins_anew_with_a_sign(scene: Scene) -> None:
    scene.observe(ON_A, ON_B)
    scene.wait(LAG_SECONDS - 1)
    scene.lag.brought(ON_B)
    scene.wait(LAG_SECONDS - 1)
    assert len(scene.unseen) == 2
    scene.wait(1)

    assert not scene.unseen.exist


def test_a_sign_from_a_pod_that_counts_as_seen_puts_all_nodes_in_doubt(scene: Scene) -> None:
    scene.observe(ON_A, ON_B)
    scene.wait(2 * LAG_SECONDS)
    assert not scene.unseen.exist
    scene.lag.brought(ON_A)

    assert scene.is_behind()
    assert scene.unseen.everywhere
    scene.wait(LAG_SECONDS)
    assert not scene.unseen.exist


def test_a_pod_that_was_proven_to_be_seen_is_no_sign(scene: Scene) -> None:
    """Its Binding may be brought again after an answer that was lost."""
    scene.observe(ON_A)
    scene.lag.bound(A.uid)
    scene.wait(LATE)
    scene.lag.brought(ON_A)

    assert not scene.is_behind()


def test_after_a_restart_all_nodes_are_in_doubt_for_a_time(cluster: Cluster) -> None:
    scene = Scene(cluster)
    scene.lag.restarted()
    scene.lag.bound(A.uid)
    scene.lag.bound(B.uid)

    scene.wait(LAG_SECONDS - 1)
    assert scene.unseen.everywhere
    scene.wait(1)
    assert not scene.unseen.exist


def test_after_a_restart_each_bound_pod_that_is_brought_late_is_a_sign(scene: Scene) -> None:
    scene.lag.restarted()
    scene.observe(before := pod("before", on="n0"))
    scene.lag.brought(before)
    assert not scene.is_behind()

    scene.wait(LATE)
    scene.lag.brought(before)
    assert scene.is_behind()
    scene.wait(LAG_SECONDS - 1)
    assert scene.unseen.everywhere


def test_a_pod_that_is_refused_again_and_again_is_woken_less_often(scene: Scene) -> None:
    for _ in range(20):
        scene.lag.refused("plain")
        scene.lag.refused("plain")
        scene.clock.now += scene.woken[-1][1] + 0.001
    pauses = [seconds for _, seconds in scene.woken]

    assert len(pauses) == 20
    assert pauses[0] == MOMENT_SECONDS
    assert pauses == sorted(pauses)
    assert pauses[-1] == LAG_SECONDS


def test_each_pod_has_its_own_time(scene: Scene) -> None:
    scene.observe(ON_A)
    scene.wait(10)
    scene.observe(ON_B)
    scene.wait(LAG_SECONDS - 10)
    assert [pod.uid for pod in scene.unseen.pods] == [B.uid]
    scene.wait(10)

    assert not scene.unseen.exist
