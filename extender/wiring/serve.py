"""The process of `gang-extender serve`.

Reflectors feed the cluster; the cluster passes changes to the waiting pods and the waker; the
server asks decisions and answers kube-scheduler. If any of them fails unexpectedly the whole
process ends, and its supervisor starts it anew from the API server's truth.
"""

import asyncio
import resource
import socket
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import structlog
from fastapi import FastAPI
from starlette.types import ASGIApp

from extender.config.gang import Gang
from extender.config.settings import Listen, Settings, Tls
from extender.explain.facts import GroupFacts
from extender.gang.verdicts import Remembered
from extender.kube.claims import ClaimWriter
from extender.kube.client import KubeClient
from extender.kube.credentials import keyring
from extender.kube.decode import Decoder
from extender.kube.errors import ConfigurationError
from extender.kube.pod_groups import PreemptorWriter
from extender.kube.pods import PodWriter
from extender.kube.recorder import Recorder
from extender.kube.reflector import ObjectsSetAside
from extender.kube.shapes import Patterns
from extender.permit.ahead import Ahead, Callbacks
from extender.permit.background import (
    ConditionReporter,
    NodeClaims,
    PodsSeenOnlyInRequests,
    remembered,
)
from extender.permit.bind import Binds
from extender.permit.filter import PodFilter
from extender.permit.group_memory import GroupMemory
from extender.permit.hold import BindingWriter, WaitingPods
from extender.permit.plans import DryRounds, Plans, UnaskedPlans
from extender.permit.preempt import Preempting
from extender.permit.wake import MissedWakeups, Waker
from extender.runtime.clock import Clock, SystemClock
from extender.runtime.faults import Retry
from extender.server.connections import Caller, Connections, Limits
from extender.server.explanations import add_pod_groups
from extender.server.health import Probes, add_snapshot
from extender.server.tls import Files, NamedClients, ServingTls
from extender.server.verbs import SchedulingVerbs, create_app
from extender.telemetry.logs import IDS
from extender.telemetry.metrics import ComputedMetrics, Metrics
from extender.wiring.memory import cluster_memory, group_memory, header
from extender.wiring.process import Loop, Server, Watches, http_config, tracing
from extender.wiring.reflectors import (
    LIVE_PODS,
    NATIVE_GROUPS,
    admissions,
    backoff,
    claim_reflectors,
    empty_cluster,
    reflectors,
    set_aside,
)

_log = structlog.get_logger(__name__)

NAME: Final = "gang-extender"
"""The service in traces."""
_SPARE: Final = 256
"""Open files that are no client's connection, and connections that are no held bind: probes, the
other verbs and metrics need them while the most binds are held."""
_PLANNING: Final = "the extender is planning for gangs that have begun"


class Extender:
    """Everything that `serve` runs, around one client."""

    def __init__(self, settings: Settings, client: KubeClient) -> None:
        clock, metrics, cluster = SystemClock(), Metrics(), empty_cluster(settings.gang)
        patterns = Patterns() if settings.gang.options().bind_equal else None
        decoder = Decoder(settings.gang.ignored(), patterns, placement=settings.gang.placement)
        self.metrics, self._cluster = metrics, cluster
        writer, options = PodWriter(client), settings.gang.options()
        verdicts = GroupMemory(cluster, options=options, clock=clock)
        plans = Plans(cluster, verdicts)
        self._loop = Loop(clock, metrics.registry, settings.health)
        self.reflectors = [
            *reflectors(client, cluster, decoder, pods=LIVE_PODS),
            *claim_reflectors(client, cluster),
            *admissions(client, cluster, settings.reconcile.lease_namespace),
        ]
        set_aside(cluster, self.reflectors, ObjectsSetAside(), registry=metrics.registry)
        self.watches = Watches(self.reflectors, stale_seconds=settings.kube.stale_seconds)
        limits, held = _capacity(settings.listen)
        self.waker = Waker(cluster, writer, plans, metrics=metrics)
        self.dry_rounds = DryRounds(
            cluster, ClaimWriter(client), clock=clock, wake_after=self.waker.after
        )
        self.recorder = self._events(client, clock)
        callbacks = Callbacks(
            metrics=metrics,
            wake_after=self.waker.after,
            record=self.recorder.record,
            is_connected=lambda: self.caller.is_there,
            stale=self.watches.stale,
            natives_stale=partial(self.watches.unsure_of, NATIVE_GROUPS),
        )
        self.waiting = WaitingPods(
            *(cluster, verdicts),
            metrics=metrics,
            try_beside=self.waker.try_beside,
            max_held=held,
        )
        retry = Retry(lambda: backoff(0.05, 2.0), asyncio.sleep, clock)
        bindings = BindingWriter(cluster, self.waiting, writer.bind, metrics=metrics, retry=retry)
        self.ahead = Ahead(cluster, self.waiting, bindings, plans=plans, callbacks=callbacks)
        self.caller = Caller(self.ahead.lost)
        self.connections = Connections(
            *(limits, metrics.closed_connections, metrics.handshakes), on_gone=self.caller.gone
        )
        pod_filter = PodFilter(
            *(cluster, plans, self.dry_rounds),
            scheduler_lag=self.ahead.lag,
            callbacks=callbacks,
            no_node=self.waiting.found_no_node,
        )
        self.binds = Binds(
            *(cluster, self.waiting, bindings),
            ahead=self.ahead,
            dry_rounds=self.dry_rounds,
            longest_wait=options.max_schedule_timeout,
        )
        self.unasked_plans = UnaskedPlans(cluster, plans)
        self.node_claims = NodeClaims(
            cluster, options=options, clock=clock, schedulers=plans.schedulers
        )
        self.node_claims.writer = lambda: PreemptorWriter(client) if self._is_asked() else None
        self.only_in_requests = PodsSeenOnlyInRequests(cluster, clock=clock)
        self.missed = MissedWakeups(cluster, plans, wake=self.waker.again)
        self.reporter = ConditionReporter(
            cluster, PreemptorWriter(client).apply_condition, verdicts, clock=clock
        )
        self.preempting = Preempting(
            *(cluster, plans, PreemptorWriter(client)),
            metrics=metrics,
            is_asked=self._is_asked,
            is_behind=lambda: pod_filter.lags.is_behind,
        )
        self._planner = plans.planner
        view = cluster.view()
        self.app: FastAPI = create_app(
            SchedulingVerbs(
                *(view, decoder, pod_filter),
                ahead=self.ahead,
                binds=self.binds,
                may_preempt=self.preempting.may_preempt,
            ),
            metrics=metrics,
            probes=Probes(self.ready, self._loop.trouble, self.unready, self.watches.remarks),
            max_body_bytes=settings.listen.max_body_bytes,
            caller=self.caller,
        )
        self._show(settings, pod_filter, plans, client=client)

    _recovered = False

    def _events(self, client: KubeClient, clock: Clock) -> Recorder:
        """Return what writes the Events of pods that were bound ahead."""
        return Recorder(
            client,
            clock=clock,
            instance=socket.gethostname(),
            count=lambda result: self.metrics.events.labels(result).inc(),
        )

    def _show(
        self, settings: Settings, pod_filter: PodFilter, plans: Plans, *, client: KubeClient
    ) -> None:
        """Connect the gauges, and what is shown of gangs, to what they read."""
        view = self._cluster.view()

        def memory_of(group: str) -> Remembered:
            return remembered(group, plans, self.waiting, stale=self.watches.stale())

        def facts() -> GroupFacts:
            return GroupFacts(
                view,
                plans.verdicts.options,
                plans.clock.wall(),
                source="Extender",
                remembered=memory_of,
                never_starts=plans.never_starts,
            )

        add_pod_groups(self.app, facts, unready=self.unready, pacer=self._loop.pacer)
        memory = partial(self._memory, settings, plans, memory_of)
        add_snapshot(self.app, memory, pacer=self._loop.pacer)
        metrics = self.metrics
        metrics.registry.register(ComputedMetrics(lambda: self.watches.metrics(client.keyring)))
        metrics.disagreements.set_function(lambda: pod_filter.lags.disagreements)
        metrics.preempting.set_function(lambda: self.preempting.under_way)
        metrics.unseen_pods.set_function(lambda: len(view.unseen))
        metrics.scheduler_behind.set_function(lambda: self.ahead.lag.behind)
        metrics.waiting_pods.set_function(lambda: self.waiting.held)
        metrics.reserved_pods.set_function(lambda: len(view.planned))
        metrics.claims.set_function(
            lambda: sum(bool(claim.amounts) for claim in view.claims.values())
        )

    def _memory(
        self, settings: Settings, plans: Plans, memory_of: Callable[[str], Remembered]
    ) -> dict[str, object]:
        """Return what this process remembers, for a snapshot."""
        view = self._cluster.view()
        now, watches = SystemClock().wall(), self.watches.states()
        return {
            **header("extender", settings, now=now, watches=watches, unready=self.unready()),
            **cluster_memory(view),
            "verdicts": group_memory(view, memory_of, plans.never_starts),
        }

    def ready(self) -> dict[str, str | None]:
        """Return the problem of each check, or None."""
        checks = dict(self.watches.checks())
        if self.watches.synced and not self._recovered:
            checks["plans"] = _PLANNING
        if self.waiting.stopping:
            checks["shutdown"] = "it has begun"
        return checks

    def unready(self) -> str:
        """Return why kube-scheduler is answered an Error now, or nothing."""
        if self.waiting.stopping:
            return "the extender is shutting down"
        if not self.watches.synced:
            return "the extender has not seen the whole cluster yet"
        return "" if self._recovered else _PLANNING

    def _is_asked(self) -> bool:
        return self.caller.is_there and self.watches.stale() is None

    def end(self) -> None:
        """End all held requests, and begin no more: this process is about to stop."""
        self.waiting.refuse_all()
        self.ahead.stop()

    async def _when_synced(self) -> None:
        await self.watches.wait()
        self._loop.garbage.freeze()
        # Only now: a part of the cluster has room where the whole of it has none.
        await self._loop.pacer.go_through(self.preempting.recover())
        await self._loop.pacer.go_through(self.unasked_plans.recover())
        self.ahead.restarted()
        self._recovered = True
        await self._loop.pacer.go_through(self.waker.recover())
        async with asyncio.TaskGroup() as tasks:
            for each in (
                self.waker,
                self.unasked_plans,
                self._planner,
                self.node_claims,
                self.reporter,
                self.only_in_requests,
                self.missed,
                self.ahead,
                self.recorder,
                self.preempting,
                self.dry_rounds,
            ):
                tasks.create_task(each.run())

    async def run(
        self, serve: Callable[[], Any], tls: ServingTls | None, check_tls_every: float
    ) -> None:
        """Run everything until `serve` returns."""
        works = [each.run(self._loop.pacer) for each in self.reflectors]
        works += [self._loop.lag.run(), self._when_synced()]
        if tls is not None:
            self.metrics.show_certificates(lambda: tls.ends)
            works.append(tls.keep_fresh(check_tls_every, self.connections.end_old))
        await self._loop.beside(serve, works)


def _capacity(listen: Listen) -> tuple[Limits, int]:
    """Return the limits for clients, and how many binds are held: each takes an open file."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    handshakes = min(listen.max_handshakes, files // 8)
    most = min(listen.max_connections, files - _SPARE - (handshakes if listen.tls else 0))
    held = max(1, min(listen.max_held_binds, most - _SPARE))
    if held < listen.max_held_binds:
        _log.warning("fewer binds are held than listen.maxHeldBinds", files=files, held=held)
    return Limits(read_seconds=listen.read_seconds, connections=most, handshakes=handshakes), held


async def serve(settings: Settings, kubeconfig: Path | None) -> None:
    """Run the extender until SIGTERM or SIGINT. Raises ConfigurationError, OSError."""
    kube, listen = settings.kube, settings.listen
    async with KubeClient(
        await keyring(kubeconfig),
        connections=kube.connections,
        posts=kube.connections // 2,
        timeout=kube.timeout_seconds,
    ) as client:
        extender = Extender(settings, client)
        tls = _tls(listen.tls)  # a certificate that cannot be read ends it before anything runs
        app: ASGIApp = extender.app
        if listen.tls is not None:
            app = NamedClients(app, listen.tls.client_names)
        server = Server(
            http_config(
                app, host=listen.host, port=listen.port, keep_alive=listen.keep_alive_seconds
            ),
            extender.connections,
            context=tls.context if tls else None,
            on_exit=extender.end,
            unfinished=lambda: extender.binds.unfinished,
            patience=listen.shutdown_seconds,
        )
        starts = extender.waiting.starts
        IDS.add("group", "gang_id", starts.id_of)
        async with tracing(settings.telemetry.traces, NAME, extender.metrics, starts):
            _log.info("serving", host=listen.host, port=listen.port, api_server=client.host)
            say_if_not_together(settings.gang)
            await extender.run(server.serve, tls, listen.tls.check_seconds if listen.tls else 0.0)
    _log.info("stopped")


def say_if_not_together(gang: Gang) -> None:
    """Log why members are bound one by one: a warning where the setting asks for more."""
    why = gang.not_together()
    if why is not None:
        log = _log.warning if "bind_together" in gang.model_fields_set else _log.info
        log("equal members are not bound together", why=why)


def _tls(section: Tls | None) -> ServingTls | None:
    """Return how to serve TLS, where it is asked for. Raises ConfigurationError."""
    if section is None:
        return None
    try:
        return ServingTls(Files(section.cert_file, section.key_file, section.client_ca_file))
    except OSError as error:
        raise ConfigurationError(f"listen.tls: the files cannot be used: {error}") from error
