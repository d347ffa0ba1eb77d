"""What `kubectl apply -k manifests/` applies, on a real API server."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.cluster.alone import alone
from tests.cluster.served import CONVERTED, CRDS
from tests.harness import objects
from tests.harness.client import Api, ApiError
from tests.harness.control_plane import ControlPlane
from tests.harness.gang_scheduler import NAMESPACE
from tests.harness.kustomize import build
from tests.harness.objects import Object
from tests.harness.process import free_port
from tests.harness.reconciler import Reconciler

ROOT = Path(__file__).parents[2]
FLOWS = "flowcontrol.apiserver.k8s.io/v1"
SECONDS = 120

control_plane, api = alone()


@pytest.fixture(scope="module")
def applied(api: Api) -> list[Object]:
    """Everything, twice: the second time nothing changes."""
    everything = build(ROOT / "manifests")
    api.apply(everything)
    for each in api.apply(everything):
        assert each["metadata"].get("generation", 1) == 1, each["metadata"]["name"]
    return everything


def test_each_object_is_taken_with_all_its_fields(api: Api, applied: list[Object]) -> None:
    for each in applied:
        api.tried(each, apply=True)


def test_every_object_of_the_older_clusters_is_one_of_the_default_set() -> None:
    default, older = (build(ROOT / name) for name in ("manifests", "overlays/before-1.30"))
    left_out = [each for each in default if each not in older]

    assert all(each in default for each in older)
    assert {each["kind"] for each in left_out} == {
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    }


def test_every_shipped_folder_is_applied_or_said_to_be_apart() -> None:
    apart = {"chart", "monitoring", "optional", "page", "samples", "second-scheduler", "static-pod"}
    manifests = ROOT / "manifests"
    named = set(yaml.safe_load((manifests / "kustomization.yaml").read_text())["resources"])

    there = {path.name for path in manifests.iterdir()}
    assert there == named | apart | {"kustomization.yaml"}


@pytest.fixture
def replica(control_plane: ControlPlane, applied: list[Object]) -> Iterator[Reconciler]:
    """A replica that the API server finds by the Services, as in a cluster."""
    served = {
        "enabled": True,
        "host": "127.0.0.1",
        "port": free_port(),
        "checkSeconds": 0.2,
        "olderWorkloads": True,
    }
    replica = Reconciler(control_plane, settings={"webhooks": served}, crds=False)
    yield replica
    replica.stop()


def test_what_is_applied_and_what_the_replica_writes_are_different_fields(
    api: Api, applied: list[Object], replica: Reconciler
) -> None:
    replica.wait_leading()

    def authorities() -> list[bool]:
        conversions = (api.get(CRDS, name)["spec"]["conversion"] for name in CONVERTED)
        return [bool(each["webhook"]["clientConfig"].get("caBundle")) for each in conversions]

    api.wait_for("the authority is written", lambda: all(authorities()), SECONDS)
    generations = [api.get(CRDS, name)["metadata"]["generation"] for name in CONVERTED]
    for _ in range(3):
        api.apply(each for each in applied if each["kind"] == "CustomResourceDefinition")
        assert all(authorities())

    found = [api.get(CRDS, name) for name in CONVERTED]
    assert [each["metadata"]["generation"] for each in found] == generations
    served = [[version["served"] for version in each["spec"]["versions"]] for each in found]
    # As it was applied, whatever the settings of the replica say.
    assert served == [[True, True], [True, True], [True, False]]


FLOW_OF = {
    ("gang-extender", "/api/v1/pods"): ("gang-extender", "gang-extender"),
    ("gang-reconciler", "/api/v1/pods"): ("gang-reconciler", "gang-reconciler"),
    (
        "gang-reconciler",
        f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/gang-extender-reconciler",
    ): ("gang-reconciler-leader-election", "leader-election"),
    ("default", "/api/v1/pods"): ("service-accounts", "workload-low"),
}


@pytest.mark.parametrize("certificate", [False, True], ids=["accounts", "a user"])
def test_requests_of_ours_have_priority_levels_of_their_own(
    control_plane: ControlPlane, api: Api, applied: list[Object], certificate: bool
) -> None:
    del applied
    account = {"apiVersion": "v1", "kind": "ServiceAccount"}
    api.apply({**account, "metadata": {"name": "default", "namespace": NAMESPACE}})
    asked = [each for each in FLOW_OF if not certificate or each[0] == "gang-extender"]

    def flow(account: str, path: str) -> tuple[str, str]:
        kubeconfig = (
            control_plane.kubeconfig(account)
            if certificate
            else control_plane.service_account_kubeconfig(NAMESPACE, account)
        )
        with Api(kubeconfig) as caller:
            try:
                headers = caller.request("GET", path).headers
            except ApiError as error:  # it may not, or there is none: the status above says which
                headers = error.headers
        return uids[headers["X-Kubernetes-PF-FlowSchema-UID"]], (
            uids[headers["X-Kubernetes-PF-PriorityLevel-UID"]]
        )

    kinds = ("flowschemas", "prioritylevelconfigurations")
    named = [each["metadata"] for kind in kinds for each in api.list(f"{FLOWS}/{kind}")]
    uids = {each["uid"]: each["name"] for each in named}
    api.wait_for(
        "the priority levels are in force",
        lambda: {each: flow(*each) for each in asked} == {each: FLOW_OF[each] for each in asked},
        SECONDS,
    )


def test_the_extenders_share_is_that_of_kube_scheduler(api: Api, applied: list[Object]) -> None:
    del applied
    levels = f"{FLOWS}/prioritylevelconfigurations"
    ours, theirs = (
        api.get(levels, name)["spec"]["limited"] for name in ("gang-extender", "workload-high")
    )
    assert ours["nominalConcurrencyShares"] >= theirs["nominalConcurrencyShares"]
    assert ours["limitResponse"]["type"] == "Queue"


def pods_of(each: Object) -> Iterator[tuple[str, Object]]:
    if each["kind"] == "Pod":
        yield each["metadata"]["namespace"], each
    elif "template" in each.get("spec", {}):
        template = each["spec"]["template"]
        pod: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", **template}
        yield each["metadata"]["namespace"], pod


def test_every_pod_of_the_default_set_is_let_into_its_restricted_namespace(
    api: Api, applied: list[Object]
) -> None:
    found = [pod for each in applied for pod in pods_of(each)]
    assert found
    for namespace, pod in found:
        labels = api.get("namespaces", namespace)["metadata"]["labels"]
        assert labels["pod-security.kubernetes.io/enforce"] == "restricted"
        body = {**pod, "metadata": {**pod["metadata"], "name": "tried"}}
        path = f"/api/v1/namespaces/{namespace}/pods"
        taken = api.request("POST", path, body=body, params={"dryRun": "All"})
        assert taken.status_code == httpx.codes.CREATED
        assert "Warning" not in taken.headers
    with pytest.raises(ApiError, match="violates PodSecurity"):
        api.create(objects.pod("loose", namespace=NAMESPACE))


SENT = "gang-scheduler"
POLICY = ROOT / "manifests" / "optional" / "second-scheduler-policy.yaml"
WORKLOAD = {"kueue.x-k8s.io/workload": "w"}
SCHEDULERS: dict[str, tuple[Object, str]] = {
    "of a group": ({"group": "g"}, SENT),
    "of a group of the older API": (
        {"group": "g", "label": "pod-group.scheduling.sigs.k8s.io"},
        SENT,
    ),
    "a job of a queue itself": ({"labels": {"kueue.x-k8s.io/queue-name": "q"}}, SENT),
    "of an admitted job": ({"annotations": WORKLOAD}, SENT),
    "any other": ({}, "default-scheduler"),
    "that names a scheduler": ({"group": "g", "scheduler_name": "mine"}, "mine"),
    "that has its node": ({"group": "g", "node_name": "n"}, "default-scheduler"),
    "of the system": ({"group": "g", "namespace": "kube-system"}, "default-scheduler"),
}


@pytest.fixture(scope="module")
def sending(api: Api) -> Iterator[None]:
    """The policy that sends pods to the second scheduler is in force."""
    made = api.apply(POLICY)
    api.wait_for("pods are sent", lambda: scheduler_of(api, group="g") == SENT, SECONDS)
    yield
    for each in made:
        api.request("DELETE", f"{api._path_of(each)}/{each['metadata']['name']}")


def scheduler_of(api: Api, namespace: str = "default", **options: Any) -> str:
    """Return the scheduler of a pod as it would be stored."""
    pod = objects.pod("tried", namespace=namespace, **options)
    path = f"/api/v1/namespaces/{namespace}/pods"
    taken = api.request("POST", path, body=pod, params={"dryRun": "All"}).json()
    return str(taken["spec"]["schedulerName"])


@pytest.mark.usefixtures("sending")
@pytest.mark.parametrize(("options", "scheduler"), SCHEDULERS.values(), ids=SCHEDULERS)
def test_the_scheduler_of_a_pod(api: Api, options: Object, scheduler: str) -> None:
    assert scheduler_of(api, **options) == scheduler
