"""The PodDisruptionBudget of a group that has started: it is evicted whole, or not at all.

Drains and autoscalers take pods one by one, and the rest of a gang is of no use then. What takes
whole gangs, which is the extender, lifts the budget first.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from extender.api.core_v1 import LabelSelector
from extender.api.wellknown import (
    GROUP_NATIVE,
    GROUP_X,
    POD_GROUP_LABEL,
    POD_GROUP_LABEL_SIGS,
    ConditionType,
    Phase,
)
from extender.gang.victims import Budgets
from extender.state.cluster.records import (
    BudgetInfo,
    PodGroupInfo,
    PodGroupStatusInfo,
    PodInfo,
)
from extender.state.cluster.view import ClusterView

AFTER: Final = 10.0
"""The seconds that a group runs before it gets a budget: one that ends at once needs none, and
Karpenter looks again after 15 before it takes a node."""
_LOOK_AGAIN: Final = 6 * AFTER
_LONGEST_NAME: Final = 253
_PREFIX: Final = "gang-"
_WORDS: Final = {None: True, "true": True, "false": False}


@dataclass(frozen=True, slots=True)
class BudgetStep:
    """The budget to write, the one to delete, and the seconds until the next look."""

    apply: BudgetInfo | None = None
    delete: BudgetInfo | None = None
    look_again: float | None = None


NO_STEP: Final = BudgetStep()


def is_known(word: str | None) -> bool:
    """Return whether a PodGroup's annotation about its budget has a value that there is."""
    return word in _WORDS


def budget_name(pod_group: PodGroupInfo) -> str:
    """Return the name of the budget of a group."""
    name = _PREFIX + pod_group.name
    return name if len(name) <= _LONGEST_NAME else _PREFIX + pod_group.uid


def budget_of(pod_group: PodGroupInfo, view: ClusterView) -> BudgetInfo | None:
    """Return the budget that we made for a group, if there is one."""
    return view.gang_budget(pod_group.namespace, budget_name(pod_group))


def decide(
    pod_group: PodGroupInfo,
    status: PodGroupStatusInfo,
    *,
    view: ClusterView,
    now: float,
    enabled: bool,
) -> BudgetStep:
    """Return the next step for the budget of a group with this status.

    Once made it stays while members come and go, until the group is over. Where another budget
    covers one of its pods there is none: the API server refuses to evict a pod of two budgets.
    `now` is in seconds since the epoch.
    """
    there = budget_of(pod_group, view)
    pods = [*view.members(pod_group.key)]
    over = status.phase in {Phase.FINISHED, Phase.FAILED} and not pods
    # One of a native group has no label that says which pods it has.
    is_gang = pod_group.min_member > 1 and pod_group.api_group != GROUP_NATIVE
    if over or not is_gang or not (enabled and _WORDS.get(pod_group.disruption_budget, True)):
        return BudgetStep(delete=there)
    taken = view.budget(pod_group.namespace, budget_name(pod_group))
    if (taken is not None and taken != there) or Budgets(view).of(pods):
        return BudgetStep(delete=there, look_again=_LOOK_AGAIN)
    if there is None:
        runs = status.condition(ConditionType.RUNNING)
        if runs is None or runs.status != "True":
            return NO_STEP
        left = runs.transition + AFTER - now
        if left <= 0 and _is_victim(pods, view):
            left = AFTER
        if left > 0:
            return BudgetStep(look_again=left)
    label = POD_GROUP_LABEL if pod_group.api_group == GROUP_X else POD_GROUP_LABEL_SIGS
    wanted = BudgetInfo(
        pod_group.namespace,
        budget_name(pod_group),
        LabelSelector(match_labels={label: pod_group.name}),
        gang=pod_group.name,
        gang_uid=pod_group.uid,
        need=pod_group.min_member,
    )
    return NO_STEP if there is not None and there.asks_like(wanted) else BudgetStep(apply=wanted)


def _is_victim(pods: Iterable[PodInfo], view: ClusterView) -> bool:
    leaving = [room.victims for room in view.nominated.values()]
    return any(pod.uid in victims for pod in pods for victims in leaving)
