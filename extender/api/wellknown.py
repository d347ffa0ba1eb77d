"""Names that users, dashboards and other tools rely on: labels, annotations, gates, conditions."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, Final

POD_GROUP_LABEL: Final = "scheduling.x-k8s.io/pod-group"
POD_GROUP_LABEL_SIGS: Final = "pod-group.scheduling.sigs.k8s.io"
"""The label of the older API group; a pod that carries both is a member by the newer one."""

GROUP_X: Final = "scheduling.x-k8s.io"
GROUP_SIGS: Final = "scheduling.sigs.k8s.io"
POD_GROUP_GROUPS: Final = (GROUP_X, GROUP_SIGS)
GROUP_NATIVE: Final = "scheduling.k8s.io"
"""The API group of Kubernetes' own PodGroups, which pods name in `spec.schedulingGroup`."""
NATIVE_VERSIONS: Final = ("v1beta1", "v1alpha2")
"""The versions of that group whose PodGroups are read, newest first."""
NATIVE_SCHEDULED: Final = frozenset(("PodGroupScheduled", "PodGroupInitiallyScheduled"))
"""The conditions that kube-scheduler writes to a native PodGroup that it schedules itself."""

GANG_GATE: Final = "scheduling.x-k8s.io/gang"
"""The scheduling gate that we remove once a group has its pods. Other gates are left alone."""

GANG_READY: Final = "scheduling.x-k8s.io/gang-ready"
"""The readiness gate, and pod condition, that says that enough members of the gang are ready."""

WOKEN_ANNOTATION: Final = "scheduling.x-k8s.io/woken-at"
"""An annotation that is patched on a pod so that kube-scheduler tries it again."""

BESIDE_LABEL: Final = "scheduling.x-k8s.io/tried-beside"
"""A label that is patched on a member that kube-scheduler refused, so that it is tried again beside
siblings that have a node now. The plugin for pod affinity reacts to changes of labels only."""

INDEX_LABEL: Final = "batch.kubernetes.io/job-completion-index"
"""The completion index of a pod of an Indexed Job, as a label and as an annotation."""
JOB_SET_LABEL: Final = "jobset.sigs.k8s.io/jobset-name"
"""The JobSet of a pod."""
JOB_SET_RESTARTS_LABEL: Final = "jobset.sigs.k8s.io/restart-attempt"
"""The number of times a JobSet had restarted when it made a Job."""
JOB_SET_INDEX_LABEL: Final = "jobset.sigs.k8s.io/job-index"
"""The index of a pod's Job among the equal Jobs of a JobSet."""

DONE_ANNOTATION: Final = "scheduling.x-k8s.io/done-pods"
"""On a PodGroup: the number of its pods that are done for good, if its Jobs do not count them."""
ON_PARTIAL_ANNOTATION: Final = "scheduling.x-k8s.io/on-partial"
"""On a PodGroup, keep, evict or restart: the policy for a gang that has lost its quorum."""
RESTARTING: Final = "scheduling.x-k8s.io/restarting"
"""On a Job or JobSet: we have suspended it so that all of its pods go at once, and resume it then.
On a Job of a JobSet: the name of the JobSet of which that is so."""
OF_ITSELF: Final = "true"
"""The value of that annotation where it is about the object itself."""
DISRUPTION_BUDGET: Final = "scheduling.x-k8s.io/disruption-budget"
"""On a PodGroup, true or false: whether it gets a PodDisruptionBudget once it has started."""
MANAGED_BY_LABEL: Final = "app.kubernetes.io/managed-by"
MANAGER: Final = "gang-extender"
"""The value of that label on objects that we make for others."""

PREEMPTION_COST: Final = "scheduling.x-k8s.io/preemption-cost"
"""On a PodGroup or a pod: at equal priority, the one with the lower cost makes room first."""
EXPECTED_RUN: Final = "scheduling.x-k8s.io/expected-run-seconds"
"""On a job or its pod template: the time that it is expected to run. Only simulations and answers
before submission read it."""
MIN_RUN_SECONDS: Final = "scheduling.x-k8s.io/min-run-seconds"
"""On a PodGroup: the time that it runs, at least, before it makes room for others."""
MIRROR_ANNOTATION: Final = "kubernetes.io/config.mirror"
"""On the API's copy of a static pod, which cannot be evicted."""

REQUIRED_TOPOLOGY: Final = "scheduling.x-k8s.io/required-topology"
"""On a PodGroup: a node label. All nodes of the gang must have the same value."""
PREFERRED_TOPOLOGY: Final = "scheduling.x-k8s.io/preferred-topology"
"""On a PodGroup: a node label. The nodes of the gang have as few values as possible."""
DOMAIN_LABEL: Final = "scheduling.x-k8s.io/domain"
"""On a pod: the value of that label which the extender has written into its node selector."""
PLACEMENT_ANNOTATION: Final = "scheduling.x-k8s.io/placement"
"""On a PodGroup, pack or spread: put its pods on few nodes, or on many."""
ZONE_LABEL: Final = "topology.kubernetes.io/zone"
HOSTNAME_LABEL: Final = "kubernetes.io/hostname"
TOPOLOGY_ASSIGNMENT: Final = "scheduling.x-k8s.io/topology-assignment"
"""On a PodGroup that a queue made: the number of pods for each domain of nodes, by pod set."""


class Phase(StrEnum):
    """The phases of a PodGroup: every word of the first PodGroup API, for its readers."""

    PENDING = "Pending"
    PRE_SCHEDULING = "PreScheduling"
    SCHEDULING = "Scheduling"
    SCHEDULED = "Scheduled"
    RUNNING = "Running"
    UNKNOWN = "Unknown"
    FINISHED = "Finished"
    FAILED = "Failed"


ENDS: Final = frozenset((Phase.FINISHED, Phase.FAILED))
"""The phases of a group that has ended, or begins anew."""


class ConditionType(StrEnum):
    """The types of a PodGroup's conditions."""

    SCHEDULED = "Scheduled"
    RUNNING = "Running"
    PARTIAL = "Partial"
    PERMITTED = "Permitted"
    """The extender writes this one and the next. The reconciler writes all others."""
    PREEMPTING = "Preempting"
    """True while victims make room for it."""
    PREEMPTED = "Preempted"
    """True if it had to make room and has not started again."""
    DOMAINS_TRIED = "DomainsTried"
    """True if no node came in time in some domains of its topology: the message lists them."""


# -- the queue: names of kueue.x-k8s.io

QUEUE_GROUP: Final = "kueue.x-k8s.io"
QUEUE_VERSION: Final = "v1beta2"
QUEUE_API_VERSION: Final = f"{QUEUE_GROUP}/{QUEUE_VERSION}"
QUEUE_LABEL: Final = "kueue.x-k8s.io/queue-name"
QUEUED_GROUPS: Final = (
    "batch",
    "jobset.x-k8s.io",
    "kubeflow.org",
    "ray.io",
    "sparkoperator.k8s.io",
)
"""The API groups of the built-in kinds of jobs."""
PRIORITY_CLASS_LABEL: Final = "kueue.x-k8s.io/priority-class"
PRIORITY_TAKEN: Final = "scheduling.x-k8s.io/priority-taken"
"""On a Workload: the WorkloadPriorityClass that its priority comes from, and the value of that."""
PREBUILT_LABEL: Final = "kueue.x-k8s.io/prebuilt-workload-name"
"""A label, or an annotation, of a job."""
MAX_EXEC_TIME_LABEL: Final = "kueue.x-k8s.io/max-exec-time-seconds"
MIN_PARALLELISM_ANNOTATION: Final = "kueue.x-k8s.io/job-min-parallelism"
COMPLETIONS_EQUAL_PARALLELISM: Final = "kueue.x-k8s.io/job-completions-equal-parallelism"
STOPPING_ANNOTATION: Final = "kueue.x-k8s.io/stopping"
"""On a job: marks a stop that has begun and not ended."""
STOPPED_ANNOTATION: Final = "kueue.x-k8s.io/stopped"
"""On a stopped job of an operator: what its pods had been given, and whether any ran."""
NODE_SELECTOR_ANNOTATION: Final = "kueue.x-k8s.io/node-selector"
"""On a SparkApplication that was started: its selector for both, which moved to each of them."""
JOB_UID_LABEL: Final = "kueue.x-k8s.io/job-uid"
"""On a Workload: the UID of its job."""
PODSET_LABEL: Final = "kueue.x-k8s.io/podset"
"""On pods: the pod set of the workload that they belong to."""
WORKLOAD_ANNOTATION: Final = "kueue.x-k8s.io/workload"
"""On pods of an admitted job: the name of its Workload, which may be too long for a label."""
ADMISSION_GATE: Final = "kueue.x-k8s.io/admission"
ADMISSION_GATED_BY: Final = "kueue.x-k8s.io/admission-gated-by"
"""On a job and its Workload: the controllers, separated by commas, that hold it back from its
queue. Each takes its own name away (KEP-6915 of Kueue)."""
PODSET_REQUIRED_TOPOLOGY: Final = "kueue.x-k8s.io/podset-required-topology"
"""This and the next ones are annotations of a pod template, about the topology of its pods."""
PODSET_PREFERRED_TOPOLOGY: Final = "kueue.x-k8s.io/podset-preferred-topology"
PODSET_UNCONSTRAINED_TOPOLOGY: Final = "kueue.x-k8s.io/podset-unconstrained-topology"
PODSET_SLICE_TOPOLOGY: Final = "kueue.x-k8s.io/podset-slice-required-topology"
PODSET_SLICE_SIZE: Final = "kueue.x-k8s.io/podset-slice-size"
PODSET_SLICE_LAYERS: Final = "kueue.x-k8s.io/podset-slice-required-topology-constraints"
PODSET_GROUP_NAME: Final = "kueue.x-k8s.io/podset-group-name"
TOPOLOGY_GATE: Final = "kueue.x-k8s.io/topology"
"""The scheduling gate of pods that wait for the node selector of their domain."""
MANAGED_LABEL: Final = "kueue.x-k8s.io/managed"
SUSPENDING_PARENT: Final = "kueue.x-k8s.io/pod-suspending-parent"
"""On pods in a queue: the kind of the Deployment, StatefulSet or LeaderWorkerSet, as a word."""
QUEUE_POD_GROUP_LABEL: Final = "kueue.x-k8s.io/pod-group-name"
POD_GROUP_TOTAL_COUNT: Final = "kueue.x-k8s.io/pod-group-total-count"
RETRIABLE_IN_GROUP: Final = "kueue.x-k8s.io/retriable-in-group"
ROLE_HASH: Final = "kueue.x-k8s.io/role-hash"
REQUIRE_ROOM_ANNOTATION: Final = "scheduling.x-k8s.io/require-room"
"""On a ClusterQueue, true or false: admit its workloads only if they fit on nodes. Without it the
settings decide."""
PREEMPT_FOR_ROOM_ANNOTATION: Final = "scheduling.x-k8s.io/preempt-for-room"
"""On a ClusterQueue, Never or LowerPriority: the workloads that its own may preempt for room alone.
Without it the settings decide."""
PROVISIONING_PARAMETER: Final = "provreq.kueue.x-k8s.io/"
"""The prefix of annotations of a Workload that are parameters of its ProvisioningRequests."""
RESERVED_AT: Final = "scheduling.x-k8s.io/reserved-at"
"""On a ProvisioningRequest: the time at which its workload got the quota that it is for. A request
for an earlier reservation counts for nothing."""
WORKLOAD_PRIORITY_CLASS: Final = (QUEUE_GROUP, "WorkloadPriorityClass")
POD_PRIORITY_CLASS: Final = ("scheduling.k8s.io", "PriorityClass")
IN_USE_FINALIZER: Final = "kueue.x-k8s.io/resource-in-use"
OWN_PREFIX: Final = "scheduling.x-k8s.io/"
"""The prefix of our settings on a ClusterQueue."""
WAIT_FOR_PODS_READY: Final = "scheduling.x-k8s.io/wait-for-pods-ready"
"""`true` or `false`: require that pods become ready in time. This and the next ones are
annotations, or labels, of a ClusterQueue, a job or a Workload."""
PODS_READY_TIMEOUT: Final = "scheduling.x-k8s.io/pods-ready-timeout"
PODS_READY_RECOVERY_TIMEOUT: Final = "scheduling.x-k8s.io/pods-ready-recovery-timeout"
PODS_READY_BACKOFF_LIMIT: Final = "scheduling.x-k8s.io/pods-ready-backoff-limit"
PODS_READY_BACKOFF_BASE: Final = "scheduling.x-k8s.io/pods-ready-backoff-base"
PODS_READY_BACKOFF_MAX: Final = "scheduling.x-k8s.io/pods-ready-backoff-max"
PODS_READY_BLOCK_ADMISSION: Final = "scheduling.x-k8s.io/pods-ready-block-admission"
RELEASE_QUOTA: Final = "scheduling.x-k8s.io/release-quota"
"""On a job or a ClusterQueue: OnTerminating or OnTerminal."""
JOB_OVERRIDES: Final = "scheduling.x-k8s.io/job-overrides"
"""On a ClusterQueue: the settings that its jobs may change."""
DEFAULT_QUEUE: Final = "default"
"""The LocalQueue of jobs that do not name one."""


class WorkloadCondition(StrEnum):
    """The types of a Workload's conditions."""

    QUOTA_RESERVED = "QuotaReserved"
    ADMITTED = "Admitted"
    PODS_READY = "PodsReady"
    EVICTED = "Evicted"
    PREEMPTED = "Preempted"
    REQUEUED = "Requeued"
    DEACTIVATION_TARGET = "DeactivationTarget"
    ROOM_RESERVED = "RoomReserved"
    """Our own: False while it waits for room on nodes, True while room is kept for it."""
    BLOCKED_ON_PREEMPTION_GATES = "BlockedOnPreemptionGates"
    START_BLOCKED = "StartBlocked"
    """Our own: True if its job could not be started even with quota."""
    HOSTS_LOST = "HostsLost"
    """Our own: True if hosts of its topology are gone and no others were found."""
    FINISHED = "Finished"


# -- fields, labels and annotations of Kueue that are accepted and have no effect here

# Every other field of the CRDs is honoured, or refused with a reason, and so is every name of Kueue
# above.
_KUEUE: Final = "kueue.x-k8s.io/"
_HONOURED: Final = frozenset(
    value for value in tuple(globals().values()) if isinstance(value, str) and _KUEUE in value
)
FIELDS_WITHOUT_EFFECT: Final[Mapping[str, tuple[str, ...]]] = {
    "ClusterQueue": ("fairSharing", "admissionScope", "concurrentAdmissionPolicy"),
    "Cohort": ("fairSharing",),
    # The last two are of our own first release: no Kueue has them, and neither do today's CRDs.
    "LocalQueue": ("fairSharing", "wallTimePolicy"),
    "ResourceFlavor": ("resourceWeights",),
}
"""The fields of `spec` that have no effect, by kind."""
POD_SET_FIELDS_WITHOUT_EFFECT: Final = ("podIndexLabel", "subGroupIndexLabel", "subGroupCount")
"""The fields of a pod set's `topologyRequest` that have no effect.

`podIndexLabel` has an effect if it names the completion index of a Job.
"""

INFORMATIVE: Final = frozenset(
    _KUEUE + name
    for name in (
        *("auto-generated", "cluster-queue-name", "component-workload-index"),
        *("is-group-workload", "job-owner-gvk", "job-owner-name", "local-queue-name", "manager"),
        *("multikueue-origin-uid", "multikueue-worker-workload-pod"),
        *("raycluster-generation", "raycluster-podset-replica-sizes"),
    )
)
"""The names with which Kueue describes an object. They request nothing."""


DEPLOYMENTS: Final = "/apis/apps/v1/deployments"
UNPREPARED: Final = (
    "its pod template does not name the queue: apply manifests/optional/queue-policies.yaml or "
    "webhooks.yaml, and then change the Deployment"
)
"""The reason why the pods of a Deployment with a queue are not queued, and what to do."""


def is_unprepared(deployment: Mapping[str, Any]) -> bool:
    """Return whether the pods of a Deployment that names a queue do not."""
    metadata = deployment["spec"]["template"].get("metadata") or {}
    return QUEUE_LABEL not in (metadata.get("labels") or ())


def fields_without_effect(kind: str, spec: Iterable[str]) -> tuple[str, ...]:
    """Return the paths of the fields without effect in a spec, given the names of its fields."""
    given = frozenset(spec)
    return tuple(f"spec.{name}" for name in FIELDS_WITHOUT_EFFECT.get(kind, ()) if name in given)


def names_without_effect(*names: Iterable[str]) -> tuple[str, ...]:
    """Return the labels and annotations of Kueue among the given names that have no effect."""
    found = {
        name
        for each in names
        for name in each
        if _KUEUE in name and not name.startswith(PROVISIONING_PARAMETER)
    }
    return tuple(sorted(found - _HONOURED - INFORMATIVE)) if found else ()


def no_effect_sentence(paths: Iterable[str]) -> str:
    """Return a sentence that says that fields, labels or annotations have no effect."""
    found = list(paths)
    verb = "has" if len(found) == 1 else "have"
    return f"{', '.join(found)} {verb} no effect: see docs/reference/kueue.md" if found else ""
