"""Jobs beside operators that are late, or have their own mind."""

from typing import Any

import pytest

from tests.cluster.conftest import NodeFactory
from tests.cluster.gangs import POD_GROUPS
from tests.cluster.operators import Operator
from tests.cluster.queues import WORKLOADS, Queues
from tests.harness import kinds, objects
from tests.harness.client import Api, Object
from tests.harness.kinds import CRDS

pytestmark = pytest.mark.usefixtures("gang", "reconciler")

GROUP_LABEL = "scheduling.x-k8s.io/pod-group"
SECONDS = 120
PODS = 4


def create(api: Api, queues: Queues, *, suspended: bool = True) -> Operator:
    api.apply(CRDS)
    source: Any = kinds.fresh(kinds.pytorchjob(), namespace=queues.namespace, queue="queue")
    source["spec"]["runPolicy"]["suspend"] = suspended
    return Operator(api, api.create(source))


def await_running(api: Api, queues: Queues) -> list[Object]:
    """Wait until all pods of a job run, and return them."""

    def running() -> list[Object]:
        pods = api.list("pods", queues.namespace)
        found = [pod for pod in pods if pod["status"].get("phase") == "Running"]
        return found if len(found) == len(pods) == PODS else []

    return api.wait_for(f"{PODS} pods run", running, SECONDS)


def set_active(queues: Queues, *, active: bool) -> None:
    workload: Any = queues.its_workload("work")
    name = workload["metadata"]["name"]
    queues.api.patch(WORKLOADS, name, queues.namespace, body={"spec": {"active": active}})


def test_a_job_that_was_created_running_starts_when_its_operator_has_noticed_the_stop(
    api: Api, queues: Queues, nodes: NodeFactory
) -> None:
    """Its pods of the first template would live on: the operator has not reported them yet."""
    nodes(2, "8")
    queues.simple(cpu=16)
    operator = create(api, queues, suspended=False)
    api.wait_for("it is stopped", lambda: operator.suspended, SECONDS)
    queues.job("other", run_for="1h")
    queues.await_started("other")
    assert (queues.workload("work"), operator.suspended) == (None, True)
    api.delete("batch/v1/jobs", "other", queues.namespace)

    operator.notice()

    queues.await_admitted("work")
    operator.start()
    api.wait_for("the other is gone", lambda: len(api.list("pods", queues.namespace)) == PODS)
    for pod in await_running(api, queues):
        assert pod["metadata"]["labels"]["kueue.x-k8s.io/podset"]


def test_a_job_that_is_evicted_before_its_operator_reports_its_start_keeps_its_quota(
    api: Api, queues: Queues, nodes: NodeFactory
) -> None:
    """Its status is that of before the start, when nothing ran."""
    nodes(2, "8")
    queues.simple(cpu=4)
    operator = create(api, queues)
    operator.notice()
    queues.await_admitted("work")
    operator.start(reports=False)
    await_running(api, queues)

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
    operator = create(api, queues)
    queues.await_admitted("work")
    meta = {"name": "work", "namespace": queues.namespace}
    group = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup", "metadata": meta}
    api.create({**group, "spec": {"minMember": 4, "scheduleTimeoutSeconds": 0}})
    operator.labels = {GROUP_LABEL: "work"}

    operator.start()

    await_running(api, queues)
    api.wait_for(
        "it is said", lambda: api.notes(queues.namespace, "OtherPodGroup", name="work"), SECONDS
    )
    assert len(api.notes(queues.namespace, "OtherPodGroup", name="work")) == 1
    assert not any(
        "grantedRoom" in g.get("status", {}) for g in api.list(POD_GROUPS, queues.namespace)
    )
