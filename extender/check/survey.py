"""`gang-extender check`: reads the facts that the checks judge; only `--smoke` stores anything."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from email.utils import parsedate_to_datetime
from functools import partial
from itertools import pairwise, product
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import quote

from cryptography import x509

from extender.api.manifests import crds, shipped_objects
from extender.api.scheduler_config import DEFAULT_SCHEDULER
from extender.api.wellknown import (
    GROUP_NATIVE,
    NATIVE_SCHEDULED,
    POD_GROUP_GROUPS,
    QUEUE_API_VERSION,
    QUEUE_LABEL,
    fields_without_effect,
    names_without_effect,
)
from extender.check.cluster import KUEUE, NOT_QUEUED, PLUGINS, check
from extender.check.facts import (
    CertificateFacts,
    ClusterFacts,
    CrdFacts,
    ExtenderFacts,
    LeaseFacts,
    OtherFacts,
    SchedulerFile,
    ServerFacts,
    WebhookFacts,
)
from extender.check.findings import Finding, Unknown
from extender.check.reading import ApiReader, ask_extender, known, together
from extender.check.scheduler import Entry, entries, ours
from extender.check.smoke import Smoke
from extender.config import Settings, SettingsError
from extender.config.sections import read_yaml
from extender.kube.client import KubeClient
from extender.kube.credentials import CERTIFICATE, keyring
from extender.kube.errors import ApiError, ForbiddenError, NotFoundError
from extender.kube.reviews import Access, Reviews, User
from extender.kube.webhooks import CertificateSecret
from extender.runtime.clock import Clock, SystemClock

IdentityName = Literal["extender", "reconciler"]
IDENTITIES: Final[tuple[IdentityName, ...]] = ("extender", "reconciler")
QUEUE_KINDS: Final = {
    "clusterqueues": "ClusterQueue",
    "cohorts": "Cohort",
    "localqueues": "LocalQueue",
    "resourceflavors": "ResourceFlavor",
}
"""The kinds of kueue.x-k8s.io with fields that may have no effect, by plural name."""
_CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_ADMISSION: Final = "/apis/admissionregistration.k8s.io/v1"
_SCHEDULERS: Final = "/api/v1/namespaces/kube-system/pods?labelSelector=component%3Dkube-scheduler"
_CHILD_JOBS: Final = "gang-child-jobs"
"""The one policy that only the queue needs."""
_TRIED: Final = "gang-extender-check"
"""The name of objects that are created with dryRun, and so never stored."""
_UNREACHED: Final = ("failed calling webhook", "conversion webhook for")
"""The words of the API server when a webhook does not answer."""
_RENEWAL: Final = "renew it (docs/tasks/admin/credentials.md)"


@dataclass(frozen=True, slots=True)
class CheckTarget:
    """The parts of a cluster that are to be looked at."""

    identities: Sequence[IdentityName] = IDENTITIES
    scheduler_config: Path | None = None
    extender: str | None = None
    """The URL of one; None: that in kube-scheduler's file."""
    smoke: bool = False
    """True to send a gang of two through it."""
    scheduler_name: str | None = None
    """The schedulerName of that gang; None: of the first profile in kube-scheduler's file."""
    smoke_seconds: float = 60.0


async def checked(
    target: CheckTarget, kubeconfig: Path | None, settings: Settings
) -> list[Finding]:
    """Return the findings about a cluster. Raises ConfigurationError."""
    async with KubeClient(await keyring(kubeconfig)) as client:
        clock = SystemClock()
        facts = await _Survey(client, settings, clock).facts(target)
        found = check(facts)
        if target.smoke and not isinstance(facts.server, Unknown):
            name = target.scheduler_name or _first_profile(facts.scheduler)
            gang = Smoke(client, clock, scheduler_name=name, seconds=target.smoke_seconds)
            found += await gang.run()
        return found


class _Survey:
    """Reads facts through one client; that a fact cannot be read is a fact too."""

    def __init__(self, client: KubeClient, settings: Settings, clock: Clock) -> None:
        self._client = client
        self._settings = settings
        self._clock = clock
        self._reviews = Reviews(client)
        self._reader = ApiReader(client)

    async def facts(self, target: CheckTarget) -> ClusterFacts:
        server = await known(self._server())
        file, now = self._scheduler_file(target.scheduler_config), self._clock.wall()
        entry = _entry(file)
        url = target.extender or (entry.url if entry else "")
        said = entry.tls.items() if entry else ()
        tls = {name: value for name, value in said if isinstance(value, str)}
        asked = await ask_extender(url, tls) if url else None
        found = ClusterFacts(now, server, scheduler=file, extender=asked)
        if isinstance(server, Unknown):
            return found
        queue = self._settings.queue.enabled
        alone = len(target.identities) == 1
        return replace(
            found,
            crds=await together(map(self._crd, shipped_crds(queue=queue))),
            rights={
                each: await known(self._rights(each, alone=alone)) for each in target.identities
            },
            policies=await known(self._policies()),
            others=await known(self._others()),
            lease=await known(self._lease(now + (server.ahead or 0.0))),
            elects=self._settings.reconcile.leader_elect,
            webhooks=await known(self._webhooks()),
            certificates=[*await self._certificates(tls), *_of_extender(asked)],
            queue=queue,
            without_effect=await known(self._without_effect()) if queue else (),
        )

    async def _server(self) -> ServerFacts:
        said = await self._reader.get("/version")
        before = self._clock.wall()
        date = await self._client.date("/version")
        # Between the two the server wrote its date, in whole seconds.
        middle = (before + self._clock.wall()) / 2 - 0.5
        ahead = parsedate_to_datetime(date).timestamp() - middle if date else None
        minor: tuple[int, int] | None
        try:
            minor = int(said["major"]), int(said["minor"].rstrip("+"))  # some clusters write `36+`
        except (KeyError, ValueError):
            minor = None
        return ServerFacts(said["gitVersion"], minor, ahead)

    async def _crd(self, shipped: Mapping[str, Any]) -> CrdFacts:
        plural, group = shipped["spec"]["names"]["plural"], shipped["spec"]["group"]
        served = await known(self._served(plural, group))
        stored = await known(self._stored(f"{plural}.{group}"))
        if isinstance(stored, Unknown) and not served:
            stored = None
        return CrdFacts(shipped, served, stored)

    async def _stored(self, name: str) -> dict[str, Any] | None:
        found: dict[str, Any] | None = None
        with suppress(NotFoundError):
            found = await self._reader.get(f"{_CRDS}/{name}")
        return found

    async def _served(self, plural: str, group: str) -> frozenset[str]:
        """Return the versions of a group in which a resource is served. Raises ApiError."""
        try:
            versions = (await self._reader.get(f"/apis/{group}"))["versions"]
        except NotFoundError:
            return frozenset()
        names = [each["version"] for each in versions]
        lists = await together(self._reader.get(f"/apis/{group}/{name}") for name in names)
        return frozenset(
            name
            for name, said in zip(names, lists, strict=True)
            if any(each["name"] == plural for each in said["resources"])
        )

    async def _rights(self, process: IdentityName, *, alone: bool) -> dict[str, dict[Access, bool]]:
        """Return the rights of each user that a process may be: where this is one, of it alone.

        Where one process is named, this client may be it under another name. Raises ApiError.
        """
        settings, shipped = self._settings, shipped_objects(f"rbac/{process}.yaml")
        namespace = settings.reconcile.lease_namespace
        rename = {
            "gang-extender-system": namespace,
            "gang-extender-reconciler": settings.reconcile.lease_name,
            "gang-reconciler-webhooks-tls": settings.webhooks.secret,
            "gang-queue": settings.webhooks.configuration,
        }
        needed, users = needed_rights(shipped, rename), subjects(shipped, namespace)
        own = await self._reviews.own()
        if own.name not in {each.name for each in users}:
            try:
                return {user.name: await self._allowed(needed, user) for user in users}
            except ForbiddenError:
                if not alone:
                    raise
        return {own.name: await self._allowed(needed, None)}

    async def _allowed(self, needed: Sequence[Access], user: User | None) -> dict[Access, bool]:
        """Return whether a user has each right; None: this client itself."""
        may = self._reviews.own_may if user is None else partial(self._reviews.may, user)
        allowed = await together(map(may, needed))
        return dict(zip(needed, allowed, strict=True))

    async def _policies(self) -> dict[str, bool]:
        kind = "ValidatingAdmissionPolicy"
        names = [x["metadata"]["name"] for x in shipped_objects("policies") if x["kind"] == kind]
        if not self._settings.queue.enabled:
            names.remove(_CHILD_JOBS)
        path = f"{_ADMISSION}/validatingadmissionpolic"
        there = {x["metadata"]["name"] for x in (await self._reader.get(f"{path}ies"))["items"]}
        bindings = (await self._reader.get(f"{path}ybindings"))["items"]
        bound = {each["spec"]["policyName"] for each in bindings}
        return {name: name in there and name in bound for name in names}

    def _scheduler_file(self, path: Path | None) -> SchedulerFile | None:
        if path is None:
            return None
        document: object
        try:
            document = read_yaml(path)
        except SettingsError as error:
            document = Unknown(str(error))
        longest = self._settings.gang.options().max_schedule_timeout
        return SchedulerFile(str(path), document, longest)

    async def _others(self) -> OtherFacts:
        path = "/apis/apps/v1/deployments?fieldSelector=metadata.name%3D"
        lists = await together(self._reader.get(path + name) for name in (KUEUE, PLUGINS))
        running = {
            each["metadata"]["name"]: each["metadata"]["namespace"]
            for found in lists
            for each in found["items"]
            if each["spec"].get("replicas", 1)
        }
        pods = (await self._reader.get(_SCHEDULERS))["items"]
        native = sorted(await self._served("podgroups", GROUP_NATIVE))
        cycles = await known(self._has_cycles(native[0])) if native else False
        return OtherFacts(
            running,
            native,
            [pod["metadata"]["name"] for pod in pods if not _has_config(pod)],
            native_cycles=cycles is True,
            native=self._settings.gang.native,
            half_gated=[pod["metadata"]["name"] for pod in pods if has_half_of_the_gates(pod)],
        )

    async def _has_cycles(self, version: str) -> bool:
        """Return whether kube-scheduler has written its condition to a native PodGroup."""
        path = f"/apis/{GROUP_NATIVE}/{version}/podgroups?limit=500"
        return any(
            condition["type"] in NATIVE_SCHEDULED
            for each in (await self._reader.get(path))["items"]
            for condition in each.get("status", {}).get("conditions", ())
        )

    async def _without_effect(self) -> list[tuple[str, str, tuple[str, ...]]]:
        """Return the queue objects and jobs of which something has no effect. Raises ApiError."""
        paths = [f"/apis/{QUEUE_API_VERSION}/{plural}" for plural in QUEUE_KINDS]
        lists = await together(map(self._reader.items, paths))
        found: list[tuple[str, str, tuple[str, ...]]] = []
        for kind, objects in zip(QUEUE_KINDS.values(), lists, strict=True):
            for each in objects:
                meta = each["metadata"]
                unused = fields_without_effect(kind, each.get("spec") or ())
                names = names_without_effect(
                    meta.get("labels") or (), meta.get("annotations") or ()
                )
                found.append((kind, _key(meta), (*unused, *names)))
        chosen = f"?labelSelector={quote(QUEUE_LABEL)}&limit=500"
        jobs = await together(
            self._reader.items(f"/apis/{path}{chosen}") for path in NOT_QUEUED.values()
        )
        for kind, objects in zip(NOT_QUEUED, jobs, strict=True):
            found += [(kind, _key(each["metadata"]), (QUEUE_LABEL,)) for each in objects]
        return [each for each in found if each[-1]]

    async def _lease(self, now: float) -> LeaseFacts | None:
        """Return the Lease of the reconciler; `now` is the API server's time. Raises ApiError."""
        chosen = self._settings.reconcile
        path = f"/apis/coordination.k8s.io/v1/namespaces/{chosen.lease_namespace}/leases"
        try:
            spec = (await self._reader.get(f"{path}/{chosen.lease_name}"))["spec"]
        except NotFoundError:
            return None
        renewed = datetime.fromisoformat(spec["renewTime"]).timestamp()
        seconds = spec.get("leaseDurationSeconds") or chosen.lease_seconds
        return LeaseFacts(spec.get("holderIdentity") or "", now - renewed, seconds)

    async def _webhooks(self) -> list[WebhookFacts]:
        """Return those that the API server is to call. Raises ApiError."""
        found = [await self._conversion(), await self._jobs()]
        return [each for each in found if each is not None]

    async def _conversion(self) -> WebhookFacts | None:
        crd = await self._stored("clusterqueues.kueue.x-k8s.io")
        if crd is None:
            return None
        conversion = crd["spec"].get("conversion", {})
        older = {each["name"] for each in crd["spec"]["versions"] if not each["storage"]}
        served = {each["name"] for each in crd["spec"]["versions"] if each["served"]} & older
        stored = older & {*crd["status"].get("storedVersions", ())}
        if conversion.get("strategy") != "Webhook" or not served | stored:
            return None
        trusted = bool(conversion["webhook"].get("clientConfig", {}).get("caBundle"))
        if not trusted or not served:
            return WebhookFacts("conversion", trusted)
        version = f"kueue.x-k8s.io/{min(served)}"
        body = _object(version, "ClusterQueue", spec={})
        trouble = await self._trouble(f"/apis/{version}/clusterqueues", body)
        return WebhookFacts("conversion", has_authority=True, trouble=trouble)

    async def _jobs(self) -> WebhookFacts | None:
        name = self._settings.webhooks.configuration
        try:
            found = await self._reader.get(f"{_ADMISSION}/mutatingwebhookconfigurations/{name}")
        except NotFoundError:
            return None
        if not all(each["clientConfig"].get("caBundle") for each in found["webhooks"]):
            return WebhookFacts("jobs", has_authority=False)
        container = {"name": "none", "image": "none"}
        template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
        body = _object("batch/v1", "Job", spec={"template": template})
        body["metadata"]["labels"] = {QUEUE_LABEL: _TRIED}
        path = "/apis/batch/v1/namespaces/default/jobs"
        return WebhookFacts("jobs", has_authority=True, trouble=await self._trouble(path, body))

    async def _trouble(self, path: str, body: object) -> str | Unknown:
        """Return what keeps the API server from calling a webhook; nothing is stored."""
        try:
            await self._reader.post(f"{path}?dryRun=All", body)
        except ApiError as error:
            said = str(error)
            if any(each in said for each in _UNREACHED):
                return said
            if isinstance(error, ForbiddenError) and "cannot create resource" in said:
                return Unknown(said)
        return ""

    async def _certificates(self, tls: Mapping[str, str]) -> list[CertificateFacts]:
        """Return what ends, of this client, the webhooks and kube-scheduler's entry."""
        found = [
            CertificateFacts(
                f"kubeconfig-{what.replace('_', '-')}",
                f"the {what.replace('_', ' ')} that this command used",
                end,
                _RENEWAL,
                is_brief=what != CERTIFICATE,
            )
            for what, end in self._client.keyring.current.ends.items()
        ]
        end = await known(self._end_of_webhooks())
        if end is not None:
            mend = "the reconciler renews it after two thirds of its life: see that one leads"
            found.append(CertificateFacts("webhooks", "the webhooks' certificate", end, mend))
        for name, field, title in (
            ("kube-scheduler", "certFile", "kube-scheduler's certificate for the extender"),
            ("extender-authority", "caFile", "the authority of the extender's certificate"),
        ):
            path = tls.get(field)
            if path:
                mend = "renew it, and restart kube-scheduler, which reads it at its start alone"
                ends = await known(_end_of_file(path))
                found.append(CertificateFacts(name, f"{title} ({path})", ends, mend))
        return found

    async def _end_of_webhooks(self) -> float | None:
        chosen = self._settings.webhooks
        secret = CertificateSecret(self._client, namespace=chosen.namespace, name=chosen.secret)
        kept = await secret.read()
        return _end(kept.certificate) if kept is not None else None


def shipped_crds(*, queue: bool) -> list[Mapping[str, Any]]:
    """Return the CRDs that the processes need; those of the queue only where it is on."""
    return [each for each in crds() if queue or each["spec"]["group"] in POD_GROUP_GROUPS]


def needed_rights(
    manifests: Sequence[Mapping[str, Any]], rename: Mapping[str, str]
) -> list[Access]:
    """Return the rights that the shipped roles grant, each once: there is no second list.

    `rename` has the names that the settings change, by their name in the shipped files.
    """
    granted = [right for each in manifests for right in _granted(each, rename)]
    # A rule with several groups grants each resource in each group, also where there is none.
    whole = {(each.group, each.resource) for each in granted if "/" not in each.resource}
    plurals = {resource for _, resource in whole}

    def exists(right: Access) -> bool:
        plural, _, subresource = right.resource.partition("/")
        return not subresource or plural not in plurals or (right.group, plural) in whole

    return list(dict.fromkeys(filter(exists, granted)))


def _granted(manifest: Mapping[str, Any], rename: Mapping[str, str]) -> Iterator[Access]:
    if manifest["kind"] not in {"ClusterRole", "Role"}:
        return
    namespace = manifest["metadata"].get("namespace", "")
    where = rename.get(namespace, namespace)
    for rule in manifest["rules"]:
        names = rule.get("resourceNames", [""])
        for group, resource, verb, name in product(
            rule["apiGroups"], rule["resources"], rule["verbs"], names
        ):
            yield Access(group, resource, rename.get(name, name), where, verb=verb)


def subjects(manifests: Sequence[Mapping[str, Any]], namespace: str) -> list[User]:
    """Return the users of the shipped bindings, where everything lives in that namespace."""
    found = []
    for manifest in manifests:
        for said in manifest.get("subjects", ()):
            name, groups = said["name"], ["system:authenticated"]
            if said["kind"] == "ServiceAccount":
                name = f"system:serviceaccount:{namespace}:{name}"
                of = "system:serviceaccounts"
                groups = [of, f"{of}:{namespace}", *groups]
            found.append(User(name, groups=tuple(groups)))
    return list(dict.fromkeys(found))


def _first_profile(file: SchedulerFile | None) -> str:
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


def _key(meta: Mapping[str, Any]) -> str:
    return f"{meta['namespace']}/{meta['name']}" if meta.get("namespace") else str(meta["name"])


def _words(pod: Mapping[str, Any]) -> list[str]:
    return [
        word
        for container in pod["spec"]["containers"]
        for word in (*container.get("command", ()), *container.get("args", ()))
    ]


def _has_config(pod: Mapping[str, Any]) -> bool:
    return any(word.startswith("--config") for word in _words(pod))


def has_half_of_the_gates(pod: Mapping[str, Any]) -> bool:
    """Return whether a kube-scheduler tries native groups, as its flags show, and no gang of them.

    It writes its condition then, and keeps no `minCount`.
    """
    flag, words = "--feature-gates", _words(pod)
    values = [word.partition("=")[2] for word in words if word.startswith(f"{flag}=")]
    values += [after for word, after in pairwise(words) if word == flag]
    gates = (gate for value in values for gate in value.strip("\"'").split(",") if "=" in gate)
    said = dict(gate.strip().split("=", 1) for gate in gates)
    on = {name for name, value in said.items() if value.strip().lower() in {"1", "t", "true"}}
    return "GenericWorkload" in on and "GangScheduling" not in on


def _object(version: str, kind: str, spec: object) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": _TRIED}, "spec": spec}


async def _end_of_file(path: str) -> float:
    return _end(await asyncio.to_thread(Path(path).read_bytes))


def _end(pem: bytes) -> float:
    """Return when a certificate ends, the first of a chain. Raises ValueError."""
    return x509.load_pem_x509_certificate(pem).not_valid_after_utc.timestamp()


def _of_extender(found: ExtenderFacts | None) -> Iterator[CertificateFacts]:
    """Yield the certificates and tokens of an extender, by its metrics."""
    if found is None or isinstance(found.samples, Unknown):
        return
    for metric, label in (
        ("gang_extender_credential_end_timestamp_seconds", "credential"),
        ("gang_extender_certificate_end_timestamp_seconds", "certificate"),
    ):
        for each in found.samples:
            if each.name == metric:
                what = each.labels.get(label, "")
                yield CertificateFacts(
                    f"extender-{what.replace('_', '-')}",
                    f"the extender's {what.replace('_', ' ')}",
                    each.value,
                    _RENEWAL,
                    is_brief=what == "token",
                )
