"""What failed because a process was away is tried again when it is back."""

import pytest

from tests.cluster.conftest import NodeFactory
from tests.cluster.gangs import Gangs
from tests.cluster.groups import SECONDS
from tests.harness.client import Api
from tests.harness.gang_scheduler import GangScheduler


@pytest.mark.usefixtures("reconciler")
@pytest.mark.parametrize("what", ["a gang", "a plain pod"])
def test_a_preemption_that_failed_while_the_extender_was_away_is_tried_again(
    what: str, gang: GangScheduler, high: str, api: Api, gangs: Gangs, nodes: NodeFactory
) -> None:
    nodes(2)
    gangs.create("low", 2, cpu="3")
    gangs.await_phases("low", Running=2)
    gang.extender.kill()
    try:
        if what == "a gang":
            gangs.create("high", 2, cpu="3", priority_class=high)
            names = ["high-0", "high-1"]
        else:
            api.create(gangs.pod("high", cpu="3", priority_class=high))
            names = ["high"]

        def failed() -> bool:
            said = [gangs.message(name) for name in names]
            return all("preempt" in each for each in said)

        api.wait_for("preemption has failed", failed)
    finally:
        gang.extender.start()
    gang.wait_ready()

    def bound() -> bool:
        return all(gangs.node_of(n) is not None for n in names)

    api.wait_for("there is room for it", bound, SECONDS)
