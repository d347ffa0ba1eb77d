"""What is said of a group: its gates, the groups ahead, the room, and what would help."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from extender.api.explanations import GroupExplanation, PodOutlook
from extender.api.reasons import Reason
from extender.explain.facts import GroupFacts
from extender.explain.gang import explain_group, explain_pod
from extender.gang.gates import Gate
from extender.gang.verdicts import NOTHING, GangOptions, Refuse, Remembered
from extender.state.cluster import events as ev
from extender.state.cluster.records import NominatedRoom, PodInfo, PreemptedRoom, VictimInfo
from extender.state.cluster.reservations import Claim, Reservation, ReservationKind
from extender.state.cluster.store import Cluster
from extender.steps import at_once
from gang_tools.cli.explain_text import group_text, pod_text
from tests.makers import cluster_of, key, node, nodes, planned, pod, pod_group, pods

NOW = 1_000_000.0
THREE = pods(3, 4)
OLDER = [pod_group("older", 1, created=-1.0), pods(1, 4, group="older")]


def explained(cluster: Cluster, name: str = "gang", **facts: Any) -> GroupExplanation:
    """Return the explanation of a group of the namespace."""
    known = GroupFacts(**{"view": cluster.view(), "options": GangOptions(), "now": NOW, **facts})
    found = at_once(explain_group(key(name), known))
    assert found is not None
    return found


def of_pod(cluster: Cluster, asked: PodInfo) -> PodOutlook:
    return at_once(explain_pod(asked, GroupFacts(cluster.view(), GangOptions(), NOW)))


def remembering(**known: Any) -> Callable[[str], Remembered]:
    """Return the extender's memory, in which only `gang` is."""
    return lambda group: replace(NOTHING, **known) if group == key("gang") else NOTHING


def answer(found: GroupExplanation, gate: Gate) -> str:
    return next(each.answer for each in found.gates if each.gate == gate)


REFUSED: dict[str, tuple[Sequence[Any], dict[str, Any], Gate, str, str]] = {
    "no PodGroup": ([THREE], {}, Gate.POD_GROUP, Reason.POD_GROUP_NOT_FOUND, "a PodGroup of that"),
    "two annotations": (
        [pod_group(required_topology="a", preferred_topology="b"), THREE],
        {},
        Gate.ANNOTATIONS,
        Reason.INVALID_TOPOLOGY,
        "an annotation that is mended",
    ),
    "pods are missing": (
        [pod_group(), THREE[:1], nodes(9)],
        {},
        Gate.PODS,
        Reason.NOT_ENOUGH_PODS,
        "2 pods more",
    ),
    "gated": (
        [pod_group(), THREE[:2], pod("g", group="gang", gates=("x/y",)), nodes(9)],
        {},
        Gate.SCHEDULING_GATES,
        Reason.GATED,
        "1 pod more without scheduling gates: x/y",
    ),
    "it failed just now": (
        [pod_group(), THREE, nodes(4, 4, 4)],
        {
            "source": "Extender",
            "remembered": remembering(
                denied=Refuse(Reason.SCHEDULE_TIMEOUT, "gang ns/gang: late"),
                denied_until=NOW + 2.0,
            ),
        },
        Gate.RECENT_FAILURE,
        Reason.RECENTLY_DENIED,
        "2.0 s more",
    ),
    "the order is strict": (
        [pod_group(), THREE, nodes(4, 4, 4), OLDER],
        {"options": GangOptions(strict_order=True)},
        Gate.TURN,
        Reason.WAITING_FOR_TURN,
        "the groups ahead of it start",
    ),
    "no node has the label": (
        [pod_group(required_topology="rack"), THREE, nodes(4, 4, 4)],
        {},
        Gate.TOPOLOGY,
        Reason.NEVER_FITS,
        "nodes with that label",
    ),
    "minResources": (
        [pod_group(min_resources={"cpu": 13000}), THREE, nodes(4, 4, 4)],
        {},
        Gate.MIN_RESOURCES,
        Reason.NEVER_FITS,
        "smaller minResources",
    ),
    "another scheduler": (
        [pod_group(), THREE[:2], pod("o", group="gang", scheduler="other"), nodes(9)],
        {},
        Gate.ABLE_PODS,
        Reason.NOT_ENOUGH_PODS,
        "1 pod more",
    ),
    "all leave": (
        [pod_group(), [replace(each, terminating=True) for each in THREE], nodes(9)],
        {},
        Gate.ABLE_PODS,
        Reason.NOT_ENOUGH_PODS,
        "3 pods more",
    ),
    "no room now": (
        [pod_group(), THREE, nodes(4, 4, 4), pod("x", 1, on="n1")],
        {},
        Gate.ROOM,
        Reason.NOT_ENOUGH_RESOURCES,
        "room for 1 pod more: cpu 4",
    ),
    "too few wait with a node": (
        [
            pod_group(),
            THREE,
            nodes(12),
            planned(gang_1="n0", gang_2="n0"),
            ev.PodWaiting(THREE[0], "n0"),
        ],
        {"source": "Extender", "remembered": remembering(starts_by=NOW + 60)},
        Gate.QUORUM,
        Reason.WAITING_FOR_BIND,
        "2 pods more with a node",
    ),
}


@pytest.mark.parametrize(
    ("there", "facts", "gate", "reason", "hint"), REFUSED.values(), ids=REFUSED
)
def test_the_gate_that_refuses_is_the_last_that_is_asked(
    there: Sequence[Any], facts: dict[str, Any], gate: Gate, reason: str, hint: str
) -> None:
    found = explained(cluster_of(there), **facts)

    [refused] = [each for each in found.gates if each.answer == "Refused"]
    assert (refused.gate, refused.reason, found.reason) == (gate, reason, reason)
    at = [each.gate for each in found.gates].index(gate)
    assert {each.answer for each in found.gates[:at]} <= {"Passed", "Unknown"}
    assert {each.answer for each in found.gates[at + 1 :]} <= {"NotAsked"}
    assert [each.gate for each in found.gates] == [*Gate]
    assert any(hint in each for each in found.would_help), found.would_help
    text = group_text(found, datetime.fromtimestamp(NOW, UTC))
    assert found.message in text
    assert "{" not in text


def test_room_is_shown_as_it_is_and_as_it_would_be() -> None:
    other = Claim("ns/older", 0, {"n0": {"cpu": 4000}})
    busy = pod("x", 1, on="n1")
    cluster = cluster_of(pod_group(), THREE, nodes(4, 4, 4), OLDER, ev.Claimed([other]), busy)

    room = explained(cluster).room

    assert room is not None
    assert (room.wanted, room.fit) == (3, 1)
    assert (room.fit_if_nothing_were_kept, room.fit_on_empty_nodes) == (2, 3)
    assert room.short == {"cpu": "8"}
    assert room.nodes == {"n2": 1}
    assert (room.usable_nodes, room.all_nodes) == (3, 3)


def test_those_ahead_are_named_and_counted() -> None:
    more = [
        [pod_group(f"o{n:02}", 1, created=-50.0 + n), pods(1, group=f"o{n:02}")] for n in range(12)
    ]
    found = explained(cluster_of(pod_group(), THREE, nodes(4), more))

    assert found.position is not None
    assert (found.position.index, found.position.of) == (12, 13)
    assert [each.name for each in found.ahead] == [f"o{n:02}" for n in range(10)]
    assert (found.more_ahead, found.ahead[0].needed) == (2, 1)


def test_room_that_is_kept_for_it_and_from_it() -> None:
    rival = pods(2, 1, group="rival", priority=5)
    lesser = pods(1, 1, group="lesser", priority=-1)
    cluster = cluster_of(
        pod_group(),
        THREE,
        nodes(4, 4, 4),
        [pod_group("rival", 2), rival, pod_group("lesser", 2), lesser],
        planned(rival_0="n0", rival_1="n1", lesser_0="n2"),
        ev.Claimed([Claim("ns/gang", 0, {"n2": {"cpu": 4000}}, fits_since=NOW)]),
    )

    found = explained(cluster, source="Extender")

    [own] = found.kept
    assert (own.kind, own.nodes, own.amounts) == ("Claim", ["n2"], {"cpu": "4"})
    assert own.until == datetime.fromtimestamp(NOW + 30, UTC)
    [theirs] = found.kept_from_it
    assert (theirs.kind, theirs.name, theirs.pods) == ("Plan", "rival", 2)
    assert theirs.nodes == ["n0", "n1"]
    text = group_text(found, datetime.fromtimestamp(NOW, UTC))
    assert "Room is kept for it" in text
    assert "(in 30s)" in text
    assert "lesser" not in text


def test_a_group_whose_pods_have_room_passes_all_gates_before_the_last() -> None:
    cluster = cluster_of(pod_group(), THREE, nodes(12))
    cluster.apply(planned(gang_0="n0", gang_1="n0", gang_2="n0"))
    found = explained(cluster, source="Extender")

    assert (found.state, found.pods.planned) == ("Planned", 3)
    assert answer(found, Gate.ROOM) == "Passed"
    assert {each.node for each in found.members} == {"n0"}
    assert (found.position, found.ahead, found.room) == (None, [], None)


def test_a_group_that_runs_and_one_that_has_ended() -> None:
    running = cluster_of(pod_group(), nodes(12), [replace(each, node="n0") for each in THREE])
    ended = cluster_of(pod_group(status=replace(pod_group().status, phase="Finished")), nodes(4))

    started = explained(running)
    assert (started.state, started.reason) == ("Started", "Scheduled")
    assert {each.answer for each in started.gates} == {"Passed", "Unknown"}
    assert (started.would_help, started.kept_from_it) == ([], [])
    finished = explained(ended)
    assert (finished.state, finished.reason, finished.gates) == ("Finished", "Finished", [])


def test_nothing_is_missing() -> None:
    found = explained(cluster_of(pod_group(), THREE, nodes(12)))

    assert (found.state, found.reason) == ("Waiting", Reason.WAITING_FOR_BIND)
    assert answer(found, Gate.ROOM) == "Passed"
    assert answer(found, Gate.QUORUM) == "NotAsked"
    assert answer(found, Gate.RECENT_FAILURE) == "Unknown"
    assert "nothing is missing" in found.would_help[0]


def test_preemption_in_numbers() -> None:
    victim = pod("v", 4, group="low", on="n0", priority=-5)
    room = PreemptedRoom(
        NOW - 5,
        {"n0": NominatedRoom(("gang-0",), {"cpu": 4000})},
        (VictimInfo("PodGroup", "u", ("v", "gone")),),
    )
    group = pod_group(nomination=room)
    cluster = cluster_of(group, THREE, nodes(4, 4, 4), victim, ev.Nominated(key("gang"), room))

    found = explained(cluster)

    assert found.preemption is not None
    assert (found.preemption.gangs, found.preemption.pods, found.preemption.leaving) == (1, 2, 1)
    assert found.preemption.nodes == {"n0": 1}
    assert [each.kind for each in found.kept] == ["Preemption"]


def test_what_the_extender_remembers_is_noted() -> None:
    failure = Refuse(Reason.SCHEDULE_TIMEOUT, "gang ns/gang: 2 of 3 pods got a node")
    known = remembering(
        last_failure=failure, is_being_planned=True, rests_until=NOW + 3, stale="pods"
    )
    found = explained(cluster_of(pod_group(), THREE, nodes(12)), remembered=known)

    assert found.notes == [
        "the extender has not heard of pods for too long, and plans no gang",
        "its plan is being made, in slices between other work",
        "a long plan came to nothing: another one is made in 3.0 s",
        "it failed last: 2 of 3 pods got a node",
    ]


def test_when_nodes_are_set_aside_for_it() -> None:
    waiting = [replace(each, created=NOW - 100) for each in THREE]
    cluster = cluster_of(pod_group(created=NOW - 500), waiting, nodes(4))
    found = explained(cluster)

    assert found.waits_since == datetime.fromtimestamp(NOW - 100, UTC)
    assert found.claim_due == datetime.fromtimestamp(NOW + 200, UTC)


PODS: dict[str, tuple[PodInfo, Sequence[Any], str | None, str]] = {
    "a member that waits": (
        THREE[0],
        [pod_group(), THREE[:2], nodes(9)],
        Reason.NOT_ENOUGH_PODS,
        "it waits with its gang: 2 of the 3 pods that it needs exist",
    ),
    "a member that is gated": (
        replace(THREE[0], gates=("x/y",)),
        [pod_group(), nodes(9)],
        Reason.GATED,
        "scheduling gates of others hold it back",
    ),
    "one more than is needed": (
        pod("late", 100, group="gang"),
        [pod_group(), [replace(each, node="n0") for each in THREE], nodes(12)],
        None,
        "its gang has started without it: it comes as a plain pod does",
    ),
    "a pod with a node": (pod("p", on="n0"), [nodes(4)], None, "it has a node"),
    "no member, no room": (
        pod("p", 9),
        [nodes(4, 4)],
        None,
        "it is no member of a gang; 0 of 2 nodes have room for it, which kube-scheduler alone "
        "decides",
    ),
    "no member, room": (
        pod("p"),
        [nodes(4, 4)],
        None,
        "it is no member of a gang; 2 of 2 nodes have room for it, and the extender keeps it from "
        "none of them",
    ),
    "no member, and room is kept": (
        pod("p"),
        [nodes(4, 4), ev.Claimed([Claim("ns/older", 0, {"n0": {"cpu": 4000}})]), OLDER],
        None,
        "it is no member of a gang; 2 of 2 nodes have room for it, and on 1 of them it is kept for "
        "gangs that go first",
    ),
    "no member, and all room is kept": (
        pod("p"),
        [nodes(4), ev.Claimed([Claim("ns/older", 0, {"n0": {"cpu": 4000}})]), OLDER],
        Reason.RESERVED,
        "it is no member of a gang; 1 of 1 nodes have room for it, and on all of them it is kept "
        "for gangs that go first",
    ),
}


@pytest.mark.parametrize(("asked", "there", "reason", "words"), PODS.values(), ids=PODS)
def test_pods(asked: PodInfo, there: Sequence[Any], reason: str | None, words: str) -> None:
    found = of_pod(cluster_of(there, asked), asked)

    assert (found.reason, found.message) == (reason, words)
    assert words in pod_text(found, datetime.fromtimestamp(NOW, UTC))


def test_there_is_no_such_group() -> None:
    facts = GroupFacts(cluster_of(nodes(4)).view(), GangOptions(), NOW)
    assert at_once(explain_group(key("gang"), facts)) is None


def test_the_json_has_the_documented_names() -> None:
    found = explained(cluster_of(pod_group(), THREE, node("n0")))
    shown = found.model_dump(mode="json", by_alias=True)
    assert {"wouldHelp", "keptFromIt", "moreAhead", "gates", "room", "minMember"} <= set(shown)
    assert set(shown["gates"][0]) == {"gate", "answer", "reason", "message", "have", "need"}
    assert GroupExplanation.model_validate(shown) == found


def test_room_that_yields_is_not_kept_from_it() -> None:
    grant = Reservation("ns/other", 9, {"n0": {"cpu": 1000}}, ReservationKind.GRANTED, NOW + 9)
    view = cluster_of(pod_group(), THREE, nodes(4)).view()
    low = replace(grant, kind=ReservationKind.CLAIMED, priority=-1)

    assert not view.yields_to(grant, key("gang"))
    assert view.yields_to(low, key("gang"))
    assert view.yields_to(replace(grant, owner=key("gang")), key("gang"))
