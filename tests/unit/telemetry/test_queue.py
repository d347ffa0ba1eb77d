"""Metrics of the queue, under Kueue's names."""

import re
from collections.abc import Iterator
from dataclasses import replace

from prometheus_client import CollectorRegistry, generate_latest

from extender.queueing import lifecycle as to
from extender.runtime.clock import Pacer, SystemClock
from extender.state.queue.records import WorkloadInfo
from extender.telemetry.metrics import page
from extender.telemetry.queue_metrics import QueueGauges, QueueMetrics, QueueState
from tests.queue_makers import (
    Admissions,
    admission,
    cluster_queue,
    group,
    local_queue,
    meta,
    quota,
    workload,
)
from tests.unit.explain.scene import holding


def shown(queues: Admissions | None) -> CollectorRegistry:
    registry = CollectorRegistry()
    seen = QueueState(queues.view, queues.pending) if queues else None
    registry.register(QueueGauges(lambda: seen))
    return registry


def gauges(queues: Admissions | None) -> dict[str, float]:
    return samples(shown(queues))


def samples(registry: CollectorRegistry) -> dict[str, float]:
    lines = generate_latest(registry).decode().splitlines()
    found = (line.rpartition(" ") for line in lines if not line.startswith("#"))
    return {name: float(value) for name, _, value in found}


def test_a_replica_that_does_not_lead_has_no_samples() -> None:
    assert gauges(None) == {}


def test_how_full_queues_are() -> None:
    flavors = group(
        default={
            "cpu": quota("2500m", borrow=1, lend=2),
            "memory": quota("1Gi", resource="memory"),
        }
    )
    queues = Admissions(cluster_queue(cpu=flavors, cohort="team"), local_queue())
    queues.put(holding("has", 2))
    parked = workload("parked", 3)
    queues.put(parked, workload("too", 1))
    queues.decide()
    queues.put(workload("active", 1, priority=9))

    found = gauges(queues)

    of = 'cluster_queue="cq",cohort="team",flavor="default"'
    local = 'name="cq",namespace="ns"'
    want = {
        'kueue_pending_workloads{cluster_queue="cq",status="active"}': 1,
        'kueue_pending_workloads{cluster_queue="cq",status="inadmissible"}': 2,
        'kueue_reserving_active_workloads{cluster_queue="cq"}': 1,
        'kueue_admitted_active_workloads{cluster_queue="cq"}': 1,
        'kueue_cluster_queue_status{cluster_queue="cq",status="active"}': 1,
        'kueue_cluster_queue_status{cluster_queue="cq",status="pending"}': 0,
        'kueue_cluster_queue_status{cluster_queue="cq",status="terminating"}': 0,
        f'kueue_cluster_queue_nominal_quota{{{of},resource="cpu"}}': 2.5,
        f'kueue_cluster_queue_nominal_quota{{{of},resource="memory"}}': 2**30,
        f'kueue_cluster_queue_borrowing_limit{{{of},resource="cpu"}}': 1,
        f'kueue_cluster_queue_lending_limit{{{of},resource="cpu"}}': 2,
        f'kueue_cluster_queue_resource_reservation{{{of},resource="cpu"}}': 2,
        f'kueue_cluster_queue_resource_reservation{{{of},resource="memory"}}': 0,
        f'kueue_cluster_queue_resource_usage{{{of},resource="cpu"}}': 2,
        f'kueue_cluster_queue_resource_usage{{{of},resource="memory"}}': 0,
        f'kueue_local_queue_pending_workloads{{{local},status="active"}}': 1,
        f'kueue_local_queue_pending_workloads{{{local},status="inadmissible"}}': 2,
        f"kueue_local_queue_reserving_active_workloads{{{local}}}": 1,
        f"kueue_local_queue_admitted_active_workloads{{{local}}}": 1,
        "gang_extender_queue_reserved_workloads": 0,
        'gang_extender_queue_oldest_waiting_timestamp_seconds{cluster_queue="cq"}': (
            parked.meta.created
        ),
        f'gang_extender_queue_overcommitted_quota{{{of},resource="cpu"}}': 0,
        f'gang_extender_queue_overcommitted_quota{{{of},resource="memory"}}': 0,
    }
    assert found == want


def test_the_status_of_a_queue() -> None:
    queues = Admissions(
        cluster_queue("stopped", stop_policy="Hold"),
        cluster_queue("going", meta=meta("going", terminating=True)),
    )

    found = gauges(queues)

    def states(name: str) -> list[str]:
        pattern = rf'kueue_cluster_queue_status{{cluster_queue="{name}",status="(\w+)"}}'
        return [m[1] for key, value in found.items() if value and (m := re.fullmatch(pattern, key))]

    assert (states("stopped"), states("going")) == (["pending"], ["terminating"])


def overcommitted(queues: Admissions) -> dict[str, float]:
    """Return by ClusterQueue what is overcommitted of it, in cores."""
    pattern = r'gang_extender_queue_overcommitted_quota{cluster_queue="(\w+)".*resource="cpu"}'
    found = ((re.fullmatch(pattern, name), value) for name, value in gauges(queues).items())
    return {name[1]: value for name, value in found if name}


def test_quota_that_was_lowered_below_what_is_in_use_is_overcommitted() -> None:
    queues = Admissions(cluster_queue(cpu=4), local_queue())
    queues.put(holding("has", 3))
    assert overcommitted(queues) == {"cq": 0}

    queues.put(cluster_queue(cpu="1500m"))
    assert overcommitted(queues) == {"cq": 1.5}


def test_quota_that_is_borrowed_is_not_overcommitted_before_its_cohort_is() -> None:
    queues = Admissions(
        cluster_queue("a", cpu=4, cohort="team"),
        cluster_queue("b", cpu=4, cohort="team"),
        local_queue("a"),
        local_queue("b"),
    )
    queues.put(holding("one", 7, "a"))
    assert overcommitted(queues) == {"a": 0, "b": 0}

    queues.put(holding("two", 3, "b"))
    assert overcommitted(queues) == {"a": 2, "b": 2}


def test_a_page_shows_what_is_overcommitted_since_the_last_one() -> None:
    queues = Admissions(cluster_queue(cpu=4), local_queue())
    registry = shown(queues)
    labels = 'cluster_queue="cq",cohort="",flavor="default",resource="cpu"'
    name = f"gang_extender_queue_overcommitted_quota{{{labels}}}"
    assert samples(registry)[name] == 0

    queues.put(holding("has", 6))

    assert samples(registry)[name] == 2


def test_what_exceeds_a_borrowing_limit_is_overcommitted_though_the_cohort_has_quota() -> None:
    limited = group(default={"cpu": quota(4, borrow=1)})
    queues = Admissions(
        cluster_queue("a", cpu=limited, cohort="team"),
        cluster_queue("b", cpu=9, cohort="team"),
        local_queue("a"),
    )
    queues.put(holding("one", 7, "a"))
    assert overcommitted(queues) == {"a": 2, "b": 0}


def test_a_queue_shows_since_when_its_oldest_workload_waits() -> None:
    queues = Admissions(cluster_queue(cpu=1), local_queue())
    name = 'gang_extender_queue_oldest_waiting_timestamp_seconds{cluster_queue="cq"}'
    assert name not in gauges(queues)

    queues.put(workload("high", 1, priority=9, meta=meta("high", "ns", created=300)))
    queues.put(workload("old", 3, meta=meta("old", "ns", created=100)))
    queues.put(workload("young", 3, meta=meta("young", "ns", created=200)))
    queues.decide()

    assert gauges(queues)[name] == 100


def test_what_happens_to_a_workload_is_counted_once() -> None:
    registry = CollectorRegistry()
    metrics = QueueMetrics(registry)
    before = workload("w", priority_class=("g", "k", "high"))
    before = to.reserved(before, admission(before), 1)
    evicted = to.evicted(before, "PodsReadyTimeout", "late", now=2, cause="WaitForStart")
    ended = to.finished(before, "Succeeded", "done", now=3)

    metrics.reserved(before, "cq", waited=2.0)
    metrics.admitted(before, "cq", waited=2.0)
    metrics.changed(before, before, "cq")
    metrics.changed(before, evicted, "cq")
    metrics.changed(evicted, replace(evicted, past_execution=1), "cq")
    metrics.changed(before, ended, "cq")
    metrics.changed(ended, replace(ended, reclaimable={"main": 1}), "cq")
    metrics.preempted("cq", "InCohortReclamation")

    found = {name: value for name, value in samples(registry).items() if "_total" in name}
    labels = 'cluster_queue="cq",priority_class="high"'
    assert found == {
        f'kueue_evicted_workloads_total{{{labels},reason="PodsReadyTimeout",'
        'underlying_cause="WaitForStart"}': 1,
        f"kueue_admitted_workloads_total{{{labels}}}": 1,
        f"kueue_quota_reserved_workloads_total{{{labels}}}": 1,
        f"kueue_finished_workloads_total{{{labels}}}": 1,
        'kueue_preempted_workloads_total{preempting_cluster_queue="cq",'
        'reason="InCohortReclamation"}': 1,
    }


def test_how_long_pods_took_is_observed_when_they_are_ready_for_the_first_time() -> None:
    registry = CollectorRegistry()
    metrics = QueueMetrics(registry)

    def reported(before: WorkloadInfo, reason: str, *, now: float) -> WorkloadInfo:
        ready = reason in ("Started", "Recovered")
        after = to.with_conditions(before, now, to.condition("PodsReady", reason, "", holds=ready))
        metrics.changed(before, after, "cq")
        return after

    asked = workload("w", created=100)
    found = to.reserved(asked, admission(asked), 130, pods_ready=True)
    found = reported(found, "Started", now=170)
    found = reported(found, "WaitForRecovery", now=200)
    reported(found, "Recovered", now=300)

    found_samples = samples(registry)
    labels = '{cluster_queue="cq",priority_class=""}'
    for name, seconds in (("ready", 70), ("admitted_until_ready", 40)):
        assert found_samples[f"kueue_{name}_wait_time_seconds_count{labels}"] == 1
        assert found_samples[f"kueue_{name}_wait_time_seconds_sum{labels}"] == seconds


def test_how_long_pods_were_ready_is_observed_for_those_that_were_when_evicted() -> None:
    registry = CollectorRegistry()
    metrics = QueueMetrics(registry)
    waits = to.reserved(workload("w"), admission(workload("w")), 100, pods_ready=True)
    ready = to.with_conditions(waits, 110, to.condition("PodsReady", "Started", ""))
    for before in (waits, ready):
        metrics.changed(before, to.preempted(before, "InClusterQueue", "", now=150), "cq")

    name = "kueue_pods_ready_to_evicted_time_seconds"
    labels = '{cluster_queue="cq",reason="Preempted",underlying_cause=""}'
    found = samples(registry)
    assert (found[f"{name}_count{labels}"], found[f"{name}_sum{labels}"]) == (1, 40)


def test_a_deactivation_is_counted_with_what_led_to_it() -> None:
    registry = CollectorRegistry()
    before = workload("w")
    reason = "DeactivatedDueToRequeuingLimitExceeded"
    evicted = to.evicted(before, reason, "", now=2)

    QueueMetrics(registry).changed(before, evicted, "cq")

    name = (
        'kueue_evicted_workloads_total{cluster_queue="cq",priority_class="",'
        'reason="Deactivated",underlying_cause="RequeuingLimitExceeded"}'
    )
    assert samples(registry)[name] == 1


def test_names_and_help_are_as_prometheus_wants_them() -> None:
    registry = shown(Admissions(cluster_queue(), local_queue()))
    QueueMetrics(registry)

    for family in registry.collect():
        ours = family.name.startswith("gang_extender_queue_")
        assert ours or re.fullmatch(r"kueue(_[a-z]+)+", family.name), family.name
        assert family.documentation.endswith("."), family.name
        assert not family.name.endswith(("_total", "_count", "_sum", "_bucket")), family.name


async def test_a_page_is_the_same_whether_or_not_it_is_made_with_rests() -> None:
    registry = CollectorRegistry()
    queues = Admissions(*(cluster_queue(f"cq{number}") for number in range(5)), local_queue())
    collector = QueueGauges(lambda: QueueState(queues.view, queues.pending))
    registry.register(collector)
    whole = generate_latest(registry)
    steps = 0

    def counted() -> Iterator[None]:
        nonlocal steps
        for step in collector.fill():
            steps += 1
            yield step

    assert await page(registry, Pacer(SystemClock(), at_once=0.0), counted()) == whole
    assert steps == 5 + 5 + 1 + 7  # the last seven count fields without effect


async def test_a_queue_that_goes_while_a_page_is_made_is_left_out() -> None:
    registry = CollectorRegistry()
    queues = Admissions(cluster_queue("a"), cluster_queue("b"))
    collector = QueueGauges(lambda: QueueState(queues.view, queues.pending))
    registry.register(collector)

    def interrupted() -> Iterator[None]:
        for number, step in enumerate(collector.fill()):
            if number == 0:
                queues.drop(queues.view.cluster_queues["b"])
            yield step

    text = await page(registry, Pacer(SystemClock()), interrupted())
    assert b'cluster_queue="a"' in text
    assert b'cluster_queue="b"' not in text


def test_the_time_that_admission_checks_take_is_counted() -> None:
    registry = CollectorRegistry()
    QueueMetrics(registry).checked(workload("w", priority_class=("g", "k", "high")), "cq", waited=7)
    labels = 'cluster_queue="cq",priority_class="high"'
    name = "kueue_admission_checks_wait_time_seconds"
    found = samples(registry)
    assert found[f"{name}_sum{{{labels}}}"] == 7
    assert found[f"{name}_count{{{labels}}}"] == 1
