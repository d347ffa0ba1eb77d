"""What was read of the objects of jobs that are made of several, such as the pods of a group.

To decode a thousand pods takes longer than others may wait for the event loop. So the objects of a
job of very many are read with rests, and what was read of each is kept until it changes. A decision
then reads those few that changed meanwhile, and is about one state of the job.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from extender.jobs.pod import Pod
from extender.jobs.registry import Integration
from extender.runtime.pacer import Pacer
from extender.state.queues.records import JobObject
from extender.state.queues.snapshot import QueueSnapshot

MANY: Final = 64
"""Objects that are read with rests: fewer take a few milliseconds. Of smaller jobs none is kept."""

Unit = tuple[str, str]


class Members:
    """Objects by `JobObject.unit`; an object that changed in any way is read anew."""

    def __init__(
        self, snapshot: QueueSnapshot, integrations: Mapping[str, Integration], pacer: Pacer
    ) -> None:
        self._snapshot = snapshot
        self._integrations = integrations
        self._pacer = pacer
        self._known: dict[Unit, dict[str, Pod]] = {}
        """By job, and by UID of the object."""

    async def learn(self, unit: Unit) -> None:
        """Read the objects of a job of very many, with rests in between.

        Fewer than `MANY` are left, those that came or changed meanwhile, or the one that cannot be
        read and those after it.
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

    def of(self, objects: Sequence[JobObject]) -> list[Pod]:
        """Return what there is to read of all objects of a job as they are now.

        What is no object of it any more is forgotten. Raises an error of `kube.decode.UNREADABLE`,
        or any other that odd data causes.
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
        if self._snapshot.size(unit) < MANY:
            return []
        objects = self._snapshot.unit(unit)
        if self._integrations[objects[0].kind].read is None:
            return []
        return [each for each in objects if self._kept(each) is None]

    def _is_current(self, found: JobObject) -> bool:
        return self._snapshot.job_of(found.meta.uid, found.meta.namespace) is found

    def _kept(self, found: JobObject) -> Pod | None:
        known = self._known.get(found.unit, {}).get(found.meta.uid)
        return known if known is not None and known.source == found.raw else None

    def _read(self, found: JobObject) -> Pod:
        """Return an object as it was read before, or read it and keep that."""
        kept = self._kept(found)
        if kept is not None:
            return kept
        read = self._integrations[found.kind].read
        if read is None:
            raise TypeError(f"objects of {found.kind} are jobs of their own")
        made = self._known.setdefault(found.unit, {})[found.meta.uid] = read(found.raw)
        return made
