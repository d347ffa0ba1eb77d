"""Gangs that come while the scheduler runs: each when it is due, with all its pods."""

import itertools
import time
from collections.abc import Iterator

import pytest

from tests.bench.creation import Creation, Pace
from tests.bench.load import NAMESPACE, GroupKind, Load, gang_of
from tests.bench.sides import CRDS
from tests.harness import objects
from tests.harness.client import Api
from tests.harness.control_plane import ControlPlane

LOAD = Load(nodes=1, gangs=3, size=4)


@pytest.fixture
def control_plane() -> Iterator[ControlPlane]:
    with ControlPlane(kubelet=False) as control_plane:
        yield control_plane


@pytest.fixture
def api(control_plane: ControlPlane) -> Iterator[Api]:
    with Api(control_plane.admin_kubeconfig) as api:
        api.apply(CRDS)
        yield api


def created(control_plane: ControlPlane, pace: str) -> list[list[float]]:
    """Return when the pods of each gang were first seen, in seconds since it began."""
    with Creation(control_plane.admin_kubeconfig, LOAD, GroupKind(), Pace.parse(pace)) as creation:
        began = time.monotonic()
        creation.begin()
        control_plane.wait_until("all pods are there", lambda: len(creation.times()) == LOAD.pods)
        creation.check()
        times = sorted((gang_of(pod), at - began) for pod, at in creation.times().items())
    gangs = itertools.groupby(times, key=lambda each: each[0])
    return [[at for _, at in gang] for _, gang in gangs]


def test_gangs_come_at_once_each_after_its_group(control_plane: ControlPlane, api: Api) -> None:
    gangs = created(control_plane, "burst")

    assert [len(gang) for gang in gangs] == [LOAD.size] * LOAD.gangs
    for gang in LOAD.gang_names():
        group = api.get(f"{objects.POD_GROUP_V1ALPHA1}/podgroups", gang, NAMESPACE)
        assert group["spec"]["minMember"] == LOAD.size
    for pod in api.list("pods", NAMESPACE):
        metadata = pod["metadata"]
        assert metadata["labels"][objects.POD_GROUP_LABEL] == gang_of(metadata["name"])


def test_so_many_gangs_come_in_a_second(control_plane: ControlPlane, api: Api) -> None:
    gangs = created(control_plane, "0.5")

    assert [len(gang) for gang in gangs] == [LOAD.size] * LOAD.gangs
    assert all(min(gang) >= 2 * number for number, gang in enumerate(gangs))
