"""How far it is, on standard error: one line that changes on a terminal, few lines elsewhere."""

import sys
import time

_TERMINAL_SECONDS = 0.2
_LOG_SECONDS = 2.0


class Progress:
    """Tells what is new every little while; `title` says which run it is about."""

    def __init__(self) -> None:
        self.title = ""
        self._terminal = sys.stderr.isatty()
        self._told = time.monotonic()

    def __call__(self, text: str) -> None:
        """Tell `text`, unless something was told just now; several lines are always told."""
        now = time.monotonic()
        due = now - self._told >= (_TERMINAL_SECONDS if self._terminal else _LOG_SECONDS)
        if due or "\n" in text:
            self._told = now
            self._write(f"{self.title}: {text}", lasting="\n" in text)

    def say(self, text: str) -> None:
        """Tell `text` in any case, on a line that stays."""
        self._write(text, lasting=True)

    def _write(self, text: str, *, lasting: bool) -> None:
        start = "\r\x1b[K" if self._terminal else ""
        end = "" if self._terminal and not lasting else "\n"
        sys.stderr.write(f"{start}{text}{end}")
        sys.stderr.flush()
