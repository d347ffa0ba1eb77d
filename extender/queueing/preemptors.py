"""The workloads that wait for victims to leave: their own, or those of others."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

_NONE: frozenset[str] = frozenset()
_NO_COUNTS: Final[Mapping[str, int]] = {}
_AT_ONCE: Final = 2
"""How often victims for room are chosen without a pause."""
FIRST_PAUSE: Final = 60.0
LONGEST_PAUSE: Final = 3600.0
"""Seconds until they are chosen once more; each further pause is twice as long."""


@dataclass(frozen=True, slots=True)
class PreemptorState:
    """All that is known of one preemptor, or of one that was."""

    workload: str
    victims: frozenset[str] | None = None
    """Those that it waits for; None where it is no preemptor now."""
    has_chosen: bool = False
    counts: Mapping[str, int] = field(default_factory=dict)
    times: int = 0
    """How often it has chosen victims for room."""
    last: float = 0.0
    """When it did so last, in seconds since the epoch."""


class Preemptors:
    """For which victims each preemptor waits, in the order in which they were chosen."""

    def __init__(self) -> None:
        self._victims: dict[str, frozenset[str]] = {}
        self._have_chosen: set[str] = set()
        self._counts: dict[str, Mapping[str, int]] = {}
        """By workload that chose victims: for how many pods of each pod set."""
        self._choices: dict[str, tuple[int, float]] = {}
        """By workload: how often it has chosen victims for room, and when it did so last."""

    def __iter__(self) -> Iterator[str]:
        """Yield the preemptors."""
        yield from self._victims

    def victims(self, preemptor: str) -> frozenset[str]:
        """Return the victims that a workload waits for."""
        return self._victims.get(preemptor, _NONE)

    def has_chosen(self, preemptor: str) -> bool:
        """Return whether a workload has chosen a victim itself; others wait for those of others."""
        return preemptor in self._have_chosen

    def all_victims(self) -> set[str]:
        """Return the victims of all preemptors."""
        return set().union(*self._victims.values())

    def chosen_for(self, preemptor: str) -> Mapping[str, int]:
        """Return for how many pods of each pod set a workload has chosen the victims it awaits."""
        return self._counts.get(preemptor, _NO_COUNTS)

    def chose(self, preemptor: str, counts: Mapping[str, int]) -> None:
        """Set for how many pods of each pod set a preemptor has chosen its victims."""
        self._counts[preemptor] = counts

    def expect(self, preemptor: str, victims: Collection[str], *, chosen: bool = False) -> None:
        """Set the victims that a workload waits for; without any it is no preemptor.

        One that has `chosen` a victim itself has done so until it waits for none.
        """
        if victims:
            self._victims[preemptor] = frozenset(victims)
            if chosen:
                self._have_chosen.add(preemptor)
        else:
            self._victims.pop(preemptor, None)
            self._have_chosen.discard(preemptor)
            self._counts.pop(preemptor, None)

    # -- pods beside the queue may take the room that was made, again and again

    def count_for_room(self, preemptor: str, now: float) -> None:
        """Count that a workload has chosen victims for room; `now` in seconds since the epoch."""
        times, _ = self._choices.get(preemptor, (0, now))
        self._choices[preemptor] = times + 1, now

    def may_choose_for_room(self, preemptor: str, now: float) -> bool:
        """Return whether a workload may choose victims for room now."""
        times, last = self._choices.get(preemptor, (0, now))
        if times < _AT_ONCE:
            return True
        pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(times - _AT_ONCE, 32))
        return not 0 <= now - last < pause

    def states(self) -> list[PreemptorState]:
        """Return all that is known, first preemptor first."""
        return [
            PreemptorState(
                key,
                self._victims.get(key),
                has_chosen=key in self._have_chosen,
                counts=self._counts.get(key, _NO_COUNTS),
                times=self._choices.get(key, (0, 0.0))[0],
                last=self._choices.get(key, (0, 0.0))[1],
            )
            for key in {**self._victims, **self._counts, **self._choices}
        ]

    def put(self, state: PreemptorState) -> None:
        """Know of one workload what a state says."""
        key = state.workload
        self.forget(key)
        if state.victims is not None:
            self._victims[key] = state.victims
        if state.has_chosen:
            self._have_chosen.add(key)
        if state.counts:
            self._counts[key] = state.counts
        if state.times:
            self._choices[key] = state.times, state.last

    def forget(self, preemptor: str) -> None:
        """Forget a workload: it has quota, has finished or is gone."""
        self.expect(preemptor, ())
        self._choices.pop(preemptor, None)

    # -- victims that do not leave

    def drop_victim(self, victim: str) -> list[str]:
        """Forget a victim whose eviction was not stored; return the preemptors that wait for it.

        They remain preemptors, even without victims.
        """
        found = [key for key, victims in self._victims.items() if victim in victims]
        for key in found:
            self._victims[key] -= {victim}
            self._choices.pop(key, None)
            self._counts.pop(key, None)
        return found

    def readmit(self, victim: str) -> None:
        """Forget a victim that has quota again: no preemptor waits for it."""
        for key, victims in list(self._victims.items()):
            if victim in victims:
                self.expect(key, victims - {victim})
