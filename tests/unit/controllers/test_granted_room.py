"""Granted room holds as long as an admitted Workload asks for it and has no pods on nodes."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from typing_extensions import override

from extender.api.wellknown import GROUP_SIGS, GROUP_X
from extender.controllers.admitted_pods import GrantKeeper
from extender.jobs.workload import made_for
from extender.kube.errors import NotFoundError
from extender.kube.queues import JobWriter
from extender.state.cluster.records import LONGEST_SECONDS, Grant, PodGroupStatusInfo
from extender.state.queue import events as ev
from extender.state.queue.store import Queues
from tests.makers import (
    NAMESPACE,
    ManualClock,
    cluster_of,
    deleted,
    key,
    nodes,
    observe,
    pod,
    pod_group,
)
from tests.queue_makers import admission, condition, pod_set, workload

LONG = "a-very-long-name-of-a-workload-as-they-are-made-from-the-names-of-kinds-and-jobs"
ROOM = {"n0": {"cpu": 2000, "pods": 2}}


class Writer(JobWriter):
    """Keeps what is withdrawn."""

    def __init__(self) -> None:
        self.dropped: list[tuple[str, str]] = []
        self.gone = False

    @override
    async def drop_grant(self, namespace: str, name: str, *, api_group: str = GROUP_X) -> None:
        self.dropped.append((f"{namespace}/{name}", api_group))
        if self.gone:
            raise NotFoundError("it is gone")


class Scene:
    """An admitted workload of two pods with a CPU each, and room for both on one node."""

    def __init__(self, name: str = "w", group: str = "w") -> None:
        self.clock, self.writer, self.queues = ManualClock(), Writer(), Queues()
        self.group = group
        self.cluster = cluster_of(nodes(4), pod_group(group, 2, grant=self.grant()))
        made = workload(name, pod_set(1, 2))
        self.workload = replace(
            made,
            admission=admission(made),
            conditions=(condition("QuotaReserved"), condition("Admitted")),
        )
        self.queues.apply(ev.Applied(self.workload))

    def grant(self, seconds: float = 60.0, **rooms: Any) -> Grant:
        return Grant(rooms or ROOM, self.clock.now + seconds)

    def change(self, **fields: Any) -> None:
        meta = replace(self.workload.meta, version=self.workload.meta.version + 1)
        self.workload = replace(self.workload, **{"meta": meta, **fields})
        self.queues.apply(ev.Applied(self.workload))

    def add(self, kind: str) -> None:
        self.change(conditions=(*self.workload.conditions, condition(kind)))

    def see(self, grant: Grant, **more: Any) -> None:
        observe(self.cluster, pod_group("w", 2, grant=grant, **more))

    def keeper(self) -> GrantKeeper:
        return GrantKeeper(self.cluster.view(), self.queues.view(), self.writer, clock=self.clock)

    def noticed(self) -> bool:
        """Return whether a change of the group is looked at."""
        return [*self.keeper().granted([key("w")])] == [key("w")]

    async def look(self) -> float | None:
        return await self.keeper().reconcile(key(self.group))


async def test_it_holds_and_is_looked_at_again_when_its_time_is_over() -> None:
    scene = Scene()
    assert await scene.look() == 60
    assert scene.writer.dropped == []
    scene.clock.now += 60
    assert await scene.look() is None
    assert scene.writer.dropped == [(key("w"), GROUP_X)]


async def test_a_workload_with_a_long_name_backs_its_pod_group() -> None:
    scene = Scene(LONG, made_for(f"{NAMESPACE}/{LONG}").partition("/")[2])
    assert await scene.look() == 60
    assert scene.writer.dropped == []


def evicted_again(scene: Scene) -> None:
    """Evict a job that was admitted again, while the phase is that of its pods before."""
    scene.see(scene.grant(50), status=PodGroupStatusInfo(phase="Failed"))
    scene.add("Evicted")


ENDS: dict[str, Callable[[Scene], object]] = {
    "evicted": lambda scene: scene.add("Evicted"),
    "finished": lambda scene: scene.add("Finished"),
    "deactivated": lambda scene: scene.change(active=False),
    "deleted": lambda scene: scene.queues.apply(ev.Deleted(scene.workload)),
    "released": lambda scene: scene.change(admission=None, conditions=()),
    "evicted again": evicted_again,
    "inflated": lambda scene: scene.see(scene.grant(n0={"cpu": 2001})),
    "prolonged": lambda scene: scene.see(scene.grant(LONGEST_SECONDS + 1)),
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
async def test_it_is_withdrawn(end: Callable[[Scene], object]) -> None:
    scene = Scene()
    end(scene)
    assert await scene.look() is None
    assert scene.writer.dropped == [(key("w"), GROUP_X)]


async def test_what_has_ended_in_the_state_is_not_withdrawn() -> None:
    """With its first pod on a node no process keeps the room, and neither does one that starts."""
    scene = Scene()
    observe(scene.cluster, pod("p", 1, group="w", on="n0"))
    assert await scene.look() is None
    scene.clock.now += 60
    assert await scene.look() is None

    ended = PodGroupStatusInfo(phase="Finished")
    scene.cluster = cluster_of(nodes(4), pod_group("w", 2, grant=scene.grant(), status=ended))
    ENDS["finished"](scene)
    assert await scene.look() is None
    assert scene.writer.dropped == []


@pytest.mark.parametrize("loss", ["evicted", "deactivated", "deleted", "released", "finished"])
async def test_a_used_one_is_withdrawn_where_a_new_process_would_keep_it_again(loss: str) -> None:
    """Its job has started and lost its quota before its time is over."""
    scene = Scene()
    observe(scene.cluster, pod("p", 1, group="w", on="n0"))
    assert await scene.look() is None
    ENDS[loss](scene)
    observe(scene.cluster, deleted("p"))
    assert scene.noticed()
    assert await scene.look() is None
    assert scene.writer.dropped == [(key("w"), GROUP_X)]


async def test_a_job_that_ends_by_itself_costs_no_write() -> None:
    """Its phase says so, or its pods do until then; nobody looks when its time is over."""
    scene = Scene()
    observe(scene.cluster, pod("p", 1, group="w", on="n0"))
    ENDS["finished"](scene)
    observe(scene.cluster, pod("p", 1, group="w", on="n0", finished=True))
    await scene.look()
    scene.see(scene.grant(), status=PodGroupStatusInfo(phase="Finished"))
    observe(scene.cluster, deleted("p"))
    await scene.look()
    assert scene.writer.dropped == []
    scene.clock.now += 60
    assert not scene.noticed()


async def test_what_a_restart_left_behind_is_withdrawn_in_both_api_groups() -> None:
    scene = Scene()
    ENDS["deleted"](scene)
    scene.see(scene.grant(), api_group=GROUP_SIGS)
    await scene.look()
    assert scene.writer.dropped == [(key("w"), GROUP_X), (key("w"), GROUP_SIGS)]


async def test_a_pod_group_that_is_gone_is_no_error() -> None:
    scene = Scene()
    ENDS["deleted"](scene)
    scene.writer.gone = True
    assert await scene.look() is None
