"""`gang-extender simulate`: what becomes of jobs, in virtual time."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from extender.cli.options import Kubeconfig, exits

if TYPE_CHECKING:
    from extender.simulate.engine import Simulation
    from extender.simulate.world import World


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
    kubeconfig: Kubeconfig = None,
    config: Annotated[
        Path | None, typer.Option(help="YAML settings of the processes, for --from-cluster.")
    ] = None,
    assume: Annotated[
        str | None,
        typer.Option(help="How long pods run of which nothing says it, such as 1h. Default: ever."),
    ] = None,
    html: Annotated[
        Path | None, typer.Option(help="Write the timeline to this file, as one page.")
    ] = None,
    output: Annotated[
        Literal["text", "json"], typer.Option("--output", "-o", help="Form of the answer.")
    ] = "text",
) -> None:
    """Simulate a scenario, or what a cluster would do next, with the decisions of both processes.

    Exit codes: 0 done, 1 it failed, 2 the scenario is wrong.
    """
    from extender.config.files import SettingsError
    from extender.kube.errors import ApiError, ConfigurationError
    from extender.simulate.answering import UnknownJobError
    from extender.telemetry import logs

    logs.configure("error", as_json=False)
    if (scenario is None) == (not from_cluster):
        typer.echo("gang-extender: say a scenario, or --from-cluster", err=True)
        raise typer.Exit(2)
    with (
        exits(1, ApiError, ConfigurationError, OSError),
        exits(2, SettingsError, UnknownJobError),
    ):
        world = _world(scenario, files=(kubeconfig, config), assume=assume)
        if submit is not None:
            answer(world, submit, assume, output=output)
        else:
            title = scenario.stem if scenario is not None else "the cluster"
            _play(world, title, html, output=output)


def submission(
    job: Path, assume: str | None, *, files: tuple[Path | None, Path | None], output: str
) -> None:
    """Print what would become of a job in a cluster; `files` are the kubeconfig and settings."""
    from extender.config.files import SettingsError
    from extender.kube.errors import ApiError, ConfigurationError
    from extender.simulate.answering import UnknownJobError
    from extender.telemetry import logs

    logs.configure("error", as_json=False)
    with (
        exits(1, ApiError, ConfigurationError, OSError),
        exits(2, SettingsError, UnknownJobError),
    ):
        answer(_world(None, files=files, assume=assume), job, assume, output=output)


def answer(world: "World", job: Path, assume: str | None, *, output: str) -> None:
    """Print what would become of a job. Raises SettingsError, UnknownJobError."""
    from extender.simulate import answering

    found = answering.answer(world, answering.read(job), assumed=_seconds(assume))
    if output == "json":
        typer.echo(found.model_dump_json(by_alias=True, indent=2))
    else:
        typer.echo(answering.text(found), nl=False)


def _world(
    scenario: Path | None, *, files: tuple[Path | None, Path | None], assume: str | None
) -> "World":
    """Return the world; `files` are the kubeconfig and the settings."""
    if scenario is None:
        import asyncio

        from extender.config.settings import load
        from extender.wiring.simulate import world_of_cluster

        kubeconfig, config = files
        settings = load(config, {})
        return asyncio.run(world_of_cluster(kubeconfig, settings, assumed=_seconds(assume)))
    from extender.simulate.building import world_of
    from extender.simulate.scenario import load as load_scenario

    return world_of(load_scenario(scenario))


def _seconds(assume: str | None) -> float | None:
    from extender.api.values import seconds
    from extender.config.files import SettingsError

    if assume is None:
        return None
    found = seconds(assume)
    if found is None:
        raise SettingsError(f"--assume: {assume!r} should be a duration such as 5m or 1h30m")
    return found


def _play(world: "World", title: str, html: Path | None, *, output: str) -> None:
    from extender.simulate.page import page
    from extender.simulate.playing import play_all
    from extender.simulate.report import text

    progress = _Progress()
    played = play_all(world, keep=html is not None, on_step=progress.show)
    progress.end()
    if html is not None:
        html.write_text(page(played.report, played.runs, title=title))
        typer.echo(f"wrote {html}", err=True)
    if output == "json":
        typer.echo(played.report.model_dump_json(by_alias=True, indent=2))
    else:
        typer.echo(text(played.report), nl=False)


class _Progress:
    """One line on standard error, for what takes longer than two seconds."""

    def __init__(self) -> None:
        from extender.runtime.clock import SystemClock

        self._clock = SystemClock()
        self._began = self._last = self._clock.monotonic()
        self._shown = False

    def show(self, playing: "Simulation") -> None:
        """Say how far a simulation is, twice a second."""
        now = self._clock.monotonic()
        if now - self._began < 2 or now - self._last < 0.5 or not sys.stderr.isatty():
            return
        from extender.simulate.report import duration

        self._last, self._shown = now, True
        jobs = len(playing.world.jobs) + len(playing.world.running)
        line = f"{playing.finished} of {jobs} jobs finished, {duration(playing.clock.now)}"
        sys.stderr.write(f"\r{line:<70}")
        sys.stderr.flush()

    def end(self) -> None:
        """Take the line away."""
        if self._shown:
            sys.stderr.write("\r" + " " * 70 + "\r")
