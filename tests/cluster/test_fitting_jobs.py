"""Which jobs get quota, and which flavor: what no pod or node can have gets none."""

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from tests.cluster.queues import QUEUE, Queues
from tests.harness import kinds, objects
from tests.harness.client import Api, ApiError
from tests.harness.kinds import CRDS
from tests.harness.objects import Object

pytestmark = pytest.mark.usefixtures("reconciler")

GATE = "kueue.x-k8s.io/admission"


@pytest.fixture
def default_class(api: Api) -> Iterator[str]:
    name = f"default-{uuid4().hex[:6]}"
    api.create(priority_class(name, 1000))
    yield name
    api.delete("scheduling.k8s.io/v1/priorityclasses", name)


def priority_class(name: str, value: int) -> Object:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
        "globalDefault": True,
    }


def priority(queues: Queues, job: str) -> tuple[int, str]:
    spec: Any = (queues.workload(job) or {}).get("spec", {})
    return spec.get("priority", -1), spec.get("priorityClassRef", {}).get("name", "")


def test_jobs_of_no_class_have_the_priority_that_their_pods_will_have(
    queues: Queues, default_class: str
) -> None:
    queues.simple(cpu=1, stopPolicy="Hold")
    queues.job("job")
    queues.api.wait_for("it has it", lambda: priority(queues, "job") == (1000, default_class))


def test_a_start_that_is_refused_for_good_ends_the_workload(queues: Queues) -> None:
    """Jobs of any kind: what a flavor gives to their pods is invalid."""
    bad = queues.flavor("bad", tolerations=[{"key": "not a key!", "operator": "Exists"}])
    queues.local_queue("bad", queues.cluster_queue("bad", cpu=1, flavor=bad))
    queues.job("job", queue="bad")
    found = queues.await_condition("job", "Finished", reason="FailedToStart")
    assert "not a key!" in found["message"]
    assert queues.is_suspended("job")
    queues.job("next", queue="bad")
    queues.await_condition("next", "Finished", reason="FailedToStart")


@pytest.mark.parametrize(
    ("item", "words"),
    [
        ({"type": "Pod", "max": {"cpu": "4"}}, "has no limit of cpu"),
        ({"type": "Pod", "min": {"memory": "1Gi"}}, "a LimitRange demands 1Gi"),
        ({"type": "Pod", "maxLimitRequestRatio": {"cpu": "2"}}, "2 times the request"),
        (
            {"type": "Container", "default": {"cpu": "4"}, "maxLimitRequestRatio": {"cpu": "2"}},
            "2 times the request",
        ),
    ],
)
def test_a_job_whose_pods_limit_ranger_refuses_waits(
    queues: Queues, api: Api, item: Any, words: str
) -> None:
    api.create(
        {
            "apiVersion": "v1",
            "kind": "LimitRange",
            "metadata": {"name": "limits", "namespace": queues.namespace},
            "spec": {"limits": [item]},
        }
    )
    pod = objects.pod("pod", cpu="1", namespace=queues.namespace)
    with pytest.raises(ApiError, match="forbidden"):  # what the API server says of such a pod
        api.create(pod)
    queues.simple(cpu=4)
    queues.job("job")
    found = queues.await_condition("job", "QuotaReserved", "False", reason="Misconfigured")
    assert words in found["message"]


def test_a_job_set_whose_pods_could_have_no_such_label_waits(queues: Queues, api: Api) -> None:
    api.apply(CRDS)
    queues.simple(cpu=8)
    job: Any = kinds.fresh(kinds.jobset(), namespace=queues.namespace, queue="queue")
    template = job["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    template["metadata"] = {"labels": {"team": "no such value!"}}
    api.create(job)
    found = queues.await_condition("work", "QuotaReserved", "False", reason="Misconfigured")
    assert "label team=no such value!" in found["message"]


@pytest.mark.parametrize("kind", ["RayCluster", "Job"])
def test_pods_of_an_owner_that_is_not_queued_are_queued_themselves(
    queues: Queues, api: Api, kind: str
) -> None:
    api.apply(CRDS)
    queues.simple(cpu=4)
    owner: Object = objects.job("owner", 0, namespace=queues.namespace)
    if kind == "RayCluster":
        meta = {"name": "owner", "namespace": queues.namespace}
        owner = {"apiVersion": "ray.io/v1", "kind": kind, "metadata": meta, "spec": {}}
    made = api.create(owner)
    pod = objects.pod("p", gates=[GATE], cpu="1", namespace=queues.namespace)
    pod["metadata"]["labels"] = {QUEUE: "queue"}
    pod["metadata"]["ownerReferences"] = [objects.owner(made)]
    api.create(pod)

    def is_let_go() -> bool:
        return not api.get("pods", "p", queues.namespace)["spec"].get("schedulingGates")

    api.wait_for("it is let go", is_let_go)
    workload = queues.its_workload("p")
    assert workload["status"]["admission"]["podSetAssignments"][0]["count"] == 1


@pytest.mark.parametrize("labels", [{"pool": "no such value!"}, {"po ol": "a"}, {"a/b/c": "d"}])
def test_a_flavor_with_labels_that_no_node_has_is_refused(
    queues: Queues, labels: dict[str, str]
) -> None:
    with pytest.raises(ApiError, match=r"nodeLabels|node label"):
        queues.flavor(nodeLabels=labels)
    queues.flavor(nodeLabels={"example.com/Pool_1": "a.B-2", "empty": ""})
