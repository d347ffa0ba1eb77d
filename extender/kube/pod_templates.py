"""Pod templates as the API server will make pods of them.

What a container does not say it is given: a request by its limit, then both by the namespace's
LimitRanges. A pod whose amounts break a rule would be refused each time it is made.
Sources: https://kubernetes.io/docs/concepts/policy/limit-range/, KEP-688 (pod overhead).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from extender.api.queue_wire import LimitRangeItem
from extender.api.values import wrong_label
from extender.kube.decode import UNREADABLE, DecodeError
from extender.resources.quantity import (
    ContainerRequests,
    Quantity,
    amount,
    parse_resources,
    pod_requests,
    show,
)
from extender.state.queue.records import RuntimeClassInfo

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
    raw: bytes, limits: Sequence[LimitRangeItem], classes: Mapping[str, RuntimeClassInfo]
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


def fault(completed: bytes, limits: Sequence[LimitRangeItem]) -> str:
    """Return why the API server takes no pod of a completed template, or nothing.

    Raises DecodeError where an amount is none.
    """
    try:
        template: Template = msgspec.json.decode(completed)
        meta, spec = template.get("metadata") or {}, template.get("spec") or {}
        for field, found in (
            ("label", meta.get("labels")),
            ("node selector", spec.get("nodeSelector")),
            ("annotation", {key.lower(): "" for key in meta.get("annotations") or ()}),
        ):
            if wrong := wrong_label(found or {}):
                return f"{field} {wrong} is none that a pod can have"
        return next(_faults(spec, limits), "")
    except (AttributeError, TypeError, *UNREADABLE) as error:
        raise DecodeError(f"not a readable pod template: {error}") from error


def _faults(spec: Template, limits: Sequence[LimitRangeItem]) -> Iterator[str]:
    """Yield what is wrong with the amounts of a pod, as LimitRanger finds it."""
    for container in _containers(spec):
        which = f"container {container.get('name', '')}"
        requests, most = _amounts(container)
        for what, limit in most.items():
            if requests[what] > limit:
                yield f"{which} asks for more {what} than its limit of {show(what, limit)}"
        for item in (each for each in limits if each.per == "Container"):
            yield from (f"{which} {text}" for text in _outside(requests, most, item))
    for item in (each for each in limits if each.per == "Pod"):
        requests, most = _of_pod(spec, 0), _of_pod(spec, 1)
        yield from (f"a pod {text}" for text in _outside(requests, most, item))


def _of_pod(spec: Template, which: int) -> Mapping[str, int]:
    """Return the requests of a whole pod, for 0, or its limits, for 1; without overhead."""
    parts = (
        [
            ContainerRequests(_amounts(each)[which], each.get("restartPolicy") == "Always")
            for each in spec.get(name) or ()
        ]
        for name in ("containers", "initContainers")
    )
    return {**pod_requests(*parts), **_amounts(spec)[which]}


def _outside(
    requests: Mapping[str, int], limits: Mapping[str, int], item: LimitRangeItem
) -> Iterator[str]:
    for what, least in parse_resources(item.least).items():
        asked = requests.get(what, 0)
        if min(asked, limits.get(what, asked)) < least or what not in requests:
            text = f"a LimitRange demands {show(what, least)}"
            yield f"asks for {show(what, asked)} {what}, and {text}"
    for what, most in parse_resources(item.most).items():
        largest = max(requests.get(what, 0), limits.get(what, 0))
        allowed = f"and a LimitRange allows {show(what, most)}"
        if largest > most:
            yield f"may take {show(what, largest)} {what}, {allowed}"
        elif what not in limits and item.per == "Pod":  # a container has the largest by default
            yield f"has no limit of {what}, {allowed}"
    for what, ratio in item.ratio.items():
        asked, limit = requests.get(what, 0), limits.get(what, 0)
        if not asked or not limit or 1000 * limit > amount("cpu", ratio) * asked:
            has = f"asks for {show(what, asked)} {what} with a limit of {show(what, limit)}"
            yield f"{has}, and a LimitRange allows {ratio} times the request"


def _containers(spec: Template) -> Iterator[Template]:
    yield from spec.get("initContainers") or ()
    yield from spec.get("containers") or ()


def _complete(container: Template, limits: Sequence[LimitRangeItem]) -> None:
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
    asked = {
        name
        for each in _containers(spec)
        for part in ("requests", "limits")
        for name in (each.get("resources") or {}).get(part) or ()
    }
    requests = resources.get("requests") or {}
    given = {name: limit for name, limit in most.items() if name not in asked}
    if given:
        spec["resources"] = {**resources, "requests": {**given, **requests}}


def _amounts(container: Template) -> tuple[Mapping[str, int], Mapping[str, int]]:
    resources = container.get("resources") or {}
    found = (resources.get("requests") or {}, resources.get("limits") or {})
    requests, limits = ({n: amount(n, q) for n, q in each.items()} for each in found)
    return requests, limits
