"""Jobs of a queue when they are created: held, and put in the default queue.

The same as `manifests/optional/queue-policies.yaml`, for API servers that cannot evaluate it, and
for kinds of jobs that others have added.

Source: the API `admission.k8s.io/v1`.
"""

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Final, Protocol

from extender.api import wellknown
from extender.api.wellknown import DEFAULT_QUEUE
from extender.jobs import fields
from extender.jobs.fields import Object
from extender.jobs.kinds.services import TEMPLATES, group_of, prepare
from extender.jobs.registry import Integration

API_VERSION: Final = "admission.k8s.io/v1"
KIND: Final = "AdmissionReview"

GroupKind = tuple[str, str]
Kinds = Mapping[GroupKind, Integration]


class MalformedReviewError(ValueError):
    """The body is not an AdmissionReview."""


@dataclass(frozen=True, slots=True)
class Request:
    """An object that a client wants to create or change."""

    uid: str
    operation: str
    group: str
    kind: str
    namespace: str
    object: Object


class QueueFacts(Protocol):
    """The facts about the cluster that the rules need."""

    def has_local_queue(self, namespace: str, name: str) -> bool:
        """Return whether the LocalQueue exists."""

    def holds_all(self, namespace: str) -> bool:
        """Return whether jobs without a queue name are held in the namespace too."""


def by_kind(integrations: Iterable[Integration]) -> Kinds:
    """Return the integrations by the group and kind of their objects."""
    return {(each.group, each.kind): each for each in integrations}


def mutate(request: Request, kinds: Kinds, queues: QueueFacts) -> list[Object]:
    """Return the JSON patch (RFC 6902) of a new object: it gets a queue, and waits."""
    integration = kinds.get((request.group, request.kind))
    if (request.group, request.kind) in TEMPLATES:
        return _prepare(request)
    if (
        integration is None
        or request.operation != "CREATE"
        or (integration.kind != "Pod" and _is_made_by_a_job(request.object, kinds))
    ):
        return []
    if integration.kind == "Pod":
        return _gate(request.object, integration)
    job = deepcopy(request.object)
    if not fields.label(job, wellknown.QUEUE_LABEL):
        if queues.has_local_queue(request.namespace, DEFAULT_QUEUE):
            fields.ensure(job, "metadata", "labels")[wellknown.QUEUE_LABEL] = DEFAULT_QUEUE
        elif not queues.holds_all(request.namespace):
            return []
    integration.wrap(job).suspend()
    return _difference(request.object, job)


def _is_made_by_a_job(source: Object, kinds: Kinds) -> bool:
    """Return whether a job controls the object, which is then held and counted with that job."""
    for owner in fields.objects(source, "metadata", "ownerReferences"):
        group = fields.text(owner, "apiVersion").rpartition("/")[0]
        kind = (group, fields.text(owner, "kind"))
        if fields.flag(owner, "controller") and kind in kinds:
            return True
    return False


def _prepare(request: Request) -> list[Object]:
    """Return the patch of a Deployment or a service in a queue, for its pods to wait there."""
    if not fields.label(request.object, wellknown.QUEUE_LABEL):
        return []
    prepared = deepcopy(request.object)
    prepare(prepared, request.group, request.kind)
    return _difference(request.object, prepared)


def _gate(pod: Object, integration: Integration) -> list[Object]:
    """Return the patch that gates a plain pod of a queue, which cannot be suspended."""
    gates = fields.objects(pod, "spec", "schedulingGates")
    if (
        not fields.label(pod, wellknown.QUEUE_LABEL)
        # A pod that comes with its node is not scheduled, and may have no gates.
        or fields.text(pod, "spec", "nodeName")
        or any(fields.text(gate, "name") == wellknown.ADMISSION_GATE for gate in gates)
    ):
        return []
    held = deepcopy(pod)
    fields.ensure(held, "spec")["schedulingGates"] = [*gates, {"name": wellknown.ADMISSION_GATE}]
    if group := group_of(pod):
        fields.ensure(held, "metadata", "labels")[wellknown.QUEUE_POD_GROUP_LABEL] = group
    job = integration.wrap(held)
    if job.skip():
        return []  # nothing would ever remove the gate
    return _difference(pod, held)


def _difference(before: Mapping[str, object], after: Object, path: str = "") -> list[Object]:
    """Return the JSON patch for what was added or replaced; nothing is removed."""
    patch: list[Object] = []
    for name, new in after.items():
        old = before.get(name)
        where = f"{path}/{name.replace('~', '~0').replace('/', '~1')}"
        if isinstance(old, dict) and isinstance(new, dict):
            patch += _difference(old, new, where)
        elif old != new:
            patch.append({"op": "add", "path": where, "value": new})
    return patch


# -- requests of the API server, and responses


def read(review: Mapping[str, object]) -> Request:
    """Return the request of a review. Raises MalformedReviewError."""
    asked = fields.mapping(review, "request")
    uid, operation = fields.text(asked, "uid"), fields.text(asked, "operation")
    if review.get("apiVersion") != API_VERSION or review.get("kind") != KIND:
        raise MalformedReviewError(f"should be an {KIND} of {API_VERSION}")
    if not uid or not operation:
        raise MalformedReviewError("request.uid and request.operation should be there")
    return Request(
        uid,
        operation,
        fields.text(asked, "kind", "group"),
        fields.text(asked, "kind", "kind"),
        fields.text(asked, "namespace"),
        dict(fields.mapping(asked, "object")),
    )


def answer(request: Request, patch: Sequence[Object] = (), *, refusal: str = "") -> Object:
    """Return the review that goes back: the object is refused, or changed by the patch."""
    response: Object = {"uid": request.uid, "allowed": not refusal}
    if refusal:
        response["status"] = {"code": 422, "reason": "Invalid", "message": refusal}
    elif patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(json.dumps(patch).encode()).decode()
    return {"apiVersion": API_VERSION, "kind": KIND, "response": response}
