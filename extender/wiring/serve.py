"""What `gang-extender serve` runs.

Reflectors feed the cluster; the cluster tells the waiting pods and the waker what changed; the
server asks decisions and answers kube-scheduler. If any of them fails unexpectedly the whole
process ends, and whoever supervises it starts it anew from the API server's truth.
"""

import asyncio
import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import structlog
from fastapi import FastAPI

from extender.config import Settings
from extender.controllers.aging import Aging
from extender.controllers.gatekeeper import Gatekeeper
from extender.controllers.permit_reporter import PermitReporter
from extender.controllers.unconfirmed import Unconfirmed
from extender.controllers.waker import Waker
from extender.kube.client import KubeClient, load_configuration
from extender.kube.decode import Decoder
from extender.kube.pod_groups import ConditionWriter
from extender.kube.pods import PodWriter
from extender.runtime.clock import SystemClock
from extender.runtime.pacer import Pacer
from extender.runtime.retry import Retry
from extender.server.app import create_app
from extender.server.binding import Binding
from extender.server.filtering import Filtering
from extender.server.group_memory import GroupMemory
from extender.server.waiting_pods import WaitingPods
from extender.state.cluster import Cluster
from extender.telemetry.metrics import Metrics
from extender.wiring import http
from extender.wiring.reflectors import LIVE_PODS, backoff, reflectors

_log = structlog.get_logger(__name__)


class Extender:
    """Everything that `serve` runs, around one client."""

    def __init__(self, settings: Settings, client: KubeClient) -> None:
        clock, metrics, cluster, decoder = SystemClock(), Metrics(), Cluster(), Decoder()
        writer, options = PodWriter(client), settings.gang.options()
        memory = GroupMemory(cluster, options=options, clock=clock)
        self._pacer = Pacer(clock)
        self.reflectors = reflectors(client, cluster, decoder, pods=LIVE_PODS)
        self.waiting = WaitingPods(cluster, memory, metrics=metrics)
        self.waker = Waker(cluster, writer, clock=clock, metrics=metrics, options=options)
        self.gatekeeper = Gatekeeper(cluster, memory, options=options, clock=clock)
        self.aging = Aging(cluster, options=options, clock=clock, schedulers=memory.schedulers)
        self.unconfirmed = Unconfirmed(cluster, clock=clock)
        self.reporter = PermitReporter(cluster, ConditionWriter(client), memory, clock=clock)
        retry = Retry(lambda: backoff(0.05, 2.0), asyncio.sleep, clock)
        binding = Binding(
            cluster,
            self.waiting,
            writer,
            metrics=metrics,
            retry=retry,
            longest_wait=options.max_schedule_timeout,
        )
        filtering = Filtering(
            cluster,
            decoder,
            memory,
            metrics=metrics,
            wake_after=self.waker.after,
            no_node=self.waiting.found_no_node,
        )
        snapshot = cluster.snapshot()
        metrics.waiting_pods.set_function(lambda: self.waiting.held)
        metrics.reserved_pods.set_function(
            lambda: sum(len(snapshot.reserved(node)) for node in snapshot.reserved_nodes)
        )
        metrics.claims.set_function(
            lambda: sum(bool(claim.rooms) for claim in snapshot.claims.values())
        )
        self.app: FastAPI = create_app(
            filtering,
            binding,
            metrics=metrics,
            ready=self.ready,
            max_body_bytes=settings.listen.max_body_bytes,
        )

    def ready(self) -> dict[str, bool]:
        """Return which caches have been filled."""
        return {reflector.kind: reflector.synced for reflector in self.reflectors}

    async def _when_synced(self) -> None:
        for reflector in self.reflectors:
            await reflector.first_list.wait()
        # Not before: a part of the cluster has room where the whole of it has none.
        self.waker.recover()
        async with asyncio.TaskGroup() as tasks:
            for each in (
                self.waker,
                self.gatekeeper,
                self.aging,
                self.reporter,
                self.unconfirmed,
            ):
                tasks.create_task(each.run())

    async def run(self, serve: Callable[[], Any]) -> None:
        """Run everything until `serve` returns."""
        _collect_garbage_seldom()
        async with asyncio.TaskGroup() as tasks:
            background = [
                tasks.create_task(reflector.run(self._pacer)) for reflector in self.reflectors
            ]
            background.append(tasks.create_task(self._when_synced()))
            await serve()
            for task in background:
                task.cancel()


def _collect_garbage_seldom() -> None:
    """Look for cyclic garbage a hundred times less often than Python's default.

    Nearly everything here is freed by its reference count. A collection walks all cached pods and
    nodes, and kube-scheduler's loop waits for filter meanwhile.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 50, 100)


async def serve(settings: Settings, kubeconfig: Path | None) -> None:
    """Run the extender until SIGTERM or SIGINT. Raises ConfigurationError, OSError."""
    configuration = await load_configuration(kubeconfig)
    kube, listen = settings.kube, settings.listen
    async with KubeClient(
        configuration, connections=kube.connections, timeout=kube.timeout_seconds
    ) as client:
        extender = Extender(settings, client)
        config = http.config(
            extender.app,
            host=listen.host,
            port=listen.port,
            keep_alive=listen.keep_alive_seconds,
            tls=listen.tls,
        )
        config.load()  # a certificate that cannot be read is told before anything runs
        server = http.Server(config, extender.waiting.refuse_all)
        _log.info("serving", host=listen.host, port=listen.port, api_server=client.host)
        await extender.run(server.serve)
    _log.info("stopped")
