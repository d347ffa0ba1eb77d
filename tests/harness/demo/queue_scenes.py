"""The chapter of the queue: suspended Jobs that are admitted under quota, a gang among them."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.harness import objects
from tests.harness.demo.play import STEP_SECONDS, Play, Scene, samples
from tests.harness.demo.pods import phases
from tests.harness.demo.workloads import RESOURCE, WorkloadWatch
from tests.harness.reconciler import Reconciler

JOBS = FIRST, SECOND = ("first", "second")
GANGS = ("left", "right")
NO_ROOM = "quota yes; room for 2 of 4: 6 cpu short on 6 nodes"
NEED = 4  # minMember of the gang

_GROUPS = f"{objects.POD_GROUP_V1ALPHA1}/podgroups"
_STILL_SECONDS = 1.5
_SIX = 6000
_NINE = 9000


def quota_for_one(play: Play) -> None:
    """Two suspended Jobs, nodes for both, and quota for one."""
    title = "two suspended Jobs of 6 CPUs each, 16 CPUs on the nodes, a quota of 9"
    with play.scene("4a", title, nodes=4) as scene, _queue(scene) as workloads:
        _reconciler(play)
        scene.apply(samples("single-clusterqueue.yaml"))
        first = _first_admitted(scene, workloads)
        second = SECOND if first == FIRST else FIRST
        want = f"{first} Admitted, {second} Waiting"
        scene.sees(
            "quota is given to one", lambda: workloads.states(first, second), want, workloads
        )
        scene.sees(f"{first} runs", lambda: _phases(scene, first), "3 Running, 0 Pending")
        _get(scene, RESOURCE)
        _describe(scene, workloads, second, want="3 more needed")
        want = f"{second} Waiting, its pods: none"
        scene.still_sees(
            f"{second} stays suspended",
            lambda: f"{workloads.states(second)}, its pods: {_count(scene, second)}",
            want,
            _STILL_SECONDS,
        )
        scene.work(first)
        scene.sees(f"{first} does its work", lambda: _phases(scene, first), "3 Succeeded")
        want = f"{first} Finished, {second} Admitted"
        scene.sees("its quota goes on", lambda: workloads.states(first, second), want, workloads)
        scene.sees(f"{second} runs", lambda: _phases(scene, second), "3 Running, 0 Pending")
        scene.work(second)
        want = f"{first} Finished, {second} Finished"
        scene.sees("both are through", lambda: workloads.states(first, second), want, workloads)
        _get(scene, RESOURCE)
        _never_more(scene, workloads, least=_SIX, most=_NINE)


def room_for_one(play: Play) -> None:
    """Two gangs with quota for both and room for one: no part of the second is started."""
    title = "two gangs of 4 pods of 3 CPUs, quota for both, nodes for one: quota and room"
    with play.scene("4b", title, nodes=6) as scene, _queue(scene) as workloads:
        scene.apply(samples("fixed-size-cluster.yaml"))
        first = _first_admitted(scene, workloads, GANGS)
        second = GANGS[1 - GANGS.index(first)]
        want = f"{first} Admitted, {second} Waiting"
        scene.sees("one has both", lambda: workloads.states(first, second), want, workloads)
        scene.sees(f"{first} runs", lambda: _phases(scene, first), "4 Running, 0 Pending")
        _describe(scene, workloads, second, want=NO_ROOM, reason="WaitingForRoom")
        scene.still_sees(
            f"{second} holds no node",
            lambda: f"{workloads.states(second)}, its pods: {_count(scene, second)}",
            f"{second} Waiting, its pods: none",
            _STILL_SECONDS,
        )
        _get(scene, _GROUPS)
        scene.work(first)
        want = f"{first} Finished, {second} Admitted"
        scene.sees("its nodes go on", lambda: workloads.states(first, second), want, workloads)
        scene.sees(f"{second} runs", lambda: _phases(scene, second), "4 Running, 0 Pending")
        scene.work(second)
        want = f"{first} Finished, {second} Finished"
        scene.sees("both are through", lambda: workloads.states(first, second), want, workloads)
        scene.all_or_nothing(dict.fromkeys(GANGS, NEED))


QUEUE_SCENES = (quota_for_one, room_for_one)


@contextmanager
def _queue(scene: Scene) -> Iterator[WorkloadWatch]:
    with WorkloadWatch(scene.play.control_plane.admin_kubeconfig, scene.namespace) as workloads:
        yield workloads


def _reconciler(play: Play) -> None:
    """Start the process that admits; it goes on until the end of the demo."""
    started = time.monotonic()
    with play.screen.waiting("gang-extender reconcile starts"):
        reconciler = Reconciler(play.control_plane)
        reconciler.wait_leading()
    play.show_step("gang-extender reconcile starts", want="leads", seen="leads", since=started)


def _first_admitted(scene: Scene, workloads: WorkloadWatch, jobs: tuple[str, str] = JOBS) -> str:
    """Return the Job that has quota: created in one second, either may be the first."""
    with scene.play.screen.waiting("one of the Jobs has quota"):
        workloads.wait_for(lambda: bool(workloads.admitted), STEP_SECONDS)
    return jobs[1] if workloads.admitted == jobs[1] else jobs[0]


def _describe(
    scene: Scene, workloads: WorkloadWatch, job: str, *, want: str, reason: str = "WaitingForQuota"
) -> None:
    """Show what `kubectl describe workload` says of the reason, and record it."""
    started = time.monotonic()

    def stated() -> str:
        workload = workloads.of(job)
        waits = workload.waits if workload else {}
        return f"{waits.get('reason')}: {waits.get('message')}"

    with scene.play.screen.waiting("the workload says why it waits"):
        workloads.wait_for(lambda: want in stated(), STEP_SECONDS)
    seen_reason, _, message = stated().partition(": ")
    workload = workloads.of(job)
    scene.play.screen.command(
        f"kubectl describe workload {workload.name if workload else job}",
        [
            "Conditions:",
            "  Type            Status   Reason            Message",
            f"  QuotaReserved   False    {seen_reason}   {message}",
        ],
    )
    seen = f"{seen_reason}, {want}" if message.endswith(want) else stated()
    scene.show_step(f"why {job} waits", want=f"{reason}, {want}", seen=seen, since=started)


def _never_more(scene: Scene, workloads: WorkloadWatch, *, least: int, most: int) -> None:
    """Record the most that was in use at one time, by the book and by the pods."""
    started = time.monotonic()
    for what, seen in (
        ("the most that had quota", workloads.most_cpu),
        ("the most that pods had", scene.watch.most_cpu),
    ):
        scene.show_step(
            f"{what} at one time",
            want=f"not above {most // 1000} CPUs",
            seen=f"{seen / 1000:g} CPUs",
            since=started,
            held=least <= seen <= most,
        )


def _phases(scene: Scene, job: str) -> str:
    return phases(scene.watch.pods(job))


def _count(scene: Scene, job: str) -> str:
    return str(len(scene.watch.pods(job)) or "none")


def _get(scene: Scene, resource: str) -> None:
    """Show objects as kubectl does."""
    rows = scene.play.api.table(resource, scene.namespace)
    scene.table(f"kubectl get {resource.rpartition('/')[2]}", rows)
