"""How it is found out whether native gangs are ours, and how kube-scheduler is made to pause."""

from dataclasses import replace

import pytest

from extender.api.core_v1 import Affinity
from extender.api.reasons import Reason
from extender.api.wellknown import GROUP_NATIVE
from extender.fit.placement import MIN_SAMPLE
from extender.gang.verdicts import AnyNode, OneOf, Refuse
from extender.permit.filter import NOT_FOUND, UNDECIDED, NativeGangs
from extender.permit.timing import LOOK_SECONDS, SETTLED_SECONDS
from extender.state.cluster import events as ev
from extender.state.cluster.store import Cluster
from tests.makers import ManualClock, key, node, observe, pod, pod_group, shape
from tests.unit.server import scene as server

GANG = key("gang")
NATIVE = pod_group(api_group=GROUP_NATIVE, min_member=2)
NEAR = replace(NATIVE, required_topology="rack")
A = pod("a", group="gang", native=GANG)
PLAIN = pod("plain")
NO = Refuse(Reason.RESERVED, "no", deny=True)
OFF = Refuse(Reason.NATIVE_GROUP_WAITS, "no", pauses=True)


class Scene:
    def __init__(self, *facts: object, ours: bool | None = False) -> None:
        self.cluster, self.clock = Cluster(), ManualClock()
        observe(self.cluster, *facts)
        if ours is not None:
            self.cluster.apply(ev.NativesDecided(ours))
        self.natives = NativeGangs(self.cluster, clock=self.clock)


def test_without_a_condition_after_a_pause_native_gangs_are_ours() -> None:
    scene = Scene(NATIVE, A, ours=None)

    for _ in range(2):
        asked = scene.natives.undecided(A)
        assert asked is not None
        assert (asked.reason, asked.pauses) == (Reason.NATIVE_GROUP_WAITS, True)
        scene.clock.now += SETTLED_SECONDS / 2 - 0.01
    assert scene.natives.undecided(A) is not None
    scene.clock.now += 0.1

    assert scene.natives.undecided(A) is None
    assert scene.cluster.view().natives_are_ours


def test_a_pod_group_that_is_not_seen_decides_nothing() -> None:
    """Its condition would not be seen either."""
    scene = Scene(A, ours=None)
    for _ in range(3):
        refusal = scene.natives.undecided(A)
        assert refusal is not None
        assert (refusal.message, refusal.pauses) == (NOT_FOUND, True)
        scene.clock.now += SETTLED_SECONDS
    assert scene.cluster.view().natives_are_ours is None

    observe(scene.cluster, NATIVE)
    assert scene.natives.undecided(A) == Refuse(
        Reason.NATIVE_GROUP_WAITS, UNDECIDED, pauses=True
    ), "the question begins anew"


def test_another_pod_group_than_the_one_that_was_put_off_decides_nothing() -> None:
    other = replace(NATIVE, name="other")
    scene = Scene(NATIVE, A, other, ours=None)
    assert scene.natives.undecided(A) is not None
    scene.clock.now += SETTLED_SECONDS + 0.01

    assert scene.natives.undecided(replace(A, uid="b", native=other.key)) is not None
    assert scene.cluster.view().natives_are_ours is None
    assert scene.natives.undecided(A) is None


@pytest.mark.parametrize("ours", [True, False])
def test_what_is_known_needs_no_pause(ours: bool) -> None:
    assert Scene(NATIVE, A, ours=ours).natives.undecided(A) is None


def test_a_refusal_puts_the_whole_group_off() -> None:
    natives = Scene(NATIVE, A).natives
    assert natives.put_off(A, NO, ["n"]) == OFF
    assert natives.put_off(A, AnyNode(), ["n"]) == AnyNode()
    assert natives.put_off(PLAIN, NO, ["n"]) == NO


def test_a_refusal_of_ours_is_one_where_kube_scheduler_tries_pods_one_by_one() -> None:
    assert Scene(NATIVE, A, ours=True).natives.put_off(A, NO, ["n"]) == NO


def test_a_domain_that_is_refused_leaves_the_next_one_its_turn() -> None:
    racks = [node("n1", labels={"rack": "1"}), node("n2", labels={"rack": "2"})]
    scene = Scene(NEAR, A, racks)

    assert scene.natives.put_off(A, NO, ["n1"]) == NO
    assert scene.natives.put_off(A, NO, ["n2"]) == NO
    assert scene.natives.put_off(A, NO, ["n1"]) == OFF
    scene.clock.now += LOOK_SECONDS + 0.1
    assert scene.natives.put_off(A, NO, ["n1"]) == NO


def test_a_member_has_enough_nodes_and_no_more() -> None:
    natives, sent = Scene(NATIVE, A).natives, [f"n{number}" for number in range(MIN_SAMPLE + 1)]

    assert natives.enough(A, sent) == OneOf(tuple(sent[:MIN_SAMPLE]), enough=True)
    assert natives.enough(A, sent[1:]) == AnyNode()
    assert natives.enough(PLAIN, sent) == AnyNode()
    wishes = replace(A, shape=replace(shape(), affinity=Affinity()))
    assert natives.enough(wishes, sent) == AnyNode()
    judged = replace(A, shape=replace(shape(), individually_constrained=True))
    assert natives.enough(judged, sent) == AnyNode()
    assert Scene(NATIVE, A, ours=True).natives.enough(A, sent) == AnyNode()


async def test_a_member_has_no_more_nodes_while_pods_may_be_unseen(cluster: Cluster) -> None:
    """After a start each node is judged for half a minute, in which many gangs begin."""
    sent = [f"n{number}" for number in range(MIN_SAMPLE + 1)]
    judging = server.Scene(cluster, NATIVE, A, *map(node, sent))
    cluster.apply(ev.NativesDecided(ours=False))
    judging.lag.restarted()

    few = OneOf(tuple(sent[:MIN_SAMPLE]), enough=True)
    member = cluster.view().pods[A.uid]
    assert judging.pod_filter.decide(member, None, sent) == few
    assert judging.pod_filter.decide(PLAIN, None, sent) == AnyNode()
