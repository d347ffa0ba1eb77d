"""The times and bounds of live gangs, in three groups.

Each group begins with the numbers that something outside forces; the others are derived from these.
"""

from typing import Final

# --- What kube-scheduler and the API server force -----------------------------------------

AHEAD_SECONDS: Final = 3.0
"""A write ahead ends so long after the last call of kube-scheduler: one that cannot renew its lease
ends five seconds before another one may begin, which gives the nodes to other pods."""
MARGIN_SECONDS: Final = 8.0
"""kube-scheduler gives a pod up when its httpTimeout ends, ten seconds after the longest wait; a
Binding that is written later than this is a surprise to it."""
BACK_OFF_SECONDS: Final = 10.0
"""The longest that kube-scheduler makes a pod wait until its next try (podMaxBackoffSeconds)."""
LATE_SECONDS: Final = 2.0
"""A kube-scheduler that brings a pod so long after our watch showed it bound is behind."""
LAG_SECONDS: Final = 30.0
"""Longer than a list of a large cluster takes, during which a watch shows nothing: a pod counts as
unseen for so long, and a sign of being behind counts."""
UNSURE_SECONDS: Final = 15.0
"""What became of a write shows by then: etcd answers or gives up after seven seconds, and the watch
may be late."""
PATIENCE_SECONDS: Final = 60.0
"""An API server that does not answer is tried again for so long once a gang has its quorum."""
ASSUMED_SECONDS: Final = 900.0
"""kube-scheduler may hold a pod for so long: until its volumes are there, ten minutes as a rule."""

# --- How often we look --------------------------------------------------------------------

MOMENT_SECONDS: Final = 0.1
"""What comes within it counts as one: kube-scheduler tries some twenty pods meanwhile."""
LOOK_SECONDS: Final = 1.0
"""Between two looks at what no event shows."""
CHECK_SECONDS: Final = 5.0
"""What should settle by itself has done so by then, as a rule."""
LONG_SECONDS: Final = 600.0
"""The longest pause before what failed is tried again: an administrator waits for it."""

# --- How much at once ---------------------------------------------------------------------

SLICE_SECONDS: Final = 0.01
"""One step of long work takes no longer: filter, and the loop of kube-scheduler, wait meanwhile."""
REST: Final = 9
"""After work in vain, wait this many times its length: it may take a tenth of the time."""
PARALLEL: Final = 64
"""Bindings that are on their way at a time, more than the client has connections for them. A member
whose Binding is on its way is not taken back when kube-scheduler tries it: with fewer,
kube-scheduler brings more members itself (decision 65)."""
SLICE_PODS: Final = 250
"""The pods that are handled in one step of the event loop: some milliseconds."""
ROOM_AT_ONCE: Final = 20
"""So many pods are woken for room at a time: kube-scheduler tries some hundred pods a second, and
most of these in vain."""
TRIES: Final = 3
"""What came to nothing so often in a row is not chance."""
ARRIVAL_REST: Final = 4
"""After a pause for a gang that was not completed, wait this many times its length."""
REMEMBERED: Final = 10_000
"""The entries of a memory; of more the oldest are forgotten."""


# --- Derived: what kube-scheduler and the API server force --------------------------------

ONCE_IN_SECONDS: Final = BACK_OFF_SECONDS
"""If a group that was started ahead has to wait again, leave it to kube-scheduler for so long,
unless it changes."""
ARRIVAL_SECONDS: Final = LOOK_SECONDS / 2
"""How long an answer is held back for a gang that is being created. What is written ahead begins
within two seconds after a call, and ends within three: with this it is over before another
kube-scheduler may begin."""
STUCK_SECONDS: Final = PATIENCE_SECONDS
"""A pod that has been in the way for so long is not going to be judged: its scheduler is not there,
or something else keeps it from its queue. It has another chance after ten times as long."""
SILENT_SECONDS: Final = AHEAD_SECONDS - 1
"""After so long without a call of kube-scheduler no write begins."""
STOPPED_SECONDS: Final = AHEAD_SECONDS + 5
"""So long after a call open requests say nothing of kube-scheduler: where its process stands still
it loses its lease in 13 seconds, and they stay open. One that runs calls for the pods that came."""
ANSWER_HELD_SECONDS: Final = PATIENCE_SECONDS
"""How long the answer to a bind request is held back, at most, while others are to be written."""
EVENT_SECONDS: Final = LATE_SECONDS
"""How long kube-scheduler may take to ask for a pod that had passed filter when it was bound."""
DUE_SECONDS: Final = BACK_OFF_SECONDS
"""How long a bind request may take to come; most come within milliseconds."""
COMING_SECONDS: Final = LOOK_SECONDS
"""How long a bind request counts as one that is about to come."""
FOUND_SECONDS: Final = CHECK_SECONDS
"""For how long it counts that kube-scheduler has found nodes for a member."""
FOUND_SECONDS_EACH: Final = 2 * SLICE_SECONDS
"""As much longer for each member that a gang needs: kube-scheduler tries them one by one."""
DISAGREE_SECONDS: Final = CHECK_SECONDS
"""No watch that works is behind for so long."""
UNCONFIRMED_SECONDS: Final = LAG_SECONDS
"""Until a pod is dropped that only requests have shown."""
SETTLED_SECONDS: Final = LOOK_SECONDS - 2 * MOMENT_SECONDS
"""In which kube-scheduler has written its condition to a group that was put off, if it writes one.
It tries the group again a second later, at the earliest."""
ROUND_SECONDS: Final = LOOK_SECONDS
"""A domain in which a pod was refused within this time is refused with the whole group."""
STANDBY_SECONDS: Final = UNSURE_SECONDS
"""How much later a process that is not asked about a group ends its preemption than another."""
TRIED_SECONDS: Final = PATIENCE_SECONDS
"""For how long it counts for its equals that a pod was tried in vain."""

# --- Derived: how often we look -----------------------------------------------------------

CLAIMS_EVERY_SECONDS: Final = LATE_SECONDS
"""Between two looks at groups that have waited long."""
TURNS_SETTLE_SECONDS: Final = SLICE_SECONDS / 2
"""Between two looks at whose turn it is: what comes together is one."""
FIRST_ASK_SECONDS: Final = LOOK_SECONDS / 4
"""Before a group is asked for again of which no Binding was sent; twice as long each time."""
PAUSE_SECONDS: Final = MOMENT_SECONDS
"""How long an answer is held back, at most, while Bindings are written ahead."""
PAUSE_REST_SECONDS: Final = LOOK_SECONDS
"""How long no answer is held back after a pause that was not worth it."""
GAP_SECONDS: Final = MOMENT_SECONDS
"""A gang that gets no pod for so long is not being created any more, or too slowly."""
ARRIVAL_LOOK_SECONDS: Final = SLICE_SECONDS
"""Between two looks at what else waits, while an answer is held back."""
LAG_EVERY_SECONDS: Final = LOOK_SECONDS / 2
"""Between two looks at what kube-scheduler has seen."""
FIRST_PAUSE: Final = MOMENT_SECONDS
"""Until a pod is tried again for which kube-scheduler had not seen enough; each pause is longer."""
EVENTS_EVERY_SECONDS: Final = LOOK_SECONDS / 4
"""Between two looks at which Events are due."""
RECOVER_SECONDS: Final = LATE_SECONDS
"""How long the first answer after a start may wait for the plans of partial gangs."""
TAKE_BACK_SECONDS: Final = BACK_OFF_SECONDS
"""Seconds until devices are taken back for which that failed."""
CONDITION_SECONDS: Final = CHECK_SECONDS
"""Most gangs have started by then and need no condition."""
CONDITION_AGAIN_SECONDS: Final = BACK_OFF_SECONDS
"""Between two looks at the condition of a group that waits."""
CONDITION_PAUSE_SECONDS: Final = 2 * MOMENT_SECONDS
"""After each write of a condition. A status costs the API server as much as several Bindings, and
when hundreds of gangs wait at once it has Bindings to write."""
GATES_SETTLE_SECONDS: Final = 2 * SLICE_SECONDS
"""Between two looks at what is held back by our gate."""
GATES_EVERY_SECONDS: Final = LOOK_SECONDS
"""Room appears without an event of a group's own: a node, or the end of a window."""
STUCK_EVERY_SECONDS: Final = LOOK_SECONDS
"""Seconds between two looks at a gang whose members do not come, at least."""
TRY_OTHERS_SECONDS: Final = LOOK_SECONDS / 2
"""For how long no member has come when those are tried again that kube-scheduler refused: while it
brings others, each of them would be one more try for all that are left."""
BEHIND_FIRST_PAUSE: Final = MOMENT_SECONDS / 2
"""Until a pod is tried again for which kube-scheduler sees room that is not known here."""
BEHIND_LONGEST_PAUSE: Final = LAG_SECONDS
"""The longest such pause: a watch that is behind catches up in milliseconds."""
BEHIND_FORGOTTEN_SECONDS: Final = LONG_SECONDS
"""Until it is forgotten that our watch was behind for a pod."""
CONFIRM_EVERY_SECONDS: Final = CHECK_SECONDS
"""Between two looks at pods that only requests have shown."""
ROOM_SECONDS: Final = MOMENT_SECONDS
"""Between two times that pods are woken for room."""
SPARED_SECONDS: Final = 0.3 * LOOK_SECONDS
"""How long members are not woken that are about to be bound without."""
FAULT_SECONDS: Final = BACK_OFF_SECONDS
"""Seconds until a group is looked at again after an internal error."""
RESAMPLE_SECONDS: Final = MOMENT_SECONDS / 2
"""On big clusters the next attempt sees other nodes; no need to wait for anything."""
PLANNED_FIRST_SECONDS: Final = LOOK_SECONDS
"""When a gang is tried again at the latest that waits for the plan of another one: the end of that
plan wakes it."""
STALE_SECONDS: Final = BACK_OFF_SECONDS
"""How often a gang is tried while nothing is heard of the API server."""
MISSED_SECONDS: Final = BACK_OFF_SECONDS
"""Between two looks for missed wakeups. What both find, unchanged, is tried again."""
MISSED_AGAIN_SECONDS: Final = PATIENCE_SECONDS
"""Until a missed pod has another try, at least: the others have theirs before."""
SOON: Final = (LOOK_SECONDS, PATIENCE_SECONDS)
"""Pauses, the first and the longest, before a patch that failed for passing trouble."""
SELDOM: Final = (PATIENCE_SECONDS, LONG_SECONDS)
"""Pauses before a patch that was refused: for rights, the object, or the object's state."""
PREEMPT_EVERY_SECONDS: Final = LOOK_SECONDS
"""Between two looks at the preemptions when nothing changes."""
PREEMPT_SETTLE_SECONDS: Final = 2 * MOMENT_SECONDS
"""Between two looks at the preemptions: what comes together is one."""
NO_VICTIMS_SECONDS: Final = (LATE_SECONDS, LAG_SECONDS)
"""Pauses, the first and the longest, before another look at a group that has no victims:
other pods of lower priority may run by then. While others preempt it is the first one each time:
their victims leave room, and their own pods take it."""
EVICTED_IN_VAIN_SECONDS: Final = (LAG_SECONDS, LONG_SECONDS)
"""Pauses after a preemption that came to nothing."""
TAKEN_SECONDS: Final = (LONG_SECONDS, 6 * LONG_SECONDS)
"""Pauses where pods of a scheduler that asks no extender took the room: they would again."""
OFFER_SECONDS: Final = LATE_SECONDS
"""Between two times that the room of a group is said to be there, when all victims have gone."""
WRITE_AGAIN_SECONDS: Final = (LOOK_SECONDS, LAG_SECONDS)
"""Pauses, the first and the longest, before a status is written again."""
REFUSED_SECONDS: Final = PATIENCE_SECONDS
"""Seconds for which a group is refused without a look at most, whose Bindings are refused."""

# --- Derived: how much at once ------------------------------------------------------------

MEMBERS_SLICE_SECONDS: Final = SLICE_SECONDS / 2
"""How long members are looked at in one step of the event loop."""
BACKLOG: Final = 2 * SLICE_PODS
"""While so many Bindings are still to be written no further group begins: it would be partial for
as long, and kube-scheduler may as well bring its members."""
FEW_UNSENT: Final = PARALLEL // 2
"""While so many Bindings are still to be written no group begins that nothing waits for."""
MOST_GROUPS: Final = 4 * PARALLEL
"""The groups of the queue that one look reads."""
PODS_AT_ONCE: Final = PARALLEL
"""Plan groups together until they have this many pods. Plan a larger group on its own."""
FEW_LEFT: Final = PARALLEL // 4
"""With so few Bindings to be made kube-scheduler may go on."""
WORTH: Final = FEW_LEFT
"""So many Bindings make a pause worth it that lasts to the end; with fewer the API server is slow,
and kube-scheduler had better go on."""
PARTIAL_REST: Final = REST // 3
"""After the plan of a partial gang, wait this many times its length: many of them do not fill the
loop."""
MAX_PODS: Final = 10 * REMEMBERED
"""The pods that are remembered; of more the oldest are forgotten."""
GATES_SLICE_SECONDS: Final = 2 * SLICE_SECONDS
"""How long one step of planning behind our gate may take: filter waits meanwhile."""
DISAGREE_TRIES: Final = TRIES
"""The watches count as disagreeing after so many tries."""
PATCHES_PARALLEL: Final = PARALLEL // 2
"""Patches that are on their way at a time."""
PATCHES_OF_ONE: Final = 3 * PATCHES_PARALLEL // 4
"""How many of these may be of one batch: one that is slow leaves something for the others."""
LONGEST_PLAN_SECONDS: Final = CHECK_SECONDS
"""How long one plan may take, slices only: those of others wait behind it."""
PLAN_SECONDS: Final = 1.5 * SLICE_SECONDS
"""How long one call may plan for the group that is asked for; the rest of it goes on later."""
VAIN_SECONDS: Final = MOMENT_SECONDS
"""So long one look may search in vain for the groups of one namespace."""
MOST_ATTEMPTS: Final = TRIES
"""After so many preemptions that evicted in vain a group preempts no more until it changes."""
MOST_MEMBERS: Final = PARALLEL
"""So many members are read to see whether kube-scheduler has tried one."""
TURN_SECONDS: Final = 2 * SLICE_SECONDS
"""How long one call of filter may plan for others, at most. To find that a gang does not fit on
thousands of nodes takes milliseconds, and kube-scheduler's loop waits."""
TURN_SHARE: Final = 1 / (REST + 1)
"""How much of the time that goes by calls may plan for others in vain: while pods come and go, each
call would find that groups which had no room are worth another look."""
MAX_GROUPS: Final = 10 * REMEMBERED
"""The groups that are remembered; of more the one is forgotten that was not read for longest."""
