"""Room that is kept for workloads that have waited for long is kept from those behind them."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import override

from extender.queueing.cycle import Admit, Outcome
from extender.queueing.rules import queue_order
from extender.resources.quantity import Resources, add
from extender.room.nodes import NodeRoom
from extender.room.reserved import MOST, KeptRoom
from extender.state.queue import events as ev
from tests.makers import node, observe
from tests.queue_makers import cluster_queue, local_queue
from tests.waiting_room import AGING, PLENTY, World

SIZES = st.lists(st.integers(1, 6), min_size=1, max_size=4)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ("submit", "submit", "wait", "wait", "end", "restart", "stop", "go_on", "node", "drop")
        ),
        st.integers(0, 11),
        st.integers(1, 3),
    ),
    max_size=25,
)
QUEUES = ("cq", "other")


def amounts_of(reservation: KeptRoom) -> dict[str, Resources]:
    rooms: dict[str, Resources] = {}
    for each in reservation.all:
        add(rooms.setdefault(each.node.name, {}), each.amounts)
    return rooms


class Machine(World):
    """Two queues with quota for all; every workload ends after some time."""

    def __init__(self, sizes: list[int]) -> None:
        records = tuple(
            record for name in QUEUES for record in (cluster_queue(name, PLENTY), local_queue(name))
        )
        super().__init__(*sizes, records=records)
        self.largest = sum(sizes)

    def submit_one(self, number: int, cpu: int) -> None:
        name = f"w{self.made}"
        more: dict[str, Any] = {"queue": QUEUES[number % 2], "priority": number % 3 // 2}
        self.submit(name, 1 + number % 6, cpu, runs=3.0 + 2 * number, **more)

    def wait(self, number: int, _: int) -> None:
        self.pass_time(1.0 + number)

    def end_one(self, number: int, _: int) -> None:
        running = sorted(self.ends)
        if running:
            self.end(running[number % len(running)])

    def restart(self, *_: int) -> None:
        before = {key: since for key, since in self.since.items() if self._says_kept(key)}
        self.queues.room = NodeRoom(self.queues.view, self.cluster.view())
        self.cycle()
        for key, since in self.since.items():
            assert since == before.get(key, since), "it began anew with another process"

    def stop(self, number: int, _: int) -> None:
        name = QUEUES[number % 2]
        self.queues.put(cluster_queue(name, PLENTY, stop_policy="Hold"))
        self.cycle()
        waiting = {self.queues.view.workloads[f"ns/{key}"].queue_name for key in self.reserved}
        assert name not in waiting, "room is kept for a workload of a stopped queue"

    def go_on(self, number: int, _: int) -> None:
        self.queues.put(cluster_queue(QUEUES[number % 2], PLENTY))

    def node(self, number: int, cpu: int) -> None:
        observe(self.cluster, node(f"m{number}", cpu))

    def drop(self, number: int, _: int) -> None:
        waits = sorted(self.queues.view.workloads.keys() - self.ends.keys())
        if waits:
            key = waits[number % len(waits)]
            self.queues.apply(ev.Deleted(self.queues.view.workloads[key]))

    def _says_kept(self, name: str) -> bool:
        return self.queues.view.workloads[f"ns/{name}"].holds("RoomReserved")

    @override
    def cycle(self) -> tuple[Outcome, ...]:
        left = {name: dict(each) for name, each in self.cluster.view().left.all().items()}
        outcomes = super().cycle()
        assert self.queues.room is not None
        kept = self.queues.room._reserved.known
        assert len(kept) <= MOST
        self._check_within(kept)
        started = [x.workload for x in outcomes if isinstance(x, Admit)]
        for key, reservation in kept.items():
            self._check_left(key, reservation, started, left)
        return outcomes

    def _check_within(self, kept: dict[str, KeptRoom] | Any) -> None:
        """All that is kept fits on the nodes together: each is beside the others."""
        total: dict[str, Resources] = {}
        for reservation in kept.values():
            for name, amounts in amounts_of(reservation).items():
                add(total.setdefault(name, {}), amounts)
        for name, amounts in total.items():
            there = self.cluster.view().nodes[name].allocatable
            assert all(there[what] >= value for what, value in amounts.items()), name

    def _check_left(
        self, key: str, reservation: KeptRoom, started: list[str], left: dict[str, Resources]
    ) -> None:
        """Whatever started behind a reservation is on nodes beside it and what ran there."""
        workloads = self.queues.view.workloads
        assert key in workloads
        assert self.queues.view.admission(key) is None, "room is kept for one that runs"
        amounts = amounts_of(reservation)
        later = [
            each
            for each in started
            if queue_order(workloads[each], self.options) > reservation.order
        ]
        for each in later:
            cpu = workloads[each].pod_sets[0].shape.requests["cpu"]
            for name, count in self.where[each].items():
                mine = amounts.get(name, {}).get("cpu", 0)
                assert not mine or left[name]["cpu"] - mine >= count * cpu, (each, key, name)


NAMES = {"submit": "submit_one", "end": "end_one"}


@given(sizes=SIZES, steps=STEPS)
def test_what_is_kept_is_left_by_those_behind(
    sizes: list[int], steps: list[tuple[str, int, int]]
) -> None:
    machine = Machine(sizes)
    for what, number, cpu in steps:
        getattr(machine, NAMES.get(what, what))(number, cpu)
        machine.cycle()


@given(sizes=SIZES, steps=STEPS)
def test_the_first_in_turn_starts_when_all_others_have_ended(
    sizes: list[int], steps: list[tuple[str, int, int]]
) -> None:
    machine = Machine(sizes)
    for what, number, cpu in steps:
        getattr(machine, NAMES.get(what, what))(number, cpu)
    for name in QUEUES:
        machine.queues.put(cluster_queue(name, PLENTY))
    machine.pass_time(60.0, step=2.0)
    first = next(iter(machine.reserved), None)
    if first is not None:
        for key in [*machine.ends]:
            machine.end(key)
        machine.pass_time(1.0)
        assert first in machine.running()


@given(sizes=SIZES, wanted=st.lists(st.tuples(st.integers(1, 8), st.integers(1, 3)), max_size=20))
def test_without_a_change_each_stays_where_it_is(
    sizes: list[int], wanted: list[tuple[int, int]]
) -> None:
    machine = Machine(sizes)
    for number, (pods, cpu) in enumerate(wanted):
        machine.submit(f"w{number}", pods, cpu)
    machine.pass_time(2 * AGING + 1.0)
    before, since = machine.reserved, machine.since
    machine.pass_time(AGING / 2)
    assert (machine.since, [*machine.reserved]) == (since, [*before])
    for name, nodes in before.items():
        assert nodes <= machine.reserved[name], "it has left a node"
