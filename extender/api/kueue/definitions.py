"""The kinds of the queue as CRDs: names, scopes and the columns of `kubectl get`."""

from typing import Final

from pydantic import BaseModel

from extender.api.crds import Column, Definition, Version
from extender.api.kueue import v1beta1
from extender.api.kueue.cluster_queue import ClusterQueue
from extender.api.kueue.cohort import Cohort
from extender.api.kueue.fields import GROUP, VERSION
from extender.api.kueue.local_queue import LocalQueue
from extender.api.kueue.resource_flavor import ResourceFlavor
from extender.api.kueue.workload import Workload
from extender.api.kueue.workload_priority_class import WorkloadPriorityClass

_PENDING: Final = Column(
    "Pending Workloads",
    ".status.pendingWorkloads",
    "integer",
    "How many workloads wait for quota.",
)


def _admitted(*, wide: bool) -> Column:
    return Column(
        "Admitted Workloads",
        ".status.admittedWorkloads",
        "integer",
        "How many workloads are admitted and have not finished.",
        wide=wide,
    )


def _condition(kind: str, description: str) -> Column:
    path = f".status.conditions[?(@.type=='{kind}')].status"
    return Column(kind, path, description=description)


def _cluster_queue(cohort: str) -> tuple[Column, ...]:
    return (
        Column("Cohort", f".spec.{cohort}", description="The cohort that the queue is in."),
        Column(
            "Strategy",
            ".spec.queueingStrategy",
            description="Who may pass whom in the queue.",
            wide=True,
        ),
        _PENDING,
        _admitted(wide=True),
    )


_LOCAL_QUEUE: Final = (
    Column("ClusterQueue", ".spec.clusterQueue", description="Where the workloads wait."),
    _PENDING,
    _admitted(wide=False),
)
_WORKLOAD: Final = (
    Column("Queue", ".spec.queueName", description="The LocalQueue of the workload."),
    Column(
        "Reserved in",
        ".status.admission.clusterQueue",
        description="The ClusterQueue whose quota it has.",
    ),
    _condition("Admitted", "Whether the job may run."),
    _condition("Finished", "Whether the job has ended."),
    Column("Age", ".metadata.creationTimestamp", "date", "How old the workload is."),
)
_PRIORITY_CLASS: Final = (Column("Value", ".value", "integer", "The priority; higher goes first."),)

# Of v1beta2 only: the API server takes the same selectable fields in two versions for fields of a
# schema that both have in common, and then refuses the CRD because the schemas differ.
_BY_QUEUE: Final = (".status.admission.clusterQueue",)


def _older(model: type[BaseModel], columns: tuple[Column, ...] = ()) -> Version:
    return Version(v1beta1.VERSION, model, columns, deprecation=v1beta1.DEPRECATION)


DEFINITIONS: Final = (
    Definition(
        group=GROUP,
        plural="resourceflavors",
        versions=(Version(VERSION, ResourceFlavor), _older(v1beta1.ResourceFlavor)),
        short_names=("flavor", "flavors", "rf"),
        scope="Cluster",
    ),
    Definition(
        group=GROUP,
        plural="clusterqueues",
        versions=(
            Version(VERSION, ClusterQueue, _cluster_queue("cohortName")),
            _older(v1beta1.ClusterQueue, _cluster_queue("cohort")),
        ),
        short_names=("cq",),
        scope="Cluster",
    ),
    Definition(
        group=GROUP,
        plural="localqueues",
        versions=(
            Version(VERSION, LocalQueue, _LOCAL_QUEUE),
            _older(v1beta1.LocalQueue, _LOCAL_QUEUE),
        ),
        short_names=("queue", "queues", "lq"),
    ),
    Definition(
        group=GROUP,
        plural="workloads",
        versions=(
            Version(VERSION, Workload, _WORKLOAD, _BY_QUEUE),
            _older(v1beta1.Workload, _WORKLOAD),
        ),
        short_names=("kwl", "kueueworkload", "kueueworkloads"),
    ),
    Definition(
        group=GROUP,
        plural="workloadpriorityclasses",
        versions=(
            Version(VERSION, WorkloadPriorityClass, _PRIORITY_CLASS),
            _older(v1beta1.WorkloadPriorityClass, _PRIORITY_CLASS),
        ),
        short_names=("wpc",),
        scope="Cluster",
    ),
    Definition(
        group=GROUP,
        plural="cohorts",
        versions=(Version(VERSION, Cohort), _older(v1beta1.Cohort)),
        short_names=("co",),
        scope="Cluster",
    ),
)
"""The kinds of `kueue.x-k8s.io` that the reconciler serves."""
