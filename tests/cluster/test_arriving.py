"""kube-scheduler waits while the pods of a gang are created, and refuses none of them."""

import yaml

from tests.cluster.alone import pair_of
from tests.cluster.conftest import NodeFactory
from tests.cluster.gangs import Gangs
from tests.harness.client import Api
from tests.harness.gang_scheduler import ROOT, GangScheduler
from tests.harness.started import metric

ARRIVING = "arriving"
REFUSED = 'gang_extender_decisions_total{reason="NotEnoughPods",verb="filter"}'
QUEUED = 'scheduler_pending_pods{queue="active"}'
_SHIPPED = yaml.safe_load((ROOT / "scheduler-config" / "kube-scheduler.yaml").read_text())

pair = pair_of(
    ARRIVING,
    scheduler={
        "profiles": [{"schedulerName": ARRIVING}],
        "extenders": [{**each, "httpTimeout": "910s"} for each in _SHIPPED["extenders"]],
    },
    program="tests.harness.patient",
)


def test_no_pod_of_a_gang_that_is_being_created_is_refused(
    pair: GangScheduler, api: Api, gangs: Gangs, nodes: NodeFactory
) -> None:
    """Each pod is there before the next one is created, and kube-scheduler has the first one."""
    nodes(1, cpu="8")
    gangs.create_group("g", 5)
    gangs.create("first", 1, cpu="1", scheduler_name=ARRIVING)
    gangs.await_phases("first", Running=1)  # so the extender has seen the PodGroup of g
    before = pair.metric(REFUSED)
    gangs.add("g", 2, cpu="1", scheduler_name=ARRIVING)
    api.wait_for(
        "one is tried, and the other waits", lambda: metric(pair.scheduler.url, QUEUED) == 1
    )
    for number in range(2, 5):
        gangs.add("g", 1, start=number, cpu="1", scheduler_name=ARRIVING)
    gangs.await_phases("g", Running=5)

    assert pair.metric(REFUSED) == before
    assert gangs.failures() == []


def test_a_pod_of_another_gang_ends_the_wait(
    pair: GangScheduler, gangs: Gangs, nodes: NodeFactory
) -> None:
    nodes(1, cpu="8")
    gangs.create_group("g", 5)
    gangs.create("first", 1, cpu="1", scheduler_name=ARRIVING)
    gangs.await_phases("first", Running=1)
    gangs.add("g", 4, cpu="1", scheduler_name=ARRIVING)
    gangs.create("other", 2, cpu="1", scheduler_name=ARRIVING)

    gangs.await_phases("other", Running=2)
