"""What a pod template is given when its job is admitted, and takes back when it is not.

Only scheduling directives are touched: labels, annotations, node selector and tolerations.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from extender.api.wellknown import POD_GROUP_LABEL
from extender.jobs import fields, names
from extender.jobs.fields import Object

_DIRECTIVES: Final = (
    ("metadata", "labels"),
    ("metadata", "annotations"),
    ("spec", "nodeSelector"),
)
_OURS: Final = frozenset((names.WORKLOAD, names.PODSET))
"""Written by us alone: a job that is the copy of one that ran carries those of the other."""
_TOLERATIONS: Final = ("spec", "tolerations")
_GATES: Final = ("spec", "schedulingGates")
_MAY_DIFFER: Final[Mapping[str, frozenset[str]]] = {
    "metadata": frozenset(("labels", "annotations")),
    "spec": frozenset(("nodeSelector", "tolerations", "schedulingGates")),
}


class PlacementError(ValueError):
    """A template asks for something else than what it would be given."""


@dataclass(frozen=True, slots=True)
class Placement:
    """What the pods of one pod set are given at the start."""

    name: str
    count: int
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Mapping[str, object], ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)


def inject(template: Object, placement: Placement) -> None:
    """Add to a template what its pods are given; PlacementError where it wants something else."""
    if fields.annotation(template, names.WORKLOAD) != placement.annotations.get(names.WORKLOAD):
        _forget_copied(template)
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
    _tolerate(template, placement.tolerations)


def is_copied(template: Mapping[str, object]) -> bool:
    """Return whether a template names the PodGroup that was made for another job's workload."""
    group = fields.label(template, POD_GROUP_LABEL)
    return bool(group) and group == names.group_name(fields.annotation(template, names.WORKLOAD))


def _forget_copied(template: Object) -> None:
    if is_copied(template):
        del fields.ensure(template, "metadata", "labels")[POD_GROUP_LABEL]


def restore(template: Object, original: Mapping[str, object]) -> None:
    """Give a template the scheduling directives of the original again."""
    for part, name in (*_DIRECTIVES, _TOLERATIONS, _GATES):
        before = fields.value(original, part, name)
        if before or fields.value(template, part, name):
            fields.put(fields.ensure(template, part), name, before)


def plain(found: object) -> object:
    """Return a value with fractions as text: the only ones in a template are quantities.

    A kind that does not look into its templates takes them as numbers, a Workload does not.
    """
    if isinstance(found, dict):
        return {name: plain(each) for name, each in found.items()}
    if isinstance(found, list):
        return [plain(each) for each in found]
    return str(found) if isinstance(found, float) else found


def same(one: Mapping[str, object], other: Mapping[str, object]) -> bool:
    """Return whether two templates ask for the same; nothing and an empty value are one."""
    return one == other or _bare(one) == _bare(other)


def extends(template: Mapping[str, object], original: Mapping[str, object]) -> bool:
    """Return whether a template is the original with nothing but scheduling directives added."""
    if template == original:
        return True
    parts = template.keys() | original.keys()
    return all(_agree(part, template, original) for part in parts) and _has_all(template, original)


def _has_all(template: Mapping[str, object], original: Mapping[str, object]) -> bool:
    ours = _OURS | {POD_GROUP_LABEL} if is_copied(original) else _OURS
    for path in _DIRECTIVES:
        before = fields.strings(original, *path).items()
        wanted = {(key, text) for key, text in before if key not in ours}
        if not wanted <= fields.strings(template, *path).items():
            return False
    has = fields.objects(template, *_TOLERATIONS)
    return all(each in has for each in fields.objects(original, *_TOLERATIONS))


def _tolerate(template: Object, wanted: tuple[Mapping[str, object], ...]) -> None:
    has = fields.objects(template, *_TOLERATIONS)
    missing = [dict(each) for each in wanted if each not in has]
    if missing:
        fields.ensure(template, "spec")["tolerations"] = [*has, *missing]


def _agree(part: str, one: Mapping[str, object], other: Mapping[str, object]) -> bool:
    """Return whether a part of two templates is the same apart from scheduling directives."""
    left, right = fields.mapping(one, part), fields.mapping(other, part)
    if not left and not right:
        return _equal(one.get(part), other.get(part))
    names = (left.keys() | right.keys()) - _MAY_DIFFER.get(part, frozenset())
    return all(_equal(left.get(name), right.get(name)) for name in names)


def _equal(one: object, other: object) -> bool:
    return one == other or _bare({"it": one}) == _bare({"it": other})


def _bare(found: object) -> object:
    """Return a value without what is empty inside, and with fractions as text."""
    if isinstance(found, dict):
        inside = {name: _bare(each) for name, each in found.items()}
        return {name: each for name, each in inside.items() if each not in (None, {}, [])}
    if isinstance(found, list):
        return [_bare(each) for each in found]
    return str(found) if isinstance(found, float) else found
