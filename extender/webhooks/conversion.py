"""Objects of the queue in the words of their other version (apiextensions.k8s.io/v1).

The API server asks for whatever it stored in one version and needs in the other: whole objects, and
parts of them when it works out who owns which field. So nothing is taken for granted here: what is
there is renamed, and the rest stays as it is. What a version cannot say is lost, as the versions
are: the fields of v1beta1's status that are not kept, and a priority class of no kind.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from extender.api.kueue import fields, v1beta1
from extender.api.kueue.v1beta1 import POD_PRIORITY_SOURCE, WORKLOAD_PRIORITY_SOURCE

Object = dict[str, Any]
Part = Callable[[Object], Object]

OLDER: Final = v1beta1.API_VERSION
NEWER: Final = fields.API_VERSION
_STOP: Final = "MayStopSearch"
_SOURCES: Final = {
    WORKLOAD_PRIORITY_SOURCE: ("kueue.x-k8s.io", "WorkloadPriorityClass"),
    POD_PRIORITY_SOURCE: ("scheduling.k8s.io", "PriorityClass"),
}
_CLASSES: Final = {of: source for source, of in _SOURCES.items()}


class ConversionError(ValueError):
    """An object is of a kind or a version that is not ours to convert."""


def review(asked: Mapping[str, Any]) -> Object:
    """Return the answer to a ConversionReview: all its objects converted, or why they are not."""
    request = asked.get("request") or {}
    try:
        converted = [
            convert(each, request.get("desiredAPIVersion", ""))
            for each in request.get("objects") or ()
        ]
    except ConversionError as error:
        outcome: Object = {
            "convertedObjects": [],
            "result": {"status": "Failed", "message": str(error)},
        }
    else:
        outcome = {"convertedObjects": converted, "result": {"status": "Success"}}
    return {
        "apiVersion": asked.get("apiVersion", "apiextensions.k8s.io/v1"),
        "kind": "ConversionReview",
        "response": {"uid": request.get("uid", ""), **outcome},
    }


def convert(each: Object, version: str) -> Object:
    """Return the object in that `group/version`; what was given is left as it is.

    Raises ConversionError with the name of the object.
    """
    try:
        return _converted(each, version)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        if isinstance(error, ConversionError):
            raise
        raise ConversionError(f"{_called(each)} cannot be read: {error!r}") from error


def _called(each: object) -> str:
    """Return how an object is named in a message, whatever it holds."""
    if not isinstance(each, dict):
        return "what is no object"
    metadata = each.get("metadata")
    name = metadata.get("name", "") if isinstance(metadata, dict) else ""
    return f"{str(each.get('kind'))[:100]} {str(name)[:253]!r}"


def _converted(each: Object, version: str) -> Object:
    parts = _PARTS.get(each.get("kind", ""))
    found = each.get("apiVersion")
    if parts is None or {found, version} - {OLDER, NEWER}:
        raise ConversionError(f"{_called(each)} of {found} cannot be said in {version}")
    if found == version:
        return each
    converted = {**each, "apiVersion": version}
    for part, (newer, older) in parts.items():
        if isinstance(each.get(part), dict):
            converted[part] = (newer if version == NEWER else older)({**each[part]})
    return converted


def _renamed(old: str, new: str) -> tuple[Part, Part]:
    return lambda part: _moved(part, old, new), lambda part: _moved(part, new, old)


def _moved(part: Object, old: str, new: str) -> Object:
    if old in part:
        part[new] = part.pop(old)
    return part


def _newer_queue(spec: Object) -> Object:
    _moved(spec, "cohort", "cohortName")
    _each_policy(spec, {"whenCanBorrow": {"Borrow": _STOP}, "whenCanPreempt": {"Preempt": _STOP}})
    checks = spec.pop("admissionChecks", None)
    if checks and not spec.get("admissionChecksStrategy"):
        # An empty list says that the check is for all flavors, as none does; it tells the way back
        # from a strategy that was written as one.
        rules = [{"name": name, "onFlavors": []} for name in checks]
        spec["admissionChecksStrategy"] = {"admissionChecks": rules}
    return spec


def _older_queue(spec: Object) -> Object:
    _moved(spec, "cohortName", "cohort")
    _each_policy(spec, {"whenCanBorrow": {_STOP: "Borrow"}, "whenCanPreempt": {_STOP: "Preempt"}})
    rules = (spec.get("admissionChecksStrategy") or {}).get("admissionChecks")
    if rules and all(rule.get("onFlavors") == [] and "name" in rule for rule in rules):
        del spec["admissionChecksStrategy"]
        spec["admissionChecks"] = [rule["name"] for rule in rules]
    return spec


def _each_policy(spec: Object, words: Mapping[str, Mapping[str, str]]) -> None:
    policies = spec.get("flavorFungibility")
    if policies:
        spec["flavorFungibility"] = {
            field: words.get(field, {}).get(word, word) for field, word in policies.items()
        }


def _newer_workload(spec: Object) -> Object:
    name = spec.pop("priorityClassName", None)
    source = spec.pop("priorityClassSource", None)
    if name and source in _SOURCES:
        group, kind = _SOURCES[source]
        spec["priorityClassRef"] = {"group": group, "kind": kind, "name": name}
    return spec


def _older_workload(spec: Object) -> Object:
    ref = spec.pop("priorityClassRef", None) or {}
    source = _CLASSES.get((ref.get("group", ""), ref.get("kind", "")))
    if source and ref.get("name"):
        spec |= {"priorityClassName": ref["name"], "priorityClassSource": source}
    return spec


def _without(field: str, then: Part) -> Part:
    def newer(status: Object) -> Object:
        status.pop(field, None)
        return then(status)

    return newer


def _as_it_is(part: Object) -> Object:
    return part


_USAGE: Final = _renamed("flavorUsage", "flavorsUsage")
_PARTS: Final[Mapping[str, Mapping[str, tuple[Part, Part]]]] = {
    "ResourceFlavor": {},
    "WorkloadPriorityClass": {},
    "Cohort": {},
    "ClusterQueue": {
        "spec": (_newer_queue, _older_queue),
        "status": (_without("pendingWorkloadsStatus", _as_it_is), _as_it_is),
    },
    "LocalQueue": {"status": (_without("flavors", _USAGE[0]), _USAGE[1])},
    "Workload": {
        "spec": (_newer_workload, _older_workload),
        "status": _renamed(
            "accumulatedPastExexcutionTimeSeconds", "accumulatedPastExecutionTimeSeconds"
        ),
    },
}
"""By kind and part of the object: how it is said in v1beta2, and how in v1beta1."""
