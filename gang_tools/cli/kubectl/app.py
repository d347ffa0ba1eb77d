"""`kubectl gang`: kubectl runs `kubectl-gang`. Exit codes: 0 done, 1 failed, 2 wrong use."""

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer
from typer.core import TyperGroup
from typing_extensions import override

from gang_tools.cli.context import Context, JobKind, Namespace, default_namespace, dns_label, named
from gang_tools.cli.explain import explain
from gang_tools.cli.options import Config, Kubeconfig, fail, missing_extra, reported

if TYPE_CHECKING:
    from extender.kube.errors import ForbiddenError


_WITH_VALUE: Final = frozenset(("-n", "--namespace", "--context", "--kubeconfig"))
"""The options whose value may be named like a command: there are namespaces of any name."""


class PluginGroup(TyperGroup):
    """Takes options before a command as those of the command, as kubectl does."""

    @override
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        values = {n + 1 for n, word in enumerate(args) if word in _WITH_VALUE}
        words = (n for n, word in enumerate(args) if word in self.commands and n not in values)
        at = next(words, 0)
        return super().parse_args(ctx, [*args[at : at + 1], *args[:at], *args[at + 1 :]])


app = typer.Typer(
    cls=PluginGroup,
    name="kubectl gang",
    help="List gangs, jobs and queues, say why they wait, watch them, stop them.",
    no_args_is_help=True,
    add_completion=False,  # kubectl completes its own words
    pretty_exceptions_show_locals=False,  # locals may hold tokens
)
app.command(no_args_is_help=True)(explain)

AllNamespaces = Annotated[
    bool, typer.Option("--all-namespaces", "-A", help="All namespaces, and the ClusterQueues.")
]


@app.command("list")
def list_(
    kinds: Annotated[
        Literal["all", "queues", "gangs", "jobs"], typer.Argument(help="What to list.")
    ] = "all",
    *,
    namespace: Namespace = None,
    all_namespaces: AllNamespaces = False,
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
    context: Context = None,
) -> None:
    """List queues, gangs and jobs with their phase and why they wait.

    A job is one that a queue has a Workload of; -o json, yaml and name show the Workload.
    """
    from datetime import UTC, datetime

    from gang_tools.cli.kubectl import listing
    from gang_tools.snapshot.file import opened

    where = "" if all_namespaces else namespace or default_namespace(kubeconfig, context)

    async def read() -> "tuple[list[listing.Object], list[ForbiddenError], float]":
        async with opened(kubeconfig, None, context) as source:
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
    if refused:
        roles = "Ask for the ClusterRole view in the namespace, or gang-explain-reader for all"
        fail("\n".join([*map(str, refused), roles]), 1)


@app.command()
def top(
    *,
    namespace: Annotated[
        str,
        typer.Option(
            "--namespace", "-n", callback=dns_label, help="Only gangs and jobs of this namespace."
        ),
    ] = "",
    all_namespaces: AllNamespaces = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    config: Config = None,
) -> None:
    """Show queues, gangs, jobs, nodes and reasons as they change, until you press q.

    Enter opens the explanation of a gang or a job. It reads the whole cluster
    with your own rights, which the ClusterRole gang-explain-reader gives, and
    needs a terminal and the packages of the extra top.
    """
    from extender.config.settings import load
    from extender.telemetry import logs

    try:
        from gang_tools.cli.kubectl.top import run
    except ImportError as error:
        missing_extra(error, "top")
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        fail("top needs a terminal; kubectl gang list needs none", 2)
    where = "" if all_namespaces else namespace
    with _failing():
        settings = load(config, {})
        logs.configure("critical", as_json=False)  # lines would be written over the tables
        raise typer.Exit(asyncio.run(run(settings, kubeconfig, where, context=context)))


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
            metavar="TYPE[/NAME]",
            help="clusterqueue (cq), localqueue (lq), workload (kwl), job, or the kind of a job.",
        ),
    ],
    name: Annotated[str, typer.Argument(metavar="NAME", help="Its name.")] = "",
    *,
    drain: Annotated[
        bool, typer.Option("--drain", help="When you stop a queue: evict what it has admitted.")
    ] = False,
    job_kind: JobKind = None,
    namespace: Namespace = None,
    dry_run: Annotated[
        Literal["none", "server"],
        typer.Option(help="server: have the API server check the write, and not keep it."),
    ] = "none",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Stop or resume a job or a queue, and print what was done."""
    from extender.kube.errors import ForbiddenError
    from gang_tools.cli.kubectl.stopping import switched
    from gang_tools.explanations import ExplainTarget

    kinds = ("workload", "localqueue", "clusterqueue")
    kind, name, job_kind = named(kind, name, job_kind, kinds=kinds)
    stops, written = asked.info_name == "stop", "workload" if kind == "job" else kind
    if drain and not (stops and written.endswith("queue")):
        raise typer.BadParameter("--drain is for stopping queues; the pods of a job end anyway")
    policy = ("HoldAndDrain" if drain else "Hold") if stops else "None"
    value = policy if written.endswith("queue") else not stops
    where = namespace or default_namespace(kubeconfig, context)
    target = ExplainTarget(where, name, is_job=kind == "job", kind=job_kind)
    with _failing():
        try:
            is_dry = dry_run == "server"
            found = switched(kubeconfig, context, target, kind=written, value=value, is_dry=is_dry)
            typer.echo(asyncio.run(found))
        except ForbiddenError as error:
            verbs = "get, list and patch" if target.is_job else "get and patch"
            fail(f"{error}. Ask for a role that may {verbs} {written}s of kueue.x-k8s.io", 1)


@contextmanager
def _failing() -> Iterator[None]:
    """End the command with an exit code where the cluster lacks or refuses what it asks for."""
    from extender.kube.errors import NotFoundError
    from extender.telemetry import logs

    logs.configure("error", as_json=False)
    with reported():
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
