"""The HTTP side of the webhooks."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from extender.jobs.registry import builtin
from extender.server import webhooks
from extender.server.webhooks import LARGEST_REVIEW, MOST_BYTES, MOST_VALUES, webhooks_app
from extender.webhooks.jobs import by_kind
from tests.job_rules import Said

CONVERSION: dict[str, Any] = {
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
    assert validated.json()["response"]["allowed"] is True
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


@pytest.mark.parametrize("path", ["/mutate-job", "/validate-job", "/convert"])
async def test_a_review_that_is_too_large_is_not_read(server: Server, path: str) -> None:
    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b" " * 2**20

    answer = await server.client.post(path, content=endless())

    assert answer.status_code == 413


async def test_reviews_that_are_large_together_wait_for_the_next_try(server: Server) -> None:
    """Bodies are kept until they are answered: so many at one time, whichever client sends them."""
    go_on = asyncio.Event()

    async def slow() -> AsyncIterator[bytes]:
        for _ in range(LARGEST_REVIEW // 2**20):
            yield b" " * 2**20
        await go_on.wait()

    async with asyncio.TaskGroup() as tasks:
        slow_ones = [
            tasks.create_task(server.client.post("/convert", content=slow()))
            for _ in range(MOST_BYTES // LARGEST_REVIEW + 1)
        ]
        done, _ = await asyncio.wait(slow_ones, return_when=asyncio.FIRST_COMPLETED)
        assert [task.result().status_code for task in done] == [503]
        go_on.set()

    assert sorted(task.result().status_code for task in slow_ones)[:-1] == [400] * (
        MOST_BYTES // LARGEST_REVIEW
    )
    assert (await server.post("/convert", CONVERSION)).status_code == 200


async def test_a_review_of_too_many_values_is_refused(server: Server) -> None:
    job = Said().job() | {"many": [[]] * MOST_VALUES}

    assert (await server.post("/validate-job", review(job))).status_code == 413


async def test_others_have_their_turn_while_a_long_list_is_converted(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With slices of no length each object is one."""
    monkeypatch.setattr(webhooks, "SLICE_SECONDS", -1.0)
    each = {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "Cohort", "metadata": {"name": "a"}}
    asked = {**CONVERSION, "request": {**CONVERSION["request"], "objects": [each] * 500}}
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as tasks:
        counting = tasks.create_task(count())
        answer = await server.post("/convert", asked)
        counting.cancel()

    assert len(answer.json()["response"]["convertedObjects"]) == 500
    assert turns >= 500
