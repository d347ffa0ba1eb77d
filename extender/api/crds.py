"""CustomResourceDefinitions, made from the pydantic models of this package.

The API server takes a *structural* schema: a subset of OpenAPI v3 without references, with one
type per value. Pydantic speaks JSON Schema 2020-12. What can be said in both is translated;
anything else is an error at render time, so that no rule of a model is lost on the way without
notice. What only Kubernetes knows (`x-kubernetes-validations` and its kin) goes through a field's
or a model's `json_schema_extra`.

Source: https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Any, Final, Literal

from pydantic import BaseModel

Schema = dict[str, Any]

_UNAPPROVED: Final = "unapproved, served by gang-extender for clusters that still use this group"

_REFERENCE: Final = "#/$defs/"
_KEPT: Final = frozenset({
    "type", "format", "description", "default", "enum", "required", "pattern",
    "minimum", "maximum", "multipleOf", "minLength", "maxLength",
    "minItems", "maxItems", "minProperties", "maxProperties",
})  # fmt: skip
_SERVER: Final[Mapping[str, Schema]] = {
    "apiVersion": {"type": "string", "description": "The group and version of this object."},
    "kind": {"type": "string", "description": "The kind of this object."},
    "metadata": {"type": "object"},  # the server has its own schema for it and takes no other
}


class StructuralSchemaError(ValueError):
    """A model says something that a structural schema cannot; the message carries the path."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column of `kubectl get`; with `wide` only of `kubectl get -o wide`."""

    name: str
    path: str
    type: str = "string"
    description: str = ""
    wide: bool = False


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a kind: its model, and how it is listed."""

    name: str
    model: type[BaseModel]
    columns: Sequence[Column] = ()
    selectable: Sequence[str] = ()
    """Paths that a field selector may name, besides metadata.name and metadata.namespace."""
    deprecation: str = ""
    """The warning for clients that still use this version; empty where it is current."""


@dataclass(frozen=True, slots=True)
class Definition:
    """One kind of one group. The first version is stored and served.

    Older ones that say the same are served too. Those that differ need a process that converts, so
    they are not served here: the default set of manifests, which has that process, serves them.
    """

    group: str
    plural: str
    versions: Sequence[Version]
    short_names: Sequence[str] = ()
    categories: Sequence[str] = ()
    scope: str = "Namespaced"

    @property
    def name(self) -> str:
        """The CRD's name, as the API server insists on it."""
        return f"{self.plural}.{self.group}"

    @property
    def kind(self) -> str:
        """The kind is the class name of the model, of every version."""
        return self.versions[0].model.__name__


def crd(definition: Definition) -> dict[str, Any]:
    """Return the CustomResourceDefinition as the API server takes it.

    Raises StructuralSchemaError when the model cannot be said as a structural schema.
    """
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": _metadata(definition),
        "spec": {
            "group": definition.group,
            "names": {
                "kind": definition.kind,
                "listKind": f"{definition.kind}List",
                "plural": definition.plural,
                "singular": definition.kind.lower(),
                **_if_any("shortNames", list(definition.short_names)),
                **_if_any("categories", list(definition.categories)),
            },
            "scope": definition.scope,
            "versions": [*_versions(definition)],
        },
    }


def structural(model: type[BaseModel]) -> Schema:
    """Return the structural OpenAPI v3 schema of a whole object, with the server's own fields."""
    raw = model.model_json_schema(by_alias=True)
    schema = _Translator(raw.pop("$defs", {})).translate(raw, path=model.__name__)
    properties = {**_SERVER, **{k: v for k, v in schema["properties"].items() if k not in _SERVER}}
    required = [name for name in schema.pop("required", ()) if name not in _SERVER]
    return {**schema, **_if_any("required", required), "properties": properties}


def needs_webhook(definition: Definition) -> bool:
    """Return whether its versions differ in more than their names, so that a webhook must convert.

    The API server calls that webhook at every write, for watches of the other version.
    """
    first, *others = (structural(version.model)["properties"] for version in definition.versions)
    return any(properties != first for properties in others)


def _metadata(definition: Definition) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": definition.name}
    # In the groups that belong to the community the server asks for a word on API review
    # (KEP-2337). `x-k8s.io`, with its hyphen, is not one of them.
    if definition.group.endswith((".k8s.io", ".kubernetes.io")):
        metadata["annotations"] = {"api-approved.kubernetes.io": _UNAPPROVED}
    return metadata


def _versions(definition: Definition) -> Iterator[dict[str, Any]]:
    alike = not needs_webhook(definition)
    for version in definition.versions:
        stored = version is definition.versions[0]
        yield _version(version, served=stored or alike, stored=stored)


def _version(version: Version, *, served: bool, stored: bool) -> dict[str, Any]:
    deprecation = {"deprecated": True, "deprecationWarning": version.deprecation}
    return {
        "name": version.name,
        "served": served,
        "storage": stored,
        **(deprecation if version.deprecation else {}),
        **_if_any("additionalPrinterColumns", [*map(_column, version.columns)]),
        **_if_any("selectableFields", [{"jsonPath": path} for path in version.selectable]),
        "schema": {"openAPIV3Schema": structural(version.model)},
        **_status(version.model),
    }


def _column(column: Column) -> dict[str, Any]:
    return {
        "name": column.name,
        "type": column.type,
        "jsonPath": column.path,
        **_if_any("description", column.description),
        **({"priority": 1} if column.wide else {}),
    }


def _status(model: type[BaseModel]) -> dict[str, Any]:
    return {"subresources": {"status": {}}} if "status" in model.model_fields else {}


def _if_any(key: str, value: Sequence[Any]) -> dict[str, Any]:
    return {key: value} if value else {}


class _Translator:
    """JSON Schema to structural schema, with the definitions that references point to."""

    def __init__(self, definitions: Mapping[str, Schema]) -> None:
        self._definitions = definitions
        try:
            TopologicalSorter({n: _references(d) for n, d in definitions.items()}).prepare()
        except CycleError as error:
            around = " > ".join(error.args[1])
            raise StructuralSchemaError(
                f"a CRD cannot hold a type inside itself: {around}"
            ) from error
        self._nested: Mapping[str, Callable[[Any, str], Schema]] = {
            "properties": self._properties,
            "items": lambda value, path: {"items": self.translate(value, path=f"{path}[]")},
            "additionalProperties": self._additional_properties,
            "const": lambda value, _path: {"enum": [value]},
            "exclusiveMinimum": lambda v, _path: {"minimum": v, "exclusiveMinimum": True},
            "exclusiveMaximum": lambda v, _path: {"maximum": v, "exclusiveMaximum": True},
            "uniqueItems": lambda _value, _path: {"x-kubernetes-list-type": "set"},
            "title": lambda _value, _path: {},
        }

    def translate(self, schema: Schema, *, path: str) -> Schema:
        """Return the schema without references, unions and words that a CRD may not hold."""
        translated: Schema = {}
        for word, value in self._flat(schema, path=path).items():
            if word in _KEPT or word.startswith("x-kubernetes-"):
                translated[word] = value
            elif word in self._nested:
                translated |= self._nested[word](value, path)
            else:
                raise StructuralSchemaError(f"{path}: a CRD cannot say {word!r}")
        if "description" in translated:
            translated["description"] = _unwrapped(translated["description"])
        return translated

    def _flat(self, schema: Schema, *, path: str) -> Schema:
        """Resolve a reference, or a union with null or of int and text, at this level.

        The description and the default of the field win over those of the type that it refers to.
        """
        own = {word: value for word, value in schema.items() if word not in {"$ref", "anyOf"}}
        if own.get("default", ...) is None:
            del own["default"]  # an absent field of Kubernetes is absent, not null
        if "$ref" in schema:
            target = self._definitions[schema["$ref"].removeprefix(_REFERENCE)]
            return {**self._flat(target, path=path), **own}
        if "anyOf" in schema:
            return {**self._union(schema["anyOf"], path=path), **own}
        return own

    def _union(self, members: Sequence[Schema], *, path: str) -> Schema:
        left = [member for member in members if member.get("type") != "null"]
        if len(left) == 1:
            return self._flat(left[0], path=path)
        if sorted(member.get("type", "") for member in left) == ["integer", "string"]:
            rules = [{word: v for word, v in member.items() if word != "type"} for member in left]
            return {"x-kubernetes-int-or-string": True, **rules[0], **rules[1]}
        raise StructuralSchemaError(f"{path}: a CRD cannot say that a value has one of many types")

    def _properties(self, value: Mapping[str, Schema], path: str) -> Schema:
        return {
            "properties": {
                name: self.translate(schema, path=f"{path}.{name}")
                for name, schema in value.items()
            }
        }

    def _additional_properties(self, value: Schema | Literal[True, False], path: str) -> Schema:
        if value is False:
            return {}  # the server drops unknown fields, and refuses them where the client asks to
        if value is True:
            return {"x-kubernetes-preserve-unknown-fields": True}
        return {"additionalProperties": self.translate(value, path=f"{path}{{}}")}


def _references(schema: object) -> set[str]:
    """Return the names of the definitions that a schema refers to, at any depth."""
    match schema:
        case {"$ref": str(reference)}:
            return {reference.removeprefix(_REFERENCE)}
        case dict():
            return set().union(*map(_references, schema.values()))
        case list():
            return set().union(*map(_references, schema))
        case _:
            return set()


def _unwrapped(text: str) -> str:
    """Join the lines of each paragraph: `kubectl explain` wraps them itself."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))
