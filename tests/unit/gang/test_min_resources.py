"""Whether minResources are there, all nodes together."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from extender.api.core_v1 import Toleration
from extender.gang.fit import lacking_resources, listed
from extender.gang.status import decide
from extender.gang.verdicts import GangOptions
from extender.resources.quantity import parse_resources
from extender.state.cluster import events as ev
from extender.state.cluster.records import JobInfo, PodGroupStatusInfo
from extender.state.cluster.store import Cluster
from extender.steps import at_once
from tests.makers import (
    cluster_of,
    node,
    nodes,
    observe,
    planned,
    pod,
    pod_group,
    pods,
    shape,
    taint,
)

A, B = pods(2, 3)
TOLERATION = Toleration(operator="Exists")

WANT: dict[str, tuple[Mapping[str, str], Sequence[Any], Mapping[str, int]]] = {
    "none are asked for": ({}, [], {}),
    "they are there": ({"cpu": "8"}, nodes(4, 4), {}),
    "they are not": ({"cpu": "9"}, nodes(4, 4), {"cpu": 1000}),
    "only what is short is named": (
        {"cpu": "9", "example.com/gpu": "2"},
        [node("n0", 9, gpu=1)],
        {"example.com/gpu": 1},
    ),
    "slots for pods are not looked at": ({"pods": "500"}, nodes(4), {}),
    "pods of others take room": ({"cpu": "8"}, [*nodes(4, 4), pod("p", 2, on="n0")], {"cpu": 2000}),
    "an overcommitted node is full and no debt": (
        {"cpu": "4"},
        [*nodes(4, 4), pod("p", 6, on="n0")],
        {},
    ),
    "plans of others take room": (
        {"cpu": "8"},
        [*nodes(4, 4), pods(1, 1, group="rival"), planned(rival_0="n0")],
        {"cpu": 1000},
    ),
    "plans of lesser ones do not": (
        {"cpu": "8"},
        [*nodes(4, 4), pods(1, 1, group="rival", priority=-1), planned(rival_0="n0")],
        {},
    ),
    "what the group has counts as there": (
        {"cpu": "8"},
        [*nodes(4, 4), pod("own", 3, group="gang", on="n0")],
        {},
    ),
    "what the group waits with and plans counts as there": (
        {"cpu": "8"},
        [*nodes(4, 4), B, ev.PodWaiting(B, "n0"), A, planned(gang_0="n1")],
        {},
    ),
    "cordoned, tainted and broken nodes do not count": (
        {"cpu": "4"},
        [
            node("n0", 1),
            node("n1", unschedulable=True),
            node("n2", taints=(taint(),)),
            node("n3", ready=False),
        ],
        {"cpu": 3000},
    ),
    "nodes for any of its pods count": (
        {"example.com/gpu": "1"},
        [
            node("n0"),
            node("n1", gpu=1, labels={"zone": "a"}, taints=(taint(),)),
            pod("worker", shape(1, selector={"zone": "a"}, tolerations=[TOLERATION]), group="gang"),
        ],
        {},
    ),
    "there are no nodes": ({"cpu": "4"}, [], {"cpu": 4000}),
}


@pytest.mark.parametrize(("asked", "there", "want"), WANT.values(), ids=WANT)
def test_which_of_its_min_resources_a_group_is_short_of(
    asked: Mapping[str, str], there: Sequence[Any], want: Mapping[str, int]
) -> None:
    group = pod_group(min_resources=parse_resources(asked))
    view = cluster_of(group, A, there).view()

    assert at_once(lacking_resources(group, view=view)) == want


def test_a_shortage_in_words() -> None:
    assert listed({"memory": 2**30, "cpu": 500}) == "cpu 500m, memory 1Gi"


@pytest.mark.parametrize(
    ("wanted", "others", "want"),
    [
        ("12", [], {"cpu": 1000}),
        ("6", [], {}),
        ("99", [], {"cpu": 1000}),
        ("12", pods(1, 0), {}),
    ],
)
def test_what_members_are_done_with_is_no_longer_wanted(
    wanted: str, others: Sequence[Any], want: Mapping[str, int]
) -> None:
    """Two of the three pods are left, of three CPUs each, and five are free."""
    asked = parse_resources({"cpu": wanted})
    group = pod_group(min_member=3, min_resources=asked)
    done = ev.ObjectApplied(JobInfo("job", group.key, 3, 1))
    members = [*others, B] if others else [A, B]
    view = cluster_of(nodes(5), group, members, done).view()
    assert at_once(lacking_resources(group, view=view)) == want


@pytest.mark.parametrize(
    ("asked", "want"), [({"cpu": "24"}, {"cpu": 1000}), ({"cpu": "5"}, {}), ({"disk": "1"}, {})]
)
def test_where_nodes_are_added_for_pods_only_what_they_request_counts(
    asked: Mapping[str, str], want: Mapping[str, int]
) -> None:
    """Three pods of two CPUs each, and five are free."""
    group = pod_group(min_resources=parse_resources(asked))
    cluster = Cluster(growing=True)
    observe(cluster, nodes(5), group, pods(3, 2))
    assert at_once(lacking_resources(group, view=cluster.view())) == want


def test_what_does_not_count_is_said() -> None:
    group = pod_group(min_resources=parse_resources({"cpu": "24"}))
    text = "; of its minResources, what its pods do not request does not count: cpu 18"
    for growing in (True, False):
        cluster = Cluster(growing=growing)
        observe(cluster, nodes(5), group, pods(3, 2))
        found = decide(
            group,
            view=cluster.view(),
            stored=PodGroupStatusInfo(),
            now=1000.0,
            options=GangOptions(growing=growing),
        )
        said = found.status.condition("Scheduled")
        assert said is not None
        assert said.message.endswith(text) is growing
