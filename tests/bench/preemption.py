"""`python -m tests.bench.preemption`: what it costs to choose victims for a whole gang.

No API server: 5000 nodes, and the CPU time of one choice for a gang of 50, over several rounds:
the median of the whole choice, and the longest step. What is printed is a table in milliseconds.
"""

import gc
from collections.abc import Callable, Iterator
from random import Random
from statistics import median
from time import thread_time
from typing import Any, Final

from extender.gang.options import GangOptions
from extender.gang.preempt.search import Preemption, choosing
from extender.runtime.clock import SystemClock
from extender.runtime.process import Garbage
from extender.state.cluster.records import NodeInfo, PodInfo
from extender.state.cluster.store import Cluster
from extender.steps import Steps
from tests.makers import event_of, pod, pod_group, pods, requests, shape

NODES: Final = 5000
GANGS: Final = 100
IN_GANG: Final = 50
ROUNDS: Final = 5
RACK: Final = "example.com/rack"


def nodes() -> list[NodeInfo]:
    """Return nodes of 64 CPU, 20 in a rack."""
    return [
        NodeInfo(f"node-{n}", {**requests(64), "pods": 110}, {RACK: f"r{n // 20}"})
        for n in range(NODES)
    ]


def low_gangs() -> list[Any]:
    """Return a gang on each 50 nodes, one pod on each, which fills it."""
    found: list[Any] = []
    for gang in range(GANGS):
        name = f"low-{gang}"
        found.append(pod_group(name, IN_GANG, started=float(gang)))
        found += [
            pod(f"{name}-{n}", 64, group=name, on=f"node-{gang * IN_GANG + n}", bound_at=gang)
            for n in range(IN_GANG)
        ]
    return found


def mixed_gangs() -> list[Any]:
    """Return 2000 gangs of 50 on nodes by chance: 20 pods on each node, of 20 gangs."""
    rng, found = Random(3), list[Any]()
    places = [n for n in range(NODES) for _ in range(20)]
    rng.shuffle(places)
    for gang in range(2000):
        name = f"low-{gang}"
        found.append(pod_group(name, IN_GANG, started=float(gang)))
        for n in range(IN_GANG):
            on = f"node-{places[gang * IN_GANG + n]}"
            found.append(pod(f"{name}-{n}", 3, group=name, on=on, bound_at=gang))
    return found


def plain() -> list[PodInfo]:
    """Return 20 plain pods on each node, of three priorities."""
    rng = Random(3)
    return [
        pod(f"p-{n}-{m}", 3, on=f"node-{n}", priority=rng.randrange(3), bound_at=rng.random())
        for n in range(NODES)
        for m in range(20)
    ]


def nothing_to_take() -> list[PodInfo]:
    """Return 20 plain pods on each node, of the priority of the gang that comes."""
    return [
        pod(f"p-{n}-{m}", 3, on=f"node-{n}", priority=10) for n in range(NODES) for m in range(20)
    ]


SCENES: Final[dict[str, tuple[Callable[[], list[Any]], int, int, dict[str, Any]]]] = {
    "100 gangs of 50, a node for each pod": (low_gangs, 64, 50, {}),
    "the same, in a rack": (low_gangs, 64, 20, {"required_topology": RACK}),
    "2000 gangs of 50, 20 pods on a node": (mixed_gangs, 5, 50, {}),
    "100,000 plain pods": (plain, 16, 50, {}),
    "100,000 plain pods, a gang of 1000": (plain, 16, 1000, {}),
    "100,000 pods that stay": (nothing_to_take, 16, 50, {}),
}
"""What runs, the CPU of each pod that comes, how many, and what their PodGroup says."""


def measured(name: str) -> tuple[list[float], float, Preemption | None]:
    """Return the CPU milliseconds of each round, those of the longest step, and the answer."""
    running, cpu, count, asked = SCENES[name]
    cluster, spent, longest = Cluster(), list[float](), 0.0
    for each in (*nodes(), *running()):
        cluster.apply(event_of(each))
    gang = pod_group(min_member=count, **asked)
    cluster.apply(event_of(gang))
    for member in pods(count, shape(cpu), priority=10):
        cluster.apply(event_of(member))
    gc.collect()
    gc.freeze()  # as `serve` does once it has seen the cluster
    view, options = cluster.view(), GangOptions()
    found = None
    for _ in range(ROUNDS):
        took = [*timed(choosing(gang, view=view, now=1e6, options=options))]
        found = took.pop()[1]
        spent.append(sum(each for each, _ in took))
        longest = max(longest, *(each for each, _ in took))
    return spent, longest, found


def timed(steps: Steps[Preemption | None]) -> Iterator[tuple[float, Preemption | None]]:
    """Yield the CPU milliseconds of each step, and at last the answer."""
    found, done = None, False
    while not done:
        began = thread_time()
        try:
            next(steps)
        except StopIteration as end:
            found, done = end.value, True
        yield (thread_time() - began) * 1000, None
    yield 0.0, found


def main() -> None:
    """Print the table."""
    print("| what runs | median ms | longest step ms | victims | pods |\n|---|---|---|---|---|")
    with Garbage(SystemClock()):
        for name in SCENES:
            spent, longest, found = measured(name)
            units = found.victims if found is not None else ()
            count = sum(unit.size for unit in units)
            print(f"| {name} | {median(spent):.0f} | {longest:.1f} | {len(units)} | {count} |")


if __name__ == "__main__":
    main()
