"""Plans that take longer than one call of filter may: they go on between other work.

One after the other, in slices: two plans that keep room at the same time could each lack what the
other has.
"""

import asyncio
from collections.abc import Callable, Generator, Iterator
from typing import Literal

from extender.permit.timing import LONGEST_PLAN_SECONDS, REST, SLICE_SECONDS
from extender.runtime.clock import Clock
from extender.runtime.faults import FAULTS
from extender.runtime.pacer import advance

PlanKind = Literal["plan", "empty"]
Job = tuple[str, PlanKind]
"""A group, and what is asked of it: where its pods go, or whether empty nodes would take them."""
Work = Generator[None, None, bool]
"""Returns whether it was of use."""


class Planner:
    """The plans that one call had no time for, by group; listeners hear when one has ended."""

    def __init__(self, clock: Clock, rest: Callable[[str, float], None]) -> None:
        """`rest` remembers that a plan which came to nothing is not made again for a time."""
        self._clock = clock
        self._rest = rest
        self._jobs: dict[Job, Work] = {}
        self._spent: dict[Job, float] = {}
        self._some = asyncio.Event()
        self._listeners: list[Callable[[str, float], None]] = []

    def on_end(self, listener: Callable[[str, float], None]) -> None:
        """Call `listener` with a group whose plan ended, and in how many seconds to look at it."""
        self._listeners.append(listener)

    def go_on(self, group: str, work: Work, *, kind: PlanKind = "plan") -> None:
        """Queue the rest of some work, unless the same is queued."""
        self._jobs.setdefault((group, kind), work)
        self._some.set()

    def count_anew(self, group: str) -> None:
        """Give the plan of a group all of its time once more: room for it is found."""
        self._spent.pop((group, "plan"), None)

    def is_busy(self, group: str, kind: PlanKind = "plan") -> bool:
        """Return whether something about a group is being worked out."""
        return (group, kind) in self._jobs

    @property
    def planned(self) -> Iterator[str]:
        """The groups whose plans are being made."""
        return (group for group, kind in self._jobs if kind == "plan")

    async def run(self) -> None:
        """Work until cancelled; half of the time is for others."""
        while True:
            await self._some.wait()
            await asyncio.sleep(self.work())

    def work(self) -> float:
        """Run a slice of the oldest job; return how many seconds it took. There must be a job."""
        job, began = next(iter(self._jobs)), self._clock.monotonic()
        useful = self._slice(job)
        seconds = self._clock.monotonic() - began
        self._spent[job] = self._spent.get(job, 0.0) + seconds
        if useful is None and self._spent[job] > LONGEST_PLAN_SECONDS:
            self._jobs[job].close()
            useful = False
        if useful is not None:
            self._end(job, useful=useful)
        return seconds

    def _slice(self, job: Job) -> bool | None:
        try:
            answer = advance(self._jobs[job], self._clock, seconds=SLICE_SECONDS)
        except Exception as error:  # noqa: BLE001 - it harms its group alone
            FAULTS.report("planner", error, key=job[0])
            return False
        return answer.value if answer is not None else None

    def _end(self, job: Job, *, useful: bool) -> None:
        del self._jobs[job]
        # Empty nodes that would take a group are no reason to pass it over.
        rest = 0.0 if useful or job[1] == "empty" else self._spent[job] * REST
        del self._spent[job]
        if not self._jobs:
            self._some.clear()
        group = job[0]
        if rest:
            self._rest(group, rest)
        for listener in self._listeners:
            try:
                listener(group, 0.0)
                if rest:
                    listener(group, rest)
            except Exception as error:  # noqa: BLE001 - other plans go on
                FAULTS.report("planner", error, key=group)
