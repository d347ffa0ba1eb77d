"""Fixtures of a module that has a control plane of its own: nobody else writes what it looks at."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.harness.client import Api
from tests.harness.control_plane import ControlPlane


def alone(*, controllers: bool = False) -> tuple[Any, Any]:
    """Return the fixtures `control_plane`, in which no pod runs, and `api` for a module."""

    @pytest.fixture(scope="module")
    def control_plane() -> Iterator[ControlPlane]:
        with ControlPlane(kubelet=False, controllers=controllers) as control_plane:
            yield control_plane

    @pytest.fixture(scope="module")
    def api(control_plane: ControlPlane) -> Iterator[Api]:
        with Api(control_plane.admin_kubeconfig) as api:
            yield api

    return control_plane, api
