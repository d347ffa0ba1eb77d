"""The section `gang`."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Literal, Self, TypeVar

from pydantic import Field, field_validator, model_validator

from extender.api.scheduler_config import (
    SchedulerConfigError,
    gangs_itself,
    ignored_resources,
    speaks_against_together,
)
from extender.config.sections import (
    Percentage,
    Positive,
    Seconds,
    Section,
    SettingsError,
    read_yaml,
)
from extender.fit.placement import GangPlacement
from extender.gang.verdicts import GangOptions, OnPartial, OnPartialOverrides
from extender.resources.ignored import IgnoredResources, ResourceNames

_Found = TypeVar("_Found")


class Gang(Section):
    """Rules for gangs that start, wait and fail. Give both processes the same section."""

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
    growing: bool = False
    """whether an autoscaler adds nodes for pods that wait. A group that would not fit even on empty
    nodes then has the reason WaitingForNodes in place of NeverFits, no group has more set aside
    than it needs, and minResources beyond what the pods request do not count"""
    publish_kept_room: bool = False
    """whether each node that is set aside for a group has a CapacityBuffer once the group has
    waited `growthSeconds` longer: autoscalers then add nodes for pods that are kept off. Needs
    `agingSeconds` above 0, `growing` and step 2 of docs/tasks/admin/clusters-that-grow.md. A pool
    that grows later buys all nodes of its group, the kept ones too"""
    domain_timeout_seconds: Positive = 600
    """how long a gang with scheduling.x-k8s.io/required-topology waits for nodes in the domain that
    was chosen for it, where `growing` is on and the gate policy is installed. Then its pods are
    made anew for another one"""
    strict_order: bool = False
    """whether no group may pass a group that waits for room, although it would fit"""
    ungate_when: Literal["complete", "fits"] = "complete"
    """when the gate scheduling.x-k8s.io/gang is removed from a group's pods: when the group has its
    pods, or when it also has room; a cluster autoscaler sees no gated pods"""
    evict_after_seconds: Seconds = 60
    """how long a gang must be partial, at least, before `onPartial: evict` evicts it"""
    bind_together: Literal["equal", "off"] = "equal"
    """`equal`: members equal to a pod, of any gang, for which kube-scheduler found nodes are bound
    as soon as their gang can start; `off`: each member is bound when kube-scheduler asks for it.
    Choose `off` where kube-scheduler may judge equal pods differently and `schedulerConfiguration`
    does not show it (docs/reference/limits.md)"""
    placement: GangPlacement | None = None
    """how the pods of a gang stand to each other where its PodGroup has no annotation
    scheduling.x-k8s.io/placement. `pack`: on as few nodes as possible; `spread`: as few on one node
    as possible; unset: where least is left, on many nodes if need be"""
    retry_grace_seconds: Positive = 3
    """how long the plan of a gang waits for a member that kube-scheduler had refused before;
    counted from the last member that came"""
    on_partial_overrides: OnPartialOverrides = "evict"
    """which values of a PodGroup's annotation scheduling.x-k8s.io/on-partial count"""
    on_partial: OnPartial = OnPartial.KEEP
    """what the reconciler does with a gang that started and has been without its quorum for longer
    than its schedule time-out; `restart` is `evict`, and at once where a whole gang loses a member
    that it needs"""
    on_refused: OnPartial = OnPartial.EVICT
    """what the reconciler does where `onPartial` says keep, the PodGroup has no annotation, and the
    gang lacks a pod that its node refused at the start (`OutOfcpu`): another scheduler had filled
    the node. `evict` lets the gang start again as a whole"""
    native: Literal["auto", "extender", "scheduler"] = "auto"
    """what starts the pods of a PodGroup of scheduling.k8s.io together. `extender`: gang-extender,
    as those of its own PodGroups; `scheduler`: kube-scheduler itself, with its feature gates
    GenericWorkload and GangScheduling, and gang-extender keeps no plan for them; `auto`: as the
    cluster shows (docs/tasks/admin/native-gangs.md)"""
    preemption: Literal["WholeGang", "AfterGrowth", "Off"] = "WholeGang"
    """`WholeGang`: a gang that lacks room preempts pods of lower priority if the whole gang fits
    then; a victim gang goes whole, or gives the pods beyond its `minMember`. `AfterGrowth`: the
    same once it has lacked room for `growthSeconds`, so that an autoscaler adds nodes first. `Off`:
    only kube-scheduler preempts, for one pod at a time"""
    growth_seconds: Seconds = 300
    """how long a gang lacks room before it preempts, with `preemption: AfterGrowth`"""
    min_run_seconds: Seconds = 0
    """for how long a gang runs, at least, before it is evicted for another one, where its
    annotation scheduling.x-k8s.io/min-run-seconds does not say"""
    max_min_run_seconds: Seconds = 3600
    """cap of that annotation"""
    preemption_budgets: Literal["BestEffort", "Strict"] = "BestEffort"
    """`BestEffort`: victims that a PodDisruptionBudget protects are chosen last, as kube-scheduler
    does; `Strict`: they are not evicted"""
    disruption_budgets: bool = True
    """whether a gang that has run for ten seconds gets a PodDisruptionBudget, where its annotation
    scheduling.x-k8s.io/disruption-budget does not say: drains and autoscalers evict no member then
    that it needs"""
    ignored_resources: list[str] = Field(default_factory=list)
    """extended resources that kube-scheduler ignores on nodes, as `example.com/name` or
    `example.com/*`"""
    scheduler_configuration: Path | None = None
    """the KubeSchedulerConfiguration that kube-scheduler runs with; at start the ignored resources
    are read from it, and whether anything in it speaks against binding equal members together"""

    @field_validator("ignored_resources")
    @classmethod
    def _are_resources(cls, patterns: list[str]) -> list[str]:
        ResourceNames.parse(patterns)
        return patterns

    @field_validator("preemption", mode="before")
    @classmethod
    def _as_written(cls, given: object) -> object:
        """Return the word for what YAML reads as false: Off without quotes."""
        return "Off" if given is False else given

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
        """Return why no members are bound together although the setting says so, or None.

        Raises SettingsError where kube-scheduler's file cannot be used.
        """
        path = self.scheduler_configuration
        if path is None or self.bind_together == "off":
            return None
        return self._of_scheduler(path, speaks_against_together)

    def natives(self) -> bool | None:
        """Return whether native gangs are ours by the settings; None where the cluster shows it.

        Raises SettingsError where kube-scheduler's file cannot be used.
        """
        if self.native != "auto":
            return self.native == "extender"
        path = self.scheduler_configuration
        found = self._of_scheduler(path, gangs_itself) if path is not None else None
        return None if found is None else not found

    def _of_scheduler(self, path: Path, read: Callable[[object], _Found]) -> _Found:
        try:
            return read(read_yaml(path))
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
            on_refused=self.on_refused,
            aging=self.aging_seconds,
            claims_per_namespace=self.claims_per_namespace,
            claim_nodes_percentage=self.claim_nodes_percentage,
            growing=self.growing,
            publishes_after=self.publish_kept_room * (self.aging_seconds + self.growth_seconds),
            domain_timeout=self.domain_timeout_seconds,
            strict_order=self.strict_order,
            gate_until_fit=self.ungate_when == "fits",
            retry_grace=self.retry_grace_seconds,
            preempts=self.preemption != "Off",
            preempts_after=self.growth_seconds if self.preemption == "AfterGrowth" else 0.0,
            min_run=self.min_run_seconds,
            max_min_run=self.max_min_run_seconds,
            strict_budgets=self.preemption_budgets == "Strict",
            protects=self.disruption_budgets,
            bind_equal=self.bind_together == "equal" and self.not_together() is None,
        )
