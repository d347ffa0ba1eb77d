"""The values that are stored in objects and read again: kept room, and topology assignments.

The status of a PodGroup has the room that is kept: `grantedRoom` and `preemption`. A
`TopologyAssignment` of kueue.x-k8s.io/v1beta2 has numbers of pods by domain, where values that many
domains share are written once: a `universal` value for all, or a `prefix` and a `suffix` about
their `roots`.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Literal

import msgspec

from extender.api.core_v1 import Amount, Wire
from extender.api.values import LONGEST_NAME
from extender.resources.quantity import QuantityError, Resources, exact, parse_resources
from extender.state.cluster.records import (
    DomainAssignment,
    Grant,
    NominatedRoom,
    PreemptedRoom,
    VictimInfo,
)

_LARGEST: Final = 500_000
"""Bytes of either field; more is neither written nor read. The UIDs of 10,000 pods are less."""
_MOST: Final = 2**63
"""No node has as much of anything: Kubernetes counts in 64 bits."""


class _NodeWire(msgspec.Struct, frozen=True):
    name: str
    pods: list[str]
    room: dict[str, Amount]


class _VictimWire(msgspec.Struct, frozen=True):
    kind: Literal["PodGroup", "Pod"]
    uid: str
    pods: list[str] = []


class _PreemptionWire(msgspec.Struct, frozen=True):
    since: datetime
    nodes: list[_NodeWire]
    victims: list[_VictimWire]


_decode_preemption = msgspec.json.Decoder(_PreemptionWire).decode


def preemption_as_json(nomination: PreemptedRoom) -> dict[str, Any] | None:
    """Return a nomination as the API has it, None where it is too large to be stored."""
    found = {
        "since": datetime.fromtimestamp(nomination.since, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "nodes": [
            {"name": node, "pods": list(room.pods), "room": plain(room.amounts)}
            for node, room in nomination.rooms.items()
        ],
        "victims": [
            {"kind": each.kind, "uid": each.uid}
            | ({"pods": list(each.pods)} if each.kind == "PodGroup" else {})
            for each in nomination.victims
        ],
    }
    return found if len(msgspec.json.encode(found)) <= _LARGEST else None


def read_preemption(raw: bytes | msgspec.Raw) -> PreemptedRoom | None:
    """Return what is stored, None where there is nothing or where it cannot be believed."""
    if not bytes(raw) or len(bytes(raw)) > _LARGEST:
        return None
    try:
        found = _decode_preemption(raw)
        rooms = {
            each.name: NominatedRoom(tuple(each.pods), parse_resources(each.room))
            for each in found.nodes
        }
        since = found.since.timestamp()
    except (msgspec.MsgspecError, QuantityError, ValueError, OverflowError, RecursionError):
        return None
    victims = tuple(
        VictimInfo(
            each.kind, each.uid, tuple(each.pods) if each.kind == "PodGroup" else (each.uid,)
        )
        for each in found.victims
    )
    good = all(is_amount(room.amounts) for room in rooms.values())
    return PreemptedRoom(since, rooms, victims) if good else None


class _GrantWire(msgspec.Struct, frozen=True):
    until: datetime
    nodes: dict[str, dict[str, Amount]]


_decode_grant = msgspec.json.Decoder(_GrantWire).decode


def grant_as_json(grant: Grant) -> dict[str, Any] | None:
    """Return a grant as the API has it, None where it is too large to be stored."""
    until = datetime.fromtimestamp(grant.until, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    nodes = {node: plain(amounts) for node, amounts in grant.rooms.items()}
    found = {"until": until, "nodes": nodes}
    return found if len(msgspec.json.encode(found)) <= _LARGEST else None


def read_grant(raw: bytes | msgspec.Raw) -> Grant | None:
    """Return a stored grant, None where there is none or where it cannot be believed."""
    if not bytes(raw) or len(bytes(raw)) > _LARGEST:
        return None
    try:
        found = _decode_grant(raw)
        rooms = {node: parse_resources(amounts) for node, amounts in found.nodes.items()}
        until = found.until.timestamp()
    except (msgspec.MsgspecError, QuantityError, ValueError, OverflowError, RecursionError):
        return None
    return Grant(rooms, until) if all(map(is_amount, rooms.values())) else None


def is_amount(amounts: Resources) -> bool:
    """Return whether a node may have so much."""
    return all(0 <= value < _MOST for value in amounts.values())


def plain(amounts: Mapping[str, int]) -> dict[str, str]:
    """Return amounts as the API has them, without those that are zero."""
    return {name: exact(name, value) for name, value in amounts.items() if value}


_MOST_DOMAINS: Final = 100_000
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


_decode_assignment: Final = msgspec.json.Decoder(_Assignment).decode
_decode_assignments: Final = msgspec.json.Decoder(dict[str, _Assignment]).decode


def assignment_as_json(found: DomainAssignment) -> dict[str, Any]:
    """Return an assignment as the API has it."""
    slices = [
        _slice(found.domains[first : first + _MOST_DOMAINS])
        for first in range(0, len(found.domains), _MOST_DOMAINS)
    ]
    return {"levels": [*found.levels], "slices": slices}


def assignments_as_annotation(found: Mapping[str, DomainAssignment]) -> str:
    """Return the assignments of pod sets as text."""
    return msgspec.json.encode(
        {name: assignment_as_json(each) for name, each in found.items()}
    ).decode()


def read_assignment(raw: bytes | msgspec.Raw) -> DomainAssignment | None:
    """Return a stored assignment, None where there is none.

    Raises ValueError where it contradicts itself, msgspec.DecodeError where it is none.
    """
    text = bytes(raw)
    return None if text in (b"", b"null") else _plain(_decode_assignment(text))


def read_assignments(text: str | None) -> Mapping[str, DomainAssignment]:
    """Return the assignments of pod sets; none where they cannot be read."""
    if not text:
        return {}
    try:
        return {name: _plain(each) for name, each in _decode_assignments(text).items()}
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
    if sum(each.domain_count for each in found.slices) > _MOST_DOMAINS:
        raise ValueError("it has more domains than there are nodes")
    domains = tuple(pair for each in found.slices for pair in _domains(each, len(levels)))
    return DomainAssignment(levels, domains)


def _domains(found: _Slice, levels: int) -> Iterator[tuple[tuple[str, ...], int]]:
    if len(found.values_per_level) != levels or not 0 < found.domain_count <= _MOST_DOMAINS:
        raise ValueError("a slice has not a value for each level")
    values = [_values(each, found.domain_count) for each in found.values_per_level]
    counts = found.pod_counts
    same, each = counts.universal, counts.individual
    numbers = each if same is None and each is not None else [same or 0] * found.domain_count
    if not 1 <= min(numbers, default=0) <= max(numbers) <= _MOST_DOMAINS:
        raise ValueError("a domain has no pods, or too many")
    yield from zip(zip(*values, strict=True), numbers, strict=True)


def _values(found: _Level, count: int) -> list[str]:
    if found.individual is None:
        return [found.universal or ""] * count
    said = found.individual
    if len(said.prefix) + len(said.suffix) > LONGEST_NAME:  # a node's; labels have fewer
        raise ValueError("a value is longer than any label's")
    return [f"{said.prefix}{root}{said.suffix}" for root in said.roots]
