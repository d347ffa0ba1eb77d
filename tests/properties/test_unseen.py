"""However far kube-scheduler's watch is behind, no node has too much, and every pod starts."""

import random
from collections.abc import Callable
from typing import Final

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.effort import examples
from tests.properties.lagging import World
from tests.recount import check_tables

STEPS: Final = 40
CPUS: Final = (1, 2, 3)
PRIORITIES: Final = (0, 0, 5, -5)
SECONDS: Final = (1, 3, 12)


class Play:
    """Gangs that are bound ahead, and pods of all kinds beside them, in an order that is drawn."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.world = World(self.draw.randint(1, 3))
        self.steps: dict[Callable[[], None], int] = {
            self.create_pod: 6,
            self.create_agent: 4,
            self.create_gang: 5,
            self.delete: 5,
            self.deliver_to_us: 20,
            self.deliver_to_scheduler: 10,
            self.write: 10,
            self.give_up: 8,
            self.make_lost: 4,
            self.pass_time: 3,
            self.schedule: 17,
            self.bind: 12,
            self.begin_gang: 15,
            self.bind_ahead: 5,
            self.begin_in_turn: 10,
        }

    def run(self) -> None:
        """Play, and have everything come to its end."""
        world = self.world
        world.create_pod(cpu=1, port=False)
        self.create_gang()
        world.deliver_to_us(100)
        world.deliver_to_scheduler(100)
        for step in self.draw.choices([*self.steps], [*self.steps.values()], k=STEPS):
            step()
            world.check()
        check_tables(world.cluster)
        world.finish()
        check_tables(world.cluster)

    def few(self) -> range:
        return range(self.draw.randint(1, 4))

    def asks(self) -> tuple[int, bool]:
        """Return CPU, and whether it is a host port that decides where a pod has room."""
        port = self.draw.random() < 0.4
        return 1 if port else self.draw.choice(CPUS), port

    def create_pod(self) -> None:
        cpu, port = self.asks()
        self.world.create_pod(cpu=cpu, port=port, priority=self.draw.choice(PRIORITIES))

    def create_agent(self) -> None:
        cpu, port = self.asks()
        self.world.create_pod(cpu=cpu, port=port, on=self.draw.choice([*self.world.nodes]))

    def create_gang(self) -> None:
        # Some are equal to others: those begin in their turn.
        cpu, port = self.asks() if self.draw.random() < 0.6 else (1, False)
        self.world.create_gang(self.draw.randint(1, 6), cpu=cpu, port=port)

    def delete(self) -> None:
        if self.world.pods:
            self.world.delete(self.draw.choice([*self.world.pods]))

    def deliver_to_us(self) -> None:
        self.world.deliver_to_us(self.draw.randint(1, 8))

    def deliver_to_scheduler(self) -> None:
        self.world.deliver_to_scheduler(self.draw.randint(1, 4))

    def write(self) -> None:
        for _ in self.few():
            if self.world.writes:
                self.world.write(self.draw.randrange(100))

    def give_up(self) -> None:
        if self.world.writes:
            self.world.give_up(self.draw.randrange(100))

    def make_lost(self) -> None:
        if self.world.lost:
            self.world.make_lost(self.draw.randrange(100))

    def pass_time(self) -> None:
        self.world.advance(self.draw.choice(SECONDS))

    def schedule(self) -> None:
        for _ in self.few():
            awake = self.world.awake()
            if awake:
                self.world.cycle(self.draw.choice(awake), self.draw.randrange(100))

    def bind(self) -> None:
        for _ in self.few():
            if self.world.calls:
                self.world.bind(self.draw.randrange(100))

    def begin_gang(self) -> None:
        """Have the first member bound of a gang that both know; the others may go with it."""
        members = [uid for uid in self.world.awake() if self.world.scheduler.queue[uid].group]
        if members:
            self.world.cycle(members[0], self.draw.randrange(100))
            while self.world.calls:
                self.world.bind(-1)
            while self.draw.random() < 0.7 and self.world.writes:
                self.world.write(self.draw.randrange(100))

    def bind_ahead(self) -> None:
        groups = {self.world.view.pods[uid].group for uid in self.world.view.planned}
        known = sorted(group for group in groups if group is not None)
        if known:
            self.world.bind_ahead(self.draw.choice(known))

    def begin_in_turn(self) -> None:
        self.world.begin_in_turn()


@settings(
    max_examples=examples(200), deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate)
)
@given(seed=st.integers(0, 2**32))
def test_no_lag_of_kube_scheduler_overcommits_a_node(seed: int) -> None:
    Play(seed).run()


def test_pods_are_bound_ahead_in_many_of_these_plays() -> None:
    ahead, in_turn, given_up = 0, 0, 0
    for seed in range(100):
        play = Play(seed)
        play.run()
        ahead += play.world.ahead > 0
        in_turn += play.world.in_turn > 0
        given_up += play.world.given_up > 0
    assert ahead >= 5
    assert in_turn >= 5
    assert given_up >= 5
