"""Kubernetes quantities as integers: CPU in thousandths, everything else in whole units.

Source: https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/
"""

from collections.abc import Mapping
from decimal import ROUND_UP, Decimal, InvalidOperation
from functools import lru_cache
from typing import Final

Quantity = str | int | float
"""What a manifest may hold where a quantity is expected."""

Resources = dict[str, int]
"""Amount by name: `cpu` in thousandths of a core, all others in whole units (bytes, pods)."""

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
"""Characters of a quantity."""


class QuantityError(ValueError):
    """The text is not a Kubernetes quantity."""


@lru_cache(maxsize=4096)
def parse(quantity: Quantity) -> Decimal:
    """Return the exact value of a quantity. Raises QuantityError when it is none."""
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
    """Return a quantity of the named resource, rounded as kube-scheduler does: away from zero.

    So the least amount below zero is below zero too, and can be refused. Thousandths of a core for
    `cpu`, whole units for every other name.
    """
    value = parse(quantity)
    if name == CPU:
        value *= 1000
    return int(value.to_integral_value(rounding=ROUND_UP))


def parse_resources(raw: Mapping[str, Quantity] | None) -> Resources:
    """Return a resource list of a manifest as integers; nothing for None."""
    return {name: amount(name, quantity) for name, quantity in raw.items()} if raw else {}


def add(into: Resources, more: Mapping[str, int]) -> None:
    """Add amounts in place."""
    for name, value in more.items():
        if value:
            into[name] = into.get(name, 0) + value


def subtract(into: Resources, less: Mapping[str, int]) -> None:
    """Subtract amounts in place; names that reach zero are dropped."""
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
    """Return an amount as a person would write it, but never rounded."""
    short = show(name, value)
    if amount(name, short) == value:
        return short
    units = ((suffix, int(_SUFFIXES[suffix])) for suffix in ("Ti", "Gi", "Mi", "Ki"))
    return next((f"{value // unit}{s}" for s, unit in units if value % unit == 0), str(value))
