"""The bind verb: Permit, then one write, tried again where that may help."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace

import pytest

from extender.api.reasons import Reason
from extender.gang.verdicts import GangOptions, Refuse
from extender.kube.errors import (
    ApiError,
    ConflictError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    UnavailableError,
    UnknownOutcomeError,
)
from extender.kube.pods import PodRef
from extender.permit.hold import HUNG_UP
from extender.permit.timing import MARGIN_SECONDS, PATIENCE_SECONDS, UNSURE_SECONDS
from extender.state.cluster import events as ev
from extender.state.cluster.records import PodInfo
from extender.state.cluster.store import Cluster
from tests.makers import deleted, key, nodes, observe, pod, pod_group, pods, until
from tests.recount import check_tables
from tests.unit.server.scene import Scene

pytestmark = pytest.mark.looptime

GANG = key("gang")
A, B = pods(2)
PLAIN = pod("plain")
FACTS = [*nodes(8, 8), A, B, PLAIN, pod_group(min_member=2)]


@pytest.mark.parametrize(
    ("subject", "where", "want"),
    [
        (A, "n0", ""),
        (PLAIN, "n0", ""),
        (A, "n1", "pod ns/gang-0 is bound to another node already"),
        # It may be a member of a gang: a list that is older than it has dropped it.
        (pod("unknown"), None, "pod ns/unknown is gone, or not known yet"),
        (A, None, "gang ns/gang: 1 of 2 pods got a node before the time-out"),
    ],
)
async def test_no_binding_is_written_for(
    cluster: Cluster, subject: PodInfo, where: str | None, want: str
) -> None:
    scene = Scene(cluster, FACTS, replace(subject, node=where) if where else ())

    assert await scene.bind(subject, "n0") == want
    assert scene.binder.calls == []
    scene.idle()


async def test_a_plain_pod_is_bound_at_once(cluster: Cluster) -> None:
    scene = Scene(cluster, FACTS)

    assert await scene.bind(PLAIN, "n0") == ""
    assert scene.binder.calls == [("plain", "n0")]
    assert scene.view.used("n0") == PLAIN.shape.requests


async def test_no_member_is_written_before_quorum_and_then_all_are(cluster: Cluster) -> None:
    scene = Scene(cluster, FACTS)
    async with asyncio.TaskGroup() as tasks:
        first = tasks.create_task(scene.bind(A, "n0"))
        await asyncio.sleep(10)
        assert scene.binder.calls == []
        second = tasks.create_task(scene.bind(B, "n1"))

    assert (first.result(), second.result()) == ("", "")
    assert sorted(scene.binder.calls) == [("gang-0", "n0"), ("gang-1", "n1")]
    scene.idle()


async def test_passing_trouble_is_waited_out(cluster: Cluster) -> None:
    scene = Scene(cluster, FACTS)
    scene.binder.script["plain"] = [UnavailableError("down", status=503)] * 2

    assert await scene.bind(PLAIN, "n0") == ""
    assert scene.binder.calls == [("plain", "n0")] * 3
    assert scene.pauses == [1.0, 2.0]
    assert scene.view.tally(GANG).binding == set()


async def test_trouble_that_stays_gives_the_room_back(cluster: Cluster) -> None:
    scene = Scene(cluster, FACTS)
    scene.binder.script["plain"] = [UnavailableError("down", status=503)] * 99

    assert await scene.bind(PLAIN, "n0") == "down"
    assert PATIENCE_SECONDS - 8 <= sum(scene.pauses) < PATIENCE_SECONDS
    assert scene.view.used("n0") == {}


async def test_trouble_that_stays_keeps_the_room_of_a_member_for_its_next_try(
    cluster: Cluster,
) -> None:
    scene = Scene(cluster, FACTS)
    scene.binder.script["gang-0"] = [UnavailableError("down", status=503)] * 99
    assert await scene.bind_all(A, B) == ["down", ""]
    assert scene.view.planned_node(A.uid) == "n0"


SAID = 'POST /pods/gang-0/binding: 422 pods "gang-0" is invalid: 9% of gang-01 and n0'
WORDS = '422 pods "POD" is invalid: 9 per cent of gang-01 and NODE'


@pytest.mark.parametrize("error", [InvalidError, ForbiddenError, ApiError])
async def test_a_gang_has_failed_when_all_its_bindings_are_refused(
    cluster: Cluster, error: type[ApiError]
) -> None:
    scene = Scene(cluster, FACTS)
    for each in (A, B):
        scene.binder.script[each.name] = [error(SAID, status=422)]
    await scene.bind_all(A, B)

    found = scene.verdicts.denied(GANG)
    assert found is not None
    assert found.message == f"gang ns/gang: the API server refuses to bind a pod: {WORDS}"
    assert found.reason is Reason.BINDING_REFUSED
    assert not scene.view.planned
    scene.idle()


@pytest.mark.parametrize(
    ("error", "noted"),
    [(InvalidError(SAID, status=422), True), (ConflictError("taken", status=409), False)],
)
async def test_a_refused_binding_of_one_member_is_noted_and_has_failed_when_its_room_goes(
    cluster: Cluster, error: ApiError, noted: bool
) -> None:
    scene = Scene(cluster, FACTS, replace(B, node="n0"))
    scene.binder.script["gang-0"] = [error] * 9
    await scene.bind(A, "n1")
    last = scene.verdicts.last_failure(GANG)
    assert (last is not None and last.reason is Reason.BINDING_REFUSED) == noted
    assert scene.view.planned_node(A.uid) == "n1"
    assert scene.verdicts.denied(GANG) is None
    await asyncio.sleep(61)
    denied = scene.verdicts.denied(GANG)
    assert (denied is not None and denied.reason is Reason.BINDING_REFUSED) == noted
    assert scene.view.planned_node(A.uid) is None


async def test_a_released_member_is_bound_though_the_others_are_done(cluster: Cluster) -> None:
    scene = Scene(cluster, FACTS)
    scene.binder.script["gang-0"] = [ConflictError("taken", status=409)]
    await scene.bind_all(A, B)
    observe(cluster, replace(B, node="n0"))
    cluster.apply(deleted(B.uid))
    assert scene.view.planned_node(A.uid) == "n0"

    assert await scene.bind(A, "n0") == ""
    assert scene.view.tally(GANG).binding == {A.uid}


async def test_a_member_whose_kept_room_is_lost_starts_with_its_gang_again(
    cluster: Cluster,
) -> None:
    scene = Scene(cluster, FACTS)
    scene.binder.script["gang-0"] = [ConflictError("taken", status=409)]
    await scene.bind_all(A, B)
    cluster.apply(deleted(B.uid))
    cluster.apply(ev.Unreserved((A.uid,)))
    observe(cluster, pod("gang-2", group="gang"))
    cluster.apply(ev.Planned({A.uid: "n0"}))

    want = "gang ns/gang: 1 of 2 pods got a node before the time-out"
    assert await scene.bind(A, "n0") == want


async def test_room_is_kept_for_the_time_out_if_the_member_does_not_come_again(
    cluster: Cluster,
) -> None:
    scene = Scene(cluster, FACTS, replace(B, node="n0"))
    scene.binder.script["gang-0"] = [InvalidError("refused", status=422)]
    await scene.bind(A, "n1")
    await asyncio.sleep(59)
    assert scene.view.planned_node(A.uid) == "n1"
    await asyncio.sleep(2)

    assert not scene.view.planned


async def test_a_binding_that_fails_for_ever_does_not_keep_its_room_for_ever(
    cluster: Cluster,
) -> None:
    scene = Scene(cluster, FACTS, replace(B, node="n0"))
    scene.binder.script["gang-0"] = [InvalidError("refused", status=422)] * 99
    kept = []
    for _ in range(9):
        await scene.bind(A, "n1")
        kept.append(scene.view.planned_node(A.uid))
        await asyncio.sleep(10)

    assert kept == ["n1"] * 6 + [None] * 3


async def test_a_binding_is_not_written_later_than_kube_scheduler_waits(cluster: Cluster) -> None:
    scene = Scene(cluster, FACTS, options=GangOptions(schedule_timeout=900))
    scene.binder.script["gang-0"] = [UnavailableError("down", status=503)] * 99
    async with asyncio.TaskGroup() as tasks:
        first = tasks.create_task(scene.bind(A, "n0"))
        await asyncio.sleep(1)
        scene.clock.now += 890
        tasks.create_task(scene.bind(B, "n0"))

    assert first.result() == "down"
    assert sum(scene.pauses) <= 10 + MARGIN_SECONDS


@pytest.mark.parametrize(
    ("error", "kept_on"),
    [
        (ConflictError("taken", status=409), "n0"),
        (ForbiddenError("not allowed", status=403), "n0"),
        (InvalidError("refused by a policy", status=422), "n0"),
        (NotFoundError("no such", status=404), None),
    ],
)
async def test_what_will_not_pass_is_not_tried_again(
    cluster: Cluster, error: ApiError, kept_on: str | None
) -> None:
    scene = Scene(cluster, FACTS)
    scene.binder.script["gang-0"] = [error]
    assert await scene.bind_all(A, B) == [str(error), ""]
    assert sorted(scene.binder.calls) == [("gang-0", "n0"), ("gang-1", "n0")]
    assert scene.view.tally(GANG).binding == {B.uid}
    assert scene.view.used("n0") == B.shape.requests
    assert scene.view.planned_node(A.uid) == kept_on
    if kept_on is not None:  # for its next try
        assert await scene.bind(A, "n0") == ""
        assert scene.view.tally(GANG).binding == {A.uid, B.uid}
    scene.idle()


async def test_a_failed_write_does_not_take_a_fact_back(cluster: Cluster) -> None:
    scene = Scene(cluster, FACTS)
    scene.binder.script["plain"] = [ConflictError("taken", status=409)]

    async def bound_meanwhile(_: PodRef) -> None:
        observe(cluster, replace(PLAIN, node="n0"))

    scene.binder.before = bound_meanwhile
    await scene.bind(PLAIN, "n0")

    assert scene.view.used("n0") == PLAIN.shape.requests


async def test_a_member_deleted_while_it_is_written_leaves_nothing(cluster: Cluster) -> None:
    scene = Scene(cluster, FACTS)
    scene.binder.script["gang-0"] = [NotFoundError("no such pod")]

    async def delete(ref: PodRef) -> None:
        if ref.name == A.name:
            observe(cluster, deleted(A.uid))

    scene.binder.before = delete
    assert await scene.bind_all(A, B) == ["no such pod", ""]
    assert scene.view.used("n0") == B.shape.requests
    scene.idle()


async def test_an_error_has_no_per_cent_sign(cluster: Cluster) -> None:
    """`%` is doubled here, where every other answer spells it out."""
    scene = Scene(cluster, FACTS)
    scene.binder.script["plain"] = [ConflictError("quota at 100%", status=409)]

    assert "%" not in await scene.bind(PLAIN, "n0")


async def test_a_request_cancelled_in_the_moment_of_its_release_leaks_no_room(
    cluster: Cluster,
) -> None:
    """the room of a pod whose write was cancelled stays taken until the pod is gone."""
    scene = Scene(cluster, FACTS)
    first = scene.loop.create_task(scene.bind(A, "n0"))
    await asyncio.sleep(1)
    second = scene.loop.create_task(scene.bind(B, "n1"))
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    await second

    assert scene.view.used("n0") == {}


class Caller:
    """A kube-scheduler that may hang up."""

    def __init__(self) -> None:
        self.hung_up = asyncio.Event()

    async def gone(self) -> None:
        await self.hung_up.wait()


async def hang_up_while_the_api_server(
    scene: Scene, pod_to_bind: PodInfo, before: Callable[[PodRef], Awaitable[None]]
) -> tuple[str, float]:
    """Return the answer to a bind, and the seconds from the caller's hang-up until it ended."""
    scene.binder.before = before
    caller = Caller()
    async with asyncio.TaskGroup() as tasks:
        bind = tasks.create_task(scene.bind(pod_to_bind, "n0", caller.gone))
        if pod_to_bind is A:
            tasks.create_task(scene.bind(B, "n1"))
        await asyncio.sleep(20)
        hung_up_at = scene.loop.time()
        caller.hung_up.set()
        error = await bind
        took = scene.loop.time() - hung_up_at
    return error, took


async def fails(ref: PodRef) -> None:
    if ref.name != B.name:
        raise UnavailableError("etcd is away", status=500)


async def hangs(ref: PodRef) -> None:
    if ref.name != B.name:
        await asyncio.Event().wait()


@pytest.mark.parametrize("trouble", [fails, hangs])
@pytest.mark.parametrize("tried", [A, PLAIN], ids=["member", "plain"])
async def test_a_binding_ends_with_its_caller(
    cluster: Cluster, tried: PodInfo, trouble: Callable[[PodRef], Awaitable[None]]
) -> None:
    """A kube-scheduler that hung up may have given its lease back: the next one goes on."""
    scene = Scene(cluster, FACTS, patient=True)

    error, took = await hang_up_while_the_api_server(scene, tried, trouble)

    assert took == 0
    assert error == HUNG_UP
    # It may have been made all the same, and the scheduler that is there brings the pod again.
    assert scene.view.bound_node(tried) == "n0"
    calls = len(scene.binder.calls)
    await asyncio.sleep(2 * PATIENCE_SECONDS)
    assert len(scene.binder.calls) == calls
    assert scene.view.reservation(tried.uid) is None
    check_tables(cluster)


@pytest.mark.parametrize("subject", [A, PLAIN], ids=["member", "plain"])
async def test_nothing_is_sent_for_a_caller_that_has_hung_up(
    cluster: Cluster, subject: PodInfo
) -> None:
    """It was there when its member was released, perhaps, and is not when that is written."""
    scene = Scene(cluster, [*FACTS, replace(B, node="n1")])
    caller = Caller()
    caller.hung_up.set()

    assert await scene.bind(subject, "n0", caller.gone) == HUNG_UP
    assert scene.binder.calls == []


@pytest.mark.parametrize("tried", [A, PLAIN], ids=["member", "plain"])
async def test_a_binding_that_was_made_though_its_caller_hung_up_counts(
    cluster: Cluster, tried: PodInfo
) -> None:
    scene = Scene(cluster, FACTS, patient=True)

    await hang_up_while_the_api_server(scene, tried, hangs)
    observe(cluster, replace(tried, node="n0"))

    assert scene.view.used("n0") == tried.shape.requests
    assert not scene.view.planned
    await asyncio.sleep(UNSURE_SECONDS + 1)
    assert scene.view.used("n0") == tried.shape.requests
    scene.idle()


async def test_the_room_of_a_pod_that_may_be_bound_is_free_later(cluster: Cluster) -> None:
    """No other pod is let in meanwhile, and the pod itself is."""
    scene = Scene(cluster, FACTS)
    lost = UnknownOutcomeError("no answer", status=504)
    scene.binder.script["plain"] = [lost] * 99

    for _ in range(2):
        assert await scene.bind(PLAIN, "n0") == "no answer"
        await asyncio.sleep(UNSURE_SECONDS - 1)
        assert scene.filter("other", ["n0"], cpu="8")["NodeNames"] == []
        assert scene.filter("plain", ["n0"])["NodeNames"] == ["n0"]
    await asyncio.sleep(2)
    assert scene.filter("other", ["n0"], cpu="8")["NodeNames"] == ["n0"]
    assert scene.view.planned_node(PLAIN.uid) is None
    assert scene.view.used("n0") == {}
    assert not scene.writer.unsure


async def test_binds_in_hand_are_counted_until_they_are_answered(cluster: Cluster) -> None:
    scene = Scene(cluster, FACTS, patient=True)
    go_on = asyncio.Event()

    async def slow(_: PodRef) -> None:
        await go_on.wait()

    scene.binder.before = slow
    async with asyncio.TaskGroup() as tasks:
        for each in (A, B, PLAIN):
            tasks.create_task(scene.bind(each, "n0"))
        await asyncio.sleep(1)
        assert scene.binds.unfinished == 3
        go_on.set()

    assert scene.binds.unfinished == 0


async def test_a_gang_that_is_being_bound_is_completed_when_the_process_is_to_stop(
    cluster: Cluster,
) -> None:
    scene = Scene(cluster, FACTS, patient=True)
    scene.binder.script["gang-0"] = [UnavailableError("down", status=503)] * 3
    async with asyncio.TaskGroup() as tasks:
        both = [tasks.create_task(scene.bind(each, "n0")) for each in (A, B)]
        await asyncio.sleep(1)
        scene.waiting.refuse_all()

    assert [task.result() for task in both] == ["", ""]


@dataclass
class Writing:
    """A scene in which a Binding of a pod to n0 goes on until it is `done`."""

    scene: Scene
    done: asyncio.Event = field(default_factory=asyncio.Event)
    hung_up: asyncio.Event = field(default_factory=asyncio.Event)

    async def hold_up(self, _: PodRef) -> None:
        await self.done.wait()

    async def until_hung_up(self) -> None:
        await self.hung_up.wait()

    async def begin(self, tasks: asyncio.TaskGroup, subject: PodInfo) -> "asyncio.Task[str]":
        self.scene.binder.before = self.hold_up
        first = tasks.create_task(self.scene.bind(subject, "n0", self.until_hung_up))
        await until(lambda: self.scene.binder.calls)
        return first


ALONE = pod("alone", group="small")
SMALL = [*nodes(8, 8), PLAIN, ALONE, pod_group("small", 1)]


@pytest.mark.parametrize("subject", [PLAIN, ALONE], ids=lambda subject: subject.name)
@pytest.mark.parametrize("error", [None, ForbiddenError("not allowed", status=403)])
async def test_a_bind_of_a_pod_that_is_being_bound_has_the_answer_of_that_write(
    cluster: Cluster, subject: PodInfo, error: ApiError | None
) -> None:
    writing = Writing(Scene(cluster, SMALL))
    scene = writing.scene
    scene.binder.script[subject.name] = [error] if error else []
    async with asyncio.TaskGroup() as tasks:
        first = await writing.begin(tasks, subject)
        second = tasks.create_task(scene.bind(subject, "n0"))
        await asyncio.sleep(1)
        assert not second.done()
        writing.done.set()

    assert (first.result(), second.result()) == (str(error or ""),) * 2
    assert scene.binder.calls == [(subject.name, "n0")]
    scene.idle()


@pytest.mark.parametrize("subject", [PLAIN, ALONE], ids=lambda subject: subject.name)
async def test_a_pod_that_is_being_bound_is_bound_to_no_other_node(
    cluster: Cluster, subject: PodInfo
) -> None:
    writing = Writing(Scene(cluster, SMALL))
    scene = writing.scene
    async with asyncio.TaskGroup() as tasks:
        first = await writing.begin(tasks, subject)
        other = await scene.bind(subject, "n1")
        writing.done.set()

    assert other == f"pod ns/{subject.name} is bound to another node already"
    assert first.result() == ""
    assert scene.view.bound_node(subject) == "n0"


@pytest.mark.parametrize("subject", [PLAIN, ALONE], ids=lambda subject: subject.name)
async def test_a_binding_that_the_watch_has_not_shown_yet_is_not_written_again(
    cluster: Cluster, subject: PodInfo
) -> None:
    scene = Scene(cluster, SMALL)

    assert [await scene.bind(subject, "n0") for _ in range(2)] == ["", ""]
    assert scene.binder.calls == [(subject.name, "n0")]


@pytest.mark.parametrize("subject", [PLAIN, ALONE], ids=lambda subject: subject.name)
async def test_a_bind_goes_on_where_the_one_that_it_waited_for_was_given_up(
    cluster: Cluster, subject: PodInfo
) -> None:
    writing = Writing(Scene(cluster, SMALL))
    scene = writing.scene
    async with asyncio.TaskGroup() as tasks:
        first = await writing.begin(tasks, subject)
        writing.hung_up.set()
        second = tasks.create_task(scene.bind(subject, "n0"))
        await asyncio.wait([first])
        await until(lambda: len(scene.binder.calls) == 2)
        writing.done.set()

    assert (first.result(), second.result()) == (HUNG_UP, "")
    scene.idle()


async def test_a_held_bind_is_waited_for_though_a_later_one_was_refused(cluster: Cluster) -> None:
    scene = Scene(cluster, FACTS)
    scene.binder.script[A.name] = [ForbiddenError("not allowed", status=403)]
    writing = Writing(scene)
    scene.binder.before = writing.hold_up
    async with asyncio.TaskGroup() as tasks:
        held = tasks.create_task(scene.bind(A, "n0"))
        await asyncio.sleep(1)
        scene.verdicts.failed(GANG, Refuse(Reason.NOT_ENOUGH_RESOURCES, "no room", deny=True))
        assert await scene.bind(A, "n0") == "no room"
        observe(cluster, pod_group(min_member=1))
        await until(lambda: scene.binder.calls)
        later = tasks.create_task(scene.bind(A, "n0"))
        await asyncio.sleep(1)
        writing.done.set()

    assert (held.result(), later.result()) == ("not allowed",) * 2


async def test_a_bind_that_is_cancelled_leaves_the_write_that_it_waited_for_alone(
    cluster: Cluster,
) -> None:
    writing = Writing(Scene(cluster, SMALL))
    scene = writing.scene
    async with asyncio.TaskGroup() as tasks:
        first = await writing.begin(tasks, PLAIN)
        second = tasks.create_task(scene.bind(PLAIN, "n0"))
        await asyncio.sleep(1)
        second.cancel()
        await asyncio.wait([second])
        assert scene.view.bound_node(PLAIN) == "n0"
        writing.done.set()

    assert first.result() == ""
    assert scene.binds.unfinished == 0


async def test_a_pod_that_the_watch_shows_bound_is_answered_before_its_write_is(
    cluster: Cluster,
) -> None:
    writing = Writing(Scene(cluster, SMALL))
    scene = writing.scene
    async with asyncio.TaskGroup() as tasks:
        first = await writing.begin(tasks, PLAIN)
        observe(cluster, replace(PLAIN, node="n0"))
        assert await scene.bind(PLAIN, "n0") == ""
        writing.done.set()

    assert first.result() == ""


async def test_members_are_written_in_parallel(cluster: Cluster) -> None:
    scene = Scene(cluster, FACTS)
    both = asyncio.Barrier(2)

    async def rendezvous(_: PodRef) -> None:
        async with asyncio.timeout(1):
            await both.wait()

    scene.binder.before = rendezvous
    async with asyncio.TaskGroup() as tasks:
        held = [tasks.create_task(scene.bind(each, "n0")) for each in (A, B)]

    assert [task.result() for task in held] == ["", ""]


async def test_a_member_that_was_bound_in_the_end_is_no_longer_remembered(
    cluster: Cluster,
) -> None:
    scene = Scene(cluster, FACTS, replace(B, node="n0"))
    scene.binder.script["gang-0"] = [InvalidError("refused", status=422)]
    await scene.bind(A, "n1")
    observe(cluster, replace(A, node="n1"))
    other = pod("other", group="gang")
    observe(cluster, other)
    scene.binder.script["other"] = [InvalidError("refused", status=422)]
    await scene.bind(other, "n1")

    assert scene.waiting._keep_until.keys() == {other.uid}


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b'"x"', b'{"PodName": 1}', b"{}"])
async def test_what_cannot_be_read_is_a_value_error(cluster: Cluster, body: bytes) -> None:
    scene = Scene(cluster, FACTS)

    with pytest.raises(ValueError, match=r".+"):
        await scene.verbs.bind(body, asyncio.Event().wait)  # type: ignore[arg-type]
    assert scene.binder.calls == []
