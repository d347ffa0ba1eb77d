"""`kubectl apply -k overlays/remote-cert-manager`: kube-scheduler asks an extender by TLS."""

import ssl
from base64 import b64decode
from collections.abc import Iterator
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.cluster.conftest import NodeFactory
from tests.cluster.gangs import Gangs
from tests.harness import cert_manager
from tests.harness.client import Api
from tests.harness.control_plane import ControlPlane
from tests.harness.gang_scheduler import NAMESPACE, ROOT, install
from tests.harness.kustomize import build
from tests.harness.objects import Object
from tests.harness.pods import RunningPod, allowed
from tests.harness.process import free_port

pytestmark = pytest.mark.skipif(not allowed(), reason="no namespaces may be made on this machine")

NAME = "gang-extender"
SCHEDULER = "remote-scheduler"
OURS = ROOT / "overlays/remote-cert-manager"
VERBS = ("filter", "prioritize", "preempt", "bind")
SECONDS = 180


@pytest.fixture(scope="module")
def applied(control_plane: ControlPlane, api: Api) -> list[Object]:
    """What it has beside manifests/, of which the extender's part is applied for all tests."""
    install(control_plane)
    api.apply(ROOT / "tests/harness/crds/cert-manager.yaml")
    default = build(ROOT / "manifests")
    own = [each for each in build(OURS) if each not in default]
    api.apply([each for each in own if each["kind"] != "Deployment"])
    api.apply(cert_manager.secrets(own))
    return own


def only(objects: list[Object], kind: str) -> Any:
    [found] = [x for x in objects if x["kind"] == kind and x["metadata"]["name"] == NAME]
    return found


@pytest.fixture(scope="module")
def extender(control_plane: ControlPlane, api: Api, applied: list[Object]) -> Iterator[RunningPod]:
    """The Deployment's pod, once its probes have answered."""
    template = only(applied, "Deployment")["spec"]["template"]
    service = only(applied, "Service")["spec"]
    assert service["selector"].items() <= template["metadata"]["labels"].items()
    ports = {x["name"]: x["containerPort"] for x in template["spec"]["containers"][0]["ports"]}
    # It is placed by no scheduler here: it has a node.
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "remote", "namespace": NAMESPACE, **template["metadata"]},
        "spec": {**template["spec"], "nodeName": "elsewhere"},
    }
    stored = api.create(pod)
    port = ports[service["ports"][0]["targetPort"]]
    with RunningPod(control_plane, api, stored, 1, port=port) as running:
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            api.wait_for(f"{probe} answers", partial(running.answers, probe), SECONDS)
        yield running
    path = f"/api/v1/namespaces/{NAMESPACE}/pods/remote"
    api.request("DELETE", path, params={"gracePeriodSeconds": "0"})  # no kubelet ends it


@pytest.fixture(scope="module")
def files(api: Api, applied: list[Object], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the administrator copies to kube-scheduler."""
    assert applied
    folder: Path = tmp_path_factory.mktemp("kube-scheduler")
    for name, data in api.get("secrets", "gang-extender-client", NAMESPACE)["data"].items():
        (folder / name).write_bytes(b64decode(data))
    return folder


def configured(files: Path, port: int, profile: str) -> dict[str, Any]:
    """Return the shipped file, with the address and the folder of this machine."""
    text = (ROOT / "scheduler-config/remote.yaml").read_text()
    text = text.replace("/etc/kubernetes/gang-extender/", f"{files}/")
    found: dict[str, Any] = yaml.safe_load(text)
    for entry in found["extenders"]:
        entry["urlPrefix"] = f"https://127.0.0.1:{port}"
    return {**found, "profiles": [{"schedulerName": profile}]}


def client(extender: RunningPod, files: Path, *, certificate: Path | None) -> httpx.Client:
    context = ssl.create_default_context(cafile=files / "ca.crt")
    context.check_hostname = False
    if certificate is not None:
        context.load_cert_chain(certificate / "tls.crt", certificate / "tls.key")
    url = f"https://127.0.0.1:{extender.network.outside_port}"
    return httpx.Client(verify=context, trust_env=False, base_url=url, timeout=60)


def test_a_gang_starts_through_it(
    control_plane: ControlPlane,
    extender: RunningPod,
    files: Path,
    gangs: Gangs,
    nodes: NodeFactory,
) -> None:
    nodes(2, cpu=2)
    config = configured(files, extender.network.outside_port, SCHEDULER)
    with control_plane.scheduler(config, name=SCHEDULER):
        gangs.create("g", 2, cpu=1, scheduler_name=SCHEDULER)
        gangs.await_phases("g", Running=2, timeout=SECONDS)


def test_kube_scheduler_gets_the_name_of_the_service_in_its_certificate(
    extender: RunningPod, files: Path
) -> None:
    config = yaml.safe_load((ROOT / "scheduler-config/remote.yaml").read_text())
    names = {entry["tlsConfig"]["serverName"] for entry in config["extenders"]}
    assert names == {f"{NAME}.{NAMESPACE}.svc"}
    with client(extender, files, certificate=files) as http:
        assert http.get("/readyz").status_code == 200
        for verb in VERBS:
            assert http.post(f"/{verb}", json={}).status_code == 200


def test_without_a_certificate_nothing_is_answered(extender: RunningPod, files: Path) -> None:
    with (
        client(extender, files, certificate=None) as http,
        pytest.raises(httpx.TransportError),
    ):
        http.get("/livez")
    with client(extender, files, certificate=files) as http:
        assert http.get("/livez").status_code == 200


def test_the_certificate_of_the_probes_reads_the_health_and_calls_no_verb(
    api: Api, extender: RunningPod, files: Path, tmp_path: Path
) -> None:
    for name, data in api.get("secrets", "gang-extender-tls", NAMESPACE)["data"].items():
        (tmp_path / name).write_bytes(b64decode(data))
    with client(extender, files, certificate=tmp_path) as http:
        assert http.get("/readyz").status_code == 200
        for verb in VERBS:
            assert http.post(f"/{verb}", json={}).status_code == 403


def test_the_api_server_takes_its_pod_and_every_field(api: Api, applied: list[Object]) -> None:
    for each in applied:
        api.tried(each, apply=True)


LONELY = "lonely"
DEPLOYMENTS = "apps/v1/deployments"


def test_its_pod_gets_no_node_from_the_scheduler_that_asks_it_and_needs_none_where_it_names_one(
    control_plane: ControlPlane, api: Api, applied: list[Object], nodes: NodeFactory, files: Path
) -> None:
    """No extender answers here, as where its node has gone away."""
    [node] = nodes(1, cpu=2)
    deployment = deepcopy(only(applied, "Deployment"))
    deployment["metadata"]["name"] = LONELY
    deployment["spec"]["template"]["spec"]["schedulerName"] = LONELY
    config = configured(files, free_port(), LONELY)

    def pods() -> list[Object]:
        owned = f"{LONELY}-"
        return [x for x in api.list("pods", NAMESPACE) if x["metadata"]["name"].startswith(owned)]

    def refused() -> bool:
        texts = [c["message"] for pod in pods() for c in pod["status"].get("conditions", ())]
        return any("connection refused" in text for text in texts)

    with control_plane.scheduler(config, name=LONELY):
        api.create(deployment)
        api.wait_for("its pod waits for itself", refused, SECONDS)
        named = {"spec": {"template": {"spec": {"nodeName": node}}}}
        api.patch(DEPLOYMENTS, LONELY, NAMESPACE, body=named)

        def runs() -> bool:
            status = api.get(DEPLOYMENTS, LONELY, NAMESPACE)["status"]
            return bool(status.get("readyReplicas") == 1 == status.get("updatedReplicas"))

        api.wait_for("it runs where it is sent", runs, SECONDS)
        assert [pod["spec"]["nodeName"] for pod in pods()] == [node]
    api.delete(DEPLOYMENTS, LONELY, NAMESPACE)
    api.wait_for("it is gone", lambda: not pods(), SECONDS)
