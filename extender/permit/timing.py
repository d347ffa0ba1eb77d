"""The times and bounds of live gangs, in three groups.

Each group begins with the numbers that something outside forces; the others are derived from these.
"""

from typing import Final

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

SLICE_SECONDS: Final = 0.01
"""One step of long work takes no longer: filter, and the loop of kube-scheduler, wait meanwhile."""
REST: Final = 9
"""After work in vain, wait this many times its length: it may take a tenth of the time."""
PARALLEL: Final = 64
"""The most Bindings that are on their way at a time, more than the client has connections for them.
A member whose Binding is on its way is not taken back when kube-scheduler tries it: with fewer,
kube-scheduler brings more members itself (decision 65)."""
SLICE_PODS: Final = 250
"""The most pods that are handled in one step of the event loop: some milliseconds."""
ROOM_AT_ONCE: Final = 20
"""The most pods that are woken for room at a time: kube-scheduler tries some hundred pods a second,
and most of the woken ones in vain."""
TRIES: Final = 3
"""A failure that comes this many times in a row is not chance."""
ARRIVAL_REST: Final = 4
"""After a pause for a gang that was not completed, wait this many times its length."""
REMEMBERED: Final = 10_000
"""The most entries of a memory; the oldest are forgotten first."""


# --- Derived: what kube-scheduler and the API server force --------------------------------

ONCE_IN_SECONDS: Final = BACK_OFF_SECONDS
"""If a group that was started ahead has to wait again, leave it to kube-scheduler for this many
seconds, unless it changes."""
ARRIVAL_SECONDS: Final = LOOK_SECONDS / 2
"""The most seconds that an answer is held back for a gang that is being created. A write ahead
begins within two seconds after a call, and ends within three: with this pause it is over before
another kube-scheduler may begin."""
STUCK_SECONDS: Final = PATIENCE_SECONDS
"""A pod that is in the way for this many seconds is not going to be judged: its scheduler is gone,
or something else keeps it from its queue. It has another chance after ten times as long."""
SILENT_SECONDS: Final = AHEAD_SECONDS - 1
"""No write begins after this many seconds without a call of kube-scheduler."""
STOPPED_SECONDS: Final = AHEAD_SECONDS + 5
"""This long after its last call, open requests do not show that kube-scheduler is there: if its
process hangs it loses its lease in 13 seconds, and they stay open. Else it calls for new pods."""
ANSWER_HELD_SECONDS: Final = PATIENCE_SECONDS
"""The most seconds that the answer to a bind request is held back while others are written."""
EVENT_SECONDS: Final = LATE_SECONDS
"""The most seconds until kube-scheduler asks for a pod that was bound after it passed filter."""
DUE_SECONDS: Final = BACK_OFF_SECONDS
"""The most seconds that a bind request may take to come; most come within milliseconds."""
COMING_SECONDS: Final = LOOK_SECONDS
"""Seconds for which a bind request counts as about to come."""
FOUND_SECONDS: Final = CHECK_SECONDS
"""Seconds for which it counts that kube-scheduler has found nodes for a member."""
FOUND_SECONDS_EACH: Final = 2 * SLICE_SECONDS
"""Seconds more for each member that a gang needs: kube-scheduler tries them one by one."""
DISAGREE_SECONDS: Final = CHECK_SECONDS
"""No watch that works is behind for this many seconds."""
UNCONFIRMED_SECONDS: Final = LAG_SECONDS
"""Seconds until a pod is dropped that only requests have shown."""
SETTLED_SECONDS: Final = LOOK_SECONDS - 2 * MOMENT_SECONDS
"""Seconds within which kube-scheduler writes its condition to a group that was put off, if it
writes one. It tries the group again a second later, at the earliest."""
ROUND_SECONDS: Final = LOOK_SECONDS
"""A pod that is refused twice in a domain within this time has its whole group put off."""
STANDBY_SECONDS: Final = UNSURE_SECONDS
"""Seconds by which a process that is not asked about a group ends its preemption later."""
TRIED_SECONDS: Final = PATIENCE_SECONDS
"""Seconds for which a pod that was tried in vain counts for its equals."""

# --- Derived: how often we look -----------------------------------------------------------

CLAIMS_EVERY_SECONDS: Final = LATE_SECONDS
"""Seconds between two looks at groups that have waited long."""
TURNS_SETTLE_SECONDS: Final = SLICE_SECONDS / 2
"""Seconds between two looks at whose turn it is, to handle changes together."""
FIRST_ASK_SECONDS: Final = LOOK_SECONDS / 4
"""Seconds until a group without a sent Binding is asked for again; twice as long each time."""
PAUSE_SECONDS: Final = MOMENT_SECONDS
"""The most seconds that an answer is held back while Bindings are written ahead."""
PAUSE_REST_SECONDS: Final = LOOK_SECONDS
"""Seconds without pauses after a pause that was not worth it."""
GAP_SECONDS: Final = MOMENT_SECONDS
"""A gang that gets no pod for this many seconds is not being created any more, or too slowly."""
ARRIVAL_LOOK_SECONDS: Final = SLICE_SECONDS
"""Seconds between two looks at what else waits, while an answer is held back."""
LAG_EVERY_SECONDS: Final = LOOK_SECONDS / 2
"""Seconds between two looks at what kube-scheduler has seen."""
FIRST_PAUSE: Final = MOMENT_SECONDS
"""Seconds until a pod is retried for which kube-scheduler had not seen enough; then longer."""
EVENTS_EVERY_SECONDS: Final = LOOK_SECONDS / 4
"""Seconds between two looks for Events that are due."""
RECOVER_SECONDS: Final = LATE_SECONDS
"""The most seconds that the first answer after a start waits for the plans of partial gangs."""
TAKE_BACK_SECONDS: Final = BACK_OFF_SECONDS
"""Seconds until another attempt to take back devices."""
CONDITION_SECONDS: Final = CHECK_SECONDS
"""Most gangs have started by then and need no condition."""
CONDITION_AGAIN_SECONDS: Final = BACK_OFF_SECONDS
"""Seconds between two looks at the condition of a group that waits."""
CONDITION_PAUSE_SECONDS: Final = 2 * MOMENT_SECONDS
"""Seconds of rest after each write of a condition. A status costs the API server as much as several
Bindings, and when hundreds of gangs wait at once it has Bindings to write."""
GATES_SETTLE_SECONDS: Final = 2 * SLICE_SECONDS
"""Seconds between two looks at the groups behind our gate."""
GATES_EVERY_SECONDS: Final = LOOK_SECONDS
"""Seconds between two looks behind our gate without an event: a window may have ended."""
STUCK_EVERY_SECONDS: Final = LOOK_SECONDS
"""The fewest seconds between two looks at a gang whose members do not come."""
TRY_OTHERS_SECONDS: Final = LOOK_SECONDS / 2
"""Seconds without a new member until those that kube-scheduler refused are tried again: while it
brings others, each of them would be one more try for all that are left."""
BEHIND_FIRST_PAUSE: Final = MOMENT_SECONDS / 2
"""Seconds until a pod is retried for which kube-scheduler sees room that we do not."""
BEHIND_LONGEST_PAUSE: Final = LAG_SECONDS
"""The longest pause between retries: a watch that is behind catches up in milliseconds."""
BEHIND_FORGOTTEN_SECONDS: Final = LONG_SECONDS
"""Seconds until it is forgotten that our watch was behind for a pod."""
CONFIRM_EVERY_SECONDS: Final = CHECK_SECONDS
"""Seconds between two looks at pods that only requests have shown."""
ROOM_SECONDS: Final = MOMENT_SECONDS
"""Seconds between two times that pods are woken for room."""
SPARED_SECONDS: Final = 0.3 * LOOK_SECONDS
"""Seconds for which members are not woken that are about to be bound without another try."""
FAULT_SECONDS: Final = BACK_OFF_SECONDS
"""Seconds until a group is looked at again after an internal error."""
RESAMPLE_SECONDS: Final = MOMENT_SECONDS / 2
"""Seconds until another try where kube-scheduler samples nodes: it sees other ones then."""
PLANNED_FIRST_SECONDS: Final = LOOK_SECONDS
"""The most seconds until a gang that waits for the plan of another one is tried again; the end of
that plan wakes it."""
STALE_SECONDS: Final = BACK_OFF_SECONDS
"""Seconds between two tries of a gang while nothing is heard from the API server."""
MISSED_SECONDS: Final = BACK_OFF_SECONDS
"""Seconds between two looks for missed wakeups. Pods that both find unchanged are retried."""
MISSED_AGAIN_SECONDS: Final = PATIENCE_SECONDS
"""The fewest seconds until a missed pod has another try: the others have theirs before."""
SOON: Final = (LOOK_SECONDS, PATIENCE_SECONDS)
"""The first and the longest pause before a patch that failed for passing trouble."""
SELDOM: Final = (PATIENCE_SECONDS, LONG_SECONDS)
"""The first and the longest pause before a patch that was refused for this pod is tried again."""
PREEMPT_EVERY_SECONDS: Final = LOOK_SECONDS
"""Seconds between two looks at the preemptions when nothing changes."""
PREEMPT_SETTLE_SECONDS: Final = 2 * MOMENT_SECONDS
"""Seconds between two looks at the preemptions, to handle changes together."""
NO_VICTIMS_SECONDS: Final = (LATE_SECONDS, LAG_SECONDS)
"""The first and the longest pause before another look at a group that has no victims: other pods of
lower priority may run by then. While other groups preempt, every pause is the first one: their
victims leave room, and their own pods take it."""
EVICTED_IN_VAIN_SECONDS: Final = (LAG_SECONDS, LONG_SECONDS)
"""The first and the longest pause after a preemption that came to nothing."""
TAKEN_SECONDS: Final = (LONG_SECONDS, 6 * LONG_SECONDS)
"""The first and the longest pause where pods of schedulers that do not ask us took the room."""
OFFER_SECONDS: Final = LATE_SECONDS
"""Seconds between two announcements that a group has its room, once all victims are gone."""
WRITE_AGAIN_SECONDS: Final = (LOOK_SECONDS, LAG_SECONDS)
"""The first and the longest pause before a status is written again."""
REFUSED_SECONDS: Final = PATIENCE_SECONDS
"""The most seconds for which a group whose Bindings are refused is refused without a look."""

# --- Derived: how much at once ------------------------------------------------------------

MEMBERS_SLICE_SECONDS: Final = SLICE_SECONDS / 2
"""The most seconds that members are looked at in one step of the event loop."""
BACKLOG: Final = 2 * SLICE_PODS
"""No further group begins while this many Bindings are still to be written: it would be partial for
as long, and kube-scheduler may as well bring its members."""
FEW_UNSENT: Final = PARALLEL // 2
"""No group begins without a bind request while this many Bindings are still to be written."""
MOST_GROUPS: Final = 4 * PARALLEL
"""The most groups of the queue that one look reads."""
PODS_AT_ONCE: Final = PARALLEL
"""Plan groups together until they have this many pods. Plan a larger group on its own."""
FEW_LEFT: Final = PARALLEL // 4
"""kube-scheduler may go on once only this many Bindings are left to be made."""
WORTH: Final = FEW_LEFT
"""A pause that lasts to its end is worth it with this many Bindings; with fewer the API server is
slow, and kube-scheduler had better go on."""
PARTIAL_REST: Final = REST // 3
"""After the plan of a partial gang, wait this many times its length: the loop has other work."""
MAX_PODS: Final = 10 * REMEMBERED
"""The most pods that are remembered; the oldest are forgotten first."""
GATES_SLICE_SECONDS: Final = 2 * SLICE_SECONDS
"""The most seconds of one step of planning behind our gate: filter waits meanwhile."""
DISAGREE_TRIES: Final = TRIES
"""The watches count as disagreeing after this many tries."""
PATCHES_PARALLEL: Final = PARALLEL // 2
"""The most patches that are on their way at a time."""
LONGEST_PLAN_SECONDS: Final = CHECK_SECONDS
"""The most seconds that the slices of one plan may take together: other plans wait for it."""
PLAN_SECONDS: Final = 1.5 * SLICE_SECONDS
"""The most seconds that one call plans for the group that is asked for; the rest follows later."""
VAIN_SECONDS: Final = MOMENT_SECONDS
"""The most seconds that one look may search in vain for the groups of one namespace."""
MOST_ATTEMPTS: Final = TRIES
"""Once it has evicted in vain this many times, a group preempts no more until it changes."""
MOST_MEMBERS: Final = PARALLEL
"""The most members that are read to see whether kube-scheduler has tried one."""
TURN_SECONDS: Final = 2 * SLICE_SECONDS
"""The most seconds that one call of filter may plan for others. To find that a gang does not fit on
thousands of nodes takes milliseconds, and kube-scheduler's loop waits."""
TURN_SHARE: Final = 1 / (REST + 1)
"""The share of the time for which calls may plan for others in vain: while pods come and go, each
call would find that groups which had no room are worth another look."""
MAX_GROUPS: Final = 10 * REMEMBERED
"""The most groups that are remembered; the one that was not read for longest is forgotten first."""
