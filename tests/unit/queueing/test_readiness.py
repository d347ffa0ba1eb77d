"""How long pods may take to become ready, and what follows where they do not."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from extender.api.values import Overrides, parsed_overrides
from extender.queueing import cycle, rules
from extender.queueing import lifecycle as to
from extender.queueing.lifecycle import LifecycleRules, WorkloadStep, decide
from extender.queueing.rules import AdmissionOptions, Deadline, PodsReady
from extender.state.queue import events as ev
from extender.state.queue.records import (
    JobObject,
    OwnerRef,
    RequeueInfo,
    WorkloadInfo,
)
from tests.makers import key
from tests.queue_makers import (
    Admissions,
    admission,
    cluster_queue,
    condition,
    local_queue,
    meta,
    quota,
    stated,
    workload,
)

OWN = "scheduling.x-k8s.io"
TIMEOUT, LIMIT = f"{OWN}/pods-ready-timeout", f"{OWN}/pods-ready-backoff-limit"
FREE = parsed_overrides("*")[0]
POLICY = PodsReady(timeout=100, recovery_timeout=30, backoff_base=10, backoff_max=45)
SINCE = 1000.0


def admitted(
    ready: tuple[str, bool, float] | None = ("WaitForStart", False, SINCE), **more: Any
) -> WorkloadInfo:
    """Return a workload admitted at SINCE; `ready` is reason, status and time of PodsReady."""
    more.setdefault("admission", admission(workload("w")))
    reported = (
        () if ready is None else (condition("PodsReady", ready[0], true=ready[1], at=ready[2]),)
    )
    conditions = (condition("QuotaReserved", at=SINCE), condition("Admitted", at=SINCE), *reported)
    return workload("w", conditions=conditions, **more)


# -- how long


def scene(
    queue: Mapping[str, str] | None = None,
    job: Mapping[str, str] | None = None,
    overrides: Overrides = FREE,
) -> Admissions:
    """Return queues in which a ClusterQueue has annotations, and a job has labels."""
    marked = cluster_queue(meta=meta("cq", annotations=dict(queue or {})))
    queues = Admissions(
        marked, local_queue(), options=AdmissionOptions(pods_ready=POLICY, job_overrides=overrides)
    )
    labelled = JobObject("batch/job", meta("job", "ns", labels=dict(job or {})), b"{}")
    queues.apply(ev.JobApplied(labelled))
    return queues


def policy(
    queue: Mapping[str, str] | None = None,
    job: Mapping[str, str] | None = None,
    own: Mapping[str, str] | None = None,
    overrides: Overrides = FREE,
) -> PodsReady:
    queues = scene(queue, job, overrides)
    asks = workload(
        "w",
        meta=meta("w", "ns", annotations=dict(own or {})),
        owners=(OwnerRef("batch/v1", "Job", "job", "job"),),
    )
    return rules.policy_of(asks, queues.view, queues.options)


def test_the_nearest_word_counts() -> None:
    assert policy() == POLICY
    assert policy({TIMEOUT: "1"}).timeout == 1
    assert policy({TIMEOUT: "1"}, {TIMEOUT: "2"}).timeout == 2
    assert policy({TIMEOUT: "1"}, {TIMEOUT: "2"}, {TIMEOUT: "3"}).timeout == 3
    assert policy({TIMEOUT: "1"}, {LIMIT: "4"}) == replace(POLICY, timeout=1, backoff_limit=4)


HOUR = {
    f"{OWN}/wait-for-pods-ready": "false",
    TIMEOUT: "87600h",
    f"{OWN}/pods-ready-recovery-timeout": "0",
    LIMIT: "9",
    f"{OWN}/pods-ready-backoff-base": "0",
    f"{OWN}/pods-ready-backoff-max": "0",
    f"{OWN}/pods-ready-block-admission": "false",
}
"""What takes most from others."""
RULED = replace(POLICY, backoff_limit=5, block_admission=True)
BY_QUEUE = {LIMIT: "5", f"{OWN}/pods-ready-block-admission": "true"}


@pytest.mark.parametrize("through", ["job", "own"])
def test_a_job_takes_nothing_from_others_by_what_it_says(through: str) -> None:
    said: dict[str, Any] = {through: HOUR}
    assert policy(BY_QUEUE, **said, overrides=Overrides()) == RULED
    assert policy(BY_QUEUE, **said) == PodsReady(
        enabled=False,
        timeout=87600 * 3600,
        recovery_timeout=None,
        backoff_limit=9,
        backoff_base=0,
        backoff_max=0,
        block_admission=False,
    )


def test_a_job_may_wait_less_than_its_queue_lets_it() -> None:
    said = {TIMEOUT: "5", f"{OWN}/pods-ready-recovery-timeout": "6", LIMIT: "1"}
    found = policy(BY_QUEUE, said, overrides=Overrides())
    assert found == replace(RULED, timeout=5, recovery_timeout=6, backoff_limit=1)
    assert policy(BY_QUEUE, said, overrides=parsed_overrides("none")[0]) == RULED
    off = {f"{OWN}/wait-for-pods-ready": "false"}
    on = {f"{OWN}/wait-for-pods-ready": "true"}
    assert policy(off, on, overrides=Overrides()).enabled


def test_a_job_that_has_itself_waited_for_holds_others_only_where_its_queue_lets_it() -> None:
    off = {f"{OWN}/wait-for-pods-ready": "false"}
    on = meta("w", "ns", labels={f"{OWN}/wait-for-pods-ready": "true"})
    for overrides, awaited in ((Overrides(), False), (FREE, True)):
        queues = scene(off, overrides=overrides)
        asks = workload("w", meta=on)
        assert rules.is_awaited(asks, queues.view, queues.options) is awaited


def test_a_queue_says_how_far_its_jobs_may_go() -> None:
    bounds = "pods-ready-timeout<=2h, pods-ready-backoff-base >= 5s, pods-ready-backoff-base<=1m"
    queue = {**BY_QUEUE, f"{OWN}/job-overrides": bounds}
    for overrides in (Overrides(), FREE):  # the ClusterQueue's word goes before the settings
        asked = {TIMEOUT: "1h", f"{OWN}/pods-ready-backoff-base": "7"}
        found = policy(queue, asked, overrides=overrides)
        assert found == replace(RULED, timeout=3600, backoff_base=7)
        found = policy(queue, HOUR, overrides=overrides)
        assert found == replace(RULED, timeout=7200, backoff_base=5)
    unlimited = {f"{OWN}/job-overrides": "pods-ready-recovery-timeout<=40"}
    asked = {f"{OWN}/pods-ready-recovery-timeout": "0"}
    assert policy(unlimited, asked).recovery_timeout == 40


def test_an_ignored_setting_is_reported_with_the_one_that_counts() -> None:
    queues = scene(BY_QUEUE, overrides=Overrides())
    odd = workload("w", meta=meta("w", "ns", annotations=HOUR))
    ruled, overrides = rules.ruled_for(odd, queues.view, queues.options)
    reported = list(rules.limits(odd.meta, ruled, overrides))
    end = "its ClusterQueue allows its jobs no more"
    assert f"{TIMEOUT}=87600h counts as 100s: {end}" in reported
    assert f"{OWN}/wait-for-pods-ready=false counts as true: {end}" in reported
    assert f"{LIMIT}=9 counts as 5: {end}" in reported
    assert len(reported) == len(HOUR)
    fine = meta("w", "ns", annotations={TIMEOUT: "5", LIMIT: "odd"})
    assert not list(rules.limits(fine, ruled, overrides))


def test_everything_can_be_said() -> None:
    said = {
        f"{OWN}/wait-for-pods-ready": "false",
        TIMEOUT: "1m",
        f"{OWN}/pods-ready-recovery-timeout": "0",
        LIMIT: "0",
        f"{OWN}/pods-ready-backoff-base": "0",
        f"{OWN}/pods-ready-backoff-max": "2h",
    }
    assert policy(said) == PodsReady(
        enabled=False,
        timeout=60,
        recovery_timeout=None,
        backoff_limit=0,
        backoff_base=0,
        backoff_max=7200,
    )


@pytest.mark.parametrize("name", ["timeout", "recovery-timeout", "backoff-limit", "backoff-base"])
@pytest.mark.parametrize("said", ["", "soon", "-1", "9" * 5000])
def test_what_cannot_be_read_says_nothing(name: str, said: str) -> None:
    assert policy({f"{OWN}/pods-ready-{name}": said}) == POLICY


def test_what_cannot_be_read_hides_nothing_and_is_named() -> None:
    said = {TIMEOUT: "soon", LIMIT: "3", f"{OWN}/other": "x"}
    odd = meta("w", "ns", annotations=said, labels={TIMEOUT: "7", LIMIT: "-"})
    queues = scene()
    found = rules.policy_of(workload("w", meta=odd), queues.view, queues.options)
    assert found == replace(POLICY, timeout=7, backoff_limit=3)
    assert list(rules.unreadable(odd)) == [
        f"{TIMEOUT}=soon is ignored: it is to be a duration such as 300, 90s or 5m, above 0",
        f"{LIMIT}=- is ignored: it is to be a whole number, 0 or more",
    ]
    [reported] = rules.unreadable(meta("w", labels={LIMIT: "9" * 5000}))
    assert reported == f"{LIMIT}={'9' * 40} is ignored: it is to be a whole number, 0 or more"


def test_no_workload_is_late_at_once_or_waits_for_maybe() -> None:
    assert policy({TIMEOUT: "0", f"{OWN}/wait-for-pods-ready": "maybe"}) == POLICY


# -- until when


@pytest.mark.parametrize(
    ("ready", "want"),
    [
        (None, None),
        (("WaitForStart", False, 900), Deadline(1101, "WaitForStart")),
        (("WaitForStart", False, 1010), Deadline(1111, "WaitForStart")),
        (("Started", True, 1010), None),
        (("Started", True, 1000), None),
        (("WaitForRecovery", False, 1050), Deadline(1081, "WaitForRecovery")),
        (("WaitForRecovery", False, 900), Deadline(931, "WaitForRecovery")),
        (("Started", True, 900), None),
        (("Other", False, 1000), Deadline(1101, "WaitForStart")),
    ],
)
def test_until_when_pods_have_to_be_ready(
    ready: tuple[str, bool, float] | None, want: Deadline | None
) -> None:
    assert rules.deadline(admitted(ready), POLICY) == want


def test_workloads_whose_pods_are_not_waited_for() -> None:
    assert rules.deadline(admitted(), replace(POLICY, enabled=False)) is None
    assert rules.deadline(admitted(active=False), POLICY) is None
    assert rules.deadline(admitted(admission=None), POLICY) is None
    assert rules.deadline(workload("w"), POLICY) is None
    evicted = to.evicted(admitted(), "Preempted", "", now=SINCE)
    assert rules.deadline(evicted, POLICY) is None
    lost = admitted(("WaitForRecovery", False, 1050))
    assert rules.deadline(lost, replace(POLICY, recovery_timeout=None)) is None


def test_each_back_off_is_twice_the_last_one_up_to_a_limit() -> None:
    assert [rules.back_off(times, POLICY) for times in (1, 2, 3, 4, 5000)] == [
        10,
        20,
        40,
        45,
        45,
    ]


# -- what follows


def step(asked: WorkloadInfo, now: float, *, ready: bool = False, **changes: Any) -> WorkloadStep:
    options = AdmissionOptions(pods_ready=replace(POLICY, **changes))
    queues = Admissions(cluster_queue(), local_queue(), options=options)
    queues.put(asked)
    rules = LifecycleRules(options, pods_ready=lambda _: ready)
    return decide(asked, queues.view, now, orphaned=False, rules=rules)


def after(taken: WorkloadStep) -> WorkloadInfo:
    assert taken.after is not None
    return taken.after


def test_a_workload_in_time_is_looked_at_when_it_no_longer_is() -> None:
    assert step(admitted(), 1100) == WorkloadStep(again=1)
    assert step(admitted(("Started", True, 1010)), 9999) == WorkloadStep()
    assert step(admitted(max_execution=50), 1010) == WorkloadStep(again=40)
    assert step(admitted(max_execution=500), 1010) == WorkloadStep(again=91)


def test_a_late_workload_is_requeued_after_a_while() -> None:
    taken = step(admitted(), 1101.5)
    found = after(taken)

    assert taken.reason == "Evicted"
    assert stated(found, "Evicted")[:2] == ("True", "PodsReadyTimeout")
    assert found.requeue == RequeueInfo(1, 1112)
    assert [(x.reason, x.cause, x.count) for x in found.evictions] == [
        ("PodsReadyTimeout", "WaitForStart", 1)
    ]
    assert found.admission is not None  # it is given back when the pods are gone


def test_a_workload_that_did_not_recover_is_requeued_later_each_time() -> None:
    lost = admitted(("WaitForRecovery", False, 1050), requeue=RequeueInfo(1))
    assert step(lost, 1080) == WorkloadStep(again=1)
    found = after(step(lost, 1081))

    assert found.requeue == RequeueInfo(2, 1101)
    assert [(x.reason, x.cause) for x in found.evictions] == [
        ("PodsReadyTimeout", "WaitForRecovery")
    ]


def test_a_job_whose_pods_are_ready_is_not_requeued_before_its_condition_is_written() -> None:
    taken = step(admitted(), 5000, ready=True)
    assert taken.after is None
    assert taken.again


def test_past_the_limit_a_workload_is_deactivated_and_forgets_how_often_it_was_sent_back() -> None:
    late = admitted(requeue=RequeueInfo(2))
    assert after(step(late, 1101, backoff_limit=3)).requeue == RequeueInfo(3, 1141)
    marked = after(step(late, 1101, backoff_limit=2))
    assert stated(marked, "DeactivationTarget")[:2] == ("True", "RequeuingLimitExceeded")
    assert not marked.evicted
    assert step(marked, 1101, backoff_limit=2) == WorkloadStep(deactivate=True)

    found = after(step(replace(marked, active=False), 1102, backoff_limit=2))

    assert stated(found, "Evicted")[1] == "DeactivatedDueToRequeuingLimitExceeded"
    assert found.condition("DeactivationTarget") is None
    assert found.requeue is None
    assert [(x.reason, x.cause) for x in found.evictions] == [
        ("Deactivated", "RequeuingLimitExceeded")
    ]


def test_a_workload_keeps_its_count_through_a_back_off_and_loses_it_when_deactivated() -> None:
    sent = after(step(admitted(), 1101))
    out = to.released(sent, 1105, requeued=False)
    assert step(out, 1106) == WorkloadStep(again=5)
    again = after(step(out, 1111))
    assert again.requeue == RequeueInfo(1)
    assert again.condition("Requeued") == replace(
        condition("Requeued", "BackoffFinished"),
        message="The workload backoff was finished",
        transition=1111,
        generation=again.meta.generation,
    )

    off = after(step(replace(out, active=False), 1106))
    assert off.requeue is None
    assert step(off, 1107) == WorkloadStep()
    on = after(step(replace(off, active=True), 1107))
    assert stated(on, "Requeued")[1] == "Reactivated"


def test_what_was_said_of_pods_ends_with_their_quota_and_begins_anew_with_it() -> None:
    ran = admitted(("Started", True, 1010))
    out = to.released(to.evicted(ran, "Preempted", "", now=1020), 1020)
    assert stated(out, "PodsReady")[:2] == ("False", "WaitForStart")

    assert to.reserved(workload("w"), admission(out), 1030).condition("PodsReady") is None
    asked = to.reserved(workload("w"), admission(out), 1030, pods_ready=True)
    assert stated(asked, "PodsReady")[:2] == ("False", "WaitForStart")
    for said in (("Started", True, 1010), ("WaitForRecovery", False, 1010)):
        for now in (1030.0, 900.0):  # the clock may have been set back
            before = admitted(said)
            for after in (to.reserved(before, admission(before), now), to.released(before, now)):
                assert stated(after, "PodsReady")[:2] == ("False", "WaitForStart")


def test_a_setting_of_a_cluster_queue_concerns_all_workloads_and_another_annotation_none() -> None:
    queues = scene()
    before = queues.view.cluster_queues["cq"]

    def annotated(**said: str) -> bool:
        renamed = {name.replace("__", "/"): value for name, value in said.items()}
        changed = replace(before.meta, annotations=renamed, version=before.meta.version + 1)
        return queues.queues.apply(ev.Applied(replace(before, meta=changed))).structure

    assert not annotated(note="x")
    changed = replace(before.meta, annotations={TIMEOUT: "1"}, version=before.meta.version + 2)
    assert queues.queues.apply(ev.Applied(replace(before, meta=changed))).structure


# -- all others wait


def blocking(*, strategy: str = "BestEffortFIFO", **more: Any) -> Admissions:
    options = AdmissionOptions(pods_ready=PodsReady(block_admission=True), **more)
    return Admissions(
        cluster_queue(strategy=strategy),
        local_queue(),
        cluster_queue("other"),
        local_queue("other"),
        options=options,
    )


def outcomes(queues: Admissions) -> list[tuple[str, str]]:
    """Run a cycle and return names and what became of them."""
    return [
        (x.workload.split("/")[1], getattr(x, "reason", type(x).__name__)) for x in queues.run()
    ]


def ready(queues: Admissions, name: str) -> None:
    """Have an admission written, and the pods become ready."""
    found = queues.view.workloads[key(name)]
    held = queues.view.admission(key(name))
    assert held is not None
    stored = to.reserved(found, held, 10, pods_ready=True)
    reported = to.with_conditions(stored, 11, to.condition("PodsReady", "Started", ""))
    queues.put(replace(reported, meta=replace(found.meta, version=found.meta.version + 1000)))


@pytest.mark.parametrize("strategy", ["BestEffortFIFO", "StrictFIFO"])
def test_one_at_a_time_is_admitted_and_the_head_of_each_queue_gets_the_reason(
    strategy: str,
) -> None:
    queues = blocking(strategy=strategy)
    queues.put(workload("a"), workload("b"), workload("c"), workload("o", queue="other"))

    waits = "WaitingForPodsReady"
    assert outcomes(queues) == [("a", "Admit"), ("o", waits), ("b", waits)]
    assert outcomes(queues) == [("b", waits), ("o", waits)]
    assert queues.waiting() == ["b", "c"]
    ready(queues, "a")
    assert outcomes(queues) == [("b", "Admit"), ("o", waits), ("c", waits)]
    queues.drop(queues.view.workloads[key("b")])
    assert outcomes(queues)[0] == ("c", "Admit")
    ready(queues, "c")
    assert outcomes(queues) == [("o", "Admit")]


def test_a_workload_without_quota_says_so_and_does_not_hide_those_with_quota() -> None:
    queues = blocking()
    queues.put(workload("a"), workload("big", 4), workload("small"))

    assert outcomes(queues) == [
        ("a", "Admit"),
        ("big", "WaitingForQuota"),
        ("small", "WaitingForPodsReady"),
    ]
    assert queues.last.held


def test_workloads_whose_pods_are_not_waited_for_hold_no_other() -> None:
    queues = blocking(job_overrides=FREE)
    free = {f"{OWN}/wait-for-pods-ready": "false"}
    queues.put(workload("a", meta=meta("a", "ns", labels=free)), workload("b"), workload("c"))

    assert outcomes(queues) == [("a", "Admit"), ("b", "Admit"), ("c", "WaitingForPodsReady")]


def test_others_are_still_preempted_and_the_preemptor_goes_on_when_all_are_ready() -> None:
    options = AdmissionOptions(pods_ready=PodsReady(block_admission=True))
    preempting = {"within_cluster_queue": "LowerPriority"}
    queues = Admissions(cluster_queue(preemption=preempting), local_queue(), options=options)
    queues.put(workload("low", 3))
    assert outcomes(queues) == [("low", "Admit")]
    ready(queues, "low")
    queues.put(workload("first", 1))
    assert outcomes(queues) == [("first", "Admit")]

    queues.put(workload("high", 3, priority=5))
    assert outcomes(queues) == [("high", "Preempt")]
    # What waits for victims is tried before it is known that their quota is back.
    queues.queues.apply(ev.Deleted(queues.view.workloads[key("low")]))
    queues.put(workload("next", 1))
    assert outcomes(queues)[0] == ("high", "WaitingForPodsReady")
    ready(queues, "first")
    assert outcomes(queues) == [("high", "Admit")]


# -- nothing is tried again before something changes


def in_cohort(*, strategy: str = "BestEffortFIFO", **preemption: str) -> Admissions:
    """Return two queues of a cohort; in the second one pods of a workload are not ready."""
    queues = Admissions(
        cluster_queue("cq", 4, "co", strategy=strategy, preemption=preemption),
        local_queue(),
        cluster_queue("other", quota(8, lend=0), "co"),
        local_queue("other"),
        options=AdmissionOptions(pods_ready=PodsReady(block_admission=True), job_overrides=FREE),
    )
    queues.put(workload("first", 1, queue="other"))
    queues.run()
    return queues


@pytest.mark.parametrize("strategy", ["BestEffortFIFO", "StrictFIFO"])
def test_a_held_head_has_no_workload_tried_again(strategy: str) -> None:
    queues = in_cohort(strategy=strategy)
    queues.put(workload("big", 100), workload("small", 1, queue="other"))
    for _ in range(3):
        assert ("small", "WaitingForPodsReady") in outcomes(queues)
        assert not queues.last.more


def test_a_workload_that_waits_for_victims_beside_a_held_head_has_no_other_tried_again() -> None:
    queues = in_cohort(within_cluster_queue="LowerPriority")
    ready(queues, "first")
    queues.put(workload("low", 4))
    queues.run()
    ready(queues, "low")
    queues.put(workload("late", 1, queue="other"))
    queues.run()
    queues.put(workload("high", 4, priority=5), workload("next", 1, queue="other", priority=9))
    assert ("high", "Preempt") in outcomes(queues)
    for _ in range(3):
        found = outcomes(queues)
        assert ("next", "WaitingForPodsReady") in found
        assert "high" in dict(found)
        assert not queues.last.more


def test_heads_beyond_those_of_a_cycle_are_tried_in_the_next_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cycle, "ROUNDS", 1)
    queues = Admissions(cluster_queue(cpu=4), local_queue())
    queues.put(workload("a"), workload("b"))
    assert outcomes(queues) == [("a", "Admit")]
    assert queues.last.more
    assert outcomes(queues) == [("b", "Admit")]
    assert not queues.last.more


@pytest.mark.parametrize("left", ["gone", "deactivated", "smaller"])
def test_what_a_held_head_kept_from_others_is_theirs_when_it_goes(left: str) -> None:
    queues = in_cohort()
    held, free = workload("held", 4), meta("free", "ns", labels={BLOCK: "false"})
    queues.put(held, workload("free", 8, queue="other", meta=free))
    assert outcomes(queues) == [("held", "WaitingForPodsReady"), ("free", "WaitingForQuota")]
    assert outcomes(queues) == [("held", "WaitingForPodsReady")]
    if left == "gone":
        queues.drop(held)
    elif left == "deactivated":
        queues.put(replace(held, active=False, meta=replace(held.meta, version=10**9)))
    else:
        less = workload("held", 3)
        queues.put(replace(less, meta=replace(held.meta, version=10**9)))
    assert ("free", "Admit") in outcomes(queues)


# -- what is held


BLOCK = f"{OWN}/pods-ready-block-admission"


@pytest.mark.parametrize(
    ("rule", "queue", "own", "held"),
    [
        (False, None, None, False),
        (False, "true", None, True),
        (False, "true", "false", False),
        (False, None, "true", True),
        (True, "false", None, False),
        (True, "false", "true", True),
        (True, None, "false", False),
        (True, "maybe", "", True),
    ],
)
def test_a_queue_and_a_workload_may_say_whether_they_are_held(
    *, rule: bool, queue: str | None, own: str | None, held: bool
) -> None:
    said = {} if queue is None else {BLOCK: queue}
    labels = {} if own is None else {BLOCK: own}
    queues = Admissions(
        cluster_queue(cpu=8, meta=meta("cq", annotations=said)),
        local_queue(),
        cluster_queue("other"),
        local_queue("other"),
        options=AdmissionOptions(pods_ready=PodsReady(block_admission=rule), job_overrides=FREE),
    )
    queues.put(workload("first", queue="other"))
    assert queues.admitted() == ["first"]
    queues.put(workload("w", meta=meta("w", "ns", labels=labels)))
    assert outcomes(queues) == [("w", "WaitingForPodsReady" if held else "Admit")]


def test_a_queue_that_is_not_held_goes_on_beside_one_that_is() -> None:
    said = meta("other", annotations={BLOCK: "false"})
    queues = Admissions(
        cluster_queue(),
        local_queue(),
        cluster_queue("other", meta=said),
        local_queue("other"),
        options=AdmissionOptions(pods_ready=PodsReady(block_admission=True)),
    )
    queues.put(workload("a"), workload("b"), *(workload(x, queue="other") for x in "xyz"))
    found = outcomes(queues)
    assert [name for name, what in found if what == "Admit"] == ["a", "x", "y", "z"]
    assert dict(found)["b"] == "WaitingForPodsReady"


@pytest.mark.parametrize(
    ("kinds", "owner", "held"),
    [
        (None, "example.com/v1", True),
        (frozenset({"batch/Job"}), "example.com/v1", False),
        (frozenset({"batch/Job"}), "batch/v1", True),
        (frozenset({"batch/Job"}), None, True),
    ],
)
def test_pods_without_a_reported_readiness_are_not_waited_for(
    kinds: frozenset[str] | None, owner: str | None, held: bool
) -> None:
    options = AdmissionOptions(pods_ready=PodsReady(block_admission=True), kinds=kinds)
    queues = Admissions(cluster_queue(), local_queue(), options=options)
    owners = (OwnerRef(owner, "Job", "j", "j"),) if owner else ()
    queues.put(workload("left", admission=admission(workload("left")), owners=owners))
    queues.put(workload("w"))
    assert outcomes(queues) == [("w", "WaitingForPodsReady" if held else "Admit")]


def test_what_counts_towards_a_deactivation_begins_anew_with_a_reactivation() -> None:
    spent = admitted(max_execution=6, past_execution=9, requeue=RequeueInfo(3))
    target = after(step(spent, 1001))
    off = to.released(after(step(replace(target, active=False), 1002)), 1003)
    assert off.past_execution > 6

    again = after(step(replace(off, active=True), 1010))

    assert (again.past_execution, again.requeue) == (0, None)
    assert stated(again, "Requeued")[:2] == ("True", "Reactivated")
