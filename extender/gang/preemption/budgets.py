"""PodDisruptionBudgets: how many evictions they allow, and how many a choice of pods takes."""

from collections import Counter
from collections.abc import Iterable, Mapping

from extender.api.selectors import matches_selector
from extender.api.wellknown import INDEX_LABEL
from extender.state.cluster.records import BudgetInfo, PodInfo
from extender.state.cluster.view import ClusterView

_NONE: Mapping[str, int] = {}


class Budgets:
    """The budgets of all namespaces that were asked about, and what has been taken from them."""

    def __init__(self, view: ClusterView) -> None:
        self._view = view
        self._allowed: dict[str, int] = {}
        self._taken = Counter[str]()
        self._known: dict[tuple[str, int], tuple[str, ...]] = {}
        self._kept: list[Mapping[str, str]] = []
        """Labels that were read: while they are here, their ids are no others'."""

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

    def _about(self, pod: PodInfo, budgets: Iterable[BudgetInfo]) -> tuple[str, ...]:
        by_index = pod.index is not None and INDEX_LABEL not in pod.labels
        names = (pod.namespace, id(pod.labels))
        found = self._known.get(names) if not by_index else None
        if found is None:
            labels = {**pod.labels, INDEX_LABEL: str(pod.index)} if by_index else pod.labels
            about = [each for each in budgets if matches_selector(each.selector, labels)]
            self._allowed.update({each.key: each.allowed for each in about})
            found = tuple(each.key for each in about)
            if not by_index:
                self._known[names] = found
                self._kept.append(pod.labels)
        return found
