"""Jobs of other projects' operators: when a stop counts as noticed, and what child Jobs follow."""

import json
from dataclasses import replace
from typing import Any

import pytest

from extender.api.wellknown import STOPPED_ANNOTATION
from extender.jobs import actions as act
from extender.jobs import templates
from extender.jobs.actions import Context, stop
from extender.jobs.decide import decide
from extender.jobs.kinds.batch_job import BatchJob
from extender.jobs.templates import Placement
from tests.harness.kinds import POD_SETS
from tests.unit.jobs.scene import CONTEXT, only, sent, workload
from tests.unit.jobs.test_kinds import wrap

JOBSET, MPI, TORCH = "jobset.x-k8s.io/jobset", "kubeflow.org/mpijob", "kubeflow.org/pytorchjob"
SUSPENDED = {"conditions": [{"type": "Suspended", "status": "True"}]}


def created_running(name: str, **status: Any) -> Any:
    source: Any = POD_SETS[name][0]()
    source["spec"].get("runPolicy", source["spec"])["suspend"] = False
    return wrap(name, source, **status)


def stopped(name: str, *, before: Any, after: Any) -> Any:
    """Return a job after a stop of ours, with the status of before it and of now."""
    (action,) = stop(created_running(name, **before), "m", workload=None)
    assert isinstance(action, act.StopJob)
    source = sent(created_running(name, **before), *action.steps)
    return wrap(name, {key: each for key, each in source.items() if key != "status"}, **after)


def counts(**workers: int) -> Any:
    driver = {key: min(1, count) for key, count in workers.items()}
    return {
        "replicatedJobsStatus": [{"name": "driver", **driver}, {"name": "workers", **workers}],
    }


IN_TIME: dict[str, tuple[str, Any, Any, bool]] = {
    "a JobSet without a status": (JOBSET, {}, {}, False),
    "a JobSet whose Jobs are not made": (JOBSET, {}, counts(active=0), False),
    "a JobSet with some suspended": (JOBSET, {}, counts(suspended=1), False),
    "a JobSet with all suspended": (JOBSET, {}, counts(suspended=2), True),
    "a JobSet with all suspended and pods": (JOBSET, {}, counts(suspended=2, active=1), False),
    "a JobSet that says Suspended": (JOBSET, {}, SUSPENDED, True),
    "a JobSet that was active": (JOBSET, counts(active=2), counts(active=0), True),
    "a JobSet that is active": (JOBSET, counts(active=2), counts(active=2), False),
    "a PyTorchJob without a status": (TORCH, {}, {}, False),
    "a PyTorchJob that is suspended": (TORCH, {}, SUSPENDED, True),
    "an MPIJob without a status": (MPI, {}, {}, False),
    "an MPIJob that is suspended": (MPI, {}, SUSPENDED, True),
}


@pytest.mark.parametrize(("name", "before", "after", "want"), IN_TIME.values(), ids=IN_TIME)
def test_a_stop_is_noticed_when_the_operator_says_so(
    name: str, before: Any, after: Any, want: bool
) -> None:
    found = stopped(name, before=before, after=after)
    assert found.is_suspended()
    assert found.has_stopped() is want
    context = Context(has_stopped=found.has_stopped())
    assert [type(each) for each in decide(found, [], context)] == (
        [act.CreateWorkload] if want else []
    )


def test_a_condition_of_a_start_in_order_says_nothing_of_a_stop() -> None:
    source: Any = POD_SETS[JOBSET][0]()
    source["spec"] |= {"startupPolicy": {"startupPolicyOrder": "InOrder"}}
    source["metadata"]["annotations"] = {STOPPED_ANNOTATION: "{}"}
    assert not wrap(JOBSET, source, **SUSPENDED).has_stopped()


def test_a_job_that_was_never_stopped_is_not_waited_for() -> None:
    assert wrap(JOBSET, POD_SETS[JOBSET][0]()).has_stopped()


@pytest.mark.parametrize(("status", "want"), [({}, False), (SUSPENDED, True)])
def test_an_mpijob_that_is_created_suspended_starts_when_its_operator_has_seen_it(
    status: Any, want: bool
) -> None:
    """By then it has made the launcher's Job, from the template that it has read."""
    assert wrap(MPI, POD_SETS[MPI][0](), **status).has_stopped() is want


def test_quota_is_kept_and_nothing_started_until_a_stop_is_noticed() -> None:
    held = stopped(TORCH, before={}, after={})
    evicted, admitted = workload(held, "Evicted", admitted=True), workload(held, admitted=True)
    waits, noticed = replace(CONTEXT, has_stopped=False), replace(CONTEXT, has_stopped=True)
    assert decide(held, [evicted], waits) == ()
    assert decide(held, [admitted], waits) == ()
    only(act.ReleaseQuota, decide(held, [evicted], noticed))


def places(job: Any, **selector: str) -> list[Placement]:
    return [Placement(each.name, each.count, selector) for each in job.pod_sets()]


def restarted(name: str, first: dict[str, str], then: dict[str, str]) -> list[str]:
    """Return the child Jobs that a second start changes."""
    held = wrap(name, POD_SETS[name][0]())
    asked = workload(held, admitted=True)
    running = wrap(name, sent(held, *held.start_steps(places(held, **first))))
    (action,) = stop(running, "m", workload=asked)
    assert isinstance(action, act.StopJob)
    again = wrap(name, sent(running, *action.steps))
    (start,) = again.start_steps(places(again, **then))
    assert STOPPED_ANNOTATION not in str(sent(again, start)["metadata"])
    return [each.name for each in again.child_changes(places(again, **then))]


def test_jobs_of_a_jobset_are_changed_where_something_of_an_earlier_start_is_left() -> None:
    jobs = ["work-driver-0", "work-workers-0", "work-workers-1"]
    assert restarted(JOBSET, {"a": "1"}, {"b": "1"}) == jobs
    assert restarted(JOBSET, {"a": "1"}, {"a": "1"}) == []
    assert restarted(TORCH, {"a": "1"}, {"b": "1"}) == []


def test_the_launcher_of_an_mpijob_always_follows() -> None:
    held = wrap(MPI, POD_SETS[MPI][0]())
    (change,) = held.child_changes(places(held, a="1"))
    assert (change.name, change.before) == ("work-launcher", {})
    spec: Any = change.after["spec"]
    assert spec["nodeSelector"] == {"a": "1"}
    assert restarted(MPI, {"a": "1"}, {"a": "1"}) == ["work-launcher"]


def test_a_child_job_gets_what_is_new_and_loses_what_is_old() -> None:
    of = {"controller-uid": "1", "group": "old"}
    spec = {
        "containers": [],
        "nodeSelector": {"a": "1", "own": "x"},
        "tolerations": [{"key": "a"}, {"key": "own"}],
    }
    template = {"metadata": {"labels": of}, "spec": spec}
    child = BatchJob({"metadata": {"uid": "u"}, "spec": {"suspend": True, "template": template}})
    former: Any = {
        "metadata": {"labels": {"group": "old"}},
        "spec": {"nodeSelector": {"a": "1"}, "tolerations": [{"key": "a"}]},
    }
    now: Any = {
        "metadata": {"labels": {"podset": "p"}, "annotations": {"w": "n"}},
        "spec": {"nodeSelector": {"b": "1"}, "schedulingGates": [{"name": "g"}]},
    }
    (step,) = child.follow_steps(former, now)
    after = sent(child, step)["spec"]["template"]
    assert after["metadata"]["labels"] == {"controller-uid": "1", "podset": "p"}
    assert after["metadata"]["annotations"] == {"w": "n"}
    assert after["spec"] == {
        "containers": [],
        "nodeSelector": {"own": "x", "b": "1"},
        "tolerations": [{"key": "own"}],
        "schedulingGates": [{"name": "g"}],
    }
    assert BatchJob(sent(child, step)).follow_steps(former, now) == ()


def test_a_mark_that_is_no_json_counts_as_one() -> None:
    source: Any = POD_SETS[TORCH][0]()
    source["metadata"]["annotations"] = {STOPPED_ANNOTATION: "true"}
    assert not wrap(TORCH, source).has_stopped()
    assert json.loads(wrap(TORCH, source).stop_mark(None)) == {"active": False, "given": {}}
    assert templates.added({}, {}) == {}
