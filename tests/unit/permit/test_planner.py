"""Plans that take longer than one call may go on between other work, and are checked at the end."""

from typing import Any

import pytest

from extender.api.reasons import Reason
from extender.gang import gates
from extender.gang.fit import Fit, Offer
from extender.gang.verdicts import GangOptions, Refuse
from extender.permit import timing
from extender.permit.group_memory import GroupMemory
from extender.permit.plans import Plans
from extender.permit.timing import PLAN_SECONDS, SLICE_PODS
from extender.runtime.clock import SLICE_SECONDS
from extender.state.cluster import events as ev
from extender.state.cluster.records import NodeInfo, PodGroupInfo, PodInfo
from extender.state.cluster.store import Cluster
from tests.makers import cluster_of, event_of, flat, key, node, nodes, observe, pod, pod_group, pods
from tests.recount import check_tables
from tests.unit.permit.test_plans import Ticking
from tests.unit.server.scene import filter_of

NODES, MANY = 300, SLICE_PODS * 2 + 50
SLOW = PLAN_SECONDS
"""Each look at the clock, after each piece of work, takes as long as one call may plan."""
FULL = [pod(f"full-{n}", 2, on=f"n{n}") for n in range(NODES)]


class Scene:
    """A gang that fits exactly on empty nodes, and what is called when a plan has ended."""

    def __init__(self, *facts: Any, size: int = MANY, step: float = SLOW) -> None:
        self.cluster: Cluster = cluster_of()
        every = [
            ev.ObjectsListed(NodeInfo, nodes(*[2] * NODES)),
            pod_group("gang", size),
            pods(size, 1),
        ]
        for fact in (*every, *facts):
            self.apply(fact)
        self.clock = Ticking(step)
        self.verdicts = GroupMemory(self.cluster, options=GangOptions(), clock=self.clock)
        self.plans = Plans(self.cluster, self.verdicts)
        self.pod_filter = filter_of(self.cluster, self.plans)
        self.plans.schedulers.add("default-scheduler")
        self.called: list[tuple[str, float]] = []
        self.plans.planner.on_end(lambda group, seconds: self.called.append((group, seconds)))
        self.view = self.cluster.view()

    def apply(self, fact: Any) -> None:
        for each in flat([fact]):
            self.cluster.apply(event_of(each))

    def plan(self, name: str = "gang") -> Fit | Refuse:
        first = next(iter(self.view.members(key(name))))
        pod_group = self.view.pod_group(key(name))
        assert pod_group is not None
        return self.plans.plan(first, pod_group, Offer())

    def begin(self) -> None:
        """Have a member tried, and do the first slice of the plan."""
        self.plan()
        self.plans.planner.work()

    def work(self) -> int:
        """Do all slices; return how many there were."""
        slices = 0
        while self.plans.planner.is_busy(key("gang")):
            self.plans.planner.work()
            slices += 1
        check_tables(self.cluster)
        return slices

    @property
    def planned(self) -> int:
        return len(self.view.tally(key("gang")).planned)


def reason_of(found: Fit | Refuse) -> Reason:
    assert isinstance(found, Refuse)
    return found.reason


def test_a_plan_that_takes_long_is_made_in_slices() -> None:
    scene = Scene()
    first = scene.plan()
    assert isinstance(first, Refuse)
    assert (first.reason, first.deny) == (Reason.PLANNING, False)
    assert first.message == "gang ns/gang: its plan is being made"
    assert scene.planned == 0
    assert reason_of(scene.plan()) is Reason.PLANNING  # the second member asks
    assert scene.work() > 3
    assert scene.planned == MANY
    assert scene.called == [(key("gang"), 0.0)]


def test_a_large_plan_is_kept_in_parts_however_quick_it_is() -> None:
    scene = Scene(step=0.0)
    assert reason_of(scene.plan()) is Reason.PLANNING
    assert scene.planned == 0
    scene.work()
    assert scene.planned == MANY


def test_a_small_one_is_answered_at_once() -> None:
    scene = Scene(size=SLICE_PODS, step=0.0)
    found = scene.plan()
    assert isinstance(found, Fit)
    assert len(found.placements) == SLICE_PODS
    assert not scene.plans.planner.is_busy(key("gang"))


def test_a_plan_that_fails_is_remembered_and_rests() -> None:
    scene = Scene(FULL[10:])
    assert reason_of(scene.plan()) is Reason.PLANNING
    scene.work()
    assert reason_of(scene.plan()) is Reason.NOT_ENOUGH_RESOURCES
    (_, at_once), (group, rest) = scene.called
    assert (group, at_once) == (key("gang"), 0.0)
    assert rest > 0
    scene.clock.step = 0.0
    scene.clock._seconds += rest
    scene.cluster.apply(ev.ObjectDeleted(PodInfo, "full-299"))
    assert reason_of(scene.plan()) is Reason.NOT_ENOUGH_RESOURCES  # two of some hundred
    assert not scene.plans.planner.is_busy(key("gang"))


@pytest.mark.parametrize(
    ("spare", "taken", "want"),
    [([node("spare", 60)], 5, MANY), ([], 30, 0)],
    ids=["it is found elsewhere", "nothing is kept with too little left"],
)
def test_room_that_others_took_meanwhile(spare: list[Any], taken: int, want: int) -> None:
    scene = Scene(spare)
    scene.begin()
    observe(scene.cluster, *FULL[:taken])
    scene.work()
    assert scene.planned == want
    assert scene.view.keeps_room == bool(want)


@pytest.mark.parametrize(
    "gone",
    [
        [ev.ObjectDeleted(PodInfo, f"gang-{n}") for n in range(MANY)],
        [ev.ObjectDeleted(PodGroupInfo, (pod_group("gang").api_group, key("gang")))],
        [ev.ObjectsListed(NodeInfo, ())],
    ],
    ids=["pods", "PodGroup", "nodes"],
)
def test_what_goes_meanwhile_ends_the_plan(gone: list[Any]) -> None:
    scene = Scene()
    scene.begin()
    scene.apply(gone)
    scene.work()
    assert not scene.view.planned
    assert scene.called


def test_one_that_cannot_be_planned_harms_itself_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise RuntimeError("odd")

    scene = Scene()
    scene.plan()
    monkeypatch.setattr("extender.gang.gates.still_valid", broken)
    scene.work()
    assert scene.verdicts.rest_left(key("gang"))


def test_a_group_waits_for_the_plan_of_one_that_goes_first() -> None:
    later = pod_group("later", 2, created=5.0)
    scene = Scene(later)
    assert not scene.plans.plans_before(later)
    scene.plan()
    assert scene.plans.plans_before(later)
    older = pod_group("older", 2, created=-1.0)
    assert not scene.plans.plans_before(older)
    scene.work()
    assert not scene.plans.plans_before(later)


def test_half_of_the_time_is_for_others() -> None:
    """What a slice took is how long the next one waits."""
    scene = Scene()
    scene.plan()
    assert scene.plans.planner.work() >= SLICE_SECONDS


def test_a_plan_without_end_is_given_up_and_others_have_their_turn() -> None:
    scene = Scene(step=timing.CHECK_SECONDS / 3)
    scene.plan()
    assert scene.work() < 10
    assert scene.planned == 0
    assert scene.verdicts.rest_left(key("gang"))
    found = scene.plan()
    assert isinstance(found, Refuse)
    assert (found.reason, found.deny) == (Reason.PLANNING, False)
    assert "no plan was found in time" in found.message
    assert not scene.plans.planner.is_busy(key("gang"))


def test_room_that_appears_behind_a_plan_is_worth_another_one() -> None:
    """The nodes were full when the plan passed them."""
    scene = Scene(FULL[10:])
    scene.begin()
    assert scene.plans.planner.is_busy(key("gang"))
    for each in FULL[10:]:
        scene.cluster.apply(ev.ObjectDeleted(PodInfo, each.uid))
    scene.work()
    assert scene.planned == 0  # else the room came before the plan looked
    scene.clock.step = 0.0
    scene.clock._seconds += scene.verdicts.rest_left(key("gang"))
    assert reason_of(scene.plan()) is Reason.PLANNING
    scene.work()
    assert scene.planned == MANY


def test_a_refusal_of_a_group_that_has_changed_meanwhile_is_dropped() -> None:
    scene = Scene(FULL[10:])
    scene.begin()
    assert scene.plans.planner.is_busy(key("gang"))
    scene.apply(pod_group("gang", 15))
    scene.verdicts.changed(key("gang"))
    scene.work()
    assert scene.called == [(key("gang"), 0.0)]
    scene.clock.step = 0.0
    found = scene.plan()
    assert isinstance(found, Fit)
    assert len(found.placements) >= 15


def test_a_change_of_the_group_ends_its_rest() -> None:
    scene = Scene(FULL[10:])
    scene.plan()
    scene.work()
    assert scene.verdicts.rest_left(key("gang"))
    scene.verdicts.changed(key("gang"))
    assert not scene.verdicts.rest_left(key("gang"))


@pytest.mark.parametrize("parts", [1, 2])
def test_a_plan_that_breaks_while_it_is_kept_leaves_nothing(
    parts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    good, calls = gates.still_valid, 0

    def breaks(*args: Any, **more: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls > parts:
            raise RuntimeError("odd")
        return good(*args, **more)

    scene = Scene()
    scene.plan()
    monkeypatch.setattr("extender.gang.gates.still_valid", breaks)
    scene.work()
    assert calls == parts + 1
    assert scene.planned == 0


def test_the_time_to_keep_room_does_not_count_as_time_to_find_it() -> None:
    scene = Scene(step=0.0)
    scene.plan()
    scene.plans.planner._spent[key("gang")] = timing.CHECK_SECONDS
    scene.clock.step = SLOW
    scene.work()
    assert scene.planned == MANY
