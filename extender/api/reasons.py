"""Reasons of refusals, conditions and Events: the one home of each.

Reasons of the queue are Kueue's where the meaning is Kueue's, because clients and dashboards know
them. Source: https://kueue.sigs.k8s.io/docs/reference/kueue.v1beta2/
"""

from enum import StrEnum
from typing import Final

# -- pods and groups


class Reason(StrEnum):
    """Reasons of pods and groups. Answers, Events, metrics and logs have the same reason."""

    POD_GROUP_NOT_FOUND = "PodGroupNotFound"
    NOT_ENOUGH_PODS = "NotEnoughPods"
    GATED = "Gated"
    RECENTLY_DENIED = "RecentlyDenied"
    NOT_ENOUGH_RESOURCES = "NotEnoughResources"
    NEVER_FITS = "NeverFits"
    """The group would not fit even on empty nodes."""
    WAITING_FOR_NODES = "WaitingForNodes"
    """The same where `gang.growing` says that an autoscaler adds nodes."""
    WAITING_FOR_TURN = "WaitingForTurn"
    """It would fit if no room were kept for gangs that are ahead of it."""
    WAITING_FOR_BIND = "WaitingForBind"
    """The group can start, and its members are on their way."""
    CACHE_BEHIND = "CacheBehind"
    """kube-scheduler sees room that our watch has not shown yet."""
    PLANNING = "Planning"
    """The plan of the group, or of one that goes first, takes longer than one answer may."""
    CACHE_STALE = "CacheStale"
    """The API server has sent nothing for too long, so the state may be out of date."""
    SCHEDULER_DISAGREES = "SchedulerDisagrees"
    """kube-scheduler has seen room for longer than a watch can lag, and the extender sees none."""
    RESERVED = "ReservedForGang"
    ALREADY_BOUND = "AlreadyBound"
    """The pod has a node, or is being bound to one, that kube-scheduler did not offer."""
    NOT_SEEN_YET = "NotSeenYet"
    """kube-scheduler has not seen all bound pods, and believes that their room is free."""
    INVALID_TOPOLOGY = "InvalidTopology"
    """The topology annotations of the PodGroup are not valid."""
    INVALID_PLACEMENT = "InvalidPlacement"
    """The placement annotation of the PodGroup is not valid."""
    OUTSIDE_TOPOLOGY = "OutsideTopology"
    """None of the offered nodes is in the domain of the pod's gang."""
    NODES_FOR_ALL_FIRST = "NodesForAllFirst"
    """The gang claims volumes or devices, and there are not enough nodes for all its pods yet."""
    CLASS_IN_USE = "ClassInUse"
    """Another gang is being given volumes or devices of the same class."""
    NOT_ENOUGH_VOLUMES = "NotEnoughVolumes"
    """There are fewer free volumes than the members claim."""
    NOT_ADMITTED = "NotAdmitted"
    """The pod's Job has a queue and was started without being admitted."""
    NATIVE_GROUP_WAITS = "NativeGroupWaits"
    """kube-scheduler postpones the native group as a whole, and tries it again by itself."""
    SCHEDULE_TIMEOUT = "ScheduleTimeout"
    MEMBER_UNSCHEDULABLE = "MemberUnschedulable"
    BINDING_REFUSED = "BindingRefused"
    """The API server refuses to bind the pods: by a policy, a webhook, or for lack of a right."""
    ROOM_TAKEN = "RoomTaken"
    """Another scheduler has filled a node on which a member waits to be bound."""
    ROOM_LOST = "RoomLost"
    """The kept room is gone: a node was removed, or another client bound the pods."""
    MEMBER_DELETED = "MemberDeleted"
    POD_GROUP_DELETED = "PodGroupDeleted"
    QUORUM_REACHED = "QuorumReached"
    NOT_TRIED = "NotTried"
    DISCONNECTED = "Disconnected"
    TOO_MANY_HELD = "TooManyHeld"
    TERMINATING = "Terminating"


TOO_LARGE: Final = frozenset((Reason.NEVER_FITS, Reason.WAITING_FOR_NODES))
"""The reasons of a group that would not fit even on empty nodes."""


class EventReason(StrEnum):
    """Reasons of a PodGroup's conditions and Events, beyond those for which pods are refused."""

    SCHEDULED = "Scheduled"
    RUNNING = "Running"
    NO_NODES_IN_TIME = "NoNodesInTime"
    """No node came in time in the domain that was chosen for a gang."""
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
    """The group has waited long, and needs more nodes than its namespace may have set aside."""
    STARTS_IN_ORDER = "StartsInOrder"
    """Some of its pods are made only when others are ready, and these wait for the whole gang."""
    GANG_READY = "GangReady"
    GANG_NOT_READY = "GangNotReady"


class PreemptionReason(StrEnum):
    """Reasons of the conditions `Preempting` and `Preempted` of a PodGroup, and of their Events."""

    EVICTING = "Evicting"
    """Victims of lower priority make room for the group."""
    STARTED = "Started"
    """All pods that the group needs have a node."""
    VICTIMS_STAY = "VictimsStay"
    """Victims have not left in time, and the group gives up."""
    ROOM_LOST = "RoomLost"
    """The victims have left, and the group could not start on their room."""
    ROOM_TAKEN = "RoomTaken"
    """The victims have left, and pods of a scheduler without the extender took the room."""
    GIVEN_UP = "GivenUp"
    """The group has preempted in vain several times, and waits until its PodGroup changes."""
    NO_VICTIMS = "NoVictims"
    """The group fits without victims, or not even with all possible ones. In metrics only."""
    NOT_NEEDED = "NotNeeded"
    OVERTAKEN = "Overtaken"
    """The situation changed before a victim was evicted: evictions would not help any more."""
    SWITCHED_OFF = "SwitchedOff"
    TOO_MANY = "TooManyVictims"
    """There are more victims than the status can hold."""
    NOT_STORED = "NotStored"
    """The API server drops fields of the status, because the CRD is not ours."""
    PREEMPTING = "Preempting"
    PREEMPTED = "Preempted"


# -- the queue


class Unadmitted(StrEnum):
    """Reasons of `QuotaReserved` when it is False."""

    NO_MATCHING_FLAVOR = "NoMatchingFlavor"
    WAITING_FOR_QUOTA = "WaitingForQuota"
    WAITING_FOR_ROOM = "WaitingForRoom"
    """The workload has quota, and its pods do not fit on the nodes now."""
    TOPOLOGY_PLACEMENT_FAILED = "TopologyPlacementFailed"
    """The workload has quota, and not enough of its pods fit in the domains that they need."""
    EXCEEDS_MAX_QUOTA = "ExceedsMaxQuota"
    """The workload asks for more than its queue could have if no other workload had quota."""
    WAITING_FOR_PREEMPTED = "WaitingForPreemptedWorkloads"
    WAITING_FOR_PODS_READY = "WaitingForPodsReady"
    """There is quota, but pods of admitted workloads are not ready yet."""
    MISCONFIGURED = "Misconfigured"
    WAITING_FOR_PODS = "WaitingForPods"
    """Pods of the group are missing, so that it could not start."""
    SUSPENDED = "Suspended"
    """One of its queues is stopped, or cannot admit anything."""
    PENDING_EVALUATION = "PendingEvaluation"
    DEACTIVATED = "Deactivated"
    ON_HOLD = "OnHold"
    """The workload has to wait before it may be tried again."""
    ADMISSION_GATED = "AdmissionGated"
    """The annotation `kueue.x-k8s.io/admission-gated-by` names controllers that hold it back."""
    INTERNAL_ERROR = "InternalError"
    """A bug prevented a decision. The workload is tried again after a pause."""


class NotYetAdmitted(StrEnum):
    """Reasons of `Admitted` when it is False and the workload holds quota."""

    UNSATISFIED_CHECKS = "UnsatisfiedChecks"
    """Not all of its admission checks are Ready."""
    WAITING_FOR_ROOM = "WaitingForRoom"
    """Its admission checks are Ready, and its pods do not fit on the nodes now."""
    WAITING_FOR_NODES = "WaitingForNodes"
    """Its pods do not fit on the nodes now, and an autoscaler was asked for more of them."""
    WAITING_FOR_PODS_READY = "WaitingForPodsReady"
    """Pods of workloads that were admitted before are not ready, which blocks its admission."""


class GateReason(StrEnum):
    """Reasons of `BlockedOnPreemptionGates`, and of Events about gates of Workloads."""

    PREEMPTION_GATED = "PreemptionGated"
    """The workload would preempt others if its preemption gates were open."""
    ADMISSION_GATE_CLEARED = "AdmissionGateCleared"
    """No controller holds it back from its queue any more. In Events only."""


class RoomReason(StrEnum):
    """Reasons of `RoomReserved`."""

    WAITED_LONG = "WaitedLong"
    """The workload has waited for `queue.agingSeconds`, and room is kept for it."""
    WAITING_FOR_ROOM = "WaitingForRoom"
    """The workload waits for room, and none is kept for it."""


class HostReason(StrEnum):
    """Reasons of `HostsLost`, and of Events about hosts of a topology."""

    REPLACED = "HostReplaced"
    """Other hosts replaced the hosts that are gone. In Events only."""
    NO_REPLACEMENT = "NoReplacement"
    """There is no room for the pods in their domain."""


class Active(StrEnum):
    """Reasons of `Active` of a queue."""

    READY = "Ready"
    TERMINATING = "Terminating"
    STOPPED = "Stopped"
    FLAVOR_NOT_FOUND = "FlavorNotFound"
    TOPOLOGY_NOT_FOUND = "TopologyNotFound"
    CHECK_NOT_FOUND = "AdmissionCheckNotFound"
    CHECK_INACTIVE = "AdmissionCheckInactive"
    UNKNOWN = "Unknown"
    CLUSTER_QUEUE_DOES_NOT_EXIST = "ClusterQueueDoesNotExist"
    CLUSTER_QUEUE_IS_INACTIVE = "ClusterQueueIsInactive"


class Preempted(StrEnum):
    """Reasons of `Preempted`: why a workload lost its quota to another one."""

    IN_CLUSTER_QUEUE = "InClusterQueue"
    RECLAMATION = "InCohortReclamation"
    RECLAIM_WHILE_BORROWING = "InCohortReclaimWhileBorrowing"
    FOR_ROOM = "ForRoom"
    """The other workload had quota, but room only without this one. This reason is our own."""
    FOR_GANG = "ForGangOfHigherPriority"
    """Its pods make room on nodes for a gang, whatever the quota."""


class EvictionReason(StrEnum):
    """Reasons of `Evicted`, and of `Requeued` for a workload without quota."""

    PREEMPTED = "Preempted"
    PODS_READY_TIMEOUT = "PodsReadyTimeout"
    NODES_TIMEOUT = "NodesTimeout"
    """The nodes that were asked for did not come in time."""
    NODE_FAILURES = "NodeFailures"
    ADMISSION_CHECK = "AdmissionCheck"
    """An admission check asks for another try."""
    CLUSTER_QUEUE_STOPPED = "ClusterQueueStopped"
    LOCAL_QUEUE_STOPPED = "LocalQueueStopped"
    DEACTIVATED = "Deactivated"
    """Also the start of `DeactivatedDueTo` and one of the causes in `DeactivationCause`."""


class DeactivationCause(StrEnum):
    """Reasons of `DeactivationTarget`."""

    REQUEUING_LIMIT = "RequeuingLimitExceeded"
    MAXIMUM_EXECUTION_TIME = "MaximumExecutionTimeExceeded"
    ADMISSION_CHECK = "AdmissionCheck"
    """An admission check is rejected."""


class CheckReason(StrEnum):
    """Reasons of Events about admission checks of Workloads."""

    REJECTED = "AdmissionCheckRejected"
    UPDATED = "AdmissionCheckUpdated"
    REQUEST_CREATED = "ProvisioningRequestCreated"
    FAILED_CREATE = "FailedCreate"
    """A ProvisioningRequest or a PodTemplate could not be created."""
    ACTIVE = "Active"
    """This and the next ones are reasons of `Active` of AdmissionChecks that ask for nodes."""
    BAD_PARAMETERS = "BadParametersRef"
    NOT_SERVED = "NotServed"
    """The API server has no ProvisioningRequests."""


class RequeueReason(StrEnum):
    """Reasons of `Requeued`."""

    BACKOFF_FINISHED = "BackoffFinished"
    REACTIVATED = "Reactivated"
    CLUSTER_QUEUE_RESTARTED = "ClusterQueueRestarted"
    LOCAL_QUEUE_RESTARTED = "LocalQueueRestarted"


class PodsReadyReason(StrEnum):
    """Reasons of `PodsReady`."""

    STARTED = "Started"
    RECOVERED = "Recovered"
    WAIT_FOR_START = "WaitForStart"
    WAIT_FOR_RECOVERY = "WaitForRecovery"


class FinishReason(StrEnum):
    """Reasons of `Finished`."""

    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    OUT_OF_SYNC = "OutOfSync"
    FAILED_TO_START = "FailedToStart"
    OWNER_NOT_FOUND = "OwnerNotFound"


class JobReason(StrEnum):
    """Reasons of Events about a job."""

    STARTED = "Started"
    STOPPED = "Stopped"
    UPDATED_WORKLOAD = "UpdatedWorkload"
    DELETED_WORKLOAD = "DeletedWorkload"
    FINISHED_WORKLOAD = "FinishedWorkload"

    NODES_REQUESTED = "NodesRequested"
    """An autoscaler was asked for nodes, by the objects that the Event of the Workload names."""
    PODS_REMAIN = "PodsRemain"
    """The job has ended, and some of its pods run on with its quota."""
    STOP_UNNOTICED = "StopUnnoticed"
    """The job's operator has not reported for a while that it noticed a stop."""
    OTHER_POD_GROUP = "OtherPodGroup"
    """The pods carry another PodGroup than the one that the queue made for them."""
    SUSPEND_CONTESTED = "SuspendContested"
    """Another client keeps undoing what the queue writes to the job's `suspend`."""

    INVALID = "Invalid"
    """The API server rejects what would be written for the job."""
    INVALID_TOPOLOGY = "InvalidTopology"
    """The topology annotations of a pod template contradict each other."""
    NOT_HONOURED = "NotHonoured"
    """Fields, labels or annotations of Kueue on the object have no effect here."""
    NOT_QUEUED = "NotQueued"
    """The object names a queue, and its kind, or the pods of a Deployment, are not queued."""
    OVERRIDE_LIMITED = "OverrideLimited"
    """The job asks for more than its ClusterQueue lets its jobs choose."""
    INVALID_QUEUE_NAME = "InvalidQueueName"
    TOO_MANY_POD_SETS = "TooManyPodSets"
    NO_PODS = "NoPods"
    INVALID_GROUP = "InvalidPodGroup"
    PODS_MISSING = "PodsMissing"
    """Some pods of the group do not exist."""
    PODS_STILL_RUN = "PodsStillRun"
    """The job was stopped, and its status still reports running pods."""
    EDIT_IGNORED = "EditIgnored"
    """Labels or annotations of a job with quota were changed."""
    EXCESS_POD_DELETED = "ExcessPodDeleted"
    FLAVOR_NOT_FOUND = "FlavorNotFound"
    PRIORITY_CLASS_NOT_FOUND = "PriorityClassNotFound"
    WORKLOAD_NOT_FOUND = "WorkloadNotFound"
    WORKLOAD_OWNED = "WorkloadOwnedByAnother"
