"""Makers of results: what a test does not say has a plain default."""

from typing import Any

from tests.bench.queue.measures import Measures, Wait
from tests.bench.queue.runs import Result


def measures(**changes: Any) -> Measures:
    fields: dict[str, Any] = {
        "start": 100.0,
        "end": 102.0,
        "created": 10,
        "admitted": 10,
        "finished": 10,
        "evictions": 1,
        "waits": {"small": Wait(6, 0.25, 0.5), "large": Wait(4, 1.0, 1.5)},
        "usage": 0.8,
        "broken": 0,
        "violations": (),
    }
    return Measures(**{**fields, **changes})


def result(controller: str = "ours", repeat: int = 1, **changes: Any) -> Result:
    fields: dict[str, Any] = {
        "controller": controller,
        "title": {"ours": "gang-extender"}.get(controller, controller),
        "repeat": repeat,
        "workloads": 10,
        "measures": measures(),
        "generation_seconds": 1.0,
        "writes": {"PATCH workloads/status": 20, "POST events": 5},
        "cpu_seconds": {"controller": 1.5, "apiserver": 4.0},
        "peak_mib": {"controller": 90.0},
    }
    return Result(**{**fields, **changes})
