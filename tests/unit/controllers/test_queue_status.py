"""What the owner of a ClusterQueue learns besides its status."""

from collections.abc import Sequence
from typing import Any

import pytest
from structlog.testing import capture_logs
from typing_extensions import override

from extender.api.wellknown import (
    IN_USE_FINALIZER,
    PREEMPT_FOR_ROOM_ANNOTATION,
    RELEASE_QUOTA,
    REQUIRE_ROOM_ANNOTATION,
)
from extender.controllers.queue_status import QueueStatusController
from extender.kube.queues import QueueWriter
from extender.kube.recorder import Event
from extender.state.queue import events as ev
from extender.state.queue.records import Meta
from extender.state.queue.store import Queues
from tests.makers import ManualClock
from tests.queue_makers import cluster_queue, flavor, meta


class Writer(QueueWriter):
    def __init__(self) -> None:
        pass

    @override
    async def write_status(self, plural: str, meta: Meta, status: dict[str, Any]) -> None:
        pass

    @override
    async def set_finalizers(self, plural: str, meta: Meta, finalizers: Sequence[str]) -> None:
        raise AssertionError(plural, meta, finalizers)


LATE = "scheduling.x-k8s.io/pods-ready-timeout"
JOB_OVERRIDES = "scheduling.x-k8s.io/job-overrides"
BLOCK = "scheduling.x-k8s.io/pods-ready-block-admission"


class Scene:
    """A ClusterQueue whose annotations change."""

    def __init__(self) -> None:
        self.queues, self.events = Queues(), list[Event]()
        self.controller = QueueStatusController(
            self.queues, Writer(), record=self.events.append, clock=ManualClock()
        )
        self.queues.apply(ev.Applied(flavor()))

    async def say(self, annotations: dict[str, str], uid: str = "cq") -> None:
        found = meta("cq", uid=uid, annotations=annotations, finalizers=(IN_USE_FINALIZER,))
        self.queues.apply(ev.Applied(cluster_queue(meta=found)))
        await self.look()

    async def look(self) -> None:
        await self.controller.reconcile(("clusterqueues", "cq"))

    def reported(self) -> list[str]:
        """Return the Events, which are all warnings about the ClusterQueue."""
        assert {(e.about.kind, e.about.name, e.reason, e.warning) for e in self.events} <= {
            ("ClusterQueue", "cq", "Misconfigured", True)
        }
        return [event.note for event in self.events]


@pytest.mark.parametrize(
    ("words", "reported"),
    [
        (["true", " False", None], []),
        (["yes", "yes", "Yes "], ["yes"]),
        (["yes", "no", "true", "no"], ["yes", "no", "no"]),
    ],
)
async def test_an_unreadable_setting_gets_one_event(
    words: list[str | None], reported: list[str]
) -> None:
    scene = Scene()
    for said in words:
        await scene.say({} if said is None else {REQUIRE_ROOM_ANNOTATION: said})
    assert scene.reported() == [
        f"{REQUIRE_ROOM_ANNOTATION}={said} is ignored: it is to be true, false or Provision"
        for said in reported
    ]


@pytest.mark.parametrize(
    ("name", "said", "wanted"),
    [
        (RELEASE_QUOTA, "whenever", "OnTerminating or OnTerminal"),
        (RELEASE_QUOTA, "onterminal", "OnTerminating or OnTerminal"),
        (LATE, "soon", "a duration such as 300, 90s or 5m, above 0"),
        (BLOCK, "True", "true or false"),
    ],
)
async def test_the_event_says_what_each_setting_is_to_be(name: str, said: str, wanted: str) -> None:
    scene = Scene()
    with capture_logs() as logs:
        for _ in range(2):
            await scene.say({name: said})
    assert scene.reported() == [f"{name}={said} is ignored: it is to be {wanted}"]
    assert [(each["name"], each["settings"]) for each in logs] == [("cq", *scene.reported())]


async def test_all_unreadable_settings_are_in_one_event() -> None:
    scene = Scene()
    await scene.say({RELEASE_QUOTA: "never", REQUIRE_ROOM_ANNOTATION: "yes", LATE: "9" * 5000})
    [note] = scene.reported()
    assert [each.partition(" ")[0] for each in note.split("; ")] == [
        f"{LATE}={'9' * 40}",
        f"{REQUIRE_ROOM_ANNOTATION}=yes",
        f"{RELEASE_QUOTA}=never",
    ]


async def test_an_unreadable_override_gets_an_event() -> None:
    scene = Scene()
    await scene.say({JOB_OVERRIDES: "pods-ready-timeout<=2h, release"})
    [note] = scene.reported()
    assert note.startswith(f"{JOB_OVERRIDES}: release is ignored: it is to begin with one of ")


async def test_what_a_topology_overrules_gets_an_event() -> None:
    scene, said = Scene(), {PREEMPT_FOR_ROOM_ANNOTATION: "LowerPriority"}
    await scene.say(said)
    assert scene.reported() == []
    scene.queues.apply(ev.Applied(flavor(topology="racks")))
    await scene.look()
    await scene.say({**said, REQUIRE_ROOM_ANNOTATION: "false"})
    why = "has no effect: flavor default has a topology"
    first = f"{PREEMPT_FOR_ROOM_ANNOTATION}=LowerPriority {why}"
    assert scene.reported() == [first, f"{REQUIRE_ROOM_ANNOTATION}=false {why}; {first}"]


async def test_a_queue_that_is_made_anew_gets_a_new_event() -> None:
    scene = Scene()
    await scene.say({RELEASE_QUOTA: "never"})
    scene.queues.apply(ev.Deleted(cluster_queue(meta=meta("cq"))))
    await scene.look()
    await scene.say({RELEASE_QUOTA: "never"}, uid="another")
    assert len(scene.reported()) == 2
    assert scene.events[1].about.uid == "another"
