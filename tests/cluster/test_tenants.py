"""What a tenant with `edit` in one namespace can do to the others: nothing.

The tenant is a user of its own. It may write what `edit` lets it, and PodGroups, Workloads and
JobSets, but no status of them. After each of its tricks a gang and a Job of another namespace start
as if nothing were there.
"""

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from tests.cluster.alone import in_place_of
from tests.cluster.gangs import POD_GROUPS
from tests.cluster.pods_ready import OWN, TIMEOUT
from tests.cluster.queues import API, JOBS, WORKLOADS, Queues, condition
from tests.cluster.tenants import Others, Tenant, bind, queue_of
from tests.harness import kinds, objects
from tests.harness.client import Api, ApiError, Object
from tests.harness.control_plane import ControlPlane
from tests.harness.gang_scheduler import GangScheduler
from tests.harness.kinds import CRDS, fresh
from tests.harness.reconciler import Reconciler
from tests.tiers import LONG

RAY_CLUSTERS = "ray.io/v1/rayclusters"
JOB_SETS = "jobset.x-k8s.io/v1alpha2/jobsets"
GRANT = f"{OWN}/granted-room"
"""An annotation that once kept room on nodes."""


# -- gangs


@pytest.mark.usefixtures("gang", "reconciler")
def test_a_tenant_keeps_no_room(tenant: Tenant, others: Others) -> None:
    room = ",".join(f'"{name}":{{"cpu":"1000000"}}' for name in others.nodes)
    group = objects.pod_group("greedy", 1, namespace=tenant.namespace)
    said = f'{{"until":"2099-01-01T00:00:00Z","nodes":{{{room}}}}}'
    group["metadata"]["annotations"] = {GRANT: said}
    amounts = {name: {"cpu": "1000000"} for name in others.nodes}
    group["status"] = {"grantedRoom": {"until": "2099-01-01T00:00:00Z", "nodes": amounts}}
    tenant.api.create(group)

    stored = tenant.api.get(POD_GROUPS, "greedy", tenant.namespace)
    assert "grantedRoom" not in stored.get("status", {})
    assert tenant.forbidden(POD_GROUPS, "greedy", group["status"])
    others.gangs.await_seen()
    others.start()


@LONG
def test_hundreds_of_pods_that_wait_take_no_room_from_others(
    aging_gang: GangScheduler, reconciler: Reconciler, tenant: Tenant, others: Others
) -> None:
    """No claim is made for what never fits, however long and however often it waits."""
    groups = [f"wide-{number}" for number in range(6)]
    for group in groups:  # each asks for more than there is
        tenant.gangs.create(group, 100, cpu="200m", scheduler_name="aging")
    for group in groups:
        tenant.gangs.await_refused(group, "", timeout=120)
    assert aging_gang.metric("gang_extender_claims") == 0
    others.start(scheduler_name="aging", timeout=120)
    tenant.api.delete_all("pods", tenant.namespace, grace_seconds=0)
    tenant.api.wait_for("its pods are gone", lambda: not tenant.api.list("pods", tenant.namespace))


# -- the queue


@pytest.fixture
def blocking(control_plane: ControlPlane, reconciler: Reconciler) -> Iterator[Reconciler]:
    """A reconciler that admits one after the other, in the place of the one that all share."""
    pods_ready = {
        "enable": True,
        "timeout": 15,
        "blockAdmission": True,
        "requeuingStrategy": {"backoffBaseSeconds": 600},
    }
    settings = {"queue": {"waitForPodsReady": pods_ready}}
    with in_place_of(reconciler, control_plane, "tenants-blocking", settings) as other:
        yield other


@pytest.mark.usefixtures("gang", "blocking")
def test_a_job_that_is_never_ready_blocks_admission_no_longer_than_its_queue_says(
    tenant: Tenant, queues: Queues, others: Others
) -> None:
    queue_of(tenant, queues)
    patience = {"metadata": {"annotations": {TIMEOUT: "1h"}}}
    queues.api.patch(f"{API}/clusterqueues", queues.name("cq"), body=patience)
    far = {
        TIMEOUT: "87600h",
        f"{OWN}/pods-ready-recovery-timeout": "0",
        f"{OWN}/pods-ready-backoff-base": "0",
        f"{OWN}/pods-ready-backoff-max": "0",
        f"{OWN}/pods-ready-block-admission": "false",
    }
    never = {"nodeSelector": {"there": "is-none"}}
    tenant.queues.job("never", labels=far, pod_spec=never)
    tenant.queues.await_condition("never", "Evicted", reason="PodsReadyTimeout")

    def reported() -> list[str]:
        events = tenant.api.list("events.k8s.io/v1/events", tenant.namespace)
        return [event["note"] for event in events if event["reason"] == "OverrideLimited"]

    tenant.api.wait_for("an Event says so", reported)
    [note] = reported()
    assert f"{TIMEOUT}=87600h counts as 15s" in note
    others.start()


@pytest.mark.usefixtures("gang", "reconciler")
def test_a_tenant_gives_itself_no_quota(tenant: Tenant, queues: Queues, others: Others) -> None:
    name = queue_of(tenant, queues, cpu=0)
    body = made_workload("own", tenant.namespace)
    moment = "2026-01-01T00:00:00Z"
    given = {
        "name": "main",
        "count": 1,
        "flavors": {"cpu": queues.name("tenant-flavor")},
        "resourceUsage": {"cpu": "1"},
    }
    admitted = {"type": "Admitted", "status": "True", "reason": "Mine", "message": ""}
    status = {
        "admission": {"clusterQueue": name, "podSetAssignments": [given]},
        "conditions": [
            {**admitted, "lastTransitionTime": moment},
            {**admitted, "type": "QuotaReserved", "lastTransitionTime": moment},
        ],
    }
    tenant.api.create({**body, "status": status})
    assert tenant.forbidden(WORKLOADS, "own", status)
    tenant.api.wait_for(
        "its condition says that it waits",
        lambda: (
            condition(tenant.api.get(WORKLOADS, "own", tenant.namespace), "QuotaReserved").get(
                "status"
            )
            == "False"
        ),
    )
    stored = tenant.api.get(WORKLOADS, "own", tenant.namespace)
    assert "admission" not in stored["status"]
    tenant.queues.job("brings", labels={"kueue.x-k8s.io/prebuilt-workload-name": "own"})
    tenant.queues.job("plain")
    tenant.queues.await_condition("plain", "QuotaReserved", "False")
    assert tenant.queues.is_suspended("brings")
    others.start()


@pytest.mark.misplaces("a tenant's Workload names a job of others as its owner")
@pytest.mark.usefixtures("gang", "reconciler")
def test_a_workload_that_claims_the_job_of_others_is_no_part_of_it(
    tenant: Tenant, queues: Queues, others: Others
) -> None:
    queue_of(tenant, queues, cpu=8)
    victim = others.queues.job("victim", 2, run_for="1h")
    others.queues.await_started("victim")
    before = others.queues.its_workload("victim")
    owner = objects.owner(victim)
    finalizers = ["example.com/stays"]
    for number, count in enumerate((1, 2)):
        body = made_workload(f"claims-{number}", tenant.namespace, count=count)
        body["metadata"] |= {"ownerReferences": [owner], "finalizers": finalizers}
        tenant.api.create(body)
    # A child of a job that was admitted elsewhere has no quota from it.
    child = objects.job("child", namespace=tenant.namespace, queue="queue", suspend=False)
    child["metadata"]["ownerReferences"] = [owner]
    child["spec"]["suspend"] = False
    try:
        tenant.api.create(child)
        others.start()
        after = others.queues.its_workload("victim")
        assert after["metadata"]["uid"] == before["metadata"]["uid"]
        assert condition(after, "Evicted") == {}
        assert not others.queues.is_suspended("victim")
        assert after["spec"] == before["spec"]
    finally:
        for number in range(2):
            free = {"metadata": {"finalizers": None}}
            name = f"claims-{number}"
            if tenant.api.find(WORKLOADS, name, tenant.namespace):
                tenant.api.patch(WORKLOADS, name, tenant.namespace, body=free)


@pytest.mark.usefixtures("gang", "reconciler")
def test_the_name_of_a_workload_cannot_be_taken(
    tenant: Tenant, queues: Queues, others: Others
) -> None:
    """A pod group's is known beforehand: it is that of the group."""
    queue_of(tenant, queues, cpu=8)
    tenant.api.create(made_workload("taken", tenant.namespace))
    labels = {"kueue.x-k8s.io/queue-name": "queue", "kueue.x-k8s.io/pod-group-name": "taken"}
    for number in range(2):
        pod = objects.pod(
            f"taken-{number}",
            namespace=tenant.namespace,
            labels=labels,
            annotations={"kueue.x-k8s.io/pod-group-total-count": "2"},
            gates=["kueue.x-k8s.io/admission"],
            run_for="1h",
        )
        tenant.api.create(pod)

    def run() -> bool:
        pods = tenant.api.list("pods", tenant.namespace)
        return [pod["status"]["phase"] for pod in pods] == ["Running"] * 2

    tenant.api.wait_for("the group runs", run)
    others.start()


@pytest.mark.usefixtures("gang", "reconciler")
def test_a_job_whose_owner_has_ended_has_no_quota_from_it(
    tenant: Tenant, queues: Queues, others: Others
) -> None:
    queue_of(tenant, queues, cpu=1)
    tenant.queues.job("ended", run_for="100ms")
    tenant.queues.await_finished("ended")
    ended = tenant.api.get(JOBS, "ended", tenant.namespace)
    child = objects.job(
        "child", 2, namespace=tenant.namespace, queue="queue", cpu="1", run_for="1h"
    )
    child["metadata"]["ownerReferences"] = [objects.owner(ended)]
    tenant.api.create(child)
    tenant.api.wait_for("the child is stopped", lambda: tenant.queues.is_suspended("child"))
    others.start()
    assert tenant.queues.is_suspended("child")


@pytest.fixture
def job_set(api: Api, tenant: Tenant, queues: Queues) -> Object:
    """A JobSet of the tenant that is admitted: its Jobs have one pod each."""
    api.apply(CRDS)
    queue_of(tenant, queues, cpu=3)
    body = fresh(kinds.jobset(), namespace=tenant.namespace, queue="queue")
    for each in body["spec"]["replicatedJobs"]:
        each["template"]["spec"] = {"template": kinds.template("1")}
    stored = tenant.api.create(body)

    def starts() -> bool:
        return not tenant.api.get(JOB_SETS, "work", tenant.namespace)["spec"]["suspend"]

    tenant.api.wait_for("the JobSet is started", starts)
    return stored


def part_of(job_set: Object, name: str, pods: int) -> Object:
    """Return a Job as the controller of a JobSet makes it."""
    meta = job_set["metadata"]
    job = objects.job(name, pods, namespace=meta["namespace"], indexed=True, cpu="1", run_for="1h")
    job["metadata"]["ownerReferences"] = [objects.owner(job_set)]
    return job


def said(act: Callable[[], object]) -> str:
    """Return why the API server does not let something be done, nothing where it does."""
    try:
        act()
    except ApiError as error:
        if error.status not in (403, 422):
            raise
        return str(error)
    return ""


@pytest.mark.misplaces("the Jobs are made without what admission gives")
@pytest.mark.usefixtures("gang", "reconciler")
def test_a_part_of_an_admitted_job_is_made_and_enlarged_by_its_controller_alone(
    api: Api, tenant: Tenant, others: Others, job_set: Object
) -> None:
    """Its pods have the quota of the JobSet, and nothing else counts them."""
    # Before the controller does.
    forged = part_of(job_set, "work-driver-0", 20)
    assert "metadata.ownerReferences: " in said(lambda: tenant.api.create(forged))
    alone = objects.job("alone", 20, namespace=tenant.namespace, cpu="1", suspend=True)
    tenant.api.create(alone)
    adopted = {"metadata": {"ownerReferences": forged["metadata"]["ownerReferences"]}}
    where = tenant.namespace
    assert "metadata.ownerReferences: " in said(
        lambda: tenant.api.patch(JOBS, "alone", where, body=adopted)
    )

    # With a reference that says less than the truth the policy lets it pass, and it has no part.
    forged["metadata"]["ownerReferences"][0] |= {"kind": "JobSets"}
    forged["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "queue"}
    tenant.api.create(forged)
    tenant.api.wait_for("it is stopped", lambda: tenant.queues.is_suspended("work-driver-0"))
    tenant.queues.await_condition("work-driver-0", "QuotaReserved", "False")
    tenant.api.delete(JOBS, "work-driver-0", where)
    tenant.api.wait_for("it is gone", lambda: not tenant.api.find(JOBS, "work-driver-0", where))

    # After it has.
    api.create(part_of(job_set, "work-driver-0", 1))

    def change(**spec: Any) -> str:
        return said(lambda: tenant.api.patch(JOBS, "work-driver-0", where, body={"spec": spec}))

    for more in ({"parallelism": 20}, {"parallelism": 20, "completions": 20, "suspend": True}):
        assert "spec.parallelism, spec.completions: " in change(**more)
    label = {"metadata": {"labels": {"seen": "yes"}}}
    assert said(lambda: tenant.api.patch(JOBS, "work-driver-0", where, body=label)) == ""
    assert change(suspend=True) == ""
    # Some API servers let the resources of a Job's pods change while it is suspended.
    larger = {"name": "main", "resources": {"requests": {"cpu": "20"}}}
    template = {"spec": {"template": {"spec": {"containers": [larger]}}}}
    assert "spec.template: " in said(
        lambda: tenant.api.patch(JOBS, "work-driver-0", where, body=template, how="strategic")
    )
    assert change(parallelism=0, completions=0, suspend=False) == ""
    api.patch(JOBS, "work-driver-0", where, body={"spec": {"parallelism": 1, "completions": 1}})
    others.start()


@pytest.mark.usefixtures("gang", "reconciler")
def test_the_cluster_of_a_rayjob_is_made_and_enlarged_by_its_controller_alone(
    api: Api, tenant: Tenant, queues: Queues, others: Others
) -> None:
    """The queue leaves it to the RayJob."""
    api.apply(CRDS)
    queue_of(tenant, queues, cpu=0)
    job = tenant.api.create(fresh(kinds.rayjob(), namespace=tenant.namespace, queue="queue"))
    part = fresh(kinds.raycluster(), namespace=tenant.namespace, queue="queue")
    part["spec"]["suspend"] = False
    part["metadata"]["ownerReferences"] = [objects.owner(job)]
    assert "metadata.ownerReferences: " in said(lambda: tenant.api.create(part))

    api.create(part)

    where = tenant.namespace
    more: Object = {"spec": {"workerGroupSpecs": []}}
    label = {"metadata": {"labels": {"seen": "yes"}}}
    assert "spec: " in said(lambda: tenant.api.patch(RAY_CLUSTERS, "work", where, body=more))
    assert said(lambda: tenant.api.patch(RAY_CLUSTERS, "work", where, body=label)) == ""
    tenant.queues.job("later")
    tenant.queues.await_condition("later", "QuotaReserved", "False")
    assert tenant.api.get(RAY_CLUSTERS, "work", where)["spec"]["suspend"] is False
    free = {"metadata": {"ownerReferences": None}}
    tenant.api.patch(RAY_CLUSTERS, "work", where, body=free)
    tenant.api.wait_for(
        "it is stopped",
        lambda: tenant.api.get(RAY_CLUSTERS, "work", where)["spec"]["suspend"],
    )
    others.start()


@pytest.mark.usefixtures("gang", "reconciler")
@pytest.mark.parametrize(
    ("above", "below", "larger"),
    [
        (kinds.trainjob, kinds.jobset, {"replicatedJobs": []}),
        (kinds.appwrapper, kinds.jobset, {"replicatedJobs": []}),
        (kinds.appwrapper, kinds.rayjob, {"rayClusterSpec": {"workerGroupSpecs": []}}),
    ],
)
def test_the_parts_of_a_job_are_made_and_enlarged_by_its_controller_alone(
    api: Api,
    tenant: Tenant,
    above: Callable[[], Object],
    below: Callable[[], Object],
    larger: Object,
) -> None:
    api.apply(CRDS)
    where = tenant.namespace
    job = api.create(fresh(above(), namespace=where))
    part = fresh(below(), namespace=where)
    part["metadata"]["ownerReferences"] = [objects.owner(job)]
    assert "metadata.ownerReferences: " in said(lambda: tenant.api.create(part))

    name = api.create(part)["metadata"]["name"]

    resource = f"{part['apiVersion']}/{part['kind'].lower()}s"

    def change(spec: Object) -> str:
        return said(lambda: tenant.api.patch(resource, name, where, body={"spec": spec}))

    assert "spec: " in change(larger)
    assert change({"suspend": True}) == ""


@pytest.mark.usefixtures("gang", "reconciler")
@pytest.mark.parametrize("below", [kinds.jobset, kinds.raycluster])
def test_a_part_of_a_job_that_is_not_queued_may_be_queued_itself(
    api: Api, tenant: Tenant, queues: Queues, below: Callable[[], Object]
) -> None:
    """The reconciler writes into it what the admission gives its pods, and starts it."""
    api.apply(CRDS)
    queue_of(tenant, queues, cpu=100)
    where = tenant.namespace
    job = api.create(fresh(kinds.appwrapper(), namespace=where))
    part = fresh(below(), namespace=where, queue="queue")
    part["metadata"]["ownerReferences"] = [objects.owner(job)]
    name = api.create(part)["metadata"]["name"]

    resource = f"{part['apiVersion']}/{part['kind'].lower()}s"
    tenant.api.wait_for(
        "it is started", lambda: not tenant.api.get(resource, name, where)["spec"]["suspend"]
    )


@pytest.mark.usefixtures("gang", "reconciler")
def test_a_prebuilt_workload_asks_for_what_its_job_does(
    tenant: Tenant, queues: Queues, others: Others
) -> None:
    """One pod of a thousandth of a CPU has quota, and four pods of one CPU want to start on it."""
    queue_of(tenant, queues, cpu=1)
    cheap = made_workload("cheap", tenant.namespace)
    [container] = cheap["spec"]["podSets"][0]["template"]["spec"]["containers"]
    container["resources"]["requests"]["cpu"] = "1m"
    tenant.api.create(cheap)

    def stored() -> Object:
        return tenant.api.get(WORKLOADS, "cheap", tenant.namespace)

    tenant.api.wait_for(
        "it has quota", lambda: condition(stored(), "Admitted").get("status") == "True"
    )
    tenant.queues.job("dear", 4, labels={"kueue.x-k8s.io/prebuilt-workload-name": "cheap"})
    tenant.api.wait_for(
        "it is not that of the job", lambda: condition(stored(), "Finished").get("status") == "True"
    )
    assert condition(stored(), "Finished")["reason"] == "OutOfSync"
    others.start()
    assert tenant.queues.is_suspended("dear")


def made_workload(name: str, namespace: str, *, count: int = 1) -> Object:
    """Return a Workload that was not made for a job."""
    requests = {"cpu": "1", "memory": "64Mi"}
    container = {"name": "main", "image": "none", "resources": {"requests": requests}}
    template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    return {
        "apiVersion": API,
        "kind": "Workload",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "queueName": "queue",
            "podSets": [{"name": "main", "count": count, "template": template}],
        },
    }


# -- what is shown


@pytest.fixture
def asking(control_plane: ControlPlane, reconciler: Reconciler) -> Iterator[Reconciler]:
    """A reconciler that asks for tokens, in the place of the one that all share."""
    reconciler.stop()
    settings = {"reconcile": {"leaderElect": False, "authenticateOnLoopback": True}}
    other = Reconciler(control_plane, name="asking", settings=settings)
    control_plane.wait_until("it works", lambda: other.process.running)
    yield other
    other.stop()
    reconciler.start()


def test_a_tenant_is_shown_its_own(
    control_plane: ControlPlane, api: Api, asking: Reconciler, tenant: Tenant, others: Others
) -> None:
    account = {"name": "reader", "namespace": tenant.namespace}
    api.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account})
    binding = bind(tenant.namespace, "gang-queue-viewer")
    binding["metadata"]["name"] = "reader"
    binding["subjects"] = [{"kind": "ServiceAccount", **account}]
    api.create(binding)
    shared = others.queues.cluster_queue("shared", cpu=1)
    tenant.queues.local_queue("queue", shared)
    others.queues.local_queue("shared", shared)
    others.queues.job("holder", queue="shared", run_for="1h")
    others.queues.await_admitted("holder")
    tenant.queues.job("waits")
    tenant.queues.await_condition("waits", "QuotaReserved", "False", reason="WaitingForQuota")

    token = api.token(tenant.namespace, "reader")

    def get(path: str, token: str = token) -> httpx.Response:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return httpx.get(f"{asking.url}{path}", headers=headers, trust_env=False, timeout=60)

    own = f"/localqueues/{tenant.namespace}/queue/pendingworkloads"
    api.wait_for("the reader has its right", lambda: get(own).status_code == 200, timeout=120)
    [item] = get(own).json()["items"]
    assert item["metadata"]["namespace"] == tenant.namespace
    [lack] = item["waitingFor"]
    assert (lack["holders"], lack["moreHolders"]) == ([], 1)
    [waits] = [w["metadata"]["name"] for w in tenant.api.list(WORKLOADS, tenant.namespace)]
    assert get(f"/workloads/{tenant.namespace}/{waits}/explanation").status_code == 200

    theirs = (
        f"/localqueues/{others.queues.namespace}/shared/pendingworkloads",
        f"/clusterqueues/{shared}/pendingworkloads",
        f"/workloads/{others.queues.namespace}/any/explanation",
        "/metrics",
    )
    assert [get(path).status_code for path in theirs] == [403] * len(theirs)
    for bad in ("", "made-up"):
        assert {get(path, bad).status_code for path in (own, *theirs)} == {401}
        assert get("/readyz", bad).status_code == 200
