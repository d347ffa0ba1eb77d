"""The scenes: each shows one thing, and keeps what it expected and saw."""

from tests.harness import objects
from tests.harness.demo.stage import (
    POD_GROUPS,
    SAMPLE,
    SAMPLES,
    STEP_SECONDS,
    WORKLOADS,
    Play,
    Scene,
)
from tests.harness.gang_scheduler import GangScheduler
from tests.harness.reconciler import Reconciler

NEED = 4  # minMember of every gang here
BLUE, GREEN = GANGS = ("blue", "green")
JOBS, QUEUED_GANGS = ("first", "second"), ("left", "right")
TRAIN, URGENT = "train", "urgent"
NO_ROOM = "quota yes; room for 2 of 4: 6 cpu short on 6 nodes"
_SHORT = "3 of the 4 pods that it still needs fit, short of cpu 3"
_STILL_SECONDS = 2.0
_DONE = f"{NEED} Succeeded"


def room_for_four(play: Play) -> None:
    """Six pods, of which four must run together, and room for four."""
    with play.scene("1", "a Deployment of 6 pods, minMember 4, room for 4", nodes=4) as scene:
        scene.apply(SAMPLE)
        scene.sees("nginx runs", scene.phases, "4 Running, 2 Pending")
        scene.show("pods")


def room_for_three(play: Play) -> None:
    """The same with room for three: nothing starts, until there is another node."""
    with play.scene("2", "the same, room for 3; then a node is added", nodes=3) as scene:
        scene.apply(SAMPLE)
        scene.sees("nginx waits", scene.phases, "0 Running, 6 Pending")
        scene.sees("kubectl describe says why", lambda: _refusal(scene), _SHORT)
        scene.show("pods")
        scene.still_sees("nginx still waits", scene.phases, "0 Running, 6 Pending", _STILL_SECONDS)
        scene.add_nodes(1)
        play.screen.say("  a fourth node is there")
        scene.sees("nginx runs", scene.phases, "4 Running, 2 Pending")
        scene.show("pods")


def two_gangs_without(play: Play) -> None:
    """Two gangs that each need more than half of the cluster, and kube-scheduler alone."""
    with play.scene("3a", "two gangs of 4, room for 6, kube-scheduler alone", nodes=6) as scene:
        play.gang.stop()
        with play.control_plane.scheduler(name="plain-kube-scheduler"):
            _submit_interleaved(scene)
            want = f"{BLUE} 3 of 4, {GREEN} 3 of 4"
            scene.sees("both gangs half run", lambda: _running(scene, *GANGS), want)
            scene.still_sees(
                "and so it stays", lambda: _running(scene, *GANGS), want, 2 * _STILL_SECONDS
            )
            scene.show("pods")
            play.screen.say("  each keeps what the other needs: neither ever starts its work")


def two_gangs_with(play: Play) -> None:
    """The same pods in the same order, and the extender."""
    title = "the same pods in the same order, with gang-extender"
    with play.scene("3b", title, nodes=6) as scene:
        play.gang = GangScheduler(play.control_plane)
        _submit_interleaved(scene)

        def whole() -> list[str]:
            return [gang for gang in GANGS if scene.phases(gang) == f"{NEED} Running, 0 Pending"]

        scene.sees("gangs that run", lambda: str(len(whole())), "1")
        [first] = whole()
        second = GREEN if first == BLUE else BLUE
        want = f"{first} 4 of 4, {second} 0 of 4"
        scene.still_sees(
            "one gang runs", lambda: _running(scene, first, second), want, _STILL_SECONDS
        )
        scene.show("pods")
        scene.work(first)
        scene.sees(f"{first} does its work", lambda: scene.phases(first), _DONE)
        scene.sees("the other one runs", lambda: _running(scene, second), f"{second} 4 of 4")
        scene.show("pods")
        scene.work(second)
        scene.sees(f"{second} does its work", lambda: scene.phases(second), _DONE)


def quota_for_one(play: Play) -> None:
    """Two suspended Jobs, nodes for both, and quota for one."""
    title = "two suspended Jobs of 6 CPUs each, 16 CPUs on the nodes, a quota of 9"
    with play.scene("4a", title, nodes=4) as scene:
        Reconciler(play.control_plane).wait_leading()
        scene.apply(SAMPLES / "single-clusterqueue.yaml")
        _one_after_the_other(scene, JOBS, 3, "WaitingForQuota", "3 more needed")


def preempted_gang(play: Play) -> None:
    """A gang that has quota and lacks a node; then a Job that is more important takes its quota."""
    title = "a gang of 4 with quota for 4, room for 3; then a node is added, then a Job goes first"
    with play.scene("4b", title, nodes=3) as scene:
        scene.apply(SAMPLES / "queued-gang.yaml")
        scene.sees("the gang has quota", lambda: scene.states(TRAIN), f"{TRAIN} Admitted")
        scene.sees("its PodGroup says why it waits", lambda: _waits_for(scene, TRAIN), "NeverFits")
        scene.show(POD_GROUPS)
        none = f"0 Running, {NEED} Pending"
        scene.still_sees(
            "no pod of it starts alone", lambda: scene.phases(TRAIN), none, _STILL_SECONDS
        )
        scene.add_nodes(1)
        scene.screen.say("  a fourth node is there")
        runs = f"{NEED} Running, 0 Pending"
        scene.sees("the gang runs", lambda: scene.phases(TRAIN), runs)
        scene.create_job(URGENT, 2, queue="gangs", priority_class="interactive")
        want = f"{URGENT} Admitted, {TRAIN} Evicted"
        scene.sees(f"{URGENT} takes the quota", lambda: scene.states(URGENT, TRAIN), want)
        scene.sees(f"{URGENT} runs", lambda: scene.phases(URGENT), "2 Running, 0 Pending")
        scene.sees("the gang has stopped as a whole", lambda: str(len(scene.pods(TRAIN))), "0")
        scene.show(WORKLOADS)
        scene.work(URGENT)
        want = f"{URGENT} Finished, {TRAIN} Admitted"
        scene.sees("the gang has quota again", lambda: scene.states(URGENT, TRAIN), want)
        scene.sees("it runs again", lambda: scene.phases(TRAIN), runs)
        scene.work(TRAIN)
        want = f"{URGENT} Finished, {TRAIN} Finished"
        scene.sees("both are through", lambda: scene.states(URGENT, TRAIN), want)


def room_for_one(play: Play) -> None:
    """Two gangs with quota for both and room for one: no part of the second is started."""
    title = "two gangs of 4 pods of 3 CPUs, quota for both, nodes for one: quota and room"
    with play.scene("4c", title, nodes=6) as scene:
        scene.apply(SAMPLES / "fixed-size-cluster.yaml")
        _one_after_the_other(scene, QUEUED_GANGS, NEED, "WaitingForRoom", NO_ROOM)
        scene.show(POD_GROUPS)


SCENES = (
    room_for_four,
    room_for_three,
    two_gangs_without,
    two_gangs_with,
    quota_for_one,
    preempted_gang,
    room_for_one,
)


def _one_after_the_other(
    scene: Scene, jobs: tuple[str, str], pods: int, reason: str, lack: str
) -> None:
    """Show that one Job runs, why the other one waits, and that it runs then."""
    # Created in one second, either may be the first.
    scene.api.wait_for("one is admitted", lambda: "Admitted" in scene.states(*jobs), STEP_SECONDS)
    first, second = jobs if f"{jobs[0]} Admitted" in scene.states(*jobs) else jobs[::-1]
    runs = f"{pods} Running, 0 Pending"
    waits = f"{first} Admitted, {second} Waiting"
    scene.sees("one is admitted", lambda: scene.states(first, second), waits)
    scene.sees(f"{first} runs", lambda: scene.phases(first), runs)
    scene.show(WORKLOADS)

    def why() -> str:
        said, _, message = scene.waits(second).partition(": ")
        return f"{said}, {lack}" if message.endswith(lack) else f"{said}: {message}"

    scene.sees(f"why {second} waits", why, f"{reason}, {lack}")
    scene.screen.command(
        f"kubectl describe workload {scene.workload(second)['metadata']['name']}",
        ["Conditions:", f"  QuotaReserved   False   {scene.waits(second)}"],
    )
    scene.still_sees(
        f"{second} has no pods",
        lambda: f"{scene.states(second)}, {len(scene.pods(second))} pods",
        f"{second} Waiting, 0 pods",
        _STILL_SECONDS,
    )
    scene.work(first)
    want = f"{first} Finished, {second} Admitted"
    scene.sees("its place goes on", lambda: scene.states(first, second), want)
    scene.sees(f"{second} runs", lambda: scene.phases(second), runs)
    scene.work(second)
    want = f"{first} Finished, {second} Finished"
    scene.sees("both are through", lambda: scene.states(first, second), want)


def _submit_interleaved(scene: Scene) -> None:
    """Make both gangs, a pod of the one and a pod of the other in turn.

    kube-scheduler runs by then: it tries pods in the order in which they come, but what it finds
    at its start in any order.
    """
    groups = [objects.pod_group(g, NEED, namespace=scene.namespace, timeout=10) for g in GANGS]
    pods = [
        objects.pod(f"{gang}-{number}", "3", namespace=scene.namespace, group=gang)
        for number in range(NEED)
        for gang in GANGS
    ]
    scene.api.create(*groups, *pods)
    scene.screen.say("  submitted: " + ", ".join(pod["metadata"]["name"] for pod in pods))


def _refusal(scene: Scene) -> str:
    """Return what an Event of a pod says that lacks room, or that none says so yet."""
    events = scene.api.list(
        "events.k8s.io/v1/events", scene.namespace, fields="reason=FailedScheduling"
    )
    return _SHORT if any(_SHORT in each["note"] for each in events) else "no Event yet"


def _waits_for(scene: Scene, group: str) -> str:
    """Return the reason for which a group is not scheduled; nothing where none is said."""
    status = scene.api.get(POD_GROUPS, group, scene.namespace).get("status", {})
    said = (each for each in status.get("conditions", ()) if each["type"] == "Scheduled")
    return next((str(each["reason"]) for each in said), "")


def _running(scene: Scene, *gangs: str) -> str:
    """Return `blue 3 of 4, green 0 of 4`."""
    found = {
        gang: sum(pod["status"].get("phase") == "Running" for pod in scene.pods(gang))
        for gang in gangs
    }
    return ", ".join(f"{gang} {count} of {NEED}" for gang, count in found.items())
