"""`gang-extender`: the commands, mounted in one place.

Exit codes: 0 done, 1 it failed, 2 wrong use. Each command imports what is slow to import itself,
so that `--help` and shell completion stay quick.
"""

from typing import Annotated

import typer

from extender.runtime.process import version
from gang_tools.cli import render
from gang_tools.cli.check import check
from gang_tools.cli.demo import demo
from gang_tools.cli.explain import explain
from gang_tools.cli.page import page
from gang_tools.cli.reconcile import reconcile
from gang_tools.cli.serve import serve
from gang_tools.cli.simulate import simulate
from gang_tools.cli.snapshot import snapshot

app = typer.Typer(
    name="gang-extender",
    help="All-or-nothing scheduling for the stock kube-scheduler, as an HTTP extender.",
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,  # locals may hold tokens
)
app.add_typer(render.app)
app.command()(serve)
app.command()(reconcile)
app.command(no_args_is_help=True)(explain)
app.command()(check)
app.command()(page)
app.command()(snapshot)
app.command()(demo)
app.command()(simulate)


def _show_version(asked: bool) -> None:  # noqa: FBT001  # the signature that typer calls
    if asked:
        typer.echo(f"gang-extender {version()}")
        raise typer.Exit


@app.callback()
def options(
    *,
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Read the options before the command."""


def main() -> None:
    """Run the command line; never returns."""
    app()
