"""What a pod takes of its node, against what kube-scheduler's own rules say."""

from fractions import Fraction
from typing import Any

import msgspec
import pytest

from tests.harness.books.amounts import (
    Spec,
    Status,
    allocatable,
    clashes,
    host_ports,
    nanos,
    uses,
)


def container(name: str = "main", **requests: str) -> dict[str, Any]:
    return {"name": name, "resources": {"requests": requests}}


def sidecar(name: str = "side", **requests: str) -> dict[str, Any]:
    return {**container(name, **requests), "restartPolicy": "Always"}


def resized(
    *, actual: str, allocated: str, name: str = "main", where: str = "containerStatuses"
) -> dict[str, Any]:
    known = {
        "name": name,
        "resources": {"requests": {"cpu": actual}},
        "allocatedResources": {"cpu": allocated},
    }
    return {where: [known]}


def used(spec: dict[str, Any], status: dict[str, Any] | None = None) -> dict[str, int]:
    found = uses(msgspec.convert(spec, Spec), msgspec.convert(status or {}, Status))
    assert found.pop("pods") == 1
    return found


INFEASIBLE = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
DEFERRED = {"type": "PodResizePending", "status": "True", "reason": "Deferred"}

SUMS: dict[str, tuple[dict[str, Any], dict[str, int]]] = {
    "nothing is asked for": ({"containers": [{"name": "main"}]}, {}),
    "containers are added": (
        {"containers": [container("a", cpu="1", memory="1Gi"), container("b", cpu="500m")]},
        {"cpu": 1500, "memory": 2**30},
    ),
    "an init container sets the least": (
        {"containers": [container(cpu="1")], "initContainers": [container("i", cpu="3")]},
        {"cpu": 3000},
    ),
    "init containers run one after the other": (
        {
            "containers": [container(cpu="1")],
            "initContainers": [container("i", cpu="1"), container("j", cpu="1")],
        },
        {"cpu": 1000},
    ),
    "a sidecar runs beside the containers": (
        {"containers": [container(cpu="1")], "initContainers": [sidecar(cpu="1")]},
        {"cpu": 2000},
    ),
    "an init container runs beside the sidecars before it": (
        {
            "containers": [container(cpu="1")],
            "initContainers": [sidecar(cpu="1"), container("i", cpu="4"), sidecar("s2", cpu="1")],
        },
        {"cpu": 5000},
    ),
    "and not beside those after it": (
        {
            "containers": [container(cpu="1")],
            "initContainers": [container("i", cpu="4"), sidecar(cpu="1")],
        },
        {"cpu": 4000},
    ),
    "overhead is added": (
        {"containers": [container(cpu="1")], "overhead": {"cpu": "250m", "memory": "1Mi"}},
        {"cpu": 1250, "memory": 2**20},
    ),
    "what the pod asks for as a whole is in place of its containers'": (
        {
            "containers": [container(cpu="1", memory="1Gi")],
            "resources": {"requests": {"cpu": "3", "hugepages-2Mi": "4Mi"}},
            "overhead": {"cpu": "1"},
        },
        {"cpu": 4000, "memory": 2**30, "hugepages-2Mi": 2**22},
    ),
    "a pod as a whole asks for nothing else": (
        {"containers": [container()], "resources": {"requests": {"example.com/gpu": "3"}}},
        {},
    ),
    "extended resources are counted": (
        {"containers": [container(**{"example.com/gpu": "2"}), container("b", cpu="1")]},
        {"example.com/gpu": 2, "cpu": 1000},
    ),
    "sums are rounded up once": (
        {"containers": [container("a", cpu="100u"), container("b", cpu="100u", memory="100m")]},
        {"cpu": 1, "memory": 1},
    ),
}

RESIZES: dict[str, tuple[dict[str, Any], dict[str, Any], int]] = {
    "what is not yet given back": (
        {"containers": [container(cpu="1")]},
        resized(actual="3", allocated="1"),
        3000,
    ),
    "what is allocated": (
        {"containers": [container(cpu="1")]},
        resized(actual="1", allocated="2"),
        2000,
    ),
    "what is asked for and deferred": (
        {"containers": [container(cpu="5")]},
        {**resized(actual="1", allocated="2"), "conditions": [DEFERRED]},
        5000,
    ),
    "not what is infeasible": (
        {"containers": [container(cpu="5")]},
        {**resized(actual="1", allocated="2"), "conditions": [INFEASIBLE]},
        2000,
    ),
    "of a sidecar": (
        {"containers": [container(cpu="1")], "initContainers": [sidecar(cpu="1")]},
        resized(actual="3", allocated="1", name="side", where="initContainerStatuses"),
        4000,
    ),
    "not of an init container": (
        {"containers": [container(cpu="1")], "initContainers": [container("i", cpu="2")]},
        resized(actual="3", allocated="1", name="i", where="initContainerStatuses"),
        2000,
    ),
    "of a pod as a whole": (
        {"containers": [container(cpu="1")], "resources": {"requests": {"cpu": "2"}}},
        {"resources": {"requests": {"cpu": "4"}}, "allocatedResources": {"cpu": "3"}},
        4000,
    ),
}


@pytest.mark.parametrize(("spec", "want"), SUMS.values(), ids=SUMS)
def test_what_a_pod_takes(spec: dict[str, Any], want: dict[str, int]) -> None:
    assert used(spec) == want


@pytest.mark.parametrize(("spec", "status", "want"), RESIZES.values(), ids=RESIZES)
def test_a_pod_that_is_resized_takes_the_largest(
    spec: dict[str, Any], status: dict[str, Any], want: int
) -> None:
    assert used(spec, status) == {"cpu": want}


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("0", 0),
        ("1", 1),
        ("100m", Fraction(1, 10)),
        ("1.5", Fraction(3, 2)),
        (".5", Fraction(1, 2)),
        ("2k", 2000),
        ("1Ki", 1024),
        ("1.5Gi", 3 * 2**29),
        ("1e3", 1000),
        ("1E", 10**18),
        ("12E-1", Fraction(12, 10)),
        ("3Ei", 3 * 2**60),
        ("7n", Fraction(7, 10**9)),
    ],
)
def test_a_quantity_is_read(text: str, want: Fraction) -> None:
    assert nanos(text) == want * 10**9


@pytest.mark.parametrize("text", ["", "m", "1x", "1 Gi"])
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no quantity"):
        nanos(text)


def test_what_a_node_has_is_rounded_as_what_pods_take() -> None:
    found = allocatable({"cpu": "1500500u", "memory": "1Ki", "pods": "110"})
    assert found == {"cpu": 1501, "memory": 1024, "pods": 110}


def test_ports_are_those_of_containers_that_run_as_long_as_the_pod() -> None:
    spec = {
        "containers": [
            {"name": "a", "ports": [{"containerPort": 1, "hostPort": 80}, {"containerPort": 2}]},
        ],
        "initContainers": [
            {
                "name": "s",
                "restartPolicy": "Always",
                "ports": [
                    {"containerPort": 1, "hostPort": 53, "protocol": "UDP", "hostIP": "10.0.0.1"},
                ],
            },
            {"name": "i", "ports": [{"containerPort": 1, "hostPort": 90}]},
        ],
    }
    found = host_ports(msgspec.convert(spec, Spec))
    assert found == {("0.0.0.0", "TCP", 80), ("10.0.0.1", "UDP", 53)}


@pytest.mark.parametrize(
    ("one", "other", "want"),
    [
        (("0.0.0.0", "TCP", 80), ("0.0.0.0", "TCP", 80), True),
        (("0.0.0.0", "TCP", 80), ("10.0.0.1", "TCP", 80), True),
        (("10.0.0.1", "TCP", 80), ("0.0.0.0", "TCP", 80), True),
        (("10.0.0.1", "TCP", 80), ("10.0.0.1", "TCP", 80), True),
        (("10.0.0.1", "TCP", 80), ("10.0.0.2", "TCP", 80), False),
        (("0.0.0.0", "TCP", 80), ("0.0.0.0", "UDP", 80), False),
        (("0.0.0.0", "TCP", 80), ("0.0.0.0", "TCP", 81), False),
    ],
)
def test_ports_that_clash(
    one: tuple[str, str, int], other: tuple[str, str, int], want: bool
) -> None:
    assert clashes(one, other) is want
