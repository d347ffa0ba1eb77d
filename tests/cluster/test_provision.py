"""`requireRoom: Provision` on the control plane; the tests add the nodes that are asked for."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.alone import in_place_of, pair_of
from tests.cluster.conftest import NodeFactory
from tests.cluster.gangs import POD_GROUPS, Gangs
from tests.cluster.queues import API, Queues, condition
from tests.cluster.test_require_room import await_running
from tests.harness.client import Api, Object
from tests.harness.control_plane import ControlPlane
from tests.harness.reconciler import Reconciler

pytestmark = pytest.mark.usefixtures("gang")
GPU = "example.com/gpu"
SHOWS = {
    "agingSeconds": 2,
    "claimNodesPercentage": 100,
    "growing": True,
    "growthSeconds": 1,
    "publishKeptRoom": True,
}
shows = pair_of("shows", settings={"gang": SHOWS})
"""A pair of which autoscalers are shown what it keeps, and that soon."""

SECONDS = 120
BUFFERS = "autoscaling.x-k8s.io/v1beta1/capacitybuffers"
REQUESTS = "autoscaling.x-k8s.io/v1/provisioningrequests"
CRDS = "apiextensions.k8s.io/v1/customresourcedefinitions"


def definition(kind: str, version: str) -> Object:
    plural = f"{kind.lower()}s"
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    served = {
        "name": version,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": anything},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{plural}.autoscaling.x-k8s.io",
            "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"},
        },
        "spec": {
            "group": "autoscaling.x-k8s.io",
            "names": {"kind": kind, "plural": plural},
            "scope": "Namespaced",
            "versions": [served],
        },
    }


@pytest.fixture(scope="module")
def served(api: Api) -> Iterator[None]:
    """The API of CapacityBuffers and ProvisioningRequests, without a controller."""
    kinds = {"CapacityBuffer": ("v1beta1", BUFFERS), "ProvisioningRequest": ("v1", REQUESTS)}
    for kind, (version, resource) in kinds.items():
        body = definition(kind, version)
        api.create(body)
        name = body["metadata"]["name"]

        def established(name: str = name, resource: str = resource) -> bool:
            if condition(api.get(CRDS, name), "Established").get("status") != "True":
                return False
            api.list(resource)
            return True

        api.wait_for(f"{kind} is served", established, SECONDS)
    yield
    for kind in kinds:
        name = f"{kind.lower()}s.autoscaling.x-k8s.io"
        api.delete(CRDS, name)
        # Another module of this worker may create it again.
        api.wait_for(f"{name} is gone", lambda: api.find(CRDS, name) is None, SECONDS)  # noqa: B023


def growing(queues: Queues, cpu: int, **spec: Any) -> str:
    """Make a ClusterQueue that asks for nodes, and the LocalQueue `queue`."""
    name, _ = queues.simple(cpu=cpu, **spec)
    asks = {"metadata": {"annotations": {"scheduling.x-k8s.io/require-room": "Provision"}}}
    queues.api.patch(f"{API}/clusterqueues", name, body=asks)
    return name


def asked(api: Api, resource: str, namespace: str, count: int = 1) -> list[Object]:
    def there() -> list[Object] | None:
        found = api.list(resource, namespace)
        return found if len(found) == count else None

    found = api.wait_for(f"{count} {resource} are there", there, SECONDS)
    return found or []


def await_none(api: Api, resource: str, namespace: str) -> None:
    api.wait_for(f"no {resource} is left", lambda: not api.list(resource, namespace), SECONDS)


@pytest.mark.usefixtures("served", "reconciler")
def test_a_buffer_asks_for_the_nodes_and_goes_with_the_admission(
    api: Api, queues: Queues, nodes: NodeFactory
) -> None:
    nodes(1, "2")
    growing(queues, 16)
    queues.job("one", 4, run_for="1h")

    [buffer] = asked(api, BUFFERS, queues.namespace)
    assert buffer["spec"] == {
        "podTemplateRef": {"name": buffer["metadata"]["name"]},
        "replicas": 4,
    }
    template = api.get("podtemplates", buffer["metadata"]["name"], queues.namespace)["template"]
    assert template["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "1"

    def says_what_it_lacks() -> bool:
        waits = queues.condition("one", "Admitted")
        lacks = "quota yes; room for 2 of 4: 2 cpu short on 1 node"
        return (waits.get("reason"), waits.get("message")) == ("WaitingForNodes", lacks)

    api.wait_for("it says what it lacks", says_what_it_lacks, SECONDS)
    assert queues.condition("one", "QuotaReserved")["status"] == "True"
    assert queues.is_suspended("one")

    queues.job("two", 4, run_for="1h")
    said = queues.await_condition("two", "QuotaReserved", "False", timeout=SECONDS)
    assert said["message"].endswith("another workload of its ClusterQueue awaits nodes")
    assert len(api.list(BUFFERS, queues.namespace)) == 1

    nodes(1, "2", prefix="grown")
    await_running(api, queues, "one", 4)
    api.wait_for(
        "two asks for nodes",
        lambda: (
            [
                each["metadata"]["ownerReferences"][0]["name"]
                for each in api.list(BUFFERS, queues.namespace)
            ]
            == [queues.its_workload("two")["metadata"]["name"]]
        ),
        SECONDS,
    )
    queues.end_pods("one")
    await_running(api, queues, "two", 4)
    await_none(api, BUFFERS, queues.namespace)
    await_none(api, "podtemplates", queues.namespace)
    reasons = [
        each["reason"] for each in api.list("events", queues.namespace)
        if each["involvedObject"]["name"] == queues.its_workload("one")["metadata"]["name"]
    ]  # fmt: skip
    assert {"QuotaReserved", "NodesRequested"} <= {*reasons}


@pytest.mark.usefixtures("served", "reconciler")
def test_what_is_deleted_while_it_waits_asks_no_more(
    api: Api, queues: Queues, nodes: NodeFactory
) -> None:
    nodes(1, "2")
    name = growing(queues, 16)
    queues.job("one", 4)
    asked(api, BUFFERS, queues.namespace)
    api.delete("batch/v1/jobs", "one", queues.namespace)
    await_none(api, BUFFERS, queues.namespace)

    def released() -> bool:
        status = api.get(f"{API}/clusterqueues", name).get("status", {})
        return bool(status.get("reservingWorkloads") == 0)

    api.wait_for("the quota is released", released, SECONDS)


@pytest.mark.usefixtures("served")
def test_a_request_that_fails_releases_the_quota_and_a_restart_goes_on(
    control_plane: ControlPlane,
    reconciler: Reconciler,
    api: Api,
    queues: Queues,
    nodes: NodeFactory,
) -> None:
    nodes(1, "2")
    growing(queues, 4)
    own = {"queue": {"provisioningClass": "test.example/atomic"}}
    with in_place_of(reconciler, control_plane, "by-request", own) as other:
        queues.job("one", 4, run_for="1h")
        [request] = asked(api, REQUESTS, queues.namespace)
        assert request["spec"]["provisioningClassName"] == "test.example/atomic"
        [pods] = request["spec"]["podSets"]
        assert pods["count"] == 4
        assert api.get("podtemplates", pods["podTemplateRef"]["name"], queues.namespace)
        other.stop()
        other.start()
        other.wait_leading()
        failed = {"type": "Failed", "status": "True", "message": "capacity is not found"}
        name = request["metadata"]["name"]
        body = {"status": {"conditions": [failed]}}
        api.patch(REQUESTS, name, queues.namespace, body=body, subresource="status")
        evicted = queues.await_condition("one", "Evicted", timeout=SECONDS)
        assert (evicted["reason"], evicted["message"]) == ("NodesTimeout", "capacity is not found")
        await_none(api, REQUESTS, queues.namespace)
        assert (
            queues.its_workload("one")["status"]["schedulingStats"]["evictions"][0]["reason"]
            == "NodesTimeout"
        )
        queues.job("small", 2, run_for="1h")
        await_running(api, queues, "small", 2)
        assert queues.is_suspended("one")


@pytest.mark.usefixtures("served", "shows")
def test_nodes_that_are_set_aside_have_buffers_as_long_as_they_are(
    control_plane: ControlPlane, reconciler: Reconciler, gangs: Gangs, nodes: NodeFactory
) -> None:
    api, namespace = gangs.api, gangs.namespace
    names = nodes(2, "4", extended={GPU: 2})
    for name in names:
        api.create(gangs.pod(f"on-{name}", cpu="3", node_name=name))
    of: dict[str, Any] = {"cpu": "4", "extended": {GPU: 1}, "scheduler_name": "shows"}
    with in_place_of(reconciler, control_plane, "shows", {"gang": SHOWS}) as other:
        api.create(gangs.pod("asks", cpu="0", scheduler_name="shows"))
        gangs.create("g", 2, **of)
        both = dict.fromkeys(names, ("1", "2"))
        api.wait_for("both are shown", lambda: shown(gangs) == both, SECONDS)
        assert api.get(POD_GROUPS, "g", namespace)["status"]["keptNodes"] == sorted(names)
        [buffer, _] = api.list(BUFFERS, namespace)
        [owner] = buffer["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["name"]) == ("PodGroup", "g")

        other.stop()
        api.create(gangs.pod("more", cpu="1", node_name=names[0]))
        other.start()
        left = {names[0]: ("0", "2"), names[1]: ("1", "2")}
        api.wait_for("it shows what is left", lambda: shown(gangs) == left, SECONDS)

        gangs.delete(["g-0", "g-1"])
        api.delete(POD_GROUPS, "g", namespace)
        await_none(api, BUFFERS, namespace)
        await_none(api, "podtemplates", namespace)
        gangs.create("h", 2, **of)
        api.wait_for("they are shown again", lambda: shown(gangs) == left, SECONDS)
    # The reconciler that all tests share makes none.
    await_none(api, BUFFERS, namespace)
    await_none(api, "podtemplates", namespace)


@pytest.mark.usefixtures("served", "shows")
def test_the_nodes_are_shown_that_the_extender_keeps_and_a_start_ends_that(
    control_plane: ControlPlane, reconciler: Reconciler, gangs: Gangs, nodes: NodeFactory
) -> None:
    """A process that starts now would set the other two aside, where more is free by then."""
    api, names = gangs.api, nodes(4, "4")
    for name, cpu in zip(names, "2233", strict=True):
        api.create(gangs.pod(f"on-{name}", cpu=cpu, node_name=name))
    kept = dict.fromkeys(names[:2], ("2", "0"))
    with in_place_of(reconciler, control_plane, "shows", {"gang": SHOWS}) as other:
        api.create(gangs.pod("asks", cpu="0", scheduler_name="shows"))
        gangs.create("g", 2, cpu="4", scheduler_name="shows")
        api.wait_for("they are shown", lambda: shown(gangs) == kept, SECONDS)

        other.stop()
        # The small ones first: the extender goes on, and binds the gang where nodes are empty.
        api.create(*(gangs.pod(f"small-on-{n}", cpu="1", node_name=n) for n in names[2:]))
        gangs.delete([f"on-{name}" for name in names[2:]])
        api.create(gangs.pod("more", cpu="1", node_name=names[0]))
        other.start()
        left = {**kept, names[0]: ("1", "0")}
        api.wait_for("the same are shown", lambda: shown(gangs) == left, SECONDS)

        gangs.delete(["more", *(f"on-{name}" for name in names[:2])])
        api.wait_for("the gang starts", lambda: len(gangs.bound("g")) == 2, SECONDS)
        await_none(api, BUFFERS, gangs.namespace)
        await_none(api, "podtemplates", gangs.namespace)

    def kept_no_more() -> bool:
        return "keptNodes" not in api.get(POD_GROUPS, "g", gangs.namespace)["status"]

    api.wait_for("no nodes are kept", kept_no_more, SECONDS)


def shown(gangs: Gangs) -> dict[str, tuple[str, str]]:
    """Return the CPUs and the GPUs that buffers take of each node."""
    found = {}
    for buffer in gangs.api.list(BUFFERS, gangs.namespace):
        name = buffer["spec"]["podTemplateRef"]["name"]
        template = gangs.api.find("podtemplates", name, gangs.namespace)
        spec = template["template"]["spec"] if template else {"nodeSelector": {}}
        for host in spec["nodeSelector"].values():
            taken = spec["containers"][0]["resources"]["requests"]
            found[host] = taken.get("cpu", "0"), taken.get(GPU, "0")
    return found
