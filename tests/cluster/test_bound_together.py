"""Members that are bound together with one that kube-scheduler has asked for."""

import re
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.cluster import faults
from tests.cluster.alone import backing_off, pair_of
from tests.cluster.conftest import NodeFactory
from tests.cluster.gangs import RESERVED, Gangs, message
from tests.harness.client import Api, condition
from tests.harness.gang_scheduler import GangScheduler

TOGETHER = "together"
SLOW = "slow-together"
UNSEEN = "gang_extender_unseen_pods"
EVENTS = 300.0
"""Seconds: they are written behind the Bindings, at the lowest priority."""
SOME = 16
"""Collisions of a gang that a slow machine may have: each takes as long as a watch is late."""
BEGUN = re.compile(r"members are bound together .*\bgroup=(\S+) pods=(\d+)")
"""A line at the level debug."""


pair = pair_of(TOGETHER)
slow_pair = pair_of(
    SLOW,
    # A member that is left to kube-scheduler comes within the time.
    settings={"gang": {"scheduleTimeoutSeconds": 600}, "log": {"level": "debug"}},
    **backing_off(60),
)
"""Its kube-scheduler has looked at each member, and refused all but the last one, when the gang is
complete."""


@pytest.fixture
def together(pair: GangScheduler) -> Iterator[GangScheduler]:
    """The same, whole again after the test."""
    yield pair
    pair.revive()


@pytest.mark.collisions(3 * SOME)
def test_gangs_start_whole_and_many_members_are_bound_ahead(
    slow_pair: GangScheduler, api: Api, gangs: Gangs, nodes: NodeFactory
) -> None:
    nodes(20, cpu="8")
    for name in ("a", "b", "c"):
        gangs.create(name, 49, min_member=50, cpu="1", scheduler_name=SLOW)
    for name in ("a", "b", "c"):
        await_all_refused(api, gangs, name, 49)
    for name in ("a", "b", "c"):
        gangs.add(name, 1, start=49, cpu="1", scheduler_name=SLOW)
    for name in ("a", "b", "c"):
        gangs.await_phases(name, Running=50)

    # kube-scheduler tries some members before their Bindings are written.
    begun = begun_together(slow_pair, gangs)
    assert min(begun["a"], begun["b"], begun["c"]) > 25
    assert len(gangs.placements()) == 150
    # kube-scheduler may have a pod in the middle of its cycle when it sees it on a node, and says
    # that it is not scheduled; a kubelet mends that.
    scheduled = [condition(pod, "PodScheduled") for pod in api.list("pods", gangs.namespace)]
    assert len(scheduled) == 150
    assert scheduled.count(True) >= 150 - 3 * SOME

    def without_event() -> list[str]:
        there = events(api, gangs)
        pods = (pod["metadata"] for pod in api.list("pods", gangs.namespace))
        return [pod["name"] for pod in pods if pod["uid"] not in there]

    try:
        api.wait_for("each has its Event", lambda: not without_event(), EVENTS)
    except AssertionError:
        written = [line for line in slow_pair.metrics().splitlines() if "_total{" in line]
        raise AssertionError(f"no Event is about {without_event()}: {written}") from None
    assert set(events(api, gangs).values()) == {1}


def await_all_refused(api: Api, gangs: Gangs, group: str, count: int) -> None:
    """Wait until kube-scheduler has tried all members, so that none is in its active queue."""

    def refused() -> bool:
        return len([pod for pod in gangs.members(group) if message(pod)]) == count

    api.wait_for(f"all of {group} are refused", refused)


def begun_together(pair: GangScheduler, gangs: Gangs) -> Counter[str]:
    """Return how many members of each group the extender began to bind ahead.

    How many of them it has bound then depends on how fast the API server is: what is left of them
    comes by kube-scheduler.
    """
    begun = Counter[str]()
    for group, pods in BEGUN.findall(pair.extender.log_path.read_text()):
        namespace, _, name = group.partition("/")
        if namespace == gangs.namespace:
            begun[name] += int(pods)
    return begun


def events(api: Api, gangs: Gangs) -> Counter[str]:
    """Return how many Events `Scheduled` each pod has, by its UID."""
    found = api.list("events.k8s.io/v1/events", gangs.namespace)
    return Counter(each["regarding"]["uid"] for each in found if each["reason"] == "Scheduled")


@pytest.mark.collisions(SOME)
def test_a_launcher_starts_with_its_workers(
    slow_pair: GangScheduler, api: Api, gangs: Gangs, nodes: NodeFactory
) -> None:
    """kube-scheduler has looked at the workers when it brings the launcher, which has no equal."""
    nodes(4, cpu="8")
    gangs.create_group("g", 20)
    gangs.add("g", 19, start=1, cpu="1", scheduler_name=SLOW)
    await_all_refused(api, gangs, "g", 19)
    gangs.add("g", 1, cpu="2", scheduler_name=SLOW)
    gangs.await_phases("g", Running=20)

    assert begun_together(slow_pair, gangs)["g"] > 10


@pytest.mark.collisions(SOME)
def test_a_member_whose_binding_is_refused_follows_its_gang(
    together: GangScheduler, api: Api, gangs: Gangs, nodes: NodeFactory
) -> None:
    nodes(4, cpu="8")
    with faults.refused(api, gangs.namespace, "g-7", "Forbidden"):
        gangs.create("g", 20, cpu="1", scheduler_name=TOGETHER)
        api.wait_for("the others are bound", lambda: len(gangs.bound("g")) == 19)
    gangs.await_phases("g", Running=20)

    assert together.metric(UNSEEN) <= 19


@pytest.mark.collisions(2 * SOME)
def test_no_member_is_bound_long_after_kube_scheduler_has_gone(
    together: GangScheduler, api: Api, gangs: Gangs, nodes: NodeFactory
) -> None:
    nodes(20, cpu="8")
    gangs.create("g", 160, cpu="1", scheduler_name=TOGETHER)
    api.wait_for("it has begun", lambda: gangs.bound("g"))
    together.scheduler.kill()

    def is_over() -> bool:
        return len(gangs.bound("g")) + together.metric(RESERVED) == 160

    api.wait_for("nothing is being written", is_over)
    together.scheduler.start()
    gangs.await_phases("g", Running=160)
    assert len(gangs.placements()) == 160
