"""Gangs on few nodes and on many, and members beyond the quorum, which prioritize draws."""

from collections import Counter
from collections.abc import Iterator

import pytest

from tests.cluster.conftest import NodeFactory
from tests.cluster.gangs import POD_GROUPS, Gangs, decisions
from tests.harness.client import Api
from tests.harness.gang_scheduler import GangScheduler

PLACEMENT = "scheduling.x-k8s.io/placement"
MANY = 110
"""These are more nodes than kube-scheduler looks at for one pod."""


@pytest.fixture
def spreading(gang: GangScheduler) -> Iterator[GangScheduler]:
    """The pair of the other tests with `gang.placement: spread`, as it was again after the test."""
    gang.restart_with({"gang": {"placement": "spread"}})
    yield gang
    gang.restart_with({})


def make(gangs: Gangs, group: str, count: int, placement: str | None) -> None:
    """Make a gang, and wait until it runs."""
    annotations = {} if placement is None else {PLACEMENT: placement}
    gangs.create_group(group, count, annotations=annotations)
    gangs.add(group, count, cpu="1")
    gangs.await_phases(group, Running=count)


def on(gangs: Gangs, group: str) -> Counter[str]:
    """Return how many pods of a group each node has."""
    return Counter(pod["spec"].get("nodeName", "none") for pod in gangs.members(group))


@pytest.mark.usefixtures("spreading")
def test_the_annotation_wins_over_the_setting(gangs: Gangs, nodes: NodeFactory) -> None:
    nodes(4, "1", prefix="small")
    [large, other] = nodes(2, "6", prefix="large")
    make(gangs, "few", 4, "pack")
    packed = on(gangs, "few")
    assert [*packed.values()] == [4]
    assert packed.keys() <= {large, other}

    make(gangs, "many", 5, None)
    assert [*on(gangs, "many").values()] == [1] * 5


@pytest.mark.collisions(48)  # on a slow machine kube-scheduler goes on among many members
def test_where_kube_scheduler_sends_a_sample(
    gang: GangScheduler, gangs: Gangs, nodes: NodeFactory
) -> None:
    """A member that it brings by itself, with other nodes, may take one more."""
    nodes(MANY, "4")
    for number in range(2):
        before = decisions(gang, "filter", "Place")
        make(gangs, f"few-{number}", 12, "pack")
        # The first one has the plan, unless all are bound before kube-scheduler brings any.
        brought = max(decisions(gang, "filter", "Place") - before - 1, 0)
        packed = len(on(gangs, f"few-{number}"))
        assert 3 <= packed <= 3 + min(brought, 2)
    make(gangs, "many", 30, "spread")
    assert [*on(gangs, "many").values()] == [1] * 30


@pytest.mark.usefixtures("gang")
@pytest.mark.parametrize("placement", ["pack", "spread"])
def test_members_beyond_the_quorum_go_where_the_points_are(
    placement: str, gangs: Gangs, nodes: NodeFactory
) -> None:
    """kube-scheduler by itself takes the node with the most left: what is elsewhere is our doing.

    Packed pods are on a small node then, and spread ones have the largest node already.
    """
    [large] = nodes(1, "60", prefix="a")
    small = nodes(3, "8", prefix="b")
    gangs.create_group("g", 2, annotations={PLACEMENT: placement})
    gangs.add("g", 2, cpu="1")
    gangs.await_phases("g", Running=2)
    first = on(gangs, "g")
    gangs.add("g", 2, start=2, cpu="1")
    gangs.await_phases("g", Running=4)
    found = on(gangs, "g")
    if placement == "pack":
        assert len(first) == 1
        assert large not in first
        assert found.keys() == first.keys()
    else:
        assert large in first
        assert found == dict.fromkeys([large, *small], 1)


@pytest.mark.usefixtures("gang", "reconciler")
def test_another_word_is_refused_until_it_is_mended(
    api: Api, gangs: Gangs, nodes: NodeFactory
) -> None:
    nodes(2)
    gangs.create_group("g", 2, annotations={PLACEMENT: "packed"})
    gangs.add("g", 2, cpu="1")
    gangs.await_refused("g", f"its annotation {PLACEMENT} is neither 'pack' nor 'spread'")

    def said() -> bool:
        found = (api.get(POD_GROUPS, "g", gangs.namespace).get("status") or {}).get("conditions")
        return any(each["reason"] == "InvalidPlacement" for each in found or ())

    api.wait_for("the PodGroup says why", said)
    assert gangs.bound("g") == set()
    mended = {"metadata": {"annotations": {PLACEMENT: "pack"}}}
    api.patch(POD_GROUPS, "g", gangs.namespace, body=mended)
    gangs.await_phases("g", Running=2)
    assert len(on(gangs, "g")) == 1
