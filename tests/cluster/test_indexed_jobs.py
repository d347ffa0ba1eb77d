"""Indexed Jobs from the queue to the node: their pods know who they are, and start in order."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.conftest import NodeFactory
from tests.cluster.gangs import Gangs
from tests.cluster.queues import JOBS, WORKLOADS, Queues
from tests.harness.client import Api, Object
from tests.harness.reconciler import Reconciler

pytestmark = pytest.mark.usefixtures("gang", "reconciler")

INDEX = "batch.kubernetes.io/job-completion-index"
SAMPLE = Path(__file__).parents[2] / "manifests" / "samples" / "indexed-job.yaml"
PATIENT = 60


def pods_of(queues: Queues, job: str) -> list[Object]:
    """Return the pods of a job by their index."""
    pods = queues.api.list("pods", queues.namespace, labels=f"job-name={job}")
    return sorted(pods, key=lambda pod: int(pod["metadata"]["annotations"][INDEX]))


def await_running(queues: Queues, job: str, *indexes: int) -> list[Object]:
    """Wait until pods of these indexes run, and no others; return them."""

    def run() -> list[Object]:
        return [pod for pod in pods_of(queues, job) if pod["status"].get("phase") == "Running"]

    def there() -> bool:
        return tuple(int(pod["metadata"]["labels"][INDEX]) for pod in run()) == indexes

    queues.api.wait_for(f"indexes {indexes} of {job} run", there, PATIENT)
    return run()


def end(queues: Queues, pod: Object, phase: str) -> None:
    body = {"status": {"phase": phase}}
    name = pod["metadata"]["name"]
    queues.api.patch("pods", name, queues.namespace, body=body, subresource="status")


def test_a_gang_of_all_indexes_starts_and_each_pod_knows_its_own(
    queues: Queues, gangs: Gangs, nodes: NodeFactory
) -> None:
    nodes(2, "2")
    queues.simple(cpu=4)
    gangs.create_group("ranks", 4)
    queues.job("mpi", 4, indexed=True, group="ranks", run_for="1h", pod_spec={"subdomain": "mpi"})

    pods = await_running(queues, "mpi", 0, 1, 2, 3)

    for index, pod in enumerate(pods):
        metadata, spec = pod["metadata"], pod["spec"]
        assert metadata["annotations"][INDEX] == metadata["labels"][INDEX] == str(index)
        assert metadata["name"].startswith(f"mpi-{index}-")
        assert (spec["hostname"], spec["subdomain"]) == (f"mpi-{index}", "mpi")
        [env] = spec["containers"][0]["env"]
        assert env["name"] == "JOB_COMPLETION_INDEX"
        assert INDEX in env["valueFrom"]["fieldRef"]["fieldPath"]


def test_a_gang_that_does_not_fit_starts_none_of_its_indexes(
    queues: Queues, gangs: Gangs, nodes: NodeFactory
) -> None:
    nodes(1, "3")
    queues.simple(cpu=4)
    gangs.create_group("ranks", 4)
    queues.job("mpi", 4, indexed=True, group="ranks", run_for="1h")
    queues.await_admitted("mpi")
    gangs.await_refused("ranks", "3 of the 4 pods that it still needs fit", timeout=PATIENT)
    assert gangs.bound("ranks") == set()

    nodes(1, "1", prefix="more")
    await_running(queues, "mpi", 0, 1, 2, 3)


def test_lower_indexes_have_the_room_that_there_is(gangs: Gangs, nodes: NodeFactory) -> None:
    """The highest index is the oldest pod, and the one that is tried first."""
    nodes(1, "2")
    for index in (3, 2, 1, 0):
        labels = {INDEX: str(index)}
        gangs.api.create(gangs.pod(f"rank-{index}", cpu="1", group="ranks", labels=labels))
    gangs.await_refused("ranks", "there is no such PodGroup", count=4, timeout=PATIENT)

    gangs.create_group("ranks", 2)

    gangs.await_phases("ranks", timeout=PATIENT, Running=2, Pending=2)
    assert gangs.bound("ranks") == {"rank-0", "rank-1"}


def test_a_partly_finished_gang_starts_again_with_the_indexes_that_are_left(
    queues: Queues, gangs: Gangs, nodes: NodeFactory
) -> None:
    nodes(1, "4")
    queues.simple(cpu=4)
    gangs.create_group("ranks", 4)
    queues.job("mpi", 4, indexed=True, group="ranks", backoffLimitPerIndex=0, run_for="1h")
    pods = await_running(queues, "mpi", 0, 1, 2, 3)
    end(queues, pods[0], "Succeeded")
    end(queues, pods[2], "Failed")

    def told() -> bool:
        workload: Any = queues.workload("mpi")
        return workload["status"].get("reclaimablePods") == [{"name": "main", "count": 2}]

    queues.api.wait_for("two indexes are done for good", told, PATIENT)
    workload: Any = queues.workload("mpi")

    def set_active(*, active: bool) -> None:
        name, body = workload["metadata"]["name"], {"spec": {"active": active}}
        queues.api.patch(WORKLOADS, name, queues.namespace, body=body)

    set_active(active=False)
    queues.await_condition("mpi", "QuotaReserved", "False")
    set_active(active=True)

    await_running(queues, "mpi", 1, 3)
    workload = queues.workload("mpi")
    [given] = workload["status"]["admission"]["podSetAssignments"]
    assert given["count"] == 2


@pytest.mark.parametrize(("exit_code", "result"), [("0", "succeeded"), ("1", "failed")])
def test_jobs_and_looks_at_them_are_counted_by_mode(
    queues: Queues, nodes: NodeFactory, reconciler: Reconciler, exit_code: str, result: str
) -> None:
    nodes(1, "4")
    queues.simple(cpu=4)
    ended = f'job_finished_total{{completion_mode="Indexed",result="{result}"}}'
    looks = 'job_sync_total{completion_mode="Indexed",result="success"}'
    seconds = 'job_sync_duration_seconds_count{completion_mode="Indexed",result="success"}'
    before = {name: reconciler.metric(name) for name in (ended, looks, seconds)}

    annotations = {"harness/exit-code": exit_code}
    queues.job("job", 2, indexed=True, run_for="100ms", annotations=annotations, backoffLimit=0)
    queues.await_finished("job")

    queues.api.wait_for(
        "its end is counted", lambda: reconciler.metric(ended) == before[ended] + 1, PATIENT
    )
    assert reconciler.metric(looks) > before[looks]
    assert reconciler.metric(seconds) > before[seconds]


def test_the_sample_runs(api: Api, queues: Queues, nodes: NodeFactory) -> None:
    """In a namespace and under queues of the test's own: names are the cluster's."""
    nodes(1, "8")
    sample = [each for each in yaml.safe_load_all(SAMPLE.read_text()) if each]
    queues.simple(cpu=8)
    made = [each for each in sample if each["kind"] in ("Service", "PodGroup", "Job")]
    for each in made:
        each["metadata"]["namespace"] = queues.namespace
    [job] = [each for each in made if each["kind"] == "Job"]
    name = job["metadata"]["name"]
    job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = "queue"
    template = job["spec"]["template"]
    template["metadata"].setdefault("annotations", {})["harness/run-for"] = "1h"
    api.create(*made)

    pods = await_running(queues, name, *range(job["spec"]["completions"]))

    [service] = [each for each in made if each["kind"] == "Service"]
    assert service["spec"]["clusterIP"] == "None"
    assert {pod["spec"]["subdomain"] for pod in pods} == {service["metadata"]["name"]}
    selector = service["spec"]["selector"].items()
    assert all(selector <= pod["metadata"]["labels"].items() for pod in pods)
    assert api.get(JOBS, name, queues.namespace)["status"]["active"] == len(pods)

    # A pod that may be replaced keeps its finalizer until it is, which it cannot be any more in a
    # namespace that is deleted.
    api.delete(JOBS, name, queues.namespace)
    queues.api.wait_for("its pods are gone", lambda: not pods_of(queues, name), PATIENT)
