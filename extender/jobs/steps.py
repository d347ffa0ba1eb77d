"""Writes that start, stop or tidy up a job, as merge patches (RFC 7386) and deletions."""

from copy import deepcopy
from dataclasses import dataclass, replace

from extender.jobs import fields
from extender.jobs.fields import Object


@dataclass(frozen=True, slots=True)
class Step:
    """One write of a start or a stop.

    `patch` is a merge patch; for a deletion it is the body of the DELETE. The UID in it is a
    precondition, and so is the resourceVersion where there is one.
    """

    patch: Object
    subresource: str = ""
    member: str = ""
    """The name of the object, for a composed job."""
    delete: bool = False


@dataclass(frozen=True, slots=True)
class ChildChange:
    """A suspended child Job that is to follow the template of its owner."""

    name: str
    before: Object
    """The parts of its template that an earlier start wrote."""
    after: Object
    """The owner's template as it is started."""


def guarded(patch: Object, source: Object, *, subresource: str = "") -> Step:
    """Return a write to this very object; one that replaces a list, to this very version of it."""
    mine = ["uid", *(["resourceVersion"] if replaces_list(patch) else [])]
    known = {name: fields.text(source, "metadata", name) for name in mine}
    precondition = {name: text for name, text in known.items() if text}
    metadata = {**fields.mapping(patch, "metadata"), **precondition}
    return Step({**patch, "metadata": metadata}, subresource)


def with_annotation(step: Step, name: str, text: str) -> Step:
    """Return a step that also sets an annotation."""
    metadata = fields.mapping(step.patch, "metadata")
    annotations = {**fields.mapping(metadata, "annotations"), name: text}
    return replace(step, patch={**step.patch, "metadata": {**metadata, "annotations": annotations}})


def merge_patch(before: Object, after: Object) -> Object:
    """Return the patch that makes `after` of `before`; empty where they are equal.

    A list is replaced as a whole. A null in `after` counts as a field that is not there.
    """
    patch: Object = {
        name: None for name, old in before.items() if old is not None and after.get(name) is None
    }
    for name, new in after.items():
        old = before.get(name)
        if new is None or new is old or new == old:
            continue
        if isinstance(new, dict):
            # Also where nothing was there: a null inside would mean a field to take away.
            inner = merge_patch(old if isinstance(old, dict) else {}, new)
            if inner or not isinstance(old, dict):
                patch[name] = inner
        else:
            patch[name] = deepcopy(new)
    return patch


def replaces_list(patch: object) -> bool:
    """Return whether a patch replaces a list as a whole."""
    if isinstance(patch, dict):
        return any(map(replaces_list, patch.values()))
    return isinstance(patch, list)
