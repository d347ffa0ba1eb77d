"""Names of Kueue's API that jobs, pods and workloads carry."""

from enum import StrEnum
from hashlib import sha1
from typing import Final

from extender.api import wellknown

GROUP: Final = wellknown.QUEUE_GROUP
VERSION: Final = wellknown.QUEUE_VERSION

QUEUE_NAME: Final = wellknown.QUEUE_LABEL
PRIORITY_CLASS: Final = "kueue.x-k8s.io/priority-class"
PREBUILT_WORKLOAD: Final = "kueue.x-k8s.io/prebuilt-workload-name"
"""A label, or an annotation."""
MAX_EXEC_TIME: Final = "kueue.x-k8s.io/max-exec-time-seconds"
MIN_PARALLELISM: Final = "kueue.x-k8s.io/job-min-parallelism"
COMPLETIONS_EQUAL_PARALLELISM: Final = "kueue.x-k8s.io/job-completions-equal-parallelism"
RELEASE_QUOTA: Final = wellknown.RELEASE_QUOTA
STOPPING: Final = "kueue.x-k8s.io/stopping"
"""On a job whose stop has begun and not ended."""

PODSET: Final = wellknown.PODSET_LABEL
"""On pods: the pod set of the workload that they belong to."""
WORKLOAD: Final = wellknown.WORKLOAD_ANNOTATION
"""On pods: the workload itself; an annotation, because its name may be too long for a label."""
JOB_UID: Final = "kueue.x-k8s.io/job-uid"
RESOURCE_IN_USE: Final = wellknown.IN_USE_FINALIZER
"""The finalizer of workloads."""

ADMISSION_GATE: Final = wellknown.ADMISSION_GATE
MANAGED: Final = "kueue.x-k8s.io/managed"
POD_GROUP_NAME: Final = "kueue.x-k8s.io/pod-group-name"
POD_GROUP_TOTAL_COUNT: Final = "kueue.x-k8s.io/pod-group-total-count"
RETRIABLE_IN_GROUP: Final = "kueue.x-k8s.io/retriable-in-group"
ROLE_HASH: Final = "kueue.x-k8s.io/role-hash"

WORKLOAD_PRIORITY_CLASS: Final = (GROUP, "WorkloadPriorityClass")
POD_PRIORITY_CLASS: Final = ("scheduling.k8s.io", "PriorityClass")

MAX_POD_SETS: Final = 18

_LONGEST_LABEL: Final = 63
_HASH_LENGTH: Final = 5


def group_name(workload: str) -> str:
    """Return the name of the PodGroup that is made for a workload: its own, as a label may be."""
    if len(workload) <= _LONGEST_LABEL:
        return workload
    suffix = sha1(workload.encode(), usedforsecurity=False).hexdigest()[:_HASH_LENGTH]
    return f"{workload[: _LONGEST_LABEL - _HASH_LENGTH - 1].rstrip('-.')}-{suffix}"


class Word(StrEnum):
    """Reasons of conditions and Events about jobs and workloads."""

    STARTED = "Started"
    STOPPED = "Stopped"
    CREATED_WORKLOAD = "CreatedWorkload"
    UPDATED_WORKLOAD = "UpdatedWorkload"
    DELETED_WORKLOAD = "DeletedWorkload"
    FINISHED_WORKLOAD = "FinishedWorkload"

    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    OUT_OF_SYNC = "OutOfSync"
    FAILED_TO_START = "FailedToStart"

    PREEMPTED = "Preempted"
    NODE_FAILURES = "NodeFailures"

    WAIT_FOR_START = "WaitForStart"
    WAIT_FOR_RECOVERY = "WaitForRecovery"
    RECOVERED = "Recovered"

    NOT_ADMITTED = "NotAdmitted"
    NO_MATCHING_WORKLOAD = "NoMatchingWorkload"
    WORKLOAD_DELETED = "WorkloadDeleted"
    ANCESTOR_NOT_ADMITTED = "AncestorNotAdmitted"
    STOP_UNFINISHED = "StopUnfinished"

    INVALID = "Invalid"
    """The API server does not take what is to be written for it."""
    OVERRIDE_LIMITED = "OverrideLimited"
    """It asks for more than its ClusterQueue lets its jobs choose."""
    INVALID_QUEUE_NAME = "InvalidQueueName"
    TOO_MANY_POD_SETS = "TooManyPodSets"
    NO_PODS = "NoPods"
    INVALID_GROUP = "InvalidPodGroup"
    EXCESS_POD_DELETED = "ExcessPodDeleted"
    FLAVOR_NOT_FOUND = "FlavorNotFound"
    PRIORITY_CLASS_NOT_FOUND = "PriorityClassNotFound"
    WORKLOAD_NOT_FOUND = "WorkloadNotFound"
    WORKLOAD_OWNED = "WorkloadOwnedByAnother"
