"""What is written of kinds other than Job, on a real API server; their operators are not there."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from extender.jobs.job import GenericJob, JobPodSet, Step
from extender.jobs.kinds.plain_pods import PlainPods, pod_of
from extender.jobs.registry import Integration, builtin
from extender.jobs.templates import Placement
from extender.jobs.workload import Priority, build
from tests.cluster.conftest import NodeFactory
from tests.harness import objects
from tests.harness.client import Api
from tests.harness.control_plane import ControlPlane
from tests.harness.objects import Object

REPO = Path(__file__).parents[2]
CRDS = REPO / "tests" / "harness" / "crds"
WORKLOADS = REPO / "manifests" / "crds" / "kueue.x-k8s.io_workloads.yaml"
TIER = {"test/tier": "spot"}
TOLERATION = {"key": "test/spot", "operator": "Exists", "effect": "NoSchedule"}
SECONDS = 120


@pytest.fixture(scope="module")
def kinds(api: Api) -> None:
    api.apply(CRDS)
    api.apply(WORKLOADS)


def resource(integration: Integration) -> str:
    return f"{integration.api_version}/{integration.plural}"


def send(api: Api, integration: Integration, namespace: str, steps: Sequence[Step]) -> None:
    for step in steps:
        name = step.member or "work"
        where = resource(integration).removeprefix("v1/")
        if step.delete:
            api.delete(where, name, namespace)
        else:
            api.patch(where, name, namespace, body=step.patch, subresource=step.subresource)


def places(pod_sets: Sequence[Slot]) -> list[Placement]:
    return [
        Placement(each.name, each.count, TIER, (TOLERATION,), {"kueue.x-k8s.io/podset": each.name})
        for each in pod_sets
    ]


def workload_of(job: GenericJob) -> Any:
    """Return a job's workload without a queue, so that no controller changes it."""
    made: Any = build(job, Priority())
    made["spec"].pop("queueName", None)
    made["metadata"]["finalizers"] = []
    return made


def without_empty(found: Any) -> Any:
    """Leave out the metadata of templates that nothing is left in."""
    if isinstance(found, list):
        return [without_empty(each) for each in found]
    if isinstance(found, Mapping):
        inside = {name: without_empty(each) for name, each in found.items()}
        return {name: each for name, each in inside.items() if each != {}}
    return found


@pytest.fixture
def scheduler(control_plane: ControlPlane) -> Iterator[None]:
    profiles = {"profiles": [{"schedulerName": "pods"}]}
    component = control_plane.scheduler(profiles, name="kube-scheduler-pods")
    yield
    component.stop()


@pytest.mark.usefixtures("kinds", "scheduler")
def test_a_group_of_pods_is_let_go_where_its_quota_is(
    api: Api, namespace: str, nodes: NodeFactory
) -> None:
    nodes(1, prefix="plain")
    [spot] = nodes(
        1, prefix="spot", labels=TIER, taints=[{"key": "test/spot", "effect": "NoSchedule"}]
    )
    integration = builtin()["pod"]
    for name, cpu in (("a", "1"), ("b", "1"), ("c", "2")):
        made = objects.pod(
            name,
            cpu,
            namespace=namespace,
            group="g",
            label="kueue.x-k8s.io/pod-group-name",
            annotations={"kueue.x-k8s.io/pod-group-total-count": "3"},
            gates=["kueue.x-k8s.io/admission"],
            run_for="1h",
            scheduler_name="pods",
        )
        api.create(made)

    def read() -> GenericJob:
        return integration.wrap_all([pod_of(each) for each in api.list("pods", namespace)])

    assert read().is_suspended()
    pod_sets = read().pod_sets()
    stored: Object = api.create(workload_of(read()))
    assert stored["metadata"]["name"] == "g"
    assert sorted(each["count"] for each in stored["spec"]["podSets"]) == [1, 2]

    send(api, integration, namespace, read().start_steps(places(pod_sets)))
    assert not read().is_suspended()
    api.wait_for("all run", lambda: read().pods_ready(), SECONDS)
    nodes_of = {
        pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in api.list("pods", namespace)
    }
    assert nodes_of == dict.fromkeys("abc", spot)
    assert [(each.name, each.count) for each in read().pod_sets()] == [
        (each.name, each.count) for each in pod_sets
    ]

    running = read()
    assert isinstance(running, PlainPods)
    assert running.is_active()
    send(api, integration, namespace, running.stop_steps(None))
    api.wait_for("the pods are gone", lambda: not api.list("pods", namespace), SECONDS)
