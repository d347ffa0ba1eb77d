"""What the flavors of an admission mean for the pods."""

from collections.abc import Collection, Mapping
from dataclasses import replace

import msgspec

from extender.api import wellknown
from extender.api.core_v1 import Toleration
from extender.api.wellknown import POD_GROUP_LABEL
from extender.jobs.templates import Placement, PlacementError
from extender.state.queue.records import Assignment, FlavorInfo, WorkloadInfo


class FlavorNotFoundError(LookupError):
    """A flavor that quota was given in is not there."""


def placements_of(
    workload: WorkloadInfo,
    flavors: Mapping[str, FlavorInfo],
    *,
    group: str = "",
    late: Collection[str] = (),
) -> tuple[Placement, ...]:
    """Return what the pods of each pod set are given; those that are not `late` join the group.

    Raises PlacementError where two flavors of one pod set exclude each other, FlavorNotFoundError
    where one is not there.
    """
    if workload.admission is None:
        return ()
    several = (
        e for e in workload.admission.assignments if e.topology and len(e.topology.domains) > 1
    )
    if workload.is_of_pods and not group and any(several):
        raise PlacementError(
            "its pods go to several domains of a topology, and have no PodGroup of the queue that "
            "says which: plain pods get no gate after they are made"
        )
    said = {wellknown.WORKLOAD_ANNOTATION: workload.meta.name}
    return tuple(
        replace(_placement(each, flavors, "" if each.name in late else group), annotations=said)
        for each in workload.admission.assignments
    )


def _placement(given: Assignment, flavors: Mapping[str, FlavorInfo], group: str) -> Placement:
    selector: dict[str, str] = {}
    tolerations: dict[Toleration, None] = {}
    for name in sorted(set(given.flavors.values())):
        flavor = flavors.get(name)
        if flavor is None:
            raise FlavorNotFoundError(name)
        for key, text in flavor.node_labels.items():
            if selector.setdefault(key, text) != text:
                raise PlacementError(f"pod set {given.name}: its flavors differ in label {key}")
        tolerations.update(dict.fromkeys(flavor.tolerations))
    topology, gates = given.topology, tuple[str, ...]()
    if topology is not None and not group and topology.domains:
        if len(topology.domains) == 1:  # all pods go there
            selector |= topology.selector(topology.domains[0][0])
        else:
            gates = (wellknown.TOPOLOGY_GATE,)
    return Placement(
        name=given.name,
        count=given.count,
        node_selector=selector,
        tolerations=tuple(_as_json(each) for each in tolerations),
        gates=gates,
        labels={wellknown.PODSET_LABEL: given.name, **({POD_GROUP_LABEL: group} if group else {})},
    )


def _as_json(toleration: Toleration) -> dict[str, object]:
    said: dict[str, object] = msgspec.to_builtins(toleration)
    return {name: each for name, each in said.items() if each not in ("", None)}
