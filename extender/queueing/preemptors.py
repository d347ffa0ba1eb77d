"""The workloads that wait for victims to leave."""

from collections.abc import Collection, Iterator

_NONE: frozenset[str] = frozenset()


class Preemptors:
    """For which victims each preemptor waits, in the order in which they were chosen."""

    def __init__(self) -> None:
        self._victims: dict[str, frozenset[str]] = {}

    def __iter__(self) -> Iterator[str]:
        """Yield the preemptors."""
        yield from self._victims

    def victims(self, preemptor: str) -> frozenset[str]:
        """Return the victims that a workload waits for."""
        return self._victims.get(preemptor, _NONE)

    def all_victims(self) -> set[str]:
        """Return the victims of all preemptors."""
        return set().union(*self._victims.values())

    def expect(self, preemptor: str, victims: Collection[str]) -> None:
        """Set the victims that a workload waits for; without any it is no preemptor."""
        if victims:
            self._victims[preemptor] = frozenset(victims)
        else:
            self._victims.pop(preemptor, None)

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
