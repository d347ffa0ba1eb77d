"""Makers of loads and of histories: what a test does not say has a plain default."""

from typing import Any

from tests.bench.queue.load import Load
from tests.bench.queue.measures import Seen

QUEUES = ("team-0-queue-0", "team-0-queue-1")


def document(**queues: Any) -> dict[str, Any]:
    """Return a cohort of two queues of 4 CPU; `queues` are other settings of these."""
    small = {"className": "small", "request": 1, "runtimeMs": 100, "priority": 5}
    large = {"className": "large", "request": 4, "runtimeMs": 200, "priority": 9}
    streams = [
        {"count": 3, "creationIntervalMs": 1500, "workloads": [small]},
        {"count": 2, "creationIntervalMs": 500, "workloads": [large]},
    ]
    settings = {
        "className": "queue",
        "count": 2,
        "nominalQuota": 4,
        "borrowingLimit": 2,
        "workloadsSets": streams,
    }
    return {"cohorts": [{"className": "team", "count": 1, "queuesSets": [{**settings, **queues}]}]}


def load(**queues: Any) -> Load:
    return Load.model_validate(document(**queues))


def seen(time: float, name: str, *, queue: int = 0, **changes: Any) -> Seen:
    """Return a small Workload that waits."""
    fields = {"kind": "small", "queue": QUEUES[queue], "time": time, "name": name}
    return Seen(**{**fields, **changes})


def admitted(time: float, name: str, *, queue: int = 0, **changes: Any) -> Seen:
    """Return a small Workload that holds its quota in its queue."""
    fields = {"held": 1000, "granted": 1000, "held_in": QUEUES[queue], "admitted": True}
    return seen(time, name, queue=queue, **{**fields, **changes})


def finished(time: float, name: str, *, queue: int = 0, **changes: Any) -> Seen:
    """Return a small Workload that has run; its admission is still in its status."""
    fields = {"held_in": QUEUES[queue], "admitted": True, "finished": True}
    return seen(time, name, queue=queue, **{**fields, **changes})
