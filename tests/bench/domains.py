"""`python -m tests.bench.domains`: what the plan of a gang costs that asks for a topology.

No API server: 5000 nodes in 50 blocks of 5 racks of 20, a part of each in use, and the CPU time of
one plan, over several rounds. What is printed is a table in milliseconds.
"""

from random import Random
from statistics import median
from time import thread_time
from typing import Any, Final

from extender.gang.fit import Fit, fitting
from extender.state.cluster.records import NodeInfo
from extender.state.cluster.store import Cluster
from extender.steps import at_once
from tests.makers import event_of, key, pod, pod_group, pods, requests, shape

BLOCKS: Final = 50
RACKS: Final = 5
IN_RACK: Final = 20
MEMBERS: Final = 512
ROUNDS: Final = 9
BLOCK: Final = "example.com/block"
RACK: Final = "example.com/rack"
PLANS: Final[dict[str, tuple[int, dict[str, str]]]] = {
    "no topology": (1, {}),
    "required block": (1, {"required_topology": BLOCK}),
    "required rack, in vain": (4, {"required_topology": RACK}),
    "preferred rack": (4, {"preferred_topology": RACK}),
}
"""What is asked: CPU of each pod, and the annotation."""


def scene() -> Cluster:
    """Return the nodes of 64 CPU, each with a pod of 32 to 60."""
    cluster, rng = Cluster(), Random(3)
    for number in range(BLOCKS * RACKS * IN_RACK):
        rack = number // IN_RACK
        name, labels = f"node-{number}", {RACK: f"r{rack}", BLOCK: f"b{rack // RACKS}"}
        cluster.apply(event_of(NodeInfo(name, {**requests(64), "pods": 110}, labels)))
        taken = pod(f"on-{name}", shape(rng.choice((32, 48, 56, 60))), on=name)
        cluster.apply(event_of(taken))
    return cluster


def measured(cpu: int, asked: dict[str, Any]) -> tuple[list[float], Fit]:
    """Return the CPU milliseconds of the plan in each round, and the plan."""
    cluster, spent = scene(), list[float]()
    members = pods(MEMBERS, cpu)
    cluster.apply(event_of(pod_group(min_member=MEMBERS, **asked)))
    for each in members:
        cluster.apply(event_of(each))
    view = cluster.view()
    found = at_once(fitting(members, MEMBERS, group=key("gang"), view=view))
    for _ in range(ROUNDS):
        began = thread_time()
        found = at_once(fitting(members, MEMBERS, group=key("gang"), view=view))
        spent.append((thread_time() - began) * 1000)
    return spent, found


def main() -> None:
    """Print the table."""
    print("| plan of 512 pods | median ms | most ms | fit | racks |\n|---|---|---|---|---|")
    for name, (cpu, asked) in PLANS.items():
        spent, found = measured(cpu, asked)
        racks = {int(node.partition("-")[2]) // IN_RACK for node in found.placements.values()}
        figures = f"{median(spent):.1f} | {max(spent):.1f} | {found.count} | {len(racks)}"
        print(f"| {name} | {figures} |")


if __name__ == "__main__":
    main()
