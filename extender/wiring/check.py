"""`gang-extender check`: reads what the checks judge; only `--smoke` stores anything."""

from collections.abc import Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, Final, Literal

from extender.api.scheduler_config import DEFAULT_SCHEDULER
from extender.api.shipped import manifests
from extender.check import checks, crds, rights
from extender.check.entries import Entry, entries, ours
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
from extender.config.sections import read_yaml
from extender.kube.client import KubeClient
from extender.kube.credentials import keyring
from extender.kube.errors import ForbiddenError, NotFoundError
from extender.kube.reviews import Access, Reviews, User
from extender.runtime.clock import Clock, SystemClock
from extender.wiring.asking import extender
from extender.wiring.reading import ApiReader, known, together
from extender.wiring.running import RunningFacts, of_samples
from extender.wiring.smoke import Smoke

IdentityName = Literal["extender", "reconciler"]
IDENTITIES: Final[tuple[IdentityName, ...]] = ("extender", "reconciler")
_CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_POLICIES: Final = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
_BINDINGS: Final = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
_CHILD_JOBS: Final = "gang-child-jobs"
"""The policy of the queue alone."""


@dataclass(frozen=True, slots=True)
class CheckTarget:
    """What is to be looked at."""

    identities: Sequence[IdentityName] = IDENTITIES
    scheduler_config: Path | None = None
    extender: str | None = None
    """The URL of one; None: that in kube-scheduler's file."""
    smoke: bool = False
    """Whether to send a gang of two through it."""
    scheduler_name: str | None = None
    """Of that gang's pods; None: of the first profile in kube-scheduler's file."""
    smoke_seconds: float = 60.0


async def checked(
    target: CheckTarget, kubeconfig: Path | None, settings: Settings
) -> list[Finding]:
    """Return the findings about a cluster. Raises ConfigurationError."""
    async with KubeClient(await keyring(kubeconfig)) as client:
        clock = SystemClock()
        facts = await _Survey(client, settings, clock).facts(target)
        found = checks.check(facts)
        if target.smoke and not isinstance(facts.server, Unknown):
            name = target.scheduler_name or first_profile(facts.scheduler)
            gang = Smoke(client, clock, scheduler_name=name, seconds=target.smoke_seconds)
            found += await gang.run()
        return found


class _Survey:
    """Reads facts through one client; what cannot be read is a fact too."""

    def __init__(self, client: KubeClient, settings: Settings, clock: Clock) -> None:
        self._client = client
        self._settings = settings
        self._clock = clock
        self._reviews = Reviews(client)
        self._reader = ApiReader(client)
        self._running = RunningFacts(client, settings)

    async def facts(self, target: CheckTarget) -> ClusterFacts:
        server = await known(self._server())
        scheduler = self._scheduler(target.scheduler_config)
        now = self._clock.wall()
        entry = _entry(scheduler)
        url = target.extender or (entry.url if entry else "")
        tls = {name: said for name, said in (entry.tls if entry else {}).items() if _is_text(said)}
        asked = await extender(url, tls) if url else None
        if isinstance(server, Unknown):
            return ClusterFacts(now, server, scheduler=scheduler, extender=asked)
        queue = self._settings.queue.enabled
        names = [each["metadata"]["name"] for each in crds.needed(queue=queue)]
        found = await together(known(self._crd(name)) for name in names)
        return ClusterFacts(
            now,
            server,
            crds=dict(zip(names, found, strict=True)),
            identities=[
                await self._identity(each, alone=len(target.identities) == 1)
                for each in target.identities
            ],
            policies=await known(self._policies()),
            scheduler=scheduler,
            others=await known(self._running.others()),
            extender=asked,
            lease=await known(self._running.lease(now + (server.ahead or 0.0))),
            elects=self._settings.reconcile.leader_elect,
            webhooks=await known(self._running.webhooks()),
            certificates=[
                *await self._running.certificates(tls),
                *of_samples("extender", asked.samples if asked else ()),
            ],
            queue=queue,
            without_effect=await known(self._running.without_effect()) if queue else (),
        )

    async def _server(self) -> ServerFacts:
        said = await self._reader.get("/version")
        before = self._clock.wall()
        date = await self._client.date("/version")
        # Between the two the server wrote its date, in whole seconds.
        middle = (before + self._clock.wall()) / 2 - 0.5
        ahead = parsedate_to_datetime(date).timestamp() - middle if date else None
        return ServerFacts(said["gitVersion"], _minor(said), ahead)

    async def _crd(self, name: str) -> CrdFacts:
        plural, _, group = name.partition(".")
        try:
            groups = await self._reader.get(f"/apis/{group}")
        except NotFoundError:
            groups = {"versions": []}
        versions = [each["version"] for each in groups["versions"]]
        paths = [f"/apis/{group}/{version}" for version in versions]
        lists = await together(map(self._reader.get, paths))
        served = {
            version
            for version, said in zip(versions, lists, strict=True)
            if any(each["name"] == plural for each in said["resources"])
        }
        stored: dict[str, Any] | Unknown | None
        try:
            stored = await self._reader.get(f"{_CRDS}/{name}")
        except NotFoundError:
            stored = None
        except ForbiddenError as error:
            stored = Unknown(str(error)) if served else None
        return CrdFacts(frozenset(served), stored)

    async def _identity(self, name: IdentityName, *, alone: bool) -> IdentityFacts:
        """Return the rights of a process, which this client may be where it was named alone."""
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
        found = await known(self._rights(users, needed, alone=alone))
        return IdentityFacts(name, found)

    async def _rights(
        self, users: Sequence[rights.Subject], needed: Sequence[NeededRight], *, alone: bool
    ) -> Sequence[RightsFacts]:
        """Return which rights each user has: by its own word where this is one of them."""
        own = await self._reviews.own()
        if own.name in {each.user for each in users}:
            return [await self._own(own.name, needed)]
        try:
            return [await self._of(user, needed) for user in users]
        except ForbiddenError:  # which users that run a process under another name get too
            if not alone:
                raise
            return [await self._own(own.name, needed)]

    async def _own(self, user: str, needed: Sequence[NeededRight]) -> RightsFacts:
        allowed = await together(self._own_may(right) for right in needed)
        return RightsFacts(user, dict(zip(needed, allowed, strict=True)))

    async def _of(self, user: rights.Subject, needed: Sequence[NeededRight]) -> RightsFacts:
        of = User(user.user, groups=user.groups)
        allowed = await together(self._may(of, right) for right in needed)
        return RightsFacts(user.user, dict(zip(needed, allowed, strict=True)))

    async def _may(self, user: User, right: NeededRight) -> bool:
        return await self._reader.turn(self._reviews.may(user, _access(right)))

    async def _own_may(self, right: NeededRight) -> bool:
        return await self._reader.turn(self._reviews.own_may(_access(right)))

    async def _policies(self) -> dict[str, bool]:
        names = [
            each["metadata"]["name"]
            for each in manifests("policies")
            if each["kind"] == "ValidatingAdmissionPolicy"
        ]
        if not self._settings.queue.enabled:
            names.remove(_CHILD_JOBS)
        there = {each["metadata"]["name"] for each in (await self._reader.get(_POLICIES))["items"]}
        bindings = (await self._reader.get(_BINDINGS))["items"]
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


def first_profile(file: SchedulerFile | None) -> str:
    """Return the schedulerName of the first profile of a file."""
    document = file.document if file is not None else None
    try:
        return str(document["profiles"][0]["schedulerName"])  # type: ignore[index]
    except (TypeError, LookupError):
        return DEFAULT_SCHEDULER


def _entry(file: SchedulerFile | None) -> Entry | None:
    """Return the first entry of the extender in kube-scheduler's file."""
    if file is None or not isinstance(file.document, dict):
        return None
    try:
        mine = ours(entries(file.document))
    except (TypeError, AttributeError):  # which the check of the file says
        return None
    return mine[0] if mine else None


def _is_text(said: object) -> bool:
    return isinstance(said, str)


def _access(right: NeededRight) -> Access:
    return Access(right.group, right.resource, right.name, right.namespace, verb=right.verb)


def _minor(said: dict[str, str]) -> tuple[int, int] | None:
    """Return the version as numbers; some clusters write `36+`."""
    try:
        return int(said["major"]), int(said["minor"].rstrip("+"))
    except (KeyError, ValueError):
        return None
