"""`gang-extender check`: find out whether it can run in a cluster, and does."""

import asyncio
import json
import shutil
import signal
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import typer

from gang_tools.cli.options import Config, Form, Kubeconfig, progress, reported


def check(
    *,
    scheduler_config: Annotated[
        Path | None,
        typer.Option(help="The KubeSchedulerConfiguration of kube-scheduler, to be looked at."),
    ] = None,
    extender: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="An extender to ask for its health and metrics. Default: the one that "
            "kube-scheduler's file names.",
        ),
    ] = None,
    identity: Annotated[
        Literal["extender", "reconciler", "both"],
        typer.Option(help="The process whose rights are looked at."),
    ] = "both",
    smoke: Annotated[
        bool,
        typer.Option(
            "--smoke",
            help="Send a gang of two pods through it, in a namespace of its own that is deleted "
            "afterwards.",
        ),
    ] = False,
    scheduler_name: Annotated[
        str | None,
        typer.Option(
            help="schedulerName of these pods. Default: that of the first profile in "
            "kube-scheduler's file, else default-scheduler."
        ),
    ] = None,
    smoke_seconds: Annotated[
        float, typer.Option(min=1, help="How long each of the two pods may take.")
    ] = 60,
    kubeconfig: Kubeconfig = None,
    config: Config = None,
    output: Form = "text",
) -> None:
    """Check whether gang-extender can run in this cluster, and does; say what mends what is wrong.

    Looks at the API server, the CRDs, the rights of both processes, the policies,
    kube-scheduler's configuration, what else is installed, an extender, the reconciler's
    Lease, webhooks and the ends of certificates. With the kubeconfig of an administrator it
    asks for the rights of the shipped users; with that of a process it asks for its own.

    Exit codes: 0 no failure, though there may be warnings, 1 a failure, 2 wrong use.
    """
    from extender.config.settings import load
    from extender.telemetry import logs
    from gang_tools.check.cluster import IDENTITIES, CheckTarget, checked
    from gang_tools.check.findings import counts, exit_code, text

    logs.configure("error", as_json=False)
    if smoke:  # so that the gang is deleted then too
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    with reported():
        settings = load(config, {})
        target = CheckTarget(
            identities=IDENTITIES if identity == "both" else (identity,),
            scheduler_config=scheduler_config,
            extender=extender,
            smoke=smoke,
            scheduler_name=scheduler_name,
            smoke_seconds=smoke_seconds,
        )
        with progress("checking"):
            found = asyncio.run(checked(target, kubeconfig, settings))
    if output == "text":
        width = shutil.get_terminal_size((140, 0)).columns  # 140 if this is not a terminal
        typer.echo(text(found, width), nl=False)
    else:
        said = {"findings": [asdict(each) for each in found], "counts": counts(found)}
        typer.echo(json.dumps(said, indent=2, ensure_ascii=False))
    raise typer.Exit(exit_code(found))
