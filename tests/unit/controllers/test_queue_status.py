"""What the owner of a ClusterQueue is told besides its status."""

from collections.abc import Sequence
from typing import Any

import pytest

from extender.api.wellknown import IN_USE_FINALIZER, REQUIRE_ROOM_ANNOTATION
from extender.controllers.queue_status import QueueStatusController
from extender.kube.recorder import Event
from extender.state.queues import events as ev
from extender.state.queues.records import ClusterQueueInfo, Meta
from extender.state.queues.store import Queues
from tests.makers import ManualClock
from tests.queue_makers import cluster_queue, flavor, meta


class Writer:
    async def write_status(self, plural: str, meta: Meta, status: dict[str, Any]) -> None:
        pass

    async def set_finalizers(self, plural: str, meta: Meta, finalizers: Sequence[str]) -> None:
        raise AssertionError(plural, meta, finalizers)


def saying(said: str | None) -> ClusterQueueInfo:
    annotations = {} if said is None else {REQUIRE_ROOM_ANNOTATION: said}
    return cluster_queue(meta=meta("cq", annotations=annotations, finalizers=(IN_USE_FINALIZER,)))


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["true", " False", None], []),
        (["yes", "yes", "Yes "], ["yes"]),
        (["yes", "no", "true", "no"], ["yes", "no", "no"]),
    ],
)
async def test_a_word_that_cannot_be_read_is_told_once(
    words: list[str | None], told: list[str]
) -> None:
    queues, events = Queues(), list[Event]()
    controller = QueueStatusController(queues, Writer(), record=events.append, clock=ManualClock())
    queues.apply(ev.Applied(flavor()))
    for said in words:
        queues.apply(ev.Applied(saying(said)))
        await controller.reconcile(("clusterqueues", "cq"))
    assert [event.note for event in events] == [
        f"{REQUIRE_ROOM_ANNOTATION} is to be true or false, not {said}: it is ignored"
        for said in told
    ]
    assert all(
        (event.about.kind, event.reason) == ("ClusterQueue", "Misconfigured") for event in events
    )
