"""Kubernetes' own gang scheduling: the feature gates that turn it on, and its objects."""

from collections.abc import Sequence
from typing import Any, Final

from tests.harness.objects import Object

NATIVE_GROUPS: Final = "scheduling.k8s.io/v1alpha2/podgroups"
_GATES: Final = "GenericWorkload=true,GangScheduling=true"
_OF_TOPOLOGY: Final = "TopologyAwareWorkloadScheduling=true"
SERVED: Final = (
    f"--feature-gates={_GATES},{_OF_TOPOLOGY}",
    "--runtime-config=scheduling.k8s.io/v1alpha2=true",
)
"""Arguments of an API server that has native PodGroups."""
SCHEDULED: Final = (f"--feature-gates={_GATES}",)
"""Arguments of a kube-scheduler that schedules them itself."""
WITH_TOPOLOGY: Final = (f"--feature-gates={_GATES},{_OF_TOPOLOGY}",)
"""The same, one domain after another where a PodGroup asks for that."""


def native_group(
    name: str, min_count: int | None, *, namespace: str = "default", topology: str | None = None
) -> Object:
    """Return a PodGroup: a gang of `min_count`, or one without a gang policy for None."""
    policy: Object = {"basic": {}} if min_count is None else {"gang": {"minCount": min_count}}
    spec: Object = {"schedulingPolicy": policy}
    if topology is not None:
        spec["schedulingConstraints"] = {"topology": [{"key": topology}]}
    return {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }


def in_group(name: str) -> dict[str, Any]:
    """Return what makes a pod a member of a native PodGroup: options of objects.pod."""
    return {"schedulingGroup": {"podGroupName": name}}


def bound(pods: Sequence[Object], name: str) -> list[str]:
    """Return the nodes of the pods of a native PodGroup that have one."""
    own = [pod for pod in pods if pod["spec"].get("schedulingGroup") == {"podGroupName": name}]
    return [pod["spec"]["nodeName"] for pod in own if pod["spec"].get("nodeName")]
