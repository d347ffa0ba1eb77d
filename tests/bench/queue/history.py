"""What the watch showed, event by event, in a file: the runner writes it, the report reads it."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Self

import msgspec

from tests.bench.queue.wire import Event


class Seen(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """One Workload after one event; `time` is this machine's monotonic clock."""

    time: float
    name: str
    kind: str  # its class
    queue: str
    held: int = 0  # thousandths of a core
    held_in: str = ""  # the ClusterQueue that its admission names
    admitted: bool = False
    evicted: bool = False
    finished: bool = False


def seen(event: Event, now: float) -> Seen:
    """Return what an event says. Of a Workload that was deleted nothing is left."""
    workload = event.object
    gone = event.type == "DELETED"
    admission = workload.status.admission
    return Seen(
        time=now,
        name=workload.metadata.name,
        kind=workload.class_name,
        queue=workload.spec.queue_name,
        held=0 if gone else workload.held,
        held_in=admission.cluster_queue if admission else "",
        admitted=workload.is_true("Admitted") and not gone,
        evicted=workload.is_true("Evicted"),
        finished=workload.is_true("Finished"),
    )


class Recorder:
    """Appends to the file while the context is open."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb")
        self._encoder = msgspec.json.Encoder()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def add(self, each: Seen) -> None:
        """Append one."""
        self._file.write(self._encoder.encode(each) + b"\n")


def read(path: Path) -> list[Seen]:
    """Return all that was recorded, in order; a last line that was cut off is left out."""
    return list(_decoded(path.read_bytes().splitlines(keepends=True)))


def _decoded(lines: Iterable[bytes]) -> Iterator[Seen]:
    decoder = msgspec.json.Decoder(Seen)
    for line in lines:
        if line.endswith(b"\n"):
            yield decoder.decode(line)
