"""PodDisruptionBudgets: how many evictions they allow, and how many a choice of pods takes."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import repeat
from typing import Final

from extender.api.core_v1 import LabelSelector
from extender.api.selectors import matches_selector
from extender.api.wellknown import INDEX_LABEL
from extender.state.cluster.records import BudgetInfo, PodInfo
from extender.state.cluster.view import ClusterView

MOST_LOOKS: Final = 50_000
"""Labels that are compared for the pods of one namespace in one search."""
VALUES: Final = 16
"""Values with which a label is compared in the time of one look."""
_NONE: Mapping[str, int] = {}


class Budgets:
    """The budgets of all namespaces that were asked about, and what has been taken from them."""

    def __init__(self, view: ClusterView) -> None:
        self._view = view
        self._allowed: dict[str, int] = {}
        self._taken = Counter[str]()
        self._known: dict[tuple[object, ...], tuple[str, ...]] = {}
        self._named: dict[str, tuple[frozenset[str], int]] = {}
        """By namespace: the labels that its budgets name, and how long it takes to compare them."""
        self._looks = Counter[str]()

    def of(self, pods: Iterable[PodInfo]) -> Mapping[str, int]:
        """Return how many of these pods each budget is about, by its key."""
        found = Counter[str]()
        for pod in pods:
            budgets = self._view.budgets(pod.namespace)
            if budgets:
                found.update(self._about(pod, budgets))
        return found or _NONE

    def take(self, counts: Mapping[str, int], sign: int = 1) -> None:
        """Count evictions; those that are not made after all with the sign -1."""
        for key, count in counts.items():
            self._taken[key] += sign * count

    def would_break(self, counts: Mapping[str, int]) -> bool:
        """Return whether these evictions are more than a budget allows, beside those counted."""
        return any(self._taken[key] + n > self._allowed[key] for key, n in counts.items())

    def broken_by(self, counts: Mapping[str, int]) -> bool:
        """Return whether a budget that these evictions are about is exceeded as it is."""
        return any(self._taken[key] > self._allowed[key] for key in counts)

    def violated_by(self, counts: Mapping[str, int]) -> int:
        """Return how many of these evictions are beyond what budgets allow."""
        over = (self._taken[key] + n - self._allowed[key] for key, n in counts.items())
        return sum(max(0, min(n, each)) for each, n in zip(over, counts.values(), strict=True))

    @property
    def violations(self) -> int:
        """How many evictions are beyond what budgets allow."""
        over = (count - self._allowed[key] for key, count in self._taken.items() if count)
        return sum(each for each in over if each > 0)

    def _about(self, pod: PodInfo, budgets: Collection[BudgetInfo]) -> tuple[str, ...]:
        """Return the keys of the budgets that a pod counts for.

        They are worked out once for all pods that have the same of the labels that budgets name.
        Where that takes too long, because a tenant has made very many budgets, the others count as
        protected by all of them.
        """
        namespace = pod.namespace
        if namespace not in self._named:
            found = [name for each in budgets for name in _names(each.selector)]
            self._named[namespace] = frozenset(found), len(found) + len(budgets)
        names, cost = self._named[namespace]
        labels = {name: value for name, value in pod.labels.items() if name in names}
        if pod.index is not None and INDEX_LABEL in names:
            labels.setdefault(INDEX_LABEL, str(pod.index))
        key = (namespace, *labels.items())
        if key in self._known:
            return self._known[key]
        if self._looks[namespace] > MOST_LOOKS:
            self._allowed[namespace] = 0
            return (namespace,)
        self._looks[namespace] += cost
        about = [each for each in budgets if matches_selector(each.selector, labels)]
        self._allowed.update({each.key: each.allowed for each in about})
        self._known[key] = tuple(each.key for each in about)
        return self._known[key]


def _names(selector: LabelSelector | None) -> Iterator[str]:
    """Yield each name of a label once, and once more for some values that it is compared with."""
    yield from (selector.match_labels if selector else None) or ()
    for each in (selector.match_expressions if selector else None) or ():
        yield from repeat(each.key, 1 + len(each.values or ()) // VALUES)
