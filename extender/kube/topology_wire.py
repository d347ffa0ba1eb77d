"""`TopologyAssignment` of kueue.x-k8s.io/v1beta2: numbers of pods by domain, as it is stored.

Values that many domains share are written once: a `universal` value for all, or a `prefix` and a
`suffix` about their `roots`.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from extender.api.core_v1 import Wire
from extender.state.cluster.records import DomainAssignment

_LONGEST: Final = 253
"""Characters of a name of a node; labels have fewer."""
_MOST: Final = 100_000
"""Domains of one slice."""


class _Values(Wire, frozen=True):
    roots: list[str] = msgspec.field(default_factory=list)
    prefix: str = ""
    suffix: str = ""


class _Level(Wire, frozen=True):
    universal: str | None = None
    individual: _Values | None = None


class _Counts(Wire, frozen=True):
    universal: int | None = None
    individual: list[int] | None = None


class _Slice(Wire, frozen=True):
    domain_count: int = 0
    values_per_level: list[_Level] = msgspec.field(default_factory=list)
    pod_counts: _Counts = _Counts()


class _Assignment(Wire, frozen=True):
    levels: list[str] = msgspec.field(default_factory=list)
    slices: list[_Slice] = msgspec.field(default_factory=list)


_decode: Final = msgspec.json.Decoder(_Assignment).decode
_decode_all: Final = msgspec.json.Decoder(dict[str, _Assignment]).decode


def as_json(found: DomainAssignment) -> dict[str, Any]:
    """Return an assignment as the API has it."""
    slices = [
        _slice(found.domains[first : first + _MOST])
        for first in range(0, len(found.domains), _MOST)
    ]
    return {"levels": [*found.levels], "slices": slices}


def as_annotation(found: Mapping[str, DomainAssignment]) -> str:
    """Return the assignments of pod sets as text."""
    return msgspec.json.encode({name: as_json(each) for name, each in found.items()}).decode()


def read(raw: bytes | msgspec.Raw) -> DomainAssignment | None:
    """Return a stored assignment, None where there is none.

    Raises ValueError where it contradicts itself, msgspec.DecodeError where it is none.
    """
    text = bytes(raw)
    return None if text in (b"", b"null") else _plain(_decode(text))


def read_annotation(text: str | None) -> Mapping[str, DomainAssignment]:
    """Return the assignments of pod sets; none where they cannot be read."""
    if not text:
        return {}
    try:
        return {name: _plain(each) for name, each in _decode_all(text).items()}
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return {}


def _slice(domains: Sequence[tuple[tuple[str, ...], int]]) -> dict[str, Any]:
    values = zip(*(domain for domain, _ in domains), strict=True)
    counts = [count for _, count in domains]
    same = len(set(counts)) == 1
    return {
        "domainCount": len(domains),
        "valuesPerLevel": [_level(each) for each in values],
        "podCounts": {"universal": counts[0]} if same else {"individual": counts},
    }


def _level(values: Sequence[str]) -> dict[str, Any]:
    if len(set(values)) == 1:
        return {"universal": values[0]}
    shared = _common_start(values)
    rest = [value[len(shared) :] for value in values]
    suffix = _common_start([each[::-1] for each in rest])[::-1]
    said = {"prefix": shared, "suffix": suffix}
    roots = [each[: len(each) - len(suffix)] for each in rest]
    return {"individual": {**{name: text for name, text in said.items() if text}, "roots": roots}}


def _common_start(texts: Sequence[str]) -> str:
    low, high = min(texts), max(texts)
    same = next((n for n, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), len(low))
    return low[:same]


def _plain(found: _Assignment) -> DomainAssignment:
    levels = tuple(found.levels)
    if sum(each.domain_count for each in found.slices) > _MOST:
        raise ValueError("it has more domains than there are nodes")
    domains = tuple(pair for each in found.slices for pair in _domains(each, len(levels)))
    return DomainAssignment(levels, domains)


def _domains(found: _Slice, levels: int) -> Iterator[tuple[tuple[str, ...], int]]:
    if len(found.values_per_level) != levels or not 0 < found.domain_count <= _MOST:
        raise ValueError("a slice has not a value for each level")
    values = [_values(each, found.domain_count) for each in found.values_per_level]
    counts = found.pod_counts
    same, each = counts.universal, counts.individual
    numbers = each if same is None and each is not None else [same or 0] * found.domain_count
    if not 1 <= min(numbers, default=0) <= max(numbers) <= _MOST:
        raise ValueError("a domain has no pods, or too many")
    yield from zip(zip(*values, strict=True), numbers, strict=True)


def _values(found: _Level, count: int) -> list[str]:
    if found.individual is None:
        return [found.universal or ""] * count
    said = found.individual
    if len(said.prefix) + len(said.suffix) > _LONGEST:
        raise ValueError("a value is longer than any label's")
    return [f"{said.prefix}{root}{said.suffix}" for root in said.roots]
