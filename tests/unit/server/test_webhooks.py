"""The HTTP side of the webhooks."""

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from extender.jobs.registry import builtin
from extender.server.webhooks import webhooks_app
from extender.webhooks.jobs import by_kind
from tests.job_rules import Said

CONVERSION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "ConversionReview",
    "request": {"uid": "7", "desiredAPIVersion": "kueue.x-k8s.io/v1beta2", "objects": []},
}


class Nothing:
    def has_local_queue(self, namespace: str, name: str) -> bool:
        return False

    def holds_all(self, namespace: str) -> bool:
        return False


def review(job: Any) -> dict[str, Any]:
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "42",
            "operation": "CREATE",
            "kind": {"group": "batch", "version": "v1", "kind": "Job"},
            "namespace": "default",
            "object": job,
            "oldObject": None,
        },
    }


class Server:
    def __init__(self) -> None:
        self.ready = True
        app = webhooks_app(by_kind(builtin().values()), Nothing(), ready=lambda: self.ready)
        transport = httpx.ASGITransport(app)
        self.client = httpx.AsyncClient(transport=transport, base_url="https://hooks")

    async def post(self, path: str, body: Any) -> httpx.Response:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return await self.client.post(path, content=content)


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    server = Server()
    yield server
    await server.client.aclose()


async def test_each_webhook_answers(server: Server) -> None:
    mutated = await server.post("/mutate-job", review(Said(spec={"suspend": False}).job()))
    validated = await server.post("/validate-job", review(Said(queue="Bad").job()))
    converted = await server.post("/convert", CONVERSION)

    assert mutated.json()["response"]["patchType"] == "JSONPatch"
    assert validated.json()["response"]["allowed"] is False
    want = {"uid": "7", "convertedObjects": [], "result": {"status": "Success"}}
    assert converted.json()["response"] == want
    assert {each.headers["content-type"] for each in (mutated, validated, converted)} == {
        "application/json"
    }


async def test_jobs_wait_for_the_queues_to_be_known_and_conversion_does_not(
    server: Server,
) -> None:
    server.ready = False

    for path in ("/mutate-job", "/validate-job"):
        assert (await server.post(path, review(Said().job()))).status_code == 503
    assert (await server.post("/convert", CONVERSION)).status_code == 200


@pytest.mark.parametrize("path", ["/mutate-job", "/validate-job", "/convert"])
@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff", b"{}", b'{"kind": "Other"}'])
async def test_what_is_no_review_is_a_bad_request(server: Server, path: str, body: bytes) -> None:
    assert (await server.post(path, body)).status_code == 400


async def test_a_review_that_is_too_large_is_not_read(server: Server) -> None:
    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b" " * 2**20

    answer = await server.client.post("/mutate-job", content=endless())

    assert answer.status_code == 413
