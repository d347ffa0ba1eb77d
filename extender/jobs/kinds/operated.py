"""Jobs whose pods are made by the operator of another project.

An operator notices a stop later than it is written, and its child Jobs keep what an earlier start
gave them. So a stop leaves a mark, with what the pods were given and whether any ran. Until the
operator has said that it noticed, no quota is released and nothing is started. The next start takes
the mark away, and brings the child Jobs in line with the templates.
"""

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from copy import deepcopy
from typing import ClassVar

import msgspec
from typing_extensions import override

from extender.api.wellknown import STOPPED_ANNOTATION
from extender.jobs import fields, templates
from extender.jobs.fields import Object
from extender.jobs.job import ChildChange, GenericJob, JobPodSet
from extender.jobs.templates import Placement


class _Mark(msgspec.Struct):
    """A stop of ours."""

    active: bool = False
    """True if the status counted pods or child Jobs when the stop was written."""
    given: dict[str, Object] = {}
    """The scheduling directives that the last start gave to the pods, by pod set."""


class OperatedJob(GenericJob):
    """A job of another project."""

    resumes_as_made: ClassVar[bool] = False
    """True if the operator resumes a child Job with the template that it was made with. Otherwise
    it adds what the owner's template has, and takes nothing away."""

    @abstractmethod
    def notices_stop(self) -> bool:
        """Return whether the status says that the operator has seen the job suspended."""

    def child_jobs(self) -> Iterable[tuple[str, str]]:
        """Yield the pod set and the name of each child Job that stays while the job is stopped."""
        return ()

    @override
    def has_stopped(self) -> bool:
        return self._mark() is None or (self.notices_stop() and not self.is_active())

    @override
    def unsuspend(self) -> None:
        """Unsuspend the job, and take away the mark of a stop."""
        super().unsuspend()
        if self._mark() is not None:
            del fields.ensure(self.object, "metadata", "annotations")[STOPPED_ANNOTATION]

    @override
    def child_changes(self, placements: Sequence[Placement]) -> Sequence[ChildChange]:
        changed, mark = deepcopy(self), self._mark() or _Mark()
        changed.inject_node_selectors(placements)
        after = {slot.name: slot.template for slot in changed.slots()}
        stale = {
            name
            for name, template in after.items()
            if self.resumes_as_made or templates.added(mark.given.get(name, {}), template)
        }
        return [
            ChildChange(name, mark.given.get(pod_set, {}), after[pod_set])
            for pod_set, name in (self.child_jobs() if stale else ())
            if pod_set in stale
        ]

    @override
    def stop_mark(self, pod_sets: Sequence[JobPodSet] | None) -> str:
        before = {each.name: each.template for each in pod_sets or ()}
        given = {
            slot.name: found
            for slot in self.slots()
            if (found := templates.added(slot.template, before.get(slot.name, slot.template)))
        }
        return msgspec.json.encode(_Mark(self.is_active(), given)).decode()

    def was_active(self) -> bool:
        """Return whether the status counted pods or child Jobs when the job was stopped."""
        mark = self._mark()
        return mark is not None and mark.active

    def _mark(self) -> _Mark | None:
        said = fields.annotation(self.object, STOPPED_ANNOTATION)
        try:
            return msgspec.json.decode(said, type=_Mark) if said else None
        except msgspec.MsgspecError:
            return _Mark()
