"""Groups begin in their turn, where kube-scheduler has judged equals of all that they need."""

import asyncio
from collections.abc import Generator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from extender.api.reasons import Reason
from extender.api.wellknown import GANG_GATE
from extender.gang.verdicts import GangOptions, OneNode, Refuse
from extender.gang.wake import decide_group
from extender.kube.errors import NotFoundError
from extender.kube.pods import PodRef
from extender.permit import ahead
from extender.permit.ahead import Ahead
from extender.permit.timing import (
    AHEAD_SECONDS,
    FEW,
    PARALLEL,
    PODS_AT_ONCE,
    SILENT_SECONDS,
    STOPPED_SECONDS,
    UNSURE_SECONDS,
)
from extender.state.cluster import events as ev
from extender.state.cluster.records import JobInfo, Pattern, PodInfo
from extender.state.cluster.store import Cluster
from tests.makers import NAMESPACE, deleted, key, node, nodes, observe, pod, pod_group, pods, shape
from tests.unit.server.scene import Call, Scene

pytestmark = [pytest.mark.looptime, pytest.mark.usefixtures("patient")]

EQUAL = Pattern(shape(1), NAMESPACE, {}, frozenset())
OTHER = Pattern(shape(1), NAMESPACE, {"role": "other"}, frozenset())
MANY = 2 * PARALLEL + 8
NO_CPU = "0/2 nodes are available: 2 Insufficient cpu."
NO_MATCH = "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector."
JOB = JobInfo("job-uid", held_by_queue="job")


class Play:
    """A kube-scheduler that has bound the gang `judged`, so that it has judged a pod `EQUAL`."""

    def __init__(self, cluster: Cluster, *facts: Any, options: GangOptions | None = None) -> None:
        options = options or GangOptions(bind_equal=True)
        self.scene = Scene(cluster, *facts, options=options, in_turn=True, patient=True)

    @property
    def ahead(self) -> Ahead:
        return self.scene.ahead

    @property
    def calls(self) -> list[Call]:
        """The Bindings that were written, without the one that kube-scheduler asked for."""
        return [each for each in self.scene.binder.calls if not each[0].startswith("judged")]

    def begun(self, by: str) -> float:
        return float(self.scene.metrics.groups_begun.labels(by)._value.get())

    async def judge(self, pattern: Pattern = EQUAL, *sent: str, name: str = "judged") -> None:
        """Have kube-scheduler try a gang of one and bind it."""
        observe(self.scene.cluster, pod_group(name, 1), pods(1, group=name, pattern=pattern))
        await self.bind(self.scene.view.pods[f"{name}-0"], *sent)

    async def bind(self, subject: PodInfo, *sent: str) -> None:
        verdict = self.filter(subject, *sent)
        assert isinstance(verdict, OneNode)
        assert await self.scene.bind(subject, verdict.node) == ""

    async def sees(self, *facts: Any) -> None:
        """Have the watch show facts, and half a second pass."""
        observe(self.scene.cluster, *facts)
        await asyncio.sleep(0.5)

    def filter(self, subject: PodInfo, *sent: str) -> Any:
        names = sent or [*self.scene.view.nodes]
        return self.scene.decide(subject, names)

    def written(self, *groups: str) -> list[str]:
        return [name for name, _ in self.calls if name.rpartition("-")[0] in groups]


async def judged(cluster: Cluster, *facts: Any, options: GangOptions | None = None) -> Play:
    """Return the play of a kube-scheduler that has judged a pod."""
    play = Play(cluster, *facts, options=options)
    await play.judge()
    return play


def gang(name: str, count: int, *, created: float = 0, **more: Any) -> Sequence[Any]:
    """Return the facts of a whole gang of equal pods."""
    return pod_group(name, count, created=created), pods(
        count, group=name, **{"pattern": EQUAL, **more}
    )


async def test_gangs_begin_without_a_request_once_an_equal_pod_was_judged(cluster: Cluster) -> None:
    play = Play(cluster, nodes(4, 4), gang("a", 3), gang("b", 1))
    await asyncio.sleep(1)
    assert play.calls == []
    await play.judge()
    await asyncio.sleep(1)

    assert sorted(name for name, _ in play.calls) == ["a-0", "a-1", "a-2", "b-0"]
    assert (play.begun("turn"), play.begun("request")) == (2, 0)
    assert play.scene.verdicts.awaiting_bind.coming == frozenset()
    play.scene.idle()


async def test_a_gang_begins_as_soon_as_its_last_pod_is_there(cluster: Cluster) -> None:
    play = await judged(cluster, nodes(4, 4))
    group, members = gang("a", 4)
    observe(cluster, group, members[:2])
    await asyncio.sleep(0.1)
    observe(cluster, members[2])
    await asyncio.sleep(0.001)  # the look before, which was in vain, took no time
    assert play.calls == []
    observe(cluster, members[3])
    await asyncio.sleep(0.001)

    assert len(play.calls) == 4


async def test_a_gang_begins_when_there_is_room_again(cluster: Cluster) -> None:
    play = await judged(cluster, nodes(4), pod("old", 2, on="n0"))
    await play.sees(gang("a", 3))
    assert play.calls == []
    play.ahead.asked()
    await play.sees(deleted("old"))

    assert len(play.calls) == 3


async def test_only_nodes_that_were_sent_and_have_not_changed_since(cluster: Cluster) -> None:
    play = Play(cluster, nodes(2, 2, 2))
    await play.judge(EQUAL, "n0", "n1")
    await play.sees(node("n1", 2, labels={"a": "b"}), gang("a", 1), gang("b", 1))

    assert [where for _, where in play.calls] == ["n0"]


@pytest.mark.parametrize(
    "facts",
    [
        gang("a", 2, pattern=OTHER),
        gang("a", 2, pattern=None),
        gang("a", 2, nominated="n0"),
        gang("a", 2, gates=(GANG_GATE,)),
        (pod_group("a", 2), pods(1, group="a", pattern=EQUAL), pod("x", group="a")),
    ],
    ids=["other pattern", "no pattern", "nominated", "gated", "one without a pattern"],
)
async def test_a_gang_that_kube_scheduler_is_to_judge_holds_up_those_behind_it(
    cluster: Cluster, facts: Any
) -> None:
    play = await judged(cluster, nodes(8, 8))
    await play.sees(facts, gang("b", 2, created=1))

    assert play.calls == []


@pytest.mark.parametrize(
    "facts",
    [
        gang("a", 2, scheduler="another"),
        gang("a", 2, unschedulable=NO_MATCH),
        (JOB, gang("a", 2, controller=JOB.uid)),
        gang("a", 20),
        gang("a", 2, pattern=OTHER, unschedulable=NO_CPU, cpu=shape(20)),
    ],
    ids=["another scheduler", "no node", "not admitted", "too large", "found too large"],
)
async def test_a_gang_that_cannot_start_does_not_hold_up_those_behind_it(
    cluster: Cluster, facts: Any
) -> None:
    play = await judged(cluster, nodes(8, 8))
    observe_all(cluster, facts, gang("b", 2, created=1))
    await asyncio.sleep(0.5)

    assert sorted(play.written("a", "b")) == ["b-0", "b-1"]
    assert not play.scene.view.tally(key("a")).planned


def observe_all(cluster: Cluster, *facts: Any) -> None:
    """Apply facts of which some are Jobs."""
    for fact in facts:
        jobs = [each for each in fact if isinstance(each, JobInfo)]
        observe(cluster, *map(ev.ObjectApplied, jobs))
        observe(cluster, [each for each in fact if not isinstance(each, JobInfo)])


async def test_in_strict_order_none_passes_a_gang_that_lacks_room(cluster: Cluster) -> None:
    options = GangOptions(bind_equal=True, strict_order=True)
    play = await judged(cluster, nodes(8, 8), pod("old", 4, on="n0"), options=options)
    observe(cluster, gang("x", 1, scheduler="another", created=-2))
    observe(cluster, gang("y", 1, cpu=20, pattern=OTHER, unschedulable=NO_CPU, created=-1))
    await play.sees(gang("a", 13), gang("b", 2, created=1))
    assert play.calls == []
    await play.sees(deleted("a-0"))

    assert sorted(play.calls)[0][0] == "b-0"


@pytest.mark.parametrize(
    "first",
    [
        pod("vip", priority=9),
        pod("vip", priority=9, unschedulable=NO_CPU),
        pod("vip", priority=9, group="late"),
    ],
    ids=["fresh", "without room", "of a gang"],
)
async def test_none_passes_a_pod_of_higher_priority(cluster: Cluster, first: PodInfo) -> None:
    """Room comes, and kube-scheduler may bring that one first."""
    play = await judged(cluster, nodes(4), pod("old", 3, on="n0"), pod_group("late", 5))
    observe(cluster, first, gang("a", 1), gang("b", 1, priority=9))
    play.ahead.asked()
    await play.sees(deleted("old"))
    assert play.written("a", "b") == ["b-0"]
    play.ahead.asked()
    await play.sees(deleted("vip"))

    assert play.written("a", "b") == ["b-0", "a-0"]


SPREAD = replace(shape(1), individually_constrained=True)


@pytest.mark.parametrize(
    "change",
    [
        {"unschedulable": NO_MATCH},
        {"unschedulable": NO_CPU, "shape": SPREAD, "pattern": OTHER},
    ],
    ids=["no node", "no room by its own terms"],
)
async def test_a_gang_that_only_kube_scheduler_can_read_is_passed_by_its_priority_alone(
    cluster: Cluster, change: dict[str, Any]
) -> None:
    """A place for it may come at any time, and kube-scheduler gives it to that one first."""
    play = await judged(cluster, nodes(4), pod("old", 3, on="n0"))
    first, members = gang("first", 1, priority=5)
    unreadable = [replace(each, **change) for each in members]
    observe(cluster, first, unreadable, gang("a", 1), gang("b", 1, priority=5, created=1))
    play.ahead.asked()
    await play.sees(deleted("old"))
    assert play.written("first", "a", "b") == ["b-0"]
    play.ahead.asked()
    await play.sees(deleted("first-0"))

    assert play.written("first", "a", "b") == ["b-0", "a-0"]


async def test_a_pod_of_a_daemon_set_that_found_its_node_full_holds_up_none(
    cluster: Cluster,
) -> None:
    play = await judged(cluster, nodes(4))
    await play.sees(pod("agent", priority=9, only_node="n0", unschedulable=NO_CPU), gang("a", 1))

    assert play.written("a") == ["a-0"]


async def test_none_begins_while_kube_scheduler_does_not_call(cluster: Cluster) -> None:
    play = await judged(cluster, nodes(4))
    await asyncio.sleep(SILENT_SECONDS + 0.1)
    await play.sees(gang("a", 1))
    assert play.calls == []
    play.filter(pod("plain"))
    await asyncio.sleep(0.5)

    assert play.written("a") == ["a-0"]


async def with_open_request(cluster: Cluster) -> tuple[Play, "asyncio.Task[str]"]:
    """Return the play of a kube-scheduler that waits for the rest of a gang, and its request."""
    launcher = replace(pods(1, group="c")[0], pattern=OTHER)
    play = await judged(cluster, nodes(8), pod_group("c", 2), launcher, pod("c-1", group="c"))
    verdict = play.filter(launcher)
    assert isinstance(verdict, OneNode)
    return play, play.scene.loop.create_task(play.scene.bind(launcher, verdict.node))


async def test_an_open_request_says_that_kube_scheduler_is_there(cluster: Cluster) -> None:
    play, waits = await with_open_request(cluster)
    await asyncio.sleep(SILENT_SECONDS + 1)
    await play.sees(gang("a", 1))
    assert play.written("a") == ["a-0"]
    play.ahead.hung_up()
    await play.sees(gang("b", 1))

    assert play.written("b") == []
    waits.cancel()


async def test_none_begins_once_the_connection_of_filter_has_ended(cluster: Cluster) -> None:
    """A kube-scheduler that is stopped gives its lease back: the next one may begin at once."""
    play = Play(cluster, nodes(8))
    play.scene.is_connected = False
    await play.judge()
    await play.sees(gang("a", 1))

    assert play.calls == []


async def test_what_began_ends_with_the_connection_of_filter(cluster: Cluster) -> None:
    play = await judged(cluster, nodes(MANY, slots=MANY))
    may = asyncio.Event()
    play.scene.binder.before = lambda _: may.wait()  # type: ignore[assignment,return-value]
    observe(cluster, gang("a", 2 * PARALLEL))
    await asyncio.sleep(0.1)
    begun = len(play.calls)
    assert begun == PARALLEL
    play.ahead.lost()
    may.set()
    await asyncio.sleep(1)

    assert len(play.calls) == begun
    assert len(play.scene.view.planned) == len(play.scene.writer.unsure) == PARALLEL
    play.scene.idle()


async def given_up(cluster: Cluster) -> tuple[Play, PodInfo, str]:
    """Return a member whose Binding was given up, and its node; two nodes more are free."""
    play = await judged(cluster, nodes(1, 1, 1))
    await play.sees(deleted("judged-0"))

    async def slow(_: PodRef) -> None:
        if len(play.calls) == 1:
            await asyncio.Event().wait()

    play.scene.binder.before = slow
    play.ahead.asked()
    await play.sees(gang("a", 1))
    await asyncio.sleep(AHEAD_SECONDS)
    [(_, first)] = play.calls
    return play, play.scene.view.pods["a-0"], first


async def test_no_other_node_will_do_for_a_member_that_may_be_bound(cluster: Cluster) -> None:
    """Else its room goes to another gang, and the node has too much if the Binding is made."""
    play, member, first = await given_up(cluster)
    others = {*play.scene.view.nodes} - {first}
    refused = play.filter(member, *others)
    assert isinstance(refused, Refuse)
    assert refused.reason is Reason.ALREADY_BOUND
    play.ahead.asked()
    await play.sees(gang("b", 2))
    assert {where for name, where in play.calls if name.startswith("b")} == others

    await play.sees(replace(member, node=first, pattern=None))
    await asyncio.sleep(UNSURE_SECONDS)
    assert play.scene.view.used(first) == member.shape.requests
    play.scene.idle()


async def test_a_member_that_may_be_bound_gets_another_binding_to_its_node(
    cluster: Cluster,
) -> None:
    """To say that it is bound would be wrong: it may never be."""
    play, member, first = await given_up(cluster)
    assert play.filter(member) == OneNode(first)
    assert await play.scene.bind(member, first) == ""

    assert play.calls == [("a-0", first)] * 2
    await asyncio.sleep(UNSURE_SECONDS)
    assert play.scene.view.bound_node(member) == first


async def test_a_member_that_was_not_bound_is_woken_and_may_move(cluster: Cluster) -> None:
    play, member, first = await given_up(cluster)
    others = {*play.scene.view.nodes} - {first}
    assert isinstance(play.filter(member, *others), Refuse)
    await asyncio.sleep(UNSURE_SECONDS - 2)
    assert decide_group(key("a"), view=play.scene.view).retry == ()
    await asyncio.sleep(2)

    assert decide_group(key("a"), view=play.scene.view).retry == (member,)
    moved = play.filter(member, *others)
    assert isinstance(moved, OneNode)
    assert moved.node in others


async def test_a_process_that_stops_finishes_what_is_on_its_way(cluster: Cluster) -> None:
    """It closes the connection of filter itself."""
    play = await judged(cluster, nodes(MANY, slots=MANY))
    may = asyncio.Event()
    play.scene.binder.before = lambda _: may.wait()  # type: ignore[assignment,return-value]
    observe(cluster, gang("a", 2 * PARALLEL))
    await asyncio.sleep(0.1)
    play.scene.waiting.refuse_all()
    play.ahead.stop()
    play.ahead.lost()
    await asyncio.sleep(0.1)
    may.set()
    await asyncio.sleep(0.1)

    assert len(play.calls) == PARALLEL
    assert len(play.scene.view.tally(key("a")).binding) == PARALLEL


async def test_an_open_request_says_more_than_the_connection_of_filter(cluster: Cluster) -> None:
    play, waits = await with_open_request(cluster)
    play.scene.is_connected = False
    await asyncio.sleep(0)
    play.ahead.lost()
    await play.sees(gang("a", 1))

    assert play.written("a") == ["a-0"]
    waits.cancel()


async def test_an_open_request_says_little_of_a_kube_scheduler_that_is_silent(
    cluster: Cluster,
) -> None:
    """Its process may stand still, and lose its lease."""
    play, waits = await with_open_request(cluster)
    await asyncio.sleep(STOPPED_SECONDS + 0.5)
    await play.sees(gang("a", 1))
    assert play.written("a") == []
    play.ahead.asked()
    await play.sees(gang("b", 1, created=1))

    assert sorted(play.written("a", "b")) == ["a-0", "b-0"]
    waits.cancel()


async def test_an_answer_that_is_held_says_more_than_the_connection_of_filter(
    cluster: Cluster,
) -> None:
    play = Play(cluster, nodes(MANY, slots=MANY), gang("a", 2 * PARALLEL))
    may = asyncio.Event()

    async def wait(ref: PodRef) -> None:
        if ref.name != "a-0":
            await may.wait()

    play.scene.binder.before = wait
    request = play.scene.loop.create_task(play.bind(play.scene.view.pods["a-0"]))
    await asyncio.sleep(0.1)
    assert 0 < len(play.calls) < 2 * PARALLEL
    play.ahead.lost()
    may.set()
    await request

    assert len(play.calls) == 2 * PARALLEL


async def test_a_member_in_hand_leaves_its_gang_to_kube_scheduler(cluster: Cluster) -> None:
    play = await judged(cluster, nodes(4))
    group, members = gang("a", 2)
    observe(cluster, group, members)
    assert isinstance(play.filter(members[0]), OneNode)
    await asyncio.sleep(0.5)
    assert play.calls == []
    planned = play.scene.view.planned_node(members[0].uid)
    assert planned is not None
    assert await play.scene.bind(members[0], planned) == ""
    await asyncio.sleep(0.5)

    assert len(play.calls) == 2
    assert (play.begun("turn"), play.begun("request")) == (0, 1)


async def test_a_gang_that_was_planned_for_another_one_begins_too(cluster: Cluster) -> None:
    """A call about a gang plans those that go first."""
    play = Play(cluster, nodes(8))
    await play.judge(OTHER)
    observe(cluster, gang("a", 2), gang("b", 2, created=1))
    assert isinstance(play.filter(play.scene.view.pods["b-0"]), OneNode)
    assert len(play.scene.view.tally(key("a")).planned) == 2
    await asyncio.sleep(0.5)

    assert sorted(play.written("a", "b")) == ["a-0", "a-1"]


async def test_a_gang_that_was_planned_before_passes_no_pod_of_higher_priority(
    cluster: Cluster,
) -> None:
    play = Play(cluster, nodes(8))
    await play.judge(OTHER)
    observe(cluster, gang("a", 2), gang("b", 2, created=1))
    assert isinstance(play.filter(play.scene.view.pods["b-0"]), OneNode)
    await play.sees(pod("vip", 8, priority=9, unschedulable=NO_CPU))

    assert play.calls == []


async def test_none_passes_a_gang_whose_plan_is_being_made(cluster: Cluster) -> None:
    play = await judged(cluster, nodes(8))

    def work() -> Generator[None, None, bool]:
        yield
        return True

    play.scene.plans.planner.go_on(key("a"), work())
    await play.sees(gang("a", 2), gang("b", 2, created=1))
    assert play.calls == []
    play.scene.plans.planner.work()
    await play.sees(pod("plain"))

    assert len(play.calls) == 4


async def test_a_gang_that_was_found_too_large_keeps_room_when_there_is_some(
    cluster: Cluster,
) -> None:
    """kube-scheduler has said nothing of its nodes: it is to try it."""
    play = await judged(cluster, nodes(8))
    await play.sees(gang("a", 2, pattern=OTHER, unschedulable=NO_CPU), gang("b", 2, created=1))

    assert sorted(play.written("a", "b")) == ["b-0", "b-1"]
    assert len(play.scene.view.tally(key("a")).planned) == 2


async def test_few_gangs_keep_room_that_kube_scheduler_is_to_try(cluster: Cluster) -> None:
    """They lose it when kube-scheduler does not come to them soon, and count as failed then."""
    size = PODS_AT_ONCE // 2
    play = await judged(cluster, nodes(400, slots=400))
    waiting = [gang(n, size, pattern=OTHER, unschedulable=NO_CPU) for n in "abcd"]
    await play.sees(*waiting, gang("z", 1, created=1))
    view = play.scene.view
    kept = [each for each in "abcd" if view.tally(key(each)).planned]
    assert (kept, play.written("z")) == (["a", "b"], [])
    play.ahead.asked()
    await play.sees(*(deleted(f"a-{n}") for n in range(size)))

    assert view.tally(key("c")).planned


async def test_the_last_gang_is_written_first(cluster: Cluster) -> None:
    play = Play(cluster, nodes(8))
    observe(cluster, *(gang(name, 1, created=at) for at, name in enumerate("abcd")))
    await play.judge()
    await asyncio.sleep(0.5)

    assert play.written(*"abcd") == ["d-0", "c-0", "b-0", "a-0"]


async def test_few_begin_at_a_time(cluster: Cluster) -> None:
    play = Play(cluster, nodes(400, slots=400))
    may = asyncio.Event()

    async def wait(_: Any) -> None:
        await may.wait()

    await play.judge()
    play.scene.binder.before = wait
    await play.sees(*(gang(f"g{n:03}", 1, created=n) for n in range(200)))
    view = play.scene.view
    binding = {group for group in view.groups if view.tally(group).binding}
    begun = binding - {key("judged")}
    assert PODS_AT_ONCE <= len(begun) < PARALLEL + FEW + PODS_AT_ONCE
    assert begun == {key(f"g{n:03}") for n in range(len(begun))}
    play.ahead.asked()
    may.set()
    for _ in range(400):
        play.ahead.asked()
        for name, where in play.calls:
            each = play.scene.view.pods[name]
            if each.node is None:
                cluster.apply(ev.ObjectApplied(replace(each, node=where)))
        await asyncio.sleep(0.01)

    assert len({name for name, _ in play.calls}) == 200


async def test_other_pods_of_a_gang_whose_binding_failed_begin_at_once(cluster: Cluster) -> None:
    """The pod was deleted before our watch showed it, and its controller has made another one."""
    play = Play(cluster, nodes(8))
    play.scene.binder.script["a-0"] = [NotFoundError("no", status=404)] * 100
    await play.judge()
    observe(cluster, gang("a", 1))
    await asyncio.sleep(0.1)
    assert play.written("a") == ["a-0"]
    play.ahead.asked()
    await play.sees(deleted("a-0"), pod("a-1", group="a", pattern=EQUAL))

    assert play.written("a") == ["a-0", "a-1"]


async def test_a_gang_that_was_asked_for_in_vain_is_asked_for_again(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of it has begun, and nothing changes: it was looked at a moment ago, perhaps."""
    play, asks = Play(cluster, nodes(8)), list[float]()
    ask = play.scene.ahead.next_groups._ask

    def in_vain(group: str) -> None:
        asks.append(play.scene.loop.time())
        if len(asks) > 1:
            ask(group)

    monkeypatch.setattr(play.scene.ahead.next_groups, "_ask", in_vain)
    await play.judge()
    asks.clear()
    observe(cluster, gang("a", 2))
    await asyncio.sleep(1)

    assert sorted(play.written("a")) == ["a-0", "a-1"]
    assert len(asks) == 2


async def test_a_recent_failure_counts(cluster: Cluster) -> None:
    play = await judged(cluster, nodes(8))
    observe(cluster, *gang("a", 2)[1])
    group = pod_group("a", 2)
    play.scene.verdicts.failed(key("a"), Refuse(Reason.SCHEDULE_TIMEOUT, "it failed", deny=True))
    cluster.apply(ev.ObjectApplied(group))
    play.scene.verdicts.failed(key("a"), Refuse(Reason.SCHEDULE_TIMEOUT, "it failed", deny=True))
    await asyncio.sleep(1)

    assert play.calls == []


async def test_none_passes_a_gang_whose_plan_takes_long(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    play = await judged(cluster, nodes(8))
    monkeypatch.setattr(ahead, "SLICE_SECONDS", 0.0)
    await play.sees(gang("a", 2), gang("b", 2, created=1))
    assert play.calls == []
    assert [*play.scene.plans.planner.planned] == [key("a")]
    play.scene.plans.planner.work()
    await asyncio.sleep(0.5)

    assert sorted(play.written("a", "b")) == ["a-0", "a-1"]


@pytest.mark.parametrize("pattern", [EQUAL, OTHER])
async def test_a_large_gang_that_found_no_room_holds_up_none(
    cluster: Cluster, pattern: Pattern
) -> None:
    play = await judged(cluster, nodes(8))
    await play.sees(gang("a", 20, pattern=pattern, unschedulable=NO_CPU), gang("b", 1, created=1))

    assert play.written("a", "b") == ["b-0"]


async def test_nothing_begins_when_the_process_is_about_to_stop(cluster: Cluster) -> None:
    play = await judged(cluster, nodes(8))
    play.scene.waiting.refuse_all()
    await play.sees(gang("a", 2))

    assert play.calls == []
