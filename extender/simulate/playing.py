"""Plays a world to its end, once or twice, and reports."""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Final

from extender.simulate.engine import Simulation
from extender.simulate.report import SimulationReport, report
from extender.simulate.world import World

THRESHOLDS: Final = (50_000, 20, 100)
"""New objects before a collection: nearly everything is freed by its reference count."""
EXTENDER: Final = "gang-extender"
ALONE: Final = "kube-scheduler alone"


@dataclass(frozen=True, slots=True)
class Played:
    """What was played, the one to compare with first."""

    report: SimulationReport
    runs: list[tuple[str, Simulation]]


def play_all(
    world: World, *, keep: bool = False, on_step: Callable[[Simulation], None] | None = None
) -> Played:
    """Return a world's end; where it asks for a comparison also that without gang-extender."""
    with _few_collections():
        other = fresh(world) if world.compare else None
        played = play(world, keep=keep, on_step=on_step)
        alone = None
        if other is not None:
            alone = play(other, alone=True, keep=keep, on_step=on_step, least=played.clock.now)
    runs = [(ALONE, alone)] if alone is not None else []
    found = SimulationReport(
        gang_extender=report(played),
        alone=report(alone) if alone is not None else None,
        notes=[*world.notes],
    )
    return Played(found, [*runs, (EXTENDER, played)])


def fresh(world: World) -> World:
    """Return a world with jobs of its own: playing changes them."""
    jobs = [replace(job, pods={**job.pods}, bound=set(), attempts=[]) for job in world.jobs]
    return replace(world, jobs=jobs, running=deepcopy(world.running))


def play(
    world: World,
    *,
    alone: bool = False,
    keep: bool = False,
    on_step: Callable[[Simulation], None] | None = None,
    least: float = 0.0,
) -> Simulation:
    """Return a world as it is at its end; not before `least` where jobs are left."""
    played = Simulation(world, alone=alone, keep=keep, on_step=on_step)
    played.run(world.until)
    if played.finished < played.arrived:
        played.clock.now = max(played.clock.now, least)
    played.books.close(played.clock.now)
    return played


@contextmanager
def _few_collections() -> Iterator[None]:
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
