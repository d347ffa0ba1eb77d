"""Never more pods of a job have nodes than a queue has admitted, whatever its tenant writes.

Pods are given a day to end, so that one which got a node too early stays there and is counted.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.alone import in_place_of
from tests.cluster.conftest import NodeFactory
from tests.cluster.queues import JOBS, QUEUE, Queues
from tests.cluster.tenants import Tenant, queue_of
from tests.harness import objects
from tests.harness.client import Api, ApiError, Object
from tests.harness.control_plane import ControlPlane
from tests.harness.gang_scheduler import GangScheduler
from tests.harness.kinds import CRDS
from tests.harness.reconciler import Reconciler

pytestmark = pytest.mark.usefixtures("gang", "reconciler")

PODSET = "kueue.x-k8s.io/podset"
WORKLOAD = "kueue.x-k8s.io/workload"
DAY = {"terminationGracePeriodSeconds": 86400}
MANY = 20
PYTORCH_JOBS = "kubeflow.org/v1/pytorchjobs"
REFUSED = "is not admitted"


def with_nodes(api: Api, namespace: str, name: str | None = None) -> int:
    """Return how many pods of a namespace have a node, or those of a Job, ended ones aside."""
    found = api.list("pods", namespace, labels=f"job-name={name}" if name else "")
    return sum(
        "nodeName" in pod["spec"] and pod["status"]["phase"] in ("Pending", "Running")
        for pod in found
    )


def refused(api: Api, namespace: str) -> list[Object]:
    """Return the pods that say that their job is not admitted."""
    return [
        pod
        for pod in api.list("pods", namespace)
        for each in pod["status"].get("conditions", ())
        if each["type"] == "PodScheduled" and REFUSED in each.get("message", "")
    ]


def was_bound(api: Api, namespace: str) -> list[Object]:
    """Return the Events of pods that got nodes."""
    return api.list("events.k8s.io/v1/events", namespace, fields="reason=Scheduled")


@pytest.fixture
def small(tenant: Tenant, queues: Queues, nodes: NodeFactory) -> Tenant:
    """The tenant, with quota for two pods and nodes for many."""
    nodes(4, "8")
    queue_of(tenant, queues, cpu=2)
    return tenant


def started(tenant: Tenant, name: str, pods: int = 2, **options: Any) -> None:
    """Have a Job of the tenant admitted and started."""
    options = {"run_for": "24h", "pod_spec": DAY, "completions": 2 * MANY, **options}
    tenant.queues.job(name, pods, **options)
    tenant.queues.await_started(name)
    tenant.api.wait_for(
        f"{name} runs", lambda: with_nodes(tenant.api, tenant.namespace, name) == pods
    )


def test_no_label_of_a_template_is_taken_for_an_admission(small: Tenant, api: Api) -> None:
    started(small, "first")
    job = objects.job(
        "forged", MANY, namespace=small.namespace, queue="queue", cpu="1", run_for="24h",
        annotations={WORKLOAD: "job-first"}, pod_spec=DAY,
    )  # fmt: skip
    job["spec"]["template"]["metadata"].setdefault("labels", {})[PODSET] = "main"
    small.api.create(job)

    small.queues.await_condition("forged", "QuotaReserved", "False")
    api.wait_for("it is stopped", lambda: small.queues.is_suspended("forged"))
    assert with_nodes(api, small.namespace, "forged") == 0
    assert len(was_bound(api, small.namespace)) == 2


def test_a_running_job_that_asks_for_more_pods_gets_no_node_for_them(
    small: Tenant, api: Api
) -> None:
    started(small, "job")
    body = {"spec": {"parallelism": MANY}}
    small.api.patch(JOBS, "job", small.namespace, body=body)

    api.wait_for("it is stopped", lambda: small.queues.is_suspended("job"))
    assert with_nodes(api, small.namespace) == 2
    assert len(was_bound(api, small.namespace)) == 2


def test_it_is_held_to_its_number_while_nothing_stops_it(
    small: Tenant, api: Api, reconciler: Reconciler, gang: GangScheduler
) -> None:
    started(small, "job")
    reconciler.stop()
    try:
        body = {"spec": {"parallelism": MANY}}
        small.api.patch(JOBS, "job", small.namespace, body=body)
        api.wait_for("the others wait", lambda: len(refused(api, small.namespace)) == MANY - 2)
        gang.extender.kill()
        gang.extender.start()
        gang.wait_ready()
        started_again = api.list("pods", small.namespace)
        small.api.delete("pods", _one_with_a_node(started_again), small.namespace)
        api.wait_for("the others wait", lambda: len(refused(api, small.namespace)) >= MANY - 2)
        assert with_nodes(api, small.namespace) == 2
    finally:
        reconciler.start()


def _one_with_a_node(pods: list[Object]) -> str:
    return str(next(pod["metadata"]["name"] for pod in pods if "nodeName" in pod["spec"]))


def test_a_place_that_is_free_again_is_given_to_one_that_waits(
    small: Tenant, api: Api, reconciler: Reconciler
) -> None:
    started(small, "job", pod_spec={})
    reconciler.stop()
    try:
        small.api.patch(JOBS, "job", small.namespace, body={"spec": {"parallelism": 4}})
        api.wait_for("two wait", lambda: len(refused(api, small.namespace)) == 2)
        before = {pod["metadata"]["name"] for pod in api.list("pods", small.namespace)
                  if "nodeName" in pod["spec"]}  # fmt: skip
        small.api.delete("pods", min(before), small.namespace)

        def another() -> bool:
            there = {pod["metadata"]["name"] for pod in api.list("pods", small.namespace)
                     if "nodeName" in pod["spec"]}  # fmt: skip
            return len(there) == 2 and there != before

        api.wait_for("another one has its place", another)
    finally:
        reconciler.start()


def test_a_job_that_gave_quota_back_and_is_made_longer_gets_no_more_nodes(
    small: Tenant, api: Api, reconciler: Reconciler
) -> None:
    started(small, "job", indexed=True, completions=2)
    ends = {"metadata": {"annotations": {objects.RUN_FOR: "1ms"}}}
    for pod in api.list(
        "pods", small.namespace, labels="batch.kubernetes.io/job-completion-index=0"
    ):
        api.patch("pods", pod["metadata"]["name"], small.namespace, body=ends)

    def given_back() -> bool:
        found = small.queues.workload("job") or {}
        said = found.get("status", {}).get("reclaimablePods")
        return bool(said == [{"name": "main", "count": 1}])

    api.wait_for("quota is given back", given_back)
    reconciler.stop()
    try:
        body = {"spec": {"parallelism": MANY, "completions": MANY}}
        small.api.patch(JOBS, "job", small.namespace, body=body)
        api.wait_for("the others wait", lambda: len(refused(api, small.namespace)) == MANY - 2)
        assert with_nodes(api, small.namespace) == 1
    finally:
        reconciler.start()


def test_members_of_a_gang_are_held_to_the_number_too(
    small: Tenant, api: Api, reconciler: Reconciler
) -> None:
    small.api.create(objects.pod_group("gang", 2, namespace=small.namespace))
    started(small, "job", group="gang")
    reconciler.stop()
    try:
        small.api.patch(JOBS, "job", small.namespace, body={"spec": {"parallelism": MANY}})
        api.wait_for("the others wait", lambda: len(refused(api, small.namespace)) == MANY - 2)
        assert with_nodes(api, small.namespace) == 2
    finally:
        reconciler.start()


def test_a_queue_label_that_goes_frees_nothing(
    small: Tenant, api: Api, reconciler: Reconciler
) -> None:
    started(small, "job")
    reconciler.stop()
    try:
        body: Object = {"metadata": {"labels": {QUEUE: None}}, "spec": {"parallelism": MANY}}
        small.api.patch(JOBS, "job", small.namespace, body=body)
        api.wait_for("the others wait", lambda: len(refused(api, small.namespace)) == MANY - 2)
        assert with_nodes(api, small.namespace) == 2
    finally:
        reconciler.start()


def test_pods_that_name_an_admitted_job_as_their_owner_count_with_it(
    small: Tenant, api: Api
) -> None:
    started(small, "job")
    job = {**small.api.get(JOBS, "job", small.namespace), "apiVersion": "batch/v1", "kind": "Job"}
    own: list[str] = []

    # The Job controller soon disowns a pod that the selector of the Job does not match, and then
    # the pod counts against nothing. So another one comes until kube-scheduler has tried one in
    # time; the Event of the refusal stays.
    def owned() -> list[Object]:
        pods = api.list("pods", small.namespace)
        return [pod for pod in pods if pod["metadata"].get("ownerReferences")]

    def waits() -> bool:
        if not own or all(pod["metadata"]["name"] != own[-1] for pod in owned()):
            own.append(f"own-{len(own)}")
            small.api.create(owned_by(job, own[-1], small.namespace))
        failed = api.list(
            "events.k8s.io/v1/events", small.namespace, fields="reason=FailedScheduling"
        )
        return any(
            each["regarding"]["name"] in own and REFUSED in each.get("note", "") for each in failed
        )

    api.wait_for("it waits", waits)
    assert sum("nodeName" in pod["spec"] for pod in owned()) == 2


def test_no_pod_of_another_kind_gets_a_node_before_its_job_is_admitted(
    small: Tenant, api: Api
) -> None:
    api.apply(CRDS)
    template = {"spec": {"containers": objects.pod("one", cpu="1")["spec"]["containers"]}}
    job = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "train", "namespace": small.namespace, "labels": {QUEUE: "queue"}},
        "spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": 9, "template": template}}},
    }
    api.wait_for("the kind is served", lambda: is_served(api, small.namespace))
    stored = api.create(job)
    made: list[str] = []

    def waits() -> bool:
        """The kind is looked for every few seconds: pods that come before have their nodes."""
        made.append(f"train-{len(made)}")
        pod = owned_by(stored, made[-1], small.namespace)
        api.create(pod)
        return bool(refused(api, small.namespace))

    api.wait_for("one waits", waits)
    before = with_nodes(api, small.namespace)
    waits()
    api.wait_for(
        "all others wait", lambda: len(refused(api, small.namespace)) == len(made) - before
    )


def is_served(api: Api, namespace: str) -> bool:
    """Return whether the API server knows the kind by now."""
    try:
        api.list(PYTORCH_JOBS, namespace)
    except ApiError:
        return False
    return True


def owned_by(job: Object, name: str, namespace: str) -> Object:
    """Return a pod that says that a job controls it."""
    pod = objects.pod(name, namespace=namespace, cpu="1")
    pod["metadata"]["ownerReferences"] = [objects.owner(job)]
    return pod


@pytest.fixture
def manages_all(control_plane: ControlPlane, reconciler: Reconciler) -> Iterator[Reconciler]:
    """A reconciler that manages jobs without a queue name."""
    settings = {"queue": {"manageJobsWithoutQueueName": True}}
    with in_place_of(reconciler, control_plane, "manages-all", settings) as other:
        yield other


@pytest.mark.usefixtures("manages_all")
def test_a_job_without_a_queue_gets_no_node_where_all_jobs_are_managed(
    small: Tenant, api: Api
) -> None:
    job = objects.job("job", MANY, namespace=small.namespace, cpu="1", run_for="24h", pod_spec=DAY)
    small.api.create(job)

    api.wait_for("it is stopped", lambda: small.queues.is_suspended("job"))
    assert was_bound(api, small.namespace) == []
    assert with_nodes(api, small.namespace) == 0
