"""`python -m tests.bench.packing TREE`: what it costs to find room on nodes.

No API server: nodes and pods are made up, and the CPU time of the questions is measured that
`serve` asks for gangs, and `reconcile` for workloads with `requireRoom`. The same questions go to
another tree of the project that has this file, such as a worktree of an earlier commit: in one run,
in turn, in a process for each tree, so that whatever else the machine does is the same for both.
What is printed can go into docs/benchmarks.md as it is.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from statistics import median
from time import thread_time
from typing import Annotated, Any, Final

import typer

from extender.gang.fit import fitting
from extender.room.nodes import NodeRoom
from extender.state.cluster.events import ObjectApplied
from extender.state.cluster.records import NodeInfo, Shape
from extender.state.cluster.store import Cluster
from extender.state.queue.store import Queues
from extender.steps import at_once
from tests.makers import event_of, pod, requests, shape
from tests.queue_makers import admission, pod_set, workload

HERE: Final = Path(__file__).parents[2]
NODES: Final = (1000, 5000)
ROUNDS: Final = 5
MIXED: Final = 3000


def scene(count: int) -> Cluster:
    """Return nodes, half of them with eight GPUs, and on each a pod that takes a part of it."""
    rng, facts = Random(7), list[Any]()
    for number in range(count):
        labels = {"pool": str(number % 5), "zone": "abc"[number % 3]}
        name = f"node-{number:04}"
        gpus = 8 * (number % 2)
        has = {**requests(64, gpu=gpus, memory="256Gi"), "pods": 110}
        facts.append(NodeInfo(name, has, labels))
        cpu, gpu = rng.choice((1, 8, 32, 48, 60, 63)), rng.choice((0, 4, 8))
        facts.append(pod(f"on-{name}", shape_of(cpu, gpu=min(gpu, gpus)), on=name))
    cluster = Cluster()
    for fact in facts:
        cluster.apply(event_of(fact))
    return cluster


def shape_of(cpu: int, *, gpu: int = 0, **more: Any) -> Shape:
    """Return a shape with four GiB for each CPU."""
    gpus: dict[str, Any] = {"gpu": gpu} if gpu else {}
    return shape(cpu, memory=f"{4 * cpu}Gi", **gpus, **more)


def kinds(name: str) -> Iterator[list[tuple[Shape, int]]]:
    """Yield the pods of each gang or workload of a load: shapes, and how many."""
    rng = Random(11)
    if name == "equal":
        yield from ([(shape_of(4), 20)] for _ in range(50))
    elif name == "launcher":
        yield from ([(shape_of(1), 1), (shape_of(8, gpu=1), 19)] for _ in range(50))
    elif name == "too many":
        yield from ([(shape_of(1), 1), (shape_of(16, gpu=8), 4000)] for _ in range(10))
    elif name == "large":
        yield [(shape_of(2), 5000)]
    elif name == "mixed":
        every = [
            shape_of(cpu, selector={"pool": str(p)}) for cpu in (1, 2, 4, 8, 16) for p in "012"
        ]
        every += [shape_of(cpu, gpu=gpu) for cpu, gpu in ((4, 1), (8, 2), (16, 4), (32, 8))]
        every += [shape_of(cpu) for cpu in (1, 3, 6, 24)]
        for _ in range(MIXED):
            some = rng.sample(every, rng.choice((1, 1, 2, 3)))
            yield [(each, rng.randint(1, 8)) for each in some]


LOADS: Final = {
    "equal": "50 x 20 equal pods",
    "launcher": "50 x 1 launcher, 19 workers",
    "too many": "10 x 1 launcher, 4000 workers: too many",
    "large": "1 x 5000 equal pods",
    "mixed": f"{MIXED} mixed workloads",
}


def gangs(name: str, nodes: int) -> tuple[float, int]:
    """Return the CPU seconds of the plans of gangs that start one after the other, and how many."""
    cluster, spent, fitted = scene(nodes), 0.0, 0
    view = cluster.view()
    at_once(fitting([pod("warm", shape_of(1))], 1, group="ns/warm", view=view))
    for number, some in enumerate(kinds(name)):
        members = [
            pod(f"g{number}-{kind}-{n}", asks, group=f"g{number}")
            for kind, (asks, count) in enumerate(some)
            for n in range(count)
        ]
        began = thread_time()
        steps = fitting(members, len(members), group=f"ns/g{number}", view=view)
        found = at_once(steps)
        spent += thread_time() - began
        fitted += found.complete
        if found.complete:
            for each in members:
                runs = pod(each.uid, each.shape, on=found.placements[each.uid])
                cluster.apply(ObjectApplied(runs))
    return spent, fitted


def queue(name: str, nodes: int) -> tuple[float, int]:
    """Return the CPU seconds of the questions of a later cycle for workloads, and how many fit."""
    view, spent, fitted = scene(nodes).view(), 0.0, 0
    room = NodeRoom(Queues().view(), view)
    asks = workload("of an earlier cycle", pod_set(shape_of(1)))
    at_once(room.lack(asks, admission(asks).assignments))
    room.begin()
    for _ in room.prepare():
        pass
    for number, some in enumerate(kinds(name)):
        sets = [pod_set(each, count, name=f"s{n}") for n, (each, count) in enumerate(some)]
        asks = workload(f"w{number}", tuple(sets))
        given = admission(asks).assignments
        began = thread_time()
        lacks = at_once(room.lack(asks, given))
        if lacks is None:
            room.take(asks, given)
        spent += thread_time() - began
        fitted += lacks is None
    return spent, fitted


SIDES: Final[dict[str, Callable[[str, int], tuple[float, int]]]] = {"gang": gangs, "queue": queue}


def answer() -> None:
    """Measure what is asked for on the standard input, with the tree that is first on the path."""
    for line in sys.stdin:
        side, name, nodes = json.loads(line)
        print(json.dumps(SIDES[side](name, nodes)), flush=True)


def start(tree: Path) -> "subprocess.Popen[str]":
    """Return a process that measures a tree by that tree's own copy of this file."""
    code = f"import sys; sys.path.insert(0, {str(tree)!r})\n"
    code += "from tests.bench.packing import answer; answer()"
    return subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=tree,
    )


def ask(process: "subprocess.Popen[str]", *question: str | int) -> tuple[float, int]:
    """Return what a process measured."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(question) + "\n")
    process.stdin.flush()
    seconds, fitted = json.loads(process.stdout.readline())
    return seconds, fitted


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command(help=__doc__)
def main(
    tree: Annotated[
        Path, typer.Argument(exists=True, file_okay=False, help="The earlier tree: `before`.")
    ],
    rounds: Annotated[
        int, typer.Option(min=1, help="How often all is asked; the row has the medians.")
    ] = ROUNDS,
    only: Annotated[
        str, typer.Option(help=f"Only these loads, with commas: {', '.join(LOADS)}.")
    ] = "",
) -> None:
    """Print a row for each load: CPU ms before and now, by the median of all rounds."""
    if unknown := set(filter(None, only.split(","))) - LOADS.keys():
        raise typer.BadParameter(f"no load {sorted(unknown)}; there are {[*LOADS]}")
    trees = [start(tree.resolve()), start(HERE)]
    print("| load | nodes | asked by | before, ms | now, ms | ratio | fitted before, now |")
    print("|---|---|---|---|---|---|---|")
    for name, text in LOADS.items():
        for nodes in NODES if not only or name in only.split(",") else ():
            for asked_by in SIDES:
                found = [
                    [ask(each, asked_by, name, nodes) for each in trees] for _ in range(rounds)
                ]
                old, new = (1000 * median(each[n][0] for each in found) for n in (0, 1))
                ratio = median(b[0] / a[0] for a, b in found)
                fits = ", ".join(str(each[1]) for each in found[0])
                row = (text, nodes, asked_by, f"{old:.1f}", f"{new:.1f}", f"{ratio:.2f}", fits)
                print(f"| {' | '.join(map(str, row))} |", flush=True)
    for each in trees:
        each.communicate()


if __name__ == "__main__":
    app()
