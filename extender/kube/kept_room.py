"""The room that the status of a PodGroup says is kept: `grantedRoom` and `preemption`."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, Literal

import msgspec

from extender.api.core_v1 import Amount
from extender.resources.quantity import QuantityError, Resources, exact, parse_resources
from extender.state.cluster.records import Grant, NominatedRoom, PreemptedRoom, VictimInfo

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
