"""`gang-extender check`: reads a cluster and judges what it finds; only `--smoke` stores anything.

Each group of findings is a method, which reads what it judges. What cannot be read is a warning.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from functools import partial
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import quote

import msgspec
from cryptography import x509

from extender.api.scheduler_config import DEFAULT_SCHEDULER
from extender.api.wellknown import (
    DEPLOYMENTS,
    GROUP_NATIVE,
    GROUP_SIGS,
    NATIVE_SCHEDULED,
    POD_GROUP_GROUPS,
    QUEUE_LABEL,
    REQUIRE_ROOM_ANNOTATION,
    UNPREPARED,
    fields_without_effect,
    is_unprepared,
    names_without_effect,
    no_effect_sentence,
)
from extender.config.sections import SettingsError, read_yaml
from extender.config.settings import Settings
from extender.kube.autoscaling import BUFFER_VERSION, BUFFERS
from extender.kube.autoscaling import GROUP as AUTOSCALING
from extender.kube.certificates import CertificateSecret
from extender.kube.client import KubeClient
from extender.kube.credentials import CERTIFICATE, keyring
from extender.kube.decode import Decoder
from extender.kube.decode_queues import QueueDecoder
from extender.kube.errors import ApiError, ForbiddenError
from extender.kube.queues import collection
from extender.kube.reviews import Access, Reviews
from extender.queueing.rules import provisions, requires_room
from extender.runtime.clock import SystemClock
from gang_tools.check.extender import extender
from gang_tools.check.findings import RENEWAL, Finding, certificate, failure, ok, warning
from gang_tools.check.reading import UNREADABLE, ApiReader, together
from gang_tools.check.rights import needed_rights, rights, subjects
from gang_tools.check.scheduler import entries, ours, scheduler
from gang_tools.check.smoke import Smoke
from gang_tools.manifests import Schema, crds, schema_of, shipped_objects, stored_version

LEAST: Final = (1, 31)
"""The oldest version of Kubernetes: the CRDs need selectable fields, and CEL's `quantity`."""
TESTED: Final = (1, 36)
CLOCK_SECONDS: Final = 5.0
"""The most by which clocks may differ: a Lease that is renewed every two seconds allows it."""
KUEUE: Final = "kueue-controller-manager"
PLUGINS: Final = "scheduler-plugins-controller"
_QUEUE_KINDS: Final = ("clusterqueues", "cohorts", "localqueues", "resourceflavors")
"""The kinds of kueue.x-k8s.io with fields that may have no effect."""
IdentityName = Literal["extender", "reconciler"]
IDENTITIES: Final[tuple[IdentityName, ...]] = ("extender", "reconciler")
_ADMISSION: Final = "/apis/admissionregistration.k8s.io/v1"
_EARLIER_POLICIES: Final = {
    "gang-extender",
    "gang-extender-events",
    "gang-extender-nominations",
    "gang-granted-room",
    "gang-preemption",
    "gang-child-jobs",
    "gang-reconciler-pods",
    "gang-reconciler-jobs",
    "gang-reconciler-groups",
}
_NODE_POOLS: Final = "/apis/karpenter.sh/v1/nodepools"
_AUTOSCALER_STATUS: Final = "/api/v1/namespaces/kube-system/configmaps/cluster-autoscaler-status"
_READ_POOLS: Final = "read NodePools, ClusterQueues, and ConfigMaps of kube-system"
_GATE_POLICY: Final = "gang-gate"
_TRIED: Final = "gang-extender-check"
"""The name of objects that are created with dryRun, and so never stored."""
_UNREACHED: Final = ("failed calling webhook", "conversion webhook for")
"""The words of the API server when a webhook does not answer."""
_APPLY: Final = "kubectl apply -f manifests/crds"
_BESIDE: Final = "read docs/tasks/admin/beside-others.md"

Object = Mapping[str, Any]


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
        return await _Check(client, settings, target).findings()


class _Check:
    """One check, through one client."""

    def __init__(self, client: KubeClient, settings: Settings, target: CheckTarget) -> None:
        self._client, self._settings, self._target = client, settings, target
        self._clock = SystemClock()
        self._reader, self._reviews = ApiReader(client), Reviews(client)
        self._queue = settings.queue.enabled
        self._ahead = 0.0
        """Seconds by which the API server's clock is ahead of this machine's."""

    async def findings(self) -> list[Finding]:
        """Return all findings; of a cluster that does not answer, those that need no answer."""
        target, now = self._target, self._clock.wall()
        document, of_file = self._scheduler_file()
        tls, url, profile = _asked(document)
        url = target.extender or url
        of_extender = await asyncio.to_thread(lambda: [*extender(url, tls, now)])
        try:
            server = await self._server()
        except UNREADABLE as error:
            why = f"the API server does not answer: {error}"
            mend = "name a kubeconfig with --kubeconfig, or see why the API server does not answer"
            return [failure("server.version", why, mend), *of_file, *of_extender]
        found = [*server, *await together(map(self._crd, shipped_crds(queue=self._queue)))]
        rights, own = "the rights of the", "create SubjectAccessReviews, or the process's own"
        for name, what, right, group in (
            *((f"rights.{x}", f"{rights} {x}", own, self._rights(x)) for x in target.identities),
            (
                "policies.bound",
                "the policies",
                "read ValidatingAdmissionPolicies",
                self._policies(),
            ),
            ("others.known", "it", "read Deployments, and pods of kube-system", self._others()),
            ("autoscalers.known", "whether nodes are added", _READ_POOLS, self._autoscalers()),
            ("queue.known", "queues and jobs", "read them", self._without_effect()),
            ("reconciler.lease", "the Lease", "read it", self._lease(now)),
            ("webhooks.known", "webhooks", "read their configurations", self._webhooks()),
        ):
            try:
                found += [each async for each in group]
            except UNREADABLE as error:
                text = f"{what} cannot be looked at: {error}"
                found.append(warning(name, text, f"use a kubeconfig that may {right}"))
        found += [*of_file, *of_extender, *[each async for each in self._certificates(tls, now)]]
        if target.smoke:
            name, seconds = target.scheduler_name or profile, target.smoke_seconds
            gang = Smoke(self._reader, self._clock, scheduler_name=name, seconds=seconds)
            found += await gang.run()
        return found

    def _scheduler_file(self) -> tuple[object, list[Finding]]:
        """Return what kube-scheduler's file holds, and what is to be said of it."""
        path = self._target.scheduler_config
        if path is None:
            mend = "give its file with --scheduler-config, on a node of the control plane"
            said = "kube-scheduler's configuration was not looked at"
            return None, [warning("scheduler.file", said, mend)]
        try:
            document = read_yaml(path)
        except SettingsError as error:
            return None, [failure("scheduler.file", str(error), "name a file that can be read")]
        longest = self._settings.gang.options().max_schedule_timeout
        return document, [*scheduler(str(path), document, longest)]

    async def _server(self) -> list[Finding]:
        said = await self._reader.get("/version")
        before = self._clock.wall()
        date = await self._client.date("/version")
        found = [version(said)]
        if date:
            # Between the two the server wrote its date, in whole seconds.
            middle = (before + self._clock.wall()) / 2 - 0.5
            self._ahead = parsedate_to_datetime(date).timestamp() - middle
            found.append(clocks(self._ahead))
        return found

    async def _crd(self, shipped: Object) -> Finding:
        plural, group = shipped["spec"]["names"]["plural"], shipped["spec"]["group"]
        try:
            served = await self._served(plural, group)
        except UNREADABLE as error:
            said = f"{shipped['metadata']['name']} cannot be looked at: {error}"
            return warning(crd_id(shipped), said, "use a kubeconfig that may read CRDs")
        stored: Object | None = {} if served else None
        with suppress(*UNREADABLE):
            stored = await self._stored(f"{plural}.{group}")
        return crd(shipped, served, stored)

    async def _stored(self, crd: str) -> dict[str, Any] | None:
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        return await self._reader.find(f"{path}/{crd}")

    async def _served(self, plural: str, group: str) -> frozenset[str]:
        """Return the versions of a group in which a resource is served. Raises ApiError."""
        known = await self._reader.find(f"/apis/{group}") or {"versions": ()}
        names = [each["version"] for each in known["versions"]]
        lists = await together(self._reader.get(f"/apis/{group}/{name}") for name in names)
        return frozenset(
            name
            for name, said in zip(names, lists, strict=True)
            if any(each["name"] == plural for each in said["resources"])
        )

    async def _rights(self, process: IdentityName) -> AsyncIterator[Finding]:
        """Yield what each user may not do that a process may be: where this is one, it alone.

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
        allowed: dict[str, Mapping[Access, bool]] = {}
        if own.name not in {each.name for each in users}:
            try:
                for user in users:
                    answers = await together(map(partial(self._reviews.may, user), needed))
                    allowed[user.name] = dict(zip(needed, answers, strict=True))
            except ForbiddenError:
                if len(self._target.identities) > 1:
                    raise
                allowed = {}
        if not allowed:
            answers = await together(map(self._reviews.own_may, needed))
            allowed[own.name] = dict(zip(needed, answers, strict=True))
        for each in rights(process, allowed):
            yield each

    async def _policies(self) -> AsyncIterator[Finding]:
        """Yield whether the policies are there that narrow these rights to single fields."""
        kind = "ValidatingAdmissionPolicy"
        names = [x["metadata"]["name"] for x in shipped_objects("policies") if x["kind"] == kind]
        path = f"{_ADMISSION}/validatingadmissionpolic"
        listed = await self._reader.find(f"{path}ies")
        if listed is None:
            return  # a server that is too old, which its version says
        found = listed["items"]
        there = {each["metadata"]["name"] for each in found}
        bindings = (await self._reader.get(f"{path}ybindings"))["items"]
        there &= {each["spec"]["policyName"] for each in bindings}
        earlier = sorted(there & _EARLIER_POLICIES)
        if earlier:
            yield warning(
                "policies.earlier",
                f"{', '.join(earlier)}: policies of an earlier release, which refuse what this one "
                "writes",
                "kubectl delete validatingadmissionpolicies,validatingadmissionpolicybindings "
                f"--ignore-not-found {' '.join(earlier)}",
            )
        namespace = self._settings.reconcile.lease_namespace
        accounts = f":serviceaccount:{namespace}:"
        others = sorted(
            each["metadata"]["name"]
            for each in found
            if each["metadata"]["name"] in names and accounts not in str(each["spec"])
        )
        if others:
            yield warning(
                "policies.accounts",
                f"{', '.join(others)}: no account of namespace {namespace} is named, so nothing is "
                "narrowed",
                "take the patches from the heads of the files in manifests/policies",
            )
        absent = sorted({*names} - there)
        if absent:
            yield warning(
                "policies.bound",
                f"{', '.join(absent)}: not there, or without a binding; the right to patch pods is "
                "as strong as the right to replace their images then",
                "kubectl apply -f manifests/policies",
            )
        else:
            yield ok("policies.bound", f"all {len(names)} policies are there, and bound")

    async def _others(self) -> AsyncIterator[Finding]:
        path = "/apis/apps/v1/deployments?fieldSelector=metadata.name%3D"
        lists = await together(self._reader.get(path + name) for name in (KUEUE, PLUGINS))
        running = {
            each["metadata"]["name"]: each["metadata"]["namespace"]
            for found in lists
            for each in found["items"]
            if each["spec"].get("replicas", 1)
        }
        for each in others(running, queue=self._queue):
            yield each
        chosen = "labelSelector=component%3Dkube-scheduler"
        pods = (await self._reader.get(f"/api/v1/namespaces/kube-system/pods?{chosen}"))["items"]
        served = sorted(await self._served("podgroups", GROUP_NATIVE))
        groups: Sequence[Object] = ()
        if served:
            with suppress(*UNREADABLE):
                path = f"/apis/{GROUP_NATIVE}/{served[0]}/podgroups?limit=500"
                groups = await self._reader.items(path)
        said = (each.get("status", {}).get("conditions", ()) for each in groups)
        cycles = any(x["type"] in NATIVE_SCHEDULED for x in chain.from_iterable(said))
        half = [pod["metadata"]["name"] for pod in pods if has_half_of_the_gates(pod)]
        yield native(served, half, self._settings.gang.native, cycles=cycles)
        without = [
            pod["metadata"]["name"]
            for pod in pods
            if not any(word.startswith("--config") for word in _words(pod))
        ]
        if without:
            yield warning(
                "others.scheduler",
                f"{', '.join(without)} runs without --config: it asks no extender",
                "put --config back (gang-extender render static-pod), and into kubeadm's "
                "ClusterConfiguration: kubeadm upgrade writes the file anew "
                "(docs/tasks/admin/install-static-pod.md)",
            )

    async def _autoscalers(self) -> AsyncIterator[Finding]:
        """Yield what does not go together with an autoscaler, where there is one."""
        shows = (gang := self._settings.gang).publish_kept_room and gang.aging_seconds
        if shows and BUFFER_VERSION not in await self._served(BUFFERS, AUTOSCALING):
            yield no_buffers()
        found = ["Karpenter"] * bool(await self._reader.items(_NODE_POOLS))
        if await self._reader.find(_AUTOSCALER_STATUS) is not None:
            found.append("Cluster Autoscaler")
        if not found:
            yield ok("autoscalers.known", "no Cluster Autoscaler, and no NodePool of Karpenter")
            return
        bindings = await self._reader.items(f"{_ADMISSION}/mutatingadmissionpolicybindings")
        wrong = [*beside_autoscaler(self._settings, bindings, await self._waiting_for_room())]
        for each in wrong:
            yield each
        if not wrong:
            yield ok("autoscalers.known", f"the settings go with {' and '.join(found)}")

    async def _waiting_for_room(self) -> list[str]:
        """Return the ClusterQueues whose workloads wait for room that nobody is asked for."""
        if not self._queue:
            return []
        of, options = QueueDecoder(Decoder()), self._settings.queue.options()
        queues = await self._reader.items(collection("clusterqueues", ""))
        flavors = await self._reader.items(collection("resourceflavors", ""))
        by_name = {x.meta.name: x for x in map(of.flavor, map(msgspec.json.encode, flavors))}
        return sorted(
            each.meta.name
            for each in map(of.cluster_queue, map(msgspec.json.encode, queues))
            if requires_room(each, options, by_name)
            and not provisions(each, options)
            and not each.admission_checks
        )

    async def _without_effect(self) -> AsyncIterator[Finding]:
        """Yield the queue objects and jobs of which something has no effect. Raises ApiError."""
        if not self._queue:
            return
        paths = (collection(plural, "") for plural in _QUEUE_KINDS)
        lists, fine = await together(map(self._reader.items, paths)), True
        mend = "take them out: the decisions are made as if they were not there"
        for each in chain.from_iterable(lists):
            kind, meta = each["kind"], each["metadata"]
            said = meta.get("labels") or (), meta.get("annotations") or ()
            unused = (
                *fields_without_effect(kind, each.get("spec") or ()),
                *names_without_effect(*said),
            )
            if unused:
                fine = False
                yield unused_finding(kind, meta, unused, mend=mend)
        chosen = f"?labelSelector={quote(QUEUE_LABEL)}&limit=500"
        for each in filter(is_unprepared, await self._reader.items(f"{DEPLOYMENTS}{chosen}")):
            fine, mend = False, f"its pods run without quota: {UNPREPARED}"
            yield unused_finding("Deployment", each["metadata"], (QUEUE_LABEL,), mend=mend)
        if fine:
            text = "all fields, labels and annotations of the queues are honoured"
            yield ok("queue.honoured", text)

    async def _lease(self, now: float) -> AsyncIterator[Finding]:
        """Yield whether a reconciler leads. Raises ApiError."""
        chosen = self._settings.reconcile
        if not chosen.leader_elect:
            return
        path = f"/apis/coordination.k8s.io/v1/namespaces/{chosen.lease_namespace}/leases"
        found = await self._reader.find(f"{path}/{chosen.lease_name}")
        yield lease(found and found["spec"], now + self._ahead, chosen.lease_seconds)

    async def _webhooks(self) -> AsyncIterator[Finding]:
        """Yield whether the API server reaches those that it is to call. Raises ApiError."""
        stored = await self._stored("clusterqueues.kueue.x-k8s.io")
        if stored is not None:
            conversion = stored["spec"].get("conversion", {})
            older = {each["name"] for each in stored["spec"]["versions"] if not each["storage"]}
            served = {each["name"] for each in stored["spec"]["versions"] if each["served"]} & older
            kept = older & {*stored["status"].get("storedVersions", ())}
            if conversion.get("strategy") == "Webhook" and served | kept:
                name = "webhooks.conversion"
                if not conversion["webhook"].get("clientConfig", {}).get("caBundle"):
                    yield untrusted(name)
                elif served:
                    group = f"kueue.x-k8s.io/{min(served)}"
                    body = _object(group, "ClusterQueue", spec={})
                    yield await self._tried(name, f"/apis/{group}/clusterqueues", body)
                else:
                    yield ok(name, "the API server has a certificate to trust")
        path = f"{_ADMISSION}/mutatingwebhookconfigurations"
        found = await self._reader.find(f"{path}/{self._settings.webhooks.configuration}")
        if found is None:
            return
        if not all(each["clientConfig"].get("caBundle") for each in found["webhooks"]):
            yield untrusted("webhooks.jobs")
            return
        container = {"name": "none", "image": "none"}
        template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
        body = _object("batch/v1", "Job", spec={"template": template})
        body["metadata"]["labels"] = {QUEUE_LABEL: _TRIED}
        yield await self._tried("webhooks.jobs", "/apis/batch/v1/namespaces/default/jobs", body)

    async def _tried(self, name: str, path: str, body: object) -> Finding:
        """Return whether the API server can call a webhook; nothing is stored."""
        try:
            await self._reader.post(f"{path}?dryRun=All", body)
        except ApiError as error:
            said = str(error)
            if any(each in said for each in _UNREACHED):
                mend = "see that a reconciler runs, and the control plane reaches its port 9443"
                return failure(name, f"the API server does not reach it: {said}", mend)
            if isinstance(error, ForbiddenError) and "cannot create resource" in said:
                mend = "use a kubeconfig that may create such an object"
                return warning(name, f"a request cannot be tried: {said}", mend)
        return ok(name, "the API server reaches it")

    async def _certificates(self, tls: Mapping[str, str], now: float) -> AsyncIterator[Finding]:
        """Yield what ends, of this client, the webhooks and kube-scheduler's entry."""
        for what, end in self._client.keyring.current.ends.items():
            words = what.replace("_", " ")
            name, title = words.replace(" ", "-"), f"the {words} that this command used"
            is_brief, found = what != CERTIFICATE, f"kubeconfig-{name}"
            yield certificate(found, title, end, mend=RENEWAL, now=now, is_brief=is_brief)
        unread = "run the command where it can be read, with the rights for it"
        chosen, title = self._settings.webhooks, "the webhooks' certificate"
        secret = CertificateSecret(self._client, namespace=chosen.namespace, name=chosen.secret)
        try:
            kept = await secret.read()
            if kept is not None:
                mend = "the reconciler renews it after two thirds of its life: see that one leads"
                yield certificate("webhooks", title, _end(kept.certificate), mend=mend, now=now)
        except UNREADABLE as error:
            yield warning("certificates.webhooks", f"{title} cannot be read: {error}", unread)
        mend = "renew it, and restart kube-scheduler, which reads it at its start alone"
        for name, field, title in (
            ("kube-scheduler", "certFile", "kube-scheduler's certificate for the extender"),
            ("extender-authority", "caFile", "the authority of the extender's certificate"),
        ):
            if path := tls.get(field):
                title = f"{title} ({path})"
                try:
                    pem = await asyncio.to_thread(Path(path).read_bytes)
                    yield certificate(name, title, _end(pem), mend=mend, now=now)
                except UNREADABLE as error:
                    text = f"{title} cannot be read: {error}"
                    yield warning(f"certificates.{name}", text, unread)


# --- the server, and what is installed in it


def version(said: Mapping[str, str]) -> Finding:
    """Return whether the processes run on the version of an API server."""
    name, (least, tested) = "server.version", (f"{major}.{part}" for major, part in (LEAST, TESTED))
    found = said["gitVersion"]
    try:
        minor = int(said["major"]), int(said["minor"].rstrip("+"))  # some clusters write `36+`
    except (KeyError, ValueError):
        return warning(name, f"{found} is no version of Kubernetes", f"use {least} or later")
    if minor < LEAST:
        why = f"Kubernetes {found}: the CRDs need {least}"
        return failure(name, why, f"upgrade the cluster to {least} or later")
    if minor < TESTED:
        why = f"Kubernetes {found}; gang-extender is tested on {tested}"
        return warning(name, why, "try it with --smoke before you rely on it")
    return ok(name, f"Kubernetes {found}")


def clocks(ahead: float) -> Finding:
    """Return whether the API server's clock, so many seconds ahead of ours, can be relied on."""
    if abs(ahead) <= CLOCK_SECONDS:
        within = f"the API server's clock is within {CLOCK_SECONDS:g} s of this machine's"
        return ok("server.clock", within)
    side = "ahead of" if ahead > 0 else "behind"
    return warning(
        "server.clock",
        f"the API server's clock is {abs(ahead):.0f} s {side} this machine's",
        "synchronise the clocks (NTP): waits and back-offs are counted from times in objects",
    )


def shipped_crds(*, queue: bool) -> list[Mapping[str, Any]]:
    """Return the CRDs that the processes need; those of the queue only where it is on."""
    return [each for each in crds() if queue or each["spec"]["group"] in POD_GROUP_GROUPS]


def crd_id(shipped: Object) -> str:
    """Return the id of a CRD's finding; both groups of PodGroups have the same plural."""
    spec = shipped["spec"]
    return f"crds.{spec['names']['plural']}{'-sigs' * (spec['group'] == GROUP_SIGS)}"


def crd(shipped: Object, served: frozenset[str], stored: Object | None) -> Finding:
    """Return whether a cluster has one of our CRDs, with all fields.

    `stored` is the CRD itself: None where there is none, empty where it cannot be read.
    """
    name, title, needed = crd_id(shipped), shipped["metadata"]["name"], stored_version(shipped)
    if stored is None:
        return failure(name, f"there is no CRD {title}", _APPLY)
    if needed not in served:
        there = ", ".join(sorted(served)) or "nothing"
        return failure(name, f"{title} is served in {there}, and {needed} is needed", _APPLY)
    if not stored:
        return ok(name, f"{title} {needed} is served")
    other = next((x["name"] for x in stored["spec"]["versions"] if x.get("storage")), "none")
    if other != needed:
        return failure(name, f"{title} is stored as {other}, not as {needed}", _APPLY)
    absent = missing(schema_of(shipped, needed), schema_of(stored, needed))
    if absent:
        shown = ", ".join(absent[:4]) + ", ..." * (len(absent) > 4)
        return failure(
            name,
            f"{title} is another CRD, or one of an older version: the API server drops {shown}",
            f"{_APPLY}, or {_BESIDE} where another controller owns it",
        )
    return ok(name, f"{title} {needed}")


def missing(ours: Schema, theirs: Schema, path: str = "") -> list[str]:
    """Return the paths of fields that a schema has and another one drops."""
    if theirs.get("x-kubernetes-preserve-unknown-fields"):
        return []
    absent: list[str] = []
    there = theirs.get("properties", {})
    for name, schema in ours.get("properties", {}).items():
        where = f"{path}.{name}" if path else name
        absent += missing(schema, there[name], where) if name in there else [where]
    for inside in ("items", "additionalProperties"):
        mine, other = ours.get(inside), theirs.get(inside)
        if isinstance(mine, dict) and isinstance(other, dict):
            absent += missing(mine, other, f"{path}[]")
    return absent


# --- what else is there, and what runs


def others(running: Mapping[str, str], *, queue: bool) -> Iterator[Finding]:
    """Yield whether other controllers run beside ours; `running` has their namespaces by name."""
    kueue, plugins = running.get(KUEUE), running.get(PLUGINS)
    if kueue is None:
        yield ok("others.kueue", "Kueue does not run here")
    elif not queue:
        yield ok("others.kueue", f"Kueue runs in {kueue}, and our queue is off")
    else:
        said = f"Kueue runs in {kueue}: both queues would admit the same jobs"
        mend = "apply overlays/beside-kueue, which runs the reconciler with --no-queue"
        yield failure("others.kueue", said, f"{mend}; {_BESIDE}")
    name, controller = "others.plugins", "the controller of scheduler-plugins"
    if plugins is None:
        yield ok(name, f"{controller} does not run here")
    else:
        said = f"{controller} runs in {plugins}: both write the status of PodGroups"
        mend = "scale it to 0, and take the coscheduling plugin out of kube-scheduler"
        yield failure(name, said, f"{mend}; {_BESIDE}")


def no_buffers() -> Finding:
    """Return that nothing shows an autoscaler which nodes are set aside, although it should."""
    return failure(
        "autoscalers.buffers",
        f"gang.publishKeptRoom is true, and no {BUFFERS}.{AUTOSCALING} {BUFFER_VERSION} are served",
        "install their CRD and let the autoscaler read them "
        "(docs/tasks/admin/clusters-that-grow.md), or set it to false",
    )


def beside_autoscaler(
    settings: Settings, bindings: Sequence[Object], waiting: Sequence[str]
) -> Iterator[Finding]:
    """Yield the settings with which gangs buy nodes in vain, or wait for nodes that nobody adds.

    `bindings` are those of MutatingAdmissionPolicies, `waiting` names the ClusterQueues whose
    workloads wait for room and ask for no node.
    """
    gang, see = settings.gang, "(docs/tasks/admin/clusters-that-grow.md)"
    if not any(each["spec"].get("policyName") == _GATE_POLICY for each in bindings):
        yield warning(
            "autoscalers.gate",
            "no policy gates the members of a gang: pods of an incomplete one buy nodes",
            f"kubectl apply -f manifests/optional/gang-gate-policy.yaml {see}",
        )
    if gang.ungate_when == "fits":
        yield warning(
            "autoscalers.ungate",
            "gang.ungateWhen is fits: no node is added for gated pods",
            f"set gang.ungateWhen to complete {see}",
        )
    if gang.aging_seconds and not gang.publish_kept_room:
        yield warning(
            "autoscalers.claims",
            f"gang.agingSeconds is {gang.aging_seconds:g}: an autoscaler takes nodes that are set "
            "aside for free ones, and adds none for the pods that are kept off",
            f"set gang.publishKeptRoom to true, or this to 0 {see}",
        )
    if not gang.growing:
        yield warning(
            "autoscalers.growing",
            "gang.growing is false: a gang that waits for nodes is called NeverFits",
            f"set gang.growing to true {see}",
        )
    if waiting:
        yield warning(
            "autoscalers.room",
            f"{', '.join(waiting)}: a job waits for room before it has pods, and no node is added",
            f"annotate them {REQUIRE_ROOM_ANNOTATION}: Provision {see}",
        )


def native(served: Sequence[str], half: Sequence[str], setting: str, *, cycles: bool) -> Finding:
    """Return who starts native groups, which are served in these versions.

    `half` are the kube-schedulers with half of the gates; `cycles` says whether kube-scheduler has
    written its condition to a group.
    """
    name, see = "others.native", "(docs/tasks/admin/native-gangs.md)"
    if not served:
        return ok(name, "Kubernetes' own gang scheduling is off")
    said = f"Kubernetes serves groups of pods itself ({', '.join(served)})"
    if half and setting != "extender":
        return failure(
            name,
            f"{said}, and {', '.join(half)} has the gate GenericWorkload without GangScheduling: "
            "it says that it schedules groups, and starts their pods one by one",
            f"set gang.native to extender, or turn GangScheduling on too {see}",
        )
    if setting == "extender" and cycles and not half:
        return failure(
            name,
            f"{said}, and kube-scheduler schedules them, but gang.native is extender",
            f"set gang.native to auto or scheduler {see}",
        )
    none = "and no PodGroup shows that kube-scheduler starts them as a whole"
    starts = "kube-scheduler starts them as a whole" if cycles else none
    return warning(
        name,
        f"{said}; gang.native is {setting}, {starts}",
        "give a pod either spec.schedulingGroup or our label: the label does not count where "
        f"kube-scheduler starts the group {see}",
    )


def _words(pod: Object) -> list[str]:
    return [
        word
        for container in pod["spec"]["containers"]
        for word in (*container.get("command", ()), *container.get("args", ()))
    ]


def has_half_of_the_gates(pod: Object) -> bool:
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


def unused_finding(kind: str, meta: Object, paths: Sequence[str], *, mend: str) -> Finding:
    """Return what of an object has no effect."""
    name = f"{meta['namespace']}/{meta['name']}" if meta.get("namespace") else meta["name"]
    return warning(f"queue.{kind}.{name}", f"{kind} {name}: {no_effect_sentence(paths)}", mend)


def lease(spec: Object | None, now: float, seconds: float) -> Finding:
    """Return whether a reconciler leads; `now` is the API server's time."""
    name = "reconciler.lease"
    mend = "kubectl -n gang-extender-system get pods, and look at the log of a replica"
    if spec is None:
        found = "no reconciler has led yet: no job is admitted, PodGroups get no status"
        return warning(name, found, "apply the manifests (docs/tasks/admin/install.md)")
    holder = spec.get("holderIdentity")
    age = now - datetime.fromisoformat(spec["renewTime"]).timestamp()
    if not holder:
        return failure(name, "no reconciler leads: the last one let the Lease go", mend)
    if age > (spec.get("leaseDurationSeconds") or seconds):
        found = f"{holder} renewed the Lease {age:.0f} s ago: no reconciler leads"
        return failure(name, found, mend)
    return ok(name, f"{holder} leads")


def untrusted(name: str) -> Finding:
    """Return that a webhook cannot be called."""
    return failure(
        name,
        "the API server has no certificate to trust for it, which the reconciler writes: every "
        "call fails",
        "start a reconciler, and look at its log",
    )


def _asked(document: object) -> tuple[dict[str, str], str, str]:
    """Return the tlsConfig and the URL of our entry in a file, and its first schedulerName."""
    tls: dict[str, str] = {}
    url, profile = "", DEFAULT_SCHEDULER
    if isinstance(document, dict):
        with suppress(TypeError, LookupError):
            profile = str(document["profiles"][0]["schedulerName"])
        with suppress(TypeError, LookupError, AttributeError):  # which the check of the file says
            entry = ours(entries(document))[0]
            url = entry.url
            tls = {name: value for name, value in entry.tls.items() if isinstance(value, str)}
    return tls, url, profile


def _object(group_version: str, kind: str, spec: object) -> dict[str, Any]:
    return {"apiVersion": group_version, "kind": kind, "metadata": {"name": _TRIED}, "spec": spec}


def _end(pem: bytes) -> float:
    """Return when a certificate ends, the first of a chain. Raises ValueError."""
    return x509.load_pem_x509_certificate(pem).not_valid_after_utc.timestamp()
