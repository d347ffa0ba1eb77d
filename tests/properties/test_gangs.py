"""No order of events makes a partial gang, leaks a hold or keeps more room than there is."""

from typing import TypeVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from typing_extensions import override

from extender.kube.errors import ApiError, ConflictError
from tests.effort import examples
from tests.properties.model import TIMEOUT, World, unavailable

T = TypeVar("T")
GROUPS = ("red", "blue")
INDEX = st.integers(0, 30)


class Gangs(RuleBasedStateMachine):
    """Two gangs, plain pods and a few nodes, in any order of events."""

    together = True
    in_turn = False

    def __init__(self) -> None:
        super().__init__()
        self.world = World(together=self.together, in_turn=self.in_turn)

    @initialize(
        cpus=st.lists(st.sampled_from([6, 4, 3, 2, 1]), min_size=2, max_size=4),
        minimums=st.tuples(st.sampled_from([3, 2, 4, 1]), st.sampled_from([2, 3, 1])),
        extras=st.tuples(st.sampled_from([0, 1, 2, -1]), st.sampled_from([0, 1, -1])),
        cpu=st.integers(1, 2),
    )
    def begin(
        self, cpus: list[int], minimums: tuple[int, int], extras: tuple[int, int], cpu: int
    ) -> None:
        for number, capacity in enumerate(cpus):
            self.world.put_node(f"n{number}", capacity)
        for name, minimum, extra in zip(GROUPS, minimums, extras, strict=True):
            self.world.put_pod_group(name, minimum)
            for _ in range(minimum + extra):
                self.world.create_pod(cpu, name)
        self.world.deliver(100)

    # --- what users and controllers do --------------------------------------------------------

    @rule(cpu=st.integers(1, 3), group=st.sampled_from([*GROUPS, *GROUPS, None]))
    def create_pod(self, cpu: int, group: str | None) -> None:
        self.world.create_pod(cpu, group)

    @precondition(lambda self: self.world.pods)
    @rule(index=INDEX)
    def delete_pod(self, index: int) -> None:
        self.world.delete_pod(pick(list(self.world.pods), index))

    @precondition(lambda self: self.world.placed())
    @rule(index=INDEX)
    def finish_pod(self, index: int) -> None:
        self.world.end_pod(pick(self.world.placed(), index))

    @rule(name=st.sampled_from(GROUPS), min_member=st.integers(1, 5))
    def put_pod_group(self, name: str, min_member: int) -> None:
        self.world.put_pod_group(name, min_member)

    @precondition(lambda self: self.world.pod_groups)
    @rule(index=INDEX)
    def delete_pod_group(self, index: int) -> None:
        self.world.delete_pod_group(pick(list(self.world.pod_groups), index))

    @rule(cpu=st.integers(1, 5))
    def add_node(self, cpu: int) -> None:
        self.world.created += 1
        self.world.put_node(f"n{self.world.created}", cpu)

    @precondition(lambda self: self.world.nodes)
    @rule(index=INDEX)
    def delete_node(self, index: int) -> None:
        self.world.delete_node(pick(list(self.world.nodes), index))

    # --- what kube-scheduler does ---------------------------------------------------------------

    @precondition(lambda self: self.world.unplaced())
    @rule(index=INDEX, choose=INDEX, bind=st.booleans())
    def schedule(self, index: int, choose: int, bind: bool) -> None:
        self.world.schedule(pick(self.world.unplaced(), index), choose, bind=bind)

    @precondition(lambda self: self.world.unplaced())
    @rule(name=st.sampled_from(GROUPS), leave=st.integers(0, 2), bind=st.booleans())
    def schedule_gang(self, name: str, leave: int, bind: bool) -> None:
        members = [uid for uid in self.world.unplaced() if self.world.pods[uid].group == name]
        for uid in members[leave:]:
            self.world.schedule(uid, 0, bind=not bind)

    @precondition(lambda self: self.world.requests)
    @rule(index=INDEX)
    def delete_held(self, index: int) -> None:
        uid = pick(self.world.requests, index).pod
        if uid in self.world.pods:
            self.world.delete_pod(uid)

    @precondition(lambda self: self.world.requests)
    @rule(index=INDEX, group=st.booleans())
    def hang_up_early(self, index: int, group: bool) -> None:
        gone = pick(self.world.requests, index)
        for request in list(self.world.requests):
            if request is gone or (group and request in self.world.requests):
                self.world.hang_up(request)

    @precondition(lambda self: self.world.unplaced())
    @rule(choose=INDEX)
    def schedule_all(self, choose: int) -> None:
        for uid in self.world.unplaced():
            if uid in self.world.unplaced():
                self.world.schedule(uid, choose, bind=True)

    @precondition(lambda self: self.world.to_bind())
    @rule(index=INDEX)
    def bind(self, index: int) -> None:
        self.world.send_bind(pick(self.world.to_bind(), index))

    @precondition(lambda self: self.world.requests)
    @rule(index=INDEX)
    def hang_up(self, index: int) -> None:
        self.world.hang_up(pick(self.world.requests, index))

    @rule(noticed=st.booleans())
    def restart(self, noticed: bool) -> None:
        self.world.restart_scheduler(noticed=noticed)

    # --- what the API server and time do ------------------------------------------------------

    @precondition(lambda self: self.world.pods)
    @rule(index=INDEX, times=st.integers(1, 3), final=st.booleans())
    def fail_writes(self, index: int, times: int, final: bool) -> None:
        uid = pick(list(self.world.pods), index)
        errors: list[ApiError] = [ConflictError("no", status=409)] if final else unavailable(times)
        self.world.failures[uid] = errors

    @precondition(lambda self: self.world.watch)
    @rule(count=st.integers(1, 20))
    def deliver(self, count: int) -> None:
        self.world.deliver(count)

    @rule()
    def relist(self) -> None:
        self.world.relist()

    @rule(seconds=st.sampled_from([0.5, 3.0, TIMEOUT / 2, TIMEOUT, 3 * TIMEOUT]))
    def advance(self, seconds: float) -> None:
        self.world.advance(seconds)

    @rule()
    def look_for_aged(self) -> None:
        self.world.look_for_aged()

    @invariant()
    def books_are_right(self) -> None:
        self.world.check()

    @override
    def teardown(self) -> None:
        try:
            if not self.world.broken:
                self.world.finish()
        finally:
            self.world.close()


def pick(options: list[T], index: int) -> T:
    return options[index % len(options)]


PHASES = tuple(Phase)


class GangsOneByOne(Gangs):
    """The same where equal members are not bound together."""

    together = False


class GangsInTurn(Gangs):
    """The same where groups begin without a request too."""

    in_turn = True

    @precondition(lambda self: self.world.unplaced())
    @rule(index=INDEX, deliver=st.booleans())
    def schedule_one_and_pause(self, index: int, deliver: bool) -> None:
        self.world.schedule(pick(self.world.unplaced(), index), 0, bind=True)
        self.world.deliver(100 * deliver)
        self.world.advance(0.02)


MACHINES = [(Gangs, 80), (GangsOneByOne, 40), (GangsInTurn, 80)]


@pytest.mark.parametrize(("machine", "count"), MACHINES)
def test_no_order_of_events_breaks_a_gang(machine: type[Gangs], count: int) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples(count),
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
            phases=PHASES,
        ),
    )


def lose(world: World, what: str | None, member: str) -> None:
    """Take from a gang of three what makes it whole: a member, its PodGroup, or its quorum."""
    match what:
        case "PodGroup":
            world.delete_pod_group("blue")
        case "quorum":
            world.put_pod_group("blue", 4)
        case None:
            pass
        case _:
            world.delete_pod(member)


@pytest.mark.parametrize(
    "lost",
    ["bound member", "unbound member", "member that is being bound", "PodGroup", "quorum", None],
)
@pytest.mark.parametrize("together", [True, False], ids=["together", "one by one"])
def test_a_member_whose_binding_failed_follows_a_gang_that_lost_nothing(
    lost: str | None, together: bool
) -> None:
    world = World(together=together)
    try:
        world.put_node("n0", 6)
        world.put_pod_group("blue", 3)
        first, second, third = (world.create_pod(1, "blue") for _ in range(3))
        world.deliver(100)
        world.failures = {second: unavailable(2), third: unavailable(2)}
        for uid in (first, second, third):
            world.schedule(uid, 0, bind=True)
        assert world.pods[first].node == "n0"
        for request in list(world.requests):
            if request.pod == third or lost != "member that is being bound":
                world.hang_up(request)
        if lost != "member that is being bound":
            world.advance(TIMEOUT / 2)
        lose(world, lost, first if lost == "bound member" else second)
        world.deliver(100)
        world.advance(TIMEOUT / 2 - 1)  # a member that failed has this long to follow
        world.failures.clear()
        world.schedule(third, 0, bind=True)
        assert world.pods[third].node == (None if lost else "n0")
        world.finish()
    finally:
        world.close()
