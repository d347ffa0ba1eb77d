"""Options that several commands take, and their exit codes."""

import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn, TypeVar

import typer

if TYPE_CHECKING:
    from extender.config.settings import Settings
    from gang_tools.snapshot.file import ObjectSource

T = TypeVar("T")

Kubeconfig = Annotated[
    Path | None,
    typer.Option(
        help="Kubeconfig file. Default: the pod's service account, else $KUBECONFIG, else "
        "~/.kube/config."
    ),
]
Config = Annotated[
    Path | None, typer.Option(help="YAML settings of the processes, if there are some.")
]
Form = Annotated[
    Literal["text", "json"], typer.Option("--output", "-o", help="Form of the answer.")
]
SchedulerConfig = Annotated[
    Path | None,
    typer.Option(
        help="The KubeSchedulerConfiguration of kube-scheduler: the resources that it ignores, and "
        "whether equal members can be bound together."
    ),
]
LogLevel = Annotated[
    Literal["debug", "info", "warning", "error"] | None,
    typer.Option(help="Least level to log, info."),
]
LogFormat = Annotated[
    Literal["console", "json"] | None, typer.Option(help="Form of the log, console.")
]


@dataclass(frozen=True, slots=True)
class ClusterSource:
    """The cluster or the snapshot that a command reads, and the file with settings."""

    kubeconfig: Path | None
    config: Path | None
    snapshot: Path | None
    context: str | None = None

    def read(
        self, ask: "Callable[[ObjectSource, Settings], Coroutine[Any, Any, T]]"
    ) -> tuple[T, float]:
        """Return an answer from the cluster or the snapshot, and the time of that.

        Without a file the settings of a snapshot count. Raises SnapshotError, SettingsError,
        ConfigurationError, OSError and what `ask` raises.
        """
        import asyncio

        from extender.config.settings import Settings, load
        from gang_tools.snapshot.file import load as load_snapshot
        from gang_tools.snapshot.file import opened

        snapshot = load_snapshot(self.snapshot) if self.snapshot is not None else None
        if snapshot is not None and self.config is None:
            settings = Settings.model_validate(snapshot.settings)
        else:
            settings = load(self.config, {})

        async def read() -> tuple[T, float]:
            async with opened(self.kubeconfig, snapshot, self.context) as source:
                return await ask(source, settings), source.clock.wall()

        with progress("reading"):
            return asyncio.run(read())


@contextmanager
def progress(doing: str) -> Iterator[None]:
    """Show on a terminal that work goes on, and for how long."""
    from rich.console import Console
    from rich.progress import Progress, TextColumn, TimeElapsedColumn

    columns, console = (TextColumn("{task.description}"), TimeElapsedColumn()), Console(stderr=True)
    is_quiet = not sys.stderr.isatty()
    with Progress(*columns, console=console, transient=True, disable=is_quiet) as shown:
        shown.add_task(doing, total=None)
        yield


class UsageError(Exception):
    """An option or a file cannot be used. The text names the field."""


@contextmanager
def reported() -> Iterator[None]:
    """End the command with an error that is no bug: exit code 1 if it failed, 2 for wrong use."""
    try:
        yield
    except Exception as error:
        from extender.config.sections import SettingsError
        from extender.jobs.registry import IntegrationError
        from extender.kube.errors import ApiError, ConfigurationError
        from extender.kube.lease import LeadershipLost
        from gang_tools.explanations import AmbiguousError, NothingToExplainError
        from gang_tools.simulate.answering import UnknownJobError
        from gang_tools.snapshot.file import SnapshotError

        wrong_use = SettingsError, IntegrationError, AmbiguousError, UnknownJobError, UsageError
        failed = ApiError, ConfigurationError, LeadershipLost, NothingToExplainError, SnapshotError
        if isinstance(error, wrong_use):
            fail(str(error), 2)
        if isinstance(error, (*failed, OSError, UnicodeDecodeError)):
            fail(str(error), 1)
        raise


def fail(text: str, code: int) -> NoReturn:
    """Print what is wrong and end the command with an exit code."""
    typer.echo(f"gang-extender: {text}", err=True)
    raise typer.Exit(code) from None


def missing_extra(error: ImportError, extra: str) -> NoReturn:
    """End a command whose packages are not installed."""
    fail(f"{error.name or error} is missing: pip install 'gang-extender[{extra}]'", 1)


def run(process: Coroutine[Any, Any, None]) -> None:
    """Run a process until SIGTERM or SIGINT."""
    import uvloop

    try:
        uvloop.run(process)
    except SystemExit:
        raise typer.Exit(1) from None  # uvicorn has logged why, and has an exit code of its own
    except KeyboardInterrupt:
        raise typer.Exit(0) from None
