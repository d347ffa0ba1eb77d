"""The one watch of batch Jobs that feeds both states of `reconcile`.

The cluster's state has something of every Job, the queue's has whole Jobs: those with a queue name,
or all of them where all are managed. An event is decoded for both, and applied to both in one step.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from extender.api.wellknown import QUEUE_LABEL
from extender.jobs.kinds.batch_job import BatchJob
from extender.kube.decode import DecodeError
from extender.kube.reflector import Feed, Reflector
from extender.kube.set_aside import Identity, identify
from extender.kube.watch import Watcher
from extender.state.cluster import events as cluster_events
from extender.state.cluster.records import JobInfo
from extender.state.cluster.store import Cluster
from extender.state.queue import events as queue_events
from extender.state.queue.records import JobObject
from extender.state.queue.store import Queues
from extender.wiring.reflectors import JOBS

INTEGRATION: Final = BatchJob.integration


@dataclass(frozen=True, slots=True)
class SeenJob:
    """The records of one event for each state; None where a state gets none."""

    info: JobInfo | None
    job: JobObject | None = None
    unreadable: str = ""
    """The reason why one of the states keeps what it has; the other has what can be read."""


class BatchJobs:
    """Decodes each event of the watch once for each state, and applies it to both.

    The queue's state sees what a watch by the queue label would show: a Job that loses the label is
    deleted there, though not for good. Without `all_jobs` no Job that lacks it is kept whole.
    """

    def __init__(
        self,
        cluster: Cluster,
        queues: Queues,
        *,
        read_info: Callable[[bytes], JobInfo],
        read_job: Callable[[bytes], JobObject],
        all_jobs: bool,
    ) -> None:
        self._cluster, self._queues = cluster, queues
        self._read_info, self._read_job = read_info, read_job
        self._all = all_jobs
        self._mark = b"" if all_jobs else QUEUE_LABEL.encode()
        self._shown: set[str] = set()
        """UIDs of the Jobs that the queue's state was shown and that are not deleted there."""

    def reflector(self, watcher: Watcher) -> Reflector[SeenJob]:
        """Return what follows the watch."""
        return Reflector[SeenJob](
            JOBS,
            watcher,
            self._read,
            feed=Feed(
                listed=self._listed, applied=self._applied, deleted=self._deleted, known=self._known
            ),
        )

    def _read(self, raw: bytes) -> SeenJob:
        """Return a Job for both states. Raises DecodeError where none that needs it can read it."""
        try:
            info = self._read_info(raw)
        except DecodeError as error:
            job = self._read_job(raw)
            if not self._concerns_queue(job):
                raise
            return SeenJob(self._cluster.view().job(job.meta.uid), job, str(error))
        if self._mark not in raw and info.uid not in self._shown:
            return SeenJob(info)
        try:
            job = self._read_job(raw)
        except DecodeError as error:
            return SeenJob(info, self._known_job(identify(raw)), str(error))
        return SeenJob(info, job if self._concerns_queue(job) else None)

    def _is_queued(self, job: JobObject) -> bool:
        return self._all or QUEUE_LABEL in job.meta.labels

    def _concerns_queue(self, job: JobObject) -> bool:
        return self._is_queued(job) or job.meta.uid in self._shown

    def _known(self, which: Identity) -> SeenJob | None:
        info = self._cluster.view().job(which.uid)
        job = self._known_job(which)
        return SeenJob(info, job) if info or job else None

    def _known_job(self, which: Identity) -> JobObject | None:
        return self._queues.view().job_of(which.uid, which.namespace)

    def _listed(self, found: Sequence[SeenJob], version: int) -> Iterator[object]:
        infos = [each.info for each in found if each.info is not None]
        jobs = [each.job for each in found if each.job is not None and self._is_queued(each.job)]
        yield from self._cluster.replace(cluster_events.BatchJobsListed(infos))
        self._shown = {job.meta.uid for job in jobs}
        yield from self._queues.replace(queue_events.JobsListed(INTEGRATION, jobs, version))

    def _applied(self, seen: SeenJob) -> None:
        if seen.info is not None:
            self._cluster.apply(cluster_events.BatchJobApplied(seen.info))
        if seen.job is None:
            return
        if self._is_queued(seen.job):
            self._shown.add(seen.job.meta.uid)
            self._queues.apply(queue_events.JobApplied(seen.job))
        else:
            self._hide(seen.job)

    def _deleted(self, seen: SeenJob) -> None:
        if seen.info is not None:
            self._cluster.apply(cluster_events.BatchJobDeleted(seen.info.uid))
        if seen.job is not None:
            self._hide(seen.job)

    def _hide(self, job: JobObject) -> None:
        """Delete a Job in the queue's state, if the watch has shown it there."""
        if job.meta.uid in self._shown:
            self._shown.discard(job.meta.uid)
            self._queues.apply(queue_events.JobDeleted(job))
