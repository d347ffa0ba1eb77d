"""Where a workload's pods are, and how far their PodGroup is."""

from collections import Counter

import msgspec

from extender.api.visibility_v1beta2 import GroupProgress
from extender.api.wellknown import POD_GROUP_LABEL, POD_GROUP_LABEL_SIGS
from extender.explain.facts import Facts
from extender.state.cluster.view import ClusterView
from extender.state.queue.records import WorkloadInfo


def _group(workload: WorkloadInfo) -> str | None:
    """Return the `namespace/name` of the PodGroup that its pod templates name."""
    for each in workload.pod_sets:
        template = msgspec.json.decode(each.template) if each.template else {}
        labels = (template.get("metadata") or {}).get("labels") or {}
        name = labels.get(POD_GROUP_LABEL) or labels.get(POD_GROUP_LABEL_SIGS)
        if name:
            return f"{workload.meta.namespace}/{name}"
    return None


def nodes_of(workload: WorkloadInfo, facts: Facts) -> dict[str, int]:
    """Return how many pods of a workload each node has."""
    namespace = workload.meta.namespace
    pods = (facts.cluster.pods[uid] for uid in _members(workload, facts.cluster))
    names = Counter(pod.node for pod in pods if pod.node and pod.namespace == namespace)
    return {name: names[name] for name in sorted(names)}


def _members(workload: WorkloadInfo, cluster: ClusterView) -> set[str]:
    """Return the UIDs of the pods that a workload owns, its job made, or its group has."""
    owners, group = {owner.uid for owner in workload.owners}, _group(workload)
    found = {uid for owner in owners for uid in cluster.controlled_by(owner)}
    found |= owners & cluster.pods.keys()
    return found | cluster.tally(group).members.keys() if group else found


def pod_group_of(workload: WorkloadInfo, facts: Facts) -> GroupProgress | None:
    """Return how far the PodGroup of a workload's pods is, if they have one."""
    group = _group(workload)
    found = facts.cluster.pod_group(group) if group else None
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
