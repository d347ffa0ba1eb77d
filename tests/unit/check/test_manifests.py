"""The CRDs of `manifests/crds`, and what is wrong with manifests by their schemas."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from extender.api.wellknown import Phase
from extender.webhooks.conversion import CONVERTED
from gang_tools.manifests import crds, faults, schema_for

ROOT = Path(__file__).parents[3]
GROUP = "kueue.x-k8s.io/"


def test_apply_k_covers_every_crd_and_every_file_that_it_names() -> None:
    named = yaml.safe_load((ROOT / "manifests/kustomization.yaml").read_text())["resources"]
    files = yaml.safe_load((ROOT / "manifests/crds/Kustomization").read_text())["resources"]

    assert all((ROOT / "manifests" / path).exists() for path in named)
    assert "crds" in named
    assert set(files) == {path.name for path in (ROOT / "manifests/crds").glob("*.yaml")}
    assert len(files) == 11
    for each in crds():
        names = each["spec"]["names"]
        assert each["metadata"]["name"] == f"{names['plural']}.{each['spec']['group']}"


def test_only_kinds_that_differ_are_converted_by_a_webhook() -> None:
    """The others are served in both versions, for which the API server needs no one."""
    for each in crds():
        first, *others = (
            version["schema"]["openAPIV3Schema"]["properties"]
            for version in each["spec"]["versions"]
        )
        differs = any(other != first for other in others)
        assert (each["metadata"]["name"] in CONVERTED) is differs
        served = [version["served"] for version in each["spec"]["versions"]]
        assert served == [True, *([not differs] * len(others))]


CRDS = {each["metadata"]["name"]: each for each in crds()}
POD_GROUPS = {name: manifest for name, manifest in CRDS.items() if name.startswith("podgroups.")}


def version_of(manifest: Mapping[str, Any]) -> dict[str, Any]:
    [version] = manifest["spec"]["versions"]
    return dict(version)


def every_schema(schema: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from every_schema(child, f"{path}.{name}")
    for word in ("items", "additionalProperties"):
        if word in schema:
            yield from every_schema(schema[word], f"{path}[]")


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


def found_in(each: dict[str, Any]) -> list[str]:
    schema = schema_for(each["apiVersion"], each["kind"])
    assert schema is not None
    return [*faults(each, schema)]


WRITTEN: dict[str, dict[str, Any]] = {
    f"{path.name}: {each['kind']} {each['metadata']['name']}": each
    for path in sorted((ROOT / "manifests/samples").glob("*.yaml"))
    for each in yaml.safe_load_all(path.read_text())
    if each["apiVersion"].startswith(GROUP) or each["kind"] == "PodGroup"
}


def test_there_are_samples_of_the_kinds_that_people_write_in_both_versions() -> None:
    assert {
        (each["apiVersion"], each["kind"])
        for each in WRITTEN.values()
        if each["kind"] != "PodGroup"
    } == {
        (f"{GROUP}{version}", kind)
        for version in ("v1beta1", "v1beta2")
        for kind in ("ClusterQueue", "LocalQueue", "ResourceFlavor", "WorkloadPriorityClass")
    }


@pytest.mark.parametrize("each", WRITTEN.values(), ids=WRITTEN)
def test_a_sample_has_no_fault(each: dict[str, Any]) -> None:
    assert found_in(each) == []


NO_QUOTAS = [{"coveredResources": ["cpu"], "flavors": [{"name": "a"}]}]
WANT_FAULTS: dict[str, tuple[str, object, list[str]]] = {
    "a misspelt field": (
        "LocalQueue",
        {"clusterQeue": "a"},
        ["spec.clusterQeue: there is no such field"],
    ),
    "a strategy that there is not": (
        "ClusterQueue",
        {"queueingStrategy": "LIFO"},
        ["spec.queueingStrategy: 'LIFO' should be one of StrictFIFO, BestEffortFIFO"],
    ),
    "a flavor without quotas": (
        "Cohort",
        {"resourceGroups": NO_QUOTAS},
        ["spec.resourceGroups.0.flavors.0.resources: is missing"],
    ),
    "a name that is none": ("LocalQueue", {"clusterQueue": "A_B"}, ["spec.clusterQueue: 'A_B'"]),
    "text for a mapping": ("ClusterQueue", "a", ["spec: 'a' should be of type object"]),
    "an empty list": ("Topology", {"levels": []}, ["spec.levels: is 0, and 1 is the least"]),
    "text for a number": ("PodGroup", {"minMember": "4"}, ["spec.minMember: '4' should be of"]),
    "a unit that there is not": (
        "PodGroup",
        {"minResources": {"memory": "1GiB"}},
        ["spec.minResources.memory: '1GiB' should match "],
    ),
    "an amount ends in a line feed": (
        "PodGroup",
        {"minResources": {"memory": "1Gi\n"}},
        ["spec.minResources.memory: '1Gi\\n' should match "],
    ),
    "an amount is a bare fraction": (
        "PodGroup",
        {"minResources": {"cpu": 1.5}},
        ["spec.minResources.cpu: 1.5 should be of type integer or string"],
    ),
    "amounts": (
        "PodGroup",
        {"minResources": {"cpu": -1, "memory": "1E3", "pods": ".5k", "a": "1.5"}, "minMember": 1},
        [],
    ),
    "an absent field is null": ("PodGroup", {"minMember": None}, []),
    "a time of YAML": (
        "ResourceFlavor",
        {"nodeTaints": [{"key": "a", "effect": "NoSchedule", "timeAdded": datetime.now(UTC)}]},
        [],
    ),
}


@pytest.mark.parametrize(("kind", "spec", "want"), WANT_FAULTS.values(), ids=WANT_FAULTS)
def test_what_is_wrong_is_named_with_its_field(kind: str, spec: object, want: list[str]) -> None:
    version = "scheduling.x-k8s.io/v1alpha1" if kind == "PodGroup" else f"{GROUP}v1beta2"
    each = {"apiVersion": version, "kind": kind, "metadata": {"name": "one"}, "spec": spec}

    found = found_in(each)

    assert len(found) == len(want)
    for fault, start in zip(found, want, strict=True):
        assert fault.startswith(start)


def test_kinds_and_versions_of_others_have_no_schema() -> None:
    assert schema_for("batch/v1", "Job") is None
    assert schema_for(f"{GROUP}v1beta1", "ClusterQueue") is not None
    assert schema_for(f"{GROUP}v1", "ClusterQueue") is None
    assert schema_for(None, None) is None


def test_the_phases_are_those_that_dashboards_know() -> None:
    want = ["Pending", "PreScheduling", "Scheduling", "Scheduled", "Running", "Unknown"]
    assert [phase.value for phase in Phase] == [*want, "Finished", "Failed"]
    for each in POD_GROUPS.values():
        status = version_of(each)["schema"]["openAPIV3Schema"]["properties"]["status"]
        assert status["properties"]["phase"]["enum"] == [phase.value for phase in Phase]
