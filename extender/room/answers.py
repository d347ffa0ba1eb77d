"""What was answered to questions for room, and how long that counts.

A question for thousands of pods takes many pieces, and the state changes between them. A judgement
that starts again after a change asks the same questions again: what it was answered before counts
until it ends, so that it comes to an end however often the state changes. Only where pods are to be
placed at once it is looked at again whether the answer still holds.
"""

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from extender.room.packing import Found
from extender.state.queues.records import Assignment, WorkloadInfo

_KNOWN: Final = 16
"""How many answers are kept, at most: each may name thousands of nodes."""

Key = tuple[str, Hashable, frozenset[str]]


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer to one question."""

    workload: WorkloadInfo
    version: int
    """That of the room when it was asked."""
    judgement: int
    text: str | None
    """What is lacking; None where all pods fit."""
    found: Found
    """Where they fit, as far as they do."""


@dataclass(frozen=True, slots=True)
class Gains:
    """For how many pods of a workload each other workload would give room."""

    workload: WorkloadInfo
    version: int
    judgement: int
    by_workload: Mapping[str, int]


class Answers:
    """The last answers, by their questions."""

    def __init__(self) -> None:
        self._lacks: dict[Key, Answer] = {}
        self._gains: dict[Key, Gains] = {}
        self.judgement = 0

    def clear(self) -> None:
        """Forget all answers."""
        self._lacks.clear()
        self._gains.clear()

    def keep(self, key: Key, answer: Answer) -> None:
        """Remember an answer, and forget the oldest ones."""
        self._lacks.pop(key, None)
        self._lacks[key] = answer
        while len(self._lacks) > _KNOWN:
            del self._lacks[next(iter(self._lacks))]

    def keep_gains(self, key: Key, gains: Gains) -> None:
        """Remember another kind of answer."""
        self._gains.pop(key, None)
        self._gains[key] = gains
        while len(self._gains) > _KNOWN:
            del self._gains[next(iter(self._gains))]

    def lack(self, key: Key, workload: WorkloadInfo) -> Answer | None:
        """Return what was answered, for these pods just as they are."""
        found = self._lacks.get(key)
        return found if found is not None and found.workload == workload else None

    def gains(self, key: Key, workload: WorkloadInfo, version: int) -> Mapping[str, int] | None:
        """Return what was answered, where it counts."""
        found = self._gains.get(key)
        if found is None or found.workload != workload:
            return None
        counts = version == found.version or found.judgement == self.judgement
        return found.by_workload if counts else None


def key_of(workload: WorkloadInfo, given: Sequence[Assignment], without: Collection[str]) -> Key:
    """Return what a question is known by."""
    pods = tuple((each.name, tuple(sorted(each.flavors.items())), each.count) for each in given)
    return workload.key, pods, frozenset(without)
