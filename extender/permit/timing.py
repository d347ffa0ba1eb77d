"""The times and bounds of live gangs, in three groups.

Each group begins with the numbers that something outside forces; the others are derived from these.
"""

from typing import Final

from extender.runtime.clock import SLICE_SECONDS

# --- What kube-scheduler and the API server force -----------------------------------------

AHEAD_SECONDS: Final = 3.0
"""A write ahead ends this many seconds after the last call of kube-scheduler: one that cannot renew
its lease ends five seconds before another one may begin, which gives the nodes to other pods."""
MARGIN_SECONDS: Final = 8.0
"""kube-scheduler gives a pod up when its httpTimeout ends, ten seconds after the longest wait; it
does not expect a Binding that is written later than this."""
BACK_OFF_SECONDS: Final = 10.0
"""The longest that kube-scheduler makes a pod wait until its next try (podMaxBackoffSeconds)."""
LATE_SECONDS: Final = 2.0
"""kube-scheduler is behind if it asks for a pod this many seconds after we saw it bound."""
LAG_SECONDS: Final = 30.0
"""Seconds for which a pod counts as unseen, and kube-scheduler as behind after a sign of that. A
list of a large cluster takes less, and a watch shows nothing meanwhile."""
UNSURE_SECONDS: Final = 15.0
"""The result of a write is known after this many seconds: etcd answers or gives up after seven, and
the watch may be late."""
PATIENCE_SECONDS: Final = 60.0
"""Once a gang has its quorum, an API server that fails is tried for this many seconds."""
ASSUMED_SECONDS: Final = 900.0
"""The longest that kube-scheduler may hold a pod: it waits ten minutes for volumes, as a rule."""

# --- How often we look --------------------------------------------------------------------

MOMENT_SECONDS: Final = 0.1
"""Events within this time are handled together: kube-scheduler tries some twenty pods meanwhile."""
LOOK_SECONDS: Final = 1.0
"""Seconds between two looks at what no event shows."""
CHECK_SECONDS: Final = 5.0
"""Seconds until anything that settles by itself has usually done so."""
LONG_SECONDS: Final = 600.0
"""The longest pause before a failed attempt is repeated: an administrator waits for it."""

# --- How much at once ---------------------------------------------------------------------

REST: Final = 9
"""After work in vain, wait this many times its length: it may take a tenth of the time."""
PARALLEL: Final = 64
"""The most Bindings that are on their way at a time, more than the client has connections for them.
A member whose Binding is on its way is not taken back when kube-scheduler tries it: with fewer,
kube-scheduler brings more members itself (decision 65)."""
SLICE_PODS: Final = 250
"""The most pods that are handled in one step of the event loop, which takes some milliseconds, and
the most groups of the queue that one look reads."""
ROOM_AT_ONCE: Final = 20
"""The most pods that are woken for room at a time: kube-scheduler tries some hundred pods a second,
and most of the woken ones in vain."""
TRIES: Final = 3
"""A failure that comes this many times in a row is not chance."""
REMEMBERED: Final = 100_000
"""The most entries of a memory; the oldest are forgotten first."""


# --- Derived: what kube-scheduler and the API server force --------------------------------

SILENT_SECONDS: Final = AHEAD_SECONDS - LOOK_SECONDS
"""No write begins after this many seconds without a call of kube-scheduler."""
STOPPED_SECONDS: Final = AHEAD_SECONDS + CHECK_SECONDS
"""This long after its last call, open requests do not show that kube-scheduler is there: if its
process hangs it loses its lease in 13 seconds, and they stay open. Else it calls for new pods."""
SETTLED_SECONDS: Final = LOOK_SECONDS - MOMENT_SECONDS
"""Seconds within which kube-scheduler writes its condition to a group that was put off, if it
writes one. It tries the group again a second later, at the earliest."""

# --- Derived: how often we look -----------------------------------------------------------

TURNS_SETTLE_SECONDS: Final = SLICE_SECONDS
"""Seconds between two looks at whose turn it is, to handle changes together."""
SPARED_SECONDS: Final = 0.3 * LOOK_SECONDS
"""Seconds for which members are not woken, nor their group begun anew, that are about to be bound
without another try."""
NO_VICTIMS_SECONDS: Final = (LATE_SECONDS, LAG_SECONDS)
"""The first and the longest pause before another look at a group that has no victims: other pods of
lower priority may run by then. While other groups preempt, every pause is the first one: their
victims leave room, and their own pods take it."""
EVICTED_IN_VAIN_SECONDS: Final = (LAG_SECONDS, LONG_SECONDS)
"""The first and the longest pause after a preemption that came to nothing."""
TAKEN_SECONDS: Final = (LONG_SECONDS, 6 * LONG_SECONDS)
"""The first and the longest pause where pods of schedulers that do not ask us took the room."""
WRITE_AGAIN_SECONDS: Final = (LOOK_SECONDS, LAG_SECONDS)
"""The first and the longest pause before a status is written again."""

# --- Derived: how much at once ------------------------------------------------------------

BACKLOG: Final = 2 * SLICE_PODS
"""No further group begins while this many Bindings are still to be written: it would be partial for
as long, and kube-scheduler may as well bring its members."""
FEW: Final = PARALLEL // 2
"""The most patches that are on their way at a time, beside Bindings. No group begins without a bind
request while this many Bindings are still to be written."""
PODS_AT_ONCE: Final = PARALLEL
"""Plan groups together until they have this many pods. Plan a larger group on its own."""
PLAN_SECONDS: Final = 1.5 * SLICE_SECONDS
"""The most seconds that one call plans for the group that is asked for; the rest follows later."""
TURN_SECONDS: Final = 2 * SLICE_SECONDS
"""The most seconds that one call of filter may plan for others. To find that a gang does not fit on
thousands of nodes takes milliseconds, and kube-scheduler's loop waits."""
