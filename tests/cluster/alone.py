"""Fixtures of tests that share no control plane, pair or reconciler with the other ones."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import pytest

from tests.harness.client import Api
from tests.harness.control_plane import ControlPlane
from tests.harness.gang_scheduler import GangScheduler
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


def pair_of(
    name: str, *, scope: Literal["function", "module", "session"] = "module", **options: Any
) -> Any:
    """Return a fixture: a pair of extender and kube-scheduler, for pods with that schedulerName.

    Options are those of GangScheduler.
    """

    @pytest.fixture(scope=scope)
    def pair(control_plane: ControlPlane) -> Iterator[GangScheduler]:
        scheduler = GangScheduler(control_plane, name=name, **options)
        yield scheduler
        scheduler.stop()

    return pair


def backing_off(seconds: int) -> dict[str, Any]:
    """Return the options of a kube-scheduler that brings a refused pod after so long, not before.

    An idle one would take pods from its backoff queue at once.
    """
    return {
        "scheduler": {"podInitialBackoffSeconds": seconds, "podMaxBackoffSeconds": seconds},
        "scheduler_args": ("--feature-gates=SchedulerPopFromBackoffQ=false",),
    }


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
