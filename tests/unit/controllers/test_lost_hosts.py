"""Hosts that go away under admitted workloads: what takes their place, and what if nothing does."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from extender.api.wellknown import HOSTNAME_LABEL
from extender.controllers.admitted_pods import LostHosts
from extender.controllers.workload import Workloads
from extender.gang.verdicts import GangOptions, OnPartial
from extender.kube.errors import ApiError
from extender.kube.recorder import Event
from extender.queueing.lost_hosts import UNREADY_SECONDS, HostRules
from extender.room.nodes import NodeRoom
from extender.state.cluster import events as cluster_events
from extender.state.cluster.records import DomainAssignment, NodeInfo, PodGroupInfo, PodInfo
from extender.state.queue import events as ev
from extender.state.queue.records import (
    AdmissionInfo,
    Assignment,
    DomainRequest,
    JobObject,
    NamespaceInfo,
    OwnerRef,
    PodSetInfo,
    TopologyInfo,
    WorkloadInfo,
)
from extender.state.queue.store import Queues
from tests.makers import NAMESPACE, ManualClock, cluster_of, key, node, observe, pod, pod_group
from tests.queue_makers import (
    cluster_queue,
    condition,
    flavor,
    group,
    local_queue,
    meta,
    pod_set,
    workload,
)
from tests.unit.controllers.queue_server import Server

RACK = "rack"
KEY = key("w")
JOB = OwnerRef("batch/v1", "Job", "job", "job")


def host(rack: int, number: int, **more: Any) -> NodeInfo:
    name = f"r{rack}n{number}"
    return node(name, 4, labels={RACK: f"r{rack}", HOSTNAME_LABEL: name}, **more)


class Scene:
    """A workload of a pod on each of some hosts, in racks `r0`, `r1`... of four hosts."""

    def __init__(
        self,
        *hosts: str,
        racks: int = 2,
        in_rack: int = 4,
        rules: HostRules | None = None,
        asked: DomainRequest | None = None,
        **more: Any,
    ) -> None:
        self.clock, self.server, self.events = ManualClock(), Server(), list[Event]()
        self.cluster = cluster_of(
            [host(rack, number) for rack in range(racks) for number in range(in_rack)]
        )
        self.queues = Queues()
        self.view = self.queues.view()
        count, shape = len(hosts), pod_set(4, len(hosts)).shape
        topology = DomainAssignment((HOSTNAME_LABEL,), tuple(((name,), 1) for name in hosts))
        given = Assignment("main", {"cpu": "racked"}, {"cpu": 4000 * count}, count, topology)
        self.put(
            NamespaceInfo(NAMESPACE),
            flavor("racked", topology="t"),
            TopologyInfo(meta("t"), (RACK, HOSTNAME_LABEL)),
            cluster_queue("cq", group(racked=100)),
            local_queue(),
            workload(
                "w",
                PodSetInfo("main", count, shape, topology=asked or DomainRequest(required=RACK)),
                admission=AdmissionInfo("cq", (given,)),
                conditions=(condition("QuotaReserved"), condition("Admitted")),
                **more,
            ),
        )
        self.server.stored[KEY] = self.workload
        self.woken = 0
        self.rules = rules or HostRules()
        self.hosts = self.started()
        for number, name in enumerate(hosts):
            self.run_pod(f"p{number}", name, index=number)
        observe(self.cluster, pod_group("w", count, assigned={"main": topology}))

    def started(self) -> LostHosts:
        """Return what a process has that has just started."""
        found = LostHosts(
            self.queues,
            self.cluster.view(),
            workloads=Workloads(self.queues, self.server),
            room=NodeRoom(self.view, self.cluster.view()),
            record=self.events.append,
            clock=self.clock,
            rules=self.rules,
        )
        found.wake = self.wake
        return found

    def wake(self) -> None:
        self.woken += 1

    @property
    def workload(self) -> WorkloadInfo:
        return self.view.workloads[KEY]

    def put(self, *records: Any) -> None:
        for record in records:
            self.queues.apply(ev.Applied(record))

    def run_pod(self, name: str, on: str, index: int | None = None) -> None:
        running = pod(name, 4, node=on, workload=KEY, pod_set="main", index=index, controller="job")
        observe(self.cluster, running)

    async def lose(self, *names: str, seconds: float = 0.0) -> None:
        """Delete nodes, and the pods there, and look."""
        gone = [each.uid for each in self.cluster.view().pods.values() if each.node in names]
        observe(self.cluster, [cluster_events.ObjectDeleted(NodeInfo, name) for name in names])
        observe(self.cluster, [cluster_events.ObjectDeleted(PodInfo, uid) for uid in gone])
        await self.look(seconds)

    def finish_pod(self) -> None:
        """Have the pod with the index 1 done."""
        raw = b'{"spec": {"completions": 2}, "status": {"completedIndexes": "1", "succeeded": 1}}'
        job = JobObject("batch/job", meta("job", NAMESPACE), raw, completion_mode="Indexed")
        self.queues.apply(ev.JobApplied(job))

    async def look(self, seconds: float = 0.0) -> None:
        """Let time pass, look, and write what was decided."""
        self.clock.now += seconds
        for _ in self.hosts.look():
            pass
        async with asyncio.TaskGroup() as tasks:
            await self.hosts.replace(tasks)

    def given(self) -> list[str]:
        """Return the host of each rank."""
        held = self.workload.admission
        assert held is not None
        topology = held.assignments[0].topology
        assert topology is not None
        return [name for (name,) in topology.by_rank()]

    def said(self, kind: str) -> str:
        found = self.workload.condition(kind)
        return "" if found is None or found.status != "True" else found.reason


async def test_another_host_of_the_same_rack_takes_the_place_of_one_that_is_gone() -> None:
    scene = Scene("r1n0", "r1n1", "r1n2")
    await scene.look()
    assert scene.given() == ["r1n0", "r1n1", "r1n2"]
    await scene.lose("r1n1")
    assert scene.given() == ["r1n0", "r1n3", "r1n2"]
    assert scene.server.stored[KEY].admission == scene.workload.admission
    assert [each.reason for each in scene.events] == ["HostReplaced"]
    assert scene.events[0].note == "Host r1n1 is gone; its pods go to others: r1n3"


async def test_a_node_that_is_not_ready_counts_as_gone_after_half_a_minute() -> None:
    scene = Scene("r0n0", "r0n1")
    sick = host(0, 1, ready=False, unready_since=scene.clock.now)
    observe(scene.cluster, sick)
    await scene.look(UNREADY_SECONDS - 1)
    assert scene.given() == ["r0n0", "r0n1"]
    await scene.look(1)
    assert scene.given() == ["r0n0", "r0n2"]


async def test_a_restart_counts_from_when_the_node_was_lost() -> None:
    scene = Scene("r0n0", "r0n1")
    observe(scene.cluster, host(0, 1, ready=False, unready_since=scene.clock.now))
    scene.clock.now += UNREADY_SECONDS
    scene.hosts = scene.started()
    await scene.look()
    assert scene.given() == ["r0n0", "r0n2"]


async def test_without_room_in_the_rack_a_gang_waits_until_there_is_some() -> None:
    scene = Scene("r0n0", "r0n1", in_rack=2)
    await scene.lose("r0n1")
    assert scene.given() == ["r0n0", "r0n1"]
    assert scene.said("HostsLost") == "NoReplacement"
    [event] = scene.events
    assert (event.reason, event.warning) == ("NoReplacement", True)
    assert event.note == (
        'Host r0n1 is gone, and topology "t" doesn\'t allow to fit any of 1 pod(s)'
        " in one domain of rack"
    )
    await scene.look(600)
    assert scene.said("Evicted") == ""
    assert len(scene.events) == 1  # each is written once
    observe(scene.cluster, host(0, 7))
    await scene.look(3)
    assert scene.given() == ["r0n0", "r0n7"]
    assert scene.said("HostsLost") == ""


async def test_a_host_that_comes_back_keeps_its_pods() -> None:
    scene = Scene("r0n0", "r0n1", in_rack=2)
    await scene.lose("r0n1")
    assert scene.said("HostsLost")
    observe(scene.cluster, host(0, 1))
    await scene.look(1)
    assert scene.said("HostsLost") == ""
    assert scene.given() == ["r0n0", "r0n1"]


async def test_a_gang_that_asks_for_it_is_evicted_after_its_patience() -> None:
    rules = HostRules(OnPartial.EVICT, GangOptions(schedule_timeout=20, evict_after=40))
    scene = Scene("r0n0", "r0n1", in_rack=2, rules=rules)
    await scene.lose("r0n1")
    await scene.look(39)
    assert scene.said("Evicted") == ""
    scene.hosts = scene.started()  # since when it lacks a host is stored
    await scene.look(1)
    assert scene.said("Evicted") == "NodeFailures"
    assert scene.said("HostsLost") == ""
    assert [each.reason for each in scene.events] == ["NoReplacement", "Evicted"]


@pytest.mark.parametrize(("asked", "reason"), [("evict", "NodeFailures"), ("keep", "")])
async def test_the_annotation_of_the_pod_group_counts(asked: str, reason: str) -> None:
    scene = Scene("r0n0", "r0n1", in_rack=2)
    observe(scene.cluster, pod_group("w", 2, on_partial=asked, schedule_timeout=10))
    await scene.lose("r0n1")
    await scene.look(60)
    assert scene.said("Evicted") == reason


async def test_a_workload_without_any_pod_on_a_node_is_queued_again_at_once() -> None:
    scene = Scene("r0n0", "r0n1", in_rack=2, racks=1)
    await scene.lose("r0n0", "r0n1")
    assert scene.said("Evicted") == "NodeFailures"


async def test_when_all_hosts_are_gone_another_rack_will_do() -> None:
    scene = Scene("r0n0", "r0n1", in_rack=2)
    await scene.lose("r0n0", "r0n1")
    assert scene.given() == ["r1n0", "r1n1"]


async def test_a_preferred_rack_is_left_where_it_has_no_room() -> None:
    scene = Scene("r0n0", "r0n1", in_rack=2, asked=DomainRequest(preferred=RACK))
    await scene.lose("r0n1")
    assert scene.given() == ["r0n0", "r1n0"]


async def test_hosts_of_others_are_not_taken() -> None:
    scene = Scene("r0n0", "r0n1", in_rack=3)
    observe(scene.cluster, pod("other", 2, node="r0n2"))
    await scene.lose("r0n1")
    assert scene.said("HostsLost") == "NoReplacement"


async def test_two_workloads_do_not_get_the_same_host() -> None:
    scene = Scene("r0n0", "r0n1", in_rack=3)
    other = replace(scene.workload, meta=meta("v", NAMESPACE), conditions=scene.workload.conditions)
    topology = DomainAssignment((HOSTNAME_LABEL,), ((("r0n1",), 1),))
    held = scene.workload.admission
    assert held is not None
    given = replace(held.assignments[0], count=1, usage={"cpu": 4000}, topology=topology)
    sets = (replace(scene.workload.pod_sets[0], count=1),)
    other = replace(other, pod_sets=sets, admission=replace(held, assignments=(given,)))
    scene.put(other)
    scene.server.stored[other.key] = other
    observe(scene.cluster, pod_group("v", 1, assigned={"main": topology}))
    await scene.lose("r0n1")
    now = scene.view.workloads[other.key].admission
    assert now is not None
    assert now.assignments[0].topology == DomainAssignment((HOSTNAME_LABEL,), ((("r0n2",), 1),))
    assert scene.given() == ["r0n0", "r0n1"]
    assert scene.said("HostsLost") == "NoReplacement"


async def test_pods_that_are_done_need_no_other_host() -> None:
    scene = Scene("r0n0", "r0n1", in_rack=2, racks=1, owners=(JOB,))
    scene.finish_pod()
    await scene.lose("r0n1")
    assert scene.given() == ["r0n0", "r0n1"]
    assert scene.said("HostsLost") == ""


async def test_a_host_whose_pods_are_done_meanwhile_is_missed_no_more() -> None:
    scene = Scene("r0n0", "r0n1", in_rack=2, racks=1, owners=(JOB,))
    await scene.lose("r0n1")
    assert scene.said("HostsLost")
    scene.finish_pod()
    await scene.look(10)
    assert scene.said("HostsLost") == ""
    assert [each.reason for each in scene.events] == ["NoReplacement"]


async def test_pods_without_an_index_that_are_done_leave_a_place_to_others() -> None:
    scene = Scene("r0n0", "r0n1", in_rack=2, racks=1, reclaimable={"main": 1})
    await scene.lose("r0n0")
    assert scene.given() == ["r0n1"]


async def test_a_template_that_names_the_host_cannot_be_changed() -> None:
    scene = Scene("r0n0")
    observe(scene.cluster, cluster_events.ObjectDeleted(PodGroupInfo, (pod_group().api_group, KEY)))
    observe(scene.cluster, host(0, 0, ready=False, unready_since=scene.clock.now))
    await scene.look(UNREADY_SECONDS)
    assert scene.said("HostsLost") == "NoReplacement"
    assert scene.events[0].note.endswith("and the node selector of its pods names it")
    await scene.lose("r0n0", seconds=10)
    assert scene.said("Evicted") == "NodeFailures"


async def test_what_could_not_be_written_is_decided_again() -> None:
    scene = Scene("r0n0", "r0n1")
    scene.server.script = [ApiError("no", status=500)]
    await scene.lose("r0n1")
    assert scene.given() == ["r0n0", "r0n1"]
    assert not scene.view.is_assumed(KEY)
    await scene.look(2)
    assert scene.given() == ["r0n0", "r0n2"]


async def test_one_that_is_to_go_gets_no_other_host() -> None:
    scene = Scene("r0n0", "r0n1")
    gone = (*scene.workload.conditions, condition("Evicted"))
    scene.put(replace(scene.workload, meta=meta("w", NAMESPACE), conditions=gone))
    await scene.lose("r0n1")
    assert scene.given() == ["r0n0", "r0n1"]
