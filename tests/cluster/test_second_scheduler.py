"""The second scheduler, kube-scheduler and the extender in one pod: its account and its pod."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import yaml

from tests.cluster.conftest import NodeFactory
from tests.cluster.gangs import Gangs
from tests.harness.client import Api, ApiError
from tests.harness.control_plane import ControlPlane
from tests.harness.gang_scheduler import NAMESPACE, ROOT, GangScheduler, install
from tests.harness.objects import Object

FILE = ROOT / "manifests" / "optional" / "second-scheduler.yaml"
NAME = "gang-scheduler"
DRY_RUN = {"dryRun": "All"}
JSON_PATCH = "application/json-patch+json"
URGENT = "system-cluster-critical"
"""A class that is there from the start."""


def only(kind: str) -> Object:
    """Return the one object of a kind in the file."""
    [found] = [each for each in yaml.safe_load_all(FILE.read_text()) if each["kind"] == kind]
    return dict(found)


def test_its_configuration_is_the_one_that_is_shipped() -> None:
    config = yaml.safe_load(only("ConfigMap")["data"]["kube-scheduler.yaml"])
    shipped = yaml.safe_load(Path(ROOT / "scheduler-config" / "kube-scheduler.yaml").read_text())

    assert config["extenders"] == shipped["extenders"]
    assert config["profiles"] == [{"schedulerName": NAME}]
    assert config["leaderElection"]["resourceNamespace"] == NAMESPACE
    rules = only("Role")["rules"]
    assert rules[-1]["resourceNames"] == [config["leaderElection"]["resourceName"]]


@pytest.fixture(scope="module")
def account(control_plane: ControlPlane, api: Api) -> Path:
    """The kubeconfig of its account, with the rights of the file."""
    install(control_plane)
    # Without the Deployment: its pods would take room from the tests that come later.
    documents = yaml.safe_load_all(FILE.read_text())
    api.apply([each for each in documents if each and each["kind"] != "Deployment"])
    return control_plane.service_account_kubeconfig(NAMESPACE, NAME)


@pytest.fixture(scope="module")
def second(control_plane: ControlPlane, account: Path) -> Iterator[GangScheduler]:
    found = GangScheduler(control_plane, name=NAME, kubeconfig=account)
    yield found
    found.stop()


@pytest.mark.usefixtures("second")
def test_it_starts_gangs_and_preempts_with_the_rights_of_one_account(
    api: Api, gangs: Gangs, nodes: NodeFactory
) -> None:
    nodes(2, cpu=2)
    gangs.create("g", 4, cpu=1, scheduler_name=NAME)
    gangs.await_phases("g", Running=4)

    urgent = gangs.pod("urgent", cpu=1, scheduler_name=NAME, priority_class=URGENT)
    api.create(urgent)

    def bound() -> bool:
        return gangs.node_of("urgent") is not None

    api.wait_for("a victim has made way", bound, 120)


def test_its_account_is_confined_as_the_extender_is(api: Api, gangs: Gangs, account: Path) -> None:
    api.create(gangs.pod("p", scheduler_name="nobody"))
    image = [{"op": "replace", "path": "/spec/containers/0/image", "value": "evil"}]
    path = f"/api/v1/namespaces/{gangs.namespace}/pods/p"
    with Api(account) as second:

        def refused() -> bool:
            try:
                second.request("PATCH", path, body=image, params=DRY_RUN, content_type=JSON_PATCH)
            except ApiError as error:
                return "of a pod the extender only changes" in str(error)
            return False

        api.wait_for("the policy refuses", refused)


def test_its_pods_are_let_into_the_restricted_namespace(api: Api, account: Path) -> None:
    del account
    template = only("Deployment")["spec"]["template"]
    body = {"apiVersion": "v1", "kind": "Pod", **template}
    body["metadata"] = {**template["metadata"], "name": "tried"}
    path = f"/api/v1/namespaces/{NAMESPACE}/pods"
    taken = api.request("POST", path, body=body, params={"dryRun": "All"})

    assert taken.status_code == httpx.codes.CREATED
    labels = api.get("namespaces", NAMESPACE)["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"
