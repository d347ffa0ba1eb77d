"""batch/v1 Job, NonIndexed and Indexed."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import ClassVar, Final, Self

import msgspec
from typing_extensions import override

from extender.api import wellknown
from extender.api.values import (
    KNOWN_TEXTS,
    count_below,
    indexes_below,
    pods_at_first,
    pods_left,
    remembered,
)
from extender.jobs import fields, templates
from extender.jobs.fields import Object
from extender.jobs.job import Finished, GenericJob, Slot, Step, guarded, merge_patch
from extender.jobs.templates import Placement
from extender.state.queue.records import JobObject

_POD_SET: Final = "main"
_DONE: Final = ("completed", "failed")
_ENDING: Final = ("SuccessCriteriaMet", "FailureTarget")


class BatchJob(GenericJob):
    """A Job.

    The API server takes another template only while the Job is suspended, has no pods and has no
    start time; servers before 1.36 leave the time of the last start there. So a stop takes up to
    three writes, and waits between the first and the second. An annotation marks a stop that has
    begun and not ended.
    """

    integration: ClassVar = "batch/job"
    kind: ClassVar = "Job"
    group: ClassVar = "batch"
    version: ClassVar = "v1"
    plural: ClassVar = "jobs"

    @override
    def slots(self) -> list[Slot]:
        template, least = fields.ensure(self._object, "spec", "template"), self._least()
        # Once an index is done, fewer completions would leave out indexes that are not done.
        settled = self._completions_follow() and self._done()
        fewer = None if settled or not 0 < least < self._pods() else least
        return [Slot(_POD_SET, self._pods(), template, fewer)]

    @override
    def inject_node_selectors(self, placements: Sequence[Placement]) -> None:
        """Inject the placement; a Job that got less quota gets fewer pods."""
        super().inject_node_selectors(placements)
        given = next((each.count for each in placements if each.name == _POD_SET), None)
        if given is not None and self._least() and given < self._left(self._done()):
            self._set_parallelism(given)

    @override
    def restore_node_selectors(self, pod_sets: Sequence[Slot]) -> None:
        """Undo the injection, and restore the number of pods."""
        super().restore_node_selectors(pod_sets)
        before = next((each.count for each in pod_sets if each.name == _POD_SET), None)
        if before is not None and self._least() and before != self._pods():
            self._set_parallelism(before)

    @override
    def finished(self) -> Finished | None:
        return self.ended_by(succeeded="Complete", failed="Failed")

    @override
    def pods_ready(self) -> bool:
        """Return whether as many pods are ready as can run now, without those that succeeded."""
        return self.pods_ready_since(self.pods_done())

    @override
    def pods_ready_since(self, done: int) -> bool:
        """Count the pods that were done since `done` as ready."""
        ready = fields.count(self._object, "status", "ready") + self.pods_done() - done
        # Once its end is decided only its pods are left to go.
        ending = any(fields.condition(self._object, each) is not None for each in _ENDING)
        return ending or ready >= self._left(done)

    @override
    def pods_done(self) -> int:
        """Count also the pods that the status does not count yet."""
        uncounted = fields.value(self._object, "status", "uncountedTerminatedPods", "succeeded")
        fresh = len(uncounted) if isinstance(uncounted, list) and not self._is_indexed() else 0
        return self._done() + fresh

    @override
    def makes(self, kind: str, name: str) -> bool:
        """Return False: it makes only pods, which are no jobs of their own."""
        return False

    @override
    def is_active(self) -> bool:
        """Return whether pods run; pods that are being deleted do not count."""
        return self._active() != 0

    @override
    def reclaimable_pods(self) -> Mapping[str, int]:
        """Return by how many pods fewer it will run from now on than it began with."""
        done = self._done()
        spare = self._pods() - self._left(done) if done else 0
        return {_POD_SET: spare} if spare else {}

    @override
    def terminating_pods(self) -> Mapping[str, int]:
        """Return how many pods are being deleted and have not ended, beside those that should run.

        With the policy `Failed` a pod is replaced only when it has ended, and keeps its place.
        """
        ending = fields.count(self._object, "status", "terminating")
        policy = fields.text(self._object, "spec", "podReplacementPolicy")
        if policy == "Failed" and not self.is_suspended():
            ending -= max(0, self._left(self._done()) - self._active())
        return {_POD_SET: max(0, ending)}

    # -- start and stop

    @override
    def is_stopping(self) -> bool:
        marked = bool(fields.annotation(self._object, wellknown.STOPPING_ANNOTATION))
        return marked and self.is_suspended()

    def follow_steps(self, before: Object, after: Object) -> Sequence[Step]:
        """Return the writes that make a suspended child Job follow a template of its owner."""
        changed = deepcopy(self)
        templates.follow(changed.slots()[0].template, before, after)
        return self._steps_to(changed) if changed.object != self._object else ()

    @override
    def _steps_to(self, changed: Self) -> Sequence[Step]:
        """Return the write of a start, behind one that removes the time of an earlier start."""
        patch = merge_patch(self._object, changed.object)
        forget = self._forget_start() if "template" in fields.mapping(patch, "spec") else []
        if forget:  # the version is another one after it
            return [*forget, self._unversioned(patch)]
        return [guarded(patch, self._object)]

    @override
    def stop_steps(self, pod_sets: Sequence[Slot] | None) -> list[Step]:
        """Return the write that suspends it, or the rest once no pod is left.

        Until then the API server takes no other template.
        """
        if not self.is_suspended():
            mark: Object = {"metadata": {"annotations": {wellknown.STOPPING_ANNOTATION: "true"}}}
            return [self._unversioned({**mark, "spec": {"suspend": True}})]
        if self.is_active():
            return []
        restored = deepcopy(self)
        if pod_sets is not None:
            restored.restore_node_selectors(pod_sets)
        if self.is_stopping():
            del fields.ensure(restored.object, "metadata", "annotations")[
                wellknown.STOPPING_ANNOTATION
            ]
        restore = merge_patch(self._object, restored.object)
        last = [self._unversioned(restore)] if restore else []
        return [*self._forget_start(), *last]

    def _forget_start(self) -> list[Step]:
        if not fields.text(self._object, "status", "startTime"):
            return []
        return [guarded({"status": {"startTime": None}}, self._object, subresource="status")]

    def _unversioned(self, patch: Object) -> Step:
        uid = fields.text(self._object, "metadata", "uid")
        return Step({**patch, "metadata": {**fields.mapping(patch, "metadata"), "uid": uid}})

    # -- counts

    def _parallelism(self) -> int:
        return fields.count(self._object, "spec", "parallelism", default=1)

    def _completions(self) -> int | None:
        """Return how many successes it takes; None for a work queue."""
        return fields.number(self._object, "spec", "completions")

    def _active(self) -> int:
        return fields.count(self._object, "status", "active")

    def _pods(self) -> int:
        return pods_at_first(self._parallelism(), self._completions())

    def _left(self, done: int) -> int:
        of = self._parallelism(), self._completions()
        return pods_left(*of, done=done, active=self._active())

    def _is_indexed(self) -> bool:
        return fields.text(self._object, "spec", "completionMode") == "Indexed"

    def _done(self) -> int:
        """Return how many pods or indexes are done for good, without failures that are retried."""
        if not self._is_indexed():
            return fields.count(self._object, "status", "succeeded")
        return count_below(self._completions() or 0, *_done_indexes(self._object))

    def _least(self) -> int:
        return fields.whole(fields.annotation(self._object, wellknown.MIN_PARALLELISM_ANNOTATION))

    def _completions_follow(self) -> bool:
        return fields.annotation(self._object, wellknown.COMPLETIONS_EQUAL_PARALLELISM) == "true"

    def _set_parallelism(self, count: int) -> None:
        spec = fields.ensure(self._object, "spec")
        spec["parallelism"] = count
        if self._completions_follow():
            spec["completions"] = count


def _done_indexes(job: Object) -> list[str]:
    return [fields.text(job, "status", f"{what}Indexes") for what in _DONE]


def done_ranks(job: JobObject | None, places: int) -> frozenset[int] | None:
    """Return the indexes that are done of a Job with a place for each index.

    None for other jobs, of which it is not known which pod had which place.
    """
    if job is None or job.completion_mode != "Indexed":
        return None
    return _read(job.raw, places)


@remembered(KNOWN_TEXTS)
def _read(raw: bytes, places: int) -> frozenset[int] | None:
    try:
        found = msgspec.json.decode(raw)
    except (msgspec.MsgspecError, RecursionError):
        return None
    completions = fields.number(found, "spec", "completions")
    if completions is None or completions > places:
        return None
    return indexes_below(places, *_done_indexes(found))
