"""The certificate of the webhooks, the authorities by which the API server trusts it, their Secret.

Each certificate has an authority of its own, whose key is dropped as soon as it has signed, so that
nothing that is stored can sign another one. Older authorities are published with the new one until
they expire, so that the API server accepts a replica that still serves an older certificate.
"""

import ipaddress
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import uuid4

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from extender.api.core_v1 import Stored
from extender.kube.client import MERGE_PATCH, KubeClient
from extender.kube.errors import ApiError, NotFoundError
from extender.kube.webhooks import MANAGER

_PARTS: Final = ("ca.crt", "tls.crt", "tls.key")
"""The entries of the Secret: authorities, certificate and key."""
_CLOCKS_DIFFER: Final = timedelta(hours=1)
_FORMER_AUTHORITIES: Final = 3
_RENEWED_AT: Final = 2 / 3
_BROKEN: Final = (ValueError, TypeError, UnsupportedAlgorithm)
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Bundle:
    """A certificate with its key, and the authorities to trust, newest first. All are PEM."""

    authorities: bytes
    certificate: bytes
    key: bytes = field(repr=False)
    version: str = field(default="", compare=False)
    """The resourceVersion of the Secret that it was read from."""


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
    before = dict[x509.Certificate, None]()
    for pem in former:
        with suppress(*_BROKEN):  # then no client can have trusted it
            before |= dict.fromkeys(x509.load_pem_x509_certificates(pem))
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
    found = set[str]()
    with suppress(x509.ExtensionNotFound):
        kind = x509.SubjectAlternativeName
        said = certificate.extensions.get_extension_for_class(kind).value
        addresses = map(str, said.get_values_for_type(x509.IPAddress))
        found = {*said.get_values_for_type(x509.DNSName), *addresses}
    missing = set(names) - found
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


class _Secret(Stored, frozen=True):
    data: dict[str, bytes] | None = None


class CertificateSecret:
    """One Secret of the type kubernetes.io/tls; every method raises ApiError."""

    def __init__(self, client: KubeClient, *, namespace: str, name: str) -> None:
        self._client = client
        self._name = name
        self._collection = f"/api/v1/namespaces/{namespace}/secrets"

    async def read(self) -> Bundle | None:
        """Return what it holds, None where there is no such Secret; parts may be empty."""
        try:
            answer = await self._client.request("GET", f"{self._collection}/{self._name}")
        except NotFoundError:
            return None
        try:
            found = msgspec.json.decode(answer, type=_Secret)
        except msgspec.MsgspecError as error:
            raise ApiError(f"not a readable Secret: {error}") from error
        authorities, certificate, key = ((found.data or {}).get(part, b"") for part in _PARTS)
        return Bundle(authorities, certificate, key, found.metadata.resource_version)

    async def create(self, bundle: Bundle) -> None:
        """Make the Secret; ConflictError where another replica was quicker."""
        body = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": self._name,
                "labels": {"app.kubernetes.io/name": "gang-extender"},
            },
            "type": "kubernetes.io/tls",
            "data": _data(bundle),
        }
        await self._client.request("POST", self._collection, body=_encode(body))

    async def replace(self, bundle: Bundle, *, version: str) -> None:
        """Write over what was read at a version; ConflictError where it has changed since."""
        body = {"metadata": {"resourceVersion": version}, "data": _data(bundle)}
        path = f"{self._collection}/{self._name}?{MANAGER}"
        await self._client.request("PATCH", path, body=_encode(body), content_type=MERGE_PATCH)


def _data(bundle: Bundle) -> dict[str, bytes]:
    # msgspec writes bytes as base64, as a Secret has them.
    return dict(zip(_PARTS, (bundle.authorities, bundle.certificate, bundle.key), strict=True))
