"""The commands that make certificates for an extender over the network, as the page has them."""

import shutil
import ssl
import subprocess
from pathlib import Path

import pytest

from tests.documents import ROOT, blocks

PAGE = ROOT / "scheduler-config" / "README.md"
NAME = "gang-extender.gang-extender-system.svc"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the commands were run."""
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl on this machine")
    folder: Path = tmp_path_factory.mktemp("certificates")
    [block] = [each for each in blocks("console") if each.path == PAGE and "openssl" in each.text]
    lines = block.text.replace("\\\n", " ").splitlines()
    for line in lines:
        command = line.removeprefix("$ ")
        subprocess.run(["sh", "-ec", command], cwd=folder, check=True, capture_output=True)
    return folder


def shake_hands(client: ssl.SSLContext, server: ssl.SSLContext) -> ssl.SSLObject:
    """Return the server's side after a handshake in memory; SSLError where one side refuses."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = server.wrap_bio(to_server, to_client, server_side=True)
    theirs = client.wrap_bio(to_client, to_server, server_hostname=NAME)
    waiting = [theirs, ours]
    while waiting:
        for each in list(waiting):
            try:
                each.do_handshake()
            except ssl.SSLWantReadError:
                continue
            waiting.remove(each)
    return ours


def context(made: Path, purpose: ssl.Purpose, name: str) -> ssl.SSLContext:
    found = ssl.create_default_context(purpose, cafile=made / "ca.crt")
    found.load_cert_chain(made / f"{name}.crt", made / f"{name}.key")
    found.verify_mode = ssl.CERT_REQUIRED
    return found


@pytest.mark.parametrize(
    ("name", "shown"),
    [("kube-scheduler", "system:kube-scheduler"), ("tls", "gang-extender")],
    ids=["kube-scheduler", "the probes"],
)
def test_both_sides_take_what_was_made(made: Path, name: str, shown: str) -> None:
    server = context(made, ssl.Purpose.CLIENT_AUTH, "tls")
    client = context(made, ssl.Purpose.SERVER_AUTH, name)
    certificate = shake_hands(client, server).getpeercert()
    assert certificate is not None
    subject = dict(pair for part in certificate["subject"] for pair in part)  # type: ignore[misc]
    assert subject["commonName"] == shown
