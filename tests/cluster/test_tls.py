"""kube-scheduler and the extender over TLS with client certificates."""

import ssl
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tests.cluster.conftest import NodeFactory
from tests.harness import objects
from tests.harness.certificates import Authority, KeyPair
from tests.harness.client import Api
from tests.harness.control_plane import ControlPlane
from tests.harness.gang_scheduler import install, scheduler_config
from tests.harness.process import free_port

SCHEDULER = "tls-scheduler"


@dataclass(frozen=True)
class TlsExtender:
    """An extender that serves TLS, and what its clients need."""

    url: str
    authority: Authority
    client: KeyPair
    stranger: KeyPair


@pytest.fixture(scope="module")
def tls(
    control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[TlsExtender]:
    folder: Path = tmp_path_factory.mktemp("tls")
    ours, theirs = Authority(folder / "ours"), Authority(folder / "theirs")
    serving, port = ours.serving("extender"), free_port()
    url = f"https://127.0.0.1:{port}"
    flags = {
        "--kubeconfig": install(control_plane),
        "--port": port,
        "--tls-cert-file": serving.certificate,
        "--tls-key-file": serving.key,
        "--tls-client-ca-file": ours.ca,
    }
    arguments = [str(part) for flag in flags.items() for part in flag]
    command = [sys.executable, "-m", "extender", "serve", *arguments]
    with control_plane.spawn("tls-extender", command, url=url) as extender:
        found = TlsExtender(url, ours, ours.client("kube-scheduler"), theirs.client("stranger"))

        def ready() -> bool:
            assert extender.running, extender.tail(40)
            try:
                return get(found, found.client).status_code == 200
            except httpx.TransportError:
                return False

        control_plane.wait_until("the extender is ready", ready)
        yield found


def get(tls: TlsExtender, pair: KeyPair | None) -> httpx.Response:
    """Return what /readyz says to a client with that certificate, or with none."""
    context = ssl.create_default_context(cafile=tls.authority.ca)
    if pair is not None:
        context.load_cert_chain(pair.certificate, pair.key)
    with httpx.Client(verify=context, trust_env=False) as client:
        return client.get(f"{tls.url}/readyz")


def test_a_gang_starts_through_an_extender_that_serves_tls(
    control_plane: ControlPlane, tls: TlsExtender, api: Api, nodes: NodeFactory, namespace: str
) -> None:
    config = scheduler_config(0, profiles=[{"schedulerName": SCHEDULER}])
    for entry in config["extenders"]:
        entry["urlPrefix"] = tls.url
        entry["enableHTTPS"] = True
        entry["tlsConfig"] = {
            "caFile": str(tls.authority.ca),
            "certFile": str(tls.client.certificate),
            "keyFile": str(tls.client.key),
        }
    nodes(1, cpu="4")
    with control_plane.scheduler(config, name=SCHEDULER):
        api.create(objects.pod_group("tls", 2, namespace=namespace))
        for number in range(2):
            name = f"tls-{number}"
            member = objects.pod(
                name, "1", namespace=namespace, group="tls", scheduler_name=SCHEDULER
            )
            api.create(member)

        def bound() -> bool:
            pods = api.list("pods", namespace)
            return len(pods) == 2 and all(pod["spec"].get("nodeName") for pod in pods)

        api.wait_for("both members are bound", bound)


@pytest.mark.parametrize("who", ["nobody", "a stranger"])
def test_a_client_without_a_certificate_of_our_authority_is_turned_away(
    tls: TlsExtender, who: str
) -> None:
    pair = None if who == "nobody" else tls.stranger
    with pytest.raises(httpx.TransportError):
        get(tls, pair)
    assert get(tls, tls.client).status_code == 200
