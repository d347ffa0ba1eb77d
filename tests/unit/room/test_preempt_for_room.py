"""Victims for room alone: which workloads go, in which flavor, and when none does."""

from typing import Any

import pytest

from extender.api.queue_wire import FlavorFungibility
from extender.api.wellknown import PREEMPT_FOR_ROOM_ANNOTATION, REQUIRE_ROOM_ANNOTATION
from extender.explain.facts import Facts
from extender.explain.workload import explain
from extender.queueing.cycle import NotAdmitted, Preempt
from extender.queueing.lifecycle import finished, preempted, reserved
from extender.queueing.pending import PendingQueues, recall, recalled
from extender.queueing.quota import QuotaTree
from extender.queueing.rules import AdmissionOptions, AdmissionRules, unreadable_room
from extender.room.nodes import NodeRoom
from extender.state.cluster.records import PodInfo
from extender.state.cluster.store import Cluster
from extender.state.queue.records import WorkloadInfo
from tests.makers import cluster_of, deleted, node, nodes, observe, pod
from tests.queue_makers import (
    Admissions,
    admission,
    cluster_queue,
    condition,
    group,
    local_queue,
    meta,
)
from tests.unit.room.test_making_way import LOWER, A, B, outcomes
from tests.unit.room.test_require_room import gang, holding, members, queues_of

FOR_ROOM = AdmissionOptions(require_room=True, preempt_for_room="LowerPriority")


def queues(cluster: Cluster, *records: Any, cpu: Any = 100, **spec: Any) -> Admissions:
    return queues_of(cluster, cpu, *records, options=spec.pop("options", FOR_ROOM), **spec)


def three() -> tuple[Cluster, Admissions]:
    """Return three full nodes: v0 is the oldest, v2 the youngest, all of the same priority."""
    cluster = cluster_of(nodes(2, 2, 2))
    found = queues(cluster)
    for number in range(3):
        found.put(holding(f"v{number}", 2, at=100 + number))
        observe(cluster, *members(f"v{number}", 2, on=f"n{number}"))
    return cluster, found


def leave(cluster: Cluster, there: Admissions, name: str, count: int, on: str) -> None:
    """Have a victim give its quota back while its pods end."""
    observe(cluster, *members(name, count, on=on, terminating=True))
    there.put(gang(name, count, conditions=(condition("Evicted", "Preempted"),)))


def end(cluster: Cluster, there: Admissions, name: str, count: int) -> None:
    for number in range(count):
        cluster.apply(deleted(f"{name}-{number}"))
    there.pending.sweep()


@pytest.mark.parametrize(
    ("count", "priority", "want"),
    [
        (1, 1, ["v2"]),
        (2, 1, ["v2"]),
        (3, 1, ["v1", "v2"]),
        (6, 1, ["v0", "v1", "v2"]),
        (7, 1, "WaitingForRoom"),
        (1, 0, "WaitingForRoom"),
        (1, -1, "WaitingForRoom"),
    ],
)
def test_the_youngest_of_lower_priority_go_no_more_than_needed_and_none_in_vain(
    count: int, priority: int, want: object
) -> None:
    _, there = three()
    there.put(gang("p", count, priority=priority))
    assert outcomes(there) == {"p": want}


def test_none_goes_where_it_fits_without() -> None:
    cluster, there = three()
    observe(cluster, node("free", 2))
    there.put(gang("p", 2, priority=1))
    assert outcomes(there) == {"p": True}


def test_the_more_important_stay() -> None:
    cluster, there = three()
    there.put(holding("v2", 2, at=102, priority=5))
    there.put(holding("v1", 2, at=101, priority=1))
    there.put(gang("p", 2, priority=9))
    assert outcomes(there) == {"p": ["v0"]}
    assert cluster.view().pods


def test_what_gives_no_room_for_its_pods_stays() -> None:
    """The youngest are on nodes that its pods may not use, or on too small ones."""
    cluster = cluster_of(
        node("n0", 2), node("closed", 2, unschedulable=True), [node(f"s{n}", 1) for n in (0, 1)]
    )
    there = queues(
        cluster, holding("old", 1, 2, at=1), holding("new", 1, 2, at=2), holding("small", 2, at=3)
    )
    observe(
        cluster,
        pod("old-0", 2, on="n0", controller="job-old"),
        pod("new-0", 2, on="closed", controller="job-new"),
        [pod(f"small-{n}", on=f"s{n}", controller="job-small") for n in (0, 1)],
    )
    there.put(gang("p", 1, 2, priority=1))
    assert outcomes(there) == {"p": ["old"]}


def test_it_waits_for_its_victims_and_nothing_else_takes_their_room() -> None:
    cluster, there = three()
    there.put(gang("p", 3, priority=1))
    assert outcomes(there) == {"p": ["v1", "v2"]}
    evicted = (condition("QuotaReserved", at=100), condition("Evicted", "Preempted"))
    for number in (1, 2):
        there.put(holding(f"v{number}", 2, conditions=evicted))
    there.put(gang("late", 1))
    there.pending.sweep()
    assert outcomes(there) == {
        "p": "WaitingForPreemptedWorkloads",
        "late": "WaitingForPreemptedWorkloads",  # they leave one place more than p needs
    }
    leave(cluster, there, "v1", 2, "n1")
    there.pending.sweep()
    assert outcomes(there) == {
        "p": "WaitingForPreemptedWorkloads",
        "late": "WaitingForPreemptedWorkloads",
        "v1": "WaitingForRoom",
    }
    end(cluster, there, "v1", 2)
    leave(cluster, there, "v2", 2, "n2")
    found = outcomes(there)
    assert found.pop("p") == "WaitingForPreemptedWorkloads"
    assert found.pop("late") is True
    assert set(found.values()) == {"WaitingForRoom"}
    end(cluster, there, "v2", 2)
    found = outcomes(there)
    assert (found.pop("p"), set(found.values())) == (True, {"WaitingForRoom"})


def test_a_new_leader_waits_for_the_victims_of_the_one_before() -> None:
    cluster, there = three()
    there.put(gang("p", 2, priority=1))
    (found,) = there.run()
    assert isinstance(found, Preempt)
    (victim,) = found.victims
    observe(cluster, *members("v2", 2, on="n2", terminating=True))
    went = preempted(gang("v2", 2), victim.reason, victim.message, now=200)
    there.put(went)

    there.pending = PendingQueues(there.options)
    for key in there.view.workloads:
        there.pending.update(key, there.view, there.now)
    assert outcomes(there)["p"] == "WaitingForRoom", "it knows of no victim, and its pods end"
    there.pending.preemptors.expect("ns/p", ())
    recall(filter(None, (recalled(x, there.view) for x in there.view.workloads.values())),
           there.pending)  # fmt: skip
    there.pending.sweep()
    assert outcomes(there)["p"] == "WaitingForPreemptedWorkloads"
    end(cluster, there, "v2", 2)
    assert outcomes(there)["p"] is True


@pytest.mark.parametrize("change", ["of another UID", "not preempted any more", "by hand", "done"])
def test_what_is_no_victim_any_more_is_not_recalled(change: str) -> None:
    _, there = three()
    there.put(gang("p", 2, priority=1))
    (found,) = there.run()
    assert isinstance(found, Preempt)
    message = found.victims[0].message
    went = preempted(gang("v2", 2), "ForRoom", message, now=200)
    match change:
        case "of another UID":
            went = preempted(gang("v2", 2), "ForRoom", message.replace("UID: p", "UID: q"), now=9)
        case "not preempted any more":
            went = reserved(went, admission(went), 300)
        case "by hand":
            went = preempted(gang("v2", 2), "ForRoom", "it was time", now=200)
        case "done":
            went = finished(went, "Succeeded", "", now=300)
        case _:
            raise AssertionError(change)
    assert recalled(went, there.view) is None


def test_no_more_go_while_what_leaves_is_enough() -> None:
    """It leaves for another reason."""
    _, there = three()
    evicted = (condition("QuotaReserved", at=100), condition("Evicted", "PodsReadyTimeout"))
    there.put(holding("v0", 2, conditions=evicted))
    there.put(gang("p", 2, priority=2), gang("q", 2, priority=1))
    assert outcomes(there) == {"p": "WaitingForPreemptedWorkloads", "q": ["v2"]}


@pytest.mark.parametrize("owner", [None, "job-gone"])
def test_none_goes_while_pods_that_are_deleted_anyway_leave_enough(owner: str | None) -> None:
    """They are beside the queue, or of a job that was deleted."""
    cluster = cluster_of(nodes(2, 2))
    there = queues(cluster, holding("low", 2))
    observe(cluster, *members("low", 2, on="n0"))
    gone = [pod(f"gone-{n}", on="n1", controller=owner, terminating=True) for n in range(2)]
    observe(cluster, *gone)
    there.put(gang("p", 2, priority=1))
    assert outcomes(there) == {"p": "WaitingForRoom"}
    for each in gone:
        cluster.apply(deleted(each.uid))
    there.pending.sweep()
    assert outcomes(there) == {"p": True}


def test_a_victim_that_has_quota_elsewhere_does_not_go_again_for_pods_that_still_end() -> None:
    cluster, there = three()
    there.put(gang("p", 4, priority=1))
    assert outcomes(there) == {"p": ["v1", "v2"]}
    leave(cluster, there, "v1", 2, "n1")
    leave(cluster, there, "v2", 2, "n2")
    observe(cluster, node("new", 2))
    assert outcomes(there) == {
        "p": "WaitingForPreemptedWorkloads",
        "v1": True,
        "v2": "WaitingForRoom",
    }
    end(cluster, there, "v2", 2)
    assert outcomes(there)["p"] == "WaitingForPreemptedWorkloads"
    end(cluster, there, "v1", 2)
    assert outcomes(there)["p"] is True


def take_room(cluster: Cluster, there: Admissions, victim: str, on: str) -> None:
    """Have pods beside the queue take what a victim leaves."""
    leave(cluster, there, victim, 2, on)
    end(cluster, there, victim, 2)
    observe(cluster, *pods_beside(on))
    there.pending.sweep()


def pods_beside(on: str) -> list[PodInfo]:
    return [pod(f"beside-{on}-{number}", on=on) for number in range(2)]


def four() -> tuple[Cluster, Admissions]:
    cluster, there = three()
    observe(cluster, node("n3", 2), *members("v3", 2, on="n3"))
    there.put(holding("v3", 2, at=103), gang("p", 2, priority=1))
    return cluster, there


def test_one_whose_room_is_taken_again_and_again_waits_longer_each_time() -> None:
    cluster, there = four()
    assert outcomes(there)["p"] == ["v3"]
    take_room(cluster, there, "v3", "n3")
    assert outcomes(there)["p"] == ["v2"]
    take_room(cluster, there, "v2", "n2")
    there.now += 59
    assert outcomes(there)["p"] == "WaitingForRoom"
    there.now += 1
    there.pending.sweep()
    assert outcomes(there)["p"] == ["v1"]
    take_room(cluster, there, "v1", "n1")
    there.now += 119
    assert outcomes(there)["p"] == "WaitingForRoom"
    there.now += 1
    there.pending.sweep()
    assert outcomes(there)["p"] == ["v0"]


@pytest.mark.parametrize("times", [0, 1])
def test_one_that_is_tried_twice_in_a_cycle_waits_for_the_victims_that_it_chose(times: int) -> None:
    cluster, there = four()
    for _ in range(times):
        assert outcomes(there)["p"] == ["v3"]
        take_room(cluster, there, "v3", "n3")
    found: list[object] = []
    for piece in there.decide_slowly():
        if piece is not None and piece.workload == "ns/p":
            found.append(piece.reason if isinstance(piece, NotAdmitted) else type(piece))
            if len(found) == 1:
                there.pending.sweep()
    assert found == [Preempt, "WaitingForPreemptedWorkloads"]
    assert there.pending.preemptors.has_chosen("ns/p")


def test_while_it_waits_it_takes_room_that_there_is() -> None:
    cluster, there = four()
    outcomes(there)
    take_room(cluster, there, "v3", "n3")
    outcomes(there)
    take_room(cluster, there, "v2", "n2")
    assert outcomes(there)["p"] == "WaitingForRoom"
    observe(cluster, node("new", 2))
    there.pending.sweep()
    assert outcomes(there)["p"] is True


def test_an_eviction_that_was_not_stored_is_no_reason_to_wait() -> None:
    _, there = four()
    for _ in range(4):
        assert outcomes(there)["p"] == ["v3"]
        there.pending.drop_victim("ns/v3")


def test_two_of_them_have_victims_of_their_own() -> None:
    _, there = three()
    there.put(gang("p", 2, priority=3), gang("q", 1, priority=2), gang("r", 1, priority=1))
    assert outcomes(there) == {"p": ["v2"], "q": ["v1"], "r": "WaitingForPreemptedWorkloads"}


def full(**spec: Any) -> Admissions:
    """Return a node that a workload has all of, and one of higher priority that wants it."""
    there = queues(cluster_of(nodes(1), members("low", 1, on="n0")), holding("low", 1), **spec)
    there.put(gang("p", 1, priority=1))
    return there


def test_off_by_default() -> None:
    there = full(options=AdmissionOptions(require_room=True))
    assert outcomes(there) == {"p": "WaitingForRoom"}


@pytest.mark.parametrize(
    ("said", "goes", "wrong"),
    [
        (" lowerpriority\n", True, None),
        ("Never", False, None),
        ("", True, None),
        ("Always", True, "Always"),
    ],
)
def test_a_cluster_queue_may_say_otherwise(said: str, goes: bool, wrong: str | None) -> None:
    about = meta("cq", annotations={PREEMPT_FOR_ROOM_ANNOTATION: said})
    assert outcomes(full(meta=about)) == {"p": ["low"] if goes else "WaitingForRoom"}
    note = f"{PREEMPT_FOR_ROOM_ANNOTATION}={wrong} is ignored: it is to be Never or LowerPriority"
    assert list(unreadable_room(about)) == ([note] if wrong else [])


# -- of which ClusterQueues


def beside(
    cohort: str | None, *, reclaims: str = "Never", **annotations: str
) -> tuple[Cluster, Admissions]:
    """Return a node that a workload of another ClusterQueue has."""
    cluster = cluster_of(nodes(1))
    about, policy = meta("b", annotations=annotations), {"reclaim_within_cohort": reclaims}
    there = queues(
        cluster,
        cluster_queue("b", 10, cohort, meta=about, preemption=policy),
        local_queue("b"),
        holding("low", 1, queue="b"),
        cohort="team",
    )
    observe(cluster, *members("low", 1, on="n0"))
    there.put(gang("p", 1, priority=1))
    return cluster, there


def test_those_of_the_cohort_go() -> None:
    _, there = beside("team")
    (found,) = there.run()
    assert isinstance(found, Preempt)
    (victim,) = found.victims
    assert (victim.workload, victim.reason) == ("ns/low", "ForRoom")
    assert victim.message == (
        "Preempted to accommodate workload ns/p (UID: p, JobUID: job-p) due to room on nodes; "
        "preemptor path: /team/cq; preemptee path: /team/b"
    )
    assert found.message == (
        "quota yes; room for 0 of 1: 1 cpu short on 1 node. Pending the preemption of 1 workload(s)"
    )


STAY: dict[str, tuple[dict[str, Any], object]] = {
    "of no cohort": ({"cohort": None}, "WaitingForRoom"),
    # They would come back at once, to the nodes that they left.
    "of a queue that asks for no room": ({REQUIRE_ROOM_ANNOTATION: "false"}, "WaitingForRoom"),
    # They would come back in place of others that are more important than they are.
    "of one that reclaims from any priority": ({"reclaims": "Any"}, "WaitingForRoom"),
    "not of one that reclaims from lower ones": ({"reclaims": "LowerPriority"}, ["low"]),
}


@pytest.mark.parametrize(("other", "want"), STAY.values(), ids=STAY)
def test_which_of_other_queues_stay(other: dict[str, Any], want: object) -> None:
    _, there = beside(**{"cohort": "team", **other})
    assert outcomes(there) == {"p": want}


def test_in_its_own_queue_they_go_all_the_same() -> None:
    there = full(cohort="team", preemption={"reclaim_within_cohort": "Any"})
    assert outcomes(there) == {"p": ["low"]}


# -- flavors


NODES = (
    node("a0", 2, labels={"kind": "a"}),
    node("b0", 2, labels={"kind": "b"}),
)


def in_flavor(name: str, of: str, priority: int = 0) -> WorkloadInfo:
    asks = gang(name, 2)
    had = (condition("QuotaReserved", at=1),)
    return gang(name, 2, admission=admission(asks, flavor=of), conditions=had, priority=priority)


@pytest.mark.parametrize(
    ("count", "of_a", "goes"),
    [(2, 0, ["low-a"]), (2, 9, ["low-b"]), (3, 0, "WaitingForRoom")],
)
def test_the_first_flavor_in_which_it_would_fit(count: int, of_a: int, goes: object) -> None:
    cluster = cluster_of(NODES, members("low-a", 2, on="a0"), members("low-b", 2, on="b0"))
    there = queues(
        cluster,
        A,
        B,
        in_flavor("low-a", "a", of_a),
        in_flavor("low-b", "b"),
        cpu=group(a=9, b=9),
    )
    there.put(gang("p", count, priority=5))
    assert outcomes(there) == {"p": goes}


def test_a_flavor_with_room_goes_before_victims_in_an_earlier_one() -> None:
    cluster = cluster_of(NODES, members("low-a", 2, on="a0"))
    there = queues(
        cluster,
        A,
        B,
        in_flavor("low-a", "a"),
        cpu=group(a=9, b=9),
        fungibility=FlavorFungibility(when_can_preempt="MayStopSearch"),
    )
    there.put(gang("p", 2, priority=5))
    assert outcomes(there) == {"p": True}


# -- quota and room


def both(cpu: int, **spec: Any) -> tuple[Cluster, Admissions]:
    """Return one with quota on a node of another, which has room and no quota to give."""
    cluster = cluster_of(
        node("n0", 1), node("n1", 2), *members("quota", 1, on="n0"),
        pod("room-0", 2, on="n1", controller="job-room"),
    )  # fmt: skip
    there = queues(
        cluster,
        holding("quota", 1, at=200),
        cluster_queue("b", 2, "team"),
        local_queue("b"),
        holding("room", 1, 2, at=100, queue="b"),
        cpu=cpu,
        cohort="team",
        preemption=LOWER,
        **spec,
    )
    return cluster, there


def test_victims_for_quota_first_and_those_that_room_needs_more() -> None:
    _, there = both(2)
    there.put(gang("p", 1, 2, priority=1))
    (found,) = there.run()
    assert isinstance(found, Preempt)
    assert [(each.workload, each.reason) for each in found.victims] == [
        ("ns/quota", "InClusterQueue"),
        ("ns/room", "ForRoom"),
    ]


@pytest.mark.parametrize("newer", [1, 9])
def test_a_victim_for_quota_stays_where_that_for_room_gives_both(newer: int) -> None:
    """Also where that is found only after the most sets of victims that are tried for quota."""
    small = [
        (node(f"n{n}", 1), members(f"new-{n}", 1, on=f"n{n}"), holding(f"new-{n}", 1, at=200 + n))
        for n in range(newer)
    ]
    cluster = cluster_of(
        *(x for each in small for x in each[:2]), node("big", 2),
        pod("old-0", 2, on="big", controller="job-old"),
    )  # fmt: skip
    news = [each for _, _, each in small]
    there = queues(cluster, *news, holding("old", 1, 2, at=100), cpu=newer + 3, preemption=LOWER)
    there.put(gang("p", 1, 2, priority=1))
    assert outcomes(there) == {"p": ["old"]}


def test_for_quota_alone_none_goes_for_room_where_preemption_is_never() -> None:
    assert outcomes(full(cpu=1)) == {"p": "WaitingForQuota"}


def test_the_explanation_says_which_could_go_for_room() -> None:
    cluster, there = three()
    there.put(gang("p", 2, priority=1))
    rules = AdmissionRules(there.options, NodeRoom(there.view, cluster.view()))
    facts = Facts(
        there.view, there.pending, QuotaTree(there.view), rules, cluster.view(), there.now
    )
    said = explain("ns/p", facts)
    assert said is not None
    assert said.notes == ["ns/v2 could be preempted (ForRoom)"]
    assert said.reason == "WaitingForRoom"
