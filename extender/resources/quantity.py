"""Kubernetes quantities as integers, CPU in thousandths and everything else in whole units.

Sources: https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/
and for the requests of a pod KEP-753 (sidecars), KEP-2837 (pod-level resources),
https://kubernetes.io/docs/concepts/workloads/pods/init-containers/#resource-sharing-within-containers
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import ROUND_UP, Decimal, InvalidOperation
from functools import lru_cache
from typing import Final

Quantity = str | int | float
"""The types of a quantity in a manifest."""

Resources = dict[str, int]
"""Amounts by name: `cpu` in thousandths of a core, all others in whole units (bytes, pods)."""

CPU: Final = "cpu"
MEMORY: Final = "memory"
PODS: Final = "pods"

_SUFFIXES: Final[dict[str, Decimal]] = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "": Decimal(1),
    "k": Decimal(10) ** 3,
    "M": Decimal(10) ** 6,
    "G": Decimal(10) ** 9,
    "T": Decimal(10) ** 12,
    "P": Decimal(10) ** 15,
    "E": Decimal(10) ** 18,
    "Ki": Decimal(2) ** 10,
    "Mi": Decimal(2) ** 20,
    "Gi": Decimal(2) ** 30,
    "Ti": Decimal(2) ** 40,
    "Pi": Decimal(2) ** 50,
    "Ei": Decimal(2) ** 60,
}

_LARGEST_EXPONENT: Final = 30
_LONGEST: Final = 64
"""The most characters of a quantity."""


class QuantityError(ValueError):
    """The text is not a Kubernetes quantity."""


@lru_cache(maxsize=4096)
def parse(quantity: Quantity) -> Decimal:
    """Return the exact value of a quantity. Raises QuantityError."""
    text = str(quantity).strip()
    if len(text) > _LONGEST:
        raise QuantityError(f"{text[:_LONGEST]!r}... has over {_LONGEST} characters")
    number = text.rstrip("numkKMGTPEi")
    suffix = text[len(number) :]
    # "1E" is exa, "1E3" an exponent: rstrip already separated them.
    if suffix not in _SUFFIXES:
        raise QuantityError(f"{quantity!r} is not a quantity: unknown suffix {suffix!r}")
    try:
        # Decimal also takes underscores and outer space, which Kubernetes does not.
        value = Decimal(number if number.isascii() and not set(number) & set("_ \t") else "")
    except InvalidOperation:
        raise QuantityError(f"{quantity!r} is not a quantity such as 500m, 2 or 1Gi") from None
    if not value.is_finite():
        raise QuantityError(f"{quantity!r} is not a finite quantity")
    if value.adjusted() > _LARGEST_EXPONENT:
        raise QuantityError(f"{quantity!r} is larger than any quantity can be")
    return value * _SUFFIXES[suffix]


@lru_cache(maxsize=4096)
def amount(name: str, quantity: Quantity) -> int:
    """Return a quantity of the named resource, rounded away from zero as kube-scheduler does.

    The result is in thousandths of a core for `cpu`, and in whole units for every other name. Even
    the smallest negative amount stays negative, so that it can be refused.
    """
    value = parse(quantity)
    if name == CPU:
        value *= 1000
    return int(value.to_integral_value(rounding=ROUND_UP))


def parse_resources(raw: Mapping[str, Quantity] | None) -> Resources:
    """Return a resource list of a manifest as integers, empty for None."""
    return {name: amount(name, quantity) for name, quantity in raw.items()} if raw else {}


def add(into: Resources, more: Mapping[str, int]) -> None:
    """Add amounts in place."""
    for name, value in more.items():
        if value:
            into[name] = into.get(name, 0) + value


def subtract(into: Resources, less: Mapping[str, int]) -> None:
    """Subtract amounts in place. Names that reach zero are dropped."""
    for name, value in less.items():
        left = into.get(name, 0) - value
        if left:
            into[name] = left
        else:
            into.pop(name, None)


def raise_to(into: Resources, floor: Mapping[str, int]) -> None:
    """Raise each amount in place to at least that of `floor`."""
    for name, value in floor.items():
        if value > into.get(name, 0):
            into[name] = value


def show(name: str, value: int) -> str:
    """Return an amount as a person would write it: 1500m, 2Gi, 3."""
    if name == CPU:
        return str(value // 1000) if value % 1000 == 0 else f"{value}m"
    if name in (MEMORY, "ephemeral-storage") or name.startswith("hugepages-"):
        for suffix in ("Ti", "Gi", "Mi", "Ki"):
            unit = int(_SUFFIXES[suffix])
            if abs(value) >= unit and value % unit == 0:
                return f"{value // unit}{suffix}"
            if abs(value) >= 10 * unit:
                return f"{-(-value // unit)}{suffix}"
    return str(value)


def exact(name: str, value: int) -> str:
    """Return an amount as a person would write it, without rounding."""
    short = show(name, value)
    if amount(name, short) == value:
        return short
    units = ((suffix, int(_SUFFIXES[suffix])) for suffix in ("Ti", "Gi", "Mi", "Ki"))
    return next((f"{value // unit}{s}" for s, unit in units if value % unit == 0), str(value))


@dataclass(frozen=True, slots=True)
class ContainerRequests:
    """The requests of one container. A sidecar is an init container that keeps running."""

    requests: Mapping[str, int] = field(default_factory=dict)
    sidecar: bool = False


def pod_requests(
    containers: Iterable[ContainerRequests],
    init_containers: Iterable[ContainerRequests] = (),
    *,
    overhead: Mapping[str, int] | None = None,
    pod_level: Mapping[str, int] | None = None,
) -> Resources:
    """Return the amounts that a node must have free for the pod, with one `pods` slot.

    It is the largest of the containers with the sidecars, each init container with the sidecars
    that start before it, and the pod-level requests. Overhead is added.
    """
    running: Resources = {}
    for container in containers:
        add(running, container.requests)
    started: Resources = {}
    peak: Resources = {}
    for container in init_containers:
        if container.sidecar:
            add(started, container.requests)
            raise_to(peak, started)
        else:
            step = dict(started)
            add(step, container.requests)
            raise_to(peak, step)
    add(running, started)
    raise_to(running, peak)
    if pod_level:
        # The API server refuses less than the containers request, or drops the field.
        raise_to(running, pod_level)
    if overhead:
        add(running, overhead)
    running[PODS] = 1
    return running
