"""The section `queue`."""

from typing import Annotated, Final, Literal

import msgspec
from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from extender.api import core_v1
from extender.api.values import parsed_overrides
from extender.config.sections import Duration, Seconds, Section
from extender.jobs.actions import QuotaRelease
from extender.queueing import rules as queueing

ASKED_TIMEOUT: Final = 300.0
"""The default where the file sets `enable: true`: that of Kueue while readiness was optional."""


class _Pointers(Section):
    """A section in which null means the default."""

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, given: object) -> object:
        if not isinstance(given, dict):
            return given
        return {name: value for name, value in given.items() if value is not None}


class RequeuingStrategy(_Pointers):
    """Requeuing of a workload whose pods were not ready in time."""

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
    timeout: Duration | None = Field(default=None, gt=0)
    """from admission until all pods are ready; above 0; default: 30m, or 5m where the file sets
    `enable: true`"""
    recovery_timeout: Duration | None = None
    """from when pods stop being ready until they are again; 0: no limit; default: `timeout`"""
    block_admission: bool | None = None
    """whether no workload is admitted while pods of an admitted workload are not ready; default:
    only where the file sets `enable: true`"""
    requeuing_strategy: RequeuingStrategy = RequeuingStrategy()
    """when an evicted workload is requeued"""

    def policy(self) -> queueing.PodsReady:
        """Return the policy that decisions use."""
        asked = self.enable and "enable" in self.model_fields_set
        timeout = self.timeout or (ASKED_TIMEOUT if asked else queueing.PodsReady().timeout)
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


def _or_nothing(section: object) -> object:
    return {} if section is None else section


PodsReadySection = Annotated[WaitForPodsReady, BeforeValidator(_or_nothing)]
"""The section as a file has it: null for all defaults."""


class SelectorRequirement(Section):
    """One requirement of a label selector."""

    key: str
    """label"""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    """comparison"""
    values: list[str] | None = None
    """values for In and NotIn"""


class NamespaceSelector(Section):
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


def _overrides(text: str) -> str:
    problems = parsed_overrides(text)[1]
    if problems:
        raise ValueError("; ".join(problems))
    return text


class Queue(Section):
    """The jobs that the reconciler admits, and the conditions."""

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
    require_room: bool | Literal["Provision"] = False
    """whether a workload is admitted only when its pods fit on nodes now; Provision: where they do
    not, it holds its quota and an autoscaler is asked for the nodes; the annotation
    scheduling.x-k8s.io/require-room of a ClusterQueue overrides it"""
    provisioning_class: str = ""
    """with requireRoom: Provision, the class of the ProvisioningRequests by which nodes are asked
    for, such as best-effort-atomic-scale-up.autoscaling.x-k8s.io; without one, or where the API
    server serves none, they are asked for by CapacityBuffers"""
    provision_timeout_seconds: Annotated[Seconds, Field(gt=0)] = 900
    """with requireRoom: Provision, or after its admission checks, how long a workload holds its
    quota while its pods lack room; then another one may have it, and this one asks again after a
    back-off of 1 to 30 minutes"""
    aging_seconds: Seconds = 300
    """how long a workload that lacks nothing but room on nodes waits before room is kept for it;
    workloads that come after it get only what is left beside that; 0: never"""
    preempt_for_room: queueing.PreemptForRoom = "Never"
    """LowerPriority: a workload that has quota and lacks room on nodes may have workloads of lower
    priority preempted, of its ClusterQueue and cohort, as far as these need room too; the
    annotation scheduling.x-k8s.io/preempt-for-room of a ClusterQueue overrides it"""
    pod_groups: Annotated[Literal["Auto", "Off"], BeforeValidator(_off)] = "Auto"
    """Auto: a job that is admitted by room gets a PodGroup unless it brings one"""
    release_quota: QuotaRelease = "OnTerminating"
    """when a pod that is being deleted releases its quota: at once, or when it has ended; the
    annotation scheduling.x-k8s.io/release-quota of a ClusterQueue or Job overrides it"""
    ignore_undeclared_resources: bool = False
    """whether a workload may ask for resources that its ClusterQueue does not cover"""
    resource_claims: queueing.ResourceClaims = "Refuse"
    """Refuse: a workload whose pods have resource claims (dynamic resource allocation) waits as
    Misconfigured, because no quota counts their devices; Ignore: it is admitted without them"""
    job_overrides: Annotated[str, AfterValidator(_overrides)] = ""
    """settings that a job may override, such as `pods-ready-timeout<=2h, release-quota`; `*`: all,
    `none`: nothing; a setting that is not named may only be made stricter; the annotation
    scheduling.x-k8s.io/job-overrides of a ClusterQueue overrides it"""
    wait_for_pods_ready: PodsReadySection = WaitForPodsReady()
    """what happens when pods are not ready in time"""

    def options(self) -> queueing.AdmissionOptions:
        """Return the options that decisions about admission use."""
        return queueing.AdmissionOptions(
            pods_ready=self.wait_for_pods_ready.policy(),
            requeuing_timestamp=self.wait_for_pods_ready.requeuing_strategy.timestamp,
            require_room=bool(self.require_room),
            provision=self.require_room == "Provision",
            provision_timeout=self.provision_timeout_seconds,
            aging=self.aging_seconds,
            preempt_for_room=self.preempt_for_room,
            resource_claims=self.resource_claims,
            job_overrides=parsed_overrides(self.job_overrides)[0],
            quota_check="IgnoreUndeclared"
            if self.ignore_undeclared_resources
            else "BlockUndeclared",
        )

    def selector(self) -> core_v1.LabelSelector:
        """Return the selector that decisions use."""
        wanted = self.managed_jobs_namespace_selector.model_dump(by_alias=True)
        return msgspec.convert(wanted, core_v1.LabelSelector)
