"""Fixtures of tests that share no control plane, pair or reconciler with the other ones."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal
from uuid import uuid4

import pytest

from tests.harness.client import Api
from tests.harness.control_plane import ControlPlane
from tests.harness.faulty_proxy import FaultyProxy
from tests.harness.gang_scheduler import GangScheduler
from tests.harness.kubeconfig import read
from tests.harness.reconciler import Reconciler


def alone(
    *,
    controllers: bool = False,
    kubelet: bool = False,
    apiserver_args: Sequence[str] = (),
    front_proxies: bool = False,
) -> tuple[Any, Any]:
    """Return the fixtures `control_plane` and `api` for a module; no pod runs without `kubelet`.

    An authority for front proxies is what every real one has, and a kube-scheduler looks for it.
    """

    @pytest.fixture(scope="module")
    def control_plane() -> Iterator[ControlPlane]:
        made = ControlPlane(kubelet=kubelet, controllers=controllers, apiserver_args=apiserver_args)
        if front_proxies:
            made.apiserver.argv += [
                f"--requestheader-client-ca-file={made.authority}",
                "--requestheader-username-headers=X-Remote-User",
                "--requestheader-allowed-names=front-proxy-client",
            ]
        with made:
            yield made

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


@dataclass(frozen=True)
class Proxied:
    """A pair, and the proxy between one of its processes and the API server."""

    gang: GangScheduler
    proxy: FaultyProxy


def pair_behind_proxy(name: str, *, user: str = "") -> Any:
    """Return a fixture: a pair as of `pair_of`, and a proxy before the extender.

    With a user it is before kube-scheduler, which is that user.
    """

    @pytest.fixture(scope="module")
    def pair(control_plane: ControlPlane) -> Iterator[Proxied]:
        certificate = read(control_plane.kubeconfig(user)).certificate if user else None
        with FaultyProxy(control_plane, seed=1, certificate=certificate) as proxy:
            port: Any = {"scheduler_api_port" if user else "api_port": proxy.port}
            gang = GangScheduler(control_plane, name=name, **port)
            yield Proxied(gang, proxy)
            gang.stop()

    return pair


def priority_class(value: int, **more: Any) -> Any:
    """Return a fixture: the name of a class of pods."""

    @pytest.fixture(scope="module")
    def made(api: Api) -> Iterator[str]:
        name = f"class-{uuid4().hex[:8]}"
        kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
        api.create({**kind, "metadata": {"name": name}, "value": value, **more})
        yield name
        api.delete("scheduling.k8s.io/v1/priorityclasses", name)

    return made


def backing_off(seconds: int) -> dict[str, Any]:
    """Return the options of a kube-scheduler that brings a refused pod after so long, not before.

    An idle one would take pods from its backoff queue at once.
    """
    return {
        "scheduler": {"podInitialBackoffSeconds": seconds, "podMaxBackoffSeconds": seconds},
        "scheduler_args": ("--feature-gates=SchedulerPopFromBackoffQ=false",),
    }


def namespace_of(api: Api, **labels: str) -> str:
    """Make a namespace, and return its name."""
    name = f"test-{uuid4().hex[:8]}"
    meta = {"name": name, "labels": labels}
    api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
    return name


@pytest.fixture
def unswept(api: Api) -> str:
    """A fresh namespace, which stays: the control plane ends before the next module."""
    return namespace_of(api)


@contextmanager
def in_place_of(
    reconciler: Reconciler, control_plane: ControlPlane, name: str, settings: Mapping[str, Any]
) -> Iterator[Reconciler]:
    """Yield a reconciler with other settings, while the one that all tests share rests."""
    reconciler.stop()
    settings = {"reconcile": {"leaderElect": False}, **settings}
    other = Reconciler(control_plane, name=name, settings=settings)
    other.wait_leading()
    try:
        yield other
    finally:
        other.stop()
        reconciler.start()
