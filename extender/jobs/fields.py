"""Typed reading and writing of objects as the API server's JSON has them."""

from collections.abc import Mapping
from copy import deepcopy
from typing import Final

from extender.api import values

Object = dict[str, object]

_NOTHING: Final[Mapping[str, object]] = {}


def value(where: Mapping[str, object], *path: str) -> object:
    """Return what is at a path, or None where a part of it is not there."""
    found: object = where
    for name in path:
        if type(found) is not dict and not isinstance(found, Mapping):  # the first is far quicker
            return None
        found = found.get(name)
    return found


def mapping(where: Mapping[str, object], *path: str) -> Mapping[str, object]:
    """Return the object at a path, an empty one where there is none."""
    found = value(where, *path)
    return found if isinstance(found, dict) else _NOTHING


def text(where: Mapping[str, object], *path: str) -> str:
    """Return the text at a path, else an empty one."""
    found = value(where, *path)
    return found if isinstance(found, str) else ""


def number(where: Mapping[str, object], *path: str) -> int | None:
    """Return the whole number at a path."""
    found = value(where, *path)
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def count(where: Mapping[str, object], *path: str, default: int = 0) -> int:
    """Return the whole number at a path, else the default."""
    found = number(where, *path)
    return default if found is None else found


def times(one: int, other: int) -> int:
    """Return the product of two counts; below zero where either is, as no two odd ones make one."""
    return one * other if min(one, other) >= 0 else -1


def whole(said: str) -> int:
    """Return the whole number of zero or more that a text is; 0 for any other text."""
    return values.whole(said) or 0


def flag(where: Mapping[str, object], *path: str) -> bool:
    """Return whether there is a true value at a path."""
    return value(where, *path) is True


def objects(where: Mapping[str, object], *path: str) -> list[Object]:
    """Return the objects of the list at a path, themselves and not copies."""
    found = value(where, *path)
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def strings(where: Mapping[str, object], *path: str) -> dict[str, str]:
    """Return a copy of the labels, or the like, at a path."""
    pairs = mapping(where, *path).items()
    return {name: found for name, found in pairs if isinstance(found, str)}


def ensure(where: Object, *path: str) -> Object:
    """Return the object at a path, itself; what is missing on the way is made."""
    for name in path:
        found = where.get(name)
        if not isinstance(found, dict):
            found = where[name] = {}
        where = found
    return where


def put(where: Object, name: str, found: object) -> None:
    """Set a field, or take it away where there is nothing to set."""
    if found in (None, {}, []):
        where.pop(name, None)
    else:
        where[name] = deepcopy(found)


def label(where: Mapping[str, object], name: str) -> str:
    """Return a label of an object, else an empty text."""
    return text(where, "metadata", "labels", name)


def annotation(where: Mapping[str, object], name: str) -> str:
    """Return an annotation of an object, else an empty text."""
    return text(where, "metadata", "annotations", name)


def condition(where: Mapping[str, object], kind: str) -> Mapping[str, object] | None:
    """Return the condition of a type if it is True."""
    found = objects(where, "status", "conditions")
    return next((c for c in found if text(c, "type") == kind and text(c, "status") == "True"), None)
