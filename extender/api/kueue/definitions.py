"""The kinds of the queue as CRDs: names, scopes and the columns of `kubectl get`."""

from collections.abc import Sequence
from typing import Final

from pydantic import BaseModel

from extender.api.crds import Column, Definition, Version
from extender.api.kueue import v1beta1
from extender.api.kueue.cluster_queue import ClusterQueue
from extender.api.kueue.cohort import Cohort
from extender.api.kueue.local_queue import LocalQueue
from extender.api.kueue.resource_flavor import ResourceFlavor
from extender.api.kueue.topology import Topology
from extender.api.kueue.workload import Workload
from extender.api.kueue.workload_priority_class import WorkloadPriorityClass
from extender.api.wellknown import QUEUE_GROUP, QUEUE_VERSION

_PENDING: Final = Column(
    "Pending Workloads", ".status.pendingWorkloads", "integer", "How many workloads wait for quota."
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
            description="Whether a workload may pass an earlier one that does not fit.",
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
    Column(
        "Reason",
        ".status.conditions[?(@.type=='QuotaReserved')].reason",
        description="Why the workload waits, or that it has quota.",
        wide=True,
    ),
    Column("Age", ".metadata.creationTimestamp", "date", "How old the workload is."),
)
_PRIORITY_CLASS: Final = (Column("Value", ".value", "integer", "The priority; higher goes first."),)


def _newer(model: type[BaseModel], columns: Sequence[Column] = (), *selectable: str) -> Version:
    return Version(QUEUE_VERSION, model, columns, selectable)


def _older(model: type[BaseModel], columns: Sequence[Column] = ()) -> Version:
    return Version(v1beta1.VERSION, model, columns, deprecation=v1beta1.DEPRECATION)


def _kind(
    plural: str, newer: Version, older: Version, *, short: str, scope: str = "Cluster"
) -> Definition:
    """Return a kind; `short` are its short names, separated by spaces."""
    return Definition(QUEUE_GROUP, plural, (newer, older), short.split(), scope=scope)


DEFINITIONS: Final = (
    _kind(
        "resourceflavors",
        _newer(ResourceFlavor),
        _older(v1beta1.ResourceFlavor),
        short="flavor flavors rf",
    ),
    _kind(
        "clusterqueues",
        _newer(ClusterQueue, _cluster_queue("cohortName")),
        _older(v1beta1.ClusterQueue, _cluster_queue("cohort")),
        short="cq",
    ),
    _kind(
        "localqueues",
        _newer(LocalQueue, _LOCAL_QUEUE),
        _older(v1beta1.LocalQueue, _LOCAL_QUEUE),
        short="queue queues lq",
        scope="Namespaced",
    ),
    _kind(
        "workloads",
        # The field can be selected in v1beta2 only: the API server takes the same field in two
        # versions for a field of one schema, and then refuses the CRD because the schemas differ.
        _newer(Workload, _WORKLOAD, ".status.admission.clusterQueue"),
        _older(v1beta1.Workload, _WORKLOAD),
        short="kwl kueueworkload kueueworkloads",
        scope="Namespaced",
    ),
    _kind(
        "workloadpriorityclasses",
        _newer(WorkloadPriorityClass, _PRIORITY_CLASS),
        _older(v1beta1.WorkloadPriorityClass, _PRIORITY_CLASS),
        short="wpc",
    ),
    _kind("cohorts", _newer(Cohort), _older(v1beta1.Cohort), short="co"),
    _kind("topologies", _newer(Topology), _older(v1beta1.Topology), short="topo"),
)
"""The kinds of `kueue.x-k8s.io` that the reconciler serves."""
