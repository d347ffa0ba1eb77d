"""The Helm chart's files; `tests/cluster/test_chart.py` renders them and compares the objects."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from extender.config.settings import Settings

ROOT = Path(__file__).parents[2]
MANIFESTS = ROOT / "manifests"
CHART = MANIFESTS / "chart"
APART = {
    "samples": "for users",
    "static-pod": "a file for the kubelet",
    "monitoring": "for the operator of Prometheus, applied apart",
    "optional/second-scheduler.yaml": "the same scheduler, for apply -f",
    "second-scheduler/namespace.yaml": "the same namespace",
}
"""What is in `manifests`, and in no template."""
SCHEMA: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text())
VALUES: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())


def test_each_manifest_is_in_the_chart_or_said_to_be_apart() -> None:
    names = {
        str(path.relative_to(MANIFESTS))
        for path in MANIFESTS.rglob("*.yaml")
        if CHART not in path.parents and path.name != "kustomization.yaml"
    }
    apart = {each for each in names if any(each == x or each.startswith(f"{x}/") for x in APART)}
    templates = CHART / "templates"
    own = {"checks.yaml", "page/service.yaml", "service-monitor.yaml", "settings.yaml"}

    found = {str(path.relative_to(templates)) for path in templates.rglob("*.yaml")}

    assert found == names - apart | own


def test_the_chart_has_the_version_of_the_project() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    tool = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    version = tool["hatch"]["version"]["fallback-version"]
    assert (chart["version"], chart["appVersion"]) == (version, version)


def resolved(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema in the place of a reference, or of a choice between it and null."""
    for each in [schema, *schema.get("anyOf", ())]:
        if "$ref" in each:
            found: dict[str, Any] = SCHEMA["$defs"][each["$ref"].rpartition("/")[2]]
            return resolved(found)
    return schema


def of(path: str) -> dict[str, Any]:
    """Return the schema of a value by its path."""
    found = SCHEMA
    for name in path.split("."):
        found = resolved(found["properties"][name])
    return found


def undescribed(values: Any, schema: dict[str, Any], path: str = "") -> list[str]:
    """Return the paths of values that the schema does not have."""
    found = resolved(schema)
    if not isinstance(values, dict) or "properties" not in found:
        return []
    missing: list[str] = []
    for name, each in values.items():
        where = f"{path}.{name}"
        there = found["properties"].get(name)
        missing += undescribed(each, there, where) if there is not None else [where]
    return missing


def test_the_schema_has_each_value_and_each_setting() -> None:
    assert undescribed(VALUES, SCHEMA) == []
    assert undescribed(Settings().model_dump(mode="json", by_alias=True), of("settings")) == []


@pytest.mark.parametrize("section", of("settings")["properties"])
def test_the_schema_has_no_setting_that_is_gone(section: str) -> None:
    model = Settings.model_json_schema(by_alias=True)["properties"]
    assert section in model
    found = resolved(of(f"settings.{section}"))
    assert found["additionalProperties"] is False
    sections = Settings().model_dump(mode="json", by_alias=True)
    assert found["properties"].keys() == sections[section].keys()


def test_the_schema_reads_values_as_the_settings_are_read() -> None:
    # As a file of settings: a duration, and Off without quotes, which YAML reads as false.
    assert {"type": "number", "minimum": 0} in of("settings.gang.agingSeconds")["anyOf"]
    timeout = of("settings.queue.waitForPodsReady.timeout")["anyOf"]
    [duration] = [each["pattern"] for each in timeout if each["type"] == "string"]
    for good in ("5m", "1h30m", "500ms", "1.5h", "90"):
        assert re.search(duration, good), good
        assert Settings.model_validate({"gang": {"agingSeconds": good}}).gang.aging_seconds > 0
    assert not re.search(duration, "soon")
    for path in ("gang.preemption", "queue.podGroups"):
        section, name = path.split(".")
        assert False in of(f"settings.{path}")["enum"]
        assert Settings.model_validate({section: {name: False}}) != Settings()
