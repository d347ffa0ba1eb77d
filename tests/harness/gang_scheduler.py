"""The extender and a stock kube-scheduler configured for it, as a user would run them.

The CRDs, roles, policies and priority levels are those of `manifests/`, the scheduler's
configuration that of `scheduler-config/`, and the extender runs with the token of its own service
account.
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.harness.client import Api
from tests.harness.control_plane import ControlPlane
from tests.harness.process import Component, free_port
from tests.harness.started import is_ready, metric, metrics

ROOT = Path(__file__).parents[2]
NAMESPACE = "gang-extender-system"
SERVICE_ACCOUNT = "gang-extender"
KUBE_SCHEDULER = "system:kube-scheduler"


def install(control_plane: ControlPlane, *, crds: bool = True) -> Path:
    """Apply what an administrator applies, and return the kubeconfig of the extender's account."""
    parts = ["namespace.yaml", "rbac", "policies", "flow-control"]
    with Api(control_plane.admin_kubeconfig) as api:
        for part in ["crds", *parts] if crds else parts:
            api.apply(ROOT / "manifests" / part)
    return control_plane.service_account_kubeconfig(NAMESPACE, SERVICE_ACCOUNT)


def scheduler_config(port: int, **settings: Any) -> dict[str, Any]:
    """Return the shipped KubeSchedulerConfiguration for an extender on that port."""
    text = (ROOT / "scheduler-config" / "kube-scheduler.yaml").read_text()
    config: dict[str, Any] = yaml.safe_load(text)
    for name, value in settings.items():
        before = config.get(name)
        config[name] = {**before, **value} if isinstance(before, dict) else value
    for extender in config["extenders"]:
        extender["urlPrefix"] = f"http://127.0.0.1:{port}"
    if "leaderElection" not in settings:
        # One scheduler and no other: waiting for a lease only costs time.
        config.setdefault("leaderElection", {})["leaderElect"] = False
    return config


class GangScheduler:
    """The two processes; each can be killed and started alone and keeps its port.

    A second pair in one control plane needs a `name` of its own, which its pods have as their
    schedulerName. With a `kubeconfig` both run with that.
    With `api_port` the extender reaches the API server through that port of 127.0.0.1, with
    `scheduler_api_port` kube-scheduler does.
    `program` is the module that is run as the extender.
    """

    def __init__(
        self,
        control_plane: ControlPlane,
        *,
        name: str = "gang",
        settings: Mapping[str, Any] | None = None,
        scheduler: Mapping[str, Any] | None = None,
        args: Sequence[str] = (),
        scheduler_args: Sequence[str] = (),
        api_port: int | None = None,
        scheduler_api_port: int | None = None,
        kubeconfig: Path | None = None,
        program: str = "gang_tools",
    ) -> None:
        self._control_plane = control_plane
        account = install(control_plane)
        own = kubeconfig or account
        if api_port is not None:
            own = control_plane.through(own, api_port, name)
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._config = config = control_plane.folder / f"{name}-extender.yaml"
        config.write_text(yaml.safe_dump(dict(settings or {})))
        self.extender = control_plane.spawn(
            f"{name}-extender",
            [
                *(sys.executable, "-m", program, "serve"),
                *("--kubeconfig", own, "--config", config, "--port", str(self.port)),
                *args,
            ],
            env={"PYTHONFAULTHANDLER": "1"},  # a crash of a C extension is in the log
            url=self.url,
        )
        self.wait_ready()
        own_profile = {} if name == "gang" else {"profiles": [{"schedulerName": name}]}
        if scheduler_api_port is not None:
            through = kubeconfig or control_plane.kubeconfig(KUBE_SCHEDULER)
            kubeconfig = control_plane.through(through, scheduler_api_port, f"{name}-scheduler")
        self.scheduler: Component = control_plane.scheduler(
            scheduler_config(self.port, **{**own_profile, **(scheduler or {})}),
            name=f"{name}-kube-scheduler",
            args=scheduler_args,
            kubeconfig=kubeconfig,
        )

    def wait_ready(self) -> None:
        """Return when the extender has seen the whole cluster."""
        self._control_plane.wait_until(
            "gang-extender is ready", lambda: is_ready(self.extender, self.url)
        )

    def revive(self) -> list[str]:
        """Start what has ended, and the API server, again; return what had ended, and how."""
        ended = []
        for component in (self._control_plane.apiserver, self.extender, self.scheduler):
            if not component.running:
                how = f"{component.name} ended with {component.exit_code}"
                ended.append(f"{how}\n{component.tail(60)}")
                component.start()
        self._control_plane.wait_ready()
        self.wait_ready()
        return ended

    def restart_with(self, settings: Mapping[str, Any]) -> None:
        """Start the extender anew with other settings; return when it has seen the cluster."""
        self.extender.stop()
        self._config.write_text(yaml.safe_dump(dict(settings)))
        self.extender.start()
        self.wait_ready()

    def stop(self) -> None:
        """Stop both, kube-scheduler first."""
        self.scheduler.stop()
        self.extender.stop()

    def metrics(self) -> str:
        """Return the extender's metrics page."""
        return metrics(self.url)

    def metric(self, name: str) -> float:
        """Return a sample by its full name with labels; 0 where there is none yet."""
        return metric(self.url, name)

    def attempts(self) -> float:
        """Return how many pods kube-scheduler has tried since its start, whatever came of it."""
        page = metrics(self.scheduler.url)
        samples = (line.rpartition(" ") for line in page.splitlines())
        return sum(
            float(value)
            for sample, _, value in samples
            if sample.startswith("scheduler_schedule_attempts_total{")
        )
