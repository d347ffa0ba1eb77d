"""Indexed Jobs from the queue to the node: their pods know their index, and start in order."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.conftest import NodeFactory
from tests.cluster.gangs import POD_GROUPS, Gangs
from tests.cluster.queues import JOBS, WORKLOADS, Queues
from tests.harness.client import Api, Object
from tests.harness.reconciler import Reconciler

pytestmark = pytest.mark.usefixtures("gang", "reconciler")

INDEX = "batch.kubernetes.io/job-completion-index"
SAMPLE = Path(__file__).parents[2] / "manifests" / "samples" / "indexed-job.yaml"
SLICES = "discovery.k8s.io/v1/endpointslices"
CLUSTER_WIDE = {"ResourceFlavor": "resourceflavors", "ClusterQueue": "clusterqueues"}
PATIENT = 120


def pods_of(queues: Queues, job: str) -> list[Object]:
    """Return the pods of a job by their index."""
    pods = queues.pods(job)
    return sorted(pods, key=lambda pod: int(pod["metadata"]["annotations"][INDEX]))


def await_running(queues: Queues, job: str, *indexes: int) -> list[Object]:
    """Wait until pods of these indexes run, and no others; return them."""

    def run() -> list[Object]:
        return [pod for pod in pods_of(queues, job) if pod["status"].get("phase") == "Running"]

    def there() -> bool:
        return tuple(int(pod["metadata"]["labels"][INDEX]) for pod in run()) == indexes

    queues.api.wait_for(f"indexes {indexes} of {job} run", there, PATIENT)
    return run()


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


@pytest.mark.parametrize("own", [True, False], ids=["its own group", "the group that is made"])
def test_a_partly_finished_gang_starts_again_with_the_indexes_that_are_left(
    queues: Queues, gangs: Gangs, nodes: NodeFactory, own: bool
) -> None:
    """One has succeeded, and one has failed for good."""
    nodes(1, "4")
    name, _ = queues.simple(cpu=4)
    if own:
        gangs.create_group("ranks", 4)
    else:
        queues.require_room(name)
    group = "ranks" if own else None
    queues.job("mpi", 4, indexed=True, group=group, backoffLimitPerIndex=0, run_for="1h")
    pods = await_running(queues, "mpi", 0, 1, 2, 3)
    queues.end(pods[0], "Succeeded")
    queues.end(pods[2], "Failed")

    def reported() -> bool:
        workload: Any = queues.its_workload("mpi")
        counts = workload["status"].get("reclaimablePods")
        return bool(counts == [{"name": "main", "count": 2}])

    queues.api.wait_for("two indexes are done for good", reported, PATIENT)
    workload: Any = queues.its_workload("mpi")
    name = workload["metadata"]["name"]

    def set_active(*, active: bool) -> None:
        queues.api.patch(WORKLOADS, name, queues.namespace, body={"spec": {"active": active}})

    set_active(active=False)
    queues.await_condition("mpi", "QuotaReserved", "False")
    queues.api.wait_for("all pods are gone", lambda: not left(queues, "mpi"), PATIENT)
    set_active(active=True)

    await_running(queues, "mpi", 1, 3)
    workload = queues.workload("mpi")
    [given] = workload["status"]["admission"]["podSetAssignments"]
    assert given["count"] == 2
    if not own:
        made = queues.api.get(POD_GROUPS, name, queues.namespace)
        assert made["spec"]["minMember"] == 2


def left(queues: Queues, job: str) -> list[Object]:
    """Return the pods of a job that have not ended."""
    ended = ("Succeeded", "Failed")
    return [pod for pod in pods_of(queues, job) if pod["status"].get("phase") not in ended]


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

    def await_counted(ends: int) -> None:
        what = f"{ends} ends are counted"
        there = before[ended] + ends
        queues.api.wait_for(what, lambda: reconciler.metric(ended) >= there, PATIENT)
        assert reconciler.metric(ended) == there

    await_counted(1)
    assert reconciler.metric(looks) > before[looks]
    assert reconciler.metric(seconds) > before[seconds]

    # It is looked at once more, before one that ends after it.
    body = {"metadata": {"annotations": {"test.example/seen": "again"}}}
    queues.api.patch(JOBS, "job", queues.namespace, body=body)
    queues.job("next", 2, indexed=True, run_for="100ms", annotations=annotations, backoffLimit=0)
    queues.await_finished("next")
    await_counted(2)


def test_the_sample_runs_with_a_name_for_each_pod(
    api: Api, queues: Queues, nodes: NodeFactory
) -> None:
    """All that is in it, in a namespace of the test's own; what its containers do is not tried."""
    nodes(1, "8")
    sample = [each for each in yaml.safe_load_all(SAMPLE.read_text()) if each]
    for each in sample:
        if each["kind"] in CLUSTER_WIDE:
            queues.made(CLUSTER_WIDE[each["kind"]], each["metadata"]["name"])
        else:
            each["metadata"]["namespace"] = queues.namespace
    [job] = [each for each in sample if each["kind"] == "Job"]
    job["spec"]["template"]["metadata"]["annotations"] = {"harness/run-for": "1h"}
    api.create(*sample)

    pods = await_running(queues, "ring", 0, 1, 2, 3)

    names = [f"ring-{index}" for index in range(4)]
    assert [pod["spec"]["hostname"] for pod in pods] == names
    assert {pod["spec"]["subdomain"] for pod in pods} == {"ring"}
    for pod in pods:
        [env] = pod["spec"]["containers"][0]["env"]
        assert env["name"] == "JOB_COMPLETION_INDEX"
        assert INDEX in env["valueFrom"]["fieldRef"]["fieldPath"]
    ips = {pod["spec"]["hostname"]: pod["status"]["podIP"] for pod in pods}

    def named() -> dict[str, str]:
        """Return what DNS is made of."""
        slices = api.list(SLICES, queues.namespace, labels="kubernetes.io/service-name=ring")
        ends = [end for each in slices for end in each.get("endpoints") or []]
        return {end["hostname"]: end["addresses"][0] for end in ends if "hostname" in end}

    api.wait_for("each pod has its name", lambda: named() == ips, PATIENT)
