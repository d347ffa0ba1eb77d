"""The decoded objects of jobs that consist of several, such as the pods of a group.

Decoding a thousand pods takes longer than other tasks may wait for the event loop. So the objects
of a large job are decoded with pauses, and each is kept until it changes. A decision then decodes
the few that changed meanwhile, and is about one state of the job.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from extender.jobs.kinds.pod import PlainPod
from extender.jobs.registry import Integration
from extender.runtime.pacer import Pacer
from extender.state.queue.records import JobObject
from extender.state.queue.view import QueueView

MANY: Final = 64
"""Objects that make a job large: fewer take a few milliseconds and are not kept."""

Unit = tuple[str, str]


class Members:
    """Decoded objects by `JobObject.unit`; a changed object is decoded again."""

    def __init__(
        self, view: QueueView, integrations: Mapping[str, Integration], pacer: Pacer
    ) -> None:
        self._view = view
        self._integrations = integrations
        self._pacer = pacer
        self._known: dict[Unit, dict[str, PlainPod]] = {}
        """By job, and by UID of the object."""

    async def learn(self, unit: Unit) -> None:
        """Decode the objects of a large job, with pauses.

        Fewer than `MANY` are left: those that came or changed meanwhile, or the one that cannot be
        decoded and those after it.
        """
        while len(new := self._unread(unit)) >= MANY:
            for each in new:
                if not self._is_current(each):
                    continue
                try:
                    self._read(each)
                except Exception:  # noqa: BLE001 - raised again by `of`, where it is set aside
                    return
                if self._pacer.is_due:
                    await self._pacer.rest()
            await self._pacer.rest()

    def of(self, objects: Sequence[JobObject]) -> list[PlainPod]:
        """Return all current objects of a job, decoded; former ones are forgotten.

        Raises an error of `kube.decode.UNREADABLE`, or any other that unexpected data causes.
        """
        unit, known = objects[0].unit, {}
        for each in objects:
            known[each.meta.uid] = self._read(each)
        if len(objects) < MANY:
            self.forget(unit)
        else:
            self._known[unit] = known
        return [known[each.meta.uid] for each in objects]

    def forget(self, unit: Unit) -> None:
        """Forget the objects of a job that is gone."""
        self._known.pop(unit, None)

    def _unread(self, unit: Unit) -> list[JobObject]:
        if self._view.size(unit) < MANY:
            return []
        objects = self._view.unit(unit)
        if self._integrations[objects[0].kind].read is None:
            return []
        return [each for each in objects if self._kept(each) is None]

    def _is_current(self, found: JobObject) -> bool:
        return self._view.job_of(found.meta.uid, found.meta.namespace) is found

    def _kept(self, found: JobObject) -> PlainPod | None:
        known = self._known.get(found.unit, {}).get(found.meta.uid)
        return known if known is not None and known.source == found.raw else None

    def _read(self, found: JobObject) -> PlainPod:
        """Return the kept object, or decode it and keep that."""
        kept = self._kept(found)
        if kept is not None:
            return kept
        read = self._integrations[found.kind].read
        if read is None:
            raise TypeError(f"objects of {found.kind} are jobs of their own")
        made = self._known.setdefault(found.unit, {})[found.meta.uid] = read(found.raw)
        return made
