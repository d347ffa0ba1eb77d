"""The PodGroup of a job: the one that its pods name, else one that is made for it.

All pods that remain to run are its minMember, so that it starts as a whole, or starts again with
what is left of it. Some of what is done may have quota yet, for a restart of all: no start waits
for it.
"""

from collections.abc import Collection, Mapping
from functools import lru_cache
from hashlib import sha1
from typing import Final

import msgspec

from extender.api.wellknown import POD_GROUP_LABEL, POD_GROUP_LABEL_SIGS
from extender.jobs import fields
from extender.jobs.actions import MakePodGroup
from extender.jobs.fields import Object
from extender.jobs.generic_job import GenericJob, is_remembering, is_staged
from extender.jobs.workload import owners
from extender.state.queues.records import WorkloadInfo
from extender.state.queues.usage import remaining

_LONGEST: Final = 63
_HASH_LENGTH: Final = 5
_TEMPLATES: Final = 4096
_decode = msgspec.json.Decoder(dict[str, object]).decode


def group_of(workload: WorkloadInfo) -> str:
    """Return `namespace/name` of the PodGroup that a workload's pods have, or would have."""
    return f"{workload.meta.namespace}/{_brought(workload) or made_name(workload)}"


def made_name(workload: WorkloadInfo) -> str:
    """Return the name of the PodGroup that is made for a workload: its own, as a label may be."""
    name = workload.meta.name
    if len(name) <= _LONGEST:
        return name
    suffix = sha1(name.encode(), usedforsecurity=False).hexdigest()[:_HASH_LENGTH]
    return f"{name[: _LONGEST - _HASH_LENGTH - 1].rstrip('-.')}-{suffix}"


def pod_group(job: GenericJob, workload: WorkloadInfo) -> MakePodGroup | None:
    """Return the PodGroup to be made for a job; None where its pods bring one, or one is alone."""
    if workload.admission is None or _brought(workload):
        return None
    late = late_pod_sets(job)
    given = workload.admission.assignments
    done = job.done_pods() if is_remembering(job) else {}
    members = sum(remaining(each, workload, done) for each in given if each.name not in late)
    if members <= 1:  # one pod alone is no gang
        return None
    return MakePodGroup(workload.meta.namespace, made_name(workload), members, _owner(job))


def late_pod_sets(job: GenericJob) -> Collection[str]:
    """Return the pod sets whose pods are made only when others run: no gang may wait for them."""
    return job.late_pod_sets() if is_staged(job) else ()


def _owner(job: GenericJob) -> list[Object]:
    plain = ("apiVersion", "kind", "name", "uid")
    return [{name: each[name] for name in plain} for each in owners(job)]


def _brought(workload: WorkloadInfo) -> str:
    found = (_label(each.template) for each in workload.pod_sets if each.template)
    return next(filter(None, found), "")


@lru_cache(_TEMPLATES)
def _label(template: bytes) -> str:
    return brought_by(_decode(template))


def brought_by(template: Mapping[str, object]) -> str:
    """Return the PodGroup that a pod template names, or nothing."""
    return fields.label(template, POD_GROUP_LABEL) or fields.label(template, POD_GROUP_LABEL_SIGS)
