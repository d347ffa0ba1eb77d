"""What `gang-extender serve` runs.

Reflectors feed the cluster; the cluster tells the waiting pods and the waker what changed; the
server asks decisions and answers kube-scheduler. If any of them fails unexpectedly the whole
process ends, and whoever supervises it starts it anew from the API server's truth.
"""

import asyncio
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import structlog
from fastapi import FastAPI
from starlette.types import ASGIApp

from extender.config import Listen, Settings, Tls
from extender.controllers.aging import Aging
from extender.controllers.gatekeeper import Gatekeeper
from extender.controllers.permit_reporter import PermitReporter
from extender.controllers.unconfirmed import Unconfirmed
from extender.controllers.waker import Waker
from extender.kube.client import KubeClient
from extender.kube.credentials import keyring
from extender.kube.decode import Decoder
from extender.kube.errors import ConfigurationError
from extender.kube.pod_groups import ConditionWriter
from extender.kube.pods import PodWriter
from extender.kube.set_aside import SetAside
from extender.runtime.clock import SystemClock
from extender.runtime.retry import Retry
from extender.server.app import create_app
from extender.server.binding import Binding
from extender.server.clients import NamedClients
from extender.server.connections import Connections, Limits
from extender.server.filtering import Filtering
from extender.server.group_memory import GroupMemory
from extender.server.health import Probes
from extender.server.tls import Files, ServingTls
from extender.server.waiting_pods import WaitingPods
from extender.state.cluster import Cluster
from extender.telemetry.metrics import Metrics
from extender.wiring import http
from extender.wiring.health import watches
from extender.wiring.loop import Loop
from extender.wiring.reflectors import LIVE_PODS, backoff, reflectors, set_aside

_log = structlog.get_logger(__name__)

_OTHER_FILES: Final = 256
"""Open files that are no client's connection: those to the API server, and the libraries'."""
_FILES_OF_HANDSHAKES: Final = 8
"""One in so many open files may be a connection that has not finished its TLS handshake."""
_SPARE_CONNECTIONS: Final = 64
"""For filter and bind requests, probes and metrics while all binds that may be are held."""


class Extender:
    """Everything that `serve` runs, around one client."""

    def __init__(self, settings: Settings, client: KubeClient) -> None:
        clock, metrics, cluster = SystemClock(), Metrics(), Cluster()
        decoder = Decoder(settings.gang.ignored())
        self.metrics = metrics
        writer, options = PodWriter(client), settings.gang.options()
        memory = GroupMemory(cluster, options=options, clock=clock)
        self._loop = Loop(clock, metrics.registry, settings.health)
        self.reflectors = reflectors(client, cluster, decoder, pods=LIVE_PODS)
        set_aside(cluster, self.reflectors, SetAside(), registry=metrics.registry)
        self.watches = watches(
            self.reflectors, client, metrics.registry, stale_seconds=settings.kube.stale_seconds
        )
        limits, held = _capacity(settings.listen)
        self.connections = Connections(limits, metrics.closed_connections, metrics.handshakes)
        self.waiting = WaitingPods(cluster, memory, metrics=metrics, max_held=held)
        self.waker = Waker(cluster, writer, clock=clock, metrics=metrics, options=options)
        self.gatekeeper = Gatekeeper(cluster, memory, options=options, clock=clock)
        self.aging = Aging(cluster, options=options, clock=clock, schedulers=memory.schedulers)
        self.unconfirmed = Unconfirmed(cluster, clock=clock)
        self.reporter = PermitReporter(cluster, ConditionWriter(client), memory, clock=clock)
        self._planner = memory.planner
        self._planner.on_end(self.waker.after)
        retry = Retry(lambda: backoff(0.05, 2.0), asyncio.sleep, clock)
        self.binding = Binding(
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
        filtering.stale = self.watches.stale
        metrics.disagreements.set_function(lambda: filtering.lags.disagreements)
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
            self.binding,
            metrics=metrics,
            probes=Probes(self.ready, self._loop.trouble, self.unready),
            max_body_bytes=settings.listen.max_body_bytes,
        )

    def ready(self) -> dict[str, str | None]:
        """Return what is wrong, by check."""
        checks = self.watches.checks()
        return {**checks, "shutdown": "it has begun"} if self.waiting.stopping else checks

    def unready(self) -> str:
        """Return why kube-scheduler is answered an Error now, or nothing."""
        if self.waiting.stopping:
            return "the extender is shutting down"
        return "" if self.watches.synced else "the extender has not seen the whole cluster yet"

    async def _when_synced(self) -> None:
        for reflector in self.reflectors:
            await reflector.first_list.wait()
        self._loop.garbage.freeze()
        # Not before: a part of the cluster has room where the whole of it has none.
        await self._loop.pacer.go_through(self.waker.recover())
        async with asyncio.TaskGroup() as tasks:
            for each in (
                self.waker,
                self.gatekeeper,
                self._planner,
                self.aging,
                self.reporter,
                self.unconfirmed,
            ):
                tasks.create_task(each.run())

    async def run(
        self, serve: Callable[[], Any], tls: ServingTls | None, check_tls_every: float
    ) -> None:
        """Run everything until `serve` returns."""
        with self._loop.garbage:
            await self._run(serve, tls, check_tls_every)

    async def _run(
        self, serve: Callable[[], Any], tls: ServingTls | None, check_tls_every: float
    ) -> None:
        async with asyncio.TaskGroup() as tasks:
            background = [
                tasks.create_task(reflector.run(self._loop.pacer)) for reflector in self.reflectors
            ]
            background.append(tasks.create_task(self._loop.lag.run()))
            background.append(tasks.create_task(self._when_synced()))
            if tls is not None:
                self.metrics.tell_of_certificates(lambda: tls.ends)
                renewing = tls.keep_fresh(check_tls_every, self.connections.end_old)
                background.append(tasks.create_task(renewing))
            await serve()
            for task in background:
                task.cancel()


def _capacity(listen: Listen) -> tuple[Limits, int]:
    """Return what clients may take, and how many binds are held: each takes an open file."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    shaking = min(listen.max_handshakes, max(1, files // _FILES_OF_HANDSHAKES))
    others = _OTHER_FILES + (shaking if listen.tls else 0)
    most = min(listen.max_connections, files - others)
    held = max(1, min(listen.max_held_binds, most - _SPARE_CONNECTIONS))
    if held < listen.max_held_binds:
        _log.warning("fewer binds are held than listen.maxHeldBinds", files=files, held=held)
    return Limits(read_seconds=listen.read_seconds, connections=most, handshakes=shaking), held


async def serve(settings: Settings, kubeconfig: Path | None) -> None:
    """Run the extender until SIGTERM or SIGINT. Raises ConfigurationError, OSError."""
    kube, listen = settings.kube, settings.listen
    async with KubeClient(
        await keyring(kubeconfig), connections=kube.connections, timeout=kube.timeout_seconds
    ) as client:
        extender = Extender(settings, client)
        tls = _tls(listen.tls)  # a certificate that cannot be read ends it before anything runs
        app: ASGIApp = extender.app
        if listen.tls is not None:
            app = NamedClients(app, listen.tls.client_names)
        server = http.Server(
            http.config(
                app, host=listen.host, port=listen.port, keep_alive=listen.keep_alive_seconds
            ),
            extender.connections,
            context=tls.context if tls else None,
            on_exit=extender.waiting.refuse_all,
            in_hand=lambda: extender.binding.in_hand,
            patience=listen.shutdown_seconds,
        )
        _log.info("serving", host=listen.host, port=listen.port, api_server=client.host)
        await extender.run(server.serve, tls, listen.tls.check_seconds if listen.tls else 0.0)
    _log.info("stopped")


def _tls(section: Tls | None) -> ServingTls | None:
    """Return how to serve TLS, where it is asked for. Raises ConfigurationError."""
    if section is None:
        return None
    try:
        return ServingTls(Files(section.cert_file, section.key_file, section.client_ca_file))
    except OSError as error:
        raise ConfigurationError(f"listen.tls: the files cannot be used: {error}") from error
