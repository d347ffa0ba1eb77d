"""Builders for tests of the state and of what is decided from it.

What a test does not say has a plain default. Everything lives in the namespace `ns`; a pod's UID is
its name, and a group's key is `ns/` and its name.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from extender.api.core_v1 import (
    Affinity,
    NodeAffinity,
    NodeSelector,
    NodeSelectorTerm,
    Requirement,
    Taint,
    Toleration,
)
from extender.api.wellknown import GROUP_X, POD_GROUP_LABEL
from extender.resources.quantity import Quantity, Resources, parse_resources
from extender.state.cluster import events as ev
from extender.state.cluster.records import NodeInfo, PodGroupInfo, PodInfo, Shape
from extender.state.cluster.reservations import Reservation, ReservationKind
from extender.state.cluster.store import Cluster
from tests.recount import check_tables

NAMESPACE = "ns"
Fact = ev.Record | ev.ClusterEvent | ev.ObjectsListed

_shapes: dict[str, Shape] = {}


def key(name: str) -> str:
    """Return a group's key."""
    return f"{NAMESPACE}/{name}"


def requests(cpu: Quantity = 1, **more: Quantity) -> Resources:
    """Return what a pod asks for; `gpu` is short for `example.com/gpu`."""
    names = {"gpu": "example.com/gpu"}
    amounts = {names.get(name, name): value for name, value in more.items()}
    return {**parse_resources({"cpu": cpu, **amounts}), "pods": 1}


def shape(
    cpu: Quantity = 1,
    *,
    selector: Mapping[str, str] | None = None,
    affinity: Affinity | None = None,
    tolerations: Iterable[Toleration] = (),
    one_per_node: bool = False,
    **more: Quantity,
) -> Shape:
    """Return a shape; the same arguments give the same one, as decoding does."""
    asked = requests(cpu, **more)
    tolerated = tuple(tolerations)
    name = repr((asked, selector, affinity, tolerated, one_per_node))
    if name not in _shapes:
        _shapes[name] = Shape(asked, selector or {}, affinity, tolerated, one_per_node)
    return _shapes[name]


def pod(
    name: str,
    cpu: Quantity | Shape = 1,
    *,
    group: str | None = None,
    on: str | None = None,
    **more: Any,
) -> PodInfo:
    """Return a pod, of a gang if one is named and bound if `on` a node."""
    return PodInfo(
        **{
            "uid": name,
            "namespace": NAMESPACE,
            "name": name,
            "shape": cpu if isinstance(cpu, Shape) else shape(cpu),
            "group": key(group) if group else None,
            "node": on,
            **more,
        }
    )


def pods(
    count: int, cpu: Quantity | Shape = 1, *, group: str = "gang", **more: Any
) -> list[PodInfo]:
    """Return equal members `GROUP-0`, `GROUP-1`..."""
    return [pod(f"{group}-{number}", cpu, group=group, **more) for number in range(count)]


def node(name: str, cpu: Quantity = 4, *, slots: int = 110, gpu: int = 0, **more: Any) -> NodeInfo:
    """Return a node that is ready."""
    amounts = parse_resources(
        {"cpu": cpu, "pods": slots, **({"example.com/gpu": gpu} if gpu else {})}
    )
    return NodeInfo(name, amounts, **more)


def nodes(*cpus: Quantity, **more: Any) -> list[NodeInfo]:
    """Return nodes `n0`, `n1`... with that much CPU."""
    return [node(f"n{number}", cpu, **more) for number, cpu in enumerate(cpus)]


def pod_group(name: str = "gang", min_member: int = 3, **more: Any) -> PodGroupInfo:
    """Return a PodGroup of the newer API group."""
    fields: dict[str, Any] = {"api_group": GROUP_X, "min_member": min_member, **more}
    return PodGroupInfo(NAMESPACE, name, **fields)


def affinity(*terms: NodeSelectorTerm) -> Affinity:
    """Return required node affinity."""
    return Affinity(node_affinity=NodeAffinity(NodeSelector(list(terms))))


def labelled(name: str, operator: str, *values: str) -> NodeSelectorTerm:
    """Return a term of one requirement on labels."""
    return NodeSelectorTerm(match_expressions=[Requirement(name, operator, list(values) or None)])


def taint(name: str = "dedicated", value: str = "ml", effect: str = "NoSchedule") -> Taint:
    """Return a taint."""
    return Taint(name, value, effect)


def event_of(fact: Fact) -> ev.ClusterEvent | ev.ObjectsListed:
    """Return the event of a fact."""
    if isinstance(fact, ev.ClusterEvent | ev.ObjectsListed):
        return fact
    return ev.ObjectApplied(fact)


def flat(facts: Iterable[Any]) -> Iterable[Fact]:
    """Yield facts, those of lists one by one."""
    for fact in facts:
        if isinstance(fact, list | tuple):
            yield from flat(fact)
        else:
            yield fact


def cluster_of(*facts: Any, growing: bool = False) -> Cluster:
    """Return a cluster to which the facts were applied in order; lists of them are taken apart."""
    cluster = Cluster(growing=growing)
    observe(cluster, *facts)
    return cluster


def deleted(key: ev.Key, of: type[ev.Record] = PodInfo) -> ev.ObjectDeleted:
    """Return that an object has gone: a pod by its UID, or of another type by its key."""
    return ev.ObjectDeleted(of, key)


def observe(cluster: Cluster, *facts: Any) -> None:
    """Apply facts to a cluster, and have it checked."""
    for fact in flat(facts):
        cluster.apply(event_of(fact))
    check_tables(cluster)


def planned(**placements: str) -> ev.Planned:
    """Return the event of a plan; a pod's name is written with `_` for `-`."""
    return ev.Planned({name.replace("_", "-"): node for name, node in placements.items()})


def reservation(
    member: PodInfo, on: str, kind: ReservationKind = ReservationKind.PLANNED
) -> Reservation:
    """Return the reservation of a pod."""
    return Reservation(member.uid, member.priority, {on: member.shape.requests}, kind)


class LoopClock:
    """The event loop's time, which may be virtual."""

    def monotonic(self) -> float:
        """Return the loop's seconds."""
        return asyncio.get_running_loop().time()

    def wall(self) -> float:
        """Return the loop's seconds."""
        return self.monotonic()


class ManualClock:
    """A clock that moves when it is moved."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def monotonic(self) -> float:
        return self.now

    def wall(self) -> float:
        return self.now


async def never() -> None:
    """Stand for a caller that stays."""
    await asyncio.get_running_loop().create_future()


async def until(condition: Callable[[], object], turns: int = 200) -> None:
    """Return when a condition holds; AssertionError when it does not after so many turns."""
    for _ in range(turns):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("it never happened")


def pod_json(
    name: str,
    cpu: Quantity = 1,
    *,
    group: str | None = None,
    label: str = POD_GROUP_LABEL,
    **spec: Any,
) -> dict[str, Any]:
    """Return a pod as kube-scheduler sends it; decoded it is `pod(name, cpu, group=group)`."""
    return {
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "uid": name,
            "labels": {label: group} if group else None,
        },
        "spec": {
            "schedulerName": "default-scheduler",
            "containers": [{"name": "c", "resources": {"requests": {"cpu": str(cpu)}}}],
            **spec,
        },
        "status": {"phase": "Pending"},
    }
