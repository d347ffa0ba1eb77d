"""Preemption and room: victims give both, and the preemptor has both."""

from dataclasses import replace
from unittest.mock import Mock

import pytest

from extender.api.explanations import Explanation
from extender.api.queue_wire import FlavorFungibility
from extender.explain.facts import Facts
from extender.explain.workload import explain
from extender.queueing.cycle import Admit, Broken, NotAdmitted, Outcome, Preempt
from extender.queueing.rules import AdmissionRules
from extender.room import nodes as room_nodes
from extender.room.nodes import NodeRoom
from extender.state.cluster.records import NodeInfo
from extender.state.cluster.store import Cluster
from extender.state.queue.records import WorkloadInfo
from tests.makers import cluster_of, deleted, node, nodes, observe, pod
from tests.queue_makers import (
    Admissions,
    admission,
    cluster_queue,
    condition,
    flavor,
    group,
    local_queue,
    meta,
    pod_set,
    workload,
)
from tests.unit.room.test_require_room import gang, holding, members, queues_of

LOWER = {"within_cluster_queue": "LowerPriority"}
EVICTED = (condition("QuotaReserved", at=100), condition("Evicted"))


def outcomes(queues: Admissions) -> dict[str, object]:
    """Return which workloads are admitted, their victims, and why the rest waits."""
    found: dict[str, object] = {}
    for outcome in queues.run():
        name = outcome.workload.removeprefix("ns/")
        match outcome:
            case Admit():
                found[name] = True
            case Preempt():
                found[name] = [victim.workload.removeprefix("ns/") for victim in outcome.victims]
            case NotAdmitted():
                found[name] = str(outcome.reason)
            case Broken():
                raise AssertionError(outcome)
    return found


def four_small_ones() -> tuple[Cluster, Admissions]:
    """Return a full cluster of four nodes with a workload on each, and one that wants all."""
    cluster = cluster_of(nodes(1, 1, 1, 1))
    queues = queues_of(cluster, 4, preemption=LOWER)
    for number in range(4):
        queues.put(holding(f"v{number}", 1))
        observe(cluster, pod(f"v{number}-0", on=f"n{number}", controller=f"job-v{number}"))
    queues.put(gang("p", 4, priority=10))
    assert outcomes(queues) == {"p": ["v0", "v1", "v2", "v3"]}
    return cluster, queues


def leave(cluster: Cluster, queues: Admissions, *numbers: int) -> None:
    """Have quota given back by victims whose pods still end."""
    for number in numbers:
        name = f"v{number}"
        observe(
            cluster, pod(f"{name}-0", on=f"n{number}", controller=f"job-{name}", terminating=True)
        )
        queues.put(gang(name, 1, conditions=(condition("Evicted"),)))


def end(cluster: Cluster, queues: Admissions, number: int) -> None:
    cluster.apply(deleted(f"v{number}-0"))
    queues.pending.sweep()


def test_victims_do_not_come_back_while_their_pods_end() -> None:
    cluster, queues = four_small_ones()
    leave(cluster, queues, 0, 1, 2, 3)
    assert outcomes(queues) == {"p": "WaitingForPreemptedWorkloads", "v0": "WaitingForQuota"}
    for number in range(3):
        end(cluster, queues, number)
        assert outcomes(queues) == {"p": "WaitingForPreemptedWorkloads"}
    end(cluster, queues, 3)
    assert outcomes(queues) == {"p": True}


def test_some_have_quota_and_of_others_the_pods_still_end() -> None:
    cluster, queues = four_small_ones()
    leave(cluster, queues, 0, 1)
    for number in (2, 3):
        queues.put(holding(f"v{number}", 1, conditions=EVICTED))
    found = outcomes(queues)
    assert found["p"] == "WaitingForPreemptedWorkloads"
    end(cluster, queues, 0)
    leave(cluster, queues, 2, 3)
    assert outcomes(queues)["p"] == "WaitingForPreemptedWorkloads"
    for number in (1, 2, 3):
        end(cluster, queues, number)
    assert outcomes(queues)["p"] is True


def test_a_pod_that_ends_while_it_is_asked_what_all_leave_is_not_missed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(room_nodes, "PIECE", 1)
    cluster, queues = four_small_ones()
    leave(cluster, queues, 0, 1, 2, 3)
    assert isinstance(queues.room, NodeRoom)
    left, found = [3, 1, 2], {}
    for outcome in queues.decide_slowly():
        if outcome is not None:
            found[outcome.workload] = outcome.reason if isinstance(outcome, NotAdmitted) else None
        if queues.room.asking and left:
            cluster.apply(deleted(f"v{left.pop()}-0"))
    assert not left
    assert found["ns/p"] == "WaitingForPreemptedWorkloads"
    assert "ns/p" in queues.pending.preemptors


def test_the_message_names_what_is_short_and_which_workloads_it_waits_for() -> None:
    cluster, queues = four_small_ones()
    leave(cluster, queues, 0, 1, 2, 3)
    end(cluster, queues, 0)
    [wait] = [each for each in queues.run() if each.workload == "ns/p"]
    assert isinstance(wait, NotAdmitted)
    text = "quota yes; room for 1 of 4: 3 cpu short on 4 nodes"
    assert wait.message == f"{text}. Pending the preemption of 4 workload(s)"


def test_the_explanation_names_the_workloads_whose_pods_still_end() -> None:
    cluster, queues = four_small_ones()
    leave(cluster, queues, 0, 1, 2)
    queues.put(holding("v3", 1, conditions=EVICTED))
    queues.run()
    rules = AdmissionRules(queues.options, NodeRoom(queues.view, cluster.view()))

    def explained() -> Explanation:
        """Return what is said of the preemptor now."""
        view, tree = queues.view, queues.tree
        found = explain(
            "ns/p", Facts(view, queues.pending, tree, rules, cluster.view(), queues.now)
        )
        assert found is not None
        return found

    assert explained().notes == ["ns/v3 is releasing its quota"]
    leave(cluster, queues, 3)
    found = explained()
    assert found.reason == "WaitingForPreemptedWorkloads"
    assert found.notes == [f"pods of ns/v{number} are still ending" for number in range(4)]


def test_no_victim_is_waited_for_where_its_pods_free_no_room() -> None:
    cluster, queues = four_small_ones()
    leave(cluster, queues, 0, 1, 2, 3)
    cluster.apply(deleted("n3", NodeInfo))
    assert outcomes(queues)["p"] == "WaitingForRoom"
    end(cluster, queues, 0)
    assert outcomes(queues) == {"p": "WaitingForRoom", "v0": True, "v1": "WaitingForRoom"}


def test_a_victim_that_was_admitted_again_is_not_waited_for() -> None:
    cluster, queues = four_small_ones()
    leave(cluster, queues, 0, 1, 2, 3)
    observe(cluster, node("more", 1))
    queues.put(cluster_queue("cq", 5, preemption=LOWER))
    found = outcomes(queues)
    assert found == {"p": "WaitingForPreemptedWorkloads", "v0": True, "v1": "WaitingForQuota"}
    assert queues.pending.preemptors.victims("ns/p") == {"ns/v1", "ns/v2", "ns/v3"}


@pytest.mark.parametrize("when", ["at once", "while they leave", "while their pods end"])
def test_its_room_is_kept_from_other_queues(when: str) -> None:
    cluster = cluster_of(nodes(1, 1, 1, 1))
    other = (cluster_queue("b", 100), local_queue("b"))
    queues = queues_of(cluster, 4, *other, preemption=LOWER)
    queues.put(holding("low", 2))
    observe(cluster, *members("low", 1, on="n0"), pod("low-1", on="n1", controller="job-low"))
    queues.put(gang("p", 4, priority=10))
    late = workload("o", pod_set(1, 2), "b")
    if when == "at once":
        queues.put(late)
    assert outcomes(queues)["p"] == ["low"]
    if when == "while they leave":
        queues.put(holding("low", 2, conditions=EVICTED), late)
    if when == "while their pods end":
        for number in (0, 1):
            observe(cluster, pod(f"low-{number}", on=f"n{number}", controller="job-low",
                              terminating=True))  # fmt: skip
        queues.put(gang("low", 2, conditions=(condition("Evicted"),)))
        assert outcomes(queues)["p"] == "WaitingForPreemptedWorkloads"
        queues.put(late)
        assert outcomes(queues)["o"] == "WaitingForRoom"
    assert not queues.view.is_assumed("ns/o")
    for number in (0, 1):
        cluster.apply(deleted(f"low-{number}"))
    queues.put(gang("low", 2, conditions=(condition("Evicted"),)))
    queues.pending.sweep()
    found = outcomes(queues)
    assert (found["p"], found["o"]) == (True, "WaitingForRoom")


def test_what_they_give_back_beyond_its_need_is_for_others() -> None:
    cluster = cluster_of(nodes(1, 1, 1, 1))
    other = (cluster_queue("b", 100), local_queue("b"))
    queues = queues_of(cluster, 2, *other, preemption=LOWER)
    queues.put(holding("low", 2))
    observe(cluster, *members("low", 1, on="n0"), pod("low-1", on="n1", controller="job-low"))
    queues.put(gang("p", 2, priority=10), workload("o", pod_set(1, 2), "b"))
    assert outcomes(queues) == {"p": ["low"], "o": True}


def test_a_queue_that_asks_for_no_room_gets_none_kept() -> None:
    cluster = cluster_of(nodes(1), pod("low-0", on="gone", controller="job-low"))
    plain = cluster_queue("b", 1, preemption=LOWER)
    plain = replace(plain, meta=replace(plain.meta, annotations=NO_ROOM))
    queues = queues_of(cluster, 4, plain, local_queue("b"))
    queues.put(holding("low", 1, queue="b"))
    queues.put(workload("p", 1, "b", 10), gang("o", 1))
    assert outcomes(queues) == {"p": ["low"], "o": True}


NO_ROOM = {"scheduling.x-k8s.io/require-room": "false"}


@pytest.mark.parametrize("short", [False, True])
def test_none_goes_where_one_that_is_admitted_and_lacks_room_takes_what_it_leaves(
    *, short: bool
) -> None:
    """`b` asks for no room, so that its quota may exceed the nodes: it would come back, too."""
    plain = cluster_queue("b", 4, "all", meta=meta("b", annotations=NO_ROOM))
    cluster = cluster_of(nodes(2, 2, 2 * (not short)), members("v0", 2, on="n0"))
    observe(cluster, members("v1", 2, on="n1"))
    queues = queues_of(
        *(cluster, 2, plain, local_queue("b")),
        cohort="all",
        preemption={"reclaim_within_cohort": "Any"},
    )
    queues.put(*(holding(f"v{number}", 2, queue="b") for number in range(3)))
    queues.put(gang("p", 2, priority=10))
    assert outcomes(queues) == {"p": "WaitingForRoom" if short else ["v0"]}


# -- which go


def test_others_go_where_those_asked_first_give_no_room() -> None:
    cluster = cluster_of(
        node("n0", 2),
        [node(f"small{n}", 1) for n in range(2)],
        pod("v2-0", 2, on="n0", controller="job-v2"),
        pod("v1-0", 1, on="small0", controller="job-v1"),
        pod("v1-1", 1, on="small1", controller="job-v1"),
    )
    queues = queues_of(
        cluster, 4, holding("v2", 1, 2, at=100), holding("v1", 2, 1, at=200), preemption=LOWER
    )
    queues.put(gang("p", 1, 2, priority=10))
    assert outcomes(queues) == {"p": ["v2"]}


def test_others_go_where_those_asked_first_give_too_little() -> None:
    """Three give room for one pod of two; the fourth for both."""
    cluster = cluster_of(
        node("n0", 2),
        [node(f"small{n}", 1) for n in range(2)],
        node("n1", 4),
        pod("some-0", 2, on="n0", controller="job-some"),
        [pod(f"some-{n}", on=f"small{n - 1}", controller="job-some") for n in (1, 2)],
        pod("whole-0", 4, on="n1", controller="job-whole"),
    )
    some = (pod_set(2, 1, name="large"), pod_set(1, 2, name="small"))
    asks = replace(gang("some", 1), pod_sets=some)
    late = replace(holding("some", 1, 1, at=200), pod_sets=some, admission=admission(asks))
    queues = queues_of(cluster, 8, holding("whole", 1, 4, at=100), late, preemption=LOWER)
    queues.put(gang("p", 2, 2, priority=10))
    assert outcomes(queues) == {"p": ["whole"]}


def test_no_workload_is_preempted_where_none_gives_room(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = cluster_of(nodes(*[1] * 20), [
        pod(f"v{n}-0", on=f"n{n}", controller=f"job-v{n}") for n in range(20)
    ])  # fmt: skip
    queues = queues_of(cluster, 20, *[holding(f"v{n}", 1) for n in range(20)], preemption=LOWER)
    queues.put(gang("p", 1, 2, priority=10))
    gains = Mock(wraps=queues.room.gains) if queues.room else Mock()
    monkeypatch.setattr(NodeRoom, "gains", gains)
    assert outcomes(queues) == {"p": "WaitingForRoom"}
    assert gains.call_count == 8  # and no more, however many there are


A, B = flavor("a", node_labels={"kind": "a"}), flavor("b", node_labels={"kind": "b"})
NODES = (node("na", 1, labels={"kind": "a"}), node("nb", 4, labels={"kind": "b"}))


def in_flavor(name: str, of: str, cpu: int) -> WorkloadInfo:
    reserved = (condition("QuotaReserved", at=1),)
    return workload(name, cpu, admission=admission(workload(name, cpu), flavor=of),
                    conditions=reserved)  # fmt: skip


@pytest.mark.parametrize(("second", "reported"), [(4, True), (3, ["low-b"])])
def test_a_flavor_that_has_no_room_even_when_others_leave_it_is_passed_over(
    second: int, reported: object
) -> None:
    queues = queues_of(
        cluster_of(*NODES),
        group(a=2, b=second),
        A,
        B,
        in_flavor("low-a", "a", 2),
        in_flavor("low-b", "b", 2),
        preemption=LOWER,
        fungibility=FlavorFungibility(when_can_preempt="MayStopSearch"),
    )
    queues.put(gang("p", 2, priority=10))
    assert outcomes(queues) == {"p": reported}


def test_it_says_so_of_the_first_flavor_where_there_is_no_other() -> None:
    queues = queues_of(
        cluster_of(NODES[0]), group(a=2, b=2), A, B,
        in_flavor("low-a", "a", 2), in_flavor("low-b", "b", 2), preemption=LOWER,
    )  # fmt: skip
    queues.put(gang("p", 2, priority=10))
    (wait,) = queues.run()
    assert isinstance(wait, NotAdmitted)
    text = "quota after preemption; room for 1 of 2: 1 cpu short on 1 node"
    assert (wait.reason, wait.message) == ("WaitingForRoom", text)


def test_pod_sets_with_quota_do_not_wait_for_the_room_of_those_without() -> None:
    """The first needs a victim to go; the second has all it needs, in another flavor."""
    queues = queues_of(
        cluster_of(*NODES, pod("low-a-0", 1, on="na", controller="job-low-a")),
        group(a=1, b=4),
        A,
        B,
        replace(in_flavor("low-a", "a", 1), owners=gang("low-a", 1).owners),
        preemption=LOWER,
    )
    only_a = pod_set(1, 1, name="first")
    only_a = replace(only_a, shape=replace(only_a.shape, node_selector={"kind": "a"}))
    queues.put(workload("p", (only_a, pod_set(2, 2, name="second")), priority=10))
    assert outcomes(queues) == {"p": ["low-a"]}


def test_a_workload_that_is_tried_twice_in_a_cycle_keeps_the_room_of_its_victims() -> None:
    cluster, queues = four_small_ones()
    leave(cluster, queues, 0, 1, 2, 3)
    queues.run()
    end(cluster, queues, 0)
    queues.put(gang("late", 1))
    found: list[Outcome] = []
    for piece in queues.decide_slowly():
        if piece is not None:
            found.append(piece)
        if len(found) == 1:
            queues.pending.sweep()
    assert list(queues.pending.preemptors) == ["ns/p"]
    assert not any(isinstance(each, Admit) for each in found)
    assert outcomes(queues) == {}
