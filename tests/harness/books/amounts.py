"""Quantities of Kubernetes, and what a pod takes of a node, as kube-scheduler adds it up.

The rules are those of `PodRequests` in k8s.io/component-helpers/resource and of `GetHostPorts` in
kube-scheduler 1.36. Nothing here is the extender's.
"""

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Final

import msgspec

SLOTS: Final = "pods"
"""The resource that is the number of pods."""
_NANO: Final = 10**9
_PARTS: Final = re.compile(r"([+-]?[0-9.]+)(?:([eE][+-]?[0-9]+)|([A-Za-z]*))")
_POWERS: Final = {
    **{
        unit: Decimal(1000) ** power
        for power, unit in enumerate(("", "k", "M", "G", "T", "P", "E"))
    },
    **{f"{unit}i": Decimal(1024) ** power for power, unit in enumerate("KMGTPE", 1)},
    **{unit: Decimal(1000) ** -power for power, unit in enumerate("mun", 1)},
}
_POD_LEVEL: Final = ("cpu", "memory")

Quantities = Mapping[str, str]
"""By resource, as Kubernetes writes them."""
Port = tuple[str, str, int]
"""IP address, protocol and number."""
ANY_ADDRESS: Final = "0.0.0.0"  # compared, nothing listens


class Asked(msgspec.Struct, frozen=True, gc=False):
    """What a container or a pod asks for."""

    requests: dict[str, str] = {}


class Toleration(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A toleration of a pod or a flavor."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class _Port(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    host_port: int = 0
    host_ip: str = msgspec.field(default="", name="hostIP")
    protocol: str = "TCP"


class _Container(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    name: str
    resources: Asked = Asked()
    restart_policy: str = ""
    ports: list[_Port] = []

    @property
    def is_sidecar(self) -> bool:
        return self.restart_policy == "Always"


class Spec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What a pod asks for, and its node."""

    containers: list[_Container]
    init_containers: list[_Container] = []
    node_name: str = ""
    overhead: dict[str, str] = {}
    resources: Asked = Asked()
    node_selector: dict[str, str] = {}
    tolerations: list[Toleration] = []


class _ContainerStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    name: str
    resources: Asked | None = None
    allocated_resources: dict[str, str] = {}


class Condition(msgspec.Struct, frozen=True, gc=False):
    """A condition of a pod."""

    type: str
    status: str = ""
    reason: str = ""
    message: str = ""


class Status(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What is so of a pod."""

    phase: str = ""
    conditions: list[Condition] = []
    container_statuses: list[_ContainerStatus] = []
    init_container_statuses: list[_ContainerStatus] = []
    resources: Asked | None = None
    allocated_resources: dict[str, str] = {}

    def condition(self, kind: str) -> Condition | None:
        """Return the condition of that type."""
        return next((each for each in self.conditions if each.type == kind), None)


Amounts = dict[str, int]
"""By resource: thousandths of a CPU, whole units of all others."""


def uses(spec: Spec, status: Status) -> Amounts:
    """Return what a pod takes of its node, a place for itself among it."""
    total = _of_containers(spec, status)
    for name, amount in _of_pod(spec, status).items():
        total[name] = amount
    _add(total, _exact(spec.overhead))
    return {**_whole(total), SLOTS: 1}


def allocatable(quantities: Quantities) -> Amounts:
    """Return what a node has for pods."""
    return _whole(_exact(quantities))


def host_ports(spec: Spec) -> frozenset[Port]:
    """Return the ports of the node that a pod takes for as long as it runs."""
    running = [*(each for each in spec.init_containers if each.is_sidecar), *spec.containers]
    return frozenset(
        (port.host_ip or ANY_ADDRESS, port.protocol, port.host_port)
        for container in running
        for port in container.ports
        if port.host_port > 0
    )


def clashes(one: Port, other: Port) -> bool:
    """Return whether two pods on one node cannot both have their ports."""
    return one[1:] == other[1:] and (one[0] == other[0] or ANY_ADDRESS in {one[0], other[0]})


def _of_containers(spec: Spec, status: Status) -> Amounts:
    known = {
        each.name: each for each in (*status.container_statuses, *status.init_container_statuses)
    }
    infeasible = _is_infeasible(status)

    def of(container: _Container) -> Amounts:
        found = known.get(container.name)
        asked = _exact(container.resources.requests)
        if found is None or found.resources is None:
            return asked
        others = (found.resources.requests, found.allocated_resources)
        return _effective(asked, others, infeasible=infeasible)

    total: Amounts = {}
    for container in spec.containers:
        _add(total, of(container))
    sidecars: Amounts = {}
    starting: Amounts = {}
    for container in spec.init_containers:
        if container.is_sidecar:
            _add(sidecars, of(container))
            _add(total, of(container))
            _raise(starting, sidecars)
        else:
            step = _exact(container.resources.requests)
            _add(step, sidecars)
            _raise(starting, step)
    _raise(total, starting)
    return total


def _of_pod(spec: Spec, status: Status) -> Amounts:
    """Return what is asked for the pod as a whole, in place of what its containers ask for."""
    names = [name for name in spec.resources.requests if _is_pod_level(name)]
    asked = _exact(spec.resources.requests)
    if status.resources is not None:
        others = (status.resources.requests, status.allocated_resources)
        asked = _effective(asked, others, infeasible=_is_infeasible(status))
    return {name: asked.get(name, 0) for name in names}


def _is_pod_level(resource: str) -> bool:
    return resource in _POD_LEVEL or resource.startswith("hugepages-")


def _is_infeasible(status: Status) -> bool:
    pending = status.condition("PodResizePending")
    return pending is not None and pending.reason == "Infeasible"


def _effective(asked: Amounts, others: tuple[Quantities, ...], *, infeasible: bool) -> Amounts:
    """Return the largest of what is asked for, what is in effect and what is allocated."""
    most: Amounts = {} if infeasible else dict(asked)
    for other in others:
        _raise(most, _exact(other))
    return most


def _add(total: Amounts, more: Amounts) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _raise(total: Amounts, least: Amounts) -> None:
    for name, amount in least.items():
        total[name] = max(total.get(name, amount), amount)


def _exact(quantities: Quantities) -> Amounts:
    return {name: nanos(text) for name, text in quantities.items()}


def _whole(exact: Amounts) -> Amounts:
    """Return sums as kube-scheduler keeps them: rounded up once for a pod."""
    return {
        name: -(-amount // (_NANO // 1000 if name == "cpu" else _NANO))
        for name, amount in exact.items()
    }


@lru_cache(maxsize=4096)
def nanos(text: str) -> int:
    """Return a quantity in billionths, rounded up. ValueError where it is none."""
    match = _PARTS.fullmatch(text)
    number, exponent, unit = match.groups("") if match else ("", "", "?")
    if unit not in _POWERS and not exponent:
        raise ValueError(f"{text!r} is no quantity")
    value = Decimal(number + exponent) if exponent else Decimal(number) * _POWERS[unit]
    whole, rest = divmod(value * _NANO, 1)
    return int(whole) + (rest > 0)


def described(amounts: Amounts) -> Iterator[str]:
    """Yield each amount as text."""
    for name, amount in sorted(amounts.items()):
        yield f"{amount}{'m' if name == 'cpu' else ''} {name}"
