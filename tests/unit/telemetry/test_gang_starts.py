"""Starts of gangs: when one begins and ends, its id, what is logged of it, and its trace."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs

from extender.api.reasons import Reason
from extender.api.wellknown import GROUP_X
from extender.kube.errors import ForbiddenError
from extender.runtime.faults import FAULTS
from extender.state.cluster import events as ev
from extender.state.cluster.records import NodeInfo, PodGroupInfo
from extender.state.cluster.store import Cluster
from extender.telemetry import starts
from extender.telemetry.logs import Ids
from extender.telemetry.starts import GangStarts
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
    until,
)
from tests.unit.server.scene import Scene
from tests.unit.telemetry.traces import record

GANG = key("gang")
A, B, C = pods(3)
FACTS = [*nodes(8, 8, 8), A, B, C, pod_group(schedule_timeout=30.0)]


class Noted:
    """Starts in a cluster, with the traces of those that are over."""

    def __init__(self, *facts: Any) -> None:
        self.clock = ManualClock()
        self.cluster = cluster_of(*(facts or FACTS))
        self.starts = GangStarts(self.cluster, self.clock)
        self.traces = record(self.starts)

    def after(self, seconds: float) -> GangStarts:
        """Let time pass."""
        self.clock.now += seconds
        return self.starts

    def plan(self) -> None:
        """Have a plan made and kept that takes a second."""
        self.after(1).planning(GANG)
        self.after(1).planned(GANG, 3)
        observe(self.cluster, planned(gang_0="n0", gang_1="n1", gang_2="n2"))

    def bind(self, *members: Any) -> None:
        """Have Bindings made, each of them in a second."""
        for number, member in enumerate(members):
            self.cluster.apply(ev.PodBinding(member, f"n{number}"))
        for number, member in enumerate(members):
            self.starts.writing(member)
            self.after(1).wrote(member, "", seconds=1, ahead=number > 0)
        for number, member in enumerate(members):
            observe(self.cluster, replace(member, node=f"n{number}"))


def test_a_start_goes_from_the_first_member_that_is_tried_to_the_last_binding() -> None:
    noted = Noted()
    noted.starts.tried(A)
    noted.plan()
    noted.after(1).held(GANG)
    noted.after(2).released(GANG, 2)
    noted.bind(A, B, C)

    (trace,) = noted.traces
    assert trace.stages(trace.root.began) == {"plan": (1, 2), "hold": (3, 5), "bind": (5, 8)}
    assert (trace.root.name, trace.root.ended - trace.root.began) == ("gang", 8)
    assert trace.root.attributes == {
        "k8s.namespace.name": "ns",
        "gang_extender.group": "gang",
        "gang_extender.gang_id": trace.id,
        "gang_extender.members": 3,
        "gang_extender.min_members": 3,
        "gang_extender.reason": "QuorumReached",
    }
    assert trace.root.error == ""
    (bind,) = (each for each in trace.children if each.name == "bind")
    assert bind.attributes == {
        "gang_extender.bound": 3, "gang_extender.bound_ahead": 2, "gang_extender.failed_bindings": 0
    }  # fmt: skip


def test_it_waits_for_room_in_the_same_start_and_each_new_reason_is_noted() -> None:
    noted = Noted()
    with capture_logs() as lines:
        noted.starts.tried(A)
        noted.after(1).refused(GANG, Reason.NOT_ENOUGH_RESOURCES, "too little")
        noted.after(1).refused(GANG, Reason.NOT_ENOUGH_RESOURCES, "too little still")
        noted.after(1).refused(GANG, Reason.NEVER_FITS, "never")
        noted.plan()
        noted.bind(A, B, C)

    (trace,) = noted.traces
    (wait,) = (each for each in trace.children if each.name == "wait")
    assert trace.stages(trace.root.began)["wait"] == (0, 4)
    assert [(each.at - trace.root.began, dict(each.attributes)) for each in wait.moments] == [
        (1, {"gang_extender.reason": "NotEnoughResources", "gang_extender.message": "too little"}),
        (3, {"gang_extender.reason": "NeverFits", "gang_extender.message": "never"}),
    ]
    waits = [each for each in lines if each["event"] == "gang waits"]
    assert [each["reason"] for each in waits] == ["NotEnoughResources", "NeverFits"]
    assert {each["gang_id"] for each in lines} == {trace.id}


def test_a_gang_that_loses_its_room_begins_anew_with_another_id() -> None:
    noted = Noted()
    noted.starts.tried(A)
    first = noted.starts.id_of(GANG)
    noted.plan()
    with capture_logs() as lines:
        noted.starts.failed(GANG, Reason.SCHEDULE_TIMEOUT, "too late", held=0)
    noted.cluster.apply(ev.Unreserved([A.uid, B.uid, C.uid]))
    assert noted.starts.id_of(GANG) == first, "what is logged of it later has its id"
    noted.starts.tried(B)

    (trace,) = noted.traces
    assert trace.id == first != noted.starts.id_of(GANG)
    assert (trace.root.attributes["gang_extender.reason"], trace.root.error) == (
        "ScheduleTimeout", "too late"
    )  # fmt: skip
    assert lines == [
        {
            "event": "gang refused",
            "log_level": "info",
            "group": GANG,
            "gang_id": first,
            "pods": 0,
            "reason": Reason.SCHEDULE_TIMEOUT,
            "message": "too late",
        }
    ]


@pytest.mark.parametrize(
    ("change", "reason"),
    {
        "its nodes go": ([deleted(f"n{number}", NodeInfo) for number in range(3)], "RoomLost"),
        "its PodGroup goes": (
            [ev.Unreserved([A.uid, B.uid, C.uid]), deleted((GROUP_X, GANG), PodGroupInfo)],
            "RoomLost",
        ),
        "one of its pods goes, and the others lose their room": (
            [deleted(C.uid), ev.Unreserved([A.uid, B.uid])],
            "MemberDeleted",
        ),
        "its pods go": ([deleted(each.uid) for each in (A, B, C)], "MemberDeleted"),
    }.values(),
)
def test_what_ends_a_start_that_had_room(change: list[ev.ClusterEvent], reason: str) -> None:
    noted = Noted()
    noted.plan()
    observe(noted.cluster, *change)

    (trace,) = noted.traces
    assert (trace.root.attributes["gang_extender.reason"], trace.root.error) == (reason, reason)


def test_a_gang_that_waits_for_room_ends_with_its_pod_group() -> None:
    noted = Noted()
    noted.starts.tried(A)
    observe(noted.cluster, deleted(B.uid))
    assert noted.traces == []
    observe(noted.cluster, deleted((GROUP_X, GANG), PodGroupInfo))

    (trace,) = noted.traces
    assert trace.root.attributes["gang_extender.reason"] == "PodGroupDeleted"


def test_a_binding_whose_answer_comes_after_the_watch_is_a_part_of_it() -> None:
    noted = Noted()
    noted.plan()
    for each in (A, B, C):
        noted.cluster.apply(ev.PodBinding(each, "n0"))
        noted.starts.writing(each)
    for each in (A, B, C):
        observe(noted.cluster, replace(each, node="n0"))
    for each in (A, B, C):
        assert noted.traces == []
        noted.after(1).wrote(each, "", seconds=0.5, ahead=False)

    (trace,) = noted.traces
    assert trace.root.ended - trace.root.began == 4
    assert trace.stages(trace.root.began)["bind"] == (1.5, 4)


def test_members_beyond_its_quorum_are_no_start() -> None:
    late = pod("gang-3", group="gang")
    noted = Noted()
    noted.plan()
    noted.bind(A, B, C)
    (trace,) = noted.traces
    observe(noted.cluster, late)
    noted.starts.tried(late)
    noted.starts.planning(GANG)
    noted.starts.planned(GANG, 1)
    noted.starts.held(GANG)
    noted.bind(late)

    assert len(noted.traces) == 1
    assert noted.starts.id_of(GANG) == trace.id


def test_what_is_no_gang_has_no_start() -> None:
    noted = Noted(*nodes(8), A, pod("plain"))
    noted.starts.tried(pod("plain"))
    noted.starts.tried(A)  # its PodGroup is not there yet
    noted.starts.refused(GANG, Reason.POD_GROUP_NOT_FOUND, "none")

    assert noted.starts.id_of(GANG) is None


def test_ids_of_so_many_groups_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starts, "REMEMBERED", 2)
    names = ["a", "b", "c"]
    members = [pod(name, group=name) for name in names]
    noted = Noted(*nodes(8), members, [pod_group(name, 1) for name in names])
    for member in members:
        noted.starts.tried(member)
        noted.bind(member)

    assert [noted.starts.id_of(key(name)) is not None for name in names] == [False, True, True]


# --- what the parts of the process say -----------------------------------------------------------


@pytest.mark.looptime
async def test_each_line_about_a_gang_has_its_id_from_filter_to_bind(cluster: Cluster) -> None:
    scene = Scene(cluster, FACTS)
    traces = record(scene.verdicts.starts)
    scene.binder.script["gang-1"] = [ForbiddenError("not allowed", status=403)]
    ids = Ids()
    ids.add("group", "gang_id", scene.verdicts.starts.id_of)
    with capture_logs([ids]) as lines:
        for each in (A, B, C):
            assert scene.filter(each.uid, ["n0", "n1", "n2"], group="gang")["NodeNames"]
        where = {each.uid: scene.view.planned_node(each.uid) or "" for each in (A, B, C)}
        async with asyncio.TaskGroup() as tasks:
            for each in (A, B, C):
                tasks.create_task(scene.bind(each, where[each.uid]))
                await asyncio.sleep(1)
        for each in (A, C):
            observe(cluster, replace(each, node=where[each.uid]))
        assert traces == [], "a member is missing"
        assert await scene.bind(B, where[B.uid]) == ""
        observe(cluster, replace(B, node=where[B.uid]))

    (trace,) = traces
    about = [each for each in lines if each.get("group") == GANG]
    assert [each["event"] for each in about] == [
        "gang planned",
        "gang held",
        "gang released",
        "binding failed",
        "gang bound",
    ]
    assert {each["gang_id"] for each in about} == {trace.id}
    found = trace.stages(trace.root.began)
    assert set(found) == {"plan", "hold", "bind"}
    assert found["hold"][1] - found["hold"][0] == pytest.approx(2, abs=0.01)
    (bind,) = (each for each in trace.children if each.name == "bind")
    assert bind.attributes["gang_extender.bound"] == 3
    assert [dict(each.attributes) for each in bind.moments] == [
        {"k8s.pod.name": "gang-1", "exception.message": str(_failure(lines))}
    ]


def _failure(lines: list[Any]) -> object:
    return next(each["error"] for each in lines if each["event"] == "binding failed")


@pytest.mark.looptime
async def test_a_time_out_ends_a_start_with_its_reason(cluster: Cluster) -> None:
    scene = Scene(cluster, FACTS)
    traces = record(scene.verdicts.starts)
    scene.filter(A.uid, ["n0"], group="gang")
    with capture_logs() as lines:
        assert await scene.hold(A, "n0") == Reason.SCHEDULE_TIMEOUT
    await until(lambda: traces)

    (trace,) = traces
    assert trace.root.attributes["gang_extender.reason"] == "ScheduleTimeout"
    assert trace.root.error == "gang ns/gang: 1 of 3 pods got a node before the time-out"
    found = trace.stages(trace.root.began)
    assert found["hold"][1] - found["hold"][0] == pytest.approx(30, abs=0.01)
    (line,) = (each for each in lines if each["event"] == "gang refused")
    assert (line["gang_id"], line["reason"]) == (trace.id, Reason.SCHEDULE_TIMEOUT)


@pytest.mark.looptime
async def test_a_gang_without_room_says_so_once_for_each_reason(cluster: Cluster) -> None:
    members = pods(3, 4)
    scene = Scene(cluster, *nodes(4), members[:2], pod_group())
    with capture_logs() as lines:
        for names in (["gang-0", "gang-1"], [each.uid for each in members]):
            observe(cluster, [each for each in members if each.uid in names])
            for name in names * 2:
                scene.filter(name, ["n0"], group="gang", cpu="4")
            await asyncio.sleep(10)

    waits = [each for each in lines if each["event"] == "gang waits"]
    assert [(each["reason"], each["log_level"]) for each in waits][:2] == [
        (Reason.NOT_ENOUGH_PODS, "debug"),
        (Reason.NEVER_FITS, "info"),
    ]
    assert len({each["reason"] for each in waits}) == len(waits)
    assert {each["gang_id"] for each in waits} == {scene.verdicts.starts.id_of(GANG)}


def test_what_cannot_be_noted_is_an_error_of_nothing_else() -> None:
    noted = Noted()
    starts, before = noted.starts, FAULTS.counts.get("gang-starts", 0)
    starts._under_way = object()  # type: ignore[assignment]
    calls: list[Callable[[], None]] = [
        lambda: starts.tried(A),
        lambda: starts.planning(GANG),
        lambda: starts.planned(GANG, 3),
        lambda: starts.refused(GANG, "NoRoom", "no room"),
        lambda: starts.held(GANG),
        lambda: starts.released(GANG, 3),
        lambda: starts.writing(A),
        lambda: starts.wrote(A, "", seconds=1, ahead=False),
        lambda: starts.failed(GANG, "NoRoom", "no room", held=3),
        lambda: starts.on_change(ev.ClusterChange(groups=frozenset((GANG,)))),
    ]
    for count, call in enumerate(calls, 1):
        call()
        assert FAULTS.counts["gang-starts"] == before + count
