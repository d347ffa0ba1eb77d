"""Jobs that are deleted and leave their Workload behind: `kubectl delete --cascade=orphan`."""

from collections.abc import Callable

import pytest

from tests.cluster.conftest import NodeFactory
from tests.cluster.queues import API, JOBS, QUEUE, WORKLOADS, Queues, condition
from tests.harness import objects
from tests.harness.client import Api, Object
from tests.harness.kinds import template
from tests.harness.reconciler import Reconciler

pytestmark = pytest.mark.usefixtures("gang")


@pytest.fixture(autouse=True)
def _collector(api: Api, namespace: str) -> None:
    """The garbage collector knows Workloads: it looks for new kinds twice a minute."""

    def takes_owners_off() -> bool:
        metadata: Object = {"generateName": "owner-", "namespace": namespace}
        owner = api.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
        name = owner["metadata"]["name"]
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": name}
        pod_set = {"name": "main", "count": 1, "template": template()}
        api.create(
            {
                "apiVersion": API,
                "kind": "Workload",
                "metadata": {
                    "name": name,
                    "namespace": namespace,
                    "ownerReferences": [{**reference, "uid": owner["metadata"]["uid"]}],
                },
                "spec": {"podSets": [pod_set]},
            }
        )
        api.delete("configmaps", name, namespace, propagation="Orphan")
        api.wait_for("it is gone", lambda: api.find("configmaps", name, namespace) is None)
        found = api.find(WORKLOADS, name, namespace) or owner
        api.delete(WORKLOADS, name, namespace)
        return found["kind"] == "Workload" and "ownerReferences" not in found["metadata"]

    api.wait_for("the garbage collector knows Workloads", takes_owners_off)


def orphan(api: Api, queues: Queues, job: str) -> str:
    """Delete a job without its Workload; return the name of that."""
    found = queues.its_workload(job)
    name: str = found["metadata"]["name"]
    api.delete(JOBS, job, queues.namespace, propagation="Orphan")
    api.wait_for(
        "it has no owner",
        lambda: not read(api, queues, name)["metadata"].get("ownerReferences"),
    )
    api.wait_for("the job is gone", lambda: api.find(JOBS, job, queues.namespace) is None)
    return name


def read(api: Api, queues: Queues, workload: str) -> Object:
    return api.get(WORKLOADS, workload, queues.namespace)


def is_ended(api: Api, queues: Queues, workload: str) -> Callable[[], bool]:
    """Return a function that tells whether a Workload has ended because it has no owner."""

    def ended() -> bool:
        found = read(api, queues, workload)
        return condition(found, "Finished").get("reason") == "OwnerNotFound" and (
            "finalizers" not in found["metadata"]
        )

    return ended


@pytest.mark.usefixtures("reconciler")
def test_the_quota_of_a_job_that_left_its_workload_behind_is_free(
    api: Api, queues: Queues, nodes: NodeFactory
) -> None:
    nodes(2, "4")
    queues.simple(cpu=1)
    queues.job("gone", run_for="1h")
    queues.await_started("gone")
    queues.job("next", run_for="1h")
    queues.await_condition("next", "QuotaReserved", "False")
    queues.job("behind", run_for="1h")
    queues.await_condition("behind", "QuotaReserved", "False")

    waiting = orphan(api, queues, "behind")
    api.wait_for("one that waits has ended", is_ended(api, queues, waiting))
    running = orphan(api, queues, "gone")
    api.wait_for("one with quota has ended", is_ended(api, queues, running))
    queues.await_started("next")

    queues.job("gone", run_for="1h")  # another one of the same name
    queues.await_condition("gone", "QuotaReserved", "False")
    assert "admission" not in read(api, queues, waiting)["status"]


def test_one_that_came_while_the_reconciler_was_away_gets_no_quota(
    api: Api, queues: Queues, nodes: NodeFactory, reconciler: Reconciler
) -> None:
    nodes(2, "4")
    queues.simple(cpu=1)
    queues.job("runs", run_for="1h")
    queues.await_started("runs")
    queues.job("waits", run_for="1h")
    queues.await_condition("waits", "QuotaReserved", "False")
    reconciler.stop()
    left = [orphan(api, queues, job) for job in ("runs", "waits")]
    queues.job("next", run_for="1h")
    reconciler.start()

    queues.await_started("next")

    for name in left:
        api.wait_for(f"{name} has ended", is_ended(api, queues, name))
    assert "admission" not in read(api, queues, left[1])["status"]


@pytest.mark.usefixtures("reconciler")
def test_pods_of_a_group_leave_no_quota_behind(
    api: Api, queues: Queues, nodes: NodeFactory
) -> None:
    nodes(2, "4")
    queues.simple(cpu=2)
    wanted = {"runs-a": "100m", "runs-b": "100m", "held-a": "100m", "held-b": "2"}
    for name, cpu in wanted.items():  # the second group never has quota
        api.create(
            objects.pod(
                name,
                cpu,
                namespace=queues.namespace,
                group=name.partition("-")[0],
                label="kueue.x-k8s.io/pod-group-name",
                labels={QUEUE: "queue"},
                annotations={"kueue.x-k8s.io/pod-group-total-count": "2"},
                gates=["kueue.x-k8s.io/admission"],
                run_for="1h",
            )
        )
    queues.await_condition("runs-a", "Admitted")
    queues.await_condition("held-a", "QuotaReserved", "False")
    for name in wanted:
        api.delete("pods", name, queues.namespace, propagation="Orphan")

    for group in ("held", "runs"):
        api.wait_for(f"{group} has ended", is_ended(api, queues, group))

    queues.job("next", 2, run_for="1h")
    queues.await_started("next")
