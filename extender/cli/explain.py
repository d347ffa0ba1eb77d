"""`gang-extender explain`: why a job, a workload, a PodGroup or a pod is where it is."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import typer

from extender.cli.options import Kubeconfig, exits
from extender.cli.simulate import submission
from extender.kube import context

if TYPE_CHECKING:
    from datetime import datetime

    from extender.api.gang_explanations import GangModel
    from extender.wiring.explain import ExplainTarget

Explained = TypeVar("Explained", bound="GangModel")

app = typer.Typer(
    name="explain",
    help="Show why a job, a workload, a PodGroup or a pod waits, for what, and what has it. Exit "
    "codes: 0 shown, 1 there is no such object or the API server could not be read, 2 wrong use.",
    no_args_is_help=True,
)


Output = Literal["text", "json"]
Name = Annotated[str, typer.Argument(help="Its name.")]
Namespace = Annotated[
    str | None,
    typer.Option(
        "--namespace",
        "-n",
        help="Its namespace. Default: the pod's own, else the kubeconfig context's.",
    ),
]
Config = Annotated[
    Path | None, typer.Option(help="YAML settings of the reconciler, if it has some.")
]
Form = Annotated[Output, typer.Option("--output", "-o", help="Form of the answer.")]


@app.command()
def job(
    name: Annotated[str | None, typer.Argument(help="Its name.")] = None,
    *,
    file: Annotated[
        Path | None,
        typer.Option(
            "--filename",
            "-f",
            help="A manifest with a job that is not there yet: would it start, and when?",
        ),
    ] = None,
    assume: Annotated[
        str | None,
        typer.Option(help="With -f: how long pods run of which nothing says it, such as 1h."),
    ] = None,
    namespace: Namespace = None,
    kind: Annotated[
        str | None, typer.Option(help="Its kind, such as Job or batch/job. Default: any.")
    ] = None,
    kubeconfig: Kubeconfig = None,
    config: Config = None,
    output: Form = "text",
) -> None:
    """Explain the workload of a job, or what would become of a job before it is created."""
    from extender.wiring.explain import ExplainTarget

    if (name is None) == (file is None):
        typer.echo("gang-extender: say the name of a job, or a manifest with -f", err=True)
        raise typer.Exit(2)
    if file is not None:
        submission(file, assume, files=(kubeconfig, config), output=output)
        return
    assert name is not None
    here = namespace or context.namespace(kubeconfig)
    _explain(ExplainTarget(here, name, is_job=True, kind=kind), kubeconfig, config, output=output)


@app.command()
def workload(
    name: Name,
    *,
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    config: Config = None,
    output: Form = "text",
) -> None:
    """Explain a Workload."""
    from extender.wiring.explain import ExplainTarget

    here = namespace or context.namespace(kubeconfig)
    _explain(ExplainTarget(here, name, is_job=False), kubeconfig, config, output=output)


@app.command()
def podgroup(
    name: Name,
    *,
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    config: Config = None,
    output: Form = "text",
) -> None:
    """Explain a PodGroup: each gate, the groups ahead, kept room, what would help."""
    from extender.explain.gang_text import group_text
    from extender.wiring.explain_groups import explained_group

    key = f"{namespace or context.namespace(kubeconfig)}/{name}"
    _explain_gang(partial(explained_group, key), group_text, (kubeconfig, config), output=output)


@app.command()
def pod(
    name: Name,
    *,
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    config: Config = None,
    output: Form = "text",
) -> None:
    """Explain a pod, and its gang."""
    from extender.explain.gang_text import pod_text
    from extender.wiring.explain_groups import explained_pod

    key = f"{namespace or context.namespace(kubeconfig)}/{name}"
    _explain_gang(partial(explained_pod, key), pod_text, (kubeconfig, config), output=output)


def lacks_rights(error: Exception, namespace: str) -> str:
    """Return the message for a user without the rights that `explain` needs."""
    return (
        f"explain reads the queues of the whole cluster, and this user may not: {error}. Ask for "
        "the ClusterRole gang-explain-reader, or ask the reconciler, for which the rights of one "
        f"namespace are enough: GET /workloads/{namespace}/NAME/explanation (docs/operations.md)"
    )


def _explain_gang(
    explained: Callable[..., Coroutine[Any, Any, Explained]],
    text: "Callable[[Explained, datetime], str]",
    files: tuple[Path | None, Path | None],
    *,
    output: Output,
) -> None:
    """Print what is found; `files` are the kubeconfig and the settings."""
    from extender import config as settings_module
    from extender.explain.facts import moment
    from extender.kube.decode import Decoder
    from extender.kube.errors import ApiError, ConfigurationError, ForbiddenError
    from extender.runtime.clock import SystemClock
    from extender.telemetry import logs
    from extender.wiring.explain import NothingToExplainError

    logs.configure("warning", as_json=False)
    kubeconfig, config = files
    with (
        exits(1, NothingToExplainError, ApiError, ConfigurationError, OSError),
        exits(2, settings_module.SettingsError),
    ):
        gang = settings_module.load(config, {}).gang
        decoder = Decoder(gang.ignored(), placement=gang.placement)
        try:
            found = asyncio.run(explained(kubeconfig, gang.options(), decoder=decoder))
        except ForbiddenError as error:
            typer.echo(f"gang-extender: {may_not_read(error)}", err=True)
            raise typer.Exit(1) from None
    if output == "json":
        typer.echo(found.model_dump_json(by_alias=True, indent=2))
    else:
        typer.echo(text(found, moment(SystemClock().wall())), nl=False)


def may_not_read(error: Exception) -> str:
    """Return the message for a user without the rights that `explain podgroup` needs."""
    return (
        "explain reads nodes, pods, PodGroups and Jobs of the whole cluster, and this user may "
        f"not: {error}. Ask for the ClusterRole gang-explain-reader; kubectl describe pg says why "
        "a PodGroup waits, for which the rights of one namespace are enough (docs/operations.md)"
    )


def _explain(
    asked: "ExplainTarget", kubeconfig: Path | None, config: Path | None, *, output: Output
) -> None:
    from extender import config as settings_module
    from extender.explain.facts import moment
    from extender.explain.text import text
    from extender.kube.decode import Decoder
    from extender.kube.errors import ApiError, ConfigurationError, ForbiddenError
    from extender.runtime.clock import SystemClock
    from extender.telemetry import logs
    from extender.wiring.explain import AmbiguousError, NothingToExplainError, explained

    logs.configure("warning", as_json=False)
    with (
        exits(1, NothingToExplainError, ApiError, ConfigurationError, OSError),
        exits(2, AmbiguousError, settings_module.SettingsError),
    ):
        settings = settings_module.load(config, {})
        decoder = Decoder(settings.gang.ignored())
        options = settings.queue.options()
        try:
            explanation = asyncio.run(explained(asked, kubeconfig, options, decoder=decoder))
        except ForbiddenError as error:
            typer.echo(f"gang-extender: {lacks_rights(error, asked.namespace)}", err=True)
            raise typer.Exit(1) from None
    if output == "json":
        typer.echo(explanation.model_dump_json(by_alias=True, indent=2))
    else:
        typer.echo(text(explanation, moment(SystemClock().wall())), nl=False)
