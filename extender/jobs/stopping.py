"""How a job is stopped, if it has to be."""

from extender.jobs.actions import Actions, Note, StopJob
from extender.jobs.equivalence import pod_sets_of
from extender.jobs.generic_job import GenericJob
from extender.jobs.names import Word
from extender.jobs.steps import is_stopping, stop_steps
from extender.state.queues.records import WorkloadInfo


def stop(job: GenericJob, reason: str, message: str, *, workload: WorkloadInfo | None) -> Actions:
    """Return how a job that runs, or was only half stopped, is stopped; nothing where it is.

    Its templates are restored as far as the workload tells what they were. Where that has to wait
    for the pods to end, it is the next decision's.
    """
    if job.is_suspended() and not is_stopping(job):
        return ()
    restored = None if workload is None else pod_sets_of(workload)
    steps = stop_steps(job, restored)
    note = None if job.is_suspended() else Note(Word.STOPPED, message)
    return (StopJob(reason, message, steps, note),) if steps else ()
