"""The reconciler as a user would run it, with the token of its own service account."""

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from tests.harness.control_plane import ControlPlane
from tests.harness.gang_scheduler import NAMESPACE, install
from tests.harness.process import Component, free_port
from tests.harness.started import is_ready, metric

SERVICE_ACCOUNT = "gang-reconciler"


class Reconciler:
    """One replica; it can be stopped, killed and started and keeps its ports.

    A second one in the same control plane needs a `name` of its own. With `webhooks` it serves
    those too, and gives the API server its URL in place of the Service; `webhooks_url` is another
    replica's, whose place this one can take. Without `crds` those that are there are left as they
    are. With `api_port` it reaches the API server through
    that port of 127.0.0.1.
    """

    def __init__(
        self,
        control_plane: ControlPlane,
        *,
        name: str = "reconciler",
        settings: Mapping[str, Any] | None = None,
        webhooks: bool = False,
        webhooks_url: str = "",
        api_port: int | None = None,
        args: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        crds: bool = True,
        wait: bool = True,
    ) -> None:
        self._control_plane = control_plane
        install(control_plane, crds=crds)
        kubeconfig = control_plane.service_account_kubeconfig(NAMESPACE, SERVICE_ACCOUNT)
        if api_port is not None:
            kubeconfig = control_plane.through(kubeconfig, api_port, name)
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        config = control_plane.folder / f"{name}.yaml"
        settings = dict(settings or {})
        if webhooks:
            webhooks_port = free_port()
            self.webhooks_url = f"https://127.0.0.1:{webhooks_port}"
            serving = {
                "host": "127.0.0.1",
                "port": webhooks_port,
                "url": webhooks_url or self.webhooks_url,
                "checkSeconds": 0.5,
            }
            settings["webhooks"] = serving | settings.get("webhooks", {})
        config.write_text(yaml.safe_dump(settings))
        self.process: Component = control_plane.spawn(
            name,
            [
                *(sys.executable, "-m", "gang_tools", "reconcile"),
                *("--kubeconfig", kubeconfig, "--config", config, "--port", str(port)),
                *args,
            ],
            env={"PYTHONFAULTHANDLER": "1", **(env or {})},
            url=self.url,
        )
        if wait:
            self.wait_ready()

    @property
    def leads(self) -> bool:
        """Whether this replica is the one that works."""
        return self.process.running and self.metric("gang_extender_leader") == 1

    def wait_ready(self) -> None:
        """Return when it has seen the whole cluster; it need not lead."""
        self._control_plane.wait_until(
            "the reconciler is ready", lambda: is_ready(self.process, self.url)
        )

    def wait_leading(self) -> None:
        """Return when it works."""
        self._control_plane.wait_until("the reconciler leads", lambda: self.leads)

    @property
    def looks(self) -> float:
        """How often it has looked at a group since it started."""
        return self.metric('gang_extender_reconciles_total{controller="pod-group",result="done"}')

    def await_looks(self) -> None:
        """Return when it has looked at a group since it started."""
        self._control_plane.wait_until("the reconciler looked", lambda: self.looks > 0)

    def restart(self) -> None:
        """Kill it and start it anew; return when it works again."""
        self.process.kill()
        self.start()

    def start(self) -> None:
        """Start it after its end; return when it works."""
        self.process.start()
        self.wait_ready()
        self.wait_leading()

    def stop(self) -> None:
        """Stop it."""
        self.process.stop()

    def metric(self, name: str) -> float:
        """Return a sample by its full name with labels; 0 where there is none yet."""
        return metric(self.url, name)
