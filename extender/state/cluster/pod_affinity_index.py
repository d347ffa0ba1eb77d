"""Terms of pods that may be about other pods: affinity between pods, and spread constraints.

kube-scheduler holds a pod against required anti-affinity of every pod on a node, and a pending pod
against every pod that it sees. It does not see at once what was bound without it.
"""

from collections.abc import Iterable
from weakref import WeakKeyDictionary

from extender.api.core_v1 import LabelSelector
from extender.api.selectors import matches
from extender.state.cluster.records import Pattern, PodInfo, PodTerm, Shape


def may_name(terms: Iterable[PodTerm], namespace: str, pattern: Pattern) -> bool:
    """Return whether a term of a pod in a namespace may be about pods of a pattern."""
    return any(
        term.covers(pattern.namespace, own=namespace) and _selects(term.selector, pattern)
        for term in terms
    )


def _selects(selector: LabelSelector | None, pattern: Pattern) -> bool:
    """Return whether a selector may select pods of a pattern; None selects no pod."""
    if selector is None:
        return False
    labels, dropped = pattern.labels, pattern.dropped
    exact = (selector.match_labels or {}).items()
    return all(key in dropped or labels.get(key) == value for key, value in exact) and all(
        each.key in dropped or matches(each, labels) for each in selector.match_expressions or ()
    )


class PodAffinityIndex:
    """The number of pods with the same terms, by shape and namespace."""

    def __init__(self) -> None:
        self.counts: dict[tuple[Shape, str, bool], int] = {}
        """The last part of the key says whether the pods have no node yet."""
        self._answers = WeakKeyDictionary[Pattern, bool]()
        """The answers for patterns, until there are other terms."""

    def add(self, pod: PodInfo) -> None:
        """Count a pod with terms."""
        key = pod.shape, pod.namespace, pod.node is None
        self.counts[key] = self.counts.get(key, 0) + 1
        if self.counts[key] == 1:
            self._answers.clear()

    def remove(self, pod: PodInfo) -> None:
        """Undo `add`."""
        key = pod.shape, pod.namespace, pod.node is None
        self.counts[key] -= 1
        if not self.counts[key]:
            del self.counts[key]
            self._answers.clear()

    def names(self, pattern: Pattern) -> bool:
        """Return whether a term that is in force may be about pods of a pattern."""
        found = self._answers.get(pattern)
        if found is None:
            found = self._answers[pattern] = any(
                may_name((*shape.shuns, *(shape.seeks if waits else ())), namespace, pattern)
                for shape, namespace, waits in self.counts
            )
        return found
