"""Conversion of the queue's objects between their versions (apiextensions.k8s.io/v1).

The API server sends whole objects, and parts of objects when it computes the owners of fields. So
no field is required here: fields that are there are renamed, and the rest stays as it is. Fields
that the other version does not have are lost: those of v1beta1's status that are not kept, and a
priority class without a kind.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec

from extender.api.wellknown import (
    POD_PRIORITY_CLASS,
    QUEUE_API_VERSION,
    QUEUE_GROUP,
    WORKLOAD_PRIORITY_CLASS,
)

Object = dict[str, Any]
Part = Callable[[Object], Object]

OLDER: Final = f"{QUEUE_GROUP}/v1beta1"
NEWER: Final = QUEUE_API_VERSION
_STOP: Final = "MayStopSearch"
_SOURCES: Final = {
    "kueue.x-k8s.io/workloadpriorityclass": WORKLOAD_PRIORITY_CLASS,
    "scheduling.k8s.io/priorityclass": POD_PRIORITY_CLASS,
}
LOOKED_INTO: Final = frozenset(
    (
        "name",
        "admissionChecks",
        "admissionChecksStrategy",
        "flavorFungibility",
        "priorityClassName",
        "priorityClassRef",
        "priorityClassSource",
    )
)
"""The fields of metadata, spec and status that are decoded."""
KIND: Final = "ConversionReview"
LARGEST_FIELD: Final = 2**18
"""The most bytes of a field that is decoded: ten times what the CRDs allow."""
_CLASSES: Final = {of: source for source, of in _SOURCES.items()}


class ConversionError(ValueError):
    """An object is of a kind or a version that is not ours to convert."""


class ConversionRequest(msgspec.Struct, frozen=True):
    """The request of a ConversionReview, its objects as they were sent."""

    uid: str = ""
    desiredAPIVersion: str = ""  # noqa: N815 - as it is on the wire
    objects: list[msgspec.Raw] = []


class _ConversionReview(msgspec.Struct, frozen=True):
    kind: str
    request: ConversionRequest
    apiVersion: str = "apiextensions.k8s.io/v1"  # noqa: N815


_decode_review: Final = msgspec.json.Decoder(_ConversionReview).decode
_decode: Final = msgspec.json.Decoder().decode
_parts_of: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_encode: Final = msgspec.json.Encoder().encode


class Review:
    """A ConversionReview: its objects one by one, then the answer.

    Only what differs between the versions is decoded, and the rest is copied: decoding and encoding
    a whole object takes ten times as long.
    """

    def __init__(self, body: bytes) -> None:
        """Read a review. Raises ValueError."""
        read = _decode_review(body)
        if read.kind != KIND:
            raise ValueError(f"should be a {KIND} with a request")
        self._review = read
        self._failure = ""
        self._converted: list[msgspec.Raw] = []

    def steps(self) -> Iterable[None]:
        """Convert one object at each step. Raises RecursionError if it is nested too deeply."""
        for each in self._review.request.objects:
            try:
                converted = convert_json(each, self._review.request.desiredAPIVersion)
            except ConversionError as error:
                self._failure = str(error)
                return
            self._converted.append(msgspec.Raw(converted))
            yield

    def answer(self) -> bytes:
        """Return the answer: all objects converted, or why they are not."""
        result, converted = {"status": "Success"}, self._converted
        if self._failure:
            result, converted = {"status": "Failed", "message": self._failure}, []
        uid = self._review.request.uid
        response = {"uid": uid, "convertedObjects": converted, "result": result}
        version = self._review.apiVersion
        return _encode({"apiVersion": version, "kind": KIND, "response": response})


def convert_json(each: bytes | msgspec.Raw, version: str) -> bytes:
    """Return the JSON of an object in that version.

    Raises ConversionError, and RecursionError if the object is nested too deeply.
    """
    try:
        top: Object = dict(_parts_of(each))
        for name, part in top.items():
            if name in {"apiVersion", "kind"}:
                top[name] = _decoded(part)
            elif bytes(memoryview(part)[:1]) == b"{":
                top[name] = _parts_of(part)
    except msgspec.DecodeError as error:
        raise ConversionError(f"an object cannot be read: {error}") from error
    for part in top.values():
        for field in part.keys() & LOOKED_INTO if isinstance(part, dict) else ():
            part[field] = _decoded(part[field])
    return _encode(convert(top, version))


def _decoded(part: msgspec.Raw) -> Any:  # noqa: ANN401 - whatever is sent
    if len(memoryview(part)) > LARGEST_FIELD:
        raise ConversionError(f"a field is over {LARGEST_FIELD} bytes that is a few words long")
    return _decode(part)


def convert(each: Object, version: str) -> Object:
    """Return the object in that `group/version`; the given object is not changed.

    Raises ConversionError with the name of the object.
    """
    try:
        return _converted(each, version)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        if isinstance(error, ConversionError):
            raise
        raise ConversionError(f"{_called(each)} cannot be read: {error!r}") from error


def _called(each: object) -> str:
    """Return the name of an object for a message, whatever the object holds."""
    if not isinstance(each, dict):
        return "what is no object"
    metadata = each.get("metadata")
    name = metadata.get("name", "") if isinstance(metadata, dict) else ""
    return f"{str(each.get('kind'))[:100]} {str(name)[:253]!r}"


def _converted(each: Object, version: str) -> Object:
    kind, found = each.get("kind"), each.get("apiVersion")
    parts = _PARTS.get(kind) if isinstance(kind, str) else None
    if parts is None or any(known not in {OLDER, NEWER} for known in (str(found), version)):
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
    if isinstance(checks, list) and checks and not spec.get("admissionChecksStrategy"):
        # An empty list means all flavors, as no list does. It marks a strategy that was made from
        # `admissionChecks`, for the way back.
        rules = [{"name": name, "onFlavors": []} for name in checks]
        spec["admissionChecksStrategy"] = {"admissionChecks": rules}
    return spec


def _older_queue(spec: Object) -> Object:
    _moved(spec, "cohortName", "cohort")
    _each_policy(spec, {"whenCanBorrow": {_STOP: "Borrow"}, "whenCanPreempt": {_STOP: "Preempt"}})
    strategy = spec.get("admissionChecksStrategy")
    rules = strategy.get("admissionChecks") if isinstance(strategy, dict) else None
    if isinstance(rules, list) and rules and all(map(_is_for_all_flavors, rules)):
        del spec["admissionChecksStrategy"]
        spec["admissionChecks"] = [rule["name"] for rule in rules]
    return spec


def _is_for_all_flavors(rule: object) -> bool:
    return isinstance(rule, dict) and rule.get("onFlavors") == [] and "name" in rule


def _each_policy(spec: Object, words: Mapping[str, Mapping[str, str]]) -> None:
    policies = spec.get("flavorFungibility")
    if isinstance(policies, dict):
        spec["flavorFungibility"] = {
            field: words.get(field, {}).get(word, word) if isinstance(word, str) else word
            for field, word in policies.items()
        }


def _newer_workload(spec: Object) -> Object:
    name = spec.pop("priorityClassName", None)
    source = spec.pop("priorityClassSource", None)
    if name and isinstance(source, str) and source in _SOURCES:
        group, kind = _SOURCES[source]
        spec["priorityClassRef"] = {"group": group, "kind": kind, "name": name}
    return spec


def _older_workload(spec: Object) -> Object:
    given = spec.pop("priorityClassRef", None)
    ref = given if isinstance(given, dict) else {}
    source = _CLASSES.get((str(ref.get("group", "")), str(ref.get("kind", ""))))
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


_newer_usage, _older_usage = _renamed("flavorUsage", "flavorsUsage")
_PARTS: Final[Mapping[str, Mapping[str, tuple[Part, Part]]]] = {
    "ResourceFlavor": {},
    "Topology": {},
    "WorkloadPriorityClass": {},
    "Cohort": {},
    "ClusterQueue": {
        "spec": (_newer_queue, _older_queue),
        "status": (_without("pendingWorkloadsStatus", _as_it_is), _as_it_is),
    },
    "LocalQueue": {"status": (_without("flavors", _newer_usage), _older_usage)},
    "Workload": {
        "spec": (_newer_workload, _older_workload),
        "status": _renamed(
            "accumulatedPastExexcutionTimeSeconds", "accumulatedPastExecutionTimeSeconds"
        ),
    },
}
"""The translations to v1beta2 and to v1beta1, by kind and part of the object."""
CONVERTED: Final = tuple(
    f"{kind.lower()}s.{QUEUE_GROUP}" for kind, parts in _PARTS.items() if parts
)
"""The names of the CRDs whose versions differ in more than their names.

The API server calls the webhook at every write of such a kind, for watches of the other version.
"""
