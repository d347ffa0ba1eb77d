"""The objects in a snapshot: as the API server gives them, without what decisions do not read.

Fields are kept by name, so a field that comes later is left out until it is added here. No
environment, command, probe or image of a container is kept.
"""

from collections.abc import Mapping
from typing import Any, Final

from extender.api.wellknown import (
    GROUP_NATIVE,
    INDEX_LABEL,
    MIRROR_ANNOTATION,
    NATIVE_VERSIONS,
    OWN_PREFIX,
    POD_GROUP_GROUPS,
    QUEUE_GROUP,
)
from extender.kube.decode_queues import RECORDS

Object = dict[str, Any]
Kept = Mapping[str, "Kept | None"]
"""The fields of an object to keep; None keeps all of a field. Each item of a list is cut alike."""

PATHS: Final = (
    *("/api/v1/nodes", "/api/v1/pods", "/apis/batch/v1/jobs"),
    *(each.path for each in RECORDS),
    *(f"/apis/{group}/v1alpha1/podgroups" for group in POD_GROUP_GROUPS),
    *(f"/apis/{GROUP_NATIVE}/{version}/podgroups" for version in NATIVE_VERSIONS),
)
"""The lists in a snapshot. A cluster need not have all of them."""


def _all(names: str) -> Kept:
    return dict.fromkeys(names.split())


_CONTAINER: Final = _all("name ports resources restartPolicy restartPolicyRules")
_CONTAINER_STATUS: Final = _all("name resources allocatedResources")
_POD_SPEC: Final[Kept] = {
    "containers": _CONTAINER,
    "initContainers": _CONTAINER,
    "volumes": {
        "ephemeral": {"volumeClaimTemplate": _all("spec")},
        **_all("name persistentVolumeClaim"),
    },
    **_all("activeDeadlineSeconds affinity hostNetwork hostUsers nodeName nodeSelector overhead"),
    **_all("preemptionPolicy priority priorityClassName readinessGates resourceClaims resources"),
    **_all("restartPolicy runtimeClassName schedulerName schedulingGates schedulingGroup"),
    **_all("tolerations topologySpreadConstraints"),
}
_TEMPLATE: Final[Kept] = {"metadata": None, "spec": _POD_SPEC}
_KEPT: Final[Mapping[str, Kept]] = {
    "nodes": {
        "metadata": None,
        "spec": _all("taints unschedulable"),
        "status": _all("allocatable conditions declaredFeatures"),
    },
    "pods": {
        "metadata": None,
        "spec": _POD_SPEC,
        "status": {
            "containerStatuses": _CONTAINER_STATUS,
            "initContainerStatuses": _CONTAINER_STATUS,
            **_all("allocatedResources conditions nominatedNodeName phase reason resources"),
            **_all("resourceClaimStatuses startTime"),
        },
    },
    "jobs": {
        "metadata": None,
        "spec": {
            "template": _TEMPLATE,
            **_all("activeDeadlineSeconds completionMode completions managedBy parallelism"),
            **_all("suspend"),
        },
        "status": None,
    },
    "workloads": {
        "metadata": None,
        "spec": {
            "podSets": {"template": _TEMPLATE, **_all("name count minCount topologyRequest")},
            **_all("active maximumExecutionTimeSeconds preemptionGates priority queueName"),
            **_all("priorityClassName priorityClassRef priorityClassSource"),
        },
        "status": None,
    },
}
"""The fields to keep by plural. Objects of other kinds have no pod template and stay whole."""
_METADATA: Final = _all(
    "name namespace uid creationTimestamp deletionTimestamp generation resourceVersion labels "
    "ownerReferences finalizers"
)
_ANNOTATIONS: Final = frozenset((INDEX_LABEL, MIRROR_ANNOTATION))
_PREFIXES: Final = (OWN_PREFIX, f"{QUEUE_GROUP}/")


def reduced(found: Object, path: str) -> Object:
    """Return an object of the list at a path without the fields that no decision reads."""
    kept: Object = _cut(found, _KEPT.get(path.rpartition("/")[2]) or dict.fromkeys(found))
    return kept


def _cut(value: Any, kept: Kept | None) -> Any:  # noqa: ANN401 - JSON
    if isinstance(value, list):
        return [_cut(each, kept) for each in value]
    if kept is None or not isinstance(value, dict):
        return value
    return {
        name: _metadata(each) if name == "metadata" and each else _cut(each, kept[name])
        for name, each in value.items()
        if name in kept
    }


def _metadata(value: Object) -> Object:
    found = {name: part for name, part in value.items() if name in _METADATA}
    read = {
        name: text
        for name, text in (value.get("annotations") or {}).items()
        if name in _ANNOTATIONS or name.startswith(_PREFIXES)
    }
    return {**found, "annotations": read} if read else found
