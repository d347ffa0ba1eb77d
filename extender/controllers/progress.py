"""The observed progress of running jobs: how many pods are done, and since when pods are missing.

It is not stored. A new process counts from where it first sees a job.
"""

from dataclasses import dataclass
from typing import Final

from extender.jobs.job import GenericJob
from extender.jobs.readiness import JobProgress
from extender.runtime.clock import Clock

RECOVER_SECONDS: Final = 5.0
"""How long pods may be missing, while none completes, before that is reported."""

END_SECONDS: Final = 2.0
"""How long all pods of a job may be done, while it has not ended, before their quota is given back:
a job mostly ends at once, and its end gives back all quota in one write."""

END_PATIENCE: Final = 60.0
COME_PATIENCE: Final = 5.0
"""For how many seconds pods may take to end, or to come, before that is reported."""

Key = tuple[str, str]


@dataclass(slots=True)
class _Observed:
    """Counts of pods that are done for good."""

    began: int
    missed: int
    done: int
    since: float | None = None
    """When pods went missing, or the last one was done since."""
    done_since: float | None = None
    """When all pods were done."""


class ProgressTable:
    """The progress of each job that has quota."""

    def __init__(self) -> None:
        self._jobs: dict[Key, _Observed] = {}

    def look(self, key: Key, job: GenericJob, *, has_quota: bool) -> JobProgress:
        """Observe a job; return its progress. Its progress ends with its quota."""
        if not has_quota:
            self.forget(key)
            return JobProgress()
        done = job.pods_done()
        job_progress = self._jobs.setdefault(key, _Observed(done, done, done))
        job_progress.done = done
        if job.is_suspended():
            job_progress.began = done
        return self.seen(key)

    def seen(self, key: Key) -> JobProgress:
        """Return the observed progress of a job."""
        job_progress = self._jobs.get(key)
        return (
            JobProgress(job_progress.began, job_progress.missed) if job_progress else JobProgress()
        )

    def missed(self, key: Key, now: float) -> float:
        """Record missing pods; return the seconds left before it is reported.

        They may come at once, as each time that a pod is done and the next one takes its place.
        """
        job_progress = self._jobs.setdefault(key, _Observed(0, 0, 0))
        if job_progress.since is None or job_progress.done > job_progress.missed:
            job_progress.since, job_progress.missed = now, job_progress.done
        return max(0.0, job_progress.since + RECOVER_SECONDS - now)

    def complete(self, key: Key) -> None:
        """Record that no pods are missing, or that the loss was reported."""
        if key in self._jobs:
            self._jobs[key].since = None

    def all_done(self, key: Key, now: float) -> float:
        """Record that all pods are done; return the seconds left before their quota is free."""
        job_progress = self._jobs.setdefault(key, _Observed(0, 0, 0))
        if job_progress.done_since is None:
            job_progress.done_since = now
        return max(0.0, job_progress.done_since + END_SECONDS - now)

    def forget(self, key: Key) -> None:
        """Forget a job that has no quota or is gone."""
        self._jobs.pop(key, None)


class Patience:
    """For how long jobs have waited for pods: for those of a stop to end, or of a group to come."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until: dict[Key, tuple[float, float]] = {}
        """The longest time that a wait may take, and its end."""

    def is_over(self, key: Key, job: GenericJob, *, has_stopped: bool) -> bool:
        """Note whether a job waits, and return whether it has waited for long."""
        ends, patience = job.is_active() or not has_stopped, 0.0
        if job.is_suspended() and (ends or job.incomplete()):
            patience = END_PATIENCE if ends else COME_PATIENCE
        if not patience:
            self.forget(key)
        elif self._until.get(key, (0.0,))[0] != patience:
            self._until[key] = patience, self._clock.monotonic() + patience
        return bool(patience) and self.left(key) is None

    def left(self, key: Key) -> float | None:
        """Return in how many seconds a wait is long, None where none is under way."""
        found = self._until.get(key)
        return max(0.0, found[1] - self._clock.monotonic()) or None if found else None

    def forget(self, key: Key) -> None:
        """Forget a job that is gone."""
        self._until.pop(key, None)
