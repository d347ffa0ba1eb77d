"""`kubectl apply -k manifests/second-scheduler`, its pods run as processes as their YAML says."""

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial

import pytest

from tests.cluster.alone import alone
from tests.cluster.conftest import NodeFactory
from tests.cluster.gangs import POD_GROUPS, Gangs
from tests.cluster.queues import Queues
from tests.harness import objects
from tests.harness.client import Api
from tests.harness.control_plane import ControlPlane
from tests.harness.gang_scheduler import NAMESPACE, ROOT
from tests.harness.kustomize import build
from tests.harness.objects import Object
from tests.harness.pods import RunningPod, allowed
from tests.tiers import LONG

pytestmark = pytest.mark.skipif(not allowed(), reason="no namespaces may be made on this machine")

NAME = "gang-scheduler"
LEASES = "coordination.k8s.io/v1/leases"
COMPONENT = "app.kubernetes.io/component"
SECONDS = 180


control_plane, api = alone(controllers=True, kubelet=True, front_proxies=True)


@pytest.fixture(scope="module")
def applied(control_plane: ControlPlane, api: Api) -> Iterator[list[Object]]:
    """Everything, on a cluster with nodes and a scheduler of its own."""
    with control_plane.scheduler(name="the-clusters-own"):
        api.create(*(objects.node(f"system-{number}", "2") for number in range(2)))
        everything = build(ROOT / "manifests" / "second-scheduler")
        api.apply(everything)
        yield everything


@pytest.fixture(scope="module")
def pods(
    control_plane: ControlPlane, api: Api, applied: list[Object]
) -> Iterator[list[RunningPod]]:
    """Both schedulers and a reconciler, once their probes have answered."""
    names = {each["metadata"]["name"] for each in applied if each["kind"] == "Deployment"}
    assert names == {NAME, "gang-reconciler"}

    def placed(component: str) -> list[Object]:
        """The cluster's own scheduler has placed what the Deployment made."""
        found = api.list("pods", NAMESPACE, labels=f"{COMPONENT}={component}")
        return found if len([x for x in found if x["spec"].get("nodeName")]) == 2 else []

    stored = [
        *api.wait_for("the schedulers have nodes", lambda: placed("scheduler"), SECONDS),
        api.wait_for("the reconcilers have nodes", lambda: placed("reconciler"), SECONDS)[0],
    ]
    assert {each["spec"]["schedulerName"] for each in stored} == {"default-scheduler"}
    with ExitStack() as stack:
        running = [
            stack.enter_context(RunningPod(control_plane, api, pod, number + 1))
            for number, pod in enumerate(stored)
        ]
        for pod in running:
            for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
                answers = partial(pod.answers, probe)
                api.wait_for(f"{probe} of {pod.name}", answers, SECONDS)
        yield running


def test_every_object_is_taken_with_all_its_fields(api: Api, applied: list[Object]) -> None:
    for each in applied:
        api.tried(each, apply=True)


def test_a_gang_starts_as_a_whole_and_its_status_says_so(
    api: Api, gangs: Gangs, nodes: NodeFactory, pods: list[RunningPod]
) -> None:
    nodes(2, cpu=2)
    gangs.create("g", 4, cpu=1, scheduler_name=NAME)
    gangs.await_phases("g", Running=4, timeout=SECONDS)

    def runs() -> bool:
        found = api.get(POD_GROUPS, "g", gangs.namespace)
        return bool(found.get("status", {}).get("phase") == "Running")

    api.wait_for("the reconciler says so", runs, SECONDS)
    holder = leader(api)
    assert holder.startswith(tuple(pod.name for pod in schedulers(pods)))


@pytest.mark.usefixtures("pods")
def test_a_queued_job_starts_as_a_gang(
    api: Api, queues: Queues, nodes: NodeFactory, gangs: Gangs
) -> None:
    """The Job names no scheduler: the optional policy sends its pods."""
    policy = ROOT / "manifests" / "optional" / "second-scheduler-policy.yaml"
    made = api.apply(policy)
    tried = gangs.pod("tried", group="train")
    path = f"/api/v1/namespaces/{gangs.namespace}/pods"

    def sends() -> bool:
        taken = api.request("POST", path, body=tried, params={"dryRun": "All"}).json()
        return bool(taken["spec"]["schedulerName"] == NAME)

    api.wait_for("the policy sends pods", sends, SECONDS)
    nodes(2, cpu=2)
    queues.simple(cpu=4)
    api.create(objects.pod_group("train", 3, namespace=queues.namespace))
    queues.job("train", 3, cpu="1", group="train", run_for="600s")

    queues.await_started("train")
    gangs.await_phases("train", Running=3, timeout=SECONDS)
    assert {pod["spec"]["schedulerName"] for pod in gangs.members("train")} == {NAME}
    for each in made:
        api.request("DELETE", f"{api._path_of(each)}/{each['metadata']['name']}")


@LONG
def test_when_the_leaders_pod_is_lost_the_other_one_starts_gangs(
    api: Api, gangs: Gangs, nodes: NodeFactory, pods: list[RunningPod]
) -> None:
    nodes(2, cpu=2)
    api.wait_for("one leads", lambda: leader(api), SECONDS)
    before = leader(api)
    [leading] = [pod for pod in schedulers(pods) if before.startswith(pod.name)]
    for container in leading.containers.values():
        container.kill()

    gangs.create("g", 4, cpu=1, scheduler_name=NAME)
    gangs.await_phases("g", Running=4, timeout=SECONDS)
    assert leader(api) not in ("", before)


def leader(api: Api) -> str:
    """Return which kube-scheduler of ours leads: the name of its pod and more."""
    lease = api.find(LEASES, NAME, NAMESPACE) or {"spec": {}}
    holder: str = lease["spec"].get("holderIdentity", "")
    return holder


def schedulers(pods: list[RunningPod]) -> list[RunningPod]:
    """Return the pods of the second scheduler."""
    return [pod for pod in pods if pod.name.startswith(NAME)]
