"""A JobSet without a queue whose pods all have to go is suspended and resumed, as a Job is."""

from collections.abc import Iterator

import pytest

from tests.cluster.alone import alone, pair_of, priority_class
from tests.cluster.conftest import NodeFactory
from tests.cluster.gangs import POD_GROUPS, Gangs
from tests.cluster.groups import SECONDS
from tests.harness import objects
from tests.harness.control_plane import ControlPlane
from tests.harness.objects import Object
from tests.harness.partners import JOBSET, start_partner
from tests.harness.process import Component
from tests.harness.reconciler import Reconciler

JOB_SETS = "jobset.x-k8s.io/v1alpha2/jobsets"
JOBS = "batch/v1/jobs"
MARK = "scheduling.x-k8s.io/restarting"

control_plane, api = alone(controllers=True, kubelet=True)
gang = pair_of("gang")
high = priority_class(1000)

pytestmark = [
    pytest.mark.xdist_group("JobSet-restarts"),
    pytest.mark.usefixtures("gang", "reconciler", "job_sets"),
]


@pytest.fixture(scope="module")
def reconciler(control_plane: ControlPlane) -> Iterator[Reconciler]:
    made = Reconciler(control_plane, settings={"reconcile": {"leaderElect": False}})
    made.wait_leading()
    yield made
    made.stop()


@pytest.fixture(scope="module")
def job_sets(control_plane: ControlPlane) -> Iterator[Component]:
    found = start_partner(control_plane, JOBSET)
    yield found
    found.stop()


def job_set(gangs: Gangs, *, backoff: int = 0, restarts: int = 0) -> Object:
    """Return a JobSet of two Jobs, each of which may lose no more pods than its back-off says."""
    job = objects.job("x", 1, namespace=gangs.namespace, cpu="3", group="low", run_for="1h")
    template = {"spec": {**job["spec"], "backoffLimit": backoff}}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "low", "namespace": gangs.namespace},
        "spec": {
            "failurePolicy": {"maxRestarts": restarts},
            "replicatedJobs": [{"name": "x", "replicas": 2, "template": template}],
        },
    }


def test_a_job_set_that_makes_room_goes_on(high: str, gangs: Gangs, nodes: NodeFactory) -> None:
    nodes(2)
    gangs.create_group("low", 2)
    gangs.api.create(job_set(gangs))
    gangs.await_phases("low", SECONDS, Running=2)
    before = {pod["metadata"]["uid"] for pod in gangs.members("low")}
    gangs.create("h", 2, cpu="3", priority_class=high)
    gangs.await_phases("h", SECONDS, Running=2)

    def are_new() -> bool:
        now = {pod["metadata"]["uid"] for pod in gangs.members("low")}
        return len(now) == 2 and now.isdisjoint(before)

    gangs.api.wait_for("its pods are made anew", are_new, SECONDS)
    found = gangs.api.get(JOB_SETS, "low", gangs.namespace)
    assert found["spec"]["suspend"] is False
    assert found["status"].get("restarts", 0) == 0

    def are_unmarked() -> bool:
        jobs = [found, *gangs.api.list(JOBS, gangs.namespace)]
        return not any(MARK in each["metadata"].get("annotations", {}) for each in jobs)

    gangs.api.wait_for("nothing says that it is restarting", are_unmarked, SECONDS)
    assert [job["status"].get("failed", 0) for job in gangs.api.list(JOBS, gangs.namespace)] == [
        *(0, 0)
    ]
    gangs.delete([pod["metadata"]["name"] for pod in gangs.members("h")])
    gangs.await_phases("low", SECONDS, Running=2)


@pytest.mark.parametrize(
    ("backoff", "restarts"), [(6, 0), (0, 3)], ids=["the Job goes on", "the JobSet restarts"]
)
def test_a_job_set_of_which_one_job_has_lost_its_pods_goes_on(
    gangs: Gangs, nodes: NodeFactory, backoff: int, restarts: int
) -> None:
    """The Job without pods, or the Jobs that are made anew, do not say that we suspended them."""
    nodes(2)
    gangs.create_group("low", 2, annotations={"scheduling.x-k8s.io/on-partial": "restart"})
    gangs.api.create(job_set(gangs, backoff=backoff, restarts=restarts))
    gangs.await_phases("low", SECONDS, Running=2)

    def is_known() -> bool:
        status = gangs.api.get(POD_GROUPS, "low", gangs.namespace).get("status", {})
        return bool(status.get("phase") == "Running")

    gangs.api.wait_for("the reconciler knows that it is whole", is_known, SECONDS)
    before = {pod["metadata"]["uid"] for pod in gangs.members("low")}
    gangs.delete([gangs.members("low")[0]["metadata"]["name"]])

    def are_new() -> bool:
        now = {pod["metadata"]["uid"] for pod in gangs.members("low")}
        return len(now) == 2 and now.isdisjoint(before)

    gangs.api.wait_for("its pods are made anew", are_new, SECONDS)
    gangs.await_phases("low", SECONDS, Running=2)
    assert gangs.api.get(JOB_SETS, "low", gangs.namespace)["spec"]["suspend"] is False
