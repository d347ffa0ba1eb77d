"""Where the pods of a template are to be, by its annotations: `topologyRequest` of a pod set."""

from collections.abc import Mapping
from typing import Final

from extender.api import wellknown
from extender.api.values import is_label_key
from extender.api.wellknown import (
    INDEX_LABEL,
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

_ONE_OF: Final = (
    PODSET_REQUIRED_TOPOLOGY,
    PODSET_PREFERRED_TOPOLOGY,
    PODSET_UNCONSTRAINED_TOPOLOGY,
)
_LABELS: Final = (PODSET_REQUIRED_TOPOLOGY, PODSET_PREFERRED_TOPOLOGY, PODSET_SLICE_TOPOLOGY)
_LONGEST: Final = 63
"""Of a level in a Workload."""
_NOT_HONOURED: Final[Mapping[str, str]] = {
    PODSET_GROUP_NAME: "pod sets have their domains each for itself",
    PODSET_SLICE_LAYERS: (
        f"slices have one layer: say {PODSET_SLICE_TOPOLOGY} and {PODSET_SLICE_SIZE}"
    ),
}
_TRUE: Final = frozenset(("1", "t", "T", "true", "True", "TRUE"))
_FALSE: Final = frozenset(("0", "f", "F", "false", "False", "FALSE"))


def request_of(template: Object) -> Object | None:
    """Return the `topologyRequest` of a template's pods, None where it asks for nothing."""
    said = annotations_of(template)
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


def fault(template: Object, count: int) -> str:
    """Return what is wrong with the annotations of a template for so many pods, or nothing."""
    said = annotations_of(template)
    several = [name for name in _ONE_OF if name in said]
    if len(several) > 1:
        return f"its annotations {' and '.join(several)} exclude each other: remove all but one"
    for name in _LABELS:
        if name in said and not _is_label(said[name]):
            return (
                f"annotation {name} is {said[name]!r}: use the label of a level of the Topology, "
                f"of {_LONGEST} characters at most"
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


def _is_label(text: str) -> bool:
    return len(text) <= _LONGEST and is_label_key(text)


def annotations_of(template: Object) -> Mapping[str, str]:
    """Return the annotations of a pod or a template that are about topology."""
    prefix = f"{wellknown.QUEUE_GROUP}/podset-"
    said = fields.strings(template, "metadata", "annotations")
    return {name: text for name, text in said.items() if name.startswith(prefix)}
