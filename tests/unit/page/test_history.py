"""The last hours that the page keeps: use, waiting, starts and preemptions."""

from extender.state.cluster.records import ConditionInfo, PodGroupStatusInfo
from extender.state.cluster.store import Cluster
from gang_tools.page.history import SAMPLE_SECONDS, History, Sample
from tests.makers import cluster_of, pod_group
from tests.queue_makers import Admissions, cluster_queue, condition, flavor, local_queue, workload
from tests.unit.explain.scene import facts, holding


def queues() -> Admissions:
    return Admissions(
        *(flavor(), cluster_queue("a", 4, "team"), local_queue("a")),
        *(cluster_queue("b", 4, "team"), local_queue("b")),
    )


def test_use_and_waiting_are_kept_by_queue() -> None:
    now, history = queues(), History()
    history.add(facts(now))
    now.put(holding("large", 7, "a"), workload("waits", 4, "b"))
    now.now += SAMPLE_SECONDS
    history.add(facts(now))

    found = history.shown(Cluster().view())

    before = now.now - SAMPLE_SECONDS
    nothing = [(before, 0), (now.now, 0)]
    assert found.use == {"a": [(before, 0), (now.now, 175)], "b": nothing}
    assert found.waiting == {"a": nothing, "b": [(before, 0), (now.now, 1)]}
    assert found.rows == [
        {"id": "a", "queue": "a", "now": "175 %", "mean": "88 %", "waits": 0, "most": 0},
        {"id": "b", "queue": "b", "now": "0 %", "mean": "0 %", "waits": 1, "most": 1},
    ]


def test_each_start_and_preemption_counts_once() -> None:
    now, history = queues(), History()
    at = now.now
    history.add(facts(now))
    started = condition("QuotaReserved", at=at), condition("Admitted", at=at)
    evicted = (condition("Evicted", "Preempted", at=at),)
    drained = (condition("Evicted", "ClusterQueueStopped", at=at),)
    for name, conditions in (("started", started), ("victim", evicted), ("other", drained)):
        now.put(workload(name, 1, "a", conditions=conditions))
    for _ in range(3):
        now.now += SAMPLE_SECONDS
        history.add(facts(now))

    numbers = history.shown(Cluster().view()).numbers

    assert numbers["workloads started in the last hour"] == 1
    assert numbers["preempted in the last hour"] == 1


def test_what_was_before_the_first_sample_counts_for_an_hour() -> None:
    now, history = queues(), History()
    for minutes in (10, 50):
        admitted = condition("Admitted", at=now.now - 60 * minutes)
        now.put(workload(f"w-{minutes}", 1, "a", conditions=(admitted,)))
    for minutes, started in ((0, 2), (15, 1), (60, 0)):
        now.now += 60 * minutes
        history.add(facts(now))
        numbers = history.shown(Cluster().view()).numbers
        assert numbers["workloads started in the last hour"] == started


def test_a_sample_is_due_each_minute() -> None:
    now, history = queues(), History()
    assert history.is_due(now.now)
    history.add(facts(now))
    assert not history.is_due(now.now + SAMPLE_SECONDS - 1)
    assert history.is_due(now.now + SAMPLE_SECONDS)


def test_earlier_samples_end_with_the_first_and_leave_no_more_than_six_hours() -> None:
    now, history = queues(), History()
    now.put(workload("started", 1, "a", conditions=(condition("Admitted", at=now.now - 600),)))
    history.add(facts(now))
    at = now.now

    history.put_before([Sample(at - n * 60, {"a": n}, {}, 1, 0) for n in range(400, -1, -1)])

    found = history.shown(Cluster().view())
    assert found.use["a"] == [*((at - n * 60, n) for n in range(359, 0, -1)), (at, 0)]
    assert found.numbers["workloads started in the last hour"] == 60


def test_the_last_hour_is_an_hour_where_samples_are_missing() -> None:
    now, history = queues(), History()
    history.add(facts(now))
    history.put_before([Sample(now.now - age, {}, {}, 7, 0) for age in (3600, 3599)] * 2)

    assert history.shown(Cluster().view()).numbers["workloads started in the last hour"] == 14


def test_gangs_that_are_partial_are_counted() -> None:
    partial = PodGroupStatusInfo(conditions=(ConditionInfo("Partial", "True", "Keeping"),))
    cluster = cluster_of(pod_group("whole", 2), pod_group("part", 2, status=partial))

    assert History().shown(cluster.view()).numbers["gangs that are partial now"] == 1


def test_without_a_sample_there_is_nothing_to_show() -> None:
    found = History().shown(Cluster().view())
    assert (found.use, found.rows) == ({}, [])
