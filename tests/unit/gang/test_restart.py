"""The Jobs that are suspended instead of having their pods evicted."""

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import pytest

from extender.api.wellknown import JOB_SET_LABEL
from extender.gang.restart import parted
from extender.state.cluster.records import AdmittedPods, JobInfo, PodInfo, Resumption
from extender.state.cluster.view import ClusterView
from tests.makers import cluster_of, key, node, pod, pod_group

JOB = JobInfo("u-job", key("gang"), 3)
OTHER = JobInfo("u-other", key("gang"), 1)


def members(*names: str, controller: str = "u-job", **more: Any) -> list[PodInfo]:
    fields = {"owners": ("ns/job",), "on": "n0", "controller": controller, **more}
    return [pod(name, group="gang", **fields) for name in names]


ALL = members("a", "b", "c")
PENDING = members("d", on=None)
LEFT = members("d")
NAMED = {JOB_SET_LABEL: "set"}
SET = [JobInfo(f"u-{n}", key("gang"), 1, maker="u-set") for n in "ab"]
OF_SET = [
    *members("a", controller="u-a", owners=("ns/set-a",), labels=NAMED),
    *members("b", controller="u-b", owners=("ns/set-b",), labels=NAMED),
]
ADMITTED = AdmittedPods("ns/w", ("u-set",), 2)
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
    "a JobSet": ([*SET, OF_SET], OF_SET, [], ["u-set"]),
    "a part of a JobSet": ([*SET, OF_SET], OF_SET[:1], ["a"], []),
    "a JobSet of which some are no members": (
        [*SET, JobInfo("u-driver", None, 1, maker="u-set"), OF_SET],
        OF_SET,
        ["a", "b"],
        [],
    ),
    "a JobSet that a queue has": ([*SET, ADMITTED, OF_SET], OF_SET, ["a", "b"], []),
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
    assert {job.key for job in jobs} <= {"ns/job", "ns/set"}
    jobs_of_set = {"u-a": "ns/set-a", "u-b": "ns/set-b"}
    assert [job.jobs for job in jobs] == [jobs_of_set if uid == "u-set" else {} for uid in whole]


def test_the_jobs_of_a_job_set_go_on_together() -> None:
    first, last = (replace(each, resumes=Resumption(f"ns/{each.uid}", "ns/set")) for each in SET)
    assert not [*cluster_of(first, SET[1]).view().resumable(key("gang"))]
    assert {*cluster_of(first, last).view().resumable(key("gang"))} == {first, last}
    # All of its pods had lost their nodes, so it was not told by whom it is suspended.
    silent = replace(last, resumes=Resumption(f"ns/{last.uid}", "ns/set", may_be_ours=False))
    assert [*cluster_of(first, silent).view().resumable(key("gang"))] == [first]
    done = replace(SET[1], completed=1.0)
    assert [*cluster_of(first, done).view().resumable(key("gang"))] == [first]


def test_the_jobs_of_a_job_set_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = [
        replace(SET[0], uid=f"u-{i}", resumes=Resumption(f"ns/{i}", "ns/set")) for i in range(50)
    ]
    view, looks, made_by = cluster_of(jobs).view(), list[str](), ClusterView.made_by

    def counted(self: ClusterView, maker: str) -> Collection[str]:
        looks.append(maker)
        return made_by(self, maker)

    monkeypatch.setattr(ClusterView, "made_by", counted)
    assert len([*view.resumable(key("gang"))]) == 50
    assert looks == ["u-set"]
