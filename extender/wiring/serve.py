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

from extender.config import Gang, Listen, Settings, Tls
from extender.kube.claims import ClaimWriter
from extender.kube.client import KubeClient
from extender.kube.credentials import keyring
from extender.kube.decode import Decoder
from extender.kube.errors import ConfigurationError
from extender.kube.patterns import Patterns
from extender.kube.pod_groups import PodGroupConditionWriter
from extender.kube.pods import PodWriter
from extender.kube.preemptions import PreemptorWriter
from extender.kube.recorder import ONE_OF_EACH, Recorder
from extender.kube.set_aside import ObjectsSetAside
from extender.permit.aging import Aging
from extender.permit.announcing import Announcer
from extender.permit.arrivals import ArrivingGangs
from extender.permit.begun import BegunGroups
from extender.permit.condition import ConditionReporter
from extender.permit.filter import PodFilter
from extender.permit.gatekeeper import Gatekeeper
from extender.permit.memory import GroupMemory
from extender.permit.next_groups import NextGroups
from extender.permit.overlooked import Overlooked
from extender.permit.plans import Plans
from extender.permit.preempting import Preempting
from extender.permit.together import BindTogether
from extender.permit.unconfirmed import Unconfirmed
from extender.permit.verdicts import Verdicts
from extender.permit.waiting_pods import WaitingPods
from extender.permit.waker import Waker
from extender.permit.writing import BindingWriter
from extender.permit.writing_ahead import AheadWriter
from extender.runtime.clock import SystemClock
from extender.runtime.retry import Retry
from extender.server.app import create_app
from extender.server.connections import Caller, Connections, Limits
from extender.server.health import Probes
from extender.server.pod_groups import GroupsShown, add_pod_groups, believed
from extender.server.snapshot import SnapshotSource, add_snapshot
from extender.server.tls import Files, NamedClients, ServingTls
from extender.server.verbs import Binding, Filtering
from extender.snapshot.memory import cluster_memory, group_memory, header
from extender.telemetry.logs import IDS
from extender.telemetry.metrics import Metrics
from extender.wiring import http
from extender.wiring.admissions import admissions
from extender.wiring.claims import claim_reflectors
from extender.wiring.health import watches
from extender.wiring.loop import Loop
from extender.wiring.natives import empty_cluster
from extender.wiring.reflectors import LIVE_PODS, NATIVE_GROUPS, backoff, reflectors, set_aside
from extender.wiring.tracing import tracing

_log = structlog.get_logger(__name__)

NAME: Final = "gang-extender"
"""The service in traces."""
_OTHER_FILES: Final = 256
"""Open files that are no client's connection: those to the API server, and the libraries'."""
_FILES_OF_HANDSHAKES: Final = 8
"""One in so many open files may be a connection that has not finished its TLS handshake."""
_PLANNING: Final = "the extender is planning for gangs that have begun"
_WATCHES: Final = 24
"""Connections that are left for watches and single requests."""
_SPARE_CONNECTIONS: Final = 64
"""For filter and bind requests, probes and metrics while all binds that may be are held."""


class Extender:
    """Everything that `serve` runs, around one client."""

    def __init__(self, settings: Settings, client: KubeClient) -> None:
        clock, metrics, cluster = SystemClock(), Metrics(), empty_cluster(settings.gang)
        patterns = Patterns() if settings.gang.options().bind_equal else None
        decoder = Decoder(settings.gang.ignored(), patterns, placement=settings.gang.placement)
        self.metrics, self._cluster = metrics, cluster
        writer, options = PodWriter(client), settings.gang.options()
        verdicts = Verdicts(cluster, options=options, clock=clock)
        plans = Plans(cluster, verdicts)
        self._loop = Loop(clock, metrics.registry, settings.health)
        self.reflectors = [
            *reflectors(client, cluster, decoder, pods=LIVE_PODS, budgets=True),
            *claim_reflectors(client, cluster),
            *admissions(client, cluster, settings.reconcile.lease_namespace),
        ]
        set_aside(cluster, self.reflectors, ObjectsSetAside(), registry=metrics.registry)
        self.watches = watches(
            self.reflectors, client, metrics.registry, stale_seconds=settings.kube.stale_seconds
        )
        limits, held = _capacity(settings.listen)
        self.connections = self._connections(limits)
        self.waiting = WaitingPods(
            *(cluster, verdicts),
            metrics=metrics,
            max_held=held,
            try_beside=lambda group, pods: self.waker.try_beside(group, pods),
        )
        self.waker = Waker(cluster, writer, clock=clock, metrics=metrics, options=options)
        self.gatekeeper = Gatekeeper(cluster, plans, options=options, clock=clock)
        self.begun = BegunGroups(cluster, plans, clock=clock)
        self.aging = Aging(cluster, options=options, clock=clock, schedulers=plans.schedulers)
        self.unconfirmed = Unconfirmed(cluster, clock=clock)
        self.overlooked = Overlooked(cluster, plans, wake=self.waker.again)
        self.reporter = ConditionReporter(
            cluster, PodGroupConditionWriter(client), verdicts, clock=clock
        )
        self.preempting = Preempting(
            *(cluster, plans, PreemptorWriter(client)),
            metrics=metrics,
            is_asked=self._is_asked,
        )
        self._planner = plans.planner
        self._planner.on_end(self.waker.after)
        retry = Retry(lambda: backoff(0.05, 2.0), asyncio.sleep, clock)
        pod_filter = PodFilter(
            cluster,
            plans,
            metrics=metrics,
            wake_after=self.waker.after,
            no_node=self.waiting.found_no_node,
            stale=self.watches.stale,
        )
        self.sight = pod_filter.sight
        bindings = BindingWriter(cluster, self.waiting, writer, metrics=metrics, retry=retry)
        self.ahead = self._together(client, bindings, plans) if options.bind_equal else None
        self.arriving = self._arriving(plans, pod_filter)
        self.binding = Binding(
            *(cluster, self.waiting, bindings),
            sight=self.sight,
            longest_wait=options.max_schedule_timeout,
            ahead=self.ahead,
        )
        view = cluster.view()
        self.app: FastAPI = create_app(
            Filtering(
                view,
                decoder,
                pod_filter,
                pauses=self.ahead.pauses if self.ahead is not None else None,
                arriving=self.arriving,
            ),
            self.binding,
            metrics=metrics,
            probes=Probes(self.ready, self._loop.trouble, self.unready, self.watches.remarks),
            max_body_bytes=settings.listen.max_body_bytes,
            caller=self.caller,
        )
        self._show(settings, pod_filter, plans)
        self._connect(client, pod_filter)

    _recovered = False

    def _connections(self, limits: Limits) -> Connections:
        def lost() -> None:
            if self.ahead is not None:
                self.ahead.lost()

        self.caller, metrics = Caller(lost), self.metrics
        return Connections(
            *(limits, metrics.closed_connections, metrics.handshakes), on_gone=self.caller.gone
        )

    def _together(self, client: KubeClient, bindings: BindingWriter, plans: Plans) -> AheadWriter:
        self.recorder = Recorder(
            client,
            clock=plans.clock,
            instance=socket.gethostname(),
            count=lambda result: self.metrics.events.labels(result).inc(),
            limits=ONE_OF_EACH,
        )
        in_hand = plans.verdicts.in_hand
        self.announcer = Announcer(
            self.recorder.record,
            clock=plans.clock,
            in_hand=in_hand,
            view=self._cluster.view(),
            behind=lambda: self.sight.behind,
        )
        ahead = AheadWriter(self._cluster, self.waiting, bindings, announcer=self.announcer)
        self.recorder.gives_way = lambda: ahead.going_out > 0
        ahead.while_there(lambda: self.caller.is_there)
        together = BindTogether(
            *(self._cluster, self.waiting, ahead),
            plans=plans,
            metrics=self.metrics,
            behind=self._is_behind,
        )
        self.next_groups = NextGroups(self._cluster, plans, together)
        self.waker.spare(together.to_wake)
        return ahead

    def _arriving(self, plans: Plans, pod_filter: PodFilter) -> ArrivingGangs:
        """Return the pauses while gangs are created, connected with what binds ahead."""
        arriving = ArrivingGangs(self._cluster, plans, metrics=self.metrics)
        if self.ahead is not None:
            pod_filter.on_look(self.ahead.filtered)
            pod_filter.on_look(self.next_groups.looked)
            arriving.caller = self.ahead
            self.ahead.on_hung_up = arriving.hung_up
            self.next_groups.held_back = lambda: arriving.held_back
        return arriving

    def _connect(self, client: KubeClient, pod_filter: PodFilter) -> None:
        """Connect what filter has found out to what preempts, and to what sends members away."""
        self.preempting.is_behind = lambda: pod_filter.lags.is_behind
        self.claims = pod_filter.claims
        self.claims.writer = ClaimWriter(client)
        self.waiting.dry_round = self.claims.said
        self.binding.on_refused = self.claims.refused

    def _show(self, settings: Settings, pod_filter: PodFilter, plans: Plans) -> None:
        """Connect the watches, the gauges, and what is shown of gangs, to what they read."""
        view = self._cluster.view()
        pod_filter.natives_stale = partial(self.watches.unsure_of, NATIVE_GROUPS)
        memory = GroupMemory(view, plans, self.waiting, stale=self.watches.stale)
        facts = believed(view, plans, memory)
        add_pod_groups(self.app, GroupsShown(facts, self.unready, self._loop.pacer))
        add_snapshot(
            self.app, SnapshotSource(partial(self._memory, settings, memory), self._loop.pacer)
        )
        metrics = self.metrics
        metrics.disagreements.set_function(lambda: pod_filter.lags.disagreements)
        metrics.preempting.set_function(lambda: self.preempting.under_way)
        metrics.unseen_pods.set_function(lambda: len(view.unseen))
        metrics.scheduler_behind.set_function(lambda: self.sight.behind)
        metrics.waiting_pods.set_function(lambda: self.waiting.held)
        metrics.reserved_pods.set_function(lambda: len(view.planned))
        metrics.claims.set_function(
            lambda: sum(bool(claim.amounts) for claim in view.claims.values())
        )

    def _memory(self, settings: Settings, groups: GroupMemory) -> dict[str, object]:
        """Return what this process remembers, for a snapshot."""
        view = self._cluster.view()
        now, watches = SystemClock().wall(), self.watches.states()
        return {
            **header("extender", settings, now=now, watches=watches, unready=self.unready()),
            **cluster_memory(view),
            "verdicts": group_memory(view, groups.of, groups.never_starts),
        }

    def ready(self) -> dict[str, str | None]:
        """Return the problems, by check."""
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

    def _is_behind(self) -> bool:
        return self.sight.behind or self.watches.stale() is not None

    def end(self) -> None:
        """End what is held, and begin nothing more: this process is about to stop."""
        self.waiting.refuse_all()
        self.arriving.stop()
        if self.ahead is not None:
            self.ahead.stop()

    async def _when_synced(self) -> None:
        for reflector in self.watches.needed:
            await reflector.first_list.wait()
        self._loop.garbage.freeze()
        # Not before: a part of the cluster has room where the whole of it has none.
        await self._loop.pacer.go_through(self.preempting.recover())
        await self._loop.pacer.go_through(self.begun.recover())
        if self.ahead is not None:
            self.sight.restarted()
        self._recovered = True
        await self._loop.pacer.go_through(self.waker.recover())
        async with asyncio.TaskGroup() as tasks:
            for each in (
                self.waker,
                self.gatekeeper,
                self.begun,
                self._planner,
                self.aging,
                self.reporter,
                self.unconfirmed,
                self.overlooked,
                self.sight,
                self.preempting,
                self.claims,
            ):
                tasks.create_task(each.run())
            if self.ahead is not None:
                for work in (self.ahead, self.next_groups, self.announcer, self.recorder):
                    tasks.create_task(work.run())

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
        await keyring(kubeconfig),
        connections=kube.connections,
        posts=min(kube.connections // 2, kube.connections - _WATCHES),
        timeout=kube.timeout_seconds,
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
            on_exit=extender.end,
            unfinished=lambda: extender.binding.unfinished,
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
