"""`gang-extender check`: reads what the checks judge. It writes nothing but reviews of rights."""

import asyncio
from collections.abc import Awaitable, Iterable, Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

import msgspec

from extender.check import checks, crds, rights
from extender.check.facts import (
    ClusterFacts,
    CrdFacts,
    IdentityFacts,
    NeededRight,
    RightsFacts,
    SchedulerFile,
    ServerFacts,
    Unknown,
)
from extender.check.findings import Finding
from extender.config import Settings, SettingsError
from extender.config.files import read_yaml
from extender.kube.client import KubeClient
from extender.kube.credentials import keyring
from extender.kube.errors import ApiError, ForbiddenError, NotFoundError
from extender.kube.reviews import Access, Reviews, User
from extender.runtime.clock import Clock, SystemClock
from extender.wiring.shipped import manifests

IdentityName = Literal["extender", "reconciler"]
IDENTITIES: Final[tuple[IdentityName, ...]] = ("extender", "reconciler")
_AT_ONCE: Final = 16
"""Requests that are under way at the same time."""
_CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_POLICIES: Final = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
_BINDINGS: Final = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
_CHILD_JOBS: Final = "gang-child-jobs"
"""The policy of the queue alone."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class CheckTarget:
    """What is to be looked at."""

    identities: Sequence[IdentityName] = IDENTITIES
    scheduler_config: Path | None = None


async def checked(
    target: CheckTarget, kubeconfig: Path | None, settings: Settings
) -> list[Finding]:
    """Return the findings about a cluster. Raises ConfigurationError."""
    async with KubeClient(await keyring(kubeconfig)) as client:
        return checks.check(await _Survey(client, settings, SystemClock()).facts(target))


class _Survey:
    """Reads facts through one client; what cannot be read is a fact too."""

    def __init__(self, client: KubeClient, settings: Settings, clock: Clock) -> None:
        self._client = client
        self._settings = settings
        self._clock = clock
        self._reviews = Reviews(client)
        self._turns = asyncio.Semaphore(_AT_ONCE)

    async def facts(self, target: CheckTarget) -> ClusterFacts:
        server = await self._known(self._server())
        scheduler = self._scheduler(target.scheduler_config)
        now = self._clock.wall()
        if isinstance(server, Unknown):
            return ClusterFacts(now, server, scheduler=scheduler)
        queue = self._settings.queue.enabled
        names = [each.name for each in crds.needed(queue=queue)]
        found = await _all(self._known(self._crd(name)) for name in names)
        return ClusterFacts(
            now,
            server,
            crds=dict(zip(names, found, strict=True)),
            identities=[await self._identity(each) for each in target.identities],
            policies=await self._known(self._policies()),
            scheduler=scheduler,
            queue=queue,
        )

    async def _server(self) -> ServerFacts:
        said = await self._get("/version")
        before = self._clock.wall()
        date = await self._client.date("/version")
        # Between the two the server wrote its date, in whole seconds.
        middle = (before + self._clock.wall()) / 2 - 0.5
        ahead = parsedate_to_datetime(date).timestamp() - middle if date else None
        return ServerFacts(said["gitVersion"], _minor(said), ahead)

    async def _crd(self, name: str) -> CrdFacts:
        plural, _, group = name.partition(".")
        try:
            groups = await self._get(f"/apis/{group}")
        except NotFoundError:
            groups = {"versions": []}
        served = {each["version"] for each in groups["versions"]}
        lists = await _all(self._get(f"/apis/{group}/{version}") for version in sorted(served))
        served = {
            version
            for version, said in zip(sorted(served), lists, strict=True)
            if any(each["name"] == plural for each in said["resources"])
        }
        stored: dict[str, Any] | Unknown | None
        try:
            stored = await self._get(f"{_CRDS}/{name}")
        except NotFoundError:
            stored = None
        except ForbiddenError as error:
            stored = Unknown(str(error)) if served else None
        return CrdFacts(frozenset(served), stored)

    async def _identity(self, name: IdentityName) -> IdentityFacts:
        settings = self._settings
        namespace = settings.reconcile.lease_namespace
        shipped = manifests(f"rbac/{name}.yaml")
        rename = {
            "gang-extender-system": namespace,
            "gang-extender-reconciler": settings.reconcile.lease_name,
            "gang-reconciler-webhooks-tls": settings.webhooks.secret,
            "gang-queue": settings.webhooks.configuration,
        }
        needed = rights.needed(shipped, rename)
        users = rights.subjects(shipped, namespace)
        found = await self._known(self._rights(users, needed))
        return IdentityFacts(name, found)

    async def _rights(
        self, users: Sequence[rights.Subject], needed: Sequence[NeededRight]
    ) -> Sequence[RightsFacts]:
        """Return which rights each user has: by its own word where this is one of them."""
        own = await self._reviews.own()
        if own.name in {each.user for each in users}:
            allowed = await _all(self._own_may(right) for right in needed)
            return [RightsFacts(own.name, dict(zip(needed, allowed, strict=True)))]
        return [await self._of(user, needed) for user in users]

    async def _of(self, user: rights.Subject, needed: Sequence[NeededRight]) -> RightsFacts:
        of = User(user.user, groups=user.groups)
        allowed = await _all(self._may(of, right) for right in needed)
        return RightsFacts(user.user, dict(zip(needed, allowed, strict=True)))

    async def _may(self, user: User, right: NeededRight) -> bool:
        async with self._turns:
            return await self._reviews.may(user, _access(right))

    async def _own_may(self, right: NeededRight) -> bool:
        async with self._turns:
            return await self._reviews.own_may(_access(right))

    async def _policies(self) -> dict[str, bool]:
        names = [
            each["metadata"]["name"]
            for each in manifests("policies")
            if each["kind"] == "ValidatingAdmissionPolicy"
        ]
        if not self._settings.queue.enabled:
            names.remove(_CHILD_JOBS)
        there = {each["metadata"]["name"] for each in (await self._get(_POLICIES))["items"]}
        bindings = (await self._get(_BINDINGS))["items"]
        bound = {each["spec"]["policyName"] for each in bindings}
        return {name: name in there and name in bound for name in names}

    def _scheduler(self, path: Path | None) -> SchedulerFile | None:
        if path is None:
            return None
        document: object
        try:
            document = read_yaml(path)
        except SettingsError as error:
            document = Unknown(str(error))
        return SchedulerFile(
            str(path), document, self._settings.gang.options().max_schedule_timeout
        )

    async def _get(self, path: str) -> Any:  # noqa: ANN401 - JSON
        async with self._turns:
            return msgspec.json.decode(await self._client.request("GET", path))

    async def _known(self, asked: Awaitable[T]) -> T | Unknown:
        try:
            return await asked
        except (ApiError, msgspec.MsgspecError, LookupError, ValueError) as error:
            return Unknown(str(error))


def _access(right: NeededRight) -> Access:
    return Access(right.group, right.resource, right.name, right.namespace, verb=right.verb)


def _minor(said: dict[str, str]) -> tuple[int, int] | None:
    """Return the version as numbers; some clusters write `36+`."""
    try:
        return int(said["major"]), int(said["minor"].rstrip("+"))
    except (KeyError, ValueError):
        return None


async def _all(asked: Iterable[Awaitable[T]]) -> list[T]:
    """Return what each returns; raises what the first one raised, when all have ended."""

    async def outcome(each: Awaitable[T]) -> T | Exception:
        try:
            return await each
        except Exception as error:  # noqa: BLE001 - raised below
            return error

    async with asyncio.TaskGroup() as tasks:
        ended = [tasks.create_task(outcome(each)) for each in asked]
    found = []
    for each in ended:
        result = each.result()
        if isinstance(result, Exception):
            raise result
        found.append(result)
    return found
