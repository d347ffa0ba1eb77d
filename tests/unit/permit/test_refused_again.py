"""A member of a group that is known to have no room: the same words, and no more work."""

import asyncio
from typing import Any

import pytest

from extender.api.reasons import Reason
from extender.gang import gates
from extender.gang.verdicts import GangOptions
from extender.permit.timing import MOMENT_SECONDS
from extender.state.cluster.store import Cluster
from tests.makers import deleted, key, node, nodes, observe, pod, pod_group, pods
from tests.unit.server.scene import Scene, said

pytestmark = pytest.mark.looptime

SAMPLE = [f"n{number}" for number in range(100)]
MEMBERS = pods(101, 2, group="gang")
CROWDED = [nodes(*[2] * 101), pod("old", 2, on="n100"), pod_group("gang", 101), *MEMBERS]
"""One node more would do, and another pod is on it."""
FOUND = "gang ns/gang: 100 of the 101 pods that it still needs fit, short of cpu 2"


def words(scene: Scene, name: str, sent: list[str] = SAMPLE, **fields: Any) -> str:
    """Return with which words a member is refused."""
    answer = scene.filter(name, sent, group="gang", **fields)
    assert answer["NodeNames"] == []
    return said(answer)


def refused_with(scene: Scene, name: str) -> str:
    return scene.view.refused[name].reason


def watch_plans(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the names of the pods for which a plan is made from now on."""
    made: list[str] = []
    making = gates.plan_gang

    def watched(pod: Any, *args: Any, **named: Any) -> Any:
        made.append(pod.name)
        return making(pod, *args, **named)

    monkeypatch.setattr(gates, "plan_gang", watched)
    return made


async def test_a_group_without_room_is_planned_once_and_refused_in_the_same_words(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(cluster, *CROWDED)
    made = watch_plans(monkeypatch)
    first, second, third = (each.name for each in MEMBERS[:3])

    said = [words(scene, first), words(scene, second)]
    await asyncio.sleep(scene.options.denied + 1)
    said += [words(scene, third), words(scene, first)]

    assert set(said) == {FOUND}
    assert made == [first]
    assert {refused_with(scene, uid) for uid in (first, second, third)} == {
        Reason.NOT_ENOUGH_RESOURCES
    }
    assert scene.verdicts.failed_within_window(key("gang")) is None  # it has not failed anew
    assert scene.woken == []  # the end of no window would change anything


async def test_groups_that_go_first_are_not_planned_for_one_that_has_no_room(
    cluster: Cluster,
) -> None:
    scene = Scene(cluster, *CROWDED)
    words(scene, MEMBERS[0].name)
    observe(cluster, pod_group("small", 1, created=-1.0), pod("small-0", 1, group="small"))

    words(scene, MEMBERS[1].name)

    assert scene.view.planned_node("small-0") is None


async def test_it_starts_when_the_room_came(cluster: Cluster) -> None:
    scene = Scene(cluster, *CROWDED)
    words(scene, MEMBERS[0].name)
    observe(cluster, deleted("old"))

    answer = scene.filter(MEMBERS[1].name, SAMPLE, group="gang")

    assert answer["NodeNames"] == ["n0"]
    assert len(scene.view.tally(key("gang")).planned) == 101


async def test_a_node_that_only_kube_scheduler_finds_good_is_news(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    tainted = node("cordoned", 2, unschedulable=True)
    scene = Scene(cluster, *CROWDED, tainted)
    words(scene, MEMBERS[0].name)
    made = watch_plans(monkeypatch)

    words(scene, MEMBERS[1].name)
    assert made == []
    await asyncio.sleep(scene.options.denied)
    scene.filter(MEMBERS[1].name, ["cordoned", *SAMPLE], group="gang")

    assert made == [MEMBERS[1].name]
    assert len(scene.view.tally(key("gang")).planned) == 101


async def test_a_group_that_is_planned_anew_is_refused_in_the_words_of_its_failure(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(cluster, *CROWDED)
    monkeypatch.setattr(scene.plans.planner, "is_busy", lambda *_: True)
    assert words(scene, MEMBERS[0].name) == "gang ns/gang: its plan is being made"
    monkeypatch.undo()
    words(scene, MEMBERS[0].name)
    observe(cluster, deleted("old"))  # the verdict ends
    monkeypatch.setattr(scene.plans.planner, "is_busy", lambda *_: True)

    assert words(scene, MEMBERS[1].name) == FOUND
    assert refused_with(scene, MEMBERS[1].name) == Reason.PLANNING


async def test_room_that_kube_scheduler_has_yet_to_see_is_looked_for_soon(
    cluster: Cluster,
) -> None:
    there = [nodes(4, 4, 4), pod("plain", 2, on="n0"), pod_group("gang", 3)]
    members = pods(3, 3, group="gang")
    scene = Scene(cluster, *there, members, options=GangOptions(denied=300.0))
    first, second, _ = (each.name for each in members)
    assert words(scene, first, ["n1", "n2"]).endswith("fit, short of cpu 3")
    assert scene.verdicts.denied_left(key("gang")) == 300.0
    observe(cluster, deleted("plain"))  # our watch shows it first

    assert words(scene, first, ["n1", "n2"]).endswith("fit, no node has room for another")
    assert scene.woken == [(key("gang"), MOMENT_SECONDS)]
    await asyncio.sleep(MOMENT_SECONDS)
    answer = scene.filter(second, ["n0", "n1", "n2"], group="gang")

    assert len(answer["NodeNames"]) == 1
