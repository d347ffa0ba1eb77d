"""Leader election: one of several processes holds a Lease of coordination.k8s.io/v1 and renews it.

Clocks of machines differ, so no process compares the times in the Lease with its own. A holder is
gone when its record has not changed for as long as it promised to, by the observer's own clock,
since the observer first saw that record. The holder in turn gives up when it could not renew in a
shorter time than that, so that it has stopped before another one begins.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec
import structlog

from extender.api.core_v1 import Stored
from extender.kube.client import KubeClient
from extender.kube.errors import ApiError, ConflictError, NotFoundError
from extender.kube.watch import decoded
from extender.runtime.clock import Clock

_log = structlog.get_logger(__name__)
_encode = msgspec.json.Encoder().encode


class LeadershipLost(Exception):  # noqa: N818 - it happens, it is no mistake
    """The Lease could not be renewed in time, or is another process's."""


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """Seconds. Duration > renew > retry, or two could lead at once."""

    duration: float = 15.0
    renew: float = 10.0
    retry: float = 2.0


@dataclass(frozen=True, slots=True)
class LeaseName:
    """The Lease, and the identity of this process."""

    namespace: str
    name: str
    identity: str

    @property
    def collection(self) -> str:
        """The URL path of the Leases of the namespace."""
        return f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases"

    @property
    def path(self) -> str:
        """The Lease's URL path."""
        return f"{self.collection}/{self.name}"


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class _Lease(Stored, frozen=True):
    spec: _Spec = _Spec()


_decode = msgspec.json.Decoder(_Lease).decode


class LeaseElection:
    """One candidate for one Lease."""

    def __init__(
        self,
        client: KubeClient,
        *,
        of: LeaseName,
        times: LeaseTimes,
        clock: Clock,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._client = client
        self._of = of
        self._times = times
        self._clock = clock
        self._sleep = sleep
        self._record: _Spec | None = None
        self._seen = 0.0
        self._held: _Lease | None = None
        self._renewed = 0.0

    @property
    def leader(self) -> str | None:
        """The holder of the Lease when it was read last."""
        return (self._record.holder_identity if self._record else None) or None

    async def acquire(self) -> None:
        """Return once we lead."""
        while not await self._tried():
            await self._sleep(self._times.retry)
        _log.info("leading", lease=self._of.name, identity=self._of.identity)

    async def keep(self) -> None:
        """Renew for as long as we lead; raises LeadershipLost."""
        while True:
            left = self._renewed + self._times.renew - self._clock.monotonic()
            try:
                async with asyncio.timeout(left):
                    await self._renew()
            except TimeoutError:
                raise LeadershipLost("the lease could not be renewed in time") from None

    async def _renew(self) -> None:
        while True:
            await self._sleep(self._times.retry)
            if await self._tried():
                return
            if self._held is None:
                raise LeadershipLost(f"{self.leader or 'no process'} leads now")

    async def release(self) -> None:
        """Release the Lease, so that another process can lead at once."""
        held, self._held = self._held, None
        if held is None:
            return
        now = self._now()
        spec = _Spec(None, 1, now, now, held.spec.lease_transitions)
        try:
            async with asyncio.timeout(self._times.retry):
                await self._write("PUT", spec, resource_version=held.metadata.resource_version)
        except (ApiError, TimeoutError) as error:
            _log.warning("could not release the lease", error=str(error))

    async def _tried(self) -> bool:
        """Try to take or renew the Lease; return whether it is ours now."""
        try:
            self._held = await self._take()
        except ConflictError:  # another process was quicker: read the Lease first
            self._record = None
            return False
        except ApiError as error:
            _log.warning("could not use the lease", error=str(error))
            return False
        return self._held is not None

    async def _take(self) -> _Lease | None:
        try:
            found = decoded(_decode, await self._client.request("GET", self._of.path))
        except NotFoundError:
            now = self._now()
            return await self._write("POST", _Spec(self._of.identity, self._seconds, now, now, 0))
        if found.spec != self._record:
            self._record, self._seen = found.spec, self._clock.monotonic()
        mine = found.spec.holder_identity == self._of.identity
        promised = found.spec.lease_duration_seconds or self._times.duration
        is_over = self._clock.monotonic() >= self._seen + promised
        if found.spec.holder_identity and not mine and not is_over:
            return None
        now = self._now()
        spec = _Spec(
            self._of.identity,
            self._seconds,
            (found.spec.acquire_time or now) if mine else now,
            now,
            (found.spec.lease_transitions or 0) + (not mine),
        )
        return await self._write("PUT", spec, resource_version=found.metadata.resource_version)

    async def _write(self, method: str, spec: _Spec, *, resource_version: str = "") -> _Lease:
        began = self._clock.monotonic()
        metadata = {"name": self._of.name, "namespace": self._of.namespace}
        if resource_version:
            metadata["resourceVersion"] = resource_version
        body = _encode({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": metadata,
            "spec": spec,
        })  # fmt: skip
        path = self._of.path if method == "PUT" else self._of.collection
        answer = await self._client.request(method, path, body=body)
        # From when it was sent: others may have seen it long before the answer came.
        self._renewed = self._seen = began
        self._record = spec
        return _Lease(metadata=decoded(_decode, answer).metadata, spec=spec)

    def _now(self) -> str:
        moment = datetime.fromtimestamp(self._clock.wall(), UTC)
        return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")

    @property
    def _seconds(self) -> int:
        return max(1, round(self._times.duration))
