"""`python -m tests.bench.queue_domains`: what the topology of a queue costs.

No API server: 5000 nodes in 250 racks, a part of each in use, and 512 pods of one workload. What is
printed is the CPU time of each question over several rounds, in milliseconds.
"""

from collections.abc import Callable
from statistics import median
from time import thread_time
from typing import Any

from extender.api.wellknown import HOSTNAME_LABEL
from extender.gang.fit import fitting
from extender.gang.topology import domains_of_members
from extender.room.nodes import NodeRoom
from extender.state.cluster.store import Cluster
from extender.state.queue import events as queue_events
from extender.state.queue.records import (
    Assignment,
    DomainRequest,
    NamespaceInfo,
    PodSetInfo,
    TopologyInfo,
)
from extender.state.queue.store import Queues
from extender.state.topology import DomainAssignment, in_order
from extender.steps import at_once
from tests.bench.domains import BLOCK, MEMBERS, RACK, ROUNDS, scene
from tests.makers import NAMESPACE, event_of, key, pod, pod_group, shape
from tests.queue_makers import cluster_queue, flavor, group, local_queue, meta, pod_set, workload


def questions() -> dict[str, Callable[[], object]]:
    """Return what the queue asks, and what the extender makes of the answer."""
    cluster, queues = scene(), Queues()
    view, asking = cluster.view(), dict[str, Callable[[], object]]()
    sets = PodSetInfo("main", MEMBERS, pod_set(4, MEMBERS).shape, topology=DomainRequest())
    given = Assignment("main", {"cpu": "racked"}, {"cpu": 4000 * MEMBERS}, MEMBERS)
    for record in (
        NamespaceInfo(NAMESPACE),
        flavor("racked", topology="t"),
        TopologyInfo(meta("t"), (BLOCK, RACK, HOSTNAME_LABEL)),
        cluster_queue("cq", group(racked=100_000)),
        local_queue(),
    ):
        queues.apply(queue_events.Applied(record))
    room = NodeRoom(queues.view(), view)

    def read() -> None:
        room.begin()
        for _ in room.prepare():
            pass

    asking["all nodes read"] = read
    for level in ({"required": BLOCK}, {"preferred": RACK}, {"unconstrained": True}):
        [(name, value)] = level.items()
        asked = DomainRequest(**level)
        found = workload(name, PodSetInfo("main", MEMBERS, sets.shape, topology=asked))

        def ask(found: Any = found) -> object:
            read()
            return at_once(room.lack(found, (given,)))

        asking[f"the same, and an assignment: {name} {value}"] = ask

    hosts = [(f"node-{number}",) for number in range(0, MEMBERS * 8, 8)]
    topology = in_order((HOSTNAME_LABEL,), hosts)
    held = Assignment("main", given.flavors, given.usage, MEMBERS, topology)
    one = workload("moved", PodSetInfo("main", MEMBERS, sets.shape, topology=DomainRequest()))
    lost = frozenset(("node-8",))
    read()
    asking["one host replaced"] = lambda: at_once(room.replacing(one, (held,), lost))
    asking |= _of_extender(cluster, topology)
    return asking


def _of_extender(cluster: Cluster, given: DomainAssignment) -> dict[str, Callable[[], object]]:
    stored = pod_group(min_member=MEMBERS, assigned={"main": given})
    cluster.apply(event_of(stored))
    members = [
        pod(f"p{number}", shape(4), group="gang", pod_set="main", index=number, controller="job")
        for number in range(MEMBERS)
    ]
    for each in members:
        cluster.apply(event_of(each))
    view = cluster.view()
    return {
        "the domain of each pod": lambda: domains_of_members(members, stored, view=view),
        "the plan": lambda: at_once(fitting(members, MEMBERS, group=key("gang"), view=view)),
    }


def main() -> None:
    """Print the table."""
    print("| for 512 pods | median ms | most ms |\n|---|---|---|")
    for name, work in questions().items():
        spent = []
        for _ in range(ROUNDS):
            began = thread_time()
            work()
            spent.append((thread_time() - began) * 1000)
        print(f"| {name} | {median(spent):.1f} | {max(spent):.1f} |")


if __name__ == "__main__":
    main()
