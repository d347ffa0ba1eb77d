"""What was seen of running jobs: how far they were, and since when pods are missing.

Nothing of it is stored. A new process counts from where it sees a job first.
"""

from dataclasses import dataclass
from typing import Final

from extender.jobs.generic_job import GenericJob, is_progressing
from extender.jobs.readiness import Progress

RECOVERS: Final = 5.0
"""Seconds that pods may be missing, and none be done, before it is told that they are."""

Key = tuple[str, str]


@dataclass(slots=True)
class _Course:
    """Numbers are of pods that are done for good."""

    began: int
    missed: int
    done: int
    since: float | None = None
    """When pods were missed, or the last one was done since."""


class Courses:
    """One course for each job that has quota."""

    def __init__(self) -> None:
        self._courses: dict[Key, _Course] = {}

    def look(self, key: Key, job: GenericJob, *, has_quota: bool) -> Progress:
        """Take how a job is now; return how far it was. With the quota its course ends."""
        if not has_quota:
            self.forget(key)
            return Progress()
        done = job.pods_done() if is_progressing(job) else 0
        course = self._courses.setdefault(key, _Course(done, done, done))
        course.done = done
        if job.is_suspended():
            course.began = done
        return self.seen(key)

    def seen(self, key: Key) -> Progress:
        """Return how far a job was, as far as that is known."""
        course = self._courses.get(key)
        return Progress(course.began, course.missed) if course else Progress()

    def missed(self, key: Key, now: float) -> float:
        """Take that pods are missing; return for how many seconds that is not told yet.

        They may come at once: so it is each time that a pod is done and the next takes its place.
        """
        course = self._courses.setdefault(key, _Course(0, 0, 0))
        if course.since is None or course.done > course.missed:
            course.since, course.missed = now, course.done
        return max(0.0, course.since + RECOVERS - now)

    def complete(self, key: Key) -> None:
        """Take that no pods are missing, or that it was told."""
        if key in self._courses:
            self._courses[key].since = None

    def forget(self, key: Key) -> None:
        """Forget a job that has no quota or is gone."""
        self._courses.pop(key, None)
