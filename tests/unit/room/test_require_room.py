"""Quota and room: what is admitted when the nodes are known, and the reasons of the others."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from extender.api.core_v1 import Toleration
from extender.api.queue_wire import FlavorFungibility
from extender.api.wellknown import POD_GROUP_LABEL, REQUIRE_ROOM_ANNOTATION
from extender.fit.packer import Packer
from extender.queueing import cycle
from extender.queueing.cycle import Admit, NotAdmitted, Preempt
from extender.queueing.rules import AdmissionOptions, unreadable_room
from extender.resources.quantity import Resources
from extender.state.cluster import events as cluster_events
from extender.state.cluster.records import Grant, JobInfo
from extender.state.cluster.reservations import Claim
from extender.state.cluster.store import Cluster
from extender.state.queue import events as queue_events
from extender.state.queue.records import JobObject, OwnerRef, PodSetInfo, WorkloadInfo
from tests.makers import (
    cluster_of,
    key,
    node,
    nodes,
    observe,
    pod,
    pod_group,
    pods,
    requests,
    shape,
    taint,
)
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

ROOM = AdmissionOptions(require_room=True)


def queues_of(cluster: Cluster, cpu: Any = 100, *records: Any, **spec: Any) -> Admissions:
    options = spec.pop("options", ROOM)
    return Admissions(
        cluster_queue("cq", cpu, **spec), local_queue(), *records, options=options, cluster=cluster
    )


def reported(queues: Admissions) -> list[str]:
    """Return the workloads that are admitted, and the reasons of the others."""
    return [
        outcome.workload.removeprefix("ns/")
        if isinstance(outcome, Admit)
        else f"{outcome.reason}: {outcome.message}"
        if isinstance(outcome, NotAdmitted)
        else "preempts"
        for outcome in queues.run()
    ]


def found_for(queues: Admissions, name: str) -> Mapping[str, Resources] | None:
    """Return the room that was found for a workload, by node."""
    assert queues.room is not None
    return queues.room.found_for(key(name))


def gang(name: str, count: int, cpu: Any = 1, **more: Any) -> WorkloadInfo:
    owner = OwnerRef("batch/v1", "Job", name, f"job-{name}")
    return workload(name, pod_set(cpu, count), owners=(owner,), **more)


def holding(
    name: str, count: int, cpu: Any = 1, *, at: float = 100, queue: str = "cq", **more: Any
) -> WorkloadInfo:
    """Return a workload that is admitted; `at` is when it got its quota."""
    had = (condition("QuotaReserved", at=at), condition("Admitted", at=at))
    said = {"admission": admission(gang(name, count, cpu), queue), "conditions": had, **more}
    return gang(name, count, cpu, queue=queue, **said)


def members(name: str, count: int, *, on: str | None = None, **more: Any) -> list[Any]:
    """Return pods of the job of a workload."""
    return [pod(f"{name}-{n}", on=on, controller=f"job-{name}", **more) for n in range(count)]


def test_quota_is_enough_where_room_is_not_asked_for() -> None:
    queues = queues_of(cluster_of(node("n", 2)), options=AdmissionOptions())
    queues.put(gang("w", 4))
    assert reported(queues) == ["w"]


@pytest.mark.parametrize("default", [False, True])
def test_a_cluster_queue_may_say_otherwise(default: bool) -> None:
    said = {REQUIRE_ROOM_ANNOTATION: str(not default).lower()}
    queues = queues_of(
        cluster_of(node("n", 2)),
        meta=meta("cq", annotations=said),
        options=AdmissionOptions(require_room=default),
    )
    queues.put(gang("w", 4))
    assert (reported(queues) == ["w"]) is default


@pytest.mark.parametrize(
    ("said", "admitted", "wrong"),
    [
        (" True", False, None),
        ("TRUE\n", False, None),
        ("False ", True, None),
        ("", True, None),
        ("yes", True, "yes"),
        ("0", True, "0"),
    ],
)
def test_the_word_is_read_as_people_write_it(said: str, admitted: bool, wrong: str | None) -> None:
    queue = cluster_queue(meta=meta("cq", annotations={REQUIRE_ROOM_ANNOTATION: said}))
    queues = queues_of(cluster_of(node("n", 2)), meta=queue.meta, options=AdmissionOptions())
    queues.put(gang("w", 4))
    assert (reported(queues) == ["w"]) is admitted
    note = f"{REQUIRE_ROOM_ANNOTATION}={wrong} is ignored: it is to be true, false or Provision"
    assert list(unreadable_room(queue.meta)) == ([note] if wrong else [])


WAITS: dict[str, tuple[list[Any], Any, str]] = {
    "with numbers": (
        [node(f"n{n}", 64, gpu=g) for n, g in enumerate((16, 16, 8))],
        pod_set(shape(1, gpu=8), 8),
        "room for 5 of 8: 24 example.com/gpu short on 3 nodes",
    ),
    "one node": ([node("n", 2)], pod_set(1, 4), "room for 2 of 4: 2 cpu short on 1 node"),
    "in pieces": (nodes(3, 3, 3), pod_set(2, 4), "room for 3 of 4: 2 cpu short on 3 nodes"),
    "no single thing is short": (
        [node("a", 8, gpu=0), node("b", 1, gpu=8)],
        pod_set(shape(2, gpu=1), 1),
        "room for 0 of 1: none of 2 nodes has all that one more needs",
    ),
    "no node at all": (
        [],
        pod_set(1, 2),
        "room for 0 of 2: they may use none of 0 nodes",
    ),
    "no node that they may use": (
        nodes(8, 8),
        pod_set(shape(1, selector={"disk": "ssd"}), 2),
        "room for 0 of 2: they may use none of 2 nodes",
    ),
    "several pod sets": (
        nodes(4, 4),
        (pod_set(3, 1, name="master"), pod_set(2, 3, name="worker")),
        "room for 3 of 4: 2 cpu short on 2 nodes",
    ),
    "the small ones are placed though the first is too large": (
        nodes(4),
        (pod_set(8, 1, name="master"), pod_set(1, 3, name="worker")),
        "room for 3 of 4: 8 cpu short on 1 node",
    ),
}


@pytest.mark.parametrize(("there", "sets", "message"), WAITS.values(), ids=WAITS)
def test_a_workload_with_quota_and_no_room_says_what_is_missing(
    there: list[Any], sets: Any, message: str
) -> None:
    queues = queues_of(cluster_of(*there), options=AdmissionOptions(
        require_room=True, quota_check="IgnoreUndeclared"))  # fmt: skip
    queues.put(workload("w", sets))
    assert reported(queues) == [f"WaitingForRoom: quota yes; {message}"]


TAKEN: dict[str, tuple[list[Any], list[WorkloadInfo], bool]] = {
    "nothing": ([], [], True),
    "by pods that run": (pods(1, 2, on="n"), [], False),
    "by a gang that is about to be planned": (
        [pod_group("g", 2), *pods(2, 1, group="g")], [], False,
    ),
    "not by a gang that has no room itself": (
        [pod_group("g", 9), *pods(9, 1, group="g")], [], True,
    ),
    "by one that is admitted and has no pods yet": ([], [holding("a", 1)], False),
    "by one that is admitted and has pods without a node": (
        members("a", 2), [holding("a", 2)], False,
    ),
    "not twice by pods that have one": (
        [node("m", 1), *members("a", 1, on="m")], [holding("a", 1)], True,
    ),
    "by the pods that are missing": (
        [node("m", 1), *members("a", 1, on="m")], [holding("a", 2)], False,
    ),
    "not by pods that are done": (
        [node("m", 1), *members("a", 1, on="m")],
        [holding("a", 2, reclaimable={"main": 1})],
        True,
    ),
    "not by one that is evicted": ([], [holding("a", 2, conditions=(condition("Evicted"),))], True),
    "not by one that is deleted": (
        [], [holding("a", 2, meta=meta("a", "ns", terminating=True))], True,
    ),
    "by the pod that replaces one which is deleted": (
        [node("m", 1), *members("a", 1, on="m", terminating=True)], [holding("a", 1)], False,
    ),
    "by as many as fit of a gang that may fit one day": (
        [node("m", 1), pod("x", on="m")], [holding("a", 5)], False,
    ),
    "not by a gang that never fits": ([], [holding("a", 5)], True),
    "by what fits of one that never fits and has begun": (
        [node("m", 1), *members("a", 1, on="m")], [holding("a", 9)], False,
    ),
    "by a claim": ([cluster_events.Claimed([Claim("ns/g", 0, {"n": {"cpu": 1000}})])], [], False),
    "once by one that is admitted and has a claim": (
        [node("m", 1), cluster_events.Claimed([Claim("ns/a", 0, {"n": {"cpu": 1000}})])],
        [holding("a", 1)],
        True,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("facts", "others", "fits"), TAKEN.values(), ids=TAKEN)
def test_what_counts_as_taken(facts: list[Any], others: list[WorkloadInfo], fits: bool) -> None:
    queues = queues_of(cluster_of(node("n", 4), *facts), 100, *others)
    queues.put(gang("w", 4))
    assert (reported(queues) == ["w"]) is fits


def test_members_of_a_group_are_known_where_the_job_makes_its_pods_by_others() -> None:
    template = json.dumps({"metadata": {"labels": {POD_GROUP_LABEL: "own"}}}).encode()
    sets = PodSetInfo("main", 2, shape(1), template=template)
    asks = workload("a", sets)
    admitted = workload(
        "a", sets, admission=admission(asks), conditions=(condition("QuotaReserved", at=1),)
    )
    cluster = cluster_of(node("n", 4), pods(2, group="own", on="n"))
    queues = queues_of(cluster, 100, admitted)
    queues.put(gang("w", 2))
    assert reported(queues) == ["w"]


def test_what_is_admitted_in_a_cycle_counts_for_the_next_in_it() -> None:
    queues = queues_of(cluster_of(nodes(2, 2, 2)))
    queues.put(gang("one", 4), gang("two", 4), gang("small", 2, 1))
    outcomes = reported(queues)
    assert outcomes[0] == "one"
    assert sorted(outcomes[1:]) == [
        "WaitingForRoom: quota yes; room for 2 of 4: 2 cpu short on 3 nodes",
        "small",
    ]


def test_what_was_evicted_and_is_admitted_again_counts_before_that_is_written() -> None:
    queues = queues_of(cluster_of(nodes(2)))
    queues.put(gang("back", 2, conditions=(condition("Evicted", "Preempted"),)))
    assert queues.admitted() == ["back"]
    queues.put(gang("late", 1))
    assert queues.admitted() == []


def test_it_counts_in_other_trees_of_queues_too() -> None:
    queues = queues_of(cluster_of(node("n", 4)), 100, cluster_queue("b", 100), local_queue("b"))
    queues.put(gang("one", 4), workload("two", pod_set(1, 4), "b"))
    assert sum(isinstance(outcome, Admit) for outcome in queues.run()) == 1
    assert queues.run() == ()


def test_a_workload_that_never_fits_keeps_no_room_in_the_cycle_either() -> None:
    anything = meta("b", annotations={REQUIRE_ROOM_ANNOTATION: "false"})
    other = cluster_queue("b", 1000, meta=anything)
    queues = queues_of(cluster_of(nodes(4, 4)), 100, other, local_queue("b"))
    queues.put(workload("huge", pod_set(3, 99), "b"), gang("w", 2))
    assert sorted(reported(queues)) == ["huge", "w"]


def test_what_was_just_answered_is_not_worked_out_again(monkeypatch: pytest.MonkeyPatch) -> None:
    fills: list[object] = []
    fill = Packer.fill

    def counted(*given: Any, **more: Any) -> Any:
        fills.append(given)
        return fill(*given, **more)

    monkeypatch.setattr(Packer, "fill", counted)
    queues = queues_of(cluster_of(SPOT_NODE, FAST_NODE), group(spot=8, fast=8), SPOT, FAST)
    queues.put(gang("w", 3))
    assert flavored(queues) == ["fast"]
    assert len(fills) == 2  # in each flavor; it is taken where room was found


def test_room_that_was_found_is_kept_for_its_pods_and_reported() -> None:
    cluster = cluster_of(nodes(4, 2, 4))
    queues = queues_of(cluster)
    queues.put(gang("first", 3, 2))
    assert reported(queues) == ["first"]
    found = {"n1": {"cpu": 2000, "pods": 1}, "n0": {"cpu": 4000, "pods": 2}}
    assert found_for(queues, "first") == found
    # There is a node now that it would rather have had.
    observe(cluster, node("n3", 2))
    queues.put(gang("second", 3, 2))
    assert reported(queues) == ["second"]
    assert found_for(queues, "first") == found
    assert set(found_for(queues, "second") or ()) == {"n2", "n3"}
    queues.drop(gang("first", 3, 2))
    assert queues.run() == ()
    assert found_for(queues, "first") is None


def test_no_workload_takes_room_that_is_promised_to_later_ones() -> None:
    """`a` is counted first, and could have all of n0."""
    rooms = {"a": {"n0": requests(2), "n1": requests(4)}, "b": {"n0": requests(6)}}
    groups = [pod_group(name, 1, grant=Grant(found, 1e9)) for name, found in rooms.items()]
    cluster = cluster_of(nodes(8, 4), groups)
    queues = queues_of(cluster)
    queues.put(holding("a", 3, 2), holding("b", 3, 2), gang("w", 1, 1))
    assert reported(queues) == [
        "WaitingForRoom: quota yes; room for 0 of 1: 1 cpu short on 2 nodes"
    ]


def test_what_is_promised_shrinks_with_the_pods_that_come() -> None:
    rooms = {"n0": requests(2), "n1": requests(2)}
    cluster = cluster_of(nodes(6, 2, 2), pod_group("a", 1, grant=Grant(rooms, 1e9)))
    queues = queues_of(cluster)
    queues.put(holding("a", 2, 2), gang("w", 1, 2))
    assert reported(queues) == ["w"]
    assert set(found_for(queues, "w") or ()) == {"n2"}
    observe(cluster, members("a", 1, on="n0", cpu=2))
    queues.put(gang("v", 1, 4))
    assert reported(queues) == ["v"]


def test_what_was_granted_before_a_restart_is_kept() -> None:
    rooms = {"n1": {"cpu": 4000, "pods": 1}}
    cluster = cluster_of(nodes(4, 4), pod_group("first", 1, grant=Grant(rooms, 1e9)))
    queues = queues_of(cluster)
    small, large = gang("small", 1, 3), gang("large", 1, 4)
    queues.put(holding("first", 1, 4), small)
    assert reported(queues) == ["small"]
    assert found_for(queues, "small") == {"n0": {"cpu": 3000, "pods": 1}}
    queues.put(large)
    assert reported(queues) == [
        "WaitingForRoom: quota yes; room for 0 of 1: 4 cpu short on 2 nodes"
    ]


def test_what_no_admitted_workload_backs_is_free() -> None:
    rooms = {"n0": {"cpu": 4000}}
    queues = queues_of(cluster_of(nodes(4), pod_group("stray", 1, grant=Grant(rooms, 1e9))))
    queues.put(gang("w", 1, 1))
    assert reported(queues) == ["w"]


def test_no_more_is_promised_than_the_pods_ask_for() -> None:
    """What another process found may be wrong, or another controller's reason."""
    rooms = {"n1": {"cpu": 9000, "pods": 5}, "n0": {"cpu": 3000}}
    cluster = cluster_of(nodes(4, 12), pod_group("a", 1, grant=Grant(rooms, 1e9)))
    queues = queues_of(cluster)
    queues.put(holding("a", 2, 2), gang("w", 1, 1))
    assert reported(queues) == ["w"]
    assert found_for(queues, "a") == {"n1": {"cpu": 4000, "pods": 2}}


@pytest.mark.parametrize(("more", "admitted"), [(0, True), (1, False), (2, False)])
def test_pods_that_have_succeeded_keep_no_room_for_others(more: int, admitted: bool) -> None:
    """Their Job counts it a second later; some may have successors."""
    ended = members("a", 2, on="n0", group="a", cpu=2, finished=True, phase="Succeeded")
    job = JobInfo("job-a", key("a"), begun=2, more=more)
    cluster = cluster_of(nodes(4), pod_group("a", 2), cluster_events.ObjectApplied(job), ended)
    queues = queues_of(cluster)
    queues.put(holding("a", 2, 2), gang("w", 2, 2))
    assert (reported(queues) == ["w"]) is admitted


def test_what_was_granted_to_one_that_lost_its_quota_is_free() -> None:
    rooms = {"n0": {"cpu": 4000}}
    queues = queues_of(cluster_of(nodes(4), pod_group("first", 1, grant=Grant(rooms, 1e9))))
    queues.put(gang("first", 1, 4), gang("second", 1, 4))
    assert reported(queues)[0] == "first"


def test_a_workload_with_other_nodes_does_not_take_promised_room() -> None:
    """Nothing is known of where `a` was to go, which is counted first otherwise."""
    grant = Grant({"n0": requests(4)}, 1e9)
    cluster = cluster_of(nodes(4, 8), pod_group("b", 1, grant=grant))
    queues = queues_of(cluster)
    picky = shape(4, selector={"only": "n0"})
    observe(cluster, node("n0", 4, labels={"only": "n0"}))
    queues.put(holding("a", 1, 4), holding("b", 1, picky), gang("c", 1, 4), gang("d", 1, 1))
    assert reported(queues) == [
        "c",
        "WaitingForRoom: quota yes; room for 0 of 1: 1 cpu short on 2 nodes",
    ]


def test_small_ones_leave_whole_nodes_whole() -> None:
    queues = queues_of(cluster_of(nodes(8, 3, 8, 3)))
    queues.put(gang("small", 6, 1))
    assert reported(queues) == ["small"]
    found = found_for(queues, "small")
    assert found is not None
    assert set(found) == {"n1", "n3"}


SPOT = flavor("spot", node_labels={"kind": "spot"})
FAST = flavor(
    "fast",
    node_labels={"kind": "fast"},
    node_taints=(taint(),),
    tolerations=(Toleration(key="dedicated", operator="Exists"),),
)
SPOT_NODE = node("s", 2, labels={"kind": "spot"})
FAST_NODE = node("f", 4, labels={"kind": "fast"}, taints=(taint(),))


def flavored(queues: Admissions) -> object:
    (outcome,) = queues.run()
    if isinstance(outcome, Admit):
        return [each.flavors["cpu"] for each in outcome.admission.assignments]
    assert isinstance(outcome, NotAdmitted)
    return outcome.reason, outcome.message


def test_a_flavor_without_room_is_passed_over() -> None:
    queues = queues_of(cluster_of(SPOT_NODE, FAST_NODE), group(spot=8, fast=8), SPOT, FAST)
    queues.put(gang("w", 3))
    assert flavored(queues) == ["fast"]


def test_pod_sets_before_count_for_the_flavors_of_the_next() -> None:
    queues = queues_of(cluster_of(SPOT_NODE, FAST_NODE), group(spot=8, fast=8), SPOT, FAST)
    queues.put(workload("w", (pod_set(2, 1, name="a"), pod_set(1, 3, name="b"))))
    assert flavored(queues) == ["spot", "fast"]


def test_the_nodes_of_other_flavors_are_no_room() -> None:
    other = node("o", 4, labels={"kind": "other"})
    queues = queues_of(cluster_of(SPOT_NODE, other), group(spot=8), SPOT)
    queues.put(gang("w", 3))
    text = "quota yes; room for 2 of 3: 1 cpu short on 1 node"
    assert flavored(queues) == ("WaitingForRoom", text)


def test_each_flavor_says_which_of_the_two_it_lacks() -> None:
    queues = queues_of(cluster_of(SPOT_NODE, FAST_NODE), group(spot=8, fast=2), SPOT, FAST)
    queues.put(gang("w", 3))
    assert flavored(queues) == (
        "WaitingForRoom",
        "couldn't assign flavors to pod set main: flavor spot: quota yes; room for 2 of 3: 1 cpu "
        "short on 1 node, insufficient quota for cpu in flavor fast, 1 more than its maximum "
        "capacity (2)",
    )


def test_no_workload_is_preempted_for_room() -> None:
    low = holding("low", 2)
    queues = queues_of(
        cluster_of(node("n", 3), members("low", 2, on="n")),
        100,
        low,
        preemption={"within_cluster_queue": "LowerPriority"},
    )
    queues.put(gang("high", 2, priority=10))
    (outcome,) = queues.run()
    assert isinstance(outcome, NotAdmitted)
    assert outcome.reason == "WaitingForRoom"


@pytest.mark.parametrize("cpu", [2, 3], ids=["their room is enough", "it is not"])
def test_a_workload_preempted_for_quota_gives_room_too(cpu: int) -> None:
    queues = queues_of(
        cluster_of(node("n", 2), members("low", 2, on="n")),
        3,
        holding("low", 2),
        preemption={"within_cluster_queue": "LowerPriority"},
    )
    queues.put(gang("high", cpu, priority=10))
    (outcome,) = queues.run()
    if cpu == 2:
        assert isinstance(outcome, Preempt)
        return
    assert isinstance(outcome, NotAdmitted)
    text = "quota after preemption; room for 2 of 3: 1 cpu short on 1 node"
    assert (outcome.reason, outcome.message) == ("WaitingForRoom", text)


LOWER = {"within_cluster_queue": "LowerPriority"}


def test_a_preempted_workload_gives_the_room_that_is_kept_for_it() -> None:
    queues = queues_of(cluster_of(node("n", 2)), 2, holding("low", 2), preemption=LOWER)
    queues.put(gang("high", 2, priority=10))
    (outcome,) = queues.run()
    assert isinstance(outcome, Preempt)


def test_the_room_that_they_give_may_be_on_any_node() -> None:
    """Its equals, placed before, had found the first node full."""
    queues = queues_of(
        cluster_of(nodes(2, 2), members("low", 2, on="n0")),
        4,
        holding("low", 2),
        holding("equal", 2, priority=10),
        preemption=LOWER,
    )
    queues.put(gang("high", 2, priority=10))
    (outcome,) = queues.run()
    assert isinstance(outcome, Preempt)


def test_unequal_pods_may_go_on_the_fullest_nodes_first() -> None:
    queues = queues_of(cluster_of(node("n0", 4), node("n1", 6), pod("x", 3, on="n1")))
    queues.put(workload("w", (pod_set(3, 1, name="a"), pod_set(2, 2, name="b"))))
    assert reported(queues) == ["w"]


def test_no_workload_is_preempted_because_another_flavor_has_no_room() -> None:
    low = workload("low", pod_set(2), admission=admission(workload("low", 2), flavor="fast"),
                   conditions=(condition("QuotaReserved", at=1),))  # fmt: skip
    queues = queues_of(
        cluster_of(SPOT_NODE, FAST_NODE),
        group(spot=8, fast=3),
        SPOT,
        FAST,
        low,
        preemption={"within_cluster_queue": "LowerPriority"},
        fungibility=FlavorFungibility(when_can_preempt="MayStopSearch"),
    )
    queues.put(gang("high", 3, priority=10))
    (outcome,) = queues.run()
    assert isinstance(outcome, NotAdmitted)
    assert outcome.reason == "WaitingForRoom"


def test_fewer_pods_may_fit() -> None:
    queues = queues_of(cluster_of(node("n", 3)))
    queues.put(workload("w", pod_set(1, 5, least=2)))
    (outcome,) = queues.run()
    assert isinstance(outcome, Admit)
    assert [each.count for each in outcome.admission.assignments] == [3]


@pytest.mark.parametrize("strategy", ["BestEffortFIFO", "StrictFIFO"])
def test_a_workload_without_room_is_inadmissible_until_there_may_be_some(strategy: str) -> None:
    cluster = cluster_of(node("n", 2))
    queues = queues_of(cluster, strategy=strategy)
    queues.put(gang("w", 4), gang("equal", 4))
    assert len(queues.run()) == 1  # its equals are not asked
    assert queues.pending.lacks_capacity
    assert not queues.run()

    observe(cluster, node("m", 8))
    assert not queues.run()
    queues.pending.sweep()
    assert reported(queues) == ["w", "equal"]
    assert not queues.pending.lacks_capacity


def test_each_has_a_turn_before_any_has_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cycle, "ROUNDS", 1)
    queues = queues_of(cluster_of(node("n", 2)))
    queues.put(*[gang(f"w{count}", count) for count in (3, 4, 5)])
    for _ in range(3):
        queues.run()
    assert queues.pending.sweep()
    queues.run()
    assert not queues.pending.sweep()
    assert queues.run()[0].workload == "ns/w4"
    queues.drop(queues.view.workloads["ns/w5"])
    assert queues.pending.sweep()
    assert queues.run()[0].workload == "ns/w3"


def test_quota_that_comes_back_is_none_of_their_turns() -> None:
    queues = queues_of(cluster_of(node("n", 2)), 4, holding("a", 1))
    queues.put(gang("w", 3))
    assert reported(queues)[0].startswith("WaitingForRoom")
    queues.drop(queues.view.workloads["ns/a"])
    assert not queues.run()
    queues.pending.sweep()
    assert reported(queues)[0].startswith("WaitingForRoom")


def test_a_queue_that_becomes_strict_has_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cycle, "ROUNDS", 1)
    queues = queues_of(cluster_of(node("n", 2)))
    queues.put(*[gang(f"w{count}", count) for count in (3, 4, 5)])
    for _ in range(3):
        queues.run()
    queues.pending.sweep()
    queues.put(cluster_queue("cq", 100, strategy="StrictFIFO"))
    assert queues.run()[0].workload == "ns/w3"
    assert queues.pending.sweep()
    assert queues.run()[0].workload == "ns/w3"


def test_a_workload_without_quota_is_not_tried_for_room() -> None:
    queues = queues_of(cluster_of(node("n", 2)), 3)
    queues.put(gang("w", 4))
    assert reported(queues)[0].startswith("ExceedsMaxQuota")
    assert not queues.pending.lacks_capacity
    queues.pending.sweep()
    assert not queues.run()


def test_the_key_of_a_group_is_the_workloads() -> None:
    cluster = cluster_of(node("n", 4), pods(2, group="a", on="n"))
    asks = workload("a", pod_set(1, 2))
    queues = queues_of(cluster, 100, workload(
        "a", pod_set(1, 2), admission=admission(asks), conditions=(condition("QuotaReserved"),)
    ))  # fmt: skip
    assert key("a") in cluster.view().groups
    queues.put(gang("w", 2))
    assert reported(queues) == ["w"]


def test_jobs_that_are_done_need_no_room_though_they_keep_quota() -> None:
    """Two of four pods start no more, of one that asks for room and of one that has it."""
    half = JobObject("jobset.x-k8s.io/jobset", meta("w", "ns", uid="job-w"), b"", done={"main": 2})
    queues = queues_of(cluster_of(node("n", 2)))
    queues.apply(queue_events.JobApplied(half))
    queues.put(gang("w", 4))
    assert reported(queues) == ["w"]

    queues = queues_of(cluster_of(node("n", 4), members("w", 1, on="n")))
    queues.put(holding("w", 4), gang("next", 2))
    assert reported(queues) == ["WaitingForRoom: quota yes; room for 0 of 2: 2 cpu short on 1 node"]

    queues = queues_of(cluster_of(node("n", 4), members("w", 1, on="n")))
    queues.apply(queue_events.JobApplied(half))
    queues.put(holding("w", 4), gang("next", 2))
    assert reported(queues) == ["next"]
