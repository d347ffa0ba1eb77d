"""A load as a YAML file describes it: nodes that are partly used, and classes of Jobs.

Quotas, requests and nodes are CPU as Kubernetes writes it, and thousandths of a core once read.
"""

from pathlib import Path
from typing import Annotated, Literal

import yaml
from pydantic import Field

from tests.bench.queue.load import Count, Milli, MilliOrZero, Model, Name

LOADS = Path(__file__).parent / "loads"
FRAGMENTED = LOADS / "fragmented.yaml"
IN_TURN = LOADS / "in-turn.yaml"
TWO_QUEUES = LOADS / "two-queues.yaml"
SMALL = LOADS / "small.yaml"

SHARED = "bench"
"""The ClusterQueue of all classes."""
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False, strict=False)]


class NodesSet(Model):
    """Equal nodes. What is used of them is used for good, by pods beside the queue."""

    class_name: Name
    count: Count
    cpu: Milli
    used: MilliOrZero = 0

    @property
    def free(self) -> int:
        """CPU of one of them that Jobs may use."""
        return self.cpu - self.used


class JobClass(Model):
    """Equal Jobs; the runtime is counted from when all pods of one run."""

    class_name: Name
    pods: Count
    cpu: Milli
    runtime_ms: Annotated[int, Field(ge=0)]
    quota: Milli | None = None
    """Of a ClusterQueue that this class has for itself."""
    waiting: Count | None = None
    """How many of this class are kept waiting for admission."""
    in_turn: Count = 1
    """How many are made one after the other, before the next class has its turn."""

    @property
    def request(self) -> int:
        """CPU of all its pods."""
        return self.pods * self.cpu

    @property
    def runtime(self) -> float:
        """Seconds that it runs."""
        return self.runtime_ms / 1000


class Load(Model):
    """All of a file."""

    nodes: Annotated[list[NodesSet], Field(min_length=1)]
    quota: Milli | None = None
    """Of the one ClusterQueue of all classes."""
    queueing_strategy: Literal["BestEffortFIFO", "StrictFIFO"] = "BestEffortFIFO"
    classes: Annotated[list[JobClass], Field(min_length=1)]
    waiting: Count | None = None
    """How many are kept waiting of all classes together, which then are made strictly in turn: a
    class that is passed by the others soon is all that waits."""
    pods_ready_timeout_seconds: Seconds
    backoff_base_seconds: Seconds
    aging_seconds: Seconds
    """How long a Job waits for room before some is kept for it."""
    window_seconds: Seconds
    """How long it is measured, from the first admission."""
    waited_seconds: Seconds
    """A gang that is not on nodes so long after it has all its pods waits for room."""
    most_jobs: Count
    """How many Jobs are made, at most."""

    @property
    def free(self) -> int:
        """CPU of all nodes that Jobs may use."""
        return sum(each.count * each.free for each in self.nodes)

    @property
    def quotas(self) -> dict[str, int]:
        """Quota by ClusterQueue."""
        if self.quota is not None:
            return {SHARED: self.quota}
        return {each.class_name: each.quota or 0 for each in self.classes}

    def quota_of(self, kind: JobClass) -> int:
        """Return the quota that a class may have all of."""
        return self.quota or kind.quota or 0

    def kind(self, name: str) -> JobClass:
        """Return a class by its name."""
        return next(each for each in self.classes if each.class_name == name)


def read(path: Path) -> Load:
    """Return the load of a YAML file. ValueError says where it is none."""
    return Load.model_validate(yaml.safe_load(path.read_text()))
