"""The form of log lines: ours and those of libraries, with the ids of what they are about."""

import json
import logging
import os
import sys
from io import StringIO
from threading import Thread

import pytest
import structlog
from typing_extensions import override

from extender.runtime.faults import FAULTS
from extender.telemetry import logs
from tests.harness.client import PATIENCE_SECONDS


def lines(file: logs.Lines, capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    file.finish(PATIENCE_SECONDS)
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]


def test_lines_about_a_group_have_its_id(capsys: pytest.CaptureFixture[str]) -> None:
    file = logs.configure("info", as_json=True)
    known = {"ns/known": "1a"}
    logs.IDS.add("group", "gang_id", known.get)
    log = structlog.get_logger("of ours")
    log.info("about", group="ns/known")
    log.info("about another", group="ns/other")
    log.info("with its own", group="ns/known", gang_id="2b")
    log.info("about none", group=None)

    assert [line.get("gang_id") for line in lines(file, capsys)] == ["1a", None, "2b", None]


def test_lines_of_libraries_have_the_form_of_ours(capsys: pytest.CaptureFixture[str]) -> None:
    logging.getLogger().handlers[:] = []  # those of pytest
    file = logs.configure("info", as_json=True)
    logging.getLogger("asyncio").warning("slow %s", "callback")
    logging.getLogger("asyncio").info("too little to say")
    error = ValueError("it broke")
    logging.getLogger("asyncio").error("an error", exc_info=error)

    slow, failed = lines(file, capsys)
    assert (slow["event"], slow["level"], slow["logger"]) == (
        "slow callback", "warning", "asyncio"
    )  # fmt: skip
    assert "timestamp" in slow
    assert "ValueError: it broke" in str(failed["exception"])


def test_below_the_level_nothing_is_logged(capsys: pytest.CaptureFixture[str]) -> None:
    file = logs.configure("warning", as_json=False)
    log = structlog.get_logger("of ours")
    log.info("little")
    log.warning("much", group="ns/g", reason="ScheduleTimeout")

    file.finish(PATIENCE_SECONDS)
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
    file = logs.configure("info", as_json=True)
    log, before = structlog.get_logger("of ours"), FAULTS.counts.get("logs", 0)
    log.info("a line")
    log.bind(more=1).error("another")
    FAULTS.report("here", ValueError("it broke"))
    log.debug("below the level")
    file.finish(PATIENCE_SECONDS)

    assert FAULTS.counts["logs"] == before + 3


def test_nobody_waits_for_lines_that_nothing_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    with open(writing, "w") as stuck:
        monkeypatch.setattr(sys, "stderr", stuck)
        monkeypatch.setattr(logs, "MOST_LINES", 100)
        file = logs.configure("info", as_json=True)
        log, before = structlog.get_logger("of ours"), FAULTS.counts.get("logs", 0)
        for number in range(1000):
            log.info("a line of some length" * 20, number=number)
        assert FAULTS.counts["logs"] > before

        text = list[str]()
        with open(reading) as reader:
            drain = Thread(target=lambda: text.append(reader.read()))
            drain.start()
            file.finish(PATIENCE_SECONDS)
            log.info("the last one")
            file.finish(PATIENCE_SECONDS)
            stuck.close()
            drain.join()

    found = [json.loads(line) for line in text[0].splitlines()]
    lost = FAULTS.counts["logs"] - before
    assert sum("number" in line for line in found) >= 1000 - lost
    assert sum(line.get("lines", 0) for line in found) == lost
