"""What is stored of chosen victims, when a preemption is over, and what the reconciler checks."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from extender.api.reasons import PreemptionReason
from extender.gang.preempt import (
    LONGEST_SECONDS,
    Seen,
    check,
    ended,
    has_started_since,
    nomination,
    overtaken,
    remaining,
    sentence,
)
from extender.gang.victims import PATIENCE_SECONDS, Preemption, Rank, Unit
from extender.kube.stored import preemption_as_json, read_preemption
from extender.state.cluster import events as ev
from extender.state.cluster.records import NodeInfo, PodGroupInfo, PreemptedRoom, VictimInfo
from extender.state.cluster.store import Cluster
from tests.makers import (
    NAMESPACE,
    cluster_of,
    deleted,
    key,
    nodes,
    observe,
    planned,
    pod,
    pod_group,
    pods,
    requests,
)

SINCE = 1000.0
LOW = pods(2, 4, group="low", on="n0")
LOW = [replace(each, node=f"n{number}") for number, each in enumerate(LOW)]
SINGLE = pod("single", 4, on="n2")
HIGH = pods(3, 4, group="high", priority=10)


def scene() -> Cluster:
    """Return three full nodes, and a gang of three that waits."""
    return cluster_of(
        nodes(4, 4, 4),
        pod_group("low", 2, uid="u-low"),
        pod_group("high", 3, uid="u-high"),
        [*LOW, SINGLE],
        HIGH,
    )


def chosen(cluster: Cluster) -> PreemptedRoom:
    """Return all three nodes for the gang."""
    found = Preemption(
        key("high"),
        {f"n{number}": {**requests(4), "gpu": 0} for number in range(3)},
        (
            Unit(LOW, key("low"), rank=Rank(0, 0, 0.0, 0, NAMESPACE, "low", whole=True)),
            Unit(
                [SINGLE],
                None,
                rank=Rank(0, 0, 0.0, 0, NAMESPACE, "single", whole=False),
            ),
        ),
        {f"high-{number}": f"n{number}" for number in range(3)},
    )
    return nomination(found, view=cluster.view(), now=SINCE + 0.7)


def group_of(cluster: Cluster, name: str = "high") -> PodGroupInfo:
    found = cluster.view().pod_group(key(name))
    assert found is not None
    return found


def without(cluster: Cluster, *uids: str) -> None:
    observe(cluster, [deleted(uid) for uid in uids])


def test_a_choice_is_stored_and_read_as_it_was() -> None:
    stored = chosen(scene())

    assert stored.since == SINCE
    assert stored.rooms["n1"].pods == ("high-1",)
    assert stored.rooms["n1"].amounts == requests(4)
    assert stored.victims == (
        VictimInfo("PodGroup", "u-low", ("low-0", "low-1")),
        VictimInfo("Pod", "single", ("single",)),
    )
    assert read_preemption(msgspec.json.encode(preemption_as_json(stored))) == stored
    assert sentence(stored) == (
        "1 gang and 1 single pod of lower priority, 3 pods in all, make room for it on 3 nodes"
    )


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"[]",
        b'{"since": "soon", "nodes": [], "victims": []}',
        b'{"since": "2026-01-01T00:00:00Z", "nodes": [{"name": "n", "pods": [], "room": '
        b'{"cpu": "-1"}}], "victims": []}',
        b'{"since": "2026-01-01T00:00:00Z", "nodes": [], "victims": [{"kind": "Node", "uid": ""}]}',
        b"{" + b" " * 500_000 + b"}",
    ],
)
def test_what_cannot_be_believed_is_no_preemption(raw: bytes) -> None:
    assert read_preemption(raw) is None


def test_one_with_too_many_victims_is_not_stored() -> None:
    many = VictimInfo("PodGroup", "u", tuple(f"{number:036}" for number in range(20_000)))
    assert preemption_as_json(replace(chosen(scene()), victims=(many,))) is None


LATE = SINCE + PATIENCE_SECONDS + 1
ALL = ("low-0", "low-1", "single")
ENDS: dict[str, tuple[list[Any], float, Seen, PreemptionReason | None]] = {
    "victims have just been chosen": ([], SINCE + 1, Seen(), None),
    "victims stay": ([], LATE, Seen(), PreemptionReason.VICTIMS_STAY),
    "their grace period lasts": (
        [replace(each, terminating=True, gone_by=LATE) for each in (*LOW, SINGLE)],
        *(LATE, Seen(), None),
    ),
    "one of them has no grace left": (
        [replace(LOW[0], terminating=True, gone_by=SINCE), replace(LOW[1], terminating=True)],
        *(LATE, Seen(), PreemptionReason.VICTIMS_STAY),
    ),
    "a grace period is too long": (
        [replace(each, terminating=True, gone_by=SINCE + 9e9) for each in (*LOW, SINGLE)],
        *(SINCE + LONGEST_SECONDS, Seen(), PreemptionReason.VICTIMS_STAY),
    ),
    "all have gone": ([deleted(uid) for uid in ALL], LATE, Seen(), None),
    "all have long gone": (
        [deleted(uid) for uid in ALL],
        *(LATE, Seen(gone=SINCE), PreemptionReason.ROOM_LOST),
    ),
    "it has started": (
        [replace(each, node=f"n{n}") for n, each in enumerate(HIGH)],
        *(SINCE + 1, Seen(), PreemptionReason.STARTED),
    ),
    "it has its plan": (
        [
            *(deleted(uid) for uid in ALL),
            planned(high_0="n0", high_1="n1", high_2="n2"),
        ],
        *(LATE, Seen(gone=SINCE, absent=SINCE), None),
    ),
    "it has its plan, and its victims run": (
        [nodes(8, 8, 8), planned(high_0="n0", high_1="n1", high_2="n2")],
        *(SINCE + 1, Seen(), PreemptionReason.NOT_NEEDED),
    ),
    "it has its plan, and a victim is leaving": (
        [
            nodes(8, 8, 8),
            replace(LOW[0], terminating=True),
            planned(high_0="n0", high_1="n1", high_2="n2"),
        ],
        *(SINCE + 1, Seen(), None),
    ),
    "it lacks a pod for a moment": ([deleted("high-0")], SINCE + 1, Seen(), None),
    "it has lacked a pod for long": (
        [deleted("high-0")],
        *(SINCE + PATIENCE_SECONDS + 1, Seen(absent=SINCE), PreemptionReason.NOT_NEEDED),
    ),
    "it lacked a pod before": ([], SINCE + 20, Seen(absent=SINCE), None),
}


@pytest.mark.parametrize(("facts", "now", "seen", "want"), ENDS.values(), ids=ENDS)
def test_a_preemption_ends(
    facts: list[Any], now: float, seen: Seen, want: PreemptionReason | None
) -> None:
    cluster = scene()
    stored, group = chosen(cluster), group_of(cluster)
    observe(cluster, facts)

    found = ended(group, stored, seen=replace(seen), view=cluster.view(), now=now)
    assert (found.reason if found is not None else None) == want
    off = ended(group, stored, seen=seen, view=cluster.view(), now=now, enabled=False)
    assert off is not None
    assert off.reason in {PreemptionReason.SWITCHED_OFF, PreemptionReason.STARTED}


def test_room_is_kept_until_the_group_starts() -> None:
    cluster = scene()
    view = cluster.view()
    observe(cluster, ev.Nominated(key("high"), chosen(cluster)))
    without(cluster, *ALL)
    assert view.free(view.nodes["n0"], priority=5).get("cpu", 0) == 0
    assert view.free(view.nodes["n0"], priority=10, group=key("high"))["cpu"] == 4000

    plan = planned(high_0="n0", high_1="n1", high_2="n2")
    observe(cluster, plan, ev.PodWaiting(HIGH[0], "n0"), ev.PodBinding(HIGH[1], "n1"))
    observe(cluster, deleted("high-2"))
    assert view.nominated.keys() == {key("high")}
    observe(cluster, replace(HIGH[2], uid="another"), ev.Planned({"another": "n2"}))
    assert view.nominated.keys() == {key("high")}
    observe(cluster, ev.PodBinding(view.pods["another"], "n2"))
    assert not view.nominated


@pytest.mark.parametrize("gone", ["its PodGroup", "all"])
def test_a_group_that_is_gone_keeps_no_room(gone: str) -> None:
    cluster = scene()
    observe(cluster, ev.Nominated(key("high"), chosen(cluster)))
    changes: list[ev.ClusterChange] = []
    cluster.subscribe(changes.append)
    group = group_of(cluster)
    if gone == "its PodGroup":
        cluster.apply(deleted((group.api_group, group.key), PodGroupInfo))
    else:
        cluster.apply(ev.NominationsEnded((key("high"),)))
    assert not cluster.view().nominated
    assert changes[-1].room


def test_the_reconciler_evicts_what_was_chosen_and_is_not_leaving() -> None:
    cluster = scene()
    stored, group = chosen(cluster), group_of(cluster)
    observe(cluster, replace(LOW[0], terminating=True))
    without(cluster, "single")

    found = check(group, stored, view=cluster.view(), enabled=True)
    assert [each.uid for each in found.evict] == ["low-1"]
    assert [each.uid for each in remaining(stored, view=cluster.view())] == ["low-0", "low-1"]


REFUSED: dict[str, tuple[list[Any], bool, str]] = {
    "it is switched off": ([], False, "gang.preemption is Off"),
    "it waits no more": ([deleted("high-0")], True, "the group does not wait for room"),
    "a victim is worth as much": (
        [replace(LOW[0], priority=10)],
        *(True, "a victim has the priority 10 by now"),
    ),
    "another pod of its gang is": (
        [pod("low-9", group="low", priority=11)],
        *(True, "a victim has the priority 11 by now"),
    ),
    "a victim is its own": (
        [replace(SINGLE, group=key("high"), priority=10)],
        *(True, "a victim has the priority 10 by now"),
    ),
}

OF_NO_USE = "a node with room for the group is gone, or is not ready"
BROKEN = "a victim's gang would go on below its minMember"
CHANGED: dict[str, tuple[Any, str]] = {
    "a node is gone": (deleted("n2", NodeInfo), OF_NO_USE),
    "a node is not ready": (nodes(4, 4, 4, ready=False), OF_NO_USE),
    "a gang has one more pod": (pod("low-9", 4, group="low", on="n9"), BROKEN),
}


@pytest.mark.parametrize(("fact", "want"), CHANGED.values(), ids=CHANGED)
def test_nothing_is_begun_that_would_be_of_no_use(fact: Any, want: str) -> None:
    cluster = scene()
    stored, group = chosen(cluster), group_of(cluster)
    view = cluster.view()
    assert overtaken(group, stored, view=view) == ""
    observe(cluster, fact)

    assert check(group, stored, view=view, enabled=True).why_not == want
    assert overtaken(group, stored, view=view) == want
    assert len(check(group, stored, view=view, enabled=True, has_begun=True).evict) == 3
    observe(cluster, replace(SINGLE, terminating=True))
    assert [each.uid for each in check(group, stored, view=view, enabled=True).evict] == [
        *("low-0", "low-1")
    ]
    assert overtaken(group, stored, view=view) == ""


def test_members_that_a_gang_could_do_without_stay_when_it_cannot() -> None:
    wide = [replace(each, node=f"n{number}") for number, each in enumerate(pods(4, 4, group="w"))]
    cluster = cluster_of(
        *(nodes(4, 4, 4, 4), pod_group("w", 2), wide),
        *(pod_group("high", 2), pods(2, 4, group="high", priority=10)),
    )
    victims = tuple(VictimInfo("Pod", each.uid, (each.uid,)) for each in wide[:2])
    view, group = cluster.view(), group_of(cluster)
    stored = PreemptedRoom(SINCE, {}, victims)
    assert len(check(group, stored, view=view, enabled=True).evict) == 2
    without(cluster, "w-0")
    assert [each.uid for each in check(group, stored, view=view, enabled=True).evict] == ["w-1"]
    without(cluster, "w-3")
    assert check(group, stored, view=view, enabled=True).why_not == BROKEN


@pytest.mark.parametrize("change", ["more pods", "a victim of the same priority"])
def test_a_choice_is_overtaken_by(change: str) -> None:
    cluster = scene()
    stored = chosen(cluster)
    if change == "more pods":
        observe(cluster, pod_group("high", 4, uid="u-high"))
        observe(cluster, pod("high-3", 4, group="high", priority=10))
        want = "the group needs more pods by now than room was chosen for"
    else:
        observe(cluster, replace(SINGLE, priority=10))
        want = "a victim has the priority 10 by now"
    group = group_of(cluster)
    assert overtaken(group, stored, view=cluster.view()) == want
    without(cluster, "single")
    assert overtaken(group, stored, view=cluster.view()) == ""


@pytest.mark.parametrize(("facts", "enabled", "want"), REFUSED.values(), ids=REFUSED)
def test_the_reconciler_evicts_nothing_where(facts: list[Any], *, enabled: bool, want: str) -> None:
    cluster = scene()
    stored, group = chosen(cluster), group_of(cluster)
    observe(cluster, facts)

    found = check(group, stored, view=cluster.view(), enabled=enabled)
    assert not found.evict
    assert found.why_not == want


def test_a_gang_has_started_again_when_other_pods_of_it_run() -> None:
    cluster = scene()
    group = group_of(cluster, "low")
    assert not has_started_since(group, SINCE, view=cluster.view())
    observe(cluster, [replace(each, bound_at=SINCE) for each in LOW])
    assert has_started_since(group, SINCE, view=cluster.view())
