"""Answers to questions for room, and how long they count.

A question for thousands of pods takes many pieces, and the state changes between them. A judgement
that starts again after a change asks the same questions again. Its earlier answers count until it
ends, so that it comes to an end however often the state changes. An answer is checked again only
where pods are to be placed at once.
"""

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from extender.fit.packer import Found
from extender.state.cluster.records import DomainAssignment
from extender.state.queue.records import Assignment, WorkloadInfo

_KNOWN: Final = 16
"""The most answers that are kept: each may name thousands of nodes."""

Key = tuple[str, Hashable, frozenset[str]]


@dataclass(frozen=True, slots=True)
class RoomLack:
    """The room that pods lack on nodes, and the places of those that fit."""

    text: str | None
    """The text about what is lacking; None if all pods fit."""
    found: Found
    beside: bool = False
    """True if room that is kept for others was left to them."""
    domains: Mapping[str, DomainAssignment] = field(default_factory=dict)
    """The domains that were chosen, by pod set in a flavor with a topology."""


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    """An answer to one question."""

    workload: WorkloadInfo
    version: int
    """The version of the room when it was asked."""
    judgement: int
    answer: T
    checked: bool = False
    """True if the state changed after a search, and the answer has been looked at again."""


class Answers(Generic[T]):
    """The last answers of one kind, by their questions."""

    def __init__(self) -> None:
        self._known: dict[Key, Answer[T]] = {}

    def clear(self) -> None:
        """Forget all answers."""
        self._known.clear()

    def keep(self, key: Key, answer: Answer[T]) -> None:
        """Remember an answer, and forget the oldest ones."""
        self._known.pop(key, None)
        self._known[key] = answer
        while len(self._known) > _KNOWN:
            del self._known[next(iter(self._known))]

    def get(self, key: Key, workload: WorkloadInfo) -> Answer[T] | None:
        """Return what was answered, for these pods just as they are."""
        found = self._known.get(key)
        return found if found is not None and found.workload == workload else None


def key_of(workload: WorkloadInfo, given: Sequence[Assignment], without: Collection[str]) -> Key:
    """Return what a question is known by."""
    pods = tuple((each.name, tuple(sorted(each.flavors.items())), each.count) for each in given)
    return workload.key, pods, frozenset(without)
