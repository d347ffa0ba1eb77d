"""Options that several commands take, and their exit codes."""

import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

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
            async with opened(self.kubeconfig, snapshot) as source:
                return await ask(source, settings), source.clock.wall()

        with progress("reading"):
            return asyncio.run(read())


@contextmanager
def progress(doing: str) -> Iterator[None]:
    """Show on a terminal that work goes on, once it has taken two seconds."""
    done = Event()

    def show() -> None:
        seconds = 2
        while not done.wait(2):
            sys.stderr.write(f"\r{doing} ({seconds} s) ")
            sys.stderr.flush()
            seconds += 2

    if not sys.stderr.isatty():
        yield
        return
    shown = Thread(target=show, daemon=True)
    shown.start()
    try:
        yield
    finally:
        done.set()
        shown.join()
        sys.stderr.write("\r\033[K")  # take the line away


@contextmanager
def exits(code: int, *errors: type[Exception]) -> Iterator[None]:
    """Print one of these errors and end the command with an exit code: 1 failed, 2 wrong use."""
    try:
        yield
    except errors as error:
        typer.echo(f"gang-extender: {error}", err=True)
        raise typer.Exit(code) from None


def run(process: Coroutine[Any, Any, None]) -> None:
    """Run a process until SIGTERM or SIGINT."""
    import uvloop

    try:
        uvloop.run(process)
    except SystemExit:
        raise typer.Exit(1) from None  # uvicorn has logged why, and has an exit code of its own
    except KeyboardInterrupt:
        raise typer.Exit(0) from None
