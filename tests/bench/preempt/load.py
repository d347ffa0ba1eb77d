"""The load: gangs of low priority that fill all nodes, and gangs of high priority that come.

All pods are equal but for their priority, so it is known how many must go. The first ones have
their nodes when they are created: no scheduler decides where they are, and all sides begin alike.
They end at once when they are deleted (a grace period of zero), since there are no kubelets; and
nothing makes new ones in their place.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from extender.resources.quantity import CPU, amount
from tests.bench import load as base
from tests.bench.load import CONNECTIONS, NAMESPACE, GroupKind, Progress
from tests.harness import objects
from tests.harness.client import Api
from tests.harness.sessions import session

LOW, HIGH = "low", "high"
"""Names of the PriorityClasses, and how the names of gangs begin."""
_VALUES = {LOW: 100, HIGH: 1000}


class LoadError(ValueError):
    """The gangs cannot fill the nodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """How many of what; `preemptors` are the gangs of high priority."""

    nodes: int
    gangs: int
    size: int
    preemptors: int
    node_cpu: str = "8"
    interleave: bool = False
    """Whether members of all gangs are on the nodes in turn, and not gang by gang."""

    def __post_init__(self) -> None:
        if self.gangs * self.size % self.nodes:
            raise LoadError(
                f"{self.gangs} gangs of {self.size} do not fill {self.nodes} nodes evenly: "
                "take a shape of which the pods are a multiple of the nodes"
            )
        if self.preemptors > self.gangs:
            raise LoadError(
                f"{self.preemptors} gangs of high priority need more room than {self.gangs} leave"
            )

    @property
    def on_each(self) -> int:
        """How many pods fill a node."""
        return self.gangs * self.size // self.nodes

    @property
    def low(self) -> base.Load:
        """The gangs that fill the nodes."""
        cpu = amount(CPU, self.node_cpu) // self.on_each
        return base.Load(
            nodes=self.nodes,
            gangs=self.gangs,
            size=self.size,
            node_cpu=self.node_cpu,
            pod_cpu=f"{cpu}m",
            interleave=self.interleave,
        )

    @property
    def wanted(self) -> int:
        """How many pods of high priority there are: as many others must go, and no more."""
        return self.preemptors * self.size

    def names(self, kind: str) -> list[str]:
        """Return the names of the gangs of a priority."""
        count = self.gangs if kind == LOW else self.preemptors
        return [f"{kind}-{number:05}" for number in range(count)]

    def pod_names(self, kind: str) -> list[str]:
        """Return the names of the pods of a priority, in the order of their nodes."""
        members = range(self.size)
        if self.interleave:
            return [f"{gang}-{member}" for member in members for gang in self.names(kind)]
        return [f"{gang}-{member}" for gang in self.names(kind) for member in members]


def fill(kubeconfig: Path, load: Load, kind: GroupKind, progress: Progress) -> None:
    """Create priorities, nodes and the gangs that fill them."""
    with Api(kubeconfig) as api:
        api.create(*(_priority_class(name, value) for name, value in _VALUES.items()))
    asyncio.run(_fill(kubeconfig, load, kind, progress))


def come(kubeconfig: Path, load: Load, kind: GroupKind, progress: Progress) -> None:
    """Create the gangs of high priority."""
    asyncio.run(_come(kubeconfig, load, kind, progress))


async def _fill(kubeconfig: Path, load: Load, kind: GroupKind, progress: Progress) -> None:
    async with session(kubeconfig, connections=CONNECTIONS) as http:
        nodes = base.nodes_of(load.low)
        await base.post_all(http, "/api/v1/nodes", nodes, base.counted(progress, "nodes"))
    await _create(kubeconfig, LOW, load, kind, progress)


async def _come(kubeconfig: Path, load: Load, kind: GroupKind, progress: Progress) -> None:
    await _create(kubeconfig, HIGH, load, kind, progress)


async def _create(
    kubeconfig: Path, priority: str, load: Load, kind: GroupKind, progress: Progress
) -> None:
    path = f"namespaces/{NAMESPACE}"
    parts = (
        ("groups", f"/apis/{kind.api_version}/{path}/podgroups", _groups(priority, load, kind)),
        ("pods", f"/api/v1/{path}/pods", _pods(priority, load, kind)),
    )
    async with session(kubeconfig, connections=CONNECTIONS) as http:
        for what, url, bodies in parts:
            count = base.counted(progress, f"{what} of {priority} priority")
            await base.post_all(http, url, bodies, count)


def _groups(priority: str, load: Load, kind: GroupKind) -> Iterator[bytes]:
    for name in load.names(priority):
        version = kind.api_version
        group = objects.pod_group(name, load.size, namespace=NAMESPACE, api_version=version)
        yield base.encoded(group)


def _pods(priority: str, load: Load, kind: GroupKind) -> Iterator[bytes]:
    for number, name in enumerate(load.pod_names(priority)):
        node = f"node-{number // load.on_each:05}" if priority == LOW else None
        pod = objects.pod(
            name,
            load.low.pod_cpu,
            base.POD_MEMORY,
            namespace=NAMESPACE,
            group=base.gang_of(name),
            label=kind.label,
            priority_class=priority,
            node_name=node,
            terminationGracePeriodSeconds=0,
        )
        yield base.encoded(pod)


def _priority_class(name: str, value: int) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
    }
