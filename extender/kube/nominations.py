"""`status.preemption` of a PodGroup: what leaves for it, and what room is kept for it meanwhile."""

from datetime import UTC, datetime
from typing import Any, Final, Literal

import msgspec

from extender.api.core_v1 import Amount
from extender.kube.grants import is_amount, plain
from extender.resources.quantity import QuantityError, parse_resources
from extender.state.cluster.records import NominatedRoom, PreemptedRoom, VictimInfo

_LARGEST: Final = 500_000
"""Bytes; more is neither written nor read. The UIDs of 10,000 pods are less."""


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


_decode = msgspec.json.Decoder(_PreemptionWire).decode


def as_json(nomination: PreemptedRoom) -> dict[str, Any] | None:
    """Return a nomination as the API has it, None where it is too large to be stored."""
    found = {
        "since": datetime.fromtimestamp(nomination.since, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "nodes": [
            {"name": node, "pods": list(room.pods), "room": plain(room.amounts)}
            for node, room in nomination.rooms.items()
        ],
        "victims": [_victim(each) for each in nomination.victims],
    }
    return found if len(msgspec.json.encode(found)) <= _LARGEST else None


def read(raw: bytes | msgspec.Raw) -> PreemptedRoom | None:
    """Return what is stored, None where there is nothing or where it cannot be believed."""
    if not bytes(raw) or len(bytes(raw)) > _LARGEST:
        return None
    try:
        found = _decode(raw)
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


def _victim(victim: VictimInfo) -> dict[str, Any]:
    found: dict[str, Any] = {"kind": victim.kind, "uid": victim.uid}
    return found | ({"pods": list(victim.pods)} if victim.kind == "PodGroup" else {})
