"""`gang-extender simulate`: play jobs in virtual time."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gang_tools.cli.options import (
    ClusterSource,
    Form,
    Kubeconfig,
    fail,
    missing_extra,
    progress,
    reported,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic import BaseModel

    from gang_tools.simulate.report import SimulationReport


def simulate(
    scenario: Annotated[
        Path | None, typer.Argument(help="The scenario, such as docs/examples/two-gangs.yaml.")
    ] = None,
    *,
    submit: Annotated[
        Path | None,
        typer.Option(
            help="A manifest with a job: answer whether it would start, what it lacks, and when at "
            "the earliest it starts."
        ),
    ] = None,
    from_cluster: Annotated[
        bool, typer.Option("--from-cluster", help="Begin with the state of the cluster.")
    ] = False,
    from_snapshot: Annotated[
        Path | None,
        typer.Option(help="Begin with the cluster in a file of gang-extender snapshot."),
    ] = None,
    kubeconfig: Kubeconfig = None,
    config: Annotated[
        Path | None, typer.Option(help="YAML settings of the processes, for --from-cluster.")
    ] = None,
    assume: Annotated[
        str | None,
        typer.Option(help="How long pods run of which nothing says it, such as 1h. Default: ever."),
    ] = None,
    output: Form = "text",
    html: Annotated[
        Path | None,
        typer.Option(
            help="File to write: the answer with charts over time, for any browser, in one file. "
            "Needs the packages of the extra page."
        ),
    ] = None,
) -> None:
    """Simulate a scenario, or what a cluster would do next, with the decisions of both processes.

    Exit codes: 0 done, 1 it failed, 2 the scenario is wrong.
    """
    if sum((scenario is not None, from_cluster, from_snapshot is not None)) != 1:
        fail("say a scenario, --from-cluster or --from-snapshot", 2)
    if html is not None and submit is not None:
        fail("--html shows no --submit", 2)
    write = None
    if html is not None:
        try:
            from gang_tools.page import simulated
        except ImportError as error:
            missing_extra(error, "page")
        title = scenario.name if scenario is not None else "What a cluster would do next"
        write = partial(simulated.write, html, title)
    sources = ClusterSource(kubeconfig, config, from_snapshot)
    play(sources, scenario=scenario, submit=submit, assume=assume, output=output, write=write)


def play(
    sources: ClusterSource,
    *,
    scenario: Path | None = None,
    submit: Path | None,
    assume: str | None,
    output: str,
    write: "Callable[[SimulationReport], None] | None" = None,
) -> None:
    """Print what happens in a scenario or else a cluster, or what becomes of a submitted job.

    What happens is then also given to `write`, which may raise OSError.
    """
    from extender.api.values import seconds
    from extender.config.sections import SettingsError
    from extender.telemetry import logs
    from gang_tools.simulate import answering, report
    from gang_tools.simulate.from_cluster import world_of_cluster
    from gang_tools.simulate.from_scenario import world_of
    from gang_tools.simulate.scenario import load

    logs.configure("error", as_json=False)
    with reported():
        assumed = seconds(assume) if assume is not None else None
        if assume is not None and assumed is None:
            raise SettingsError(f"--assume: {assume!r} should be a duration such as 5m or 1h30m")
        if scenario is not None:
            with progress("reading"):
                world = world_of(load(scenario))
        else:
            world, _ = sources.read(partial(world_of_cluster, assumed=assumed))
        found: BaseModel
        if submit is not None:
            job = answering.read(submit)
            with progress("asking what becomes of the job"):
                found = answering.answer(world, job, assumed=assumed)
            text = answering.text(found)
        else:
            with progress("playing"):
                found = report.play_all(world)
            text = report.text(found)
    if output == "json":
        typer.echo(found.model_dump_json(by_alias=True, indent=2))
    else:
        typer.echo(text, nl=False)
    if write is not None and isinstance(found, report.SimulationReport):
        with reported():
            write(found)
