"""Everything that runs: a control plane, the extender, two reconcilers, and proxies before them."""

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import httpx
from typing_extensions import override

from tests.chaos.load import Load
from tests.chaos.witness import Witness
from tests.harness.client import Api
from tests.harness.control_plane import ControlPlane
from tests.harness.faulty_proxy import FaultyProxy
from tests.harness.gang_scheduler import GangScheduler
from tests.harness.process import Component
from tests.harness.reconciler import Reconciler
from tests.harness.started import Started

ELECTED: Final = {"reconcile": {"leaseSeconds": 4, "renewSeconds": 3, "retrySeconds": 0.5}}
RESERVATIONS: Final = (
    "gang_extender_waiting_pods",
    "gang_extender_reserved_pods",
    "gang_extender_claims",
)
_UNFINISHED: Final = ("Pending", "Running")


class World(Started):
    """Use as a context manager. With `proxied` the product reaches the API server by proxies."""

    def __init__(self, load: Load, *, proxied: bool, replicas: int = 1) -> None:
        super().__init__()
        self._load = load
        self._proxied = proxied
        self._replicas = replicas
        self.proxies: list[FaultyProxy] = []
        """The extender's first, then one for each reconciler."""
        self.reconcilers: list[Reconciler] = []
        self.kwok_restarts = 0

    @override
    def _start(self) -> None:
        self.plane = self._stack.enter_context(ControlPlane())
        self.api = self._stack.enter_context(Api(self.plane.admin_kubeconfig))
        settings: dict[str, Any] = {"kube": {"timeoutSeconds": 3}} if self._proxied else {}
        gang = {} if self._load.together else {"gang": {"bindTogether": "off"}}
        self.gang = GangScheduler(self.plane, settings={**settings, **gang}, api_port=self._port())
        for number in range(self._replicas):
            replica = Reconciler(
                self.plane,
                name=f"reconciler-{number}",
                settings={**ELECTED, **settings},
                api_port=self._port(),
            )
            self.reconcilers.append(replica)
        self.api.create(*self._load.cluster())
        self.witness = self._stack.enter_context(
            Witness(self.plane.admin_kubeconfig, self._load.namespace)
        )
        self.await_all("the reconciler leads", self.leads)

    def _port(self) -> int | None:
        if not self._proxied:
            return None
        seed = self._load.seed + len(self.proxies)
        proxy = self._stack.enter_context(FaultyProxy(self.plane, seed=seed))
        self.proxies.append(proxy)
        return proxy.port

    @property
    def components(self) -> Mapping[str, Component]:
        """What may be killed, by name."""
        return {
            "extender": self.gang.extender,
            "reconciler": self.reconcilers[0].process,
            "kube-scheduler": self.gang.scheduler,
            "kube-apiserver": self.plane.apiserver,
            "etcd": self.plane.etcd,
        }

    def leads(self) -> bool:
        """Return whether one of the reconcilers leads."""
        return any(_leads(each) for each in self.reconcilers)

    def restart_ended(self) -> list[str]:
        """Start the product's processes that have ended, as a kubelet does; return their names.

        A reconciler that lost its Lease ends on purpose.
        """
        ended = []
        processes = [self.gang.extender, *(each.process for each in self.reconcilers)]
        for process in processes:
            if not process.running:
                ended.append(f"{process.name} ended with {process.exit_code}")
                process.start()
        return ended

    def has_forgotten_pods(self) -> bool:
        """Return whether a pod has a node and has not ended.

        kwok stands in for the kubelets. It does not try again where an answer of the API server
        that was killed is lost to it; a kubelet does.
        """
        return any(
            pod["spec"].get("nodeName") and pod.get("status", {}).get("phase") in _UNFINISHED
            for pod in self.witness.last("Pod").values()
        )

    def restart_kwok(self) -> int:
        """Start kwok anew, which looks at all pods then; return how often that was done."""
        self.plane.kwok.stop()
        self.plane.kwok.start()
        self.kwok_restarts += 1
        return self.kwok_restarts

    def await_all(self, what: str, predicate: Callable[[], object], timeout: float = 60) -> None:
        """Wait for a condition; AssertionError with the logs' ends if it never holds.

        Meanwhile the product's processes that end are started anew.
        """
        deadline = time.monotonic() + timeout
        while not _quietly(predicate):
            self.restart_ended()
            if time.monotonic() > deadline:
                raise AssertionError(f"not within {timeout:g} s: {what}\n{self.plane.tails()}")
            time.sleep(0.1)

    def reservations(self) -> dict[str, float]:
        """Return what the extender keeps for pods, by metric; only what is not zero."""
        found = {name: self.gang.metric(name) for name in RESERVATIONS}
        return {name: value for name, value in found.items() if value}


def _leads(reconciler: Reconciler) -> bool:
    try:
        return reconciler.leads
    except httpx.TransportError:
        return False


def _quietly(predicate: Callable[[], object]) -> object:
    """Return what a predicate returns; a server that is not there yet counts as no."""
    try:
        return predicate()
    except httpx.TransportError:
        return False
