"""Which members of a gang may be bound without a look of kube-scheduler's at each of them."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pytest

from extender.api.core_v1 import LabelSelector
from extender.api.wellknown import GANG_GATE
from extender.gang import ahead
from extender.gang.ahead import Left, Together
from extender.permit.group_memory import AwaitingBind
from extender.permit.timing import ASSUMED_SECONDS, BACK_OFF_SECONDS, LOOK_SECONDS
from extender.state.cluster import events as ev
from extender.state.cluster.records import (
    JobInfo,
    NodeInfo,
    Pattern,
    PodGroupInfo,
    PodInfo,
    PodTerm,
    Shape,
)
from extender.state.cluster.store import Cluster
from extender.steps import at_once
from tests.makers import (
    ManualClock,
    key,
    node,
    nodes,
    observe,
    planned,
    pod,
    pod_group,
    requests,
    shape,
    taint,
)

NODES: Final = ("n0", "n1", "n2")
OURS: Final = "default-scheduler"


def pattern(of: Shape, **labels: str) -> Pattern:
    """Return a pattern that is equal to no other one."""
    return Pattern(of, "ns", labels or {"app": "x"}, frozenset())


def member(number: int, of: Pattern | None, **more: Any) -> PodInfo:
    """Return a member of the gang of a pattern."""
    asks = of.shape if of is not None else shape()
    return pod(f"gang-{number}", asks, group="gang", pattern=of, **more)


@dataclass
class Scene:
    """A gang of three that is planned, each on its node, after a look at all nodes.

    Nothing keeps any of them from being bound; `change` is what a test changes.
    """

    shape: Shape = field(default_factory=shape)
    schedulers: Sequence[str] = (OURS,)
    proven: Sequence[str] = (OURS,)
    in_hand: AwaitingBind = field(default_factory=lambda: AwaitingBind(ManualClock()))
    barred: Left | None = None
    min_member: int = 3
    cluster: Cluster = field(default_factory=Cluster)

    def __post_init__(self) -> None:
        self.pattern = pattern(self.shape)
        self.members = [member(number, self.pattern) for number in range(3)]
        observe(self.cluster, nodes(4, 4, 4), pod_group(min_member=self.min_member))
        observe(self.cluster, self.members)
        self.look()
        observe(self.cluster, planned(gang_0="n0", gang_1="n1", gang_2="n2"))

    def look(self, *names: str, of: Pattern | None = None) -> ev.Looked:
        """Have kube-scheduler send nodes, all of them if none are named."""
        view, at = self.cluster.view(), 1000.0
        found = ahead.nodes_looked_at(of or self.pattern, names or NODES, view=view, at=at)
        observe(self.cluster, found)
        return found

    def change(self, *facts: Any) -> None:
        """Apply facts."""
        observe(self.cluster, *facts)

    def change_member(self, number: int, **fields: Any) -> None:
        """Show another version of a member."""
        self.change(replace(self.members[number], **fields))

    def decide(self) -> Together:
        """Return the decision."""
        steps = ahead.members_able(
            key("gang"),
            view=self.cluster.view(),
            schedulers=self.schedulers,
            proven=self.proven,
            in_hand=self.in_hand,
            barred=self.barred,
        )
        return at_once(steps)


ALL: Final = {"gang-2": "n2", "gang-1": "n1", "gang-0": "n0"}


def test_a_planned_gang_is_bound_the_last_member_first() -> None:
    found = Scene().decide()
    assert [*found.nodes.items()] == [*ALL.items()]
    assert found.left == Counter()


# --- what keeps one member, and so the gang


def _in_hand(scene: Scene) -> None:
    scene.in_hand = AwaitingBind(clock := ManualClock())
    scene.in_hand.begin("gang-0", "n0")
    clock.now += LOOK_SECONDS


def _only_requested(scene: Scene) -> None:
    scene.change(ev.ObjectDeleted(PodInfo, "gang-0"))
    late = replace(scene.members[0], uid="gang-9")
    scene.change(ev.PodSeen(late), planned(gang_9="n0"))


def _not_admitted(scene: Scene) -> None:
    scene.change_member(0, controller="job")
    scene.change(ev.ObjectApplied(JobInfo("job", held_by_queue="ns/job")))


def _others_there(scene: Scene) -> None:
    scene.change(pod("theirs", on="n0", scheduler="another"))


def _others_there_just_now(scene: Scene) -> None:
    _others_there(scene)
    scene.change(ev.ObjectDeleted(PodInfo, "theirs"))


def _being_bound(scene: Scene) -> None:
    late = pod("late", 4)
    scene.change(late, ev.PodBinding(late, "n0"))


def _held(scene: Scene) -> None:
    late = pod("late", 4, group="other")
    scene.change(late, ev.PodWaiting(late, "n0"))


def _no_slot(scene: Scene) -> None:
    scene.change(node("n0", slots=1))
    scene.look("n0")
    scene.change(pod("late", 0, on="n0"))


ONE: dict[str, tuple[Callable[[Scene], None], Left]] = {
    "its node changed": (
        lambda scene: scene.change(node("n0", labels={"a": "b"})),
        Left.NOT_LOOKED_AT,
    ),
    "its node was made anew": (
        lambda scene: scene.change(
            ev.ObjectDeleted(NodeInfo, "n0"), node("n0"), planned(gang_0="n0")
        ),
        Left.NOT_LOOKED_AT,
    ),
    "its node was not sent": (
        lambda scene: scene.change(node("n3"), planned(gang_0="n3")),
        Left.NOT_LOOKED_AT,
    ),
    # kube-scheduler has looked at the node as it was before the taint that we have seen.
    "our watch is ahead of kube-scheduler's": (
        lambda scene: scene.change(
            node("n0", taints=(taint(),)), ev.Looked(scene.pattern, ("n0",), 1000.0)
        ),
        Left.NOT_FEASIBLE,
    ),
    "no look at its pattern": (
        lambda scene: scene.change_member(0, pattern=pattern(scene.shape, app="y")),
        Left.UNEQUAL,
    ),
    "no pattern": (lambda scene: scene.change_member(0, pattern=None), Left.CONSTRAINED),
    "gated": (lambda scene: scene.change_member(0, gates=(GANG_GATE,)), Left.GATED),
    "nominated": (lambda scene: scene.change_member(0, nominated="n0"), Left.NOMINATED),
    "in hand": (_in_hand, Left.IN_HAND),
    # It was a member that the gang could do without, when it was filtered.
    "in hand, on any node": (lambda scene: scene.in_hand.begin("gang-0", None), Left.IN_HAND),
    "a scheduler that may not ask about all pods": (
        lambda scene: scene.change_member(0, scheduler="gpu-scheduler"),
        Left.MANAGED,
    ),
    "shown by a request alone": (_only_requested, Left.UNCONFIRMED),
    "its Job waits in a queue": (_not_admitted, Left.NOT_ADMITTED),
    "another scheduler's pod is on its node": (_others_there, Left.OTHER_SCHEDULER),
    "another scheduler's pod was": (_others_there_just_now, Left.OTHER_SCHEDULER),
    "a pod has its room": (lambda scene: scene.change(pod("late", 4, on="n0")), Left.NO_ROOM),
    "a pod that is being bound has its room": (_being_bound, Left.NO_ROOM),
    "a member that waits has its room": (_held, Left.NO_ROOM),
    "a better plan has its room": (
        lambda scene: scene.change(pod("late", 4, group="other", priority=5), planned(late="n0")),
        Left.NO_ROOM,
    ),
    "no slot": (_no_slot, Left.NO_ROOM),
}


@pytest.mark.parametrize(("change", "left"), ONE.values(), ids=ONE)
def test_a_member_that_has_to_be_judged_keeps_the_gang(
    change: Callable[[Scene], None], left: Left
) -> None:
    scene = Scene()
    change(scene)
    found = scene.decide()
    assert found.nodes == {}
    assert found.left == {left: 1, Left.QUORUM: 2}


@pytest.mark.parametrize(("change", "left"), ONE.values(), ids=ONE)
def test_a_gang_that_can_do_without_it_goes_ahead(
    change: Callable[[Scene], None], left: Left
) -> None:
    scene = Scene(min_member=2)
    change(scene)
    found = scene.decide()
    assert found.nodes == {"gang-2": "n2", "gang-1": "n1"}
    assert found.left == {left: 1}


# --- what keeps all of them


def _other_books(scene: Scene) -> None:
    scene.change(node("n3", 1), pod("late", 1, on="n3"))
    assert not scene.look("n3").agrees


def _anti_affinity(scene: Scene) -> None:
    term = PodTerm(LabelSelector(match_labels={"app": "x"}))
    scene.change(pod("shy", Shape(requests(1), shuns=(term,)), on="n1"))


def _affinity_of_a_pending_pod(scene: Scene) -> None:
    term = PodTerm(LabelSelector(match_labels={"app": "x"}))
    near = pod("near", Shape(requests(1), seeks=(term,)))
    scene.change(near, ev.PodRefused(near, "r"))


def _higher_of_another_profile(scene: Scene) -> None:
    scene.schedulers = (OURS, "another")
    scene.change(pod("high", priority=1, scheduler="another"))


def _behind(scene: Scene) -> None:
    scene.barred = Left.BEHIND


def _unproven(scene: Scene) -> None:
    scene.proven = ()


EVERY: dict[str, tuple[Callable[[Scene], None], Left]] = {
    "the books differ": (_other_books, Left.DISAGREES),
    "anti-affinity of a pod on any node": (_anti_affinity, Left.NAMED),
    "affinity of a pending pod": (_affinity_of_a_pending_pod, Left.NAMED),
    "a pod of higher priority was not judged": (
        lambda scene: scene.change(pod("high", priority=1)),
        Left.PRIORITY,
    ),
    "one of another profile": (_higher_of_another_profile, Left.PRIORITY),
    "kube-scheduler is behind": (_behind, Left.BEHIND),
    "its scheduler may not ask about all pods": (_unproven, Left.MANAGED),
}


@pytest.mark.parametrize(("change", "left"), EVERY.values(), ids=EVERY)
def test_some_things_keep_every_member(change: Callable[[Scene], None], left: Left) -> None:
    scene = Scene(min_member=1)
    change(scene)
    found = scene.decide()
    assert found.nodes == {}
    assert found.left[left] == 3


# --- what keeps none


def _other_affinity(scene: Scene) -> None:
    term = PodTerm(LabelSelector(match_labels={"app": "y"}))
    scene.change(pod("shy", Shape(requests(1), shuns=(term,)), on="n1"))


def _looked_again(scene: Scene) -> None:
    scene.change(node("n0", labels={"a": "b"}))
    scene.look("n0")


def _profiles(scene: Scene) -> None:
    scene.proven = (OURS, "gpu-scheduler")
    scene.change_member(0, scheduler="gpu-scheduler")


NONE: dict[str, Callable[[Scene], None]] = {
    "a pod of its priority that was not judged": lambda scene: scene.change(pod("late")),
    "a pod of higher priority that found no node": lambda scene: scene.change(
        pod("high", priority=5, unschedulable="0/3 nodes are available")
    ),
    "a pod of higher priority of another scheduler": lambda scene: scene.change(
        pod("high", priority=5, scheduler="another")
    ),
    "a plan that yields": lambda scene: scene.change(
        pod("low", 4, group="other", priority=-5), planned(low="n0")
    ),
    "a pod of our scheduler on its node": lambda scene: scene.change(pod("plain", on="n0")),
    "anti-affinity to other pods": _other_affinity,
    "a look at its changed node": _looked_again,
    "a profile of which it is known too": _profiles,
}


@pytest.mark.parametrize("change", NONE.values(), ids=NONE)
def test_some_things_keep_no_member(change: Callable[[Scene], None]) -> None:
    scene = Scene()
    change(scene)
    assert scene.decide().nodes == ALL


# --- the gang as a whole


def test_members_that_are_bound_or_wait_count_for_the_quorum() -> None:
    scene = Scene()
    scene.change(
        replace(scene.members[0], node="n0", pattern=None), ev.PodWaiting(scene.members[1], "n1")
    )
    assert scene.decide() == Together({"gang-2": "n2"})


def test_a_member_whose_bind_request_is_due_counts_for_the_quorum() -> None:
    scene = Scene()
    scene.in_hand.begin("gang-0", "n0")
    found = scene.decide()
    assert found.nodes == {"gang-2": "n2", "gang-1": "n1"}
    assert found.left == {Left.IN_HAND: 1}
    assert found.coming == ("gang-0",)


def test_a_gang_without_a_plan_is_not_looked_at() -> None:
    scene = Scene()
    scene.change(ev.Unreserved([*ALL]))
    scene.barred = Left.BEHIND
    assert scene.decide() == Together()


def test_a_gang_whose_pod_group_is_gone_is_not_bound() -> None:
    scene = Scene()
    gone = pod_group()
    scene.change(ev.ObjectDeleted(PodGroupInfo, (gone.api_group, gone.key)))
    assert scene.decide() == Together({}, {Left.QUORUM: 3})


def test_members_that_were_refused_are_tried_last_and_low_priority_too() -> None:
    scene = Scene(min_member=4)
    late = replace(scene.members[0], uid="gang-3", name="gang-3", priority=7)
    scene.change(late, planned(gang_3="n0"))
    scene.change(ev.PodRefused(scene.members[0], "r"))
    assert [*scene.decide().nodes] == ["gang-0", "gang-2", "gang-1", "gang-3"]


def test_two_patterns_make_up_one_quorum() -> None:
    scene = Scene()
    other = pattern(shape(2))
    scene.change(member(0, other), planned(gang_0="n0"))
    assert scene.decide().nodes == {}
    scene.look(of=other)
    assert scene.decide().nodes == ALL


# --- room, exactly


def test_what_is_planned_on_one_node_has_to_fit_together() -> None:
    scene = Scene()
    scene.change(planned(gang_0="n0", gang_1="n0", gang_2="n0"))
    assert scene.decide().nodes.keys() == ALL.keys()
    scene.change(pod("late", 2, on="n0"))
    assert scene.decide() == Together({}, {Left.NO_ROOM: 3})


def test_a_resource_of_which_nothing_is_asked_may_be_overdrawn() -> None:
    scene = Scene()
    scene.change(node("n0", gpu=0), pod("late", Shape({"example.com/gpu": 1}), on="n0"))
    scene.change(ev.Looked(scene.pattern, ("n0",), 1000.0))
    assert scene.decide().nodes == ALL


def port(number: int, address: str = "") -> Shape:
    ports = frozenset((("TCP", number, address),))
    return Shape(requests(1), one_per_node=True, host_ports=ports)


PORTS: dict[str, tuple[Shape, bool]] = {
    "the same": (port(80), False),
    "the same of one address": (port(80, "10.0.0.1"), False),
    "another": (port(81), True),
    "none": (shape(), True),
}


@pytest.mark.parametrize(("other", "goes"), PORTS.values(), ids=PORTS)
@pytest.mark.parametrize("how", ["there", "being bound", "planned"])
def test_a_host_port_may_be_taken(how: str, other: Shape, *, goes: bool) -> None:
    scene = Scene(port(80))
    late = pod("late", other, group="other")
    there = {
        "there": [replace(late, node="n0")],
        "being bound": [late, ev.PodBinding(late, "n0")],
        "planned": [late, planned(late="n0")],
    }
    assert scene.decide().nodes == ALL
    scene.change(there[how])
    assert (scene.decide().nodes == ALL) is goes
    assert scene.decide().left[Left.NO_ROOM] == (not goes)


# --- what kube-scheduler has assumed, and has not asked us to bind

LARGE: Final = 4
SMALL: Final = 3


def answered(cpu: int | Shape, at: str | None, *facts: Any, **fields: Any) -> Scene:
    """Return a scene in which filter has answered another pod."""
    scene = Scene()
    other = pod("other", cpu, group="other", **fields)
    scene.change(other, facts)
    scene.in_hand.begin("other", at)
    return scene


def test_a_pod_that_may_be_assumed_on_any_node_has_room_on_each() -> None:
    assert answered(LARGE, None).decide().left == {Left.NO_ROOM: 3}
    assert answered(SMALL, None).decide().nodes == ALL


def test_a_pod_that_is_assumed_on_a_node_has_room_there() -> None:
    assert answered(LARGE, "n0").decide().left == {Left.NO_ROOM: 1, Left.QUORUM: 2}
    assert answered(SMALL, "n0").decide().nodes == ALL


def test_a_plan_that_yields_does_not_once_its_pod_is_assumed() -> None:
    scene = answered(LARGE, "n0", planned(other="n0"), priority=-5)
    assert scene.decide().left == {Left.NO_ROOM: 1, Left.QUORUM: 2}


def test_a_plan_that_does_not_yield_counts_once() -> None:
    scene = answered(SMALL, "n0", planned(other="n0"), priority=0)
    assert scene.decide().nodes == ALL


@pytest.mark.parametrize(
    "fact",
    [
        pod("other", LARGE, group="other", on="n9"),
        ev.PodBinding(pod("other"), "n9"),
        ev.PodWaiting(pod("other"), "n9"),
        ev.ObjectDeleted(PodInfo, "other"),
    ],
    ids=["bound", "being bound", "held", "gone"],
)
def test_a_pod_that_has_its_node_is_assumed_nowhere_else(fact: Any) -> None:
    assert answered(LARGE, None, node("n9"), fact).decide().nodes == ALL


def test_a_host_port_of_a_pod_that_may_be_assumed_is_taken() -> None:
    scene = Scene(port(80))
    scene.change(pod("other", port(80)))
    scene.in_hand.begin("other", "n0")
    assert scene.decide().left == {Left.NO_ROOM: 1, Left.QUORUM: 2}
    scene.in_hand.begin("other", None)
    assert scene.decide().left == {Left.NO_ROOM: 3}


def test_kube_scheduler_may_wait_long_for_the_volumes_of_a_pod() -> None:
    clock = ManualClock()
    scene = Scene(in_hand=AwaitingBind(clock))
    scene.change(pod("other", LARGE))
    scene.in_hand.begin("other", None)
    scene.in_hand.begin("gang-0", "n0")
    clock.now += BACK_OFF_SECONDS
    assert "gang-0" not in scene.in_hand
    clock.now += ASSUMED_SECONDS - BACK_OFF_SECONDS - 1
    assert scene.decide().left == {Left.NO_ROOM: 3}
    clock.now += 1
    assert scene.decide().nodes == ALL


# --- what a request says


def test_a_request_says_that_its_nodes_are_good() -> None:
    scene = Scene()
    scene.change(node("n3"), node("n4"))
    assert scene.look("n0", "n3") == ev.Looked(scene.pattern, ["n3"], 1000.0)
    assert scene.cluster.view().good_nodes(scene.pattern) == {*NODES, "n3"}


SAID: dict[str, list[Any]] = {
    "a node that is unknown here": [],
    "a node that takes no such pod": [node("n3", taints=(taint(),))],
    "a node that is full here": [node("n3", 1), pod("there", 1, on="n3")],
    "a node without a slot": [node("n3", slots=0)],
}


@pytest.mark.parametrize("facts", SAID.values(), ids=SAID)
def test_a_request_that_our_books_contradict_says_nothing(facts: list[Any]) -> None:
    scene = Scene()
    scene.change(facts, node("n4"))
    said = scene.look("n0", "n3", "n4")
    assert said == ev.Looked(scene.pattern, (), 1000.0, agrees=False)
    assert scene.decide().left == {Left.DISAGREES: 3}
    scene.look("n0")
    assert scene.decide().nodes == ALL
