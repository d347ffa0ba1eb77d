"""A pod that is bound ahead has one Event `Scheduled`: ours, or kube-scheduler's."""

from dataclasses import replace

import pytest

from extender.kube.recorder import Event, ObjectRef
from extender.permit.ahead.write import Announcer
from extender.permit.awaiting_bind import AwaitingBind
from extender.permit.timing import LATE_SECONDS
from extender.state.cluster import events as ev
from extender.state.cluster.store import Cluster
from tests.makers import ManualClock, nodes, observe, pods

A, B = pods(2)


class Scene:
    def __init__(self, *, behind: bool = False) -> None:
        self.behind = behind
        self.clock = ManualClock()
        self.awaiting_bind = AwaitingBind(self.clock)
        self.events: list[Event] = []
        self.cluster = Cluster()
        observe(self.cluster, *nodes(4, 4), A, B)
        self.announcer = Announcer(
            self.events.append,
            clock=self.clock,
            awaiting_bind=self.awaiting_bind,
            view=self.cluster.view(),
            behind=lambda: self.behind,
        )

    def later(self, seconds: float = LATE_SECONDS) -> list[str]:
        """Return the pods that have Events after some time."""
        self.clock.now += seconds
        self.announcer.look()
        return [event.about.name for event in self.events]


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_it_says_what_kube_scheduler_says(scene: Scene) -> None:
    scene.announcer.bound(A, "n0")

    assert scene.later(LATE_SECONDS / 2) == []
    assert scene.later(LATE_SECONDS / 2) == ["gang-0"]
    [event] = scene.events
    assert event.about == ObjectRef("v1", "Pod", "ns", "gang-0", "gang-0")
    assert (event.reason, event.action, event.warning) == ("Scheduled", "Binding", False)
    assert event.note == "Successfully assigned ns/gang-0 to n0"
    assert scene.later() == ["gang-0"]


def test_a_pod_that_kube_scheduler_asks_for_has_its_event_from_there(scene: Scene) -> None:
    for each in (A, B):
        scene.announcer.bound(each, "n0")
    scene.announcer.asked(A.uid)

    assert scene.later() == ["gang-1"]


def test_a_pod_that_kube_scheduler_has_awaiting_bind_is_waited_for(scene: Scene) -> None:
    scene.announcer.bound(A, "n0")
    scene.announcer.bound(B, "n0")
    scene.awaiting_bind.begin(A.uid, "n0")

    assert scene.later() == ["gang-1"]
    scene.awaiting_bind.end(A.uid)
    assert scene.later() == ["gang-1", "gang-0"]


def test_a_pod_whose_binding_was_made_without_an_answer_has_its_event(scene: Scene) -> None:
    scene.announcer.unsure(A, "n0")
    scene.announcer.unsure(B, "n0")
    assert scene.later() == []
    observe(scene.cluster, replace(A, node="n0"))
    assert scene.later(0) == []

    assert scene.later() == ["gang-0"]
    assert scene.later() == ["gang-0"]


def test_a_pod_that_is_bound_later_has_one_event(scene: Scene) -> None:
    scene.announcer.unsure(A, "n0")
    scene.announcer.bound(A, "n0")
    observe(scene.cluster, replace(A, node="n0"))

    assert scene.later() == ["gang-0"]
    assert scene.later() == ["gang-0"]


def test_a_pod_that_kube_scheduler_brings_again_has_its_event_from_there(scene: Scene) -> None:
    scene.announcer.unsure(A, "n0")
    scene.announcer.asked(A.uid)
    observe(scene.cluster, replace(A, node="n0"))

    assert scene.later() == []


def test_a_pod_that_goes_or_is_bound_elsewhere_has_no_event_of_ours(scene: Scene) -> None:
    scene.announcer.unsure(A, "n0")
    scene.announcer.unsure(B, "n0")
    observe(scene.cluster, ev.PodDeleted(A.uid), replace(B, node="n1"))

    assert scene.later() == []
    observe(scene.cluster, replace(A, uid="again", node="n0"), replace(B, node="n0"))
    assert scene.later() == []


def test_a_pod_that_kube_scheduler_has_not_seen_is_waited_for_while_it_is_behind() -> None:
    """It may still bring it, and write an Event of its own."""
    scene = Scene(behind=True)
    scene.announcer.bound(A, "n0")
    scene.cluster.apply(ev.Planned({A.uid: "n0"}))
    scene.cluster.apply(ev.BoundAhead({A.uid: "n0"}))
    assert scene.later() == []
    scene.announcer.bound(B, "n0")  # which was seen
    assert scene.later() == ["gang-1"]
    scene.behind = False

    assert scene.later() == ["gang-1", "gang-0"]
