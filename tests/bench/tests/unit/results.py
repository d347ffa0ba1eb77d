"""Makers of results: what a test does not say has a plain default."""

from typing import Any

from tests.bench.gangs import Gangs
from tests.bench.load import Load
from tests.bench.results import Audit, Case, Latency, Result

CASE = Case(load=Load(nodes=10, gangs=2, size=5), qps="stock")
CHURN = Case(load=CASE.load.churned(), qps="stock")
WHOLE = Gangs(whole=2, partial=0, partial_peak=1, spread_seconds=0.025)
AUDIT = Audit(
    overcommits=(),
    collisions=0,
    partial=0,
    events=10,
    repeated_events=0,
    late_seconds=0.5,
    cpu_seconds=0.1,
)


def result(side: str, repeat: int = 1, *, seconds: float = 1.0, **changes: Any) -> Result:
    fields: dict[str, Any] = {
        "side": side,
        "title": {"plain": "kube-scheduler", "ours": "gang-extender"}.get(side, side),
        "repeat": repeat,
        "impossible": False,
        "refused": 0,
        "scheduled": 10,
        "seconds": seconds,
        "ready_seconds": 2 * seconds,
        "condition_seconds": seconds,
        "gangs": WHOLE,
        "cpu_seconds": {"scheduler": 1.5},
        "peak_mib": {"scheduler": 100.0},
        "late_cpu_seconds": {"scheduler": 1.75},
        "ledger": AUDIT,
        "attempts": 10.0,
        "filter": Latency(20, 0.001, 0.002) if side == "ours" else None,
        "bind": None,
        "notes": (),
    }
    return Result(**{**fields, **changes})


def churn(side: str = "ours", **changes: Any) -> Result:
    return result(side, impossible=True, refused=10, **changes)
