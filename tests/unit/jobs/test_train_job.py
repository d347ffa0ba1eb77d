"""TrainJobs: read from the JobSet that Trainer makes, started and stopped by overrides."""

from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest

from extender.api.wellknown import STOPPED_ANNOTATION
from extender.jobs import actions as act
from extender.jobs import fields
from extender.jobs.decide import decide
from extender.jobs.job import GenericJob
from extender.jobs.registry import builtin
from extender.jobs.templates import placements_of
from extender.jobs.workload import refusal
from tests.harness.kinds import jobset, trainjob
from tests.unit.jobs.scene import CONTEXT, Object, first, merged, only, sent, workload

NAME = "trainer.kubeflow.org/trainjob"
SUSPENDED = {"conditions": [{"type": "Suspended", "status": "True"}]}
SPOT = {"key": "spot", "operator": "Exists", "effect": "NoSchedule"}


def made_by_trainer(source: Object, **status: Any) -> Object:
    """Return the JobSet that Trainer makes: later overrides win, and tolerations are replaced."""
    made: Any = deepcopy(jobset())
    made["metadata"] = {"name": "work", "uid": "u2"}
    made["spec"]["suspend"] = source["spec"]["suspend"]
    for each in made["spec"]["replicatedJobs"]:
        template = each["template"]["spec"]["template"]
        for override in source["spec"].get("podTemplateOverrides", ()):
            if {"name": each["name"]} in override["targetJobs"]:
                parts = {name: override.get(name, {}) for name in ("metadata", "spec")}
                each["template"]["spec"]["template"] = template = merged(template, parts)
    return {**made, "status": status}


def wrap(source: Object, child: Object | None = None, **status: Any) -> GenericJob:
    job = builtin()[NAME].wrap({**deepcopy(source), "status": status})
    job.child = made_by_trainer(source) if child is None else child
    return job


def counts(**workers: int) -> Any:
    driver = {key: min(1, count) for key, count in workers.items()}
    return [{"name": "driver", **driver}, {"name": "workers", **workers}]


def test_it_waits_until_trainer_has_made_its_jobset() -> None:
    held = builtin()[NAME].wrap(trainjob())
    refused = refusal(held)
    assert refused is not None
    assert refused.reason == "PodsMissing"
    assert not held.pods_ready()

    admitted = workload(wrap(trainjob()), admitted=True)
    assert decide(held, [admitted], CONTEXT) == ()  # not started with pods that are not known


def test_it_has_the_pod_sets_of_its_jobset() -> None:
    found = wrap(trainjob()).pod_sets()
    assert [(each.name, each.count) for each in found] == [("driver", 1), ("workers", 4)]
    labels = found[1].template["metadata"]["labels"]  # type: ignore[index]
    assert labels == {"team": "a"}


def test_it_is_started_by_overrides_and_stopped_once_its_pods_have_ended() -> None:
    held = wrap(trainjob())
    only(act.CreateWorkload, decide(held, [], CONTEXT))
    admitted = workload(held, admitted=True)

    start = only(act.StartJob, decide(held, [admitted], CONTEXT))
    given, begun = start.steps
    assert "suspend" not in given.patch["spec"]  # type: ignore[operator]
    assert begun.patch["spec"] == {"suspend": False}
    source = sent(held, given, begun)
    del source["spec"]["runtimePatches"]  # which a Trainer before 2.2 does not have
    first_override, *ours = source["spec"]["podTemplateOverrides"]
    assert first_override == trainjob()["spec"]["podTemplateOverrides"][0]
    assert ours[1] == {
        "targetJobs": [{"name": "workers"}],
        "metadata": {
            "labels": {"kueue.x-k8s.io/podset": "workers"},
            "annotations": {"kueue.x-k8s.io/workload": admitted.meta.name},
        },
        "spec": {"nodeSelector": {"tier": "spot"}, "tolerations": [SPOT]},
    }

    # Whether Trainer has followed or not, the templates are those that it makes of the overrides.
    running, behind = wrap(source), wrap(source, made_by_trainer(trainjob()))
    assert running.pod_sets() == behind.pod_sets()
    for each in (running, behind):
        assert decide(each, [admitted], CONTEXT) == ()

    evicted = workload(held, "Evicted", admitted=True)
    running.child = made_by_trainer(source, replicatedJobsStatus=counts(active=2))
    stop = only(act.StopJob, decide(running, [evicted], CONTEXT))
    stopping = sent(running, *stop.steps)
    assert stopping["spec"]["podTemplateOverrides"] == source["spec"]["podTemplateOverrides"]
    active = made_by_trainer(stopping, replicatedJobsStatus=counts(active=2))
    assert decide(wrap(stopping, active), [evicted], CONTEXT) == ()

    ended = made_by_trainer(stopping, replicatedJobsStatus=counts(suspended=2))
    release, rest = decide(wrap(stopping, ended), [evicted], CONTEXT)
    assert isinstance(release, act.ReleaseQuota)
    assert isinstance(rest, act.StopJob)
    restored = sent(stopping, *rest.steps)
    assert restored["spec"] == trainjob()["spec"]

    # Also before Trainer has taken the overrides out of the JobSet, it asks for what it did first.
    after = workload(held)
    for child in (ended, made_by_trainer(restored)):
        assert decide(wrap(restored, child, **SUSPENDED), [after], CONTEXT) == ()


def test_a_newer_trainer_gets_a_patch_of_its_runtime() -> None:
    source = trainjob()
    del source["spec"]["podTemplateOverrides"]
    theirs = {"manager": "example.com/other"}
    source["spec"]["runtimePatches"] = [theirs]
    held = wrap(source)
    asked = workload(held, admitted=True)
    started = sent(held, *held.start_steps(placements(held)))
    del started["spec"]["podTemplateOverrides"]  # which it has no more
    other, ours = started["spec"]["runtimePatches"]
    jobs = ours["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
    assert other == theirs
    assert ours["manager"] == "kueue.x-k8s.io/manager"
    assert [each["name"] for each in jobs] == ["driver", "workers"]

    behind = wrap(started, made_by_trainer(source))
    spec: Any = behind.pod_sets()[0].template["spec"]
    assert spec["nodeSelector"] == {"tier": "spot"}
    (stop,) = act.stop(behind, "m", workload=asked)
    assert isinstance(stop, act.StopJob)
    stopped = wrap(sent(behind, *stop.steps))
    assert stopped.is_stopping()
    assert sent(stopped, *stopped.stop_steps(None))["spec"] == source["spec"]


def test_a_selector_of_its_users_that_is_like_one_of_a_flavor_stays() -> None:
    source = trainjob()
    source["spec"]["podTemplateOverrides"][0]["spec"] = {"nodeSelector": {"tier": "spot"}}
    held = wrap(source)
    asked = workload(held, admitted=True)
    running = wrap(sent(held, *held.start_steps(placements(held))))
    (stop,) = act.stop(running, "m", workload=asked)
    assert isinstance(stop, act.StopJob)
    stopped = wrap(sent(running, *stop.steps))
    (rest,) = stopped.stop_steps(None)
    last = wrap(sent(stopped, rest), made_by_trainer(stopped.object))
    selectors = [dict(fields.mapping(p.template, "spec", "nodeSelector")) for p in last.pod_sets()]
    assert selectors == [{}, {"tier": "spot"}]


def placements(job: GenericJob) -> Any:
    return placements_of(workload(job, admitted=True), CONTEXT.flavors)


NOTICED: dict[str, tuple[Any, Any, bool]] = {
    "neither has": ({}, {}, False),
    "Trainer has, and JobSet's controller not": (SUSPENDED, {}, False),
    "some Jobs are suspended": (SUSPENDED, counts(suspended=1), False),
    "all are": (SUSPENDED, counts(suspended=2), True),
    "all are, and Trainer does not say so": ({}, counts(suspended=2), False),
}


@pytest.mark.parametrize(("status", "jobs", "want"), NOTICED.values(), ids=NOTICED)
def test_a_stop_is_noticed_by_trainer_and_then_by_the_controller_of_jobsets(
    status: Any, jobs: Any, want: bool
) -> None:
    source = trainjob()
    source["spec"]["suspend"] = False
    (stop,) = act.stop(wrap(source), "m", workload=None)
    assert isinstance(stop, act.StopJob)
    stopped = sent(source, *stop.steps)
    child = made_by_trainer(stopped, replicatedJobsStatus=jobs)
    assert wrap(stopped, child, **status).has_stopped() is want


def test_jobs_of_its_jobset_follow_where_something_of_an_earlier_start_is_left() -> None:
    source = trainjob()
    source["metadata"]["annotations"] = {
        STOPPED_ANNOTATION: '{"given":{"driver":{"spec":{"nodeSelector":{"a":"1"}}}}}'
    }
    held = wrap(source)
    changes = held.child_changes(placements(held))
    assert [(each.name, each.owner) for each in changes] == [("work-driver-0", "u2")]


def test_what_trainer_does_not_know_is_a_problem_and_what_failed_an_end() -> None:
    ended = {"type": "Failed", "status": "True", "reason": "FailedJobs", "message": "m"}
    assert wrap(trainjob(), conditions=[ended]).finished() is not None
    refused = {**ended, "reason": "TrainingRuntimeNotSupported"}
    held = wrap(trainjob(), conditions=[refused])
    report = first(act.ReportRefusal, decide(held, [], CONTEXT))
    assert (report.reason, report.message) == ("Invalid", "Trainer refuses it: m")


def test_it_makes_a_jobset_of_its_name_and_no_other() -> None:
    held = wrap(trainjob())
    assert held.makes("jobset.x-k8s.io/jobset", "work")
    assert not held.makes("jobset.x-k8s.io/jobset", "other")
    assert not held.makes("batch/job", "work")


@pytest.mark.parametrize(("starts_it", "want"), [(True, []), (False, [act.StopJob])])
def test_what_another_controller_starts_is_not_stopped(starts_it: bool, want: list[type]) -> None:
    source: Any = jobset()
    source["spec"]["suspend"] = False
    above = act.Ancestor("trainer.kubeflow.org/trainjob work", admitted=False, starts_it=starts_it)
    found = decide(
        builtin()["jobset.x-k8s.io/jobset"].wrap(source), [], replace(CONTEXT, ancestor=above)
    )
    assert [type(each) for each in found] == want
