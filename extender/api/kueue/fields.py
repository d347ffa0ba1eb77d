"""Types and list forms that several kinds of the queue share."""

from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import ConfigDict, Field

ResourceName = Annotated[str, Field(min_length=1, max_length=317)]
CheckName = Annotated[str, Field(min_length=1, max_length=316)]

ATOMIC: Final[dict[str, Any]] = {"x-kubernetes-list-type": "atomic"}
ATOMIC_MAP: Final[dict[str, Any]] = {"x-kubernetes-map-type": "atomic"}
A_SET: Final[dict[str, Any]] = {"x-kubernetes-list-type": "set"}


def by(*keys: str) -> dict[str, Any]:
    """Return the schema of a list whose items are keyed by these fields."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [*keys]}


def rules(wanted: Mapping[str, str]) -> dict[str, Any]:
    """Return CEL rules for a schema, by the message for when one does not hold."""
    return {
        "x-kubernetes-validations": [
            {"rule": rule, "message": message} for message, rule in wanted.items()
        ]
    }


def one_rule(wanted: Mapping[str, str], *, unless: str) -> dict[str, Any]:
    """Return one CEL rule for many, of which none is evaluated where `unless` holds.

    The message is that of the first one that does not hold.
    """
    *before, last = wanted
    message = repr(last)
    for each in reversed(before):
        message = f"!({wanted[each]}) ? {each!r} : {message}"
    holds = " && ".join(f"({rule})" for rule in wanted.values())
    return {"rule": f"{unless} || ({holds})", "messageExpression": message}


def ruled(wanted: Mapping[str, str]) -> ConfigDict:
    """Return the configuration of a model whose objects follow CEL rules."""
    return ConfigDict(json_schema_extra=rules(wanted))
