"""Reasons of the queue's conditions: Kueue's words, which clients and dashboards know."""

from enum import StrEnum


class Unadmitted(StrEnum):
    """Why `QuotaReserved` is False."""

    NO_MATCHING_FLAVOR = "NoMatchingFlavor"
    WAITING_FOR_QUOTA = "WaitingForQuota"
    WAITING_FOR_ROOM = "WaitingForRoom"
    """It has quota, and its pods do not fit on the nodes as they are now."""
    EXCEEDS_MAX_QUOTA = "ExceedsMaxQuota"
    """More than its queue could have if nobody else had anything."""
    WAITING_FOR_PREEMPTED = "WaitingForPreemptedWorkloads"
    WAITING_FOR_PODS_READY = "WaitingForPodsReady"
    """There is quota, and admitted workloads whose pods are not ready yet go first."""
    MISCONFIGURED = "Misconfigured"
    SUSPENDED = "Suspended"
    """A queue of its is stopped, or can admit nothing."""
    PENDING_EVALUATION = "PendingEvaluation"
    DEACTIVATED = "Deactivated"
    ON_HOLD = "OnHold"
    """It has to wait before it may be tried again."""
    INTERNAL_ERROR = "InternalError"
    """It could not be judged because of a bug, and is tried again after a pause."""


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
