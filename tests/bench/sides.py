"""What is compared: the plain kube-scheduler, the same with our extender, and another scheduler."""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.bench import bindings
from tests.bench.load import NAMESPACE, GroupKind, natively
from tests.harness import objects
from tests.harness.client import Api
from tests.harness.control_plane import ControlPlane
from tests.harness.gang_scheduler import KUBE_SCHEDULER, ROOT, GangScheduler, install
from tests.harness.natives import SCHEDULED, SERVED
from tests.harness.process import Component

PLAIN, OURS, PEER, BARE = "plain", "ours", "peer", "bare"
CRDS = ROOT / "manifests" / "crds"

Settings = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One column of the report. `start` gets the settings for the scheduler's client."""

    key: str
    title: str
    start: Callable[[ControlPlane, Settings], Component]
    kind: GroupKind = field(default_factory=GroupKind)
    binary: Path | None = None  # in place of the stock kube-scheduler
    apiserver_args: Sequence[str] = ()


def plain(*, native: bool = False) -> Side:
    """Return kube-scheduler alone: the labels of the pods mean nothing to it.

    With `native` it schedules gangs itself.
    """
    gates = SCHEDULED if native else ()

    def start(control_plane: ControlPlane, client: Settings) -> Component:
        return control_plane.scheduler({"clientConnection": client}, args=gates)

    kind = natively() if native else GroupKind()
    served = SERVED if native else ()
    title = f"kube-scheduler{', native gangs' * native}"
    return Side(key=PLAIN, title=title, start=start, kind=kind, apiserver_args=served)


def ours(settings: Mapping[str, Any] | None = None, *, native: bool = False) -> Side:
    """Return kube-scheduler with our extender, which gets `settings` as its configuration.

    `native` gangs are kube-scheduler's.
    """

    def start(control_plane: ControlPlane, client: Settings) -> Component:
        return GangScheduler(
            control_plane,
            settings=settings,
            scheduler={"clientConnection": client},
            scheduler_args=SCHEDULED if native else (),
        ).scheduler

    title = f"gang-extender{', native gangs' * native}"
    return Side(
        key=OURS,
        title=title,
        start=start,
        kind=natively() if native else GroupKind(),
        apiserver_args=SERVED if native else (),
    )


def bare() -> Side:
    """Return the same Bindings without a scheduler: the bound of what any of them can reach."""

    def start(control_plane: ControlPlane, _: Settings) -> Component:
        program = (sys.executable, "-m", bindings.__name__, "--namespace", NAMESPACE)
        writer = control_plane.spawn(
            "bindings-extender", [*program, "--kubeconfig", install(control_plane)]
        )
        control_plane.wait_until("it writes", lambda: bindings.READY in writer.tail())
        return writer

    return Side(key=BARE, title="the Bindings alone", start=start)


def peer(binary: Path, config: Path, *, name: str) -> Side:
    """Return another scheduler that takes kube-scheduler's flags; it may do all it likes.

    Its pods and PodGroups are those of the coscheduling plugin, which are ours, too.
    """

    def start(control_plane: ControlPlane, client: Settings) -> Component:
        with Api(control_plane.admin_kubeconfig) as api:
            api.apply(_ALL_RIGHTS)
        settings = yaml.safe_load(config.read_text())
        former = settings.get("clientConnection") or {}
        kept = {name: former[name] for name in former.keys() - {"kubeconfig", "qps", "burst"}}
        settings["clientConnection"] = {**kept, **client}
        settings.setdefault("leaderElection", {})["leaderElect"] = False
        return control_plane.scheduler(settings)

    return Side(key=PEER, title=name, start=start, binary=binary.absolute())


_ALL_RIGHTS = objects.binding("bench-peer", "cluster-admin", {"name": KUBE_SCHEDULER})
