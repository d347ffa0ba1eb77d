"""Whoever is admitted by room fits on the nodes, and who waits for room does not."""

from hypothesis import given
from hypothesis import strategies as st

from extender.queueing.cycle import Admit, Wait
from extender.queueing.options import Options
from extender.state import events as cluster_events
from extender.state.queues import events as ev
from extender.state.queues.records import WorkloadInfo
from tests.makers import cluster_of, nodes, pod
from tests.queue_makers import Admissions, cluster_queue, local_queue, pod_set, workload

SIZES = st.lists(st.integers(1, 9), min_size=1, max_size=5)
STEPS = st.lists(
    st.tuples(st.sampled_from(("come", "place", "end")), st.integers(1, 6)), max_size=25
)


class Machine:
    """One ClusterQueue with more quota than nodes have; all pods are equal and as large as said."""

    def __init__(self, sizes: list[int], each: int) -> None:
        self.each, self.free = each, dict(enumerate(sizes))
        self.cluster = cluster_of(nodes(*sizes))
        self.queues = Admissions(
            cluster_queue("cq", 10_000),
            local_queue(),
            options=Options(require_room=True),
            cluster=self.cluster,
        )
        self.unplaced: dict[str, int] = {}
        self.placed: dict[str, list[int]] = {}
        self.asked: dict[str, int] = {}
        self.made = 0

    def come(self, count: int) -> None:
        self.made += 1
        name = f"w{self.made}"
        self.asked[f"ns/{name}"] = count
        self.queues.put(workload(name, pod_set(self.each, count)))

    def place(self, count: int) -> None:
        """Put pods of those that are admitted on nodes, wherever they fit."""
        for key in [key for key, left in self.unplaced.items() if left][:count]:
            fitting = [node for node, free in self.free.items() if free >= self.each]
            node = fitting[-1]  # not where the plan begins
            self.free[node] -= self.each
            self.unplaced[key] -= 1
            self.placed.setdefault(key, []).append(node)
            name = f"{key[3:]}-{len(self.placed[key])}"
            self.cluster.apply(
                cluster_events.PodApplied(pod(name, self.each, group=key[3:], on=f"n{node}"))
            )

    def end(self, number: int) -> None:
        """End a workload that has all its pods."""
        whole = [key for key, left in self.unplaced.items() if not left]
        if not whole:
            return
        key = whole[number % len(whole)]
        del self.unplaced[key]
        for count, node in enumerate(self.placed.pop(key), 1):
            self.free[node] += self.each
            self.cluster.apply(cluster_events.PodDeleted(f"{key[3:]}-{count}"))
        record: WorkloadInfo = self.queues.snapshot.workloads[key]
        self.queues.apply(ev.Deleted(record))

    def room(self) -> int:
        """Return how many more pods fit beside all that are admitted."""
        slots = sum(free // self.each for free in self.free.values())
        return slots - sum(self.unplaced.values())

    def cycle(self) -> None:
        self.queues.pending.release_roomless()
        waits = []
        outcomes = self.queues.run()
        for outcome in outcomes:
            if isinstance(outcome, Admit):
                self.unplaced[outcome.workload] = self.asked[outcome.workload]
                assert self.room() >= 0, "it was admitted without room"
            else:
                assert isinstance(outcome, Wait)
                waits.append(outcome)
        for wait in waits:
            count = self.asked[wait.workload]
            assert count > self.room(), "it waits, and there is room"
            if len(waits) == len(outcomes):  # else it was told as it was before the others
                assert f"room for {self.room()} of {count}" in wait.message


@given(sizes=SIZES, each=st.integers(1, 3), steps=STEPS)
def test_admitted_is_what_fits(sizes: list[int], each: int, steps: list[tuple[str, int]]) -> None:
    machine = Machine(sizes, each)
    for what, count in steps:
        getattr(machine, what)(count)
        machine.cycle()
