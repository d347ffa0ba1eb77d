"""Pod templates as the API server will make pods of them.

What a container does not say it is given: a request by its limit, then both by the namespace's
LimitRanges. A pod whose amounts break a rule would be refused each time it is made.
Sources: https://kubernetes.io/docs/concepts/policy/limit-range/, KEP-688 (pod overhead).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from extender.kube.decode import UNREADABLE, DecodeError
from extender.resources.quantity import Quantity, amount, parse_resources, show
from extender.state.queue.records import LimitInfo, RuntimeClassInfo

Template = dict[str, Any]
_LIMITS: Final = b'"limits"'
_CLASS: Final = b'"runtimeClassName"'
_CLAIMS: Final = b'"resourceClaims"'


def names_class(raw: bytes) -> bool:
    """Return whether a template may name a RuntimeClass."""
    return _CLASS in raw


def has_resource_claims(raw: bytes) -> bool:
    """Return whether the pods of a readable template have resource claims."""
    return _CLAIMS in raw and bool(
        (msgspec.json.decode(raw).get("spec") or {}).get("resourceClaims")
    )


def complete(
    raw: bytes, limits: Sequence[LimitInfo], classes: Mapping[str, RuntimeClassInfo]
) -> bytes:
    """Return a template with the requests, limits and overhead that its pods will have.

    Raises DecodeError where it cannot be read.
    """
    if not limits and _LIMITS not in raw and not (classes and names_class(raw)):
        return raw
    try:
        template: Template = msgspec.json.decode(raw)
        spec = template.get("spec") or {}
        _complete_pod(spec)
        for container in _containers(spec):
            _complete(container, limits)
        found = classes.get(spec.get("runtimeClassName") or "")
        if found is not None and found.overhead:
            spec.setdefault("overhead", dict(found.overhead))
        return msgspec.json.encode(template)
    except (AttributeError, TypeError, *UNREADABLE) as error:
        raise DecodeError(f"not a readable pod template: {error}") from error


def fault(completed: bytes, limits: Sequence[LimitInfo], asked: Mapping[str, int]) -> str:
    """Return why the API server takes no pod of a completed template, or nothing.

    `asked` is what the whole pod asks for. Raises DecodeError where an amount is none.
    """
    if not limits and _LIMITS not in completed:
        return ""
    try:
        spec = msgspec.json.decode(completed).get("spec") or {}
        return next(_faults(spec, limits, asked), "")
    except (AttributeError, TypeError, *UNREADABLE) as error:
        raise DecodeError(f"not a readable pod template: {error}") from error


def _faults(spec: Template, limits: Sequence[LimitInfo], asked: Mapping[str, int]) -> Iterator[str]:
    """Yield what is wrong with the amounts of a pod."""
    for container in _containers(spec):
        which = f"container {container.get('name', '')}"
        requests, most = _amounts(container)
        for what, limit in most.items():
            if requests[what] > limit:
                yield f"{which} asks for more {what} than its limit of {show(what, limit)}"
        largest = {what: max(value, most.get(what, 0)) for what, value in requests.items()}
        for item in (each for each in limits if each.per == "Container"):
            yield from (f"{which} {text}" for text in _outside(requests, largest, item))
    _, most = _amounts(spec)
    largest = {**asked, **{what: max(value, asked.get(what, 0)) for what, value in most.items()}}
    for item in (each for each in limits if each.per == "Pod"):
        yield from (f"a pod {text}" for text in _outside(asked, largest, item))


def _outside(
    requests: Mapping[str, int], largest: Mapping[str, int], item: LimitInfo
) -> Iterator[str]:
    for what, least in parse_resources(item.least).items():
        asked = requests.get(what, 0)
        if asked < least:
            text = f"a LimitRange demands {show(what, least)}"
            yield f"asks for {show(what, asked)} {what}, and {text}"
    for what, most in parse_resources(item.most).items():
        asked = largest.get(what, 0)
        if asked > most:
            text = f"a LimitRange allows {show(what, most)}"
            yield f"may take {show(what, asked)} {what}, and {text}"


def _containers(spec: Template) -> Iterator[Template]:
    yield from spec.get("initContainers") or ()
    yield from spec.get("containers") or ()


def _complete(container: Template, limits: Sequence[LimitInfo]) -> None:
    resources: dict[str, Any] = dict(container.get("resources") or {})
    most: dict[str, Quantity] = dict(resources.get("limits") or {})
    requests: dict[str, Quantity] = {**most, **(resources.get("requests") or {})}
    for item in (each for each in limits if each.per == "Container"):
        most = {**item.limits, **most}
        requests = {**item.requests, **requests}
    # A limit that was given by a LimitRange without a request is a request too.
    requests = {**most, **requests}
    if most:
        resources["limits"] = most
    if requests:
        resources["requests"] = requests
    if resources:
        container["resources"] = resources


def _complete_pod(spec: Template) -> None:
    """Give a pod the requests that its own limits make (KEP-2837).

    They are the containers' where these ask for the resource, and the limit itself where none does.
    """
    resources: dict[str, Any] = spec.get("resources") or {}
    most: dict[str, Quantity] = resources.get("limits") or {}
    asked = {name for each in _containers(spec) for name in _asked(each)}
    requests = resources.get("requests") or {}
    given = {name: limit for name, limit in most.items() if name not in asked}
    if given:
        spec["resources"] = {**resources, "requests": {**given, **requests}}


def _asked(container: Template) -> set[str]:
    resources = container.get("resources") or {}
    return {*(resources.get("requests") or {}), *(resources.get("limits") or {})}


def _amounts(container: Template) -> tuple[Mapping[str, int], Mapping[str, int]]:
    resources = container.get("resources") or {}
    found = (resources.get("requests") or {}, resources.get("limits") or {})
    requests, limits = ({n: amount(n, q) for n, q in each.items()} for each in found)
    return requests, limits
