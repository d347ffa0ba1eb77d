"""Says of a history what should never have been. Pure: it reads no clock and does no I/O."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Self

from extender.resources.quantity import CPU, amount
from tests.cluster.history import Judge as QueueJudge
from tests.harness.client import Object
from tests.harness.objects import POD_GROUP_LABEL

_QUEUE = "kueue.x-k8s.io/queue-name"


@dataclass(slots=True)
class Judge:
    """Replays what was stored; `faults` are sentences.

    `capacity` is the CPU of each node and `quota` that of each ClusterQueue, both in thousandths
    of a core; `minimum` is what each gang of plain pods needs.
    """

    capacity: int
    quota: int
    minimum: dict[str, int]
    faults: list[str] = field(default_factory=list)
    busiest: int = 0
    """The most CPU that was ever taken on one node."""
    held: dict[str, int] = field(default_factory=dict)
    """The most quota that was ever held, by ClusterQueue."""
    _used: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    _pods: dict[str, tuple[str, int]] = field(default_factory=dict)
    _placed: dict[str, str] = field(default_factory=dict)
    _queues: dict[str, QueueJudge] = field(default_factory=dict)
    _queue_of: dict[str, str] = field(default_factory=dict)
    _members: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def replay(self, history: Iterable[tuple[str, str, Object]]) -> Self:
        """Take in all events, in the order in which they were stored."""
        for event, kind, found in history:
            if kind == "Pod":
                self._pod(event, found)
            elif kind in {"Job", "Workload"} and event != "DELETED":
                self._of_queue(kind, found)
        for name, judge in self._queues.items():
            self.faults += [f"queue {name}: {fault}" for fault in judge.faults]
            self.held[name] = judge.most
        return self

    def partial(self) -> list[str]:
        """Return the gangs of which some members were placed and not as many as they need."""
        return [
            f"{group}: {len(placed)} of {self.minimum[group]} were placed"
            for group, placed in sorted(self._members.items())
            if group in self.minimum and 0 < len(placed) < self.minimum[group]
        ]

    def unplaced(self) -> list[str]:
        """Return the gangs no member of which was ever placed."""
        return [group for group in sorted(self.minimum) if not self._members[group]]

    def workloads_of(self, job: str) -> int:
        """Return how many Workloads a Job has had."""
        queue = self._queue_of.get(job)
        return self._queues[queue].workloads_of(job) if queue else 0

    def stops(self) -> int:
        """Return how many started Jobs were suspended again."""
        return sum(judge.stops for judge in self._queues.values())

    def _pod(self, event: str, pod: Object) -> None:
        uid, name = pod["metadata"]["uid"], pod["metadata"]["name"]
        node = pod["spec"].get("nodeName")
        before = self._placed.get(uid)
        if node and before and before != node:
            self.faults.append(f"pod {name} was placed on {before} and then on {node}")
        if node:
            self._placed[uid] = node
            self._count_member(pod)
        done = event == "DELETED" or pod["status"].get("phase") in {"Succeeded", "Failed"}
        taken = (node, _cpu(pod)) if node and not done else None
        self._take(uid, taken, name)

    def _count_member(self, pod: Object) -> None:
        group = pod["metadata"].get("labels", {}).get(POD_GROUP_LABEL)
        if group:
            self._members[group].add(pod["metadata"]["uid"])

    def _take(self, uid: str, taken: tuple[str, int] | None, name: str) -> None:
        before = self._pods.pop(uid, None)
        if before is not None:
            self._used[before[0]] -= before[1]
        if taken is None:
            return
        self._pods[uid] = taken
        node, cpu = taken
        self._used[node] += cpu
        self.busiest = max(self.busiest, self._used[node])
        if before is None and self._used[node] > self.capacity:
            self.faults.append(
                f"node {node} has {self._used[node]}m of {self.capacity}m taken with pod {name}"
            )

    def _of_queue(self, kind: str, found: Object) -> None:
        queue = (
            found["metadata"].get("labels", {}).get(_QUEUE)
            if kind == "Job"
            else found["spec"].get("queueName")
        )
        if not queue:
            return
        judge = self._queues.setdefault(queue, QueueJudge(self.quota))
        if kind == "Job":
            self._queue_of[found["metadata"]["name"]] = queue
        judge.replay([{**found, "kind": kind}])


def _cpu(pod: Object) -> int:
    return sum(
        amount(CPU, each.get("resources", {}).get("requests", {}).get(CPU, 0))
        for each in pod["spec"]["containers"]
    )
