"""The workloads that wait for victims to leave: their own, or those of others."""

from collections.abc import Collection, Iterator

_NONE: frozenset[str] = frozenset()


class Preemptors:
    """For which victims each preemptor waits, in the order in which they were chosen."""

    def __init__(self) -> None:
        self._victims: dict[str, frozenset[str]] = {}
        self._have_chosen: set[str] = set()

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

    def drop_victim(self, victim: str) -> list[str]:
        """Forget a victim whose eviction was not stored; return the preemptors that wait for it.

        They remain preemptors, even without victims.
        """
        found = [key for key, victims in self._victims.items() if victim in victims]
        for key in found:
            self._victims[key] -= {victim}
        return found

    def readmit(self, victim: str) -> None:
        """Forget a victim that has quota again: no preemptor waits for it."""
        for key, victims in list(self._victims.items()):
            if victim in victims:
                self.expect(key, victims - {victim})
