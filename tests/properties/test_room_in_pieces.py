"""A judgement with pauses decides what one without them does, and admits nothing without room."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from random import Random
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from extender.fit import candidates, packer
from extender.fit.candidates import Candidates, Conflicts, Feasibility, PodShape, RoomLeft
from extender.fit.packer import Packer
from extender.queueing.cycle import Admit, Outcome
from extender.queueing.rules import AdmissionOptions
from extender.state.queue import events as ev
from extender.state.queue.records import PodSetInfo
from extender.steps import at_once
from tests.effort import examples
from tests.makers import cluster_of, deleted, node, nodes, requests, shape
from tests.properties.test_room import Floor
from tests.queue_makers import Admissions, cluster_queue, local_queue, pod_set, workload

SIZES = st.lists(st.integers(1, 6), min_size=1, max_size=6)
ASKED = st.lists(st.tuples(st.integers(1, 4), st.integers(1, 5)), min_size=1, max_size=4)
"""CPU and number of the pods of each pod set."""
COURSE = st.lists(st.tuples(ASKED, st.integers(0, 2), st.integers(0, 1)), min_size=1, max_size=6)
"""Pod sets, priority and ClusterQueue of a workload."""

Asked = list[tuple[int, int]]
Course = list[tuple[Asked, int, int]]


@contextmanager
def pieces_of(count: int) -> Iterator[None]:
    """Have so many nodes looked at in a piece."""
    with ExitStack() as patches:
        for module in (candidates, packer):
            patches.enter_context(patch.object(module, "PIECE", count))
        yield


def queues_of(sizes: list[int], preemption: str = "Never") -> Admissions:
    queues = Admissions(
        options=AdmissionOptions(require_room=True), cluster=cluster_of(nodes(*sizes))
    )
    for number in range(2):
        queues.put(
            cluster_queue(
                f"q{number}", 30, "cohort", preemption={"within_cluster_queue": preemption}
            ),
            local_queue(f"q{number}"),
        )
    return queues


def sets(asked: Asked) -> tuple[PodSetInfo, ...]:
    every = enumerate(asked)
    return tuple(pod_set(shape(cpu), count, name=f"s{n}") for n, (cpu, count) in every)


def decisions(sizes: list[int], course: Course, at_once: int) -> list[tuple[Outcome, ...]]:
    """Return what cycles decide, with so many nodes in a piece."""
    queues, found = queues_of(sizes, "LowerPriority"), []
    with pieces_of(at_once):
        for number, (asked, priority, queue) in enumerate(course):
            made = workload(f"w{number}", sets(asked), f"q{queue}", priority)
            queues.put(made)
            queues.pending.sweep()
            found.append(queues.run())
    return found


@settings(max_examples=examples(100))
@given(sizes=SIZES, course=COURSE, piece=st.integers(1, 4))
def test_pauses_change_no_decision(sizes: list[int], course: Course, piece: int) -> None:
    assert decisions(sizes, course, piece) == decisions(sizes, course, 1000)


@given(sizes=SIZES, course=st.lists(ASKED, min_size=1, max_size=5), ends=st.integers(0, 40))
def test_what_ends_early_leaves_nothing_behind(
    sizes: list[int], course: list[Asked], ends: int
) -> None:
    made = [node(f"n{n}", cpu) for n, cpu in enumerate(sizes)]
    feasible = Feasibility(cluster_of(made).view())
    found = Packer(
        Candidates(feasible, feasible.cluster.left),
        RoomLeft(lambda each: dict(each.allocatable), Conflicts()),
    )
    with pieces_of(1):
        for asked in course:
            cut(found, [(PodShape(shape(cpu)), count) for cpu, count in asked], ends)
            for cpu in range(1, 7):
                alone = at_once(found.fill([(PodShape(shape(cpu)), 99)]))
                found.undo(alone)
                assert alone.count == sum(size // cpu for size in sizes)


def cut(found: Packer, wanted: list[tuple[PodShape, int]], ends: int) -> None:
    """Place pods and take them back, or end after so many pieces."""
    steps = found.fill(wanted)
    try:
        for _ in range(ends):
            next(steps)
    except StopIteration as end:
        found.undo(end.value)
    steps.close()


class Machine(Floor):
    """Nodes that change while a cycle judges; the pods are of many kinds."""

    def __init__(self, sizes: list[int], seed: int) -> None:
        super().__init__(sizes)
        self.rng = Random(seed)
        self.others: dict[str, int] = {}
        """Node by name of pods beside the queue."""

    def come(self, counts: list[int]) -> None:
        self.made += 1
        name = f"w{self.made}"
        asked = tuple(
            pod_set(replace(shape(1), requests={**requests(1), f"k{n}": 0}), count, name=f"s{n}")
            for n, count in enumerate(counts)
        )
        self.asked[f"ns/{name}"] = sum(counts)
        self.queues.put(workload(name, asked, ("cq", "other")[self.made % 2]))

    def change(self) -> None:
        """Have one thing happen that is none of the queue's doing."""
        self.made += 1
        what = self.rng.choice(["bind", "bind", "end", "place", "come", "nothing"])
        open_nodes = [name for name, free in self.free.items() if free]
        if what == "bind" and open_nodes and self.room() > 0:
            at = self.rng.choice(open_nodes)
            self.others[f"other-{self.made}"] = at
            self.free[at] -= 1
            self.show(f"other-{self.made}", at)
        elif what == "end" and self.others:
            name = self.rng.choice(sorted(self.others))
            self.free[self.others.pop(name)] += 1
            self.cluster.apply(deleted(name))
        elif what == "place":
            self.place(open_nodes)
        elif what == "come" and len(self.asked) < 8:
            self.come([1])

    def place(self, open_nodes: list[int]) -> None:
        missing = [key for key, count in self.unplaced.items() if count]
        if missing and open_nodes:
            key, at = self.rng.choice(missing), self.rng.choice(open_nodes)
            self.unplaced[key] -= 1
            self.free[at] -= 1
            self.show(f"pod-{self.made}", at, workload=key)

    def cycle(self, *, changes: bool) -> None:
        """Run a cycle, with a change in each pause."""
        self.queues.pending.sweep()
        for outcome in self.queues.decide_slowly():
            if isinstance(outcome, Admit):
                self.admit(outcome.workload)
                self.queues.apply(ev.Assumed(outcome.workload, outcome.admission))
            if changes:
                self.change()


@settings(max_examples=examples(150))
@given(
    sizes=st.lists(st.integers(1, 5), min_size=2, max_size=6),
    comes=st.lists(st.lists(st.integers(1, 4), min_size=1, max_size=4), min_size=1, max_size=5),
    seed=st.integers(0, 9999),
)
def test_what_changes_in_a_pause_is_seen(
    sizes: list[int], comes: list[list[int]], seed: int
) -> None:
    machine = Machine(sizes, seed)
    with pieces_of(1):
        for counts in comes:
            machine.come(counts)
            machine.cycle(changes=True)
        for _ in machine.asked:
            machine.cycle(changes=False)
        for key in machine.asked.keys() - machine.unplaced.keys():
            assert machine.asked[key] > machine.room(), "it waits, and there is room"
