"""How far it is, on standard error: one line that changes on a terminal, few lines elsewhere."""

import sys
import time

_TERMINAL_SECONDS = 0.2
_LOG_SECONDS = 2.0


class Progress:
    """Writes what is new every little while; `title` says which run it is about."""

    def __init__(self) -> None:
        self.title = ""
        self._terminal = sys.stderr.isatty()
        self._written = time.monotonic()

    def __call__(self, text: str) -> None:
        """Write `text`, unless a text was written just now; several lines are always written."""
        now = time.monotonic()
        due = now - self._written >= (_TERMINAL_SECONDS if self._terminal else _LOG_SECONDS)
        if due or "\n" in text:
            self._written = now
            self._write(f"{self.title}: {text}", lasting="\n" in text)

    def say(self, text: str) -> None:
        """Write `text` in any case, on a line that stays."""
        self._write(text, lasting=True)

    def _write(self, text: str, *, lasting: bool) -> None:
        start = "\r\x1b[K" if self._terminal else ""
        end = "" if self._terminal and not lasting else "\n"
        sys.stderr.write(f"{start}{text}{end}")
        sys.stderr.flush()
