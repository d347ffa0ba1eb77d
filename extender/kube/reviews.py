"""Asks the API server for the user of a token, and for the rights of a user.

Source: `authentication.k8s.io/v1` TokenReview and `authorization.k8s.io/v1` SubjectAccessReview.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from extender.kube.client import KubeClient
from extender.kube.errors import UnavailableError

_TOKENS: Final = ("authentication.k8s.io/v1", "TokenReview", "tokenreviews")
_ACCESS: Final = ("authorization.k8s.io/v1", "SubjectAccessReview", "subjectaccessreviews")
_OWN: Final = ("authorization.k8s.io/v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews")
_SELF: Final = ("authentication.k8s.io/v1", "SelfSubjectReview", "selfsubjectreviews")


@dataclass(frozen=True, slots=True)
class User:
    """The user of a token, as the API server says."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class Access:
    """The thing that a caller asks to read: an object, or a `path` that is not one."""

    group: str = ""
    resource: str = ""
    """The plural, and its subresource if there is one: `clusterqueues/pendingworkloads`."""
    name: str = ""
    namespace: str = ""
    path: str = ""
    verb: str = "get"

    def as_json(self) -> dict[str, Any]:
        """Return the attributes of a SubjectAccessReview."""
        if self.path:
            return {"nonResourceAttributes": {"path": self.path, "verb": self.verb}}
        resource, _, subresource = self.resource.partition("/")
        attributes = {
            "group": self.group,
            "resource": resource,
            "subresource": subresource,
            "name": self.name,
            "namespace": self.namespace,
            "verb": self.verb,
        }
        return {"resourceAttributes": {key: said for key, said in attributes.items() if said}}


class _UserInfo(msgspec.Struct, frozen=True, gc=False):
    username: str = ""
    uid: str = ""
    groups: list[str] | None = None
    extra: dict[str, list[str]] | None = None


class _ReviewStatus(msgspec.Struct, frozen=True, gc=False, rename={"user_info": "userInfo"}):
    authenticated: bool = False
    allowed: bool = False
    reason: str = ""
    user: _UserInfo | None = None
    user_info: _UserInfo | None = None


class _ReviewAnswer(msgspec.Struct, frozen=True, gc=False):
    status: _ReviewStatus | None = None


class Reviews:
    """Reviews through one client; raises ApiError."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client

    async def user(self, token: str) -> User | None:
        """Return the user of a bearer token; None where the API server does not know the token."""
        status = await self._ask(_TOKENS, {"token": token})
        found = status.user
        if not status.authenticated or found is None or not found.username:
            return None
        extra = sorted((found.extra or {}).items())
        return User(
            found.username,
            found.uid,
            tuple(found.groups or ()),
            tuple((key, tuple(values)) for key, values in extra),
        )

    async def may(self, user: User, access: Access) -> bool:
        """Return whether a user may do something."""
        spec = {
            "user": user.name,
            "uid": user.uid,
            "groups": list(user.groups),
            "extra": {key: list(values) for key, values in user.extra},
            **access.as_json(),
        }
        return (await self._ask(_ACCESS, spec)).allowed

    async def own(self) -> User:
        """Return the user that this client is."""
        found = (await self._ask(_SELF, {})).user_info or _UserInfo()
        return User(found.username, found.uid, tuple(found.groups or ()))

    async def own_may(self, access: Access) -> bool:
        """Return whether this client itself may do something, which every user may ask."""
        return (await self._ask(_OWN, access.as_json())).allowed

    async def _ask(self, of: tuple[str, str, str], spec: Mapping[str, Any]) -> _ReviewStatus:
        version, kind, plural = of
        body = {"apiVersion": version, "kind": kind, "metadata": {}, "spec": spec}
        path = f"/apis/{version}/{plural}"
        answer = await self._client.request("POST", path, body=msgspec.json.encode(body))
        try:
            status = msgspec.json.decode(answer, type=_ReviewAnswer).status
        except msgspec.MsgspecError as error:
            raise UnavailableError(f"POST {path}: the answer cannot be read: {error}") from error
        return status or _ReviewStatus()
