"""The HTTPS server of the reconciler that the API server calls, in every replica."""

import asyncio
import contextlib
import os
import socket
import ssl
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from starlette.types import ASGIApp
from typing_extensions import override

from extender.api.core_v1 import matches_selector
from extender.config.settings import Settings
from extender.config.settings import Webhooks as Section
from extender.controllers.webhooks import Certificates, ConversionGate, GivenFiles, MadeByUs
from extender.jobs import registry
from extender.kube.certificates import Bundle, CertificateSecret
from extender.kube.client import KubeClient
from extender.kube.webhooks import WebhookClients
from extender.runtime.clock import Clock
from extender.server.connections import Connections
from extender.server.webhooks import webhooks_app
from extender.state.queue.store import Queues
from extender.state.queue.view import QueueView
from extender.webhooks.conversion import CONVERTED
from extender.webhooks.jobs import by_kind
from extender.wiring.process import Server, http_config
from extender.wiring.queue import QueueControllers
from extender.wiring.reflectors import backoff

_ASKED: Final = ("localqueues", "namespaces")


def webhooks(
    settings: Settings,
    client: KubeClient,
    *,
    clock: Clock,
    queue: QueueControllers | None,
    connections: Connections,
) -> "WebhookServer | None":
    """Return the webhooks of a process with that queue. None: they are not wanted."""
    if not wanted(settings):
        return None
    reflectors = [each for each in queue.reflectors if each.kind in _ASKED] if queue else []
    chosen = settings.queue
    kinds = registry.select(chosen.integrations, chosen.external_integrations) if queue else ()
    queues = KnownQueues(queue.queues.view() if queue else Queues().view(), settings)
    app = webhooks_app(by_kind(kinds), queues, ready=lambda: all(r.synced for r in reflectors))
    return WebhookServer(settings.webhooks, client, clock=clock, app=app, connections=connections)


class KnownQueues:
    """The facts that the webhooks need, from the queue's view."""

    def __init__(self, view: QueueView, settings: Settings) -> None:
        self._view = view
        self._all = settings.queue.manage_jobs_without_queue_name
        self._where = settings.queue.selector()

    def has_local_queue(self, namespace: str, name: str) -> bool:
        """Return whether there is a LocalQueue."""
        return f"{namespace}/{name}" in self._view.local_queues

    def holds_all(self, namespace: str) -> bool:
        """Return whether jobs without a queue name are held in a namespace as well."""
        found = self._view.namespaces.get(namespace) if self._all else None
        return found is not None and matches_selector(self._where, found.labels)


def wanted(settings: Settings) -> bool:
    """Return whether to serve. With `auto`: if the queue is ours and the API server can find us.

    Without our queue, another controller has one, and the conversion of its CRDs is not ours.
    """
    section = settings.webhooks
    if section.enabled == "auto":
        found = section.url is not None or "KUBERNETES_SERVICE_HOST" in os.environ
        return settings.queue.enabled and found
    return section.enabled


class WebhookServer:
    """The server and its certificate. It serves once there is a certificate."""

    def __init__(
        self,
        section: Section,
        client: KubeClient,
        *,
        clock: Clock,
        app: ASGIApp,
        connections: Connections,
    ) -> None:
        self.tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._has_certificate = asyncio.Event()
        self._server = _Server(
            http_config(app, host=section.host, port=section.port),
            connections,
            context=self.tls,
        )

        def is_served(name: str) -> bool:
            """Return whether older versions of a CRD are to be served."""
            is_workloads = name.startswith("workloads.")
            return section.older_workloads if is_workloads else section.older_versions

        callers = WebhookClients(
            client,
            section.address(),
            crds=CONVERTED,
            serve=[name for name in CONVERTED if is_served(name)],
            configuration=section.configuration,
        )
        self.certificates = Certificates(
            _source(section, client, clock),
            publish=callers.publish,
            adopt=self._adopt,
            clock=clock,
            backoff=backoff(0.2, 30.0),
            every=section.check_seconds,
        )

    @property
    def serving(self) -> bool:
        """True while requests are answered."""
        return self._server.listening.is_set()

    async def run(self) -> None:
        """Serve, and keep the certificate valid, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.certificates.run())
            await self._has_certificate.wait()
            await self._server.serve()

    async def _adopt(self, bundle: Bundle) -> None:
        """Serve a certificate on new connections. Return when the port is open."""
        load(self.tls, bundle)
        self._has_certificate.set()
        await self._server.listening.wait()


class _Server(Server):
    """A second server of the process, which leaves signals to the first one."""

    @override
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture no signals."""
        yield

    @override
    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until cancelled, then let requests end."""
        try:
            await super().serve()
        finally:
            if self.started:
                await self.shutdown()


def conversion_gate(settings: Settings, client: KubeClient) -> ConversionGate:
    """Return the gate that delays the caches until objects can be read without loss."""
    return ConversionGate(
        WebhookClients(client, settings.webhooks.address()),
        CONVERTED,
        converts=wanted(settings),
        backoff=backoff(0.2, 5.0),
    )


def is_converted(kind: str) -> bool:
    """Return whether the API server may have to convert objects of a reflector's kind."""
    return any(name.startswith(f"{kind}.") for name in CONVERTED)


def _source(section: Section, client: KubeClient, clock: Clock) -> MadeByUs | GivenFiles:
    given = section.certificate
    if given is not None:
        return GivenFiles(given.cert_file, given.key_file, given.ca_file, clock)
    services = (section.service, section.conversion_service)
    names = [f"{service}.{section.namespace}.svc" for service in services]
    host = urlsplit(section.url).hostname if section.url else None
    return MadeByUs(
        CertificateSecret(client, namespace=section.namespace, name=section.secret),
        names=[*names, *([host] if host else [])],
        days=section.certificate_days,
        clock=clock,
    )


def load(context: ssl.SSLContext, bundle: Bundle) -> None:
    """Load a certificate into a context, which serves it from then on."""
    # The ssl module loads certificates from files only. This process alone may read the file.
    with tempfile.NamedTemporaryFile(prefix="gang-extender-") as file:
        file.write(bundle.certificate + b"\n" + bundle.key)
        file.flush()
        context.load_cert_chain(Path(file.name))
