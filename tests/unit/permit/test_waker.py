"""The waker: decides, patches, and tries again where a patch failed. Time is virtual."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
import pytest_asyncio
from typing_extensions import override

from extender.api.reasons import TOO_LARGE, Reason
from extender.api.wellknown import GANG_GATE
from extender.gang.verdicts import GangOptions
from extender.kube.errors import ApiError, ForbiddenError, InvalidError, UnavailableError
from extender.kube.pods import PodRef, PodWriter
from extender.permit.group_memory import GroupMemory
from extender.permit.plans import Plans
from extender.permit.wake import Waker
from extender.state.cluster import events as ev
from extender.state.cluster.store import Cluster
from extender.telemetry.metrics import Metrics
from tests.makers import (
    ManualClock,
    deleted,
    key,
    node,
    nodes,
    observe,
    planned,
    pod,
    pod_group,
    pods,
    shape,
)

pytestmark = pytest.mark.looptime

A, B, C = pods(3)
GATED = [replace(each, gates=(GANG_GATE,)) for each in (A, B, C)]
PLAIN = pod("plain")
AT = "1970-01-01T00:16:40+00:00"


class RecordingPatcher(PodWriter):
    """Keeps what is patched; fails as often as scripted."""

    def __init__(self) -> None:
        self.patches: list[tuple[float, str, str]] = []
        self.stamps: set[str] = set()
        self.failures: list[ApiError] = []
        self.broken: dict[str, ApiError] = {}
        """Pods that can never be patched."""
        self.refuse_again: tuple[Cluster, Reason] | None = None
        """Where pods that are woken are refused at once."""
        self.most_at_once = 0
        self._at_once = 0

    @override
    async def wake(self, pod: PodRef, *, at: str) -> None:
        self.stamps.add(at)
        await self._note("wake", pod)

    @override
    async def try_beside(self, pod: PodRef, *, at: int, node: str | None) -> None:
        self.stamps.add(str(at))
        await self._note(f"beside on {node}", pod)

    @override
    async def ungate(self, pod: PodRef) -> None:
        await self._note("ungate", pod)

    async def _note(self, how: str, pod: PodRef) -> None:
        now = round(asyncio.get_running_loop().time(), 2)
        self.patches.append((now, how, pod.name))
        self._at_once += 1
        self.most_at_once = max(self.most_at_once, self._at_once)
        await asyncio.sleep(0.1)
        self._at_once -= 1
        if pod.name in self.broken:
            raise self.broken[pod.name]
        if self.failures:
            raise self.failures.pop(0)
        if self.refuse_again is not None:
            cluster, reason = self.refuse_again
            cluster.apply(ev.PodRefused(cluster.view().pods[pod.uid], reason))

    @property
    def done(self) -> list[tuple[str, str]]:
        return [(how, name) for _, how, name in self.patches]


class Bench:
    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.patcher = RecordingPatcher()
        self.metrics = Metrics()
        verdicts = GroupMemory(cluster, options=GangOptions(), clock=ManualClock())
        self.plans = Plans(cluster, verdicts)
        self.waker = Waker(cluster, self.patcher, self.plans, metrics=self.metrics)

    async def sees(self, *facts: Any, seconds: float = 1) -> None:
        """Have the watch show facts, and time pass."""
        observe(self.cluster, *facts)
        await asyncio.sleep(seconds)

    def failures(self, error: str) -> float:
        name = "gang_extender_wake_failures_total"
        return self.metrics.registry.get_sample_value(name, {"error": error}) or 0

    def woken(self, how: str) -> float:
        name = "gang_extender_woken_pods_total"
        return self.metrics.registry.get_sample_value(name, {"how": how}) or 0


@pytest_asyncio.fixture
async def bench(cluster: Cluster) -> AsyncIterator[Bench]:
    observe(cluster, nodes(8))
    bench = Bench(cluster)
    task = asyncio.get_running_loop().create_task(bench.waker.run())
    yield bench
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_gates_are_taken_away_at_quorum(bench: Bench) -> None:
    await bench.sees(pod_group(), *GATED[:2])
    assert bench.patcher.done == []
    await bench.sees(GATED[2])

    assert sorted(bench.patcher.done) == [("ungate", each.name) for each in GATED]
    assert bench.woken("gate") == 3


async def test_members_are_tried_beside_siblings_by_their_label_and_a_planned_node(
    bench: Bench,
) -> None:
    observe(bench.cluster, pod_group(), A, B, planned(gang_0="n0", gang_1="n0"))
    bench.waker.try_beside({A.uid: False, B.uid: True})
    await asyncio.sleep(1)

    assert bench.patcher.done == [("beside on None", A.name), ("beside on n0", B.name)]
    assert (bench.woken("label"), bench.woken("spread")) == (1, 1)


async def test_gates_of_native_pods_are_taken_away_where_they_are_not_ours(bench: Bench) -> None:
    """The second one comes when its group is none here, and its patch fails once."""
    native = [replace(each, native=key("gang")) for each in GATED[:2]]
    await bench.sees(native[0])
    assert bench.patcher.done == [("ungate", native[0].name)]

    bench.cluster.apply(ev.NativesDecided(ours=False))
    await bench.sees(replace(native[0], gates=()))
    bench.patcher.failures = [UnavailableError("no")]
    await bench.sees(native[1], seconds=60)

    assert bench.patcher.done == [("ungate", each.name) for each in (native[0], *native[1:] * 2)]


async def test_one_refused_sibling_is_woken_at_quorum(bench: Bench) -> None:
    observe(bench.cluster, pod_group(), A, B)
    await bench.sees(*(ev.PodRefused(each, Reason.NOT_ENOUGH_PODS) for each in (A, B)))
    assert bench.patcher.done == []
    await bench.sees(C)

    assert bench.patcher.done == [("wake", A.name)]
    assert bench.patcher.stamps == {AT}
    assert list(bench.cluster.view().refused) == [B.uid]
    assert bench.woken("annotation") == 1


async def test_a_plan_wakes_those_that_it_counts_on(bench: Bench) -> None:
    observe(bench.cluster, pod_group(), A, B, C)
    observe(bench.cluster, *(ev.PodRefused(each, Reason.NOT_ENOUGH_PODS) for each in (B, C)))
    await bench.sees(planned(gang_0="n0", gang_1="n0", gang_2="n0"))

    assert sorted(bench.patcher.done) == [("wake", B.name), ("wake", C.name)]


async def test_room_that_was_given_back_wakes_the_pods_that_lacked_it(bench: Bench) -> None:
    await bench.sees(A, PLAIN, planned(gang_0="n0"), ev.PodRefused(PLAIN, Reason.RESERVED))
    assert bench.patcher.done == []
    await bench.sees(ev.Unreserved([A.uid]))

    assert bench.patcher.done == [("wake", PLAIN.name)]


@pytest.mark.parametrize("asks", ["required_topology", "preferred_topology"])
@pytest.mark.parametrize("reason", [Reason.NOT_ENOUGH_RESOURCES, *sorted(TOO_LARGE)])
async def test_a_label_of_a_node_wakes_groups_that_ask_for_its_domains(
    bench: Bench, reason: Reason, asks: str
) -> None:
    """kube-scheduler may have tried the pod again before the label was known here."""
    group: dict[str, Any] = {asks: "rack"}
    await bench.sees(pod_group(**group), A, B, C)
    observe(bench.cluster, ev.PodRefused(A, reason))
    observe(
        bench.cluster, node("n0", 8, labels={"colour": "red"}), node("new", labels={"rack": "a"})
    )
    await asyncio.sleep(1)
    assert bench.patcher.done == []
    await bench.sees(node("n0", 8, labels={"colour": "red", "rack": "a"}))

    assert bench.patcher.done == [("wake", A.name)]


async def test_a_gate_that_could_not_be_taken_away_is_tried_again(bench: Bench) -> None:
    bench.patcher.failures = [UnavailableError("down", status=503)]
    await bench.sees(pod_group(min_member=1), GATED[0], seconds=3)

    assert bench.patcher.done[:2] == [("ungate", A.name)] * 2
    assert bench.woken("gate") >= 1


async def test_a_plain_pod_that_could_not_be_woken_is_tried_again(bench: Bench) -> None:
    bench.patcher.failures = [UnavailableError("down", status=503)]
    observe(bench.cluster, A, PLAIN, planned(gang_0="n0"), ev.PodRefused(PLAIN, Reason.RESERVED))
    await bench.sees(ev.Unreserved([A.uid]), seconds=5)

    assert bench.patcher.done == [("wake", PLAIN.name)] * 2


async def test_a_pod_that_is_gone_is_not_tried_again(bench: Bench) -> None:
    bench.patcher.failures = [UnavailableError("down", status=503)]
    await bench.sees(pod_group(), A, B, ev.PodRefused(A, Reason.NOT_ENOUGH_PODS), C, seconds=0.5)
    await bench.sees(deleted(A.uid), seconds=5)

    assert bench.patcher.done == [("wake", A.name)]


async def test_only_so_many_are_patched_at_once(bench: Bench) -> None:
    many = [replace(each, gates=(GANG_GATE,)) for each in pods(100)]
    await bench.sees(many, pod_group(min_member=100))

    assert len(bench.patcher.patches) == 100
    assert bench.patcher.most_at_once == 32


async def test_namespaces_are_patched_in_turn(bench: Bench) -> None:
    many = [replace(each, gates=(GANG_GATE,)) for each in pods(200)]
    observe(bench.cluster, many, pod_group(min_member=200))
    await asyncio.sleep(0.05)
    other = [
        replace(each, namespace="tenant", group="tenant/other", gates=(GANG_GATE,))
        for each in pods(2, group="other")
    ]
    await bench.sees(other, replace(pod_group("other", 2), namespace="tenant"), seconds=5)

    order = [name for _, _, name in bench.patcher.patches]
    assert len(order) == 202
    assert max(order.index(each.name) for each in other) < 40


async def test_a_gang_picks_another_pod_where_one_cannot_be_patched(bench: Bench) -> None:
    bench.patcher.broken = {A.name: ForbiddenError("a webhook says no", status=403)}
    observe(bench.cluster, pod_group(), A, B)
    await bench.sees(
        *(ev.PodRefused(each, Reason.NOT_ENOUGH_PODS) for each in (A, B)), C, seconds=5
    )

    assert bench.patcher.done == [("wake", A.name), ("wake", B.name)]
    assert bench.failures("Forbidden") == 1


PERMANENT = [ForbiddenError("no", status=403), InvalidError("no", status=422), ApiError("?")]


PAUSES = [0, 60, 180, 420, 900, 1500, 2100, 2700, 3300]
"""When a pod that cannot be patched is tried: after 60, 120, 240, 480, then 600 s each."""


@pytest.mark.timeout(300)  # an hour of virtual time
@pytest.mark.parametrize(
    ("error", "seconds"),
    [*zip(PERMANENT, (3600, 600, 600), strict=True)],
    ids=[type(error).__name__ for error in PERMANENT],
)
async def test_a_pod_that_cannot_be_patched_is_tried_seldom(
    bench: Bench, error: ApiError, seconds: int
) -> None:
    """As many writes in an hour as the pauses allow, though room comes and goes all the time."""
    bench.patcher.broken = {PLAIN.name: error}
    observe(bench.cluster, PLAIN, ev.PodRefused(PLAIN, Reason.RESERVED))
    await make_room_often(bench, seconds=seconds, pause=2)

    assert [round(at, -1) for at, _, _ in bench.patcher.patches] == [
        pause for pause in PAUSES if pause < seconds
    ]


async def test_trouble_that_passes_is_waited_out_longer_each_time(bench: Bench) -> None:
    bench.patcher.broken = {PLAIN.name: UnavailableError("down", status=503)}
    observe(bench.cluster, PLAIN, ev.PodRefused(PLAIN, Reason.RESERVED))
    await make_room_often(bench, seconds=600)
    count = len(bench.patcher.patches)
    assert 6 <= count <= 17, "1, 2, 4 ... 60, 60 seconds"

    bench.patcher.broken.clear()
    await asyncio.sleep(61)
    assert len(bench.patcher.patches) == count + 1
    assert bench.woken("annotation") == 1


async def test_one_pod_that_cannot_be_patched_costs_the_others_nothing(bench: Bench) -> None:
    """One in a cluster of pods that wait for room: they are not patched for its sake."""
    others = [pod(f"p-{n}", 1) for n in range(5)]
    bench.patcher.broken = {PLAIN.name: ForbiddenError("no", status=403)}
    refused = [ev.PodRefused(each, Reason.RESERVED) for each in (PLAIN, *others)]
    observe(bench.cluster, PLAIN, *others, *refused)
    bench.waker.after("", 0)
    await asyncio.sleep(600)

    assert sorted(name for _, _, name in bench.patcher.patches) == sorted(
        [PLAIN.name] * 4 + [each.name for each in others]
    )


async def test_no_more_are_woken_for_room_than_find_some(bench: Bench) -> None:
    crowd = [pod(f"p-{n}", 1, created=float(n)) for n in range(3000)]
    first = pod("first", 1, created=5000.0, priority=7)
    refused = [ev.PodRefused(each, Reason.RESERVED) for each in (*crowd, first)]
    observe(bench.cluster, crowd, first, *refused)
    bench.waker.after("", 0)
    await asyncio.sleep(10)

    # Eight CPUs are free: the most important pod first, then the oldest ones.
    woken = [name for _, _, name in bench.patcher.patches]
    assert woken == ["first", *(f"p-{n}" for n in range(7))]


async def test_pods_that_never_fit_do_not_keep_others_from_room(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("extender.gang.wake.MOST_LOOKS", 6)
    large = [pod(f"large-{n}", shape(9, gpu=n + 1), created=float(n)) for n in range(7)]
    small = pod("small", 1, created=100.0)
    refused = [ev.PodRefused(each, Reason.RESERVED) for each in (*large, small)]
    observe(bench.cluster, *large, small, *refused)
    for _ in range(2):
        bench.waker.after("", 0)
        await asyncio.sleep(1)

    assert bench.patcher.done == [("wake", small.name)]


@pytest.mark.parametrize("looks", [1, 15])
async def test_groups_that_lack_room_are_woken_a_few_at_a_time(bench: Bench, looks: int) -> None:
    names = [f"g{n:03}" for n in range(200)]
    for number, name in enumerate(names):
        members = pods(2, 1, group=name)
        refusals = [ev.PodRefused(each, Reason.NOT_ENOUGH_RESOURCES) for each in members]
        observe(bench.cluster, pod_group(name, 2, created=float(number)), members, *refusals)
    for _ in range(looks):
        bench.waker.after("", 0)
        await asyncio.sleep(0.3 / looks)
    assert len(bench.patcher.patches) <= 60
    assert len(bench.waker._for_room) <= 200
    await asyncio.sleep(5)

    # Later looks wake the second members, after the first one of each group.
    woken = [name for _, _, name in bench.patcher.patches]
    assert woken[:200] == [f"{name}-0" for name in names]
    assert len(woken) == 200 * min(looks, 2)


async def test_all_have_their_turn_though_room_comes_all_the_time(bench: Bench) -> None:
    names = [f"g{n:03}" for n in range(200)]
    for number, name in enumerate(names):
        (member,) = pods(1, 1, group=name)
        refusal = ev.PodRefused(member, Reason.NOT_ENOUGH_RESOURCES)
        observe(bench.cluster, pod_group(name, 1, created=float(number)), member, refusal)
    bench.patcher.refuse_again = bench.cluster, Reason.NOT_ENOUGH_RESOURCES
    await make_room_often(bench, seconds=20)

    counts = Counter(name for _, _, name in bench.patcher.patches)
    assert len(counts) == 200
    # One that is being patched when the next turn begins misses it.
    assert max(counts.values()) <= 2 * min(counts.values())
    assert len(bench.patcher.patches) <= 20 * 200 + 20, "so many a second and no more"


async def test_a_pod_is_looked_at_alone(bench: Bench) -> None:
    other = pod("other")
    observe(bench.cluster, PLAIN, other)
    observe(bench.cluster, *(ev.PodRefused(each, Reason.CACHE_BEHIND) for each in (PLAIN, other)))
    bench.waker.after(PLAIN.uid, 1.0)
    await asyncio.sleep(5)

    assert bench.patcher.done == [("wake", PLAIN.name)]


async def test_an_error_that_no_code_expects_is_this_pods_alone(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    wake, patches = bench.patcher.wake, bench.patcher.patches

    async def fails_once(pod: PodRef, *, at: str) -> None:
        await wake(pod, at=at)
        if pod.name == PLAIN.name and len(patches) == 1:
            raise RuntimeError("a bug")

    monkeypatch.setattr(bench.patcher, "wake", fails_once)
    observe(bench.cluster, PLAIN, ev.PodRefused(PLAIN, Reason.RESERVED))
    bench.waker.after("", 0)
    await asyncio.sleep(100)

    assert bench.patcher.done == [("wake", PLAIN.name)] * 2
    assert bench.woken("annotation") == 1


async def test_what_is_known_of_a_pod_that_is_gone_is_dropped(bench: Bench) -> None:
    bench.patcher.broken = {PLAIN.name: ForbiddenError("no", status=403)}
    observe(bench.cluster, PLAIN, ev.PodRefused(PLAIN, Reason.RESERVED))
    bench.waker.after("", 0)
    await asyncio.sleep(1)
    observe(bench.cluster, deleted(PLAIN.uid))
    await asyncio.sleep(61)

    assert bench.waker._rests == {}
    assert bench.waker._patches == {}


async def test_a_pod_that_is_refused_again_while_it_is_being_patched_is_woken_again(
    bench: Bench,
) -> None:
    """kube-scheduler tries a pod once the patch is stored; its answer may come much later."""
    observe(bench.cluster, PLAIN)
    for _ in range(3):
        observe(bench.cluster, ev.PodRefused(PLAIN, Reason.CACHE_BEHIND))
        bench.waker.after(PLAIN.uid, 0)
        await asyncio.sleep(0.02)
    assert bench.patcher.done == [("wake", PLAIN.name)]
    await asyncio.sleep(1)

    assert bench.patcher.done == [("wake", PLAIN.name)] * 2, "once for both later refusals"
    assert bench.cluster.view().refused == {}


async def test_a_gate_is_taken_away_once_though_the_group_changes_meanwhile(bench: Bench) -> None:
    observe(bench.cluster, pod_group(), *GATED)
    await asyncio.sleep(0.05)
    assert len(bench.patcher.patches) == 3
    await bench.sees(pod("late", group="gang", gates=(GANG_GATE,)))

    assert Counter(name for _, _, name in bench.patcher.patches) == {
        **{each.name: 1 for each in GATED},
        "late": 1,
    }


async def test_the_newer_reason_stays_where_a_patch_fails(bench: Bench) -> None:
    bench.patcher.broken = {each.name: ForbiddenError("no", status=403) for each in (PLAIN, A)}
    observe(bench.cluster, PLAIN, A)
    for each in (PLAIN, A):
        observe(bench.cluster, ev.PodRefused(each, Reason.CACHE_BEHIND))
        bench.waker.after(each.uid, 0)
    await asyncio.sleep(0.05)
    observe(bench.cluster, *(ev.PodRefused(each, Reason.RESERVED) for each in (PLAIN, A)))
    bench.waker.after(A.uid, 0)  # that one is to be woken again, the other one is not
    await asyncio.sleep(1)

    refused = bench.cluster.view().refused
    assert {uid: each.reason for uid, each in refused.items()} == {
        PLAIN.uid: Reason.RESERVED,
        A.uid: Reason.RESERVED,
    }


async def test_a_pod_that_has_a_node_by_now_is_not_tried_again(bench: Bench) -> None:
    bench.patcher.failures = [UnavailableError("down", status=503)]
    observe(bench.cluster, PLAIN, ev.PodRefused(PLAIN, Reason.RESERVED))
    bench.waker.after("", 0)
    await asyncio.sleep(0.05)
    await bench.sees(replace(PLAIN, node="n0"), seconds=5)

    assert bench.patcher.done == [("wake", PLAIN.name)]
    assert bench.cluster.view().refused == {}
    assert bench.waker._rests == {}


async def test_a_pod_that_found_a_node_while_it_waited_for_its_patch_is_left_alone(
    bench: Bench,
) -> None:
    many = pods(40)
    observe(bench.cluster, pod_group(min_member=40), many)
    observe(bench.cluster, *(ev.PodRefused(each, Reason.NOT_ENOUGH_PODS) for each in many))
    observe(bench.cluster, ev.Planned({each.uid: "n0" for each in many}))
    await asyncio.sleep(0.05)
    await bench.sees(*(ev.PodBinding(each, "n0") for each in many[32:]))

    assert bench.patcher.done == [("wake", each.name) for each in many[:32]]
    assert bench.woken("annotation") == 32

    # The Bindings fail, and their room is kept: kube-scheduler may not have asked for them.
    observe(bench.cluster, replace(many[32], node="n0"))
    await bench.sees(ev.Planned({each.uid: "n0" for each in many[33:]}))
    assert bench.patcher.done[32:] == [("wake", each.name) for each in many[33:]]


async def make_room_often(bench: Bench, *, seconds: int, pause: float = 0.5) -> None:
    """Have a plan come and go, twice a second or with another pause, for so many seconds."""
    filler = pod("filler", 1)
    observe(bench.cluster, filler)
    for _ in range(int(seconds / pause)):
        observe(bench.cluster, planned(filler="n0"))
        observe(bench.cluster, ev.Unreserved([filler.uid]))
        await asyncio.sleep(pause)


async def test_a_look_at_once_does_not_end_the_wait_for_a_later_one(cluster: Cluster) -> None:
    """A plan that came to nothing: one member is tried at once, another one after the rest."""
    bench = Bench(cluster)
    observe(cluster, pod_group("gang", 3), A, B, C)
    for each in (A, B, C):
        observe(cluster, ev.PodRefused(each, Reason.PLANNING))
    bench.waker.after(key("gang"), 0.0)
    bench.waker.after(key("gang"), 5.0)
    running = asyncio.create_task(bench.waker.run())
    await asyncio.sleep(10.0)
    running.cancel()
    assert len(bench.patcher.patches) == 2
    assert bench.patcher.patches[1][0] >= 5.0
