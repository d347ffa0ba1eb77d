"""The results of all runs: a table for people, JSON for machines."""

from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import msgspec
from rich.table import Table

from tests.bench import tables
from tests.bench.extender.runs import API_SERVER, EXTENDER, SCHEDULER, Result
from tests.bench.tables import Row

Value = Callable[[Result], float | None]


def table(results: Sequence[Result]) -> Table:
    """Return measures as lines and numbers of nodes as columns."""
    made = tables.table(
        "The extender alone, with stand-ins around it",
        _columns(results),
        _ROWS,
        heading=lambda each: f"{each.scene.nodes} nodes",
    )
    ratios = growth(results)
    made.add_row("  ratio to the first column", *(f"{ratio:.2f}" for ratio in ratios))
    return made


def line(result: Result) -> str:
    """Return what one run gave, in a line."""
    rate, cpu = result.pods_per_second or 0.0, result.cpu_milliseconds(EXTENDER) or 0.0
    return (
        f"{result.scene.nodes} nodes, run {result.repeat}: {rate:.0f} pods/s, "
        f"{cpu:.3f} ms of CPU a pod, {result.peak_mib:.0f} MiB"
    )


def growth(results: Sequence[Result]) -> list[float]:
    """Return the extender's CPU for each pod, by the number of nodes, relative to the first."""
    cpu = [
        median(each.cpu_milliseconds(EXTENDER) or 0.0 for each in runs)
        for runs in _columns(results)
    ]
    return [each / cpu[0] if cpu[0] else 0.0 for each in cpu]


def faults(results: Sequence[Result]) -> list[str]:
    """Return, as sentences, what must not be."""
    return [fault for result in results for fault in result.faults]


def as_json(results: Sequence[Result]) -> bytes:
    """Return everything that was measured."""
    document: list[Any] = [msgspec.to_builtins(result) for result in results]
    return msgspec.json.format(msgspec.json.encode(document), indent=2)


def _columns(results: Sequence[Result]) -> list[list[Result]]:
    return tables.columns(results, lambda each: each.scene.nodes)


def _cpu(process: str) -> Value:
    return lambda each: each.cpu_milliseconds(process)


def _a_pod(count: str) -> Value:
    return lambda each: each.a_pod(count)


def _events(what: str) -> Value:
    return lambda each: each.events_of(what)


_ROWS: Sequence[Row[Result]] = (
    Row("running pods", lambda each: each.scene.running),
    Row("pods that came", lambda each: each.scene.pods),
    Row("pods with a node", lambda each: each.bound),
    Row("pods/s, first filter to last binding", lambda each: each.pods_per_second),
    Row("the extender's share of a processor", lambda each: each.busy, "{:.2f}"),
    Row("pods for each second of its CPU", lambda each: each.alone),
    Row("filter calls a pod", _a_pod("filters"), "{:.2f}"),
    Row("of them refused", _a_pod("refused"), "{:.2f}"),
    Row("prioritize calls a pod", _a_pod("prioritizes"), "{:.2f}"),
    Row("bind calls a pod", _a_pod("binds"), "{:.2f}"),
    Row("writes beside bindings, a pod", lambda each: each.other_writes, "{:.2f}"),
    Row("cycles of pods with a node, a pod", _a_pod("in_vain"), "{:.3f}"),
    Row("collisions", lambda each: each.counts.get("collisions")),
    Row("Events Scheduled a pod, kube-scheduler", _events("kube-scheduler: Scheduled"), "{:.2f}"),
    Row("Events Scheduled a pod, extender", _events("extender: Scheduled"), "{:.2f}"),
    Row("pods without an Event Scheduled", lambda each: each.unannounced),
    Row("gangs partial at once, at most", lambda each: each.partial_peak),
    Row("peak MiB, extender", lambda each: each.peak_mib),
    Row(f"CPU ms a pod, {API_SERVER}", _cpu(API_SERVER), "{:.3f}"),
    Row(f"CPU ms a pod, {SCHEDULER}", _cpu(SCHEDULER), "{:.3f}"),
    Row(
        "CPU ms a pod, extender, until the last Event",
        lambda each: each.late_milliseconds,
        "{:.3f}",
    ),
    Row(f"CPU ms a pod, {EXTENDER}", _cpu(EXTENDER), "{:.3f}"),
)
