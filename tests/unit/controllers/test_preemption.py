"""The reconciler evicts victims once, says so on both sides, and nominates and withdraws nodes."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from typing_extensions import override

from extender.controllers.preemption import (
    MOST_NOMINATIONS,
    PreemptionController,
    StoredNominations,
)
from extender.controllers.timing import LOOK_AGAIN
from extender.gang.verdicts import GangOptions
from extender.kube.errors import ApiError, BudgetError, UnavailableError
from extender.kube.pod_groups import PodGroupWriter
from extender.kube.pods import PodRef
from extender.kube.recorder import Event
from extender.state.cluster.records import (
    BudgetInfo,
    ConditionInfo,
    JobInfo,
    NominatedRoom,
    PodGroupInfo,
    PodGroupStatusInfo,
    PodInfo,
    PreemptedRoom,
    VictimInfo,
)
from tests.makers import (
    ManualClock,
    cluster_of,
    deleted,
    key,
    nodes,
    observe,
    pod,
    pod_group,
    pods,
    requests,
)

LOW = [replace(each, node=f"n{n}") for n, each in enumerate(pods(2, 4, group="low"))]
SINGLE = pod("single", 4, on="n2", workload=key("w"))
HIGH = pods(3, 4, group="high", priority=10)
GROUP = key("high")
CHOSEN = PreemptedRoom(
    900.0,
    {f"n{number}": NominatedRoom((f"high-{number}",), requests(4)) for number in range(3)},
    (VictimInfo("PodGroup", "u-low", ("low-0", "low-1")), VictimInfo("Pod", "single", ("single",))),
)
MESSAGE = "Preempted by PodGroup high, which has the priority 10"


class Writer(PodGroupWriter):
    """Keeps what is written."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []
        self.refused: dict[str, ApiError] = {}
        self.conditions: list[tuple[str, ConditionInfo]] = []
        self.fails: list[ApiError] = []
        self.messages: set[str] = set()
        self.suspends = True

    @override
    async def nominate(self, pod: PodRef, node: str | None) -> None:
        self.calls.append((f"nominate {pod.name}", node or ""))

    @override
    async def mark(self, pod: PodRef, message: str, *, at: float) -> None:
        self.calls.append(("mark", pod.name))
        self.messages.add(message)

    @override
    async def evict(self, pod: PodRef, *, dry_run: bool = False) -> None:
        self.calls.append(("ask" if dry_run else "evict", pod.name))
        if pod.name in self.refused:
            raise self.refused[pod.name]

    @override
    async def suspend(self, key: str, uid: str, jobs: Mapping[str, str]) -> bool:
        self.calls.append(("suspend", key))
        return self.suspends

    @override
    async def delete_budget(self, budget: BudgetInfo) -> None:
        self.calls.append(("lift", budget.name))

    @override
    async def delete(self, pod: PodRef) -> None:
        self.calls.append(("delete", pod.name))

    @override
    async def apply_condition(self, pod_group: PodGroupInfo, condition: ConditionInfo) -> None:
        if self.fails:
            raise self.fails.pop()
        self.conditions.append((pod_group.name, condition))

    def done(self, what: str) -> list[str]:
        return [name for call, name in self.calls if call == what]


class Queue:
    """Workloads, of which one is admitted."""

    def __init__(self, there: Iterable[PodInfo] = ()) -> None:
        self.there, self.stopped = [*there], list[str]()
        self.leaves = True

    def admitted_of(self, pod: PodInfo) -> str | None:
        return pod.workload

    def pods_of(self, workload: str) -> Iterable[PodInfo]:
        return [each for each in self.there if each.workload == workload]

    async def preempt(self, workload: str, message: str) -> bool:
        self.stopped.append(workload)
        return self.leaves


class Scene:
    """Three full nodes, and a gang for which all of them make room."""

    def __init__(self, *facts: Any, queue: Queue | None = None, **options: Any) -> None:
        self.clock, self.writer, self.events = ManualClock(), Writer(), list[Event]()
        self.counted: list[str] = []
        self.cluster = cluster_of(
            nodes(4, 4, 4),
            pod_group("low", 2, uid="u-low"),
            [*LOW, SINGLE],
            HIGH,
            pod_group("high", 3, uid="u-high", nomination=CHOSEN),
            facts,
        )
        self.controller = PreemptionController(
            self.cluster.view(),
            self.writer,
            record=self.events.append,
            count=self.counted.append,
            clock=self.clock,
            options=GangOptions(**options),
            workloads=queue,
        )

    async def look(self, group: str = GROUP) -> float | None:
        return await self.controller.reconcile(group)

    def end(self, reason: str = "Started") -> None:
        """Have the extender take its status back."""
        said = ConditionInfo("Preempting", "False", reason, "so it is", 950.0)
        status = PodGroupStatusInfo(conditions=(said,))
        observe(self.cluster, pod_group("high", 3, uid="u-high", status=status))


async def test_each_victim_is_evicted_once_and_marked() -> None:
    scene = Scene()
    assert await scene.look() == LOOK_AGAIN
    assert await scene.look() == LOOK_AGAIN

    assert sorted(scene.writer.done("evict")) == ["low-0", "low-1", "single"]
    assert sorted(scene.writer.done("mark")) == ["low-0", "low-1", "single"]
    assert scene.writer.messages == {MESSAGE}
    assert scene.counted == ["evicted"] * 3
    [(name, condition)] = scene.writer.conditions
    assert (name, condition.type, condition.status) == ("low", "Preempted", "True")
    said = {(each.about.kind, each.about.name, each.reason, each.note) for each in scene.events}
    assert said == {
        (
            *("PodGroup", "high", "Preempting"),
            "1 gang and 1 single pod of lower priority, 3 pods in all, make room for it on 3 nodes",
        ),
        ("PodGroup", "low", "Preempted", MESSAGE),
        ("Pod", "single", "Preempted", MESSAGE),
    }


@pytest.mark.parametrize("said_at", [None, 850.0, 950.0])
async def test_another_leader_evicts_no_pod_that_is_leaving_and_says_what_was_not_said(
    said_at: float | None,
) -> None:
    """A condition of a time before this preemption is about another one."""
    leaving = [replace(each, terminating=True) for each in (*LOW, SINGLE)]
    said = ConditionInfo("Preempted", "True", "Preempted", "by this", said_at or 0.0)
    status = PodGroupStatusInfo(conditions=(said,) if said_at is not None else ())
    scene = Scene(leaving, pod_group("low", 2, uid="u-low", status=status))
    assert GROUP in scene.controller.begin()
    await scene.look()
    await scene.look()
    assert scene.writer.done("evict") == []
    expected = [] if said_at == 950.0 else ["low"]
    assert [name for name, _ in scene.writer.conditions] == expected
    assert [each.about.name for each in scene.events] == expected


async def test_the_condition_of_a_victim_is_written_until_it_is_there() -> None:
    scene = Scene()
    scene.writer.fails = [UnavailableError("busy"), UnavailableError("busy")]
    for _ in range(2):
        with pytest.raises(UnavailableError):
            await scene.look()
        assert scene.writer.conditions == []
        scene.end()
    scene.clock.now += LOOK_AGAIN
    await scene.look()
    [(name, condition)] = scene.writer.conditions
    assert (name, condition.reason, condition.message) == ("low", "Preempted", MESSAGE)
    assert len(scene.writer.done("evict")) == 3


async def test_a_victim_in_another_namespace_does_not_learn_the_name() -> None:
    scene = Scene(replace(SINGLE, namespace="others"))
    await scene.look()
    assert (
        "Preempted by PodGroup u-high of another namespace, which has the priority 10"
        in scene.writer.messages
    )


async def test_what_a_budget_protects_is_deleted_unless_budgets_are_strict() -> None:
    scene = Scene()
    scene.writer.refused["low-1"] = BudgetError("no", status=429)
    await scene.look()
    assert scene.writer.done("delete") == ["low-1"]
    assert scene.writer.calls.index(("mark", "low-1")) < scene.writer.calls.index(
        ("delete", "low-1")
    )
    assert sorted(scene.counted) == ["deleted", "evicted", "evicted"]

    scene = Scene(strict_budgets=True)
    scene.writer.refused["low-1"] = BudgetError("no", status=429)
    with pytest.raises(BudgetError):
        await scene.look()
    assert scene.writer.done("delete") == scene.writer.done("evict") == []
    assert scene.events == []
    scene.writer.refused.clear()
    await scene.look()
    assert sorted(scene.writer.done("evict")) == ["low-0", "low-1", "single"]


@pytest.mark.parametrize("strict", [False, True])
async def test_the_budget_of_a_gang_that_goes_whole_is_lifted_first(*, strict: bool) -> None:
    ours = BudgetInfo("ns", "gang-low", gang="low", gang_uid="u-low", need=2)
    other = BudgetInfo("ns", "gang-high", gang="high", gang_uid="u-high", need=3)
    scene = Scene(ours, other, strict_budgets=strict)
    await scene.look()
    assert scene.writer.done("lift") == ["gang-low"]
    assert scene.writer.calls[0] == ("lift", "gang-low")
    assert len(scene.writer.done("evict")) == 3


@pytest.mark.parametrize("suspends", [True, False])
async def test_a_job_that_goes_whole_is_suspended_if_it_may_be(*, suspends: bool) -> None:
    of_job = [replace(each, controller="u-job", owners=("ns/job",)) for each in LOW]
    scene = Scene(of_job, JobInfo("u-job", key("low"), 2))
    scene.writer.suspends = suspends
    await scene.look()
    await scene.look()
    assert scene.writer.done("suspend") == ["ns/job"]
    assert sorted(scene.writer.done("mark")) == ["low-0", "low-1", "single"]
    evicted = ["single"] if suspends else ["low-0", "low-1", "single"]
    assert sorted(scene.writer.done("evict")) == evicted
    counted = ["evicted", "job"] if suspends else ["evicted"] * 3
    assert sorted(scene.counted) == counted
    assert [name for name, _ in scene.writer.conditions] == ["low"]


async def test_an_error_stops_no_other_eviction_and_what_was_done_is_not_done_again() -> None:
    scene = Scene()
    scene.writer.refused["low-0"] = UnavailableError("busy", status=503)
    with pytest.raises(UnavailableError):
        await scene.look()
    scene.writer.refused.clear()
    assert [each.about.name for each in scene.events] == ["high", "single", "low"]
    await scene.look()
    assert sorted(scene.writer.done("evict")) == ["low-0", "low-0", "low-1", "single"]


async def test_where_a_check_fails_nothing_is_evicted() -> None:
    scene = Scene(replace(LOW[0], priority=10))
    await scene.look()
    assert scene.writer.calls == []
    assert scene.events == []


async def test_a_job_of_the_queue_is_stopped_as_a_whole_or_loses_a_pod() -> None:
    queue = Queue([SINGLE])
    scene = Scene(queue=queue)
    await scene.look()
    await scene.look()
    assert queue.stopped == [key("w")]
    assert sorted(scene.writer.done("evict")) == ["low-0", "low-1"]
    assert sorted(scene.counted) == ["evicted", "evicted", "workload"]

    other = replace(SINGLE, uid="stays", name="stays")
    queue = Queue([SINGLE, other])
    scene = Scene(queue=queue)
    await scene.look()
    assert queue.stopped == []
    assert sorted(scene.writer.done("evict")) == ["low-0", "low-1", "single"]


async def test_a_workload_that_could_not_be_evicted_is_tried_again() -> None:
    queue = Queue([SINGLE])
    queue.leaves = False
    scene = Scene(queue=queue)
    await scene.look()
    queue.leaves = True
    await scene.look()
    await scene.look()
    assert queue.stopped == [key("w")] * 2


async def test_nodes_are_nominated_a_few_times_and_withdrawn_at_the_end() -> None:
    scene = Scene()
    for number in range(2 * MOST_NOMINATIONS):
        await scene.look()
        await scene.look()
        assert len(scene.writer.done("nominate high-0")) == min(number + 1, MOST_NOMINATIONS)
        scene.clock.now += LOOK_AGAIN
    assert scene.writer.done("nominate high-0") == ["n0"] * MOST_NOMINATIONS

    observe(scene.cluster, [replace(each, nominated=each.node) for each in HIGH])
    observe(scene.cluster, replace(HIGH[0], nominated="n0"), replace(HIGH[1], node="n1"))
    scene.end()
    assert await scene.look() == LOOK_AGAIN
    assert "" not in scene.writer.done("nominate high-0")
    scene.clock.now += LOOK_AGAIN
    assert await scene.look() is None
    assert scene.writer.done("nominate high-0")[-1] == ""
    assert scene.writer.done("nominate high-1") == ["n1"] * MOST_NOMINATIONS
    assert scene.events[-1].reason == "Preempted"


@pytest.mark.parametrize("gone", ["its PodGroup is gone", "it gave up"])
async def test_all_is_withdrawn_where(gone: str) -> None:
    scene = Scene()
    await scene.look()
    observe(scene.cluster, replace(HIGH[0], nominated="n0"))
    if gone == "it gave up":
        scene.end("VictimsStay")
    else:
        observe(scene.cluster, deleted((pod_group("high").api_group, GROUP), PodGroupInfo))
    assert [*scene.controller.concerns([GROUP])] == [GROUP]
    await scene.look()
    scene.clock.now += LOOK_AGAIN
    await scene.look()
    assert scene.writer.done("nominate high-0") == ["n0", ""]
    if gone == "it gave up":
        last = scene.events[-1]
        assert (last.reason, last.note, last.warning) == ("VictimsStay", "so it is", True)
    assert not [*scene.controller.concerns([GROUP])]


async def test_another_leader_withdraws_what_is_left_of_one_that_is_over() -> None:
    scene = Scene(replace(HIGH[0], nominated="n0"))
    scene.end()
    assert [*scene.controller.begin()] == [GROUP]
    await scene.look()
    assert scene.writer.calls == [("nominate high-0", "")]


async def test_a_gang_that_starts_again_is_preempted_no_more() -> None:
    said = ConditionInfo("Preempted", "True", "Preempted", MESSAGE, 950.0)
    status = PodGroupStatusInfo(conditions=(said,))
    scene = Scene(pod_group("low", 2, uid="u-low", status=status))
    assert [*scene.controller.concerns([key("low")])] == [key("low")]
    await scene.look(key("low"))
    assert scene.writer.conditions == []
    observe(scene.cluster, [replace(each, bound_at=960.0) for each in LOW])
    await scene.look(key("low"))
    [(name, condition)] = scene.writer.conditions
    assert (name, condition.status, condition.reason) == ("low", "False", "Started")


def test_room_is_kept_in_its_own_state_as_the_status_says() -> None:
    cluster = cluster_of(nodes(4, 4, 4), pod_group("high", 3, uid="u-high"), HIGH)
    stored = StoredNominations(cluster)
    view = cluster.view()
    observe(cluster, pod_group("high", 3, uid="u-high", nomination=CHOSEN))
    assert view.nominated[GROUP].priority == 10
    observe(cluster, pod_group("high", 3, uid="u-high"))
    assert not view.nominated

    late = cluster_of(nodes(4, 4, 4))
    stored = StoredNominations(late)
    observe(late, pod_group("high", 3, nomination=CHOSEN), HIGH)
    assert late.view().nominated[GROUP].priority == 0
    stored.again()
    assert late.view().nominated[GROUP].priority == 10
