"""All settings in one model, and how it is read: a file, and flags on top.

The sections `gang` and `queue` have files of their own. The others come first here: what the
processes serve and to whom, what they log and send, and how they call the API server.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError, model_validator
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails

from extender.config.gang import Gang
from extender.config.queue import Queue
from extender.config.sections import (
    Name,
    Port,
    Positive,
    Seconds,
    Section,
    SettingsError,
    is_loopback,
    read_yaml,
)
from extender.kube.lease import LeaseTimes
from extender.kube.webhooks import Address


class Certificate(Section):
    """A certificate to serve, from files that are read again when they change."""

    cert_file: Path
    """PEM certificate chain of this service"""
    key_file: Path
    """PEM key of that certificate"""


class Tls(Certificate):
    """Serving with TLS, to clients that show a certificate of the given authority."""

    client_ca_file: Path
    """PEM authorities that sign the clients' certificates"""
    client_names: list[Name] = Field(min_length=1)
    """clients that may call the verbs: common names, DNS names or URIs, one of which the client's
    certificate must have; kubeadm's kube-scheduler is system:kube-scheduler"""
    check_seconds: Positive = 10
    """pause between two looks at the files; changed files are used without a restart"""

    def check_files(self) -> None:
        """Raise SettingsError where a file is missing; its name would be lost later."""
        for name in ("cert_file", "key_file", "client_ca_file"):
            path: Path = getattr(self, name)
            if not path.is_file():
                raise SettingsError(f"listen.tls.{to_camel(name)}: {path} is not a file")


class Listen(Section):
    """The address at which kube-scheduler finds the extender, and limits for clients."""

    host: str = "127.0.0.1"
    """address; any other than loopback requires `tls`"""
    port: Port = 8888
    """port; 0 takes a free one"""
    tls: Tls | None = None
    """TLS with client certificates"""
    keep_alive_seconds: int = Field(default=120, gt=90)
    """how long an idle connection is kept; longer than the 90 s of kube-scheduler"""
    max_body_bytes: int = Field(default=64 * 2**20, gt=0)
    """a larger request is refused; the names of 5000 nodes take 100 KiB"""
    read_seconds: Positive = 10
    """how long a client may take to send a whole request, and to begin the first"""
    max_connections: int = Field(default=25_000, ge=16)
    """open connections; one more closes the connection that has been without a whole request for
    longest; must be above `maxHeldBinds`"""
    max_handshakes: int = Field(default=256, ge=1)
    """connections with an unfinished TLS handshake, beside `maxConnections`; one more cuts off the
    oldest of the address that has the most"""
    max_held_binds: int = Field(default=20_000, ge=1)
    """bind requests that wait for the rest of their gangs, at about 17 KiB each; a gang that would
    hold more is refused"""
    shutdown_seconds: Seconds = 20
    """how long bindings that have begun may take after SIGTERM; keep it ten seconds below the pod's
    terminationGracePeriodSeconds"""

    @model_validator(mode="after")
    def _loopback_or_tls(self) -> Self:
        if self.tls is None and not is_loopback(self.host):
            raise ValueError(
                f"host {self.host} is not loopback, and a caller of /bind can place any pod: "
                "set listen.tls with certFile, keyFile, clientCaFile and clientNames, or listen on "
                "127.0.0.1"
            )
        if self.max_connections <= self.max_held_binds:
            raise ValueError("maxConnections must be above maxHeldBinds: each is a connection")
        return self


class Reconcile(Section):
    """The address of health, metrics and lists of the reconciler, and the election of a leader."""

    host: str = "127.0.0.1"
    """address of health, metrics and the lists of waiting workloads; any other than loopback is
    served with TLS, to callers whose bearer token the API server accepts"""
    port: Port = 8889
    """port; 0 takes a free one"""
    tls: Certificate | None = None
    """certificate to serve; default on another address than loopback: the webhooks'"""
    authenticate_on_loopback: bool = False
    """whether callers need a bearer token on loopback too"""
    leader_elect: bool = True
    """whether to work only as the leader among replicas"""
    lease_namespace: Name = "gang-extender-system"
    """namespace of the Lease; change it with `webhooks.namespace` where the reconciler runs in
    another namespace"""
    lease_name: Name = "gang-extender-reconciler"
    """name of the Lease"""
    lease_seconds: int = Field(default=15, ge=1)
    """how long replicas wait for a silent leader; above `renewSeconds`"""
    renew_seconds: Positive = 10
    """how long the leader tries to renew before it gives up; above `retrySeconds`"""
    retry_seconds: Positive = 2
    """pause between two tries to renew"""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if not self.lease_seconds > self.renew_seconds > self.retry_seconds:
            raise ValueError(
                "leaseSeconds must be above renewSeconds, and that above retrySeconds, or two "
                "replicas could lead at once"
            )
        return self

    @property
    def is_local(self) -> bool:
        """Return whether only this machine reaches the address."""
        return is_loopback(self.host)

    @property
    def authenticates(self) -> bool:
        """Return whether callers must send a bearer token."""
        return self.authenticate_on_loopback or not self.is_local

    def times(self) -> LeaseTimes:
        """Return the times of the election."""
        return LeaseTimes(float(self.lease_seconds), self.renew_seconds, self.retry_seconds)


class WebhookCertificate(Certificate):
    """A certificate for the webhooks, from files."""

    ca_file: Path | None = None
    """PEM authorities that the reconciler writes into the CRDs and the webhook configurations;
    without it you write them, and have old versions served"""


def _auto_or_switch(value: object) -> object:
    if value == "auto" or isinstance(value, bool):
        return value
    raise ValueError("should be auto, true or false")


def _is_https(url: str) -> str:
    if re.fullmatch(r"https://[^/]+", url) is None:
        raise ValueError("should be https://host or https://host:port, without a path")
    return url


class Webhooks(Section):
    """Webhooks for the API server: conversion between versions, and the review of new jobs."""

    enabled: Annotated[Literal["auto"] | bool, BeforeValidator(_auto_or_switch)] = "auto"
    """whether to serve; auto: with the queue, in a pod or where `url` is set"""
    host: str = ""
    """address; empty: all"""
    port: Port = 9443
    """port; 0 takes a free one"""
    older_versions: bool = True
    """whether to have v1beta1 of ClusterQueue and LocalQueue served where the reconciler sees a CRD
    for the first time; later `served` stays as you apply it"""
    older_workloads: bool = False
    """the same for v1beta1 of Workload; each write of a workload is then converted"""
    certificate: WebhookCertificate | None = None
    """files; default: the process makes a certificate and keeps it in a Secret"""
    certificate_days: Positive = 365
    """life of that certificate; it is renewed after two thirds"""
    check_seconds: Positive = 30
    """pause between two looks at the certificate"""
    namespace: Name = "gang-extender-system"
    """namespace of the Secret and the Services"""
    secret: Name = "gang-reconciler-webhooks-tls"  # noqa: S105 - the name of one
    """Secret of the certificate"""
    service: Name = "gang-reconciler-webhooks"
    """Service of the webhooks for jobs, with the ready replicas"""
    conversion_service: Name = "gang-reconciler-conversion"
    """Service of the conversion webhook, with all replicas: reading the queues, which makes a
    replica ready, may take a conversion"""
    configuration: Name = "gang-queue"
    """name of the optional webhook configurations that get the authority"""
    url: Annotated[str, AfterValidator(_is_https)] | None = None
    """where the API server finds the webhooks, instead of the Services: `https://host:port`"""

    def address(self) -> Address:
        """Return where the API server finds the webhooks."""
        return Address(self.namespace, self.service, self.conversion_service, self.url)


def _collector(address: str) -> str:
    """Return the address of a collector."""
    parts = urlsplit(address)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError("should be the address of a collector, such as http://collector:4318")
    return address


class TraceSettings(Section):
    """Traces of gangs and admissions, sent by OpenTelemetry's protocol (OTLP) over HTTP."""

    enabled: bool = False
    """whether traces are sent; the packages are an extra: pip install 'gang-extender[otel]'"""
    endpoint: Annotated[str, AfterValidator(_collector)] | None = None
    """address of the collector; default: what the environment says (`OTEL_EXPORTER_OTLP_ENDPOINT`
    and the other standard variables), else http://localhost:4318"""
    sample_ratio: float = Field(default=1.0, ge=0, le=1)
    """share of the traces that are sent; a gang or an admission has all of its spans or none"""


class Telemetry(Section):
    """Traces that are sent to a collector; metrics and logs are there without it."""

    traces: TraceSettings = TraceSettings()
    """traces of gangs and admissions"""


class Kube(Section):
    """Calls of the API server."""

    connections: int = Field(default=64, ge=32)
    """connections to the API server, beside one for each watch; half of the extender's are for
    Bindings and Events alone, and half of the reconciler's for writes"""
    timeout_seconds: Positive = 10
    """time-out of one request"""
    stale_seconds: float = Field(default=180, ge=120, allow_inf_nan=False)
    """a watch without any event for so long is stale: the process is not ready and no gang starts;
    bookmarks come about once a minute"""


class Health(Section):
    """Limits from which `/livez` fails."""

    max_loop_lag_seconds: float = Field(default=30, ge=0, le=60)
    """total lag of the event loop within a minute from which `/livez` answers 503; lags of a second
    and more count, each up to a third of this; 0: `/livez` ignores the lag"""


class Log(Section):
    """Logs, to standard error."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """least level"""
    format: Literal["console", "json"] = "console"
    """form of a line"""


class Settings(Section):
    """All settings; each section names the commands that read it."""

    listen: Listen = Listen()
    """`serve`"""
    gang: Gang = Gang()
    """`serve`, `reconcile` and `explain`"""
    reconcile: Reconcile = Reconcile()
    """`reconcile`"""
    queue: Queue = Queue()
    """`reconcile` and `explain`"""
    webhooks: Webhooks = Webhooks()
    """`reconcile`"""
    kube: Kube = Kube()
    """`serve` and `reconcile`"""
    health: Health = Health()
    """`serve` and `reconcile`"""
    log: Log = Log()
    """`serve` and `reconcile`"""
    telemetry: Telemetry = Telemetry()
    """`serve` and `reconcile`"""


def load(path: Path | None, overrides: dict[str, dict[str, object]]) -> Settings:
    """Return the settings of a file with single fields replaced; None leaves a field alone.

    Raises SettingsError.
    """
    given = _read(path) if path else {}
    for section, fields in overrides.items():
        wanted = {to_camel(name): value for name, value in fields.items() if value is not None}
        if wanted:
            given[section] = _over(given.get(section), wanted)
    try:
        settings = Settings.model_validate(given, by_alias=True, by_name=False)
    except ValidationError as error:
        where = f"{path}: " if path else ""
        raise SettingsError(where + problems(error)) from None
    settings.gang.ignored()
    return settings


def _read(path: Path) -> dict[str, object]:
    parsed = read_yaml(path)
    if parsed is None:
        return {}
    if not isinstance(parsed, dict):
        raise SettingsError(f"{path}: should be a mapping of sections, such as `listen:`")
    # A section whose lines are all commented out counts as left out.
    return {name: section for name, section in parsed.items() if section is not None}


def _over(before: object, wanted: Mapping[str, object]) -> object:
    """Return a file's value with single fields replaced; validation refuses other types."""
    if before is None:
        before = {}
    if not isinstance(before, dict):
        return before
    nested = {k: _over(before.get(k), v) for k, v in wanted.items() if isinstance(v, dict)}
    return {**before, **wanted, **nested}


def problems(error: ValidationError) -> str:
    """Return what is wrong with each field, in one line."""
    return "; ".join(map(_sentence, error.errors()))


def _sentence(error: ErrorDetails) -> str:
    field = ".".join(str(part) for part in error["loc"])
    match error["type"]:
        case "extra_forbidden":
            text = "there is no such field"
        case "missing":
            text = "is missing"
        case "model_type":
            text = "should be a mapping of fields"
        case "float_parsing" | "int_parsing" if field.endswith("Seconds"):
            text = f"{error['input']!r:.40} should be seconds, or a duration such as 5m or 1h30m"
        case _:
            text = error["msg"].removeprefix("Value error, ")
    return f"{field}: {text}" if field else text
