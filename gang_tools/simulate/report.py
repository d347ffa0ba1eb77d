"""Runs a simulation and reports on it, as a model and as text."""

import gc
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from math import ceil

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from extender.resources.quantity import CPU, PODS, show
from extender.state.queue.records import FlavorResource, Quota, quotas_of
from gang_tools.simulate.engine import Simulation
from gang_tools.simulate.world import SimJob, World

Lines = dict[str, list[tuple[float, float]]]
"""The values of each line of a chart, with their times in seconds since the beginning."""


class Shown(BaseModel):
    """A part of the report; in JSON its names are in camel case."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, use_attribute_docstrings=True
    )


class Waits(Shown):
    """The seconds from the creation of jobs until their pods have nodes."""

    mean: float
    p50: float
    p90: float
    most: float


class ClassReport(Shown):
    """The jobs of one class."""

    name: str
    jobs: int
    started: int
    finished: int
    preempted: int
    """how many were stopped for others, each time counted"""
    waits: Waits | None
    """of those that started; null where none did"""
    waiting: str = ""
    """why the first one waits that waits at the end"""


class NodesReport(Shown):
    """One resource of all nodes."""

    resource: str
    capacity: str
    mean: str
    share: float
    """the mean as a share of the capacity"""


class QuotaReport(Shown):
    """One resource of a flavor in a ClusterQueue."""

    cluster_queue: str
    flavor: str
    resource: str
    nominal: str
    mean: str
    most: str
    share: float | None
    """the mean as a share of the nominal quota; above 1 where it borrows"""


class RunReport(Shown):
    """One simulation."""

    seconds: float
    """how long it is, in virtual time"""
    jobs: int
    started: int
    finished: int
    preemptions: int
    evictions: int
    partial_gangs: int
    """gangs that ever had nodes for some of the pods that start together, and not for all"""
    partial_at_end: int
    classes: list[ClassReport]
    nodes: list[NodesReport]
    quota: list[QuotaReport]
    over_time: dict[str, Lines] = Field(exclude=True)
    """the charts of an HTML file, by title"""


class SimulationReport(Shown):
    """All that `simulate` shows."""

    gang_extender: RunReport
    alone: RunReport | None = None
    """the same with kube-scheduler alone, where it was asked for"""


def play_all(world: World) -> SimulationReport:
    """Return the report on a world, with kube-scheduler alone too if the world asks for it."""
    gc.collect()
    gc.disable()  # nearly everything is freed by its reference count
    try:
        other = fresh(world) if world.compare else None
        played = play(world)
        alone = play(other, alone=True, least=played.clock.now) if other is not None else None
    finally:
        gc.enable()
    return SimulationReport(
        gang_extender=report(played),
        alone=report(alone) if alone is not None else None,
    )


def fresh(world: World) -> World:
    """Return a world with jobs of its own: playing changes them."""
    jobs = [replace(job, pods={**job.pods}, bound=set()) for job in world.jobs]
    return replace(world, jobs=jobs, running=deepcopy(world.running))


def play(world: World, *, alone: bool = False, least: float = 0.0) -> Simulation:
    """Return a world as it is at its end; not before `least` where jobs are left."""
    played = Simulation(world, alone=alone)
    played.run(world.until)
    if played.finished < played.arrived:
        played.clock.now = max(played.clock.now, least)
    played.books.close(played.clock.now)
    return played


def report(played: Simulation) -> RunReport:
    """Return the numbers of a simulation that has ended."""
    jobs = [*played.world.running, *played.world.jobs]
    came = [job for job in jobs if job.arrival <= played.clock.now]
    return RunReport(
        seconds=round(played.clock.now, 3),
        jobs=len(came),
        started=sum(job.started is not None for job in came),
        finished=played.finished,
        preemptions=played.preemptions,
        evictions=played.evictions,
        partial_gangs=played.half_placed,
        partial_at_end=sum(job.is_half_placed for job in came),
        classes=[*_classes(came, played)],
        nodes=[*_nodes(played)],
        quota=[*_quota(played)] if not played.alone else [],
        over_time=_over_time(played),
    )


def _classes(jobs: Sequence[SimJob], played: Simulation) -> Iterator[ClassReport]:
    by_class: dict[str, list[SimJob]] = {}
    for job in jobs:
        by_class.setdefault(job.kind, []).append(job)
    for name, some in by_class.items():
        started = [job for job in some if job.started is not None]
        waits = sorted(job.started - job.arrival for job in started if job.started is not None)
        late = next((job for job in some if job.started is None), None)
        yield ClassReport(
            name=name,
            jobs=len(some),
            started=len(started),
            finished=sum(job.ended is not None for job in some),
            preempted=sum(job.preempted for job in some),
            waits=_waits(waits) if waits else None,
            waiting=played.why_waiting(late) if late is not None else "",
        )


def _waits(waits: Sequence[float]) -> Waits:
    """Return the numbers of sorted waiting times; there is at least one."""

    def rank(share: float) -> float:
        return round(waits[max(0, ceil(share * len(waits)) - 1)], 3)

    mean = round(sum(waits) / len(waits), 3)
    return Waits(mean=mean, p50=rank(0.5), p90=rank(0.9), most=rank(1.0))


def _nodes(played: Simulation) -> Iterator[NodesReport]:
    books = played.books
    for name, mean in books.mean(played.clock.now).items():
        whole = books.whole.get(name, 0)
        if name != PODS and whole:
            share = round(mean / whole, 4)
            yield NodesReport(
                resource=name, capacity=show(name, whole), mean=_rounded(name, mean), share=share
            )


def _rounded(resource: str, mean: float) -> str:
    """Return a mean as it is shown: of many cores whole ones."""
    unit = 1000 if resource == CPU and mean >= 10_000 else 1
    return show(resource, round(mean / unit) * unit)


def _quota(played: Simulation) -> Iterator[QuotaReport]:
    books, seconds = played.books, max(played.clock.now, 1e-9)
    for name in sorted(books.held_most):
        quotas = quotas_of(played.queue_view.cluster_queues[name].resource_groups)
        for (flavor, resource), most in sorted(books.held_most[name].items()):
            nominal = quotas[flavor, resource].nominal if (flavor, resource) in quotas else 0
            mean = books.held_area[name].get((flavor, resource), 0.0) / seconds
            yield QuotaReport(
                cluster_queue=name,
                flavor=flavor,
                resource=resource,
                nominal=show(resource, nominal),
                mean=_rounded(resource, mean),
                most=show(resource, most),
                share=round(mean / nominal, 4) if nominal else None,
            )


def _over_time(played: Simulation) -> dict[str, Lines]:
    """Return the lines of each chart that has any."""
    books, queues = played.books, played.queue_view.cluster_queues
    samples = books.samples
    nodes = {
        name: [(each.at, _percent(each.used.get(name, 0), whole)) for each in samples]
        for name, whole in books.whole.items()
        if name in books.used and name != PODS
    }
    waiting: Lines = {
        name: [(each.at, each.waiting.get(name, 0)) for each in samples]
        for name in samples[-1].waiting
    }
    quota = {
        name: [(each.at, _busiest(each.held.get(name, {}), quotas)) for each in samples]
        for name, most in books.held_most.items()
        if most and (quotas := quotas_of(queues[name].resource_groups))
    }
    found: dict[str, Lines] = {
        "Use of nodes, %": nodes, "Waiting jobs": waiting, "Use of nominal quota, %": quota,
    }  # fmt: skip
    return {title: lines for title, lines in found.items() if lines}


def _busiest(held: Mapping[FlavorResource, int], quotas: Mapping[FlavorResource, Quota]) -> float:
    """Return the use of the resource that has the least left, in per cent of its quota."""
    shares = (_percent(n, quotas[what].nominal) for what, n in held.items() if what in quotas)
    return max(shares, default=0)


def _percent(amount: int, whole: int) -> float:
    return round(100 * amount / whole, 1) if whole else 0


# --- as text -------------------------------------------------------------------------------------


def text(found: SimulationReport) -> str:
    """Return a report as text, one run after the other."""
    parts = []
    if found.alone is not None:
        parts += [_run("kube-scheduler alone", found.alone), ""]
    parts += [_run("gang-extender", found.gang_extender)]
    return "\n".join(parts) + "\n"


def _run(title: str, run: RunReport) -> str:
    lines = [
        f"{title}: {run.started} of {run.jobs} jobs started, {run.finished} finished, "
        f"in {duration(run.seconds)} of virtual time",
        f"  gangs half-placed: {run.partial_gangs}"
        + (f", {run.partial_at_end} of them at the end, forever" if run.partial_at_end else "")
        + f"; preemptions: {run.preemptions}"
        + (f"; other evictions: {run.evictions}" if run.evictions else ""),
        "",
    ]
    by_class, *others = tables(run)
    lines += table(by_class)
    lines += [f"  {c.name} waits: {c.waiting}" for c in run.classes if c.waiting]
    for rows in others:
        lines += ["", *table(rows)]
    return "\n".join(lines)


def tables(run: RunReport) -> Iterator[list[Sequence[str]]]:
    """Yield the rows about classes, nodes and quotas, the head first."""
    rows: list[Sequence[str]] = [
        ("class", "jobs", "started", "mean wait", "p50", "p90", "longest", "preempted")
    ]
    for each in run.classes:
        w = each.waits
        times = map(duration, (w.mean, w.p50, w.p90, w.most)) if w else ("-",) * 4
        rows.append((each.name, str(each.jobs), str(each.started), *times, str(each.preempted)))
    yield rows
    if run.nodes:
        rows = [("nodes", "have", "mean use", "share")]
        yield rows + [(n.resource, n.capacity, n.mean, f"{n.share:.0%}") for n in run.nodes]
    if run.quota:
        rows = [("quota", "flavor", "resource", "nominal", "mean", "most", "share")]
        for q in run.quota:
            share = f"{q.share:.0%}" if q.share is not None else "-"
            rows.append((q.cluster_queue, q.flavor, q.resource, q.nominal, q.mean, q.most, share))
        yield rows


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows in columns, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  "
        + "  ".join(
            cell.ljust(width) if not number else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def duration(seconds: float) -> str:
    """Return a time as people write it: 90 s, 12 m 30 s, 5 h 20 m."""
    if seconds < 10:
        return f"{seconds:.1f}".rstrip("0").rstrip(".") + " s"
    whole = round(seconds)
    if whole < 120:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} m" + (f" {whole % 60} s" if whole % 60 else "")
    hours, minutes = divmod(whole // 60, 60)
    if hours < 48:
        return f"{hours} h" + (f" {minutes} m" if minutes else "")
    return f"{hours // 24} d" + (f" {hours % 24} h" if hours % 24 else "")
