"""etcd, the API server, the controllers and simulated kubelets on free ports of 127.0.0.1.

    with ControlPlane(ensure_binaries()) as cp, cp.scheduler({...}):
        Api(cp.admin_kubeconfig).create(...)

Each component can be stopped, killed and restarted alone; ports and data stay the same.
"""

import copy
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Self

import httpx
import yaml

from tests.harness.certificates import Authority, KeyPair, file_name
from tests.harness.client import Api, pauses
from tests.harness.kubeconfig import Kubeconfig
from tests.harness.process import Component, free_port
from tests.harness.toolchain import Binaries, ensure_binaries

STAGES = Path(__file__).parent / "stages"
CONTROLLERS = (
    "job-controller",
    "replicaset-controller",
    "deployment-controller",
    "daemonset-controller",
    "statefulset-controller",
    "garbage-collector-controller",
    "namespace-controller",
    "disruption-controller",
    "endpointslice-controller",
    "persistentvolume-binder-controller",
    "persistentvolume-protection-controller",
    "persistentvolumeclaim-protection-controller",
    "resourceclaim-controller",
)
SCHEDULER_API = "kubescheduler.config.k8s.io/v1"
_READY_SECONDS = 180.0


class ControlPlane:
    """One control plane in a temporary folder, gone with everything in it on exit.

    Without `kubelet` nodes stay as they were made and bound pods stay Pending; without
    `controllers` nothing acts on Jobs, Deployments, owners and deleted namespaces.
    """

    def __init__(
        self,
        binaries: Binaries | None = None,
        *,
        kubelet: bool = True,
        controllers: bool = True,
        apiserver_args: Sequence[str] = (),
    ) -> None:
        self._binaries = binaries or ensure_binaries()
        self.folder = Path(tempfile.mkdtemp(prefix="gang-extender-"))
        self.logs = self.folder / "logs"
        self.logs.mkdir()
        self._spawned: dict[str, Component] = {}
        self._kubeconfigs: dict[str, tuple[tuple[str, ...], Path]] = {}
        self._authority = Authority(self.folder / "pki")
        self._serving = self._authority.serving("kube-apiserver")
        self._tokens = self._authority.service_account_keys()
        self.url = f"https://127.0.0.1:{free_port()}"
        self.admin_kubeconfig = self.kubeconfig("admin", ["system:masters"])
        self.etcd = self._etcd()
        self.apiserver = self._apiserver(apiserver_args)
        self.controller_manager = self._controller_manager()
        self.kwok = self._kwok()
        self._followers = [
            *([self.controller_manager] if controllers else []),
            *([self.kwok] if kubelet else []),
        ]

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def start(self) -> None:
        """Start what was asked for and wait until it is ready."""
        self.etcd.start()
        self.apiserver.start()
        self._await(self.apiserver)
        for component in self._followers:
            component.start()
        self.wait_ready()

    def wait_ready(self, timeout: float = _READY_SECONDS) -> None:
        """Return when every component that should run is ready; RuntimeError with logs if not."""
        for component in (self.etcd, self.apiserver, *self._followers):
            self._await(component, timeout)

    @property
    def programs(self) -> Path:
        """The folder with the programs of the control plane, kube-scheduler among them."""
        return self._binaries.kube_scheduler.parent

    @property
    def authority(self) -> Path:
        """The certificate of the authority that signs all certificates of the control plane."""
        return self._authority.ca

    @property
    def serving(self) -> KeyPair:
        """The API server's certificate, for a proxy in front of it."""
        return self._serving

    def kubeconfig(self, user: str, groups: Sequence[str] = ()) -> Path:
        """Return a kubeconfig with a client certificate for that user and groups.

        It is the same one each time: Kubernetes' own components drop all connections when the
        files of their certificate change.
        """
        known = self._kubeconfigs.get(user)
        if known is None:
            pair = self._authority.client(user, groups)
            known = tuple(groups), self._write_kubeconfig(user, certificate=pair)
            self._kubeconfigs[user] = known
        if known[0] != tuple(groups):
            raise ValueError(f"{user} has a certificate already, for the groups {known[0]}")
        return known[1]

    def expiring_kubeconfig(self, user: str, life: timedelta) -> Path:
        """Return a kubeconfig with a client certificate that ends soon.

        Called again for a user it renews the certificate and its key, in the same files.
        """
        pair = self._authority.client(user, life=life)
        config = Kubeconfig(self.url, self._authority.ca, pair)
        return config.write(self.folder / f"{file_name(user)}-brief.kubeconfig", user=user)

    def service_account_kubeconfig(self, namespace: str, name: str) -> Path:
        """Return a kubeconfig with a token for an existing service account, valid for a day."""
        with Api(self.admin_kubeconfig) as api:
            token = api.token(namespace, name, expirationSeconds=24 * 60 * 60)
        user = f"system:serviceaccount:{namespace}:{name}"
        return self._write_kubeconfig(user, token=token)

    def through(self, kubeconfig: Path, port: int, name: str) -> Path:
        """Return a copy of a kubeconfig that names a port of 127.0.0.1 as the API server."""
        copied = self.folder / f"{name}-{port}.kubeconfig"
        copied.write_text(kubeconfig.read_text().replace(self.url, f"https://127.0.0.1:{port}"))
        return copied

    def scheduler(
        self,
        config: Mapping[str, Any] | Path | None = None,
        *,
        name: str = "kube-scheduler",
        args: Sequence[str] = (),
        wait: bool = True,
        kubeconfig: Path | None = None,
    ) -> Component:
        """Start a stock kube-scheduler with a KubeSchedulerConfiguration and return it.

        A kubeconfig, that of system:kube-scheduler if none is given, is written into the
        configuration; leader election is off unless the configuration asks for it.
        """
        document = yaml.safe_load(config.read_text()) if isinstance(config, Path) else config
        settings = copy.deepcopy(dict(document or {}))
        settings.setdefault("apiVersion", SCHEDULER_API)
        settings.setdefault("kind", "KubeSchedulerConfiguration")
        settings.setdefault("leaderElection", {}).setdefault("leaderElect", False)
        kubeconfig = kubeconfig or self.kubeconfig("system:kube-scheduler")
        settings.setdefault("clientConnection", {})["kubeconfig"] = str(kubeconfig)
        path = self.folder / f"{name}.yaml"
        path.write_text(yaml.safe_dump(settings))
        port = free_port()
        component = self.spawn(
            name,
            [
                self._binaries.kube_scheduler,
                f"--config={path}",
                *_serving_flags(port),
                *args,
            ],
            url=f"https://127.0.0.1:{port}",
        )
        if wait:
            self._await(component)
        return component

    def spawn(
        self,
        name: str,
        argv: Sequence[str | Path],
        *,
        env: Mapping[str, str] | None = None,
        url: str = "",
    ) -> Component:
        """Start any other program; it is stopped with the control plane, if not before."""
        former = self._spawned.get(name)
        if former and former.running:
            raise ValueError(f"{name} runs already: give the second one another name")
        component = self._component(name, argv, env=env, url=url)
        self._spawned[name] = component
        component.start()
        return component

    def wait_until(
        self, what: str, predicate: Callable[[], bool], timeout: float = _READY_SECONDS
    ) -> None:
        """Return when `predicate` is true; RuntimeError with all logs if it never is."""
        deadline = time.monotonic() + timeout
        pause = pauses()
        while not predicate():
            if time.monotonic() > deadline:
                raise RuntimeError(f"not within {timeout:g} s: {what}\n{self.tails()}")
            time.sleep(next(pause))

    def tails(self, lines: int = 15) -> str:
        """Return the last lines of every log, but of those that were stopped on purpose."""
        stopped = {each.name for each in self._spawned.values() if each.was_stopped}
        logs = [log for log in sorted(self.logs.glob("*.log")) if log.stem not in stopped]
        return "\n".join(f"--- {log.stem}\n{_tail(log, lines)}" for log in logs)

    def _await(self, component: Component, timeout: float = _READY_SECONDS) -> None:
        def ready() -> bool:
            if not component.running:
                raise RuntimeError(
                    f"{component.name} ended with {component.exit_code}\n{component.tail(40)}"
                )
            return is_ready(component.url)

        self.wait_until(f"{component.name} is ready", ready, timeout)

    def _end(self) -> None:
        for component in self._spawned.values():
            component.stop()
        # The data is thrown away, so no process need end by itself.
        for component in (*self._followers, self.apiserver, self.etcd):
            component.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _component(self, name: str, argv: Sequence[str | Path], **options: Any) -> Component:
        return Component(name, argv, log_path=self.logs / f"{name}.log", **options)

    def _write_kubeconfig(
        self, user: str, *, certificate: KeyPair | None = None, token: str | None = None
    ) -> Path:
        config = Kubeconfig(self.url, self._authority.ca, certificate, token)
        return config.write(self.folder / f"{file_name(user)}.kubeconfig", user=user)

    def _etcd(self) -> Component:
        client, peer = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
        argv: list[str | Path] = [
            self._binaries.etcd,
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",  # survives kill -9, and a power cut does not matter
            "--log-level=warn",
        ]
        return self._component("etcd", argv, url=client)

    def _apiserver(self, args: Sequence[str]) -> Component:
        argv: list[str | Path] = [
            self._binaries.kube_apiserver,
            f"--etcd-servers={self.etcd.url}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            "--endpoint-reconciler-type=none",  # it refuses to advertise a loopback address
            f"--secure-port={self.url.rpartition(':')[2]}",
            f"--tls-cert-file={self._serving.certificate}",
            f"--tls-private-key-file={self._serving.key}",
            f"--client-ca-file={self._authority.ca}",
            "--authorization-mode=RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self._tokens.certificate}",
            f"--service-account-signing-key-file={self._tokens.key}",
            "--service-cluster-ip-range=10.96.0.0/16",
            # Nothing makes the service accounts that the first would demand of every pod; the
            # second taints new nodes not-ready, and no controller would take that away.
            "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
            "--max-requests-inflight=3000",
            "--max-mutating-requests-inflight=3000",
            *args,
        ]
        return self._component("kube-apiserver", argv, url=self.url)

    def _controller_manager(self) -> Component:
        port = free_port()
        argv: list[str | Path] = [
            self._binaries.kube_controller_manager,
            # One user for all controllers, so that none waits for a token of its own.
            f"--kubeconfig={self.admin_kubeconfig}",
            f"--controllers={','.join(CONTROLLERS)}",
            "--leader-elect=false",
            *_serving_flags(port),
            "--kube-api-qps=2000",
            "--kube-api-burst=2000",
            "--concurrent-job-syncs=20",
            "--concurrent-namespace-syncs=20",
        ]
        url = f"https://127.0.0.1:{port}"
        return self._component("kube-controller-manager", argv, url=url)

    def _kwok(self) -> Component:
        port = free_port()
        argv: list[str | Path] = [
            self._binaries.kwok,
            f"--kubeconfig={self.admin_kubeconfig}",
            *(f"--config={file}" for file in sorted(STAGES.glob("*.yaml"))),
            f"--server-address=127.0.0.1:{port}",
            "--v=WARN",  # at INFO it logs every patch
        ]
        # It also reads the configuration in the home folder, which is not ours.
        env = {"HOME": str(self.folder)}
        return self._component("kwok", argv, env=env, url=f"http://127.0.0.1:{port}")


def _serving_flags(port: int) -> list[str]:
    open_paths = "/healthz,/readyz,/livez,/metrics"
    return [
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        f"--authorization-always-allow-paths={open_paths}",
    ]


def is_ready(url: str) -> bool:
    """Return whether a component is ready or, where it has no /readyz, healthy.

    kube-scheduler is healthy before it knows the nodes and pods that there are. Whose certificate
    it has does not matter.
    """
    try:
        with httpx.Client(base_url=url, timeout=10, verify=False, trust_env=False) as client:
            found = client.get("/readyz")
            if found.status_code == httpx.codes.NOT_FOUND:
                found = client.get("/healthz")
    except httpx.TransportError:
        return False
    return found.is_success


def _tail(log: Path, lines: int) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
