"""Makes each view once for all who look at it, not too often, and only while one does."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from extender.runtime.clock import Clock
from extender.runtime.faults import FAULTS
from gang_tools.page import views
from gang_tools.page.following import FollowedCluster

ViewKey = tuple[str, ...]
"""The name of a view, and its subject."""
Draw = Callable[[], None]

_SETTLE_SECONDS: Final = 0.05
"""Changes that come together are drawn together."""
_EVERY_SECONDS: Final = 0.1
_LONGEST_SECONDS: Final = 1.0
"""The interval between checks for stale watches while nothing changes."""
_OF_QUEUES: Final = ("queues", "holders")
"""The views that show nothing of the cluster but its room."""
_REST: Final = 2
"""The pause after a round, as a multiple of the time that the round took."""


class Showing:
    """The views that are looked at, as they were made last."""

    def __init__(self, followed: FollowedCluster, clock: Clock) -> None:
        self._followed, self._clock = followed, clock
        self._made: dict[ViewKey, tuple[int, Any]] = {}
        self._last: dict[ViewKey, object] = {}
        """The view that was drawn for all; a page that came later may show a newer one."""
        self._drawn: dict[ViewKey, list[Draw]] = {}
        self.trouble = ""
        """The reason why what is shown may be old, or nothing."""

    def view(self, key: ViewKey) -> Any:  # noqa: ANN401 - each view has a type of its own
        """Return the current view. Raises the error that making the view raised.

        Only a view that somebody watches is kept.
        """
        found = self._found(key)
        if found is not self._last.get(key):
            self._last.pop(key, None)  # it is drawn for one, and in the next round for all
        if isinstance(found, Exception):
            raise found
        return found

    def _found(self, key: ViewKey) -> object:
        followed = self._followed
        version = followed.queues_version if key[0] in _OF_QUEUES else followed.version
        known = self._made.get(key)
        if known is not None and known[0] == version:
            return known[1]
        try:
            found = self._make(key)
        except Exception as error:  # noqa: BLE001 - those who look are told
            FAULTS.report("page", error, key="/".join(key))
            found = error
        if key in self._drawn:
            self._made[key] = version, found
        return found

    def watch(self, key: ViewKey, draw: Draw) -> None:
        """Call `draw` after each change of a view, from now on."""
        there = self._drawn.setdefault(key, [])
        if draw not in there:
            there.append(draw)

    def is_watched(self, *names: str) -> bool:
        """Return whether somebody looks at a view of these names."""
        return any(key[0] in names for key in self._drawn)

    def leave(self, key: ViewKey, draw: Draw) -> None:
        """Stop calling `draw`."""
        there = self._drawn.get(key, [])
        if draw in there:
            there.remove(draw)
        if not there:
            for known in (self._drawn, self._made, self._last):
                known.pop(key, None)

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
                await self._refresh(key, told=told)
            took = self._clock.monotonic() - began
            await asyncio.sleep(max(_EVERY_SECONDS, _REST * took))

    async def _refresh(self, key: ViewKey, *, told: bool) -> None:
        if key not in self._drawn:
            return  # whoever looked has left meanwhile
        found = self._found(key)
        if found == self._last.get(key) and not told:
            return
        self._last[key] = found
        for draw in [*self._drawn[key]]:
            if draw not in self._drawn.get(key, ()):
                continue
            try:
                draw()
            except Exception as error:  # noqa: BLE001 - it is drawn for the others
                FAULTS.report("page", error, key="/".join(key))
            await asyncio.sleep(0)

    def _make(self, key: ViewKey) -> object:
        followed = self._followed
        match key:
            case ("queues",):
                return views.queues_shown(followed.facts(), followed.room, followed.starts)
            case ("holders", queue):
                return views.holders_shown(followed.facts(), queue)
            case ("gangs",):
                return views.gangs_shown(followed.group_facts(), followed.queues)
            case ("nodes", resource):
                _, last = self._made.get(key, (0, None))
                before = last if isinstance(last, views.NodesShown) else None
                return views.nodes_shown(followed.cluster, followed.queues, resource, before=before)
            case ("time" | "trouble" as name,):
                shown = followed.history.shown
                return shown(followed.cluster) if name == "time" else self.trouble
            case ("workload" | "gang" as kind, namespace, name):
                return self._story(kind, namespace, name)
            case _:
                raise ValueError(f"there is no view {key}")

    def _story(self, kind: str, namespace: str, name: str) -> object:
        """Return the explanations of a workload and of its gang, and when it starts."""
        followed = self._followed
        if kind == "gang":
            return None, followed.group(f"{namespace}/{name}"), ""
        found = followed.workload(namespace, name)
        its = f"{found.namespace}/{found.name}" if found is not None else ""
        group = followed.group_of(found) if found is not None else None
        told = followed.group(group) if group is not None else None
        return found, told, views.starts_shown(its, followed.starts)
