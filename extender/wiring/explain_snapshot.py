"""`gang-extender explain --from-snapshot`: the same explanations, of what a process believed."""

from dataclasses import dataclass
from functools import partial

from extender.api.gang_explanations import GroupExplanation, PodOutlook
from extender.api.visibility_v1beta2 import Explanation
from extender.explain.explanation import explain
from extender.explain.facts import Facts
from extender.explain.gang import explain_group
from extender.explain.gang_facts import GroupFacts
from extender.explain.pod import explain_pod
from extender.queueing.quota import QuotaTree
from extender.queueing.room import AdmissionRules
from extender.room.nodes import NodeRoom
from extender.snapshot.header import SnapshotError
from extender.snapshot.reading import Snapshot
from extender.state.cluster.records import PodGroupInfo, PodInfo
from extender.state.queue.view import QueueView
from extender.steps import at_once
from extender.wiring.explain import (
    ExplainTarget,
    NothingToExplainError,
    is_kind,
    unqueued,
    workload_of,
)
from extender.wiring.explain_groups import facts_of, no_group


@dataclass(frozen=True, slots=True)
class StoppedClock:
    """The time at which a snapshot was taken."""

    now: float

    def monotonic(self) -> float:
        """Return seconds since some fixed moment."""
        return self.now

    def wall(self) -> float:
        """Return seconds since the epoch."""
        return self.now


def workload_then(asked: ExplainTarget, snapshot: Snapshot) -> Explanation:
    """Return why a workload, or that of a job, was where it was.

    Raises NothingToExplainError, AmbiguousError, and SnapshotError where the snapshot has no
    queues.
    """
    facts = queue_facts(snapshot)
    key = f"{asked.namespace}/{asked.name}"
    if asked.is_job:
        key = workload_of(asked, facts.queues) or _absent(asked, facts.queues)
    found = explain(key, facts)
    if found is None:
        raise NothingToExplainError(f"there is no Workload {key} in the snapshot")
    return found


def group_then(key: str, snapshot: Snapshot) -> GroupExplanation:
    """Return why a group, `namespace/name`, was where it was. Raises NothingToExplainError."""
    found = at_once(explain_group(key, group_facts(key, snapshot)))
    if found is None:
        raise NothingToExplainError(f"in the snapshot {no_group(key, snapshot.cluster.view())}")
    return found


def pod_then(key: str, snapshot: Snapshot) -> PodOutlook:
    """Return why a pod, `namespace/name`, was where it was. Raises NothingToExplainError."""
    pod = _pod(key, snapshot)
    if pod is None:
        raise NothingToExplainError(
            f"there is no Pod {key} in the snapshot, which has none that have ended but members "
            "of gangs"
        )
    return at_once(explain_pod(pod, group_facts(pod.group, snapshot)))


def queue_facts(snapshot: Snapshot) -> Facts:
    """Return what an explanation of a workload is composed from. Raises SnapshotError."""
    if snapshot.queues is None or snapshot.admission is None:
        process = snapshot.header.process
        why = "the reconciler's" if process == "extender" else "one of a reconciler with queues"
        raise SnapshotError(
            f"this is a snapshot of the {process}, which has no queues: take {why} "
            "(gang-extender snapshot --process reconciler)"
        )
    queues, cluster = snapshot.queues.view(), snapshot.cluster.view()
    return Facts(
        queues,
        snapshot.pending(),
        QuotaTree(queues),
        AdmissionRules(snapshot.admission, NodeRoom(queues, cluster), queues.flavors),
        cluster,
        snapshot.header.now,
        snapshot.reasons.get,
    )


def group_facts(group: str | None, snapshot: Snapshot) -> GroupFacts:
    """Return what an explanation of a group, or of a pod of it, is composed from.

    The reconciler has no plans: then these are made, as for what the API server says.
    """
    view, now = snapshot.cluster.view(), snapshot.header.now
    if snapshot.groups is None:
        return facts_of(snapshot.cluster, group, snapshot.gang, clock=StoppedClock(now))
    return GroupFacts(
        view,
        snapshot.gang,
        now,
        source="Extender",
        remembered=snapshot.remembered,
        never_starts=partial(_never_starts, snapshot),
    )


def _never_starts(snapshot: Snapshot, pod_group: PodGroupInfo) -> bool:
    return snapshot.never_starts(pod_group.key)


def _pod(key: str, snapshot: Snapshot) -> PodInfo | None:
    view = snapshot.cluster.view()
    ended = (pod for group in view.pod_groups for pod in view.finished(group).values())
    found = [pod for each in (view.pods.values(), ended) for pod in each if pod.key == key]
    return found[0] if found else None


def _absent(asked: ExplainTarget, view: QueueView) -> str:
    """Raise NothingToExplainError with the reason why a job has no Workload."""
    for job in view.jobs.values():
        meta = job.meta
        if (meta.namespace, meta.name) == (asked.namespace, asked.name) and is_kind(
            asked.kind, job.kind, job.kind.rpartition("/")[2]
        ):
            what = f"{job.kind} {meta.key}"
            queued = unqueued(what, meta.namespace, job.kind, has_queue=bool(job.queue_name))
            raise NothingToExplainError(queued)
    kind = asked.kind or "job"
    raise NothingToExplainError(
        f"the snapshot has no {kind} {asked.namespace}/{asked.name}, and no Workload of a job of "
        "that name"
    )
