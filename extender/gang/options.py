"""What an operator may choose about gangs."""

from dataclasses import dataclass

from extender.gang.partial import OnPartial, OnPartialOverrides


@dataclass(frozen=True, slots=True)
class GangOptions:
    """Defaults are those of the coscheduling plugin; times in seconds."""

    schedule_timeout: float = 60.0
    """How long members wait for quorum where the PodGroup sets no time."""
    max_schedule_timeout: float = 900.0
    """The longest wait a PodGroup may ask for: a bind request must be answered before
    kube-scheduler's `httpTimeout` of the bind entry."""
    denied: float = 3.0
    """How long a group that failed is refused without another look; 0 for not at all."""
    reject_percentage: int = 10
    """The share of minMember, 0 to 100, that may be missing without the waiting pods being sent
    away when a member finds no node."""

    evict_after: float = 60.0
    """For how long a gang must be partial, at least, before it is evicted where that is asked for:
    the bindings of a complete gang are retried for a minute."""
    on_partial_overrides: OnPartialOverrides = "evict"
    on_refused: OnPartial = OnPartial.EVICT
    """What becomes of a gang of which a node has refused a pod when it started, where its PodGroup
    does not say."""
    aging: float = 300.0
    """How long a group that could start waits for room before some is claimed for it; 0: for ever.
    """
    claims_per_namespace: int = 5
    """How many groups of one namespace may have a claim at the same time."""
    claim_nodes_percentage: int = 50
    """On what share of the nodes the groups of one namespace may have claims, 0 to 100."""
    strict_order: bool = False
    """Whether no group may pass another one that waits for room."""
    gate_until_fit: bool = False
    """Whether pods behind our gate stay there until their group fits, and not only until it has all
    of its pods. An autoscaler does not see them meanwhile."""
    bind_equal: bool = True
    """Whether members are bound together with an equal one that kube-scheduler has asked for."""
    preempts: bool = True
    """Whether whole gangs of lower priority make room for a gang."""
    min_run: float = 0.0
    """For how long a gang runs, at least, before it may be a victim, where its PodGroup does not
    say."""
    max_min_run: float = 3600.0
    """The longest such time that a PodGroup may ask for."""
    strict_budgets: bool = False
    """Whether a gang makes room only as far as PodDisruptionBudgets allow it. Otherwise they are
    kept where that is possible, as kube-scheduler does."""
    retry_grace: float = 3.0
    """How long a planned member that kube-scheduler had found no node for may take to be tried
    again, before it counts as one that has no node now."""

    def timeout(self, asked: float | None) -> float:
        """Return the wait for a group that asked for so many seconds, or did not."""
        return min(asked or self.schedule_timeout, self.max_schedule_timeout)

    def runs_for(self, asked: float | None) -> float:
        """Return for how long a gang is no victim that asked for so many seconds, or did not."""
        if asked is None:
            return self.min_run
        return min(asked, max(self.max_min_run, self.min_run))
