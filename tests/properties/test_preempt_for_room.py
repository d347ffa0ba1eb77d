"""Which workloads go for room, against a search of everything: few nodes, few workloads."""

from collections.abc import Iterator, Sequence
from itertools import combinations

from hypothesis import event, given, settings
from hypothesis import strategies as st

from extender.queueing.cycle import Admit, NotAdmitted, Preempt
from extender.queueing.rules import AdmissionOptions
from extender.state.cluster.records import PodInfo
from extender.state.queue.records import WorkloadInfo
from tests.effort import examples
from tests.makers import cluster_of, nodes, pod
from tests.queue_makers import (
    Admissions,
    admission,
    cluster_queue,
    condition,
    local_queue,
    pod_set,
    workload,
)

SIZES = st.lists(st.integers(1, 6), min_size=1, max_size=4)
THERE = st.lists(
    st.tuples(
        st.integers(1, 3),
        st.lists(st.integers(0, 3), min_size=1, max_size=3),
        st.integers(0, 3),
        st.sampled_from(["cq", "cq", "b", "c"]),
    ),
    max_size=8,
)
"""CPU of each pod, the nodes of its pods, its priority and ClusterQueue."""
ASKS = st.tuples(st.integers(1, 3), st.integers(1, 4), st.integers(0, 4))
"""CPU of each pod, how many, and the priority of what lacks room."""

Running = tuple[WorkloadInfo, list[int]]
"""A workload that is admitted, and the nodes of its pods."""


class World:
    """`cq` and `b` are one cohort, `c` is alone; what runs has room, and came one by one."""

    def __init__(
        self, sizes: Sequence[int], there: Sequence[tuple[int, list[int], int, str]], quota: int
    ) -> None:
        self.sizes, self.free, self.running = sizes, [*sizes], list[Running]()
        found: list[PodInfo] = []
        for number, (cpu, on, priority, queue) in enumerate(there):
            placed = []
            for at in (each % len(sizes) for each in on):
                if self.free[at] >= cpu:
                    self.free[at] -= cpu
                    placed.append(at)
                    name = f"w{number}-{len(placed)}"
                    found.append(pod(name, cpu, on=f"n{at}", workload=f"ns/w{number}"))
            if placed:
                asks = workload(f"w{number}", pod_set(cpu, len(placed)), queue, priority)
                had = condition("QuotaReserved", at=float(number))
                held = workload(
                    f"w{number}",
                    pod_set(cpu, len(placed)),
                    queue,
                    priority,
                    admission=admission(asks, queue),
                    conditions=(had,),
                )
                self.running.append((held, placed))
        own = {"within_cluster_queue": "LowerPriority"}
        self.queues = Admissions(
            *(cluster_queue("cq", quota, "team", preemption=own), local_queue("cq")),
            *(cluster_queue("b", 100, "team"), local_queue("b")),
            *(cluster_queue("c", 100), local_queue("c")),
            options=AdmissionOptions(require_room=True, preempt_for_room="LowerPriority"),
            cluster=cluster_of(nodes(*sizes), found),
        )
        self.queues.put(*(each for each, _ in self.running))

    def decide(self, cpu: int, count: int, priority: int) -> list[str] | bool | str:
        """Return the victims of such a workload, whether it is admitted, or why it waits."""
        self.queues.put(workload("p", pod_set(cpu, count), "cq", priority))
        (outcome,) = self.queues.decide()
        match outcome:
            case Admit():
                return True
            case Preempt():
                return [each.workload.removeprefix("ns/") for each in outcome.victims]
            case NotAdmitted():
                return str(outcome.reason)
            case _:
                raise AssertionError(outcome)

    def fits(self, cpu: int, count: int, gone: Sequence[str]) -> bool:
        free = [*self.free]
        for each, on in self.running:
            if each.meta.name in gone:
                for at in on:
                    free[at] += each.pod_sets[0].shape.requests["cpu"] // 1000
        return sum(left // cpu for left in free) >= count

    def lower(self, priority: int, *queues: str) -> list[str]:
        """Return the workloads of lower priority, those first that are to stay most."""
        found = [x for x, _ in self.running if x.priority < priority and x.queue_name in queues]
        found.sort(key=lambda each: (-each.priority, int(each.meta.name[1:])))
        return [each.meta.name for each in found]

    def used(self, queue: str, gone: Sequence[str]) -> int:
        """Return how much CPU of its quota a ClusterQueue has in use."""
        there = [x for x, _ in self.running if x.queue_name == queue and x.meta.name not in gone]
        return sum(x.pod_sets[0].count * x.pod_sets[0].shape.requests["cpu"] // 1000 for x in there)


def subsets(names: Sequence[str]) -> Iterator[tuple[str, ...]]:
    return (found for count in range(len(names) + 1) for found in combinations(names, count))


@settings(max_examples=examples(250))
@given(sizes=SIZES, there=THERE, asks=ASKS)
def test_with_quota_exactly_those_go_that_must(
    sizes: list[int], there: list[tuple[int, list[int], int, str]], asks: tuple[int, int, int]
) -> None:
    world, (cpu, count, priority) = World(sizes, there, 100), asks
    lower = world.lower(priority, "cq", "b")
    enough = [each for each in subsets(lower) if world.fits(cpu, count, each)]
    found = world.decide(*asks)
    event(f"{len(found)} go" if isinstance(found, list) else str(found))
    if () in enough:
        assert found is True
    elif not enough:
        assert found == "WaitingForRoom"
    else:
        assert isinstance(found, list)
        best = max(enough, key=lambda each: [name not in each for name in lower])
        assert sorted(found) == sorted(best)
        assert not any(set(each) < set(found) for each in enough)


@settings(max_examples=examples(250))
@given(sizes=SIZES, there=THERE, asks=ASKS, quota=st.integers(1, 12))
def test_without_quota_no_more_go_than_quota_and_room_take(
    sizes: list[int],
    there: list[tuple[int, list[int], int, str]],
    asks: tuple[int, int, int],
    quota: int,
) -> None:
    """Nothing can be borrowed: the other ClusterQueue of the cohort is gone."""
    alone = [(*each[:3], "cq" if each[3] == "b" else each[3]) for each in there]
    world, (cpu, count, priority) = World(sizes, alone, quota), asks
    world.queues.put(cluster_queue("b", 0, "team"))
    lower = world.lower(priority, "cq")

    def is_enough(gone: Sequence[str]) -> bool:
        has_quota = world.used("cq", gone) + cpu * count <= quota
        return has_quota and world.fits(cpu, count, gone)

    found = world.decide(*asks)
    event(f"{len(found)} go" if isinstance(found, list) else str(found))
    assert (found is True) == is_enough(())
    if isinstance(found, list):
        assert set(found) <= set(lower)
        assert is_enough(found)
        assert not any(is_enough(each) for each in subsets(found) if set(each) < set(found))
    elif found is not True:
        assert not is_enough(lower), "all of lower priority would be enough"
