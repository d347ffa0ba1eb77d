"""A snapshot as JSON, in pieces: one record in a line."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import chain
from typing import Final

from extender.gang.options import GangOptions
from extender.queueing.options import AdmissionOptions
from extender.snapshot import cluster_part, memory_part, queue_part
from extender.snapshot.header import API_VERSION, FORMAT, KIND, SnapshotHeader
from extender.snapshot.memory_part import GroupMemo, QueueMemo
from extender.snapshot.plain import ShapeNumbers, encode
from extender.state.cluster.copies import ClusterCopy
from extender.state.cluster.relist import cut
from extender.state.queue.copies import QueueCopy

PIECE: Final = 64
"""Records that are written in one piece."""
_FEW: Final = 4
"""Groups of which it is found out in one piece what is remembered: the nodes may be asked."""


@dataclass(frozen=True, slots=True)
class Belief:
    """What a process believes at one moment. Parts that it has not are None."""

    header: SnapshotHeader
    gang: GangOptions
    cluster: ClusterCopy
    groups: Iterable[GroupMemo] | None = None
    """Read while it is written, before all else."""
    admission: AdmissionOptions | None = None
    queues: QueueCopy | None = None
    waiting: QueueMemo | None = None


def written(belief: Belief) -> Iterator[bytes]:
    """Yield the pieces of the file; each takes a fraction of a millisecond, or a few."""
    header, numbers = belief.header, ShapeNumbers()
    head: dict[str, object] = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "format": FORMAT,
        "takenAt": datetime.fromtimestamp(header.now, UTC).isoformat(),
        "header": asdict(header),
        "settings": {"gang": belief.gang, "admission": belief.admission},
    }
    yield encode(head)[:-1]
    if belief.groups is not None:
        yield from _part(memory_part.GROUPS, memory_part.group_lists(belief.groups), _FEW)
    yield from _part(cluster_part.NAME, cluster_part.lists_of(belief.cluster, numbers))
    if belief.queues is not None:
        yield from _part(queue_part.NAME, queue_part.lists_of(belief.queues, numbers))
    if belief.waiting is not None:
        yield from _part(memory_part.QUEUES, memory_part.queue_lists(belief.waiting))
    # Last: the numbers are given as pods are written. A pattern may bring its shape along.
    shared: dict[str, Iterable[object]] = {"patterns": numbers.patterns, "shapes": numbers.shapes}
    yield from _part("shared", shared)
    yield b"}\n"


def _part(
    name: str, lists: Mapping[str, Iterable[object]], at_once: int = PIECE
) -> Iterator[bytes]:
    yield b',\n"%s":{' % name.encode()
    for number, (key, items) in enumerate(lists.items()):
        yield b'%s\n"%s":[' % (b"," if number else b"", key.encode())
        between = chain((b"\n",), iter(lambda: b",\n", None))
        for some in cut(items, at_once):
            yield b"".join(next(between) + encode(each) for each in some)
        yield b"]"
    yield b"}"
