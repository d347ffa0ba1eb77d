"""The requests of a pod, computed as kube-scheduler computes them.

Sources: KEP-753 (sidecars), KEP-2837 (pod-level resources),
https://kubernetes.io/docs/concepts/workloads/pods/init-containers/#resource-sharing-within-containers
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from extender.resources.quantity import PODS, Resources, add, raise_to


@dataclass(frozen=True, slots=True)
class ContainerRequests:
    """The requests of one container; a sidecar is an init container that keeps running."""

    requests: Mapping[str, int] = field(default_factory=dict)
    sidecar: bool = False


def pod_requests(
    containers: Iterable[ContainerRequests],
    init_containers: Iterable[ContainerRequests] = (),
    *,
    overhead: Mapping[str, int] | None = None,
    pod_level: Mapping[str, int] | None = None,
) -> Resources:
    """Return the amounts that a node must have free for the pod, with one `pods` slot.

    The larger of what runs for good (containers and sidecars) and of each start-up step (an init
    container with the sidecars that were started before it); pod-level requests where they are
    larger; overhead comes on top.
    """
    running: Resources = {}
    for container in containers:
        add(running, container.requests)
    started: Resources = {}
    peak: Resources = {}
    for container in init_containers:
        if container.sidecar:
            add(started, container.requests)
            raise_to(peak, started)
        else:
            step = dict(started)
            add(step, container.requests)
            raise_to(peak, step)
    add(running, started)
    raise_to(running, peak)
    if pod_level:
        # Never less than the containers ask for: the API server refuses that, or drops the field.
        raise_to(running, pod_level)
    if overhead:
        add(running, overhead)
    running[PODS] = 1
    return running
