"""`gang-extender snapshot`: the objects of a cluster, and what a process remembers, in one file."""

import asyncio
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from gang_tools.cli.options import Kubeconfig, progress, reported


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
    kubeconfig: Kubeconfig = None,
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
    """Write a cluster and what a process remembers to a file that explain and simulate read.

    The file has nodes, pods, jobs, PodGroups, queues and workloads, read from the API server with
    your own rights, and the room, verdicts and reasons in the memory of the process. It has no
    environment or command of a container, and no token.

    Exit codes: 0 written, 1 the API server or the process could not be read, 2 wrong use.
    """
    import msgspec

    from extender.telemetry import logs
    from gang_tools.snapshot.file import Snapshot, opened, save
    from gang_tools.snapshot.taking import URLS, ProcessClient, taken
    from gang_tools.snapshot.taking import asked as remembered

    logs.configure("warning", as_json=False)
    client = ProcessClient(
        url or URLS[process],
        ca_file=ca_file,
        server_name=server_name,
        cert_file=cert_file,
        key_file=key_file,
        token_file=token_file,
    )
    with reported():

        async def take() -> Snapshot:
            memory = await asyncio.to_thread(remembered, client)
            async with opened(kubeconfig, None) as source:
                return await taken(source, memory)

        with progress("reading the cluster"):
            found = asyncio.run(take())
        data = msgspec.json.encode(found)
        asked = found.memory.get("process", process)
        file = output or Path(f"{asked}-{found.taken_at:%Y%m%dT%H%M%SZ}.json.gz")
        if file == Path("-"):
            sys.stdout.buffer.write(data)
        else:
            save(file, data)
            host = found.memory.get("host", "")
            typer.echo(f"{file}: {asked} {host}, {len(data)} bytes of JSON")
