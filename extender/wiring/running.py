"""Facts about what runs in a cluster: other controllers, the reconciler, webhooks, certificates."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from cryptography import x509

from extender.api.wellknown import (
    GROUP_NATIVE,
    NATIVE_SCHEDULED,
    QUEUE_API_VERSION,
    QUEUE_LABEL,
)
from extender.api.without_effect import fields_without_effect, names_without_effect
from extender.check import queued
from extender.check.facts import CertificateFacts, LeaseFacts, OtherFacts, Unknown, WebhookFacts
from extender.check.others import LOOKED_FOR
from extender.config import Settings
from extender.kube.certificates import CertificateSecret
from extender.kube.client import KubeClient
from extender.kube.credentials import CERTIFICATE
from extender.kube.errors import ApiError, ForbiddenError, NotFoundError
from extender.wiring.reading import ApiReader, known, together

_APPS: Final = "/apis/apps/v1/deployments?fieldSelector=metadata.name%3D"
_SCHEDULERS: Final = "/api/v1/namespaces/kube-system/pods?labelSelector=component%3Dkube-scheduler"
_GANGS: Final = GROUP_NATIVE
_CRD: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/clusterqueues.kueue.x-k8s.io"
_ADMISSION: Final = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
_TRIED: Final = "gang-extender-check"
"""The name of objects that are created with dryRun, and so never stored."""
_UNREACHED: Final = ("failed calling webhook", "conversion webhook for")
"""What the API server says where a webhook does not answer."""
_GATES_FLAG: Final = "--feature-gates"
_TRUE: Final = frozenset(("1", "t", "true"))
_RENEWAL: Final = "renew it (docs/operations.md, Credentials)"


def _key(meta: Mapping[str, Any]) -> str:
    return f"{meta['namespace']}/{meta['name']}" if meta.get("namespace") else str(meta["name"])


def _ignored_names(meta: Mapping[str, Any]) -> tuple[str, ...]:
    return names_without_effect(meta.get("labels") or (), meta.get("annotations") or ())


class RunningFacts:
    """Reads them through one client."""

    def __init__(self, client: KubeClient, settings: Settings) -> None:
        self._client = client
        self._reader = ApiReader(client)
        self._settings = settings

    async def others(self) -> OtherFacts:
        """Return what else runs. Raises ApiError."""
        lists = await together(self._reader.get(_APPS + name) for name in LOOKED_FOR)
        running = {
            each["metadata"]["name"]: each["metadata"]["namespace"]
            for found in lists
            for each in found["items"]
            if each["spec"].get("replicas", 1)
        }
        pods = (await self._reader.get(_SCHEDULERS))["items"]
        without = [pod["metadata"]["name"] for pod in pods if not _has_config(pod)]
        native = await self._native()
        cycles = await known(self._has_cycles(native[0])) if native else False
        return OtherFacts(
            running,
            native,
            without,
            native_cycles=cycles is True,
            native=self._settings.gang.native,
            half_gated=[pod["metadata"]["name"] for pod in pods if has_half_of_the_gates(pod)],
        )

    async def _has_cycles(self, version: str) -> bool:
        """Return whether kube-scheduler has written its condition to a native PodGroup."""
        found = await self._reader.get(f"/apis/{_GANGS}/{version}/podgroups?limit=500")
        return any(
            condition["type"] in NATIVE_SCHEDULED
            for each in found["items"]
            for condition in each.get("status", {}).get("conditions", ())
        )

    async def _native(self) -> list[str]:
        versions = [each["version"] for each in await self._versions()]
        paths = [f"/apis/{_GANGS}/{version}" for version in versions]
        lists = await together(self._reader.get(path) for path in paths)
        return [
            version
            for version, found in zip(versions, lists, strict=True)
            if any(each["name"] == "podgroups" for each in found["resources"])
        ]

    async def _versions(self) -> list[dict[str, str]]:
        found: list[dict[str, str]] = (await self._reader.get(f"/apis/{_GANGS}"))["versions"]
        return found

    async def without_effect(self) -> list[tuple[str, str, tuple[str, ...]]]:
        """Return the queue objects and jobs of which something has no effect. Raises ApiError."""
        group = f"/apis/{QUEUE_API_VERSION}"
        lists = await together(self._list(f"{group}/{plural}") for plural in queued.KINDS)
        found = [
            (kind, _key(each["metadata"]), (*unused, *_ignored_names(each["metadata"])))
            for kind, objects in zip(queued.KINDS.values(), lists, strict=True)
            for each in objects
            for unused in [fields_without_effect(kind, each.get("spec") or ())]
        ]
        chosen = f"?labelSelector={quote(QUEUE_LABEL)}&limit=500"
        paths = [f"/apis/{path}{chosen}" for path in queued.NOT_QUEUED.values()]
        jobs = await together(map(self._list, paths))
        for kind, objects in zip(queued.NOT_QUEUED, jobs, strict=True):
            found += [(kind, _key(each["metadata"]), (QUEUE_LABEL,)) for each in objects]
        return [each for each in found if each[-1]]

    async def _list(self, path: str) -> list[dict[str, Any]]:
        """Return the objects at a path, none where the API server does not know the kind."""
        try:
            found: list[dict[str, Any]] = (await self._reader.get(path))["items"]
        except NotFoundError:
            return []
        return found

    async def lease(self, now: float) -> LeaseFacts | None:
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

    async def webhooks(self) -> list[WebhookFacts]:
        """Return those that the API server is to call. Raises ApiError."""
        found = [await self._conversion(), await self._jobs()]
        return [each for each in found if each is not None]

    async def _conversion(self) -> WebhookFacts | None:
        try:
            crd = await self._reader.get(_CRD)
        except NotFoundError:
            return None
        conversion = crd["spec"].get("conversion", {})
        older = {each["name"] for each in crd["spec"]["versions"] if not each["storage"]}
        served = {each["name"] for each in crd["spec"]["versions"] if each["served"]} & older
        stored = older & {*crd["status"].get("storedVersions", ())}
        if conversion.get("strategy") != "Webhook" or not served | stored:
            return None
        config = conversion["webhook"].get("clientConfig", {})
        if not config.get("caBundle") or not served:
            return WebhookFacts("conversion", bool(config.get("caBundle")))
        version = f"kueue.x-k8s.io/{min(served)}"
        body = _object(version, "ClusterQueue", spec={})
        return WebhookFacts(
            "conversion",
            has_authority=True,
            trouble=await self._trouble(f"/apis/{version}/clusterqueues", body),
        )

    async def _jobs(self) -> WebhookFacts | None:
        name = self._settings.webhooks.configuration
        try:
            found = await self._reader.get(f"{_ADMISSION}/{name}")
        except NotFoundError:
            return None
        if not all(each["clientConfig"].get("caBundle") for each in found["webhooks"]):
            return WebhookFacts("jobs", has_authority=False)
        container = {"name": "none", "image": "none"}
        template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
        body = _object("batch/v1", "Job", spec={"template": template})
        body["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": _TRIED}
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

    async def certificates(self, of_scheduler: Mapping[str, Any]) -> list[CertificateFacts]:
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
        end = await known(self._of_webhooks())
        if end is not None:
            mend = "the reconciler renews it after two thirds of its life: see that one leads"
            found.append(CertificateFacts("webhooks", "the webhooks' certificate", end, mend))
        return [*found, *_of_scheduler(of_scheduler)]

    async def _of_webhooks(self) -> float | None:
        chosen = self._settings.webhooks
        secret = CertificateSecret(self._client, namespace=chosen.namespace, name=chosen.secret)
        kept = await secret.read()
        return _end(kept.certificate) if kept is not None else None


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
    words = _words(pod)
    flags = [word.partition("=")[2] for word in words if word.startswith(f"{_GATES_FLAG}=")]
    flags += [after for word, after in pairwise(words) if word == _GATES_FLAG]
    said = dict(gate.strip().split("=", 1) for flag in flags for gate in _gates(flag))
    on = {name for name, value in said.items() if value.strip().lower() in _TRUE}
    return "GenericWorkload" in on and "GangScheduling" not in on


def _gates(flag: str) -> list[str]:
    return [each for each in flag.strip("\"'").split(",") if "=" in each]


def _object(version: str, kind: str, spec: object) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": _TRIED}, "spec": spec}


def _of_scheduler(tls: Mapping[str, Any]) -> Iterator[CertificateFacts]:
    for name, field, title in (
        ("kube-scheduler", "certFile", "kube-scheduler's certificate for the extender"),
        ("extender-authority", "caFile", "the authority of the extender's certificate"),
    ):
        path = tls.get(field)
        if isinstance(path, str) and path:
            mend = "renew it, and restart kube-scheduler, which reads it at its start alone"
            yield CertificateFacts(name, f"{title} ({path})", _end_of(Path(path)), mend)


def _end_of(path: Path) -> float | Unknown:
    try:
        return _end(path.read_bytes())
    except (OSError, ValueError) as error:
        return Unknown(str(error))


def _end(pem: bytes) -> float:
    """Return when a certificate ends, the first of a chain. Raises ValueError."""
    return x509.load_pem_x509_certificate(pem).not_valid_after_utc.timestamp()


def of_samples(name: str, samples: object) -> Iterator[CertificateFacts]:
    """Yield what an extender says of its own certificates."""
    if not isinstance(samples, (list, tuple)):
        return
    for metric, label in (
        ("gang_extender_credential_end_timestamp_seconds", "credential"),
        ("gang_extender_certificate_end_timestamp_seconds", "certificate"),
    ):
        for each in samples:
            if each.name == metric:
                what = each.labels.get(label, "")
                yield CertificateFacts(
                    f"{name}-{what.replace('_', '-')}",
                    f"the {name}'s {what.replace('_', ' ')}",
                    each.value,
                    _RENEWAL,
                    is_brief=what == "token",
                )
