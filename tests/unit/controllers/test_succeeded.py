"""How many pods of a group have succeeded, whatever became of them since."""

from dataclasses import replace

from extender.controllers.job_context import Succeeded
from tests.queue_makers import workload

GROUP = replace(workload("g"), reclaimable={"small": 2})


def test_a_pod_that_is_deleted_counts_beside_those_that_succeed_later() -> None:
    found = Succeeded()
    assert found.look("g", workload("g"), [("a", "small")]) == {"small": 1}
    assert found.look("g", workload("g"), []) == {"small": 1}
    assert found.look("g", workload("g"), [("b", "small"), ("c", "big")]) == {"small": 2, "big": 1}


def test_a_new_process_takes_what_is_stored() -> None:
    assert Succeeded().look("g", GROUP, [("b", "small")]) == {"small": 2}
    found = Succeeded()
    assert found.look("g", GROUP, []) == {"small": 2}
    assert found.look("g", GROUP, [("c", "small")]) == {"small": 3}


def test_another_workload_begins_anew() -> None:
    found = Succeeded()
    found.look("g", GROUP, [("a", "small")])
    other = replace(workload("g"), meta=replace(GROUP.meta, uid="another"))
    assert found.look("g", other, []) == {}
    found.forget("g")
    assert found.look("g", GROUP, []) == {"small": 2}
