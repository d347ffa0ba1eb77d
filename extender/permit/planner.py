"""Finishes plans that take longer than one call of filter may, between other work.

They are made one after the other, in slices: two plans that keep room at the same time could each
lack the room that the other one has.
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
"""A group, and the question: where do its pods go, or would empty nodes take them."""
Work = Generator[None, None, bool]
"""The steps of a job; they return whether it was of use."""


class Planner:
    """The plans that one call had no time for, by group; listeners hear when one has ended."""

    def __init__(self, clock: Clock, rest: Callable[[str, float], None]) -> None:
        """Call `rest` with a group and seconds to make no plan after one that came to nothing."""
        self._clock = clock
        self._rest = rest
        self._jobs: dict[Job, Work] = {}
        self._spent: dict[Job, float] = {}
        self._has_jobs = asyncio.Event()
        self._listeners: list[Callable[[str, float], None]] = []

    def on_end(self, listener: Callable[[str, float], None]) -> None:
        """Call `listener` with a group whose plan ended, and the seconds until a look at it."""
        self._listeners.append(listener)

    def go_on(self, group: str, work: Work, *, kind: PlanKind = "plan") -> None:
        """Queue the rest of some work, unless a job of this kind is queued for the group."""
        self._jobs.setdefault((group, kind), work)
        self._has_jobs.set()

    def count_anew(self, group: str) -> None:
        """Give the plan of a group its full time once more: room for it was found."""
        self._spent.pop((group, "plan"), None)

    def is_busy(self, group: str, kind: PlanKind = "plan") -> bool:
        """Return whether a job of this kind is queued for a group."""
        return (group, kind) in self._jobs

    @property
    def planned(self) -> Iterator[str]:
        """Return the groups whose plans are being made."""
        return (group for group, kind in self._jobs if kind == "plan")

    async def run(self) -> None:
        """Work until cancelled; half of the time is left to other tasks."""
        while True:
            await self._has_jobs.wait()
            await asyncio.sleep(self.work())

    def work(self) -> float:
        """Run a slice of the oldest job, which must exist; return the seconds it took."""
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
            self._has_jobs.clear()
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
