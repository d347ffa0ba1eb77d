"""Which object it is, of one whose content cannot be read."""

from dataclasses import dataclass

import msgspec
from msgspec import Raw

from extender.kube.decode import DecodeError, deeply, readable


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
