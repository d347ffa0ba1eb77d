"""Traces as they are noted: plain records, of which `telemetry.otel` makes those of OpenTelemetry.

Times are seconds since the epoch.
"""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

Value = str | int | float | bool
NAMESPACE: Final = "k8s.namespace.name"
"""OpenTelemetry's own name of that attribute."""


@dataclass(frozen=True, slots=True)
class Moment:
    """Something that happened within a span."""

    name: str
    at: float
    attributes: Mapping[str, Value] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Stretch:
    """A span; `error` says why it failed."""

    name: str
    began: float
    ended: float
    attributes: Mapping[str, Value] = field(default_factory=dict)
    moments: Sequence[Moment] = ()
    error: str = ""


@dataclass(frozen=True, slots=True)
class Trace:
    """A root span and its children; `id` is 32 hexadecimal digits."""

    id: str
    root: Stretch
    children: Sequence[Stretch] = ()


def new_id() -> str:
    """Return the id of a trace; all of its bits are random, for the sampler reads some of them."""
    return secrets.token_hex(16)
