"""How many pods of a group have succeeded, whatever became of them since."""

from dataclasses import replace

from extender.controllers.job_facts import JobMemory
from tests.queue_makers import workload

GROUP = replace(workload("g"), reclaimable={"small": 2})


def test_a_pod_that_is_deleted_counts_beside_those_that_succeed_later() -> None:
    found = JobMemory()
    assert found.succeeded(workload("g"), [("a", "small")]) == {"small": 1}
    assert found.succeeded(workload("g"), []) == {"small": 1}
    assert found.succeeded(workload("g"), [("b", "small"), ("c", "big")]) == {"small": 2, "big": 1}


def test_a_new_process_takes_what_is_stored() -> None:
    assert JobMemory().succeeded(GROUP, [("b", "small")]) == {"small": 2}
    found = JobMemory()
    assert found.succeeded(GROUP, []) == {"small": 2}
    assert found.succeeded(GROUP, [("c", "small")]) == {"small": 3}


def test_another_workload_begins_anew() -> None:
    found = JobMemory()
    found.succeeded(GROUP, [("a", "small")])
    other = replace(workload("g"), meta=replace(GROUP.meta, uid="another"))
    assert found.succeeded(other, []) == {}
