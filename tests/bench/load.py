"""The load: nodes that run nothing, and gangs of pods that wait for a scheduler.

Gangs that cannot fit are made of pods that each need a large node, of which there is one less than
such a gang has members. Each pod alone does fit, so kube-scheduler asks the extender about it.

Everything is encoded before the first request, because the bench shares its cores with what it
measures. `create` returns when the API server has stored it all.
"""

import asyncio
import dataclasses
import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import aiohttp

from extender.resources.quantity import CPU, MEMORY, amount
from tests.harness import objects
from tests.harness.natives import NATIVE_GROUPS, in_group, native_group
from tests.harness.sessions import session

NAMESPACE = "default"
CONNECTIONS = 32
_NODE_MEMORY, _NODE_PODS = "64Gi", 110
POD_MEMORY = "64Mi"
_FITS, _IMPOSSIBLE = "gang-", "impossible-"
_SHAPE = re.compile(r"(?P<churn>churn:)?(?P<gangs>[1-9]\d*)x(?P<size>[1-9]\d*)", re.ASCII)
_NAMED = {
    "churn": ("churn:50x50",),
    "all": ("100x50", "5000x1", "250x20", "20x250", "1x5000", "churn:50x50"),
}

Progress = Callable[[str], None]


class LoadError(ValueError):
    """The text is not a shape, or the pods do not go onto the nodes."""


@dataclass(frozen=True, slots=True)
class Shape:
    """So many gangs of so many; with `churn` as many again that cannot ever fit."""

    gangs: int
    size: int
    churn: bool = False


def shapes(texts: Iterable[str]) -> list[Shape]:
    """Return the shapes of texts, each a shape or a list with commas. Raises LoadError."""
    words = (word.strip() for text in texts for word in text.split(","))
    return [_shape(each) for word in words for each in _NAMED.get(word, (word,))]


def _shape(text: str) -> Shape:
    found = _SHAPE.fullmatch(text)
    if not found:
        raise LoadError(f"{text!r} is neither GANGSxSIZE, churn:GANGSxSIZE, churn nor all")
    shape = Shape(int(found["gangs"]), int(found["size"]), churn=bool(found["churn"]))
    if shape.churn and shape.size == 1:
        raise LoadError(f"{text!r}: a gang of one fits wherever its pod does")
    return shape


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """How many of what; cpu as Kubernetes writes it."""

    nodes: int
    gangs: int
    size: int
    node_cpu: str = "8"
    pod_cpu: str = "100m"
    large_nodes: int = 0  # beside the others
    impossible: bool = False  # as many gangs again that cannot ever fit, in turn with the others

    @property
    def pods(self) -> int:
        """Number of pods to schedule."""
        return self.gangs * self.size

    @property
    def room(self) -> int:
        """Number of pods that all nodes but the large ones take."""
        by_cpu = amount(CPU, self.node_cpu) // max(1, amount(CPU, self.pod_cpu))
        by_memory = amount(MEMORY, _NODE_MEMORY) // amount(MEMORY, POD_MEMORY)
        return self.nodes * min(by_cpu, by_memory, _NODE_PODS)

    @property
    def large_node_cpu(self) -> str:
        """CPU of a large node: it takes one pod of a gang that cannot fit, but not two."""
        return f"{2 * amount(CPU, self.node_cpu)}m"

    @property
    def impossible_cpu(self) -> str:
        """CPU that a pod of a gang that cannot fit requests: more than the other nodes have."""
        return f"{amount(CPU, self.node_cpu) + amount(CPU, self.pod_cpu)}m"

    def churned(self) -> Self:
        """Return this load with gangs among it that cannot fit."""
        return dataclasses.replace(
            self, large_nodes=min(self.nodes, self.size - 1), impossible=True
        )

    def alone(self) -> Self:
        """Return this load without the gangs that cannot fit, on the same nodes."""
        return dataclasses.replace(self, impossible=False)

    def gang_names(self) -> list[str]:
        """Return the names of the gangs, in the order of their creation."""
        kinds = (_FITS, _IMPOSSIBLE) if self.impossible else (_FITS,)
        return [f"{kind}{number:05}" for number in range(self.gangs) for kind in kinds]

    def pod_names(self) -> list[str]:
        """Return the names of the pods, in the order of their creation."""
        return [f"{gang}-{member}" for gang in self.gang_names() for member in range(self.size)]


@dataclass(frozen=True, slots=True)
class GroupKind:
    """How pods say which gang they are of."""

    api_version: str = objects.POD_GROUP_V1ALPHA1
    native: bool = False
    """Whether their spec names a PodGroup of Kubernetes' own, and no label does."""

    def group(self, name: str, size: int) -> objects.Object:
        """Return a PodGroup of so many pods."""
        if self.native:
            return native_group(name, size, namespace=NAMESPACE)
        return objects.pod_group(name, size, namespace=NAMESPACE, api_version=self.api_version)


def natively() -> GroupKind:
    """Return the kind of Kubernetes' own groups."""
    return GroupKind(api_version=NATIVE_GROUPS.rpartition("/")[0], native=True)


def gang_of(pod: str) -> str:
    """Return the gang of a pod of this load: the first two words of its name."""
    return "-".join(pod.split("-", 2)[:2])


def fits(name: str) -> bool:
    """Return whether a gang, or the gang of a pod, fits on the nodes of its load."""
    return not name.startswith(_IMPOSSIBLE)


def create(
    kubeconfig: Path, load: Load, kind: GroupKind, progress: Progress, *, pods: bool = True
) -> None:
    """Create nodes, then groups, then pods, many at a time; without `pods` nodes alone."""
    asyncio.run(_create(kubeconfig, load, kind, progress, pods=pods))


async def _create(
    kubeconfig: Path, load: Load, kind: GroupKind, progress: Progress, *, pods: bool
) -> None:
    path = f"namespaces/{NAMESPACE}"
    parts = (
        ("nodes", "/api/v1/nodes", nodes_of(load)),
        ("groups", f"/apis/{kind.api_version}/{path}/podgroups", _groups(load, kind)),
        ("pods", f"/api/v1/{path}/pods", _pods(load, kind)),
    )
    async with session(kubeconfig, connections=CONNECTIONS) as http:
        for what, url, bodies in parts if pods else parts[:1]:
            await post_all(http, url, bodies, counted(progress, what))


def nodes_of(load: Load) -> Iterator[bytes]:
    """Yield the nodes of a load, encoded."""
    for number in range(load.nodes):
        yield encoded(_node(f"node-{number:05}", load.node_cpu))
    for number in range(load.large_nodes):
        yield encoded(_node(f"large-{number:05}", load.large_node_cpu))


def _node(name: str, cpu: str) -> objects.Object:
    return objects.node(name, cpu, _NODE_MEMORY, pods=_NODE_PODS)


def _groups(load: Load, kind: GroupKind) -> Iterator[bytes]:
    for name in load.gang_names():
        yield encoded(kind.group(name, load.size))


def _pods(load: Load, kind: GroupKind) -> Iterator[bytes]:
    for name in load.pod_names():
        pod = objects.pod(
            name,
            load.pod_cpu if fits(name) else load.impossible_cpu,
            POD_MEMORY,
            namespace=NAMESPACE,
            group=None if kind.native else gang_of(name),
            **(in_group(gang_of(name)) if kind.native else {}),
        )
        yield encoded(pod)


def encoded(each: objects.Object) -> bytes:
    """Return an object as it is sent."""
    return json.dumps(each).encode()


def counted(progress: Progress, what: str) -> Callable[[int, int], None]:
    """Return what reports how many of them were created."""

    def count(done: int, total: int) -> None:
        progress(f"created {done} of {total} {what}")

    return count


async def post_all(
    http: aiohttp.ClientSession,
    url: str,
    bodies: Iterable[bytes],
    count: Callable[[int, int], None],
) -> None:
    """Create encoded objects, many at a time. RuntimeError where one is refused."""
    every = list(bodies)
    waiting = iter(every)
    done = 0

    async def worker() -> None:
        nonlocal done
        for body in waiting:
            async with http.post(
                url, data=body, headers={"Content-Type": "application/json"}
            ) as answer:
                if not answer.ok:
                    raise RuntimeError(f"POST {url}: {answer.status} {await answer.text()}")
                await answer.read()
            done += 1
            count(done, len(every))

    async with asyncio.TaskGroup() as workers:
        for _ in range(CONNECTIONS):
            workers.create_task(worker())
