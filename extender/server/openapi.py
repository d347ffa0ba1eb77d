"""The OpenAPI document, made from the types that requests are decoded to and answers made of."""

from typing import Any, Final

import msgspec
from msgspec import Struct

Schema = dict[str, Any]

_COMPONENT: Final = "#/components/schemas/{name}"


def request_body(wire: type[Struct]) -> Schema:
    """Return the OpenAPI part for the body that a verb is sent."""
    schema = components(wire)[wire.__name__]
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def answered(*wires: object) -> Schema:
    """Return the OpenAPI part for an answer of one of these types, which are components."""
    schemas, _ = msgspec.json.schema_components(wires, ref_template=_COMPONENT)
    schema = schemas[0] if len(schemas) == 1 else {"anyOf": list(schemas)}
    return {
        "description": "Successful Response",
        "content": {"application/json": {"schema": schema}},
    }


def components(*wires: object) -> dict[str, Schema]:
    """Return the schemas of types by name, and of the types that these refer to."""
    return msgspec.json.schema_components(wires, ref_template=_COMPONENT)[1]
