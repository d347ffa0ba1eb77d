"""One pod of a group: what decisions ask of it, read once, and the whole of it on demand.

A decision about a thousand pods asks some ten things of each. The answers are plain fields here,
worked out when the pod is read. They are small enough to be kept as long as the pod does not
change, which the decoded pod is not.
"""

import json
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

import msgspec

from extender.api import wellknown
from extender.api.values import KNOWN_TEXTS, remembered
from extender.jobs import fields
from extender.jobs.fields import Object

_SHAPE: Final = (
    "initContainers",
    "containers",
    "nodeSelector",
    "affinity",
    "tolerations",
    "topologySpreadConstraints",
    "priorityClassName",
    "runtimeClassName",
    "overhead",
    "resources",
    "resourceClaims",
)
_OF_A_CONTAINER: Final = ("image", "resources", "ports", "restartPolicy")
_ENDED: Final = frozenset(("Succeeded", "Failed"))


@dataclass(frozen=True, slots=True)
class PlainPod:
    """A pod as the API server has it, and the fields that decisions read."""

    source: bytes | Object = field(repr=False)
    """The pod as JSON, or as the object that a caller owns."""
    uid: str
    name: str
    created: str
    """The creation timestamp, as text of one form that sorts by time."""
    is_ours: bool
    """True if it has our gate or our label, and no queued job controls it."""
    is_held: bool
    """True if our scheduling gate is there."""
    is_leaving: bool
    has_ended: bool
    has_succeeded: bool
    is_ready: bool
    role: str
    """The name of its pod set; nothing for a pod that is not ours."""
    queue: str
    total: str
    """The number of pods in its group, from its annotation."""
    is_last: bool
    """True if its annotation says that a pod which failed is not replaced."""

    @property
    def object(self) -> Object:
        """The whole pod. Of one that was read from JSON each call returns another copy."""
        if isinstance(self.source, bytes):
            return _named(msgspec.json.decode(self.source))
        return self.source

    def copy(self) -> Object:
        """Return the whole pod as an object that is the caller's to change."""
        return self.object if isinstance(self.source, bytes) else deepcopy(self.source)

    @property
    def age(self) -> tuple[str, str]:
        """Return the sort key of pods; the oldest comes first."""
        return self.created, self.name

    @property
    def runs(self) -> bool:
        """Return whether it was let go and has not ended."""
        return not self.is_held and not self.has_ended

    @property
    def counts(self) -> bool:
        """Return whether it makes up its group; one that failed has to be replaced."""
        return not self.is_leaving and (not self.has_ended or self.has_succeeded)


def read(raw: bytes) -> PlainPod:
    """Return a pod that the API server has sent. Raises msgspec.MsgspecError where it is no JSON.

    `raw` is kept, and decoded again where the whole pod is needed.
    """
    return _pod(_named(msgspec.json.decode(raw)), raw)


def pod_of(source: Object) -> PlainPod:
    """Return an object as a pod. The caller gives the object away."""
    return _pod(source, _named(source))


def _named(source: Object) -> Object:
    """Add kind and apiVersion, which a pod out of a list lacks."""
    source.setdefault("apiVersion", "v1")
    source.setdefault("kind", "Pod")
    return source


def _pod(found: Object, source: bytes | Object) -> PlainPod:
    held, phase = is_held(found), fields.text(found, "status", "phase")
    ours = _is_ours(found, held=held)
    return PlainPod(
        source,
        uid=fields.text(found, "metadata", "uid"),
        name=fields.text(found, "metadata", "name"),
        created=fields.text(found, "metadata", "creationTimestamp"),
        is_ours=ours,
        is_held=held,
        is_leaving=bool(fields.text(found, "metadata", "deletionTimestamp")),
        has_ended=phase in _ENDED,
        has_succeeded=phase == "Succeeded",
        is_ready=fields.condition(found, "Ready") is not None,
        role=_role(found, held=held) if ours else "",
        queue=fields.label(found, wellknown.QUEUE_LABEL),
        total=fields.annotation(found, wellknown.POD_GROUP_TOTAL_COUNT),
        is_last=fields.annotation(found, wellknown.RETRIABLE_IN_GROUP) == "false",
    )


def is_held(pod: Object) -> bool:
    """Return whether our scheduling gate is on a pod."""
    gates = fields.objects(pod, "spec", "schedulingGates")
    return any(each.get("name") == wellknown.ADMISSION_GATE for each in gates)


def _is_ours(pod: Object, *, held: bool) -> bool:
    """Return whether a pod has our gate or label, and is not the pod of a job that is queued.

    Such a pod names the workload of its job, as its template did. Pods that were held name theirs
    when they are let go, and then have their role, too.
    """
    if not held and fields.label(pod, wellknown.MANAGED_LABEL) != "true":
        return False
    if not fields.annotation(pod, wellknown.WORKLOAD_ANNOTATION):
        return True
    was_held = not held and bool(fields.annotation(pod, wellknown.ROLE_HASH))
    owners = fields.objects(pod, "metadata", "ownerReferences")
    return was_held or not any(fields.flag(each, "controller") for each in owners)


def _role(pod: Object, *, held: bool) -> str:
    """Return the name of a pod's pod set: equal pods have one, whatever they are given later.

    The annotation counts only where we wrote it, when the pod was let go: any user can write one,
    and a large pod is not to be counted as a small one.
    """
    own = "" if held else fields.annotation(pod, wellknown.ROLE_HASH)
    return own or _hash(fields.mapping(pod, "spec"))


def _hash(spec: Mapping[str, object]) -> str:
    """Return the hash of what equal pods have in common; that of a known text is looked up."""
    return _hash_of(msgspec.json.encode([spec.get(name) for name in _SHAPE]))


@remembered(KNOWN_TEXTS)
def _hash_of(parts: bytes) -> str:
    found = dict(zip(_SHAPE, msgspec.json.decode(parts), strict=True))
    spec: Mapping[str, object] = {name: each for name, each in found.items() if each is not None}
    shape = {name: spec[name] for name in _SHAPE if spec.get(name)}
    for name in ("initContainers", "containers"):
        containers = fields.objects(spec, name)
        shape[name] = [{n: c[n] for n in _OF_A_CONTAINER if n in c} for c in containers]
    text = json.dumps(shape, sort_keys=True)
    return sha256(text.encode(), usedforsecurity=False).hexdigest()[:8]
