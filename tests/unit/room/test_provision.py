"""`requireRoom: Provision`: quota is held while an autoscaler is asked for the nodes."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from extender.api.wellknown import HOSTNAME_LABEL, REQUIRE_ROOM_ANNOTATION
from extender.explain.facts import Facts
from extender.explain.workload import explain
from extender.queueing import lifecycle
from extender.queueing.cycle import Admit, Broken, NotAdmitted, Outcome, Preempt
from extender.queueing.rules import AdmissionOptions, PodsReady
from extender.state.cluster.store import Cluster
from extender.state.queue import events as queue_events
from extender.state.queue.records import (
    DomainRequest,
    PreemptionPolicy,
    TopologyInfo,
    WorkloadInfo,
)
from extender.steps import at_once
from tests.makers import cluster_of, key, node, observe, pod
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

PROVISION = AdmissionOptions(require_room=True, provision=True)


def queues_of(cluster: Cluster, cpu: Any = 100, *records: Any, **spec: Any) -> Admissions:
    options = spec.pop("options", PROVISION)
    return Admissions(
        cluster_queue("cq", cpu, **spec), local_queue(), *records, options=options, cluster=cluster
    )


def gang(name: str, count: int, cpu: Any = 1, **more: Any) -> WorkloadInfo:
    return workload(name, pod_set(cpu, count), **more)


def play(queues: Admissions) -> dict[str, str]:
    """Run a cycle after a sweep, store what it decides, and return the outcomes by workload."""
    queues.pending.sweep()
    return dict(_stored(queues, outcome) for outcome in queues.run())


def _stored(queues: Admissions, outcome: Outcome) -> tuple[str, str]:
    name = outcome.workload.removeprefix("ns/")
    before, now = queues.view.workloads[outcome.workload], queues.now
    if isinstance(outcome, NotAdmitted):
        if before.admission is not None:
            after = lifecycle.not_yet_admitted(before, outcome.reason, outcome.message, now=now)
            queues.apply(queue_events.Applied(after))
        return name, f"{outcome.reason}: {outcome.message}"
    if isinstance(outcome, Preempt):
        return name, f"preempts {[each.workload for each in outcome.victims]}"
    assert isinstance(outcome, Admit)
    reserve = lifecycle.reserved if before.admission is None else lifecycle.admitted
    queues.apply(queue_events.Applied(reserve(before, outcome.admission, now)))
    return name, "reserves" if outcome.admission.reserved_only else "admitted"


def add_node(cluster: Cluster, name: str, cpu: int = 4) -> None:
    observe(cluster, node(name, cpu))


LACKS = "WaitingForNodes: quota yes; room for 4 of 8: 4 cpu short on 1 node"


def test_quota_is_held_until_the_nodes_are_there() -> None:
    cluster = cluster_of(node("n", 4))
    queues = queues_of(cluster)
    queues.put(gang("w", 8))
    assert play(queues) == {"w": "reserves"}
    assert queues.view.usage("cq") == {("default", "cpu"): 8000}
    assert play(queues) == {"w": LACKS}
    add_node(cluster, "m")
    assert play(queues) == {"w": "admitted"}
    assert play(queues) == {}
    assert not queues.view.reserved_only
    assert queues.view.usage("cq") == {("default", "cpu"): 8000}
    assert queues.room is not None
    assert queues.room.found_for(key("w")) is not None


def test_what_has_room_is_admitted_at_once() -> None:
    queues = queues_of(cluster_of(node("n", 4)))
    queues.put(gang("w", 4))
    assert play(queues) == {"w": "admitted"}


def test_what_waits_for_nodes_takes_no_room() -> None:
    queues = queues_of(cluster_of(node("n", 4)))
    queues.put(gang("w", 8))
    play(queues)
    queues.put(gang("small", 2))
    assert play(queues) == {"w": LACKS, "small": "admitted"}


def test_one_workload_of_a_queue_asks_at_a_time() -> None:
    cluster = cluster_of(node("n", 2))
    queues = queues_of(cluster)
    queues.put(gang("w", 4, created=1), gang("x", 4, created=2))
    found = play(queues)
    assert found["w"] == "reserves"
    assert found["x"] == (
        "WaitingForRoom: quota yes; room for 2 of 4: 2 cpu short on 1 node; "
        "another workload of its ClusterQueue awaits nodes"
    )
    add_node(cluster, "m", 2)
    assert play(queues)["w"] == "admitted"
    queues.put(gang("x", 4, created=2, priority=1))
    assert play(queues) == {"x": "reserves"}


@pytest.mark.parametrize("said", ["Provision", " provision"])
def test_a_cluster_queue_may_ask_for_it(said: str) -> None:
    spec = {"meta": meta("cq", annotations={REQUIRE_ROOM_ANNOTATION: said})}
    queues = queues_of(cluster_of(node("n", 4)), options=AdmissionOptions(), **spec)
    queues.put(gang("w", 8))
    assert play(queues) == {"w": "reserves"}


@pytest.mark.parametrize(("said", "outcome"), [("true", "WaitingForRoom"), ("false", "admitted")])
def test_a_cluster_queue_may_say_otherwise(said: str, outcome: str) -> None:
    spec = {"meta": meta("cq", annotations={REQUIRE_ROOM_ANNOTATION: said})}
    queues = queues_of(cluster_of(node("n", 4)), **spec)
    queues.put(gang("w", 8))
    assert play(queues)["w"].startswith(outcome)


def test_what_cannot_be_asked_for_holds_no_quota() -> None:
    queues = queues_of(cluster_of(node("n", 4)))
    queues.served = False
    queues.put(gang("w", 8))
    (outcome,) = play(queues).values()
    assert outcome == (
        "WaitingForRoom: quota yes; room for 4 of 8: 4 cpu short on 1 node; no autoscaler can be "
        "asked for nodes: the API server serves neither CapacityBuffers nor ProvisioningRequests"
    )


def test_quota_that_is_missing_is_not_asked_for() -> None:
    queues = queues_of(cluster_of(node("n", 4)), 6)
    queues.put(gang("w", 8))
    (outcome,) = play(queues).values()
    assert outcome.startswith("ExceedsMaxQuota")


def waiting_since(at: float) -> tuple[Admissions, WorkloadInfo]:
    queues = queues_of(cluster_of(node("n", 4)))
    queues.now = at
    queues.put(gang("w", 8))
    play(queues)
    play(queues)
    return queues, queues.view.workloads[key("w")]


def steps(waits: WorkloadInfo, queues: Admissions, *times: float) -> Iterator[Any]:
    rules = lifecycle.LifecycleRules(options=PROVISION)
    for now in times:
        yield lifecycle.decide(waits, queues.view, now, orphaned=False, rules=rules)


def test_quota_is_released_where_no_nodes_come() -> None:
    queues, waits = waiting_since(1000.0)
    before, late = steps(waits, queues, 1000.0 + 899, 1000.0 + 900)
    assert (before.after, before.again) == (None, 1)
    assert late.after.evicted
    assert late.after.requeue is not None
    assert (late.after.requeue.count, late.after.requeue.at) == (0, 1000.0 + 960)
    evicted = late.after.condition("Evicted")
    assert (evicted.reason, evicted.message) == (
        "NodesTimeout",
        f"{LACKS.partition(': ')[2]}; no nodes came in time",
    )


@pytest.mark.parametrize("said", ["true", "provision"])
def test_quota_is_not_held_for_ever_where_nodes_are_no_longer_asked_for(said: str) -> None:
    queues, _ = waiting_since(1000.0)
    queues.put(
        cluster_queue("cq", 100, meta=meta("cq", annotations={REQUIRE_ROOM_ANNOTATION: said}))
    )
    (outcome,) = play(queues).values()
    assert outcome.startswith("WaitingForRoom" if said == "true" else "WaitingForNodes")
    (late,) = steps(queues.view.workloads[key("w")], queues, 1900.0)
    assert late.after.evicted


def test_what_nodes_are_awaited_for_is_admitted_where_no_room_is_required_any_more() -> None:
    queues, _ = waiting_since(1000.0)
    annotations = {REQUIRE_ROOM_ANNOTATION: "false"}
    queues.put(cluster_queue("cq", 100, meta=meta("cq", annotations=annotations)))
    assert play(queues) == {"w": "admitted"}


def test_the_pause_doubles_up_to_half_an_hour() -> None:
    queues, waits = waiting_since(1000.0)
    pauses = []
    for _ in range(7):
        (late,) = steps(waits, queues, 2000.0)
        pauses.append(late.after.requeue.at - 2000.0)
        waits = replace(waits, evictions=late.after.evictions)
    assert pauses == [60, 120, 240, 480, 960, 1800, 1800]


def test_nodes_that_did_not_come_count_for_no_limit_of_pods_that_are_not_ready() -> None:
    queues, waits = waiting_since(1000.0)
    for _ in range(3):
        (late,) = steps(waits, queues, 2000.0)
        waits = replace(waits, requeue=late.after.requeue, evictions=late.after.evictions)
    assert waits.admission is not None
    held = replace(waits.admission, reserved_only=False)
    waits = lifecycle.admitted(waits, held, 3000.0)
    waits = lifecycle.with_conditions(
        waits, 3000.0, lifecycle.condition("PodsReady", "WaitForStart", "", holds=False)
    )
    options = replace(PROVISION, pods_ready=PodsReady(timeout=60, backoff_limit=3))
    rules = lifecycle.LifecycleRules(options=options)
    step = lifecycle.decide(waits, queues.view, 4000.0, orphaned=False, rules=rules)
    assert step.after is not None
    assert step.after.requeue is not None
    assert (step.after.evicted, step.after.requeue.count) == (True, 1)


def test_the_next_reservation_has_its_own_time() -> None:
    queues, waits = waiting_since(1000.0)
    (late,) = steps(waits, queues, 2000.0)
    again = lifecycle.released(late.after, 2000.0)
    again = lifecycle.requeued(again, "BackoffFinished", "", now=3000.0)
    assert waits.admission is not None
    again = lifecycle.reserved(again, waits.admission, 3000.0)
    early, late = steps(again, queues, 3001.0, 3900.0)
    assert (early.after, early.again) == (None, 899)
    assert late.after.evicted


def test_a_workload_of_higher_priority_takes_quota_that_awaits_nodes() -> None:
    policy = PreemptionPolicy(within_cluster_queue="LowerPriority")
    queues = queues_of(cluster_of(node("n", 4)), 8, preemption=policy)
    queues.put(gang("w", 8))
    play(queues)
    queues.put(gang("high", 4, priority=1))
    assert play(queues)["high"] == f"preempts {[key('w')]}"


def test_an_explanation_says_what_a_workload_with_quota_awaits() -> None:
    queues, _ = waiting_since(1000.0)
    cluster = cluster_of(node("n", 4)).view()
    facts = Facts(
        queues.view, queues.pending, queues.tree, queues.rules, cluster, 1000.0, lambda _: None
    )
    found = explain(key("w"), facts)
    assert found is not None
    assert (found.state, f"{found.reason}: {found.message}") == ("QuotaReserved", LACKS)


RACK = "rack"


def rack(name: str, *cpus: int) -> list[Any]:
    labels = {RACK: name, HOSTNAME_LABEL: ""}
    return [
        node(f"{name}-{n}", cpu, labels={**labels, HOSTNAME_LABEL: f"{name}-{n}"})
        for n, cpu in enumerate(cpus)
    ]


def racked(cluster: Cluster) -> Admissions:
    return Admissions(
        flavor("racked", topology="t"),
        TopologyInfo(meta("t"), (RACK, HOSTNAME_LABEL)),
        cluster_queue("cq", group(racked=100)),
        local_queue(),
        options=PROVISION,
        cluster=cluster,
    )


def in_one_rack(name: str, count: int) -> WorkloadInfo:
    request = DomainRequest(required=RACK)
    return workload(name, replace(pod_set(1, count), topology=request))


def test_domains_are_chosen_when_the_nodes_are_there() -> None:
    cluster = cluster_of()
    queues = racked(cluster)
    queues.put(in_one_rack("w", 4))
    assert play(queues) == {"w": "reserves"}
    observe(cluster, rack("a", 2), rack("b", 2))
    assert play(queues)["w"].startswith("WaitingForNodes")
    observe(cluster, rack("b", 2, 2))
    assert play(queues) == {"w": "admitted"}
    held = queues.view.workloads[key("w")].admission
    assert held is not None
    assert held.assignments[0].topology is not None
    assert {host for (host,), _ in held.assignments[0].topology.domains} == {"b-0", "b-1"}


def test_each_attempt_asks_for_nodes_in_another_domain() -> None:
    cluster = cluster_of(rack("a", 2), rack("b", 3), rack("c", 1))
    queues = racked(cluster)
    queues.put(in_one_rack("w", 4))
    play(queues)
    waits = queues.view.workloads[key("w")]
    assert queues.room is not None
    assert waits.admission is not None
    given = waits.admission.assignments
    found = [at_once(queues.room.to_grow(waits, given, attempt=n)) for n in range(5)]
    racks = [(each["main"] or {}).get(RACK) for each in found]
    assert racks == ["b", "a", "c", None, "b"]


def reserving(cluster: Cluster, *names: str, options: AdmissionOptions = PROVISION) -> Admissions:
    """Return a queue where workloads of four pods hold quota, beside two nodes of two CPUs."""
    observe(cluster, node("n", 2), node("m", 2))
    queues = queues_of(cluster, options=options)
    for name in names:
        waits = gang(name, 4)
        held = replace(admission(waits), reserved_only=True)
        queues.put(lifecycle.reserved(waits, held, queues.now))
    return queues


@pytest.mark.parametrize("piece", range(9))
def test_room_that_goes_in_a_pause_admits_nothing(piece: int) -> None:
    cluster = cluster_of()
    queues, taken = reserving(cluster, "w"), False
    for number, outcome in enumerate(queues.decide_slowly()):
        assert not isinstance(outcome, Admit) or not taken
        if number == piece and outcome is None:
            observe(cluster, pod("other", 1, on="m"))
            taken = True


@pytest.mark.parametrize("piece", range(9))
def test_one_that_is_deleted_in_a_pause_is_no_error(piece: int) -> None:
    queues = reserving(cluster_of(), "w", "x")
    for number, outcome in enumerate(queues.decide_slowly()):
        assert not isinstance(outcome, Broken)
        if number == piece:
            queues.drop(queues.view.workloads[key("x")])


def test_what_is_being_deleted_is_not_admitted() -> None:
    queues = reserving(cluster_of(), "w")
    waits = queues.view.workloads[key("w")]
    queues.put(replace(waits, meta=replace(waits.meta, terminating=True, finalizers=("f",))))
    assert play(queues) == {}


def test_one_at_a_time_is_admitted_where_pods_block_admission() -> None:
    cluster, ready = cluster_of(), condition("PodsReady")
    options = replace(PROVISION, pods_ready=PodsReady(block_admission=True))
    queues = reserving(cluster, "w", "x", options=options)
    add_node(cluster, "more")
    waits = "WaitingForPodsReady: waiting until the pods of 1 admitted workload(s) are ready"
    assert play(queues) == {"w": "admitted", "x": waits}
    assert queues.last.held
    assert play(queues) == {"x": waits}
    started = queues.view.workloads[key("w")]
    queues.put(replace(started, conditions=(*started.conditions, ready)))
    assert play(queues) == {"x": "admitted"}


def test_one_that_awaits_nodes_blocks_no_admission() -> None:
    options = replace(PROVISION, pods_ready=PodsReady(block_admission=True))
    queues = queues_of(cluster_of(node("n", 4)), options=options)
    queues.put(cluster_queue("other", 4), local_queue("other"))
    queues.put(gang("w", 8), gang("x", 1, queue="other"))
    assert play(queues) == {"w": "reserves", "x": "admitted"}


def test_what_lacks_room_is_not_asked_for_again_while_nothing_about_it_has_changed() -> None:
    queues = queues_of(cluster_of(node("n", 4)))
    queues.put(gang("w", 8))
    play(queues)
    assert play(queues) == {"w": LACKS}
    queues.run()  # the reason is written now
    queues.put(gang("small", 1))
    assert [each.workload for each in queues.run()] == [key("small")]
    assert queues.pending.lacks_capacity


def test_without_a_node_that_shows_a_domain_none_is_named() -> None:
    cluster = cluster_of()
    queues = racked(cluster)
    queues.put(in_one_rack("w", 4))
    play(queues)
    waits = queues.view.workloads[key("w")]
    assert queues.room is not None
    assert waits.admission is not None
    given = waits.admission.assignments
    assert at_once(queues.room.to_grow(waits, given, attempt=0)) == {"main": None}
    observe(cluster, rack("b", 1))
    assert at_once(queues.room.to_grow(waits, given, attempt=0)) == {"main": {RACK: "b"}}
