"""What is done about a job and its workload, case by case."""

from dataclasses import replace
from typing import Any

import pytest
from typing_extensions import override

from extender.jobs import actions as act
from extender.jobs.actions import Action, Ancestor, Context
from extender.jobs.decide import decide
from extender.jobs.job import Step
from extender.jobs.kinds.batch_job import BatchJob
from extender.state.cluster.records import ConditionInfo
from extender.state.queue.records import (
    FlavorInfo,
    Meta,
    OwnerRef,
    PriorityClassInfo,
    WorkloadInfo,
    WorkloadPriorityClassInfo,
)
from tests.unit.jobs.scene import (
    CONTEXT,
    UID,
    body_of,
    condition,
    end_of,
    job,
    only,
    reasons,
    sent,
    words,
    workload,
)

RUNS = {"startTime": "2026-01-01T00:00:00Z", "active": 2, "ready": 2}
DONE = {"conditions": [{"type": "Complete", "status": "True", "message": "all done"}]}
LOST = {"conditions": [{"type": "Failed", "status": "True", "message": "too many"}]}
EVICTED = ("Evicted", "True", "Preempted")
STOPPING = {"kueue.x-k8s.io/stopping": "true"}
LABEL = "kueue.x-k8s.io/priority-class"


def started(**options: Any) -> tuple[Any, WorkloadInfo]:
    """Return a job that runs, and its workload."""
    held = job(**options)
    admitted = workload(held, admitted=True)
    start = only(act.StartJob, decide(held, [admitted], CONTEXT))
    running = sent(held, *start.steps)
    running["status"] = dict(RUNS)
    return type(held)(running), admitted


def deleted(status: Any = None, **metadata: Any) -> BatchJob:
    """Return a job that is being deleted."""
    gone = job(suspend=False, status=status)
    body_of(gone)["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", **metadata}
    return gone


def evicted_of(admitted: WorkloadInfo) -> WorkloadInfo:
    return replace(admitted, conditions=(*admitted.conditions, condition(EVICTED)))


def stopped(running: Any, stored: WorkloadInfo, context: Context = CONTEXT) -> Any:
    """Return a job that was stopped and has no pods left."""
    actions = decide(running, [stored], context)
    assert words(actions) == ["StopJob"]
    half = sent(running, *steps_of(actions))
    assert decide(type(running)(half), [stored], context) == ()  # pods still run
    half["status"]["active"] = 0
    return type(running)(half)


def steps_of(actions: tuple[Action, ...]) -> tuple[Step, ...]:
    found = [each.steps for each in actions if isinstance(each, act.StopJob | act.StartJob)]
    assert len(found) == 1
    return found[0]


# -- which jobs are ours


def test_a_job_without_a_queue_is_left_alone() -> None:
    assert decide(job(queue=None), [], CONTEXT) == ()
    assert decide(job(queue=None, suspend=False), [], CONTEXT) == ()


@pytest.mark.parametrize(("selected", "want"), [(True, ["StopJob"]), (False, [])])
def test_a_job_without_a_queue_is_held_where_all_jobs_are(selected: bool, want: list[str]) -> None:
    context = Context(manage_without_queue_name=True, namespace_selected=selected)
    assert words(decide(job(queue=None, suspend=False), [], context)) == want


def test_a_job_without_its_queue_name_leaves_the_queue_unless_it_has_quota() -> None:
    waits = workload(job())
    assert words(decide(job(queue=None), [waits], CONTEXT)) == ["DropFinalizer", "DeleteWorkload"]
    running, admitted = started()
    del running.object["metadata"]["labels"]
    assert ignored(decide(running, [admitted], CONTEXT))
    running.object["status"] = dict(DONE)
    assert words(decide(running, [admitted], CONTEXT)) == ["FinishWorkload", "DropFinalizer"]


def test_a_job_that_is_deleted_lets_its_workload_go() -> None:
    gone = deleted()
    assert words(decide(gone, [workload(gone, admitted=True)], CONTEXT)) == ["DropFinalizer"]


def test_a_job_that_leaves_its_workload_behind_ends_it() -> None:
    gone = deleted(finalizers=["orphan"])
    assert end_of(decide(gone, [workload(gone, admitted=True)], CONTEXT)).reason == "OwnerNotFound"
    assert words(decide(gone, [workload(gone, "Finished")], CONTEXT)) == ["DropFinalizer"]


def test_a_start_says_where_it_has_quota_and_for_how_long_it_waited_since_it_was_queued() -> None:
    waits = job()
    held = workload(waits, admitted=True)
    made = replace(held, meta=replace(held.meta, created=100.0))
    given = tuple(replace(each, transition=190.4) for each in made.conditions)
    again = ConditionInfo("Requeued", "True", "Backoff", "", 160.0)
    for conditions, seconds in ((given, 90), ((*given, again), 30)):
        start = only(act.StartJob, decide(waits, [replace(made, conditions=conditions)], CONTEXT))
        want = f"Admitted by ClusterQueue cq, wait time since queued was {seconds}s"
        assert start.note == act.Note("Started", want)


def test_an_end_that_its_job_says_itself_gets_no_event() -> None:
    ended = job(status=DONE)
    end = end_of(decide(ended, [workload(ended, admitted=True)], CONTEXT))
    assert (end.reason, end.note) == ("Succeeded", None)


@pytest.mark.parametrize(("kind", "reason"), [("Complete", "Succeeded"), ("Failed", "Failed")])
def test_a_job_that_is_deleted_as_soon_as_it_has_ended_counts_as_ended(
    kind: str, reason: str
) -> None:
    """With `ttlSecondsAfterFinished: 0` no look may have come in between."""
    gone = deleted({"conditions": [{"type": kind, "status": "True"}]})
    assert end_of(decide(gone, [workload(gone, admitted=True)], CONTEXT)).reason == reason
    assert words(decide(gone, [workload(gone, "Finished")], CONTEXT)) == ["DropFinalizer"]


def test_a_child_is_held_until_its_parent_is_admitted_and_has_no_workload() -> None:
    child = job(suspend=False)
    waits = replace(CONTEXT, ancestor=Ancestor("JobSet parent", admitted=False))
    runs = replace(CONTEXT, ancestor=Ancestor("JobSet parent", admitted=True))
    assert words(decide(child, [], waits)) == ["StopJob"]
    assert decide(child, [], runs) == ()
    assert decide(job(), [], waits) == ()
    assert words(decide(job(), [workload(child)], waits)) == ["DropFinalizer", "DeleteWorkload"]


# -- one workload


def test_a_job_gets_a_workload() -> None:
    create = only(act.CreateWorkload, decide(job(), [], CONTEXT))
    assert create.note is None  # `Started` says what becomes of it
    assert body_of(create)["metadata"]["name"].startswith("job-work-")


def test_a_job_that_runs_without_a_workload_is_stopped_and_gets_one_when_its_pods_are_gone() -> (
    None
):
    only(act.StopJob, decide(job(suspend=False, status=RUNS), [], CONTEXT))
    assert decide(job(status={"active": 1}), [], CONTEXT) == ()
    assert words(decide(job(status={"active": 0}), [], CONTEXT)) == ["CreateWorkload"]


def test_a_job_that_ended_without_a_workload_gets_none() -> None:
    assert decide(job(status=DONE, suspend=False), [], CONTEXT) == ()


@pytest.mark.parametrize(
    ("queue", "labels", "reason"),
    [
        ("Not a name", {}, "InvalidQueueName"),
        ("q", {LABEL: "nowhere"}, "PriorityClassNotFound"),
    ],
)
def test_a_job_of_which_no_workload_can_be_made_gets_an_event(
    queue: str, labels: dict[str, str], reason: str
) -> None:
    refuse = only(act.ReportRefusal, decide(job(queue=queue, labels=labels), [], CONTEXT))
    assert (refuse.reason, refuse.note.warning) == (reason, True)


def test_of_two_equal_workloads_the_one_with_quota_stays() -> None:
    held = job()
    has = workload(held, reserved=True)
    spare = replace(workload(held), meta=Meta("spare", "ns", uid="w2", created=-1.0))
    delete = only(act.DeleteWorkload, decide(held, [spare, has], CONTEXT))
    assert (delete.key, delete.uid, delete.note.reason) == ("ns/spare", "w2", "DeletedWorkload")


def test_a_held_job_that_was_changed_changes_its_workload_in_place() -> None:
    before = workload(job())
    update = only(act.PatchWorkload, decide(job(parallelism=3), [before], CONTEXT))
    assert [each["count"] for each in update.change["spec"]["podSets"]] == [3]  # type: ignore[index]
    assert update.note is not None
    assert update.note.reason == "UpdatedWorkload"
    assert decide(job(), [before], CONTEXT) == ()


LEAST = {"kueue.x-k8s.io/job-min-parallelism": "1"}


@pytest.mark.parametrize(
    ("changed", "field", "want"),
    [
        (
            {"labels": {"kueue.x-k8s.io/max-exec-time-seconds": "9"}},
            "maximumExecutionTimeSeconds",
            9,
        ),
        ({"own_annotations": LEAST}, "minCount", 1),
        ({"pod_spec": {"nodeSelector": {"a": "b"}}}, "template", {"a": "b"}),
    ],
    ids=["limit", "fewest", "selector"],
)
def test_whatever_is_changed_of_a_held_job_its_workload_follows(
    changed: Any, field: str, want: Any
) -> None:
    update = only(act.PatchWorkload, decide(job(**changed), [workload(job())], CONTEXT))
    spec: Any = update.change["spec"]
    found = spec.get(field) or spec["podSets"][0][field]
    assert found == want or found["spec"]["nodeSelector"] == want
    only(act.PatchWorkload, decide(job(), [workload(job(**changed))], CONTEXT))


def test_a_job_that_runs_with_fewer_pods_is_left_alone() -> None:
    held = job("work", 4, own_annotations=LEAST)
    admitted = workload(held, admitted=True, counts={"main": 2})
    running = sent(held, *steps_of(decide(held, [admitted], CONTEXT)))
    assert running["spec"]["parallelism"] == 2
    assert decide(type(held)(running), [admitted], CONTEXT) == ()


def test_a_held_job_that_was_changed_loses_quota_for_something_else() -> None:
    before = workload(job(), reserved=True)
    assert words(decide(job(cpu="7"), [before], CONTEXT)) == ["DropFinalizer", "DeleteWorkload"]
    assert decide(job(cpu="7", status={"active": 1}), [before], CONTEXT) == ()


def test_a_running_job_that_was_changed_is_stopped_and_restored_first() -> None:
    running, admitted = started()
    running.object["spec"].update(parallelism=5, completions=5)
    half = stopped(running, admitted)
    rest = decide(half, [admitted], CONTEXT)
    assert words(rest) == ["StopJob"]
    whole = sent(half, *steps_of(rest))
    assert whole["spec"]["template"] == body_of(job())["spec"]["template"]
    want = ["DropFinalizer", "DeleteWorkload"]
    assert words(decide(type(running)(whole), [admitted], CONTEXT)) == want


def test_a_workload_that_goes_takes_the_quota_with_it_when_the_pods_are_gone() -> None:
    running, admitted = started()
    goes = replace(admitted, meta=replace(admitted.meta, terminating=True))
    half = stopped(running, goes)
    rest = decide(half, [goes], CONTEXT)
    assert words(rest) == ["StopJob"]
    whole = type(running)(sent(half, *steps_of(rest)))
    assert words(decide(whole, [goes], CONTEXT)) == ["DropFinalizer"]


# -- the end


@pytest.mark.parametrize(
    ("status", "want"), [(DONE, ("Succeeded", "all done")), (LOST, ("Failed", "too many"))]
)
def test_a_job_that_ends_ends_its_workload(status: dict[str, Any], want: tuple[str, str]) -> None:
    running, admitted = started()
    running.object["status"] = status
    finish = end_of(decide(running, [admitted], CONTEXT))
    assert (finish.reason, finish.message) == want
    over = replace(admitted, conditions=(condition("Finished"),), meta=Meta(finish.key, "ns"))
    assert decide(running, [over], CONTEXT) == ()


# -- start


def test_an_admitted_job_is_started_where_its_quota_is() -> None:
    running, _ = started()
    pod = running.object["spec"]["template"]
    assert not running.is_suspended()
    assert pod["spec"]["nodeSelector"] == {"tier": "spot"}
    assert pod["spec"]["tolerations"] == [
        {"key": "spot", "operator": "Exists", "effect": "NoSchedule"}
    ]
    assert pod["metadata"]["labels"] == {"kueue.x-k8s.io/podset": "main"}


def test_quota_alone_starts_nothing() -> None:
    held = job()
    assert decide(held, [workload(held, reserved=True)], CONTEXT) == ()


def test_a_flavor_that_is_edited_stops_no_job() -> None:
    running, admitted = started()
    other = FlavorInfo(Meta("spot"), node_labels={"tier": "other"})
    assert decide(running, [admitted], Context(flavors={"spot": other})) == ()


def test_a_job_that_wants_other_nodes_than_its_quota_never_starts() -> None:
    held = job(pod_spec={"nodeSelector": {"tier": "reserved"}})
    finish = end_of(decide(held, [workload(held, admitted=True)], CONTEXT))
    assert finish.reason == "FailedToStart"
    assert "tier=reserved" in finish.message


def test_a_flavor_that_is_not_there_is_waited_for() -> None:
    held = job()
    refuse = only(act.ReportRefusal, decide(held, [workload(held, admitted=True)], Context()))
    assert refuse.reason == "FlavorNotFound"


# -- stop


def test_a_running_job_that_is_not_admitted_is_stopped() -> None:
    running = job(suspend=False, status=RUNS)
    stop = only(act.StopJob, decide(running, [workload(running)], CONTEXT))
    assert stop.note is not None
    assert stop.note == act.Note("Stopped", "It is not admitted by a ClusterQueue")


def test_an_evicted_job_is_stopped_and_gives_quota_back_when_its_pods_are_gone() -> None:
    running, admitted = started()
    evicted = evicted_of(admitted)
    stop = only(act.StopJob, decide(running, [evicted], CONTEXT))
    assert stop.note == act.Note("Stopped", "because of Preempted")
    half = stopped(running, evicted)
    release, rest = decide(half, [evicted], CONTEXT)
    assert rest.note is None  # a stop gets one Event
    assert release == act.ReleaseQuota(evicted.key, "w1", requeued=True)
    whole = type(running)(sent(half, *steps_of((rest,))))
    assert whole.object["spec"] == job().object["spec"]
    assert decide(whole, [evicted], CONTEXT) == (release,)
    waits = replace(evicted, admission=None, conditions=(condition(EVICTED),))
    assert decide(whole, [waits], CONTEXT) == ()


@pytest.mark.parametrize(
    ("reason", "want"), [("Preempted", True), ("PodsReadyTimeout", False), ("Deactivated", False)]
)
def test_only_a_job_that_was_preempted_may_come_again_at_once(reason: str, want: bool) -> None:
    held = job()
    evicted = workload(held, ("Evicted", "True", reason), admitted=True)
    release = only(act.ReleaseQuota, decide(held, [evicted], CONTEXT))
    assert release.requeued is want


def test_quota_is_given_back_before_any_event() -> None:
    held = job(status={"succeeded": 1})
    ready = condition(("PodsReady", "True", "Started"))
    evicted = workload(held, EVICTED, admitted=True)
    evicted = replace(evicted, conditions=(*evicted.conditions, ready))
    context = replace(CONTEXT, wait_for_pods_ready=True)
    assert words(decide(held, [evicted], context)) == ["ReleaseQuota", "SetPodsReady"]


def test_pods_that_are_done_give_their_quota_back_and_do_not_take_it_again() -> None:
    def reclaimed(succeeded: int, *, terminating: int = 0, **before: int) -> Any:
        status = {"succeeded": succeeded, "terminating": terminating}
        running = job("work", 4, suspend=False, status=status)
        stored = workload(job("work", 4), admitted=True, reclaimable=before)
        return [each.counts for each in decide(running, [stored], CONTEXT)]  # type: ignore[union-attr]

    assert reclaimed(0) == []
    assert reclaimed(1) == [{"main": 1}]
    assert reclaimed(1, main=1) == []
    assert reclaimed(3, main=1) == [{"main": 3}]
    assert reclaimed(1, main=3) == []
    assert reclaimed(9) == [], "its end gives back the rest"
    assert reclaimed(4, terminating=1) == [{"main": 4}], "its end waits for a pod on a lost node"


def test_without_quota_what_is_done_is_what_the_job_says() -> None:
    held = job("work", 4, status={"succeeded": 1})
    stored = workload(held, reclaimable={"main": 3})
    (said,) = decide(held, [stored], CONTEXT)
    assert said == act.SetReclaimable(stored.key, "w1", {"main": 1})
    fresh = job("work", 4)
    (said,) = decide(fresh, [stored], CONTEXT)
    assert said == act.SetReclaimable(stored.key, "w1", {})


@pytest.mark.parametrize("after", [0, 1])
@pytest.mark.parametrize("is_evicted", [True, False], ids=["evicted", "admitted again"])
def test_a_stop_goes_on_where_it_was_left(after: int, is_evicted: bool) -> None:
    running, admitted = started()
    evicted = evicted_of(admitted)
    half = stopped(running, evicted)
    left = steps_of(decide(half, [evicted], CONTEXT))
    assert [step.subresource for step in left] == ["status", ""]
    half = type(running)(sent(half, *left[:after]))

    rest = decide(half, [evicted if is_evicted else admitted], CONTEXT)
    assert words(rest) == (["ReleaseQuota", "StopJob"] if is_evicted else ["StopJob"])
    assert steps_of(rest) == left[after:]
    whole = sent(half, *steps_of(rest))
    assert whole["spec"] == job().object["spec"]
    assert not whole["metadata"]["annotations"]


def test_a_stop_that_cannot_be_restored_ends_too() -> None:
    half = job(own_annotations=STOPPING)
    stop = only(act.StopJob, decide(half, [], CONTEXT))
    assert stop.steps == (
        Step({"metadata": {"annotations": {"kueue.x-k8s.io/stopping": None}, "uid": UID}}),
    )


# -- what changes on the way


def test_a_held_job_moves_to_another_queue() -> None:
    before = workload(job())
    update = only(act.PatchWorkload, decide(job(queue="other"), [before], CONTEXT))
    assert update.change["spec"] == {"queueName": "other"}
    assert ignored(decide(job(queue="other"), [workload(job(), reserved=True)], CONTEXT))


def test_another_priority_class_changes_the_workload_even_with_quota() -> None:
    classes = {
        "high": WorkloadPriorityClassInfo("high", 9),
        "low": WorkloadPriorityClassInfo("low", 1),
    }
    context = replace(CONTEXT, workload_priority_classes=classes)
    held = job(labels={LABEL: "high"})
    source = ("kueue.x-k8s.io", "WorkloadPriorityClass", "low")
    low = workload(held, reserved=True, priority=1, priority_class=source)
    update = only(act.PatchWorkload, decide(held, [low], context))
    reference = {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "high"}
    assert update.change["spec"] == {"priority": 9, "priorityClassRef": reference}
    pods = replace(low, priority_class=("scheduling.k8s.io", "PriorityClass", "low"))
    assert ignored(decide(held, [pods], context))


def ignored(actions: tuple[Action, ...]) -> bool:
    """Return whether all that is done is to report an edit of metadata."""
    return reasons(actions) == {"ReportRefusal": "EditIgnored"}


@pytest.mark.parametrize(
    ("labels", "annotations"),
    [
        ({"kueue.x-k8s.io/max-exec-time-seconds": "1200"}, {}),
        ({"kueue.x-k8s.io/max-exec-time-seconds": "none"}, {}),
        ({"kueue.x-k8s.io/queue-name": "other"}, {}),
        ({"kueue.x-k8s.io/queue-name": "No_Queue"}, {}),
        ({"kueue.x-k8s.io/priority-class": "high"}, {}),
        ({"kueue.x-k8s.io/prebuilt-workload-name": "other"}, {}),
        ({}, {"kueue.x-k8s.io/prebuilt-workload-name": "other"}),
        ({}, {"kueue.x-k8s.io/job-min-parallelism": "1"}),
        ({}, {"kueue.x-k8s.io/stopping": "true"}),
    ],
)
def test_an_edit_of_metadata_stops_no_job_that_runs(
    labels: dict[str, str], annotations: dict[str, str]
) -> None:
    running, admitted = started(labels={"kueue.x-k8s.io/max-exec-time-seconds": "600"})
    metadata = body_of(running)["metadata"]
    metadata["labels"] |= labels
    metadata.setdefault("annotations", {}).update(annotations)
    classes = {"high": WorkloadPriorityClassInfo("high", 9)}
    context = replace(CONTEXT, workload_priority_classes=classes)

    actions = decide(running, [admitted], context)

    assert actions == () or ignored(actions)
    told = labels or "prebuilt" in str(annotations)
    assert bool(actions) is bool(told)


@pytest.mark.parametrize(("suspended", "out"), [(True, True), (False, False)])
def test_a_limit_that_differs_from_a_prebuilt_workload_counts_before_the_start(
    *, suspended: bool, out: bool
) -> None:
    held = job(labels=PREBUILT)
    mine = replace(workload(held, admitted=True), max_execution=60)
    found = held
    if not suspended:
        found, _ = started()
        body_of(found)["metadata"]["labels"] |= PREBUILT
    actions = decide(found, [mine], replace(CONTEXT, prebuilt=mine))
    assert ("FinishWorkload" in words(actions)) is out
    assert "StopJob" not in words(actions)


def test_a_job_that_names_another_workload_takes_it_when_it_has_no_quota() -> None:
    held = job(labels=PREBUILT)
    before = workload(held)
    assert words(decide(held, [before], CONTEXT)) == [
        "DropFinalizer",
        "DeleteWorkload",
        "ReportRefusal",
    ]
    evicted = workload(held, "Evicted", admitted=True)
    assert words(decide(held, [evicted], CONTEXT)) == ["ReleaseQuota"]


def test_priority_comes_from_the_label_before_the_pods() -> None:
    context = replace(
        CONTEXT,
        workload_priority_classes={"high": WorkloadPriorityClassInfo("high", 9)},
        priority_classes={"pods": PriorityClassInfo("pods", 4)},
    )
    pod_spec = {"priorityClassName": "pods"}
    for labels, want in (({LABEL: "high"}, 9), ({}, 4)):
        create = only(
            act.CreateWorkload, decide(job(labels=labels, pod_spec=pod_spec), [], context)
        )
        assert body_of(create)["spec"]["priority"] == want


@pytest.mark.parametrize("pods", [19, -1])
def test_a_job_that_would_get_no_workload_loses_one_that_waits(pods: int) -> None:
    waits = workload(job())
    odd = job(parallelism=pods, queue="q" if pods < 0 else "No_Queue")
    actions = decide(odd, [waits], CONTEXT)
    assert "UpdateWorkload" not in words(actions)


def test_a_queue_name_that_cannot_be_one_takes_a_workload_out_of_its_queue() -> None:
    actions = decide(job(queue="No_Queue"), [workload(job())], CONTEXT)
    assert reasons(actions) == {"SetBlocked": "Misconfigured", "ReportRefusal": "InvalidQueueName"}


# -- a stop that does not end


ACTIVE = {"active": 2}


def test_a_stopped_job_whose_pods_do_not_end_is_reported() -> None:
    held = job(status=ACTIVE)
    evicted = workload(job(), "Evicted", admitted=True)
    late = replace(CONTEXT, overdue=True)
    assert decide(held, [evicted], CONTEXT) == ()
    for own in ([evicted], []):
        assert reasons(decide(held, own, late)) == {"ReportRefusal": "PodsStillRun"}


def test_a_stopped_job_that_has_no_pods_is_not_waited_for_without_end() -> None:
    held = job(status=ACTIVE)
    evicted = workload(job(), "Evicted", admitted=True)
    gone = replace(CONTEXT, overdue=True, pods_gone=True)
    assert words(decide(held, [evicted], gone)) == ["ReleaseQuota", "ReportRefusal"]
    assert words(decide(held, [], gone)) == ["CreateWorkload", "ReportRefusal"]
    assert "CreateWorkload" not in words(decide(held, [], replace(gone, has_stopped=False)))
    other = workload(job(parallelism=7))
    assert words(decide(held, [other], gone)) == ["UpdateWorkload", "ReportRefusal"]


# -- a workload that was there before


PREBUILT = {"kueue.x-k8s.io/prebuilt-workload-name": "mine"}


def test_a_prebuilt_workload_is_waited_for_and_taken() -> None:
    held = job(labels=PREBUILT)
    missed = only(act.ReportRefusal, decide(held, [], CONTEXT))
    assert missed.reason == "WorkloadNotFound"
    runs = job(labels=PREBUILT, suspend=False)
    assert words(decide(runs, [], CONTEXT)) == ["StopJob", "ReportRefusal"]
    free = replace(workload(held), meta=Meta("mine", "ns", uid="w9"), owners=())
    adopt = only(act.PatchWorkload, decide(held, [], replace(CONTEXT, prebuilt=free)))
    assert adopt.change["metadata"]["labels"] == {"kueue.x-k8s.io/job-uid": UID}  # type: ignore[index]
    mine = replace(free, owners=(OwnerRef("batch/v1", "Job", "work", UID),))
    assert decide(held, [mine], replace(CONTEXT, prebuilt=mine)) == ()


def test_a_prebuilt_workload_of_another_job_is_not_taken() -> None:
    held = job(labels=PREBUILT)
    others = replace(workload(held), owners=(OwnerRef("batch/v1", "Job", "other", "u2"),))
    only(act.ReportRefusal, decide(held, [], replace(CONTEXT, prebuilt=others)))


def test_a_prebuilt_workload_that_asks_for_something_else_is_out_of_sync() -> None:
    held = job(labels=PREBUILT, cpu="7")
    mine = workload(job(), admitted=True)
    finish = only(act.FinishWorkload, decide(held, [mine], replace(CONTEXT, prebuilt=mine)))
    assert finish.reason == "OutOfSync"


GATED_BY = "kueue.x-k8s.io/admission-gated-by"


def gates_after(job_has: str, workload_has: str) -> tuple[Action, ...]:
    """Return what is done about a job and a waiting workload with these gates."""
    held = job(own_annotations={GATED_BY: workload_has} if workload_has else None)
    stored = workload(held)
    meta = replace(stored.meta, annotations={GATED_BY: workload_has} if workload_has else {})
    now = job(own_annotations={GATED_BY: job_has} if job_has else None)
    return decide(now, [replace(stored, meta=meta)], CONTEXT)


def test_a_job_hands_its_admission_gates_to_its_workload() -> None:
    created = only(
        act.CreateWorkload, decide(job(own_annotations={GATED_BY: "a.example/x"}), [], CONTEXT)
    )
    assert body_of(created)["metadata"]["annotations"] == {GATED_BY: "a.example/x"}


@pytest.mark.parametrize(
    ("job_has", "workload_has", "left"),
    [
        ("a.example/x", "a.example/x, b.example/y", "a.example/x"),
        ("", "a.example/x", None),
        ("b.example/y,c.example/z", "a.example/x,b.example/y", "b.example/y"),
    ],
)
def test_a_workload_loses_the_gates_that_its_job_loses(
    job_has: str, workload_has: str, left: str | None
) -> None:
    change = only(act.PatchWorkload, gates_after(job_has, workload_has))
    assert change.change["metadata"] == {"annotations": {GATED_BY: left}}
    assert gates_after(workload_has, workload_has) == ()


def test_a_gate_that_comes_after_the_creation_is_named_and_holds_nothing() -> None:
    said = only(act.ReportRefusal, gates_after("a.example/x", ""))
    assert said.reason == "NotHonoured"
    assert GATED_BY in said.message


# -- what a kind of another project may do otherwise


class Tidy(BatchJob):
    """A kind that is queued without a queue name, and tidies up when it has ended."""

    @override
    def ignore_from_queueing(self) -> bool:
        return False

    @override
    def finalize_steps(self) -> list[Step]:
        return [Step({"metadata": {"finalizers": []}})]


def test_a_kind_may_be_queued_without_a_queue_name() -> None:
    assert decide(job(queue=None), [], CONTEXT) == ()
    only(act.CreateWorkload, decide(Tidy(job(queue=None).object), [], CONTEXT))


def test_a_kind_may_tidy_up_when_it_has_ended() -> None:
    ended = Tidy(job(suspend=False, status=DONE).object)
    own = workload(ended, admitted=True)
    tidy = act.FinalizeJob((Step({"metadata": {"finalizers": []}}),))
    assert decide(ended, [own], CONTEXT)[-1] == tidy
    assert decide(ended, [replace(own, conditions=(condition("Finished"),))], CONTEXT)[-1] == tidy
