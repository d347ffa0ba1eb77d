"""The PodGroups of jobs, and the room that is kept for them until their pods come."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Protocol

from cachetools import TTLCache

from extender.jobs.actions import DropGrant, MakePodGroup
from extender.kube.errors import NotFoundError
from extender.runtime.clock import Clock
from extender.state.claims import LONGEST_SECONDS, Grant

_WRITTEN: Final = 10_000
_SECONDS: Final = 60.0
GRANTED_SECONDS: Final = 60.0
"""How long room on nodes is kept for pods that do not come."""
GRANTED_SECONDS_EACH: Final = 0.1
"""How much longer for each of them: kube-controller-manager makes 20 pods a second."""


@dataclass(frozen=True, slots=True)
class GroupOptions:
    """Which jobs get a PodGroup, and what is known of room on nodes."""

    makes_pod_groups: Callable[[str], bool] = lambda _: False
    """Whether jobs of a ClusterQueue get a PodGroup where their pods bring none."""
    rooms: Callable[[str], Mapping[str, Mapping[str, int]] | None] = lambda _: None
    """The room on nodes that was found for a workload when it was admitted."""
    group_size: Callable[[str], tuple[int, int] | None] = lambda _: None
    """What a PodGroup wants, as the watch shows it, and how many of that are done."""
    is_granted: Callable[[str], bool] = lambda _: False
    """Whether room for a PodGroup is stored in its status."""


class GroupWriter(Protocol):
    """Writes PodGroups; raises ApiError."""

    async def make_pod_group(
        self,
        namespace: str,
        name: str,
        *,
        min_member: int,
        owners: Sequence[Mapping[str, Any]],
        done: int = 0,
        grant: Grant | None = None,
    ) -> None:
        """Have a PodGroup with so many members, for which room may have been found."""
        ...

    async def drop_grant(self, namespace: str, name: str) -> None:
        """Have no room kept for a PodGroup any more."""
        ...


class JobGroups:
    """Writes PodGroups of jobs, and knows them as they were written until the watch shows them."""

    def __init__(self, writer: GroupWriter, *, clock: Clock, options: GroupOptions) -> None:
        self._writer = writer
        self._clock = clock
        self._options = options
        self._written: TTLCache[str, tuple[int, int]] = TTLCache(
            _WRITTEN, _SECONDS, clock.monotonic
        )
        """What they want, and done."""

    def size(self, group: str) -> tuple[int, int] | None:
        """Return what a PodGroup wants: what was written last until the watch has shown it."""
        found, written = self._options.group_size(group), self._written.get(group)
        if written is None or found == written:
            self._written.pop(group, None)
            return found
        return written

    async def make(self, action: MakePodGroup) -> None:
        """Have a PodGroup, with the room that was found for it. Raises ApiError."""
        await self._writer.make_pod_group(
            action.namespace,
            action.name,
            min_member=action.min_member,
            owners=action.owners,
            done=action.done,
            grant=self._grant(action),
        )
        self._written[f"{action.namespace}/{action.name}"] = action.min_member, action.done

    def _grant(self, action: MakePodGroup) -> Grant | None:
        if not action.rooms:
            return None
        rooms = {node: dict(amounts) for node, amounts in action.rooms.items()}
        each = action.min_member * GRANTED_SECONDS_EACH
        seconds = min(GRANTED_SECONDS + each, LONGEST_SECONDS / 2)
        return Grant(rooms, self._clock.wall() + seconds)

    async def drop_grant(self, action: DropGrant) -> None:
        """Have no room kept for a PodGroup, which may be gone. Raises ApiError."""
        with suppress(NotFoundError):
            await self._writer.drop_grant(action.namespace, action.name)
