"""What people see of the queue: over HTTP, on the command line, in metrics and by kubectl."""

import json
import subprocess
from collections.abc import Mapping
from typing import Any

import httpx
import pytest

from tests.cluster.conftest import NodeFactory
from tests.cluster.queues import API, WORKLOADS, Queues
from tests.harness.client import Api, Object
from tests.harness.control_plane import ControlPlane
from tests.harness.process import run_command
from tests.harness.reconciler import Reconciler
from tests.harness.started import metrics

LONG = "10m"
VISIBILITY = "/apis/visibility.kueue.x-k8s.io/v1beta2"

pytestmark = pytest.mark.usefixtures("gang", "reconciler")


def get(reconciler: Reconciler, path: str, **params: int) -> tuple[int, Object]:
    answer = httpx.get(f"{reconciler.url}{path}", params=params, trust_env=False, timeout=60)
    return answer.status_code, answer.json()


def explain(control_plane: ControlPlane, *words: str) -> subprocess.CompletedProcess[str]:
    return run_command("explain", *words, "--kubeconfig", control_plane.admin_kubeconfig)


def name_of(queues: Queues, job: str) -> str:
    workload = queues.its_workload(job)
    return str(workload["metadata"]["name"])


def end(queues: Queues, job: str) -> None:
    """Have all pods of a job succeed; return when its workload has ended."""

    def ended() -> bool:
        for pod in queues.pods(job):
            if pod["status"].get("phase") != "Succeeded":
                queues.end(pod)
        return queues.condition(job, "Finished").get("status") == "True"

    queues.api.wait_for(f"{job} ends", ended)


@pytest.fixture
def two_jobs(queues: Queues, nodes: NodeFactory) -> tuple[str, str]:
    """A queue of three CPUs, of which `first` has two, so that `second` waits for one more."""
    nodes(2, "4")
    cluster_queue, local_queue = queues.simple(cpu=3)
    queues.job("first", 2, run_for=LONG)
    queues.await_admitted("first")
    queues.job("second", 2, run_for=LONG)
    queues.await_condition("second", "QuotaReserved", "False", reason="WaitingForQuota")
    return cluster_queue, local_queue


def test_a_waiting_workload_is_shown_with_its_place_and_the_workloads_that_have_what_it_needs(
    queues: Queues, reconciler: Reconciler, two_jobs: tuple[str, str]
) -> None:
    cluster_queue, local_queue = two_jobs
    first, second = name_of(queues, "first"), queues.workload("second")
    assert second is not None

    status, reported = get(reconciler, f"/clusterqueues/{cluster_queue}/pendingworkloads")

    assert status == 200
    assert (reported["apiVersion"], reported["kind"]) == (
        "visibility.kueue.x-k8s.io/v1beta2",
        "PendingWorkloadsSummary",
    )
    [item] = reported["items"]
    owner = second["metadata"]["ownerReferences"][0]
    assert item["metadata"] == {
        "name": second["metadata"]["name"],
        "namespace": queues.namespace,
        "creationTimestamp": second["metadata"]["creationTimestamp"],
        "ownerReferences": [
            {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "name": "second",
                "uid": owner["uid"],
                "controller": True,
            }
        ],
    }
    assert (item["priority"], item["localQueueName"]) == (0, local_queue)
    assert (item["positionInClusterQueue"], item["positionInLocalQueue"]) == (0, 0)
    assert item["reason"] == "WaitingForQuota"
    assert "1 more needed" in item["message"]
    [lack] = item["waitingFor"]
    assert (lack["resource"], lack["missing"]) == ("cpu", "1")
    [holder] = lack["holders"]
    assert (holder["name"], holder["job"], holder["amount"]) == (first, "Job/first", "2")

    ways = (
        f"/localqueues/{queues.namespace}/{local_queue}/pendingworkloads",
        f"{VISIBILITY}/clusterqueues/{cluster_queue}/pendingworkloads",
        f"{VISIBILITY}/namespaces/{queues.namespace}/localqueues/{local_queue}/pendingworkloads",
    )
    assert [get(reconciler, way) for way in ways] == [(200, reported)] * 3


def test_the_command_says_what_a_job_waits_for(
    control_plane: ControlPlane, queues: Queues, two_jobs: tuple[str, str]
) -> None:
    cluster_queue, _ = two_jobs
    here = ("-n", queues.namespace)

    said = explain(control_plane, "job", "second", *here)
    reported = explain(control_plane, "job", "second", *here, "-o", "json")

    assert (said.returncode, said.stderr) == (0, "")
    lines = [" ".join(line.split()) for line in said.stdout.splitlines()]
    assert "Job Job/second" in lines
    assert "State Pending (WaitingForQuota)" in lines
    assert "Position 1 of 1 in the ClusterQueue, 1 of 1 in the LocalQueue" in lines
    flavor = f"{cluster_queue.replace('cq-', 'cq-flavor-')}"
    assert f"Waits for 1 more cpu of flavor {flavor}. Held by:" in lines
    first = f"{queues.namespace}/{name_of(queues, 'first')} Job/first {cluster_queue} 2 0"
    assert any(line.startswith(first) for line in lines)
    assert f"{flavor} cpu 2 3 - 2 1 1" in lines
    document = json.loads(reported.stdout)
    assert (document["state"], document["reason"]) == ("Pending", "WaitingForQuota")
    assert document["waitingFor"][0]["holders"][0]["job"] == "Job/first"


def test_what_the_command_and_the_reconciler_say_is_the_same(
    control_plane: ControlPlane,
    queues: Queues,
    reconciler: Reconciler,
    two_jobs: tuple[str, str],
) -> None:
    queues.await_condition("first", "PodsReady")
    for job in ("first", "second"):
        name = name_of(queues, job)
        both: list[Object] = []

        def is_the_same(name: str = name, both: list[Object] = both) -> bool:
            _, served = get(reconciler, f"/workloads/{queues.namespace}/{name}/explanation")
            read = explain(control_plane, "workload", name, "-n", queues.namespace, "-o", "json")
            both[:] = [json.loads(read.stdout), served]
            return both[0] == both[1]

        try:  # one of them may have seen more than the other
            queues.api.wait_for("both say the same", is_the_same)
        except AssertionError:
            assert both[0] == both[1]


def test_the_numbers_are_in_the_metrics(
    queues: Queues, reconciler: Reconciler, two_jobs: tuple[str, str]
) -> None:
    cluster_queue, local_queue = two_jobs
    flavor = cluster_queue.replace("cq-", "cq-flavor-")
    queue = f'cluster_queue="{cluster_queue}"'
    amount = f'cluster_queue="{cluster_queue}",cohort="",flavor="{flavor}"'
    local = f'name="{local_queue}",namespace="{queues.namespace}"'
    want = {
        f'kueue_pending_workloads{{{queue},status="inadmissible"}}': 1,
        f'kueue_pending_workloads{{{queue},status="active"}}': 0,
        f"kueue_reserving_active_workloads{{{queue}}}": 1,
        f"kueue_admitted_active_workloads{{{queue}}}": 1,
        f'kueue_cluster_queue_status{{{queue},status="active"}}': 1,
        f'kueue_cluster_queue_status{{{queue},status="pending"}}': 0,
        f'kueue_cluster_queue_nominal_quota{{{amount},resource="cpu"}}': 3,
        f'kueue_cluster_queue_resource_reservation{{{amount},resource="cpu"}}': 2,
        f'kueue_cluster_queue_resource_usage{{{amount},resource="memory"}}': 2 * 64 * 2**20,
        f'kueue_local_queue_pending_workloads{{{local},status="inadmissible"}}': 1,
        f"kueue_local_queue_admitted_active_workloads{{{local}}}": 1,
    }

    await_samples(queues, reconciler, want)

    end(queues, "first")
    ended = f'kueue_finished_workloads_total{{{queue},priority_class=""}}'
    queues.await_admitted("second")
    await_samples(
        queues, reconciler, {f'kueue_pending_workloads{{{queue},status="inadmissible"}}': 0}
    )
    queues.api.wait_for("its end is counted", lambda: reconciler.metric(ended) == 1)


def await_samples(queues: Queues, reconciler: Reconciler, want: Mapping[str, float]) -> None:
    """Wait until all samples are as wanted at one time."""
    try:
        queues.api.wait_for("the numbers", lambda: samples(reconciler, want) == want)
    except AssertionError:
        assert samples(reconciler, want) == want


def samples(reconciler: Reconciler, names: Any) -> dict[str, float]:
    page = metrics(reconciler.url)
    found = dict(line.rsplit(" ", 1) for line in page.splitlines() if not line.startswith("#"))
    return {name: float(found[name]) if name in found else -1.0 for name in names}


def test_evictions_are_counted(queues: Queues, reconciler: Reconciler, nodes: NodeFactory) -> None:
    nodes(1, "4")
    cluster_queue, _ = queues.simple(cpu=3)
    queues.job("job", 2, run_for=LONG)
    queues.await_admitted("job")

    stop = {"spec": {"stopPolicy": "HoldAndDrain"}}
    queues.api.patch(f"{API}/clusterqueues", cluster_queue, body=stop)

    counted = (
        f'kueue_evicted_workloads_total{{cluster_queue="{cluster_queue}",priority_class="",'
        'reason="ClusterQueueStopped",underlying_cause=""}'
    )
    queues.api.wait_for("the eviction is counted", lambda: reconciler.metric(counted) == 1)


def test_the_columns_that_kubectl_shows(
    api: Api, queues: Queues, two_jobs: tuple[str, str]
) -> None:
    cluster_queue, local_queue = two_jobs
    first, second = name_of(queues, "first"), name_of(queues, "second")
    named = f"?fieldSelector=metadata.name={cluster_queue}"

    def shows(path: str, **want: Any) -> None:
        def reached() -> bool:
            shown = {str(row["Name"]): row for row in table(api, path)}
            return all(
                {key: shown.get(name, {}).get(key) for key in cells} == cells
                for name, cells in want.items()
            )

        # Numbers pause for 40 times what the last write took, at most 30 s.
        api.wait_for(f"{path} shows {want}", reached, timeout=120)

    workloads = f"/apis/{API}/namespaces/{queues.namespace}/workloads"
    shows(
        workloads,
        **{
            first: {
                "Queue": local_queue,
                "Reserved in": cluster_queue,
                "Admitted": "True",
                "Finished": None,
            },
            second: {"Queue": local_queue, "Reserved in": None, "Admitted": None},
        },
    )
    shows(
        f"/apis/{API}/clusterqueues{named}",
        **{cluster_queue: {"Pending Workloads": 1, "Admitted Workloads": 1}},
    )
    shows(
        f"/apis/{API}/namespaces/{queues.namespace}/localqueues",
        **{
            local_queue: {
                "ClusterQueue": cluster_queue,
                "Pending Workloads": 1,
                "Admitted Workloads": 1,
            }
        },
    )

    end(queues, "first")
    shows(workloads, **{first: {"Finished": "True"}, second: {"Admitted": "True"}})
    assert len(api.list(WORKLOADS, queues.namespace)) == 2


def table(api: Api, path: str) -> list[dict[str, Any]]:
    """Return the rows that kubectl would print, by column."""
    accept = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    answer = api._http.get(path, headers=accept).json()
    names = [each["name"] for each in answer["columnDefinitions"]]
    return [dict(zip(names, row["cells"], strict=True)) for row in answer["rows"]]
