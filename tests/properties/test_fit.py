"""What is placed really fits, and for equal members the answer is exact."""

from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from extender.gang.fit import Fit, Offer
from extender.state.cluster.records import NodeInfo, PodInfo
from extender.state.cluster.store import Cluster
from tests.at_once import fitted
from tests.effort import examples
from tests.makers import cluster_of, node, pod, shape

SIZES = st.integers(1, 4)
SHAPES = st.sampled_from(
    [
        *(shape(cpu) for cpu in (1, 2, 3)),
        *(shape(cpu, gpu=1) for cpu in (1, 2, 3)),
        shape(1, one_per_node=True),
        shape(2, selector={"zone": "a"}),
    ]
)


@st.composite
def rooms(draw: st.DrawFn) -> list[NodeInfo]:
    return [
        node(
            f"n{number}",
            draw(st.integers(0, 6)),
            slots=draw(st.integers(1, 5)),
            gpu=draw(st.integers(0, 2)),
            labels={"zone": draw(st.sampled_from("ab"))},
            unschedulable=draw(st.sampled_from([False, False, False, True])),
        )
        for number in range(draw(st.integers(0, 4)))
    ]


@st.composite
def gangs(draw: st.DrawFn, *, alike: bool) -> list[PodInfo]:
    one = draw(SHAPES)
    return [
        pod(f"p{number}", one if alike else draw(SHAPES), group="gang")
        for number in range(draw(st.integers(1, 5)))
    ]


def good_for(member: PodInfo, there: list[NodeInfo], cluster: Cluster) -> list[str]:
    """Return the nodes that kube-scheduler would send for a pod: written anew, not our reading."""
    return [
        each.name
        for each in there
        if not each.unschedulable
        and member.shape.node_selector.items() <= each.labels.items()
        and all(
            amount <= each.allocatable.get(name, 0) - cluster.view().used(each.name).get(name, 0)
            for name, amount in member.shape.requests.items()
        )
    ]


def answer(members: list[PodInfo], there: list[NodeInfo], wanted: int) -> tuple[Fit, Cluster]:
    cluster = cluster_of(there, members)
    sent = good_for(members[0], there, cluster)
    return fitted(members, there, wanted=wanted, offer=Offer(sent, complete=True)), cluster


@settings(max_examples=examples(150))
@given(gangs(alike=False), rooms(), st.integers(1, 5))
def test_what_is_placed_fits(members: list[PodInfo], there: list[NodeInfo], wanted: int) -> None:
    found, cluster = answer(members, there, wanted)
    by_uid = {member.uid: member for member in members}
    left = {each.name: dict(each.allocatable) for each in there}

    assert len(found.placements) <= wanted
    for uid, name in found.placements.items():
        assert name in good_for(by_uid[uid], there, cluster)
        for resource, amount in by_uid[uid].shape.requests.items():
            left[name][resource] = left[name].get(resource, 0) - amount
    assert all(amount >= 0 for amounts in left.values() for amount in amounts.values())
    alone = [
        (by_uid[u].shape, n) for u, n in found.placements.items() if by_uid[u].shape.one_per_node
    ]
    assert len(alone) == len(set(alone))
    if found.placements:
        assert members[0].uid in found.placements
    assert found.complete or not set(found.short.values()) & {0}


@settings(max_examples=examples(150))
@given(gangs(alike=True), rooms())
def test_for_equal_members_no_placement_of_more_exists(
    members: list[PodInfo], there: list[NodeInfo]
) -> None:
    found, cluster = answer(members, there, len(members))

    assert len(found.placements) == most(members, good_for(members[0], there, cluster), there)


def most(members: list[PodInfo], good: list[str], there: list[NodeInfo]) -> int:
    """Return how many equal members can be placed at most, by trying everything."""
    asked = members[0].shape
    amounts = {each.name: each.allocatable for each in there}
    best = 0
    for counts in product(range(len(members) + 1), repeat=len(good)):
        total = sum(counts)
        if best < total <= len(members) and all(
            (not asked.one_per_node or count <= 1)
            and all(
                count * amount <= amounts[name].get(resource, 0)
                for resource, amount in asked.requests.items()
            )
            for name, count in zip(good, counts, strict=True)
        ):
            best = total
    return best


@settings(max_examples=examples(60))
@given(gangs(alike=False), rooms(), st.integers(1, 5), st.integers(0, 6))
def test_more_room_never_makes_a_gang_of_equals_fit_worse(
    members: list[PodInfo], there: list[NodeInfo], wanted: int, cpu: int
) -> None:
    equal = [pod(member.uid, members[0].shape, group="gang") for member in members]
    before, _ = answer(equal, there, wanted)
    after, _ = answer(equal, [*there, node("extra", cpu)], wanted)

    assert len(after.placements) >= len(before.placements)
