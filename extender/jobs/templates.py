"""The parts of pod templates that a start writes and a stop restores, and what users ask for there.

Only scheduling directives change: labels, annotations, node selector, tolerations and gates.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha1
from typing import Final

from extender.api import wellknown
from extender.api.core_v1 import Toleration
from extender.api.values import LONGEST_LABEL, is_label_key
from extender.api.wellknown import (
    INDEX_LABEL,
    POD_GROUP_LABEL,
    PODSET_GROUP_NAME,
    PODSET_PREFERRED_TOPOLOGY,
    PODSET_REQUIRED_TOPOLOGY,
    PODSET_SLICE_LAYERS,
    PODSET_SLICE_SIZE,
    PODSET_SLICE_TOPOLOGY,
    PODSET_UNCONSTRAINED_TOPOLOGY,
)
from extender.jobs import fields
from extender.jobs.fields import Object
from extender.state.queue.records import Assignment, CheckState, FlavorInfo, WorkloadInfo

_DIRECTIVES: Final = (
    ("metadata", "labels"),
    ("metadata", "annotations"),
    ("spec", "nodeSelector"),
)
_OURS: Final = frozenset((wellknown.WORKLOAD_ANNOTATION, wellknown.PODSET_LABEL))
"""Written by us alone. The copy of a job that ran carries those of the other job."""
_TOLERATIONS: Final = ("spec", "tolerations")
_GATES: Final = ("spec", "schedulingGates")
HASH_LENGTH: Final = 5


class PlacementError(ValueError):
    """A template conflicts with what it would be given."""


@dataclass(frozen=True, slots=True)
class Placement:
    """The additions of a start to the pods of one pod set."""

    name: str
    count: int
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Mapping[str, object], ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    gates: tuple[str, ...] = ()
    """Scheduling gates."""


def inject(template: Object, placement: Placement) -> None:
    """Add a placement to a template. Raises PlacementError where they conflict."""
    if fields.annotation(template, wellknown.WORKLOAD_ANNOTATION) != placement.annotations.get(
        wellknown.WORKLOAD_ANNOTATION
    ) and is_copied(template):
        del fields.ensure(template, "metadata", "labels")[POD_GROUP_LABEL]
    given = (placement.labels, placement.annotations, placement.node_selector)
    for (part, name), wanted in zip(_DIRECTIVES, given, strict=True):
        if not wanted:
            continue
        has = fields.strings(template, part, name)
        for key, text in wanted.items():
            if key not in _OURS and has.get(key, text) != text:
                raise PlacementError(
                    f"pod set {placement.name}: {part}.{name} has {key}={has[key]},"
                    f" but it is given {key}={text}"
                )
        fields.ensure(template, part)[name] = {**has, **wanted}
    _add_missing(template, _TOLERATIONS, [dict(each) for each in placement.tolerations])
    _add_missing(template, _GATES, [{"name": each} for each in placement.gates])


def is_copied(template: Mapping[str, object]) -> bool:
    """Return whether a template names the PodGroup that was made for another job's workload."""
    group = fields.label(template, POD_GROUP_LABEL)
    return bool(group) and group == group_name(
        fields.annotation(template, wellknown.WORKLOAD_ANNOTATION)
    )


def group_name(workload: str) -> str:
    """Return the name of the PodGroup that is made for a workload: its own, as a label may be."""
    return shortened(workload, LONGEST_LABEL)


def shortened(name: str, most: int) -> str:
    """Return a name of so many characters at most: the end of a longer one is a hash of it all."""
    if len(name) <= most:
        return name
    suffix = sha1(name.encode(), usedforsecurity=False).hexdigest()[:HASH_LENGTH]
    return f"{name[: most - HASH_LENGTH - 1].rstrip('-.')}-{suffix}"


def restore(template: Object, original: Mapping[str, object]) -> None:
    """Restore the scheduling directives of the original in a template."""
    for part, name in (*_DIRECTIVES, _TOLERATIONS, _GATES):
        before = fields.value(original, part, name)
        if before or fields.value(template, part, name):
            fields.put(fields.ensure(template, part), name, before)


def follow(template: Object, before: Object, after: Object) -> None:
    """Add the directives of one template to another, and take away those of a former one."""
    for part, name in _DIRECTIVES:
        old, new = fields.strings(before, part, name), fields.strings(after, part, name)
        has = fields.strings(template, part, name)
        kept = {key: text for key, text in has.items() if old.get(key) != text}
        fields.put(fields.ensure(template, part), name, {**kept, **new})
    for part, name in (_TOLERATIONS, _GATES):
        former, wanted = (fields.objects(each, part, name) for each in (before, after))
        has_all = fields.objects(template, part, name)
        left = [each for each in has_all if each not in former or each in wanted]
        more = [each for each in wanted if each not in left]
        fields.put(fields.ensure(template, part), name, [*left, *more])


def added(template: Mapping[str, object], original: Mapping[str, object]) -> Object:
    """Return the directives that a template has and another one has not, as a template."""
    found: Object = {}
    for part, name in _DIRECTIVES:
        before = fields.strings(original, part, name).items()
        more = {
            key: text
            for key, text in fields.strings(template, part, name).items()
            if (key, text) not in before
        }
        if more:
            fields.ensure(found, part)[name] = more
    for part, name in (_TOLERATIONS, _GATES):
        known = fields.objects(original, part, name)
        items = [each for each in fields.objects(template, part, name) if each not in known]
        if items:
            fields.ensure(found, part)[name] = items
    return found


def unfolded(flat: Mapping[str, object]) -> Object:
    """Return the directives that stand beside each other in an object, as a template."""
    found: Object = {}
    for part, name in (*_DIRECTIVES, _TOLERATIONS, _GATES):
        if flat.get(name):
            fields.ensure(found, part)[name] = flat[name]
    return found


def plain(found: object, *, bare: bool = False) -> object:
    """Return a value with fractions as text: the only ones in a template are quantities.

    A kind that does not check its templates accepts numbers, a Workload does not. If it is to be
    `bare`, fields that are empty are left out.
    """
    if isinstance(found, dict):
        inside = {name: plain(each, bare=bare) for name, each in found.items()}
        return {n: each for n, each in inside.items() if not bare or each not in (None, {}, [])}
    if isinstance(found, list):
        return [plain(each, bare=bare) for each in found]
    return str(found) if isinstance(found, float) else found


def same(one: Mapping[str, object], other: Mapping[str, object]) -> bool:
    """Return whether two templates ask for the same; an empty value counts as none."""
    return one == other or plain(one, bare=True) == plain(other, bare=True)


def extends(template: Mapping[str, object], original: Mapping[str, object]) -> bool:
    """Return whether a template is the original with nothing but scheduling directives added."""
    if template == original:
        return True
    if not same(_fixed(template), _fixed(original)):
        return False
    ours = _OURS | {POD_GROUP_LABEL} if is_copied(original) else _OURS
    for path in _DIRECTIVES:
        before = fields.strings(original, *path).items()
        wanted = {(key, text) for key, text in before if key not in ours}
        if not wanted <= fields.strings(template, *path).items():
            return False
    has = fields.objects(template, *_TOLERATIONS)
    return all(each in has for each in fields.objects(original, *_TOLERATIONS))


def _fixed(template: Mapping[str, object]) -> Object:
    """Return a template without its scheduling directives."""
    found = dict(template)
    for part, name in (*_DIRECTIVES, _TOLERATIONS, _GATES):
        inside = found.get(part)
        if isinstance(inside, dict):
            found[part] = {key: each for key, each in inside.items() if key != name}
    return found


def _add_missing(template: Object, path: tuple[str, str], wanted: Sequence[Object]) -> None:
    (part, name), has = path, fields.objects(template, *path)
    missing = [each for each in wanted if each not in has]
    if missing:
        fields.ensure(template, part)[name] = [*has, *missing]


_ONE_OF: Final = (
    PODSET_REQUIRED_TOPOLOGY,
    PODSET_PREFERRED_TOPOLOGY,
    PODSET_UNCONSTRAINED_TOPOLOGY,
)
_LEVELS: Final = (PODSET_REQUIRED_TOPOLOGY, PODSET_PREFERRED_TOPOLOGY, PODSET_SLICE_TOPOLOGY)
_NOT_HONOURED: Final[Mapping[str, str]] = {
    PODSET_GROUP_NAME: "pod sets have their domains each for itself",
    PODSET_SLICE_LAYERS: (
        f"slices have one layer: say {PODSET_SLICE_TOPOLOGY} and {PODSET_SLICE_SIZE}"
    ),
}
_TRUE: Final = frozenset(("1", "t", "T", "true", "True", "TRUE"))
_FALSE: Final = frozenset(("0", "f", "F", "false", "False", "FALSE"))


def topology_request(template: Object) -> Object | None:
    """Return the `topologyRequest` of a template's pods, None where it asks for nothing."""
    said = topology_annotations(template)
    request: Object = {}
    if required := said.get(PODSET_REQUIRED_TOPOLOGY):
        request["required"] = required
    elif preferred := said.get(PODSET_PREFERRED_TOPOLOGY):
        request["preferred"] = preferred
    elif said.get(PODSET_UNCONSTRAINED_TOPOLOGY) in _TRUE:
        request["unconstrained"] = True
    if level := said.get(PODSET_SLICE_TOPOLOGY):
        request["podSetSliceRequiredTopology"] = level
        request["podSetSliceSize"] = fields.whole(said.get(PODSET_SLICE_SIZE, ""))
    return {**request, "podIndexLabel": INDEX_LABEL} if request else None


def topology_fault(template: Object, count: int) -> str:
    """Return what is wrong with the annotations of a template for so many pods, or nothing."""
    said = topology_annotations(template)
    several = [name for name in _ONE_OF if name in said]
    if len(several) > 1:
        return f"its annotations {' and '.join(several)} exclude each other: remove all but one"
    for name in _LEVELS:
        label = said.get(name, "x")
        if len(label) > LONGEST_LABEL or not is_label_key(label):
            return (
                f"annotation {name} is {label!r}: use the label of a level of the Topology, "
                f"of {LONGEST_LABEL} characters at most"
            )
    for name, text in _NOT_HONOURED.items():
        if name in said:
            return f"annotation {name} is not honoured: {text}"
    free = said.get(PODSET_UNCONSTRAINED_TOPOLOGY, "true")
    if free not in _TRUE | _FALSE:
        return f"annotation {PODSET_UNCONSTRAINED_TOPOLOGY} is {free!r}: use true or false"
    return _slice_fault(said, count)


def _slice_fault(said: Mapping[str, str], count: int) -> str:
    size = said.get(PODSET_SLICE_SIZE)
    if (size is None) != (PODSET_SLICE_TOPOLOGY not in said):
        return f"annotations {PODSET_SLICE_TOPOLOGY} and {PODSET_SLICE_SIZE} belong together"
    if size is not None and not 1 <= fields.whole(size) <= max(1, count):
        return (
            f"annotation {PODSET_SLICE_SIZE} is {size!r}: use a number from 1 to its {count} pods"
        )
    return ""


def topology_annotations(template: Object) -> Mapping[str, str]:
    """Return the annotations of a pod or a template that are about topology."""
    prefix = f"{wellknown.QUEUE_GROUP}/podset-"
    said = fields.strings(template, "metadata", "annotations")
    return {name: text for name, text in said.items() if name.startswith(prefix)}


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

    Admission checks add to what flavors give. Raises PlacementError where two flavors or checks of
    one pod set exclude each other, FlavorNotFoundError where a flavor is not there.
    """
    if workload.admission is None:
        return ()
    several = (
        e for e in workload.admission.assignments if e.topology and len(e.topology.domains) > 1
    )
    if (workload.is_of_pods or workload.service) and not group and any(several):
        raise PlacementError(
            "its pods go to several domains of a topology, and have no PodGroup of the queue that "
            "says which: plain pods get no gate after they are made"
        )
    said = {wellknown.WORKLOAD_ANNOTATION: workload.meta.name}
    placements = (
        replace(_placement(each, flavors, "" if each.name in late else group), annotations=said)
        for each in workload.admission.assignments
    )
    if not any(each.pod_set_updates for each in workload.checks):
        return tuple(placements)
    return tuple(_updated(each, workload.checks) for each in placements)


def _updated(placement: Placement, checks: Sequence[CheckState]) -> Placement:
    """Return a placement with what admission checks add for its pod set."""
    found, tolerations = placement, [*placement.tolerations]
    for check in checks:
        for update in check.pod_set_updates:
            if update.name != placement.name:
                continue
            who = f"pod set {placement.name}: admission check {check.name} gives"
            found = replace(
                found,
                labels=_merged(found.labels, update.labels, f"{who} label"),
                annotations=_merged(found.annotations, update.annotations, f"{who} annotation"),
                node_selector=_merged(
                    found.node_selector, update.node_selector, f"{who} node selector"
                ),
            )
            added = (each.as_json() for each in update.tolerations)
            tolerations += [each for each in added if each not in tolerations]
    return replace(found, tolerations=tuple(tolerations))


def _merged(has: Mapping[str, str], more: Mapping[str, str], what: str) -> Mapping[str, str]:
    for key, text in more.items():
        if has.get(key, text) != text:
            raise PlacementError(
                f"{what} {key}={text}, but another check or a flavor gives {has[key]}"
            )
    return {**has, **more}


def flavor_directives(
    given: Assignment, flavors: Mapping[str, FlavorInfo]
) -> tuple[dict[str, str], tuple[Object, ...]]:
    """Return the node selector and the tolerations that the flavors of a pod set give its pods.

    Raises PlacementError where two flavors exclude each other, FlavorNotFoundError where one is not
    there.
    """
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
    return selector, tuple(each.as_json() for each in tolerations)


def _placement(given: Assignment, flavors: Mapping[str, FlavorInfo], group: str) -> Placement:
    selector, tolerations = flavor_directives(given, flavors)
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
        tolerations=tolerations,
        gates=gates,
        labels={wellknown.PODSET_LABEL: given.name, **({POD_GROUP_LABEL: group} if group else {})},
    )
