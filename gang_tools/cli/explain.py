"""`gang-extender explain`: show why a job, a workload, a PodGroup or a pod waits."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gang_tools.cli.context import Context, JobKind, Namespace, default_namespace, named
from gang_tools.cli.options import ClusterSource, Config, Form, Kubeconfig, fail, reported
from gang_tools.cli.simulate import play

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine


def explain(
    kind: Annotated[
        str,
        typer.Argument(
            metavar="TYPE[/NAME]",
            help="job, workload (kwl), podgroup (pg), pod (po), or the kind of a job.",
        ),
    ] = "job",
    name: Annotated[str, typer.Argument(metavar="NAME", help="Its name.")] = "",
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
    job_kind: JobKind = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    config: Config = None,
    from_snapshot: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Explain the cluster in a file of gang-extender snapshot, and ask no API server.",
        ),
    ] = None,
    output: Form = "text",
) -> None:
    """Show why a job, a workload, a PodGroup or a pod waits, for what, and what has it.

    A PodGroup is explained with each gate, the groups ahead, kept room and what would help, a pod
    with its PodGroup, and a job by its Workload.

    Exit codes: 0 shown, 1 there is no such object or the API server could not be read, 2 wrong use.
    """
    from extender.explain.facts import moment
    from extender.kube.errors import ForbiddenError
    from extender.telemetry import logs
    from gang_tools.cli.explain_text import group_text, pod_text, workload_text
    from gang_tools.explanations import ExplainTarget, explained, explained_group, explained_pod

    sources = ClusterSource(kubeconfig, config, from_snapshot, context)
    if file is not None:
        if (kind, name) != ("job", ""):
            fail("name a job, or a manifest with -f", 2)
        play(sources, submit=file, assume=assume, output=output)
        return
    kind, name, job_kind = named(kind, name, job_kind, kinds=("workload", "podgroup", "pod"))
    here = namespace or default_namespace(kubeconfig, context)
    key, asked = f"{here}/{name}", ExplainTarget(here, name, is_job=kind == "job", kind=job_kind)
    others: dict[str, tuple[Callable[..., Coroutine[Any, Any, Any]], Callable[..., str]]] = {
        "pod": (partial(explained_pod, key=key), pod_text),
        "podgroup": (partial(explained_group, key=key), group_text),
    }
    ask, text = others.get(kind, (partial(explained, asked=asked), workload_text))
    logs.configure("warning", as_json=False)
    with reported():
        try:
            found, now = sources.read(ask)
        except ForbiddenError as error:
            fail(lacks_rights(error), 1)
    if output == "json":
        typer.echo(found.model_dump_json(by_alias=True, indent=2))
    else:
        typer.echo(text(found, moment(now)), nl=False)


def lacks_rights(error: Exception) -> str:
    """Return the message for a user without the rights that `explain` needs."""
    return (
        f"explain reads the whole cluster, and this user may not: {error}. Ask for the ClusterRole "
        "gang-explain-reader. The rights of one namespace are enough for kubectl describe pg, and "
        "for the reconciler: GET /workloads/NAMESPACE/NAME/explanation "
        "(docs/tasks/admin/read-the-queues.md)"
    )
