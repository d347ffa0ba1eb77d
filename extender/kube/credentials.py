"""Credentials for the API server, read from a kubeconfig or the pod's service account.

Certificates and tokens are renewed in place by others: cert-manager, kubeadm, the kubelet, a plugin
that a kubeconfig runs. So files are looked at every few seconds, and a refusal by the API server
has everything read again, and the request repeated: that is how what a plugin gave is renewed.
"""

import asyncio
import base64
import hashlib
import os
import ssl
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec
import structlog
from cryptography import x509
from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.client.rest import RESTClientObject
from kubernetes.aio.config import ConfigException, load_incluster_config, load_kube_config
from kubernetes.aio.config.incluster_config import SERVICE_TOKEN_FILENAME
from yaml import YAMLError

from extender.kube.errors import ConfigurationError
from extender.runtime.clock import Clock, SystemClock
from extender.runtime.faults import FAULTS

LOOK_SECONDS: Final = 5.0
"""The time between looks at what seldom changes, such as the files of credentials."""
READ_SECONDS: Final = 30.0
"""A plugin that takes longer hangs."""
_UNUSABLE: Final = (
    ConfigException, YAMLError, OSError, ValueError, TypeError, AttributeError, LookupError,
)  # fmt: skip
"""The errors that the library raises for a kubeconfig that it cannot use."""
CERTIFICATE: Final = "client_certificate"
TOKEN: Final = "token"  # noqa: S105 - a word for it

_log = structlog.get_logger(__name__)


class _Claims(msgspec.Struct, frozen=True):
    exp: float | None = None


@dataclass(frozen=True, slots=True)
class Credentials:
    """The address of the API server and the credentials for it, as they were read at one moment."""

    host: str
    tls: ssl.SSLContext = field(repr=False)
    authorization: str | None = field(default=None, repr=False)
    """The header's value."""
    server_name: str | None = None
    proxy: str | None = None
    ends: Mapping[str, float] = field(default_factory=dict)
    """The ends of the certificate and the token that are known, in seconds since the epoch."""
    files: tuple[Path, ...] = ()
    """The files that all this was read from."""
    fingerprint: bytes = field(default=b"", repr=False)
    """Differs where anything that a connection is made of does."""


async def load(kubeconfig: Path | None, context: str | None = None) -> Credentials:
    """Return the credentials of the named file, else the pod's own, else those of `$KUBECONFIG`.

    Raises ConfigurationError where none of them can be used.
    """
    configuration = Configuration()
    try:
        if not (kubeconfig or context) and "KUBERNETES_SERVICE_HOST" in os.environ:
            load_incluster_config(configuration, try_refresh_token=False)
            return _credentials(configuration, (Path(SERVICE_TOKEN_FILENAME),))
        files = _files(kubeconfig)
        if all(_stamp(path) is None for path in files):
            raise ConfigException("there is no such file, or it may not be seen")
        path = str(kubeconfig) if kubeconfig else None
        loader: Any = await load_kube_config(path, context or None, configuration)
        # The library has no public way to the user of the kubeconfig's context.
        named = getattr(loader, "_user", None)
        user: dict[str, Any] = dict(named.value) if named is not None else {}
        if "tokenFile" in user:
            files.append(files[0].parent / user["tokenFile"])
        found = _credentials(configuration, tuple(files))
    except _UNUSABLE as error:
        where = kubeconfig or os.environ.get("KUBECONFIG") or "~/.kube/config"
        # All that a KeyError says is the name of the field.
        what = f"there is no {error}" if isinstance(error, KeyError) else error
        raise ConfigurationError(f"cannot use the kubeconfig {where}: {what}") from error
    plugin = "exec" in user or "auth-provider" in user
    if plugin and found.authorization is None and configuration.cert_file is None:
        raise ConfigurationError("the credential plugin of the kubeconfig gave nothing, see above")
    return found


def _files(kubeconfig: Path | None) -> list[Path]:
    given = kubeconfig or os.environ.get("KUBECONFIG") or Path.home() / ".kube" / "config"
    # As the library does: a path of an unknown user stays as it is.
    return [Path(os.path.expanduser(part)) for part in str(given).split(os.pathsep) if part]


def _credentials(configuration: Configuration, files: tuple[Path, ...]) -> Credentials:
    """Return what the library has read. Raises OSError, which SSLError is too, and ValueError."""
    shown = (configuration.cert_file, configuration.key_file, configuration.ssl_ca_cert)
    pems = [Path(path) for path in shown if path]
    token = configuration.api_key.get("BearerToken")
    authorization = token.strip() if token else None
    ends = dict[str, float]()
    if configuration.cert_file:
        first = x509.load_pem_x509_certificate(Path(configuration.cert_file).read_bytes())
        ends[CERTIFICATE] = first.not_valid_after_utc.timestamp()
    end = token_end(authorization.rpartition(" ")[2]) if authorization else None
    if end is not None:
        ends[TOKEN] = end
    print_ = hashlib.sha256(repr((configuration.host, authorization, configuration.proxy)).encode())
    for pem in pems:
        print_.update(pem.read_bytes())
    return Credentials(
        host=configuration.host.rstrip("/"),
        tls=RESTClientObject(configuration).ssl_context,
        authorization=authorization,
        server_name=configuration.tls_server_name,
        proxy=configuration.proxy or None,
        ends=ends,
        files=(*files, *pems),
        fingerprint=print_.digest(),
    )


def token_end(token: str) -> float | None:
    """Return when a JSON Web Token ends, in seconds since the epoch; None where it cannot be read.

    Source: RFC 7519, section 4.1.4.
    """
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        claims = base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))
        return msgspec.json.decode(claims, type=_Claims).exp
    except (ValueError, msgspec.MsgspecError):
        return None


Stamp = tuple[tuple[int, int, int] | None, ...]


def stamp(files: Sequence[Path]) -> Stamp:
    """Return what differs once a file was written or replaced; links are followed."""
    return tuple(map(_stamp, files))


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


async def keyring(kubeconfig: Path | None, context: str | None = None) -> "Keyring":
    """Return the credentials of the named file, else the pod's own, else those of `$KUBECONFIG`.

    Raises ConfigurationError where none of them can be used.
    """
    return Keyring(await load(kubeconfig, context), lambda: load(kubeconfig, context))


class Keyring:
    """The credentials that count now, and those that come after them."""

    def __init__(
        self,
        first: Credentials,
        read: Callable[[], Awaitable[Credentials]],
        *,
        clock: Clock | None = None,
    ) -> None:
        self.current = first
        self.counts: Counter[str] = Counter()
        """The number of times they were read again, by result: renewed, unchanged or failed."""
        self.refusals = 0
        """The number of times the API server refused them."""
        self._read = read
        self._clock = clock or SystemClock()
        self._not_before = 0.0
        self._lock = asyncio.Lock()
        self._stamp = stamp(first.files)

    async def refused(self, shown: Credentials) -> bool:
        """Count refused credentials, and return whether others replace them.

        The first of many refusals reads them again, and later ones after a pause.
        """
        self.refusals += 1
        async with self._lock:
            if self.current is not shown:
                return True
            now = self._clock.monotonic()
            if now < self._not_before:
                return False
            self._not_before = now + LOOK_SECONDS
            renewed = await self._renew("the API server refuses them")
            if not renewed:
                _log.warning("the API server refuses our credentials", api_server=shown.host)
            return renewed

    async def look(self) -> None:
        """Read them again if a file has changed."""
        async with self._lock:
            if stamp(self.current.files) != self._stamp:
                await self._renew("a file has changed")

    async def _renew(self, why: str) -> bool:
        # From before they are read: what is written meanwhile is a change.
        before = self._stamp = stamp(self.current.files)
        try:
            async with asyncio.timeout(READ_SECONDS):
                found = await self._read()
        except (ConfigurationError, TimeoutError) as error:
            self.counts["failed"] += 1
            what = str(error) or f"not read in {READ_SECONDS:.0f} s"
            _log.warning("credentials could not be read again", why=why, error=what)
            return False
        except Exception as error:  # noqa: BLE001 - those that count now may do for long
            self.counts["failed"] += 1
            FAULTS.report("credentials", error)
            return False
        self._stamp = before if found.files == self.current.files else stamp(found.files)
        if found.fingerprint == self.current.fingerprint:
            self.counts["unchanged"] += 1
            return False
        self.counts["renewed"] += 1
        _log.info("credentials renewed", why=why, api_server=found.host)
        self.current = found
        return True
