"""What several processes have in common: how they start and end together, and what they serve."""

from contextlib import ExitStack
from typing import Final, Self

import httpx

from tests.harness.process import Component

_ANSWER_SECONDS: Final = 60.0


class Started:
    """Starts several things that end in reverse order; use as a context manager.

    Where the start fails half way, what has started by then ends too.
    """

    def __init__(self) -> None:
        self._stack = ExitStack()
        """What ends at the end."""

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _start(self) -> None:
        """Start everything, and put each thing on the stack as soon as it runs."""
        raise NotImplementedError


def fetch(url: str) -> httpx.Response:
    """Return the answer to a GET, on a connection of its own; no certificate is looked at.

    To read the certificates of all authorities takes longer than the request, and tests ask often.
    """
    return httpx.get(url, verify=False, trust_env=False, timeout=_ANSWER_SECONDS)


def metrics(url: str) -> str:
    """Return the page of metrics of a process."""
    return fetch(f"{url}/metrics").text


def metric(url: str, name: str) -> float:
    """Return a sample by its full name with labels; 0 where there is none yet."""
    for line in metrics(url).splitlines():
        sample, _, value = line.rpartition(" ")
        if sample == name:
            return float(value)
    return 0.0


def is_ready(process: Component, url: str) -> bool:
    """Return whether a process is ready; RuntimeError with its log where it has ended."""
    if not process.running:
        raise RuntimeError(f"{process.name} ended\n{process.tail(40)}")
    try:
        return fetch(f"{url}/readyz").status_code == httpx.codes.OK
    except httpx.TransportError:
        return False
