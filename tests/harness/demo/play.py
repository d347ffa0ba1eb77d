"""What a scene is made with: nodes, a namespace that is watched, and waits that are recorded."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from tests.harness import objects
from tests.harness.client import Api, condition
from tests.harness.control_plane import ControlPlane
from tests.harness.demo.follow import Follower
from tests.harness.demo.pods import Pod, PodWatch
from tests.harness.demo.record import Record, UnexpectedError
from tests.harness.demo.screen import Screen, duration
from tests.harness.gang_scheduler import ROOT, GangScheduler
from tests.harness.objects import RUN_FOR, Object

SAMPLES = ROOT / "manifests" / "samples"
SAMPLE = SAMPLES / "scheduling.x-k8s.io.yaml"
STEP_SECONDS = 30.0
PARTIAL_SECONDS = 2.0
"""For so long the API may show a gang whose binds, released together, have not all arrived."""
FOR_EVER = "1h"
_WORK_SECONDS = 1


@dataclass(slots=True)
class Play:
    """One run of the demo."""

    screen: Screen
    record: Record
    control_plane: ControlPlane
    api: Api
    gang: GangScheduler

    @contextmanager
    def scene(self, number: str, title: str, *, nodes: int) -> Iterator["Scene"]:
        """Set a scene: a fresh namespace, and so many nodes with room for one pod each."""
        self.screen.title(f"Scene {number}: {title}")
        self.record.scene = number
        namespace = f"scene-{number}"
        self.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        with self.on_stage(namespace, nodes) as scene:
            yield scene
            self._clear(scene)

    @contextmanager
    def on_stage(self, namespace: str, nodes: int) -> Iterator["Scene"]:
        """Make the nodes and watch the pods of a namespace that exists."""
        with PodWatch(self.control_plane.admin_kubeconfig, namespace) as watch:
            scene = Scene(self, namespace, watch)
            self.screen.view = watch.pods
            try:
                scene.add_nodes(nodes)
                yield scene
            finally:
                self.screen.view = None

    def show_step(
        self, what: str, *, want: str, seen: str, since: float, held: bool | None = None
    ) -> None:
        """Record a step that began at `since`, and show it whether it held or not."""
        record, screen = self.record, self.screen
        try:
            record.add(what, want=want, seen=seen, seconds=time.monotonic() - since, held=held)
        except UnexpectedError:
            screen.step(record.steps[-1])
            screen.pods()
            raise
        screen.step(record.steps[-1])

    def _clear(self, scene: "Scene") -> None:
        # The namespace first: nothing can be created in it any more, and no pod is replaced.
        self.api.delete("namespaces", scene.namespace)
        self.api.delete_all("pods", scene.namespace, grace_seconds=0)
        with self.screen.waiting("the stage is cleared"):
            if not scene.watch.wait_for(lambda: not scene.watch.pods(), STEP_SECONDS):
                raise TimeoutError(
                    f"the pods of {scene.namespace} were deleted and are still there"
                )
        for name in scene.nodes:
            self.api.delete("nodes", name)


@dataclass(slots=True)
class Scene:
    """A namespace and the nodes for its pods."""

    play: Play
    namespace: str
    watch: PodWatch
    nodes: list[str] = field(default_factory=list)

    def add_nodes(self, count: int) -> None:
        """Make nodes of 4 CPUs, and return when they are Ready."""
        names = [f"node-{len(self.nodes) + number}" for number in range(count)]
        self.nodes += names
        api = self.play.api
        api.create(*(objects.node(name, "4") for name in names))
        with self.play.screen.waiting(f"{count} nodes become Ready"):
            api.wait_for(
                f"{count} nodes are Ready",
                lambda: all(condition(api.get("nodes", name), "Ready") for name in names),
                STEP_SECONDS,
            )

    def apply(self, file: Path) -> None:
        """Apply a manifest in this namespace.

        No container is run here: pods of Jobs work until `work` lets them end.
        """
        documents: list[Object] = [doc for doc in yaml.safe_load_all(file.read_text()) if doc]
        for document in documents:
            document["metadata"]["namespace"] = self.namespace
            if document["kind"] == "Job":
                metadata = document["spec"]["template"].setdefault("metadata", {})
                metadata["annotations"] = {RUN_FOR: FOR_EVER}
        self.play.api.apply(documents)

    def sees(
        self, what: str, seen: Callable[[], str], want: str, on: Follower | None = None
    ) -> None:
        """Wait until something is as it should be, and record how long that took.

        `seen` is asked whenever something changed on what is followed: `on`, or the pods.
        """
        started = time.monotonic()
        with self.play.screen.waiting(f"{what}: {want}"):
            (on or self.watch).wait_for(lambda: seen() == want, STEP_SECONDS)
        self.show_step(what, want=want, seen=seen(), since=started)

    def still_sees(self, what: str, seen: Callable[[], str], want: str, seconds: float) -> None:
        """Watch that something stays as it is for some time, and record it."""
        started = time.monotonic()
        with self.play.screen.waiting(f"{what}: {want}, watching for {seconds:g} s"):
            self.watch.wait_for(lambda: seen() != want, seconds)
        self.show_step(what, want=want, seen=seen(), since=started)

    def show_step(
        self, what: str, *, want: str, seen: str, since: float, held: bool | None = None
    ) -> None:
        """Record a step that began at `since`, and show it whether it held or not."""
        self.play.show_step(what, want=want, seen=seen, since=since, held=held)

    def work(self, group: str) -> None:
        """Let the pods of a group, or of a Job, that is whole come to an end.

        Like the ranks of MPI they get nowhere before all of them run, which is why their time is
        not set from the beginning.
        """
        body = {"metadata": {"annotations": {RUN_FOR: f"{_WORK_SECONDS}s"}}}
        for pod in self.watch.pods(group):
            self.play.api.patch("pods", pod.name, self.namespace, body=body)

    def all_or_nothing(self, needs: dict[str, int]) -> None:
        """Record for how long the API showed a gang that was partial: while its binds arrived."""
        started = time.monotonic()
        longest = max(self.watch.partial_seconds(group, need) for group, need in needs.items())
        self.show_step(
            "time from a gang's first bind to its last",
            want=f"less than {duration(PARTIAL_SECONDS)}",
            seen=duration(longest),
            since=started,
            held=longest < PARTIAL_SECONDS,
        )

    def get_pods(self) -> None:
        """Show the pods as kubectl does."""
        now = time.monotonic()
        rows: list[Sequence[str]] = [("NAME", "READY", "STATUS", "RESTARTS", "AGE")]
        rows += [_kubectl_row(pod, now) for pod in self.watch.pods()]
        self.table("kubectl get pods", rows)

    def table(self, command: str, rows: Sequence[Sequence[str]]) -> None:
        """Show the rows that a command of kubectl would; the first one is the head."""
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        lines = ["   ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
        self.play.screen.command(command, lines)


def samples(name: str) -> Path:
    """Return the path of a manifest that is shipped as a sample."""
    return SAMPLES / name


def _kubectl_row(pod: Pod, now: float) -> tuple[str, str, str, str, str]:
    return pod.name, f"{pod.ready:d}/1", pod.phase, "0", f"{now - pod.since:.0f}s"
