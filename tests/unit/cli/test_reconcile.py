"""What the flags of `gang-extender reconcile` make of the settings."""

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from extender.config.queue import Queue
from extender.config.settings import Settings
from extender.jobs.registry import IntegrationError
from extender.telemetry import logs
from extender.wiring import reconcile
from gang_tools.cli.main import app


def started(monkeypatch: pytest.MonkeyPatch, *argv: str, fails: Exception | None = None) -> Any:
    """Run the command with what it would run replaced; return the result and the settings."""
    seen: list[Settings] = []

    async def run(settings: Settings, _: Path | None) -> None:
        seen.append(settings)
        if fails is not None:
            raise fails

    monkeypatch.setattr(reconcile, "reconcile", run)
    monkeypatch.setattr(logs, "configure", lambda *_, **__: None)
    return CliRunner().invoke(app, ["reconcile", *argv]), seen


FLAGS: dict[str, tuple[tuple[str, ...], Queue]] = {
    "none": ((), Queue()),
    "no queue": (("--no-queue",), Queue(enabled=False)),
    "kinds of others": (
        ("--integration", "render_farm:Render", "--integration", "more:Kind"),
        Queue(external_integrations=["render_farm:Render", "more:Kind"]),
    ),
    "everything is held": (
        ("--manage-jobs-without-queue-name",),
        Queue(manage_jobs_without_queue_name=True),
    ),
}


@pytest.mark.parametrize(("argv", "want"), FLAGS.values(), ids=FLAGS)
def test_flags_become_settings_of_the_queue(
    monkeypatch: pytest.MonkeyPatch, argv: tuple[str, ...], want: Queue
) -> None:
    result, [settings] = started(monkeypatch, *argv)

    assert result.exit_code == 0, result.output
    assert settings.queue == want


def test_flags_win_over_the_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "settings.yaml"
    path.write_text(
        "queue: {manageJobsWithoutQueueName: true, externalIntegrations: ['a:B'], agingSeconds: 3}"
    )
    argv = ("--config", str(path), "--no-manage-jobs-without-queue-name", "--integration", "c:D")

    _, [settings] = started(monkeypatch, *argv)

    assert settings.queue == Queue(external_integrations=["c:D"], aging_seconds=3)


def test_an_integration_that_is_none_is_wrong_use(monkeypatch: pytest.MonkeyPatch) -> None:
    error = IntegrationError("cannot import nowhere")

    result, _ = started(monkeypatch, "--integration", "nowhere:Kind", fails=error)

    assert result.exit_code == 2
    assert result.stderr == "gang-extender: cannot import nowhere\n"
