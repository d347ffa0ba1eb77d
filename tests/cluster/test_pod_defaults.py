"""Quota is taken for what pods will ask for, with what their namespace and class add to it."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tests.cluster.conftest import NodeFactory
from tests.cluster.queues import Queues
from tests.harness.client import Api
from tests.harness.reconciler import Reconciler

pytestmark = pytest.mark.usefixtures("gang", "reconciler")

CONTAINER = {"name": "main", "image": "example.invalid/nothing"}
SECONDS = 120


@pytest.fixture(autouse=True)
def _nodes(nodes: NodeFactory) -> None:
    nodes(1, "16")


@pytest.fixture
def await_read(api: Api, reconciler: Reconciler) -> Callable[[str], object]:
    """Return what waits until the reconciler has read an object of a name that no other one has.

    A job that comes before is admitted without it.
    """

    def is_read(name: str) -> bool:
        url = f"{reconciler.url}/debug/snapshot"
        return f'{name}"' in httpx.get(url, trust_env=False, timeout=60).text

    return lambda name: api.wait_for(f"{name} is read", lambda: is_read(name))


def limit(api: Api, namespace: str, **item: Any) -> str:
    """Create a LimitRange; return its name."""
    name = f"limits-{namespace}"
    api.create(
        {
            "apiVersion": "v1",
            "kind": "LimitRange",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"limits": [{"type": "Container", **item}]},
        }
    )
    return name


def held(queues: Queues, job: str) -> dict[str, str]:
    """Return the quota that a job holds."""
    workload = queues.its_workload(job)
    [given] = workload["status"]["admission"]["podSetAssignments"]
    usage: dict[str, str] = given["resourceUsage"]
    return usage


def asked(api: Api, queues: Queues, job: str) -> list[dict[str, Any]]:
    """Return what the containers of a job's pods ask for, once there are some."""

    def found() -> list[dict[str, Any]]:
        pods = api.list("pods", queues.namespace)
        mine = (p for p in pods if p["metadata"]["labels"].get("job-name") == job)
        return [pod["spec"] for pod in mine]

    specs = api.wait_for(f"{job} has pods", found, SECONDS)
    return list(specs)


def test_what_a_limit_range_gives_to_containers_takes_quota(
    api: Api, queues: Queues, await_read: Callable[[str], object]
) -> None:
    await_read(limit(api, queues.namespace, defaultRequest={"cpu": "2", "memory": "64Mi"}))
    queues.simple(cpu=5)
    silent = {"pod_spec": {"containers": [CONTAINER]}, "run_for": "1h"}
    queues.job("first", 2, **silent)
    queues.await_admitted("first")
    assert held(queues, "first") == {"cpu": "4", "memory": "128Mi"}
    for spec in asked(api, queues, "first"):
        assert spec["containers"][0]["resources"]["requests"] == {"cpu": "2", "memory": "64Mi"}

    queues.job("second", 1, **silent)
    reported = queues.await_condition("second", "QuotaReserved", "False", reason="WaitingForQuota")
    assert "1 more needed" in reported["message"]


def test_pods_that_would_be_refused_wait_until_they_would_not(
    api: Api, queues: Queues, await_read: Callable[[str], object]
) -> None:
    name = limit(api, queues.namespace, max={"cpu": "1"}, defaultRequest={"cpu": "1"})
    await_read(name)
    queues.simple(cpu=8)
    queues.job("large", cpu="2", run_for="1h")
    reported = queues.await_condition("large", "QuotaReserved", "False", reason="Misconfigured")
    assert reported["message"] == (
        "no pod of pod set main could be made: container main asks for more cpu than its limit of 1"
    )
    assert queues.is_suspended("large")

    api.patch("limitranges", name, queues.namespace,
              body={"spec": {"limits": [{"type": "Container", "max": {"cpu": "4"}}]}})  # fmt: skip
    queues.await_admitted("large")
    queues.await_condition("large", "PodsReady")


def test_the_overhead_of_a_runtime_class_takes_quota(
    api: Api, queues: Queues, await_read: Callable[[str], object]
) -> None:
    name = queues.name("vm")
    kind = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "handler": "vm"}
    overhead = {"podFixed": {"cpu": "500m", "memory": "64Mi"}}
    api.create({**kind, "metadata": {"name": name}, "overhead": overhead})
    try:
        await_read(name)
        queues.simple(cpu=8)
        queues.job("boxed", 2, pod_spec={"runtimeClassName": name}, run_for="1h")
        queues.await_admitted("boxed")
        assert held(queues, "boxed") == {"cpu": "3", "memory": "256Mi"}
        for spec in asked(api, queues, "boxed"):
            assert spec["overhead"] == {"cpu": "500m", "memory": "64Mi"}
    finally:
        api.delete("node.k8s.io/v1/runtimeclasses", name)
