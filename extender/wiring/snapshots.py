"""Snapshots on disk, and from a process over HTTP."""

import gzip
import ssl
import zlib
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec
from typing_extensions import override

from extender.server.snapshot import PATH
from extender.snapshot.header import ProcessName, SnapshotError
from extender.snapshot.reading import Snapshot, read

URLS: Final[Mapping[ProcessName, str]] = {
    "extender": "http://127.0.0.1:8888",
    "reconciler": "http://127.0.0.1:8889",
}
"""Where each process listens by default."""
_SECONDS: Final = 60.0
"""Without a byte."""
_AT_ONCE: Final = 256 * 1024
_MAGIC: Final = b"\x1f\x8b"
_SHOWN: Final = 300


@dataclass(frozen=True, slots=True)
class SnapshotClient:
    """How a process is asked."""

    url: str
    ca_file: Path | None = None
    """PEM authorities of the process; without it those of the system."""
    cert_file: Path | None = None
    key_file: Path | None = None
    token_file: Path | None = None
    server_name: str | None = None
    """The name in its certificate, where that is not the address."""
    progress: Callable[[int], None] = field(default=lambda _: None)
    """Called with the number of bytes that have come."""


def load(path: Path) -> Snapshot:
    """Return the snapshot in a file, whether or not it is compressed.

    Raises SnapshotError and OSError.
    """
    data = path.read_bytes()
    try:
        return read(gzip.decompress(data) if data.startswith(_MAGIC) else data)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise SnapshotError(f"{path}: it is no whole gzip file: {error}") from None
    except SnapshotError as error:
        raise SnapshotError(f"{path}: {error}") from error


def save(path: Path, data: bytes) -> None:
    """Write a snapshot, compressed where the name ends with `.gz`, for its owner alone.

    Raises OSError. What was there before stays until all is written.
    """
    beside = path.with_name(f".{path.name}.partial")
    try:
        beside.touch(0o600)
        beside.write_bytes(gzip.compress(data, 6) if path.suffix == ".gz" else data)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def fetched(client: SnapshotClient) -> bytes:
    """Return the snapshot of a process, not compressed. Raises SnapshotError and OSError."""
    with closing(_connection(client)) as connection:
        headers = {"Accept-Encoding": "gzip", **_token(client)}
        try:
            connection.request("GET", urlsplit(client.url).path.rstrip("/") + PATH, headers=headers)
            answer = connection.getresponse()
            data = _body(answer, client.progress)
        except HTTPException as error:
            what = f"it ended early or speaks no HTTP: {error!r}"
            raise SnapshotError(f"{client.url}: {what}") from error
    if answer.status != 200:
        raise SnapshotError(_refusal(client.url, answer.status, data))
    return data


def _connection(client: SnapshotClient) -> HTTPConnection:
    parts = urlsplit(client.url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise SnapshotError(f"{client.url} is no URL such as {URLS['extender']}")
    if parts.scheme == "http":
        return HTTPConnection(parts.hostname, parts.port, timeout=_SECONDS)
    context = ssl.create_default_context(cafile=client.ca_file)
    if client.cert_file is not None:
        context.load_cert_chain(client.cert_file, client.key_file)
    return _NamedConnection(parts.hostname, parts.port, context, name=client.server_name)


class _NamedConnection(HTTPSConnection):
    """A connection to a server whose certificate may have another name than the address."""

    def __init__(
        self, host: str, port: int | None, context: ssl.SSLContext, *, name: str | None
    ) -> None:
        super().__init__(host, port, timeout=_SECONDS, context=context)
        self._as, self._name = context, name

    @override
    def connect(self) -> None:
        """Connect."""
        HTTPConnection.connect(self)
        self.sock = self._as.wrap_socket(self.sock, server_hostname=self._name or self.host)


def _token(client: SnapshotClient) -> Mapping[str, str]:
    if client.token_file is None:
        return {}
    return {"Authorization": f"Bearer {client.token_file.read_text().strip()}"}


def _body(answer: HTTPResponse, progress: Callable[[int], None]) -> bytes:
    found, size = list[bytes](), 0
    while some := answer.read(_AT_ONCE):
        found.append(some)
        size += len(some)
        progress(size)
    data = b"".join(found)
    try:
        return gzip.decompress(data) if data.startswith(_MAGIC) else data
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise SnapshotError(f"the answer ended early: {error}") from error


def _refusal(url: str, status: int, data: bytes) -> str:
    """Return why a process gives no snapshot, in its own words where it has some."""
    try:
        said = msgspec.json.decode(data, type=dict[str, object]).get("message")
    except msgspec.MsgspecError:
        said = data.decode(errors="replace").strip()[:_SHOWN]
    hint = ""
    if status in {401, 403}:
        hint = f"; it needs the right to get the path {PATH}: see docs/operations.md"
    elif status == 404:
        hint = "; is it gang-extender, of this release?"
    return f"{url}{PATH}: {status}: {said}{hint}"
