"""`gang-extender simulate`: play jobs in virtual time."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from extender.cli.options import Kubeconfig, exits

if TYPE_CHECKING:
    from extender.simulate.engine import Simulation
    from extender.simulate.world import World


@dataclass(frozen=True, slots=True)
class Beginning:
    """The start of a simulation: a scenario, a snapshot, or else a cluster."""

    scenario: Path | None
    snapshot: Path | None
    kubeconfig: Path | None
    config: Path | None


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
    output: Annotated[
        Literal["text", "json"], typer.Option("--output", "-o", help="Form of the answer.")
    ] = "text",
) -> None:
    """Simulate a scenario, or what a cluster would do next, with the decisions of both processes.

    Exit codes: 0 done, 1 it failed, 2 the scenario is wrong.
    """
    from extender.config.sections import SettingsError
    from extender.kube.errors import ApiError, ConfigurationError
    from extender.simulate.answering import UnknownJobError
    from extender.snapshot.file import SnapshotError
    from extender.telemetry import logs

    logs.configure("error", as_json=False)
    if sum((scenario is not None, from_cluster, from_snapshot is not None)) != 1:
        text = "gang-extender: say a scenario, --from-cluster or --from-snapshot"
        typer.echo(text, err=True)
        raise typer.Exit(2)
    with (
        exits(1, ApiError, ConfigurationError, SnapshotError, OSError),
        exits(2, SettingsError, UnknownJobError),
    ):
        sources = Beginning(scenario, from_snapshot, kubeconfig, config)
        world = _world(sources, assume=assume)
        if submit is not None:
            answer(world, submit, assume, output=output)
        else:
            _play(world, output=output)


def submission(job: Path, assume: str | None, sources: Beginning, *, output: str) -> None:
    """Print what would become of a job in a cluster, or in a snapshot of it."""
    from extender.config.sections import SettingsError
    from extender.kube.errors import ApiError, ConfigurationError
    from extender.simulate.answering import UnknownJobError
    from extender.snapshot.file import SnapshotError
    from extender.telemetry import logs

    logs.configure("error", as_json=False)
    with (
        exits(1, ApiError, ConfigurationError, SnapshotError, OSError),
        exits(2, SettingsError, UnknownJobError),
    ):
        answer(_world(sources, assume=assume), job, assume, output=output)


def answer(world: "World", job: Path, assume: str | None, *, output: str) -> None:
    """Print what would become of a job. Raises SettingsError, UnknownJobError."""
    from extender.simulate import answering

    found = answering.answer(world, answering.read(job), assumed=_seconds(assume))
    if output == "json":
        typer.echo(found.model_dump_json(by_alias=True, indent=2))
    else:
        typer.echo(answering.text(found), nl=False)


def _world(sources: Beginning, *, assume: str | None) -> "World":
    assumed = _seconds(assume)
    if sources.scenario is not None:
        from extender.simulate.from_scenario import world_of
        from extender.simulate.scenario import load as load_scenario

        return world_of(load_scenario(sources.scenario))
    import asyncio

    from extender.cli.options import snapshot_and_settings
    from extender.simulate.from_cluster import world_of_cluster
    from extender.snapshot.file import opened

    snapshot, settings = snapshot_and_settings(sources.snapshot, sources.config)

    async def read() -> "World":
        async with opened(sources.kubeconfig, snapshot) as source:
            return await world_of_cluster(source, settings, assumed=assumed)

    return asyncio.run(read())


def _seconds(assume: str | None) -> float | None:
    from extender.api.values import seconds
    from extender.config.sections import SettingsError

    if assume is None:
        return None
    found = seconds(assume)
    if found is None:
        raise SettingsError(f"--assume: {assume!r} should be a duration such as 5m or 1h30m")
    return found


def _play(world: "World", *, output: str) -> None:
    from extender.simulate.report import play_all, text

    progress = _Progress()
    found = play_all(world, on_step=progress.show)
    progress.end()
    if output == "json":
        typer.echo(found.model_dump_json(by_alias=True, indent=2))
    else:
        typer.echo(text(found), nl=False)


class _Progress:
    """A line on standard error, shown after two seconds."""

    def __init__(self) -> None:
        from extender.runtime.clock import SystemClock

        self._clock = SystemClock()
        self._began = self._last = self._clock.monotonic()
        self._shown = False

    def show(self, playing: "Simulation") -> None:
        """Show the progress of a simulation, twice a second."""
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
