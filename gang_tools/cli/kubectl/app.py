"""`kubectl gang`: kubectl runs `kubectl-gang`. Exit codes: 0 done, 1 failed, 2 wrong use."""

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from gang_tools.cli import context, explain
from gang_tools.cli.explain import Config, Namespace
from gang_tools.cli.options import Kubeconfig, exits

if TYPE_CHECKING:
    from extender.kube.errors import ForbiddenError

app = typer.Typer(
    name="kubectl gang",
    help="List gangs, jobs and queues, say why they wait, watch them, stop them.",
    no_args_is_help=True,
    add_completion=False,  # kubectl completes its own words
    pretty_exceptions_show_locals=False,  # locals may hold tokens
)
app.add_typer(explain.app)

_WRITTEN: Final = {
    "job": "workload",
    "workload": "workload",
    "clusterqueue": "clusterqueue",
    "cq": "clusterqueue",
    "localqueue": "localqueue",
    "lq": "localqueue",
}
"""The kind of object that is written, by the kind that is named."""


@app.command("list")
def list_(
    kinds: Annotated[
        Literal["all", "queues", "gangs", "jobs"], typer.Argument(help="What to list.")
    ] = "all",
    *,
    namespace: Namespace = None,
    all_namespaces: Annotated[
        bool,
        typer.Option("--all-namespaces", "-A", help="List all namespaces, and the ClusterQueues."),
    ] = False,
    selector: Annotated[
        str, typer.Option("--selector", "-l", help="Labels that an object has, such as team=a.")
    ] = "",
    output: Annotated[
        Literal["wide", "json", "yaml", "name"] | None,
        typer.Option("--output", "-o", help="Form of the answer. Default: a table."),
    ] = None,
    no_headers: Annotated[
        bool, typer.Option("--no-headers", help="Leave out the head of the table.")
    ] = False,
    kubeconfig: Kubeconfig = None,
) -> None:
    """List queues, gangs and jobs with their phase and why they wait.

    A job is one that a queue has a Workload of; -o json, yaml and name show the Workload.
    """
    from datetime import UTC, datetime

    from extender.kube.errors import ForbiddenError
    from gang_tools.cli.kubectl import listing
    from gang_tools.snapshot.file import opened

    where = "" if all_namespaces else namespace or context.namespace(kubeconfig)

    async def read() -> "tuple[list[listing.Object], list[ForbiddenError], float]":
        async with opened(kubeconfig, None) as source:
            answer = await listing.listed(source.reader, where, kinds, selector=selector)
            return *answer, source.clock.wall()

    with _failing():
        found, refused, now = asyncio.run(read())
    if output in {"json", "yaml"}:
        typer.echo(listing.objects_text(found, output), nl=False)
    elif output == "name":
        typer.echo("".join(f"{listing.name_of(each)}\n" for each in found), nl=False)
    elif found:
        heads = [*(["NAMESPACE"] if all_namespaces else ()), *listing.HEADS]
        heads += listing.WIDE if output == "wide" else ()
        text = listing.table_text(found, heads, datetime.fromtimestamp(now, UTC))
        typer.echo(text.partition("\n")[2] if no_headers else text, nl=False)
    elif not refused:
        typer.echo(f"No resources found{f' in {where} namespace.' if where else ''}", err=True)
    with _failing():
        if refused:
            roles = "Ask for the ClusterRole view in the namespace, or gang-explain-reader for all"
            raise ForbiddenError("\n".join([*map(str, refused), roles]))


@app.command()
def top(
    *,
    namespace: Annotated[
        str,
        typer.Option("--namespace", "-n", help="The gangs and jobs of one. Default: of all."),
    ] = "",
    kubeconfig: Kubeconfig = None,
    config: Config = None,
) -> None:
    """Show queues, gangs, jobs, nodes and reasons as they change, until you press q.

    Enter opens the explanation of a gang or a job. It reads the whole cluster
    with your own rights, which the ClusterRole gang-explain-reader gives, and
    needs a terminal and the packages of the extra top.
    """
    from extender.config.sections import SettingsError
    from extender.config.settings import load
    from extender.telemetry import logs

    try:
        from gang_tools.cli.kubectl.top import run
    except ImportError as error:
        typer.echo(
            f"gang-extender: {error.name or error} is missing: pip install 'gang-extender[top]'",
            err=True,
        )
        raise typer.Exit(1) from None
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        typer.echo("gang-extender: top needs a terminal; kubectl gang list needs none", err=True)
        raise typer.Exit(2)
    with _failing(), exits(2, SettingsError):
        settings = load(config, {})
        logs.configure("critical", as_json=False)  # lines would be written over the tables
        raise typer.Exit(asyncio.run(run(settings, kubeconfig, namespace)))


@app.command(
    "resume",
    help="Queue a job again that was stopped, or have a queue admit again: `active: true` in the "
    "Workload of a job, `stopPolicy: None` in a queue.",
)
@app.command(
    "stop",
    help="Stop a job, or have a queue admit nothing new: `active: false` in the Workload of a job, "
    "`stopPolicy: Hold` in a queue.",
)
def switch(
    asked: typer.Context,
    kind: Annotated[
        str,
        typer.Argument(
            metavar="TYPE[/NAME]", help="job, workload, clusterqueue (cq) or localqueue (lq)."
        ),
    ],
    name: Annotated[str, typer.Argument(metavar="NAME", help="Its name.")] = "",
    *,
    drain: Annotated[
        bool, typer.Option("--drain", help="Stop a queue and evict what it has admitted, too.")
    ] = False,
    job_kind: Annotated[
        str | None,
        typer.Option("--kind", help="The kind of a job, such as Job or batch/job. Default: any."),
    ] = None,
    namespace: Namespace = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Have the API server check the write, and not keep it."),
    ] = False,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Stop or resume a job or a queue, and print what was done."""
    from extender.kube.errors import ForbiddenError
    from gang_tools.cli.kubectl.stopping import switched
    from gang_tools.explanations import ExplainTarget

    kind, name = _named(kind, name)
    stops, written = asked.info_name == "stop", _WRITTEN[kind]
    if drain and not (stops and written.endswith("queue")):
        raise typer.BadParameter("--drain is for stopping queues; the pods of a job end anyway")
    policy = ("HoldAndDrain" if drain else "Hold") if stops else "None"
    value = policy if written.endswith("queue") else not stops
    where = namespace or context.namespace(kubeconfig)
    target = ExplainTarget(where, name, is_job=kind == "job", kind=job_kind)
    with _failing():
        try:
            found = switched(kubeconfig, written, target, value=value, dry_run=dry_run)
            typer.echo(asyncio.run(found))
        except ForbiddenError as error:
            verbs = "get, list and patch" if target.is_job else "get and patch"
            wanted = f"Ask for a role that may {verbs} {written}s of kueue.x-k8s.io"
            raise ForbiddenError(f"{error}. {wanted}") from None


def _named(kind: str, name: str) -> tuple[str, str]:
    """Return the kind and the name in `TYPE NAME` or `TYPE/NAME`, as kubectl takes them."""
    said, _, own = kind.partition("/")
    kind = said.lower().partition(".")[0].removesuffix("s")
    if kind not in _WRITTEN:
        raise typer.BadParameter(f"{said} is none of {', '.join(_WRITTEN)}")
    if bool(own) == bool(name):
        raise typer.BadParameter(f"give one name: {said} NAME, or {said}/NAME")
    return kind, own or name


@contextmanager
def _failing() -> Iterator[None]:
    """End the command with an exit code where the cluster lacks or refuses what it asks for."""
    from extender.kube.errors import ApiError, ConfigurationError, NotFoundError
    from extender.telemetry import logs
    from gang_tools.explanations import AmbiguousError, NothingToExplainError

    logs.configure("error", as_json=False)
    with (
        exits(1, NothingToExplainError, ApiError, ConfigurationError, OSError),
        exits(2, AmbiguousError),
    ):
        try:
            yield
        except NotFoundError as error:
            if not str(error).endswith(" 404"):
                raise
            # No object is missing: the server does not know its kind.
            raise NotFoundError(f"{error}. Apply manifests/crds", status=404) from None


def main() -> None:
    """Run the plugin; never returns."""
    app(prog_name="kubectl gang")
