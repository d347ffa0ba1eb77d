"""Options that several commands take, and their exit codes."""

from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

if TYPE_CHECKING:
    from extender.config import Settings
    from extender.snapshot.file import Snapshot

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


def snapshot_and_settings(
    file: Path | None, config: Path | None
) -> "tuple[Snapshot | None, Settings]":
    """Return the snapshot in a file, and the settings: those of `config`, else the snapshot's.

    Raises SnapshotError, SettingsError and OSError.
    """
    from extender.config.settings import Settings, load
    from extender.snapshot.file import load as load_snapshot

    snapshot = load_snapshot(file) if file is not None else None
    if snapshot is not None and config is None:
        return snapshot, Settings.model_validate(snapshot.settings)
    return snapshot, load(config, {})


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
