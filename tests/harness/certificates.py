"""The certificate authority of the test control plane, and what it signs."""

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_LIFETIME = timedelta(days=30)

PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


@dataclass(frozen=True, slots=True)
class KeyPair:
    """PEM files of a certificate (or a public key) and its private key."""

    certificate: Path
    key: Path


class Authority:
    """A CA that writes what it signs into one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("gang-extender-test-ca")
        self._certificate = (
            self._builder(self._name, self._key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(_CA_USAGE, critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.ca = folder / "ca.crt"
        self.ca.write_bytes(_pem(self._certificate))

    def serving(self, name: str) -> KeyPair:
        """Return a certificate for 127.0.0.1 and localhost."""
        names = x509.SubjectAlternativeName(
            [
                x509.DNSName("localhost"),
                x509.IPAddress(ipaddress.IPv4Address("127.0.0.1")),
            ]
        )
        return self._sign(name, _name(name), ExtendedKeyUsageOID.SERVER_AUTH, [names])

    def client(
        self, user: str, groups: Sequence[str] = (), *, life: timedelta = _LIFETIME
    ) -> KeyPair:
        """Return a certificate that Kubernetes reads as `user` in `groups`, in the same files."""
        subject, usage = _name(user, groups), ExtendedKeyUsageOID.CLIENT_AUTH
        return self._sign(file_name(user), subject, usage, [], life=life)

    def service_account_keys(self) -> KeyPair:
        """Return the key pair for tokens: the public key in place of a certificate."""
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        pair = KeyPair(self._folder / "service-accounts.pub", self._folder / "service-accounts.key")
        _write_key(pair.key, key)
        pair.certificate.write_bytes(
            key.public_key().public_bytes(
                serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
            )
        )
        return pair

    def _sign(
        self,
        name: str,
        subject: x509.Name,
        usage: x509.ObjectIdentifier,
        extensions: Sequence[x509.ExtensionType],
        life: timedelta = _LIFETIME,
    ) -> KeyPair:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = self._builder(subject, key, life).add_extension(
            x509.ExtendedKeyUsage([usage]), critical=False
        )
        for extension in extensions:
            builder = builder.add_extension(extension, critical=False)
        pair = KeyPair(self._folder / f"{name}.crt", self._folder / f"{name}.key")
        _write_key(pair.key, key)
        pair.certificate.write_bytes(_pem(builder.sign(self._key, hashes.SHA256())))
        return pair

    def _builder(
        self, subject: x509.Name, key: PrivateKey, life: timedelta = _LIFETIME
    ) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(minutes=5))
            .not_valid_after(now + life)
            # OpenSSL's strict mode, Python 3.13's default, wants both identifiers.
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), False
            )
        )


_CA_USAGE = x509.KeyUsage(
    digital_signature=True,
    key_cert_sign=True,
    crl_sign=True,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    encipher_only=False,
    decipher_only=False,
)


def file_name(user: str) -> str:
    """Return a file name for a Kubernetes user such as `system:kube-scheduler`."""
    return user.replace(":", "-").replace("/", "-")


def _name(common_name: str, organizations: Sequence[str] = ()) -> x509.Name:
    return x509.Name(
        [
            *(x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in organizations),
            x509.NameAttribute(NameOID.COMMON_NAME, common_name),
        ]
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _write_key(path: Path, key: PrivateKey) -> None:
    path.touch(mode=0o600)
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
