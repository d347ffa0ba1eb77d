"""The admission loop where the API server refuses, is away, loses answers, or others write too."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from typing_extensions import override

from extender.api.core_v1 import LabelSelector
from extender.controllers.admission import AdmissionLoop
from extender.controllers.workload import Workloads
from extender.kube.errors import ApiError, ForbiddenError, InvalidError, UnavailableError
from extender.kube.recorder import Event
from extender.queueing import cycle
from extender.queueing.cycle import RELEASE_DELAY, ROOM_PERIOD, Outcome
from extender.queueing.nominate import Nomination, Nominator
from extender.queueing.quota import QuotaTree
from extender.queueing.rules import AdmissionOptions, AdmissionRules, PodsReady
from extender.room.nodes import NodeRoom
from extender.runtime.faults import FAULTS
from extender.state.cluster.store import Cluster
from extender.state.queue import events as ev
from extender.state.queue.events import Record
from extender.state.queue.records import LocalQueueInfo, NamespaceInfo, OwnerRef, WorkloadInfo
from extender.state.queue.store import Queues
from extender.steps import Steps
from extender.telemetry.queue_metrics import QueueMetrics
from tests.makers import NAMESPACE, ManualClock, key
from tests.queue_makers import (
    admission,
    cluster_queue,
    condition,
    flavor,
    local_queue,
    meta,
    validate_queues,
    workload,
)
from tests.unit.controllers.queue_server import DOWN, LOST, LostError, Server

pytestmark = pytest.mark.looptime

OURS = LabelSelector({"a": "b"})
LOWER = {"within_cluster_queue": "LowerPriority"}


class Counting(QueueMetrics):
    """Counts cycles, and those that looked at a workload."""

    def __init__(self) -> None:
        self.cycles = self.tries = 0

    @override
    def cycle(self, seconds: float, outcomes: tuple[Outcome, ...]) -> None:
        self.cycles += 1
        self.tries += bool(outcomes)

    @override
    def admitted(self, workload: WorkloadInfo, cluster_queue: str, *, waited: float) -> None: ...
    @override
    def reserved(self, workload: WorkloadInfo, cluster_queue: str, *, waited: float) -> None: ...
    @override
    def preempted(self, preempting_cluster_queue: str, reason: str) -> None: ...


class Scene:
    """One ClusterQueue with one CPU; its watch reports when the test says so."""

    def __init__(
        self,
        options: AdmissionOptions | None = None,
        cpu: int = 1,
        clock: Any = None,
        server: Server | None = None,
        cluster: Cluster | None = None,
    ) -> None:
        self.queues, self.server = Queues(), server or Server()
        self.metrics = Counting()
        self.view = self.queues.view()
        self.events: list[Event] = []
        self.room: Any = NodeRoom(self.view, cluster.view()) if cluster is not None else None
        for record in (NamespaceInfo(NAMESPACE), flavor(), cluster_queue("cq", cpu), local_queue()):
            self.queues.apply(ev.Applied(record))
        self.admission = AdmissionLoop(
            self.queues,
            Workloads(self.queues, self.server, record=self.events.append),
            record=self.events.append,
            clock=clock or ManualClock(),
            rules=AdmissionRules(options or AdmissionOptions(), self.room),
            metrics=self.metrics,
        )
        if cluster is not None:
            cluster.watch_room(self.admission.on_room)
        self.queues.subscribe(self.admission.on_change)

    def add(self, *names: str) -> None:
        """Create workloads of one CPU each."""
        for name in names:
            made = workload(name)
            self.server.stored[made.key] = made
            self.queues.apply(ev.Applied(made))

    def put(self, *records: Record) -> None:
        """Have objects stored, and known."""
        for record in records:
            if isinstance(record, WorkloadInfo):
                self.server.stored[record.key] = record
            self.queues.apply(ev.Applied(record))

    def watch(self, name: str) -> None:
        """Have the watch show how a workload is."""
        self.queues.apply(ev.Applied(self.server.stored[key(name)]))

    def admitted(self) -> set[str]:
        """Return which workloads have quota, as it is stored."""
        held = (w for w in self.server.stored.values() if w.admission and not w.finished)
        return {each.meta.name for each in held}

    def waits(self, name: str) -> str:
        """Return why a workload waits, nothing where that is not known."""
        found = self.admission.reasons.reason_of(key(name))
        return found[0] if found else ""

    def said(self, name: str) -> str:
        """Return the stored reason why a workload waits."""
        found = self.server.stored[key(name)].condition("QuotaReserved")
        return found.reason if found else ""

    def finish(self, name: str) -> None:
        """Have a workload end, and the watch show it."""
        found = self.server.stored[key(name)]
        self.server.touch(key(name), conditions=(*found.conditions, condition("Finished")))
        self.watch(name)

    async def until(self, what: Callable[[], object]) -> None:
        """Wait for a condition, in virtual time."""
        async with asyncio.timeout(300):
            while not what():  # noqa: ASYNC110 - virtual
                await asyncio.sleep(0.01)
        assert len(self.admitted()) <= 1, "quota is exceeded"
        validate_queues(self.queues)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.admission.run())
        yield
        if task.done():
            task.result()
        task.cancel()


def holder(name: str, cpu: int, queue: str) -> WorkloadInfo:
    """Return a workload that is admitted."""
    conditions = (condition("QuotaReserved", at=100), condition("Admitted", at=100))
    held = admission(workload(name, cpu, queue), queue)
    return workload(name, cpu, queue, admission=held, conditions=conditions)


@pytest.fixture
def scene() -> Scene:
    return Scene()


async def test_a_workload_that_cannot_be_judged_is_put_aside_alone(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge, broken = Nominator.nominating, {key("first")}

    def nominating(self: Nominator, name: str) -> Steps[Nomination]:
        if name in broken:
            self._tree.take(self._tree.queue("cq"), {("default", "cpu"): 1000})
            raise KeyError("bug")
        return (yield from judge(self, name))

    monkeypatch.setattr(Nominator, "nominating", nominating)
    before = FAULTS.counts.get("admission", 0)
    scene.add("first", "second")
    async with scene.running():
        await scene.until(lambda: scene.admitted() == {"second"})
        assert FAULTS.counts["admission"] > before
        reported = [(e.reason, e.warning) for e in scene.events if e.about.name == "first"]
        assert ("InternalError", True) in reported
        await scene.until(lambda: scene.said("first") == "InternalError")
        tries = FAULTS.counts["admission"]
        await asyncio.sleep(600)
        assert FAULTS.counts["admission"] - tries < 20, "no back-off"

        broken.clear()
        scene.finish("second")
        await scene.until(lambda: scene.admitted() == {"first"})


async def test_a_cycle_that_fails_as_a_whole_is_not_the_last_one(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors = [KeyError("bug")]
    begin = QuotaTree.begin

    def fail(self: QuotaTree) -> None:
        if errors:
            raise errors.pop()
        begin(self)

    monkeypatch.setattr(QuotaTree, "begin", fail)
    before = FAULTS.counts.get("admission-cycle", 0)
    scene.add("first")
    async with scene.running():
        await scene.until(lambda: scene.admitted() == {"first"})
    assert FAULTS.counts["admission-cycle"] == before + 1


async def test_a_queue_that_is_another_one_has_its_workloads_tried_again(scene: Scene) -> None:
    small = cluster_queue("cq", 0)
    scene.put(small)
    async with scene.running():
        scene.add("first")
        await scene.until(lambda: scene.waits("first"))
        assert scene.admitted() == set()
        grown = cluster_queue("cq", 1)
        meta = replace(grown.meta, uid=small.meta.uid, generation=small.meta.generation + 1)
        scene.put(replace(grown, meta=meta))
        await scene.until(lambda: scene.admitted() == {"first"})


async def test_quota_of_a_write_without_an_answer_is_given_to_no_other(scene: Scene) -> None:
    scene.server.script = [LOST]
    scene.add("first", "second")
    async with scene.running():
        await scene.until(lambda: scene.server.writes >= 2)
        await asyncio.sleep(100)
        assert scene.admitted() == {"first"}
        assert [e.reason for e in scene.events if e.about.name == "first"] == ["Admitted"]


@pytest.mark.parametrize(
    ("kind", "version", "told"),
    [
        ("Job", "batch/v1", False),
        ("JobSet", "jobset.x-k8s.io/v1alpha2", True),  # which is not handled
        ("StatefulSet", "apps/v1", True),
        ("LeaderWorkerSet", "leaderworkerset.x-k8s.io/v1", True),
        ("Pod", "v1", True),
    ],
)
async def test_an_admission_is_told_where_no_start_of_its_job_is(
    kind: str, version: str, told: bool
) -> None:
    """The pods of a service or of a group start one by one, and the Event is about one of them."""
    kinds = {"batch/Job", "apps/StatefulSet", "leaderworkerset.x-k8s.io/LeaderWorkerSet", "/Pod"}
    scene = Scene(AdmissionOptions(kinds=frozenset(kinds)))
    scene.put(workload("w", owners=(OwnerRef(version, kind, "o", "u"),)))
    async with scene.running():
        await scene.until(lambda: scene.admitted() == {"w"})
    assert [each.reason for each in scene.events] == ["Admitted"] * told


async def test_while_the_api_server_is_away_quota_is_kept_for_the_admitted_workload(
    scene: Scene,
) -> None:
    scene.server.script = [DOWN] * 5
    scene.add("first", "second")
    async with scene.running():
        await scene.until(lambda: scene.server.writes >= 4)
        assert scene.view.is_assumed(key("first"))
        assert not scene.view.is_assumed(key("second"))
        await scene.until(lambda: scene.admitted() == {"first"})


async def test_while_others_are_waited_for_nothing_is_tried_before_something_changes() -> None:
    blocking = AdmissionOptions(pods_ready=PodsReady(block_admission=True))
    scene = Scene(blocking, cpu=4)
    scene.add("first", "second")
    async with scene.running():
        await scene.until(lambda: scene.admitted() == {"first"})
        await asyncio.sleep(30)
        before = scene.metrics.cycles
        await asyncio.sleep(100)
        # A round for room that may have come is made in any case.
        assert scene.metrics.cycles - before <= 100 / ROOM_PERIOD


async def test_workloads_that_take_turns_in_keeping_quota_cause_no_busy_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whichever of two is held sends the other one away, and what stands before that is tried."""
    monkeypatch.setattr(cycle, "ROUNDS", 1)
    scene = Scene(AdmissionOptions(pods_ready=PodsReady(block_admission=True)))
    records = (cluster_queue("cq", 4, "all"), cluster_queue("b", 0, "all"), local_queue("b"))
    runs = holder("runs", 1, "cq")
    waiting = (
        workload("first", 2, "b", created=50.0),
        workload("never", 9, created=1.0),
        workload("second", 2, created=40.0),
    )
    scene.put(*records, runs, *waiting)
    async with scene.running():
        await asyncio.sleep(30)
        before = scene.metrics.cycles
        await asyncio.sleep(100)
        assert scene.metrics.cycles - before <= 100 / ROOM_PERIOD + 3 * 100 / RELEASE_DELAY


async def test_workloads_that_lost_to_a_released_reservation_are_tried_again() -> None:
    scene = Scene()
    records = (
        cluster_queue("cq", 2, "all", strategy="StrictFIFO", namespace_selector=OURS),
        cluster_queue("other", 2, "all"),
        LocalQueueInfo(meta("other", "far"), "other"),
        NamespaceInfo(NAMESPACE, {"a": "b"}),
        NamespaceInfo("far"),
    )
    lent, runs = holder("lent", 2, "other"), holder("runs", 1, "cq")
    head = workload("head", 2, created=1.0)
    far = workload("waits", 1, "other", meta=meta("waits", "far", created=9.0))
    scene.put(*records, lent, runs, head, far)
    async with scene.running():
        await asyncio.sleep(20)
        assert "waits" not in scene.admitted()
        scene.queues.apply(ev.Applied(NamespaceInfo(NAMESPACE)))
        async with asyncio.timeout(60):
            while "waits" not in scene.admitted():  # noqa: ASYNC110 - virtual
                await asyncio.sleep(0.1)


@pytest.mark.parametrize(
    "error",
    [
        OverflowError("date value out of range"),
        UnavailableError("webhook failed", status=500),
    ],
    ids=["a bug", "an error of the server that was a no"],
)
async def test_a_workload_that_cannot_be_written_harms_itself_alone(
    scene: Scene, error: Exception
) -> None:
    scene.server.script = [error]
    scene.add("first", "second")
    async with scene.running():
        await scene.until(lambda: scene.admitted() == {"second"})


ETCD = LostError("etcd took too long", status=500)
UNKNOWN = ForbiddenError("a server that has just started knows no rights", status=403)


@pytest.mark.parametrize(
    ("script", "reads"),
    [
        ([ETCD], []),
        ([ETCD], [DOWN] * 2),
        ([LOST, UNKNOWN], []),  # a no to the second try says nothing of the first
        ([LOST, UNKNOWN], [UNKNOWN] * 2),
    ],
)
async def test_after_an_error_of_the_server_the_truth_is_read(
    scene: Scene, script: list[Exception], reads: list[ApiError]
) -> None:
    scene.server.script, scene.server.reads = [*script], [*reads]
    scene.add("first", "second")
    async with scene.running():
        await scene.until(lambda: scene.server.writes >= 3 or scene.events)
        await asyncio.sleep(10)
        assert scene.admitted() == {"first"}


async def test_a_workload_that_cannot_be_written_is_left_alone_and_the_next_one_is_admitted(
    scene: Scene,
) -> None:
    scene.server.script = [ForbiddenError("no", status=403)]
    scene.add("first", "second")
    async with scene.running():
        await scene.until(lambda: scene.admitted() == {"second"})
        assert scene.waits("first") == "OnHold"
        said = [(each.reason, each.warning) for each in scene.events if each.about.name == "first"]
        assert said[0] == ("Invalid", True)
        scene.queues.apply(ev.Applied(flavor("other")))
        assert scene.admission.pending.cluster_queue_of(key("first")) is None
        await scene.until(lambda: scene.admission.pending.cluster_queue_of(key("first")) == "cq")


async def test_a_workload_behind_a_strict_head_says_so(scene: Scene) -> None:
    scene.put(cluster_queue("cq", 1, strategy="StrictFIFO"), workload("large", 7))
    scene.put(workload("next", 2), workload("last", 1))
    async with scene.running():
        await scene.until(lambda: scene.said("last") and scene.said("next"))
    said = [scene.said(name) for name in ("large", "next", "last")]
    assert said == ["ExceedsMaxQuota", "PendingEvaluation", "PendingEvaluation"]


async def test_an_eviction_that_is_refused_is_not_tried_again_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene, tries = Scene(), 0
    scene.put(
        cluster_queue("cq", 1, preemption=LOWER),
        replace(holder("victim", 1, "cq"), priority=0),
        workload("first", 1, priority=100),
    )
    write = scene.server.write_status

    async def refuse(before: WorkloadInfo, after: WorkloadInfo) -> WorkloadInfo:
        nonlocal tries
        if after.evicted:
            tries += 1
            raise InvalidError("no", status=422)
        return await write(before, after)

    monkeypatch.setattr(scene.server, "write_status", refuse)
    async with scene.running():
        await asyncio.sleep(60)
    assert 1 < tries < 10
    assert {each.about.name for each in scene.events if each.reason == "Invalid"} == {"victim"}
    assert scene.waits("first") == "OnHold"


async def test_a_reason_that_is_refused_is_reported_and_not_tried_all_the_time(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = 0

    async def refuse(*_: WorkloadInfo) -> WorkloadInfo:
        nonlocal tries
        tries += 1
        raise InvalidError("too long", status=422)

    monkeypatch.setattr(scene.server, "write_status", refuse)
    scene.put(workload("large", 7))
    async with scene.running():
        await asyncio.sleep(150)
    assert 2 <= tries <= 4
    assert {(each.about.name, each.reason) for each in scene.events} == {("large", "Invalid")}


async def test_a_change_by_another_writer_only_costs_another_try(scene: Scene) -> None:
    scene.add("first")
    scene.server.touch(key("first"))
    async with scene.running():
        await scene.until(lambda: scene.admitted() == {"first"})
        assert scene.server.writes == 2


async def test_a_workload_that_changes_after_the_decision_is_decided_on_again(scene: Scene) -> None:
    scene.server.go_on.clear()
    scene.add("first")
    async with scene.running():
        await scene.until(lambda: scene.view.is_assumed(key("first")))
        scene.server.touch(key("first"), active=False)
        scene.watch("first")
        scene.server.go_on.set()
        await scene.until(lambda: not scene.view.is_assumed(key("first")))
        await asyncio.sleep(10)
        assert scene.admitted() == set()


async def test_the_decision_is_written_for_the_version_that_it_was_made_on(scene: Scene) -> None:
    """The change comes in the moment between the decision and the write."""
    scene.add("first")
    scene.queues.subscribe(lambda _: change())
    changed: list[bool] = []

    def change() -> None:
        if scene.view.is_assumed(key("first")) and not changed:
            changed.append(True)
            scene.server.touch(key("first"), active=False)
            scene.watch("first")

    async with scene.running():
        await scene.until(lambda: scene.server.writes and not scene.view.is_assumed(key("first")))
        assert scene.admitted() == set()


async def test_a_late_refusal_leaves_the_namesake_its_quota(scene: Scene) -> None:
    scene.add("first")
    scene.server.go_on.clear()
    async with scene.running():
        await scene.until(lambda: scene.server.writes == 1)
        old = scene.server.stored.pop(key("first"))
        scene.queues.apply(ev.Deleted(old))
        again = workload("first", meta=meta("first", NAMESPACE, uid="again"))
        scene.server.stored[key("first")] = again
        scene.queues.apply(ev.Applied(again))
        await scene.until(lambda: scene.server.writes == 2)
        scene.server.script = [ForbiddenError("no", status=403), DOWN, DOWN, DOWN]
        scene.server.go_on.set()
        await scene.until(lambda: len(scene.server.script) <= 1)
        assert scene.view.is_assumed(key("first"))


async def test_nothing_is_kept_of_a_deleted_workload(scene: Scene) -> None:
    scene.server.script = [ForbiddenError("no", status=403)]
    scene.add("first", "second", "third")
    async with scene.running():
        await scene.until(lambda: scene.waits("third"))
        for name in ("first", "third"):
            scene.queues.apply(ev.Deleted(scene.server.stored.pop(key(name))))
        assert not scene.waits("third")
        assert not scene.admission._failures


async def test_a_workload_behind_an_equal_one_gets_its_condition_as_well(scene: Scene) -> None:
    scene.add("first", "second", "third", "fourth")

    def reported() -> set[str]:
        names = ("first", "second", "third", "fourth")
        return {name for name in names if scene.said(name) == "WaitingForQuota"}

    async with scene.running():
        await scene.until(lambda: reported() == {"second", "third", "fourth"})


@pytest.mark.parametrize("of", ["ClusterQueue", "LocalQueue"])
async def test_a_workload_behind_an_equal_one_says_why_it_waits_once_its_queue_is_resumed(
    scene: Scene, of: str
) -> None:
    scene.add("first", "second", "third")
    records: dict[str, tuple[Record, Record]] = {
        "ClusterQueue": (cluster_queue("cq", 1, stop_policy="Hold"), cluster_queue("cq", 1)),
        "LocalQueue": (local_queue(stop_policy="Hold"), local_queue()),
    }
    stopped, resumed = records[of]

    def say(reason: str) -> bool:
        return {scene.said("second"), scene.said("third")} == {reason}

    async with scene.running():
        await scene.until(lambda: say("WaitingForQuota"))
        scene.put(stopped)
        why = condition("QuotaReserved", "Suspended", true=False)
        for name in ("second", "third"):
            scene.put(replace(scene.server.stored[key(name)], conditions=(why,)))
        await asyncio.sleep(1)
        scene.put(resumed)
        await scene.until(lambda: say("WaitingForQuota"))


async def test_a_workload_behind_an_equal_one_says_why_it_waits_once_it_is_active_again(
    scene: Scene,
) -> None:
    scene.add("first", "second", "third")
    async with scene.running():
        await scene.until(lambda: scene.said("third") == "WaitingForQuota")
        why = condition("QuotaReserved", "Deactivated", true=False)
        stored = scene.server.stored[key("third")]
        scene.put(replace(stored, active=False, conditions=(why,)))
        await asyncio.sleep(1)
        scene.put(replace(stored, active=True, conditions=(why,)))
        await scene.until(lambda: scene.said("third") == "WaitingForQuota")


async def test_what_found_no_quota_is_tried_again_when_its_queue_gets_more(scene: Scene) -> None:
    scene.put(workload("wide", 2))
    async with scene.running():
        await scene.until(lambda: scene.waits("wide"))
        scene.put(cluster_queue("cq", 2))
        await scene.until(lambda: scene.admitted() == {"wide"})
