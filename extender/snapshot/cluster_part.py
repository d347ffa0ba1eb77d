"""The part of a snapshot that is the cluster's state."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from extender.snapshot.plain import KnownShapes, Plain, ShapeNumbers, plain, typed
from extender.state.cluster.copies import ClusterCopy, UnseenPod
from extender.state.cluster.events import NativesDecided
from extender.state.cluster.records import (
    AdmittedPods,
    BudgetInfo,
    JobInfo,
    NodeInfo,
    PodGroupInfo,
    Refusal,
)
from extender.state.cluster.reservations import Claim, Reservation, ReservationKind, VictimsRoom

NAME: Final = "cluster"


def lists_of(copy: ClusterCopy, numbers: ShapeNumbers) -> Mapping[str, Iterable[object]]:
    """Return the lists of the part, to be gone through in this order."""
    return {
        "nodes": map(plain, copy.nodes),
        "natives": [plain(copy.natives)] if copy.natives is not None else [],
        "podGroups": map(plain, copy.pod_groups),
        "jobs": map(plain, copy.jobs),
        "workloads": map(plain, copy.workloads),
        "budgets": map(plain, copy.budgets),
        "pods": map(numbers.pod, copy.in_order()),
        "ended": map(numbers.pod, copy.ended),
        "seen": copy.seen.items(),
        "refused": ({"pod": numbers.pod(r.pod), "reason": r.reason} for r in copy.refused),
        "reserved": ([each.owner, each.kind, each.node] for each in copy.reserved),
        "claims": (plain(each, "kind", "made_for") for each in copy.claims),
        "grants": copy.grants,
        "nominated": (plain(each, "kind") for each in copy.nominated),
        "failedAt": copy.failed_at.items(),
        "unseen": (
            {"before": numbers.pod(each.before), "node": each.node, "shown": each.shown}
            for each in copy.unseen
        ),
        "allUnseen": [True] if copy.all_unseen else [],
    }


def copy_of(part: Mapping[str, list[Any]], shapes: KnownShapes) -> ClusterCopy:
    """Return the copy that was written. Raises msgspec.ValidationError and LookupError."""
    pods = {each["uid"]: shapes.pod(each) for each in part["pods"]}

    def reserved(value: list[str]) -> Reservation:
        owner, kind, node = value
        pod = pods[owner]
        amounts = {node: pod.shape.requests}
        return Reservation(owner, pod.priority, amounts, ReservationKind(kind))

    return ClusterCopy(
        nodes=[typed(each, NodeInfo) for each in part["nodes"]],
        natives=_natives(part.get("natives")),
        pod_groups=[typed(each, PodGroupInfo) for each in part["podGroups"]],
        jobs=[typed(each, JobInfo) for each in part["jobs"]],
        workloads=[typed(each, AdmittedPods) for each in part.get("workloads", ())],
        budgets=[typed(each, BudgetInfo) for each in part["budgets"]],
        pods=pods,
        ended=[shapes.pod(each) for each in part["ended"]],
        seen=dict(part["seen"]),
        refused=[Refusal(shapes.pod(each["pod"]), each["reason"]) for each in part["refused"]],
        reserved=[reserved(each) for each in part["reserved"]],
        claims=[typed(_claim(each), Claim) for each in part["claims"]],
        grants=part["grants"],
        nominated=[typed(_nominated(each), VictimsRoom) for each in part["nominated"]],
        failed_at=dict(part["failedAt"]),
        unseen=[
            UnseenPod(shapes.pod(each["before"]), each["node"], each["shown"])
            for each in part["unseen"]
        ],
        all_unseen=bool(part["allUnseen"]),
    )


def _natives(part: list[Plain] | None) -> NativesDecided | None:
    """Return what is known of native gangs; a file may be older than these."""
    return typed(part[0], NativesDecided) if part else None


def _claim(value: Plain) -> Plain:
    return {**value, "kind": ReservationKind.CLAIMED}


def _nominated(value: Plain) -> Plain:
    return {**value, "kind": ReservationKind.NOMINATED}
