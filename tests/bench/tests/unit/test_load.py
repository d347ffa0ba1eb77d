"""The order in which pods are created, which gang they are of, and what the nodes take."""

import json
from typing import Any

import pytest

from tests.bench.load import GroupKind, Load, _pods, fits, gang_of, natively, nodes_of
from tests.harness.objects import Object


def test_gang_after_gang() -> None:
    load = Load(nodes=1, gangs=2, size=2)

    assert load.pods == 4
    assert load.pod_names() == ["gang-00000-0", "gang-00000-1", "gang-00001-0", "gang-00001-1"]


def test_every_pod_is_of_one_of_the_gangs() -> None:
    load = Load(nodes=1, gangs=3, size=11)

    assert {gang_of(name) for name in load.pod_names()} == set(load.gang_names())


def test_a_pod_that_the_job_controller_names_is_of_its_job() -> None:
    assert gang_of("gang-00001-13-x7k2p") == "gang-00001"


def test_gangs_that_cannot_fit_are_created_in_turn_with_the_others() -> None:
    load = Load(nodes=1, gangs=2, size=2).churned()

    assert load.gang_names() == [
        "gang-00000",
        "impossible-00000",
        "gang-00001",
        "impossible-00001",
    ]
    assert load.pods == 4
    assert len(load.pod_names()) == 8
    assert sum(fits(name) for name in load.pod_names()) == 4


def test_without_them_the_nodes_are_the_same() -> None:
    churned = Load(nodes=10, gangs=2, size=4).churned()
    alone = churned.alone()

    assert (alone.nodes, alone.large_nodes) == (10, 3)
    assert alone.pod_names() == [name for name in churned.pod_names() if fits(name)]


@pytest.mark.parametrize(("nodes", "size"), [(1000, 50), (20, 2), (3, 50)])
def test_gangs_that_cannot_fit_lack_a_node_for_one_pod_at_least(nodes: int, size: int) -> None:
    load = Load(nodes=nodes, gangs=1, size=size).churned()

    assert (load.large_node_cpu, load.impossible_cpu) == ("16000m", "8100m")
    assert 1 <= load.large_nodes < size


@pytest.mark.parametrize(
    ("changes", "want"),
    [
        pytest.param({}, 160, id="by cpu"),
        pytest.param({"pod_cpu": "3"}, 4, id="what is left of a node is of no use"),
        pytest.param({"pod_cpu": "1m"}, 220, id="by the number of pods"),
        pytest.param({"pod_cpu": "9"}, 0, id="none"),
        pytest.param({"large_nodes": 5}, 160, id="large nodes are for others"),
    ],
)
def test_a_load_has_room_for_so_many_pods(changes: dict[str, Any], want: int) -> None:
    assert Load(**{"nodes": 2, "gangs": 1, "size": 1, **changes}).room == want


def test_pods_that_cannot_all_fit_ask_for_large_nodes() -> None:
    load = Load(nodes=1, gangs=1, size=2).churned()

    nodes = [json.loads(each)["status"]["allocatable"] for each in nodes_of(load)]
    pods = [json.loads(each) for each in _pods(load, GroupKind())]

    assert [(node["cpu"], node["pods"]) for node in nodes] == [("8", "110"), ("16000m", "110")]
    assert [_cpu(pod) for pod in pods] == ["100m", "100m", "8100m", "8100m"]


def _cpu(pod: Object) -> str:
    cpu: str = pod["spec"]["containers"][0]["resources"]["requests"]["cpu"]
    return cpu


def test_native_pods_name_their_group_in_their_spec_alone() -> None:
    load, kind = Load(nodes=1, gangs=1, size=2), natively()

    [first, _] = [json.loads(each) for each in _pods(load, kind)]
    assert first["spec"]["schedulingGroup"] == {"podGroupName": "gang-00000"}
    assert "labels" not in first["metadata"]
    group = kind.group("gang-00000", 2)
    assert group["apiVersion"] == kind.api_version == "scheduling.k8s.io/v1alpha2"
    assert group["spec"] == {"schedulingPolicy": {"gang": {"minCount": 2}}}
    assert GroupKind().group("g", 2)["spec"] == {"minMember": 2}
