"""Objects that cannot be read. Each is set aside alone, and everything else goes on.

What is believed of such an object is what its last readable version said, until it is deleted or
can be read again. So a pod that has a node keeps its room there.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

import msgspec
import structlog
from msgspec import Raw

from extender.kube.decode import DecodeError, deeply, readable

_log = structlog.get_logger(__name__)


class _IdentityMeta(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class _Object(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    api_version: str = ""
    kind: str = ""
    metadata: _IdentityMeta = _IdentityMeta()


@dataclass(frozen=True, slots=True)
class Identity:
    """Names one object, and one version of it."""

    name: str
    namespace: str = ""
    uid: str = ""
    version: str = ""
    api_version: str = ""
    kind: str = ""
    """Objects out of a list of a built-in kind do not say these two."""

    @property
    def key(self) -> str:
        """`namespace/name`, or the name of what has no namespace."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


_decode = readable("object")(msgspec.json.Decoder(_Object).decode)


def identify(raw: bytes | Raw) -> Identity:
    """Return which object it is. Raises DecodeError where not even that can be read."""
    found = deeply(_decode, raw)
    meta = found.metadata
    if not meta.name and not meta.uid:
        raise DecodeError("an object without a name and a UID")
    said = found.api_version, found.kind
    return Identity(meta.name, meta.namespace, meta.uid, meta.resource_version, *said)


@dataclass(frozen=True, slots=True)
class Aside:
    """One object that cannot be read, or not decided about, and why."""

    kind: str
    """The name of its reflector, such as `pods`."""
    object: Identity
    why: str


class ObjectsSetAside:
    """The objects that are set aside now. Listeners get each version once; it is logged once."""

    def __init__(self) -> None:
        self._there: dict[tuple[str, str], Aside] = {}
        self._listeners: list[Callable[[Aside], None]] = []

    def __iter__(self) -> Iterator[Aside]:
        """Return all objects that are set aside."""
        return iter(list(self._there.values()))

    def subscribe(self, listener: Callable[[Aside], None]) -> None:
        """Call a function for each object that is set aside from now on."""
        self._listeners.append(listener)

    def counts(self) -> Counter[str]:
        """Return how many objects are set aside, by kind."""
        return Counter(kind for kind, _ in self._there)

    def has(self, kind: str) -> bool:
        """Return whether objects of a kind are set aside."""
        return bool(self._there) and any(of == kind for of, _ in self._there)

    def put(self, kind: str, which: Identity, why: str) -> None:
        """Set a version of an object aside."""
        before = self._there.get((kind, which.key))
        now = self._there[kind, which.key] = Aside(kind, which, why)
        if before is not None and before.object == which and before.why == why:
            return
        _log.warning(
            "object set aside", kind=kind, object=which.key, version=which.version, error=why
        )
        for listener in self._listeners:
            listener(now)

    def drop(self, kind: str, key: str) -> None:
        """Forget an object that can be read again, or is gone."""
        self._there.pop((kind, key), None)

    def keep(self, kind: str, keys: Collection[str]) -> None:
        """Forget those of a kind that a list does not have any more."""
        for known in [key for of, key in self._there if of == kind and key not in keys]:
            self.drop(kind, known)
