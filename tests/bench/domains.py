"""`python -m tests.bench.domains`: what the plan of a gang costs that says where its pods go.

No API server: 5000 nodes in 50 blocks of 5 racks of 20, a part of each in use. Of each plan there
is the CPU time over several rounds, and that of its longest step; a second table has the points of
`prioritize`. What is printed are tables in milliseconds.
"""

import gc
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from statistics import median
from time import thread_time
from typing import Any, Final

from extender.api.wellknown import ZONE_LABEL
from extender.gang.fit import Fit, fitting
from extender.gang.score import score
from extender.state.cluster.records import NodeInfo, PodInfo
from extender.state.cluster.store import Cluster
from extender.steps import Steps
from tests.makers import event_of, key, pod, pod_group, pods, requests, shape

BLOCKS: Final = 50
RACKS: Final = 5
IN_RACK: Final = 20
NODES: Final = BLOCKS * RACKS * IN_RACK
MEMBERS: Final = 512
ROUNDS: Final = 9
SENT: Final = 500
"""Nodes of which kube-scheduler asks for the points, of so many."""
BLOCK: Final = "example.com/block"
RACK: Final = "example.com/rack"


@dataclass(frozen=True)
class Plan:
    """What is asked: CPU of each pod, the annotation, and how many pods of how many kinds."""

    cpu: int = 1
    asked: tuple[tuple[str, str], ...] = ()
    pods: int = MEMBERS
    kinds: int = 1

    def members(self) -> list[PodInfo]:
        """Return the pods; those of one kind ask for the same."""
        if self.kinds == 1:
            return pods(self.pods, self.cpu)
        kinds = [shape(self.cpu, memory=f"{1 + number}Mi") for number in range(self.kinds)]
        return [
            pod(f"gang-{number}", kinds[number % self.kinds], group="gang")
            for number in range(self.pods)
        ]


REQUIRED_BLOCK: Final = (("required_topology", BLOCK),)
PREFERRED_RACK: Final = (("preferred_topology", RACK),)
PACK: Final = (("placement", "pack"),)
SPREAD: Final = (("placement", "spread"),)
PLANS: Final[dict[str, Plan]] = {
    "no topology, no placement": Plan(),
    "required block": Plan(1, REQUIRED_BLOCK),
    "required rack, in vain": Plan(4, (("required_topology", RACK),)),
    "preferred rack": Plan(4, PREFERRED_RACK),
    "pack": Plan(1, PACK),
    "spread": Plan(1, SPREAD),
    "required block, spread": Plan(1, REQUIRED_BLOCK + SPREAD),
    "5000 pods": Plan(1, pods=5000),
    "5000 pods, pack": Plan(1, PACK, pods=5000),
    "5000 pods, spread": Plan(1, SPREAD, pods=5000),
    "250 kinds": Plan(1, kinds=250),
    "250 kinds, required block": Plan(1, REQUIRED_BLOCK, kinds=250),
    "250 kinds, preferred rack": Plan(4, PREFERRED_RACK, kinds=250),
    "250 kinds, pack": Plan(1, PACK, kinds=250),
    "250 kinds, spread": Plan(1, SPREAD, kinds=250),
}


def scene() -> Cluster:
    """Return the nodes of 64 CPU, each with a pod of 32 to 60."""
    cluster, rng = Cluster(), Random(3)
    for number in range(NODES):
        rack = number // IN_RACK
        name, block = f"node-{number}", rack // RACKS
        labels = {RACK: f"r{rack}", BLOCK: f"b{block}", ZONE_LABEL: f"z{block % 3}"}
        has = {**requests(64, memory="256Gi"), "pods": 110}
        cluster.apply(event_of(NodeInfo(name, has, labels)))
        taken = pod(f"on-{name}", shape(rng.choice((32, 48, 56, 60))), on=name)
        cluster.apply(event_of(taken))
    return cluster


def driven(steps: Steps[Fit]) -> tuple[Fit, float, float]:
    """Return an answer, the CPU milliseconds that it took, and those of its longest step."""
    spent = longest = 0.0
    while True:
        began, found = thread_time(), None
        try:
            next(steps)
        except StopIteration as end:
            found = end.value
        took = (thread_time() - began) * 1000
        spent, longest = spent + took, max(longest, took)
        if found is not None:
            return found, spent, longest


def measured(plan: Plan, rounds: int = ROUNDS) -> tuple[list[float], float, Fit]:
    """Return the CPU milliseconds of the plan in each round, of the longest step, and the plan."""
    cluster, spent, longest, members = scene(), list[float](), 0.0, plan.members()
    asked: dict[str, Any] = dict(plan.asked)
    cluster.apply(event_of(pod_group(min_member=plan.pods, **asked)))
    for each in members:
        cluster.apply(event_of(each))
    view = cluster.view()
    steps = partial(fitting, members, plan.pods, group=key("gang"), view=view)
    found, _, _ = driven(steps())  # it reads what the later ones know
    for _ in range(rounds):
        found, took, step = driven(steps())
        spent.append(took)
        longest = max(longest, step)
    return spent, longest, found


def scored(running: int, placement: str | None) -> Iterator[float]:
    """Yield the CPU milliseconds of the points for one more member of a gang that runs."""
    cluster = scene()
    members = [replace(each, index=n, controller="j") for n, each in enumerate(pods(running + 1))]
    cluster.apply(event_of(pod_group(min_member=1, placement=placement)))
    for number, each in enumerate(members[:-1]):
        cluster.apply(event_of(replace(each, node=f"node-{number % NODES}")))
    cluster.apply(event_of(members[-1]))
    view, sent = cluster.view(), [f"node-{n}" for n in range(0, NODES, NODES // SENT)]
    score(members[-1], sent, view=view)
    for _ in range(ROUNDS):
        began = thread_time()
        score(members[-1], sent, view=view)
        yield (thread_time() - began) * 1000


def main() -> None:
    """Print the tables."""
    gc.disable()  # a collection of what a scene has left would count as the plan's
    print("| plan of 512 pods | median ms | most ms | longest step ms | fit | racks | nodes |")
    print("|---|---|---|---|---|---|---|")
    for name, plan in PLANS.items():
        spent, longest, found = measured(plan)
        racks = {int(node.partition("-")[2]) // IN_RACK for node in found.placements.values()}
        nodes = len(set(found.placements.values()))
        figures = f"{median(spent):.1f} | {max(spent):.1f} | {longest:.1f} | {found.count}"
        print(f"| {name} | {figures} | {len(racks)} | {nodes} |", flush=True)
    print("\n| points of 500 nodes | members that run | median ms | most ms |\n|---|---|---|---|")
    for running in (50, 5000):
        for placement in (None, "pack", "spread"):
            took = [*scored(running, placement)]
            said = placement or "no placement"
            print(f"| {said} | {running} | {median(took):.2f} | {max(took):.2f} |", flush=True)


if __name__ == "__main__":
    main()
