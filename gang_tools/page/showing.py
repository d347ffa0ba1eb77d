"""Makes each view once for all who look at it, not too often, and only while one does."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from extender.runtime.clock import Clock
from extender.runtime.faults import FAULTS
from gang_tools.page import views
from gang_tools.page.following import FollowedCluster

ViewKey = tuple[str, ...]
"""The name of a view, and what it is about."""
Draw = Callable[[], None]

_SETTLE_SECONDS: Final = 0.05
"""What changes together is drawn together."""
_EVERY_SECONDS: Final = 0.25
_LONGEST_SECONDS: Final = 1.0
"""Where nothing changes, this is how often the watches are asked whether they are old."""
_REST: Final = 2
"""How many times as long as the views took to make they are left as they are."""


class Showing:
    """The views that are looked at, as they were made last."""

    def __init__(self, followed: FollowedCluster, clock: Clock) -> None:
        self._followed, self._clock = followed, clock
        self._made: dict[ViewKey, tuple[int, Any]] = {}
        self._last: dict[ViewKey, object] = {}
        """What was drawn for all; who came later may have drawn something newer."""
        self._drawn: dict[ViewKey, list[Draw]] = {}
        self.trouble = ""
        """The reason why what is shown may be old, or nothing."""

    def view(self, key: ViewKey) -> Any:  # noqa: ANN401 - each view has a type of its own
        """Return a view of what is so now, or has been so a moment ago."""
        version = self._followed.version
        known = self._made.get(key)
        if known is None or known[0] != version:
            known = self._made[key] = version, self._make(key)
        return known[1]

    def watch(self, key: ViewKey, draw: Draw) -> Callable[[], None]:
        """Call `draw` after each change of a view; return what ends that."""
        self._drawn.setdefault(key, []).append(draw)

        def end() -> None:
            there = self._drawn.get(key, [])
            if draw in there:
                there.remove(draw)
            if not there:
                self._drawn.pop(key, None)
                self._made.pop(key, None)
                self._last.pop(key, None)

        return end

    async def run(self) -> None:
        """Make and draw views until cancelled."""
        seen = -1
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._followed.changed.wait(), _LONGEST_SECONDS)
            self._followed.changed.clear()
            await asyncio.sleep(_SETTLE_SECONDS)
            began, trouble = self._clock.monotonic(), self._followed.trouble
            if seen == self._followed.version and trouble == self.trouble:
                continue
            told, self.trouble = self.trouble != trouble, trouble
            seen = self._followed.version
            for key in [*self._drawn]:
                with _reported(key):
                    await self._refresh(key, told=told)
            took = self._clock.monotonic() - began
            await asyncio.sleep(max(_EVERY_SECONDS, _REST * took))

    async def _refresh(self, key: ViewKey, *, told: bool) -> None:
        found = self.view(key)
        if found == self._last.get(key) and not told:
            return
        self._last[key] = found
        for draw in [*self._drawn.get(key, ())]:
            with _reported(key):
                draw()
            await asyncio.sleep(0)

    def _make(self, key: ViewKey) -> object:
        followed = self._followed
        match key:
            case ("queues",):
                return views.queues_shown(followed.facts())
            case ("gangs",):
                return views.gangs_shown(followed.group_facts())
            case ("nodes", resource):
                return views.nodes_shown(followed.cluster, followed.queues, resource)
            case ("time",):
                return followed.history.shown(followed.cluster)
            case ("workload", namespace, name):
                found = followed.workload(namespace, name)
                group = followed.group_of(found) if found is not None else None
                return found, followed.group(group) if group is not None else None
            case ("gang", namespace, name):
                return None, followed.group(f"{namespace}/{name}")
            case _:
                raise ValueError(f"there is no view {key}")


@contextmanager
def _reported(key: ViewKey) -> Iterator[None]:
    """Let no failure of one view, or for one person, end what is shown to others."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - whatever it is
        FAULTS.report("page", error, key="/".join(key))
