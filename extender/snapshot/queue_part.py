"""The part of a snapshot that is the queues' state.

It has no job and no pod template as it was written: these may have secrets in the environment of
containers. Of a template the label of its PodGroup is kept, and of annotations those that are
settings of queues.
"""

from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from typing import Any, Final

import msgspec

from extender.api.values import remembered
from extender.api.wellknown import (
    OWN_PREFIX,
    POD_GROUP_LABEL,
    POD_GROUP_LABEL_SIGS,
    WORKLOAD_ANNOTATION,
)
from extender.snapshot.plain import KnownShapes, Plain, ShapeNumbers, encode, plain, typed
from extender.state.queue.copies import QueueCopy
from extender.state.queue.events import Record
from extender.state.queue.records import (
    AdmissionInfo,
    ClusterQueueInfo,
    CohortInfo,
    FlavorInfo,
    JobObject,
    LimitRangeInfo,
    LocalQueueInfo,
    Meta,
    NamespaceInfo,
    PodSetInfo,
    PriorityClassInfo,
    RuntimeClassInfo,
    TopologyInfo,
    WorkloadInfo,
    WorkloadPriorityClassInfo,
)

NAME: Final = "queues"
_KUEUE_PREFIX: Final = "kueue.x-k8s.io/"
_LABELS: Final = (POD_GROUP_LABEL, POD_GROUP_LABEL_SIGS)
_KINDS: Final[Mapping[str, type[Record]]] = {
    "flavors": FlavorInfo,
    "topologies": TopologyInfo,
    "clusterQueues": ClusterQueueInfo,
    "cohorts": CohortInfo,
    "localQueues": LocalQueueInfo,
    "namespaces": NamespaceInfo,
    "priorityClasses": PriorityClassInfo,
    "workloadPriorityClasses": WorkloadPriorityClassInfo,
    "limitRanges": LimitRangeInfo,
    "runtimeClasses": RuntimeClassInfo,
}
_TEMPLATES: Final = 4096


def lists_of(copy: QueueCopy, numbers: ShapeNumbers) -> Mapping[str, Iterable[object]]:
    """Return the lists of the part, to be gone through in this order."""
    return {
        **{name: map(_record, _of_type(copy.records, of)) for name, of in _KINDS.items()},
        "workloads": (_workload(each, numbers) for each in copy.workloads),
        "jobs": ({**_record(each), "raw": ""} for each in copy.jobs),
        "assumed": copy.assumed.items(),
    }


def copy_of(part: Mapping[str, list[Any]], shapes: KnownShapes) -> QueueCopy:
    """Return the copy that was written. Raises msgspec.ValidationError and LookupError."""
    records = [typed(each, of) for name, of in _KINDS.items() for each in part[name]]
    return QueueCopy(
        records,
        [_read_workload(each, shapes) for each in part["workloads"]],
        [typed(each, JobObject) for each in part["jobs"]],
        {key: typed(held, AdmissionInfo) for key, held in part["assumed"]},
    )


def _of_type(records: Iterable[Record], of: type[Record]) -> Iterable[Record]:
    return (each for each in records if isinstance(each, of))


def _record(record: Record | JobObject) -> Plain:
    """Return a record without what is not to be in a file."""
    found = plain(record, "status", "raw")
    if "meta" in found:
        found["meta"] = _meta(found["meta"])
    return found


def _meta(meta: Meta) -> Plain:
    found = plain(meta, "annotations")
    kept = {name: said for name, said in meta.annotations.items() if _is_setting(name)}
    return {**found, "annotations": kept} if kept else found


def _is_setting(annotation: str) -> bool:
    return annotation.startswith((OWN_PREFIX, _KUEUE_PREFIX))


def _workload(workload: WorkloadInfo, numbers: ShapeNumbers) -> Plain:
    found = plain(workload, "pod_sets", "meta")
    return {
        **found,
        "meta": _meta(workload.meta),
        "pod_sets": [_pod_set(each, numbers) for each in workload.pod_sets],
    }


def _pod_set(pod_set: PodSetInfo, numbers: ShapeNumbers) -> Plain:
    found = plain(pod_set, "shape", "template")
    group = _group(pod_set.template)
    if group:
        found["group"] = group
    return {**found, "shape": numbers.shape(pod_set.shape)}


@remembered(_TEMPLATES)
def _group(template: bytes) -> Plain:
    """Return of a pod template what says which PodGroup its pods have."""
    try:
        metadata = msgspec.json.decode(template).get("metadata") or {}
        labels, said = (metadata.get(what) or {} for what in ("labels", "annotations"))
    except (msgspec.MsgspecError, AttributeError, RecursionError):
        return {}
    named = {name: labels[name] for name in _LABELS if name in labels}
    if not named:
        return {}
    copied = {name: said[name] for name in (WORKLOAD_ANNOTATION,) if name in said}
    return {"labels": named, "annotations": copied}


def _read_workload(value: Plain, shapes: KnownShapes) -> WorkloadInfo:
    bare = typed({**value, "pod_sets": []}, WorkloadInfo)
    sets = tuple(_read_pod_set(each, shapes) for each in value["pod_sets"])
    return replace(bare, pod_sets=sets)


def _read_pod_set(value: Plain, shapes: KnownShapes) -> PodSetInfo:
    known = {each.name for each in fields(PodSetInfo)}
    bare = typed({**{k: v for k, v in value.items() if k in known}, "shape": {}}, PodSetInfo)
    group = value.get("group")
    template = encode({"metadata": group}) if group else b""
    return replace(bare, shape=shapes.shape(value["shape"]), template=template)
