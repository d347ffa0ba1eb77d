"""`status.grantedRoom` of a PodGroup: until when room is kept, and how much of which nodes."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from extender.api.core_v1 import Amount
from extender.resources.quantity import QuantityError, Resources, exact, parse_resources
from extender.state.cluster.records import Grant

_LARGEST: Final = 100_000
"""Bytes; more is neither written nor read."""
_MOST: Final = 2**63
"""No node has as much of anything: Kubernetes counts in 64 bits."""


class _GrantWire(msgspec.Struct, frozen=True):
    until: datetime
    nodes: dict[str, dict[str, Amount]]


_decode = msgspec.json.Decoder(_GrantWire).decode


def as_json(grant: Grant) -> dict[str, Any] | None:
    """Return a grant as the API has it, None where it is too large to be stored."""
    until = datetime.fromtimestamp(grant.until, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    nodes = {node: plain(amounts) for node, amounts in grant.rooms.items()}
    found = {"until": until, "nodes": nodes}
    return found if len(msgspec.json.encode(found)) <= _LARGEST else None


def read(raw: bytes | msgspec.Raw) -> Grant | None:
    """Return a stored grant, None where there is none or where it cannot be believed."""
    if not bytes(raw) or len(bytes(raw)) > _LARGEST:
        return None
    try:
        found = _decode(raw)
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
