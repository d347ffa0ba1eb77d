"""The PodGroup controller: writes what changed, once, and goes on where the API server refuses."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from typing_extensions import override

from extender.api.wellknown import DOMAIN_LABEL
from extender.controllers.pod_group import PodGroupController
from extender.controllers.timing import LATE, LOOK_AGAIN, SETTLE, WATCH_LAG
from extender.gang.budgets import AFTER
from extender.gang.verdicts import GangOptions, OnPartial
from extender.kube.errors import ApiError, UnavailableError
from extender.kube.pod_groups import PodGroupWriter
from extender.kube.pods import PodRef
from extender.kube.recorder import Event
from extender.state.cluster.records import (
    BudgetInfo,
    ConditionInfo,
    JobInfo,
    PodGroupInfo,
    PodGroupStatusInfo,
    Resumption,
)
from extender.state.cluster.store import Cluster
from tests.makers import ManualClock, deleted, key, node, observe, pod, pod_group, pods

GROUP = key("gang")
RUNS: dict[str, Any] = {"on": "n0", "phase": "Running", "ready": True, "owners": ("ns/job",)}
DONE: dict[str, Any] = RUNS | {"phase": "Succeeded", "ready": False, "finished": True}


class Writer(PodGroupWriter):
    """Keeps what is written; fails as often as scripted."""

    def __init__(self) -> None:
        self.statuses: list[PodGroupStatusInfo] = []
        self.ready: list[tuple[str, bool, str]] = []
        self.evicted: list[str] = []
        self.errors: list[ApiError] = []
        self.is_whole = True
        self.orders: dict[str, str] = {}
        self.asked: list[str] = []
        self.budgets: list[int | None] = []
        self.jobs: list[tuple[str, str]] = []

    @override
    async def suspend(self, key: str, uid: str, jobs: Mapping[str, str]) -> bool:
        self.jobs.append(("suspend", key))
        return True

    @override
    async def resume(self, uid: str, found: Resumption) -> bool:
        self.jobs.append(("resume", found.job))
        return True

    @override
    async def apply_budget(self, pod_group: PodGroupInfo, budget: BudgetInfo) -> None:
        self.budgets.append(budget.need)

    @override
    async def delete_budget(self, budget: BudgetInfo) -> None:
        self.budgets.append(None)

    @override
    async def apply_status(self, pod_group: PodGroupInfo, status: PodGroupStatusInfo) -> bool:
        self._fail()
        self.statuses.append(status)
        return self.is_whole

    @override
    async def order_of(self, path: str, field: str) -> str | None:
        self.asked.append(f"{path} {field}")
        return self.orders.get(path.rpartition("/")[2])

    @override
    async def set_gang_ready(
        self, pod: PodRef, *, ready: bool, reason: str, message: str, at: float
    ) -> None:
        self.ready.append((pod.name, ready, reason))

    @override
    async def evict(self, pod: PodRef, *, dry_run: bool = False) -> None:
        self._fail()
        self.evicted.append(pod.name)

    def _fail(self) -> None:
        if self.errors:
            raise self.errors.pop(0)


class Bench:
    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.writer, self.clock = cluster, Writer(), ManualClock()
        self.events: list[Event] = []
        self.protects = False
        self.group = pod_group(uid="u-1")
        observe(cluster, node("n0", 100), self.group)
        self.start()

    def start(self) -> None:
        """Start anew, with nothing in memory."""
        self.controller = PodGroupController(
            self.cluster,
            self.writer,
            record=self.events.append,
            clock=self.clock,
            options=GangOptions(schedule_timeout=60, protects=self.protects),
            on_partial=OnPartial.EVICT,
        )

    async def look(self, *facts: Any) -> float | None:
        observe(self.cluster, *facts)
        return await self.controller.reconcile(GROUP)

    async def settle(self, *facts: Any) -> float | None:
        """Have two looks, so far apart that what may wait is written."""
        await self.look(*facts)
        self.clock.now += LOOK_AGAIN
        return await self.look()

    def seen(self, *others: ConditionInfo) -> None:
        """Have the watch show what was written last, beside what others say."""
        last = self.writer.statuses[-1]
        conditions = (*others, *reversed(last.conditions))
        self.group = replace(self.group, status=replace(last, conditions=conditions))
        observe(self.cluster, self.group)

    @property
    def phases(self) -> list[str]:
        return [status.phase for status in self.writer.statuses]

    @property
    def reasons(self) -> list[str]:
        return [event.reason for event in self.events]


@pytest.fixture
def bench(cluster: Cluster) -> Bench:
    return Bench(cluster)


async def test_a_status_is_written_when_it_changed_and_only_then(bench: Bench) -> None:
    await bench.settle(pods(2))
    await bench.settle()
    bench.seen(ConditionInfo("Permitted", "False", "Gated"))
    await bench.settle()
    assert bench.phases == ["Pending"]

    await bench.settle(pods(3))
    assert bench.phases == ["Pending", "PreScheduling"]
    assert bench.reasons == ["Gated"]


async def test_what_a_gang_passes_within_a_second_is_one_write_and_one_event(bench: Bench) -> None:
    await bench.look()
    for facts in (pods(3), pods(2, on="n0"), pods(3, on="n0"), pods(2, **RUNS), pods(3, **RUNS)):
        bench.clock.now += 0.1
        assert await bench.look(facts) == pytest.approx(
            LOOK_AGAIN + 1000 - bench.clock.now, abs=0.01
        )
    assert (bench.phases, bench.reasons) == ([], [])
    assert bench.controller.phases() == {"Running": 1}

    bench.clock.now += 0.5
    await bench.look()
    assert (bench.phases, bench.reasons) == (["Running"], ["Scheduled"])

    bench.clock.now += LOOK_AGAIN
    for done in (1, 2):
        assert await bench.look(pods(done, **DONE)) == pytest.approx(SETTLE)
    await bench.look(pods(3, **DONE))
    assert (bench.phases, bench.reasons) == (["Running", "Finished"], ["Scheduled"])


@pytest.mark.parametrize(
    ("then", "phase"),
    [
        (pods(3, **DONE), "Finished"),
        (pod("gang-2", group="gang", on="n0", phase="Failed", finished=True), "Failed"),
    ],
)
async def test_an_end_is_written_at_once(bench: Bench, then: Any, phase: str) -> None:
    await bench.settle(pods(3, **RUNS))
    await bench.look(then)
    assert bench.phases == ["Running", phase]


async def test_a_group_is_among_those_that_wait_until_it_has_its_nodes(bench: Bench) -> None:
    began = float(int(bench.clock.wall()))
    await bench.settle(pods(2, created=began - 50))
    assert [*bench.controller.waiting()] == [("NotEnoughPods", began)]

    bench.clock.now += 60
    bench.seen()
    await bench.look(pods(3, created=began - 50))
    assert [*bench.controller.waiting()] == [("WaitingForBind", began)]

    await bench.look(pods(3, **RUNS))
    assert [*bench.controller.waiting()] == []


async def test_pods_that_are_missing_for_long_get_an_event_and_at_first_none(bench: Bench) -> None:
    began = float(int(bench.clock.wall()))
    await bench.settle(pods(2, created=began))
    bench.clock.now += LATE - LOOK_AGAIN - 1
    await bench.look()
    assert bench.reasons == []
    bench.seen()
    for _ in range(3):
        bench.clock.now += 10
        await bench.look()
    bench.start()
    await bench.look()
    first, again = bench.events
    assert (first.reason, first.warning) == ("NotEnoughPods", False)
    assert first.note == "2 of the 3 pods that it needs exist"
    assert again.occasion == first.occasion, "a restart makes no second one"


async def test_a_group_that_is_gone_does_not_wait(bench: Bench) -> None:
    await bench.look(pods(2))
    bench.cluster.apply(deleted((bench.group.api_group, GROUP), PodGroupInfo))
    await bench.look()
    assert [*bench.controller.waiting()] == []


async def test_a_restart_writes_no_status_and_no_event_again(bench: Bench) -> None:
    gated = pods(3, gates=("other",))
    await bench.settle(gated)
    bench.seen()
    bench.start()
    await bench.settle()

    assert len(bench.writer.statuses) == len(bench.events) == 1


async def test_a_restart_before_a_status_was_written_loses_nothing(bench: Bench) -> None:
    await bench.look(pods(3, **RUNS))
    bench.start()
    await bench.settle()

    assert (bench.phases, bench.reasons) == (["Running"], ["Scheduled"])


async def test_a_status_that_another_writer_overwrote_is_written_again_when_the_watch_had_time(
    bench: Bench,
) -> None:
    again = await bench.settle(pods(3, gates=("other",)))
    assert again == WATCH_LAG
    bench.seen()
    bench.group = replace(bench.group, status=PodGroupStatusInfo(phase="Running"))
    observe(bench.cluster, bench.group)
    await bench.look()
    assert len(bench.writer.statuses) == 1

    bench.clock.now += WATCH_LAG
    await bench.look()
    assert bench.phases == ["PreScheduling"] * 2
    await bench.look()
    assert len(bench.writer.statuses) == 2
    assert len(bench.events) == 1


async def test_a_status_that_is_stored_in_part_is_not_written_again_and_again(
    bench: Bench,
) -> None:
    """The CRD of another project lacks fields, so that the watch never shows all of it."""
    bench.writer.is_whole = False
    await bench.settle(pods(2))
    bench.clock.now += 2 * WATCH_LAG
    await bench.look()
    assert len(bench.writer.statuses) == 1

    await bench.settle(pods(4, **RUNS))
    assert len(bench.writer.statuses) == 2


async def test_a_status_that_could_not_be_written_gets_its_event_when_it_is(bench: Bench) -> None:
    bench.writer.errors = [UnavailableError("down")]
    with pytest.raises(UnavailableError):
        await bench.settle(pods(3, gates=("other",)))
    assert bench.events == []

    await bench.look()
    assert (len(bench.writer.statuses), bench.reasons) == (1, ["Gated"])


async def test_counts_of_a_running_group_are_written_late(bench: Bench) -> None:
    await bench.settle(pods(3, **RUNS))
    bench.seen()
    bench.clock.now += 30
    assert await bench.look(pods(4, **RUNS)) == pytest.approx(SETTLE)
    bench.clock.now += 0.4
    assert await bench.look(pods(5, **RUNS)) == pytest.approx(SETTLE - 0.4)
    assert [status.running for status in bench.writer.statuses] == [3]
    bench.clock.now += SETTLE - 0.4
    await bench.look()
    await bench.look(pods(6, **RUNS))
    bench.clock.now += SETTLE
    await bench.look()

    assert [status.running for status in bench.writer.statuses] == [3, 5, 6]
    texts = [condition.message for condition in bench.writer.statuses[1].conditions]
    assert "5 of 3 pods run, 0 are done" in texts


async def test_counts_that_wait_are_written_with_what_does_not_wait(bench: Bench) -> None:
    await bench.settle(pods(3, **RUNS))
    await bench.look(pods(5, **RUNS))
    await bench.look(pods(5, **DONE))

    want = [("Running", 0), ("Finished", 5)]
    assert [(status.phase, status.succeeded) for status in bench.writer.statuses] == want


async def test_counts_that_go_back_before_they_are_written_are_no_write(bench: Bench) -> None:
    await bench.settle(pods(4, **RUNS))
    bench.seen()
    await bench.look(deleted("gang-3"))
    assert await bench.look(pods(4, **RUNS)) is None

    bench.clock.now += LOOK_AGAIN
    await bench.look()
    assert len(bench.writer.statuses) == 1


async def test_counts_that_wait_are_not_forgotten_with_the_pods_that_they_came_from(
    bench: Bench,
) -> None:
    """The counts of a Finished group do not fall: a Job's time-to-live deletes its pods."""
    await bench.look(pods(3, **DONE))
    await bench.look(pods(4, **DONE))
    await bench.look([deleted(each.uid) for each in pods(4)])
    bench.clock.now += LOOK_AGAIN
    await bench.look()

    assert [status.succeeded for status in bench.writer.statuses] == [3, 4]


async def test_a_new_group_of_the_same_name_starts_anew(bench: Bench) -> None:
    await bench.settle(pods(3, gates=("other",)))
    bench.clock.now += 500
    bench.group = replace(bench.group, uid="u-2")
    await bench.settle(bench.group)

    first, second = bench.writer.statuses
    assert (first.started, second.started) == (1000.0, 1501.0)
    assert [event.about.uid for event in bench.events] == ["u-1", "u-2"]


async def test_a_group_that_is_gone_is_forgotten(bench: Bench) -> None:
    await bench.look(pods(2))
    assert bench.controller.phases() == {"Pending": 1}

    assert await bench.look(deleted((bench.group.api_group, GROUP), PodGroupInfo)) is None
    assert bench.controller.phases() == {}


async def test_an_event_is_about_the_group(bench: Bench) -> None:
    await bench.settle(pods(3, gates=("other",)))
    [event] = bench.events

    about = event.about
    assert (about.api_version, about.kind) == ("scheduling.x-k8s.io/v1alpha1", "PodGroup")
    assert (about.namespace, about.name, about.uid) == ("ns", "gang", "u-1")
    text = "0 of the 3 pods that it needs are free of gates"
    assert (event.note, event.warning) == (text, False)


async def test_mixed_priorities_get_one_event_and_are_known_again_after_a_restart(
    bench: Bench,
) -> None:
    mixed = [*pods(2), pod("gang-2", group="gang", priority=5)]
    await bench.settle(mixed)
    await bench.look()
    assert bench.reasons.count("MixedPriorities") == 1
    bench.seen()
    bench.start()
    await bench.look()

    first, second = (e.occasion for e in bench.events if e.reason == "MixedPriorities")
    assert first == second


async def test_the_same_reason_later_is_another_occasion(bench: Bench) -> None:
    gated, free = pods(3, gates=("other",)), pods(3)
    for facts in (gated, free, gated):
        await bench.settle(facts)

    first, second = (e.occasion for e in bench.events if e.reason == "Gated")
    assert first != second


async def test_members_get_the_condition_that_their_gang_is_ready(bench: Bench) -> None:
    await bench.look(pods(3, readiness_gate=True, **RUNS))

    assert bench.writer.ready == [(f"gang-{n}", True, "GangReady") for n in range(3)]


async def test_a_refused_eviction_does_not_keep_the_others_and_is_tried_again(
    bench: Bench,
) -> None:
    await bench.settle(pods(2, **RUNS), pod("gang-2", group="gang"))
    bench.clock.now += 61
    bench.writer.errors = []
    status, *_ = bench.writer.statuses
    assert status.phase == "Scheduling"

    class Once(Writer):
        @override
        async def evict(self, pod: PodRef, *, dry_run: bool = False) -> None:
            if pod.name == "gang-0" and not self.evicted:
                raise UnavailableError("a disruption budget", status=429)
            self.evicted.append(pod.name)

    bench.seen()
    bench.writer = Once()
    bench.start()
    await bench.look()  # another process watches for itself before it evicts
    assert bench.writer.evicted == []
    bench.clock.now += 61
    with pytest.raises(UnavailableError):
        await bench.look()
    assert bench.writer.evicted == ["gang-1"]
    await bench.look()
    assert sorted(bench.writer.evicted) == ["gang-0", "gang-1", "gang-1"]
    assert bench.reasons.count("PartialGang") == 1


async def test_it_watches_anew_when_others_have_the_nodes(bench: Bench) -> None:
    await bench.look(pods(2, **RUNS), pod("gang-2", group="gang"))
    bench.clock.now += 40
    await bench.look(deleted("gang-1"), pod("gang-3", group="gang", **RUNS))
    bench.clock.now += 30
    await bench.look()
    assert bench.writer.evicted == []

    bench.clock.now += 31
    await bench.look()
    assert sorted(bench.writer.evicted) == ["gang-0", "gang-3"]


async def test_it_watches_anew_when_the_group_was_gone(bench: Bench) -> None:
    await bench.settle(pods(2, **RUNS), pod("gang-2", group="gang"))
    bench.seen()
    bench.clock.now += 61
    await bench.look(deleted((bench.group.api_group, GROUP), PodGroupInfo))
    await bench.look(bench.group)

    assert bench.writer.evicted == []


async def test_a_gang_has_a_budget_while_it_runs_and_none_when_it_is_evicted(bench: Bench) -> None:
    ours = BudgetInfo("ns", "gang-gang", gang="gang", gang_uid="u-1", need=3)
    bench.protects = True
    bench.start()
    await bench.settle(pods(3, **RUNS))
    bench.seen()
    assert await bench.look() == AFTER - LOOK_AGAIN
    assert bench.writer.budgets == []
    bench.clock.now += AFTER + 1
    await bench.look()
    assert bench.writer.budgets == [3]

    bench.protects = False
    bench.start()
    await bench.look(replace(ours, selector=None))
    assert bench.writer.budgets == [3, None]


OF_SET = {"labels": {"statefulset.kubernetes.io/pod-name": "web-0"}}
OF_LWS = {"labels": {"leaderworkerset.sigs.k8s.io/name": "web"}}


@pytest.mark.parametrize(
    ("made", "order", "want"),
    [
        (OF_SET, "OrderedReady", "StatefulSet web makes a pod only when the one before is ready: "
         "create it again with podManagementPolicy: Parallel"),
        (OF_SET, "Parallel", ""),
        (OF_LWS, "LeaderReady", "LeaderWorkerSet web makes workers only when their leader is "
         "ready: create it again with startupPolicy: LeaderCreated"),
        (OF_LWS, "LeaderCreated", ""),
        (OF_SET, None, "a StatefulSet makes a pod when the one before is ready, unless its "
         "podManagementPolicy is Parallel"),
        ({}, "OrderedReady", ""),
    ],
)  # fmt: skip
async def test_an_ordered_start_is_reported_with_its_mend_and_read_once(
    bench: Bench, made: dict[str, Any], order: str | None, want: str
) -> None:
    if order is not None:
        bench.writer.orders["web"] = order

    await bench.settle([pod("web-0", group="gang", **made)])
    await bench.settle([pod("web-1", group="gang", **made)])

    said = bench.writer.statuses[0].condition("Scheduled")
    assert said is not None
    assert said.reason == "NotEnoughPods"
    assert said.message == "1 of the 3 pods that it needs exist" + (f"; {want}" if want else "")
    in_order = bool(order and want)
    assert [e.note for e in bench.events if e.reason == "StartsInOrder"] == [
        *([said.message] if in_order else [])
    ]
    assert len(bench.writer.asked) == bool(made)


async def test_a_job_is_suspended_and_resumed_in_the_place_of_evictions(bench: Bench) -> None:
    of_job = RUNS | {"controller": "u-job"}
    job = JobInfo("u-job", GROUP, 3)
    bench.group = replace(bench.group, on_partial="restart")
    await bench.look(bench.group, job, pods(3, **of_job))
    await bench.look(deleted("gang-2"))
    assert bench.writer.jobs == [("suspend", "ns/job")]
    assert bench.writer.evicted == ["gang-0", "gang-1"]  # asked about, as the writer of tests notes

    bench.start()
    await bench.look(
        replace(job, resumes=Resumption("ns/job")), deleted("gang-0"), deleted("gang-1")
    )
    assert bench.writer.jobs[1:] == [("resume", "ns/job")]
    await bench.look(job)
    assert len(bench.writer.jobs) == 2

    # Its PodGroup is gone.
    await bench.look(deleted(key("gang"), PodGroupInfo), replace(job, resumes=Resumption("ns/job")))
    assert bench.writer.jobs[2:] == [("resume", "ns/job")]


async def test_a_gang_for_which_no_node_comes_in_time_is_made_anew_once_that_is_said() -> None:
    bench = Bench(Cluster(growing=True))
    bench.group = replace(bench.group, required_topology="zone")
    labels = {DOMAIN_LABEL: "a"}
    waits = [pod(f"gang-{n}", 9, group="gang", labels=labels, owners=("ns/set",)) for n in range(3)]
    zones = [node(f"z-{zone}", 1, labels={"zone": zone}) for zone in "ab"]
    await bench.look(bench.group, zones, waits)
    bench.clock.now += 599
    await bench.look(node("z-new", 1, labels={"zone": "a"}))
    bench.clock.now += 599
    await bench.look()
    assert (bench.writer.evicted, "NoNodesInTime" in bench.reasons) == ([], False)

    bench.clock.now += 2
    await bench.look()
    assert bench.writer.evicted == ["gang-0", "gang-1", "gang-2"]
    said = bench.writer.statuses[-1].condition("DomainsTried")
    assert said is not None
    assert (said.status, said.reason, said.message) == ("True", "NoNodesInTime", "a")
    assert bench.reasons.count("NoNodesInTime") == 1
    await bench.look()
    assert len(bench.writer.evicted) == 3
