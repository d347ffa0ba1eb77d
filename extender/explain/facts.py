"""The facts that explanations are composed from."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Literal

from extender.api.explanations import OwnerReference, TimedCondition
from extender.gang.verdicts import NOTHING, GangOptions, Remembered
from extender.queueing.pending import PendingQueues
from extender.queueing.quota import QuotaTree
from extender.queueing.rules import AdmissionRules
from extender.state.cluster.records import ConditionInfo, PodGroupInfo
from extender.state.cluster.view import ClusterView
from extender.state.queue.records import WorkloadInfo
from extender.state.queue.view import QueueView

LARGEST_LIMIT: Final = 1000
"""The most workloads, groups or pods of one answer. A larger limit gets as many."""
NAMED: Final = 5
"""The most names of one kind that are listed where the others are counted."""


@dataclass(frozen=True, slots=True)
class Facts:
    """The queues as they are now; no value read from them survives an `await`."""

    queues: QueueView
    pending: PendingQueues
    tree: QuotaTree
    """A tree of its own: a cycle reads usage into the other."""
    rules: AdmissionRules
    cluster: ClusterView
    now: float
    """Seconds since the epoch."""
    why: Callable[[str], tuple[str, str] | None] = lambda _: None
    """Returns the reason and message that the last cycle gave for a workload, by its key."""


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """The groups as they are now; no value read from them survives an `await`."""

    view: ClusterView
    options: GangOptions
    now: float
    """Seconds since the epoch."""
    source: Literal["Extender", "ApiServer"] = "ApiServer"
    remembered: Callable[[str], Remembered] = lambda _: NOTHING
    """Returns what the extender remembers of a group."""
    never_starts: Callable[[PodGroupInfo], bool] = lambda _: False
    """Returns whether a group holds up no other one, although it goes first."""


def timed(condition: ConditionInfo) -> TimedCondition:
    """Return a condition as explanations show it."""
    return TimedCondition(
        type=condition.type,
        status=condition.status,
        reason=condition.reason,
        message=condition.message,
        last_transition_time=moment(condition.transition),
    )


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
