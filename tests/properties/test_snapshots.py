"""Whatever happened, the state made again from a snapshot is the state that it was taken of."""

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, run_state_machine_as_test
from typing_extensions import override

from extender.api.wellknown import GROUP_NATIVE, POD_GROUP_LABEL
from extender.explain.explanation import explain
from extender.gang.options import GangOptions
from extender.snapshot.header import SnapshotHeader
from extender.snapshot.memory_part import QueueMemo
from extender.snapshot.reading import read
from extender.snapshot.writing import Belief, written
from extender.state.cluster import events as ev
from extender.state.cluster.records import ConditionInfo, PodGroupStatusInfo
from extender.state.cluster.store import Cluster
from extender.wiring.explain import ExplainTarget
from extender.wiring.explain_snapshot import workload_then
from tests.effort import examples
from tests.makers import cluster_of, event_of, nodes, planned, pod, pod_group
from tests.properties.test_gangs import PHASES, Gangs, GangsInTurn
from tests.properties.test_queueing import Queueing
from tests.queue_makers import Admissions, validate_queues
from tests.unit.explain.scene import facts

NOW = 1_000_000.0


def file_of(cluster: Cluster, world: Admissions | None = None) -> bytes:
    """Return a snapshot of a state, and of what waits in queues."""
    memo = None
    if world is not None:
        heads = [head for _, head in world.pending.blocking_heads()]
        memo = QueueMemo(world.pending.preemptors.states(), heads)
    belief = Belief(
        SnapshotHeader("extender", NOW),
        GangOptions(),
        cluster.copied(),
        admission=world.options if world is not None else None,
        queues=world.queues.copied() if world is not None else None,
        waiting=memo,
    )
    return b"".join(written(belief))


def comes_again(live: Cluster) -> None:
    """Assert that the state made again from a snapshot is the same."""
    data = file_of(live)
    again = read(data).cluster
    again.validate()
    assert file_of(again).splitlines() == data.splitlines()
    found, view = again.view(), live.view()
    assert list(found.queue) == list(view.queue)
    assert set(found.groups) == set(view.groups)
    for group in view.groups:
        assert found.tally(group) == view.tally(group)
    assert found.left.all() == view.left.all()
    assert found.pod_groups == view.pod_groups
    assert found.natives_are_ours == view.natives_are_ours
    assert found.has_group_cycles == view.has_group_cycles


class GangSnapshots(Gangs):
    """A snapshot after each step."""

    @invariant()
    @override
    def books_are_right(self) -> None:
        comes_again(self.world.cluster)


class GangSnapshotsInTurn(GangSnapshots, GangsInTurn):
    """The same where groups begin without a request too."""


class QueueSnapshots(Queueing):
    """A snapshot of the queues after each step."""

    @invariant()
    def comes_again(self) -> None:
        data = file_of(Cluster(), self.world)
        snapshot = read(data)
        again = snapshot.queues
        assert again is not None
        validate_queues(again)
        assert again.copied().assumed == self.world.queues.copied().assumed
        view, live = again.view(), self.world.view
        for name in live.cluster_queues:
            assert view.usage(name) == live.usage(name)
            assert set(view.reserving(name)) == set(live.reserving(name))
        now = replace(facts(self.world), now=NOW)
        for key in live.workloads:
            namespace, _, name = key.partition("/")
            asked = ExplainTarget(namespace, name, is_job=False)
            assert workload_then(asked, snapshot) == explain(key, now)


@pytest.mark.parametrize(
    ("machine", "count"), [(GangSnapshots, 25), (GangSnapshotsInTurn, 25), (QueueSnapshots, 25)]
)
def test_the_state_of_a_snapshot_is_that_of_the_process(
    machine: type[Gangs | Queueing], count: int
) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples(count),
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
            phases=PHASES,
        ),
    )


GANG = pod_group(min_member=2)
NATIVE = replace(GANG, api_group=GROUP_NATIVE)
CONDITIONS = (ConditionInfo("PodGroupScheduled", "False", "Unschedulable"),)
TRIED = replace(NATIVE, status=PodGroupStatusInfo(conditions=CONDITIONS))
MEMBERS = [pod(name, group="gang", native=GANG.key) for name in "ab"]
ELSEWHERE = [replace(each, group="ns/other") for each in MEMBERS]
EVENTS: list[ev.Event] = [
    *map(event_of, [GANG, NATIVE, TRIED, replace(NATIVE, min_member=0)]),
    *map(event_of, [*MEMBERS, *ELSEWHERE, *(replace(each, native=None) for each in MEMBERS)]),
    event_of(replace(MEMBERS[0], labels={POD_GROUP_LABEL: "gang"})),
    *map(event_of, (replace(each, node="n1") for each in MEMBERS)),
    *(ev.PodGroupDeleted(each.api_group, each.key) for each in (GANG, NATIVE)),
    *(ev.PodRefused(each, "NoRoom") for each in MEMBERS),
    ev.PodDeleted("a"),
    ev.PodSeen(MEMBERS[1]),
    planned(a="n0", b="n0"),
    *(ev.NativesDecided(ours, fixed) for ours in (True, False) for fixed in (False, True)),
]


@settings(max_examples=examples(200))
@given(st.lists(st.sampled_from(EVENTS), max_size=12))
def test_native_gangs_come_again(events: list[ev.Event]) -> None:
    live = cluster_of(nodes(2, 2))
    for event in events:
        live.apply(event)
    comes_again(live)
