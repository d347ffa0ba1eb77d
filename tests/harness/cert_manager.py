"""Does what cert-manager does for a Certificate: a key, a signature of its issuer, a Secret.

Issuers that sign themselves, or with the certificate of a Secret; P-256 keys.
"""

import base64
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

Object = dict[str, Any]

_USAGES: Final = {
    "server auth": ExtendedKeyUsageOID.SERVER_AUTH,
    "client auth": ExtendedKeyUsageOID.CLIENT_AUTH,
}
_DEFAULT_HOURS: Final = 2160


@dataclass(frozen=True)
class _Signed:
    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate


def secrets(objects: Sequence[Object]) -> list[Object]:
    """Return the Secrets of all Certificates among objects of one namespace."""
    of = {
        kind: [each for each in objects if each["kind"] == kind]
        for kind in ("Issuer", "Certificate")
    }
    issuers = {each["metadata"]["name"]: each["spec"] for each in of["Issuer"]}
    signed: dict[str, _Signed] = {}
    made = []
    # Those of authorities first, which sign the others.
    for each in sorted(of["Certificate"], key=lambda x: not x["spec"].get("isCA", False)):
        spec = each["spec"]
        assert spec["issuerRef"]["kind"] == "Issuer"
        issuer = issuers[spec["issuerRef"]["name"]]
        by = None if "selfSigned" in issuer else signed[issuer["ca"]["secretName"]]
        found = signed[spec["secretName"]] = _sign(spec, by)
        authority = (by or found).certificate
        made.append(_secret(spec["secretName"], each["metadata"]["namespace"], found, authority))
    return made


def _sign(spec: Object, by: _Signed | None) -> _Signed:
    assert (spec["privateKey"]["algorithm"], spec["privateKey"]["size"]) == ("ECDSA", 256)
    key = ec.generate_private_key(ec.SECP256R1())
    common_name = spec.get("commonName")
    attributes = [x509.NameAttribute(NameOID.COMMON_NAME, common_name)] if common_name else []
    subject = x509.Name(attributes)
    issuer = by or _Signed(key, None)  # type: ignore[arg-type]  # its own
    now = datetime.now(UTC)
    hours = int(spec.get("duration", f"{_DEFAULT_HOURS}h").removesuffix("h"))
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(by.certificate.subject if by else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(hours=hours))
    )
    for extension, is_critical in _extensions(spec, key, issuer.key):
        builder = builder.add_extension(extension, critical=is_critical)
    return _Signed(key, builder.sign(issuer.key, hashes.SHA256()))


def _extensions(
    spec: Object, key: ec.EllipticCurvePrivateKey, issuer: ec.EllipticCurvePrivateKey
) -> Iterable[tuple[x509.ExtensionType, bool]]:
    is_ca = spec.get("isCA", False)
    yield x509.BasicConstraints(ca=is_ca, path_length=None), True
    yield x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False
    yield x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer.public_key()), False
    yield _key_usage(spec, is_ca=is_ca), True
    if names := spec.get("dnsNames"):
        yield x509.SubjectAlternativeName([x509.DNSName(name) for name in names]), False
    if usages := [_USAGES[each] for each in spec.get("usages", ()) if each in _USAGES]:
        yield x509.ExtendedKeyUsage(usages), False


def _key_usage(spec: Object, *, is_ca: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=is_ca or "digital signature" in spec.get("usages", ()),
        key_cert_sign=is_ca,
        crl_sign=False,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _secret(name: str, namespace: str, signed: _Signed, authority: x509.Certificate) -> Object:
    pem = serialization.Encoding.PEM
    key = signed.key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    files = {
        "ca.crt": authority.public_bytes(pem),
        "tls.crt": signed.certificate.public_bytes(pem),
        "tls.key": key,
    }
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": namespace},
        "type": "kubernetes.io/tls",
        "data": {name: base64.b64encode(data).decode() for name, data in files.items()},
    }
