"""The job controller: when it reports that pods are missing. Time is virtual."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from extender.controllers.timing import SETTLE
from extender.kube.recorder import Event
from extender.queueing.rules import AdmissionOptions, PodsReady
from extender.state.queue import events as ev
from extender.state.queue.records import JobObject, Meta
from tests import queue_makers
from tests.unit.controllers.queue_server import JobBench
from tests.unit.jobs.scene import UID, job, workload

READY, BEHIND = {"ready": 2, "active": 2}, {"ready": 1, "active": 2}
UNIT = "batch/job", "ns/work"


class Scene(JobBench):
    """An admitted job, and a clock that stands still."""

    def __init__(
        self, policy: PodsReady | None = None, *, completions: int | None = None, **status: int
    ) -> None:
        self.completions = completions
        self.now = 1000.0
        rules = AdmissionOptions(pods_ready=policy or PodsReady())
        super().__init__(None, clock=self, admission=rules)
        self.labels: Mapping[str, str] = {}
        self.annotations: Mapping[str, str] = {}
        self.versions = 0
        self.status(status or READY)
        self.admit()

    def monotonic(self) -> float:
        return self.now

    wall = monotonic

    def admit(self, *, quota: bool = True) -> None:
        """Give the workload quota, or take it away."""
        made = workload(job("work", 2, self.completions), admitted=quota)
        newer = replace(made.meta, version=queue_makers.meta("any").version)
        self.store(replace(made, meta=newer))

    def status(self, status: Mapping[str, Any], *, suspend: bool = False) -> None:
        """Have the job's status change."""
        self.versions += 1
        runs = job("work", 2, self.completions, suspend=suspend, status=status)
        raw = json.dumps(runs.object).encode()
        meta = Meta(
            "work", "ns", UID, self.versions, labels=self.labels, annotations=self.annotations
        )
        self.queues.apply(ev.JobApplied(JobObject("batch/job", meta, raw, "q")))

    async def look(self) -> tuple[float | None, str]:
        """Look at the job; return when to look again, and what is reported of its pods."""
        again = await self.controller.reconcile(UNIT)
        [found] = self.queues.view().workloads.values()
        reported = found.condition("PodsReady")
        return again, reported.reason if reported else ""


async def test_pods_that_are_replaced_at_once_are_not_missed() -> None:
    scene = Scene()
    assert await scene.look() == (None, "Started")

    scene.status(BEHIND)
    assert await scene.look() == (SETTLE, "Started")
    scene.now += SETTLE - 1
    assert await scene.look() == (1, "Started")
    scene.status(READY)
    assert await scene.look() == (None, "Started")
    scene.status(BEHIND)
    assert await scene.look() == (SETTLE, "Started")


async def test_pods_that_stay_away_are_reported() -> None:
    scene = Scene()
    await scene.look()
    scene.status(BEHIND)
    await scene.look()

    scene.now += SETTLE
    assert await scene.look() == (None, "WaitForRecovery")
    scene.status(READY)
    assert await scene.look() == (None, "Recovered")


async def test_nothing_is_reported_where_pods_are_not_waited_for() -> None:
    scene = Scene(PodsReady(enabled=False))
    assert await scene.look() == (None, "")


async def test_whether_pods_are_ready_is_known_from_the_job() -> None:
    scene = Scene()
    [found] = scene.queues.view().workloads.values()
    assert scene.controller.pods_ready(found)
    scene.status(BEHIND)
    assert not scene.controller.pods_ready(found)
    assert not scene.controller.pods_ready(replace(found, owners=()))


async def reported_once(scene: Scene) -> Event:
    """Return the one Event about the job, however often it is looked at."""
    for _ in range(3):
        scene.status(READY)
        await scene.look()
    [found] = scene.events
    assert (found.about.kind, found.about.name) == ("Job", "work")
    return found


async def test_unreadable_settings_of_a_job_get_one_event() -> None:
    scene = Scene()
    scene.labels = {"scheduling.x-k8s.io/pods-ready-timeout": "soon"}
    scene.annotations = {"scheduling.x-k8s.io/release-quota": "whenever"}
    reported = await reported_once(scene)
    assert (reported.reason, reported.warning) == ("Invalid", True)
    assert reported.note == (
        "scheduling.x-k8s.io/pods-ready-timeout=soon is ignored: "
        "it is to be a duration such as 300, 90s or 5m, above 0; "
        "scheduling.x-k8s.io/release-quota=whenever is ignored: "
        "it is to be OnTerminating or OnTerminal"
    )


async def test_settings_of_a_job_beyond_those_of_its_queue_get_one_event() -> None:
    scene = Scene(PodsReady(timeout=60))
    scene.labels = {"scheduling.x-k8s.io/pods-ready-timeout": "87600h"}
    reported = await reported_once(scene)
    assert (reported.reason, reported.warning) == ("OverrideLimited", True)
    assert reported.note == (
        "scheduling.x-k8s.io/pods-ready-timeout=87600h counts as 60s: "
        "its ClusterQueue allows its jobs no more"
    )
    scene.labels = {"scheduling.x-k8s.io/pods-ready-timeout": "30"}
    scene.status(READY)
    await scene.look()
    assert len(scene.events) == 1


# -- pods that are done


def done(scene: Scene) -> Mapping[str, int]:
    """Return the pods whose quota was given back."""
    [found] = scene.queues.view().workloads.values()
    return found.reclaimable


async def test_the_end_of_a_job_gives_back_the_quota_of_its_last_pods() -> None:
    scene = Scene(completions=2, ready=2, active=2)
    await scene.look()
    scene.status({"succeeded": 1, "ready": 1, "active": 1})
    assert (await scene.look(), done(scene)) == ((None, "Started"), {"main": 1})
    scene.status({"succeeded": 2})
    assert (await scene.look())[0] is None
    assert done(scene) == {"main": 1}


# -- pods that are followed by others


def through(succeeded: int, ready: int = 1) -> dict[str, Any]:
    """Return a status in which of two pods so many are ready."""
    return {"ready": ready, "active": 2, "succeeded": succeeded}


async def reported(scene: Scene, status: Mapping[str, Any]) -> str:
    """Return the reason that is reported for this status, a second later."""
    scene.status(status)
    scene.now += 1
    return (await scene.look())[1]


async def test_those_that_were_ready_one_after_the_other_were_all_ready() -> None:
    scene = Scene(completions=100, **through(0))
    assert [await reported(scene, through(done)) for done in (0, 1)] == ["WaitForStart", "Started"]


async def test_what_was_done_before_the_start_is_no_pod_of_now() -> None:
    scene = Scene(completions=100, **through(50, 0))
    assert [await reported(scene, through(50, ready)) for ready in (0, 1)] == ["WaitForStart"] * 2
    assert await reported(scene, through(51)) == "Started"

    scene.admit(quota=False)
    scene.status(through(51, 0), suspend=True)
    await scene.look()
    scene.admit()
    assert await reported(scene, through(52, 0)) == "WaitForStart"
    assert await reported(scene, through(53)) == "Started"


async def test_the_last_pods_have_to_be_ready_themselves() -> None:
    scene = Scene(completions=2, **through(0))
    await scene.look()
    assert await reported(scene, {"ready": 0, "active": 1, "succeeded": 1}) == "WaitForStart"
    assert await reported(scene, {"ready": 1, "active": 1, "succeeded": 1}) == "Started"


async def test_while_pods_succeed_those_that_follow_are_not_missed() -> None:
    scene = Scene(completions=100)
    assert await reported(scene, READY) == "Started"
    for done in range(1, 20):
        assert await reported(scene, through(done)) == "Started"

    scene.now += SETTLE - 1
    assert await scene.look() == (1, "Started")
    scene.now += 1
    assert await scene.look() == (None, "WaitForRecovery")
    assert await reported(scene, through(19)) == "WaitForRecovery"
    assert await reported(scene, through(20)) == "Recovered"
    assert await scene.look() == (SETTLE, "Recovered")


async def test_a_deadline_is_asked_about_in_the_same_way() -> None:
    scene = Scene(completions=100, **through(0))
    await scene.look()
    [found] = scene.queues.view().workloads.values()
    assert not scene.controller.pods_ready(found)
    scene.status(through(1))
    assert scene.controller.pods_ready(found)
    scene.status({"ready": 1, "conditions": [{"type": "FailureTarget", "status": "True"}]})
    assert scene.controller.pods_ready(found)


@pytest.mark.parametrize("ending", ["SuccessCriteriaMet", "FailureTarget"])
async def test_a_job_whose_end_is_decided_misses_no_pods(ending: str) -> None:
    scene = Scene()
    assert await reported(scene, READY) == "Started"
    decided = {"ready": 0, "conditions": [{"type": ending, "status": "True"}]}
    scene.status(decided)
    scene.now += 2 * SETTLE
    assert await scene.look() == (None, "Started")
