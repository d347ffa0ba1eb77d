"""Keeps the certificate of webhooks, and holds caches back until conversion loses nothing."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog

from extender.controllers.timing import SETTLE
from extender.kube.certificates import Bundle, CertificateSecret, ends, fault, is_due, issue
from extender.kube.errors import ApiError, ConflictError
from extender.kube.webhooks import StoredVersions, WebhookClients
from extender.runtime.clock import Clock
from extender.runtime.faults import FAULTS, Backoff

_log = structlog.get_logger(__name__)

_ATTEMPTS: Final = 5


class CertificateError(Exception):
    """There is no certificate to serve; the text says why."""


class MadeByUs:
    """Our own certificate in a Secret; any replica that finds it missing or due renews it."""

    def __init__(
        self, secret: CertificateSecret, *, names: Sequence[str], days: float, clock: Clock
    ) -> None:
        self._secret = secret
        self._names = names
        self._days = days
        self._clock = clock

    async def current(self, served: Bundle | None) -> Bundle:
        """Return the certificate of the Secret, renewed where needed; raises ApiError."""
        for _ in range(_ATTEMPTS):
            found = await self._secret.read()
            now, why = self._clock.wall(), ""
            if found is not None:
                why = fault(found, self._names, now=now)
                if not why and not found.authorities:
                    why = "its authority is missing"
                if not why and not is_due(found, now=now):
                    return found
            made = issue(
                self._names,
                now=now,
                days=self._days,
                # The authorities of what other replicas serve, and of what this one serves.
                former=[each.authorities for each in (found, served) if each is not None],
            )
            try:
                if found is None:
                    await self._secret.create(made)
                else:
                    await self._secret.replace(made, version=found.version)
            except ConflictError:
                continue  # another replica did the same: its certificate is as good
            why = why or ("it ends soon" if found else "there was none")
            _log.info("made a certificate for the webhooks", why=why)
            return made
        raise ApiError("the Secret of the webhooks' certificate changes all the time")


@dataclass(frozen=True, slots=True)
class GivenFiles:
    """A certificate in files that are kept from outside; they are read each time."""

    certificate: Path
    key: Path
    authorities: Path | None
    clock: Clock

    async def current(self, _served: Bundle | None) -> Bundle:
        """Return what the files hold; raises CertificateError."""
        try:
            authorities = self.authorities.read_bytes() if self.authorities else b""
            bundle = Bundle(authorities, self.certificate.read_bytes(), self.key.read_bytes())
        except OSError as error:
            raise CertificateError(f"{error.filename}: {error.strerror}") from error
        # Its names are not checked: they are up to the administrator.
        wrong = fault(bundle, (), now=self.clock.wall())
        if wrong:
            raise CertificateError(f"{self.certificate}: {wrong}")
        return bundle


class Certificates:
    """Checks the certificate from time to time."""

    def __init__(
        self,
        source: MadeByUs | GivenFiles,
        *,
        publish: Callable[[bytes], Awaitable[bool]],
        adopt: Callable[[Bundle], Awaitable[None]],
        clock: Clock,
        backoff: Backoff,
        every: float,
    ) -> None:
        """`publish` writes authorities and returns whether that changed an object.

        The certificate is checked each `every` seconds, and sooner after a failure.
        """
        self._source = source
        self._publish = publish
        self._adopt = adopt
        self._clock = clock
        self._backoff = backoff
        self._every = every
        self._served: Bundle | None = None

    @property
    def ends(self) -> float:
        """Return the end of the served certificate, in seconds since the epoch; 0 without one."""
        return ends(self._served) if self._served is not None else 0.0

    async def run(self) -> None:
        """Look for as long as the process runs."""
        while True:
            pause = self._every
            try:
                await self.look()
                self._backoff.reset()
            except (ApiError, CertificateError) as error:
                pause = min(pause, self._backoff.next())
                _log.warning(
                    "the certificate of the webhooks", error=str(error), retry_in=round(pause, 2)
                )
            except Exception as error:  # noqa: BLE001 - the certificate that is served goes on
                pause = min(pause, self._backoff.next())
                FAULTS.report("certificates", error)
            await asyncio.sleep(pause)

    async def look(self) -> None:
        """Do what is due; raises ApiError and CertificateError."""
        bundle = await self._source.current(self._served)
        if self._served is None or fault(self._served, (), now=self._clock.wall()):
            await self._serve(bundle)
        if not bundle.authorities:
            await self._serve(bundle)
            return
        # An API server needs a moment to trust new authorities: serve at the next check.
        if not await self._publish(bundle.authorities):
            await self._serve(bundle)

    async def _serve(self, bundle: Bundle) -> None:
        if bundle == self._served:
            return
        await self._adopt(bundle)
        self._served = bundle
        _log.info("serving webhooks with a certificate", ends=round(ends(bundle)))


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
    """Delays the caches of the queue until no stored object can lose a field when it is read.

    The API server stores an object in the version that was current when it was written. If a CRD
    has no conversion webhook it changes only the version's name: a ClusterQueue that was stored as
    v1beta1 then comes without its cohort, and the next write makes that loss final.
    """

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
        """Return the reason why it is closed, or nothing if it is open or nothing is known yet."""

    @property
    def is_open(self) -> bool:
        """Return whether objects may be read."""
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
            await self._sleep(SETTLE)  # each API server has to notice the webhook
        self.refusal = ""
        self._open.set()

    async def _look(self) -> str:
        try:
            found = [await self._crds.stored(name) for name in self._names]
        except ApiError as error:
            return f"the CustomResourceDefinitions cannot be read: {error}"
        refusals = (refusal(each, converts=self._converts) for each in found if each is not None)
        return next(filter(None, refusals), "")
