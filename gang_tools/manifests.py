"""The manifests that are shipped inside `extender`, and the check of others against the CRDs.

`pyproject.toml` puts the files there; in a checkout they are read where they are.
"""

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

Object = Mapping[str, Any]
Schema = Mapping[str, Any]

_PACKAGE: Final = Path(__file__).parent.parent / "extender"
# The loader in C is ten times as fast, where there is one; the CRDs have thousands of lines.
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TYPES: Final[Mapping[str, type | tuple[type, ...]]] = {
    "object": dict,
    "array": list,
    "string": (str, datetime),  # YAML reads a time without quotes as one
    "integer": int,
    "number": (int, float),
    "boolean": bool,
}
_NUMBERS: Final = ("minimum", "maximum")
_LIMITS: Final[Mapping[type, tuple[str, str]]] = {
    str: ("minLength", "maxLength"),
    list: ("minItems", "maxItems"),
    dict: ("minProperties", "maxProperties"),
    int: _NUMBERS,
    float: _NUMBERS,
}


def shipped_objects(part: str) -> list[dict[str, Any]]:
    """Return the objects of a file, or of the files of a folder, of `manifests/`."""
    found = _shipped(f"manifests/{part}")
    files = sorted(found.glob("*.yaml")) if found.is_dir() else [found]
    texts = (file.read_text(encoding="utf-8") for file in files)
    return [each for text in texts for each in yaml.load_all(text, _LOADER) if each]


def shipped_text(path: str) -> str:
    """Return the text of a file, by its path in a checkout."""
    return _shipped(path).read_text(encoding="utf-8")


def _shipped(path: str) -> Path:
    places = (_PACKAGE / path, _PACKAGE.parent / path)  # the second one in a checkout
    return next(place for place in places if place.exists())


@cache
def crds() -> tuple[Object, ...]:
    """Return every CRD that comes with gang-extender."""
    return tuple(shipped_objects("crds"))


def stored_version(crd: Object) -> str:
    """Return the version that the API server stores, which is the one that we read and write."""
    [found] = [each["name"] for each in crd["spec"]["versions"] if each["storage"]]
    return str(found)


def schema_of(crd: Object, version: str) -> Schema:
    """Return the schema of one version, empty where the version has none."""
    [found] = [each for each in crd["spec"]["versions"] if each["name"] == version]
    schema: Schema = found.get("schema", {}).get("openAPIV3Schema", {})
    return schema


def schema_for(api_version: object, kind: object) -> Schema | None:
    """Return the schema of a manifest, None where the kind is not one of ours."""
    group, _, version = str(api_version).partition("/")
    for each in crds():
        spec = each["spec"]
        versions = {version["name"] for version in spec["versions"]}
        if (spec["group"], spec["names"]["kind"]) == (group, kind) and version in versions:
            return schema_of(each, version)
    return None


def faults(value: object, schema: Schema, path: str = "") -> Iterator[str]:
    """Yield what the API server would refuse in a value, each with the path of the field.

    The rules that are written in CEL are not evaluated.
    """
    fault = _fault_of_type(value, schema) or _fault_of_value(value, schema)
    if fault:
        yield f"{path}: {fault}"
    elif isinstance(value, dict):
        yield from _faults_of_fields(value, schema, f"{path}." if path else "")
    elif isinstance(value, list):
        for number, each in enumerate(value):
            yield from faults(each, schema.get("items", {}), f"{path}.{number}")


def _fault_of_type(value: object, schema: Schema) -> str:
    called = schema.get("type", "")
    wanted = _TYPES.get(called, object)
    if schema.get("x-kubernetes-int-or-string"):
        called, wanted = "integer or string", (int, str)
    # In Python true and false are integers, too.
    right = isinstance(value, wanted) and (wanted in {bool, object} or not isinstance(value, bool))
    return "" if right else f"{value!r:.40} should be of type {called}"


def _fault_of_value(value: Any, schema: Schema) -> str:  # noqa: ANN401 - a value of YAML
    if "enum" in schema and value not in schema["enum"]:
        return f"{value!r:.40} should be one of {', '.join(map(str, schema['enum']))}"
    # `$` alone would allow a line feed at the end.
    pattern = schema.get("pattern", "").removesuffix("$") + r"\Z"
    if "pattern" in schema and isinstance(value, str) and not re.search(pattern, value):
        return f"{value!r:.40} should match {schema['pattern']}"
    size = len(value) if isinstance(value, str | list | dict) else value
    least, most = (schema.get(each) for each in _LIMITS.get(type(value), ("", "")))
    if least is not None and size < least:
        return f"is {size}, and {least} is the least"
    if most is not None and size > most:
        return f"is {size}, and {most} is the most"
    return ""


def _faults_of_fields(value: Mapping[str, Any], schema: Schema, before: str) -> Iterator[str]:
    fields, others = schema.get("properties", {}), schema.get("additionalProperties")
    keeps_unknown = not fields or schema.get("x-kubernetes-preserve-unknown-fields")
    given = {name: each for name, each in value.items() if each is not None}  # null means absent
    for name in schema.get("required", ()):
        if name not in given:
            yield f"{before}{name}: is missing"
    for name, each in given.items():
        if name in fields:
            yield from faults(each, fields[name], f"{before}{name}")
        elif others:
            yield from faults(each, others, f"{before}{name}")
        elif not keeps_unknown:
            yield f"{before}{name}: there is no such field"
