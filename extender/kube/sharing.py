"""Labels and other small mappings, one for all objects that have the same.

A disruption budget may name any label, and the state has 100,000 pods: most of them are of a few
templates. So are Workloads.
"""

from collections.abc import Mapping
from typing import Final

from extender.api.wellknown import BESIDE_LABEL, INDEX_LABEL

MOST: Final = 8192
"""Mappings that are remembered: an object whose mapping was forgotten keeps it."""
MOST_CHARACTERS: Final = 1024
"""Of the values of one of them; what is longer is its object's own, for users write these."""
_NONE: Final[Mapping[str, str]] = {}
_LEFT_OUT: Final = frozenset((INDEX_LABEL, BESIDE_LABEL))


class SharedMappings:
    """The mappings that objects have."""

    def __init__(self) -> None:
        self._known: dict[tuple[tuple[str, str], ...], Mapping[str, str]] = {}

    def of(self, mapping: Mapping[str, str] | None) -> Mapping[str, str]:
        """Return a mapping that equals this one, the same for all that have its order too."""
        if not mapping:
            return _NONE
        if sum(map(len, mapping.values())) > MOST_CHARACTERS:
            return mapping
        key = tuple(mapping.items())  # the API server writes them in the order of their names
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= MOST:
                self._known.clear()
            found = self._known[key] = mapping
        return found


class SharedLabels:
    """The labels that pods have.

    What numbers the pods of a Job is left out, because the state has it beside the labels; and the
    label that only makes kube-scheduler try a pod.
    """

    def __init__(self) -> None:
        self._mappings = SharedMappings()

    def of(self, labels: dict[str, str] | None) -> Mapping[str, str]:
        """Return labels but for these two; equal ones are one mapping."""
        if labels and not _LEFT_OUT.isdisjoint(labels):
            labels = {name: value for name, value in labels.items() if name not in _LEFT_OUT}
        return self._mappings.of(labels)
