"""`gang-extender explain` before it reaches the API server."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from extender.cli.main import app
from extender.config import Queue
from extender.queueing.options import Options


@pytest.mark.parametrize(
    ("argv", "code", "words"),
    [
        pytest.param(("job",), 2, "Missing argument", id="no name"),
        pytest.param(("job", "a", "-o", "xml"), 2, "xml", id="no such form"),
        pytest.param(("workload", "a", "--kind", "Job"), 2, "--kind", id="a kind of workload"),
        pytest.param(("job", "a", "--config", "none.yaml"), 2, "none.yaml", id="no settings"),
        pytest.param(("job", "a", "--kubeconfig", "none"), 1, "kubeconfig none", id="no cluster"),
    ],
)
def test_what_is_wrong_is_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, argv: tuple[str, ...], code: int, words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    result = CliRunner().invoke(app, ["explain", *argv])

    assert (result.exit_code, result.stdout) == (code, "")
    assert words in result.stderr


def test_settings_become_options_of_admission() -> None:
    chosen = Queue(heads_per_queue=3, ignore_undeclared_resources=True)

    assert chosen.options() == Options(heads_per_queue=3, quota_check="IgnoreUndeclared")
    assert Queue().options() == Options()
