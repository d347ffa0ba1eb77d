"""The scenes of gangs: each shows one thing, and records what it expected and saw."""

import time
from collections.abc import Sequence

from tests.harness import objects
from tests.harness.demo.play import SAMPLE, STEP_SECONDS, Play, Scene
from tests.harness.demo.pods import Pod, phases
from tests.harness.gang_scheduler import GangScheduler
from tests.harness.objects import Object

NEED = 4  # minMember of every gang here
NGINX = "nginx"
BLUE, GREEN = GANGS = ("blue", "green")

_STILL_SECONDS = 2.0
_DEADLOCK_SECONDS = 4.0
_DONE = f"{NEED} Succeeded"


def room_for_four(play: Play) -> None:
    """Six pods, of which four must run together, and room for four."""
    with play.scene("1", "a Deployment of 6 pods, minMember 4, room for 4", nodes=4) as scene:
        scene.apply(SAMPLE)
        scene.sees("nginx runs", lambda: phases(scene.watch.pods()), "4 Running, 2 Pending")
        scene.get_pods()
        scene.all_or_nothing({NGINX: NEED})


def room_for_three(play: Play) -> None:
    """The same with room for three: nothing starts, until there is another node."""
    with play.scene("2", "the same, room for 3; then a node is added", nodes=3) as scene:

        def seen() -> str:
            return phases(scene.watch.pods())

        started = time.monotonic()
        scene.apply(SAMPLE)
        pod = _refused(scene)
        scene.show_step("nginx waits", want="0 Running, 6 Pending", seen=seen(), since=started)
        scene.get_pods()
        _describe(scene, pod)
        scene.still_sees("nginx still waits", seen, "0 Running, 6 Pending", _STILL_SECONDS)
        scene.add_nodes(1)
        play.screen.say("  a fourth node is there")
        scene.sees("nginx runs", seen, "4 Running, 2 Pending")
        scene.get_pods()
        scene.all_or_nothing({NGINX: NEED})


def two_gangs_without(play: Play) -> None:
    """Two gangs that each need more than half of the cluster, and kube-scheduler alone."""
    title = "two gangs of 4, room for 6, kube-scheduler alone"
    with play.scene("3a", title, nodes=6) as scene:
        with play.screen.waiting("the extender and its kube-scheduler stop"):
            play.gang.stop()
        with play.screen.waiting("a kube-scheduler without extender starts"):
            plain = play.control_plane.scheduler(name="plain-kube-scheduler")
        with plain:
            _submit_interleaved(scene)
            want = f"{BLUE} 3 of 4, {GREEN} 3 of 4"
            scene.sees("both gangs half run", lambda: _running(scene, *GANGS), want)
            scene.still_sees(
                "and so it stays", lambda: _running(scene, *GANGS), want, _DEADLOCK_SECONDS
            )
            play.screen.pods()
            play.screen.say("  each keeps what the other needs: neither ever starts its work")


def two_gangs_with(play: Play) -> None:
    """The same pods in the same order, and the extender."""
    title = "the same pods in the same order, with gang-extender"
    with play.scene("3b", title, nodes=6) as scene:
        with play.screen.waiting("the extender and its kube-scheduler start"):
            play.gang = GangScheduler(play.control_plane)
        _submit_interleaved(scene)
        scene.sees("gangs that have their 4 nodes", lambda: _whole(scene), "1")
        first = BLUE if scene.watch.placed(BLUE) else GREEN
        second = GREEN if first == BLUE else BLUE
        want = f"{first} 4 of 4, {second} 0 of 4"
        scene.sees("one gang runs", lambda: _running(scene, first, second), want)
        play.screen.pods()
        scene.work(first)
        scene.sees(f"{first} does its work", lambda: phases(scene.watch.pods(first)), _DONE)
        want = f"{second} 4 of 4"
        scene.sees("the other one runs", lambda: _running(scene, second), want)
        play.screen.pods()
        scene.work(second)
        scene.sees(f"{second} does its work", lambda: phases(scene.watch.pods(second)), _DONE)
        _in_turn(scene, first, second)
        scene.all_or_nothing(dict.fromkeys(GANGS, NEED))


SCENES = (room_for_four, room_for_three, two_gangs_without, two_gangs_with)


def _submit_interleaved(scene: Scene) -> None:
    """Make both gangs, a pod of the one and a pod of the other in turn.

    kube-scheduler runs by then: it tries pods in the order in which they come, but what it finds
    at its start in any order.
    """
    namespace = scene.namespace
    groups = [objects.pod_group(gang, NEED, namespace=namespace, timeout=10) for gang in GANGS]
    turns = [(gang, number) for number in range(NEED) for gang in GANGS]
    pods: list[Object] = [
        objects.pod(f"{gang}-{number}", "3", namespace=namespace, group=gang)
        for gang, number in turns
    ]
    scene.play.api.create(*groups, *pods)
    scene.play.screen.say("  submitted: " + ", ".join(f"{gang}-{number}" for gang, number in turns))


def _refused(scene: Scene) -> Pod:
    """Wait until all pods have been refused, and return one that says that room is missing."""

    def refused() -> Sequence[Pod]:
        pods = scene.watch.pods()
        return pods if len(pods) == 6 and all(pod.reason for pod in pods) else ()

    def short_of_room() -> list[Pod]:
        return [pod for pod in refused() if "short of cpu" in pod.reason]

    with scene.play.screen.waiting("kube-scheduler has tried all pods"):
        scene.watch.wait_for(lambda: bool(short_of_room()), STEP_SECONDS)
    found = short_of_room() or scene.watch.pods()
    return found[0]


def _describe(scene: Scene, pod: Pod) -> None:
    """Show what `kubectl describe pod` says of the reason, and record it."""
    started = time.monotonic()
    notes: list[str] = []

    def written() -> bool:
        events = scene.play.api.list(
            "events.k8s.io/v1/events", scene.namespace, fields="reason=FailedScheduling"
        )
        notes[:] = [each["note"] for each in events if each["regarding"]["name"] == pod.name]
        return pod.reason in notes

    with scene.play.screen.waiting("the FailedScheduling event is written"):
        scene.play.api.wait_for("the event says what the condition says", written, STEP_SECONDS)
    scene.play.screen.command(
        f"kubectl describe pod {pod.name}",
        [
            "Conditions:",
            "  Type           Status",
            "  PodScheduled   False",
            "Events:",
            "  Type      Reason             From                Message",
            f"  Warning   FailedScheduling   default-scheduler   {pod.reason}",
        ],
    )
    want = "3 of the 4 pods that it still needs fit, short of cpu 3"
    scene.show_step(
        "kubectl describe says why",
        want=want,
        seen=want if want in pod.reason else pod.reason,
        since=started,
    )


def _running(scene: Scene, *gangs: str) -> str:
    """Return `blue 3 of 4, green 0 of 4`."""
    counts = {gang: sum(pod.phase == "Running" for pod in scene.watch.pods(gang)) for gang in gangs}
    return ", ".join(f"{gang} {count} of {NEED}" for gang, count in counts.items())


def _whole(scene: Scene) -> str:
    return str(sum(scene.watch.placed(gang) >= NEED for gang in GANGS))


def _in_turn(scene: Scene, first: str, second: str) -> None:
    """Record that nodes were given to the whole of one gang and then to the whole of the other."""
    started = time.monotonic()
    placements = [placement.group for placement in scene.watch.placements()]
    scene.show_step(
        "nodes were given to",
        want=f"{NEED} of {first}, then {NEED} of {second}",
        seen=_runs(placements),
        since=started,
    )


def _runs(groups: Sequence[str]) -> str:
    """Return `4 of blue, then 4 of green` for what came in that order."""
    runs: list[tuple[str, int]] = []
    for group in groups:
        before = runs.pop()[1] if runs and runs[-1][0] == group else 0
        runs.append((group, before + 1))
    return ", then ".join(f"{count} of {group}" for group, count in runs)
