"""A copy of all that the state holds, and the state made again from a copy.

A copy shares the records, which never change; so it takes milliseconds, even of 100,000 pods, and
stays as it is while the state goes on. It has the facts, and what is in no object of the API
server: reserved room, refusals, failures, what kube-scheduler has not seen. It lacks what only
says to readers where to look again: numbers of versions, and what kube-scheduler has said of nodes
for pods of a pattern.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from extender.state.cluster.events import NativesDecided
from extender.state.cluster.records import (
    AdmittedPods,
    BudgetInfo,
    JobInfo,
    NodeInfo,
    PodGroupInfo,
    PodInfo,
    Refusal,
)
from extender.state.cluster.reservations import Claim, Reservation, VictimsRoom
from extender.state.cluster.unseen import Unseen
from extender.state.cluster.view import ClusterTables


@dataclass(frozen=True, slots=True)
class UnseenPod:
    """A pod that kube-scheduler may not have seen on its node."""

    before: PodInfo
    """As it was before it was bound, but in the group in which it is now."""
    node: str
    shown: bool = False
    """Whether our watch shows it on its node."""


@dataclass(frozen=True, slots=True)
class ClusterCopy:
    """All that is believed of a cluster, each kind in the order in which it came."""

    nodes: Sequence[NodeInfo] = ()
    natives: NativesDecided | None = None
    """What is known of native gangs; None while it is not known whether they are ours."""
    pod_groups: Sequence[PodGroupInfo] = ()
    jobs: Sequence[JobInfo] = ()
    workloads: Sequence[AdmittedPods] = ()
    budgets: Sequence[BudgetInfo] = ()
    pods: Mapping[str, PodInfo] = field(default_factory=dict)
    """Those that have not finished, by UID."""
    members: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """By group, where that may be another one: the UIDs of its pods in its own order."""
    ended: Sequence[PodInfo] = ()
    """Members that have finished, where those are watched."""
    seen: Mapping[str, bool] = field(default_factory=dict)
    """UIDs of pods that only requests have shown; whether a list has begun since."""
    refused: Sequence[Refusal] = ()
    reserved: Sequence[Reservation] = ()
    """Room of pods."""
    claims: Sequence[Claim] = ()
    grants: Sequence[str] = ()
    """Groups that have the room which their PodGroup says."""
    nominated: Sequence[VictimsRoom] = ()
    failed_at: Mapping[str, float] = field(default_factory=dict)
    """When groups failed, in seconds since the epoch."""
    unseen: Sequence[UnseenPod] = ()
    """Those that our watch shows in the order in which it did."""
    all_unseen: bool = False
    """Whether there may be other unseen pods on any node."""

    def in_order(self) -> Iterator[PodInfo]:
        """Yield the pods, members of each group in its own order."""
        turns = {group: iter(uids) for group, uids in self.members.items()}
        for pod in self.pods.values():
            turn = turns.get(pod.group) if turns and pod.group is not None else None
            yield self.pods[next(turn)] if turn is not None else pod


def copied(tables: ClusterTables) -> ClusterCopy:
    """Return a copy of the state as it is now."""
    reserved, unseen = tables.reservations, tables.unseen
    return ClusterCopy(
        nodes=[*tables.nodes.values()],
        natives=tables.natives.decided(),
        pod_groups=[*tables.pod_groups.values()],
        jobs=[*tables.jobs.by_uid.values()],
        workloads=[*tables.admissions.workloads.values()],
        budgets=[budget for there in tables.budgets.values() for budget in there.values()],
        pods={**tables.pods},
        members={group: [*tables.groups[group].members] for group in tables.joined},
        ended=[*tables.ended.values()],
        seen={**tables.seen},
        refused=[*tables.refused.values()],
        reserved=[*reserved.pods.values()],
        claims=[*reserved.claims.values()],
        grants=[*reserved.grants],
        nominated=[*reserved.nominated.values()],
        failed_at={**tables.failed_at},
        unseen=_unseen(unseen, tables.pods),
        all_unseen=unseen.everywhere,
    )


def _unseen(unseen: Unseen, pods: Mapping[str, PodInfo]) -> list[UnseenPod]:
    found = [(unseen.number(pod.uid), pod) for pod in unseen.pods]
    found.sort(key=lambda each: (each[0] is None, each[0] or 0, each[1].uid))
    nodes = (unseen.node(pod.uid) for _, pod in found)
    return [
        UnseenPod(_in_group(pod, pods[pod.uid].group), node, shown=number is not None)
        for (number, pod), node in zip(found, nodes, strict=True)
        if node is not None
    ]


def _in_group(pod: PodInfo, group: str | None) -> PodInfo:
    return pod if pod.group == group else replace(pod, group=group)
