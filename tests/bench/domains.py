"""`python -m tests.bench.domains`: what the plan of a gang costs that says where its pods go.

No API server: 5000 nodes in 50 blocks of 5 racks of 20, a part of each in use. What is printed is
the CPU time of each plan over several rounds, and of its longest step, in milliseconds.
"""

import gc
from dataclasses import dataclass
from functools import partial
from random import Random
from statistics import median
from time import thread_time
from typing import Any, Final

from extender.api.wellknown import HOSTNAME_LABEL, ZONE_LABEL
from extender.gang.fit import Fit, fitting
from extender.state.cluster.records import NodeInfo, PodInfo
from extender.state.cluster.store import Cluster
from extender.steps import Steps
from tests.makers import event_of, key, pod, pod_group, pods, requests, shape

RACKS: Final = 5
IN_RACK: Final = 20
NODES: Final = 50 * RACKS * IN_RACK
MEMBERS: Final = 512
ROUNDS: Final = 9
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


ASKED: Final[dict[str, tuple[int, tuple[tuple[str, str], ...]]]] = {
    "no topology, no placement": (1, ()),
    "required block": (1, (("required_topology", BLOCK),)),
    "preferred rack": (4, (("preferred_topology", RACK),)),
    "pack": (1, (("placement", "pack"),)),
    "spread": (1, (("placement", "spread"),)),
}
PLANS: Final[dict[str, Plan]] = {
    **{name: Plan(cpu, asked) for name, (cpu, asked) in ASKED.items()},
    **{f"{name}, 250 kinds": Plan(cpu, asked, kinds=250) for name, (cpu, asked) in ASKED.items()},
    "5000 pods": Plan(pods=5000),
}


def scene() -> Cluster:
    """Return the nodes of 64 CPU, each with a pod of 32 to 60."""
    cluster, rng = Cluster(), Random(3)
    for number in range(NODES):
        rack = number // IN_RACK
        name, block = f"node-{number}", rack // RACKS
        labels = {
            RACK: f"r{rack}",
            BLOCK: f"b{block}",
            ZONE_LABEL: f"z{block % 3}",
            HOSTNAME_LABEL: name,
        }
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


def main() -> None:
    """Print the table."""
    gc.disable()  # a collection of what a scene has left would count as the plan's
    print("| plan of 512 pods | median ms | most ms | longest step ms | fit |")
    print("|---|---|---|---|---|")
    for name, plan in PLANS.items():
        spent, longest, found = measured(plan)
        figures = f"{median(spent):.1f} | {max(spent):.1f} | {longest:.1f} | {found.count}"
        print(f"| {name} | {figures} |", flush=True)


if __name__ == "__main__":
    main()
