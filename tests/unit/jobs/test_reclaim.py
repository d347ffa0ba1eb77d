"""Which quota of a job is free while it runs, and when that of a stopped one is."""

from dataclasses import replace
from typing import Any

import pytest

from extender.api.values import Overrides, parsed_overrides
from extender.jobs import actions as act
from extender.jobs.actions import (
    Action,
    QuotaRelease,
    release_limits,
    release_strategy,
    unreadable_release,
)
from extender.jobs.decide import decide
from extender.jobs.registry import builtin
from extender.state.queue.records import usage
from tests.harness.kinds import pytorchjob
from tests.queue_makers import meta
from tests.unit.jobs.scene import CONTEXT, body_of, condition, job, words, workload

EVICTED = ("Evicted", "True", "Preempted")
RELEASE = "scheduling.x-k8s.io/release-quota"
FREE = parsed_overrides("*")[0]
ON_TERMINAL = replace(CONTEXT, release_quota="OnTerminal")
LEAST = {"kueue.x-k8s.io/job-min-parallelism": "1"}


def counted(actions: tuple[Action, ...]) -> Any:
    (said,) = actions
    assert isinstance(said, act.SetReclaimable)
    return said.counts


# -- what was given less than it asked for


@pytest.mark.parametrize(
    ("succeeded", "want", "used"),
    [(0, None, 2), (1, None, 2), (2, None, 2), (3, {"main": 3}, 1)],
)
def test_a_job_with_less_quota_gives_back_what_it_had(
    succeeded: int, want: dict[str, int] | None, used: int
) -> None:
    """Four pods were asked for and two given: of those two, what will run no more is given back."""
    stored = workload(job("work", 4, own_annotations=LEAST), admitted=True, counts={"main": 2})
    status = {"succeeded": succeeded}
    runs = job("work", 2, 4, own_annotations=LEAST, suspend=False, status=status)
    actions = decide(runs, [stored], CONTEXT)
    assert (counted(actions) if actions else None) == want
    after = replace(stored, reclaimable=want or {})
    assert after.admission is not None
    (given,) = after.admission.assignments
    held = replace(after.admission, assignments=(replace(given, usage={"cpu": 2000}),))
    assert sum(usage(held, after).values()) == used * 1000


def test_a_job_that_began_again_with_what_was_left_counts_as_before() -> None:
    """Two of four were done when it got quota for the other two; now there are three."""
    stored = workload(
        job("work", 4, own_annotations=LEAST),
        admitted=True,
        counts={"main": 2},
        reclaimable={"main": 2},
    )
    runs = job("work", 4, own_annotations=LEAST, suspend=False, status={"succeeded": 3})
    assert counted(decide(runs, [stored], CONTEXT)) == {"main": 3}


def test_a_job_that_began_again_and_was_made_smaller_counts_from_what_it_runs() -> None:
    """Three of four were left; now it should run three at once, and one of those is done."""
    stored = workload(job("work", 4), admitted=True, counts={"main": 3}, reclaimable={"main": 1})
    runs = job("work", 3, 4, suspend=False, status={"succeeded": 2})
    assert counted(decide(runs, [stored], CONTEXT)) == {"main": 2}


def test_a_zero_that_another_one_wrote_stays_where_the_api_server_wants_it() -> None:
    """`reclaimablePods` may have no name less while quota is reserved."""
    held = pytorchjob()
    held["spec"]["runPolicy"]["suspend"] = False
    running = {"type": "Running", "status": "True"}
    held["status"] = {"conditions": [running], "replicaStatuses": {"Worker": {"succeeded": 1}}}
    runs = builtin()["kubeflow.org/pytorchjob"].wrap(held)
    stored = workload(runs, admitted=True, reclaimable={"master": 0})
    assert counted(decide(runs, [stored], CONTEXT)) == {"master": 0, "worker": 1}
    held["status"] = {}
    assert decide(runs, [stored], CONTEXT) == ()


# -- pods that take their time to end


INDEX_FAILED: dict[str, Any] = {
    "indexed": True,
    "status": {"completedIndexes": "0", "failedIndexes": "1", "terminating": 1},
}


def half_done(policy: str, active: int) -> dict[str, Any]:
    """Two of four are done: two pods are all there will be at a time, unless more are there."""
    status = {"succeeded": 2, "active": active, "terminating": 1}
    return {"status": status, "podReplacementPolicy": policy}


SLOW: dict[str, tuple[dict[str, Any], QuotaRelease, Any]] = {
    "an index failed with its pod on its node": (INDEX_FAILED, "OnTerminating", {"main": 2}),
    "its quota waits for that pod": (INDEX_FAILED, "OnTerminal", {"main": 1}),
    "its successor waits for its end": (half_done("Failed", 1), "OnTerminal", {"main": 2}),
    "its successor is there": (half_done("TerminatingOrFailed", 1), "OnTerminal", {"main": 1}),
    "more are there than need be": (half_done("Failed", 2), "OnTerminal", {"main": 1}),
    "none has succeeded": ({"status": {"active": 4, "terminating": 2}}, "OnTerminal", None),
}


@pytest.mark.parametrize(("options", "strategy", "want"), SLOW.values(), ids=SLOW)
def test_pods_that_end_slowly_may_keep_their_quota(
    options: dict[str, Any], strategy: QuotaRelease, want: Any
) -> None:
    stored = workload(job("work", 4, indexed=options.get("indexed", False)), admitted=True)
    context = replace(CONTEXT, release_quota=strategy)
    actions = decide(job("work", 4, suspend=False, **options), [stored], context)
    assert (counted(actions) if actions else None) == want


def test_pods_of_a_stopped_job_keep_their_quota_whatever_replaces_them() -> None:
    held = job(status={"terminating": 1}, podReplacementPolicy="Failed")
    assert decide(held, [workload(job(), EVICTED, admitted=True)], ON_TERMINAL) == ()


def test_a_work_queue_keeps_the_quota_of_what_ends_slowly() -> None:
    status = {"succeeded": 1, "active": 1, "terminating": 1}
    runs = job("work", 4, suspend=False, status=status)
    del body_of(runs)["spec"]["completions"]
    stored = workload(job("work", 4), admitted=True)
    assert counted(decide(runs, [stored], CONTEXT)) == {"main": 3}
    assert counted(decide(runs, [stored], ON_TERMINAL)) == {"main": 2}


@pytest.mark.parametrize(
    ("annotations", "context", "free"),
    [
        ({}, CONTEXT, True),
        ({}, ON_TERMINAL, False),
        ({RELEASE: "OnTerminal"}, CONTEXT, False),
        ({RELEASE: "OnTerminating"}, ON_TERMINAL, False),
        ({RELEASE: "OnTerminating"}, replace(ON_TERMINAL, overrides=FREE), True),
        ({RELEASE: "OnTerminal"}, replace(CONTEXT, overrides=parsed_overrides("none")[0]), True),
        ({RELEASE: "whenever"}, ON_TERMINAL, False),
        ({RELEASE: "whenever"}, CONTEXT, True),
    ],
)
def test_the_quota_of_an_evicted_job_is_free_when_its_pods_are_deleted_or_gone(
    annotations: dict[str, str], context: Any, free: bool
) -> None:
    status = {"active": 0, "terminating": 1}
    held = job(status=status, own_annotations=annotations)
    stored = workload(job(), EVICTED, admitted=True)
    assert words(decide(held, [stored], context)) == (["ReleaseQuota"] if free else [])
    held.object["status"] = {"active": 0, "terminating": 0}
    assert words(decide(held, [stored], context)) == ["ReleaseQuota"]


def test_a_deleted_workload_goes_when_its_quota_is_free() -> None:
    held = job(status={"terminating": 1})
    stored = workload(held, admitted=True)
    stored = replace(stored, meta=replace(stored.meta, terminating=True))
    assert decide(held, [stored], ON_TERMINAL) == ()
    assert words(decide(held, [stored], CONTEXT)) == ["DropFinalizer"]


def test_a_stop_does_not_wait_for_pods_that_end_slowly() -> None:
    """The template is restored meanwhile; only the quota is kept."""
    half = job(
        own_annotations={"kueue.x-k8s.io/stopping": "true"},
        status={"active": 0, "terminating": 2},
    )
    evicted = workload(job(), EVICTED, admitted=True)
    assert words(decide(half, [evicted], ON_TERMINAL)) == ["StopJob"]


def test_a_job_that_would_return_its_quota_earlier_than_its_queue_gets_an_event() -> None:
    asks = meta("work", "ns", annotations={RELEASE: "OnTerminating"})
    [reported] = release_limits(asks, "OnTerminal", Overrides())
    assert reported.startswith(f"{RELEASE}=OnTerminating counts as OnTerminal: ")
    assert not list(release_limits(asks, "OnTerminal", FREE))
    assert not list(release_limits(asks, "OnTerminating", Overrides()))
    later = meta("work", "ns", annotations={RELEASE: "OnTerminal"})
    assert not list(release_limits(later, "OnTerminating", Overrides()))


def test_an_unknown_word_says_nothing() -> None:
    assert release_strategy({RELEASE: "OnTerminal"}, "OnTerminating") == "OnTerminal"
    assert release_strategy({RELEASE: ""}, "OnTerminal") == "OnTerminal"
    assert release_strategy({}, "OnTerminal") == "OnTerminal"


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("OnTerminal", None),
        ("OnTerminating", None),
        ("", None),
        (None, None),
        ("onTerminal", "onTerminal"),
        ("whenever", "whenever"),
        ("x" * 5000, "x" * 40),
    ],
)
def test_an_unknown_value_gets_an_event(said: str | None, shown: str | None) -> None:
    found = meta("work", "ns", annotations={} if said is None else {RELEASE: said})
    reported = f"{RELEASE}={shown} is ignored: it is to be OnTerminating or OnTerminal"
    assert list(unreadable_release(found)) == ([reported] if shown else [])


# -- a job that asks for less than is done


@pytest.mark.parametrize(
    ("before", "want"),
    [
        ({"main": 3}, ["SetReclaimable", "UpdateWorkload"]),
        ({"main": 2}, ["UpdateWorkload"]),
        ({"main": 1}, ["UpdateWorkload"]),
        ({"other": 1}, ["SetReclaimable", "UpdateWorkload"]),
        ({}, ["UpdateWorkload"]),
    ],
)
def test_what_is_done_is_never_more_than_is_asked_for(
    before: dict[str, int], want: list[str]
) -> None:
    """The API server refuses the smaller pod sets before the smaller number."""
    smaller = job("work", 2)
    stored = workload(job("work", 4), reclaimable=before)
    actions = decide(smaller, [stored], CONTEXT)
    assert words(actions) == want
    if len(actions) > 1:
        kept = {name: min(count, 2) for name, count in before.items() if name == "main"}
        assert counted(actions[:1]) == kept


def test_readiness_is_still_reported_beside_it() -> None:
    runs = job("work", 2, suspend=False, status={"ready": 1, "succeeded": 1})
    stored = workload(job("work", 2), admitted=True)
    context = replace(CONTEXT, wait_for_pods_ready=True)
    assert words(decide(runs, [stored], context)) == ["SetReclaimable", "SetPodsReady"]
    evicted = replace(stored, conditions=(*stored.conditions, condition(EVICTED)))
    assert "SetReclaimable" not in words(decide(runs, [evicted], context))
