"""Which Jobs are suspended in the place of evictions."""

from dataclasses import replace
from typing import Any

import pytest

from extender.gang.restart import parted
from extender.state.cluster.records import JobInfo, PodInfo
from tests.makers import cluster_of, key, node, pod, pod_group

JOB = JobInfo("u-job", key("gang"), 3)
OTHER = JobInfo("u-other", key("gang"), 1)


def members(*names: str, controller: str = "u-job", **more: Any) -> list[PodInfo]:
    fields = {"owners": ("ns/job",), "on": "n0", "controller": controller, **more}
    return [pod(name, group="gang", **fields) for name in names]


ALL = members("a", "b", "c")
PENDING = members("d", on=None)
LEFT = members("d")
CASES: dict[str, tuple[list[Any], list[PodInfo], list[str], list[str]]] = {
    "all of its pods go": ([JOB, ALL], ALL, [], ["u-job"]),
    "one has no node": ([JOB, ALL, PENDING], ALL, [], ["u-job"]),
    "one stays": ([JOB, ALL, LEFT], ALL, ["a", "b", "c"], []),
    "one is leaving": ([JOB, ALL, members("d", terminating=True)], ALL, [], ["u-job"]),
    "two Jobs": (
        [JOB, OTHER, ALL, members("o", controller="u-other")],
        [*ALL, *members("o", controller="u-other")],
        [],
        ["u-job", "u-other"],
    ),
    "one of two Jobs": (
        [JOB, OTHER, ALL, members("o", "p", controller="u-other")],
        [*ALL, *members("o", controller="u-other")],
        ["o"],
        ["u-job"],
    ),
    "a queue has it": ([replace(JOB, held_by_queue="ns/job"), ALL], ALL, ["a", "b", "c"], []),
    "a JobSet has it": ([replace(JOB, maker="u-set"), ALL], ALL, ["a", "b", "c"], []),
    "another kind": ([replace(JOB, kind="kubeflow.org/MPIJob"), ALL], ALL, ["a", "b", "c"], []),
    "no Job that is known": ([ALL], ALL, ["a", "b", "c"], []),
    "two owners": (
        [JOB, members("a", owners=("ns/job", "ns/x"))],
        members("a", owners=("ns/job", "ns/x")),
        ["a"],
        [],
    ),
}


@pytest.mark.parametrize(("facts", "pods", "single", "whole"), CASES.values(), ids=CASES)
def test_which_jobs_are_suspended(
    facts: list[Any], pods: list[PodInfo], single: list[str], whole: list[str]
) -> None:
    view = cluster_of(node("n0", 100), pod_group(), facts).view()
    singles, jobs = parted(pods, view)
    assert [each.name for each in singles] == single
    assert [job.uid for job in jobs] == whole
    assert {job.key for job in jobs} <= {"ns/job"}
