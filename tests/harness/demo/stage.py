"""What a scene is made with: nodes, a namespace, and waits that are shown and kept as steps."""

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tests.harness import objects
from tests.harness.client import Api, condition
from tests.harness.control_plane import ControlPlane
from tests.harness.gang_scheduler import ROOT, GangScheduler
from tests.harness.objects import POD_GROUP_LABEL, RUN_FOR, Object

SAMPLES = ROOT / "manifests" / "samples"
SAMPLE = SAMPLES / "scheduling.x-k8s.io.yaml"
POD_GROUPS = f"{objects.POD_GROUP_V1ALPHA1}/podgroups"
WORKLOADS = "kueue.x-k8s.io/v1beta2/workloads"
STEP_SECONDS = 60.0
_LONGER_THAN_THE_DEMO = "1h"
_WORK = "1s"
_JOB_LABEL = "batch.kubernetes.io/job-name"
_PLAIN_WIDTH = 120


class UnexpectedError(Exception):
    """A step did not end as it should have; it is the last one."""


@dataclass(frozen=True, slots=True)
class Step:
    """One row of the table at the end."""

    scene: str
    what: str
    want: str
    seen: str
    seconds: float

    @property
    def held(self) -> bool:
        """Whether it was as expected."""
        return self.seen == self.want


class Screen:
    """Writes to standard output, without control characters where that is no terminal."""

    def __init__(self) -> None:
        terminal = sys.stdout.isatty()
        self._console = Console(
            highlight=False,
            # Even where FORCE_COLOR says otherwise: what reads a pipe is no terminal.
            force_terminal=None if terminal else False,
            width=None if terminal else _PLAIN_WIDTH,
        )

    def say(self, text: str, style: str = "") -> None:
        """Write one line, however long: a path that was wrapped cannot be copied."""
        self._console.print(Text(text, style=style), soft_wrap=True)

    def command(self, command: str, lines: Sequence[str]) -> None:
        """Show what a command of kubectl would say."""
        self.say(f"  $ {command}", "bold cyan")
        for line in lines:
            self.say(f"  {line}")

    def step(self, step: Step) -> None:
        """Show a step that is over."""
        mark, style = ("ok", "green") if step.held else ("NOT", "bold red")
        self.say(f"  {mark:<3} {step.what}: {step.seen}  {duration(step.seconds)}", style)

    def summary(self, steps: Sequence[Step]) -> None:
        """Show the table of all steps."""
        table = Table(title="What happened", title_justify="left")
        for column in ("scene", "step", "expected", "seen", "took", "held"):
            table.add_column(column, overflow="fold")
        for step in steps:
            held = Text("yes", "green") if step.held else Text("NO", "bold red")
            cells = (step.scene, step.what, step.want, step.seen, duration(step.seconds))
            table.add_row(*map(Text, cells), held)
        with self._console.capture() as captured:
            self._console.print(table)
        for line in captured.get().splitlines():
            self._console.out(line.rstrip(), highlight=False)


class Play:
    """One run of the demo, with the extender and a stock kube-scheduler."""

    gang: GangScheduler

    def __init__(self, screen: Screen, control_plane: ControlPlane, api: Api) -> None:
        self.screen, self.control_plane, self.api = screen, control_plane, api
        self.steps: list[Step] = []

    def run(self, scenes: Iterable[Callable[["Play"], None]]) -> None:
        """Play all scenes, and show the table of their steps. UnexpectedError where one fails."""
        self.gang = GangScheduler(self.control_plane)
        for scene in scenes:
            scene(self)
        self.screen.summary(self.steps)

    @contextmanager
    def scene(self, number: str, title: str, *, nodes: int) -> Iterator["Scene"]:
        """Set a scene: a fresh namespace, and so many nodes with room for one pod each."""
        self.screen.say(f"\n== Scene {number}: {title}", "bold")
        namespace = f"scene-{number}"
        self.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        scene = Scene(self, number, namespace)
        scene.add_nodes(nodes)
        yield scene
        # The namespace first: nothing can be created in it any more, and no pod is replaced.
        self.api.delete("namespaces", namespace)
        self.api.delete_all("pods", namespace, grace_seconds=0)
        self.api.wait_for("the stage is cleared", lambda: not scene.pods(), STEP_SECONDS)
        for name in scene.nodes:
            self.api.delete("nodes", name)

    def add(self, step: Step) -> None:
        """Keep a step and show it. UnexpectedError where it did not hold."""
        self.steps.append(step)
        self.screen.step(step)
        if not step.held:
            raise UnexpectedError(
                f"scene {step.scene}, {step.what}\n  expected: {step.want}\n  seen: {step.seen}"
            )


class Scene:
    """A namespace and the nodes for its pods."""

    def __init__(self, play: Play, number: str, namespace: str) -> None:
        self.play, self.api, self.screen = play, play.api, play.screen
        self.namespace = namespace
        self.nodes: list[str] = []
        self._number = number

    def add_nodes(self, count: int) -> None:
        """Make nodes of 4 CPUs, and return when they are Ready."""
        names = [f"node-{len(self.nodes) + number}" for number in range(count)]
        self.nodes += names
        self.api.create(*(objects.node(name, "4") for name in names))
        self.api.wait_for(
            f"{count} nodes are Ready",
            lambda: all(condition(self.api.get("nodes", name), "Ready") for name in names),
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
                metadata["annotations"] = {RUN_FOR: _LONGER_THAN_THE_DEMO}
        self.api.apply(documents)

    def create_job(self, name: str, pods: int, *, queue: str, priority_class: str) -> None:
        """Create a suspended Job of pods of 3 CPUs, which work until `work` lets them end."""
        made = objects.job(
            *(name, pods),
            namespace=self.namespace,
            cpu="3",
            suspend=True,
            queue=queue,
            labels={"kueue.x-k8s.io/priority-class": priority_class},
            run_for=_LONGER_THAN_THE_DEMO,
        )
        self.api.create(made)
        self.screen.say(f"  submitted: {name}, {pods} pods of 3 CPUs, class {priority_class}")

    def sees(self, what: str, seen: Callable[[], str], want: str) -> None:
        """Wait until something is as it should be, and keep how long that took."""
        began, last = time.monotonic(), ""

        def reached() -> bool:
            nonlocal last
            last = seen()
            return last == want

        try:
            self.api.wait_for(what, reached, STEP_SECONDS)
        except AssertionError:
            self.show("pods")
        self.play.add(Step(self._number, what, want, last, time.monotonic() - began))

    def still_sees(self, what: str, seen: Callable[[], str], want: str, seconds: float) -> None:
        """Watch that something stays as it is for some time, and keep it."""
        began = time.monotonic()
        while (last := seen()) == want and time.monotonic() - began < seconds:
            time.sleep(0.1)
        self.play.add(Step(self._number, what, want, last, time.monotonic() - began))

    def pods(self, group: str = "") -> list[Object]:
        """Return the pods that there are, or those of a group or a Job."""
        found = self.api.list("pods", self.namespace)
        return [pod for pod in found if group in {"", _group_of(pod)}]

    def phases(self, group: str = "") -> str:
        """Return how many pods are in each phase: `4 Running, 2 Pending`, or `3 Succeeded`."""
        counts = Counter(pod["status"].get("phase", "") for pod in self.pods(group))
        ended = sorted(counts.keys() - {"Running", "Pending"})
        shown = ended if ended and ended == sorted(counts) else ["Running", "Pending", *ended]
        return ", ".join(f"{counts[phase]} {phase}" for phase in shown)

    def work(self, group: str) -> None:
        """Let the pods of a group, or of a Job, that is whole come to an end.

        Like the ranks of MPI they get nowhere before all of them run, which is why their time is
        not set from the beginning.
        """
        for pod in self.pods(group):
            body = {"metadata": {"annotations": {RUN_FOR: _WORK}}}
            self.api.patch("pods", pod["metadata"]["name"], self.namespace, body=body)

    def workload(self, job: str) -> Object:
        """Return the workload of a Job; {} where there is none yet."""
        found = (
            each
            for each in self.api.list(WORKLOADS, self.namespace)
            if job in (owner["name"] for owner in each["metadata"].get("ownerReferences", ()))
        )
        return next(found, {})

    def states(self, *jobs: str) -> str:
        """Return `first Admitted, second Waiting`."""
        return ", ".join(f"{job} {_state(self.workload(job))}" for job in jobs)

    def waits(self, job: str) -> str:
        """Return why a Job has no quota: the reason, and what the message ends with."""
        conditions = self.workload(job).get("status", {}).get("conditions", ())
        said = (each for each in conditions if each["type"] == "QuotaReserved")
        return next((f"{each['reason']}: {each['message']}" for each in said), "")

    def show(self, resource: str) -> None:
        """Show what `kubectl get` would."""
        rows = self.api.table(resource, self.namespace)
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        lines = ["   ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
        self.screen.command(f"kubectl get {resource.rpartition('/')[2]}", lines)


def duration(seconds: float) -> str:
    """Return `46 ms` or `4.5 s`."""
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def _group_of(pod: Object) -> str:
    labels = pod["metadata"].get("labels", {})
    return str(labels.get(_JOB_LABEL) or labels.get(POD_GROUP_LABEL, ""))


def _state(workload: Object) -> str:
    states = ("Finished", "Evicted", "Admitted")
    return next((each for each in states if condition(workload, each)), "Waiting")
