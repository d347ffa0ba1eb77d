"""What became of a gang of two that was sent through a cluster, in sentences."""

from collections.abc import Iterator, Sequence

from extender.check.facts import Object
from extender.check.findings import Finding, failure, ok

NAME = "smoke.gang"
_SHOWN = 300
"""Characters of a message of others that are shown."""


def alone(pod: str) -> Finding:
    """Return that the first pod was bound without its gang."""
    return failure(
        NAME,
        f"{pod} was bound alone, and its gang has two pods: kube-scheduler does not ask the "
        "extender",
        "give kube-scheduler the entries of scheduler-config/kube-scheduler.yaml; after kubeadm "
        "upgrade see whether --config is still there",
    )


def started(seconds: float) -> Finding:
    """Return that the gang has started as it should."""
    found = f"the first pod waited, and both were bound {seconds:.1f} s after the second one came"
    return ok(NAME, found)


def refused(what: str, why: str) -> Finding:
    """Return that the gang could not be made, or not be looked at."""
    mend = "use the kubeconfig of an administrator, and see what is wrong above"
    return failure(NAME, f"{what}: {why}", mend)


def hangs(seconds: float, pod_group: Object | None, pods: Sequence[Object]) -> Finding:
    """Return what a gang waits for that has not started in time."""
    bound = [pod for pod in pods if pod["spec"].get("nodeName")]
    said = list(dict.fromkeys([*_of_group(pod_group), *_of_pods(pods)]))
    why = "; ".join(said) or "neither the PodGroup nor a pod says why"
    return failure(
        NAME,
        f"{len(bound)} of 2 pods are bound after {seconds:.0f} s: {why}",
        _mend(bool([*_of_group(pod_group)]), pods),
    )


def _mend(by_extender: bool, pods: Sequence[Object]) -> str:  # noqa: FBT001
    # First of all: an extender that another scheduler asks gives the PodGroup a reason, too.
    if not any(_scheduled(pod) for pod in pods):
        return "no scheduler has looked at the pods: see that one of this schedulerName runs"
    if by_extender:
        return "the extender says what the gang waits for: room on nodes, most of the time"
    return "see the message, the extender's log and /readyz"


def _of_group(pod_group: Object | None) -> Iterator[str]:
    conditions = ((pod_group or {}).get("status") or {}).get("conditions") or ()
    for each in conditions:
        if each["type"] in {"Permitted", "Scheduled"} and each["status"] != "True":
            yield _sentence(f"PodGroup {each['type']}", each)


def _of_pods(pods: Sequence[Object]) -> Iterator[str]:
    for pod in pods:
        condition = _scheduled(pod)
        if condition is not None and condition["status"] != "True":
            yield _sentence(f"pod {pod['metadata']['name']}", condition)


def _sentence(what: str, condition: Object) -> str:
    return f"{what}: {condition.get('reason', '')}: {condition.get('message', '')[:_SHOWN]}"


def _scheduled(pod: Object) -> Object | None:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return next((each for each in conditions if each["type"] == "PodScheduled"), None)


def is_refused(pod: Object) -> bool:
    """Return whether a scheduler has looked at a pod and let it wait, or a gate has."""
    condition = _scheduled(pod)
    return condition is not None and condition["status"] == "False"
