"""What members have done counts as long as their gang's run goes on, and not in the next one."""

from typing import Any

import pytest

from tests.cluster.conftest import NodeFactory
from tests.cluster.gangs import POD_GROUPS, Gangs
from tests.harness import objects
from tests.harness.client import Api, condition

pytestmark = pytest.mark.usefixtures("gang", "reconciler")

JOBS = "batch/v1/jobs"


def create_job(gangs: Gangs, name: str, count: int, **options: Any) -> None:
    """Make a Job of pods of the group `g` that run until they are ended."""
    gangs.api.create(
        objects.job(
            name, count, namespace=gangs.namespace, cpu="1", group="g", run_for="1h", **options
        )
    )


def running(gangs: Gangs, job: str = "") -> list[str]:
    """Return the names of members that run, of a Job or of all."""
    pods = gangs.members("g")
    found = [pod for pod in pods if pod["status"].get("phase") == "Running"]
    names = (pod["metadata"]["name"] for pod in found if "deletionTimestamp" not in pod["metadata"])
    return sorted(name for name in names if name.startswith(job))


def await_running(gangs: Gangs, count: int, job: str = "") -> list[str]:
    gangs.api.wait_for(f"{count} of {job} run", lambda: len(running(gangs, job)) == count, 120)
    return running(gangs, job)


def succeed(gangs: Gangs, *names: str) -> None:
    """End pods as their kubelet would."""
    for name in names:
        body = {"status": {"phase": "Succeeded"}}
        gangs.api.patch("pods", name, gangs.namespace, body=body, subresource="status")


@pytest.mark.parametrize("goes", [False, True], ids=["the first Job stays", "the first Job goes"])
def test_what_a_job_has_completed_counts_while_another_one_of_its_gang_goes_on(
    goes: bool, api: Api, gangs: Gangs, nodes: NodeFactory
) -> None:
    nodes(1, "4")
    gangs.create_group("g", 4)
    create_job(gangs, "a", 2)
    create_job(gangs, "b", 2)
    await_running(gangs, 4)
    succeed(gangs, *running(gangs, "a-"))
    api.wait_for("the first Job has ended", lambda: _is_complete(api, gangs, "a"))
    if goes:
        api.delete(JOBS, "a", gangs.namespace)
        api.wait_for("it is gone", lambda: not any(_is_of(pod, "a-") for pod in gangs.members("g")))
    first, other = running(gangs, "b-")
    gangs.delete([first])
    assert other in await_running(gangs, 2, "b-")

    succeed(gangs, *running(gangs, "b-"))
    api.wait_for("the second Job has ended", lambda: not running(gangs))
    create_job(gangs, "c", 2)
    gangs.await_refused("g", "2 of the 4 pods that it needs exist")
    create_job(gangs, "d", 2)
    await_running(gangs, 4)


def test_pods_without_a_job_that_succeeded_count_while_others_of_the_start_live(
    api: Api, gangs: Gangs, nodes: NodeFactory
) -> None:
    nodes(1, "3")
    gangs.create("g", 3, cpu="1")
    await_running(gangs, 3)
    succeed(gangs, "g-0")

    def counted() -> bool:
        status = api.get(POD_GROUPS, "g", gangs.namespace).get("status", {})
        return bool(status.get("succeeded") == 1)

    api.wait_for("it is counted", counted)
    gangs.delete(["g-1"])
    gangs.add("g", 1, start=3, cpu="1")
    await_running(gangs, 2)


def _is_complete(api: Api, gangs: Gangs, job: str) -> bool:
    return bool(condition(api.get(JOBS, job, gangs.namespace), "Complete"))


def _is_of(pod: objects.Object, prefix: str) -> bool:
    return bool(pod["metadata"]["name"].startswith(prefix))
