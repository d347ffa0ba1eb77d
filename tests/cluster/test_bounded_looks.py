"""Groups that can never start do not keep others from the looks that help these."""

import pytest

from tests.cluster.conftest import NodeFactory
from tests.cluster.gangs import Gangs
from tests.harness import objects
from tests.harness.client import Api

HOPELESS = 260
SECONDS = 180.0


@pytest.mark.usefixtures("reconciler", "gang")
def test_a_gang_preempts_behind_any_number_of_groups_that_never_start(
    high: str, api: Api, gangs: Gangs, nodes: NodeFactory
) -> None:
    nodes(2)
    gangs.create("low", 2, cpu="3")
    gangs.await_phases("low", Running=2)
    nowhere = {"harness/no-such-node": "true"}
    for number in range(HOPELESS):
        name = f"never-{number}"
        pod = gangs.pod(f"{name}-0", group=name, cpu="1", priority_class=high)
        pod["spec"]["nodeSelector"] = nowhere
        api.create(objects.pod_group(name, 1, namespace=gangs.namespace), pod)

    gangs.create("high", 2, cpu="3", priority_class=high)
    gangs.await_phases("high", Running=2, timeout=SECONDS)
