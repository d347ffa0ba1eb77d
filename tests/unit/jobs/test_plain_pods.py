"""Plain pods as a job: alone, and in groups."""

import json
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest

from extender.jobs import actions as act
from extender.jobs.actions import Action
from extender.jobs.decide import decide
from extender.jobs.job import Step
from extender.jobs.kinds.plain_pods import PlainPods, pod_of
from extender.jobs.registry import builtin
from extender.jobs.templates import Placement
from extender.kube.decode import Decoder
from extender.kube.decode_queues import QueueDecoder
from extender.state.cluster.records import ConditionInfo
from extender.state.queue.records import FlavorInfo, Meta, OwnerRef
from tests.harness import objects
from tests.unit.jobs.scene import CONTEXT, body_of, end_of, only, reasons, sent, words, workload

GATE = "kueue.x-k8s.io/admission"
TOTAL = "kueue.x-k8s.io/pod-group-total-count"
MANAGED = {"kueue.x-k8s.io/managed": "true"}
LAST = {"kueue.x-k8s.io/retriable-in-group": "false"}
INTEGRATION = builtin()["pod"]


def pod(
    name: str,
    cpu: str = "100m",
    *,
    group: str | None = "g",
    total: int | str = 2,
    held: bool = True,
    phase: str = "Pending",
    ready: bool = False,
    leaving: bool = False,
    age: int = 0,
    annotations: Any = None,
    labels: Any = None,
    label: str = "kueue.x-k8s.io/pod-group-name",
    **options: Any,
) -> Any:
    made = objects.pod(
        name,
        cpu,
        namespace="ns",
        group=group,
        label=label,
        labels={"kueue.x-k8s.io/queue-name": "q", **({} if held else MANAGED), **(labels or {})},
        annotations={**({TOTAL: str(total)} if group else {}), **(annotations or {})},
        gates=[GATE] if held else [],
        **options,
    )
    made["metadata"].update(uid=f"uid-{name}", creationTimestamp=f"2026-01-01T00:00:{60 - age:02}Z")
    if leaving:
        made["metadata"]["deletionTimestamp"] = "2026-01-01T01:00:00Z"
    made["status"] = {"phase": phase}
    if ready:
        made["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    return made


def group(*pods: Any) -> PlainPods:
    found = INTEGRATION.wrap_all([pod_of(each) for each in pods])
    assert isinstance(found, PlainPods)
    return found


def running(name: str, **options: Any) -> Any:
    return pod(name, held=False, phase="Running", ready=True, **options)


def steps(action: Action) -> tuple[Step, ...]:
    assert isinstance(action, act.StartJob | act.StopJob | act.FinalizeJob)
    return action.steps


def members(*actions: Action) -> list[str]:
    """Return the pods that the steps of one action change."""
    [action] = actions
    return [step.member for step in steps(action)]


def test_the_older_label_of_groups_counts_first_and_ours_too() -> None:
    assert INTEGRATION.group_of is not None
    assert INTEGRATION.group_of(pod("a")) == "g"
    assert INTEGRATION.group_of(pod("a", label="scheduling.x-k8s.io/pod-group")) == "g"
    assert INTEGRATION.group_of(pod("a", group=None)) == ""


# -- one alone


def test_a_pod_alone_is_a_job() -> None:
    alone = INTEGRATION.wrap(pod("solo", group=None))
    create = only(act.CreateWorkload, decide(alone, [], CONTEXT))
    name: Any = create.object["metadata"]
    assert name["name"].startswith("pod-solo-")
    (start,) = decide(alone, [workload(alone, admitted=True)], CONTEXT)
    (step,) = steps(start)
    assert step.member == "solo"
    after = sent(alone, step)
    assert "schedulingGates" not in after["spec"]
    assert after["spec"]["nodeSelector"] == {"tier": "spot"}
    assert after["metadata"]["labels"] | MANAGED == after["metadata"]["labels"]


@pytest.mark.parametrize(("phase", "want"), [("Succeeded", True), ("Failed", False)])
def test_a_pod_alone_ends_as_it_does(phase: str, want: bool) -> None:
    ended = group(pod("solo", group=None, held=False, phase=phase)).finished()
    assert ended is not None
    assert ended.success is want


# -- the workload of a group


def test_a_group_waits_until_all_its_pods_are_there() -> None:
    assert decide(group(pod("a")), [], CONTEXT) == ()
    create = only(act.CreateWorkload, decide(group(pod("a"), pod("b")), [], CONTEXT))
    metadata: Any = create.object["metadata"]
    assert metadata["name"] == "g"
    assert [each["name"] for each in metadata["ownerReferences"]] == ["a", "b"]
    assert not any("controller" in each for each in metadata["ownerReferences"])


def test_the_template_of_a_group_keeps_what_is_said_of_topology() -> None:
    near = "kueue.x-k8s.io/podset-required-topology"
    (create,) = decide(
        group(*(pod(name, annotations={near: "rack", "a": "b"}) for name in "ab")), [], CONTEXT
    )
    assert isinstance(create, act.CreateWorkload)
    spec: Any = create.object["spec"]
    [made] = spec["podSets"]
    assert made["template"]["metadata"]["annotations"] == {near: "rack"}
    assert made["topologyRequest"]["required"] == "rack"


def test_pods_that_ask_for_the_same_are_one_pod_set() -> None:
    found = group(
        pod("a", total=3), pod("b", total=3, labels={"index": "1"}), pod("c", "2", total=3)
    )
    counts = sorted((each.count, each.template["spec"]["containers"]) for each in found.pod_sets())  # type: ignore[index]
    assert [count for count, _ in counts] == [1, 2]
    requests = [containers[0]["resources"]["requests"]["cpu"] for _, containers in counts]
    assert requests == ["2", "100m"]
    assert all("schedulingGates" not in each.template["spec"] for each in found.pod_sets())  # type: ignore[operator]


@pytest.mark.parametrize(
    "pods",
    [
        [pod("a", total=2), pod("b", total=3)],
        [pod("a", total="many")],
        [pod("a", total=0)],
        [pod("a"), pod("b", labels={"kueue.x-k8s.io/queue-name": "other"})],
    ],
    ids=["two counts", "no number", "none", "two queues"],
)
def test_pods_that_make_no_group_get_an_event(pods: list[Any]) -> None:
    refuse = only(act.ReportRefusal, decide(group(*pods), [], CONTEXT))
    assert refuse.reason == "InvalidPodGroup"


def test_pods_that_were_not_held_and_those_of_jobs_are_not_ours() -> None:
    free = pod("a", group=None, held=False)
    del free["metadata"]["labels"]["kueue.x-k8s.io/managed"]
    assert group(free).skip()
    of_a_job = pod("a", group=None)
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}
    of_a_job["metadata"]["ownerReferences"] = [owner]
    assert not group(of_a_job).skip()  # the job itself is in no queue
    said = of_a_job["metadata"].setdefault("annotations", {})
    said["kueue.x-k8s.io/workload"] = "job-j-12345"
    assert group(of_a_job).skip()
    assert decide(group(of_a_job), [], CONTEXT) == ()


# -- start and stop


def admitted(*pods: Any, **options: Any) -> Any:
    return workload(group(*pods), admitted=True, **options)


def test_all_pods_are_let_go_and_are_known_afterwards() -> None:
    pods = [pod("a"), pod("b", "2")]
    held = admitted(*pods)
    (start,) = decide(group(*pods), [held], CONTEXT)
    assert sorted(step.member for step in steps(start)) == ["a", "b"]
    after = [
        sent(each, step)
        for each in pods
        for step in steps(start)
        if step.member == each["metadata"]["name"]
    ]
    assert decide(group(*after), [held], CONTEXT) == ()
    assert group(*after).pod_sets() != []
    roles = [each.name for each in group(*after).pod_sets()]
    assert roles == [each.name for each in held.pod_sets]


def test_a_start_that_was_left_half_way_goes_on() -> None:
    held = admitted(pod("a"), pod("b"))
    half = group(running("a"), pod("b"))
    assert members(*decide(half, [held], CONTEXT)) == ["b"]


def test_no_more_pods_are_let_go_than_have_quota() -> None:
    pods = [pod("a"), pod("b")]
    role = group(*pods).pod_sets()[0].name
    held = admitted(*pods, counts={role: 1})
    (start,) = decide(group(*pods), [held], CONTEXT)
    assert len(steps(start)) == 1
    assert decide(group(running("a"), pod("b")), [held], CONTEXT) == ()


def test_other_gates_stay() -> None:
    both = pod("a", group=None)
    both["spec"]["schedulingGates"].append({"name": "scheduling.x-k8s.io/gang"})
    (start,) = decide(group(both), [admitted(both)], CONTEXT)
    after = sent(both, *steps(start))
    assert after["spec"]["schedulingGates"] == [{"name": "scheduling.x-k8s.io/gang"}]
    assert decide(group(after), [admitted(both)], CONTEXT) == ()


def test_a_pod_that_wants_other_nodes_keeps_the_group_from_starting() -> None:
    other = pod("a", nodeSelector={"tier": "other"})
    actions = decide(group(other, pod("b")), [admitted(other, pod("b"))], CONTEXT)
    assert end_of(actions).reason == "FailedToStart"


def test_an_evicted_group_is_deleted_and_its_quota_kept_until_it_is_gone() -> None:
    evicted = workload(group(pod("a"), pod("b")), "Evicted", admitted=True)
    done = pod("b", held=False, phase="Succeeded")
    (stop,) = decide(group(running("a"), done), [evicted], CONTEXT)
    (delete,) = steps(stop)
    assert delete == Step({"preconditions": {"uid": "uid-a"}}, member="a", delete=True)
    leaving = group(running("a", leaving=True), done)
    assert decide(leaving, [evicted], CONTEXT) == ()
    release, blocked = decide(group(done), [evicted], CONTEXT)
    assert isinstance(release, act.ReleaseQuota)
    assert isinstance(blocked, act.SetBlocked)
    assert (blocked.reason, blocked.message) == ("WaitingForPods", "1 of 2 pods are there")


LATE = replace(CONTEXT, overdue=True)


def test_a_group_that_lacks_pods_for_long_says_so() -> None:
    refuse = only(act.ReportRefusal, decide(group(pod("a", total=3)), [], LATE))
    assert (refuse.reason, refuse.message) == ("PodsMissing", "1 of 3 pods are there")


def blocked(of: Any, reason: str, message: str) -> Any:
    return replace(of, conditions=(ConditionInfo("StartBlocked", "True", reason, message),))


def test_a_group_that_could_not_start_is_not_queued() -> None:
    waits = workload(group(pod("a"), pod("b")))
    rest = group(pod("a"), pod("b", phase="Failed"))
    block = only(act.SetBlocked, decide(rest, [waits], CONTEXT))
    assert (block.reason, block.message) == ("WaitingForPods", "1 of 2 pods are there")

    stored = blocked(waits, block.reason, block.message)
    assert decide(rest, [stored], CONTEXT) == ()
    assert words(decide(rest, [stored], LATE)) == ["ReportRefusal"]

    whole = group(pod("a"), pod("b", phase="Failed"), pod("c"))
    assert decide(whole, [stored], CONTEXT) == (act.SetBlocked(stored.key, stored.meta.uid),)
    assert decide(whole, [waits], CONTEXT) == ()


def test_a_group_that_lacks_pods_keeps_its_workload_until_they_come() -> None:
    waits = workload(group(pod("a"), pod("b")))
    other = group(pod("c", "7"))
    assert words(decide(other, [waits], CONTEXT)) == ["SetBlocked"]
    whole = group(pod("c", "7"), pod("d", "7"))
    assert words(decide(whole, [waits], CONTEXT)) == ["UpdateWorkload"]


def test_a_group_whose_pods_do_not_agree_any_more_is_not_queued() -> None:
    waits = workload(group(pod("a"), pod("b")))
    actions = decide(group(pod("a"), pod("b", total=3)), [waits], CONTEXT)
    assert reasons(actions) == {"SetBlocked": "Misconfigured", "ReportRefusal": "InvalidPodGroup"}


def test_pods_that_run_without_quota_are_deleted() -> None:
    waits = workload(group(pod("a"), pod("b")))
    stop = only(act.StopJob, decide(group(running("a"), pod("b")), [waits], CONTEXT))
    assert sorted(step.member for step in stop.steps) == ["a", "b"]


def test_a_group_that_is_deleted_keeps_its_quota_until_it_is_gone() -> None:
    held = admitted(pod("a"), pod("b"))
    leaving = [running("a", leaving=True), running("b", leaving=True)]
    assert decide(group(*leaving), [held], CONTEXT) == ()
    for each in leaving:
        each["status"]["phase"] = "Succeeded"
    gone = ["FinishWorkload", "DropFinalizer"]
    assert words(decide(group(*leaving), [held], CONTEXT)) == gone


# -- members that come and go


def test_pods_too_many_are_deleted_the_held_and_youngest_first() -> None:
    pods = [running("old", age=9), pod("held", age=8), running("new", age=1)]
    (tidy,) = decide(group(*pods), [admitted(*pods[:2])], CONTEXT)
    assert tidy.note is not None
    assert tidy.note.reason == "ExcessPodDeleted"
    assert members(tidy) == ["held"]
    pods = [running("old", age=9), running("middle", age=8), running("new", age=1)]
    assert members(*decide(group(*pods), [admitted(*pods[:2])], CONTEXT)) == ["new"]


def test_a_pod_that_failed_is_replaced() -> None:
    held = admitted(pod("a"), pod("b"))
    failed = pod("b", held=False, phase="Failed")
    assert group(running("a"), failed).finished() is None
    assert decide(group(running("a"), failed), [held], CONTEXT) == ()
    assert members(*decide(group(running("a"), failed, pod("c")), [held], CONTEXT)) == ["c"]


def test_a_pod_of_another_shape_waits_beside_a_group_that_runs() -> None:
    held = admitted(pod("a"), pod("b"))
    failed = pod("b", held=False, phase="Failed")
    assert decide(group(running("a"), failed, pod("c", "7")), [held], CONTEXT) == ()


@pytest.mark.parametrize(
    ("phases", "annotations", "want"),
    [
        (("Succeeded", "Succeeded"), None, True),
        (("Succeeded", "Running"), None, None),
        (("Succeeded", "Failed"), None, None),
        (("Succeeded", "Failed"), LAST, False),
        (("Running", "Failed"), LAST, None),
    ],
)
def test_a_group_ends_when_all_pods_succeeded_or_none_is_to_come(
    phases: tuple[str, str], annotations: Any, want: bool | None
) -> None:
    pods = [
        pod(name, held=False, phase=phase, annotations=annotations)
        for name, phase in zip("ab", phases, strict=True)
    ]
    ended = group(*pods).finished()
    assert (None if ended is None else ended.success) is want


def test_a_held_group_that_was_changed_changes_its_workload() -> None:
    before = workload(group(pod("a"), pod("b")))
    only(act.PatchWorkload, decide(group(pod("a"), pod("c", "7")), [before], CONTEXT))


def test_pods_that_succeeded_need_no_quota_and_count_as_ready() -> None:
    done = pod("b", held=False, phase="Succeeded")
    some = group(running("a"), done)
    assert list(some.reclaimable_pods().values()) == [1]
    assert some.pods_ready()
    assert not group(pod("a", held=False, phase="Running"), done).pods_ready()
    assert not group(running("a")).pods_ready()


def test_pods_that_go_or_belong_nowhere_do_not_count_as_ready() -> None:
    waiting = pod("c", held=False)
    assert not group(running("a"), running("b", leaving=True), waiting).pods_ready()
    assert group(running("a"), running("b"), running("c", leaving=True)).pods_ready()
    assert not group(running("a", total=3), pod("b", total=2, held=False)).pods_ready()
    assert not group(running("a", total="many"), running("b", total="many")).pods_ready()


def test_no_more_is_reclaimed_than_was_asked_for() -> None:
    held = admitted(pod("a", total=3))
    done = [pod(name, total=3, held=False, phase="Succeeded") for name in "bc"]
    said = only(act.SetReclaimable, decide(group(running("a", total=3), *done), [held], CONTEXT))
    assert list(said.counts.values()) == [1]


def test_a_flavor_without_labels_only_lets_go() -> None:
    plain = CONTEXT.__class__(flavors={"spot": FlavorInfo(Meta("spot"))})
    (start,) = decide(group(pod("a", group=None)), [admitted(pod("a", group=None))], plain)
    (step,) = steps(start)
    assert step.patch["spec"] == {"schedulingGates": None}


ROLE = "kueue.x-k8s.io/role-hash"


def test_a_large_pod_is_not_counted_as_a_small_one_because_it_says_so() -> None:
    said = {ROLE: "same"}
    found = group(pod("a", "100m", annotations=said, age=1), pod("b", "64", annotations=said))
    templates: list[tuple[Any, int]] = [(x.template, x.count) for x in found.pod_sets()]
    amounts = {
        template["spec"]["containers"][0]["resources"]["requests"]["cpu"]: count
        for template, count in templates
    }
    assert amounts == {"100m": 1, "64": 1}


def test_a_workload_that_asks_for_less_than_the_pods_is_not_theirs() -> None:
    honest, large = group(pod("a"), pod("b")), group(pod("a", "64"), pod("b", "64"))
    found = workload(honest)
    assert honest.equivalent_to_workload(found)
    [small] = found.pod_sets
    [role] = [each.name for each in large.pod_sets()]
    forged = replace(found, pod_sets=(replace(small, name=role),))
    assert not large.equivalent_to_workload(forged)


def owned(found: PlainPods, *pods: str) -> Any:
    """Return the group's workload, admitted and running, with these pods as its owners."""
    owners = tuple(OwnerRef("v1", "Pod", name, f"uid-{name}", controller=False) for name in pods)
    return replace(workload(found, admitted=True), owners=owners)


def test_a_workload_gets_other_owners_before_the_last_of_them_goes() -> None:
    found = group(running("a2"), running("b"), pod("a", held=False, phase="Failed"))
    (adopt, *_) = decide(found, [owned(found, "a", "b")], CONTEXT)
    assert isinstance(adopt, act.PatchWorkload)
    uids = {each["uid"] for each in adopt.change["metadata"]["ownerReferences"]}  # type: ignore[index]
    assert {"uid-a2", "uid-b"} <= uids


def test_owners_are_not_written_for_each_pod_that_is_replaced() -> None:
    names = ("a", "b", "c", "d")
    found = group(*(running(name, total=4) for name in ("a", "b", "c", "d2")))
    assert "UpdateMetadata" not in words(decide(found, [owned(found, *names)], CONTEXT))


def test_a_pod_that_succeeded_and_was_deleted_counts() -> None:
    left = running("b")
    role = group(left).pod_sets()[0].name

    alone = group(left)
    assert alone.incomplete()
    alone.remember({role: 1})
    assert not alone.incomplete()
    assert alone.pods_ready()
    assert alone.reclaimable_pods() == {role: 1}
    assert alone.finished() is None

    ended = group(pod("b", held=False, phase="Succeeded"))
    ended.remember({role: 1})
    assert ended.finished() is None, "this may be the one that was reported"
    ended.remember({role: 2})
    reported = ended.finished()
    assert reported is not None
    assert reported.success


def test_a_pod_that_is_both_recorded_and_there_counts_once() -> None:
    both = group(pod("a", held=False, phase="Succeeded"), running("b"))
    role = both.pod_sets()[0].name
    both.remember({role: 1})
    assert both.finished() is None
    assert both.reclaimable_pods() == {role: 1}


def test_a_large_group_is_let_go_in_parts() -> None:
    members = [pod(f"p{number}", total=250) for number in range(250)]
    [role] = [each.name for each in group(*members).pod_sets()]
    placement = Placement(role, 250, node_selector={"tier": "spot"})
    before = deepcopy(members)
    started: list[str] = []
    while len(started) < 250:
        steps = group(*members).start_steps([placement])
        assert 0 < len(steps) <= 100
        assert members == before  # what a decision reads it does not change
        names = {step.member for step in steps}
        started += names
        members = [each for each in members if each["metadata"]["name"] not in names]
        before = deepcopy(members)
        placement = replace(placement, count=250 - len(started))
    assert len(set(started)) == 250


@pytest.mark.parametrize(
    ("held", "labels", "kept"), [(True, {}, True), (False, {}, True), (None, {"app": "web"}, False)]
)
def test_of_pods_that_are_not_ours_only_metadata_is_kept(
    *, held: bool | None, labels: dict[str, str], kept: bool
) -> None:
    source = pod("p", held=bool(held), labels=labels, age=1)
    if held is None:
        del source["metadata"]["labels"]["kueue.x-k8s.io/managed"]
    raw = json.dumps(source).encode()
    found = QueueDecoder(Decoder()).job(
        raw,
        kind="pod",
        group_of=INTEGRATION.group_of,
        concerns=INTEGRATION.concerns,
        read=INTEGRATION.read,
    )
    assert (found.raw == raw) is kept
    assert (found.decoded.uid, found.decoded.is_ours) == ("uid-p", kept)
    assert (found.meta.uid, found.group) == ("uid-p", "g")
    seen = group(json.loads(found.raw))
    assert seen.skip() is not kept
    assert seen.skip() is group(source).skip()
    assert body_of(seen)["metadata"]["uid"] == "uid-p"


def test_a_pod_that_cannot_be_read_is_set_aside_by_the_decision_about_its_job() -> None:
    def fail(_: bytes) -> Any:
        raise RecursionError("it is nested too deeply")

    raw = json.dumps(pod("p", age=1)).encode()
    found = QueueDecoder(Decoder()).job(raw, kind="pod", read=fail)
    assert (found.decoded, found.raw) == (None, raw)


@pytest.mark.parametrize("total", [1, 3, "many"])
def test_a_group_that_runs_keeps_its_size(total: int | str) -> None:
    stored = admitted(pod("a"), pod("b"))
    edited = group(running("a", total=total), running("b"))
    assert not edited.pods_ready()
    edited.remember({}, 2)
    assert edited.pods_ready()
    report = only(act.ReportRefusal, decide(edited, [stored], CONTEXT))
    assert report.reason == "EditIgnored"

    smaller = group(running("a", total=1), running("b", total=1))
    smaller.remember({}, 2)
    assert decide(smaller, [stored], CONTEXT) == ()
