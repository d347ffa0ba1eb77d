"""Granted room as an annotation of a PodGroup: until when, and how much of which nodes."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

import msgspec

from extender.api.core_v1 import Amount
from extender.resources.quantity import QuantityError, exact, parse_resources
from extender.state.claims import Grant

_LARGEST: Final = 100_000
"""Bytes; an object may have 256 KiB of annotations."""


class _Written(msgspec.Struct, frozen=True):
    until: datetime
    nodes: dict[str, dict[str, Amount]]


_decode = msgspec.json.Decoder(_Written).decode


def encode(grant: Grant) -> str | None:
    """Return a grant as text, None where it is too large to be written down."""
    nodes = {node: _plain(amounts) for node, amounts in grant.rooms.items()}
    until = datetime.fromtimestamp(grant.until, UTC).replace(microsecond=0)
    text = msgspec.json.encode(_Written(until, nodes))
    return text.decode() if len(text) <= _LARGEST else None


def decode(text: str | None) -> Grant | None:
    """Return a grant out of a text, None where it is none: then nothing is kept."""
    if not text:
        return None
    try:
        found = _decode(text)
        rooms = {node: parse_resources(amounts) for node, amounts in found.nodes.items()}
        until = found.until.timestamp()
    except (msgspec.MsgspecError, QuantityError, ValueError, OverflowError):
        return None
    below_zero = any(value < 0 for amounts in rooms.values() for value in amounts.values())
    return None if below_zero else Grant(rooms, until)


def _plain(amounts: Mapping[str, int]) -> dict[str, Amount]:
    return {name: exact(name, value) for name, value in amounts.items() if value}
