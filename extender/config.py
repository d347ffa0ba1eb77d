"""All settings, in one strict model: the YAML of `--config`, and flags on top."""

import ipaddress
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final, Literal, Self

import msgspec
import yaml
from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic.alias_generators import to_camel

from extender.api import core_v1, job_overrides
from extender.api.scheduler_config import SchedulerConfigError, ignored_resources
from extender.api.values import LONGEST, seconds
from extender.gang.options import Options
from extender.gang.partial import OnPartial, OnPartialOverrides
from extender.jobs.context import ReleaseQuota
from extender.kube.lease import LeaseTimes
from extender.queueing import options as queueing
from extender.resources.ignored import IgnoredResources, ResourceNames

DEFAULT_TIMEOUT: Final = 1800.0
ASKED_TIMEOUT: Final = 300.0
"""The default where waiting for pods is asked for: what it was when it had to be."""


class SettingsError(Exception):
    """A setting is wrong; the text names each field and what is wrong with it."""


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class _Section(BaseModel):
    model_config = ConfigDict(
        extra="forbid", frozen=True, alias_generator=to_camel, populate_by_name=True
    )


Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Tls(_Section):
    """Serving with TLS, to clients that show a certificate of the given authority."""

    cert_file: Path = Field(description="PEM certificate chain of this service")
    key_file: Path = Field(description="PEM key of that certificate")
    client_ca_file: Path = Field(description="PEM certificates that clients' must be signed by")
    client_names: list[Annotated[str, Field(min_length=1)]] = Field(
        min_length=1,
        description="common names, DNS names or URIs, one of which the certificate of a client "
        "must have that calls a verb; that of kubeadm's kube-scheduler is system:kube-scheduler",
    )
    check_seconds: float = Field(
        10,
        gt=0,
        allow_inf_nan=False,
        description="how often the files are looked at; changed ones are used without a restart",
    )

    def check_files(self) -> None:
        """Raise SettingsError where a file is missing; its name would be lost later."""
        for name in ("cert_file", "key_file", "client_ca_file"):
            path: Path = getattr(self, name)
            if not path.is_file():
                raise SettingsError(f"listen.tls.{to_camel(name)}: {path} is not a file")


class Certificate(_Section):
    """A certificate to serve, in files that somebody else renews; they are read again."""

    cert_file: Path = Field(description="PEM certificate chain of this service")
    key_file: Path = Field(description="PEM key of that certificate")


class Listen(_Section):
    """Where kube-scheduler finds the service."""

    host: str = Field("127.0.0.1", description="address; anything but loopback requires tls")
    port: int = Field(8888, ge=0, le=65535, description="port; 0 takes a free one")
    tls: Tls | None = None
    keep_alive_seconds: int = Field(
        120,
        gt=90,
        description="idle connections live longer than the 90 s kube-scheduler keeps them",
    )
    max_body_bytes: int = Field(
        64 * 2**20,
        gt=0,
        description="larger requests are refused; names of 5000 nodes take 100 KiB",
    )

    read_seconds: float = Field(
        10,
        gt=0,
        allow_inf_nan=False,
        description="how long a client may take to send a whole request, and to begin the first",
    )
    max_connections: int = Field(
        25_000,
        ge=16,
        description="beyond it the connection that has been without a whole request for longest "
        "is closed; each held bind is a connection",
    )
    max_handshakes: int = Field(
        256,
        ge=1,
        description="connections that have not finished their TLS handshake, beside "
        "maxConnections; one more cuts off the oldest of the address that has the most",
    )
    max_held_binds: int = Field(
        20_000,
        ge=1,
        description="binds that are held for the rest of their gangs, at about 17 KiB each; a gang "
        "that would hold more is refused",
    )
    shutdown_seconds: float = Field(
        20,
        ge=0,
        allow_inf_nan=False,
        description="how long after SIGTERM bindings that have begun are finished; five seconds "
        "more are left to connections: set it below terminationGracePeriodSeconds by ten",
    )

    @model_validator(mode="after")
    def _loopback_or_tls(self) -> Self:
        if self.tls is None and not _is_loopback(self.host):
            raise ValueError(
                f"host {self.host} is not loopback, and whoever reaches /bind can place any pod: "
                "set listen.tls with certFile, keyFile, clientCaFile and clientNames, or listen on "
                "127.0.0.1"
            )
        if self.max_connections <= self.max_held_binds:
            raise ValueError("maxConnections must be above maxHeldBinds: each is a connection")
        return self


class Gang(_Section):
    """How gangs are held together."""

    schedule_timeout_seconds: float = Field(
        60,
        ge=1,
        allow_inf_nan=False,
        description="how long members wait for each other where the PodGroup does not say",
    )
    max_schedule_timeout_seconds: float = Field(
        900,
        ge=1,
        allow_inf_nan=False,
        description="the longest wait; below httpTimeout of the bind entry",
    )
    denied_seconds: Seconds = Field(3, description="how long a failed group is refused; 0: not")
    reject_percentage: int = Field(
        10,
        ge=0,
        le=100,
        description="share of minMember that may be missing without the waiting pods being refused",
    )
    aging_seconds: Seconds = Field(
        300,
        description="how long a group waits for room before nodes are set aside for it, which only "
        "higher priority may use then; 0: never",
    )
    claims_per_namespace: int = Field(
        5,
        ge=0,
        description="how many groups of one namespace may have nodes set aside at the same time",
    )
    claim_nodes_percentage: int = Field(
        50,
        ge=0,
        le=100,
        description="share of all nodes that may be set aside for groups of one namespace; a group "
        "that needs more waits without",
    )
    strict_order: bool = Field(
        False,  # noqa: FBT003
        description="first come, first served: no group may pass one that waits for room, although "
        "it would fit",
    )
    ungate_when: Literal["complete", "fits"] = Field(
        "complete",
        description="when our scheduling gate is taken from a group's pods: when it has all that "
        "it needs, or only when there is room; a cluster autoscaler does not see gated pods",
    )
    evict_after_seconds: Seconds = Field(
        60,
        description="how long a gang must be partial, at least, before onPartial: evict evicts it",
    )
    retry_grace_seconds: float = Field(
        3,
        gt=0,
        allow_inf_nan=False,
        description="how long a member that had no node before its gang was planned may take to be "
        "tried again, counted from the last one that came, before the others are refused",
    )

    on_partial_overrides: OnPartialOverrides = Field(
        "evict",
        description="which words of a PodGroup's annotation on-partial count: evict alone, which "
        "costs its own gang only; any; or none",
    )
    on_partial: OnPartial = Field(
        OnPartial.KEEP,
        description="what becomes of a gang that started and lost its quorum for longer than its "
        "schedule time-out: keep its pods, or evict them; told by the reconciler",
    )
    ignored_resources: list[str] = Field(
        default_factory=list,
        description="extended resources that kube-scheduler does not look for on nodes, as "
        "example.com/name or example.com/*",
    )
    scheduler_configuration: Path | None = Field(
        None,
        description="the KubeSchedulerConfiguration that kube-scheduler runs with; the resources "
        "that it ignores are read from it at start",
    )

    @field_validator("ignored_resources")
    @classmethod
    def _are_resources(cls, patterns: list[str]) -> list[str]:
        ResourceNames.parse(patterns)
        return patterns

    def ignored(self) -> IgnoredResources:
        """Return the resources that kube-scheduler ignores, by the list and by its own file.

        Raises SettingsError where that file cannot be used.
        """
        listed, path = ResourceNames.parse(self.ignored_resources), self.scheduler_configuration
        if path is None:
            return IgnoredResources(listed)
        try:
            found = ignored_resources(_yaml(path))
        except SchedulerConfigError as error:
            raise SettingsError(f"gang.schedulerConfiguration: {path}: {error}") from error
        return replace(found, everywhere=found.everywhere | listed)

    def options(self) -> Options:
        """Return what the decisions take."""
        return Options(
            schedule_timeout=self.schedule_timeout_seconds,
            max_schedule_timeout=self.max_schedule_timeout_seconds,
            denied=self.denied_seconds,
            reject_percentage=self.reject_percentage,
            evict_after=self.evict_after_seconds,
            on_partial_overrides=self.on_partial_overrides,
            aging=self.aging_seconds,
            claims_per_namespace=self.claims_per_namespace,
            claim_nodes_percentage=self.claim_nodes_percentage,
            strict_order=self.strict_order,
            hold_back=self.ungate_when == "fits",
            retry_grace=self.retry_grace_seconds,
        )


class Kube(_Section):
    """How the API server is used."""

    connections: int = Field(
        64, ge=32, description="connections to it; the watches of the reconciler take up to twenty"
    )
    timeout_seconds: float = Field(
        10, gt=0, allow_inf_nan=False, description="time-out of one request"
    )
    stale_seconds: float = Field(
        180,
        ge=120,
        allow_inf_nan=False,
        description="a watch on which nothing came for so long is stale: the process is not ready, "
        "and no gang starts; bookmarks come about once a minute",
    )


class Requirement(_Section):
    """One requirement of a label selector."""

    key: str
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    values: list[str] | None = None


class LabelSelector(_Section):
    """Which labels something must have."""

    match_labels: dict[str, str] | None = None
    match_expressions: list[Requirement] | None = None


def _all_but_system() -> LabelSelector:
    return LabelSelector(
        match_expressions=[
            Requirement(
                key="kubernetes.io/metadata.name",
                operator="NotIn",
                values=["kube-system", "gang-extender-system"],
            )
        ]
    )


def _off(said: object) -> object:
    """Return the word for what YAML takes Off for."""
    return "Off" if said is False else said


class Reconcile(_Section):
    """Where the reconciler tells of itself, and which of several leads."""

    host: str = Field(
        "127.0.0.1",
        description="address; it serves health, metrics, and what waits; anything but loopback is "
        "served with TLS, to callers whose bearer token the API server knows",
    )
    port: int = Field(8889, ge=0, le=65535, description="port; 0 takes a free one")
    tls: Certificate | None = Field(
        None,
        description="the certificate to serve; without it, on another address than loopback, that "
        "of the webhooks",
    )
    authenticate_on_loopback: bool = Field(
        default=False, description="whether callers need a bearer token on loopback too"
    )
    leader_elect: bool = Field(
        default=True, description="whether several may run, of which one works"
    )
    lease_namespace: str = Field("gang-extender-system", min_length=1)
    lease_name: str = Field("gang-extender-reconciler", min_length=1)
    lease_seconds: int = Field(
        15, ge=1, description="how long others wait for a leader that says nothing any more"
    )
    renew_seconds: float = Field(
        10, gt=0, allow_inf_nan=False, description="how long the leader tries before it gives up"
    )
    retry_seconds: float = Field(
        2, gt=0, allow_inf_nan=False, description="pause between two tries"
    )

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if not self.lease_seconds > self.renew_seconds > self.retry_seconds:
            raise ValueError(
                "leaseSeconds must be above renewSeconds, and that above retrySeconds, or two "
                "could lead at once"
            )
        return self

    @property
    def is_local(self) -> bool:
        """Whether only this machine reaches it."""
        return _is_loopback(self.host)

    @property
    def authenticates(self) -> bool:
        """Whether callers have to say who they are."""
        return self.authenticate_on_loopback or not self.is_local

    def times(self) -> LeaseTimes:
        """Return what the election takes."""
        return LeaseTimes(float(self.lease_seconds), self.renew_seconds, self.retry_seconds)


def _duration(value: object) -> object:
    """Take a duration as `5m` or in seconds."""
    found = seconds(value) if isinstance(value, str) else value
    if found is None or isinstance(found, bool):
        raise ValueError(
            f"{value!r:.40} should be seconds, or a duration such as 5m or 1h30m, of ten years at "
            "most"
        )
    return found


Duration = Annotated[Seconds, Field(le=LONGEST), BeforeValidator(_duration)]


class _Pointers(_Section):
    """Fields of which null says no more than leaving them out."""

    @model_validator(mode="before")
    @classmethod
    def _said(cls, given: object) -> object:
        if not isinstance(given, dict):
            return given
        return {name: value for name, value in given.items() if value is not None}


def _or_nothing(section: object) -> object:
    return {} if section is None else section


class RequeuingStrategy(_Pointers):
    """When a workload whose pods were not ready in time is queued again."""

    timestamp: Literal["Eviction", "Creation"] = Field(
        "Eviction", description="whether it goes to the end of its queue, or back to its place"
    )
    backoff_limit_count: int | None = Field(
        None,
        ge=0,
        description="how often it is queued again before it is deactivated; null: without limit",
    )
    backoff_base_seconds: Duration = Field(60, description="the first wait, doubled each time")
    backoff_max_seconds: Duration = Field(3600, description="the longest wait")


class WaitForPodsReady(_Pointers):
    """Workloads whose pods do not become ready in time give their quota back."""

    enable: bool = Field(default=True, description="whether that is so")
    timeout: Duration | None = Field(
        None,
        gt=0,
        validation_alias=AliasChoices("timeout", "timeoutSeconds"),
        description="from admission until all pods are ready, in seconds or as 5m; default: 30m, "
        "or 5m where `enable: true` is said",
    )
    recovery_timeout: Duration | None = Field(
        None,
        validation_alias=AliasChoices("recoveryTimeout", "recoveryTimeoutSeconds"),
        description="from when pods are no longer ready until they are again; 0: as long as it "
        "takes; default: the timeout",
    )
    block_admission: bool | None = Field(
        None,
        description="whether nobody is admitted while the pods of an admitted workload are not "
        "ready; default: only where `enable: true` is said",
    )
    requeuing_strategy: RequeuingStrategy = RequeuingStrategy()

    def policy(self) -> queueing.PodsReady:
        """Return what decisions take."""
        asked = self.enable and "enable" in self.model_fields_set
        timeout = self.timeout or (ASKED_TIMEOUT if asked else DEFAULT_TIMEOUT)
        blocks = asked if self.block_admission is None else self.block_admission
        recovery = timeout if self.recovery_timeout is None else self.recovery_timeout
        again = self.requeuing_strategy
        return queueing.PodsReady(
            enabled=self.enable,
            timeout=timeout,
            recovery_timeout=recovery or None,
            block_admission=self.enable and blocks,
            backoff_limit=again.backoff_limit_count,
            backoff_base=again.backoff_base_seconds,
            backoff_max=again.backoff_max_seconds,
        )


def _overrides(said: str) -> str:
    problems = job_overrides.parsed(said)[1]
    if problems:
        raise ValueError("; ".join(problems))
    return said


class Queue(_Section):
    """The queue: suspended jobs that are admitted under quota."""

    enabled: bool = Field(default=True, description="whether the reconciler admits jobs")
    integrations: list[str] | None = Field(
        None, description="the kinds of jobs that are managed, such as batch/job; default: all"
    )
    external_integrations: list[str] = Field(
        default_factory=list, description="kinds of others, as module:Class"
    )
    manage_jobs_without_queue_name: bool = Field(
        default=False, description="whether jobs without a queue name are held back as well"
    )
    managed_jobs_namespace_selector: LabelSelector = Field(
        default_factory=_all_but_system,
        description="the namespaces in which jobs without a queue name are held back",
    )
    heads_per_queue: int = Field(
        16, ge=1, description="how many workloads of one ClusterQueue a cycle looks at, at most"
    )
    require_room: bool = Field(
        default=False,
        description="whether a workload is admitted only when its pods fit on nodes now; the "
        "annotation scheduling.x-k8s.io/require-room of a ClusterQueue goes before it",
    )
    pod_groups: Annotated[Literal["Auto", "Off"], BeforeValidator(_off)] = Field(
        "Auto",
        description="Auto: jobs that are admitted by room get a PodGroup where they bring none",
    )
    release_quota: ReleaseQuota = Field(
        "OnTerminating",
        description="whether pods that are being deleted give their quota back at once, or when "
        "they have ended; a ClusterQueue or a Job may say so too, with the annotation "
        "scheduling.x-k8s.io/release-quota",
    )
    ignore_undeclared_resources: bool = Field(
        default=False,
        description="whether resources that a ClusterQueue does not cover are let through",
    )

    job_overrides: Annotated[str, AfterValidator(_overrides)] = Field(
        "",
        description="what jobs may change of the settings of their ClusterQueue, such as "
        "`pods-ready-timeout<=2h, release-quota`; `*`: all, `none`: nothing; what is not named may "
        "only be made stricter; the annotation scheduling.x-k8s.io/job-overrides of a ClusterQueue "
        "goes before it",
    )
    wait_for_pods_ready: Annotated[WaitForPodsReady, BeforeValidator(_or_nothing)] = (
        WaitForPodsReady()
    )

    def options(self) -> queueing.Options:
        """Return what decisions about admission take."""
        return queueing.Options(
            pods_ready=self.wait_for_pods_ready.policy(),
            requeuing_timestamp=self.wait_for_pods_ready.requeuing_strategy.timestamp,
            heads_per_queue=self.heads_per_queue,
            require_room=self.require_room,
            job_overrides=job_overrides.parsed(self.job_overrides)[0],
            quota_check="IgnoreUndeclared"
            if self.ignore_undeclared_resources
            else "BlockUndeclared",
        )

    def selector(self) -> core_v1.LabelSelector:
        """Return the selector as decisions take it."""
        wanted = self.managed_jobs_namespace_selector.model_dump(by_alias=True)
        return msgspec.convert(wanted, core_v1.LabelSelector)


class WebhookCertificate(_Section):
    """A certificate for the webhooks that somebody else renews."""

    cert_file: Path = Field(description="PEM certificate chain")
    key_file: Path = Field(description="PEM key of that certificate")
    ca_file: Path | None = Field(
        None,
        description="PEM authorities that the API server is told to trust; without it whoever "
        "gives the certificate tells it, and has old versions served",
    )


class Webhooks(_Section):
    """What the API server calls: conversion between versions, and jobs at their creation."""

    enabled: Literal["auto"] | bool = Field(
        "auto",
        description="whether to serve; auto: with the queue, in a pod or where a url is given",
    )
    host: str = Field("", description="address; empty: all")
    port: int = Field(9443, ge=0, le=65535)
    older_versions: bool = Field(
        default=True,
        description="whether to have v1beta1 of ClusterQueue and LocalQueue served where a CRD is "
        "seen for the first time; later `served` is left as it is applied",
    )
    older_workloads: bool = Field(
        default=False,
        description="the same for v1beta1 of Workload; each write of a workload is then converted",
    )
    certificate: WebhookCertificate | None = Field(
        None, description="files; without them the process makes its own and keeps it in a Secret"
    )
    certificate_days: float = Field(
        365, gt=0, allow_inf_nan=False, description="its life; it is renewed after two thirds"
    )
    check_seconds: float = Field(
        30, gt=0, allow_inf_nan=False, description="how often the certificate is looked after"
    )
    namespace: str = Field("gang-extender-system", min_length=1)
    secret: str = Field("gang-reconciler-webhooks-tls", min_length=1)
    service: str = Field(
        "gang-reconciler-webhooks",
        min_length=1,
        description="Service of the webhooks for jobs, with the replicas that are ready",
    )
    conversion_service: str = Field(
        "gang-reconciler-conversion",
        min_length=1,
        description="Service of the conversion webhook, with all replicas: a replica becomes ready "
        "when it has read the queues, and to read them may take a conversion",
    )
    configuration: str = Field(
        "gang-queue",
        min_length=1,
        description="name of the optional webhook configurations that are told the authority",
    )
    url: str | None = Field(
        None,
        pattern=r"^https://[^/]+$",
        description="where the API server finds the webhooks instead of the Services",
    )


class Health(_Section):
    """What `/livez` answers."""

    max_loop_lag_seconds: float = Field(
        30,
        ge=0,
        le=60,
        description="not alive when the event loop was late for so long within a minute, counting "
        "lags of a second and more, each for a third of this at most; 0: whatever the lag",
    )


class Log(_Section):
    """What is logged, to standard error."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["console", "json"] = "console"


class Settings(_Section):
    """The settings of `gang-extender serve` and `reconcile`; each reads its own sections."""

    listen: Listen = Listen()
    gang: Gang = Gang()
    reconcile: Reconcile = Reconcile()
    queue: Queue = Queue()
    webhooks: Webhooks = Webhooks()
    kube: Kube = Kube()
    health: Health = Health()
    log: Log = Log()


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
        raise SettingsError(where + "; ".join(map(_sentence, error.errors()))) from None
    settings.gang.ignored()
    return settings


def _yaml(path: Path) -> object:
    try:
        parsed: object = yaml.safe_load(path.read_text())
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: not YAML: {error}") from error
    return parsed


def _read(path: Path) -> dict[str, object]:
    parsed = _yaml(path)
    if parsed is None:
        return {}
    if not isinstance(parsed, dict):
        raise SettingsError(f"{path}: should be a mapping of sections, such as `listen:`")
    # A section whose lines are all commented out says nothing.
    return {name: section for name, section in parsed.items() if section is not None}


def _over(before: object, wanted: Mapping[str, object]) -> object:
    """Return what a file says with single fields replaced; what is no mapping is told later."""
    if before is None:
        before = {}
    if not isinstance(before, dict):
        return before
    nested = {k: _over(before.get(k), v) for k, v in wanted.items() if isinstance(v, dict)}
    return {**before, **wanted, **nested}


def _sentence(error: object) -> str:
    assert isinstance(error, dict)
    field = ".".join(str(part) for part in error["loc"])
    if error["type"] == "extra_forbidden":
        return f"{field}: there is no such field"
    text = error["msg"].removeprefix("Value error, ")
    return f"{field}: {text}" if field else text
