"""What is measured: our reconciler, or any other program that serves the same API."""

import shlex
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psutil

from tests.harness.client import Api
from tests.harness.control_plane import ControlPlane
from tests.harness.gang_scheduler import ROOT
from tests.harness.process import Component
from tests.harness.reconciler import Reconciler

OURS, EXTERNAL = "ours", "external"
CRDS = ROOT / "manifests" / "crds"
_NAMESPACE: Final = "kube-system"


@dataclass(frozen=True, slots=True, kw_only=True)
class Controller:
    """One column of the report. `start` also applies the CRDs; what it returns runs."""

    key: str
    title: str
    start: Callable[[ControlPlane], Component]


def ours(settings: Mapping[str, Any] | None = None) -> Controller:
    """Return `gang-extender reconcile` with the rights of its service account.

    It is not elected, unless `settings` say so: there is no other, and one that shares two cores
    with an API server under load may lose its lease.
    """
    given = dict(settings or {})
    given["reconcile"] = {"leaderElect": False, **given.get("reconcile", {})}

    def start(control_plane: ControlPlane) -> Component:
        reconciler = Reconciler(control_plane, settings=given)
        reconciler.wait_leading()
        return reconciler.process

    return Controller(key=OURS, title="gang-extender", start=start)


def external(command: str, *, name: str = EXTERNAL, crds: Path = CRDS) -> Controller:
    """Return a program that finds the API server, with all rights, by KUBECONFIG."""

    def start(control_plane: ControlPlane) -> Component:
        with Api(control_plane.admin_kubeconfig) as api:
            api.apply(crds)
        kubeconfig = with_all_rights(control_plane, "bench-controller")
        return control_plane.spawn(
            "controller", shlex.split(command), env={"KUBECONFIG": str(kubeconfig)}
        )

    return Controller(key=EXTERNAL, title=name, start=start)


def measured(
    settings: Mapping[str, Any] | None, other: Controller | None, *, both: bool
) -> list[Controller]:
    """Return ours with these settings, or the other one in its place, or `both`."""
    return [*([ours(settings)] if both or not other else []), *([other] if other else [])]


def stop(component: Component) -> None:
    """Stop a program, and whatever it had started and left behind."""
    children: list[psutil.Process] = []
    if component.running:
        with suppress(psutil.NoSuchProcess):
            children = psutil.Process(component.pid).children(recursive=True)
    component.stop()
    for child in children:
        with suppress(psutil.NoSuchProcess):
            child.kill()


def with_all_rights(control_plane: ControlPlane, name: str) -> Path:
    """Make a service account that may do everything, for a program; return its kubeconfig.

    It has a token, as programs in a cluster have. The API server takes some 0.3 ms longer for each
    request with a certificate, and those of `system:masters` pass its flow control by: neither is
    what is measured.
    """
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": "cluster-admin",
        },
        "subjects": [{"kind": "ServiceAccount", "namespace": _NAMESPACE, "name": name}],
    }
    account = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"namespace": _NAMESPACE, "name": name},
    }
    with Api(control_plane.admin_kubeconfig) as api:
        api.apply([account, binding])
    return control_plane.service_account_kubeconfig(_NAMESPACE, name)
