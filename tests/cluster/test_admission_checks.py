"""Admission checks on the control plane: of another controller, and those that ask for nodes.

The tests play the other controller, and Cluster Autoscaler as it was seen to behave.
"""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tests.cluster.alone import in_place_of
from tests.cluster.conftest import NodeFactory
from tests.cluster.queues import API, JOBS, WORKLOADS, Queues, condition
from tests.cluster.test_provision import BUFFERS, CRDS, REQUESTS, served  # noqa: F401 - a fixture
from tests.harness.client import Api, ApiError, Object
from tests.harness.control_plane import ControlPlane
from tests.harness.reconciler import Reconciler

pytestmark = pytest.mark.usefixtures("gang")

CHECKS = f"{API}/admissionchecks"
OURS = "kueue.x-k8s.io/provisioning-request"
CLASS = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
SINCE = "2026-11-27T10:00:00Z"
ACTIVE = {
    "type": "Active",
    "status": "True",
    "reason": "Ready",
    "message": "",
    "lastTransitionTime": SINCE,
}


class Controller:
    """The controller of a check: it says its state of the workloads of jobs."""

    def __init__(self, queues: Queues, name: str) -> None:
        self.api, self.queues, self.name = queues.api, queues, name

    def active(self, *, true: bool = True) -> None:
        """Say whether the check can be passed."""
        said = {**ACTIVE, "status": "True" if true else "False"}
        body = {"status": {"conditions": [said]}}
        self.api.patch(CHECKS, self.name, body=body, subresource="status")

    def state(self, job: str) -> Mapping[str, Any]:
        """Return the state of the check of a job's workload; {} where it is not listed."""
        listed = (self.queues.workload(job) or {}).get("status", {}).get("admissionChecks", [])
        return next((each for each in listed if each["name"] == self.name), {})

    def awaits(self, job: str, state: str = "Pending") -> Mapping[str, Any]:
        """Wait until the check of a job's workload is in a state."""

        def there() -> Mapping[str, Any]:
            found = self.state(job)
            return found if found.get("state") == state else {}

        return self.api.wait_for(f"{self.name} of {job} is {state}", there)

    def says(self, job: str, state: str, message: str = "as it is", **more: Any) -> None:
        """Write the state, as controllers do: once quota is reserved, and of this check alone."""
        self.queues.await_condition(job, "QuotaReserved")
        self.awaits(job)
        workload = self.queues.its_workload(job)
        said = {"name": self.name, "state": state, "message": message}
        body = {
            "apiVersion": API,
            "kind": "Workload",
            "metadata": {"name": workload["metadata"]["name"]},
            "status": {"admissionChecks": [{**said, "lastTransitionTime": SINCE, **more}]},
        }
        path = f"/apis/{API}/namespaces/{self.queues.namespace}/workloads"
        name = workload["metadata"]["name"]
        self.api.request(
            "PATCH",
            f"{path}/{name}/status?fieldManager={self.name}&force=true",
            body=body,
            content_type="application/apply-patch+yaml",
        )


@pytest.fixture
def check(queues: Queues) -> Callable[..., Controller]:
    """Make an AdmissionCheck that is active."""

    def make(short: str, *, active: bool = True) -> Controller:
        spec = {"controllerName": "test.example/controller"}
        made = Controller(queues, queues.create("AdmissionCheck", short, spec))
        if active:
            made.active()
        return made

    return make


def listing(*checks: Controller | str, **flavors: list[str]) -> Object:
    names = [each if isinstance(each, str) else each.name for each in checks]
    rules = [
        {"name": name, **({"onFlavors": flavors[name]} if name in flavors else {})}
        for name in names
    ]
    return {"admissionChecksStrategy": {"admissionChecks": rules}}


@pytest.mark.usefixtures("reconciler")
def test_a_job_starts_when_all_its_checks_are_ready_with_what_they_add(
    api: Api, queues: Queues, check: Callable[..., Controller], nodes: NodeFactory
) -> None:
    nodes(1, "4", labels={"pool": "new"})
    one, two = check("one"), check("two")
    cluster_queue, _ = queues.simple(cpu=1, **listing(one, two))
    queues.job("first", run_for="1h")
    queues.await_condition("first", "QuotaReserved")
    queues.job("second")
    update = {
        "name": "main",
        "labels": {"paid-by": "team"},
        "annotations": {"note": "x"},
        "nodeSelector": {"pool": "new"},
        "tolerations": [{"key": "new", "operator": "Exists"}],
    }
    one.says("first", "Ready", podSetUpdates=[update])
    waits = queues.await_condition("first", "Admitted", "False")
    assert (waits["reason"], waits["message"]) == (
        "UnsatisfiedChecks",
        "The workload has not all checks ready",
    )
    assert queues.is_suspended("first")
    queues.await_condition("second", "QuotaReserved", "False", reason="WaitingForQuota")
    names = [each["name"] for each in queues.its_workload("first")["status"]["admissionChecks"]]
    assert names == sorted((one.name, two.name))

    two.says("first", "Ready")
    queues.await_started("first")
    [pod] = api.wait_for("its pod is there", lambda: queues.pods("first"))
    assert pod["metadata"]["labels"]["paid-by"] == "team"
    assert pod["metadata"]["annotations"]["note"] == "x"
    assert pod["spec"]["nodeSelector"]["pool"] == "new"
    assert {"key": "new", "operator": "Exists"} in pod["spec"]["tolerations"]

    def reserving() -> int | None:
        status = api.get(f"{API}/clusterqueues", cluster_queue).get("status", {})
        found: int | None = status.get("reservingWorkloads")
        return found

    api.wait_for("the numbers are written", lambda: reserving() == 1)


@pytest.mark.usefixtures("reconciler")
def test_retry_releases_the_quota_and_rejected_deactivates(
    api: Api, queues: Queues, check: Callable[..., Controller]
) -> None:
    one = check("one")
    queues.simple(cpu=1, **listing(one))
    queues.job("first", run_for="1h")
    one.awaits("first")
    queues.job("second", run_for="1h")
    queues.await_condition("second", "QuotaReserved", "False", reason="WaitingForQuota")
    one.says("first", "Retry", "not now", requeueAfterSeconds=86_400 * 400)
    evicted = queues.await_condition("first", "Evicted")
    text = f'Evicted due to AdmissionCheck in Retry state: "{one.name}" (not now)'
    assert (evicted["reason"], evicted["message"]) == ("AdmissionCheck", text)
    state = one.awaits("first")
    assert state["retryCount"] == 1
    assert state["message"] == "Reset to Pending after eviction. Previously: Retry"
    one.says("second", "Ready")
    queues.await_started("second")
    assert "requeueAt" in queues.its_workload("first")["status"]["requeueState"]

    api.delete(JOBS, "second", queues.namespace)
    queues.job("third")
    one.says("third", "Rejected", "too expensive")
    queues.await_condition("third", "QuotaReserved", "False", reason="Deactivated")
    workload = queues.its_workload("third")
    assert workload["spec"]["active"] is False
    reason = condition(workload, "Evicted")["reason"]
    assert reason == "DeactivatedDueToAdmissionCheck"
    assert queues.is_suspended("third")


@pytest.mark.usefixtures("reconciler")
def test_a_check_of_a_running_job_takes_its_quota_too(
    queues: Queues, check: Callable[..., Controller]
) -> None:
    one = check("one")
    queues.simple(cpu=1, **listing(one))
    queues.job("first", run_for="1h")
    one.says("first", "Ready")
    queues.await_started("first")
    workload = queues.its_workload("first")["status"]["admissionChecks"]
    assert [each["state"] for each in workload] == ["Ready"]
    for _ in range(2):  # it flaps
        says_at_once(one, "first", "Retry")
        queues.await_condition("first", "Admitted", "False", reason="UnsatisfiedChecks")
        one.says("first", "Ready")
        queues.await_started("first")


def says_at_once(one: Controller, job: str, state: str) -> None:
    workload = one.queues.its_workload(job)
    said = {"name": one.name, "state": state, "message": "", "lastTransitionTime": SINCE}
    body = {"status": {"admissionChecks": [said]}}
    one.api.patch(
        WORKLOADS,
        workload["metadata"]["name"],
        one.queues.namespace,
        body=body,
        subresource="status",
    )


@pytest.mark.usefixtures("reconciler")
def test_checks_are_added_and_removed_while_jobs_wait_and_run(
    api: Api, queues: Queues, check: Callable[..., Controller]
) -> None:
    one, two = check("one"), check("two")
    cluster_queue, _ = queues.simple(cpu=10, **listing(one))
    jobs = [f"job-{n}" for n in range(6)]
    for name in jobs:
        queues.job(name, run_for="1h")
    one.says(jobs[0], "Ready")
    queues.await_started(jobs[0])
    for name in jobs[1:]:
        one.awaits(name)
    api.patch(f"{API}/clusterqueues", cluster_queue, body={"spec": listing(one, two)})
    for name in jobs:
        two.awaits(name)
    one.says(jobs[1], "Ready")
    queues.await_condition(jobs[1], "Admitted", "False")
    assert queues.condition(jobs[0], "Admitted")["status"] == "True"
    api.patch(f"{API}/clusterqueues", cluster_queue, body={"spec": listing(one)})
    queues.await_started(jobs[1])
    gone = {"spec": {"admissionChecksStrategy": None}}
    api.patch(f"{API}/clusterqueues", cluster_queue, body=gone)
    queues.await_started(*jobs)
    api.wait_for("no check is left", lambda: not any(one.state(name) for name in jobs))


@pytest.mark.usefixtures("reconciler")
def test_only_the_flavors_that_a_check_is_for_need_it(
    queues: Queues, check: Callable[..., Controller]
) -> None:
    one = check("one")
    here, other = queues.flavor("here"), queues.name("other")
    queues.simple(cpu=1, flavor=here, **listing(one, **{one.name: [other]}))
    queues.job("job", run_for="1h")
    queues.await_started("job")
    assert one.state("job") == {}


@pytest.mark.usefixtures("reconciler")
def test_a_queue_waits_for_its_checks_to_be_there_and_active(
    api: Api, queues: Queues, check: Callable[..., Controller]
) -> None:
    cluster_queue, _ = queues.simple(cpu=1, **listing(queues.name("late")))
    queues.await_inactive(cluster_queue, "AdmissionCheckNotFound")
    late = check("late", active=False)
    queues.await_inactive(cluster_queue, "AdmissionCheckInactive")
    late.active()
    queues.await_active(cluster_queue)
    api.wait_for(
        "the finalizer is there", lambda: api.get(CHECKS, late.name)["metadata"].get("finalizers")
    )
    api.delete(CHECKS, late.name)
    assert api.get(CHECKS, late.name)["metadata"]["deletionTimestamp"], "it is in use"
    late.active(true=False)
    queues.await_inactive(cluster_queue, "AdmissionCheckInactive")
    api.patch(
        f"{API}/clusterqueues", cluster_queue, body={"spec": {"admissionChecksStrategy": None}}
    )
    queues.await_active(cluster_queue)
    api.wait_for("the check is gone", lambda: api.find(CHECKS, late.name) is None)


@pytest.mark.usefixtures("reconciler")
def test_a_stopped_queue_takes_reservations_back(
    api: Api, queues: Queues, check: Callable[..., Controller]
) -> None:
    one = check("one")
    cluster_queue, _ = queues.simple(cpu=2, **listing(one))
    queues.job("runs", run_for="1h")
    one.says("runs", "Ready")
    queues.await_started("runs")
    queues.job("waits", run_for="1h")
    one.awaits("waits")
    api.patch(f"{API}/clusterqueues", cluster_queue, body={"spec": {"stopPolicy": "Hold"}})
    queues.await_condition("waits", "QuotaReserved", "False", reason="Suspended")
    assert queues.condition("runs", "Admitted")["status"] == "True"
    api.patch(f"{API}/clusterqueues", cluster_queue, body={"spec": {"stopPolicy": "None"}})
    one.says("waits", "Ready")
    queues.await_started("waits")


@pytest.mark.usefixtures("reconciler")
def test_what_checks_add_and_pods_cannot_have_ends_the_workload(
    queues: Queues, check: Callable[..., Controller]
) -> None:
    one, two = check("one"), check("two")
    queues.simple(cpu=1, **listing(one, two))
    queues.job("job")
    one.says("job", "Ready", podSetUpdates=[{"name": "main", "labels": {"a": "b"}}])
    two.says("job", "Ready", podSetUpdates=[{"name": "main", "labels": {"a": "c"}}])
    ended = queues.await_condition("job", "Finished")
    assert ended["reason"] == "FailedToStart"
    assert f"admission check {two.name} gives label a=c" in ended["message"]
    assert queues.is_suspended("job")


@pytest.mark.usefixtures("reconciler")
def test_a_job_that_waits_for_its_checks_makes_room_for_a_higher_priority(
    queues: Queues, check: Callable[..., Controller]
) -> None:
    one = check("one")
    preemption = {"withinClusterQueue": "LowerPriority"}
    queues.simple(cpu=1, preemption=preemption, **listing(one))
    low, high = (
        {"kueue.x-k8s.io/priority-class": queues.priority_class(name, value)}
        for name, value in (("low", 1), ("high", 10))
    )
    queues.job("low", labels=low, run_for="1h")
    update = {"name": "main", "labels": {"a": "b"}}
    one.says("low", "Pending", "soon", podSetUpdates=[update])
    queues.job("high", labels=high, run_for="1h")
    one.says("high", "Ready")
    queues.await_started("high")
    assert queues.condition("low", "Evicted")["reason"] == "Preempted"
    queues.await_condition("low", "QuotaReserved", "False", reason="WaitingForQuota")


@pytest.mark.usefixtures("reconciler")
def test_domains_of_a_topology_are_chosen_when_the_checks_are_ready(
    queues: Queues, check: Callable[..., Controller], nodes: NodeFactory
) -> None:
    one, rack, pool = check("one"), "example.com/rack", "example.com/pool"
    levels = [{"nodeLabel": rack}, {"nodeLabel": "kubernetes.io/hostname"}]
    topology = queues.create("Topology", "topology", {"levels": levels})
    labels = {pool: queues.suffix}
    flavor = queues.flavor(nodeLabels=labels, topologyName=topology)
    queues.simple(cpu=16, flavor=flavor, **listing(one))
    required = {"kueue.x-k8s.io/podset-required-topology": rack}
    queues.job("job", 2, cpu="2", annotations=required, run_for="1h")
    nodes(1, "2", prefix="a", labels={**labels, rack: "a"})
    one.awaits("job")
    [given] = queues.its_workload("job")["status"]["admission"]["podSetAssignments"]
    assert "topologyAssignment" not in given
    one.says("job", "Ready")
    queues.await_condition("job", "Admitted", "False", reason="WaitingForRoom")
    nodes(2, "2", prefix="b", labels={**labels, rack: "b"})
    queues.await_started("job")
    [given] = queues.its_workload("job")["status"]["admission"]["podSetAssignments"]
    assert sum(each["domainCount"] for each in given["topologyAssignment"]["slices"]) == 2


@pytest.mark.usefixtures("reconciler")
def test_without_checks_quota_and_admission_are_one_write(api: Api, queues: Queues) -> None:
    queues.simple(cpu=2)
    listed = api.request("GET", f"/apis/{WORKLOADS}?limit=1").json()
    since = int(listed["metadata"]["resourceVersion"])
    for name in ("one", "two"):
        queues.job(name, run_for="1h")
    queues.await_started("one", "two")
    last = api.list(WORKLOADS, queues.namespace)
    seen = [one for each in last for one in api.versions(WORKLOADS, each, since)]
    reserved = [each for each in seen if condition(each, "QuotaReserved").get("status") == "True"]
    assert {each["metadata"]["name"] for each in reserved} == {
        queues.its_workload(name)["metadata"]["name"] for name in ("one", "two")
    }
    assert all(condition(each, "Admitted").get("status") == "True" for each in reserved)
    # One that creates it, one that admits it; what follows says that its pods are ready.
    first = [each for each in seen if not condition(each, "QuotaReserved")]
    assert len(first) == 2


# -- checks that ask for nodes


class Autoscaler:
    """Writes to the ProvisioningRequests of a namespace as Cluster Autoscaler does."""

    def __init__(self, queues: Queues) -> None:
        self.api, self.namespace = queues.api, queues.namespace

    def request(self, attempt: int = 1) -> Object:
        """Wait for the one request that there is; return it."""

        def there() -> Object | None:
            found = self.api.list(REQUESTS, self.namespace)
            named = [each for each in found if each["metadata"]["name"].endswith(f"-{attempt}")]
            return named[0] if len(found) == 1 and named else None

        found = self.api.wait_for(f"there is request {attempt} alone", there)
        assert found is not None
        return found

    def says(self, attempt: int = 1, **conditions: str) -> Object:
        """Set conditions of a request, True with these messages."""
        found = self.request(attempt)
        said = [
            {"type": kind, "status": "True", "reason": kind, "message": text}
            | {"lastTransitionTime": SINCE}
            for kind, text in conditions.items()
        ]
        body = {"status": {"conditions": said}}
        name = found["metadata"]["name"]
        self.api.patch(REQUESTS, name, self.namespace, body=body, subresource="status")
        return found

    def has_none(self) -> bool:
        """Return whether no request and no template is left."""
        return not self.api.list(REQUESTS, self.namespace) + self.api.list(
            "podtemplates", self.namespace
        )


def asking(queues: Queues, limit: int = 1, **config: Any) -> Controller:
    """Make a check that asks for nodes, tried again at once, and return it."""
    retries = {"backoffLimitCount": limit, "backoffBaseSeconds": 1, "backoffMaxSeconds": 1}
    spec = {"provisioningClassName": CLASS, "retryStrategy": retries, **config}
    name = queues.create("ProvisioningRequestConfig", "config", spec)
    parameters = {"apiGroup": "kueue.x-k8s.io", "kind": "ProvisioningRequestConfig", "name": name}
    made = {"controllerName": OURS, "parameters": parameters}
    return Controller(queues, queues.create("AdmissionCheck", "nodes", made))


@pytest.mark.parametrize("room", ["true", "Provision"])
@pytest.mark.usefixtures("served", "reconciler")
def test_nodes_are_asked_for_once_and_awaited_before_a_gang_starts(
    api: Api, queues: Queues, nodes: NodeFactory, room: str
) -> None:
    check, autoscaler = asking(queues, parameters={"size": "big"}), Autoscaler(queues)
    cluster_queue, _ = queues.simple(cpu=4, **listing(check))
    needs = {"metadata": {"annotations": {"scheduling.x-k8s.io/require-room": room}}}
    api.patch(f"{API}/clusterqueues", cluster_queue, body=needs)
    queues.await_active(cluster_queue)
    queues.job("gang", 4, run_for="1h")

    found = autoscaler.request()
    workload = queues.its_workload("gang")["metadata"]["name"]
    assert found["metadata"]["name"] == f"{workload}-{check.name}-1"
    assert found["spec"]["provisioningClassName"] == CLASS
    assert found["spec"]["parameters"] == {"size": "big"}
    [pods] = found["spec"]["podSets"]
    assert pods["count"] == 4
    template = api.get("podtemplates", pods["podTemplateRef"]["name"], queues.namespace)
    assert template["metadata"]["name"] == f"ppt-{found['metadata']['name']}-main"
    assert template["metadata"]["ownerReferences"][0]["name"] == workload
    older = int(template["metadata"]["resourceVersion"])
    assert older < int(found["metadata"]["resourceVersion"]), "templates come first"

    autoscaler.says(Accepted="it is being looked at")
    api.wait_for(
        "the check tells it",
        lambda: check.state("gang").get("message") == "it is being looked at",
    )
    autoscaler.says(Accepted="yes", Provisioned="capacity is provisioned")  # its nodes boot yet
    check.awaits("gang", "Ready")
    waits = queues.await_condition("gang", "Admitted", "False", reason="WaitingForRoom")
    assert waits["message"].startswith("quota yes; room for 0 of 4")
    assert queues.is_suspended("gang")
    assert api.list(BUFFERS, queues.namespace) == []
    nodes(2, "2")
    queues.await_started("gang")
    pods_there = api.wait_for("its pods are there", lambda: queues.pods("gang"))
    said = pods_there[0]["metadata"]["annotations"]
    assert said["autoscaling.x-k8s.io/consume-provisioning-request"] == found["metadata"]["name"]
    assert said["autoscaling.x-k8s.io/provisioning-class-name"] == CLASS
    queues.end_pods("gang")
    queues.await_finished("gang")
    api.wait_for("nothing is left", autoscaler.has_none)


@pytest.mark.usefixtures("served", "reconciler")
def test_a_request_that_fails_is_tried_again_and_then_rejected(api: Api, queues: Queues) -> None:
    check, autoscaler = asking(queues), Autoscaler(queues)
    queues.simple(cpu=1, **listing(check))
    queues.job("job")
    autoscaler.says(Failed="no capacity")
    autoscaler.request(2)
    evicted = queues.condition("job", "Evicted")
    assert "Retrying after failure: no capacity" in evicted["message"]
    autoscaler.says(2, Failed="no capacity")
    queues.await_condition("job", "QuotaReserved", "False", reason="Deactivated")
    text = f'AdmissionCheck in Rejected state: "{check.name}" (no capacity)'
    assert queues.condition("job", "Evicted")["message"].endswith(text)
    api.wait_for("nothing is left", autoscaler.has_none)
    # Once it is activated again its attempts begin anew.
    name = queues.its_workload("job")["metadata"]["name"]
    api.patch(WORKLOADS, name, queues.namespace, body={"spec": {"active": True}})
    autoscaler.says(Provisioned="it is there")
    queues.await_started("job")


@pytest.mark.usefixtures("served", "reconciler")
def test_a_booking_may_expire_while_a_job_waits_and_capacity_be_revoked_while_it_runs(
    queues: Queues, check: Callable[..., Controller]
) -> None:
    other, check_nodes, autoscaler = check("other"), asking(queues), Autoscaler(queues)
    queues.simple(cpu=1, **listing(other, check_nodes))
    queues.job("job", run_for="1h")
    autoscaler.says(Provisioned="it is there")
    check_nodes.awaits("job", "Ready")
    autoscaler.says(Provisioned="it is there", BookingExpired="too late")
    autoscaler.says(2, Provisioned="it is there")
    other.says("job", "Ready")
    queues.await_started("job")
    autoscaler.says(2, Provisioned="it is there", BookingExpired="it is used")
    autoscaler.says(2, Provisioned="it is there", CapacityRevoked="the nodes are needed elsewhere")
    queues.await_condition("job", "QuotaReserved", "False", reason="Deactivated")
    assert queues.is_suspended("job")


@pytest.mark.usefixtures("served")
def test_a_restart_between_the_request_and_its_answer_loses_and_doubles_nothing(
    control_plane: ControlPlane, reconciler: Reconciler, api: Api, queues: Queues
) -> None:
    check, autoscaler = asking(queues), Autoscaler(queues)
    with in_place_of(reconciler, control_plane, "restarted", {}) as other:
        queues.simple(cpu=1, **listing(check))
        queues.job("job", run_for="1h")
        before = autoscaler.request()
        other.stop()
        autoscaler.says(Failed="no capacity")
        other.start()
        other.wait_leading()
        after = autoscaler.says(2, Provisioned="it is there")
        assert after["metadata"]["uid"] != before["metadata"]["uid"]
        queues.await_started("job")
        assert check.state("job")["retryCount"] == 1


@pytest.mark.usefixtures("served", "reconciler")
def test_a_check_without_its_configuration_keeps_its_queue_inactive(
    api: Api, queues: Queues
) -> None:
    name = queues.name("config")
    parameters = {"apiGroup": "kueue.x-k8s.io", "kind": "ProvisioningRequestConfig", "name": name}
    check = queues.create(
        "AdmissionCheck", "lost", {"controllerName": OURS, "parameters": parameters}
    )
    cluster_queue, _ = queues.simple(cpu=1, **listing(check))

    def said() -> bool:
        return condition(api.get(CHECKS, check), "Active").get("reason") == "BadParametersRef"

    api.wait_for("the check says what it lacks", said)
    queues.await_inactive(cluster_queue, "AdmissionCheckInactive")
    queues.create("ProvisioningRequestConfig", "config", {"provisioningClassName": CLASS})
    queues.await_active(cluster_queue)


@pytest.mark.usefixtures("served", "reconciler")
def test_where_only_the_older_version_of_requests_is_served_that_is_used(
    api: Api, queues: Queues
) -> None:
    name, older = "provisioningrequests.autoscaling.x-k8s.io", REQUESTS.replace("/v1/", "/v1beta1/")
    [version] = api.get(CRDS, name)["spec"]["versions"]
    both = [{**version, "served": False}, {**version, "name": "v1beta1", "storage": False}]
    api.patch(CRDS, name, body={"spec": {"versions": both}})
    try:
        check = asking(queues)
        queues.simple(cpu=1, **listing(check))
        queues.job("job", run_for="1h")

        def there() -> list[Object]:
            try:
                return api.list(older, queues.namespace)
            except ApiError:
                return []  # the version is not served yet

        [found] = api.wait_for("there is a request", there)
        said = {**ACTIVE, "type": "Provisioned"}
        request = found["metadata"]["name"]
        body = {"status": {"conditions": [said]}}
        api.patch(older, request, queues.namespace, body=body, subresource="status")
        queues.await_started("job")
    finally:
        api.patch(CRDS, name, body={"spec": {"versions": [version]}})
