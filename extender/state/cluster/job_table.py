"""The tables of Jobs: what their groups have of them, their makers, and which a queue holds."""

from dataclasses import dataclass, field

from extender.state.cluster.records import JobInfo


@dataclass(slots=True)
class JobTable:
    """Jobs that have not ended. Written by `Cluster` only."""

    by_uid: dict[str, JobInfo] = field(default_factory=dict)
    queued: dict[str, str] = field(default_factory=dict)
    """`namespace/name` of those that have a queue, by UID."""
    made: dict[str, set[str]] = field(default_factory=dict)
    """By UID of their maker: UIDs."""
    work: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By group: how many pods its Jobs begin with, and have behind them."""

    def put(self, job: JobInfo) -> None:
        """Store a Job in place of its former version."""
        self.drop(job.uid)
        self.by_uid[job.uid] = job
        if job.held_by_queue:
            self.queued[job.uid] = job.held_by_queue
        if job.maker is not None:
            self.made.setdefault(job.maker, set()).add(job.uid)
        self._count(job, 1)

    def drop(self, uid: str) -> None:
        """Forget a Job, which may be unknown."""
        job = self.by_uid.pop(uid, None)
        if job is None:
            return
        self.queued.pop(uid, None)
        if job.maker is not None:
            there = self.made[job.maker]
            there.discard(uid)
            if not there:
                del self.made[job.maker]
        self._count(job, -1)

    def _count(self, job: JobInfo, sign: int) -> None:
        if job.group is None or not job.begun:
            return
        begun, done = self.work.pop(job.group, (0, 0))
        begun, done = begun + sign * job.begun, done + sign * job.done
        if begun:
            self.work[job.group] = (begun, done)
