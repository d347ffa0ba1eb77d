"""`gang-extender snapshot`: all that a process believes, in one file."""

import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_bytes
from typing import Annotated, Final, Literal

import typer

from extender.cli.options import exits

_QUIET_SECONDS: Final = 2.0
_PAUSE_SECONDS: Final = 0.5
_STDOUT: Final = Path("-")


def snapshot(
    *,
    process: Annotated[
        Literal["extender", "reconciler"],
        typer.Option(help="The process to ask, where --url names none."),
    ] = "extender",
    url: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Where it listens. Default: http://127.0.0.1:8888 for the extender, "
            "http://127.0.0.1:8889 for the reconciler.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="The file, compressed where it ends with .gz; - for standard output. Default: "
            "PROCESS-TIME.json.gz in this directory.",
        ),
    ] = None,
    redact: Annotated[
        bool,
        typer.Option(
            "--redact",
            help="Replace the names of all objects, and the values of labels, by hashes with a key "
            "that is thrown away.",
        ),
    ] = False,
    ca_file: Annotated[
        Path | None, typer.Option(help="PEM authorities that the process' certificate is from.")
    ] = None,
    server_name: Annotated[
        str | None, typer.Option(help="The name in its certificate, where it is not the address.")
    ] = None,
    cert_file: Annotated[
        Path | None, typer.Option(help="PEM certificate of this client, for the extender.")
    ] = None,
    key_file: Annotated[Path | None, typer.Option(help="PEM key of that certificate.")] = None,
    token_file: Annotated[
        Path | None, typer.Option(help="Bearer token of this client, for the reconciler.")
    ] = None,
) -> None:
    """Write all that a process believes to a file, from which explain answers anywhere.

    The file has nodes, pods, PodGroups, queues and workloads, the room that is reserved, and
    what the process remembers of them. It has no environment of containers and no token.

    Exit codes: 0 written, 1 the process gave no snapshot, 2 wrong use.
    """
    from extender.snapshot.header import SnapshotError
    from extender.snapshot.reading import read
    from extender.snapshot.redaction import redacted
    from extender.wiring.snapshots import URLS, SnapshotClient, fetched, save

    client = SnapshotClient(
        url or URLS[process],
        ca_file=ca_file,
        server_name=server_name,
        cert_file=cert_file,
        key_file=key_file,
        token_file=token_file,
        progress=_progress(),
    )
    with exits(1, SnapshotError, OSError):
        data = fetched(client)
        header = read(data).header  # what cannot be read is of no use to others either
        data = redacted(data, token_bytes(32)) if redact else data
        taken = datetime.fromtimestamp(header.now, UTC).strftime("%Y%m%dT%H%M%SZ")
        file = output or Path(f"{header.process}-{taken}.json.gz")
        if file == _STDOUT:
            sys.stdout.buffer.write(data)
        else:
            save(file, data)
            typer.echo(f"{file}: {header.process} {header.host}, {len(data)} bytes of JSON")


def _progress() -> Callable[[int], None]:
    """Return what prints how much has come, where it takes long."""
    from extender.runtime.clock import SystemClock

    clock = SystemClock()
    due = clock.monotonic() + _QUIET_SECONDS

    def show(size: int) -> None:
        nonlocal due
        now = clock.monotonic()
        if now >= due:
            due = now + _PAUSE_SECONDS
            typer.echo(f"{size / 2**20:.1f} MiB have come", err=True)

    return show
