"""What is compared: the plain kube-scheduler, the same with our extender, and another scheduler.

Our extender also without the admission policies for its identity, to see what these cost.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import yaml

from extender.api.wellknown import GANG_GATE
from tests.bench import bindings
from tests.bench.load import NAMESPACE, GroupKind, natively
from tests.harness.client import Api
from tests.harness.control_plane import ControlPlane
from tests.harness.gang_scheduler import ROOT, GangScheduler, install
from tests.harness.natives import SCHEDULED, SERVED
from tests.harness.process import Component

PLAIN, OURS, OPEN, OFF, PEER, BARE = "plain", "ours", "open", "off", "peer", "bare"
CRDS = ROOT / "manifests" / "crds"

Settings = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Pages:
    """Metrics in Prometheus' text format; empty where there are none."""

    scheduler: str = ""
    extender: str = ""


@dataclass(frozen=True, slots=True)
class Running:
    """A scheduler at work, and how to read the metrics of its extender where it has one."""

    scheduler: Component
    extender_metrics: Callable[[], str] | None = None

    def metrics(self) -> Pages:
        """Return the metrics as they are now."""
        extender = self.extender_metrics() if self.extender_metrics else ""
        try:
            # Its certificate is its own invention.
            answer = httpx.get(f"{self.scheduler.url}/metrics", verify=False, trust_env=False)
        except httpx.TransportError:
            return Pages(extender=extender)
        return Pages(answer.text if answer.is_success else "", extender)


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One column of the report. `start` gets the settings for the scheduler's client."""

    key: str
    title: str
    start: Callable[[ControlPlane, Settings], Running]
    kind: GroupKind = field(default_factory=GroupKind)
    crds: Path = CRDS
    binary: Path | None = None  # in place of the stock kube-scheduler
    apiserver_args: Sequence[str] = ()


def plain(*, native: bool = False) -> Side:
    """Return kube-scheduler alone: the labels of the pods mean nothing to it.

    With `native` it schedules gangs itself.
    """
    gates = SCHEDULED if native else ()

    def start(control_plane: ControlPlane, client: Settings) -> Running:
        return Running(control_plane.scheduler({"clientConnection": client}, args=gates))

    kind = natively() if native else GroupKind()
    served = SERVED if native else ()
    title = f"kube-scheduler{', native gangs' * native}"
    return Side(key=PLAIN, title=title, start=start, kind=kind, apiserver_args=served)


def ours(
    settings: Mapping[str, Any] | None = None,
    *,
    gated: bool = False,
    policies: bool = True,
    together: bool = True,
    native: bool = False,
) -> Side:
    """Return kube-scheduler with our extender, which gets `settings` as its configuration.

    `gated` pods are created behind our scheduling gate, and stay there until their gang fits.
    Without `policies` the API server evaluates none for what the extender writes. Where equal
    members are not bound `together`, kube-scheduler asks for each of them. `native` gangs are
    kube-scheduler's.
    """
    settings = dict(settings or {})
    if gated:
        settings["gang"] = {**settings.get("gang", {}), "ungateWhen": "fits"}
    if not together:
        settings["gang"] = {**settings.get("gang", {}), "bindTogether": "off"}

    def start(control_plane: ControlPlane, client: Settings) -> Running:
        gang_scheduler = GangScheduler(
            control_plane,
            settings=settings,
            scheduler={"clientConnection": client},
            policies=policies,
            scheduler_args=SCHEDULED if native else (),
        )
        return Running(gang_scheduler.scheduler, gang_scheduler.metrics)

    kinds = (
        ", gated" if gated else "",
        "" if policies else ", no policies",
        "" if together else ", one by one",
        ", native gangs" if native else "",
    )
    kind = natively() if native else GroupKind(gates=(GANG_GATE,) if gated else ())
    key = OFF if not together else OURS if policies else OPEN
    title = "".join(("gang-extender", *kinds))
    served = SERVED if native else ()
    return Side(key=key, title=title, start=start, kind=kind, apiserver_args=served)


def bare(*, arriving: bool = False) -> Side:
    """Return the same Bindings without a scheduler: the bound of what any of them can reach.

    Of gangs that are `arriving` each is bound when all its pods are there.
    """

    def start(control_plane: ControlPlane, _: Settings) -> Running:
        program = (sys.executable, "-m", bindings.__name__, "--namespace", NAMESPACE)
        gangs = "--arriving" if arriving else "--no-arriving"
        writer = control_plane.spawn(
            "bindings-extender", [*program, "--kubeconfig", install(control_plane), gangs]
        )
        control_plane.wait_until("it writes", lambda: bindings.READY in writer.tail())
        return Running(writer)

    return Side(key=BARE, title="the Bindings alone", start=start)


def peer(binary: Path, config: Path, *, name: str, kind: GroupKind, crds: Path | None) -> Side:
    """Return another scheduler that takes kube-scheduler's flags; it may do all it likes."""

    def start(control_plane: ControlPlane, client: Settings) -> Running:
        with Api(control_plane.admin_kubeconfig) as api:
            api.apply(_ALL_RIGHTS)
        settings = yaml.safe_load(config.read_text())
        former = settings.get("clientConnection") or {}
        kept = {name: former[name] for name in former.keys() - {"kubeconfig", "qps", "burst"}}
        settings["clientConnection"] = {**kept, **client}
        settings.setdefault("leaderElection", {})["leaderElect"] = False
        return Running(control_plane.scheduler(settings))

    return Side(
        key=PEER,
        title=name,
        start=start,
        kind=kind,
        crds=crds or CRDS,
        binary=binary.absolute(),
    )


_ALL_RIGHTS = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRoleBinding",
    "metadata": {"name": "bench-peer"},
    "roleRef": {
        "apiGroup": "rbac.authorization.k8s.io",
        "kind": "ClusterRole",
        "name": "cluster-admin",
    },
    "subjects": [
        {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "system:kube-scheduler"}
    ],
}
