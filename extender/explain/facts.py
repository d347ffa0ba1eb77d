"""What an explanation is composed from, and the words that all of them need."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from extender.api.visibility_v1beta2 import OwnerReference
from extender.queueing.pending import PendingQueues
from extender.queueing.quota import QuotaTree
from extender.queueing.room import AdmissionRules
from extender.state.cluster.view import ClusterView
from extender.state.queue.records import WorkloadInfo
from extender.state.queue.view import QueueView

Why = Callable[[str], tuple[str, str] | None]
"""The reason and message that the last cycle gave for a workload, by its key."""


@dataclass(frozen=True, slots=True)
class Facts:
    """The state as it is now; no value read from it survives an `await`."""

    queues: QueueView
    pending: PendingQueues
    tree: QuotaTree
    """One of its own: a cycle reads usage into the other."""
    rules: AdmissionRules
    cluster: ClusterView
    now: float
    why: Why = lambda _: None


def moment(seconds: float) -> datetime:
    """Return seconds since the epoch as a time, in whole seconds as the API has them."""
    return datetime.fromtimestamp(int(seconds), UTC)


def owners_of(workload: WorkloadInfo) -> list[OwnerReference]:
    """Return the job of a workload first, then whatever else owns it."""
    owners = sorted(workload.owners, key=lambda owner: not owner.controller)
    return [
        OwnerReference(
            api_version=owner.api_version,
            kind=owner.kind,
            name=owner.name,
            uid=owner.uid,
            controller=owner.controller,
        )
        for owner in owners
    ]


def job_of(workload: WorkloadInfo) -> str | None:
    """Return kind and name of the job, or of the first of the objects that are it together."""
    owners = owners_of(workload)
    return f"{owners[0].kind}/{owners[0].name}" if owners else None
