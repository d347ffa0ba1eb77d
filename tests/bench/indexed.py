"""`python -m tests.bench.indexed`: what the reconciler does when an index of a Job is done.

No API server and no pods: a Job's status as the job controller would write it is decoded, decided
about and answered, and the CPU of that is measured. One Job of 10^4 indexes stands against a
thousand Jobs of ten. Its indexes end in order, which keeps the list of them short, or every second
one first, which makes it as long as it can be. Exit code 1 says that pods were done whose quota was
not given back.
"""

import asyncio
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from extender.api.core_v1 import LabelSelector
from extender.controllers.job import JobController
from extender.controllers.job_facts import JobOptions
from extender.controllers.workload import Workloads
from extender.jobs.registry import builtin
from extender.kube.decode import Decoder
from extender.kube.decode_queues import QueueDecoder
from extender.runtime.clock import SystemClock
from extender.state.queue import events as ev
from extender.state.queue.records import OwnerRef, WorkloadInfo
from extender.state.queue.store import Queues
from tests.harness import objects
from tests.queue_makers import admission, condition, flavor, meta, pod_set, workload
from tests.unit.controllers.queue_server import NoPodGroups

NAMESPACE = "ns"
KIND = "batch/job"

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@dataclass(frozen=True, slots=True)
class Shape:
    """How many Jobs of how many indexes, and how many indexes end between two statuses."""

    name: str
    jobs: int
    indexes: int
    at_once: int = 1
    scattered: bool = False

    @property
    def counted(self) -> int:
        """Pods whose end is written as a count: the end of the Job gives back the last ones."""
        return self.jobs * (self.indexes - (self.indexes % self.at_once or self.at_once))


@dataclass(frozen=True, slots=True)
class Result:
    """What the changes of one shape took."""

    shape: Shape
    changes: int
    seconds: float
    longest: int
    """Characters of the longest list."""
    reclaimed: int
    """Pods that gave their quota back before their Job ended."""

    @property
    def per_change(self) -> float:
        """Microseconds of CPU for a change of status."""
        return self.seconds / self.changes * 1e6

    @property
    def per_index(self) -> float:
        """Microseconds of CPU for an index, from its start to its end."""
        return self.seconds / (self.shape.jobs * self.shape.indexes) * 1e6


class Answers:
    """The API server of Workloads and Jobs: it stores whatever it is sent."""

    async def write_status(self, before: WorkloadInfo, after: WorkloadInfo) -> WorkloadInfo:
        """Store a status."""
        return replace(after, meta=replace(before.meta, version=meta("").version))

    def __getattr__(self, name: str) -> Any:
        """Fail: nothing else is written of a Job that runs."""
        raise AssertionError(f"{name} is not expected")


class Bench:
    """Jobs that run, with their quota."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self.queues = Queues()
        self._decoder = QueueDecoder(Decoder())
        answers: Any = Answers()
        self._controller = JobController(
            self.queues,
            Workloads(self.queues, answers),
            answers,
            record=lambda _: None,
            clock=SystemClock(),
            options=JobOptions(builtin(), LabelSelector(), NoPodGroups()),
        )
        self.queues.apply(ev.Applied(flavor()))
        for number in range(shape.jobs):
            self._admit(f"job-{number}")

    def _admit(self, name: str) -> None:
        count = self._shape.indexes
        template = json.dumps(_source(name, count, "")["spec"]["template"]).encode()
        made = workload(f"workload-{name}", replace(pod_set(1, count), template=template))
        admitted = replace(
            made,
            owners=(OwnerRef("batch/v1", "Job", name, name),),
            admission=admission(made),
            conditions=(condition("QuotaReserved"), condition("Admitted")),
        )
        self.queues.apply(ev.Applied(admitted))

    async def run(self) -> Result:
        """Return what it took until all indexes were done."""
        shape, seconds, changes, longest = self._shape, 0.0, 0, 0
        for text in lists(shape):
            longest = max(longest, len(text))
            for number in range(shape.jobs):
                name = f"job-{number}"
                source = _source(name, shape.indexes, text)
                raw = json.dumps(source).encode()
                began = time.process_time()
                self.queues.apply(ev.JobApplied(self._decoder.job(raw, kind=KIND)))
                await self._controller.reconcile((KIND, f"{NAMESPACE}/{name}"))
                seconds += time.process_time() - began
                changes += 1
        found = self.queues.view().workloads.values()
        reclaimed = sum(each.reclaimable.get("main", 0) for each in found)
        return Result(shape, changes, seconds, longest, reclaimed)


def lists(shape: Shape) -> Iterator[str]:
    """Yield the lists of completed indexes, one for each status."""
    order = [*range(shape.indexes)]
    if shape.scattered:
        order = [*order[::2], *order[1::2]]
    done: set[int] = set()
    for first in range(0, len(order), shape.at_once):
        done.update(order[first : first + shape.at_once])
        yield compressed(done)


def compressed(indexes: set[int]) -> str:
    """Return indexes as the job controller lists them."""
    parts: list[str] = []
    for first in sorted(index for index in indexes if index - 1 not in indexes):
        last = first
        while last + 1 in indexes:
            last += 1
        joint = "-" if last > first + 1 else ","
        parts.append(str(first) if first == last else f"{first}{joint}{last}")
    return ",".join(parts)


def _source(name: str, indexes: int, completed: str) -> dict[str, Any]:
    job = objects.job(name, indexes, namespace=NAMESPACE, indexed=True, queue="cq", cpu=1)
    job["metadata"] |= {"uid": name, "resourceVersion": str(meta("").version)}
    job["spec"]["suspend"] = False
    job["status"] = {"completedIndexes": completed, "active": 1}
    return job


def show(results: Sequence[Result]) -> Table:
    """Return a table; ratios are to the last one."""
    table = Table("shape", "changes", "CPU us/change", "CPU us/index", "ratio", "list", "reclaimed")
    for each in results:
        table.add_row(
            each.shape.name,
            str(each.changes),
            f"{each.per_change:.0f}",
            f"{each.per_index:.1f}",
            f"{each.per_index / results[-1].per_index:.2f}",
            f"{each.longest} characters",
            str(each.reclaimed),
        )
    return table


@app.command(help=__doc__)
def main(
    indexes: Annotated[int, typer.Option(min=100, help="Indexes in all.")] = 10_000,
    changes: Annotated[int, typer.Option(min=1, help="Statuses of the one Job.")] = 500,
) -> None:
    """Run all shapes and print the table."""
    at_once = -(-indexes // changes)
    shapes = (
        Shape(f"1 x {indexes}, in order", 1, indexes, at_once),
        Shape(f"1 x {indexes}, every second first", 1, indexes, at_once, scattered=True),
        Shape(f"{indexes // 10} x 10", indexes // 10, 10),
    )
    results = [asyncio.run(Bench(shape).run()) for shape in shapes]
    Console(width=120).print(show(results))
    if any(each.reclaimed != each.shape.counted for each in results):
        raise typer.Exit(1)


if __name__ == "__main__":
    app()
