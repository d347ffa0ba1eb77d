"""Objects that are larger than what is kept of one: they wait, and nobody else does."""

import re
from pathlib import Path
from typing import Any

from tests.cluster.conftest import NodeFactory
from tests.cluster.gangs import Gangs
from tests.harness.client import Api
from tests.harness.gang_scheduler import GangScheduler
from tests.harness.objects import Object
from tests.harness.reconciler import Reconciler

TERMS = 9000
"""Of anti-affinity: 700 KB, and nine MiB once all of them are decoded."""
PORTS = 12_000
MIB_OF_ONE = 3
"""That a process may grow by for each of the pods, with all that goes on beside them."""


def repelling(name: str) -> dict[str, Any]:
    """Return anti-affinity that no other pod has."""
    terms = [
        {"topologyKey": "zone", "labelSelector": {"matchLabels": {name: f"{number}"}}}
        for number in range(TERMS)
    ]
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def listening(pod: Object) -> Object:
    """Give a pod more host ports than are read."""
    ports = [{"containerPort": each, "hostPort": each} for each in range(20_000, 20_000 + PORTS)]
    pod["spec"]["containers"][0]["ports"] = ports
    return pod


def mib_of(pid: int) -> int:
    """Return how much memory a process has."""
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) // 1024


def test_pods_of_many_terms_fill_no_memory(
    gang: GangScheduler, reconciler: Reconciler, api: Api, gangs: Gangs, nodes: NodeFactory
) -> None:
    nodes(2, "8")
    pids, count = (gang.extender.pid, reconciler.process.pid), 24
    gangs.create("before", 2)
    gangs.await_phases("before", Running=2)
    before = [*map(mib_of, pids)]

    for number in range(count):
        api.create(gangs.pod(f"large-{number}", affinity=repelling(f"large-{number}")))
    gangs.create("beside", 2)
    gangs.await_phases("beside", Running=2)

    last = f"large-{count - 1}"
    api.wait_for("an Event says why", lambda: api.notes(gangs.namespace, "Unreadable", name=last))
    assert "bytes of spec.affinity" in api.notes(gangs.namespace, "Unreadable", name=last)[0]

    def told() -> bool:
        conditions = api.get("pods", last, gangs.namespace)["status"].get("conditions", ())
        return any("bytes of spec.affinity" in each.get("message", "") for each in conditions)

    api.wait_for("the pod says so too", told)
    grown = [mib_of(pid) - then for pid, then in zip(pids, before, strict=True)]
    assert max(grown) < MIB_OF_ONE * count, grown

    reconciler.restart()
    gangs.create("after", 2)
    gangs.await_phases("after", Running=2)
    assert mib_of(reconciler.process.pid) < before[1] + MIB_OF_ONE * count


def test_host_ports_beyond_number_keep_nobody_waiting(
    gang: GangScheduler, reconciler: Reconciler, api: Api, gangs: Gangs, nodes: NodeFactory
) -> None:
    """One that runs keeps its room, and its ports: no other pod with ports goes to its node."""
    first, _ = nodes(2, "4")
    api.create(listening(gangs.pod("there", cpu="2", node_name=first)))
    gangs.create_group("large", 2)
    api.create(*(listening(gangs.pod(f"large-{n}", group="large")) for n in range(2)))

    gangs.create("beside", 6, cpu="1")
    gangs.await_phases("beside", Running=6)
    api.wait_for(
        "an Event says why", lambda: api.notes(gangs.namespace, "Unreadable", name="large-0")
    )
    assert "host ports" in api.notes(gangs.namespace, "Unreadable", name="large-0")[0]
    assert "host ports" in api.notes(gangs.namespace, "Unreadable", name="there")[0]
    assert not gangs.bound("large")
