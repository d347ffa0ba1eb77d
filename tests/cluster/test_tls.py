"""kube-scheduler and the extender over TLS with client certificates."""

import ssl
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.cluster.conftest import NodeFactory
from tests.harness import objects
from tests.harness.certificates import Authority, KeyPair
from tests.harness.client import Api
from tests.harness.control_plane import ControlPlane
from tests.harness.gang_scheduler import install, scheduler_config
from tests.harness.process import Component, free_port

SCHEDULER = "tls-scheduler"


@dataclass
class TlsExtender:
    """An extender that serves TLS, and what its clients need."""

    url: str
    authority: Authority
    client: KeyPair
    unnamed: KeyPair
    stranger: KeyPair
    files: Path
    process: Component | None = None

    def renew(self, authority: Authority) -> None:
        """Have it serve what another authority has signed, to clients of that authority."""
        serving = authority.serving("extender")
        for name, path in (
            ("ca.crt", authority.ca),
            ("tls.key", serving.key),
            ("tls.crt", serving.certificate),
        ):
            copied = self.files / f".{name}"
            copied.write_bytes(path.read_bytes())
            copied.replace(self.files / name)


@pytest.fixture(scope="module")
def tls(
    control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[TlsExtender]:
    folder: Path = tmp_path_factory.mktemp("tls")
    ours, theirs = Authority(folder / "ours"), Authority(folder / "theirs")
    files, port = folder / "served", free_port()
    files.mkdir()
    url = f"https://127.0.0.1:{port}"
    config = folder / "config.yaml"
    config.write_text(yaml.safe_dump({"listen": {"tls": {"checkSeconds": 0.1}}}))
    found = TlsExtender(
        url,
        ours,
        ours.client("system:kube-scheduler"),
        ours.client("system:node:n0"),
        theirs.client("system:kube-scheduler"),
        files,
    )
    found.renew(ours)
    flags = {
        "--kubeconfig": install(control_plane),
        "--port": port,
        "--config": config,
        "--tls-cert-file": files / "tls.crt",
        "--tls-key-file": files / "tls.key",
        "--tls-client-ca-file": files / "ca.crt",
        "--tls-client-name": "system:kube-scheduler",
    }
    arguments = [str(part) for flag in flags.items() for part in flag]
    command = [sys.executable, "-m", "gang_tools", "serve", *arguments]
    with control_plane.spawn("tls-extender", command, url=url) as extender:
        found.process = extender

        def ready() -> bool:
            assert extender.running, extender.tail(40)
            try:
                return get(found, found.client).status_code == 200
            except httpx.TransportError:
                return False

        control_plane.wait_until("the extender is ready", ready)
        yield found


def client(tls: TlsExtender, pair: KeyPair | None, authority: Authority) -> httpx.Client:
    """Return a client with that certificate, or with none, that believes an authority."""
    context = ssl.create_default_context(cafile=authority.ca)
    if pair is not None:
        context.load_cert_chain(pair.certificate, pair.key)
    return httpx.Client(verify=context, trust_env=False, base_url=tls.url, timeout=60)


def get(
    tls: TlsExtender, pair: KeyPair | None, path: str = "/readyz", by: Authority | None = None
) -> httpx.Response:
    """Return what a path says to a client with that certificate, or with none."""
    with client(tls, pair, by or tls.authority) as http:
        return http.get(path)


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


@pytest.mark.parametrize("client", ["without one", "of a stranger"])
def test_a_client_without_a_certificate_of_our_authority_is_turned_away(
    tls: TlsExtender, client: str
) -> None:
    pair = None if client == "without one" else tls.stranger
    with pytest.raises(httpx.TransportError):
        get(tls, pair)
    assert get(tls, tls.client).status_code == 200


@pytest.mark.parametrize("verb", ["filter", "prioritize", "preempt", "bind"])
def test_a_client_of_our_authority_with_another_name_may_look_and_not_call(
    tls: TlsExtender, verb: str
) -> None:
    with client(tls, tls.unnamed, tls.authority) as http:
        answer = http.post(f"/{verb}", json={})
        assert answer.status_code == 403
        assert "system:node:n0" in answer.text
        assert "clientNames" in answer.text
        for path in ("/livez", "/readyz", "/metrics"):
            assert http.get(path).status_code == 200
    with client(tls, tls.client, tls.authority) as http:
        assert http.post(f"/{verb}", json={}).status_code == 200


def test_renewed_files_are_served_and_old_authorities_are_not_believed_any_more(
    control_plane: ControlPlane, tls: TlsExtender, tmp_path: Path
) -> None:
    newer = Authority(tmp_path / "newer")
    pair = newer.client("system:kube-scheduler")
    before = certificate_ends(tls, tls.client, tls.authority)
    with client(tls, tls.client, tls.authority) as kept:
        assert kept.get("/livez").status_code == 200

        tls.renew(newer)

        def is_served() -> bool:
            try:
                return get(tls, pair, by=newer).status_code == 200
            except httpx.TransportError:
                return False

        try:
            control_plane.wait_until("the renewed certificate is served", is_served)
            with pytest.raises(httpx.TransportError):
                get(tls, tls.client, by=newer)  # its authority is not believed any more
            # A connection of before ends too: its client must show itself anew.
            with pytest.raises(httpx.TransportError):
                kept.get("/livez")
            after = certificate_ends(tls, pair, newer)
        finally:
            tls.renew(tls.authority)
            control_plane.wait_until("it is as before", lambda: is_back(tls))

    assert set(before) == set(after) == {"serving", "client-ca"}
    assert all(after[name] > before[name] for name in after)


def is_back(tls: TlsExtender) -> bool:
    try:
        return get(tls, tls.client).status_code == 200
    except httpx.TransportError:
        return False


def certificate_ends(tls: TlsExtender, pair: KeyPair, by: Authority) -> dict[str, float]:
    """Return the ends of certificates by name, as /metrics has them."""
    name = "gang_extender_certificate_end_timestamp_seconds"
    page = get(tls, pair, "/metrics", by).text
    return {
        sample.labels["certificate"]: sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if sample.name == name
    }


def sample(page: str, name: str, **labels: str) -> float:
    """Return a sample of a page of metrics; 0 where there is none yet."""
    found = (
        each.value
        for family in text_string_to_metric_families(page)
        for each in family.samples
        if each.name == name and each.labels == labels
    )
    return next(found, 0.0)


def test_files_that_do_not_fit_together_are_not_taken(
    control_plane: ControlPlane, tls: TlsExtender, tmp_path: Path
) -> None:
    process = tls.process
    assert process is not None
    other = Authority(tmp_path / "other").serving("extender")
    good = (tls.files / "tls.key").read_bytes()

    (tls.files / "tls.key").write_bytes(other.key.read_bytes())
    try:
        control_plane.wait_until(
            "it is logged", lambda: "serving with the former certificate" in process.tail(20)
        )
        assert get(tls, tls.client).status_code == 200
    finally:
        (tls.files / "tls.key").write_bytes(good)
