"""Controllers that make a pod only when others of theirs are ready: those cannot be one gang."""

from collections.abc import Iterable
from typing import Final

from extender.state.cluster.records import PodInfo

_WAYS: Final = {
    "leaderworkerset.sigs.k8s.io/name": (
        "a LeaderWorkerSet makes workers when their leader is ready, unless its startupPolicy is "
        "LeaderCreated; all its groups are one gang"
    ),
    "jobset.sigs.k8s.io/jobset-name": (
        "a JobSet makes pods when others are ready where it has dependsOn, or the "
        "startupPolicyOrder InOrder"
    ),
    "spark-role": "a Spark driver makes its executors when it runs",
    "statefulset.kubernetes.io/pod-name": (
        "a StatefulSet makes a pod when the one before is ready, unless its podManagementPolicy is "
        "Parallel"
    ),
}
"""By a label of pods: what their controller may wait for. The first that a pod has counts."""


def hint(pods: Iterable[PodInfo]) -> str:
    """Return why more pods of a gang may not come, as the end of a sentence."""
    labels = {label for pod in pods for label in pod.labels}
    return next((f"; {text}" for label, text in _WAYS.items() if label in labels), "")
