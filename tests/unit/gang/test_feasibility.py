"""Which nodes a pod may use, room aside."""

from dataclasses import replace
from typing import Any

import pytest

from extender.api.core_v1 import (
    Affinity,
    NodeAffinity,
    NodeSelectorTerm,
    Requirement,
    Taint,
    Toleration,
)
from extender.fit.candidates import is_feasible
from tests.makers import affinity, labelled, node, shape, taint

Case = tuple[dict[str, Any], dict[str, Any], bool]
"""The pod, the node, and whether they go together."""

EVERYTHING = Toleration(operator="Exists")
ML = Toleration(key="dedicated", value="ml")

WANT: dict[str, Case] = {
    "a plain pod on a plain node": ({}, {}, True),
    "a node that is not ready": ({}, {"ready": False}, False),
    "a cordoned node": ({}, {"unschedulable": True}, False),
    "a cordoned node for a pod that tolerates it": (
        {"tolerations": [Toleration("node.kubernetes.io/unschedulable", "Exists")]},
        {"unschedulable": True},
        True,
    ),
    "a cordoned node for a pod that tolerates everything": (
        {"tolerations": [EVERYTHING]},
        {"unschedulable": True},
        True,
    ),
    "a node that is not ready, for a pod that tolerates everything": (
        {"tolerations": [EVERYTHING]},
        {"ready": False},
        False,
    ),
    "a taint": ({}, {"taints": (taint(),)}, False),
    "a taint that bars from running": ({}, {"taints": (taint(effect="NoExecute"),)}, False),
    "a taint that is a wish": ({}, {"taints": (taint(effect="PreferNoSchedule"),)}, True),
    "a tolerated taint": ({"tolerations": [ML]}, {"taints": (taint(),)}, True),
    "a taint of another value": ({"tolerations": [ML]}, {"taints": (taint(value="db"),)}, False),
    "a taint of another key": ({"tolerations": [ML]}, {"taints": (taint("special"),)}, False),
    "a taint whose value does not matter": (
        {"tolerations": [Toleration("dedicated", "Exists")]},
        {"taints": (taint(),)},
        True,
    ),
    "a toleration of every key": ({"tolerations": [EVERYTHING]}, {"taints": (taint(),)}, True),
    "an empty key tolerates nothing by equality": (
        {"tolerations": [Toleration(value="ml")]},
        {"taints": (taint(),)},
        False,
    ),
    "an empty operator is equality": (
        {"tolerations": [Toleration("dedicated", "", "ml")]},
        {"taints": (taint(),)},
        True,
    ),
    "a toleration of another effect": (
        {"tolerations": [Toleration("dedicated", "Equal", "ml", "NoExecute")]},
        {"taints": (taint(),)},
        False,
    ),
    "a toleration of the effect": (
        {"tolerations": [Toleration("dedicated", "Equal", "ml", "NoSchedule")]},
        {"taints": (taint(),)},
        True,
    ),
    "one of two taints is tolerated": (
        {"tolerations": [ML]},
        {"taints": (taint(), taint("special"))},
        False,
    ),
    "both taints are tolerated": (
        {"tolerations": [ML, Toleration("special", "Exists")]},
        {"taints": (taint(), taint("special"))},
        True,
    ),
    "a taint without a value": (
        {"tolerations": [Toleration(key="dedicated")]},
        {"taints": (Taint("dedicated", effect="NoSchedule"),)},
        True,
    ),
    "a node selector that matches": (
        {"selector": {"zone": "a"}},
        {"labels": {"zone": "a", "more": "x"}},
        True,
    ),
    "a node selector that does not": (
        {"selector": {"zone": "a"}},
        {"labels": {"zone": "b"}},
        False,
    ),
    "a node selector for a label that is not there": ({"selector": {"zone": "a"}}, {}, False),
    "half of a node selector": (
        {"selector": {"zone": "a", "disk": "ssd"}},
        {"labels": {"zone": "a"}},
        False,
    ),
    "affinity to a label": (
        {"affinity": affinity(labelled("zone", "In", "a", "b"))},
        {"labels": {"zone": "b"}},
        True,
    ),
    "affinity to another label": (
        {"affinity": affinity(labelled("zone", "In", "a", "b"))},
        {"labels": {"zone": "c"}},
        False,
    ),
    "one of two terms is enough": (
        {"affinity": affinity(labelled("zone", "In", "a"), labelled("disk", "Exists"))},
        {"labels": {"disk": "ssd"}},
        True,
    ),
    "both requirements of one term are needed": (
        {
            "affinity": affinity(
                NodeSelectorTerm([Requirement("zone", "Exists"), Requirement("disk", "Exists")])
            )
        },
        {"labels": {"disk": "ssd"}},
        False,
    ),
    "affinity to a node by name": (
        {
            "affinity": affinity(
                NodeSelectorTerm(match_fields=[Requirement("metadata.name", "In", ["n0"])])
            )
        },
        {},
        True,
    ),
    "affinity to another node by name": (
        {
            "affinity": affinity(
                NodeSelectorTerm(match_fields=[Requirement("metadata.name", "In", ["n1"])])
            )
        },
        {},
        False,
    ),
    "labels and name of one term are both needed": (
        {
            "affinity": affinity(
                NodeSelectorTerm(
                    [Requirement("zone", "Exists")],
                    [Requirement("metadata.name", "In", ["n0"])],
                )
            )
        },
        {},
        False,
    ),
    "an empty term selects nothing": ({"affinity": affinity(NodeSelectorTerm())}, {}, False),
    "no term selects nothing": ({"affinity": affinity()}, {}, False),
    "affinity that requires nothing": ({"affinity": Affinity(NodeAffinity())}, {}, True),
    "affinity to other pods only": ({"affinity": Affinity()}, {}, True),
}


@pytest.mark.parametrize(("asked", "there", "want"), WANT.values(), ids=WANT)
def test_whether_a_node_is_feasible_for_a_shape(
    asked: dict[str, Any], there: dict[str, Any], want: bool
) -> None:
    assert is_feasible(shape(**asked), node("n0", **there)) is want


@pytest.mark.parametrize(("declared", "want"), [("", False), ("bc", False), ("abc", True)])
def test_a_node_has_to_declare_all_that_a_pod_needs(declared: str, want: bool) -> None:
    asks = replace(shape(1), features=frozenset("ab"))

    assert is_feasible(asks, node("n0", features=frozenset(declared))) is want
