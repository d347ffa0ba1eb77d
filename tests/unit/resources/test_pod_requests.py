"""What a pod asks a node for."""

from typing import Any

import pytest

from extender.resources.quantity import ContainerRequests, Resources, pod_requests


def container(cpu: int = 0, memory: int = 0, *, sidecar: bool = False) -> ContainerRequests:
    return ContainerRequests({"cpu": cpu, "memory": memory}, sidecar=sidecar)


WANT: dict[str, tuple[dict[str, Any], Resources]] = {
    "no container asks for anything": (
        {"containers": [ContainerRequests()]},
        {"pods": 1},
    ),
    "containers add up": (
        {"containers": [container(1, 10), container(2, 20)]},
        {"cpu": 3, "memory": 30, "pods": 1},
    ),
    "a small init container makes no difference": (
        {"containers": [container(3)], "init_containers": [container(2)]},
        {"cpu": 3, "pods": 1},
    ),
    "the largest init container counts, by resource": (
        {
            "containers": [container(3, 10)],
            "init_containers": [container(5, 1), container(1, 50), container(4, 4)],
        },
        {"cpu": 5, "memory": 50, "pods": 1},
    ),
    "a sidecar runs beside the containers": (
        {"containers": [container(3)], "init_containers": [container(2, sidecar=True)]},
        {"cpu": 5, "pods": 1},
    ),
    "an init container runs beside the sidecars started before it": (
        {
            "containers": [container(1)],
            "init_containers": [container(2, sidecar=True), container(4)],
        },
        {"cpu": 6, "pods": 1},
    ),
    "a sidecar started later does not": (
        {
            "containers": [container(1)],
            "init_containers": [container(4), container(2, sidecar=True)],
        },
        {"cpu": 4, "pods": 1},
    ),
    "sidecars add up": (
        {
            "containers": [container(1)],
            "init_containers": [
                container(2, sidecar=True),
                container(3, sidecar=True),
                container(4),
            ],
        },
        {"cpu": 9, "pods": 1},
    ),
    "overhead comes on top": (
        {"containers": [container(1)], "init_containers": [container(2)], "overhead": {"cpu": 7}},
        {"cpu": 9, "pods": 1},
    ),
    "pod-level requests count where they are larger than the sum": (
        {"containers": [container(3, 10)], "pod_level": {"cpu": 4, "memory": 12}},
        {"cpu": 4, "memory": 12, "pods": 1},
    ),
    "smaller ones do not: where the field is not known, the server drops it": (
        {"containers": [container(3, 10)], "pod_level": {"cpu": 2}},
        {"cpu": 3, "memory": 10, "pods": 1},
    ),
    "overhead comes on top of pod-level requests too": (
        {"containers": [container(3)], "pod_level": {"cpu": 4}, "overhead": {"cpu": 1}},
        {"cpu": 5, "pods": 1},
    ),
}


@pytest.mark.parametrize(("given", "want"), WANT.values(), ids=WANT)
def test_requests_are_counted_as_kube_scheduler_does(
    given: dict[str, Any], want: Resources
) -> None:
    assert pod_requests(**given) == want
