"""Jobs that run more pods than they run at once: which pod replaces one that succeeded.

Such a pod counts as done only while no pod has its place: then the next wave may be as far from
running as the first one was. All of this is read from pods that are there, so that it is the same
whether or not the Job's own count, which comes later, has them already.
"""

from collections import Counter
from collections.abc import Iterable

from extender.state.cluster.records import JobInfo, PodInfo
from extender.state.cluster.view import ClusterView


def replaced(pods: Iterable[PodInfo], *, view: ClusterView) -> int:
    """Return how many succeeded pods of a group others have been made in place of."""
    alive: Counter[str] = Counter()
    succeeded: Counter[str] = Counter()
    for pod in pods:
        if pod.controller is None:
            continue
        if not pod.finished:
            alive[pod.controller] += 1
        elif pod.phase == "Succeeded":
            succeeded[pod.controller] += 1
    return sum(
        count - _left(job, count, alive=alive[uid])
        for uid, count in succeeded.items()
        if (job := view.job(uid)) is not None
    )


def _left(job: JobInfo, succeeded: int, *, alive: int) -> int:
    """Return how many succeeded pods will have no other in their place, or have none yet."""
    return min(succeeded, max(succeeded - job.more, job.begun - alive))
