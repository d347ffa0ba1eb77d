"""From pydantic models to what the API server takes as a CRD."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field

from extender.api.crds import (
    Column,
    Definition,
    StructuralSchemaError,
    Version,
    crd,
    needs_webhook,
    structural,
)
from extender.api.definitions import DEFINITIONS

SERVER = {
    "apiVersion": {"type": "string", "description": "The group and version of this object."},
    "kind": {"type": "string", "description": "The kind of this object."},
    "metadata": {"type": "object"},
}


class Flavor(BaseModel):
    name: str
    quota: int | str = 0


class Named(BaseModel):
    """Described once."""

    name: Annotated[str, Field(min_length=1)]


class Again(BaseModel):
    children: list["Again"] = []


def one(annotation: Any, field: Any = ...) -> type[BaseModel]:
    """Return a model with one field `x` of that type."""
    return type("One", (BaseModel,), {"__annotations__": {"x": annotation}, "x": field})


WANT: dict[str, tuple[type[BaseModel], dict[str, Any]]] = {
    "a required field has its type": (one(int, Field()), {"type": "integer"}),
    "None is how an absent field is said": (one(int | None, None), {"type": "integer"}),
    "a default that is not None is the server's too": (
        one(str, "BestEffortFIFO"),
        {"type": "string", "default": "BestEffortFIFO"},
    ),
    "a falsy default is a default": (
        one(bool, Field(default=False)),
        {"type": "boolean", "default": False},
    ),
    "limits keep their words": (
        one(Annotated[int, Field(ge=0, le=9)], Field()),
        {"type": "integer", "minimum": 0, "maximum": 9},
    ),
    "an exclusive limit is a flag in OpenAPI v3": (
        one(Annotated[float, Field(gt=0, lt=1)], Field()),
        {
            "type": "number",
            "minimum": 0,
            "exclusiveMinimum": True,
            "maximum": 1,
            "exclusiveMaximum": True,
        },
    ),
    "literals are an enum": (
        one(Literal["Hold", "None"] | None, None),
        {"type": "string", "enum": ["Hold", "None"]},
    ),
    "one literal is an enum of one": (
        one(Literal["a"], Field()),
        {"type": "string", "enum": ["a"]},
    ),
    "a set is a list that the server merges as a set": (
        one(set[str], Field()),
        {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
    ),
    "int or text is one value of two types": (
        one(int | Annotated[str, Field(pattern="^[0-9]+m?$")], Field()),
        {"x-kubernetes-int-or-string": True, "pattern": "^[0-9]+m?$"},
    ),
    "a map has values of one type": (
        one(dict[str, int], Field()),
        {"type": "object", "additionalProperties": {"type": "integer"}},
    ),
    "a map of anything keeps what it is given": (
        one(dict[str, Any], Field()),
        {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    ),
    "a model is put where it is referred to, in the words of the field": (
        one(Named | None, Field(default=None, description="Described here.")),
        {
            "type": "object",
            "description": "Described here.",
            "properties": {"name": {"type": "string", "minLength": 1}},
            "required": ["name"],
        },
    ),
    "what only Kubernetes knows goes through": (
        one(
            list[Named],
            Field(
                max_length=16,
                json_schema_extra={
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                    "x-kubernetes-validations": [{"rule": "size(self) > 0", "message": "none"}],
                },
            ),
        ),
        {
            "type": "array",
            "maxItems": 16,
            "items": {
                "type": "object",
                "description": "Described once.",
                "properties": {"name": {"type": "string", "minLength": 1}},
                "required": ["name"],
            },
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "x-kubernetes-validations": [{"rule": "size(self) > 0", "message": "none"}],
        },
    ),
}


@pytest.mark.parametrize(("model", "want"), WANT.values(), ids=WANT)
def test_a_field_is_translated(model: type[BaseModel], want: dict[str, Any]) -> None:
    assert structural(model)["properties"] == {**SERVER, "x": want}


WANT_REFUSED: dict[str, tuple[type[BaseModel], str]] = {
    "a value of two types": (one(int | bool, Field()), r"One\.x: .* one of many types"),
    "a choice between models": (one(list[Named | Flavor], Field()), r"One\.x\[\]: .* many types"),
    "a tuple": (one(tuple[int, str], Field()), r"One\.x: a CRD cannot say 'prefixItems'"),
    "a map with a rule for its keys": (
        one(dict[Annotated[str, Field(pattern="^a")], int], Field()),
        r"One\.x: a CRD cannot say 'patternProperties'",
    ),
    "a type that holds itself": (one(Again, Field()), "inside itself: Again > Again"),
}


@pytest.mark.parametrize(("model", "want"), WANT_REFUSED.values(), ids=WANT_REFUSED)
def test_what_a_crd_cannot_say_is_an_error_with_its_path(model: type[BaseModel], want: str) -> None:
    with pytest.raises(StructuralSchemaError, match=want):
        structural(model)


class ResourceFlavor(BaseModel):
    """A kind of
    node.

    Second paragraph.
    """

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"x-kubernetes-validations": [{"rule": "true"}]}
    )

    kind: Literal["ResourceFlavor"]
    spec: Flavor


def test_a_whole_definition() -> None:
    definition = Definition(
        group="example.com",
        plural="resourceflavors",
        versions=(
            Version("v1", ResourceFlavor, columns=(Column("Quota", ".spec.quota", wide=True),)),
        ),
        short_names=("rf",),
        categories=("queueing",),
        scope="Cluster",
    )

    assert crd(definition) == {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "resourceflavors.example.com"},
        "spec": {
            "group": "example.com",
            "names": {
                "kind": "ResourceFlavor",
                "listKind": "ResourceFlavorList",
                "plural": "resourceflavors",
                "singular": "resourceflavor",
                "shortNames": ["rf"],
                "categories": ["queueing"],
            },
            "scope": "Cluster",
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "additionalPrinterColumns": [
                        {
                            "name": "Quota",
                            "type": "string",
                            "jsonPath": ".spec.quota",
                            "priority": 1,
                        }
                    ],
                    "schema": {
                        "openAPIV3Schema": {
                            "type": "object",
                            "description": "A kind of node.\n\nSecond paragraph.",
                            "required": ["spec"],
                            "properties": {
                                **SERVER,
                                "spec": {
                                    "type": "object",
                                    "required": ["name"],
                                    "properties": {
                                        "name": {"type": "string"},
                                        "quota": {"x-kubernetes-int-or-string": True, "default": 0},
                                    },
                                },
                            },
                            "x-kubernetes-validations": [{"rule": "true"}],
                        }
                    },
                }
            ],
        },
    }


class Older(BaseModel):
    kind: Literal["ResourceFlavor"]
    data: Flavor


def test_the_first_version_is_stored_and_older_ones_wait_for_the_conversion_webhook() -> None:
    versions = (
        Version("v2", ResourceFlavor, selectable=(".spec.name",)),
        Version("v1", Older, deprecation="v1 is old, say v2."),
    )

    spec = crd(Definition("example.com", "resourceflavors", versions))["spec"]

    newer, older = spec["versions"]
    assert (newer["served"], newer["storage"]) == (True, True)
    assert newer["selectableFields"] == [{"jsonPath": ".spec.name"}]
    assert "deprecated" not in newer
    assert (older["served"], older["storage"]) == (False, False)
    assert (older["deprecated"], older["deprecationWarning"]) == (True, "v1 is old, say v2.")
    assert set(older["schema"]["openAPIV3Schema"]["properties"]) == {*SERVER, "data"}
    assert "conversion" not in spec


def test_versions_that_say_the_same_need_no_conversion() -> None:
    versions = (Version("v2", ResourceFlavor), Version("v1", ResourceFlavor, deprecation="Old."))

    spec = crd(Definition("example.com", "resourceflavors", versions))["spec"]

    found = [(each["name"], each["served"], each["storage"]) for each in spec["versions"]]
    assert found == [("v2", True, True), ("v1", True, False)]
    assert "conversion" not in spec


def test_only_kinds_that_differ_are_converted_by_a_webhook() -> None:
    assert {each.kind for each in DEFINITIONS if needs_webhook(each)} == {
        "ClusterQueue",
        "LocalQueue",
        "Workload",
    }


CRDS = {definition.name: crd(definition) for definition in DEFINITIONS}
POD_GROUPS = {name: manifest for name, manifest in CRDS.items() if name.startswith("podgroups.")}


def version_of(manifest: dict[str, Any]) -> dict[str, Any]:
    [version] = manifest["spec"]["versions"]
    return dict(version)


def every_schema(schema: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from every_schema(child, f"{path}.{name}")
    for word in ("items", "additionalProperties"):
        if word in schema:
            yield from every_schema(schema[word], f"{path}[]")


def test_both_groups_of_pod_groups_are_served() -> None:
    assert set(POD_GROUPS) == {"podgroups.scheduling.x-k8s.io", "podgroups.scheduling.sigs.k8s.io"}
    for manifest in POD_GROUPS.values():
        version = version_of(manifest)
        assert (version["name"], version["served"], version["storage"]) == ("v1alpha1", True, True)
        assert version["subresources"] == {"status": {}}
        assert manifest["spec"]["scope"] == "Namespaced"


def test_the_groups_differ_in_nothing_but_their_names_and_descriptions() -> None:
    newer, older = (
        version_of(manifest)["schema"]["openAPIV3Schema"] for manifest in POD_GROUPS.values()
    )

    assert newer["properties"] == older["properties"]


def test_pg_means_the_newer_group_alone_and_gang_means_both() -> None:
    # With the short names on both kubectl takes the older group, and warns on every call.
    names = {name: manifest["spec"]["names"] for name, manifest in POD_GROUPS.items()}

    assert names["podgroups.scheduling.x-k8s.io"]["shortNames"] == ["pg", "pgs"]
    assert "shortNames" not in names["podgroups.scheduling.sigs.k8s.io"]
    assert [name["categories"] for name in names.values()] == [["gang"], ["gang"]]


def test_only_the_protected_group_speaks_of_api_review() -> None:
    annotations = {
        name: manifest["metadata"].get("annotations") for name, manifest in POD_GROUPS.items()
    }

    assert annotations["podgroups.scheduling.x-k8s.io"] is None
    [(key, value)] = annotations["podgroups.scheduling.sigs.k8s.io"].items()
    assert key == "api-approved.kubernetes.io"
    assert value.startswith("unapproved")


SCHEMAS = {
    f"{manifest['spec']['names']['kind']} of {version['name']}": version["schema"][
        "openAPIV3Schema"
    ]
    for manifest in CRDS.values()
    for version in manifest["spec"]["versions"]
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_field_says_what_it_is(name: str) -> None:
    for path, field in every_schema(SCHEMAS[name], ""):
        if path == ".metadata":
            continue
        assert ("type" in field) != ("x-kubernetes-int-or-string" in field), path
        assert field.get("description") or path.endswith("[]"), path


def test_the_spec_of_a_pod_group() -> None:
    schema = version_of(CRDS["podgroups.scheduling.x-k8s.io"])["schema"]["openAPIV3Schema"]
    spec = schema["properties"]["spec"]
    rules = {
        name: {word: value for word, value in field.items() if word != "description"}
        for name, field in spec["properties"].items()
    }

    int32 = {"type": "integer", "format": "int32", "maximum": 2**31 - 1}
    quantity = rules["minResources"]["additionalProperties"]
    assert ("required" in schema, "required" in spec) == (False, False)
    assert rules == {
        "minMember": {**int32, "minimum": 1},
        "minResources": {
            "type": "object",
            "additionalProperties": {
                "x-kubernetes-int-or-string": True,
                "pattern": quantity["pattern"],
            },
        },
        "scheduleTimeoutSeconds": {**int32, "minimum": -(2**31)},
    }


def test_the_columns_of_kubectl_get() -> None:
    columns = version_of(CRDS["podgroups.scheduling.x-k8s.io"])["additionalPrinterColumns"]

    assert [(column["name"], column.get("priority", 0)) for column in columns] == [
        ("Phase", 0),
        ("MinMember", 0),
        ("Scheduled", 0),
        ("Running", 0),
        ("Succeeded", 0),
        ("Failed", 0),
        ("Reason", 0),
        ("Message", 1),
        ("Age", 0),
    ]
