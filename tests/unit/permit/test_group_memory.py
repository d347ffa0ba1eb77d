"""What is remembered of a group, and every occasion on which it is or is not forgotten."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from extender.api.reasons import Reason
from extender.gang.verdicts import GangOptions, Lack, Refuse, Room
from extender.permit import group_memory as module
from extender.permit.group_memory import ENDED_BY, GroupMemory, VerdictKind
from extender.permit.hold import WaitingPods
from extender.state.cluster import events as ev
from extender.state.cluster.records import PodGroupInfo, PodInfo
from extender.telemetry.metrics import Metrics
from tests.makers import ManualClock, cluster_of, key, node, nodes, observe, pod, pod_group, shape

pytestmark = pytest.mark.looptime

G = key("gang")
GANG = pod_group("gang", 2, uid="first")
LACK = Lack(G, 0, (shape(2),), 2, Room.FREE)
NO_ROOM = Refuse(Reason.NOT_ENOUGH_RESOURCES, "no room", deny=True, lack=LACK)
OFFERED = replace(NO_ROOM, of_offer=True)
LARGE = Lack(G, 0, (shape(9),), 1, Room.EMPTY)
NEVER = Refuse(Reason.NEVER_FITS, "never", deny=True, lack=LARGE)
LATE = Refuse(Reason.SCHEDULE_TIMEOUT, "late", deny=True)


REFUSED = Refuse(Reason.BINDING_REFUSED, "a policy says no", deny=True)


class Scene:
    """A gang of two pods beside full nodes, and what is remembered of it."""

    def __init__(self, **options: Any) -> None:
        full = [pod(f"full-{n}", 2, on=f"n{n // 2}") for n in range(4)]
        small = pod("small", 1, on="n2")
        members = [pod(f"gang-{n}", 2, group="gang") for n in range(2)]
        self.cluster = cluster_of(nodes(4, 4, 1), full, small, GANG, members)
        self.clock = ManualClock()
        self.verdicts = GroupMemory(self.cluster, options=GangOptions(**options), clock=self.clock)
        # It reports what changes.
        WaitingPods(self.cluster, self.verdicts, metrics=Metrics(), try_beside=lambda _: None)

    def see(self, *facts: Any) -> None:
        observe(self.cluster, *facts)

    def pass_time(self) -> None:
        self.clock.now += 3600

    def recreate(self) -> None:
        self.see(ev.ObjectDeleted(PodGroupInfo, (GANG.api_group, G)), replace(GANG, uid="second"))


MADE: dict[
    str, tuple[VerdictKind, Callable[[GroupMemory], object], Callable[[GroupMemory], object]]
] = {
    "denied": (
        VerdictKind.DENIED,
        lambda known: known.failed(G, OFFERED),
        lambda known: known.denied(G),
    ),
    "denied, for bind": (
        VerdictKind.DENIED,
        lambda known: known.failed(G, OFFERED),
        lambda known: known.failed_within_window(G),
    ),
    "its Bindings are refused": (
        VerdictKind.BINDING_REFUSED,
        lambda known: known.failed(G, REFUSED),
        lambda known: known.denied(G),
    ),
    "no room": (
        VerdictKind.NO_ROOM,
        lambda known: known.found_no_room(G, NO_ROOM),
        lambda known: known.no_room(G),
    ),
    "never fits": (
        VerdictKind.NO_ROOM,
        lambda known: known.failed(G, NEVER),
        lambda known: known.never_fits(G),
    ),
    "rests": (
        VerdictKind.RESTS,
        lambda known: known.rest(G, 9.0),
        lambda known: known.rest_left(G),
    ),
    "permitted": (
        VerdictKind.PERMITTED,
        lambda known: known.note_min_resources(GANG),
        lambda known: known.is_permitted(G),
    ),
    "last failure": (
        VerdictKind.LAST_FAILURE,
        lambda known: known.failed(G, NO_ROOM),
        lambda known: known.last_failure(G),
    ),
}
HAPPENS: dict[str, Callable[[Scene], object]] = {
    "time passes": Scene.pass_time,
    "room elsewhere": lambda scene: scene.see(ev.ObjectDeleted(PodInfo, "small")),
    "room that it lacks": lambda scene: scene.see(
        ev.ObjectDeleted(PodInfo, "full-0"), ev.ObjectDeleted(PodInfo, "full-1")
    ),
    "a node is relabelled": lambda scene: scene.see(node("n2", 1, labels={"rack": "a"})),
    "a larger node comes": lambda scene: scene.see(node("n3", 9)),
    "a member is added": lambda scene: scene.see(pod("gang-2", 2, group="gang")),
    "minMember is changed": lambda scene: scene.see(replace(GANG, min_member=1)),
    "it starts": lambda scene: scene.verdicts.started(G),
    "it fails": lambda scene: scene.verdicts.failed(G, LATE),
    "it is made anew": Scene.recreate,
}
ROOM = {"room elsewhere", "room that it lacks", "a node is relabelled", "a larger node comes"}
STANDS: dict[str, set[str]] = {
    "denied": {"room elsewhere", "a node is relabelled", "it fails"},
    "denied, for bind": {*ROOM, "it fails"},
    "its Bindings are refused": HAPPENS.keys()
    - {"time passes", "minMember is changed", "it is made anew"},
    "no room": {"time passes", "room elsewhere", "a node is relabelled", "it fails"},
    "never fits": {"time passes", *(ROOM - {"a larger node comes"}), "it fails"},
    "rests": {*ROOM, "it fails"},
    "permitted": {*ROOM, "a member is added", "it starts"},
    "last failure": HAPPENS.keys() - {"it starts", "it is made anew"},
}


@pytest.mark.parametrize("event", HAPPENS)
@pytest.mark.parametrize("kind", MADE)
async def test_what_ends_a_verdict(kind: str, event: str) -> None:
    scene, (_, make, ask) = Scene(), MADE[kind]
    assert not ask(scene.verdicts)
    make(scene.verdicts)
    assert ask(scene.verdicts)
    HAPPENS[event](scene)
    assert bool(ask(scene.verdicts)) is (event in STANDS[kind])
    assert bool(ask(scene.verdicts)) is (event in STANDS[kind]), "asking twice changes nothing"


def test_every_kind_is_in_both_tables() -> None:
    assert ENDED_BY.keys() == {*VerdictKind} == {kind for kind, _, _ in MADE.values()}
    assert STANDS.keys() == MADE.keys()


@pytest.mark.parametrize(
    ("seconds", "stands"), [(2.9, True), (3.0, False)], ids=["within", "after"]
)
async def test_a_failure_counts_for_the_window(seconds: float, *, stands: bool) -> None:
    scene = Scene(denied=3.0)
    scene.verdicts.failed(G, LATE)
    scene.clock.now += seconds
    assert scene.verdicts.denied(G) == (LATE if stands else None)


async def test_a_later_failure_neither_extends_nor_replaces_the_first() -> None:
    scene = Scene(denied=3.0)
    scene.verdicts.failed(G, NO_ROOM)
    scene.clock.now += 2
    scene.verdicts.failed(G, LATE)
    assert scene.verdicts.denied(G) == NO_ROOM
    assert scene.verdicts.last_failure(G) == LATE
    scene.clock.now += 1
    assert scene.verdicts.denied(G) is None


async def test_a_failure_after_the_window_starts_another() -> None:
    scene = Scene(denied=3.0)
    for refusal in (NO_ROOM, LATE):
        scene.clock.now += 3
        scene.verdicts.failed(G, refusal)
    scene.clock.now += 2
    assert scene.verdicts.denied(G) == LATE


async def test_room_that_comes_starts_another_window() -> None:
    scene = Scene(denied=3.0)
    scene.verdicts.failed(G, NO_ROOM)
    HAPPENS["room that it lacks"](scene)
    assert scene.verdicts.denied(G) is None
    assert scene.verdicts.failed_within_window(G) is None
    scene.verdicts.failed(G, LATE)
    assert scene.verdicts.denied(G) == LATE


@pytest.mark.parametrize(
    ("window", "refusal", "denied", "no_room"),
    [
        (0.0, LATE, False, False),
        (3.0, NEVER, False, True),
        # What was offered is not all the room that there is.
        (3.0, OFFERED, True, False),
    ],
    ids=["the window is zero", "it never fits", "it was about the offered nodes"],
)
async def test_what_a_failure_leaves(
    window: float, refusal: Refuse, *, denied: bool, no_room: bool
) -> None:
    scene = Scene(denied=window)
    scene.verdicts.failed(G, refusal)
    assert scene.verdicts.denied(G) == (refusal if denied else None)
    assert (scene.verdicts.no_room(G) is not None) == no_room
    assert scene.verdicts.has_no_room(G) == (denied or no_room)
    assert scene.verdicts.last_failure(G) == refusal


async def test_a_group_is_permitted_for_its_own_time() -> None:
    scene = Scene(schedule_timeout=50.0)
    quick = pod_group("quick", schedule_timeout=5.0)
    scene.see(quick)
    scene.verdicts.note_min_resources(GANG)
    scene.verdicts.note_min_resources(quick)
    scene.clock.now += 5
    assert not scene.verdicts.is_permitted(quick.key)
    assert scene.verdicts.is_permitted(G)
    scene.see(replace(GANG, min_resources={"cpu": 1}))
    assert not scene.verdicts.is_permitted(G)


async def test_what_is_left_of_a_lack_is_returned() -> None:
    scene = Scene()
    scene.verdicts.found_no_room(G, NO_ROOM)
    scene.see(ev.ObjectDeleted(PodInfo, "full-0"))
    found = scene.verdicts.no_room(G)
    assert found is not None
    assert found.lack is not None
    assert found.lack.missing == 1


async def test_a_verdict_is_true_of_what_was_there_when_it_was_begun() -> None:
    scene = Scene()
    since = scene.verdicts.since(G)
    HAPPENS["room that it lacks"](scene)
    assert scene.verdicts.is_as_it_was(G, since)
    scene.verdicts.failed(G, NO_ROOM, since=since)
    assert scene.verdicts.denied(G) is None
    HAPPENS["a member is added"](scene)
    assert not scene.verdicts.is_as_it_was(G, since)


async def test_the_memory_does_not_grow_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REMEMBERED", 100)
    scene = Scene()
    for number in range(200):
        scene.verdicts.failed(f"ns/{number}", LATE)
        scene.verdicts.changed(f"ns/other-{number}")
        assert scene.verdicts.denied("ns/0"), "one that is asked for stays"
    assert len(scene.verdicts._known) == 100
    assert scene.verdicts.denied("ns/1") is None


async def test_nothing_is_remembered_of_groups_that_are_gone() -> None:
    scene = Scene()
    for number in range(50):
        group = pod_group(f"short-{number}", 1, uid=f"uid-{number}")
        member = pod(f"short-{number}-0", group=f"short-{number}")
        scene.see(group, member)
        since = scene.verdicts.since(group.key)
        scene.verdicts.failed(group.key, NO_ROOM)
        scene.verdicts.note_min_resources(group)
        scene.verdicts.started(group.key)
        gone = [
            ev.ObjectDeleted(PodInfo, member.uid),
            ev.ObjectDeleted(PodGroupInfo, (group.api_group, group.key)),
        ]
        scene.see(gone if number % 2 else gone[::-1])
        assert not scene.verdicts.is_as_it_was(group.key, since)
        scene.see(group)
        assert not scene.verdicts.is_as_it_was(group.key, since), "nor when it comes again"
        scene.see(gone[1])
    assert not scene.verdicts._known


@pytest.mark.parametrize(("denied", "first"), [(3.0, 3), (0.0, 1), (90.0, 90)])
async def test_a_group_whose_bindings_are_refused_waits_longer_each_time_until_it_is_whole(
    denied: float, first: int
) -> None:
    scene = Scene(denied=denied)
    seconds = []
    for _ in range(7):
        scene.verdicts.failed(G, REFUSED)
        scene.verdicts.failed(G, REFUSED)
        seconds.append(scene.verdicts.denied_left(G))
        scene.clock.now += seconds[-1]
        assert scene.verdicts.denied(G) is None

    assert seconds == [max(first, min(60, first * 2**n)) for n in range(7)]
    scene.see([replace(each, node="n0") for each in scene.cluster.view().members(G)])
    scene.verdicts.failed(G, REFUSED)
    assert scene.verdicts.denied_left(G) == first
