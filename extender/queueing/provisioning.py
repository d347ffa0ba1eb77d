"""The built-in controller of admission checks that ask an autoscaler for nodes.

A ProvisioningRequest (autoscaling.x-k8s.io) names a PodTemplate and a number of pods for each pod
set, and the autoscaler says in its conditions what becomes of it. `pod_templates` and `request`
build these objects for any workload that holds quota. `decide` says what is due for one check.

Source: https://kueue.sigs.k8s.io/docs/admission-check-controllers/provisioning/
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import msgspec

from extender.api.queue_wire import PodSetUpdate
from extender.api.reasons import CheckReason
from extender.api.values import LONGEST_NAME
from extender.api.wellknown import (
    ADMISSION_GATE,
    MANAGED_LABEL,
    PROVISIONING_PARAMETER,
    QUEUE_API_VERSION,
    RESERVED_AT,
    WorkloadCondition,
)
from extender.jobs import fields
from extender.jobs.fields import Object
from extender.jobs.templates import Placement, flavor_directives, inject, shortened
from extender.queueing.checks import PENDING, READY, REJECTED, RETRY
from extender.state.cluster.records import ConditionInfo
from extender.state.queue.records import (
    AdmissionCheckInfo,
    CheckState,
    FlavorInfo,
    PodSetInfo,
    ProvisioningConfigInfo,
    ProvisioningRequestInfo,
    WorkloadInfo,
    remaining,
)
from extender.state.queue.view import QueueView

CONTROLLER: Final = "kueue.x-k8s.io/provisioning-request"
"""The `controllerName` of AdmissionChecks that are ours."""
CONFIG_KIND: Final = ("kueue.x-k8s.io", "ProvisioningRequestConfig")
CONSUME_ANNOTATION: Final = "autoscaling.x-k8s.io/consume-provisioning-request"
CLASS_ANNOTATION: Final = "autoscaling.x-k8s.io/provisioning-class-name"
_NO_DOMAINS: Final[Mapping[str, Mapping[str, str]]] = {}
_decode = msgspec.json.Decoder(dict[str, object]).decode


def short_name(name: str) -> str:
    """Return a name as an object may have it: the end of a longer one is a hash of it all."""
    return shortened(name, LONGEST_NAME)


def request_name(workload: str, check: str, attempt: int) -> str:
    """Return the name of the ProvisioningRequest for an attempt, from 1 on."""
    return short_name(f"{workload}-{check}-{attempt}")


@dataclass(frozen=True, slots=True)
class PodsAsked:
    """A PodTemplate and the number of pods of it for which nodes are asked."""

    template: Object
    """The PodTemplate (v1) as the API has it, owned by the Workload."""
    count: int
    pod_sets: tuple[str, ...]
    """The pod sets that it stands for: one, or several that were merged."""

    @property
    def name(self) -> str:
        """The name of the PodTemplate."""
        return fields.text(self.template, "metadata", "name")


def needed(workload: WorkloadInfo, managed: Collection[str] = ()) -> list[tuple[PodSetInfo, int]]:
    """Return the pod sets with pods that have still to run, and how many these are.

    Where `managed` resources are named, a pod set counts that asks for one of them.
    """
    held = workload.admission.assignments if workload.admission is not None else ()
    given, found = {each.name: each for each in held}, []
    for pod_set in workload.pod_sets:
        asks = pod_set.shape.requests
        assigned = given.get(pod_set.name)
        count = remaining(assigned, workload) if assigned is not None else 0
        if count > 0 and (not managed or any(asks.get(name, 0) > 0 for name in managed)):
            found.append((pod_set, count))
    return found


def pod_templates(
    workload: WorkloadInfo,
    flavors: Mapping[str, FlavorInfo],
    name: str,
    *,
    managed: Collection[str] = (),
    merge: str = "",
    domains: Mapping[str, Mapping[str, str]] = _NO_DOMAINS,
) -> list[PodsAsked]:
    """Return PodTemplates for the pods of a workload with quota that have still to run.

    Their names are `ppt-NAME-PODSET`, with the `name` of the object that refers to them. They ask
    for what the pods will: limits as missing requests, the labels and tolerations of the flavors in
    which the workload has quota, no gate of the queue. `managed` is as in `needed`. `merge` is a
    `podSetMergePolicy` of a ProvisioningRequestConfig: equal pod sets become one. `domains` are
    more labels by pod set that their nodes are to have. Raises
    PlacementError or FlavorNotFoundError as a start does, msgspec.DecodeError for a template that
    cannot be read.
    """
    if workload.admission is None:
        return []
    given = {each.name: each for each in workload.admission.assignments}
    found: dict[object, PodsAsked] = {}
    for pod_set, count in needed(workload, managed):
        template = _decode(pod_set.template or b"{}")
        selector, tolerations = flavor_directives(given[pod_set.name], flavors)
        selector = {**selector, **domains.get(pod_set.name, {})}
        inject(template, Placement(pod_set.name, count, selector, tolerations))
        _as_asked(template)
        alike = _alike(template, merge) or pod_set.name
        known = found.get(alike)
        if known is not None:
            names = (*known.pod_sets, pod_set.name)
            found[alike] = replace(known, count=known.count + count, pod_sets=names)
            continue
        metadata = _metadata(workload, short_name(f"ppt-{name}-{pod_set.name}"))
        made: Object = {
            "apiVersion": "v1",
            "kind": "PodTemplate",
            "metadata": metadata,
            "template": template,
        }
        found[alike] = PodsAsked(made, count, (pod_set.name,))
    return list(found.values())


def request(
    workload: WorkloadInfo,
    name: str,
    asked: Iterable[PodsAsked],
    *,
    class_name: str,
    parameters: Mapping[str, str],
    version: str = "v1",
) -> Object:
    """Return a ProvisioningRequest for these pods, owned by the Workload.

    Annotations of the Workload with the prefix `provreq.kueue.x-k8s.io/` are parameters too, and
    win. An annotation says for which reservation of quota it is.
    """
    metadata = _metadata(workload, name)
    metadata["annotations"] = {RESERVED_AT: reservation_of(workload)}
    spec: Object = {
        "provisioningClassName": class_name,
        "podSets": [{"podTemplateRef": {"name": each.name}, "count": each.count} for each in asked],
    }
    said = parameters_of(workload, parameters)
    if said:
        spec["parameters"] = said
    return {
        "apiVersion": f"autoscaling.x-k8s.io/{version}",
        "kind": "ProvisioningRequest",
        "metadata": metadata,
        "spec": spec,
    }


def parameters_of(workload: WorkloadInfo, parameters: Mapping[str, str]) -> dict[str, str]:
    """Return the parameters of a workload's request: given ones, and those of its annotations."""
    said = {
        key.removeprefix(PROVISIONING_PARAMETER): text
        for key, text in workload.meta.annotations.items()
        if key.startswith(PROVISIONING_PARAMETER)
    }
    return {**parameters, **said}


def reservation_of(workload: WorkloadInfo) -> str:
    """Return the identity of a reservation of quota: its time in whole seconds."""
    reserved = workload.condition(WorkloadCondition.QUOTA_RESERVED)
    return str(int(reserved.transition)) if reserved is not None else ""


def _metadata(workload: WorkloadInfo, name: str) -> Object:
    owner = {
        "apiVersion": QUEUE_API_VERSION,
        "kind": "Workload",
        "name": workload.meta.name,
        "uid": workload.meta.uid,
        "controller": True,
    }
    return {
        "name": name,
        "namespace": workload.meta.namespace,
        "labels": {MANAGED_LABEL: "true"},
        "ownerReferences": [owner],
    }


def _as_asked(template: Object) -> None:
    """Change a template to what a scheduler will see of its pods."""
    spec = fields.ensure(template, "spec")
    gates = fields.objects(spec, "schedulingGates")
    fields.put(spec, "schedulingGates", [e for e in gates if e.get("name") != ADMISSION_GATE])
    for part in ("initContainers", "containers"):
        for container in fields.objects(spec, part):
            limits = fields.mapping(container, "resources", "limits")
            if limits:
                asked = fields.mapping(container, "resources", "requests")
                fields.ensure(container, "resources")["requests"] = {**limits, **asked}


_SCHEDULING: Final = ("nodeSelector", "tolerations", "affinity", "resourceClaims", "overhead")


def _alike(template: Object, merge: str) -> bytes:
    """Return what pod sets have in common that a merge policy joins; nothing without a policy."""
    if merge == "IdenticalPodTemplates":
        return msgspec.json.encode(template, order="sorted")
    if merge != "IdenticalWorkloadSchedulingRequirements":
        return b""
    spec = fields.mapping(template, "spec")
    amounts = [
        [fields.value(each, "resources") for each in fields.objects(spec, part)]
        for part in ("initContainers", "containers")
    ]
    found = [amounts, [spec.get(name) for name in _SCHEDULING]]
    return msgspec.json.encode(found, order="sorted")


# -- the decision

_ENDED: Final = frozenset((RETRY, REJECTED))
"""The states that stay until the workload has lost its quota."""
_LOST: Final = (
    ("Failed", "failure"),
    ("CapacityRevoked", ""),
    ("BookingExpired", "booking expired"),
)
"""The conditions of a request that gets no nodes, in order, and what is tried again after: nothing
where nodes were taken back, which also ends an admitted workload."""


@dataclass(frozen=True, slots=True)
class RequestsStep:
    """The next step for the checks of one workload."""

    checks: tuple[CheckState, ...]
    """Their states."""
    create: Mapping[str, str] = field(default_factory=dict)
    """The names of requests to be made, by check."""
    delete: tuple[ProvisioningRequestInfo, ...] = ()


def decide(
    workload: WorkloadInfo,
    configs: Mapping[str, ProvisioningConfigInfo | None],
    requests: Sequence[ProvisioningRequestInfo],
    *,
    now: float,
) -> RequestsStep:
    """Return the next step for the checks of a workload that are ours.

    `configs` has the configuration of each of them, None for one that is not active. `requests` are
    all that were made for the workload.
    """
    known = {each.meta.name: each for each in requests}
    holds = workload.admission is not None and not workload.evicted and workload.active
    if not holds or workload.finished or workload.meta.terminating:
        return RequestsStep(workload.checks, {}, _not_going(requests))
    states, create, kept = list[CheckState](), dict[str, str](), set[str]()
    for state in workload.checks:
        if state.name not in configs:
            states.append(state)
            continue
        config = configs[state.name]
        name = request_name(workload.meta.name, state.name, state.retry_count + 1)
        found = known.get(name)
        if config is None or not needed(workload, config.spec.managed_resources):
            kept.add(name)
            states.append(_unasked(workload, state, config))
        elif found is None:
            states.append(state)
            if state.state == PENDING and not workload.admitted:
                create[state.name] = name
        elif state.state == PENDING and not _is_current(workload, found, config):
            states.append(state)  # another one is made when it is gone
        else:
            kept.add(name)
            states.append(_judged(workload, state, found, config=config))
    old = [each for each in requests if each.meta.name not in kept]
    moved = (
        new if new.state == was.state else replace(new, last_transition=now)
        for new, was in zip(states, workload.checks, strict=True)
    )
    return RequestsStep(tuple(moved), create, _not_going(old))


def _not_going(found: Iterable[ProvisioningRequestInfo]) -> tuple[ProvisioningRequestInfo, ...]:
    return tuple(each for each in found if not each.meta.terminating)


def _is_current(
    workload: WorkloadInfo, found: ProvisioningRequestInfo, config: ProvisioningConfigInfo
) -> bool:
    """Return whether a request is for the present reservation, and asks for what is due."""
    reserved = found.meta.annotations.get(RESERVED_AT)
    asks = found.spec.provisioning_class_name, found.spec.parameters
    due = config.spec.provisioning_class_name, parameters_of(workload, config.spec.parameters)
    return not found.meta.terminating and reserved == reservation_of(workload) and asks == due


def _unasked(
    workload: WorkloadInfo, state: CheckState, config: ProvisioningConfigInfo | None
) -> CheckState:
    """Return the state of a check that asks for no nodes."""
    if config is not None:
        return replace(state, state=READY, message="the provisioning request is not needed")
    if workload.admitted or state.state in _ENDED:
        return state
    return replace(state, state=PENDING, message="the check is not active")


def _judged(
    workload: WorkloadInfo,
    state: CheckState,
    found: ProvisioningRequestInfo,
    *,
    config: ProvisioningConfigInfo,
) -> CheckState:
    """Return the state of a check by what the autoscaler says of its request."""
    if state.state in _ENDED:
        return state
    for kind, what in _LOST:
        said = found.condition(kind)
        if said is not None and (not what or not workload.admitted):
            return _lost(state, config, said.message, what=what)
    provisioned = found.condition("Provisioned")
    if workload.admitted or (provisioned is not None and state.state == READY):
        return state
    if provisioned is not None:
        updates = _updates(workload, found, config)
        return replace(state, state=READY, message=provisioned.message, pod_set_updates=updates)
    by_type = {each.type: each.message for each in found.conditions}
    message = by_type.get("Provisioned") or by_type.get("Accepted") or ""
    return replace(state, state=PENDING, message=message)


def _lost(
    state: CheckState, config: ProvisioningConfigInfo, message: str, *, what: str
) -> CheckState:
    """Return the state of a check whose nodes do not come, or are gone."""
    attempt = state.retry_count + 1
    if not what or attempt > config.spec.retry_strategy.backoff_limit_count:
        return replace(state, state=REJECTED, message=message)
    retry = config.spec.retry_strategy
    pause = min(retry.backoff_base_seconds * 2 ** min(attempt - 1, 31), retry.backoff_max_seconds)
    message = f"Retrying after {what}: {message}"
    return replace(state, state=RETRY, message=message, requeue_after_seconds=pause)


def _updates(
    workload: WorkloadInfo, found: ProvisioningRequestInfo, config: ProvisioningConfigInfo
) -> tuple[PodSetUpdate, ...]:
    """Return the additions to the pods for which nodes were asked, so that they use the booking."""
    class_name = found.spec.provisioning_class_name
    annotations = {CONSUME_ANNOTATION: found.meta.name, CLASS_ANNOTATION: class_name}
    labels = config.spec.pod_set_updates.get("nodeSelector", ())
    details = ((each["key"], each["valueFromProvisioningClassDetail"]) for each in labels)
    selector = {key: found.details[name] for key, name in details if name in found.details}
    return tuple(
        PodSetUpdate(each.name, annotations=annotations, node_selector=selector)
        for each, _ in needed(workload, config.spec.managed_resources)
    )


def asks_for_nodes(workload: WorkloadInfo, view: QueueView) -> bool:
    """Return whether a check of a workload asks for its nodes, so that nothing else need ask."""
    found = (view.admission_checks.get(each.name) for each in workload.checks)
    return any(check is not None and check.controller == CONTROLLER for check in found)


def activity(
    check: AdmissionCheckInfo,
    configs: Mapping[str, ProvisioningConfigInfo],
    *,
    served: bool,
) -> ConditionInfo:
    """Return the condition `Active` of a check that is ours."""
    if not served:
        text = "the API server has no ProvisioningRequests (autoscaling.x-k8s.io)"
        return ConditionInfo("Active", "False", CheckReason.NOT_SERVED, text)
    if config_of(check, configs) is None:
        name = check.parameters[2] if check.parameters is not None else ""
        text = "spec.parameters names no ProvisioningRequestConfig of kueue.x-k8s.io"
        text = f"{text} that exists: {name}" if name else text
        return ConditionInfo("Active", "False", CheckReason.BAD_PARAMETERS, text)
    return ConditionInfo("Active", "True", CheckReason.ACTIVE, "The admission check is active")


def config_of(
    check: AdmissionCheckInfo | None, configs: Mapping[str, ProvisioningConfigInfo]
) -> ProvisioningConfigInfo | None:
    """Return the configuration that a check names, None where it names none that exists."""
    if check is None or check.parameters is None or check.parameters[:2] != CONFIG_KIND:
        return None
    return configs.get(check.parameters[2])
