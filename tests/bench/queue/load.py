"""The load, as a file describes it: cohorts of queues, and streams of Workloads into each queue.

The terms are those of Kueue's performance tests. Quotas and requests are CPU as Kubernetes writes
it, and thousandths of a core once read.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer
from pydantic.alias_generators import to_camel

from extender.resources.quantity import CPU, amount

LOADS = Path(__file__).parent / "loads"
BASELINE = LOADS / "baseline.yaml"
SMALL = LOADS / "small.yaml"


def _milli(value: object) -> object:
    """Return thousandths of a core; pydantic refuses what is no quantity by our ValueError."""
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        return amount(CPU, value)
    raise ValueError("not a quantity of CPU such as 500m or 2")


_CPU = (BeforeValidator(_milli), PlainSerializer(lambda milli: f"{milli}m", when_used="json"))
Milli = Annotated[int, *_CPU, Field(gt=0)]
MilliOrZero = Annotated[int, *_CPU, Field(ge=0)]
Count = Annotated[int, Field(ge=1)]
Name = Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$")]


class Model(BaseModel):
    """A part of a file: strict, and its keys as Kubernetes writes them."""

    model_config = ConfigDict(
        alias_generator=to_camel, extra="forbid", frozen=True, strict=True, validate_by_name=True
    )


class WorkloadClass(Model):
    """What one Workload asks for, and how long it runs once it is admitted."""

    class_name: Name
    request: Milli
    runtime_ms: Annotated[int, Field(ge=0)]
    priority: int = 0


class WorkloadsSet(Model):
    """A stream: every interval one of each class, `count` times. A late one is not made up for."""

    count: Count
    creation_interval_ms: Annotated[int, Field(ge=0)] = 0
    workloads: Annotated[list[WorkloadClass], Field(min_length=1)]


class QueuesSet(Model):
    """Equal ClusterQueues, each with the same streams into it."""

    class_name: Name
    count: Count
    nominal_quota: MilliOrZero
    borrowing_limit: MilliOrZero | None = None
    reclaim_within_cohort: Literal["Never", "LowerPriority", "Any"] = "Never"
    within_cluster_queue: Literal["Never", "LowerPriority", "LowerOrNewerEqualPriority"] = "Never"
    workloads_sets: list[WorkloadsSet] = []


@dataclass(frozen=True, slots=True)
class Queue:
    """A ClusterQueue and its LocalQueue, which have the same name."""

    name: str
    cohort: str
    settings: QueuesSet

    @property
    def limit(self) -> int | None:
        """The most that it may use; None where its cohort alone limits it."""
        borrowing = self.settings.borrowing_limit
        return None if borrowing is None else self.settings.nominal_quota + borrowing

    @property
    def count(self) -> int:
        """Number of Workloads that it gets."""
        return sum(each.count * len(each.workloads) for each in self.settings.workloads_sets)


class CohortsSet(Model):
    """Equal cohorts of queues."""

    class_name: Name
    count: Count
    queues_sets: Annotated[list[QueuesSet], Field(min_length=1)]

    def members(self, cohort: str) -> Iterator[Queue]:
        """Yield the queues of the cohort of that name."""
        for queues in self.queues_sets:
            for number in range(queues.count):
                yield Queue(f"{cohort}-{queues.class_name}-{number}", cohort, queues)

    @property
    def nominal(self) -> int:
        """Quota of all queues of one cohort."""
        return sum(each.count * each.nominal_quota for each in self.queues_sets)


class Load(Model):
    """All of a file."""

    cohorts: Annotated[list[CohortsSet], Field(min_length=1)]

    def queues(self) -> Iterator[Queue]:
        """Yield every queue, cohort by cohort."""
        for cohorts in self.cohorts:
            for number in range(cohorts.count):
                yield from cohorts.members(f"{cohorts.class_name}-{number}")

    def classes(self) -> dict[str, WorkloadClass]:
        """Return the classes by name, in the order of the file."""
        return {each.class_name: each for each in self._classes()}

    @property
    def workloads(self) -> int:
        """Number of Workloads in all."""
        return sum(queue.count for queue in self.queues())

    @property
    def nominal(self) -> int:
        """Quota of all queues."""
        return sum(each.count * each.nominal for each in self.cohorts)

    @property
    def planned_seconds(self) -> float:
        """How long the longest stream takes when no Workload is late."""
        return max((_seconds(stream) for stream in self._streams()), default=0.0)

    def _streams(self) -> Iterator[WorkloadsSet]:
        for cohorts in self.cohorts:
            for queues in cohorts.queues_sets:
                yield from queues.workloads_sets

    def _classes(self) -> Iterator[WorkloadClass]:
        for stream in self._streams():
            yield from stream.workloads


def read(path: Path) -> Load:
    """Return the load of a YAML file. ValueError says where it is none."""
    return Load.model_validate(yaml.safe_load(path.read_text()))


def _seconds(stream: WorkloadsSet) -> float:
    return (stream.count - 1) * stream.creation_interval_ms / 1000
