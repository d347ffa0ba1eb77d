"""The whole service without a network: the app over an ASGI transport, on recorded requests."""

import json
from pathlib import Path
from typing import Any

import httpx

from extender.config.settings import Settings
from extender.explain.facts import GroupFacts
from extender.gang.verdicts import Remembered
from extender.kube.decode import Decoder
from extender.permit.background import remembered
from extender.runtime.clock import Pacer, SystemClock
from extender.server.explanations import add_pod_groups
from extender.server.health import Probes, add_snapshot
from extender.server.verbs import create_app
from extender.state.cluster.store import Cluster
from extender.wiring.memory import cluster_memory, group_memory, header
from tests.unit.server.scene import Scene

RECORDED = Path(__file__).parent / "recorded"
FORMS = ("names", "nodes")
VERBS = ("filter", "prioritize", "preempt", "bind")
NODE_NAMES = ["node-0", "node-1"]
NOT_SEEN = "the extender has not seen the whole cluster yet"
SMALL_BODY = 64 * 1024


def recorded(form: str, verb: str) -> dict[str, Any]:
    """Return what kube-scheduler sent."""
    document: dict[str, Any] = json.loads((RECORDED / f"{form}-{verb}.json").read_text())
    return document


class Service:
    """The app, and the scene behind it."""

    def __init__(self, *facts: Any) -> None:
        self.scene = Scene(Cluster(), *facts)
        self.problems: dict[str, str | None] = {
            "pods": None,
            "nodes": None,
            "podgroups.scheduling.x-k8s.io": None,
        }
        self.synced = True
        self.stale: str | None = None
        self.decoder = Decoder()
        self.app = create_app(
            self.scene.verbs,
            metrics=self.scene.metrics,
            probes=Probes(lambda: self.problems, unready=lambda: "" if self.synced else NOT_SEEN),
            max_body_bytes=SMALL_BODY,
        )
        view, plans = self.scene.view, self.scene.plans

        def memory_of(group: str) -> Remembered:
            return remembered(group, plans, self.scene.waiting, stale=self.stale)

        add_pod_groups(
            self.app,
            lambda: GroupFacts(
                view,
                plans.verdicts.options,
                plans.clock.wall(),
                source="Extender",
                remembered=memory_of,
                never_starts=plans.never_starts,
            ),
            unready=lambda: "" if self.synced else NOT_SEEN,
            pacer=Pacer(SystemClock()),
        )
        self._memory_of = memory_of
        add_snapshot(self.app, self.memory, pacer=Pacer(SystemClock()))
        self.http = httpx.AsyncClient(
            transport=httpx.ASGITransport(self.app), base_url="http://extender"
        )

    def memory(self) -> dict[str, object]:
        """Return what the extender remembers now."""
        view, unready = self.scene.view, "" if self.synced else NOT_SEEN
        return {
            **header("extender", Settings(), now=1e9, watches={}, unready=unready),
            **cluster_memory(view),
            "verdicts": group_memory(view, self._memory_of, self.scene.plans.never_starts),
        }

    async def post(self, verb: str, body: bytes | dict[str, Any]) -> httpx.Response:
        """Return the answer to a request, written as Go does."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return await self.http.post(
            f"/{verb}", content=content, headers={"Content-Type": "application/json"}
        )

    async def ask(self, verb: str, body: bytes | dict[str, Any]) -> Any:
        """Return the decoded answer; its status must be 200."""
        answer = await self.post(verb, body)
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "application/json"
        return answer.json()

    def state(self) -> str:
        """Return everything that is believed, to be compared."""
        return repr(self.scene.cluster._tables)
