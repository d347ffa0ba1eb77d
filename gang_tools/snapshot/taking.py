"""Takes a snapshot: lists the API server, and asks a process what it remembers."""

import ssl
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from http.client import HTTPConnection, HTTPException
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec
from msgspec import Raw

from extender.kube.errors import ForbiddenError, NotFoundError
from extender.kube.watch import everything
from extender.wiring.memory import ProcessName
from gang_tools.snapshot.file import ObjectList, ObjectSource, Snapshot, SnapshotError
from gang_tools.snapshot.objects import PATHS, reduced

PATH: Final = "/debug/snapshot"
"""The path at which a process answers what it remembers."""
URLS: Final[Mapping[ProcessName, str]] = {
    "extender": "http://127.0.0.1:8888",
    "reconciler": "http://127.0.0.1:8889",
}
"""The default URL of each process."""
_SECONDS: Final = 60.0
"""Seconds without a byte after which a process is given up."""
_NEEDED: Final = ("nodes", "pods")
"""The lists without which a snapshot is of no use. Users may lack the rights for others."""

_decode = msgspec.json.Decoder(dict[str, Any]).decode


@dataclass(frozen=True, slots=True)
class ProcessClient:
    """The address and credentials with which a process is asked."""

    url: str
    ca_file: Path | None = None
    """PEM authorities of the process; without it those of the system."""
    ca_data: str | None = None
    """More of them, as text."""
    cert_file: Path | None = None
    key_file: Path | None = None
    token_file: Path | None = None
    server_name: str | None = None
    """The name in its certificate, where that is not the address."""

    def get(self, path: str, *, seconds: float) -> tuple[int, bytes]:
        """Return the status and the body of an answer that pauses for `seconds` at most.

        Raises OSError and ValueError.
        """
        parts = urlsplit(self.url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError(f"it is no URL such as {URLS['extender']}")
        is_tls, headers = parts.scheme == "https", dict[str, str]()
        if self.token_file is not None:
            headers["Authorization"] = f"Bearer {self.token_file.read_text().strip()}"
        port = parts.port or (443 if is_tls else 80)
        with closing(HTTPConnection(parts.hostname, port, timeout=seconds)) as connection:
            try:
                connection.connect()
                if is_tls:
                    name = self.server_name or parts.hostname
                    connection.sock = self._tls().wrap_socket(connection.sock, server_hostname=name)
                connection.request("GET", parts.path.rstrip("/") + path, headers=headers)
                answer = connection.getresponse()
                return answer.status, answer.read()
            except HTTPException as error:
                raise ValueError(f"it ended early or speaks no HTTP: {error!r}") from error

    def _tls(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.ca_file, cadata=self.ca_data)
        if self.cert_file is not None:
            context.load_cert_chain(self.cert_file, self.key_file)
        return context


def _kept(raw: bytes, path: str) -> Raw:
    """Return what a snapshot keeps of an object that was listed at a path."""
    return Raw(msgspec.json.encode(reduced(_decode(raw), path)))


async def taken(source: ObjectSource, memory: Mapping[str, Any]) -> Snapshot:
    """Return a snapshot of the objects of a source, with what a process remembers.

    Raises ApiError.
    """
    lists = dict[str, Raw]()
    taken_at = datetime.fromtimestamp(source.clock.wall(), UTC)
    for path in PATHS:
        try:
            items = await everything(source.reader, path, partial(_kept, path=path))
        except (NotFoundError, ForbiddenError):
            if path.endswith(_NEEDED):
                raise
            continue
        lists[path] = Raw(msgspec.json.encode(ObjectList(items)))
    return Snapshot(
        taken_at,
        lists,
        memory={name: value for name, value in memory.items() if name != "settings"},
        settings=memory.get("settings") or {},
        version=version("gang-extender"),
    )


def asked(client: ProcessClient) -> dict[str, Any]:
    """Return what a process remembers. Raises SnapshotError."""
    try:
        status, data = client.get(PATH, seconds=_SECONDS)
        if status == 200:
            return _decode(data)
    except msgspec.MsgspecError as error:
        raise SnapshotError(f"{client.url}{PATH}: it answers no JSON: {error}") from None
    except (OSError, ValueError) as error:
        raise SnapshotError(f"{client.url}: {error}") from error
    raise SnapshotError(_refusal(client.url, status, data))


def _refusal(url: str, status: int, data: bytes) -> str:
    """Return why a process did not answer, in its own words where it has some."""
    try:
        said = msgspec.json.decode(data, type=dict[str, object]).get("message")
    except msgspec.MsgspecError:
        said = data.decode(errors="replace").strip()[:300]
    hint = ""
    if status in {401, 403}:
        hint = f"; it needs the right to get {PATH}: see docs/tasks/admin/take-a-snapshot.md"
    elif status == 404:
        hint = "; is it gang-extender, of this release?"
    return f"{url}{PATH}: {status}: {said}{hint}"
