"""The Jobs and JobSets that are suspended and resumed where all of their pods have to go.

The Job controller makes evicted pods again after a pause that doubles with each of them: for eight
pods ten minutes. A Job that is resumed has no such pause.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from extender.api.wellknown import JOB_SET_LABEL
from extender.state.cluster.records import BATCH_JOB, PodInfo
from extender.state.cluster.view import ClusterView


class WholeJob(NamedTuple):
    """A Job or a JobSet, and its pods that have a node: all of them leave."""

    uid: str
    key: str
    """`namespace/name`."""
    pods: Sequence[PodInfo]
    jobs: Mapping[str, str]
    """The Jobs of a JobSet: `namespace/name` by UID. Empty for a Job."""


def parted(pods: Collection[PodInfo], view: ClusterView) -> tuple[list[PodInfo], list[WholeJob]]:
    """Return the pods to evict one by one, and the Jobs to suspend in place of the others.

    A Job, or a JobSet, is suspended if all of its pods that have a node leave, no queue starts and
    stops it, and nothing else has made it that would resume it.
    """
    leaving = {pod.uid for pod in pods}
    by_job = dict[tuple[str, str], list[PodInfo]]()
    for pod in pods:
        found = _stopped_with(pod, view)
        if found is not None:
            by_job.setdefault(found, []).append(pod)
    members = (pod for group in {pod.group for pod in pods} for pod in view.members(group or ""))
    placed = (pod for pod in members if pod.node is not None and not pod.terminating)
    stay = {_stopped_with(pod, view) for pod in placed if pod.uid not in leaving}
    jobs = list[WholeJob]()
    for (uid, key), there in by_job.items():
        of_set = {pod.controller or "": pod.owners[0] for pod in there if pod.controller != uid}
        made = (view.job(each) for each in view.made_by(uid))
        groups = {job.group for job in made if job is not None} if of_set else {there[0].group}
        if groups == {there[0].group} and (uid, key) not in stay:
            jobs.append(WholeJob(uid, key, there, of_set))
    stopped = {pod.uid for job in jobs for pod in job.pods}
    return [pod for pod in pods if pod.uid not in stopped], jobs


def _stopped_with(pod: PodInfo, view: ClusterView) -> tuple[str, str] | None:
    """Return UID and `namespace/name` of the Job or JobSet with which a pod may be stopped."""
    job = view.job(pod.controller) if pod.controller is not None else None
    if job is None or job.kind != BATCH_JOB or pod.group is None or len(pod.owners) != 1:
        return None
    if job.held_by_queue or view.is_admitted_by_number(pod):
        return None
    if job.maker is None:
        return job.uid, pod.owners[0]
    name = pod.labels.get(JOB_SET_LABEL)
    return (job.maker, f"{pod.namespace}/{name}") if name else None
