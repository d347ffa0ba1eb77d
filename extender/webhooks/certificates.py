"""The certificate of the webhooks, and the authorities by which the API server trusts it.

Each certificate has an authority of its own, whose key is dropped as soon as it has signed, so that
nothing that is stored can sign another one. Older authorities are published with the new one until
they expire, so that the API server accepts a replica that still serves an older certificate.
"""

import ipaddress
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import uuid4

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_CLOCKS_DIFFER: Final = timedelta(hours=1)
_FORMER_AUTHORITIES: Final = 3
_RENEWED_AT: Final = 2 / 3
_BROKEN: Final = (ValueError, TypeError, UnsupportedAlgorithm)


@dataclass(frozen=True, slots=True)
class Bundle:
    """A certificate with its key, and the authorities to trust, newest first. All are PEM."""

    authorities: bytes
    certificate: bytes
    key: bytes = field(repr=False)


def issue(names: Sequence[str], *, now: float, days: float, former: Iterable[bytes] = ()) -> Bundle:
    """Return a new bundle for these DNS names and IP addresses.

    Authorities in `former` (PEM) that have not expired stay trusted. The keys are new.
    """
    start, end = _at(now) - _CLOCKS_DIFFER, _at(now) + timedelta(days=days)
    authority_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    # Each authority has its own name, so that clients need not try which one has signed.
    authority_name = _name(f"gang-extender-webhooks-{uuid4().hex[:12]}")

    def builder(subject: x509.Name, of: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key())
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(authority_name)
            .public_key(of)
            .serial_number(x509.random_serial_number())
            .not_valid_before(start)
            .not_valid_after(end)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(of), critical=False)
            .add_extension(issuer, critical=False)
        )

    authority = (
        builder(authority_name, authority_key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    certificate = (
        builder(_name(names[0]), key.public_key())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([*map(_general, names)]), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    before = dict.fromkeys(each for pem in former for each in _certificates(pem))
    kept = [each for each in before if each.not_valid_after_utc > _at(now)]
    return Bundle(
        b"".join(map(_pem, [authority, *kept[:_FORMER_AUTHORITIES]])),
        _pem(certificate),
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ),
    )


def fault(bundle: Bundle, names: Sequence[str], *, now: float) -> str:
    """Return why a bundle cannot be served under these names, or an empty text."""
    try:
        return next(_faults(bundle, names, _at(now)), "")
    except _BROKEN as error:
        return f"it cannot be read: {error}"


def is_due(bundle: Bundle, *, now: float) -> bool:
    """Return whether two thirds of the life of a valid bundle are over."""
    certificate = x509.load_pem_x509_certificate(bundle.certificate)
    start, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return _at(now) >= start + (end - start) * _RENEWED_AT


def ends(bundle: Bundle) -> float:
    """Return when the certificate of a valid bundle expires, in seconds since the epoch."""
    return x509.load_pem_x509_certificate(bundle.certificate).not_valid_after_utc.timestamp()


def _faults(bundle: Bundle, names: Sequence[str], now: datetime) -> Iterator[str]:
    certificate = x509.load_pem_x509_certificate(bundle.certificate)
    key = serialization.load_pem_private_key(bundle.key, password=None)
    if key.public_key() != certificate.public_key():
        yield "the key is not that of the certificate"
    if not certificate.not_valid_before_utc <= now < certificate.not_valid_after_utc:
        yield "the certificate is not valid at this time"
    if bundle.authorities and not any(
        _signed(certificate, by=authority, now=now)
        for authority in x509.load_pem_x509_certificates(bundle.authorities)
    ):
        yield "no authority has signed the certificate"
    missing = set(names) - set(_names_of(certificate))
    if missing:
        yield f"the certificate is not for {', '.join(sorted(missing))}"


def _signed(certificate: x509.Certificate, *, by: x509.Certificate, now: datetime) -> bool:
    if now >= by.not_valid_after_utc:
        return False
    try:
        certificate.verify_directly_issued_by(by)
    except (*_BROKEN, InvalidSignature):
        return False
    return True


def _names_of(certificate: x509.Certificate) -> Iterator[str]:
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return
    yield from found.get_values_for_type(x509.DNSName)
    yield from map(str, found.get_values_for_type(x509.IPAddress))


def _certificates(pem: bytes) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(pem)
    except _BROKEN:
        return []  # no client can have trusted it


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _name(common_name: str) -> x509.Name:
    # A common name has 64 characters at most; no client reads it.
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name[:64])])


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _at(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
