"""Jobs whose pods all have to go are suspended and resumed: evicted pods would wait for minutes."""

import pytest

from tests.cluster.conftest import NodeFactory
from tests.cluster.gangs import POD_GROUPS, Gangs
from tests.cluster.groups import SECONDS
from tests.harness import objects
from tests.harness.client import Api
from tests.harness.objects import Object
from tests.harness.reconciler import Reconciler

pytestmark = pytest.mark.usefixtures("gang", "reconciler")

JOBS = "batch/v1/jobs"
MARK = "scheduling.x-k8s.io/restarting"
SUSPENDED = 'gang_extender_preemption_victims_total{how="job"}'


def start(gangs: Gangs, count: int, *, policy: str = "keep") -> set[str]:
    """Make a gang of one Job that runs; return the UIDs of its pods."""
    annotations = {"scheduling.x-k8s.io/on-partial": policy}
    gangs.create_group("low", count, annotations=annotations)
    gangs.api.create(
        objects.job("low", count, namespace=gangs.namespace, cpu="3", group="low", run_for="1h")
    )
    gangs.await_phases("low", Running=count)
    return uids(gangs)


def uids(gangs: Gangs) -> set[str]:
    return {pod["metadata"]["uid"] for pod in gangs.members("low")}


def job(gangs: Gangs, name: str = "low") -> Object:
    return gangs.api.get(JOBS, name, gangs.namespace)


def await_again(gangs: Gangs, before: set[str], count: int) -> None:
    """Wait until a Job has other pods in the place of all of its pods, and goes on."""

    def is_so() -> bool:
        now = uids(gangs)
        return len(now) == count and now.isdisjoint(before)

    gangs.api.wait_for("all of its pods are new", is_so, SECONDS)
    found = job(gangs)
    assert found["spec"]["suspend"] is False
    assert MARK not in found["metadata"].get("annotations", {})


def test_a_job_that_makes_room_is_suspended_and_goes_on(
    reconciler: Reconciler, high: str, gangs: Gangs, nodes: NodeFactory
) -> None:
    nodes(2)
    before, counted = start(gangs, 2), reconciler.metric(SUSPENDED)
    gangs.create("h", 2, cpu="3", priority_class=high)
    gangs.await_phases("h", Running=2)
    await_again(gangs, before, 2)
    assert reconciler.metric(SUSPENDED) == counted + 1
    assert job(gangs)["status"].get("failed", 0) == 0
    gangs.delete([pod["metadata"]["name"] for pod in gangs.members("h")])
    gangs.await_phases("low", Running=2)


def test_a_gang_that_loses_a_member_is_restarted_whole(gangs: Gangs, nodes: NodeFactory) -> None:
    """Evicted pods would count as failed, each of them."""
    nodes(3)
    before = start(gangs, 3, policy="restart")

    def is_known() -> bool:
        status = gangs.api.get(POD_GROUPS, "low", gangs.namespace).get("status", {})
        return bool(status.get("phase") == "Running")

    gangs.api.wait_for("the reconciler knows that it is whole", is_known, SECONDS)
    gangs.delete([gangs.members("low")[0]["metadata"]["name"]])
    await_again(gangs, before, 3)
    gangs.await_phases("low", Running=3)
    assert job(gangs)["status"].get("failed", 0) <= 1


def test_a_job_goes_on_whatever_is_restarted_and_that_of_another_stays(
    reconciler: Reconciler, api: Api, gangs: Gangs, nodes: NodeFactory
) -> None:
    nodes(2)
    reconciler.process.kill()
    names = "ours", "theirs"
    for name in names:
        gangs.create_group(name, 2)
        body = objects.job(name, 2, namespace=gangs.namespace, group=name, suspend=True)
        if name == "ours":
            body["metadata"]["annotations"] = {MARK: "true"}
        api.create(body)
    api.delete(POD_GROUPS, "ours", gangs.namespace)

    def are_suspended() -> bool:
        said = [job(gangs, name).get("status", {}).get("conditions", []) for name in names]
        return all(any(each["type"] == "Suspended" for each in found) for found in said)

    api.wait_for("both are suspended", are_suspended, SECONDS)
    reconciler.start()
    api.wait_for("ours goes on", lambda: not job(gangs, "ours")["spec"]["suspend"], SECONDS)
    reconciler.await_looks()
    assert job(gangs, "theirs")["spec"]["suspend"] is True
