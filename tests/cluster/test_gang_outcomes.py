"""What the project was asked for: a gang runs as a whole or not at all."""

from functools import partial
from itertools import groupby

import pytest

from tests.cluster.conftest import NodeFactory
from tests.cluster.gangs import Gangs, decisions, message
from tests.harness import objects
from tests.harness.client import Api
from tests.harness.gang_scheduler import GangScheduler
from tests.tiers import LONG

REFUSALS = ("NotEnoughResources", "NeverFits", "RecentlyDenied")


def test_a_deployment_without_room_for_min_member_pods_runs_with_none_until_there_is_room(
    gang: GangScheduler, api: Api, gangs: Gangs, nodes: NodeFactory
) -> None:
    names = nodes(3, "4")
    gangs.create_group("g", 4)
    api.create(objects.deployment("web", 6, namespace=gangs.namespace, cpu="3000m", group="g"))
    text = "3 of the 4 pods that it still needs fit, short of cpu 3"

    def are_refused(count: float) -> bool:
        return decisions(gang, "filter", *REFUSALS) >= count

    gangs.await_refused("g", text)
    for _ in range(2):
        before = decisions(gang, "filter", *REFUSALS)
        gangs.retry(gang, names[0], attempts=6)
        # One that comes while its gang is planned is refused for that, and comes again.
        api.wait_for("all are refused", partial(are_refused, before + 6))
    gangs.await_refused("g", text, count=6)
    assert gangs.phases("g") == ["Pending"] * 6
    assert gangs.placements() == []
    # kube-scheduler writes its Events at its own pace, after those of earlier tests.
    api.wait_for("the Event says so", lambda: gangs.said("g", text), 120)

    nodes(1, "4", prefix="new")
    gangs.await_phases("g", Running=4, Pending=2)


@LONG
@pytest.mark.usefixtures("gang")
def test_ten_gangs_take_turns_in_room_for_one_and_are_never_mixed(
    gangs: Gangs, nodes: NodeFactory
) -> None:
    nodes(5, "4")
    groups = [f"g{number}" for number in range(10)]
    for group in groups:
        gangs.create_group(group, 3)
    for number in range(3):
        for group in groups:
            gangs.add(group, 1, start=number, cpu="3", run_for="300ms")

    for group in groups:
        gangs.await_phases(group, Succeeded=3, timeout=120)
        gangs.catch_up()
    turns = [
        (group, len(list(placements)))
        for group, placements in groupby(p.group for p in gangs.placements())
    ]
    assert sorted(turns) == [(group, 3) for group in sorted(groups)]


@pytest.mark.usefixtures("gang")
def test_every_pod_of_a_refused_gang_has_the_same_message(gangs: Gangs, nodes: NodeFactory) -> None:
    nodes(2, "4")
    gangs.create("g", 3, cpu="3")

    text = "2 of the 3 pods that it still needs fit, short of cpu 3"
    gangs.await_refused("g", text, count=3)
    assert {message(pod).count("%") for pod in gangs.members("g")} == {0}
