"""All settings, in one strict model: the YAML of `--config`, and flags on top."""

import ipaddress
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final, Literal, Self, TypeVar

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
from pydantic_core import ErrorDetails

from extender.api import core_v1, job_overrides
from extender.api.scheduler_config import (
    SchedulerConfigError,
    ignored_resources,
    judges_equals_differently,
)
from extender.api.values import LONGEST, seconds
from extender.gang.options import GangOptions
from extender.gang.partial import OnPartial, OnPartialOverrides
from extender.jobs.context import ReleaseQuota
from extender.kube.lease import LeaseTimes
from extender.queueing import options as queueing
from extender.resources.ignored import IgnoredResources, ResourceNames

DEFAULT_TIMEOUT: Final = 1800.0
ASKED_TIMEOUT: Final = 300.0
"""The default where the file sets `enable: true`: that of Kueue while readiness was optional."""


_Found = TypeVar("_Found")


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
        extra="forbid",
        frozen=True,
        alias_generator=to_camel,
        populate_by_name=True,
        use_attribute_docstrings=True,
    )

    @model_validator(mode="before")
    @classmethod
    def _in_seconds(cls, given: object) -> object:
        """Convert durations such as `5m` to seconds; pydantic refuses other text."""
        if not isinstance(given, dict):
            return given
        return {name: _read_seconds(name, value) for name, value in given.items()}


def _read_seconds(name: object, value: object) -> object:
    if not (isinstance(name, str) and name.endswith("Seconds") and isinstance(value, str)):
        return value
    found = seconds(value)
    return value if found is None else found


Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Percentage = Annotated[int, Field(ge=0, le=100)]
Port = Annotated[int, Field(ge=0, le=65535)]
Name = Annotated[str, Field(min_length=1)]


class Certificate(_Section):
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


class Listen(_Section):
    """Where kube-scheduler finds the extender, and limits for clients."""

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
        if self.tls is None and not _is_loopback(self.host):
            raise ValueError(
                f"host {self.host} is not loopback, and a caller of /bind can place any pod: "
                "set listen.tls with certFile, keyFile, clientCaFile and clientNames, or listen on "
                "127.0.0.1"
            )
        if self.max_connections <= self.max_held_binds:
            raise ValueError("maxConnections must be above maxHeldBinds: each is a connection")
        return self


class Gang(_Section):
    """How gangs start, wait and fail. Give both processes the same section."""

    schedule_timeout_seconds: float = Field(default=60, ge=1, allow_inf_nan=False)
    """how long members wait for each other where the PodGroup sets no time"""
    max_schedule_timeout_seconds: float = Field(default=900, ge=1, allow_inf_nan=False)
    """cap of the wait, also of a PodGroup's; keep it ten seconds below `httpTimeout` of
    kube-scheduler's bind entry"""
    denied_seconds: Seconds = 3
    """how long a group that failed is refused; 0: not at all"""
    reject_percentage: Percentage = 10
    """share of minMember that may have no node while the other members go on waiting; a larger gap
    refuses them all"""
    aging_seconds: Seconds = 300
    """how long a group waits for room before nodes are set aside for it; only higher priority may
    use these then; 0: never"""
    claims_per_namespace: int = Field(default=5, ge=0)
    """groups of one namespace that may have nodes set aside at the same time"""
    claim_nodes_percentage: Percentage = 50
    """share of all nodes that may be set aside for the groups of one namespace; a group that needs
    more waits without"""
    strict_order: bool = False
    """whether no group may pass a group that waits for room, although it would fit"""
    ungate_when: Literal["complete", "fits"] = "complete"
    """when the gate scheduling.x-k8s.io/gang is removed from a group's pods: when the group has its
    pods, or when it also has room; a cluster autoscaler sees no gated pods"""
    evict_after_seconds: Seconds = 60
    """how long a gang must be partial, at least, before `onPartial: evict` evicts it"""
    bind_together: Literal["equal", "off"] = "off"
    """which members are bound as soon as their gang can start, and not one by one as kube-scheduler
    asks for them: those equal to a member that it has just found nodes for, or none"""
    retry_grace_seconds: Positive = 3
    """how long the plan of a gang waits for a member that kube-scheduler had refused before;
    counted from the last member that came"""
    on_partial_overrides: OnPartialOverrides = "evict"
    """which values of a PodGroup's annotation scheduling.x-k8s.io/on-partial count"""
    on_partial: OnPartial = OnPartial.KEEP
    """what the reconciler does with a gang that started and has been without its quorum for longer
    than its schedule time-out"""
    ignored_resources: list[str] = Field(default_factory=list)
    """extended resources that kube-scheduler ignores on nodes, as `example.com/name` or
    `example.com/*`"""
    scheduler_configuration: Path | None = None
    """the KubeSchedulerConfiguration that kube-scheduler runs with; at start the ignored resources
    are read from it, and whether anything of it may judge equal members differently: none are bound
    together then"""

    @field_validator("ignored_resources")
    @classmethod
    def _are_resources(cls, patterns: list[str]) -> list[str]:
        ResourceNames.parse(patterns)
        return patterns

    @model_validator(mode="after")
    def _below_the_cap(self) -> Self:
        default, cap = self.schedule_timeout_seconds, self.max_schedule_timeout_seconds
        if "schedule_timeout_seconds" in self.model_fields_set and default > cap:
            raise ValueError(
                f"scheduleTimeoutSeconds ({default:g}) is above maxScheduleTimeoutSeconds "
                f"({cap:g}): raise that too, and httpTimeout of kube-scheduler's bind entry"
            )
        return self

    def ignored(self) -> IgnoredResources:
        """Return the resources that kube-scheduler ignores, by the list and by its own file.

        Raises SettingsError where that file cannot be used.
        """
        listed, path = ResourceNames.parse(self.ignored_resources), self.scheduler_configuration
        if path is None:
            return IgnoredResources(listed)
        found = self._of_scheduler(path, ignored_resources)
        return replace(found, everywhere=found.everywhere | listed)

    def not_together(self) -> str | None:
        """Return why no members are bound together although they should be, or None.

        Raises SettingsError where kube-scheduler's file cannot be used.
        """
        path = self.scheduler_configuration
        if path is None or self.bind_together == "off":
            return None
        return self._of_scheduler(path, judges_equals_differently)

    def _of_scheduler(self, path: Path, read: Callable[[object], _Found]) -> _Found:
        try:
            return read(_yaml(path))
        except SchedulerConfigError as error:
            raise SettingsError(f"gang.schedulerConfiguration: {path}: {error}") from error

    def options(self) -> GangOptions:
        """Return the options that decisions use."""
        return GangOptions(
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
            gate_until_fit=self.ungate_when == "fits",
            retry_grace=self.retry_grace_seconds,
            bind_equal=self.bind_together == "equal" and self.not_together() is None,
        )


class Kube(_Section):
    """How the API server is called."""

    connections: int = Field(default=64, ge=32)
    """connections to the API server; the reconciler's watches take up to twenty, half of the
    extender's are for Bindings alone"""
    timeout_seconds: Positive = 10
    """time-out of one request"""
    stale_seconds: float = Field(default=180, ge=120, allow_inf_nan=False)
    """a watch without any event for so long is stale: the process is not ready and no gang starts;
    bookmarks come about once a minute"""


class SelectorRequirement(_Section):
    """One requirement of a label selector."""

    key: str
    """label"""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    """comparison"""
    values: list[str] | None = None
    """values for In and NotIn"""


class NamespaceSelector(_Section):
    """A Kubernetes label selector."""

    match_labels: dict[str, str] | None = None
    """labels with their values"""
    match_expressions: list[SelectorRequirement] | None = None
    """requirements of `key`, `operator` and `values`, all of which must hold"""


def _all_but_system() -> NamespaceSelector:
    return NamespaceSelector(
        match_expressions=[
            SelectorRequirement(
                key="kubernetes.io/metadata.name",
                operator="NotIn",
                values=["kube-system", "gang-extender-system"],
            )
        ]
    )


def _off(value: object) -> object:
    """Return `Off` for the boolean that YAML reads it as."""
    return "Off" if value is False else value


class Reconcile(_Section):
    """Where the reconciler serves health, metrics and lists, and how a leader is elected."""

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
        """Whether only this machine reaches the address."""
        return _is_loopback(self.host)

    @property
    def authenticates(self) -> bool:
        """Whether callers must send a bearer token."""
        return self.authenticate_on_loopback or not self.is_local

    def times(self) -> LeaseTimes:
        """Return the times of the election."""
        return LeaseTimes(float(self.lease_seconds), self.renew_seconds, self.retry_seconds)


def _duration(value: object) -> object:
    """Read a duration such as `5m`, or seconds."""
    found = seconds(value) if isinstance(value, str) else value
    if found is None or isinstance(found, bool):
        raise ValueError(
            f"{value!r:.40} should be seconds, or a duration such as 5m or 1h30m, of ten years at "
            "most"
        )
    return found


Duration = Annotated[Seconds, Field(le=LONGEST), BeforeValidator(_duration)]


class _Pointers(_Section):
    """A section in which null means the default."""

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, given: object) -> object:
        if not isinstance(given, dict):
            return given
        return {name: value for name, value in given.items() if value is not None}


def _one_spelling(given: object) -> object:
    if not isinstance(given, dict):
        return given
    for name in ("timeout", "recoveryTimeout"):
        if given.get(name) is not None and given.get(f"{name}Seconds") is not None:
            raise ValueError(f"{name} and {name}Seconds are one setting: keep one of them")
    return given


def _or_nothing(section: object) -> object:
    return {} if section is None else section


class RequeuingStrategy(_Pointers):
    """When a workload whose pods were not ready in time is requeued."""

    timestamp: Literal["Eviction", "Creation"] = "Eviction"
    """the workload's place: the end of its queue, or its old place by creation"""
    backoff_limit_count: int | None = Field(default=None, ge=0)
    """evictions before the workload is deactivated; null: no limit"""
    backoff_base_seconds: Duration = 60
    """first back-off, doubled each time"""
    backoff_max_seconds: Duration = 3600
    """longest back-off"""


class WaitForPodsReady(_Pointers):
    """A workload whose pods are not ready in time is evicted (KEP-349)."""

    enable: bool = True
    """whether readiness is required"""
    timeout: Duration | None = Field(
        default=None, gt=0, validation_alias=AliasChoices("timeout", "timeoutSeconds")
    )
    """from admission until all pods are ready; above 0; also spelt `timeoutSeconds`; default: 30m,
    or 5m where the file sets `enable: true`"""
    recovery_timeout: Duration | None = Field(
        default=None, validation_alias=AliasChoices("recoveryTimeout", "recoveryTimeoutSeconds")
    )
    """from when pods stop being ready until they are again; also spelt `recoveryTimeoutSeconds`; 0:
    no limit; default: `timeout`"""
    block_admission: bool | None = None
    """whether no workload is admitted while pods of an admitted workload are not ready; default:
    only where the file sets `enable: true`"""
    requeuing_strategy: RequeuingStrategy = RequeuingStrategy()
    """when an evicted workload is requeued"""

    def policy(self) -> queueing.PodsReady:
        """Return the policy that decisions use."""
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


def _overrides(text: str) -> str:
    problems = job_overrides.parsed(text)[1]
    if problems:
        raise ValueError("; ".join(problems))
    return text


class Queue(_Section):
    """Which jobs the reconciler admits, and on what conditions."""

    enabled: bool = True
    """whether the reconciler admits jobs"""
    integrations: list[str] | None = None
    """kinds of jobs to manage, such as `batch/job`; null: all built-in kinds"""
    external_integrations: list[str] = Field(default_factory=list)
    """kinds of your own, as `module:Class`"""
    manage_jobs_without_queue_name: bool = False
    """whether jobs without a queue name are held back too"""
    managed_jobs_namespace_selector: NamespaceSelector = Field(default_factory=_all_but_system)
    """namespaces in which jobs without a queue name are held back"""
    heads_per_queue: int = Field(default=16, ge=1)
    """workloads of one ClusterQueue that one admission cycle considers"""
    require_room: bool = False
    """whether a workload is admitted only when its pods fit on nodes now; the annotation
    scheduling.x-k8s.io/require-room of a ClusterQueue overrides it"""
    pod_groups: Annotated[Literal["Auto", "Off"], BeforeValidator(_off)] = "Auto"
    """Auto: a job that is admitted by room gets a PodGroup unless it brings one"""
    release_quota: ReleaseQuota = "OnTerminating"
    """when a pod that is being deleted releases its quota: at once, or when it has ended; the
    annotation scheduling.x-k8s.io/release-quota of a ClusterQueue or Job overrides it"""
    ignore_undeclared_resources: bool = False
    """whether a workload may ask for resources that its ClusterQueue does not cover"""
    job_overrides: Annotated[str, AfterValidator(_overrides)] = ""
    """settings that a job may override, such as `pods-ready-timeout<=2h, release-quota`; `*`: all,
    `none`: nothing; a setting that is not named may only be made stricter; the annotation
    scheduling.x-k8s.io/job-overrides of a ClusterQueue overrides it"""
    wait_for_pods_ready: Annotated[
        WaitForPodsReady, BeforeValidator(_or_nothing), BeforeValidator(_one_spelling)
    ] = WaitForPodsReady()
    """what happens when pods are not ready in time"""

    def options(self) -> queueing.AdmissionOptions:
        """Return the options that decisions about admission use."""
        return queueing.AdmissionOptions(
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
        """Return the selector that decisions use."""
        wanted = self.managed_jobs_namespace_selector.model_dump(by_alias=True)
        return msgspec.convert(wanted, core_v1.LabelSelector)


class WebhookCertificate(_Section):
    """A certificate for the webhooks, from files."""

    cert_file: Path
    """PEM certificate chain"""
    key_file: Path
    """PEM key of that certificate"""
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


class Webhooks(_Section):
    """What the API server calls: conversion between versions, and the review of new jobs."""

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


class Health(_Section):
    """When `/livez` fails."""

    max_loop_lag_seconds: float = Field(default=30, ge=0, le=60)
    """total lag of the event loop within a minute from which `/livez` answers 503; lags of a second
    and more count, each up to a third of this; 0: `/livez` ignores the lag"""


class Log(_Section):
    """What is logged, to standard error."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """least level"""
    format: Literal["console", "json"] = "console"
    """form of a line"""


class Settings(_Section):
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
