"""The settings of the section `gang` that decisions use."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal


class OnPartial(StrEnum):
    """The fate of a gang that has been partial for longer than its schedule time-out."""

    KEEP = "keep"
    """Its pods stay where they are, and an Event is written."""
    EVICT = "evict"
    """Its pods are evicted, so that the gang starts anew as a whole."""


OnPartialOverrides = Literal["evict", "any", "none"]
"""The values of a PodGroup's annotation that count: only `evict`, which costs its own gang alone;
any; or none."""


@dataclass(frozen=True, slots=True)
class GangOptions:
    """The section `gang` as decisions read it: `config/gang.py` documents each setting.

    Times are in seconds. The defaults are those of the section.
    """

    schedule_timeout: float = 60.0
    max_schedule_timeout: float = 900.0
    denied: float = 3.0
    reject_percentage: int = 10
    evict_after: float = 60.0
    on_partial_overrides: OnPartialOverrides = "evict"
    on_refused: OnPartial = OnPartial.EVICT
    aging: float = 300.0
    claims_per_namespace: int = 5
    claim_nodes_percentage: int = 50
    strict_order: bool = False
    gate_until_fit: bool = False
    """True if `ungateWhen` is `fits`."""
    bind_equal: bool = True
    """True if `bindTogether` is `equal` and kube-scheduler's configuration allows it."""
    preempts: bool = True
    min_run: float = 0.0
    max_min_run: float = 3600.0
    strict_budgets: bool = False
    retry_grace: float = 3.0

    def timeout(self, asked: float | None) -> float:
        """Return the schedule time-out of a group; `asked` is what it asked for."""
        return min(asked or self.schedule_timeout, self.max_schedule_timeout)

    def runs_for(self, asked: float | None) -> float:
        """Return the seconds for which a gang is no victim; `asked` is what it asked for."""
        if asked is None:
            return self.min_run
        return min(asked, max(self.max_min_run, self.min_run))
