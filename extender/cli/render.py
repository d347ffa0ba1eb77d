"""`gang-extender render`: writes and checks the files that are made from the models.

`render crds`, `settings` and `chart` write them, `render --check` compares those of a checkout and
changes nothing. `render access` makes the role and the policy for a kind of job that an
administrator adds, `render static-pod` the files of a control-plane node.
"""

import difflib
from pathlib import Path
from typing import Annotated, Final

import typer

from extender.cli import settings_page
from extender.cli.options import exits
from extender.cli.static_pod import write_static_pod
from extender.cli.yaml_text import as_yaml

SETTINGS: Final = Path("docs/configuration.md")
"""Where the reference of settings lives in a checkout."""

MEND_SETTINGS: Final = f"gang-extender render settings --output {SETTINGS}"
"""The command that writes the reference of a checkout."""

app = typer.Typer(
    name="render", help="Write the generated files, or check them.", invoke_without_command=True
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


@app.command("access")
def write_access(
    *,
    integration: Annotated[
        list[str] | None,
        typer.Option(metavar="MODULE:CLASS", help="A kind as for `reconcile`; may be repeated."),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(help="Settings of `reconcile`: the kinds of queue.externalIntegrations."),
    ] = None,
    namespace: Annotated[
        str, typer.Option(help="Namespace of the reconciler's service account.")
    ] = "gang-extender-system",
    service_account: Annotated[
        str, typer.Option(help="Name of the reconciler's service account.")
    ] = "gang-reconciler",
) -> None:
    """Print the role and the admission policy that the reconciler needs for kinds of your own.

    The role allows what the reconciler asks for; the policy refuses changes of other fields. Apply
    both: `gang-extender render access --integration my:Kind | kubectl apply -f -`.
    """
    from extender import config as settings_module
    from extender.jobs import access, registry

    with exits(2, registry.IntegrationError, settings_module.SettingsError):
        named = settings_module.load(config, {}).queue.external_integrations if config else []
        references = dict.fromkeys([*(integration or ()), *named])
        account = access.Account(namespace, service_account)
        found = [
            manifest
            for reference in references
            for manifest in access.manifests(registry.load(reference), account)
        ]
    if not found:
        raise typer.BadParameter("name a kind with --integration, or settings with --config")
    typer.echo("---\n".join(map(as_yaml, found)), nl=False)


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
