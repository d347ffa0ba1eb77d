"""kube-scheduler sees room that is not known here: for a while it is news, then a disagreement."""

import asyncio
from typing import Any

import pytest

from extender.permit.timing import CHECK_SECONDS, LAG_SECONDS
from extender.state.cluster.store import Cluster
from tests.makers import deleted, key, node, nodes, observe, pod, pod_group, pods, shape
from tests.unit.server.scene import Scene
from tests.unit.server.scene import said as text_of

pytestmark = pytest.mark.looptime

PLAN = "example.com/plan"
ASKED: dict[str, Any] = {PLAN: 1}
HUNGRY = shape(1, **ASKED)
NEWS = "gang ns/gang: kube-scheduler sees room that is news here"
ABOUT = "gang ns/gang: kube-scheduler and the extender disagree about "


def said(scene: Scene, name: str, sent: list[str], **fields: Any) -> str:
    """Return the one refusal of a filter request; nothing where a node was chosen."""
    return text_of(scene.filter(name, sent, **fields))


async def tried_as_woken(scene: Scene, name: str, sent: list[str], seconds: float) -> list[str]:
    """Try a pod each time that it is woken, for so long; return what was answered."""
    loop, answers = asyncio.get_running_loop(), []
    end = loop.time() + seconds
    while loop.time() < end:
        scene.woken.clear()
        answers.append(said(scene, name, sent, group="gang"))
        assert scene.woken, "a pod that is refused has to be woken"
        await asyncio.sleep(min(pause for _, pause in scene.woken))
    return answers


async def test_a_resource_that_no_node_has_is_named_after_a_while(cluster: Cluster) -> None:
    scene = Scene(cluster, nodes(4, 4), pod_group(min_member=2), pods(2, HUNGRY))

    answers = await tried_as_woken(scene, "gang-0", ["n0", "n1"], 600)

    assert answers[0] == NEWS
    assert answers[-1].startswith(f"{ABOUT}{PLAN}: ")
    assert "gang.ignoredResources" in answers[-1]
    assert answers == sorted(answers, key=lambda text: text != NEWS), "it is said from then on"
    # Tries become rare: a few in the first seconds, then one in each pause.
    assert len(answers) < 15 + 600 / LAG_SECONDS
    assert scene.pod_filter.lags.disagreements == 1
    assert not scene.pod_filter.lags.is_behind


async def test_the_sentence_names_no_node_and_no_amount(cluster: Cluster) -> None:
    scene = Scene(cluster, nodes(4, 4), pod_group(min_member=2), pods(2, HUNGRY))

    text = (await tried_as_woken(scene, "gang-0", ["n0", "n1"], 60))[-1]
    assert "n0" not in text
    assert "%" not in text
    assert not any(sign.isdigit() for sign in text)


async def test_a_node_that_is_never_seen_here(cluster: Cluster) -> None:
    scene = Scene(cluster, nodes(0.5), pod_group(min_member=2), pods(2, 1))

    answers = await tried_as_woken(scene, "gang-0", ["unknown"], 60)

    assert answers[-1].endswith("offers a node that the extender does not know")


async def test_a_watch_that_catches_up_ends_it(cluster: Cluster) -> None:
    old = pod("old", 4, on="n0")
    scene = Scene(cluster, nodes(4), old, pod_group(min_member=2), pods(2, 1))

    answers = await tried_as_woken(scene, "gang-0", ["n0"], CHECK_SECONDS / 2)
    assert set(answers) == {NEWS}
    before = scene.pod_filter.lags.is_behind
    observe(cluster, deleted(old.uid))
    assert said(scene, "gang-0", ["n0"], group="gang") == ""
    assert (before, scene.pod_filter.lags.is_behind) == (True, False)
    assert scene.pod_filter.lags.disagreements == 0


async def test_a_pod_without_a_gang_is_woken_alone(cluster: Cluster) -> None:
    gang = [pod_group(min_member=2), *pods(2, 1)]
    scene = Scene(cluster, [node("n0", 2)], gang, pod("plain", HUNGRY))
    assert said(scene, "gang-0", ["n0"], group="gang") == ""  # the plan keeps the whole node
    scene.woken.clear()

    said(scene, "plain", ["n0"])
    assert [woken for woken, _ in scene.woken] == ["plain"]


async def test_a_gang_that_lacks_room_for_a_moment_is_woken_as_one(cluster: Cluster) -> None:
    scene = Scene(cluster, nodes(4), pod_group(min_member=2), pods(2, HUNGRY))

    said(scene, "gang-0", ["n0"], group="gang")
    assert [woken for woken, _ in scene.woken] == [key("gang")]


STALE = "gang ns/gang: the extender has not heard of pods for too long"


async def test_no_gang_starts_on_what_is_stale(cluster: Cluster) -> None:
    scene = Scene(cluster, nodes(4), pod_group(min_member=2), pods(2, 1))
    scene.stale = "pods"

    assert said(scene, "gang-0", ["n0"], group="gang") == STALE
    assert scene.woken == [(key("gang"), 10.0)]
    assert not scene.view.keeps_room
    scene.stale = None
    assert said(scene, "gang-0", ["n0"], group="gang") == ""


async def test_a_gang_that_has_its_plan_goes_on_although_all_is_stale(cluster: Cluster) -> None:
    scene = Scene(cluster, nodes(4), pod_group(min_member=2), pods(2, 1))
    assert said(scene, "gang-0", ["n0"], group="gang") == ""
    scene.stale = "pods"

    assert said(scene, "gang-1", ["n0"], group="gang") == ""


async def test_pods_without_a_gang_go_on_although_all_is_stale(cluster: Cluster) -> None:
    scene = Scene(cluster, nodes(4), pod("plain", 1))
    scene.stale = "pods"

    assert said(scene, "plain", ["n0"]) == ""


async def test_answers_are_counted_under_words_that_stay(cluster: Cluster) -> None:
    scene = Scene(cluster, nodes(4), pod_group(min_member=2), pods(2, 1))
    scene.filter("gang-0", ["n0"], group="gang")
    assert scene.metrics.decisions.labels("filter", "Place")._value.get() == 1
