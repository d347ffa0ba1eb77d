"""Holds: how they begin, and the ways in which they end. Time is virtual."""

import asyncio
import sys
from dataclasses import replace
from typing import Any

import pytest

from extender.api.core_v1 import LabelSelector
from extender.api.reasons import Reason
from extender.api.wellknown import GROUP_X
from extender.gang.verdicts import GangOptions
from extender.kube.errors import ConflictError
from extender.runtime.faults import FAULTS
from extender.state.cluster import events as ev
from extender.state.cluster.records import PodGroupInfo, PodTerm
from extender.state.cluster.store import Cluster
from extender.telemetry import logs
from tests.harness.client import PATIENCE_SECONDS
from tests.makers import deleted, key, never, nodes, observe, planned, pod, pod_group, pods, until
from tests.unit.server.scene import Scene, said
from tests.unit.telemetry.test_logs import FullDisk

pytestmark = pytest.mark.looptime

GANG = key("gang")
A, B, C = pods(3)
FACTS = [*nodes(8, 8, 8), A, B, C, pod_group(schedule_timeout=30.0)]


async def test_members_are_held_until_quorum_and_then_all_released(cluster: Cluster) -> None:
    scene = Scene(cluster, FACTS)
    async with asyncio.TaskGroup() as tasks:
        held = await scene.holding(tasks, A, B)
        await asyncio.sleep(10)
        assert not any(task.done() for task in held)
        held.append(tasks.create_task(scene.hold(C, "n1")))

    assert [task.result() for task in held] == [None, None, None]
    assert scene.view.tally(GANG).binding == {A.uid, B.uid, C.uid}
    assert scene.loop.time() == pytest.approx(10, abs=0.01)
    scene.idle()


async def test_a_member_above_quorum_does_not_wait(cluster: Cluster) -> None:
    bound = [replace(each, node="n0") for each in (A, B, C)]
    extra = pod("extra", group="gang")
    scene = Scene(cluster, FACTS, bound, extra)

    assert await scene.hold(extra, "n1") is None
    assert scene.loop.time() == 0
    scene.idle()


async def test_the_time_out_refuses_all_in_the_same_instant(cluster: Cluster) -> None:
    scene = Scene(cluster, FACTS)
    ended: list[float] = []

    async def hold(member: Any) -> str | None:
        reason = await scene.hold(member, "n0")
        ended.append(scene.loop.time())
        return reason

    async with asyncio.TaskGroup() as tasks:
        first = tasks.create_task(hold(A))
        await asyncio.sleep(29)
        second = tasks.create_task(hold(B))

    assert (first.result(), second.result()) == (Reason.SCHEDULE_TIMEOUT, Reason.SCHEDULE_TIMEOUT)
    assert ended[0] == ended[1] == pytest.approx(30, abs=0.01)
    scene.idle()


async def test_the_group_is_denied_after_the_time_out_for_the_window(cluster: Cluster) -> None:
    scene = Scene(cluster, FACTS)
    await scene.hold(A, "n0")
    answer = scene.filter(B.uid, ["n0"], group="gang")
    text = "gang ns/gang: 1 of 3 pods got a node before the time-out"
    assert said(answer) == text
    assert scene.woken == [(GANG, 3.0)]
    await asyncio.sleep(3)

    assert scene.filter(B.uid, ["n0"], group="gang")["NodeNames"] == ["n0"]


@pytest.mark.parametrize(("asked", "want"), [(None, 60), (5.0, 5), (5000.0, 900)])
async def test_the_time_out_is_the_pod_groups_within_limits(
    cluster: Cluster, asked: float | None, want: float
) -> None:
    scene = Scene(cluster, FACTS, pod_group(schedule_timeout=asked))

    assert await scene.hold(A, "n0") == Reason.SCHEDULE_TIMEOUT
    assert scene.loop.time() == pytest.approx(want, abs=0.01)


async def test_a_plan_that_no_pod_follows_is_dropped_at_the_time_out(cluster: Cluster) -> None:
    scene = Scene(cluster, FACTS)
    observe(cluster, planned(gang_0="n0", gang_1="n0", gang_2="n0"))
    await asyncio.sleep(29.5)
    assert scene.view.tally(GANG).planned == {A.uid, B.uid, C.uid}
    await asyncio.sleep(1)

    assert scene.view.tally(GANG).planned == set()


async def test_a_plan_beyond_quorum_is_dropped_at_the_time_out(cluster: Cluster) -> None:
    extra = pod("extra", group="gang")
    scene = Scene(cluster, FACTS, extra)
    observe(cluster, planned(gang_0="n0", gang_1="n0", gang_2="n0", extra="n1"))
    async with asyncio.TaskGroup() as tasks:
        for each in (A, B, C):
            tasks.create_task(scene.hold(each, "n0"))
    assert scene.view.tally(GANG).planned == {extra.uid}
    await asyncio.sleep(31)

    assert scene.view.tally(GANG).planned == set()
    scene.idle()


async def test_a_client_that_hangs_up_ends_its_own_hold_only(cluster: Cluster) -> None:
    scene = Scene(cluster, FACTS)

    async def gone() -> None:
        await asyncio.sleep(5)

    async with asyncio.TaskGroup() as tasks:
        leaves = tasks.create_task(scene.hold(A, "n0", gone))
        stays = tasks.create_task(scene.hold(B, "n0"))
        await asyncio.sleep(6)
        assert leaves.result() == Reason.DISCONNECTED
        assert scene.view.tally(GANG).waiting == {B.uid}
        assert scene.view.used("n0") == B.shape.requests

    assert stays.result() == Reason.SCHEDULE_TIMEOUT
    scene.idle()


async def test_a_newer_request_takes_the_hold_over(cluster: Cluster) -> None:
    scene = Scene(cluster, FACTS)
    async with asyncio.TaskGroup() as tasks:
        old = tasks.create_task(scene.hold(A, "n0"))
        await until(lambda: scene.waiting.held == 1)
        new = tasks.create_task(scene.hold(A, "n1"))
        await until(old.done)
        assert scene.waiting.held == 1
        assert (scene.view.used("n0"), scene.view.used("n1")) == ({}, A.shape.requests)
        for each in (B, C):
            tasks.create_task(scene.hold(each, "n0"))

    assert (old.result(), new.result()) == (Reason.DISCONNECTED, None)
    scene.idle()


async def test_the_old_connection_breaking_later_leaves_the_newer_hold_alone(
    cluster: Cluster,
) -> None:
    scene = Scene(cluster, FACTS)
    breaks = asyncio.Event()

    async def gone() -> None:
        await breaks.wait()

    async with asyncio.TaskGroup() as tasks:
        old = tasks.create_task(scene.hold(A, "n0", gone))
        await until(lambda: scene.waiting.held == 1)
        new = tasks.create_task(scene.hold(A, "n1"))
        await asyncio.sleep(0)
        breaks.set()
        await asyncio.sleep(1)
        assert (old.done(), new.done(), scene.waiting.held) == (True, False, 1)


NO_NODE = "0/3 nodes are available"
OURS = f"{NO_NODE}: 3 gang ns/gang: 1 of the 3 pods that it needs exist."
ROOM = planned(gang_0="n0", gang_1="n0", gang_2="n1")
SUBSTITUTE = pod("substitute", group="gang")
MEMBER_GONE = (Reason.MEMBER_DELETED, Reason.NOT_ENOUGH_PODS)
LATE = (Reason.SCHEDULE_TIMEOUT,) * 2


@pytest.mark.parametrize(
    ("facts", "change", "want", "at"),
    [
        ((), deleted(A.uid), MEMBER_GONE, 0),
        (SUBSTITUTE, replace(A, terminating=True), (Reason.MEMBER_DELETED, LATE[0]), 30),
        ((), deleted((GROUP_X, GANG), PodGroupInfo), (Reason.POD_GROUP_DELETED,) * 2, 0),
        ((), pod_group(min_member=2), (None, None), 0),
        ((), pod_group(min_member=4), (Reason.NOT_ENOUGH_PODS,) * 2, 0),
        ((), replace(C, node="n1"), (None, None), 0),
        (ROOM, replace(C, unschedulable=NO_NODE), (Reason.MEMBER_UNSCHEDULABLE,) * 2, 0),
        (ROOM, replace(C, unschedulable=OURS), LATE, 30),
    ],
    ids=[
        *("a member is deleted", "a substitute takes its place", "the PodGroup is deleted"),
        *("fewer suffice", "more are asked for than there are", "another client binds one"),
        *("a planned member has no node", "our own refusal is repeated"),
    ],
)
async def test_two_members_that_are_held_when(
    cluster: Cluster, facts: Any, change: Any, want: tuple[str | None, ...], at: float
) -> None:
    scene = Scene(cluster, FACTS, facts)
    async with asyncio.TaskGroup() as tasks:
        held = await scene.holding(tasks, A, B)
        observe(cluster, change)

    assert tuple(task.result() for task in held) == want
    assert scene.loop.time() == pytest.approx(at, abs=0.01)
    assert not scene.view.planned
    scene.idle()


async def test_a_member_that_is_being_deleted_does_not_count_towards_quorum(
    cluster: Cluster,
) -> None:
    """a bind request that crosses the pod's deletion makes a quorum that cannot be bound.

    The API server refuses to bind a pod with a deletion timestamp, so the others are bound alone.
    """
    scene = Scene(cluster, FACTS, replace(A, terminating=True), pod("substitute", group="gang"))
    dying = scene.view.pods[A.uid]
    async with asyncio.TaskGroup() as tasks:
        held = await scene.holding(tasks, B, C)
        late = tasks.create_task(scene.hold(dying, "n1"))
        await asyncio.sleep(1)
        bound = [task.result() for task in (*held, late) if task.done()]
        assert None not in bound
        observe(cluster, deleted((GROUP_X, GANG), PodGroupInfo))


async def test_a_cancelled_request_ends_its_hold(cluster: Cluster) -> None:
    scene = Scene(cluster, FACTS)
    task = scene.loop.create_task(scene.hold(A, "n0"))
    await until(lambda: scene.waiting.held == 1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert scene.view.used("n0") == {}
    scene.idle()


async def test_a_release_just_before_the_time_out_stands(cluster: Cluster) -> None:
    scene = Scene(cluster, FACTS)
    async with asyncio.TaskGroup() as tasks:
        held = await scene.holding(tasks, A, B)
        held.append(tasks.create_task(scene.hold(C, "n0")))
        await asyncio.sleep(0)
        # the timer fires in the very moment of the release
        if GANG in scene.waiting._deadlines:
            scene.waiting._expire(GANG)

    assert [task.result() for task in held] == [None] * 3
    scene.idle()


async def test_the_last_member_just_after_the_time_out_is_refused_too(cluster: Cluster) -> None:
    scene = Scene(cluster, FACTS)
    async with asyncio.TaskGroup() as tasks:
        held = [tasks.create_task(scene.hold(each, "n0")) for each in (A, B)]
        await asyncio.sleep(30.01)
        assert [task.result() for task in held] == [Reason.SCHEDULE_TIMEOUT] * 2
        before = scene.loop.time()
        assert await scene.hold(C, "n0") == Reason.SCHEDULE_TIMEOUT
        assert scene.loop.time() == before

    assert scene.view.used("n0") == {}
    scene.idle()


STUCK = "0/3 nodes are available: 3 Insufficient cpu."


async def test_a_planned_member_that_is_not_tried_again_gives_the_others_free(
    cluster: Cluster,
) -> None:
    scene = Scene(cluster, FACTS, replace(C, unschedulable=STUCK))
    observe(cluster, ROOM)

    assert await scene.hold(A, "n0") == Reason.MEMBER_UNSCHEDULABLE
    assert scene.loop.time() == pytest.approx(3, abs=0.01)
    assert not scene.view.planned
    scene.idle()


async def test_a_planned_member_that_is_tried_again_in_time_stops_no_other(
    cluster: Cluster,
) -> None:
    scene = Scene(cluster, FACTS, replace(C, unschedulable=STUCK))
    observe(cluster, ROOM)
    async with asyncio.TaskGroup() as tasks:
        held = [tasks.create_task(scene.hold(each, "n0")) for each in (A, C)]
        await asyncio.sleep(10)
        held.append(tasks.create_task(scene.hold(B, "n0")))

    assert [task.result() for task in held] == [None] * 3
    scene.idle()


@pytest.mark.parametrize(("stuck", "want"), [(2, None), (3, Reason.MEMBER_UNSCHEDULABLE)])
async def test_a_large_gang_is_not_judged_while_its_members_still_come(
    cluster: Cluster, stuck: int, want: str | None
) -> None:
    """Of twenty, two may be missing; kube-scheduler brings one every two seconds."""
    members = [
        replace(each, unschedulable=STUCK) if number < stuck else each
        for number, each in enumerate(pods(20, 0))
    ]
    scene = Scene(cluster, nodes(8), pod_group(min_member=20), members)
    observe(cluster, ev.Planned({each.uid: "n0" for each in members}))
    late, others = members[:stuck], members[stuck:]
    async with asyncio.TaskGroup() as tasks:
        held = []
        for each in others:
            held.append(tasks.create_task(scene.hold(each, "n0")))
            await asyncio.sleep(2)
            assert scene.waiting.held == len(held)
        await asyncio.sleep(1.5)
        assert scene.waiting.held == (0 if want else len(others))
        held += [tasks.create_task(scene.hold(each, "n0")) for each in late]

    assert {task.result() for task in held[: len(others)]} == {want}
    scene.idle()


async def test_a_gap_that_becomes_larger_later_sends_the_others_away(cluster: Cluster) -> None:
    members = [replace(each, unschedulable=STUCK) for each in pods(2, 0)] + pods(20, 0)[2:]
    scene = Scene(cluster, nodes(8), pod_group(min_member=20, schedule_timeout=60.0), members)
    observe(cluster, pods(25, 0)[20:], ev.Planned({each.uid: "n0" for each in members}))
    async with asyncio.TaskGroup() as tasks:
        held = [tasks.create_task(scene.hold(each, "n0")) for each in members[2:]]
        await asyncio.sleep(10)
        assert scene.waiting.held == 18
        observe(cluster, deleted(members[-1].uid))

    assert {task.result() for task in held[:-1]} == {Reason.MEMBER_UNSCHEDULABLE}
    assert scene.loop.time() == pytest.approx(12, abs=0.01)
    scene.idle()


NEAR = PodTerm(LabelSelector(match_labels={"role": "leader"}))
LEADER = replace(A, labels={"role": "leader"})
WORKERS = [
    replace(each, shape=replace(each.shape, seeks=(NEAR,)), unschedulable=STUCK) for each in (B, C)
]


async def test_members_that_seek_a_held_one_are_tried_again_once_for_each_that_comes(
    cluster: Cluster,
) -> None:
    scene = Scene(cluster, FACTS, LEADER, WORKERS, ROOM)
    async with asyncio.TaskGroup() as tasks:
        held = [tasks.create_task(scene.hold(LEADER, "n0"))]
        await asyncio.sleep(2)
        observe(cluster, replace(WORKERS[1], unschedulable=f"{STUCK} Once more."))
        await asyncio.sleep(1.5)
        held.append(tasks.create_task(scene.hold(WORKERS[0], "n0")))
        await asyncio.sleep(2)
        held.append(tasks.create_task(scene.hold(WORKERS[1], "n0")))

    both = sorted(each.uid for each in WORKERS)
    assert [each for each in scene.tried_beside if each[1]] == [(1.0, both), (4.5, [C.uid])]
    assert [task.result() for task in held] == [None] * 3
    scene.idle()


async def test_a_member_that_seeks_a_held_one_is_stuck_when_it_was_tried_after_that(
    cluster: Cluster,
) -> None:
    scene = Scene(cluster, FACTS, LEADER, WORKERS, ROOM)
    async with asyncio.TaskGroup() as tasks:
        held = tasks.create_task(scene.hold(LEADER, "n0"))
        await asyncio.sleep(1)
        observe(cluster, replace(WORKERS[1], unschedulable=f"{STUCK} Once more."))
        await asyncio.sleep(11)
        assert not held.done()

    assert held.result() == Reason.MEMBER_UNSCHEDULABLE
    assert scene.loop.time() == pytest.approx(15, abs=0.01)
    scene.idle()


async def test_connections_that_break_do_not_make_the_wait_a_longer_one(cluster: Cluster) -> None:
    scene = Scene(cluster, FACTS)
    observe(cluster, ROOM)

    async def hang_up() -> None:
        await asyncio.sleep(20)

    assert await scene.hold(A, "n0", hang_up) == Reason.DISCONNECTED
    assert await scene.hold(A, "n0", hang_up) == Reason.SCHEDULE_TIMEOUT
    assert scene.loop.time() == pytest.approx(30, abs=0.01)
    assert not scene.view.planned
    scene.idle()


async def test_a_deletion_after_the_release_refuses_no_member(cluster: Cluster) -> None:
    scene = Scene(cluster, FACTS)
    async with asyncio.TaskGroup() as tasks:
        held = [tasks.create_task(scene.hold(each, "n0")) for each in (A, B, C)]
        await until(lambda: scene.waiting.held == 0 and scene.view.tally(GANG).binding)
        observe(cluster, deleted(A.uid))

    assert [task.result() for task in held] == [None] * 3


async def test_a_lost_plan_sends_the_others_away_though_our_own_refusal_was_the_last_news(
    cluster: Cluster,
) -> None:
    """the pod still carries the condition of an earlier refusal of ours.

    PostFilter takes that old text for the cause and does nothing, so that the others wait for the
    time-out while this pod is tried again every 50 ms.
    """
    scene = Scene(cluster, FACTS, replace(C, unschedulable=OURS))
    observe(cluster, ROOM)
    observe(cluster, pod("thief", 8, on="n2", priority=9))
    async with asyncio.TaskGroup() as tasks:
        held = await scene.holding(tasks, A, B)
        scene.filter(C.uid, ["n2"], group="gang")
        await asyncio.sleep(1)
        done = [task.done() for task in held]
        observe(cluster, deleted((GROUP_X, GANG), PodGroupInfo))

    assert done == [True, True]


async def test_a_held_pod_that_is_tried_again_is_not_held_and_planned_at_once(
    cluster: Cluster,
) -> None:
    """kube-scheduler restarted and its broken connection has not been noticed yet.

    Its filter call plans the pod anew, which takes the old hold out of the count but leaves it
    open: at quorum the old request is released too, to a node that is not assumed any more.
    """
    scene = Scene(cluster, FACTS)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(scene.hold(A, "n0"))
        await until(lambda: scene.waiting.held == 1)
        observe(cluster, planned(gang_1="n0"))
        scene.filter(A.uid, ["n1", "n2"], group="gang")
        await asyncio.sleep(1)
        held, waiting = scene.waiting.held, len(scene.view.tally(GANG).waiting)
        observe(cluster, deleted((GROUP_X, GANG), PodGroupInfo))

    assert held == waiting


async def test_stopping_refuses_all_groups(cluster: Cluster) -> None:
    other = pods(2, group="other")
    scene = Scene(cluster, FACTS, other, pod_group("other", 2))
    async with asyncio.TaskGroup() as tasks:
        held = await scene.holding(tasks, A, B, other[0])
        scene.waiting.refuse_all()

    assert [task.result() for task in held] == [Reason.TERMINATING] * 3
    scene.idle()


async def test_a_gang_that_would_hold_too_many_is_refused_whole_and_others_wait_on(
    cluster: Cluster,
) -> None:
    other = pods(2, group="other")
    scene = Scene(cluster, FACTS, other, pod_group("other", 2), max_held=1)
    async with asyncio.TaskGroup() as tasks:
        waits = tasks.create_task(scene.hold(other[0], "n0"))
        await until(lambda: scene.waiting.held == 1)
        outcome, refused = await scene.hold(A, "n0"), await scene.bind(A, "n0")
        held_then = scene.waiting.held
        # The last member of a gang is never one too many: its gang holds nothing any more.
        completes = await scene.hold(other[1], "n1")

    assert outcome == Reason.TOO_MANY_HELD
    assert "maxHeldBinds" in refused
    assert held_then == 1
    assert (waits.result(), completes) == (None, None)
    counted = scene.metrics.decisions.labels("bind", Reason.TOO_MANY_HELD)
    assert counted._value.get() > 0
    assert scene.view.tally(GANG).planned == set()
    scene.idle()


async def test_a_watch_for_the_client_that_fails_ends_the_hold(cluster: Cluster) -> None:
    scene = Scene(cluster, FACTS)

    async def gone() -> None:
        raise RuntimeError("the transport broke")

    with pytest.raises(RuntimeError, match="the transport broke"):
        await scene.hold(A, "n0", gone)
    scene.idle()


async def test_room_that_others_have_plans_for_is_not_kept_after_a_hang_up(
    cluster: Cluster,
) -> None:
    scene = Scene(cluster, [*nodes(2), A, B, C, pod_group(min_member=3)])
    broken = asyncio.Event()

    async def gone() -> None:
        await broken.wait()

    async with asyncio.TaskGroup() as tasks:
        held = tasks.create_task(scene.hold(A, "n0", gone))
        await until(lambda: scene.waiting.held == 1)
        cluster.apply(ev.Planned({B.uid: "n0", C.uid: "n0"}))
        broken.set()

    assert held.result() == Reason.DISCONNECTED
    assert scene.view.tally(GANG).planned == {B.uid, C.uid}


@pytest.mark.parametrize("what", ["the log", "what is noted"])
async def test_the_room_is_given_back_whatever_becomes_of_the_log(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    file = None
    if what == "the log":
        monkeypatch.setattr(sys, "stderr", FullDisk())
        file = logs.configure("debug", as_json=True)
    scene = Scene(cluster, FACTS)
    if what != "the log":
        monkeypatch.setattr(scene.waiting.starts, "_log", None)
    where = "logs" if what == "the log" else "gang-starts"
    before = FAULTS.counts.get(where, 0)
    scene.filter("gang-0", ["n0"], group="gang")
    assert scene.view.tally(GANG).planned

    assert await scene.hold(A, "n0") == Reason.SCHEDULE_TIMEOUT

    assert not scene.view.keeps_room
    assert scene.waiting.time_left(GANG) is None
    assert await scene.hold(B, "n0") == Reason.SCHEDULE_TIMEOUT, "denied for a while"
    if file is not None:
        file.finish(PATIENCE_SECONDS)
    assert FAULTS.counts[where] > before
    scene.idle()


async def test_a_binding_that_failed_is_answered_whatever_becomes_of_what_is_noted(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    single = pod("single", group="single")
    scene = Scene(cluster, nodes(8), single, pod_group("single", 1), together=False)
    scene.binder.script["single"] = [ConflictError("denied", status=409)]
    monkeypatch.setattr(scene.waiting.starts, "_under_way", None)

    assert "denied" in await scene.bind(single, "n0")
    assert scene.view.tally(key("single")).planned == {"single"}, "kept until it comes again"


async def test_why_a_group_failed_last_is_known_until_it_starts(cluster: Cluster) -> None:
    scene = Scene(cluster, FACTS)
    await scene.hold(A, "n0")
    failure = scene.verdicts.last_failure(GANG)
    observe(cluster, planned(gang_0="n0", gang_1="n0", gang_2="n0"), pod("gang-3", group="gang"))
    assert failure is not None
    assert failure.reason is Reason.SCHEDULE_TIMEOUT
    assert scene.verdicts.last_failure(GANG) == failure

    await asyncio.gather(*(scene.hold(each, "n0") for each in (A, B, C)))
    assert scene.verdicts.last_failure(GANG) is None


async def test_the_failure_of_a_group_is_not_that_of_another_with_its_name(
    cluster: Cluster,
) -> None:
    scene = Scene(cluster, FACTS)
    await scene.hold(A, "n0")
    observe(cluster, pod_group(uid="another"))

    assert scene.verdicts.last_failure(GANG) is None


async def test_a_refusal_gives_planned_room_back_too(cluster: Cluster) -> None:
    scene = Scene(cluster, FACTS)
    observe(cluster, planned(gang_0="n0", gang_1="n0", gang_2="n0"))

    assert await scene.hold(A, "n0") == Reason.SCHEDULE_TIMEOUT
    assert not scene.view.planned
    scene.idle()


async def test_a_client_that_hangs_up_after_the_release_changes_nothing(cluster: Cluster) -> None:
    scene = Scene(cluster, FACTS, pod_group(min_member=2))
    leaving = asyncio.Event()

    async def gone() -> None:
        await leaving.wait()

    async with asyncio.TaskGroup() as tasks:
        first = tasks.create_task(scene.hold(A, "n0", gone))
        await until(lambda: scene.waiting.held == 1)
        second = tasks.create_task(scene.hold(B, "n0"))
        await until(lambda: scene.waiting.held == 0)
        leaving.set()

    assert (first.result(), second.result()) == (None, None)
    assert scene.view.tally(GANG).binding == {A.uid, B.uid}


async def test_the_wait_starts_over_after_the_denied_window(cluster: Cluster) -> None:
    scene = Scene(cluster, FACTS)
    await scene.hold(A, "n0")
    await asyncio.sleep(3.01)
    before = scene.loop.time()

    assert await scene.hold(B, "n0") == Reason.SCHEDULE_TIMEOUT
    assert scene.loop.time() - before == pytest.approx(30, abs=0.01)
    scene.idle()


async def test_at_a_hundred_per_cent_the_others_go_on_waiting(cluster: Cluster) -> None:
    scene = Scene(cluster, FACTS, options=GangOptions(reject_percentage=100))
    observe(cluster, ROOM)
    async with asyncio.TaskGroup() as tasks:
        held = await scene.holding(tasks, A, B)
        observe(cluster, replace(C, unschedulable=NO_NODE))
        await asyncio.sleep(1)
        assert scene.waiting.held == 2

    assert [task.result() for task in held] == [Reason.SCHEDULE_TIMEOUT] * 2


async def test_groups_do_not_mix(cluster: Cluster) -> None:
    other = pods(2, group="other")
    scene = Scene(cluster, FACTS, other, pod_group("other", 2))
    async with asyncio.TaskGroup() as tasks:
        waits = tasks.create_task(scene.hold(A, "n0"))
        await until(lambda: scene.waiting.held == 1)
        released = [tasks.create_task(scene.hold(each, "n1", never)) for each in other]
        await until(lambda: all(task.done() for task in released))
        assert not waits.done()

    assert [task.result() for task in released] == [None, None]
    scene.idle()
