"""`gang-extender explain`: show why a job, a workload, a PodGroup or a pod waits."""

from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import typer

from gang_tools.cli import context
from gang_tools.cli.options import ClusterSource, Kubeconfig, exits
from gang_tools.cli.simulate import play

if TYPE_CHECKING:
    from datetime import datetime

    from pydantic import BaseModel

    from extender.config.settings import Settings
    from gang_tools.explanations import ExplainTarget
    from gang_tools.snapshot.file import ObjectSource

Explained = TypeVar("Explained", bound="BaseModel")

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
    Path | None, typer.Option(help="YAML settings of the processes, if there are some.")
]
FromSnapshot = Annotated[
    Path | None,
    typer.Option(
        "--from-snapshot",
        metavar="FILE",
        help="Explain the cluster in a file of gang-extender snapshot, and ask no API server.",
    ),
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
    from_snapshot: FromSnapshot = None,
    output: Form = "text",
) -> None:
    """Explain the workload of a job, or what would become of a job before it is created."""
    from gang_tools.explanations import ExplainTarget

    sources = ClusterSource(kubeconfig, config, from_snapshot)
    if (name is None) == (file is None):
        typer.echo(
            "gang-extender: Missing argument 'NAME': name a job, or a manifest with -f", err=True
        )
        raise typer.Exit(2)
    if file is not None:
        play(sources, submit=file, assume=assume, output=output)
        return
    assert name is not None
    here = namespace or context.namespace(kubeconfig)
    asked = ExplainTarget(here, name, is_job=True, kind=kind)
    _explain_workload(asked, sources, output=output)


@app.command()
def workload(
    name: Name,
    *,
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    config: Config = None,
    from_snapshot: FromSnapshot = None,
    output: Form = "text",
) -> None:
    """Explain a Workload."""
    from gang_tools.explanations import ExplainTarget

    here = namespace or context.namespace(kubeconfig)
    asked = ExplainTarget(here, name, is_job=False)
    _explain_workload(asked, ClusterSource(kubeconfig, config, from_snapshot), output=output)


@app.command()
def podgroup(
    name: Name,
    *,
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    config: Config = None,
    from_snapshot: FromSnapshot = None,
    output: Form = "text",
) -> None:
    """Explain a PodGroup: each gate, the groups ahead, kept room, what would help."""
    from gang_tools.cli.explain_text import group_text
    from gang_tools.explanations import explained_group

    explain = partial(explained_group, key=f"{namespace or context.namespace(kubeconfig)}/{name}")
    _explain(explain, group_text, ClusterSource(kubeconfig, config, from_snapshot), output=output)


@app.command()
def pod(
    name: Name,
    *,
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    config: Config = None,
    from_snapshot: FromSnapshot = None,
    output: Form = "text",
) -> None:
    """Explain a pod, and its gang."""
    from gang_tools.cli.explain_text import pod_text
    from gang_tools.explanations import explained_pod

    explain = partial(explained_pod, key=f"{namespace or context.namespace(kubeconfig)}/{name}")
    _explain(explain, pod_text, ClusterSource(kubeconfig, config, from_snapshot), output=output)


def lacks_rights(error: Exception) -> str:
    """Return the message for a user without the rights that `explain` needs."""
    return (
        f"explain reads the whole cluster, and this user may not: {error}. Ask for the ClusterRole "
        "gang-explain-reader. The rights of one namespace are enough for kubectl describe pg, and "
        "for the reconciler: GET /workloads/NAMESPACE/NAME/explanation "
        "(docs/tasks/admin/read-the-queues.md)"
    )


def _explain_workload(asked: "ExplainTarget", sources: ClusterSource, *, output: Output) -> None:
    from gang_tools.cli.explain_text import workload_text
    from gang_tools.explanations import explained

    _explain(partial(explained, asked=asked), workload_text, sources, output=output)


def _explain(
    explain: "Callable[[ObjectSource, Settings], Coroutine[Any, Any, Explained]]",
    text: "Callable[[Explained, datetime], str]",
    sources: ClusterSource,
    *,
    output: Output,
) -> None:
    """Read the cluster or the snapshot, explain what was asked for, and print it."""
    from extender.config.sections import SettingsError
    from extender.explain.facts import moment
    from extender.kube.errors import ApiError, ConfigurationError, ForbiddenError
    from extender.telemetry import logs
    from gang_tools.explanations import AmbiguousError, NothingToExplainError
    from gang_tools.snapshot.file import SnapshotError

    logs.configure("warning", as_json=False)
    with (
        exits(1, NothingToExplainError, ApiError, ConfigurationError, SnapshotError, OSError),
        exits(2, AmbiguousError, SettingsError),
    ):
        try:
            found, now = sources.read(explain)
        except ForbiddenError as error:
            typer.echo(f"gang-extender: {lacks_rights(error)}", err=True)
            raise typer.Exit(1) from None
    if output == "json":
        typer.echo(found.model_dump_json(by_alias=True, indent=2))
    else:
        typer.echo(text(found, moment(now)), nl=False)
