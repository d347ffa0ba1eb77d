"""Labels and other small mappings, one for all objects that have the same.

A disruption budget may name any label, and the state has 100,000 pods: most of them are of a few
templates. So are Workloads.
"""

import weakref
from collections.abc import Mapping
from typing import Final

from extender.api.wellknown import BESIDE_LABEL, INDEX_LABEL
from extender.kube.sizes import REMEMBERED, NamespaceBytes, WeakDict, size_of

MOST_CHARACTERS: Final = 4096
"""The most characters of one of them, by `size_of`; what is longer is its object's own."""
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
        if size_of(mapping) > MOST_CHARACTERS:
            return mapping
        key = tuple(mapping.items())  # the API server writes them in the order of their names
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            found = self._known[key] = mapping
        return found


class SharedLabels:
    """The labels that pods have.

    What numbers the pods of a Job is left out, because the state has it beside the labels; and the
    label that only makes kube-scheduler try a pod.
    """

    def __init__(self, account: NamespaceBytes) -> None:
        self._mappings = SharedMappings()
        self._account = account
        self._long = weakref.WeakValueDictionary[tuple[object, ...], WeakDict[str, str]]()
        """Labels that take many bytes, for as long as a pod has them."""

    def of(self, labels: dict[str, str] | None, namespace: str) -> Mapping[str, str]:
        """Return labels but for these two; equal ones are one mapping.

        Raises OversizedError where a namespace has no bytes left for them.
        """
        if labels and not _LEFT_OUT.isdisjoint(labels):
            labels = {name: value for name, value in labels.items() if name not in _LEFT_OUT}
        size = size_of(labels or {})
        if not labels or size <= MOST_CHARACTERS:
            return self._mappings.of(labels)
        key = (namespace, *labels.items())
        found = self._long.get(key)
        if found is None:
            found = WeakDict(labels)
            self._account.charge(namespace, found, size)
            self._long[key] = found
        return found
