"""Pod templates: what is injected, restored and compared."""

from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest

from extender.api import wellknown
from extender.api.wellknown import POD_GROUP_LABEL
from extender.jobs import templates
from extender.jobs.templates import Placement, PlacementError

TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": {"app": "x"}, "creationTimestamp": None},
    "spec": {
        "containers": [{"name": "main", "image": "i", "env": []}],
        "nodeSelector": {"zone": "a"},
        "tolerations": [{"key": "gpu", "operator": "Exists"}],
    },
}
PLACE = Placement(
    "main",
    1,
    node_selector={"tier": "spot"},
    tolerations=({"key": "gpu", "operator": "Exists"}, {"key": "spot", "operator": "Exists"}),
    labels={"kueue.x-k8s.io/podset": "main"},
    annotations={"note": "1"},
)


def injected(template: dict[str, Any] = TEMPLATE) -> dict[str, Any]:
    result = deepcopy(template)
    templates.inject(result, PLACE)
    return result


def test_a_copy_of_a_job_that_runs_is_given_what_is_its_own() -> None:
    """Its template names the workload, the pod set and the PodGroup of the other one."""
    old, new = f"job-train-{'x' * 60}-12345", "job-copy-67890"
    template = deepcopy(TEMPLATE)
    template["metadata"]["annotations"] = {wellknown.WORKLOAD_ANNOTATION: old}
    template["metadata"]["labels"] |= {
        wellknown.PODSET_LABEL: "other",
        POD_GROUP_LABEL: templates.group_name(old),
    }
    place = replace(PLACE, annotations={wellknown.WORKLOAD_ANNOTATION: new})
    started = deepcopy(template)
    templates.inject(started, place)
    assert started["metadata"]["annotations"] == {wellknown.WORKLOAD_ANNOTATION: new}
    assert started["metadata"]["labels"] == {"app": "x", wellknown.PODSET_LABEL: "main"}
    assert templates.extends(started, template)

    in_a_gang = deepcopy(template)
    templates.inject(in_a_gang, replace(place, labels={POD_GROUP_LABEL: new}))
    assert in_a_gang["metadata"]["labels"][POD_GROUP_LABEL] == new


def test_a_group_that_the_template_brings_stays_after_any_run() -> None:
    template = deepcopy(TEMPLATE)
    template["metadata"]["annotations"] = {wellknown.WORKLOAD_ANNOTATION: "job-old-12345"}
    template["metadata"]["labels"][POD_GROUP_LABEL] = "mine"
    templates.inject(
        template, replace(PLACE, annotations={wellknown.WORKLOAD_ANNOTATION: "job-new-67890"})
    )
    assert template["metadata"]["labels"][POD_GROUP_LABEL] == "mine"


def test_what_was_there_stays() -> None:
    result = injected()
    assert result["metadata"]["labels"] == {"app": "x", "kueue.x-k8s.io/podset": "main"}
    assert result["metadata"]["annotations"] == {"note": "1"}
    assert result["spec"]["nodeSelector"] == {"zone": "a", "tier": "spot"}
    assert [each["key"] for each in result["spec"]["tolerations"]] == ["gpu", "spot"]


@pytest.mark.parametrize("template", [TEMPLATE, {"spec": {"containers": []}}])
def test_what_is_restored_is_as_before(template: dict[str, Any]) -> None:
    result = injected(template)
    templates.restore(result, template)
    assert templates.same(result, template)
    assert result["spec"] == template["spec"]


@pytest.mark.parametrize(
    ("part", "name", "key"),
    [
        ("spec", "nodeSelector", "tier"),
        ("metadata", "annotations", "note"),
    ],
)
def test_what_is_there_with_another_value_is_a_conflict(part: str, name: str, key: str) -> None:
    template = deepcopy(TEMPLATE)
    template[part].setdefault(name, {})[key] = "other"
    with pytest.raises(PlacementError, match=f"pod set main: {part}.{name} has {key}=other"):
        templates.inject(template, PLACE)


def change(part: str, name: str, value: Any) -> dict[str, Any]:
    result = injected()
    result[part][name] = value
    return result


@pytest.mark.parametrize(
    ("template", "want"),
    [
        (TEMPLATE, True),
        (injected(), True),
        (change("spec", "containers", [{"name": "main", "image": "other"}]), False),
        (change("spec", "nodeSelector", {"tier": "spot"}), False),
        (change("spec", "tolerations", []), False),
        (change("metadata", "labels", {}), False),
        (change("spec", "priorityClassName", "high"), False),
        (change("spec", "nodeSelector", {"zone": "b", "tier": "spot"}), False),
    ],
    ids=["equal", "injected", "image", "selector", "tolerations", "labels", "class", "zone"],
)
def test_a_template_that_was_injected_is_still_the_same(template: Any, want: bool) -> None:
    assert templates.extends(template, TEMPLATE) is want


def test_nothing_and_an_empty_value_are_one() -> None:
    bare = {"metadata": {"labels": {"app": "x"}}, "spec": {**TEMPLATE["spec"], "volumes": []}}
    assert templates.same(bare, TEMPLATE)
    assert not templates.same(injected(), TEMPLATE)
