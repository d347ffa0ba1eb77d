"""What filter answers a member of a gang, and a pod beside it."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from extender.api.reasons import Reason
from extender.api.wellknown import GANG_GATE, GROUP_SIGS
from extender.gang.filter import beside_plans
from extender.gang.verdicts import AnyNode, FilterVerdict, GangOptions, OneNode, OneOf, Refuse
from extender.state.cluster import events as ev
from extender.state.cluster.records import JobInfo, PodInfo
from extender.state.cluster.reservations import Claim
from extender.state.cluster.store import Cluster
from tests.makers import cluster_of, key, node, nodes, planned, pod, pod_group, pods, shape
from tests.recount import check_tables
from tests.unit.gang import filtered

GANG = key("gang")
A, B, C = pods(3, 4)
ALONE = shape(1, one_per_node=True)
RIVAL = key("rival")
RIVALS = pods(3, 4, group="rival")
CONSTRAINED = replace(shape(4), individually_constrained=True)
BOUND_TO_DISK = pod("gang-0", CONSTRAINED, group="gang")
EARLIER = Refuse(Reason.NOT_ENOUGH_RESOURCES, "gang ns/gang: it failed before", deny=True)
ELSEWHERE = "gang ns/gang: the room planned for this pod is not on the nodes to choose from"
LOST = Refuse(Reason.RESERVED, ELSEWHERE, lost=True)


@dataclass(frozen=True)
class Ask:
    """One filter request in a cluster; its pod is in the cluster as well."""

    there: Sequence[Any]
    subject: PodInfo = A
    sent: Sequence[str] = ("n0", "n1", "n2")
    denied: Refuse | None = None
    permitted: bool = False
    group: str = GANG
    options: GangOptions = field(default_factory=GangOptions)

    def answer(self, cluster: Cluster) -> FilterVerdict:
        return filtered.decide(
            self.subject,
            self.group,
            self.sent,
            view=cluster.view(),
            denied=self.denied,
            permitted=self.permitted,
        )


def refuse(reason: Reason, message: str, **more: Any) -> Refuse:
    return Refuse(reason, f"gang ns/gang: {message}", **more)


def indexed(index: int, cpu: int = 4, **more: Any) -> PodInfo:
    return pod(f"i{index}", cpu, group="gang", index=index, **more)


ROOM = nodes(4, 4, 4)
FOREIGN = "example.com/budget"
GATED = [pod(f"gated-{n}", 4, group="gang", gates=(FOREIGN,)) for n in range(2)]

WANT: dict[str, tuple[Ask, FilterVerdict]] = {
    # the order of the checks: each case fails all that come after the one it is about
    "first: there is no such PodGroup": (
        Ask([], denied=EARLIER),
        refuse(Reason.POD_GROUP_NOT_FOUND, "there is no such PodGroup"),
    ),
    "second: too few pods": (
        Ask([pod_group(min_member=3), *GATED[:1]], denied=EARLIER),
        refuse(Reason.NOT_ENOUGH_PODS, "2 of the 3 pods that it needs exist"),
    ),
    "third: too many of them gated": (
        Ask([pod_group(min_member=3), *GATED], denied=EARLIER),
        refuse(Reason.GATED, "1 of the 3 pods that it needs are free of gates"),
    ),
    "fourth: denied just now": (
        Ask([pod_group(min_resources={"cpu": 99000}), B, C, ROOM], denied=EARLIER),
        refuse(Reason.RECENTLY_DENIED, "it failed before"),
    ),
    "fifth: minResources are not there": (
        Ask([pod_group(min_resources={"cpu": 9000, "memory": 0}), B, C, nodes(4, 3)], sent=("n0",)),
        refuse(
            Reason.NEVER_FITS,
            "its minResources are short of cpu 2, even with all nodes empty",
            deny=True,
        ),
    ),
    "fifth: minResources are not there now": (
        Ask(
            [pod_group(min_resources={"cpu": 7000}), B, C, nodes(4, 4), pod("old", 2, on="n0")],
            sent=("n1",),
        ),
        refuse(Reason.NOT_ENOUGH_RESOURCES, "its minResources are short of cpu 1", deny=True),
    ),
    "a permitted group's minResources are not asked for again": (
        Ask([pod_group(min_resources={"cpu": 99000}), B, C, ROOM], permitted=True),
        OneNode("n0", {A.uid: "n0", B.uid: "n1", C.uid: "n2"}),
    ),
    "sixth: not enough fit": (
        Ask([pod_group(), B, C, nodes(6, 4, 4), pod("old", 1, on="n1")], sent=("n0", "n2")),
        refuse(
            Reason.NOT_ENOUGH_RESOURCES,
            "2 of the 3 pods that it still needs fit, short of cpu 4",
            deny=True,
        ),
    ),
    "sixth: not enough would fit on empty nodes": (
        Ask([pod_group(), B, C, nodes(6, 2, 4)], sent=("n0", "n2")),
        refuse(
            Reason.NEVER_FITS,
            "2 of the 3 pods that it still needs fit, short of cpu 4, even with all nodes empty",
            deny=True,
        ),
    ),
    "what is bound may be all that is in the way: the reason is not NeverFits": (
        Ask([pod_group(), pod("b", 4, group="gang", on="n0"), C, nodes(4, 4)], sent=("n1",)),
        refuse(
            Reason.NOT_ENOUGH_RESOURCES,
            "1 of the 2 pods that it still needs fit, short of cpu 4",
            deny=True,
        ),
    ),
    "what kube-scheduler alone judges may fit: the reason is not NeverFits": (
        Ask([pod_group(), *pods(3, CONSTRAINED), nodes(4, 2)], sent=("n0",), subject=BOUND_TO_DISK),
        refuse(
            Reason.NOT_ENOUGH_RESOURCES,
            "1 of the 3 pods that it still needs fit, short of cpu 8",
            deny=True,
        ),
    ),
    "no room where kube-scheduler sees some: our watch lags, and the group did not fail": (
        Ask([pod_group(), B, C, nodes(4, 4, 4), pod("old", 4, on="n2")]),
        refuse(Reason.CACHE_BEHIND, "kube-scheduler sees room that is news here"),
    ),
    "denied before, and now there is room that is news here": (
        Ask([pod_group(), B, C, nodes(4, 4, 4), pod("old", 2, on="n2")], denied=EARLIER),
        refuse(Reason.CACHE_BEHIND, "kube-scheduler sees room that is news here"),
    ),
    "denied before, and now there is a node that is news here": (
        Ask([pod_group(), B, C, nodes(4, 4)], denied=EARLIER),
        refuse(Reason.CACHE_BEHIND, "kube-scheduler sees room that is news here"),
    ),
    "denied before, and a plan keeps the room: that is no lag": (
        Ask([pod_group(), B, C, ROOM, RIVALS, planned(rival_0="n2")], denied=EARLIER),
        refuse(Reason.RECENTLY_DENIED, "it failed before"),
    ),
    "no room on a node that we do not know yet": (
        Ask([pod_group(), B, C, nodes(4, 4)]),
        refuse(Reason.CACHE_BEHIND, "kube-scheduler sees room that is news here"),
    ),
    "no room because a plan keeps it is no lag": (
        Ask([pod_group(), B, C, ROOM, RIVALS, planned(rival_0="n2")]),
        refuse(
            Reason.WAITING_FOR_TURN,
            "2 of the 3 pods that it still needs fit beside gangs that go first",
            deny=True,
        ),
    ),
    "no room because another group has a claim to it": (
        Ask([pod_group(), B, C, ROOM, ev.Claimed([Claim(RIVAL, 0, {"n1": {"cpu": 4000}})])]),
        refuse(
            Reason.WAITING_FOR_TURN,
            "2 of the 3 pods that it still needs fit beside gangs that go first",
            deny=True,
        ),
    ),
    "its own claim is its own": (
        Ask([pod_group(), B, C, ROOM, ev.Claimed([Claim(GANG, 0, {"n1": {"cpu": 4000}})])]),
        OneNode("n0", {A.uid: "n0", B.uid: "n1", C.uid: "n2"}),
    ),
    "a claim of lower priority is none": (
        Ask([pod_group(), B, C, ROOM, ev.Claimed([Claim(RIVAL, -1, {"n1": {"cpu": 4000}})])]),
        OneNode("n0", {A.uid: "n0", B.uid: "n1", C.uid: "n2"}),
    ),
    "a gang that has started completes itself on claimed room": (
        Ask(
            [
                pod_group(),
                pod("b", 1, group="gang", on="n0"),
                C,
                nodes(5, 4, 4),
                ev.Claimed([Claim(RIVAL, 0, {"n1": {"cpu": 4000}})]),
            ]
        ),
        OneNode("n0", {A.uid: "n0", C.uid: "n1"}),
    ),
    "members that ask for another scheduler are not counted on": (
        Ask([pod_group(), B, pod("c", 4, group="gang", scheduler="other"), ROOM]),
        refuse(
            Reason.NOT_ENOUGH_PODS,
            "2 of the 3 pods that it still needs can start, 1 wait for another scheduler",
        ),
    ),
    "those that another scheduler has placed are": (
        Ask([pod_group(), B, pod("c", 4, group="gang", scheduler="other", on="n2"), ROOM]),
        OneNode("n0", {A.uid: "n0", B.uid: "n1"}),
    ),
    "pods that the Job has behind it are not needed": (
        Ask([pod_group(), B, ROOM, ev.ObjectApplied(JobInfo("j", GANG, 3, 1))]),
        OneNode("n0", {A.uid: "n0", B.uid: "n1"}),
    ),
    "a gang of mixed priorities takes no room from its lowest's equals": (
        Ask(
            [
                pod_group(min_member=2),
                pod("low", 4, group="gang", priority=1),
                nodes(4, 4),
                pods(1, 4, group="rival", priority=1),
                planned(rival_0="n1"),
            ],
            subject=replace(A, priority=9),
            sent=("n0", "n1"),
        ),
        refuse(
            Reason.WAITING_FOR_TURN,
            "1 of the 2 pods that it still needs fit beside gangs that go first",
            deny=True,
        ),
    ),
    "last: a plan": (
        Ask([pod_group(), B, C, ROOM]),
        OneNode("n0", {A.uid: "n0", B.uid: "n1", C.uid: "n2"}),
    ),
    # which pods count
    "the older API group's PodGroup will do": (
        Ask([pod_group(api_group=GROUP_SIGS), B, C, ROOM]),
        OneNode("n0", {A.uid: "n0", B.uid: "n1", C.uid: "n2"}),
    ),
    "only minMember are planned": (
        Ask([pod_group(min_member=2), B, C, ROOM]),
        OneNode("n0", {A.uid: "n0", B.uid: "n1"}),
    ),
    "older members are planned first": (
        Ask([pod_group(min_member=2), pod("young", 4, group="gang", created=9.0), B, ROOM]),
        OneNode("n0", {A.uid: "n0", B.uid: "n1"}),
    ),
    "lower indexes are planned first, however old": (
        Ask([pod_group(min_member=2), indexed(3), indexed(1, created=9.0), ROOM], indexed(0)),
        OneNode("n0", {"i0": "n0", "i1": "n1"}),
    ),
    "with room for all, the pod that is tried goes with those of lower index": (
        Ask([pod_group(min_member=2), indexed(1), indexed(0), ROOM], indexed(2)),
        OneNode("n2", {"i0": "n0", "i1": "n1", "i2": "n2"}),
    ),
    "with room for some, those of lower index go and the pod that is tried does not": (
        Ask(
            [pod_group(min_member=2), indexed(1), indexed(0), nodes(4, 4)],
            indexed(2),
            sent=("n0", "n1"),
        ),
        refuse(
            Reason.RESERVED,
            "room is left only for the pods that it starts with",
            reserve={"i0": "n0", "i1": "n1"},
        ),
    ),
    "a lower index is no reason to leave anybody out of a gang that needs all": (
        Ask([pod_group(), indexed(1), indexed(0), ROOM], indexed(2)),
        OneNode("n2", {"i0": "n0", "i1": "n1", "i2": "n2"}),
    ),
    "a lower index that no node will take goes behind": (
        Ask(
            [pod_group(min_member=1), indexed(0, unschedulable="no such volume"), nodes(4)],
            indexed(1),
            sent=("n0",),
        ),
        OneNode("n0", {"i1": "n0"}),
    ),
    "a lower index of another template goes its own way": (
        Ask([pod_group(min_member=1), indexed(0, cpu=2), nodes(4)], indexed(1), sent=("n0",)),
        OneNode("n0", {"i1": "n0"}),
    ),
    "a lower index of another Job is no earlier part of the same work": (
        Ask(
            [pod_group(min_member=1), indexed(0, controller="other"), nodes(4)],
            indexed(1, controller="own"),
            sent=("n0",),
        ),
        OneNode("n0", {"i1": "n0"}),
    ),
    "too little room even for the lower ones": (
        Ask([pod_group(min_member=2), indexed(1), indexed(0), nodes(4)], indexed(2), sent=("n0",)),
        refuse(
            Reason.NEVER_FITS,
            "1 of the 2 pods that it still needs fit, short of cpu 4, even with all nodes empty",
            deny=True,
        ),
    ),
    "members of higher priority are planned first": (
        Ask([pod_group(min_member=2), B, pod("high", 4, group="gang", priority=9), ROOM]),
        OneNode("n0", {A.uid: "n0", "high": "n1"}),
    ),
    "members behind our own gate are: it goes when there is a plan": (
        Ask([pod_group(), B, pod("c", 4, group="gang", gates=(GANG_GATE,)), ROOM]),
        OneNode("n0", {A.uid: "n0", "c": "n1", B.uid: "n2"}),
    ),
    "members behind our gate and another one are not": (
        Ask([pod_group(), B, pod("c", 4, group="gang", gates=(GANG_GATE, FOREIGN)), ROOM]),
        refuse(Reason.GATED, "2 of the 3 pods that it needs are free of gates"),
    ),
    "gated members are not planned": (
        Ask([pod_group(min_member=2), *GATED, B, ROOM]),
        OneNode("n0", {A.uid: "n0", B.uid: "n1"}),
    ),
    "members being deleted exist but are not planned": (
        Ask([pod_group(min_member=2), pod("dying", 4, group="gang", terminating=True), ROOM]),
        refuse(Reason.NOT_ENOUGH_PODS, "1 of the 2 pods that it still needs can start"),
    ),
    "bound members need no plan": (
        Ask([pod_group(), pod("b", 4, group="gang", on="n3"), C, nodes(4, 4, 4, 4)]),
        OneNode("n0", {A.uid: "n0", C.uid: "n1"}),
    ),
    "members that wait need no plan": (
        Ask([pod_group(), B, C, ROOM, ev.PodWaiting(B, "n0")], sent=("n1", "n2")),
        OneNode("n1", {A.uid: "n1", C.uid: "n2"}),
    ),
    "members that are planned need no other plan": (
        Ask([pod_group(), B, C, ROOM, planned(gang_1="n0", gang_2="n2")]),
        OneNode("n1", {A.uid: "n1"}),
    ),
    "the others of a plan may be on nodes that were not sent, on a big cluster": (
        Ask([pod_group(), B, C, nodes(*[4] * 200)], sent=[f"n{n}" for n in range(100, 200)]),
        OneNode("n100", {A.uid: "n100", B.uid: "n101", C.uid: "n102"}),
    ),
    "a sample may be too small for the others": (
        Ask(
            [
                pod_group(),
                B,
                C,
                [node(f"n{n}", 1) for n in range(200)],
                [node("x"), node("y"), node("z")],
            ],
            sent=[*(f"n{n}" for n in range(99)), "y"],
        ),
        OneNode("y", {A.uid: "y", B.uid: "x", C.uid: "z"}),
    ),
    "few nodes sent are all there are": (
        Ask([pod_group(), B, C, ROOM], sent=("n2",)),
        refuse(
            Reason.NOT_ENOUGH_RESOURCES,
            # the nodes that were not sent are not this shape's, though they look like it
            "1 of the 3 pods that it still needs fit, no node has room for another",
            deny=True,
        ),
    ),
    "one node sent because it was nominated is not all there is": (
        Ask(
            [pod_group(), B, C, ROOM],
            subject=pod(A.uid, 4, group="gang", nominated="n2"),
            sent=("n2",),
        ),
        OneNode("n2", {A.uid: "n2", B.uid: "n0", C.uid: "n1"}),
    ),
    "the room exists, but not where it was sent: refused, and kept all the same": (
        Ask(
            [
                pod_group(min_member=2),
                B,
                [node("x"), node("y")],
                [node(f"n{n}", 1) for n in range(100)],
            ],
            sent=[f"n{n}" for n in range(100)],
        ),
        Refuse(Reason.RESERVED, ELSEWHERE, reserve={A.uid: "x", B.uid: "y"}),
    ),
    "minMember of zero asks for nothing": (Ask([pod_group(min_member=0), ROOM]), AnyNode()),
    # a plan that stands
    "the planned node was sent": (
        Ask([pod_group(), B, C, ROOM, planned(gang_0="n1", gang_1="n0", gang_2="n2")]),
        OneNode("n1"),
    ),
    "a plan outlives a recent denial and a missing PodGroup": (
        Ask([B, ROOM, planned(gang_0="n1")], denied=EARLIER),
        OneNode("n1"),
    ),
    "another node of the sample has room: the room moves": (
        Ask([pod_group(), B, C, nodes(4, 4, 4, 4), planned(gang_0="n3", gang_1="n0", gang_2="n1")]),
        OneNode("n2", {A.uid: "n2"}),
    ),
    "the sample is kept for a sibling: the two are exchanged": (
        Ask(
            [pod_group(), B, C, ROOM, planned(gang_0="n0", gang_1="n1", gang_2="n2")],
            sent=("n2",),
        ),
        OneNode("n2", {A.uid: "n2", C.uid: "n0"}),
    ),
    "a sibling of another shape does not exchange": (
        Ask(
            [
                pod_group(),
                pod("small", 3, group="gang"),
                nodes(4, 4),
                planned(gang_0="n0", small="n1"),
            ],
            sent=("n1",),
        ),
        LOST,
    ),
    "the sample is kept for another gang": (
        Ask([pod_group(), B, ROOM, RIVALS, planned(gang_0="n0", rival_0="n1")], sent=("n1",)),
        LOST,
    ),
    "the sample is kept for a lesser gang": (
        Ask(
            [pod_group(), ROOM, RIVALS, planned(gang_0="n0", rival_0="n1")],
            subject=pod(A.uid, 4, group="gang", priority=1),
            sent=("n1",),
        ),
        OneNode("n1", {A.uid: "n1"}),
    ),
    "a sample of unknown nodes has no room": (
        Ask([pod_group(), ROOM, planned(gang_0="n0")], sent=("n8", "n9")),
        LOST,
    ),
    "the planned node is not in a sample of many": (
        Ask(
            [pod_group(), node("x"), [node(f"n{n}", 1) for n in range(100)], planned(gang_0="x")],
            sent=[f"n{n}" for n in range(100)],
        ),
        Refuse(Reason.RESERVED, ELSEWHERE),
    ),
    "ninety-nine nodes are all there are: the room was lost": (
        Ask(
            [pod_group(), node("x"), [node(f"n{n}", 1) for n in range(99)], planned(gang_0="x")],
            sent=[f"n{n}" for n in range(99)],
        ),
        LOST,
    ),
    "the nominated node is tried alone: nothing is lost": (
        Ask(
            [pod_group(), ROOM, RIVALS, planned(gang_0="n0", rival_0="n1")],
            subject=pod(A.uid, 4, group="gang", nominated="n1"),
            sent=("n1",),
        ),
        Refuse(Reason.RESERVED, ELSEWHERE),
    ),
    "one on a node moves only where no sibling is": (
        Ask(
            [
                pod_group(),
                *nodes(4, 4, 4),
                pod("sibling", ALONE, group="gang", on="n1"),
                planned(gang_0="n0"),
            ],
            subject=pod(A.uid, ALONE, group="gang"),
            sent=("n1", "n2"),
        ),
        OneNode("n2", {A.uid: "n2"}),
    ),
    # members that the gang can do without
    "a member above minMember goes where it likes": (
        Ask([pod_group(min_member=1), pod("b", 4, group="gang", on="n9"), ROOM]),
        AnyNode(),
    ),
    "a member above minMember takes nothing that a plan keeps": (
        Ask([pod_group(min_member=1), B, ROOM, planned(gang_1="n1")]),
        OneOf(("n0", "n2")),
    ),
    "a member above minMember finds all kept": (
        Ask([pod_group(min_member=1), B, ROOM, planned(gang_1="n1")], sent=("n1",)),
        refuse(Reason.RESERVED, "room is left only for the pods that it starts with"),
    ),
    "a member above minMember is not denied": (
        Ask([pod_group(min_member=1), B, ROOM, planned(gang_1="n1")], denied=EARLIER),
        OneOf(("n0", "n2")),
    ),
}


@pytest.mark.parametrize(("ask", "want"), WANT.values(), ids=WANT)
def test_decide(ask: Ask, want: FilterVerdict) -> None:
    """The second answer is the same, and a refusal has no per cent sign and names no node."""
    cluster = cluster_of(ask.subject, ask.there)
    for _ in range(2):
        assert ask.answer(cluster) == want
    check_tables(cluster)
    if isinstance(want, Refuse):
        assert "%" not in want.message
        assert not any(name in want.message.split() for name in ask.sent)


WANT_BESIDE: dict[str, tuple[PodInfo, Sequence[Any], FilterVerdict]] = {
    "no plans": (pod("p", 4), ROOM, AnyNode()),
    "a plan elsewhere": (
        pod("p", 4),
        [*nodes(4, 4, 4, 4), RIVALS, planned(rival_0="n3")],
        AnyNode(),
    ),
    "a plan leaves room": (
        pod("p", 1),
        [*nodes(5, 4, 4), RIVALS, planned(rival_0="n0")],
        AnyNode(),
    ),
    "a plan leaves no room": (
        pod("p", 1),
        [*ROOM, RIVALS, planned(rival_0="n0")],
        OneOf(("n1", "n2")),
    ),
    "plans leave no room anywhere": (
        pod("p", 1),
        [*ROOM, RIVALS, planned(rival_0="n0", rival_1="n1", rival_2="n2")],
        Refuse(Reason.RESERVED, "room is kept for a gang that goes first"),
    ),
    "a plan of lesser ones": (
        pod("p", 1, priority=1),
        [*ROOM, RIVALS, planned(rival_0="n0")],
        AnyNode(),
    ),
    "a full node without a plan is kube-scheduler's business": (
        pod("p", 4),
        [*ROOM, pod("other", 4, on="n1")],
        AnyNode(),
    ),
    "an unknown node without a plan is kube-scheduler's business": (
        pod("p", 4),
        nodes(4, 4),
        AnyNode(),
    ),
    "a pod that asks for nothing but a slot": (
        pod("p", 0),
        [*ROOM, RIVALS, planned(rival_0="n0")],
        AnyNode(),
    ),
}


@pytest.mark.parametrize(("subject", "there", "want"), WANT_BESIDE.values(), ids=WANT_BESIDE)
def test_beside_plans(subject: PodInfo, there: Sequence[Any], want: FilterVerdict) -> None:
    view = cluster_of(there).view()

    assert beside_plans(subject, ("n0", "n1", "n2"), view=view) == want


def test_a_plan_does_not_take_room_that_its_betters_keep() -> None:
    """following a plan does not look at what a later plan of higher priority keeps."""
    low, high = pod("low", 4, group="low"), pod("high", 4, group="high", priority=9)
    view = cluster_of(
        nodes(4), low, high, pod_group("low", 1), planned(low="n0"), planned(high="n0")
    ).view()

    verdict = filtered.decide(low, key("low"), ("n0",), view=view, denied=None)

    assert isinstance(verdict, Refuse)


WANT_TIMEOUT: dict[str, tuple[float | None, float]] = {
    "the PodGroup does not say": (None, 60.0),
    "the PodGroup says": (5.0, 5.0),
    "the PodGroup says more than may be": (1000.0, 900.0),
}


@pytest.mark.parametrize(("asked", "want"), WANT_TIMEOUT.values(), ids=WANT_TIMEOUT)
def test_the_time_to_wait(asked: float | None, want: float) -> None:
    assert GangOptions().timeout(asked) == want
