"""What a pod that was resized in place counts for on its node, until its node has done that.

The spec says what is wanted. The status says what the kubelet has set aside (`allocatedResources`)
and what the containers have by now (`resources`). kube-scheduler counts the largest of the three,
and leaves out the spec of a resize that its node can never do.
Source: KEP-1287, KEP-5419.
"""

from collections.abc import Iterable, Mapping

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from extender.api import core_v1 as core
from extender.resources.quantity import parse

_decode = msgspec.json.Decoder(core.ResizedPod).decode
_Amounts = Mapping[str, core.Amount] | None


def may_be_resized(pod: core.Pod | core.UnreadPod) -> bool:
    """Return whether the spec of a pod on a node has changed; a resize is one of few reasons."""
    return pod.metadata.generation > 1 and bool(pod.spec.node_name)


def as_counted(pod: core.Pod, raw: bytes | Raw) -> core.Pod:
    """Return a pod with the requests that count for its node, in place of those of its spec."""
    found = _decode(raw)
    status, spec = found.status, pod.spec
    spec_counts = not _is_infeasible(status.conditions or ())
    reported = {
        each.name: each
        for each in (*(status.container_statuses or ()), *(status.init_container_statuses or ()))
    }
    containers = zip(spec.containers, found.spec.containers, strict=True)
    first = zip(spec.init_containers or (), found.spec.init_containers or (), strict=True)
    changed = replace(
        spec,
        containers=[
            _container(c, reported.get(n.name), spec_counts=spec_counts) for c, n in containers
        ],
        # Other init containers are never resized: they end.
        init_containers=[
            _container(c, reported.get(n.name), spec_counts=spec_counts) if is_sidecar(c) else c
            for c, n in first
        ],
        resources=_of_pod(spec.resources, status, spec_counts=spec_counts),
    )
    return replace(pod, spec=changed)


def is_sidecar(container: core.Container) -> bool:
    """Return whether an init container keeps running beside the others."""
    return container.restart_policy == "Always"


def _container(
    container: core.Container, status: core.ContainerStatus | None, *, spec_counts: bool
) -> core.Container:
    if status is None or status.resources is None:
        return container
    asked = container.resources.requests if spec_counts else None
    largest = _largest(asked, status.resources.requests, status.allocated_resources)
    return replace(container, resources=core.ResourceRequirements(largest))


def _of_pod(
    asked: core.ResourceRequirements | None, status: core.ResizeStatus, *, spec_counts: bool
) -> core.ResourceRequirements | None:
    """Return what counts of the requests of a pod as a whole: of what its spec names."""
    if asked is None or not asked.requests or status.resources is None:
        return asked
    wanted = asked.requests if spec_counts else None
    largest = _largest(wanted, status.resources.requests, status.allocated_resources)
    return core.ResourceRequirements({r: n for r, n in largest.items() if r in asked.requests})


def _largest(*lists: _Amounts) -> dict[str, core.Amount]:
    """Return the largest amount of each resource. Raises QuantityError where one is none."""
    largest: dict[str, core.Amount] = {}
    for amounts in lists:
        for name, amount in (amounts or {}).items():
            if name not in largest or parse(amount) > parse(largest[name]):
                largest[name] = amount
    return largest


def _is_infeasible(conditions: Iterable[core.PodCondition]) -> bool:
    pending = (each.reason for each in conditions if each.type == "PodResizePending")
    return next(pending, None) == "Infeasible"
