"""What is measured: our reconciler, or any other program that serves the same API."""

import shlex
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import psutil

from tests.harness import objects
from tests.harness.client import Api
from tests.harness.control_plane import ControlPlane
from tests.harness.gang_scheduler import ROOT, GangScheduler
from tests.harness.process import Component
from tests.harness.reconciler import Reconciler

OURS, EXTERNAL, WHOLE = "ours", "external", "whole"
CONTROLLER: Final = "controller"
CRDS = ROOT / "manifests" / "crds"
_NAMESPACE: Final = "kube-system"
# By its own settings kube-scheduler binds 50 pods a second: all queues would be as fast.
_SCHEDULER = {"clientConnection": {"qps": 1000, "burst": 1000}}

Settings = Mapping[str, Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One column of the report.

    `start` also applies the CRDs, and returns what runs by name: one of them is `controller`.
    """

    key: str
    title: str
    start: Callable[[ControlPlane], dict[str, Component]]


def ours(settings: Settings = None) -> Side:
    """Return `gang-extender reconcile` with the rights of its service account.

    It is not elected, unless `settings` say so: there is no other, and one that shares two cores
    with an API server under load may lose its lease.
    """
    given = dict(settings or {})
    given["reconcile"] = {"leaderElect": False, **given.get("reconcile", {})}

    def start(control_plane: ControlPlane) -> dict[str, Component]:
        reconciler = Reconciler(control_plane, settings=given)
        reconciler.wait_leading()
        return {CONTROLLER: reconciler.process}

    return Side(key=OURS, title="gang-extender", start=start)


def external(command: str, *, name: str = EXTERNAL, crds: Path = CRDS) -> Side:
    """Return a program that finds the API server, with all rights, by KUBECONFIG."""

    def start(control_plane: ControlPlane) -> dict[str, Component]:
        with Api(control_plane.admin_kubeconfig) as api:
            api.apply(crds)
        kubeconfig = with_all_rights(control_plane, "bench-controller")
        argv, env = shlex.split(command), {"KUBECONFIG": str(kubeconfig)}
        return {CONTROLLER: control_plane.spawn(CONTROLLER, argv, env=env)}

    return Side(key=EXTERNAL, title=name, start=start)


def of_workloads(settings: Settings, other: Side | None, *, both: bool) -> list[Side]:
    """Return ours with these settings, or the other one in its place, or `both`."""
    return [*([ours(settings)] if both or not other else []), *([other] if other else [])]


def of_jobs(settings: Settings, other: Side | None, *, both: bool) -> list[Side]:
    """Return the same beside a kube-scheduler, and everything of ours together.

    Ours alone has no groups and no room: no more than other queues do. Ours together starts gangs
    by kube-scheduler with the extender.
    """
    others = [_beside_scheduler(other)] if other else []
    if other and not both:
        return others
    alone = ours(_with_queue(settings, {"podGroups": "Off", "requireRoom": False}))
    whole = ours(_with_queue(settings, {"podGroups": "Auto", "requireRoom": True}))
    whole = replace(whole, key=WHOLE, title=f"{whole.title} with gangs")
    return [_beside_scheduler(alone), *others, _beside_scheduler(whole, extender=True)]


def _beside_scheduler(side: Side, *, extender: bool = False) -> Side:
    def start(plane: ControlPlane) -> dict[str, Component]:
        if not extender:
            return {"kube-scheduler": plane.scheduler(_SCHEDULER), **side.start(plane)}
        gang = GangScheduler(plane, scheduler=_SCHEDULER)
        found = {"kube-scheduler": gang.scheduler, "extender": gang.extender}
        return {**found, **side.start(plane)}

    return replace(side, start=start)


def _with_queue(settings: Settings, queue: Mapping[str, Any]) -> dict[str, Any]:
    given = dict(settings or {})
    given["queue"] = {**given.get("queue", {}), **queue}
    return given


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
    meta = {"namespace": _NAMESPACE, "name": name}
    binding = objects.binding(name, "cluster-admin", {"kind": "ServiceAccount", **meta})
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta}
    with Api(control_plane.admin_kubeconfig) as api:
        api.apply([account, binding])
    return control_plane.service_account_kubeconfig(_NAMESPACE, name)
