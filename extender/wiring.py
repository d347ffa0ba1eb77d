"""The one place that puts the parts together and knows what runs.

Reflectors feed the cluster; the cluster tells the waiting pods and the waker what changed; the
server asks decisions and answers kube-scheduler. If any of them fails unexpectedly the whole
process ends, and whoever supervises it starts it anew from the API server's truth.
"""

import asyncio
import gc
import random
import ssl
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, Final

import structlog
import uvicorn
from fastapi import FastAPI
from typing_extensions import override

from extender.api.wellknown import POD_GROUP_GROUPS
from extender.config import Settings
from extender.controllers.aging import Aging
from extender.controllers.waker import Waker
from extender.kube.client import KubeClient, load_configuration
from extender.kube.decode import Decoder
from extender.kube.pods import PodWriter
from extender.kube.reflector import Reflector
from extender.kube.watch import Watcher
from extender.runtime.backoff import Backoff
from extender.runtime.clock import SystemClock
from extender.runtime.retry import Retry
from extender.server.app import create_app
from extender.server.binding import Binding
from extender.server.filtering import Filtering
from extender.server.group_memory import GroupMemory
from extender.server.waiting_pods import WaitingPods
from extender.state import events as ev
from extender.state.cluster import Cluster
from extender.state.jobs import JobInfo
from extender.state.nodes import NodeInfo
from extender.state.pod_groups import PodGroupInfo
from extender.state.pods import PodInfo
from extender.telemetry.metrics import Metrics

_log = structlog.get_logger(__name__)

LIVE_PODS: Final = "status.phase!=Succeeded,status.phase!=Failed"
"""What kube-scheduler itself watches: finished pods hold nothing, and show up as deleted."""
BACKLOG: Final = 4096
"""A gang's bind requests come all at once, each on a connection of its own."""
GRACE_SECONDS: Final = 5


class Extender:
    """Everything that `serve` runs, around one client."""

    def __init__(self, settings: Settings, client: KubeClient) -> None:
        clock, metrics, cluster, decoder = SystemClock(), Metrics(), Cluster(), Decoder()
        writer, options = PodWriter(client), settings.gang.options()
        memory = GroupMemory(cluster, options=options, clock=clock)
        self.reflectors = reflectors(client, cluster, decoder)
        self.waiting = WaitingPods(cluster, memory, metrics=metrics)
        self.waker = Waker(
            cluster, writer, clock=clock, metrics=metrics, strict=options.strict_order
        )
        self.aging = Aging(cluster, options=options, clock=clock)
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
        metrics.claims.set_function(lambda: len(snapshot.claims))
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

    async def _recover(self) -> None:
        for reflector in self.reflectors:
            await reflector.first_list.wait()
        self.waker.recover()

    async def run(self, serve: Callable[[], Any]) -> None:
        """Run everything until `serve` returns."""
        _collect_garbage_seldom()
        async with asyncio.TaskGroup() as tasks:
            background = [tasks.create_task(reflector.run()) for reflector in self.reflectors]
            background.append(tasks.create_task(self.waker.run()))
            background.append(tasks.create_task(self._recover()))
            background.append(tasks.create_task(self.aging.run()))
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


def backoff(base: float, cap: float) -> Backoff:
    """Return pauses from `base` to `cap` seconds, spread so that nobody moves in step."""
    return Backoff(base, cap, jitter=lambda: random.uniform(0.5, 1.0))  # noqa: S311


def reflectors(client: KubeClient, cluster: Cluster, decoder: Decoder) -> list[Reflector[Any]]:
    """Return what feeds the cluster: pods, nodes, Jobs, and PodGroups of both API groups."""

    def watcher(path: str, selector: str = "") -> Watcher:
        return Watcher(
            client, path, sleep=asyncio.sleep, backoff=backoff(0.1, 5.0), field_selector=selector
        )

    pods = Reflector[PodInfo](
        "pods",
        watcher("/api/v1/pods", LIVE_PODS),
        decoder.pod,
        listed=lambda pods: _tell(cluster, ev.PodsListed(pods)),
        applied=lambda pod: _tell(cluster, ev.PodApplied(pod)),
        deleted=lambda pod: _tell(cluster, ev.PodDeleted(pod.uid)),
    )
    nodes = Reflector[NodeInfo](
        "nodes",
        watcher("/api/v1/nodes"),
        decoder.node,
        listed=lambda nodes: _tell(cluster, ev.NodesListed(nodes)),
        applied=lambda node: _tell(cluster, ev.NodeApplied(node)),
        deleted=lambda node: _tell(cluster, ev.NodeDeleted(node.name)),
    )

    def pod_groups(api_group: str) -> Reflector[PodGroupInfo]:
        return Reflector[PodGroupInfo](
            f"podgroups.{api_group}",
            watcher(f"/apis/{api_group}/v1alpha1/podgroups"),
            lambda raw: decoder.pod_group(raw, api_group=api_group),
            listed=lambda found: _tell(cluster, ev.PodGroupsListed(api_group, found)),
            applied=lambda found: _tell(cluster, ev.PodGroupApplied(found)),
            deleted=lambda found: _tell(cluster, ev.PodGroupDeleted(api_group, found.key)),
        )

    jobs = Reflector[JobInfo](
        "jobs",
        watcher("/apis/batch/v1/jobs"),
        decoder.job,
        listed=lambda jobs: _tell(cluster, ev.JobsListed(jobs)),
        applied=lambda job: _tell(cluster, ev.JobApplied(job)),
        deleted=lambda job: _tell(cluster, ev.JobDeleted(job.uid)),
    )
    return [pods, nodes, jobs, *map(pod_groups, POD_GROUP_GROUPS)]


def _tell(cluster: Cluster, event: ev.Event) -> None:
    cluster.apply(event)


class _Server(uvicorn.Server):
    """Lets go of the held requests before waiting for open connections to end."""

    def __init__(self, config: uvicorn.Config, on_exit: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_exit = on_exit
        self._loop = asyncio.get_running_loop()

    @override
    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Take a signal to stop."""
        self._loop.call_soon_threadsafe(self._on_exit)
        # Not super's: that raises the signal once more at the end, and the exit code is not 0.
        self.force_exit = self.should_exit
        self.should_exit = True


async def serve(settings: Settings, kubeconfig: Path | None) -> None:
    """Run the extender until SIGTERM or SIGINT. Raises ConfigurationError, OSError."""
    configuration = await load_configuration(kubeconfig)
    kube, listen = settings.kube, settings.listen
    async with KubeClient(
        configuration, connections=kube.connections, timeout=kube.timeout_seconds
    ) as client:
        extender = Extender(settings, client)
        config = _uvicorn_config(settings, extender.app)
        config.load()  # a certificate that cannot be read is told before anything runs
        server = _Server(config, extender.waiting.refuse_all)
        _log.info("serving", host=listen.host, port=listen.port, api_server=client.host)
        await extender.run(server.serve)
    _log.info("stopped")


def _uvicorn_config(settings: Settings, app: FastAPI) -> uvicorn.Config:
    listen = settings.listen
    tls: dict[str, Any] = {}
    if listen.tls is not None:
        tls = {
            "ssl_certfile": listen.tls.cert_file,
            "ssl_keyfile": listen.tls.key_file,
            "ssl_ca_certs": str(listen.tls.client_ca_file),
            "ssl_cert_reqs": ssl.CERT_REQUIRED,
        }
    return uvicorn.Config(
        app,
        host=listen.host,
        port=listen.port,
        loop="none",  # we are inside one already
        http="httptools",
        ws="none",
        lifespan="off",
        access_log=False,
        log_config=None,
        backlog=BACKLOG,
        timeout_keep_alive=listen.keep_alive_seconds,
        timeout_graceful_shutdown=GRACE_SECONDS,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        **tls,
    )
