"""`gang-extender render` and the frame that it is mounted in."""

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from typer.testing import CliRunner

from extender.config.settings import Settings
from gang_tools.cli.main import app

ROOT = Path(__file__).parents[3]

run = CliRunner()


def test_this_checkout_has_what_render_gives() -> None:
    page = (ROOT / "docs/configuration.md").read_text()
    assert run.invoke(app, ["render", "settings"]).stdout == page


def rows() -> dict[str, list[str]]:
    """Return the cells of every setting on the page by its name."""
    lines = run.invoke(app, ["render", "settings"]).stdout.splitlines()
    cells = [line[1:-1].strip().split(" | ") for line in lines if line.startswith("| `")]
    return {each[0].strip("`"): each[1:] for each in cells}


def leaves(value: object, path: str = "") -> dict[str, object]:
    """Return every default that is no section by its full name."""
    if not isinstance(value, dict):
        return {path: value}
    return {
        name: found
        for key, below in value.items()
        for name, found in leaves(below, f"{path}.{key}".strip(".")).items()
    }


def test_the_reference_has_every_setting_with_a_default_and_a_meaning() -> None:
    found, want = rows(), leaves(Settings().model_dump(mode="json", by_alias=True))

    assert want.keys() <= found.keys()
    assert {name for name, cells in found.items() if len(cells) != 3 or not all(cells)} == set()
    assert found["listen.port"][:2] == ["integer, 0 to 65535", "`8888`"]
    assert found["listen.tls.clientNames"][:2] == ["list", "required"]
    assert found["gang.agingSeconds"][:2] == ["seconds ≥ 0", "`300`"]
    assert found["queue.releaseQuota"][:2] == [
        "`OnTerminating`, `OnTerminal`",
        "`OnTerminating`",
    ]
    assert found["queue.waitForPodsReady.timeout"][0].startswith("seconds")


def test_every_setting_that_measures_says_its_unit() -> None:
    units = {"Seconds": "seconds", "Percentage": "percent", "Bytes": "bytes", "Days": "days"}
    for name, (value, *_) in rows().items():
        for suffix, unit in units.items():
            assert not name.endswith(suffix) or value.startswith(unit), name


WANT_WRONG_USE = {
    "render alone": ["render"],
    "a command that there is not": ["render", "setting"],
    "an option that there is not": ["render", "--verify"],
    "no command at all": [],
}


@pytest.mark.parametrize("arguments", WANT_WRONG_USE.values(), ids=WANT_WRONG_USE)
def test_wrong_use_is_two(arguments: list[str]) -> None:
    assert run.invoke(app, arguments).exit_code == 2


def test_the_version_is_printed() -> None:
    result = run.invoke(app, ["--version"])

    assert (result.exit_code, result.stdout) == (0, f"gang-extender {version('gang-extender')}\n")


def test_help_is_quick_because_it_imports_little() -> None:
    code = (
        "import sys; from typer.testing import CliRunner; from gang_tools.cli.main import app\n"
        "assert CliRunner().invoke(app, ['--help']).exit_code == 0\n"
        "print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    slow = {"pydantic", "fastapi", "kubernetes", "aiohttp", "uvicorn"}
    assert slow.isdisjoint(done.stdout.split())
