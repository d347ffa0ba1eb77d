"""What a simulation begins with, wherever it comes from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from extender.gang.options import GangOptions
from extender.queueing.options import AdmissionOptions
from extender.simulate.clock import EPOCH
from extender.simulate.jobs import SimJob
from extender.state.cluster.records import JobInfo, NodeInfo, PodGroupInfo
from extender.state.queue.events import Record
from extender.state.queue.pod_defaults import Complete


@dataclass(slots=True)
class World:
    """Nodes, queues, jobs that are there and jobs that come; times in seconds."""

    nodes: Sequence[NodeInfo]
    records: Sequence[Record]
    """Queues, and workloads that are there at the beginning."""
    jobs: Sequence[SimJob]
    """Jobs that come, in the order of their numbers."""
    queue: AdmissionOptions
    gang: GangOptions
    pod_groups: Sequence[PodGroupInfo] = ()
    """PodGroups that are there at the beginning."""
    batch_jobs: Sequence[JobInfo] = ()
    """Jobs that are there at the beginning and have pods in groups."""
    makes_groups: bool = True
    """`queue.podGroups: Auto`."""
    running: Sequence[SimJob] = ()
    """Jobs that are there at the beginning, with their pods."""
    ends: Mapping[str, float] = field(default_factory=dict)
    """When pods end that are there at the beginning, by UID; of others it is not known."""
    step: float = 0.1
    until: float | None = None
    began: float = EPOCH
    version: int = 1
    """The highest resourceVersion."""
    complete: Complete | None = None
    """Completes pod sets by LimitRanges and RuntimeClasses."""
    compare: bool = False
    """Whether it is to be played with kube-scheduler alone as well."""
    notes: Sequence[str] = ()
    """What is assumed, or left out."""

    def runs_of(self, job: SimJob, uids: Sequence[str], now: float) -> dict[float, list[str]]:
        """Return for how long pods of a job run from now on: UIDs by seconds.

        Pods of which it is not known are left out: they do not end.
        """
        found: dict[float, list[str]] = {}
        if not self.ends:
            return {} if job.runs is None else {job.runs: [*uids]}
        for uid in uids:
            end = self.ends.get(uid)
            seconds = job.runs if end is None else max(0.0, end - now)
            if seconds is not None:
                found.setdefault(seconds, []).append(uid)
        return found
