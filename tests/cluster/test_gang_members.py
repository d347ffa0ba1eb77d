"""Members of another kind: of a Job that is nearly through, and of another scheduler."""

from typing import Any

import pytest

from tests.cluster import faults
from tests.cluster.conftest import NodeFactory
from tests.cluster.gangs import Gangs
from tests.harness import objects
from tests.harness.client import Api

JOBS = "batch/v1/jobs"


@pytest.mark.usefixtures("gang")
def test_an_indexed_job_that_is_nearly_through_starts_again_with_the_pods_that_remain(
    api: Api, gangs: Gangs, nodes: NodeFactory
) -> None:
    nodes(1, "4")
    namespace = gangs.namespace
    gangs.create_group("g", 4)
    job: dict[str, Any] = {"cpu": "1", "group": "g", "indexed": True, "run_for": "1h"}
    api.create(objects.job("job", 4, namespace=namespace, **job))
    gangs.await_phases("g", Running=4)
    for pod in gangs.members("g")[:2]:
        api.patch(
            "pods",
            pod["metadata"]["name"],
            namespace,
            body={"status": {"phase": "Succeeded"}},
            subresource="status",
        )
    api.wait_for(
        "the Job has counted them",
        lambda: api.get(JOBS, "job", namespace)["status"].get("succeeded") == 2,
    )

    api.patch(JOBS, "job", namespace, body={"spec": {"suspend": True}})
    gangs.await_phases("g", Succeeded=2)
    api.patch(JOBS, "job", namespace, body={"spec": {"suspend": False}})
    gangs.await_phases("g", Succeeded=2, Running=2)


@pytest.mark.usefixtures("gang")
def test_a_member_that_asks_for_another_scheduler_is_waited_for(
    api: Api, gangs: Gangs, nodes: NodeFactory
) -> None:
    [node] = nodes(1, "4")
    gangs.create_group("g", 3)
    gangs.add("g", 2, cpu="1")
    [foreign] = gangs.add("g", 1, start=2, cpu="1", scheduler_name="somebody-else")
    gangs.await_refused(
        "g", "2 of the 3 pods that it still needs can start, 1 wait for another scheduler", count=1
    )
    assert gangs.bound("g") == set()

    faults.bind(api, gangs.namespace, foreign, node)
    gangs.await_phases("g", Running=3)
