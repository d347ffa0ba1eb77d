"""Groups get their room in their order, whichever pod kube-scheduler brings first."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from extender.api.reasons import Reason
from extender.gang import gates
from extender.gang.verdicts import GangOptions
from extender.permit import filter as filtering
from extender.permit import timing
from extender.permit.group_memory import GroupMemory
from extender.permit.plans import Plans
from extender.permit.timing import LOOK_SECONDS, MOMENT_SECONDS
from extender.permit.wake import ROOM
from extender.state.cluster import events as ev
from extender.state.cluster.records import PodGroupInfo
from extender.state.cluster.store import Cluster
from extender.steps import Steps
from tests.makers import cluster_of, deleted, key, node, nodes, observe, pod, pod_group, pods, shape
from tests.unit.permit.test_plans import Ticking
from tests.unit.server.scene import Scene, said

pytestmark = pytest.mark.looptime

STRICT = GangOptions(strict_order=True)
NO_MATCH = "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector."
CONSTRAINED = replace(shape(1), individually_constrained=True)


def group(name: str, created: float, *, size: int = 2, cpu: int = 1, **fields: Any) -> list[Any]:
    """Return a group of equal pods and its PodGroup."""
    return [pod_group(name, size, created=created), *pods(size, cpu, group=name, **fields)]


def planned_groups(scene: Scene) -> set[str]:
    return {name for name in scene.view.groups if scene.view.tally(name).planned}


def reported(scene: Scene, name: str, sent: list[str], **fields: Any) -> str:
    """Return the one refusal of a filter request, or the node that was chosen."""
    answer = scene.filter(name, sent, **fields)
    if answer["NodeNames"]:
        (chosen,) = answer["NodeNames"]
        return str(chosen)
    return said(answer)


def reason(scene: Scene, name: str, sent: list[str], **fields: Any) -> str:
    """Return with which reason a filter request is refused, or what was answered."""
    before = _decisions(scene)
    scene.filter(name, sent, **fields)
    (found,) = (word for word, count in _decisions(scene).items() if count > before.get(word, 0.0))
    return found


def _decisions(scene: Scene) -> dict[str, float]:
    samples = (each for family in scene.metrics.decisions.collect() for each in family.samples)
    return {each.labels["reason"]: each.value for each in samples if each.name.endswith("_total")}


FIRST: dict[str, tuple[list[Any], list[Any]]] = {
    "the older one": (group("a", 5.0), group("b", 1.0)),
    "of the same age, by the name of the group": (group("b", 1.0), group("a", 1.0)),
    "of the same second, the one that was there first": (
        [pod_group("a", 2, created=1.0, version=8), *pods(2, group="a")],
        [pod_group("b", 2, created=1.0, version=7), *pods(2, group="b")],
    ),
    "one that found no node when there was none": (
        group("a", 5.0),
        group("b", 1.0, unschedulable="no nodes available to schedule pods"),
    ),
    "one that found no node that was ready": (
        group("a", 5.0),
        group(
            "b",
            1.0,
            unschedulable="0/1 nodes are available: 1 node(s) had untolerated taint(s) "
            "{node.kubernetes.io/not-ready: }. no new claims to deallocate",
        ),
    ),
    "not by the name of the pod": (
        [pod_group("b", 2, created=1.0), pod("1", group="b"), pod("2", group="b")],
        [pod_group("a", 2, created=1.0), pod("8", group="a"), pod("9", group="a")],
    ),
    "the more important one": (group("a", 1.0), group("b", 5.0, priority=7)),
}


@pytest.mark.parametrize(("later", "first"), FIRST.values(), ids=FIRST)
async def test_the_group_that_goes_first_gets_the_only_room(
    later: list[Any], first: list[Any], cluster: Cluster
) -> None:
    scene = Scene(cluster, node("n0", 2), later, first)

    text = reported(scene, later[1].name, ["n0"], group=later[0].name)

    assert "0 of the 2 pods that it still needs fit beside gangs that go first" in text
    assert planned_groups(scene) == {first[0].key}


async def test_with_room_for_both_both_are_planned(cluster: Cluster) -> None:
    scene = Scene(cluster, node("n0", 4), group("a", 5.0), group("b", 1.0))

    assert reported(scene, "a-0", ["n0"], group="a") == "n0"
    assert planned_groups(scene) == {key("a"), key("b")}


async def test_a_failure_sends_a_group_behind_those_that_came_before_it(cluster: Cluster) -> None:
    scene = Scene(cluster, node("n0", 2), group("a", 1.0), group("b", 5.0))
    observe(cluster, ev.GroupFailed(key("a"), at=9.0))

    assert reported(scene, "b-0", ["n0"], group="b") == "n0"
    assert planned_groups(scene) == {key("b")}


async def test_a_group_that_lacks_room_is_passed(cluster: Cluster) -> None:
    scene = Scene(cluster, nodes(2, 2), group("large", 1.0, size=3, cpu=2), group("small", 5.0))

    assert reported(scene, "small-0", ["n0", "n1"], group="small") == "n0"
    assert planned_groups(scene) == {key("small")}


async def test_a_group_whose_pods_lacked_room_only_is_planned_ahead(cluster: Cluster) -> None:
    """In a full cluster kube-scheduler says so itself, and tries them when there is some."""
    full = "0/1 nodes are available: 1 Insufficient cpu."
    first = pods(2, group="a", unschedulable=full)
    scene = Scene(cluster, node("n0", 2), pod_group("a", 2, created=1.0), first, group("b", 5.0))

    assert "go first" in reported(scene, "b-0", ["n0"], group="b")
    assert planned_groups(scene) == {key("a")}


async def test_one_call_plans_for_so_long_and_no_longer(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filtering, "TURN_SECONDS", 0.0)
    scene = Scene(cluster, node("n0", 40), *(group(f"g{n}", float(n)) for n in range(9)))

    assert reported(scene, "g8-0", ["n0"], group="g8") == "n0"
    assert planned_groups(scene) == {key("g8")}


STUCK: dict[str, list[Any]] = {
    "kube-scheduler has found no node for one of its pods": [
        pod("a-0", group="a"),
        pod("a-1", group="a", unschedulable="0/1 nodes are available: no volume"),
    ],
    "one of its pods is gated": [pod("a-0", group="a"), pod("a-1", group="a", gates=("x",))],
    "another scheduler places it": pods(2, group="a", scheduler="other"),
    "kube-scheduler judges its pods one by one": pods(2, CONSTRAINED, group="a"),
}


@pytest.mark.parametrize("members", STUCK.values(), ids=STUCK)
async def test_room_is_kept_for_no_group_that_may_not_come(
    members: list[Any], cluster: Cluster
) -> None:
    scene = Scene(cluster, node("n0", 2), pod_group("a", 2, created=1.0), members, group("b", 5.0))

    assert reported(scene, "b-0", ["n0"], group="b") == "n0"
    assert planned_groups(scene) == {key("b")}


async def test_a_group_that_we_refused_ourselves_may_come(cluster: Cluster) -> None:
    said = f"0/1 nodes are available: 1 gang {key('a')}: it had no room."
    first = pods(2, group="a", unschedulable=said)
    scene = Scene(cluster, node("n0", 2), pod_group("a", 2, created=1.0), first, group("b", 5.0))

    assert "go first" in reported(scene, "b-0", ["n0"], group="b")
    assert planned_groups(scene) == {key("a")}


async def test_so_many_are_planned_at_once_and_no_more(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gates, "AHEAD", 4)
    scene = Scene(cluster, node("n0", 40), *(group(f"g{n}", float(n)) for n in range(9)))

    assert reported(scene, "g8-0", ["n0"], group="g8") == "n0"
    assert planned_groups(scene) == {key("g0"), key("g1"), key("g8")}


async def test_a_group_that_lacked_room_is_not_added_up_for_each_that_comes(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(
        cluster,
        *(nodes(2, 2, 2), pod("x", 1, on="n2"), pod("y", 1, on="n2")),
        group("large", 1.0, size=3, cpu=2),
        group("small", 5.0),
    )
    reported(scene, "small-0", ["n0", "n1"], group="small")
    asked: list[str] = []

    def plan_unasked(other: PodGroupInfo, **_: Any) -> Steps[None]:
        asked.append(other.name)
        yield from ()

    monkeypatch.setattr("extender.gang.gates.plan_unasked", plan_unasked)

    await asyncio.sleep(10)
    observe(cluster, group("next", 6.0))
    reported(scene, "next-0", ["n0", "n1"], group="next")
    assert asked == []
    observe(cluster, deleted("x"), group("other", 7.0))
    reported(scene, "other-0", ["n0", "n1"], group="other")
    assert asked == []  # half of the room that one pod needs
    observe(cluster, deleted("y"), group("last", 8.0))
    reported(scene, "last-0", ["n0", "n1"], group="last")
    assert asked[0] == "large"


async def test_only_a_share_of_the_time_is_spent_in_vain(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What two looks in vain take comes back in ten times as long."""
    asked: list[str] = []

    def in_vain(_: Plans, other: PodGroupInfo, **__: object) -> float:
        asked.append(other.name)
        return timing.TURN_SECONDS / 2

    monkeypatch.setattr(Plans, "plan_ahead", in_vain)
    scene = Scene(cluster, nodes(9), *(group(name, float(n)) for n, name in enumerate("abcdef")))
    for seconds, want in ((0.0, ["a", "b"]), (0.0, []), (0.11, ["a", "b"]), (0.2, ["a", "b"])):
        asked.clear()
        await asyncio.sleep(seconds)
        reported(scene, "f-0", ["n0"], group="f")
        assert asked == want
        observe(cluster, ev.Unreserved(tuple(scene.view.tally(key("f")).planned)))


async def test_in_strict_order_no_group_passes(cluster: Cluster) -> None:
    large, old = group("large", 1.0, size=2, cpu=4), pod("old", 2, on="n0")
    scene = Scene(cluster, nodes(4, 4), old, large, group("small", 5.0), options=STRICT)
    behind = "gang ns/small: another gang is ahead of it, and the order is strict"

    assert reported(scene, "small-0", ["n0", "n1"], group="small") == behind
    observe(cluster, deleted("old"))
    assert reported(scene, "large-0", ["n0", "n1"], group="large") == "n0"
    observe(cluster, node("n2", 4))
    assert reported(scene, "small-0", ["n2"], group="small") == "n2"


async def test_in_strict_order_a_failure_changes_nothing(cluster: Cluster) -> None:
    large, old = group("large", 1.0, size=2, cpu=4), pod("old", 2, on="n0")
    scene = Scene(cluster, nodes(4, 4), old, large, group("small", 5.0), options=STRICT)

    assert "short of cpu" in reported(scene, "large-0", ["n1"], group="large")
    assert "strict" in reported(scene, "small-0", ["n0", "n1"], group="small")


HARMLESS: dict[str, list[Any]] = {
    "one that never fits": group("a", 1.0, size=2, cpu=9),
    "one for which kube-scheduler found no node": group(
        "a",
        1.0,
        cpu=9,
        unschedulable=NO_MATCH,
    ),
    "one that is short of pods": [pod_group("a", 3, created=1.0), *pods(2, group="a")],
    "one of another scheduler": group("a", 1.0, scheduler="other"),
    "one without a PodGroup": pods(2, group="a"),
    "one that is going": [
        pod_group("a", 2, created=1.0),
        *pods(2, 1, group="a", on="n0", terminating=True),
    ],
}


@pytest.mark.parametrize("other", HARMLESS.values(), ids=HARMLESS)
async def test_a_group_that_cannot_go_first_blocks_no_other_even_in_strict_order(
    other: list[Any], cluster: Cluster
) -> None:
    scene = Scene(cluster, nodes(4, 4), other, group("b", 5.0), options=STRICT)

    assert reported(scene, "b-0", ["n0", "n1"], group="b") == "n0"


async def test_in_strict_order_one_that_never_fits_passes_its_turn_on(cluster: Cluster) -> None:
    scene = Scene(cluster, nodes(4, 4), group("a", 1.0, size=9), options=STRICT)

    assert "even with all nodes empty" in reported(scene, "a-0", ["n0"], group="a")
    assert (ROOM, MOMENT_SECONDS) in scene.woken


async def test_in_strict_order_one_that_no_longer_fits_on_its_node_passes_its_turn_on(
    cluster: Cluster,
) -> None:
    scene = Scene(
        cluster,
        nodes(8, 4),
        pod("old", 8, on="n0"),
        group("large", 1.0, size=1, cpu=5),
        group("small", 5.0, size=1),
        options=STRICT,
    )
    assert "strict" in reported(scene, "small-0", ["n0", "n1"], group="small")
    observe(cluster, node("n0", 4))
    assert reported(scene, "small-0", ["n0", "n1"], group="small") == "n1"


async def test_siblings_of_one_that_never_fits_are_woken_once(cluster: Cluster) -> None:
    scene = Scene(cluster, nodes(4, 4), group("a", 1.0, size=9))
    first, second = pods(2, group="a")
    observe(cluster, ev.PodRefused(second, Reason.NOT_ENOUGH_PODS))

    reported(scene, first.name, ["n0"], group="a")
    assert scene.woken == [(key("a"), MOMENT_SECONDS)]
    reported(scene, second.name, ["n0"], group="a")
    assert len(scene.woken) == 1


async def test_room_that_is_news_is_asked_for_again_though_the_group_failed_before(
    cluster: Cluster,
) -> None:
    """kube-scheduler has tried it for the news, and will not when our watch brings them."""
    scene = Scene(cluster, nodes(4, 4), pod("old", 2, on="n0"), group("a", 1.0, size=2, cpu=4))
    assert "2 pods that it still needs fit" in reported(scene, "a-0", ["n1"], group="a")
    assert reason(scene, "a-1", ["n1"], group="a") == Reason.RECENTLY_DENIED
    scene.woken.clear()

    assert "is news here" in reported(scene, "a-0", ["n0", "n1"], group="a")
    assert scene.woken == [(key("a"), MOMENT_SECONDS)]


async def test_a_node_that_is_news_is_asked_for_again_though_the_group_fits_on_no_other(
    cluster: Cluster,
) -> None:
    scene = Scene(cluster, nodes(4, 4), group("a", 1.0, size=9))
    assert "even with all nodes empty" in reported(scene, "a-0", ["n0"], group="a")
    assert "even with all nodes empty" in reported(scene, "a-0", ["n0"], group="a")
    scene.woken.clear()

    assert "is news here" in reported(scene, "a-0", ["n0", "new"], group="a")
    assert scene.woken == [(key("a"), MOMENT_SECONDS)]


def many(clock: Ticking, **options: Any) -> filtering.Turns:
    """Return the turns of a hundred groups."""
    every = [group(f"g{n}", float(n)) for n in range(100)]
    cluster = cluster_of(nodes(4), every)
    verdicts = GroupMemory(cluster, options=GangOptions(**options), clock=clock)
    plans = Plans(cluster, verdicts)
    plans.schedulers.add("default-scheduler")
    return filtering.Turns(cluster.view(), plans)


async def test_finding_the_groups_that_are_passed_takes_no_longer_than_a_plan(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks: list[str] = []

    def had_no_room(_: Plans, other: PodGroupInfo) -> bool:
        looks.append(other.name)
        return True

    monkeypatch.setattr(Plans, "had_no_room", had_no_room)
    clock = Ticking(timing.TURN_SECONDS / 10)
    found = many(clock)
    refusal = found.refusal(key("g99"))
    assert refusal is not None
    assert refusal.reason is Reason.PLANNING
    assert 0 < len(looks) <= 10
    # Looks in vain are paid for as plans are: without credit others pass.
    assert any(found.refusal(key("g99")) is None for _ in range(3))


async def test_a_group_behind_a_plan_is_woken_later(cluster: Cluster) -> None:
    def plan() -> Steps[bool]:
        yield
        return True

    scene = Scene(cluster, nodes(4, 4), group("a", 1.0), group("b", 5.0))
    scene.plans.planner.go_on(key("a"), plan())
    assert "go first are being planned" in reported(scene, "b-0", ["n0"], group="b")
    assert scene.woken == [(key("b"), LOOK_SECONDS)]


async def test_a_group_whose_plan_rests_is_woken_after_it(cluster: Cluster) -> None:
    scene = Scene(cluster, nodes(4, 4), group("a", 1.0))
    rest = 7.0
    scene.verdicts.rest(key("a"), rest)
    assert "no plan was found in time" in reported(scene, "a-0", ["n0"], group="a")
    ((woken, seconds),) = scene.woken
    assert woken == key("a")
    assert seconds == pytest.approx(rest)
    assert scene.view.refused["a-0"].reason is Reason.PLANNING
