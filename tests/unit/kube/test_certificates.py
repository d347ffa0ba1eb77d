"""The certificate of the webhooks: what is made holds, and what does not hold is noticed."""

import ssl
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography import x509

from extender.kube.certificates import Bundle, ends, fault, is_due, issue

DAY = 86400.0
NOW = 1_800_000_000.0
NAMES = ["hooks.ns.svc", "127.0.0.1"]


def made(*, now: float = NOW, days: float = 90, former: tuple[bytes, ...] = ()) -> Bundle:
    return issue(NAMES, now=now, days=days, former=former)


def test_what_is_made_has_no_fault_and_lasts() -> None:
    bundle = made()

    assert fault(bundle, NAMES, now=NOW) == ""
    assert ends(bundle) == NOW + 90 * DAY
    assert not is_due(bundle, now=NOW + 59 * DAY)
    assert is_due(bundle, now=NOW + 61 * DAY)


def test_clocks_may_differ_by_some_minutes() -> None:
    assert fault(made(), NAMES, now=NOW - 600) == ""


def test_openssl_takes_it(tmp_path: Path) -> None:
    bundle = made()
    path = tmp_path / "both.pem"
    path.write_bytes(bundle.certificate + bundle.key)

    ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(path)


OTHER = made()
WANT_FAULTS: dict[str, tuple[Bundle, float, str]] = {
    "another's key": (replace(made(), key=OTHER.key), NOW, "the key is not that"),
    "another's authority": (replace(made(), authorities=OTHER.authorities), NOW, "no authority"),
    "it has ended": (made(), NOW + 91 * DAY, "not valid at this time"),
    "it has not begun": (made(), NOW - DAY, "not valid at this time"),
    "another name": (issue(["other", "127.0.0.1"], now=NOW, days=1), NOW, "not for hooks.ns.svc"),
    "another address": (issue(["hooks.ns.svc"], now=NOW, days=1), NOW, "not for 127.0.0.1"),
    "no certificate": (replace(made(), certificate=b""), NOW, "cannot be read"),
    "garbage for a certificate": (replace(made(), certificate=b"garbage"), NOW, "cannot be read"),
    "garbage for a key": (replace(made(), key=b"garbage"), NOW, "cannot be read"),
    "garbage for authorities": (replace(made(), authorities=b"garbage"), NOW, "cannot be read"),
}


@pytest.mark.parametrize(("bundle", "now", "want"), WANT_FAULTS.values(), ids=WANT_FAULTS)
def test_a_fault_of_a_certificate_is_named(bundle: Bundle, now: float, want: str) -> None:
    assert want in fault(bundle, NAMES, now=now)


def test_without_an_authority_only_the_rest_is_looked_at() -> None:
    assert fault(replace(made(), authorities=b""), NAMES, now=NOW) == ""


def authorities(bundle: Bundle) -> list[x509.Certificate]:
    return x509.load_pem_x509_certificates(bundle.authorities)


def test_former_authorities_are_trusted_until_they_end() -> None:
    ended = made(now=NOW - 100 * DAY)
    first = made(now=NOW - 50 * DAY, former=(ended.authorities,))
    second = made(former=(first.authorities, b"garbage", first.authorities))

    assert len(authorities(first)) == 2
    assert authorities(second)[1:] == authorities(first)[:1]
    assert fault(replace(first, authorities=second.authorities), NAMES, now=NOW) == ""


def test_they_do_not_pile_up() -> None:
    bundle = made()
    for _ in range(6):
        bundle = made(former=(bundle.authorities,))

    assert len(authorities(bundle)) == 4


def test_what_is_kept_can_sign_nothing() -> None:
    bundle = made()
    certificate = x509.load_pem_x509_certificate(bundle.certificate)

    constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value
    assert not constraints.ca
    assert authorities(bundle)[0].public_key() != certificate.public_key()
    assert bundle.key not in repr(bundle).encode()
