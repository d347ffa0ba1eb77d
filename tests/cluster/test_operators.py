"""Jobs beside operators that are late, and whose child Jobs keep what they were made with."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.cluster.conftest import NodeFactory
from tests.cluster.gangs import POD_GROUPS
from tests.cluster.operators import Operator
from tests.cluster.queues import API, WORKLOADS, Queues
from tests.harness import kinds, objects
from tests.harness.client import Api, Object
from tests.harness.kinds import CRDS
from tests.tiers import long_but_for

pytestmark = pytest.mark.usefixtures("gang", "reconciler")

GROUP_LABEL = "scheduling.x-k8s.io/pod-group"
SECONDS = 120
MAKERS = {
    "JobSet": kinds.jobset,
    "MPIJob": kinds.mpijob,
    "PyTorchJob": kinds.pytorchjob,
}
PODS = {"JobSet": 5, "MPIJob": 4, "PyTorchJob": 4}


def two_flavors(queues: Queues, first: int = 16) -> Object:
    """Return the spec of a ClusterQueue with quota in `a` and then in `b`, of nodes of two keys."""
    names = [f"{each}-{queues.suffix}" for each in "ab"]
    listed = [
        {"name": name, "resources": [{"name": "cpu", "nominalQuota": cpu},
                                     {"name": "memory", "nominalQuota": "8Gi"}]}
        for name, cpu in zip(names, (first, 16), strict=True)
    ]  # fmt: skip
    covered = {"coveredResources": ["cpu", "memory"], "flavors": listed}
    return {"namespaceSelector": {}, "resourceGroups": [covered]}


def make_flavors(queues: Queues, nodes: NodeFactory) -> None:
    for each in "ab":
        labels = {f"example.com/pool-{each}": "yes"}
        taint = {"key": f"example.com/{each}", "effect": "NoSchedule", "value": "yes"}
        nodes(2, "8", prefix=each, labels=labels, taints=[taint])
        tolerated = {**taint, "operator": "Equal"}
        queues.flavor(each, nodeLabels=labels, tolerations=[tolerated])


def create(api: Api, queues: Queues, kind: str, *, suspended: bool = True) -> Operator:
    api.apply(CRDS)
    source: Any = kinds.fresh(MAKERS[kind](), namespace=queues.namespace, queue="queue")
    if not suspended:
        source["spec"].get("runPolicy", source["spec"])["suspend"] = False
    return Operator(api, api.create(source))


def await_running(api: Api, queues: Queues, kind: str) -> list[Object]:
    """Wait until all pods of a job run, and return them."""

    def running() -> list[Object]:
        pods = api.list("pods", queues.namespace)
        found = [pod for pod in pods if pod["status"].get("phase") == "Running"]
        return found if len(found) == len(pods) == PODS[kind] else []

    return api.wait_for(f"{PODS[kind]} pods run", running, SECONDS)


def set_active(queues: Queues, *, active: bool) -> None:
    workload: Any = queues.its_workload("work")
    name = workload["metadata"]["name"]
    queues.api.patch(WORKLOADS, name, queues.namespace, body={"spec": {"active": active}})


def selector(pod: Object) -> Mapping[str, str]:
    found: Mapping[str, str] = pod["spec"].get("nodeSelector", {})
    return found


@pytest.mark.parametrize("kind", ["JobSet", "MPIJob"])
def test_child_jobs_that_were_made_before_the_admission_run_where_it_sends_them(
    api: Api, queues: Queues, nodes: NodeFactory, kind: str
) -> None:
    """Both are made while the job is suspended, from the templates of then."""
    operator = create(api, queues, kind)
    operator.notice()
    make_flavors(queues, nodes)
    name = queues.create("ClusterQueue", "cq", two_flavors(queues))
    queues.require_room(name)
    queues.local_queue("queue", name)
    queues.await_admitted("work")

    operator.start()

    pods = await_running(api, queues, kind)
    workload: Any = queues.its_workload("work")
    [group] = api.list(POD_GROUPS, queues.namespace)
    assert group["spec"]["minMember"] == PODS[kind]
    for pod in pods:
        meta = pod["metadata"]
        assert selector(pod) == {"example.com/pool-a": "yes"}
        assert meta["labels"][GROUP_LABEL] == group["metadata"]["name"]
        assert meta["labels"]["kueue.x-k8s.io/podset"]
        assert meta["annotations"]["kueue.x-k8s.io/workload"] == workload["metadata"]["name"]


@pytest.mark.parametrize("kind", ["JobSet", "MPIJob"])
def test_a_job_that_is_started_in_another_flavor_leaves_nothing_of_the_first_behind(
    api: Api, queues: Queues, nodes: NodeFactory, kind: str
) -> None:
    make_flavors(queues, nodes)
    name = queues.create("ClusterQueue", "cq", two_flavors(queues))
    queues.local_queue("queue", name)
    operator = create(api, queues, kind)
    operator.notice()
    queues.await_admitted("work")
    operator.start()
    assert {*map(str, map(selector, await_running(api, queues, kind)))} == {
        str({"example.com/pool-a": "yes"})
    }
    set_active(queues, active=False)
    api.wait_for("it is stopped", lambda: operator.suspended, SECONDS)
    operator.stop()
    queues.await_condition("work", "QuotaReserved", "False")
    api.patch(f"{API}/clusterqueues", name, body={"spec": two_flavors(queues, 0)})

    set_active(queues, active=True)
    operator.start()

    for pod in await_running(api, queues, kind):
        assert selector(pod) == {"example.com/pool-b": "yes"}
        keys = [each.get("key") for each in pod["spec"]["tolerations"]]
        assert ("example.com/a" in keys, "example.com/b" in keys) == (False, True)


@pytest.mark.parametrize("kind", long_but_for(sorted(MAKERS), "JobSet"))
def test_a_job_that_was_created_running_starts_when_its_operator_has_noticed_the_stop(
    api: Api, queues: Queues, nodes: NodeFactory, kind: str
) -> None:
    """Its pods of the first template would live on: the operator has not reported them yet."""
    nodes(2, "8")
    queues.simple(cpu=16)
    operator = create(api, queues, kind, suspended=False)
    api.wait_for("it is stopped", lambda: operator.suspended, SECONDS)
    queues.job("other", run_for="1h")
    queues.await_started("other")
    assert (queues.workload("work"), operator.suspended) == (None, True)
    api.delete("batch/v1/jobs", "other", queues.namespace)

    operator.notice()

    queues.await_admitted("work")
    operator.start()
    api.wait_for("the other is gone", lambda: len(api.list("pods", queues.namespace)) == PODS[kind])
    for pod in await_running(api, queues, kind):
        assert pod["metadata"]["labels"]["kueue.x-k8s.io/podset"]


@pytest.mark.parametrize("kind", long_but_for(sorted(MAKERS), "PyTorchJob"))
def test_a_job_that_is_evicted_before_its_operator_reports_its_start_keeps_its_quota(
    api: Api, queues: Queues, nodes: NodeFactory, kind: str
) -> None:
    """Its status is that of before the start, when nothing ran."""
    nodes(2, "8")
    queues.simple(cpu={"JobSet": 9}.get(kind, 4))
    operator = create(api, queues, kind)
    operator.notice()
    queues.await_admitted("work")
    operator.start(reports=False)
    await_running(api, queues, kind)

    set_active(queues, active=False)
    api.wait_for("it is stopped", lambda: operator.suspended, SECONDS)
    queues.job("other", run_for="1h")
    queues.await_condition("other", "QuotaReserved", "False")
    assert queues.condition("work", "QuotaReserved")["status"] == "True"

    operator.stop()
    queues.await_admitted("other")
    queues.await_condition("work", "QuotaReserved", "False", reason="Deactivated")


@pytest.mark.parametrize(("owned", "most"), [(True, 2), (False, 6)], ids=["owned", "of a user"])
def test_a_job_is_left_to_its_controller_and_not_to_a_user_who_starts_it_again_and_again(
    api: Api, queues: Queues, owned: bool, most: int
) -> None:
    """Its pods would be made and deleted several times a second for as long as it has no quota."""
    queues.simple(cpu=0)
    api.apply(CRDS)
    source: Any = kinds.fresh(kinds.jobset(), namespace=queues.namespace, queue="queue")
    if owned:
        meta = {"name": "train", "namespace": queues.namespace}
        by = api.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta})
        source["metadata"]["ownerReferences"] = [objects.owner(by)]
    operator = Operator(api, api.create(source))
    jobsets = "jobset.x-k8s.io/v1alpha2/jobsets"

    def settled() -> bool:
        return operator.suspended or bool(
            api.notes(queues.namespace, "SuspendContested", name="work")
        )

    for _ in range(most):
        api.patch(jobsets, "work", queues.namespace, body={"spec": {"suspend": False}})
        api.wait_for("it is suspended, or left alone", settled, SECONDS)
        operator.report({"conditions": [{"type": "Suspended", "status": "True"}]})

    api.wait_for(
        "it is said", lambda: api.notes(queues.namespace, "SuspendContested", name="work"), SECONDS
    )
    queues.job("other")
    queues.await_condition("other", "QuotaReserved", "False")
    if owned:
        assert not operator.suspended
    else:
        api.wait_for("it is stopped again", lambda: operator.suspended, SECONDS)
    assert len(api.notes(queues.namespace, "SuspendContested", name="work")) == 1


def test_pods_that_an_operator_puts_into_a_podgroup_of_its_own_keep_no_room_waiting(
    api: Api, queues: Queues, nodes: NodeFactory
) -> None:
    """They fit exactly: the room that is granted to the queue's PodGroup is all there is."""
    nodes(2, "2")
    name, _ = queues.simple(cpu=8)
    queues.require_room(name)
    operator = create(api, queues, "PyTorchJob")
    queues.await_admitted("work")
    meta = {"name": "work", "namespace": queues.namespace}
    group = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup", "metadata": meta}
    api.create({**group, "spec": {"minMember": 4, "scheduleTimeoutSeconds": 0}})
    operator.labels = {GROUP_LABEL: "work"}

    operator.start()

    await_running(api, queues, "PyTorchJob")
    api.wait_for(
        "it is said", lambda: api.notes(queues.namespace, "OtherPodGroup", name="work"), SECONDS
    )
    assert len(api.notes(queues.namespace, "OtherPodGroup", name="work")) == 1
    assert not any(
        "grantedRoom" in g.get("status", {}) for g in api.list(POD_GROUPS, queues.namespace)
    )
