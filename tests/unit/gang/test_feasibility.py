"""Which nodes a pod may use, room aside."""

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
from extender.gang.feasibility import is_feasible, matches
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
def test_is_feasible(asked: dict[str, Any], there: dict[str, Any], want: bool) -> None:
    assert is_feasible(shape(**asked), node("n0", **there)) is want


WANT_MATCH: dict[str, tuple[Requirement, bool, bool]] = {
    "In, one of the values": (Requirement("k", "In", ["5", "6"]), True, False),
    "In, none of the values": (Requirement("k", "In", ["6"]), False, False),
    "In, no values": (Requirement("k", "In"), False, False),
    "NotIn, one of the values": (Requirement("k", "NotIn", ["5"]), False, True),
    "NotIn, none of the values": (Requirement("k", "NotIn", ["6"]), True, True),
    "Exists": (Requirement("k", "Exists"), True, False),
    "DoesNotExist": (Requirement("k", "DoesNotExist"), False, True),
    "Gt, larger": (Requirement("k", "Gt", ["4"]), True, False),
    "Gt, equal": (Requirement("k", "Gt", ["5"]), False, False),
    "Gt, compared as numbers": (Requirement("k", "Gt", ["10"]), False, False),
    "Lt, smaller": (Requirement("k", "Lt", ["10"]), True, False),
    "Lt, equal": (Requirement("k", "Lt", ["5"]), False, False),
    "Gt, a word": (Requirement("k", "Gt", ["many"]), False, False),
    "Lt, no values": (Requirement("k", "Lt"), False, False),
    "an operator of the future": (Requirement("k", "Resembles", ["5"]), False, False),
}


@pytest.mark.parametrize(
    ("requirement", "want", "want_absent"), WANT_MATCH.values(), ids=WANT_MATCH
)
def test_matches_a_label_of_5_and_none(
    requirement: Requirement, want: bool, want_absent: bool
) -> None:
    assert matches(requirement, {"k": "5"}) is want
    assert matches(requirement, {"other": "5"}) is want_absent


@pytest.mark.parametrize("operator", ["Gt", "Lt"])
def test_a_label_that_is_no_number_compares_with_nothing(operator: str) -> None:
    assert not matches(Requirement("k", operator, ["5"]), {"k": "five"})
