"""The OpenAPI document, made from the types that requests are decoded to and answers made of."""

from typing import Any, Final

import msgspec
from fastapi import FastAPI
from msgspec import Struct

Schema = dict[str, Any]

_COMPONENT: Final = "#/components/schemas/{name}"


def without_422(app: FastAPI) -> None:
    """Leave 422 out of the document of an application that answers 400 instead."""
    make = app.openapi

    def document() -> dict[str, Any]:
        made = make()
        for operations in made["paths"].values():
            for operation in operations.values():
                operation["responses"].pop("422", None)
        for name in ("HTTPValidationError", "ValidationError"):
            made.get("components", {}).get("schemas", {}).pop(name, None)
        return made

    app.openapi = document  # type: ignore[method-assign]


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
