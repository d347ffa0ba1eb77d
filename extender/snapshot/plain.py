"""Records as plain values for JSON, and back. A field that has its default is left out.

Shapes and patterns are shared by pods, and two of them are never equal. So they have tables of
their own, and records have their numbers there.
"""

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, replace
from typing import Any, Final, TypeVar

import msgspec

from extender.state.cluster.records import Pattern, PodInfo, Shape

T = TypeVar("T")
Plain = dict[str, Any]
_DEFAULTS: Final[dict[type, Sequence[tuple[str, object]]]] = {}
"""By type of record, of which there are some forty."""


def encode(value: object) -> bytes:
    """Return a plain value, or a record of plain values, as JSON."""
    return msgspec.json.encode(value, enc_hook=_hook)


def _hook(value: object) -> object:
    if isinstance(value, Mapping):
        return {**value}
    raise NotImplementedError(f"{type(value).__name__} has no JSON form")


def plain(record: Any, *but: str) -> Plain:  # noqa: ANN401 - any dataclass
    """Return the fields of a record that do not have their default, without some."""
    found = {}
    for name, default in _defaults(type(record)):
        value = getattr(record, name)
        if value is not default and value != default and name not in but:
            found[name] = value
    return found


def _defaults(of: type) -> Sequence[tuple[str, object]]:
    """Return the fields with their defaults; `MISSING` where there is none."""
    known = _DEFAULTS.get(of)
    if known is not None:
        return known
    found = _DEFAULTS[of] = [
        (each.name, each.default_factory() if each.default_factory is not MISSING else each.default)
        for each in fields(of)
    ]
    return found


def typed(value: object, of: type[T]) -> T:
    """Return a plain value as a record. Raises msgspec.ValidationError."""
    return msgspec.convert(value, of)


class ShapeNumbers:
    """Numbers for the shapes and patterns of the pods that are written, as they come."""

    def __init__(self) -> None:
        self._shapes: dict[int, int] = {}
        self._patterns: dict[int, int] = {}
        self.shapes: list[Shape] = []
        self.patterns: list[Plain] = []

    def shape(self, shape: Shape) -> int:
        """Return the number of a shape."""
        number = self._shapes.get(id(shape))
        if number is None:
            number = self._shapes[id(shape)] = len(self.shapes)
            self.shapes.append(shape)
        return number

    def pattern(self, pattern: Pattern) -> int:
        """Return the number of a pattern."""
        number = self._patterns.get(id(pattern))
        if number is None:
            number = self._patterns[id(pattern)] = len(self.patterns)
            # The pattern stays alive with its pod, so that no other one has its id.
            self.patterns.append({**plain(pattern, "shape"), "shape": self.shape(pattern.shape)})
        return number

    def pod(self, pod: PodInfo) -> Plain:
        """Return a pod."""
        found = plain(pod, "shape", "pattern")
        found["shape"] = self.shape(pod.shape)
        if pod.pattern is not None:
            found["pattern"] = self.pattern(pod.pattern)
        return found


class KnownShapes:
    """The shapes and patterns of a file by their numbers."""

    def __init__(self, shapes: Sequence[Plain], patterns: Sequence[Plain]) -> None:
        self._shapes = [typed(each, Shape) for each in shapes]
        self._patterns = [self._pattern(each) for each in patterns]

    def _pattern(self, value: Plain) -> Pattern:
        found = typed({**value, "shape": {}}, Pattern)
        return Pattern(
            self._shapes[value["shape"]], found.namespace, found.labels, dropped=found.dropped
        )

    def shape(self, number: int) -> Shape:
        """Return a shape. Raises IndexError."""
        return self._shapes[number]

    def pod(self, value: Plain) -> PodInfo:
        """Return a pod. Raises msgspec.ValidationError and LookupError."""
        number, pattern = value["shape"], value.get("pattern")
        bare = typed({**value, "shape": {}, "pattern": None}, PodInfo)
        return replace(
            bare,
            shape=self._shapes[number],
            pattern=self._patterns[pattern] if pattern is not None else None,
        )
