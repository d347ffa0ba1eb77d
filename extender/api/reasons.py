"""Reasons of refusals, conditions and Events: the one home of each.

Reasons of the queue are Kueue's where the meaning is Kueue's, because clients and dashboards know
them. Source: https://kueue.sigs.k8s.io/docs/reference/kueue.v1beta2/
"""

from enum import StrEnum

# -- pods and groups


class Reason(StrEnum):
    """Why a pod or a group is where it is: the same reason in answers, Events, metrics and logs."""

    POD_GROUP_NOT_FOUND = "PodGroupNotFound"
    NOT_ENOUGH_PODS = "NotEnoughPods"
    GATED = "Gated"
    RECENTLY_DENIED = "RecentlyDenied"
    NOT_ENOUGH_RESOURCES = "NotEnoughResources"
    NEVER_FITS = "NeverFits"
    """Not even with every usable node empty."""
    WAITING_FOR_TURN = "WaitingForTurn"
    """It would fit if no room were kept for gangs that are ahead of it."""
    WAITING_FOR_BIND = "WaitingForBind"
    """Nothing speaks against it: its members are on their way."""
    CACHE_BEHIND = "CacheBehind"
    """kube-scheduler sees room that our own watch has not shown yet."""
    PLANNING = "Planning"
    """Its plan, or that of a gang that goes first, takes longer than one answer may."""
    CACHE_STALE = "CacheStale"
    """The API server has sent nothing for too long: the state may be out of date."""
    SCHEDULER_DISAGREES = "SchedulerDisagrees"
    """kube-scheduler goes on seeing room that the extender does not: no watch lags for so long."""
    RESERVED = "ReservedForGang"
    ALREADY_BOUND = "AlreadyBound"
    """It has a node, or is being bound to one, and kube-scheduler chooses from others."""
    NOT_SEEN_YET = "NotSeenYet"
    """kube-scheduler has not seen all pods that are bound, and takes their room for free."""
    INVALID_TOPOLOGY = "InvalidTopology"
    """What its PodGroup says of topology cannot be kept."""
    INVALID_PLACEMENT = "InvalidPlacement"
    """What its PodGroup says of placement is none."""
    OUTSIDE_TOPOLOGY = "OutsideTopology"
    """None of the nodes to choose from is in the domain where its gang is."""
    NODES_FOR_ALL_FIRST = "NodesForAllFirst"
    """It claims volumes or devices, and there are not nodes for all pods that it needs yet."""
    CLASS_IN_USE = "ClassInUse"
    """Another gang is being given volumes or devices of a class that it claims too."""
    NOT_ENOUGH_VOLUMES = "NotEnoughVolumes"
    """There are fewer free volumes than its members claim."""
    NOT_ADMITTED = "NotAdmitted"
    """Its Job has a queue and was started without being admitted."""
    NATIVE_GROUP_WAITS = "NativeGroupWaits"
    """kube-scheduler puts its native group off as a whole, and tries it again by itself."""
    SCHEDULE_TIMEOUT = "ScheduleTimeout"
    MEMBER_UNSCHEDULABLE = "MemberUnschedulable"
    BINDING_REFUSED = "BindingRefused"
    """The API server refuses to bind its pods: by a policy, a webhook, or for want of a right."""
    ROOM_TAKEN = "RoomTaken"
    """Another scheduler has filled a node on which a member waits to be bound."""
    ROOM_LOST = "RoomLost"
    """What was kept for it is gone: a node went, or another client bound its pods."""
    MEMBER_DELETED = "MemberDeleted"
    POD_GROUP_DELETED = "PodGroupDeleted"
    QUORUM_REACHED = "QuorumReached"
    NOT_TRIED = "NotTried"
    DISCONNECTED = "Disconnected"
    TOO_MANY_HELD = "TooManyHeld"
    TERMINATING = "Terminating"


class EventReason(StrEnum):
    """Reasons of a PodGroup's conditions and Events, beyond those for which pods are refused."""

    SCHEDULED = "Scheduled"
    RUNNING = "Running"
    FINISHED = "Finished"
    PODS_FAILED = "PodsFailed"
    NOT_SCHEDULED = "NotScheduled"
    NOT_RUNNING = "NotRunning"
    PARTIALLY_SCHEDULED = "PartiallyScheduled"
    PARTIAL_GANG = "PartialGang"
    EVICTED = "Evicted"
    WHOLE = "Whole"
    MIXED_PRIORITIES = "MixedPriorities"
    UNKNOWN_POLICY = "UnknownPolicy"
    POLICY_LIMITED = "PolicyLimited"
    CLAIM_LIMITED = "ClaimLimited"
    """It has waited long, and its namespace may not have as many nodes set aside as it needs."""
    GANG_READY = "GangReady"
    GANG_NOT_READY = "GangNotReady"


class PreemptionReason(StrEnum):
    """Reasons of the conditions `Preempting` and `Preempted` of a PodGroup, and of their Events."""

    EVICTING = "Evicting"
    """Victims of lower priority make room for it."""
    STARTED = "Started"
    """All pods that it needs have a node."""
    VICTIMS_STAY = "VictimsStay"
    """Victims have not gone in time, and it gives up."""
    ROOM_LOST = "RoomLost"
    """Its victims have gone, and it could not start on their room."""
    ROOM_TAKEN = "RoomTaken"
    """Its victims have gone, and pods of a scheduler that asks no extender came to their nodes."""
    GIVEN_UP = "GivenUp"
    """It has preempted in vain several times, and does not again before its PodGroup changes."""
    NO_VICTIMS = "NoVictims"
    """It fits without any, or not even with all that may make room for it. In metrics alone."""
    NOT_NEEDED = "NotNeeded"
    OVERTAKEN = "Overtaken"
    """What was chosen has changed before a victim was asked to go: it would be of no use now."""
    SWITCHED_OFF = "SwitchedOff"
    TOO_MANY = "TooManyVictims"
    """More victims than its status can hold."""
    NOT_STORED = "NotStored"
    """The API server drops what its status is to say: its CRD is not ours."""
    PREEMPTING = "Preempting"
    PREEMPTED = "Preempted"


# -- the queue


class Unadmitted(StrEnum):
    """Why `QuotaReserved` is False."""

    NO_MATCHING_FLAVOR = "NoMatchingFlavor"
    WAITING_FOR_QUOTA = "WaitingForQuota"
    WAITING_FOR_ROOM = "WaitingForRoom"
    """It has quota, and its pods do not fit on the nodes as they are now."""
    TOPOLOGY_PLACEMENT_FAILED = "TopologyPlacementFailed"
    """It has quota, and not enough of its pods fit in the domains where they are to be."""
    EXCEEDS_MAX_QUOTA = "ExceedsMaxQuota"
    """More than its queue could have if no other workload had quota."""
    WAITING_FOR_PREEMPTED = "WaitingForPreemptedWorkloads"
    WAITING_FOR_PODS_READY = "WaitingForPodsReady"
    """There is quota, but pods of admitted workloads are not ready yet, and these go first."""
    MISCONFIGURED = "Misconfigured"
    WAITING_FOR_PODS = "WaitingForPods"
    """Pods of its group are missing, so that it could not start."""
    SUSPENDED = "Suspended"
    """A queue of its is stopped, or can admit nothing."""
    PENDING_EVALUATION = "PendingEvaluation"
    DEACTIVATED = "Deactivated"
    ON_HOLD = "OnHold"
    """It has to wait before it may be tried again."""
    ADMISSION_GATED = "AdmissionGated"
    """Its annotation `kueue.x-k8s.io/admission-gated-by` names controllers that hold it back."""
    INTERNAL_ERROR = "InternalError"
    """It could not be judged because of a bug, and is tried again after a pause."""


class GateReason(StrEnum):
    """Reasons of `BlockedOnPreemptionGates`, and of Events about gates of Workloads."""

    PREEMPTION_GATED = "PreemptionGated"
    """It would preempt others for its quota or room if its preemption gates were open."""
    ADMISSION_GATE_CLEARED = "AdmissionGateCleared"
    """No controller holds it back from its queue any more. In Events alone."""


class RoomReason(StrEnum):
    """Why `RoomReserved` is True or False."""

    WAITED_LONG = "WaitedLong"
    """It has waited for `queue.agingSeconds`, and room is kept for it."""
    WAITING_FOR_ROOM = "WaitingForRoom"
    """It waits for room, and none is kept for it."""


class HostReason(StrEnum):
    """Reasons of `HostsLost`, and of Events about hosts of a topology."""

    REPLACED = "HostReplaced"
    """Other hosts took the place of those that are gone. In Events alone."""
    NO_REPLACEMENT = "NoReplacement"
    """There is no room for its pods in the domain where they are to be."""


class Active(StrEnum):
    """Why a queue is active, or is not."""

    READY = "Ready"
    TERMINATING = "Terminating"
    STOPPED = "Stopped"
    FLAVOR_NOT_FOUND = "FlavorNotFound"
    TOPOLOGY_NOT_FOUND = "TopologyNotFound"
    CHECK_NOT_FOUND = "AdmissionCheckNotFound"
    UNKNOWN = "Unknown"
    CLUSTER_QUEUE_DOES_NOT_EXIST = "ClusterQueueDoesNotExist"
    CLUSTER_QUEUE_IS_INACTIVE = "ClusterQueueIsInactive"


class Preempted(StrEnum):
    """Why a workload lost its quota to another one."""

    IN_CLUSTER_QUEUE = "InClusterQueue"
    RECLAMATION = "InCohortReclamation"
    RECLAIM_WHILE_BORROWING = "InCohortReclaimWhileBorrowing"
    FOR_ROOM = "ForRoom"
    """The other one had quota, and room on nodes only without it: no reason of Kueue's."""
    FOR_GANG = "ForGangOfHigherPriority"
    """Its pods make room on nodes for a gang: quota has nothing to do with it."""


class EvictionReason(StrEnum):
    """Why a workload is `Evicted`; one that has no quota has the same reason in `Requeued`."""

    PREEMPTED = "Preempted"
    PODS_READY_TIMEOUT = "PodsReadyTimeout"
    NODE_FAILURES = "NodeFailures"
    CLUSTER_QUEUE_STOPPED = "ClusterQueueStopped"
    LOCAL_QUEUE_STOPPED = "LocalQueueStopped"
    DEACTIVATED = "Deactivated"
    """Also the start of `DeactivatedDueTo` and one of the causes in `DeactivationCause`."""


class DeactivationCause(StrEnum):
    """Why a workload is deactivated: the reason of `DeactivationTarget`."""

    REQUEUING_LIMIT = "RequeuingLimitExceeded"
    MAXIMUM_EXECUTION_TIME = "MaximumExecutionTimeExceeded"


class RequeueReason(StrEnum):
    """Why a workload is queued again."""

    BACKOFF_FINISHED = "BackoffFinished"
    REACTIVATED = "Reactivated"
    CLUSTER_QUEUE_RESTARTED = "ClusterQueueRestarted"
    LOCAL_QUEUE_RESTARTED = "LocalQueueRestarted"


class PodsReadyReason(StrEnum):
    """Why `PodsReady` is True or False."""

    STARTED = "Started"
    RECOVERED = "Recovered"
    WAIT_FOR_START = "WaitForStart"
    WAIT_FOR_RECOVERY = "WaitForRecovery"


class FinishReason(StrEnum):
    """How a workload ended."""

    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    OUT_OF_SYNC = "OutOfSync"
    FAILED_TO_START = "FailedToStart"
    OWNER_NOT_FOUND = "OwnerNotFound"


class JobReason(StrEnum):
    """Reasons of Events about a job, and of its stop."""

    STARTED = "Started"
    STOPPED = "Stopped"
    CREATED_WORKLOAD = "CreatedWorkload"
    UPDATED_WORKLOAD = "UpdatedWorkload"
    DELETED_WORKLOAD = "DeletedWorkload"
    FINISHED_WORKLOAD = "FinishedWorkload"

    NOT_ADMITTED = "NotAdmitted"
    NO_MATCHING_WORKLOAD = "NoMatchingWorkload"
    WORKLOAD_DELETED = "WorkloadDeleted"
    ANCESTOR_NOT_ADMITTED = "AncestorNotAdmitted"
    STOP_UNFINISHED = "StopUnfinished"
    PODS_REMAIN = "PodsRemain"
    """The job has ended, and pods of it run on with its quota."""
    STOP_UNNOTICED = "StopUnnoticed"
    """The operator of a job has not said for a while that it has noticed a stop."""
    OTHER_POD_GROUP = "OtherPodGroup"
    """The pods carry another PodGroup than the one that the queue made for them."""
    SUSPEND_CONTESTED = "SuspendContested"
    """Another writer keeps undoing what the queue writes into the job's `suspend`."""

    INVALID = "Invalid"
    """The API server rejects what would be written for the job."""
    INVALID_TOPOLOGY = "InvalidTopology"
    """Annotations of a pod template about domains of nodes contradict each other."""
    NOT_HONOURED = "NotHonoured"
    """Fields, labels or annotations of Kueue on the object have no effect here."""
    OVERRIDE_LIMITED = "OverrideLimited"
    """The job asks for more than its ClusterQueue lets its jobs choose."""
    INVALID_QUEUE_NAME = "InvalidQueueName"
    TOO_MANY_POD_SETS = "TooManyPodSets"
    NO_PODS = "NoPods"
    INVALID_GROUP = "InvalidPodGroup"
    PODS_MISSING = "PodsMissing"
    """Not all pods of the group are there."""
    PODS_STILL_RUN = "PodsStillRun"
    """The job was stopped, and its status goes on saying that pods run."""
    EDIT_IGNORED = "EditIgnored"
    """Labels or annotations of a job with quota were changed."""
    EXCESS_POD_DELETED = "ExcessPodDeleted"
    FLAVOR_NOT_FOUND = "FlavorNotFound"
    PRIORITY_CLASS_NOT_FOUND = "PriorityClassNotFound"
    WORKLOAD_NOT_FOUND = "WorkloadNotFound"
    WORKLOAD_OWNED = "WorkloadOwnedByAnother"
