"""Whether the owner of an object is there, whatever kind it is of."""

from typing import Final
from urllib.parse import quote

import msgspec

from extender.kube.client import KubeClient
from extender.kube.decode import DecodeError
from extender.kube.errors import ForbiddenError, NotFoundError
from extender.kube.identity import identify
from extender.kube.lists import decoded
from extender.kube.queues import objects
from extender.state.queue.records import OwnerRef


class _Resource(msgspec.Struct, frozen=True, gc=False):
    name: str = ""
    kind: str = ""
    namespaced: bool = True


class _Resources(msgspec.Struct, frozen=True, gc=False):
    resources: list[_Resource] | None = None


_decode: Final = msgspec.json.Decoder(_Resources).decode


class Owners:
    """Asks the API server; how a kind is called in paths is asked once."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self._known: dict[tuple[str, str], _Resource] = {}

    async def exists(self, owner: OwnerRef, namespace: str) -> bool | None:
        """Return whether an owner is there, None where our role may not know.

        A kind that the API server does not serve has no objects. Raises ApiError.
        """
        try:
            resource = await self._resource(owner)
            if resource is None:
                return False
            group, _, version = owner.api_version.rpartition("/")
            where = namespace if resource.namespaced else ""
            path = objects(group, version, resource.name, namespace=where)
            found = await self._client.request("GET", f"{path}/{quote(owner.name)}")
            return identify(found).uid == owner.uid
        except NotFoundError:
            self._known.pop((owner.api_version, owner.kind), None)
            return False
        except (ForbiddenError, DecodeError):
            return None

    async def _resource(self, owner: OwnerRef) -> _Resource | None:
        known = owner.api_version, owner.kind
        if known not in self._known:
            root = "apis" if "/" in owner.api_version else "api"
            raw = await self._client.request("GET", f"/{root}/{quote(owner.api_version)}")
            found = decoded(_decode, raw).resources or ()
            own = (each for each in found if each.kind == owner.kind and "/" not in each.name)
            resource = next(own, None)
            if resource is None:
                return None
            self._known[known] = resource
        return self._known[known]
