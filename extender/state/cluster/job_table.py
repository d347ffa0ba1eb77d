"""The tables of Jobs: what their groups have of them, their makers, and which a queue holds."""

from dataclasses import dataclass, field
from math import inf

from extender.state.cluster.events import JobsManaged
from extender.state.cluster.records import JobInfo


@dataclass(slots=True)
class JobTable:
    """Jobs, those that are gone as long as their group goes on. Written by `Cluster` only."""

    by_uid: dict[str, JobInfo] = field(default_factory=dict)
    managed: JobsManaged = field(default_factory=JobsManaged)
    watched: set[str] = field(default_factory=set)
    """Kinds, as GROUP/KIND, of which all are known."""
    made: dict[str, set[str]] = field(default_factory=dict)
    """By UID of their maker: UIDs."""
    of_group: dict[str, set[str]] = field(default_factory=dict)
    """By group: the UIDs of those that have pods."""
    gone: set[str] = field(default_factory=set)
    """UIDs of those that completed and were deleted since, and whose work still counts."""
    work: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By group: how many pods its Jobs begin with, and have behind them, in this run of it.

    A run goes on as long as one of its Jobs does: one that completed counts while another goes on
    that was there then.
    """

    def is_managed(self, job: JobInfo, namespace: str) -> bool:
        """Return whether a job in a namespace needs a queue to admit it, itself or its owner."""
        if job.held_by_queue is not None:
            return True
        managed = self.managed
        return job.needs_quota and job.kind in managed.kinds and namespace not in managed.except_in

    def put(self, job: JobInfo) -> None:
        """Store a Job in place of its former version."""
        self._forget(job.uid)
        self.by_uid[job.uid] = job
        if job.maker is not None:
            self.made.setdefault(job.maker, set()).add(job.uid)
        if job.group is not None and job.begun:
            self.of_group.setdefault(job.group, set()).add(job.uid)
            self._count(job.group)

    def drop(self, uid: str) -> None:
        """Forget a Job, which may be unknown; later, where its work still counts."""
        job = self.by_uid.get(uid)
        if job is not None and job.completed is not None and job.group is not None:
            self.gone.add(uid)
            self._count(job.group)
        else:
            self._forget(uid)

    def _forget(self, uid: str) -> None:
        self.gone.discard(uid)
        job = self.by_uid.pop(uid, None)
        if job is None:
            return
        if job.maker is not None:
            _take(self.made, job.maker, uid)
        if job.group is not None and job.begun:
            _take(self.of_group, job.group, uid)
            self._count(job.group)

    def _count(self, group: str) -> None:
        jobs = [self.by_uid[uid] for uid in self.of_group.get(group, ())]
        since = min((job.created for job in jobs if job.completed is None), default=inf)
        counted = [job for job in jobs if job.completed is None or job.completed >= since]
        self.work.pop(group, None)
        if since < inf:
            self.work[group] = sum(job.begun for job in counted), sum(job.done for job in counted)
        over = {job.uid for job in jobs if job.uid in self.gone and job not in counted}
        for uid in over:
            self._forget(uid)


def _take(table: dict[str, set[str]], key: str, uid: str) -> None:
    table[key].discard(uid)
    if not table[key]:
        del table[key]
