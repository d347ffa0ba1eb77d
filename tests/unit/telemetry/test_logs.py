"""The form of log lines: ours and those of libraries, with the ids of what they are about."""

import json
import logging
import sys
from io import StringIO

import pytest
import structlog
from typing_extensions import override

from extender.runtime.faults import FAULTS
from extender.telemetry import logs


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]


def test_lines_about_a_group_have_its_id(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("info", as_json=True)
    known = {"ns/known": "1a"}
    logs.IDS.add("group", "gang_id", known.get)
    log = structlog.get_logger("of ours")
    log.info("about", group="ns/known")
    log.info("about another", group="ns/other")
    log.info("with its own", group="ns/known", gang_id="2b")
    log.info("about none", group=None)

    assert [line.get("gang_id") for line in lines(capsys)] == ["1a", None, "2b", None]


def test_lines_of_libraries_have_the_form_of_ours(capsys: pytest.CaptureFixture[str]) -> None:
    logging.getLogger().handlers[:] = []  # those of pytest
    logs.configure("info", as_json=True)
    logging.getLogger("asyncio").warning("slow %s", "callback")
    logging.getLogger("asyncio").info("too little to say")
    error = ValueError("it broke")
    logging.getLogger("asyncio").error("an error", exc_info=error)

    slow, failed = lines(capsys)
    assert (slow["event"], slow["level"], slow["logger"]) == (
        "slow callback", "warning", "asyncio"
    )  # fmt: skip
    assert "timestamp" in slow
    assert "ValueError: it broke" in str(failed["exception"])


def test_below_the_level_nothing_is_logged(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("warning", as_json=False)
    log = structlog.get_logger("of ours")
    log.info("little")
    log.warning("much", group="ns/g", reason="ScheduleTimeout")

    text = capsys.readouterr().err
    assert "little" not in text
    assert "much" in text
    assert "ScheduleTimeout" in text


class FullDisk(StringIO):
    """A file that takes nothing."""

    @override
    def write(self, _: str) -> int:
        raise OSError(28, "No space left on device")


def test_a_line_that_cannot_be_written_is_lost_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", FullDisk())
    logs.configure("info", as_json=True)
    log, before = structlog.get_logger("of ours"), FAULTS.counts.get("logs", 0)
    log.info("a line")
    log.bind(more=1).error("another")
    FAULTS.report("here", ValueError("it broke"))
    log.debug("below the level")

    assert FAULTS.counts["logs"] == before + 3
