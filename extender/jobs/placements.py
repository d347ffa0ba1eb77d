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
    return Placement(
        name=given.name,
        count=given.count,
        node_selector=selector,
        tolerations=tuple(_as_json(each) for each in tolerations),
        labels={wellknown.PODSET_LABEL: given.name, **({POD_GROUP_LABEL: group} if group else {})},
    )


def _as_json(toleration: Toleration) -> dict[str, object]:
    said: dict[str, object] = msgspec.to_builtins(toleration)
    return {name: each for name, each in said.items() if each not in ("", None)}
