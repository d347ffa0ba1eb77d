"""How the reconciler's port is served: in plain text on loopback alone."""

import ssl
import time
from pathlib import Path

import pytest

from extender.config.sections import SettingsError
from extender.config.settings import Certificate, Reconcile, Settings
from extender.kube.certificates import issue
from extender.wiring.reconcile import serving_tls


def context_of(chosen: Reconcile) -> ssl.SSLContext | None:
    return serving_tls(Settings(reconcile=chosen), None)[0]


def handshake(server: ssl.SSLContext, authority: bytes | None) -> str:
    """Return the version of TLS that a client and a server agree on."""
    client = ssl.create_default_context()
    if authority is None:
        client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    else:
        client.load_verify_locations(cadata=authority.decode())
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    one = client.wrap_bio(to_client, to_server, server_hostname="queue.example.com")
    other = server.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(5):
        for side in (one, other):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return one.version() or ""


def test_loopback_is_plain_text() -> None:
    for host in ("127.0.0.1", "localhost", "::1"):
        chosen = Reconcile(host=host)
        assert context_of(chosen) is None
        assert not chosen.authenticates
    assert Reconcile(authenticate_on_loopback=True).authenticates


@pytest.mark.parametrize("host", ["0.0.0.0", "10.1.2.3", "::"])
def test_any_other_address_has_tls_and_asks_for_the_caller_s_identity(host: str) -> None:
    chosen = Reconcile(host=host)
    context = context_of(chosen)
    assert chosen.authenticates
    assert context is not None
    assert handshake(context, None).startswith("TLSv1.")


def test_a_certificate_of_files(tmp_path: Path) -> None:
    made = issue(["queue.example.com"], now=time.time(), days=1)
    files = Certificate(cert_file=tmp_path / "tls.crt", key_file=tmp_path / "tls.key")
    files.cert_file.write_bytes(made.certificate)
    files.key_file.write_bytes(made.key)
    for host in ("127.0.0.1", "10.1.2.3"):
        context = context_of(Reconcile(host=host, tls=files))
        assert context is not None
        assert handshake(context, made.authorities).startswith("TLSv1.")


def test_a_certificate_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    files = Certificate(cert_file=tmp_path / "no.crt", key_file=tmp_path / "no.key")
    with pytest.raises(SettingsError, match=r"reconcile\.tls: .*no\.crt"):
        context_of(Reconcile(host="10.1.2.3", tls=files))
