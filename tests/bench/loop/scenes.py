"""What is played: a stage, a process on it, and what happens to it one thing after the other."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from tests.bench.loop.processes import Processes
from tests.bench.loop.stage import NODES, PODS, QUEUE_API

WORKLOADS: Final = f"{QUEUE_API}/workloads"
CLUSTER_QUEUES: Final = f"{QUEUE_API}/clusterqueues"
_LONG: Final = 120.0
_SHORT: Final = 30.0


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much there is of everything."""

    nodes: int = 5000
    pods: int = 100_000
    zone: int = 1000
    """Nodes that fail together."""
    queues: int = 800
    heads: int = 16
    seconds: int = 20
    """For how long a node is relabelled each second."""


@dataclass(frozen=True, slots=True)
class Row:
    """What one thing cost; milliseconds of CPU, and bytes of memory after it."""

    name: str
    longest: float
    total: float
    slow: int
    """Steps over the limit."""
    collection: float
    """The longest pause of the garbage collector."""
    where: str
    resident: int


@dataclass(frozen=True, slots=True)
class Scene:
    """Rows come from `play`, which is given the processes and measures what it yields names for."""

    name: str
    process: str
    stage: str
    sizes: Callable[[Sizes], tuple[int, int]]
    play: Callable[[Processes, Sizes], Iterator[str]]
    settings: dict[str, Any] = field(default_factory=dict)


def run(scene: Scene, sizes: Sizes, say: Callable[[str], None]) -> list[Row]:
    """Return the rows of a scene."""
    rows = []
    with Processes(scene.process, scene.stage, scene.sizes(sizes), scene.settings) as processes:
        say(f"{scene.name}: starting")
        processes.begin()
        for name in scene.play(processes, sizes):
            row = _row(f"{scene.name}: {name}", processes.take())
            say(f"{row.name}: longest {row.longest:.0f} ms")
            rows.append(row)
    return rows


def _row(name: str, found: dict[str, Any]) -> Row:
    return Row(
        name=name,
        longest=round(1000 * found["longest"], 1),
        total=round(1000 * found["total"], 1),
        slow=found["slow"],
        collection=round(1000 * found["longest_collection"], 1),
        where=found["where"],
        resident=found["resident"],
    )


def _lists(processes: Processes, sizes: Sizes) -> Iterator[str]:
    processes.wait_ready()
    processes.wait_quiet(_LONG)
    yield "first list"
    watches = processes.bench("open")["watches"]

    def relisted() -> None:
        time.sleep(1.0)
        processes.wait_until("it watches", lambda: _watches(processes) >= watches)
        processes.wait_quiet(_LONG)

    processes.bench("expire", path=PODS)
    relisted()
    yield "pods listed again, unchanged"
    processes.bench("vary", path=PODS, first=0, count=sizes.pods // 10, step=10, variant=1)
    processes.bench("expire", path=PODS)
    relisted()
    yield "pods listed again, 10 % changed"
    processes.bench("expire")
    relisted()
    yield "everything listed again"
    processes.bench("send", path=NODES, first=0, count=sizes.zone, variant=1)
    processes.wait_quiet(_LONG)
    yield "a zone is not ready"
    processes.bench("send", path=NODES, first=0, count=sizes.zone, variant=2)
    processes.wait_quiet(_LONG)
    yield "a zone is ready again"
    processes.bench("delete", path=NODES, first=0, count=sizes.zone)
    processes.wait_quiet(_LONG)
    yield "a zone is deleted"
    for path in ("/metrics", "/livez", "/readyz"):
        processes.get(path)
    yield "metrics and health"


def _watches(processes: Processes) -> int:
    found: int = processes.bench("open")["watches"]
    return found


def _relabelled(processes: Processes, sizes: Sizes) -> Iterator[str]:
    processes.wait_ready()
    processes.wait_quiet(_SHORT)
    yield "first list"
    asked = [processes.bench("object", path=PODS, number=sizes.pods + 100 * g) for g in range(21)]
    names = [f"node-{number}" for number in range(50)]
    for second in range(sizes.seconds):
        processes.bench("send", path=NODES, first=second, count=1, variant=2 * second + 2)
        for pod in asked:
            processes.post("/filter", {"Pod": pod, "NodeNames": names})
        time.sleep(1.0)
    yield "a node is relabelled each second"


def _only_relabelled(processes: Processes, sizes: Sizes) -> Iterator[str]:
    processes.wait_ready()
    processes.wait_quiet(_SHORT)
    yield "first list"
    for second in range(sizes.seconds):
        processes.bench("send", path=NODES, first=second, count=1, variant=2 * second + 2)
        time.sleep(1.0)
    yield "a node is relabelled each second"


def _queues(processes: Processes, sizes: Sizes) -> Iterator[str]:
    processes.wait_ready()
    time.sleep(3.0)
    yield "first list and first cycle"
    processes.wait_quiet(_SHORT)
    yield "it is written why they wait"
    for number in range(10):
        processes.bench("send", path=WORKLOADS, first=number, count=1, variant=1)
        time.sleep(0.2)
    processes.wait_quiet(_SHORT)
    yield "ten workloads change"
    processes.bench("send", path=CLUSTER_QUEUES, first=0, count=1, variant=1)
    processes.wait_quiet(_SHORT)
    yield "a quota changes"
    processes.bench("expire")
    time.sleep(1.0)
    processes.wait_quiet(_SHORT)
    yield "everything listed again"
    processes.get("/metrics")
    yield "metrics"
    processes.get(f"/clusterqueues/cq-{sizes.queues - 1}/pendingworkloads")
    yield "pending workloads of a queue"


_ALONE: Final = {"reconcile": {"leaderElect": False}, "webhooks": {"enabled": False}}


def _cluster(sizes: Sizes) -> tuple[int, int]:
    return sizes.pods, sizes.nodes


SCENES: Final = (
    Scene("serve", "serve", "cluster", _cluster, _lists),
    Scene("reconcile", "reconcile", "cluster", _cluster, _lists, _ALONE),
    Scene("serve, gangs wait", "serve", "waiting", _cluster, _relabelled),
    Scene("reconcile, gangs wait", "reconcile", "waiting", _cluster, _only_relabelled, _ALONE),
    Scene("queues", "reconcile", "queues", lambda s: (s.queues, s.heads), _queues, _ALONE),
)
