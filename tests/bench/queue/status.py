"""What the child processes of the benchmark write: a JSON object on each line."""

import asyncio
import sys
from collections import Counter
from collections.abc import Callable, Mapping

import msgspec

_INTERVAL_SECONDS = 0.5


class Status(msgspec.Struct, kw_only=True):
    """How far a process is, and what it has asked of the API server."""

    text: str
    done: bool = False
    writes: Mapping[str, int] = {}  # requests that write, by "VERB resource"
    seconds: float = 0.0  # that it took, once it is done


def write(status: Status) -> None:
    """Write one line."""
    sys.stdout.buffer.write(msgspec.json.encode(status) + b"\n")
    sys.stdout.buffer.flush()


async def keep_writing(status: Callable[[], Status]) -> None:
    """Write what has changed every little while, until cancelled."""
    written = None
    while True:
        now = status()
        if now != written:
            write(now)
            written = now
        await asyncio.sleep(_INTERVAL_SECONDS)


def read(line: str) -> Status | None:
    """Return the status of a line of a log, None when it is something else."""
    try:
        return msgspec.json.decode(line, type=Status)
    except msgspec.DecodeError:
        return None


Writes = Counter[str]
"""Requests that write, by "VERB resource", whatever came of them."""
