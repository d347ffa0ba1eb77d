"""Reports objects that name a queue and are not queued.

The settings leave their kind out, or they are Deployments whose pods name no queue.
"""

from collections.abc import Callable, Iterator, Sequence

from extender.api.reasons import JobReason
from extender.api.wellknown import QUEUE_LABEL, UNPREPARED
from extender.kube.recorder import Event, ObjectRef
from extender.kube.reflector import Feed, Identity


class Unqueued:
    """The objects that name a queue for nothing, and one Event about each of them."""

    def __init__(self, record: Callable[[Event], None]) -> None:
        self._record = record
        self._there: dict[str, Identity] = {}
        self._reported: set[str] = set()
        self.leads = False
        """True if this process reports them."""

    def feed(self, kind: str) -> Feed[Identity]:
        """Return the feed that takes the objects of a kind."""

        def listed(found: Sequence[Identity], _: int) -> Iterator[None]:
            there = {each.uid for each in found}
            for each in [*self._there.values()]:
                if each.kind == kind and each.uid not in there:
                    self._drop(each)
            yield from map(self._put, found)

        return Feed(listed, self._put, self._drop, lambda which: self._there.get(which.uid))

    def report(self) -> None:
        """Report all that are not reported yet."""
        for each in self._there.values():
            self._put(each)

    def _put(self, found: Identity) -> None:
        if not found.kind:  # it is queued by its pods
            self._drop(found)
            return
        self._there[found.uid] = found
        if not self.leads or found.uid in self._reported:
            return
        self._reported.add(found.uid)
        left_out = "queue.integrations does not name its kind"
        remedy = UNPREPARED if found.kind == "Deployment" else left_out
        note = f"label {QUEUE_LABEL} has no effect on this {found.kind}: {remedy}"
        about = ObjectRef(found.api_version, found.kind, found.namespace, found.name, found.uid)
        reason = JobReason.NOT_QUEUED
        self._record(Event(about, reason, note, reason, warning=True, occasion=note))

    def _drop(self, found: Identity) -> None:
        self._there.pop(found.uid, None)
        self._reported.discard(found.uid)
