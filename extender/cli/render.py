"""`gang-extender render`: write the reference of the settings, and a control-plane node's files."""

import difflib
from pathlib import Path
from typing import Annotated, Final

import typer

from extender.cli import settings_page
from extender.cli.static_pod import write_static_pod

SETTINGS: Final = Path("docs/configuration.md")
"""Where the reference of settings lives in a checkout."""

MEND_SETTINGS: Final = f"gang-extender render settings --output {SETTINGS}"
"""The command that writes the reference of a checkout."""

app = typer.Typer(
    name="render",
    help="Write files that are made for you, or check them.",
    invoke_without_command=True,
)


@app.callback()
def render(
    context: typer.Context,
    *,
    check: Annotated[
        bool, typer.Option("--check", help="Exit 1 with a diff if a generated file is stale.")
    ] = False,
    root: Annotated[
        Path, typer.Option(help="The checkout to check.", exists=True, file_okay=False)
    ] = Path(),
) -> None:
    """Write the generated files, or check them with --check."""
    if check and context.invoked_subcommand:
        raise typer.BadParameter("--check stands alone, without a command after it")
    if check:
        _check(root)
    elif not context.invoked_subcommand:
        typer.echo(context.get_help(), err=True)
        raise typer.Exit(2)


@app.command("settings")
def write_settings(
    *,
    output: Annotated[
        Path | None, typer.Option(help="Write the page into this file.", dir_okay=False)
    ] = None,
) -> None:
    """Print the reference of all settings with values, units and defaults, or write it."""
    text = settings_page.page(MEND_SETTINGS)
    if output is None:
        typer.echo(text, nl=False)
        return
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        typer.echo(f"cannot write the page: {error}", err=True)
        raise typer.Exit(1) from error


app.command("static-pod")(write_static_pod)


def _check(root: Path) -> None:
    path = root / SETTINGS
    have = path.read_text(encoding="utf-8") if path.is_file() else ""
    diff = difflib.unified_diff(
        have.splitlines(keepends=True),
        settings_page.page(MEND_SETTINGS).splitlines(keepends=True),
        fromfile=str(SETTINGS) if have else "/dev/null",
        tofile=f"{SETTINGS} (rendered)",
    )
    if text := "".join(diff):
        typer.echo(text, nl=False)
        typer.echo(f"{SETTINGS} is stale. Mend with `{MEND_SETTINGS}`", err=True)
        raise typer.Exit(1)
