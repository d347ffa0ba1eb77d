"""Names that users, dashboards and other tools rely on: labels, annotations, gates, reasons."""

from enum import StrEnum
from typing import Final

POD_GROUP_LABEL: Final = "scheduling.x-k8s.io/pod-group"
POD_GROUP_LABEL_SIGS: Final = "pod-group.scheduling.sigs.k8s.io"
"""The label of the older API group; a pod that carries both is a member by the newer one."""

GROUP_X: Final = "scheduling.x-k8s.io"
GROUP_SIGS: Final = "scheduling.sigs.k8s.io"
POD_GROUP_GROUPS: Final = (GROUP_X, GROUP_SIGS)

GANG_GATE: Final = "scheduling.x-k8s.io/gang"
"""The scheduling gate that we take away once a group has its pods; anybody else's is left alone."""

GANG_READY: Final = "scheduling.x-k8s.io/gang-ready"
"""The readiness gate, and pod condition, that says that enough members of the gang are ready."""

WOKEN_ANNOTATION: Final = "scheduling.x-k8s.io/woken-at"
"""Patched on a pod to make kube-scheduler try it again: any change to a pod's metadata does."""

INDEX_LABEL: Final = "batch.kubernetes.io/job-completion-index"
"""Which part of an Indexed Job's work a pod does; an annotation of the same name tells it too."""


class Reason(StrEnum):
    """Why a pod or a group is where it is: the same word in answers, Events, metrics and logs."""

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
    """kube-scheduler sees room that our own watch has not told of yet."""
    PLANNING = "Planning"
    """Its plan, or that of a gang that goes first, takes longer than one answer may."""
    CACHE_STALE = "CacheStale"
    """The API server has not been heard of for too long: what is known may be wrong by now."""
    SCHEDULER_DISAGREES = "SchedulerDisagrees"
    """kube-scheduler goes on seeing room that the extender does not: no watch lags for so long."""
    RESERVED = "ReservedForGang"
    NOT_ADMITTED = "NotAdmitted"
    """Its Job has a queue and was started without being admitted."""
    SCHEDULE_TIMEOUT = "ScheduleTimeout"
    MEMBER_UNSCHEDULABLE = "MemberUnschedulable"
    MEMBER_DELETED = "MemberDeleted"
    POD_GROUP_DELETED = "PodGroupDeleted"
    QUORUM_REACHED = "QuorumReached"
    NOT_TRIED = "NotTried"
    DISCONNECTED = "Disconnected"
    TOO_MANY_HELD = "TooManyHeld"
    TERMINATING = "Terminating"


DONE_ANNOTATION: Final = "scheduling.x-k8s.io/done-pods"
"""On a PodGroup: how many of minMember are done for good, where its Jobs do not tell."""
ON_PARTIAL_ANNOTATION: Final = "scheduling.x-k8s.io/on-partial"
"""On a PodGroup: what becomes of a gang that has started and lost its quorum, keep or evict."""


class Phase(StrEnum):
    """Where a group is in its life; every word of the first PodGroup API, for its readers."""

    PENDING = "Pending"
    PRE_SCHEDULING = "PreScheduling"
    SCHEDULING = "Scheduling"
    SCHEDULED = "Scheduled"
    RUNNING = "Running"
    UNKNOWN = "Unknown"
    FINISHED = "Finished"
    FAILED = "Failed"


class Aspect(StrEnum):
    """The types of a PodGroup's conditions."""

    SCHEDULED = "Scheduled"
    RUNNING = "Running"
    PARTIAL = "Partial"
    PERMITTED = "Permitted"
    """Told by the extender; the others are the reconciler's."""


class Told(StrEnum):
    """Reasons of conditions and Events beyond those for which pods are refused."""

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


# -- the queue: names of kueue.x-k8s.io

QUEUE_GROUP: Final = "kueue.x-k8s.io"
QUEUE_VERSION: Final = "v1beta2"
QUEUE_LABEL: Final = "kueue.x-k8s.io/queue-name"
PRIORITY_CLASS_LABEL: Final = "kueue.x-k8s.io/priority-class"
PRIORITY_TAKEN: Final = "scheduling.x-k8s.io/priority-taken"
"""On a Workload: the WorkloadPriorityClass and the value that its priority was taken from last."""
PREBUILT_LABEL: Final = "kueue.x-k8s.io/prebuilt-workload-name"
PODSET_LABEL: Final = "kueue.x-k8s.io/podset"
WORKLOAD_ANNOTATION: Final = "kueue.x-k8s.io/workload"
"""On the pods of a job that was admitted: the name of its Workload."""
ADMISSION_GATE: Final = "kueue.x-k8s.io/admission"
REQUIRE_ROOM_ANNOTATION: Final = "scheduling.x-k8s.io/require-room"
"""On a ClusterQueue: whether its workloads are admitted only when they fit on nodes, true or
false; without it the settings tell."""
IN_USE_FINALIZER: Final = "kueue.x-k8s.io/resource-in-use"
OWN_PREFIX: Final = "scheduling.x-k8s.io/"
"""Of what on a ClusterQueue is a setting of ours."""
WAIT_FOR_PODS_READY: Final = "scheduling.x-k8s.io/wait-for-pods-ready"
"""Whether pods have to become ready in time: `true` or `false`. This and those that follow are
annotations, or labels, of a ClusterQueue, a job or a Workload."""
PODS_READY_TIMEOUT: Final = "scheduling.x-k8s.io/pods-ready-timeout"
PODS_READY_RECOVERY_TIMEOUT: Final = "scheduling.x-k8s.io/pods-ready-recovery-timeout"
PODS_READY_BACKOFF_LIMIT: Final = "scheduling.x-k8s.io/pods-ready-backoff-limit"
PODS_READY_BACKOFF_BASE: Final = "scheduling.x-k8s.io/pods-ready-backoff-base"
PODS_READY_BACKOFF_MAX: Final = "scheduling.x-k8s.io/pods-ready-backoff-max"
PODS_READY_BLOCK_ADMISSION: Final = "scheduling.x-k8s.io/pods-ready-block-admission"
RELEASE_QUOTA: Final = "scheduling.x-k8s.io/release-quota"
"""On a job or a ClusterQueue: OnTerminating or OnTerminal."""
DEFAULT_QUEUE: Final = "default"
"""The LocalQueue of jobs that name none."""
