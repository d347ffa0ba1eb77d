"""The Jobs that are suspended and resumed where all of their pods have to go.

The Job controller makes evicted pods again after a pause that doubles with each of them: for eight
pods ten minutes. A Job that is resumed has no such pause.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from extender.state.cluster.records import BATCH_JOB, PodInfo
from extender.state.cluster.view import ClusterView


class WholeJob(NamedTuple):
    """A Job, and its pods that have a node: all of them leave."""

    uid: str
    key: str
    """`namespace/name`."""
    pods: Sequence[PodInfo]


def parted(pods: Collection[PodInfo], view: ClusterView) -> tuple[list[PodInfo], list[WholeJob]]:
    """Return the pods to evict one by one, and the Jobs to suspend in place of the others.

    A Job is suspended if all of its pods that have a node leave, no queue starts and stops it, and
    nothing else has made it that would resume it.
    """
    leaving = {pod.uid for pod in pods}
    by_job = dict[str, list[PodInfo]]()
    for pod in pods:
        job = view.job(pod.controller) if pod.controller is not None else None
        if job is None or job.kind != BATCH_JOB or job.held_by_queue or job.maker:
            continue
        if pod.group is not None and len(pod.owners) == 1:
            by_job.setdefault(job.uid, []).append(pod)
    jobs = [
        WholeJob(uid, there[0].owners[0], there)
        for uid, there in by_job.items()
        if all(each.uid in leaving for each in _on_nodes(uid, there[0].group, view))
    ]
    stopped = {pod.uid for job in jobs for pod in job.pods}
    return [pod for pod in pods if pod.uid not in stopped], jobs


def _on_nodes(job: str, group: str | None, view: ClusterView) -> Iterator[PodInfo]:
    """Yield the pods of a Job that are in a group and stay on their nodes as far as is known."""
    for pod in view.members(group or ""):
        if pod.controller == job and pod.node is not None and not pod.terminating:
            yield pod
