"""The one rule for how much of what tenants write is kept in memory, and labels that pods share.

What is read of a field takes ten times its bytes and more, and is looked at for each node. So a pod
with a field beyond a limit is set aside, and so is an object for which its namespace has no bytes
left: those that it has are counted for as long as anything keeps them, caches too.
"""

import weakref
from collections import Counter
from collections.abc import Mapping
from typing import Final, TypeVar

from msgspec import Raw

from extender.api.core_v1 import PodMeta, UnreadSpec
from extender.api.values import KNOWN_TEXTS, LONG_TEXT
from extender.api.wellknown import BESIDE_LABEL, INDEX_LABEL

MOST_BYTES: Final = 64 * 1024
"""Bytes of one field, as it is written."""
MOST_ENTRIES: Final = 256
"""Names with a value in one field at any depth, host ports or volumes of one pod."""
MOST_NAMES: Final = 64
"""Names of resources that one pod or PodGroup asks for, owners of a pod, or its scheduling gates.
"""
MOST_CHARACTERS: Final = 320
"""Characters of one word, such as the name of a resource: no name of Kubernetes has more."""
PODS: Final = 4 * 1024 * 1024
"""Bytes for what pods and PodGroups of one namespace say, beyond what is free for each."""
FREE: Final = 1024
JOBS: Final = 32 * 1024 * 1024
"""Bytes for the jobs of one namespace, beyond what is free for each."""
FREE_OF_A_JOB: Final = 8 * 1024

_NONE: Final[Mapping[str, str]] = {}
_LEFT_OUT: Final = frozenset((INDEX_LABEL, BESIDE_LABEL))

K = TypeVar("K")
V = TypeVar("V")


class OversizedError(ValueError):
    """An object has more than is read of one, or its namespace has more than is kept."""


class WeakDict(dict[K, V]):
    """A dict of which it can be known when nothing keeps it any more."""

    __slots__ = ("__weakref__",)


class NamespaceBytes:
    """The bytes of each namespace in memory, beyond those that are free for each object."""

    def __init__(self, most: int = PODS, free: int = FREE) -> None:
        self.used = Counter[str]()
        self._most, self._free = most, free

    def charge(self, namespace: str, what: object, size: int) -> None:
        """Count the bytes of an object for as long as anything keeps it.

        Raises OversizedError where the namespace has no more.
        """
        size -= self._free
        if size <= 0 or not namespace:  # a template is part of a job, which is charged
            return
        if self.used[namespace] + size > self._most:
            raise OversizedError(
                f"namespace {namespace} has objects of {self._most} bytes, beyond {self._free} for"
                " each, and no more is kept of one: delete some, or make them smaller"
            )
        self.used[namespace] += size
        weakref.finalize(what, self.used.subtract, {namespace: size}).atexit = False


def size_of(mapping: Mapping[str, object]) -> int:
    """Return the bytes of names and texts, and some for each entry."""
    texts = (len(each) for each in mapping.values() if isinstance(each, str))
    return sum(map(len, mapping)) + sum(texts) + 32 * len(mapping)


def check_lists(meta: PodMeta, spec: UnreadSpec) -> None:
    """Raise OversizedError for a pod with more labels, owners, gates or claims than are read."""
    labels = meta.labels or {}
    check("metadata.labels", len(labels), MOST_ENTRIES)
    check("bytes of metadata.labels", size_of(labels), MOST_BYTES)
    check("metadata.ownerReferences", len(meta.owner_references or ()), MOST_NAMES)
    check("spec.schedulingGates", len(spec.scheduling_gates or ()), MOST_NAMES)
    check("spec.volumes", len(spec.volumes or ()), MOST_ENTRIES)
    check_raw("spec.resourceClaims", spec.resource_claims)


def checked_size(spec: UnreadSpec) -> int:
    """Return the bytes that decide where a pod fits. Raises OversizedError for too many."""
    check("characters of spec.schedulerName", len(spec.scheduler_name), MOST_CHARACTERS)
    containers = (*spec.containers, *(spec.init_containers or ()))
    ports = sum(bytes(each.ports).count(b'"hostPort"') for each in containers)
    check("host ports of all containers", ports, MOST_ENTRIES)
    fields = {
        "spec.affinity": spec.affinity,
        "spec.tolerations": spec.tolerations,
        "spec.topologySpreadConstraints": spec.topology_spread_constraints,
        "spec.nodeSelector": spec.node_selector,
        "spec.overhead": spec.overhead,
        "spec.resources": spec.resources,
    }
    size = sum(check_raw("resources of a container", each.resources) for each in containers)
    return size + 32 * ports + sum(check_raw(field, raw) for field, raw in fields.items())


def check_names(field: str, mapping: Mapping[str, object] | None) -> None:
    """Raise OversizedError for more resources than an object may ask for, or too long names."""
    check(f"names of {field}", len(mapping or ()), MOST_NAMES)
    check(f"characters of a name of {field}", max(map(len, mapping or ("",))), MOST_CHARACTERS)


def check_raw(field: str, raw: bytes | Raw) -> int:
    """Return the bytes of a field. Raises OversizedError for more than is read of one."""
    text = bytes(raw)
    check(f"bytes of {field}", len(text), MOST_BYTES)
    check(f"names with a value in {field}", text.count(b":"), MOST_ENTRIES)
    return len(text)


def check(what: str, have: int, most: int) -> None:
    """Raise OversizedError for more of something than is read."""
    if have > most:
        raise OversizedError(f"{what}: {have}, and at most {most} are read")


class SharedMappings:
    """Labels and other small mappings, one for all objects that have the same.

    The state has 100,000 pods, and nearly as many Workloads: most of them are of a few templates.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[tuple[str, str], ...], Mapping[str, str]] = {}

    def of(self, mapping: Mapping[str, str] | None) -> Mapping[str, str]:
        """Return a mapping that equals this one, the same for all that have its order too."""
        if not mapping:
            return _NONE
        if size_of(mapping) > LONG_TEXT:
            return mapping
        key = tuple(mapping.items())  # the API server writes them in the order of their names
        if len(self._known) >= KNOWN_TEXTS and key not in self._known:
            self._known.clear()
        return self._known.setdefault(key, mapping)


class SharedLabels:
    """The labels that pods have: a disruption budget may name any of them.

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
        if not labels or size <= LONG_TEXT:
            return self._mappings.of(labels)
        key = (namespace, *labels.items())
        found = self._long.get(key)
        if found is None:
            found = WeakDict(labels)
            self._account.charge(namespace, found, size)
            self._long[key] = found
        return found
