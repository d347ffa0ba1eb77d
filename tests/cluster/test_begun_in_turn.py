"""Groups begin in their turn: kube-scheduler has judged equal pods, and does not ask for these."""

from collections.abc import Callable
from contextlib import suppress
from itertools import count

import pytest

from extender.permit.timing import PARALLEL
from tests.cluster.alone import backing_off, pair_of
from tests.cluster.conftest import NodeFactory
from tests.cluster.gangs import Gangs, message
from tests.harness.client import Api, ApiError
from tests.harness.gang_scheduler import GangScheduler
from tests.harness.objects import Object

NAME, SLOW = "in-turn", "in-turn-slow"
BY_TURN = 'gang_extender_groups_begun_total{by="turn"}'
FILTERED = 'gang_extender_decisions_total{reason="Place",verb="filter"}'
GANGS = 40
BACKOFF = 10
PATIENCE = 300.0


pair = pair_of(NAME, **backing_off(BACKOFF))
slow_pair = pair_of(SLOW, **backing_off(60))
"""A minute is what a slow machine takes to begin forty gangs in their turn."""


def await_with_calls(
    api: Api, gangs: Gangs, what: str, so: Callable[[], bool], name: str = NAME
) -> None:
    """Wait for a condition while kube-scheduler has a plain pod to place every now and then.

    Without a call of its own the extender does not know that it is there.
    """
    numbers = count()

    def looked() -> bool:
        if so():
            return True
        callers = [pod for pod in api.list("pods", gangs.namespace) if is_caller(pod)]
        gangs.delete([pod["metadata"]["name"] for pod in callers if is_bound(pod)])
        if all(map(is_bound, callers)):
            caller = f"caller-{next(numbers)}"
            api.create(gangs.pod(caller, cpu="0", scheduler_name=name))
        return False

    api.wait_for(what, looked, PATIENCE)


def is_bound(pod: Object) -> bool:
    return bool(pod["spec"].get("nodeName"))


def is_caller(pod: Object) -> bool:
    return str(pod["metadata"]["name"]).startswith("caller")


@pytest.mark.collisions(PARALLEL)
def test_gangs_of_one_begin_without_being_tried_once_more(
    slow_pair: GangScheduler, api: Api, gangs: Gangs, nodes: NodeFactory
) -> None:
    """kube-scheduler has tried each of them, and looks again at none when they can start."""
    nodes(4, cpu="16")
    names = [f"one-{number}" for number in range(GANGS)]
    for name in names:
        gangs.add(name, 1, cpu="1", scheduler_name=SLOW)

    def are_refused() -> bool:
        pods = api.list("pods", gangs.namespace)
        return len([pod for pod in pods if message(pod)]) == GANGS

    api.wait_for("all were tried, and have no PodGroup", are_refused, PATIENCE)
    begun, filtered = slow_pair.metric(BY_TURN), slow_pair.metric(FILTERED)
    for name in names:
        gangs.create_group(name, 1)

    def are_bound() -> bool:
        pods = api.list("pods", gangs.namespace)
        return len([pod for pod in pods if is_bound(pod) and not is_caller(pod)]) == GANGS

    await_with_calls(api, gangs, "all are bound", are_bound, SLOW)
    assert slow_pair.metric(BY_TURN) - begun > GANGS / 2
    # Those that kube-scheduler brought have the place that was planned for them.
    assert slow_pair.metric(FILTERED) - filtered < GANGS / 2


@pytest.mark.collisions(PARALLEL)
def test_a_plain_pod_of_higher_priority_goes_first(
    pair: GangScheduler, api: Api, gangs: Gangs, nodes: NodeFactory
) -> None:
    """kube-scheduler found no room for it, and tries it again some time after there is some."""
    nodes(1, cpu="4")
    first = f"{gangs.namespace}-first"
    kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 1000}
    api.create({**kind, "metadata": {"name": first}, "preemptionPolicy": "Never"})
    try:
        gangs.create("old", 1, cpu="4", scheduler_name=NAME)
        api.wait_for("it is bound", lambda: gangs.bound("old"))
        api.create(gangs.pod("vip", cpu="4", priority_class=first, scheduler_name=NAME))
        api.wait_for("it has no room", lambda: gangs.message("vip"))
        gangs.create("next", 1, cpu="4", scheduler_name=NAME)
        api.wait_for("nor has the gang", lambda: all(map(message, gangs.members("next"))))
        gangs.delete(["old-0"])

        def is_placed() -> bool:
            return is_bound(api.get("pods", "vip", gangs.namespace)) or bool(gangs.bound("next"))

        await_with_calls(api, gangs, "one has the room", is_placed)
        assert not gangs.bound("next")
        gangs.delete(["vip"])
        await_with_calls(api, gangs, "the gang has it", lambda: bool(gangs.bound("next")))
    finally:
        with suppress(ApiError):
            api.delete("scheduling.k8s.io/v1/priorityclasses", first)
