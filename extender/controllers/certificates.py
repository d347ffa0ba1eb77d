"""Keeps the certificate of the webhooks: made, renewed, shared by the replicas, and believed."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

import structlog

from extender.kube.certificates import Kept
from extender.kube.errors import ApiError, ConflictError
from extender.runtime.backoff import Backoff
from extender.runtime.clock import Clock
from extender.runtime.faults import FAULTS
from extender.webhooks.certificates import Bundle, ends, fault, is_due, issue

_log = structlog.get_logger(__name__)

_ATTEMPTS: Final = 5


class CertificateError(Exception):
    """There is no certificate that could be served; the text says why."""


class Secret(Protocol):
    """Where a certificate is kept; every method raises ApiError."""

    async def read(self) -> Kept | None:
        """Return what is kept."""
        ...

    async def create(self, kept: Kept) -> None:
        """Keep the first one; ConflictError where there is one."""
        ...

    async def replace(self, kept: Kept, *, version: str) -> None:
        """Keep another one; ConflictError where it is not that version any more."""
        ...


class Source(Protocol):
    """Where the certificate comes from."""

    async def current(self, served: Bundle | None) -> Bundle:
        """Return what should be served; raises ApiError and CertificateError."""
        ...


class MadeByUs:
    """A certificate of our own in a Secret, which whoever finds it lacking or due writes anew."""

    def __init__(self, secret: Secret, *, names: Sequence[str], days: float, clock: Clock) -> None:
        self._secret = secret
        self._names = names
        self._days = days
        self._clock = clock

    async def current(self, served: Bundle | None) -> Bundle:
        """Return what the Secret holds, once that is good; raises ApiError."""
        for _ in range(_ATTEMPTS):
            kept = await self._secret.read()
            found = Bundle(kept.authorities, kept.certificate, kept.key) if kept else None
            why = self._why_another(found)
            if found is not None and not why:
                return found
            made = issue(
                self._names,
                now=self._clock.wall(),
                days=self._days,
                # Of what other replicas serve, and of what this one does.
                former=[each.authorities for each in (found, served) if each is not None],
            )
            try:
                await self._write(made, kept)
            except ConflictError:
                continue  # somebody else did the same: theirs is as good
            _log.info("made a certificate for the webhooks", why=why or "there was none")
            return made
        raise ApiError("the Secret of the webhooks' certificate changes all the time")

    def _why_another(self, found: Bundle | None) -> str:
        if found is None:
            return ""
        now = self._clock.wall()
        wrong = fault(found, self._names, now=now)
        if not wrong and not found.authorities:
            wrong = "its authority is missing"
        return wrong or ("it ends soon" if is_due(found, now=now) else "")

    async def _write(self, made: Bundle, before: Kept | None) -> None:
        kept = Kept(made.authorities, made.certificate, made.key)
        if before is None:
            await self._secret.create(kept)
        else:
            await self._secret.replace(kept, version=before.version)


@dataclass(frozen=True, slots=True)
class GivenFiles:
    """A certificate that somebody else keeps in files; it is read again each time."""

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
        # For which names it is, is up to who gave it.
        wrong = fault(bundle, (), now=self.clock.wall())
        if wrong:
            raise CertificateError(f"{self.certificate}: {wrong}")
        return bundle


class Certificates:
    """Looks after the certificate from time to time."""

    def __init__(
        self,
        source: Source,
        *,
        tell: Callable[[bytes], Awaitable[bool]],
        adopt: Callable[[Bundle], Awaitable[None]],
        clock: Clock,
        backoff: Backoff,
        every: float,
    ) -> None:
        """Take how to `tell` whom to trust (and whether that was news), and how to `adopt`.

        It looks each `every` seconds, and sooner after a failure.
        """
        self._source = source
        self._tell = tell
        self._adopt = adopt
        self._clock = clock
        self._backoff = backoff
        self._every = every
        self._served: Bundle | None = None

    @property
    def ends(self) -> float:
        """When the certificate that is served ends, in seconds since the epoch; 0 without one."""
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
        # An API server needs a moment until it believes what it was told: the next look will do.
        if not await self._tell(bundle.authorities):
            await self._serve(bundle)

    async def _serve(self, bundle: Bundle) -> None:
        if bundle == self._served:
            return
        await self._adopt(bundle)
        self._served = bundle
        _log.info("serving webhooks with a certificate", ends=round(ends(bundle)))
