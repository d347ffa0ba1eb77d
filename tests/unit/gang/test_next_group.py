"""Whether a group may begin in its turn, before kube-scheduler asks for one of its members."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pytest

from extender.api.wellknown import GANG_GATE
from extender.gang import ahead
from extender.gang.ahead import Prospect
from extender.gang.verdicts import about
from extender.permit.group_memory import AwaitingBind
from extender.state.cluster import events as ev
from extender.state.cluster.records import JobInfo, Pattern, PodInfo
from extender.state.cluster.store import Cluster
from extender.steps import PIECE, at_once
from tests.makers import (
    ManualClock,
    cluster_of,
    deleted,
    key,
    nodes,
    observe,
    planned,
    pod,
    pod_group,
    pods,
    shape,
)

OURS: Final = "default-scheduler"
NO_CPU: Final = "0/1 nodes are available: 1 Insufficient cpu."
NO_MATCH: Final = "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."
REFUSED: Final = about(key("gang")) + "2 of the 3 pods that it needs exist"
JUDGED: Final = Pattern(shape(1), "ns", {}, frozenset())
OTHER: Final = Pattern(shape(1), "ns", {"role": "other"}, frozenset())


@dataclass
class Scene:
    """A gang of three that can start; kube-scheduler has judged an equal pod."""

    count: int = 3
    min_member: int = 3
    in_hand: AwaitingBind = field(default_factory=lambda: AwaitingBind(ManualClock()))
    proven: tuple[str, ...] = (OURS,)
    cluster: Cluster = field(default_factory=Cluster)

    def __post_init__(self) -> None:
        self.members = pods(self.count, pattern=JUDGED)
        group = pod_group(min_member=self.min_member)
        observe(self.cluster, nodes(8), group, self.members, ev.Looked(JUDGED, ("n0",), 1.0))

    def change(self, number: int, **fields: Any) -> None:
        observe(self.cluster, replace(self.members[number], **fields))

    def change_all(self, **fields: Any) -> None:
        for number in range(self.count):
            self.change(number, **fields)

    def judge(self) -> Prospect:
        view = self.cluster.view()
        group = view.pod_group(key("gang"))
        assert group is not None
        return at_once(
            ahead.prospect_of(
                group,
                view=view,
                schedulers=(OURS,),
                proven=self.proven,
                in_hand=self.in_hand,
            )
        )


def test_a_gang_begins_whose_members_all_have_a_judged_equal() -> None:
    assert Scene().judge() is Prospect.BEGINS


def test_large_gangs_are_judged_in_pieces() -> None:
    assert Scene(2 * PIECE, 2 * PIECE).judge() is Prospect.BEGINS
    scene = Scene(2 * PIECE, 2 * PIECE)
    scene.change(2 * PIECE - 1, pattern=OTHER)
    assert scene.judge() is Prospect.ASKED_FOR


def _unproven(scene: Scene) -> None:
    scene.proven = ()


def _not_admitted(scene: Scene) -> None:
    job = JobInfo("job", held_by_queue="ns/job")
    observe(scene.cluster, ev.ObjectApplied(job))
    scene.change(0, controller="job")


def _only_requested(scene: Scene) -> None:
    observe(scene.cluster, deleted("gang-0"))
    observe(scene.cluster, ev.PodSeen(replace(scene.members[0], uid="gang-9")))


ONE: Final[dict[str, tuple[Callable[[Scene], None], Prospect]]] = {
    "unequal": (lambda s: s.change(0, pattern=OTHER), Prospect.ASKED_FOR),
    "no pattern": (lambda s: s.change(0, pattern=None), Prospect.ASKED_FOR),
    "gated by us": (lambda s: s.change(0, gates=(GANG_GATE,)), Prospect.ASKED_FOR),
    "nominated": (lambda s: s.change(0, nominated="n0"), Prospect.ASKED_FOR),
    "unproven scheduler": (_unproven, Prospect.ASKED_FOR),
    "shown by a request alone": (_only_requested, Prospect.ASKED_FOR),
    "the books differ": (
        lambda scene: observe(scene.cluster, ev.Looked(JUDGED, (), 2.0, agrees=False)),
        Prospect.ASKED_FOR,
    ),
    "in hand": (lambda scene: scene.in_hand.begin("gang-0", "n0"), Prospect.IN_HAND),
    "of another scheduler": (lambda s: s.change(0, scheduler="x"), Prospect.STANDS_ASIDE),
    "no node": (lambda s: s.change(0, unschedulable=NO_MATCH), Prospect.UNREADABLE),
    "not admitted": (_not_admitted, Prospect.STANDS_ASIDE),
    "refused by us before": (lambda s: s.change(0, unschedulable=REFUSED), Prospect.BEGINS),
    "no room before": (lambda s: s.change(0, unschedulable=NO_CPU), Prospect.BEGINS),
}


@pytest.mark.parametrize(("change", "prospect"), ONE.values(), ids=ONE)
def test_one_member_decides(change: Callable[[Scene], None], prospect: Prospect) -> None:
    scene = Scene()
    change(scene)
    assert scene.judge() is prospect


def test_a_gang_that_can_do_without_an_unequal_member_begins() -> None:
    scene = Scene(3, 2)
    scene.change(0, pattern=OTHER)
    assert scene.judge() is Prospect.BEGINS


def test_members_that_have_a_node_or_leave_are_not_needed() -> None:
    scene = Scene(4, 3)
    scene.change(0, pattern=None, node="n0")
    scene.change(1, unschedulable=NO_MATCH, terminating=True)
    assert scene.judge() is Prospect.BEGINS


def test_a_gang_that_is_planned_is_judged_as_before() -> None:
    scene = Scene()
    observe(scene.cluster, planned(gang_0="n0", gang_1="n0", gang_2="n0"))
    assert scene.judge() is Prospect.BEGINS
    scene.change(0, pattern=OTHER)
    assert scene.judge() is Prospect.ASKED_FOR


def test_a_gang_for_which_kube_scheduler_found_no_room_is_a_question_for_a_plan() -> None:
    scene = Scene()
    scene.change_all(pattern=OTHER, unschedulable=NO_CPU)
    assert scene.judge() is Prospect.LACKS_NODES
    scene.change(0, pattern=OTHER, unschedulable=REFUSED)
    assert scene.judge() is Prospect.ASKED_FOR


# --- pods of higher priority


def outranked(*facts: PodInfo, priority: int = 3) -> bool:
    view = cluster_of(nodes(4), *facts).view()
    return ahead.is_outranked(priority, view=view, schedulers=(OURS,))


@pytest.mark.parametrize("unschedulable", [None, NO_CPU])
def test_a_plain_pod_of_higher_priority_goes_first(unschedulable: str | None) -> None:
    first = pod("a", priority=4, unschedulable=unschedulable)
    assert outranked(first)
    assert not outranked(first, priority=4)


def test_a_member_of_higher_priority_that_nothing_was_said_of_goes_first() -> None:
    assert outranked(pod("a", group="other", priority=4))


@pytest.mark.parametrize(
    "fields",
    [
        {"on": "n0"},
        {"gates": ("a",)},
        {"terminating": True},
        {"scheduler": "x"},
        {"group": "other", "unschedulable": NO_CPU},
        {"only_node": "n0", "unschedulable": NO_CPU},
    ],
    ids=str,
)
def test_some_pods_of_higher_priority_hold_up_none(fields: dict[str, Any]) -> None:
    assert not outranked(pod("a", priority=4, **fields))
