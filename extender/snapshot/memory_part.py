"""The parts of a snapshot that are in no object: what a process remembers of groups and of queues.

Of a refusal the sentence is kept, and not what a node must gain before another look.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from extender.api.reasons import Reason
from extender.gang.remembered import NOTHING, Remembered
from extender.gang.verdicts import Refuse
from extender.queueing.pending import PreemptorState
from extender.snapshot.plain import Plain, plain, typed

GROUPS: Final = "remembered"
QUEUES: Final = "waiting"
_REFUSALS: Final = ("denied", "last_failure")
_NOT_REMEMBERED: Final = frozenset((*_REFUSALS, "group", "never_starts"))


@dataclass(frozen=True, slots=True)
class GroupMemo:
    """What the extender remembers of one group."""

    group: str
    remembered: Remembered
    never_starts: bool = False
    """Whether it holds up no other group, although it goes first."""


@dataclass(frozen=True, slots=True)
class QueueMemo:
    """What a reconciler that leads remembers of the workloads that wait."""

    preemptors: Sequence[PreemptorState] = ()
    blocking: Sequence[str] = ()
    """Heads of strict ClusterQueues that block these."""
    reasons: Iterable[tuple[str, tuple[str, str]]] = ()
    """Workloads with the reason and the message of the last cycle; read while they are written."""
    kept: Sequence[tuple[str, tuple[int, int]]] = ()
    """Workloads for which room is kept: for how many pods, and on how many nodes."""


def group_lists(memos: Iterable[GroupMemo]) -> Mapping[str, Iterable[object]]:
    """Return the lists of the part about groups."""
    return {"groups": _groups(memos)}


def _groups(memos: Iterable[GroupMemo]) -> Iterator[Plain]:
    for memo in memos:
        found = plain(memo.remembered, *_REFUSALS)
        for name in _REFUSALS:
            refusal: Refuse | None = getattr(memo.remembered, name)
            if refusal is not None:
                found[name] = {"reason": refusal.reason, "message": refusal.message}
        if found or memo.never_starts:
            yield {"group": memo.group, "never_starts": memo.never_starts, **found}


def group_memos(part: Mapping[str, list[Any]]) -> dict[str, GroupMemo]:
    """Return by group what was written. Raises msgspec.ValidationError and LookupError."""
    return {memo.group: memo for memo in map(_group, part["groups"])}


def _group(value: Plain) -> GroupMemo:
    rest = {name: given for name, given in value.items() if name not in _NOT_REMEMBERED}
    found = typed(rest, Remembered) if rest else NOTHING
    denied, last = (_refusal(value.get(name)) for name in _REFUSALS)
    if denied is not None or last is not None:
        found = replace(found, denied=denied, last_failure=last)
    return GroupMemo(value["group"], found, never_starts=value["never_starts"])


def _refusal(said: Plain | None) -> Refuse | None:
    return Refuse(Reason(said["reason"]), said["message"]) if said is not None else None


def queue_lists(memo: QueueMemo) -> Mapping[str, Iterable[object]]:
    """Return the lists of the part about workloads that wait."""
    return {
        "preemptors": map(plain, memo.preemptors),
        "blocking": memo.blocking,
        "reasons": memo.reasons,
        "kept": memo.kept,
    }


def queue_memo(part: Mapping[str, list[Any]]) -> QueueMemo:
    """Return what was written. Raises msgspec.ValidationError and LookupError."""
    return QueueMemo(
        [typed(each, PreemptorState) for each in part["preemptors"]],
        part["blocking"],
        [(key, (reason, message)) for key, (reason, message) in part["reasons"]],
        [(key, (pods, nodes)) for key, (pods, nodes) in part["kept"]],
    )
