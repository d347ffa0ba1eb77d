"""Equal members are bound together, and kube-scheduler's own requests for them go first."""

import asyncio
from dataclasses import dataclass, field, replace

import msgspec
import pytest

from extender.api.core_v1 import LabelSelector
from extender.gang.verdicts import FilterVerdict, OneNode
from extender.kube.errors import (
    ApiError,
    ForbiddenError,
    NotFoundError,
    UnavailableError,
    UnknownOutcomeError,
)
from extender.kube.pods import PodRef
from extender.kube.recorder import ObjectRef
from extender.permit.hold import HUNG_UP, HUNG_UP_ON_ANOTHER, Gone
from extender.permit.timing import (
    AHEAD_SECONDS,
    ASSUMED_SECONDS,
    BACKLOG,
    LATE_SECONDS,
    LOOK_SECONDS,
    MOMENT_SECONDS,
    PARALLEL,
    SILENT_SECONDS,
    SLICE_PODS,
    SPARED_SECONDS,
    UNSURE_SECONDS,
)
from extender.permit.wake import Waker
from extender.state.cluster import events as ev
from extender.state.cluster.events import ClusterChange
from extender.state.cluster.records import NodeInfo, Pattern, PodInfo, PodTerm, Shape
from extender.state.cluster.store import Cluster
from tests.makers import (
    NAMESPACE,
    deleted,
    key,
    never,
    node,
    nodes,
    observe,
    pod,
    pod_group,
    pod_json,
    pods,
    requests,
    shape,
    taint,
    until,
)
from tests.recount import check_tables
from tests.unit.server.scene import Scene

pytestmark = [pytest.mark.looptime, pytest.mark.usefixtures("patient")]

GANG = key("gang")
MANY = 2 * PARALLEL + 8
"""Members of a gang of which some are still to be written."""
EQUAL = Pattern(shape(1), NAMESPACE, {}, frozenset())
A, B, C, D = FOUR = pods(4, pattern=EQUAL)
PLACED = [("gang-0", "n0"), ("gang-1", "n0"), ("gang-2", "n1"), ("gang-3", "n1")]


@dataclass
class Play:
    """A gang of four, two to a node, whose Bindings are made when they `may`."""

    scene: Scene
    may: asyncio.Event = field(default_factory=asyncio.Event)
    requests: list["asyncio.Task[str]"] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.may.set()
        self.scene.binder.before = self._wait

    async def _wait(self, _: PodRef) -> None:
        await self.may.wait()

    def filter(self, subject: PodInfo, *sent: str) -> FilterVerdict:
        return self.scene.decide(subject, sent or [*self.scene.view.nodes])

    def begin(self, subject: PodInfo) -> "asyncio.Task[str]":
        """Have kube-scheduler try a pod, and return its bind request."""
        verdict = self.filter(subject)
        assert isinstance(verdict, OneNode)
        return self.scene.loop.create_task(self.scene.bind(subject, verdict.node))

    def start(self, subject: PodInfo) -> None:
        """Have kube-scheduler try a pod; its bind request is left alone."""
        self.requests.append(self.begin(subject))

    async def writing(self) -> None:
        """Have kube-scheduler try the first member; the Bindings of all are on their way then."""
        self.may.clear()
        self.start(A)
        await until(lambda: len(self.scene.binder.calls) == 4)

    @property
    def ahead(self) -> float:
        return float(self.scene.metrics.bindings.labels("ahead", "ok")._value.get())


@pytest.fixture
async def play(cluster: Cluster) -> Play:
    facts = [*nodes(2, 2), *FOUR, pod_group(min_member=4)]
    return Play(Scene(cluster, facts, patient=True))


async def test_the_first_member_starts_all(play: Play) -> None:
    first = play.begin(A)

    assert await first == ""
    await until(lambda: len(play.scene.binder.calls) == 4)
    assert sorted(play.scene.binder.calls) == PLACED
    assert play.ahead == 3
    play.scene.idle()


async def test_without_the_setting_each_is_asked_for(cluster: Cluster) -> None:
    play = Play(Scene(cluster, [*nodes(2, 2), *FOUR, pod_group(min_member=4)], together=False))
    requests = [play.begin(each) for each in (A, B, C)]
    await asyncio.sleep(1)
    assert play.scene.binder.calls == []
    requests.append(play.begin(D))

    assert await asyncio.gather(*requests) == [""] * 4
    assert play.ahead == 0


async def test_unequal_members_are_waited_for(cluster: Cluster) -> None:
    """Three of four are equal: with the fourth the gang is whole."""
    launcher = replace(A, pattern=Pattern(A.shape, NAMESPACE, {"role": "launcher"}, frozenset()))
    facts = [*nodes(2, 2), launcher, B, C, D, pod_group(min_member=4)]
    play = Play(Scene(cluster, facts))
    first = play.begin(B)
    await asyncio.sleep(1)
    assert play.scene.binder.calls == []
    second = play.begin(launcher)

    assert [await first, await second] == ["", ""]
    await until(lambda: len(play.scene.binder.calls) == 4)
    assert play.ahead == 2


async def test_a_filter_request_takes_a_member_back_that_is_not_on_its_way(play: Play) -> None:
    play.may.clear()
    first = play.begin(A)
    await until(lambda: play.scene.view.tally(GANG).binding)
    assert play.scene.view.tally(GANG).binding == {each.uid for each in FOUR}
    verdict = play.filter(B)
    assert verdict == OneNode("n0")
    play.may.set()

    assert await first == ""
    await asyncio.sleep(1)
    assert sorted(play.scene.binder.calls) == [PLACED[0], *PLACED[2:]]
    assert play.scene.view.planned_node(B.uid) == "n0"
    # No quorum is asked for again: the others may have finished by now.
    assert await play.scene.bind(B, "n0") == ""
    assert sorted(play.scene.binder.calls) == PLACED
    play.scene.idle()


async def test_a_member_whose_bind_request_is_due_counts_and_comes_itself(play: Play) -> None:
    """kube-scheduler may have the next member filtered before it has the last one bound."""
    assert isinstance(play.filter(A), OneNode)
    assert play.filter(B) == OneNode("n0")
    third = play.begin(C)
    assert await third == ""
    await until(lambda: len(play.scene.binder.calls) == 2)
    assert sorted(play.scene.binder.calls) == PLACED[2:]

    assert [await play.scene.bind(each, "n0") for each in (A, B)] == ["", ""]
    assert sorted(play.scene.binder.calls) == PLACED
    assert play.ahead == 1
    play.scene.idle()


async def test_a_member_whose_binding_is_on_its_way_has_that_node(play: Play) -> None:
    await play.writing()
    [first] = play.requests

    assert play.filter(D) == OneNode("n1")
    assert not isinstance(play.filter(D, "n0"), OneNode)
    later = play.scene.loop.create_task(play.scene.bind(D, "n1"))
    await asyncio.sleep(1)
    assert not later.done()
    play.may.set()
    assert [await first, await later] == ["", ""]
    assert sorted(play.scene.binder.calls) == PLACED


def ask(play: Play, name: str, gone: Gone = never) -> "asyncio.Task[bytes]":
    """Return the answer about a member for which both nodes have room."""
    body = {"Pod": pod_json(name, group="gang"), "Nodes": None, "NodeNames": ["n0", "n1"]}
    verbs = play.scene.verbs
    return play.scene.loop.create_task(verbs.filter(msgspec.json.encode(body), gone))


async def test_filter_answers_about_a_member_when_its_binding_is_made(play: Play) -> None:
    await play.writing()
    answer = ask(play, D.name)
    await asyncio.sleep(MOMENT_SECONDS / 2)
    assert not answer.done()
    play.may.set()

    assert msgspec.json.decode(await answer)["NodeNames"] == ["n1"]
    assert [await each for each in play.requests] == [""]
    assert sorted(play.scene.binder.calls) == PLACED


async def test_filter_waits_a_moment_at_most_for_a_binding_and_for_no_other(play: Play) -> None:
    await play.writing()
    began = play.scene.loop.time()
    await ask(play, "gang-4")
    assert play.scene.loop.time() == began
    await ask(play, D.name)

    ended = play.scene.loop.time()
    assert ended - began == pytest.approx(MOMENT_SECONDS, abs=0.01)
    await ask(play, D.name)
    assert play.scene.loop.time() == ended, "the next one does not wait, after one in vain"
    play.may.set()
    assert [await each for each in play.requests] == [""]


async def test_a_filter_request_that_waits_for_a_binding_ends_with_its_caller(play: Play) -> None:
    await play.writing()
    looks = play.scene.metrics.decisions.labels("filter", "Place")
    before = looks._value.get()
    gone = asyncio.Event()

    async def hangs_up() -> None:
        await gone.wait()

    answer = ask(play, D.name, hangs_up)
    await asyncio.sleep(MOMENT_SECONDS / 2)
    gone.set()
    with pytest.raises(ValueError, match="hung up"):
        await answer
    assert looks._value.get() == before
    play.may.set()
    assert [await each for each in play.requests] == [""]


async def test_a_bind_request_joins_the_write(play: Play) -> None:
    await play.writing()
    assert D.uid in play.scene.view.unseen
    play.scene.binder.script["gang-3"] = [ForbiddenError("a policy", status=403)]
    later = play.scene.loop.create_task(play.scene.bind(D, "n1"))
    await asyncio.sleep(1)
    play.may.set()

    assert await later == "a policy"
    assert len(play.scene.binder.calls) == 4
    assert D.uid not in play.scene.view.unseen
    assert await play.begin(C) == ""
    assert C.uid not in play.scene.view.unseen
    assert B.uid in play.scene.view.unseen


@pytest.mark.parametrize(
    "error", [ForbiddenError("a policy", status=403), UnavailableError("down", status=503)]
)
async def test_the_room_of_a_member_that_was_not_bound_is_kept_and_it_follows_alone(
    play: Play, error: ApiError
) -> None:
    play.scene.binder.script["gang-3"] = [error] * 99
    assert await play.begin(A) == ""
    await asyncio.sleep(AHEAD_SECONDS + 0.1)
    assert play.scene.view.planned_node(D.uid) == "n1"
    play.scene.binder.script["gang-3"] = []

    assert await play.begin(D) == ""
    play.scene.idle()


async def test_a_member_that_is_gone_lets_its_gang_begin_with_a_quorum_again(play: Play) -> None:
    play.scene.binder.script["gang-3"] = [NotFoundError("no such pod", status=404)]
    assert await play.begin(A) == ""
    await until(lambda: len(play.scene.binder.calls) == 4)
    await until(lambda: play.scene.view.reservation(D.uid) is None)

    assert play.scene.view.tally(GANG).binding == {A.uid, B.uid, C.uid}


async def test_nothing_begins_once_kube_scheduler_is_silent(cluster: Cluster) -> None:
    """Its next one may begin five seconds after it has lost its lease."""
    many = pods(MANY, pattern=EQUAL)
    scene = Scene(cluster, [*nodes(MANY, slots=MANY), *many, pod_group(min_member=MANY)])
    play = Play(scene)
    play.may.clear()
    play.start(many[0])
    await until(lambda: len(scene.binder.calls) > 10)
    begun = len(scene.binder.calls)
    await asyncio.sleep(SILENT_SECONDS + 0.1)
    play.may.set()
    await asyncio.sleep(AHEAD_SECONDS)

    assert len(scene.binder.calls) == begun
    assert len(scene.view.planned) == MANY - begun


@dataclass
class Caller:
    """A caller of one bind request, which hangs up when it is `gone`."""

    gone: asyncio.Event = field(default_factory=asyncio.Event)

    async def until_gone(self) -> None:
        await self.gone.wait()


async def slow(_: PodRef) -> None:
    await asyncio.sleep(0.8)


@pytest.mark.parametrize("hangs_up", [False, True])
async def test_an_open_bind_request_shows_that_kube_scheduler_is_there(
    cluster: Cluster, hangs_up: bool
) -> None:
    """It does not call while all its pods wait; what has given its lease back writes no more."""
    many = pods(600, pattern=EQUAL)
    observe(cluster, *nodes(600, slots=600), *many, pod_group(min_member=600))
    cluster.apply(ev.Planned({each.uid: "n0" for each in many}))
    scene, caller = Scene(cluster), Caller()
    assert isinstance(Play(scene).filter(many[0]), OneNode)
    scene.binder.before = slow
    request = scene.loop.create_task(scene.bind(many[0], "n0", caller.until_gone))
    await asyncio.sleep(SILENT_SECONDS + 1.1)
    assert not request.done()
    begun, made = len(scene.binder.calls), scene.metrics.bindings.labels("ahead", "ok")
    written = made._value.get()
    if hangs_up:
        caller.gone.set()
        await asyncio.sleep(0.01)
        assert request.done()
        assert scene.binds.unfinished == 0
        tally = scene.view.tally(GANG)
        assert len(tally.planned) + len(tally.binding) == 600  # all of it is kept for the next one
        assert len(scene.writer.unsure) == begun - 1 - written
    await asyncio.sleep(20)

    assert request.done()
    assert scene.binds.unfinished == 0
    if hangs_up:
        assert len(scene.binder.calls) == begun
        assert made._value.get() == written
    else:
        assert len(scene.binder.calls) == 600


async def test_what_a_caller_left_when_it_hung_up_goes_on_with_the_next_call(play: Play) -> None:
    play.may.clear()
    caller = Caller()
    assert isinstance(play.filter(A), OneNode)
    first = play.scene.loop.create_task(play.scene.bind(A, "n0", caller.until_gone))
    await until(lambda: len(play.scene.binder.calls) == 4)
    caller.gone.set()
    await asyncio.sleep(0.01)
    assert await first == HUNG_UP
    assert play.scene.view.tally(GANG).binding == {each.uid for each in FOUR}
    play.may.set()

    assert [await play.begin(each) for each in FOUR] == [""] * 4
    assert sorted(set(play.scene.binder.calls)) == PLACED
    play.scene.idle()


async def test_a_request_that_waits_for_a_write_does_not_begin_one_after_a_hang_up(
    play: Play,
) -> None:
    """The same process called, and its connections do not end in the same moment."""
    play.may.clear()
    caller = Caller()
    assert isinstance(play.filter(A), OneNode)
    play.requests.append(play.scene.loop.create_task(play.scene.bind(A, "n0", caller.until_gone)))
    await until(lambda: len(play.scene.binder.calls) == 4)
    later = play.scene.loop.create_task(play.scene.bind(D, "n1"))
    await asyncio.sleep(0.1)
    caller.gone.set()

    assert await later == HUNG_UP_ON_ANOTHER
    await asyncio.sleep(AHEAD_SECONDS + 1)
    assert len(play.scene.binder.calls) == 4


@pytest.mark.usefixtures("in_pieces")
async def test_a_gang_does_not_start_whose_caller_hung_up_between_two_slices(
    cluster: Cluster,
) -> None:
    """It does not need the member that is lost, and has no other call."""
    count = 12 * SLICE_PODS
    many = pods(count, pattern=EQUAL)
    observe(cluster, *nodes(count, slots=count), *many, pod_group(min_member=count - 1))
    cluster.apply(ev.Planned({each.uid: "n0" for each in many}))
    play, caller = Play(Scene(cluster)), Caller()
    assert isinstance(play.filter(many[0]), OneNode)
    caller.gone.set()
    request = play.scene.loop.create_task(play.scene.bind(many[0], "n0", caller.until_gone))
    await asyncio.sleep(1)

    assert request.done()
    assert play.scene.binder.calls == []
    assert not play.scene.view.tally(GANG).binding


async def test_a_gang_that_waited_long_is_not_partial(cluster: Cluster) -> None:
    """kube-scheduler was silent meanwhile, and its request was open."""
    fresh = pod("vip", priority=9)
    facts = [*nodes(2, 2, 2), *FOUR, pod_group(min_member=4), fresh]
    play = Play(Scene(cluster, facts, patient=True))
    first = play.begin(A)
    await asyncio.sleep(SILENT_SECONDS + 1)
    assert play.scene.binder.calls == []
    observe(cluster, replace(fresh, unschedulable="0/2 nodes"))
    play.scene.waiting.decide(GANG)

    assert await first == ""
    await asyncio.sleep(1)
    assert len(play.scene.binder.calls) == 4


async def test_a_write_ends_soon_after_the_last_call_of_kube_scheduler(play: Play) -> None:
    await play.writing()
    await asyncio.sleep(AHEAD_SECONDS + 0.1)

    assert play.scene.view.tally(GANG).binding == {each.uid for each in FOUR}
    assert play.scene.writer.unsure.keys() == {B.uid, C.uid, D.uid}


async def test_a_stop_waits_for_what_is_on_its_way_and_begins_nothing(cluster: Cluster) -> None:
    many = pods(MANY, pattern=EQUAL)
    scene = Scene(cluster, [*nodes(MANY, slots=MANY), *many, pod_group(min_member=MANY)])
    play = Play(scene)
    play.may.clear()
    first = play.begin(many[0])
    await until(lambda: len(scene.binder.calls) > 10)
    begun = len(scene.binder.calls)
    scene.waiting.refuse_all()
    scene.ahead.stop()
    assert scene.binds.unfinished == begun
    play.may.set()

    assert await first == ""
    await until(lambda: scene.binds.unfinished == 0)
    assert len(scene.binder.calls) == begun


@pytest.mark.usefixtures("in_pieces")
async def test_a_large_gang_begins_in_slices_and_is_written_with_its_quorum(
    cluster: Cluster,
) -> None:
    count = 2 * SLICE_PODS + 10
    play = await sliced(cluster, count)
    scene, [first] = play.scene, play.requests
    binding = len(scene.view.tally(GANG).binding)
    assert 0 < binding <= SLICE_PODS
    assert scene.binder.calls == []

    assert await first == ""
    await until(lambda: len(scene.binder.calls) == count)
    assert play.ahead == count - 1


async def sliced(cluster: Cluster, count: int) -> Play:
    """Return the play of a gang of so many of which the first slice has just begun."""
    many = pods(count, pattern=EQUAL)
    observe(cluster, *nodes(count, slots=count), *many, pod_group(min_member=count))
    cluster.apply(ev.Planned({each.uid: "n0" for each in many}))
    play = Play(Scene(cluster))
    play.start(many[0])
    await until(lambda: play.scene.view.tally(GANG).binding)
    return play


@pytest.mark.usefixtures("in_pieces")
async def test_a_bind_request_ends_when_the_binding_that_it_waits_for_does_not_begin(
    cluster: Cluster,
) -> None:
    play = await sliced(cluster, 3 * SLICE_PODS)
    pods = play.scene.view.pods
    joins = pods[next(iter(play.scene.view.tally(GANG).binding))]
    request = play.scene.loop.create_task(play.scene.bind(joins, "n0"))
    await asyncio.sleep(0)
    cluster.apply(deleted("gang-1"))
    await asyncio.sleep(play.scene.options.schedule_timeout + 1)

    assert request.done()
    assert play.scene.binds.unfinished == 0
    assert play.scene.binder.calls == []


@pytest.mark.usefixtures("in_pieces")
async def test_what_begins_in_vain_is_given_back_in_batches(cluster: Cluster) -> None:
    play = await sliced(cluster, 3 * SLICE_PODS)
    changes: list[ClusterChange] = []
    cluster.apply(deleted("gang-1"))
    cluster.subscribe(changes.append)
    await asyncio.sleep(1)

    assert not play.scene.view.tally(GANG).binding
    assert sum(GANG in change.groups for change in changes) <= 5


async def test_what_is_left_to_a_silent_kube_scheduler_is_given_back_in_batches(
    cluster: Cluster,
) -> None:
    play = await begun(cluster, 400)
    calls, changes = len(play.scene.binder.calls), list[ClusterChange]()
    cluster.subscribe(changes.append)
    await asyncio.sleep(SILENT_SECONDS + 0.1)
    play.may.set()
    await asyncio.sleep(1)

    assert len(play.scene.binder.calls) == calls
    assert len(play.scene.view.planned) == 400 - calls
    assert sum(GANG in change.groups for change in changes) <= 5


@pytest.mark.usefixtures("in_pieces")
async def test_a_member_that_begins_anew_is_not_written_before_its_quorum(
    cluster: Cluster,
) -> None:
    """It was to be written, was given back, and is among the first slice of another start."""
    play = await sliced(cluster, 4 * SLICE_PODS)
    play.may.clear()
    await until(lambda: len(play.scene.binder.calls) > PARALLEL)
    calls = len(play.scene.binder.calls)
    play.scene.ahead.stop()
    play.scene.waiting.lose(GANG)
    again, *_, last = (play.scene.view.pods[uid] for uid in play.scene.view.planned)
    play.start(again)
    await until(lambda: len(play.scene.view.tally(GANG).binding) > calls)
    play.may.set()
    cluster.apply(deleted(last.uid))
    await asyncio.sleep(1)

    assert len(play.scene.binder.calls) == calls


async def test_a_bind_request_that_waits_for_a_write_ends_with_its_caller(play: Play) -> None:
    await play.writing()
    gone = asyncio.Event()

    async def hangs_up() -> None:
        await gone.wait()

    later = play.scene.loop.create_task(play.scene.bind(D, "n1", hangs_up))
    await asyncio.sleep(0.1)
    assert not later.done()
    gone.set()
    await asyncio.sleep(0.1)
    assert "hung up" in await asyncio.wait_for(later, 0.1)
    assert len(play.scene.binder.calls) == 4
    play.may.set()
    await until(lambda: play.scene.binds.unfinished == 0)


async def test_an_unexpected_error_harms_one_member_alone(play: Play) -> None:
    async def fails(ref: PodRef) -> None:
        if ref.name == D.name:
            raise RuntimeError("a bug")

    play.scene.binder.before = fails
    assert await play.begin(A) == ""
    await until(lambda: len(play.scene.binder.calls) == 4)
    await until(lambda: play.scene.view.reservation(D.uid) is None)
    assert play.scene.view.tally(GANG).binding == {A.uid, B.uid, C.uid}
    assert not play.scene.works[0].done()


async def test_what_was_left_to_kube_scheduler_is_counted_by_why(cluster: Cluster) -> None:
    launcher = replace(A, pattern=None)
    facts = [*nodes(2, 2), launcher, B, C, D, pod("gang-4", group="gang"), pod_group(min_member=4)]
    play = Play(Scene(cluster, facts))
    requests = [play.begin(B), play.begin(launcher)]

    assert await asyncio.gather(*requests) == ["", ""]
    skipped = play.scene.metrics.ahead_skipped
    assert skipped.labels("constrained")._value.get() <= 1


async def begun(cluster: Cluster, *counts: int) -> Play:
    """Return the play of gangs of so many on a node each, of which the first is being bound."""
    scene = Scene(cluster)
    for number, count in enumerate(counts):
        name = f"gang{number}" if number else "gang"
        observe(cluster, node(f"n{number}", count, slots=count), pod_group(name, count))
        members = pods(count, group=name, pattern=EQUAL)
        observe(cluster, members)
        cluster.apply(ev.Planned({each.uid: f"n{number}" for each in members}))
    play = Play(scene)
    play.may.clear()
    play.start(scene.view.pods["gang-0"])
    await until(lambda: len(scene.binder.calls) > PARALLEL)
    return play


@pytest.mark.parametrize("change", ["deleted", "cordoned", "shunned"])
async def test_no_member_is_bound_where_it_may_not_be_any_more(
    cluster: Cluster, change: str
) -> None:
    play = await begun(cluster, MANY)
    calls = len(play.scene.binder.calls)
    term = PodTerm(LabelSelector())
    facts: dict[str, object] = {
        "deleted": deleted("n0", NodeInfo),
        "cordoned": node("n0", MANY, slots=MANY, unschedulable=True),
        "shunned": pod("shy", Shape(requests(0), shuns=(term,)), on="n1"),
    }
    observe(cluster, facts[change])
    play.may.set()
    await asyncio.sleep(1)

    assert len(play.scene.binder.calls) == calls
    check_tables(cluster)


@pytest.mark.parametrize("group", [key("other"), GANG, None])
async def test_a_member_that_was_changed_meanwhile_is_not_bound(
    cluster: Cluster, group: str | None
) -> None:
    play = await begun(cluster, MANY)
    written = {name for name, _ in play.scene.binder.calls}
    changed = next(each for each in play.scene.view.unseen.pods if each.name not in written)
    uid = changed.uid
    observe(cluster, replace(changed, group=group, pattern=None))
    play.may.set()
    await asyncio.sleep(1)

    assert (uid, "n0") not in play.scene.binder.calls
    assert play.scene.view.planned_node(uid) == ("n0" if group == GANG else None)
    check_tables(cluster)


async def test_a_gang_is_held_while_many_bindings_are_to_be_written(cluster: Cluster) -> None:
    play = await begun(cluster, BACKLOG + 2 * PARALLEL, 4)
    second = play.begin(play.scene.view.pods["gang1-0"])
    await asyncio.sleep(1)
    assert not second.done()
    assert not play.scene.view.tally(key("gang1")).binding
    play.may.set()

    assert await second == ""
    await asyncio.sleep(1)
    assert len(play.scene.view.tally(key("gang1")).binding) == 4


def waker_of(play: Play) -> Waker:
    scene = play.scene
    return Waker(scene.cluster, object(), scene.plans, metrics=scene.metrics)  # type: ignore[arg-type]


async def test_members_that_can_be_bound_are_not_woken_for_a_moment(play: Play) -> None:
    waker = waker_of(play)
    play.filter(A)
    assert play.scene.view.planned_node(B.uid) == "n0"

    unlike = replace(C, pattern=None)
    assert waker._to_wake(GANG, (B, unlike)) == [unlike]
    await asyncio.sleep(SPARED_SECONDS)
    assert waker._to_wake(GANG, (B, unlike)) == (B, unlike)


async def test_one_is_woken_where_kube_scheduler_has_none_in_hand(play: Play) -> None:
    waker = waker_of(play)
    play.filter(A)
    play.scene.verdicts.awaiting_bind.end(A.uid)

    assert waker._to_wake(GANG, (B, C)) == (B,)


async def test_kube_schedulers_event_is_written_of_what_it_does_not_ask_for(play: Play) -> None:
    """It writes that of a pod for which it asks, even if it finds it bound."""
    assert await play.begin(A) == ""
    await until(lambda: play.ahead == 3)
    assert await play.begin(B) == ""
    assert isinstance(play.filter(C), OneNode)
    await asyncio.sleep(LATE_SECONDS + 0.1)

    [event] = play.scene.events
    assert event.about == ObjectRef("v1", "Pod", NAMESPACE, D.name, D.uid)
    assert (event.reason, event.action, event.warning) == ("Scheduled", "Binding", False)
    assert event.note == f"Successfully assigned {NAMESPACE}/gang-3 to n1"
    await asyncio.sleep(ASSUMED_SECONDS)
    assert [each.about.name for each in play.scene.events] == ["gang-3", "gang-2"]


@pytest.mark.parametrize("carried_out", [True, False])
async def test_a_binding_of_unknown_outcome_has_its_event_once_the_pod_is_seen_on_the_node(
    play: Play, carried_out: bool
) -> None:
    """kube-scheduler drops a pod that it sees on a node, and writes no Event about it."""

    async def fails(ref: PodRef) -> None:
        if ref.name == D.name:
            raise UnknownOutcomeError("no answer in time")

    play.scene.binder.before = fails
    assert await play.begin(A) == ""
    await asyncio.sleep(AHEAD_SECONDS + LATE_SECONDS + 0.1)
    assert D.uid in play.scene.writer.unsure
    assert sorted(each.about.name for each in play.scene.events) == ["gang-1", "gang-2"]

    if carried_out:
        observe(play.scene.cluster, replace(D, node="n1"))
    await asyncio.sleep(UNSURE_SECONDS + LATE_SECONDS)
    about = [each.about.name for each in play.scene.events[2:]]
    assert about == (["gang-3"] if carried_out else [])


async def test_a_pod_that_is_written_twice_has_one_event(play: Play) -> None:
    """The second write may begin before the Event of a first one of unknown outcome is due."""
    failed = list[object]()
    play.scene.loop.set_exception_handler(lambda _, context: failed.append(context))
    observe(play.scene.cluster, replace(D, node="n1"))

    play.scene.ahead._announce_later(D, "n1")
    play.scene.ahead._announce_later(D, "n1")
    await asyncio.sleep(LATE_SECONDS + 0.1)

    assert [each.about.name for each in play.scene.events] == ["gang-3"]
    assert failed == []


async def test_a_member_that_may_wait_for_its_volumes_is_waited_for(cluster: Cluster) -> None:
    """Between its filter and its bind kube-scheduler may provision volumes, for minutes."""
    launcher = replace(A, pattern=None)
    facts = [*nodes(2, 2), launcher, B, C, D, pod_group(min_member=4)]
    play = Play(Scene(cluster, facts))
    assert isinstance(play.filter(launcher), OneNode)
    second = play.begin(B)
    await asyncio.sleep(1)
    assert play.scene.binder.calls == []
    planned = play.scene.view.planned_node(launcher.uid)
    assert planned is not None

    assert await play.scene.bind(launcher, planned) == ""
    assert await second == ""
    await until(lambda: len(play.scene.binder.calls) == 4)


async def test_a_member_whose_bind_request_is_overdue_does_not_count(play: Play) -> None:
    play.filter(A)
    await asyncio.sleep(LOOK_SECONDS)
    second = play.begin(B)
    await asyncio.sleep(1)
    assert play.scene.binder.calls == []

    assert await play.scene.bind(A, "n0") == ""
    assert await second == ""


@pytest.mark.usefixtures("in_pieces")
@pytest.mark.parametrize("meanwhile", ["a member is lost", "the process is about to stop"])
async def test_a_large_gang_does_not_start_if_meanwhile(cluster: Cluster, meanwhile: str) -> None:
    scene = (await sliced(cluster, 2 * SLICE_PODS)).scene
    if meanwhile == "a member is lost":
        cluster.apply(deleted("gang-1"))
    else:
        scene.waiting.refuse_all()
        scene.ahead.stop()
    await asyncio.sleep(1)

    assert scene.binder.calls == []
    assert not scene.view.tally(GANG).binding


async def test_no_member_is_bound_to_a_node_that_has_changed_meanwhile(cluster: Cluster) -> None:
    play = await begun(cluster, MANY)
    calls = len(play.scene.binder.calls)
    observe(cluster, node("n0", MANY, slots=MANY, taints=(taint(),)))
    play.may.set()
    await asyncio.sleep(1)

    assert len(play.scene.binder.calls) == calls
    assert len(play.scene.view.planned) == MANY - calls


async def test_no_member_that_is_gone_is_bound(cluster: Cluster) -> None:
    play = await begun(cluster, MANY)
    waits = next(
        each.uid
        for each in play.scene.view.unseen.pods
        if (each.uid, "n0") not in play.scene.binder.calls
    )
    cluster.apply(deleted(waits))
    play.may.set()
    await asyncio.sleep(1)

    assert len(play.scene.binder.calls) == MANY - 1
