"""What is written into CRDs and webhook configurations, and what is left as it is."""

import base64
import json
from typing import Any

import pytest

from extender.kube.client import JSON, JSON_PATCH
from extender.kube.errors import ApiError, ForbiddenError, NotFoundError
from extender.kube.webhooks import OLDER_VERSIONS, Address, WebhookClients

CRD = "clusterqueues.kueue.x-k8s.io"
CRDS = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{CRD}"
CA = b"authority"
BUNDLE = base64.b64encode(CA).decode()
ADDRESS = Address("ns", "admission", "conversion")
SERVICE = {"namespace": "ns", "name": "conversion", "path": "/convert", "port": 443}
OURS = {
    "strategy": "Webhook",
    "webhook": {
        "clientConfig": {"service": SERVICE, "caBundle": BUNDLE},
        "conversionReviewVersions": ["v1"],
    },
}


class Server:
    """Stands for KubeClient: serves objects by path, keeps patches."""

    def __init__(self, objects: dict[str, Any], forbidden: bool = False) -> None:
        self.objects = objects
        self.forbidden = forbidden
        self.patches: list[tuple[str, Any]] = []

    async def request(
        self, method: str, path: str, *, body: bytes | None = None, content_type: str = JSON
    ) -> bytes:
        path = path.partition("?")[0]
        if path not in self.objects:
            raise NotFoundError(path, status=404)
        if method == "PATCH":
            if self.forbidden:
                raise ForbiddenError("may not", status=403)
            assert body is not None
            self.patches.append((content_type, json.loads(body)))
        return json.dumps(self.objects[path]).encode()


def crd(*served: bool, conversion: Any = None, **more: Any) -> dict[str, Any]:
    names = ("v1beta2", "v1beta1")
    versions = [
        {"name": name, "served": said, "storage": name == "v1beta2"}
        for name, said in zip(names, served, strict=True)
    ]
    return {
        "spec": {"versions": versions, "conversion": conversion or {"strategy": "None"}},
        **more,
    }


def clients(server: Server, *, serve: bool = True) -> WebhookClients:
    return WebhookClients(
        server,  # type: ignore[arg-type]
        ADDRESS,
        crds=[CRD],
        serve=[CRD] if serve else [],
        configuration="gang-queue",
    )


SERVE = [
    {"op": "test", "path": "/spec/versions/1/name", "value": "v1beta1"},
    {"op": "replace", "path": "/spec/versions/1/served", "value": True},
]
CONVERT = {"op": "add", "path": "/spec/conversion", "value": OURS}
MARK = {"op": "add", "path": "/metadata/annotations", "value": {OLDER_VERSIONS: "served"}}
MARK_TOO = {
    "op": "add",
    "path": "/metadata/annotations/scheduling.x-k8s.io~1older-versions",
    "value": "served",
}
MARKED = {"metadata": {"annotations": {OLDER_VERSIONS: "as-applied"}}}
CASES: dict[str, tuple[dict[str, Any], bool, list[Any]]] = {
    "seen for the first time": (crd(True, False), True, [CONVERT, *SERVE, MARK]),
    "beside other annotations": (
        crd(True, False, metadata={"annotations": {"a": "b"}}),
        True,
        [CONVERT, *SERVE, MARK_TOO],
    ),
    "served already": (crd(True, True, conversion=OURS), True, [MARK]),
    "seen before, and set back since": (crd(True, False, conversion=OURS, **MARKED), True, []),
    "seen before, without conversion": (crd(True, False, **MARKED), True, [CONVERT]),
    "not to be served": (crd(True, False), False, [CONVERT]),
}


@pytest.mark.parametrize(("found", "serve", "want"), CASES.values(), ids=CASES)
async def test_a_crd_gets_its_conversion_webhook_and_is_served_once(
    found: dict[str, Any], serve: bool, want: list[Any]
) -> None:
    server = Server({CRDS: found})
    news = await clients(server, serve=serve).publish(CA)

    assert server.patches == ([(JSON_PATCH, want)] if want else [])
    assert news is bool(want)


CONFIGURATION = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/gang-queue"
HOOK = {"service": {"namespace": "ns", "name": "admission", "path": "/mutate-job", "port": 443}}


async def test_webhooks_for_jobs_are_asked_by_the_other_service() -> None:
    server = Server({CONFIGURATION: {"webhooks": [{"name": "jobs", "clientConfig": HOOK}]}})
    assert await clients(server).publish(CA)

    [(_, patch)] = server.patches
    [webhook] = patch["webhooks"]
    assert webhook["clientConfig"]["service"]["name"] == "admission"
    assert webhook["clientConfig"]["caBundle"] == BUNDLE


async def test_conversion_does_not_wait_for_the_right_to_write_configurations() -> None:
    hooks = {"webhooks": [{"name": "jobs", "clientConfig": HOOK}]}
    server = Server({CONFIGURATION: hooks, CRDS: crd(True, True, conversion=OURS, **MARKED)})
    server.forbidden = True
    assert not await clients(server).publish(CA)

    server.objects[CRDS] = crd(True, True)
    with pytest.raises(ApiError):
        await clients(server).publish(CA)


async def test_what_is_stored_and_which_webhook_converts_it() -> None:
    stored = {"status": {"storedVersions": ["v1beta1", "v1beta2"]}}
    server = Server({CRDS: crd(True, False, **stored)})
    found = await clients(server).stored(CRD)
    assert found is not None
    assert (found.older, found.strategy, found.ours) == (("v1beta1",), "None", False)

    another = {"caBundle": "", "service": {**SERVICE, "name": "kueue-webhook-service"}}
    webhook = {"strategy": "Webhook", "webhook": {"clientConfig": another}}
    for conversion, ours in ((OURS, True), (webhook, False)):
        server.objects[CRDS] = crd(True, False, conversion=conversion, **stored)
        found = await clients(server).stored(CRD)
        assert found is not None
        assert (found.strategy, found.ours) == ("Webhook", ours)
    assert await clients(server).stored("workloads.kueue.x-k8s.io") is None
