"""The one table of what wakes a pod, for each reason with which filter refuses it.

kube-scheduler tries a pod again after an event of its own that concerns the pod: nodes that come,
pods that go. What it does not see is an occasion of this table, and then the pod is patched.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final

from extender.api.reasons import Reason


class Occasion(Enum):
    """An occasion on which a refused pod is woken."""

    GROUP = "its group changed, or is planned"
    """`gang/wake.py`, `decide_group`."""
    ROOM = "room came back that kube-scheduler does not see"
    """`gang/wake.py`, `deciding_room`."""
    PLAN = "the plan that it waits for has ended"
    SIGHT = "kube-scheduler has seen pods that were bound ahead of it"
    """`permit/ahead/scheduler_lag.py`."""
    TIME = "a time has passed: the end of a window, or another look"
    """`permit/wake_times.py` sets the time."""


_GROUP: Final = frozenset((Occasion.GROUP,))
_ROOM: Final = frozenset((Occasion.ROOM,))
_LATER: Final = frozenset((Occasion.GROUP, Occasion.TIME))

WOKEN_BY: Final[Mapping[str, frozenset[Occasion]]] = {
    Reason.POD_GROUP_NOT_FOUND: _GROUP,
    Reason.NOT_ENOUGH_PODS: _GROUP,
    Reason.GATED: _GROUP,
    Reason.NEVER_FITS: _GROUP,
    Reason.NOT_ENOUGH_RESOURCES: _ROOM,
    Reason.RESERVED: _ROOM,
    Reason.ALREADY_BOUND: _GROUP,
    Reason.NOT_SEEN_YET: frozenset((Occasion.GROUP, Occasion.SIGHT, Occasion.TIME)),
    Reason.WAITING_FOR_TURN: _ROOM,
    Reason.INVALID_TOPOLOGY: _GROUP,
    Reason.INVALID_PLACEMENT: _GROUP,
    Reason.OUTSIDE_TOPOLOGY: frozenset((Occasion.GROUP, Occasion.ROOM, Occasion.TIME)),
    Reason.NOT_ADMITTED: frozenset((Occasion.GROUP, Occasion.ROOM)),
    Reason.PLANNING: frozenset((Occasion.GROUP, Occasion.PLAN, Occasion.TIME)),
    Reason.RECENTLY_DENIED: _LATER,
    Reason.CACHE_BEHIND: _LATER,
    Reason.CACHE_STALE: _LATER,
    Reason.SCHEDULER_DISAGREES: _LATER,
    # kube-scheduler's own back-off ends it, and no patch ends that.
    Reason.NATIVE_GROUP_WAITS: frozenset((Occasion.TIME,)),
}


def is_woken_by(waker: Occasion, reason: str) -> bool:
    """Return whether an occasion wakes a pod that was refused with this reason."""
    return waker in WOKEN_BY.get(reason, _GROUP)
