"""Delays the caches of the queue until no stored object can lose a field when it is read.

The API server stores an object in the version that was current when it was written. If a CRD has no
conversion webhook it changes only the version's name: a ClusterQueue that was stored as v1beta1
then comes without its cohort, and the next write makes that loss final.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import Final

import structlog

from extender.kube.errors import ApiError
from extender.kube.webhook_clients import StoredVersions, WebhookClients
from extender.runtime.backoff import Backoff

_log = structlog.get_logger(__name__)

SETTLE_SECONDS: Final = 2.0
"""Seconds for each API server to use a webhook that was written into a CRD."""


def refusal(stored: StoredVersions, *, converts: bool) -> str:
    """Return why objects of a CRD must not be read yet, or nothing.

    `converts` is whether this process serves the conversion webhook. If it does not, any webhook
    will do: the API server either gets a whole object from it or fails the request.
    """
    if not stored.older or (stored.strategy == "Webhook" and (stored.ours or not converts)):
        return ""
    mend = (
        "it leads once its webhook is written there"
        if converts
        else "let the reconciler serve it (webhooks.enabled: true, or webhooks.url), or store all "
        "objects anew and take the older versions out of status.storedVersions"
    )
    webhook = "has another conversion webhook" if stored.strategy == "Webhook" else "has none"
    return (
        f"CustomResourceDefinition {stored.crd}: objects may be stored as "
        f"{', '.join(stored.older)} (status.storedVersions), which need this reconciler's "
        f"conversion webhook, and it {webhook}: reading them would lose fields; {mend}"
    )


class ConversionGate:
    """Opens for good when every CRD can be read without loss."""

    def __init__(
        self,
        crds: WebhookClients,
        names: Collection[str],
        *,
        converts: bool,
        backoff: Backoff,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._crds = crds
        self._names = names
        self._converts = converts
        self._backoff = backoff
        self._sleep = sleep
        self._open = asyncio.Event()
        self.refusal = ""
        """Why it is closed, nothing where it is open or nothing is known yet."""

    @property
    def is_open(self) -> bool:
        """Whether objects may be read."""
        return self._open.is_set()

    async def wait(self) -> None:
        """Return when it is open."""
        await self._open.wait()

    async def run(self) -> None:
        """Look until it is open."""
        waited = False
        while found := await self._look():
            if found != self.refusal:
                _log.warning("not reading the queues yet", why=found)
            self.refusal, waited = found, True
            await self._sleep(self._backoff.next())
        if waited:
            await self._sleep(SETTLE_SECONDS)
        self.refusal = ""
        self._open.set()

    async def _look(self) -> str:
        try:
            found = [await self._crds.stored(name) for name in self._names]
        except ApiError as error:
            return f"the CustomResourceDefinitions cannot be read: {error}"
        refusals = (refusal(each, converts=self._converts) for each in found if each is not None)
        return next(filter(None, refusals), "")
