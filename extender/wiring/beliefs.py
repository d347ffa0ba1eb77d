"""What each process believes, for a snapshot."""

import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from typing import Final

from extender.gang.options import GangOptions
from extender.permit.memory import GroupMemory
from extender.runtime.clock import Clock
from extender.snapshot.header import ProcessName, SnapshotHeader, WatchState
from extender.snapshot.memory_part import GroupMemo
from extender.snapshot.writing import Belief
from extender.state.cluster.store import Cluster
from extender.state.cluster.view import ClusterView
from extender.wiring.health import Watches
from extender.wiring.queue import QueueControllers

_VERSION: Final = version("gang-extender")


@dataclass(frozen=True, slots=True)
class Believer:
    """A process: what both have."""

    process: ProcessName
    cluster: Cluster
    options: GangOptions
    watches: Watches
    clock: Clock

    def header(self, unready: str, *, leads: bool = True) -> SnapshotHeader:
        """Return what a snapshot that is taken now says of itself."""
        problems = {**self.watches.checks(), **self.watches.remarks()}
        states = {
            each.kind: WatchState(each.freshness.age, problems[each.kind])
            for each in self.watches.reflectors
        }
        return SnapshotHeader(
            self.process,
            self.clock.wall(),
            version=_VERSION,
            host=socket.gethostname(),
            unready=unready,
            leads=leads,
            watches=states,
        )


def of_extender(each: Believer, memory: GroupMemory, unready: Callable[[], str]) -> Belief:
    """Return what the extender believes now; what it remembers of groups is read later."""
    memos = memos_of(each.cluster.view(), memory)
    return Belief(each.header(unready()), each.options, each.cluster.copied(), memos)


def memos_of(view: ClusterView, memory: GroupMemory) -> Iterator[GroupMemo]:
    """Yield what is remembered of the groups that there are when the first one is asked for."""
    for group in view.known_groups():
        pod_group = view.pod_group(group)
        never = pod_group is not None and memory.never_starts(pod_group)
        yield GroupMemo(group, memory.of(group), never_starts=never)


def of_reconciler(
    each: Believer, queue: QueueControllers | None, unready: Callable[[], str]
) -> Belief:
    """Return what the reconciler believes now; where it does not lead, it remembers nothing."""
    waiting = queue.memo() if queue is not None else None
    return Belief(
        each.header(unready(), leads=queue is None or waiting is not None),
        each.options,
        each.cluster.copied(),
        admission=queue.options if queue is not None else None,
        queues=queue.queues.copied() if queue is not None else None,
        waiting=waiting,
    )
