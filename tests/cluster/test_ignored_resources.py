"""Resources that kube-scheduler ignores: a gang that requests them starts."""

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.cluster.alone import pair_of
from tests.cluster.conftest import NodeFactory
from tests.cluster.gangs import Gangs
from tests.harness.control_plane import ControlPlane
from tests.harness.gang_scheduler import ROOT, GangScheduler

MANAGED = "managed"
UNTOLD = "untold"
PLAN, PERMIT = "example.com/gang-plan", "example.com/gang-permit"
BOTH = {PLAN: 1, PERMIT: 1}
pytestmark = pytest.mark.overcommits("no node has these resources, and kube-scheduler ignores them")


def documented() -> dict[str, Any]:
    """Return the shipped configuration with the scope that its README describes."""
    shipped = ROOT / "scheduler-config" / "kube-scheduler.yaml"
    config: dict[str, Any] = yaml.safe_load(shipped.read_text())
    for entry, name in zip(config["extenders"], (PLAN, PERMIT), strict=True):
        entry["managedResources"] = [{"name": name, "ignoredByScheduler": True}]
    return config


@pytest.fixture(scope="module")
def managed_gang(control_plane: ControlPlane) -> Iterator[GangScheduler]:
    """A pair for pods with schedulerName `managed`; the extender reads kube-scheduler's file."""
    path = control_plane.folder / "managed-scheduler.yaml"
    path.write_text(yaml.safe_dump(documented()))
    scheduler = GangScheduler(
        control_plane,
        name=MANAGED,
        scheduler={"extenders": documented()["extenders"]},
        args=["--scheduler-config", str(path)],
    )
    yield scheduler
    scheduler.stop()


untold_gang = pair_of(UNTOLD, scheduler={"extenders": documented()["extenders"]})
"""The extender does not know what is ignored."""


@pytest.mark.usefixtures("managed_gang")
def test_a_gang_of_the_documented_scope_starts(gangs: Gangs, nodes: NodeFactory) -> None:
    nodes(2, "2")
    gangs.create("g", 3, cpu="1", scheduler_name=MANAGED, extended=BOTH)

    gangs.await_phases("g", Running=3)


@pytest.mark.usefixtures("managed_gang")
def test_a_gang_of_the_documented_scope_starts_as_a_whole_or_not(
    gangs: Gangs, nodes: NodeFactory
) -> None:
    nodes(1, "2")
    gangs.create("g", 3, cpu="1", scheduler_name=MANAGED, extended=BOTH)

    gangs.await_refused("g", "2 of the 3 pods that it still needs fit, short of cpu 1")
    assert gangs.bound("g") == set()
    nodes(1, "2", prefix="more")
    gangs.await_phases("g", Running=3)


def test_an_extender_that_does_not_know_it_names_the_resource_and_tries_seldom(
    untold_gang: GangScheduler, gangs: Gangs, nodes: NodeFactory
) -> None:
    nodes(2, "2")
    gangs.create("g", 3, cpu="1", scheduler_name=UNTOLD, extended=BOTH)

    gangs.await_refused("g", f"kube-scheduler and the extender disagree about {PERMIT}, {PLAN}:")
    refused = 'gang_extender_decisions_total{reason="SchedulerDisagrees",verb="filter"}'
    assert untold_gang.metric(refused) >= 1
    assert untold_gang.metric("gang_extender_scheduler_disagreements") >= 1
    assert untold_gang.metric('gang_extender_woken_pods_total{how="annotation"}') < 60
    assert gangs.bound("g") == set()
