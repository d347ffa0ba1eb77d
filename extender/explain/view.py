"""What an explanation is composed from, and the words that all of them need."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from extender.api.visibility_v1beta2 import OwnerReference
from extender.queueing.options import Options
from extender.queueing.pending import PendingQueues
from extender.queueing.quota import QuotaTree
from extender.queueing.room import Room
from extender.state.queues.records import WorkloadInfo
from extender.state.queues.snapshot import QueueSnapshot
from extender.state.snapshot import Snapshot

Why = Callable[[str], tuple[str, str] | None]
"""What the last cycle said of a workload by its key: reason and message."""


@dataclass(frozen=True, slots=True)
class View:
    """The state as it is now; not to be kept across an `await`."""

    queues: QueueSnapshot
    pending: PendingQueues
    tree: QuotaTree
    """One of its own: a cycle reads usage into the other."""
    options: Options
    cluster: Snapshot
    now: float
    why: Why = lambda _: None
    room: Room | None = None


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
