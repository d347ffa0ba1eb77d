"""Fixtures of tests that share no control plane, or no reconciler, with the other ones."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from tests.harness.client import Api
from tests.harness.control_plane import ControlPlane
from tests.harness.reconciler import Reconciler


def alone(
    *, controllers: bool = False, kubelet: bool = False, apiserver_args: Sequence[str] = ()
) -> tuple[Any, Any]:
    """Return the fixtures `control_plane` and `api` for a module; no pod runs without `kubelet`."""

    @pytest.fixture(scope="module")
    def control_plane() -> Iterator[ControlPlane]:
        with ControlPlane(
            kubelet=kubelet, controllers=controllers, apiserver_args=apiserver_args
        ) as control_plane:
            yield control_plane

    @pytest.fixture(scope="module")
    def api(control_plane: ControlPlane) -> Iterator[Api]:
        with Api(control_plane.admin_kubeconfig) as api:
            yield api

    return control_plane, api


@contextmanager
def in_place_of(
    reconciler: Reconciler, control_plane: ControlPlane, name: str, settings: Mapping[str, Any]
) -> Iterator[Reconciler]:
    """Yield a reconciler with other settings, while the one that all tests share rests."""
    reconciler.stop()
    settings = {"reconcile": {"leaderElect": False}, **settings}
    other = Reconciler(control_plane, name=name, settings=settings)
    other.wait_leading()
    yield other
    other.stop()
    reconciler.start()
