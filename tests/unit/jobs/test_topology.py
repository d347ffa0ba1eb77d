"""What annotations of a pod template say about domains of nodes."""

from typing import Any

import pytest

from extender.jobs.templates import topology_fault, topology_request

Q = "kueue.x-k8s.io/podset"
INDEX = {"podIndexLabel": "batch.kubernetes.io/job-completion-index"}


def template(**said: str) -> dict[str, Any]:
    names = {name.replace("_", "-"): text for name, text in said.items()}
    return {"metadata": {"annotations": {f"{Q}-{name}": text for name, text in names.items()}}}


@pytest.mark.parametrize(
    ("said", "want"),
    [
        ({}, None),
        ({"unconstrained_topology": "false"}, None),
        ({"required_topology": "rack"}, {"required": "rack"}),
        ({"preferred_topology": "a.b/rack"}, {"preferred": "a.b/rack"}),
        ({"unconstrained_topology": "true"}, {"unconstrained": True}),
        (
            {"slice_required_topology": "rack", "slice_size": "2", "required_topology": "block"},
            {
                "required": "block",
                "podSetSliceRequiredTopology": "rack",
                "podSetSliceSize": 2,
            },
        ),
    ],
)
def test_annotations_become_a_request(said: dict[str, str], want: dict[str, Any] | None) -> None:
    assert topology_fault(template(**said), 4) == ""
    assert topology_request(template(**said)) == (None if want is None else {**want, **INDEX})


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ({"required_topology": "a", "preferred_topology": "a"}, "exclude each other"),
        ({"required_topology": "a", "unconstrained_topology": "true"}, "exclude each other"),
        ({"required_topology": "not a label"}, "use the label of a level"),
        ({"preferred_topology": "x" * 64}, "use the label of a level"),
        ({"required_topology": ""}, "use the label of a level"),
        ({"unconstrained_topology": "maybe"}, "use true or false"),
        ({"slice_required_topology": "rack"}, "belong together"),
        ({"slice_size": "2"}, "belong together"),
        ({"slice_required_topology": "rack", "slice_size": "5"}, "from 1 to its 4 pods"),
        ({"slice_required_topology": "rack", "slice_size": "0"}, "from 1 to its 4 pods"),
        ({"slice_required_topology": "rack", "slice_size": "two"}, "from 1 to its 4 pods"),
        ({"group_name": "g", "required_topology": "rack"}, "is not honoured"),
        ({"slice_required_topology_constraints": "[]"}, "is not honoured"),
    ],
)
def test_annotations_that_cannot_be_kept_are_named(said: dict[str, str], text: str) -> None:
    assert text in topology_fault(template(**said), 4)
