"""Room that is kept for workloads that have waited for it for long."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from extender.api.wellknown import WorkloadCondition
from extender.queueing.cycle import Admit, NotAdmitted
from extender.room.nodes import NodeRoom
from extender.room.reserved import HOPELESS_SECONDS, MOST
from extender.state.cluster.records import NodeInfo
from extender.state.queue import events as ev
from tests.makers import deleted, node, observe, pod
from tests.queue_makers import cluster_queue, flavor, local_queue
from tests.waiting_room import AGING, PLENTY, World


def waits_for_room(world: World, name: str) -> bool:
    """Return whether a cycle says that a workload waits, and for how long it has."""
    found = world.queues.view.workloads[f"ns/{name}"].condition(WorkloadCondition.ROOM_RESERVED)
    return found is not None and found.status == "False"


def busy(*sizes: int, runs: float = 1e9, **more: Any) -> World:
    """Return nodes that a workload each has all of."""
    world = World(*sizes, **more)
    for number, size in enumerate(sizes):
        world.submit(f"first{number}", size, runs=runs)
        world.cycle()
    assert len(world.running()) == len(sizes)
    return world


def stream(world: World, seconds: float) -> None:
    """Submit a small workload of ten seconds whenever none waits."""
    for _ in range(int(seconds)):
        small = [k for k in world.queues.view.workloads if k.startswith("ns/small")]
        if all(key in world.ends for key in small):
            world.submit(f"small{world.made}", 2, runs=10.0)
        world.pass_time(1.0)


@pytest.mark.parametrize(("aging", "starts"), [(AGING, True), (0.0, False)])
def test_a_wide_workload_starts_beside_a_stream_of_small_ones(aging: float, starts: bool) -> None:
    world = World(4, 4, 4, aging=aging)
    stream(world, 20.0)
    world.submit("wide", 6, runs=10.0)
    stream(world, 60.0)
    assert ("wide" in world.running() or "wide" in world.finished) is starts


def test_nothing_is_kept_before_it_has_waited_for_so_long() -> None:
    world = busy(4, 4)
    world.submit("wide", 6)
    world.cycle()
    assert waits_for_room(world, "wide")
    world.pass_time(AGING - 1.0)
    assert not world.reserved
    world.pass_time(2.0)
    assert world.reserved == {"wide": {"n0", "n1"}}


def test_it_says_so() -> None:
    world = busy(4, 4)
    world.submit("wide", 6)
    world.pass_time(AGING + 2.0)
    world.cycle()
    said = world.queues.view.workloads["ns/wide"].condition(WorkloadCondition.ROOM_RESERVED)
    assert said is not None
    assert (said.status, said.reason) == ("True", "WaitedLong")
    assert said.message == "room for 6 pods is kept on 2 nodes"


@pytest.mark.parametrize(("priority", "passes"), [(1, True), (0, False), (-1, False)])
def test_only_a_higher_priority_passes(priority: int, passes: bool) -> None:
    world = busy(4, 4)
    world.submit("wide", 6)
    world.pass_time(AGING + 2.0)
    world.end("ns/first0")
    world.submit("next", 2, priority=priority)
    world.pass_time(1.0)
    assert ("next" in world.running()) is passes


def test_others_use_what_is_left_beside_it() -> None:
    world = busy(4, 4)
    world.submit("wide", 6)
    world.pass_time(AGING + 2.0)
    observe(world.cluster, node("m", 2))
    world.submit("next", 2)
    world.pass_time(1.0)
    assert world.where["ns/next"] == {"m": 2}


def test_those_that_stay_for_ever_count_as_there() -> None:
    world = World(4, 4, 4)
    observe(world.cluster, pod("agent", 2, on="n0"))
    world.submit("first", 10)
    world.cycle()
    world.submit("never", 11)
    world.submit("wide", 10)
    world.pass_time(AGING + 2.0)
    assert world.reserved == {"wide": {"n0", "n1", "n2"}}


def test_it_stays_where_it_is() -> None:
    world = busy(4, 4, 4)
    world.submit("wide", 4)
    world.pass_time(AGING + 2.0)
    before = world.reserved
    last = next(iter(world.reserved["wide"]))
    other = next(f"first{n}" for n in range(3) if f"n{n}" != last)
    world.submit("higher", 4, priority=1)
    world.end(f"ns/{other}")
    world.pass_time(5.0)
    assert "higher" in world.running()
    assert world.reserved == before


def test_it_goes_elsewhere_when_its_node_goes() -> None:
    world = busy(4, 4)
    world.submit("wide", 4)
    world.pass_time(AGING + 2.0)
    (name,) = world.reserved["wide"]
    world.cluster.apply(deleted(name, NodeInfo))
    world.pass_time(2.0)
    assert world.reserved == {"wide": {"n0", "n1"} - {name}}


@pytest.mark.parametrize(
    ("nodes", "want"),
    [(5, [2, 4, 4, 5]), (3, [2, 2, 2, 3])],
    ids=["by its own size", "a part of it is of no use before the end"],
)
def test_it_grows_and_in_the_end_takes_what_there_is(nodes: int, want: list[int]) -> None:
    world, sizes = busy(*[4] * nodes), []
    world.submit("wide", 8)
    for _ in want:
        world.pass_time(AGING + 1.0)
        sizes.append(len(world.reserved.get("wide", ())))
    assert sizes == want


def test_there_are_so_many_at_most() -> None:
    world = busy(40)
    for number in range(MOST + 4):
        world.submit(f"w{number}", 1, created=world.now + number)
    world.pass_time(3 * AGING)
    assert [*world.reserved] == [f"w{number}" for number in range(MOST)]


def test_one_that_finds_no_place_keeps_later_ones_off_its_nodes_and_is_next() -> None:
    world = World(4, 4, 4)
    observe(world.cluster, node("gpu", 4, labels={"kind": "gpu"}))
    for number in range(4):
        world.submit(f"first{number}", 4, runs=25.0 if number < 3 else 1e9)
        world.cycle()
    for name, size in (("one", 8), ("two", 12), ("three", 2)):
        world.submit(name, size, runs=10.0)
        world.pass_time(1.0)
    world.pass_time(AGING + 2.0)
    assert [*world.reserved] == ["one"]
    world.pass_time(15.0)
    assert "one" in world.running()
    assert [*world.reserved] == ["two"]


def test_one_that_never_fits_keeps_nothing_and_bars_nothing() -> None:
    world = busy(4, 4)
    world.submit("never", 20)
    world.submit("wide", 6)
    world.pass_time(AGING + 2.0)
    assert [*world.reserved] == ["wide"]


def test_any_number_that_never_fit_keep_no_other_from_its_turn() -> None:
    world = busy(4, 4)
    for _ in range(2 * MOST + 4):
        world.submit(f"never{world.made}", 20)
    world.submit("wide", 6)
    world.pass_time(AGING + 5.0)
    assert world.reserved == {"wide": {"n0", "n1"}}


def test_one_that_never_fitted_has_its_turn_once_it_fits() -> None:
    world = busy(4, 4)
    world.submit("never", 20)
    world.pass_time(AGING + 5.0)
    assert not world.reserved
    for number in range(3):
        observe(world.cluster, node(f"more{number}", 4))
    world.submit("small", 1, runs=1e9)
    world.submit("late", 1, runs=1e9)
    world.pass_time(1.0)
    assert {"small", "late"} <= set(world.running())
    world.pass_time(HOPELESS_SECONDS + 1.0)
    assert [*world.reserved] == ["never"]


def test_another_process_comes_to_the_same() -> None:
    world = busy(4, 4, 4, 4)
    world.submit("wide", 8)
    world.submit("other", 4)
    world.pass_time(AGING + 3.0)
    before, since = world.reserved, world.since
    assert len(before) == 2
    world.queues.room = NodeRoom(world.queues.view, world.cluster.view())
    world.pass_time(1.0)
    assert (world.reserved, world.since) == (before, since)


def test_it_ends_with_its_workload() -> None:
    world = busy(4, 4)
    world.submit("wide", 6)
    world.pass_time(AGING + 2.0)
    world.queues.apply(ev.Deleted(world.queues.view.workloads["ns/wide"]))
    world.submit("next", 4)
    world.end("ns/first0")
    world.cycle()
    assert not world.reserved
    assert "next" in world.running()


@pytest.mark.parametrize(
    "edit",
    [
        lambda: cluster_queue("cq", PLENTY, stop_policy="Hold"),
        lambda: cluster_queue("cq", 5),
        lambda: flavor(node_labels={"not": "there"}),
    ],
    ids=["stopped", "quota", "flavor"],
)
def test_it_ends_with_what_makes_it_possible(edit: Callable[[], Any]) -> None:
    records = (
        cluster_queue("cq", PLENTY),
        local_queue(),
        cluster_queue("other", PLENTY),
        local_queue("other"),
    )
    world = busy(4, 4, records=records)
    world.submit("wide", 6)
    world.pass_time(AGING + 2.0)
    assert world.reserved
    world.queues.put(edit())
    world.submit("next", 4, queue="other")
    world.cycle()
    assert not world.reserved


def test_it_stays_where_an_edit_leaves_it_possible() -> None:
    world = busy(4, 4)
    world.submit("wide", 6)
    world.pass_time(AGING + 2.0)
    before, since = world.reserved, world.since
    world.queues.put(cluster_queue("cq", PLENTY - 1))
    world.pass_time(2.0)
    assert (world.reserved, world.since) == (before, since)


def test_it_is_kept_for_one_more_period_without_quota() -> None:
    records = (cluster_queue("cq", 12), local_queue())
    world = World(4, 4, records=records)
    for name in ("first0", "first1"):
        world.submit(name, 3)
        world.cycle()
    world.submit("wide", 6)
    world.pass_time(AGING + 2.0)
    assert world.reserved
    world.submit("higher", 1, priority=1)
    world.pass_time(AGING - 2.0)
    assert "higher" in world.running()
    assert world.reserved
    world.pass_time(5.0)
    assert not world.reserved


def test_a_preemptor_gets_what_its_victims_leave() -> None:
    """It had chosen them before room was kept for a workload that comes before it."""
    mine = cluster_queue("mine", 4, cohort="c", preemption={"reclaim_within_cohort": "Any"})
    queues = (mine, cluster_queue("theirs", 4, cohort="c"), cluster_queue("own", PLENTY))
    world = World(4, 4, records=(*queues, *(local_queue(each.name) for each in queues)))
    for number in range(2):
        world.submit(f"first{number}", 4, queue="theirs")
        world.cycle()
    world.submit("reclaims", 4, queue="mine")
    world.pass_time(1.0)
    (victim,) = world.queues.pending.preemptors.victims("ns/reclaims")
    world.submit("wide", 8, queue="own", priority=5)
    world.pass_time(AGING + 2.0)
    assert world.reserved == {"wide": {"n0", "n1"}}
    world.end(victim)
    world.cycle()
    assert "reclaims" in world.running()
    assert world.reserved == {"wide": {"n0", "n1"}}


def test_the_message_of_the_cycle_is_not_changed() -> None:
    world = busy(4)
    world.submit("wide", 2)
    world.pass_time(AGING + 2.0)
    (outcome,) = [x for x in world.cycle() if not isinstance(x, Admit)]
    assert isinstance(outcome, NotAdmitted)
    assert outcome.message.startswith("quota yes; room for 0 of 2")


def test_a_workload_that_asks_for_less_is_planned_again() -> None:
    world = busy(4, 4)
    world.submit("wide", 8)
    world.pass_time(AGING + 2.0)
    waits = world.queues.view.workloads["ns/wide"]
    world.queues.put(replace(waits, reclaimable={"main": 4}))
    world.pass_time(2.0)
    assert len(world.reserved["wide"]) == 1
