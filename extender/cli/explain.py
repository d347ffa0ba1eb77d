"""`gang-extender explain`: why a job or a workload is where it is."""

import asyncio
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from extender.wiring.explain import Asked

app = typer.Typer(
    name="explain",
    help="Say why a job or a workload waits, what for, and who has it. Exit codes: 0 told, 1 there "
    "is none or the API server was of no help, 2 wrong use.",
    no_args_is_help=True,
)


class Output(StrEnum):
    """How it is said."""

    TEXT = "text"
    JSON = "json"


Name = Annotated[str, typer.Argument(help="Its name.")]
Namespace = Annotated[str, typer.Option("--namespace", "-n", help="Its namespace.")]
Kubeconfig = Annotated[
    Path | None,
    typer.Option(
        help="Kubeconfig file. Default: the pod's service account, else $KUBECONFIG, else "
        "~/.kube/config."
    ),
]
Config = Annotated[
    Path | None, typer.Option(help="YAML settings of the reconciler, if it has some.")
]
Form = Annotated[Output, typer.Option("--output", "-o", help="Form of the answer.")]


@app.command()
def job(
    name: Name,
    *,
    namespace: Namespace = "default",
    kind: Annotated[
        str | None, typer.Option(help="Its kind, such as Job or batch/job. Default: any.")
    ] = None,
    kubeconfig: Kubeconfig = None,
    config: Config = None,
    output: Form = Output.TEXT,
) -> None:
    """Explain the workload of a job."""
    from extender.wiring.explain import Asked

    _explain(Asked(namespace, name, is_job=True, kind=kind), kubeconfig, config, output=output)


@app.command()
def workload(
    name: Name,
    *,
    namespace: Namespace = "default",
    kubeconfig: Kubeconfig = None,
    config: Config = None,
    output: Form = Output.TEXT,
) -> None:
    """Explain a Workload."""
    from extender.wiring.explain import Asked

    _explain(Asked(namespace, name, is_job=False), kubeconfig, config, output=output)


def _explain(
    asked: "Asked", kubeconfig: Path | None, config: Path | None, *, output: Output
) -> None:
    from extender import config as settings_module
    from extender.explain.text import text
    from extender.explain.view import moment
    from extender.kube.decode import Decoder
    from extender.kube.errors import ApiError, ConfigurationError
    from extender.runtime.clock import SystemClock
    from extender.telemetry import logs
    from extender.wiring.explain import AmbiguousError, NothingToExplainError, explained

    logs.configure("warning", as_json=False)
    try:
        settings = settings_module.load(config, {})
        decoder = Decoder(settings.gang.ignored())
        told = asyncio.run(explained(asked, kubeconfig, settings.queue.options(), decoder=decoder))
    except (AmbiguousError, settings_module.SettingsError) as error:
        typer.echo(f"gang-extender: {error}", err=True)
        raise typer.Exit(2) from None
    except (NothingToExplainError, ApiError, ConfigurationError, OSError) as error:
        typer.echo(f"gang-extender: {error}", err=True)
        raise typer.Exit(1) from None
    if output is Output.JSON:
        typer.echo(told.model_dump_json(by_alias=True, indent=2))
    else:
        typer.echo(text(told, moment(SystemClock().wall())), nl=False)
