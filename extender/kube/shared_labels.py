"""Labels of pods, one mapping for all pods that have the same ones.

A disruption budget may name any label, and the state has 100,000 pods: most of them are of a few
templates. What numbers the pods of a Job is left out, because the state has it beside the labels.
"""

from collections.abc import Mapping
from typing import Final

from extender.api.wellknown import INDEX_LABEL

MOST: Final = 8192
"""Mappings that are remembered: a pod whose mapping was forgotten keeps it."""
_NONE: Final[Mapping[str, str]] = {}


class SharedLabels:
    """The mappings that pods have."""

    def __init__(self) -> None:
        self._known: dict[tuple[tuple[str, str], ...], Mapping[str, str]] = {}

    def of(self, labels: dict[str, str] | None) -> Mapping[str, str]:
        """Return labels but for the completion index; equal ones are one mapping."""
        if not labels:
            return _NONE
        if INDEX_LABEL in labels:
            labels = {name: value for name, value in labels.items() if name != INDEX_LABEL}
        key = tuple(labels.items())  # the API server writes them in the order of their names
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= MOST:
                self._known.clear()
            found = self._known[key] = labels
        return found
