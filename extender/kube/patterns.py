"""Patterns: members of gangs are equal for kube-scheduler by spec and labels, less a list.

The list has what differs from one pod of a template to the next and is read by no scheduler plugin.
So a field that comes with a later release makes pods unequal: that is slower, and not wrong. The
API server writes fields in one order, so equal fields are equal bytes.
"""

import weakref
from hashlib import blake2b
from typing import Final

import msgspec
from msgspec import Raw, Struct

from extender.api.core_v1 import ObjectMeta
from extender.api.wellknown import (
    INDEX_LABEL,
    JOB_SET_INDEX_LABEL,
    POD_GROUP_LABEL,
    POD_GROUP_LABEL_SIGS,
)
from extender.state.cluster.records import Pattern, Shape

NUMBERED: Final = frozenset(
    (
        INDEX_LABEL,
        "statefulset.kubernetes.io/pod-name",
        "apps.kubernetes.io/pod-index",
        JOB_SET_INDEX_LABEL,
        "jobset.sigs.k8s.io/job-global-index",
        "jobset.sigs.k8s.io/job-group-index",
        "jobset.sigs.k8s.io/job-key",
        "jobset.sigs.k8s.io/restart-attempt",
        "training.kubeflow.org/replica-index",
        "training.kubeflow.org/job-role",
        "leaderworkerset.sigs.k8s.io/worker-index",
        "leaderworkerset.sigs.k8s.io/group-index",
        "leaderworkerset.sigs.k8s.io/group-key",
    )
)
"""Labels that controllers number their pods by."""
IDENTITY: Final = frozenset(
    (
        POD_GROUP_LABEL,
        POD_GROUP_LABEL_SIGS,
        "batch.kubernetes.io/job-name",
        "batch.kubernetes.io/controller-uid",
        "job-name",
        "controller-uid",
    )
)
"""Labels that say which gang or Job a pod belongs to."""
_DROPPED: Final = NUMBERED | IDENTITY
_OF_CONTAINERS: Final = frozenset(("env", "envFrom", "command", "args", "volumeMounts"))
_LISTS: Final = {
    "containers": _OF_CONTAINERS,
    "initContainers": _OF_CONTAINERS,
    "volumes": frozenset(("name",)),
}
"""Lists in the spec, and what is left out of their items."""
_VOLUMES: Final = frozenset(
    (
        *("name", "emptyDir", "configMap", "secret", "downwardAPI"),
        *("projected", "hostPath", "image"),
    )
)
"""Volumes that no scheduler plugin reads."""


class _Pod(Struct, frozen=True, gc=False):
    spec: dict[str, Raw] = {}


_decode = msgspec.json.Decoder(_Pod).decode
_decode_list = msgspec.json.Decoder(list[dict[str, Raw]] | None).decode
_NONE: Final = Raw(b"null")


class Patterns:
    """Pods that are equal have one Pattern; one that no pod has is forgotten."""

    def __init__(self) -> None:
        self._known: weakref.WeakValueDictionary[tuple[object, ...], Pattern] = (
            weakref.WeakValueDictionary()
        )

    def __len__(self) -> int:
        return len(self._known)

    def of(self, raw: bytes | Raw, meta: ObjectMeta, shape: Shape) -> Pattern | None:
        """Return the pattern of a pod; None for one that kube-scheduler has to judge by itself.

        Raises msgspec.MsgspecError.
        """
        if shape.individually_constrained or shape.beside_nodes:
            return None
        spec = _spec(raw)
        if spec is None:
            return None
        have = meta.labels or {}
        labels = {name: value for name, value in have.items() if name not in _DROPPED}
        dropped = _DROPPED.intersection(have)
        key = (shape, meta.namespace, tuple(labels.items()), dropped, spec)
        found = self._known.get(key)
        if found is None:
            found = Pattern(shape, meta.namespace, labels, dropped)
            self._known[key] = found
        return found


def _spec(raw: bytes | Raw) -> bytes | None:
    """Return a hash of what is compared; None where that is not enough.

    With a hash of which two specs can be found a wrong pod might be bound.
    """
    spec = _decode(raw).spec
    if "schedulingGroup" in spec:
        return None
    spec.pop("hostname", None)
    lists = [(name, _decode_list(spec.pop(name, _NONE)) or ()) for name in _LISTS]
    names, values = [*spec], [*spec.values()]
    for name, items in lists:
        left_out = _LISTS[name]
        for item in items:
            if name == "volumes" and not item.keys() <= _VOLUMES:
                return None
            for field in left_out:
                item.pop(field, None)
            names += (name, *item)
            values += item.values()
    return blake2b(msgspec.json.encode((names, values)), digest_size=32).digest()
