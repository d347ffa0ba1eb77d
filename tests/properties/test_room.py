"""What is admitted by room fits on the nodes, and what waits for room does not."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from extender.queueing.cycle import Admit, NotAdmitted
from extender.queueing.rules import AdmissionOptions
from extender.state.cluster import events as cluster_events
from extender.state.queue import events as ev
from extender.state.queue.records import WorkloadInfo
from tests.makers import cluster_of, deleted, nodes, pod
from tests.queue_makers import Admissions, cluster_queue, local_queue, pod_set, workload

SIZES = st.lists(st.integers(1, 9), min_size=1, max_size=5)
STEPS = st.lists(
    st.tuples(st.sampled_from(("come", "place", "delete", "go", "end")), st.integers(1, 6)),
    max_size=30,
)


class Floor:
    """Nodes, and two ClusterQueues with more quota than these have; all pods are of one size."""

    def __init__(self, sizes: list[int], each: int = 1) -> None:
        self.each, self.free = each, dict(enumerate(sizes))
        self.cluster = cluster_of(nodes(*sizes))
        self.queues = Admissions(
            cluster_queue("cq", 10_000),
            local_queue(),
            cluster_queue("other", 10_000),
            local_queue("other"),
            options=AdmissionOptions(require_room=True),
            cluster=self.cluster,
        )
        self.unplaced: dict[str, int] = {}
        """The number of pods without a node, for each admitted workload."""
        self.asked: dict[str, int] = {}
        self.made = 0

    def room(self) -> int:
        """Return how many more pods fit beside all that are admitted."""
        slots = sum(free // self.each for free in self.free.values())
        return max(0, slots - sum(self.unplaced.values()))

    def admit(self, workload: str) -> None:
        """Note that a workload is admitted, which has to have room."""
        asked = self.asked[workload]
        assert asked <= self.room(), "it was admitted without room"
        self.unplaced[workload] = asked

    def show(self, name: str, node: int, **more: Any) -> None:
        """Have the watch show a pod on a node."""
        shown = pod(name, self.each, on=f"n{node}", **more)
        self.cluster.apply(cluster_events.ObjectApplied(shown))


class Machine(Floor):
    """The same with pods that are deleted, and take their time."""

    def __init__(self, sizes: list[int], each: int) -> None:
        super().__init__(sizes, each)
        self.placed: dict[str, dict[str, int]] = {}
        self.leaving: dict[str, dict[str, int]] = {}
        """Pods that are being deleted: they have their node, and a successor has none."""

    def come(self, count: int) -> None:
        self.made += 1
        name = f"w{self.made}"
        self.asked[f"ns/{name}"] = count
        queue = "other" if self.made % 3 == 0 else "cq"
        self.queues.put(workload(name, pod_set(self.each, count), queue, priority=count % 2))

    def place(self, count: int) -> None:
        """Put pods of those that are admitted on nodes, wherever they fit."""
        for key in [key for key, left in self.unplaced.items() if left][:count]:
            fitting = [node for node, free in self.free.items() if free >= self.each]
            if not fitting:  # successors may have to wait for those that leave
                return
            node = fitting[-1]  # not where the plan begins
            self.free[node] -= self.each
            self.unplaced[key] -= 1
            self.made += 1
            name = f"p{self.made}"
            self.placed.setdefault(key, {})[name] = node
            self.observe(key, name, node)

    def delete(self, number: int) -> None:
        """Have a pod deleted, which takes its time."""
        there = [(key, name) for key, pods in self.placed.items() for name in pods]
        if there:
            key, name = there[number % len(there)]
            node = self.placed[key].pop(name)
            self.leaving.setdefault(key, {})[name] = node
            self.unplaced[key] += 1
            self.observe(key, name, node, terminating=True)

    def go(self, number: int) -> None:
        """End a pod that is being deleted."""
        there = [(key, name) for key, pods in self.leaving.items() for name in pods]
        if there:
            key, name = there[number % len(there)]
            self.free[self.leaving[key].pop(name)] += self.each
            self.cluster.apply(deleted(name))

    def end(self, number: int) -> None:
        """End a workload that has all its pods."""
        whole = [key for key, left in self.unplaced.items() if not left]
        if not whole:
            return
        key = whole[number % len(whole)]
        del self.unplaced[key]
        for name, node in (self.placed.pop(key) | self.leaving.pop(key, {})).items():
            self.free[node] += self.each
            self.cluster.apply(deleted(name))
        record: WorkloadInfo = self.queues.view.workloads[key]
        self.queues.apply(ev.Deleted(record))

    def observe(self, key: str, name: str, node: int, **more: Any) -> None:
        # Pods of every other workload say whose they are; of the others only the group is known.
        said: dict[str, Any] = {"workload": key} if key[-1] in "13579" else {"group": key[3:]}
        self.show(name, node, **said, **more)

    def cycle(self) -> None:
        self.queues.pending.sweep()
        waits = []
        outcomes = self.queues.run()
        for outcome in outcomes:
            if isinstance(outcome, Admit):
                self.admit(outcome.workload)
            else:
                assert isinstance(outcome, NotAdmitted)
                waits.append(outcome)
        for wait in waits:
            count = self.asked[wait.workload]
            assert count > self.room(), "it waits, and there is room"
            if len(waits) == len(outcomes):  # else its reason is from before the others
                assert f"room for {self.room()} of {count}" in wait.message


@given(sizes=SIZES, each=st.integers(1, 3), steps=STEPS)
def test_admitted_is_what_fits(sizes: list[int], each: int, steps: list[tuple[str, int]]) -> None:
    machine = Machine(sizes, each)
    for what, count in steps:
        getattr(machine, what)(count)
        machine.cycle()
