"""Where a workload's pods are, and how far their PodGroup is."""

from collections import Counter

import msgspec

from extender.api.visibility_v1beta2 import GroupProgress
from extender.api.wellknown import POD_GROUP_LABEL, POD_GROUP_LABEL_SIGS
from extender.explain.view import View
from extender.state.pods import PodInfo
from extender.state.queues.records import WorkloadInfo


def _group(workload: WorkloadInfo) -> str | None:
    """Return the `namespace/name` of the PodGroup that its pod templates name."""
    for each in workload.pod_sets:
        template = msgspec.json.decode(each.template) if each.template else {}
        labels = (template.get("metadata") or {}).get("labels") or {}
        name = labels.get(POD_GROUP_LABEL) or labels.get(POD_GROUP_LABEL_SIGS)
        if name:
            return f"{workload.meta.namespace}/{name}"
    return None


def nodes_of(workload: WorkloadInfo, view: View) -> dict[str, int]:
    """Return how many pods of a workload each node has."""
    group, namespace = _group(workload), workload.meta.namespace
    owners = {owner.uid for owner in workload.owners}
    names = Counter(
        pod.node
        for pod in view.cluster.pods.values()
        if pod.node and pod.namespace == namespace and _is_of(pod, owners, group)
    )
    return {name: names[name] for name in sorted(names)}


def _is_of(pod: PodInfo, owners: set[str], group: str | None) -> bool:
    if group is not None and pod.group == group:
        return True
    return pod.uid in owners or (pod.controller is not None and pod.controller in owners)


def pod_group_of(workload: WorkloadInfo, view: View) -> GroupProgress | None:
    """Return how far the PodGroup of a workload's pods is, if they have one."""
    group = _group(workload)
    found = view.cluster.pod_group(group) if group else None
    if found is None:
        return None
    status = found.status
    return GroupProgress(
        name=found.name,
        phase=status.phase,
        min_member=found.min_member,
        scheduled=status.scheduled,
        running=status.running,
    )
