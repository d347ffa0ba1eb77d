"""What the answer is to why a group is not scheduled."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from extender.api.reasons import Reason
from extender.gang.status import maker_of, pending_of
from extender.gang.verdicts import GangOptions, Pending
from extender.state.cluster import events as ev
from extender.state.cluster.records import JobInfo
from extender.state.cluster.reservations import Claim
from tests.makers import cluster_of, key, node, nodes, pod, pod_group, pods

THREE = pods(3, 4)
OLDER = [pod_group("older", 1, created=-1.0), pods(1, 4, group="older")]
STATEFUL, WORKERS = "statefulset.kubernetes.io/pod-name", "leaderworkerset.sigs.k8s.io/name"
NO_VOLUME = "0/2 nodes are available: no volume."
BOOTS = (
    "0/9 nodes are available: 4 node(s) had untolerated taint(s), 5 node(s) didn't match Pod's "
    "node affinity/selector. no new claims to deallocate, preemption: 0/9 nodes are available: "
    "9 Preemption is not helpful for scheduling."
)
TAINT_AND_VOLUME = (
    "0/2 nodes are available: 1 node(s) had untolerated taint(s), 1 node(s) had volume node "
    "affinity conflict. preemption: 0/2 nodes are available: 2 Preemption is not helpful."
)

WANT: dict[str, tuple[Sequence[Any], Pending]] = {
    "no PodGroup": ([THREE], Pending(Reason.POD_GROUP_NOT_FOUND, "there is no such PodGroup")),
    "pods are missing": (
        [pod_group(), THREE[:2], nodes(9)],
        Pending(Reason.NOT_ENOUGH_PODS, "2 of the 3 pods that it needs exist"),
    ),
    "more pods of a StatefulSet may not come": (
        [pod_group(), pod("s-0", group="gang", labels={STATEFUL: "s-0"}), nodes(9)],
        Pending(
            Reason.NOT_ENOUGH_PODS,
            "1 of the 3 pods that it needs exist; a StatefulSet makes a pod when the one before is "
            "ready, unless its podManagementPolicy is Parallel",
        ),
    ),
    "more workers of a leader may not come": (
        [pod_group(), pod("l", group="gang", labels={STATEFUL: "l", WORKERS: "l"}), nodes(9)],
        Pending(
            Reason.NOT_ENOUGH_PODS,
            "1 of the 3 pods that it needs exist; a LeaderWorkerSet makes workers when their "
            "leader is ready, unless its startupPolicy is LeaderCreated; all its groups are one "
            "gang",
        ),
    ),
    "a StatefulSet has all of its pods": (
        [pod_group(min_member=1), pod("s-0", group="gang", labels={STATEFUL: "s-0"}), nodes(9)],
        Pending(Reason.WAITING_FOR_BIND, "1 pods can start, 1 are needed and fit"),
    ),
    "gated": (
        [pod_group(), THREE[:2], pod("g", group="gang", gates=("x",)), nodes(9)],
        Pending(Reason.GATED, "2 of the 3 pods that it needs are free of gates"),
    ),
    "no room now": (
        [pod_group(), THREE, nodes(4, 4, 4), pod("x", 1, on="n1"), node("c", unschedulable=True)],
        Pending(
            Reason.NOT_ENOUGH_RESOURCES,
            "3 pods exist, 2 of the 3 pods that it still needs fit, short of cpu 4, "
            "on 3 usable of 4 nodes",
        ),
    ),
    "no room ever": (
        [pod_group(), THREE, nodes(4, 4), OLDER],
        Pending(
            Reason.NEVER_FITS,
            "3 pods exist, 2 of the 3 pods that it still needs fit, short of cpu 4, "
            "even with all nodes empty, on 2 usable of 2 nodes",
        ),
    ),
    "minResources": (
        [pod_group(min_resources={"cpu": 13000}), THREE, nodes(8, 8), pod("x", 5, on="n0"), OLDER],
        Pending(
            Reason.NOT_ENOUGH_RESOURCES,
            "3 pods exist, its minResources are short of cpu 2, on 2 usable of 2 nodes; "
            "ahead of it: ns/older",
        ),
    ),
    "others go first": (
        [
            pod_group(),
            THREE,
            nodes(4, 4, 4),
            ev.Claimed([Claim("ns/older", 0, {"n0": {"cpu": 4000}})]),
            OLDER,
        ],
        Pending(
            Reason.WAITING_FOR_TURN,
            "3 pods exist, 2 of the 3 pods that it still needs fit beside gangs that go first, "
            "on 3 usable of 3 nodes; ahead of it: ns/older",
        ),
    ),
    "nothing speaks against it": (
        [pod_group(), pods(4, 4), nodes(8, 8)],
        Pending(Reason.WAITING_FOR_BIND, "4 pods can start, 3 are needed and fit"),
    ),
    "those ahead are named and counted": (
        [
            pod_group(min_member=1),
            pods(1),
            nodes(8, 8),
            *([pod_group(f"o{n}", 1, created=-9.0 + n), pods(1, group=f"o{n}")] for n in range(5)),
        ],
        Pending(
            Reason.WAITING_FOR_BIND,
            "1 pods can start, 1 are needed and fit; ahead of it: ns/o0, ns/o1, ns/o2 and 2 more",
        ),
    ),
    "those of other namespaces are not named": (
        [
            pod_group(min_member=1),
            pods(1),
            nodes(8, 8),
            replace(pod_group("secret", 1, created=-9.0), namespace="other"),
            replace(pod("p", group="secret"), namespace="other", group="other/secret"),
        ],
        Pending(
            Reason.WAITING_FOR_BIND,
            "1 pods can start, 1 are needed and fit; ahead of it: 1 of other namespaces",
        ),
    ),
    "kube-scheduler sees what the plan does not": (
        [pod_group(min_member=2), pods(2, unschedulable=NO_VOLUME), nodes(8)],
        Pending(
            Reason.MEMBER_UNSCHEDULABLE,
            f"kube-scheduler finds no node for 2 of its pods: {NO_VOLUME}",
        ),
    ),
    "a taint is what plans see themselves": (
        [pod_group(min_member=1), pods(1, unschedulable=BOOTS), nodes(8)],
        Pending(Reason.WAITING_FOR_BIND, "1 pods can start, 1 are needed and fit"),
    ),
    "a taint of some nodes explains nothing about the others": (
        [pod_group(min_member=1), pods(1, unschedulable=TAINT_AND_VOLUME), nodes(8)],
        Pending(
            Reason.MEMBER_UNSCHEDULABLE,
            f"kube-scheduler finds no node for 1 of its pods: {TAINT_AND_VOLUME}",
        ),
    ),
    "our own sentence is not kube-scheduler's": (
        [pod_group(min_member=1), pods(1, unschedulable="1 gang ns/gang: no."), nodes(8)],
        Pending(Reason.WAITING_FOR_BIND, "1 pods can start, 1 are needed and fit"),
    ),
    "its job is not admitted": (
        [
            pod_group(min_member=1),
            pods(1, controller="j", owners=("ns/job",)),
            nodes(8),
            ev.ObjectApplied(JobInfo("j", held_by_queue="ns/job")),
        ],
        Pending(Reason.NOT_ADMITTED, "job ns/job has a queue and is not admitted"),
    ),
    "all have a node": (
        [pod_group(min_member=1), pods(1, on="n0"), nodes(8)],
        Pending(Reason.WAITING_FOR_BIND, "its pods are on their way"),
    ),
}


@pytest.mark.parametrize(("there", "want"), WANT.values(), ids=WANT)
def test_decide(there: Sequence[Any], want: Pending) -> None:
    view = cluster_of(there).view()

    assert pending_of(key("gang"), view=view, options=GangOptions()) == want


@pytest.mark.parametrize(("there", "want"), WANT.values(), ids=WANT)
def test_on_a_cluster_that_grows_no_group_is_too_large(there: Sequence[Any], want: Pending) -> None:
    view = cluster_of(there, growing=True).view()
    # Of minResources no more counts than its three pods request.
    text = want.message.replace(
        "minResources are short of cpu 2", "minResources are short of cpu 1"
    )
    never = want.reason is Reason.NEVER_FITS
    want = replace(want, reason=Reason.WAITING_FOR_NODES if never else want.reason, message=text)

    assert pending_of(key("gang"), view=view, options=GangOptions()) == want


def test_in_strict_order_one_waits_for_those_ahead() -> None:
    view = cluster_of(pod_group(min_member=1), pods(1), nodes(8, 8), OLDER).view()
    strict = GangOptions(strict_order=True)

    assert pending_of(key("gang"), view=view, options=strict) == Pending(
        Reason.WAITING_FOR_TURN, "it would fit, but the order is strict; ahead of it: ns/older"
    )
    first = pending_of(key("older"), view=view, options=strict)
    assert first.reason is Reason.WAITING_FOR_BIND


@pytest.mark.parametrize("label", ["odd", ""])
def test_a_label_that_names_no_stateful_set_is_not_asked_for(label: str) -> None:
    assert maker_of([pod("p", labels={STATEFUL: label})]) is None
