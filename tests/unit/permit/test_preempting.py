"""The extender begins and ends preemptions, and follows what is stored of them."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from typing_extensions import override

from extender.api.reasons import PreemptionReason, Reason
from extender.gang.filter import BEHIND
from extender.gang.verdicts import GangOptions
from extender.gang.victims import PATIENCE_SECONDS, Preemption, Rank, Unit
from extender.kube.errors import UnavailableError
from extender.kube.pod_groups import NotStoredError, PreemptorWriter, TooManyVictimsError
from extender.permit import preempt
from extender.permit.group_memory import GroupMemory
from extender.permit.plans import Plans
from extender.permit.preempt import Preempting
from extender.permit.timing import TRIES, UNSURE_SECONDS
from extender.state.cluster import events as ev
from extender.state.cluster.events import ClusterChange
from extender.state.cluster.records import (
    ConditionInfo,
    NominatedRoom,
    PodGroupInfo,
    PreemptedRoom,
    VictimInfo,
)
from extender.state.cluster.store import Cluster
from extender.state.cluster.view import ClusterView
from extender.steps import Steps, at_once
from extender.telemetry.metrics import Metrics
from tests.makers import (
    NAMESPACE,
    LoopClock,
    ManualClock,
    deleted,
    key,
    nodes,
    observe,
    planned,
    pod,
    pod_group,
    pods,
    requests,
)

pytestmark = pytest.mark.looptime

NO_CPU = "0/2 nodes are available: 2 Insufficient cpu."
LOW = [replace(each, node=f"n{n}") for n, each in enumerate(pods(2, 4, group="low"))]
HIGH = pods(2, 4, group="high", priority=10, unschedulable=NO_CPU)
FACTS = [nodes(4, 4), pod_group("low", 2, uid="u-low"), LOW]
WAITING = pod_group("high", 2, uid="u-high")
WAITS = [WAITING, HIGH]
RANK = Rank(0, 0, 0.0, 0, NAMESPACE, "low", whole=True)
GROUP = key("high")


TAKERS = [("other", "RoomTaken", 600.0), ("default-scheduler", "RoomLost", 30.0)]


class Play(PreemptorWriter):
    """The shell, with an API server that stores what it writes."""

    def __init__(self, cluster: Cluster, options: GangOptions | None = None) -> None:
        self.cluster, self.view = cluster, cluster.view()
        clock = LoopClock()
        verdicts = GroupMemory(cluster, options=options or GangOptions(), clock=clock)
        self.plans = Plans(cluster, verdicts)
        self.plans.schedulers.add("default-scheduler")
        self.is_asked, self.is_behind = True, False
        self.written: list[tuple[PreemptedRoom | None, ConditionInfo]] = []
        self.fails: list[Exception] = []
        self.lag = 0.0
        self.metrics = Metrics()
        self.shell = Preempting(
            *(cluster, self.plans, self),
            metrics=self.metrics,
            is_asked=lambda: self.is_asked,
            is_behind=lambda: self.is_behind,
        )

    @override
    async def apply(
        self, pod_group: PodGroupInfo, nomination: PreemptedRoom | None, condition: ConditionInfo
    ) -> None:
        """Store a status, and show it to the watch."""
        if self.fails:
            raise self.fails.pop(0)
        self.written.append((nomination, condition))
        self.store(nomination, condition)

    def store(self, nomination: PreemptedRoom | None, *conditions: ConditionInfo) -> None:
        """Have the watch show a status."""
        now = self.view.pod_group(GROUP)
        if now is not None:
            status = replace(now.status, conditions=conditions)
            shown = replace(now, nomination=nomination, status=status)
            loop = asyncio.get_running_loop()
            loop.call_later(self.lag, self.cluster.apply, ev.ObjectApplied(shown))

    async def sees(self, seconds: float, *facts: Any) -> None:
        """Have the watch show facts, and time pass."""
        observe(self.cluster, *facts)
        await asyncio.sleep(seconds)

    @property
    def said(self) -> list[tuple[bool, str]]:
        """Whether something was kept in each write, and the reason."""
        return [(chosen is not None, condition.reason) for chosen, condition in self.written]

    def counted(self, reason: str) -> float:
        return float(self.metrics.preemptions.labels(reason)._value.get())


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The groups for which victims were looked for: all of LOW makes room for HIGH."""
    found: list[str] = []

    def choosing(
        pod_group: PodGroupInfo, *, view: ClusterView, now: float, options: GangOptions
    ) -> Steps[Preemption | None]:
        yield
        found.append(pod_group.key)
        victims = tuple(each for each in LOW if each.uid in view.pods)
        if not victims or pod_group.key != GROUP:
            return None
        places = {f"n{number}": requests(4) for number in range(2)}
        return Preemption(
            GROUP,
            places,
            (Unit(victims, key("low"), rank=RANK),),
            {f"high-{number}": f"n{number}" for number in range(2)},
        )

    monkeypatch.setattr(preempt, "choosing", choosing)
    return found


@pytest.fixture
async def play(cluster: Cluster, looks: list[str]) -> Any:
    observe(cluster, FACTS)
    made = Play(cluster)
    running = asyncio.create_task(made.shell.run())
    yield made
    running.cancel()


def chosen() -> PreemptedRoom:
    """Return what another process has stored."""
    room = NominatedRoom(("high-0",), requests(4))
    victims = VictimInfo("PodGroup", "u-low", ("low-0", "low-1"))
    return PreemptedRoom(0.0, {"n0": room}, (victims,))


async def test_room_is_kept_from_the_choice_on_and_stored(play: Play) -> None:
    await play.sees(2, WAITS)

    [(stored, condition)] = play.written
    assert stored is not None
    assert (condition.type, condition.status, condition.reason) == (
        *("Preempting", "True", PreemptionReason.EVICTING),
    )
    assert play.view.nominated[GROUP].amounts == {"n0": requests(4), "n1": requests(4)}
    assert play.view.nominated[GROUP].priority == 10
    assert play.shell.under_way == 1


async def test_a_group_is_looked_at_as_soon_as_kube_scheduler_finds_no_node(
    play: Play, looks: list[str]
) -> None:
    """An autoscaler adds nodes a second later, and nothing else happens until then."""
    await play.sees(0.3, WAITING, [replace(each, unschedulable=None) for each in HIGH])
    assert looks == []
    await play.sees(0.2, HIGH)
    assert looks == [GROUP]


async def test_nothing_else_is_begun_for_it_meanwhile_and_it_ends_with_its_start(
    play: Play, looks: list[str]
) -> None:
    await play.sees(10, WAITS)
    assert looks == [GROUP]
    observe(play.cluster, [deleted(each.uid) for each in LOW])
    await play.sees(2, planned(high_0="n0", high_1="n1"))
    assert play.view.nominated
    observe(play.cluster, [ev.PodBinding(each, f"n{n}") for n, each in enumerate(HIGH)])
    assert not play.view.nominated
    await asyncio.sleep(2)

    assert play.said == [(True, "Evicting"), (False, "Started")]
    assert play.shell.under_way == 0
    assert play.counted("Started") == 1


async def test_room_that_victims_have_left_is_offered_until_the_group_has_its_plan(
    play: Play,
) -> None:
    """A member that was tried a moment before may have nothing else that wakes it."""
    await play.sees(1, WAITS)
    changes = list[ClusterChange]()
    play.cluster.subscribe(changes.append)
    await asyncio.sleep(5)
    assert not any(change.room for change in changes)
    observe(play.cluster, [deleted(each.uid) for each in LOW])
    before = play.view.capacity_version
    await asyncio.sleep(10)
    assert 3 <= sum(change.room for change in changes) <= 5
    assert {*play.view.gained_since(before)} == {"n0", "n1"}
    assert play.view.nominated[GROUP].amounts == {"n0": requests(4), "n1": requests(4)}

    observe(play.cluster, planned(high_0="n0", high_1="n1"))
    changes.clear()
    await asyncio.sleep(10)
    assert not any(change.room for change in changes)


async def test_one_that_comes_to_nothing_is_given_up_and_tried_again_later(
    play: Play, looks: list[str]
) -> None:
    await play.sees(34, WAITS)
    assert play.said == [(True, "Evicting"), (False, "VictimsStay")]
    assert not play.view.nominated
    await asyncio.sleep(20)
    assert looks == [GROUP]
    await asyncio.sleep(20)
    assert looks == [GROUP] * 2
    assert play.said[2:] == [(True, "Evicting")]
    await asyncio.sleep(33 + 40)
    assert looks == [GROUP] * 2


async def reached(play: Play, under_way: int) -> None:
    """Return when so many preemptions are under way."""
    for _ in range(10_000):
        if play.shell.under_way == under_way:
            return
        await asyncio.sleep(1)


async def lost(play: Play, *came: Any) -> None:
    """Have all victims go once they are asked to, others come, and the group not start."""
    await reached(play, 1)
    observe(play.cluster, [deleted(each.uid) for each in LOW], *came)
    await reached(play, 0)
    await play.sees(1, LOW)


@pytest.mark.parametrize(("scheduler", "reason", "rests"), TAKERS)
async def test_room_that_another_schedulers_pods_took_is_not_made_again_soon(
    scheduler: str, reason: str, rests: float, play: Play, looks: list[str]
) -> None:
    observe(play.cluster, WAITS)
    await lost(play, pod("new", 4, on="n0", scheduler=scheduler, bound_at=1e12))
    assert play.said == [(True, "Evicting"), (False, reason)]
    assert ("other" in play.written[-1][1].message) == (scheduler == "other")
    await asyncio.sleep(rests - 5)
    assert looks == [GROUP]
    await asyncio.sleep(10)
    assert looks == [GROUP] * 2


async def test_one_that_has_evicted_in_vain_several_times_gives_up_until_it_changes(
    play: Play, looks: list[str]
) -> None:
    observe(play.cluster, WAITS)
    for _ in range(TRIES):
        await lost(play)
    assert [reason for kept, reason in play.said if not kept] == [
        *("RoomLost" for _ in range(TRIES - 1)),
        "GivenUp",
    ]
    await asyncio.sleep(10_000)
    assert looks == [GROUP] * TRIES

    now = play.view.pod_group(GROUP)
    assert now is not None
    await play.sees(2, replace(now, generation=7))
    assert looks == [GROUP] * (TRIES + 1)


async def test_one_that_nobody_evicts_for_does_not_give_up(play: Play) -> None:
    await play.sees(3600, WAITS)
    reasons = {reason for kept, reason in play.said if not kept}
    assert reasons == {"VictimsStay"}


NOT_YET: dict[str, list[Any]] = {
    "it was not tried": [
        WAITING,
        pods(2, 4, group="high", priority=10),
    ],
    "one pod is missing": [pod_group("high", 1), HIGH],
    "no pod has a lower priority": [
        WAITING,
        pods(2, 4, group="high", unschedulable=NO_CPU),
    ],
    "its scheduler does not ask": [
        WAITING,
        pods(2, 4, group="high", priority=10, unschedulable=NO_CPU, scheduler="other"),
    ],
    "kube-scheduler has just seen room that our watch has not shown": [
        *WAITS,
        ev.PodRefused(HIGH[0], Reason.CACHE_BEHIND),
    ],
    "kube-scheduler and the extender disagree about room": [
        *WAITS,
        ev.PodRefused(HIGH[0], Reason.SCHEDULER_DISAGREES),
    ],
    "it is being tried again for such room": [
        WAITING,
        pods(2, 4, group="high", priority=10, unschedulable=f"gang a/b: {BEHIND}"),
    ],
    "our watch has not even shown its pods": [WAITING, *map(ev.PodSeen, HIGH)],
    "kube-scheduler finds no node for another reason": [
        WAITING,
        pods(2, 4, group="high", priority=10, unschedulable="0/2 nodes: 2 had a bad volume"),
    ],
}


@pytest.mark.parametrize("facts", NOT_YET.values(), ids=NOT_YET)
async def test_no_victims_are_looked_for_where(
    facts: list[Any], play: Play, looks: list[str]
) -> None:
    await play.sees(10, facts)
    assert looks == []


async def test_no_victims_are_looked_for_while_our_watch_is_behind_for_any_pod(
    play: Play, looks: list[str]
) -> None:
    play.is_behind = True
    await play.sees(10, WAITS)
    assert looks == []
    play.is_behind = False
    await asyncio.sleep(2)
    assert looks == [GROUP]


async def test_no_victims_are_looked_for_where_no_scheduler_asks_or_it_is_off(
    play: Play, cluster: Cluster, looks: list[str]
) -> None:
    play.is_asked = False
    off = Play(cluster, GangOptions(preempts=False))
    running = asyncio.create_task(off.shell.run())
    await play.sees(10, WAITS)
    running.cancel()
    assert looks == []


async def test_a_group_without_victims_is_looked_at_ever_more_seldom(
    play: Play, looks: list[str]
) -> None:
    observe(play.cluster, pod_group("odd", 2))
    await play.sees(20, pods(2, 4, group="odd", priority=10, unschedulable=NO_CPU))
    assert looks == [key("odd")] * 4
    await asyncio.sleep(300)
    assert len(looks) <= 4 + 11


async def test_a_group_without_victims_is_looked_at_again_soon_while_others_preempt(
    play: Play, looks: list[str]
) -> None:
    """What their victims leave is taken then, and what is chosen may be another."""
    observe(play.cluster, WAITS, pod_group("odd", 2))
    await play.sees(20, pods(2, 4, group="odd", priority=10, unschedulable=NO_CPU))
    assert play.shell.under_way == 1
    assert looks.count(key("odd")) >= 8


async def test_what_others_do_meanwhile_is_no_time_spent_in_vain(
    cluster: Cluster, looks: list[str]
) -> None:
    observe(cluster, FACTS, pod_group("odd", 2))
    observe(cluster, pods(2, 4, group="odd", priority=10, unschedulable=NO_CPU))
    play, clock = Play(cluster), ManualClock()
    play.shell._clock = clock

    def seldom() -> Steps[float]:
        steps = play.shell.looking()
        while True:
            try:
                next(steps)
            except StopIteration as end:
                return float(end.value)
            clock.now += 4.0
            yield

    assert at_once(seldom()) == 0.0
    assert looks == [key("odd")]


async def test_time_spent_in_vain_for_a_namespace_is_its_own(
    cluster: Cluster, looks: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, found = ManualClock(), vars(preempt)["choosing"]

    def slow(pod_group: PodGroupInfo, **given: Any) -> Steps[Preemption | None]:
        clock.now += 1.0 if "/odd" in pod_group.key else 0.0
        chosen: Preemption | None = yield from found(pod_group, **given)
        return chosen

    monkeypatch.setattr(preempt, "choosing", slow)
    odd = [f"odd-{number}" for number in range(3)]
    for name in odd:
        waits = pods(2, 4, group=name, priority=20, unschedulable=NO_CPU)
        observe(
            cluster,
            replace(pod_group(name, 2), namespace="b"),
            [replace(each, namespace="b", group=f"b/{name}") for each in waits],
        )
    observe(cluster, FACTS, WAITS)
    play = Play(cluster)
    play.shell._clock = clock
    at_once(play.shell.looking())
    assert looks == ["b/odd-0", GROUP]


async def test_a_choice_that_is_of_no_use_any_more_is_given_up_at_once(
    play: Play, looks: list[str]
) -> None:
    await play.sees(1, WAITS)
    assert play.said == [(True, "Evicting")]
    await play.sees(1.5, replace(LOW[0], priority=10))
    assert play.said[1:] == [(False, "Overtaken")]
    assert not play.view.nominated
    assert play.counted("Overtaken") == 1
    await asyncio.sleep(3)
    assert looks == [GROUP] * 2


def recovered(cluster: Cluster) -> Play:
    """Return the play of a process that has found a preemption in the status of its group."""
    observe(cluster, FACTS, HIGH, replace(WAITING, nomination=chosen()))
    play = Play(cluster)
    [*play.shell.recover()]
    return play


async def test_what_is_stored_is_gone_on_with(cluster: Cluster, looks: list[str]) -> None:
    play = recovered(cluster)
    assert play.view.nominated[GROUP].amounts == {"n0": requests(4)}
    play.store(None)
    await asyncio.sleep(0.1)
    assert not play.view.nominated
    play.store(chosen())
    await asyncio.sleep(0.1)
    assert play.view.nominated.keys() == {GROUP}
    assert play.written == []


@pytest.mark.parametrize("why", ["no kube-scheduler is there", "it asks about others"])
async def test_a_process_that_is_not_asked_ends_one_later(
    why: str, cluster: Cluster, looks: list[str]
) -> None:
    play = recovered(cluster)
    play.is_asked = why == "it asks about others"
    play.plans.schedulers.clear()
    running = asyncio.create_task(play.shell.run())
    await asyncio.sleep(32 + UNSURE_SECONDS - 2)
    assert play.written == []
    await asyncio.sleep(5)
    running.cancel()
    assert play.said == [(False, "VictimsStay")]


async def test_a_process_that_is_not_asked_gives_lost_room_up_later(
    cluster: Cluster, looks: list[str]
) -> None:
    """The process that is asked knows why the room is lost, and pauses."""
    play = recovered(cluster)
    play.plans.schedulers.clear()
    running = asyncio.create_task(play.shell.run())
    gone = (deleted(f"low-{n}") for n in range(2))
    observe(cluster, *gone, pod("new", 4, on="n0", scheduler="other"))
    await asyncio.sleep(PATIENCE_SECONDS + UNSURE_SECONDS - 2)
    assert play.written == []
    await asyncio.sleep(5)
    running.cancel()
    assert [said for said, _ in play.said] == [False]


async def test_what_the_watch_shows_late_ends_nothing(play: Play) -> None:
    play.lag = 5.0
    await play.sees(2, WAITS)
    play.cluster.apply(ev.ObjectApplied(replace(WAITING, generation=7)))
    shown = replace(WAITING, status=replace(WAITING.status, phase="Pending"))
    play.cluster.apply(ev.ObjectApplied(shown))
    assert play.view.nominated.keys() == {GROUP}
    await asyncio.sleep(20)
    assert play.view.nominated.keys() == {GROUP}
    await asyncio.sleep(20)
    assert play.said == [(True, "Evicting"), (False, "VictimsStay")]
    assert not play.view.nominated


async def test_a_deleted_group_and_one_of_the_same_name(play: Play, looks: list[str]) -> None:
    await play.sees(2, WAITS)
    observe(play.cluster, deleted((WAITING.api_group, GROUP), PodGroupInfo))
    assert not play.view.nominated
    assert play.shell.under_way == 0
    await play.sees(3, pod_group("high", 2, uid="another"))
    assert looks == [GROUP] * 2
    assert play.view.nominated.keys() == {GROUP}


@pytest.mark.parametrize("error", [UnavailableError("busy"), RuntimeError("odd")])
async def test_a_write_is_tried_again(play: Play, error: Exception) -> None:
    play.fails = [error, error]
    await play.sees(1, WAITS)
    assert play.written == []
    await asyncio.sleep(4)
    assert play.said == [(True, "Evicting")]


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (TooManyVictimsError("100000 victims are too many for a status"), "TooManyVictims"),
        (NotStoredError("the CustomResourceDefinition has no such field"), "NotStored"),
    ],
)
async def test_no_room_is_kept_for_what_cannot_be_stored(
    play: Play, looks: list[str], error: Exception, reason: str
) -> None:
    play.fails = [error]
    await play.sees(10, WAITS)
    assert play.said == [(False, reason)]
    assert not play.view.nominated
    assert play.shell.under_way == 0
    assert looks == [GROUP]


async def test_a_choice_that_has_been_overtaken_is_dropped(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = vars(preempt)["choosing"]

    def slow(chosen_for: PodGroupInfo, **more: Any) -> Steps[Preemption | None]:
        found: Preemption | None = yield from before(chosen_for, **more)
        observe(play.cluster, pod_group("high", 2, uid="another"))
        yield
        return found

    monkeypatch.setattr(preempt, "choosing", slow)
    await play.sees(0.1, WAITS)
    assert play.written == []
    assert not play.view.nominated


async def test_in_strict_order_only_the_first_group_preempts(
    cluster: Cluster, looks: list[str]
) -> None:
    observe(cluster, FACTS, WAITS, pod_group("first", 2))
    observe(cluster, pods(2, 4, group="first", priority=11, unschedulable=NO_CPU))
    play = Play(cluster, GangOptions(strict_order=True))
    running = asyncio.create_task(play.shell.run())
    await asyncio.sleep(10)
    running.cancel()
    assert set(looks) == {key("first")}


async def test_a_gang_gives_an_autoscaler_time_to_add_nodes(
    cluster: Cluster, looks: list[str]
) -> None:
    observe(cluster, FACTS)
    play = Play(cluster, GangOptions(preempts_after=100.0))
    assert play.shell.may_preempt(None)
    running = asyncio.create_task(play.shell.run())
    await play.sees(90, WAITS)
    assert (looks, play.written, play.shell.may_preempt(GROUP)) == ([], [], False)
    await play.sees(15)
    assert play.shell.may_preempt(GROUP)
    assert [condition.reason for _, condition in play.written] == [PreemptionReason.EVICTING]
    # Once it has started, its time begins anew.
    started = [replace(each, node=f"n{n}") for n, each in enumerate(HIGH)]
    await play.sees(1, [deleted(each.uid) for each in LOW], started)
    assert not play.shell.may_preempt(GROUP)
    running.cancel()
