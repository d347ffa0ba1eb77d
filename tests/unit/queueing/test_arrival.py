"""Within one second, as exact as the API server's times are, the first to come is first."""

from dataclasses import replace

from tests.queue_makers import Admissions, cluster_queue, local_queue, workload


def test_of_workloads_of_one_second_the_first_that_came_is_first() -> None:
    queues = Admissions(cluster_queue(cpu=1), local_queue())
    for name in ("zoe", "max", "ann"):
        queues.put(workload(name, 1, created=7))

    assert queues.waiting() == ["zoe", "max", "ann"]
    assert queues.admitted() == ["zoe"]


def test_a_later_change_takes_no_place_away() -> None:
    queues = Admissions(cluster_queue(cpu=1), local_queue())
    first, second = workload("zoe", 1, created=7), workload("ann", 1, created=7)
    queues.put(first, second)
    newer = replace(first.meta, version=second.meta.version + 1)
    queues.put(replace(first, meta=newer, past_execution=1))

    assert queues.waiting() == ["zoe", "ann"]


def test_one_that_is_created_again_comes_last() -> None:
    queues = Admissions(cluster_queue(cpu=1), local_queue())
    first, second = workload("zoe", 1, created=7), workload("ann", 1, created=7)
    queues.put(first, second)
    queues.drop(first)
    again = workload("zoe", 1, created=7)
    queues.put(replace(again, meta=replace(again.meta, uid="other")))

    assert queues.waiting() == ["ann", "zoe"]
