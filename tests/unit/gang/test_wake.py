"""Which pods to wake."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from extender.api.reasons import Reason
from extender.api.wellknown import GANG_GATE, GROUP_NATIVE
from extender.gang import wake
from extender.gang.filter import DRY_ROUND
from extender.gang.wake import (
    MOST_LOOKS,
    WOKEN_BY,
    Occasion,
    Wake,
    _Rooms,
    decide_group,
    deciding_room,
    is_not_admitted,
    refused_before,
)
from extender.state.cluster import events as ev
from extender.state.cluster.records import JobInfo, PodInfo
from extender.state.cluster.reservations import Claim
from extender.state.cluster.store import Cluster
from extender.state.cluster.view import ClusterView
from extender.steps import PIECE, at_once
from tests.makers import cluster_of, key, nodes, observe, planned, pod, pod_group, pods, shape

A, B, C, D = pods(4, 1)
ROOM = nodes(8)
OURS = [pod(f"ours-{n}", group="gang", gates=(GANG_GATE,)) for n in range(3)]
CLAIMING = replace(OURS[1], shape=replace(shape(1), individually_constrained=True))
FOREIGN = pod("foreign", group="gang", gates=(GANG_GATE, "example.com/budget"))

QUEUED = JobInfo("u-job", key("gang"), 3, held_by_queue="ns/job")


def decide_room(**asked: Any) -> Wake:
    return at_once(deciding_room(**asked))


def refused(*members: PodInfo, reason: Reason = Reason.NOT_ENOUGH_PODS) -> list[ev.PodRefused]:
    return [ev.PodRefused(member, reason) for member in members]


def being_bound(*members: PodInfo) -> list[ev.PodBinding]:
    return [ev.PodBinding(member, "n0") for member in members]


LACKED_ROOM = {"reason": Reason.NOT_ENOUGH_RESOURCES}
NO_PLACE = {"reason": Reason.RESERVED}

WANT: dict[str, tuple[Sequence[Any], Wake]] = {
    "no pod was refused": ([pod_group(), A, B, C], Wake()),
    "quorum of pods: one is enough": ([pod_group(), A, B, C, *refused(A, B)], Wake((A,))),
    "still too few pods": ([pod_group(), A, B, *refused(A, B)], Wake()),
    "still no PodGroup": ([A, B, C, *refused(A, B, C, reason=Reason.POD_GROUP_NOT_FOUND)], Wake()),
    "the PodGroup is there": (
        [A, B, C, *refused(A, B, C, reason=Reason.POD_GROUP_NOT_FOUND), pod_group()],
        Wake((A,)),
    ),
    "too many are gated": ([pod_group(), A, B, FOREIGN, *refused(A, B)], Wake()),
    "a pod that lacked room is not tried for a change of the group": (
        [pod_group(), A, B, C, *refused(A, **LACKED_ROOM), *refused(B, **NO_PLACE)],
        Wake(),
    ),
    "a pod that was denied is tried": (
        [
            pod_group(),
            A,
            B,
            C,
            *refused(A, **LACKED_ROOM),
            refused(B, C, reason=Reason.RECENTLY_DENIED),
        ],
        Wake((B,)),
    ),
    "those that a plan counts on": (
        [pod_group(), A, B, C, planned(gang_0="n0", gang_1="n0", gang_2="n0"), *refused(B, C)],
        Wake((B, C)),
    ),
    "those that a plan counts on though they lacked room": (
        [
            pod_group(),
            A,
            B,
            C,
            planned(gang_0="n0", gang_1="n0", gang_2="n0"),
            refused(B, **NO_PLACE),
        ],
        Wake((B,)),
    ),
    "those that a plan counts on though the PodGroup is gone": (
        [A, B, C, planned(gang_0="n0", gang_1="n0"), *refused(A, B, C)],
        Wake((A, B)),
    ),
    "a whole plan: no pod beyond it": (
        [pod_group(), A, B, C, D, planned(gang_0="n0", gang_1="n0", gang_2="n0"), refused(B, D)],
        Wake((B,)),
    ),
    "a plan with a gap: one more": (
        [pod_group(min_member=4), A, B, C, D, planned(gang_0="n0"), *refused(A, B, C)],
        Wake((A, B)),
    ),
    "quorum is placed: each pod is tried for itself": (
        [
            *(pod_group(min_member=1), A, B, C, ev.PodWaiting(A, "n0")),
            *refused(B, C),
        ],
        Wake((B, C)),
    ),
    "quorum is placed: a pod that lacked room waits for room": (
        [
            *(pod_group(min_member=1), A, B, C, ev.PodBinding(A, "n0")),
            *refused(B, **LACKED_ROOM),
            *refused(C),
        ],
        Wake((C,)),
    ),
    "quorum is placed: a pod that is being bound is not tried": (
        [
            *(pod_group(min_member=1), A, B, C, ev.PodBinding(A, "n0"), ev.PodBinding(B, "n0")),
            *refused(B, C, reason=Reason.ALREADY_BOUND),
        ],
        Wake((C,)),
    ),
    "one pod is enough, but none that is being bound": (
        [pod_group(), A, B, C, ev.PodBinding(A, "n0"), *refused(A, B)],
        Wake((B,)),
    ),
    "a Binding failed, and a plan keeps its room": (
        [
            *(pod_group(min_member=1), A, B, ev.PodBinding(A, "n0"), ev.PodBinding(B, "n0")),
            *refused(B, reason=Reason.ALREADY_BOUND),
            planned(gang_1="n0"),
        ],
        Wake((B,)),
    ),
    "our gates are taken away at quorum": ([pod_group(), *OURS], Wake(ungate=tuple(OURS))),
    "our gates stay below quorum": ([pod_group(min_member=4), *OURS], Wake()),
    "our gates stay without a PodGroup": (OURS, Wake()),
    "our gates stay with a topology that is none": (
        [pod_group(required_topology="no label"), *OURS],
        Wake(),
    ),
    "our gates stay with a placement that is none": ([pod_group(placement="x"), *OURS], Wake()),
    "our gates stay until the job is admitted": (
        [pod_group(), QUEUED, [replace(each, controller="u-job") for each in OURS]],
        Wake(),
    ),
    "ungated ones count": ([pod_group(min_member=4), *OURS, A], Wake(ungate=tuple(OURS))),
    "foreign gates do not": ([pod_group(min_member=4), *OURS, FOREIGN], Wake()),
    "foreign gates stay": (
        [pod_group(min_member=3), *OURS, FOREIGN],
        Wake(ungate=tuple(OURS)),
    ),
    "one that comes later is let in too": (
        [pod_group(min_member=1), pod("a", group="gang", on="n0"), OURS[0]],
        Wake(ungate=(OURS[0],)),
    ),
    "gates come first": ([pod_group(), *OURS, A, *refused(A)], Wake(ungate=tuple(OURS))),
}


@pytest.mark.parametrize(("there", "want"), WANT.values(), ids=WANT)
def test_a_change_of_the_group(there: Sequence[Any], want: Wake) -> None:
    view = cluster_of(ROOM, there).view()

    assert decide_group(key("gang"), view=view) == want


def test_one_pod_alone_shows_where_nodes_come() -> None:
    cluster = cluster_of(ROOM, pod_group(), OURS)
    found = decide_group(key("gang"), view=cluster.view(), probes=True)
    assert found == Wake(ungate=tuple(OURS[:1]))
    observe(cluster, replace(OURS[0], gates=()))
    assert decide_group(key("gang"), view=cluster.view(), probes=True) == Wake()


def test_pods_that_are_not_admitted_are_looked_at_again() -> None:
    ours = [replace(each, controller="u-job") for each in OURS]
    view = cluster_of(ROOM, pod_group(), QUEUED, ours).view()
    assert is_not_admitted(key("gang"), view=view)
    assert not is_not_admitted(key("gang"), view=cluster_of(ROOM, pod_group(), OURS).view())


def test_of_a_group_that_never_fits_the_pods_without_that_reason_are_woken() -> None:
    reported = [*refused(A, reason=Reason.NEVER_FITS), *refused(B)]
    view = cluster_of(ROOM, pod_group(min_member=2), A, B, reported).view()

    assert decide_group(key("gang"), view=view).retry == (B,)


HELD_BACK: dict[str, tuple[Sequence[Any], Wake]] = {
    "until there is room": ([pod_group(), *OURS], Wake()),
    "those that have a plan": (
        [pod_group(min_member=2), *OURS, planned(ours_0="n0", ours_1="n0")],
        Wake(ungate=tuple(OURS[:2])),
    ),
    "all of a group that has started": (
        [pod_group(min_member=1), pod("a", group="gang", on="n0"), *OURS],
        Wake(ungate=tuple(OURS)),
    ),
    "not those of a group that is short of pods": ([pod_group(min_member=4), *OURS], Wake()),
    "all of a group that kube-scheduler alone can judge": (
        [pod_group(min_member=2), CLAIMING, OURS[0]],
        Wake(ungate=(CLAIMING, OURS[0])),
    ),
}


@pytest.mark.parametrize(("there", "want"), HELD_BACK.values(), ids=HELD_BACK)
def test_held_back_until_there_is_room(there: Sequence[Any], want: Wake) -> None:
    view = cluster_of(ROOM, there).view()

    assert decide_group(key("gang"), view=view, gate_until_fit=True) == want


def test_a_pod_that_was_kept_off_claimed_room_is_woken_when_its_gang_begins() -> None:
    claim = ev.Claimed([Claim("ns/other", 0, {"n0": {"cpu": 1}})])
    there = [pod_group(min_member=2), A, B, claim, *refused(A, B, **NO_PLACE)]
    assert decide_group(key("gang"), view=cluster_of(ROOM, there).view()) == Wake()

    began = pod("first", group="gang", on="n0")
    view = cluster_of(ROOM, began, there).view()
    assert decide_group(key("gang"), view=view).retry


OLD, NEW = pods(2, 1, group="old"), pods(2, 1, group="new")
HIGH = pods(1, 1, group="high", priority=5)
PLAIN, LATER = pod("plain"), pod("later")
GROUPS = [
    pod_group("new", 2, created=2.0),
    pod_group("old", 2, created=1.0),
    pod_group("high", 1, created=3.0),
]

WANT_ROOM: dict[str, tuple[Sequence[Any], Wake]] = {
    "no pod was refused": ([A, PLAIN], Wake()),
    "one of each group": (
        [OLD, refused(*OLD, **LACKED_ROOM)],
        Wake((OLD[0],)),
    ),
    "groups by priority and age, then those without": (
        [
            *(PLAIN, LATER, NEW, OLD, HIGH),
            refused(PLAIN, LATER, *NEW, *OLD, *HIGH, **NO_PLACE),
        ],
        Wake((HIGH[0], OLD[0], NEW[0], PLAIN, LATER)),
    ),
    "a pod that does not lack room is not tried": (
        [OLD, NEW, refused(*OLD), refused(*NEW, **LACKED_ROOM)],
        Wake((NEW[0],)),
    ),
    "all of a group that has started, for each is for itself": (
        [
            pods(3, 1, group="high"),
            pod("run", 1, group="high", on="n0"),
            refused(*pods(3, 1, group="high"), **NO_PLACE),
        ],
        Wake(tuple(pods(3, 1, group="high"))),
    ),
    "a pod that is being bound is not tried": (
        [OLD, PLAIN, refused(*OLD, PLAIN, **NO_PLACE), *being_bound(OLD[0], PLAIN)],
        Wake((OLD[1],)),
    ),
    "a pod that has been tried since is not tried": (
        [OLD, refused(*OLD, **NO_PLACE), ev.PodsTried([OLD[0].uid])],
        Wake((OLD[1],)),
    ),
}


@pytest.mark.parametrize(("there", "want"), WANT_ROOM.values(), ids=WANT_ROOM)
def test_room_was_given_back(there: Sequence[Any], want: Wake) -> None:
    view = cluster_of(ROOM, GROUPS, there).view()

    assert decide_room(view=view) == want


def test_in_strict_order_one_group_has_its_turn() -> None:
    started = pods(2, 1, group="high")
    there = [
        *(NEW, OLD, started, PLAIN, pod("run", 1, group="high", on="n0")),
        refused(*started, PLAIN, **NO_PLACE),
        refused(*NEW, *OLD, reason=Reason.WAITING_FOR_TURN),
    ]
    view = cluster_of(ROOM, GROUPS, there).view()

    assert decide_room(view=view, strict=True) == Wake((OLD[0], *started, PLAIN))
    assert decide_room(view=view) == Wake((OLD[0], NEW[0], *started, PLAIN))


def alone(count: int, cpu: Any = 1, **more: Any) -> list[PodInfo]:
    return [pod(f"alone-{n}", cpu, created=float(n), **more) for n in range(count)]


def test_of_pods_without_a_group_those_are_woken_that_find_room_beside_each_other() -> None:
    crowd = alone(50, 2)
    view = cluster_of(nodes(4, 3), crowd, refused(*reversed(crowd), **NO_PLACE)).view()

    assert decide_room(view=view).retry == tuple(crowd[:3])


def test_a_large_pod_does_not_hold_up_a_small_one() -> None:
    large, small = pod("large", 9, created=1.0), pod("small", 1, created=2.0)
    view = cluster_of(nodes(4), large, small, refused(large, small, **NO_PLACE)).view()

    assert decide_room(view=view).retry == (small,)


def test_room_that_a_plan_keeps_is_none() -> None:
    there = [nodes(2), A, PLAIN, LATER, planned(gang_0="n0"), *refused(PLAIN, LATER, **NO_PLACE)]

    assert decide_room(view=cluster_of(*there).view()).retry == (PLAIN,)


def test_nodes_that_a_pod_may_not_use_are_none() -> None:
    picky = pod("picky", shape(1, selector={"zone": "a"}))
    there = [nodes(4), picky, *refused(picky, **NO_PLACE)]

    assert decide_room(view=cluster_of(*there).view()) == Wake()


def test_pods_of_a_job_that_is_not_admitted_are_not_woken_for_room() -> None:
    held = pod("held", owners=("ns/job",), controller="j")
    job = ev.ObjectApplied(JobInfo("j", held_by_queue="ns/job"))
    there = [nodes(4), held, job, *refused(held, reason=Reason.NOT_ADMITTED)]
    cluster = cluster_of(*there)
    assert decide_room(view=cluster.view()) == Wake()

    cluster.apply(ev.ObjectApplied(JobInfo("j")))
    assert decide_room(view=cluster.view()).retry == (held,)


def test_so_many_nodes_are_looked_at_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    crowd = [pod(f"p-{n}", shape(5, gpu=n + 1)) for n in range(50)]  # each of its own kind
    full = cluster_of(nodes(*[4] * 500), crowd, refused(*crowd, **NO_PLACE)).view()
    looks = 0
    used = ClusterView.used

    def counted(view: ClusterView, node: str) -> Mapping[str, int]:
        nonlocal looks
        looks += 1
        return used(view, node)

    monkeypatch.setattr(ClusterView, "used", counted)
    assert decide_room(view=full).retry == ()
    assert looks == MOST_LOOKS


def test_each_kind_has_its_turn_though_others_use_up_all_looks() -> None:
    large = [pod(f"large-{n}", shape(5, gpu=n + 1), created=float(n)) for n in range(50)]
    small = pod("small", 1, created=100.0)
    there = [nodes(*[4] * 500), *large, small, *refused(*large, small, **NO_PLACE)]
    view = cluster_of(*there).view()
    found, rounds = decide_room(view=view), 1
    while small not in found.retry:
        assert rounds <= 50 * 500 // MOST_LOOKS + 1
        found, rounds = decide_room(view=view, looked=found.looked), rounds + 1

    anew = decide_room(view=view, looked=found.looked)
    assert anew == decide_room(view=view), "all had their turn"
    assert small not in anew.retry


def test_very_many_pods_are_decided_about_in_small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the walk over them nor the search for room looks at more than it has to."""
    crowd = [pod(f"p-{n}", 4, created=float(n % 997)) for n in range(6000)]
    busy = [pod(f"b-{n}", 2, on=f"n{n}") for n in range(20)]
    full = cluster_of(nodes(*[4] * 20), crowd, busy, refused(*crowd, **NO_PLACE)).view()
    takes = 0
    take = _Rooms.take

    def counted(rooms: _Rooms, each: PodInfo) -> bool:
        nonlocal takes
        takes += 1
        return take(rooms, each)

    monkeypatch.setattr(_Rooms, "take", counted)
    steps = deciding_room(view=full)
    assert sum(1 for _ in steps) >= len(crowd) / PIECE
    assert takes == 1, "what has no room for one pod has none for its like"


def test_pods_that_could_not_be_patched_are_passed_over() -> None:
    there = [pod_group(), A, B, C, *refused(A, B)]
    view = cluster_of(ROOM, there).view()
    assert decide_group(key("gang"), view=view, resting={A.uid}) == Wake((B,))
    assert decide_group(key("gang"), view=view, resting={A.uid, B.uid}) == Wake()

    gated = cluster_of(ROOM, pod_group(), *OURS).view()
    found = decide_group(key("gang"), view=gated, resting={OURS[0].uid})
    assert found == Wake(ungate=tuple(OURS[1:]))
    crowd = [*alone(2), *pods(2, 1, group="old")]
    lacking = cluster_of(ROOM, GROUPS, crowd, refused(*crowd, **NO_PLACE)).view()
    resting = {"alone-0", "old-0"}
    assert decide_room(view=lacking, resting=resting).retry == (crowd[3], crowd[1])


OURS_SAID = "0/1 nodes are available: 1 gang ns/gang: 1 of the 3 pods that it needs exist."
PLAIN_SAID = "0/1 nodes are available: 1 room is kept for a gang that goes first."
WANT_BEFORE: dict[str, tuple[PodInfo, Reason | None]] = {
    "a member that we refused": (replace(A, unschedulable=OURS_SAID), Reason.RECENTLY_DENIED),
    "a member without a node": (replace(A, unschedulable="0/1 nodes are available"), None),
    "a member of another gang": (replace(OLD[0], unschedulable=OURS_SAID), None),
    "a member that is behind a gate": (replace(FOREIGN, unschedulable=OURS_SAID), None),
    "a member that has been bound since": (replace(A, node="n0", unschedulable=OURS_SAID), None),
    "a member that was not tried": (A, None),
    "a plain pod that we refused": (replace(PLAIN, unschedulable=PLAIN_SAID), Reason.RESERVED),
    "a plain pod without a node": (replace(PLAIN, unschedulable="Insufficient cpu"), None),
}


@pytest.mark.parametrize(("subject", "want"), WANT_BEFORE.values(), ids=WANT_BEFORE)
def test_a_refusal_of_an_earlier_run(subject: PodInfo, want: Reason | None) -> None:
    assert refused_before(subject) == want


NATIVE = pod_group(api_group=GROUP_NATIVE, min_member=3)
NATIVES = [replace(each, native=key("gang")) for each in OURS[:2]]
OF_OURS = [replace(each, group=key("ours")) for each in NATIVES]
BASIC = replace(NATIVE, min_member=0)


@pytest.mark.parametrize(
    ("there", "decided", "ungated"),
    [
        ([NATIVE, *NATIVES], None, True),
        ([*NATIVES], None, True),
        ([NATIVE, *NATIVES], False, True),
        ([*NATIVES], False, True),
        ([NATIVE, *OF_OURS], False, True),
        ([NATIVE, *OF_OURS], None, True),
        ([NATIVE, *NATIVES], True, False),
        ([BASIC, *NATIVES], True, True),
        ([NATIVE, *OF_OURS], True, False),
    ],
)
def test_our_gate_holds_no_native_pod_back_whose_start_is_not_ours(
    there: Sequence[Any], decided: bool | None, ungated: bool
) -> None:
    cluster = cluster_of(*there)
    if decided is not None:
        change = cluster.apply(ev.NativesDecided(decided))
        assert key("gang") in change.groups or decided, "it is looked at"
    view = cluster.view()

    found = decide_group(key("gang"), view=view)

    assert [each.uid for each in found.ungate] == [each.uid for each in NATIVES] * ungated


SOURCE = Path(__file__).parents[3] / "extender"
FILTERS = (
    *("gang/filter.py", "gang/gates.py", "gang/verdicts.py"),
    *("permit/filter.py", "permit/plans.py"),
)


@pytest.mark.parametrize("name", FILTERS)
def test_every_refusal_of_filter_is_in_the_table(name: str) -> None:
    text = (SOURCE / name).read_text()
    reasons = {Reason[found] for found in re.findall(r"Refuse\(\s*Reason\.([A-Z_]+)", text)}
    assert reasons, "the pattern finds no refusal any more"
    # A dry round wakes its members itself, and kube-scheduler sees new volumes.
    dry = {*DRY_ROUND, Reason.NOT_ENOUGH_VOLUMES} if name == "permit/plans.py" else set()
    assert reasons <= WOKEN_BY.keys() | dry


@pytest.mark.parametrize("reason", WOKEN_BY)
def test_a_pod_is_woken_on_the_occasions_of_its_reason(reason: Reason) -> None:
    members = pods(3)
    refused = [ev.PodRefused(member, reason) for member in members]
    view = cluster_of(pod_group(), nodes(8), *members, *refused).view()

    on_group = bool(decide_group(key("gang"), view=view).retry)
    on_room = bool(at_once(deciding_room(view=view)).retry)

    woken_by = WOKEN_BY[reason]
    assert (on_group, on_room) == (Occasion.GROUP in woken_by, Occasion.ROOM in woken_by)


def test_a_member_that_our_refusal_did_not_stop_last_is_woken_last() -> None:
    """A patch does not bring what kube-scheduler's own filters rejected on every node."""
    cluster = Cluster()
    first, *others = pods(4, 1, group="gang")
    observe(cluster, nodes(4), pod_group("gang", 3), first, *others)
    observe(cluster, *(ev.PodRefused(each, Reason.RECENTLY_DENIED) for each in (first, *others)))
    text = "0/1 nodes are available: 1 Insufficient example.com/gpu."
    observe(cluster, replace(first, unschedulable=text))

    woken = wake.decide_group(key("gang"), view=cluster.view()).retry

    assert [each.uid for each in woken] == [others[0].uid]
