"""What several commands share."""

import sys
from threading import Event

import pytest

from gang_tools.cli import options


class Terminal:
    """A terminal that remembers what is written to it."""

    def __init__(self) -> None:
        self.text = ""
        self.later = Event()

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> None:
        self.text += text
        if "0:00:01" in text:
            self.later.set()

    def flush(self) -> None:
        """Nothing is held back."""


def test_long_work_is_shown_on_a_terminal_and_the_line_is_taken_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", terminal)
    with options.progress("playing"):
        assert terminal.later.wait(60)
    assert "playing" in terminal.text
    assert terminal.text.endswith("\033[1A\033[2K")


def test_nothing_is_shown_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with options.progress("playing"):
        pass
    assert capsys.readouterr() == ("", "")
