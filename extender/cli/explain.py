"""`gang-extender explain`: why a job, a workload, a PodGroup or a pod is where it is."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Generic, Literal, TypeVar

import typer

from extender.cli.options import Kubeconfig, exits
from extender.cli.simulate import Beginning, submission
from extender.kube import context

if TYPE_CHECKING:
    from datetime import datetime

    from pydantic import BaseModel

    from extender.snapshot.reading import Snapshot
    from extender.wiring.explain import ExplainTarget

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
    Path | None, typer.Option(help="YAML settings of the reconciler, if it has some.")
]
FromSnapshot = Annotated[
    Path | None,
    typer.Option(
        "--from-snapshot",
        metavar="FILE",
        help="Explain what a process believed, by a file of gang-extender snapshot: no cluster is "
        "asked. Of the extender for a PodGroup or a pod, of the reconciler for all.",
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
    from extender.wiring.explain import ExplainTarget

    if (name is None) == (file is None):
        typer.echo(
            "gang-extender: Missing argument 'NAME': name a job, or a manifest with -f", err=True
        )
        raise typer.Exit(2)
    if file is not None:
        begins = Beginning(None, from_snapshot, kubeconfig, config)
        submission(file, assume, begins, output=output)
        return
    assert name is not None
    here = namespace or context.namespace(kubeconfig)
    asked = ExplainTarget(here, name, is_job=True, kind=kind)
    _explain(asked, _Sources(kubeconfig, config, from_snapshot), output=output)


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
    from extender.wiring.explain import ExplainTarget

    here = namespace or context.namespace(kubeconfig)
    asked = ExplainTarget(here, name, is_job=False)
    _explain(asked, _Sources(kubeconfig, config, from_snapshot), output=output)


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
    from extender.explain.gang_text import group_text
    from extender.wiring.explain_groups import explained_group
    from extender.wiring.explain_snapshot import group_then

    key = f"{namespace or context.namespace(kubeconfig)}/{name}"
    now, then = partial(explained_group, key), partial(group_then, key)
    sources = _Sources(kubeconfig, config, from_snapshot)
    _explain_gang(_OfGang(now, then, group_text), sources, output=output)


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
    from extender.explain.gang_text import pod_text
    from extender.wiring.explain_groups import explained_pod
    from extender.wiring.explain_snapshot import pod_then

    key = f"{namespace or context.namespace(kubeconfig)}/{name}"
    now, then = partial(explained_pod, key), partial(pod_then, key)
    sources = _Sources(kubeconfig, config, from_snapshot)
    _explain_gang(_OfGang(now, then, pod_text), sources, output=output)


def lacks_rights(error: Exception, namespace: str) -> str:
    """Return the message for a user without the rights that `explain` needs."""
    return (
        f"explain reads the queues of the whole cluster, and this user may not: {error}. Ask for "
        "the ClusterRole gang-explain-reader, or ask the reconciler, for which the rights of one "
        f"namespace are enough: GET /workloads/{namespace}/NAME/explanation (docs/operations.md)"
    )


@dataclass(frozen=True, slots=True)
class _Sources:
    """What is explained from."""

    kubeconfig: Path | None
    config: Path | None
    snapshot: Path | None


@dataclass(frozen=True, slots=True)
class _OfGang(Generic[Explained]):
    """How a gang, or a pod of one, is explained and shown."""

    now: Callable[..., Coroutine[Any, Any, Explained]]
    then: "Callable[[Snapshot], Explained]"
    """Explains it from a snapshot."""
    text: "Callable[[Explained, datetime], str]"


def _load(sources: _Sources) -> "Snapshot | None":
    """Return the snapshot, if there is to be one. Raises SnapshotError and OSError."""
    from extender.wiring.snapshots import load

    if sources.snapshot is None:
        return None
    if sources.config is not None:
        typer.echo("gang-extender: the settings are in the snapshot: leave out --config", err=True)
        raise typer.Exit(2)
    return load(sources.snapshot)


def _explain_gang(of: _OfGang[Explained], sources: _Sources, *, output: Output) -> None:
    from extender import config as settings_module
    from extender.kube.decode import Decoder
    from extender.kube.errors import ApiError, ConfigurationError, ForbiddenError
    from extender.runtime.clock import SystemClock
    from extender.snapshot.header import SnapshotError
    from extender.telemetry import logs
    from extender.wiring.explain import NothingToExplainError

    logs.configure("warning", as_json=False)
    with (
        exits(1, NothingToExplainError, ApiError, ConfigurationError, SnapshotError, OSError),
        exits(2, settings_module.SettingsError),
    ):
        snapshot = _load(sources)
        if snapshot is not None:
            _show(of.then(snapshot), of.text, snapshot.header.now, output=output)
            return
        gang = settings_module.load(sources.config, {}).gang
        decoder = Decoder(gang.ignored(), placement=gang.placement)
        try:
            found = asyncio.run(of.now(sources.kubeconfig, gang.options(), decoder=decoder))
        except ForbiddenError as error:
            typer.echo(f"gang-extender: {may_not_read(error)}", err=True)
            raise typer.Exit(1) from None
    _show(found, of.text, SystemClock().wall(), output=output)


def _show(
    found: Explained, text: "Callable[[Explained, datetime], str]", now: float, *, output: Output
) -> None:
    """Print an explanation; `now` is its time, in seconds since the epoch."""
    from extender.explain.facts import moment

    if output == "json":
        typer.echo(found.model_dump_json(by_alias=True, indent=2))
    else:
        typer.echo(text(found, moment(now)), nl=False)


def may_not_read(error: Exception) -> str:
    """Return the message for a user without the rights that `explain podgroup` needs."""
    return (
        "explain reads nodes, pods, PodGroups and Jobs of the whole cluster, and this user may "
        f"not: {error}. Ask for the ClusterRole gang-explain-reader; kubectl describe pg says why "
        "a PodGroup waits, for which the rights of one namespace are enough (docs/operations.md)"
    )


def _explain(asked: "ExplainTarget", sources: _Sources, *, output: Output) -> None:
    from extender import config as settings_module
    from extender.explain.text import text
    from extender.kube.decode import Decoder
    from extender.kube.errors import ApiError, ConfigurationError, ForbiddenError
    from extender.runtime.clock import SystemClock
    from extender.snapshot.header import SnapshotError
    from extender.telemetry import logs
    from extender.wiring.explain import AmbiguousError, NothingToExplainError, explained
    from extender.wiring.explain_snapshot import workload_then

    logs.configure("warning", as_json=False)
    with (
        exits(1, NothingToExplainError, ApiError, ConfigurationError, SnapshotError, OSError),
        exits(2, AmbiguousError, settings_module.SettingsError),
    ):
        snapshot = _load(sources)
        if snapshot is not None:
            _show(workload_then(asked, snapshot), text, snapshot.header.now, output=output)
            return
        settings = settings_module.load(sources.config, {})
        decoder = Decoder(settings.gang.ignored())
        options = settings.queue.options()
        try:
            found = asyncio.run(explained(asked, sources.kubeconfig, options, decoder=decoder))
        except ForbiddenError as error:
            typer.echo(f"gang-extender: {lacks_rights(error, asked.namespace)}", err=True)
            raise typer.Exit(1) from None
    _show(found, text, SystemClock().wall(), output=output)
