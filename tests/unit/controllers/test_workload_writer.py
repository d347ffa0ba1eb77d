"""What learns of a status that is written, also where its answer is lost."""

from collections.abc import Mapping
from typing import Any

import pytest
from typing_extensions import override

from extender.controllers.workload_writer import Workloads
from extender.kube.errors import ConflictError, UnavailableError
from extender.queueing import transitions as to
from extender.state.queue import events as ev
from extender.state.queue.records import WorkloadInfo
from extender.state.queue.store import Queues
from tests.queue_makers import pod_set, workload
from tests.unit.controllers.queue_server import LOST, Server


class Forgetful(Server):
    """Answers nothing of the next status: it is stored or not."""

    stores: bool | None = None

    @override
    async def write_status(self, before: WorkloadInfo, after: WorkloadInfo) -> WorkloadInfo:
        stores, self.stores = self.stores, None
        if stores is False:
            raise UnavailableError("nothing answers")
        stored = await super().write_status(before, after)
        if stores:
            raise LOST
        return stored


class Scene:
    def __init__(self) -> None:
        self.queues, self.server = Queues(), Forgetful()
        self.reported: list[tuple[bool, bool]] = []
        self.workloads = Workloads(self.queues, self.server, written=self._take)
        self.before = workload("w", pod_set(1))
        self.after = to.finished(self.before, "Succeeded", "", now=1.5)
        self.server.stored[self.before.key] = self.before
        self.queues.apply(ev.Applied(self.before))

    def _take(self, before: WorkloadInfo, after: WorkloadInfo) -> None:
        self.reported.append((before.finished, after.finished))

    async def fail(self, *, stores: bool) -> None:
        self.server.stores = stores
        with pytest.raises(UnavailableError):
            await self.write()
        assert self.reported == []

    async def write(self) -> None:
        await self.workloads.write_status(self.before, self.after)

    def see(self, **changes: Any) -> None:
        """Have the watch show it, perhaps with what another client has changed since."""
        if changes:
            self.server.touch(self.before.key, **changes)
        self.queues.apply(ev.Applied(self.server.stored[self.before.key]))


ONCE = [(False, True)]


async def test_a_status_gets_one_event() -> None:
    scene = Scene()
    await scene.write()
    scene.see()
    assert scene.reported == ONCE


async def test_a_status_stored_without_an_answer_gets_its_event_when_the_watch_shows_it() -> None:
    scene = Scene()
    await scene.fail(stores=True)
    scene.see()
    scene.see(priority=7)
    assert scene.reported == ONCE


async def test_a_status_stored_without_an_answer_gets_its_event_when_the_next_write_finds_it() -> (
    None
):
    scene = Scene()
    await scene.fail(stores=True)
    with pytest.raises(ConflictError):
        await scene.write()
    scene.see()
    assert scene.reported == ONCE


async def test_a_status_that_was_not_stored_gets_its_event_when_it_is() -> None:
    scene = Scene()
    await scene.fail(stores=False)
    await scene.write()
    scene.see()
    assert scene.reported == ONCE


@pytest.mark.parametrize("changes", [{"priority": 7}, {"conditions": ()}])
async def test_what_another_one_stored_is_not_ours(changes: Mapping[str, Any]) -> None:
    scene = Scene()
    await scene.fail(stores=False)
    scene.see(**changes)
    assert scene.reported == []
