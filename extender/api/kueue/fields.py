"""Names and list forms that several kinds of the queue share."""

from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import Field

GROUP: Final = "kueue.x-k8s.io"
VERSION: Final = "v1beta2"
API_VERSION: Final = f"{GROUP}/{VERSION}"

ResourceName = Annotated[str, Field(min_length=1, max_length=317)]
CheckName = Annotated[str, Field(min_length=1, max_length=316)]

ATOMIC: Final[dict[str, Any]] = {"x-kubernetes-list-type": "atomic"}
ATOMIC_MAP: Final[dict[str, Any]] = {"x-kubernetes-map-type": "atomic"}
A_SET: Final[dict[str, Any]] = {"x-kubernetes-list-type": "set"}


def by(*keys: str) -> dict[str, Any]:
    """Return the words for a list whose items are told apart by these fields."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [*keys]}


def rules(wanted: Mapping[str, str]) -> dict[str, Any]:
    """Return CEL rules for a schema, from what the user is told when one does not hold."""
    return {
        "x-kubernetes-validations": [
            {"rule": rule, "message": message} for message, rule in wanted.items()
        ]
    }
