"""A small world in which workloads of queues wait for room, run on nodes, and end."""

from typing import Any

from extender.queueing.cycle import Admit, Outcome
from extender.queueing.rules import AdmissionOptions
from extender.state.queue import events as ev
from extender.state.queue.events import Record
from tests.makers import cluster_of, deleted, nodes, observe, pod
from tests.queue_makers import Admissions, cluster_queue, local_queue, pod_set, workload

AGING = 10.0
PLENTY = 10_000


class World:
    """Nodes of so many CPU each, and queues with more quota than they have.

    What is admitted has its pods on the room that was found for it, at once.
    """

    def __init__(self, *sizes: int, records: tuple[Record, ...] = (), **options: Any) -> None:
        self.cluster = cluster_of(nodes(*sizes))
        self.options = AdmissionOptions(**{"require_room": True, "aging": AGING, **options})
        queues = records or (cluster_queue("cq", PLENTY), local_queue())
        self.queues = Admissions(*queues, options=self.options, cluster=self.cluster)
        self.ends: dict[str, float] = {}
        self.runs: dict[str, float] = {}
        self.where: dict[str, dict[str, int]] = {}
        """By workload that runs: how many pods it has on which nodes."""
        self.finished: list[str] = []
        self.made = 0

    @property
    def now(self) -> float:
        """Seconds since the epoch."""
        return self.queues.now

    @property
    def reserved(self) -> dict[str, frozenset[str]]:
        """The nodes on which room is kept, by workload."""
        assert self.queues.room is not None
        known = self.queues.room._reserved.known
        return {key.removeprefix("ns/"): each.nodes for key, each in known.items()}

    @property
    def since(self) -> dict[str, float]:
        """Since when room is kept, by workload."""
        assert self.queues.room is not None
        known = self.queues.room._reserved.known
        return {key.removeprefix("ns/"): each.since for key, each in known.items()}

    def submit(self, name: str, pods: int, cpu: int = 1, *, runs: float = 1e9, **more: Any) -> None:
        """Have a workload wait that runs so many seconds once it is admitted."""
        self.made += 1
        self.runs[f"ns/{name}"] = runs
        more.setdefault("created", self.now)
        self.queues.put(workload(name, pod_set(cpu, pods), arrival=self.made, **more))

    def cycle(self) -> tuple[Outcome, ...]:
        """Try all that waits, and start what is admitted."""
        self.queues.pending.sweep()
        outcomes = self.queues.run()
        for outcome in outcomes:
            if isinstance(outcome, Admit):
                self._start(outcome.workload)
        self.queues.say()
        return outcomes

    def pass_time(self, seconds: float, *, step: float = 1.0) -> None:
        """Let time pass, with a cycle after each step of it."""
        until = self.now + seconds
        while self.now < until:
            self.queues.now = min(until, self.now + step)
            for key in [key for key, end in self.ends.items() if end <= self.now]:
                self.end(key)
            self.cycle()

    def end(self, key: str) -> None:
        """End a workload, and all of its pods."""
        del self.ends[key]
        self.finished.append(key.removeprefix("ns/"))
        for node, count in self.where.pop(key).items():
            for number in range(count):
                self.cluster.apply(deleted(f"{key}-{node}-{number}"))
        self.queues.apply(ev.Deleted(self.queues.view.workloads[key]))

    def running(self) -> set[str]:
        """Return the names of the workloads that run."""
        return {key.removeprefix("ns/") for key in self.ends}

    def _start(self, key: str) -> None:
        assert self.queues.room is not None
        found = self.queues.room.found_for(key) or {}
        made = self.queues.view.workloads[key]
        cpu = made.pod_sets[0].shape.requests["cpu"]
        self.ends[key] = self.now + self.runs[key]
        self.where[key] = {node: amounts["cpu"] // cpu for node, amounts in found.items()}
        assert sum(self.where[key].values()) == made.pod_sets[0].count, "not all pods have room"
        for node, count in self.where[key].items():
            names = [f"{key}-{node}-{number}" for number in range(count)]
            shape = made.pod_sets[0].shape
            observe(self.cluster, *(pod(name, shape, on=node, workload=key) for name in names))
