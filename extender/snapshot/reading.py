"""What a snapshot says, as the state that it was taken of."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from extender.gang.options import GangOptions
from extender.gang.remembered import NOTHING, Remembered
from extender.queueing.lines import Cause
from extender.queueing.options import AdmissionOptions
from extender.queueing.pending import PendingQueues
from extender.snapshot import cluster_part, memory_part, queue_part
from extender.snapshot.header import FORMAT, KIND, SnapshotError, SnapshotHeader
from extender.snapshot.memory_part import GroupMemo, QueueMemo
from extender.snapshot.plain import KnownShapes, typed
from extender.state.cluster.restored import restored
from extender.state.cluster.store import Cluster
from extender.state.queue.restored import restored_queues
from extender.state.queue.store import Queues

_NO_MEMO: Final = QueueMemo()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state of a process at one moment; parts that the file has not are None."""

    header: SnapshotHeader
    cluster: Cluster
    gang: GangOptions
    groups: Mapping[str, GroupMemo] | None = None
    """What the extender remembered of groups."""
    queues: Queues | None = None
    admission: AdmissionOptions | None = None
    waiting: QueueMemo = _NO_MEMO
    reasons: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """By workload: the reason and the message of the last cycle."""

    def remembered(self, group: str) -> Remembered:
        """Return what the extender remembered of a group, `namespace/name`."""
        memo = (self.groups or {}).get(group)
        return memo.remembered if memo is not None else NOTHING

    def never_starts(self, group: str) -> bool:
        """Return whether a group held up no other one, although it went first."""
        memo = (self.groups or {}).get(group)
        return memo is not None and memo.never_starts

    def pending(self) -> PendingQueues:
        """Return where the workloads wait. Raises SnapshotError where there are no queues."""
        if self.queues is None or self.admission is None:
            raise SnapshotError(f"a snapshot of the {self.header.process} has no queues")
        found, view = PendingQueues(self.admission), self.queues.view()
        for key in view.workloads:
            found.update(key, view, self.header.now)
        for state in self.waiting.preemptors:
            found.preemptors.put(state)
        for key in self.waiting.blocking:
            if found.cluster_queue_of(key) is not None:
                found.mark_inadmissible(key, Cause.NO_QUOTA, blocks=True)
        return found


def read(data: bytes) -> Snapshot:
    """Return the snapshot that a file holds, as `written` made it. Raises SnapshotError."""
    try:
        found: dict[str, Any] = msgspec.json.decode(data, type=dict[str, Any])
    except msgspec.MsgspecError as error:
        raise SnapshotError(f"it is no whole JSON document: {error}") from None
    if found.get("kind") != KIND or not isinstance(found.get("format"), int):
        raise SnapshotError("it is no snapshot of gang-extender")
    if found["format"] != FORMAT:
        raise SnapshotError(
            f"it has format {found['format']}, and this release reads format {FORMAT}; it was "
            f"written by gang-extender {found.get('header', {}).get('version', '')}"
        )
    try:
        return _snapshot(found)
    except (msgspec.MsgspecError, LookupError, TypeError, ValueError) as error:
        raise SnapshotError(f"it cannot be read: {error!r}") from error


def _snapshot(found: Mapping[str, Any]) -> Snapshot:
    shared, settings = found["shared"], found["settings"]
    shapes = KnownShapes(shared["shapes"], shared["patterns"])
    queues, groups = found.get(queue_part.NAME), found.get(memory_part.GROUPS)
    waiting, admission = found.get(memory_part.QUEUES), settings["admission"]
    memo = memory_part.queue_memo(waiting) if waiting is not None else _NO_MEMO
    return Snapshot(
        header=typed(found["header"], SnapshotHeader),
        cluster=restored(cluster_part.copy_of(found[cluster_part.NAME], shapes)),
        gang=typed(settings["gang"], GangOptions),
        groups=memory_part.group_memos(groups) if groups is not None else None,
        queues=restored_queues(queue_part.copy_of(queues, shapes)) if queues is not None else None,
        admission=typed(admission, AdmissionOptions) if admission is not None else None,
        waiting=memo,
        reasons=dict(memo.reasons),
    )
