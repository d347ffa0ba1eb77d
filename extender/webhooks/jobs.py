"""Jobs of a queue when they are created: held, put in the default queue, refused when wrong.

The same rules as the policies in `manifests/optional`, for API servers that cannot evaluate those,
and for kinds of jobs that others have added.
"""

from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Final, Protocol

from extender.api import wellknown
from extender.api.wellknown import DEFAULT_QUEUE
from extender.jobs import fields
from extender.jobs.fields import Object
from extender.jobs.registry import Integration
from extender.webhooks import job_rules
from extender.webhooks.reviews import Request, Verdict

GroupKind = tuple[str, str]
Kinds = Mapping[GroupKind, Integration]

_NOTHING: Final = Verdict()
_MADE_BY_RAY_JOBS: Final = ("ray.io", "RayCluster")


class QueueFacts(Protocol):
    """The facts about the cluster that the rules need."""

    def has_local_queue(self, namespace: str, name: str) -> bool:
        """Return whether there is a LocalQueue."""

    def holds_all(self, namespace: str) -> bool:
        """Return whether jobs without a queue name are held in a namespace as well."""


def by_kind(integrations: Iterable[Integration]) -> Kinds:
    """Return the integrations by the group and kind of their objects."""
    return {(each.group, each.kind): each for each in integrations}


def mutate(request: Request, kinds: Kinds, queues: QueueFacts) -> Verdict:
    """Return how a new object is changed: its queue, and that it has to wait."""
    integration = kinds.get((request.group, request.kind))
    if (
        integration is None
        or request.operation != "CREATE"
        or (integration.kind != "Pod" and _is_made_by_a_job(request.object, kinds))
    ):
        return _NOTHING
    if integration.kind == "Pod":
        return Verdict(patch=_gate(request.object, integration))
    job = deepcopy(request.object)
    if not fields.label(job, wellknown.QUEUE_LABEL):
        if queues.has_local_queue(request.namespace, DEFAULT_QUEUE):
            fields.ensure(job, "metadata", "labels")[wellknown.QUEUE_LABEL] = DEFAULT_QUEUE
        elif not queues.holds_all(request.namespace):
            return _NOTHING
    integration.wrap(job).suspend()
    return Verdict(patch=_difference(request.object, job))


def validate(request: Request, kinds: Kinds, queues: QueueFacts) -> Verdict:
    """Return the problems of a new or changed job, or warnings for its owner."""
    integration = kinds.get((request.group, request.kind))
    if integration is None or request.operation not in {"CREATE", "UPDATE"}:
        return _NOTHING
    has_default = queues.has_local_queue(request.namespace, DEFAULT_QUEUE)
    refusals = job_rules.broken(
        integration.wrap(deepcopy(request.object)),
        integration.wrap(deepcopy(request.old)) if request.old is not None else None,
        has_default_queue=has_default,
    )
    return Verdict(refusals, warnings=() if refusals else _warnings(request, queues))


def _warnings(request: Request, queues: QueueFacts) -> tuple[str, ...]:
    queue = fields.label(request.object, wellknown.QUEUE_LABEL)
    before = fields.label(request.old, wellknown.QUEUE_LABEL) if request.old is not None else ""
    if queue in {"", before} or queues.has_local_queue(request.namespace, queue):
        return ()
    where = f"{request.namespace}/{queue}"
    return (f"there is no LocalQueue {where}: the job waits until it is created",)


def _is_made_by_a_job(source: Object, kinds: Kinds) -> bool:
    """Return whether a job controls the object: it is held, and counted, with that job."""
    for owner in fields.objects(source, "metadata", "ownerReferences"):
        group = fields.text(owner, "apiVersion").rpartition("/")[0]
        kind = (group, fields.text(owner, "kind"))
        if fields.flag(owner, "controller") and (kind in kinds or kind == _MADE_BY_RAY_JOBS):
            return True
    return False


def _gate(pod: Object, integration: Integration) -> list[Object]:
    """Return the patch that holds a plain pod of a queue: it cannot be suspended."""
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
