"""Requests that are none, caches that are not filled, and the pages for people."""

import asyncio
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from tests.protocol.service import FORMS, SMALL_BODY, VERBS, Service, recorded
from tests.recount import check_tables

BAD_BODIES: dict[str, bytes] = {
    "nothing": b"",
    "half an object": b'{"Pod": {',
    "no JSON": b"<html></html>",
    "not UTF-8": b'{"Pod": "\xff\xfe"}',
    "an array": b"[]",
    "null": b"null",
    "text": b'"Pod"',
    "a number": b"7",
    "an empty object": b"{}",
    "a pod that is null": b'{"Pod": null, "PodName": null}',
    "a pod that is text": b'{"Pod": "x", "PodName": 1}',
    "a pod that is an array": b'{"Pod": [], "PodName": []}',
    "metadata that is an array": b'{"Pod": {"metadata": []}, "PodName": {}}',
    "labels that are numbers": b'{"Pod": {"metadata": {"labels": {"a": 1}}}, "PodUID": 7}',
    "a very deep nesting": b'{"Pod": ' + b"[" * 20_000 + b"]" * 20_000 + b"}",
    "two objects": b"{}{}",
}


@pytest.mark.parametrize("body", BAD_BODIES.values(), ids=BAD_BODIES)
@pytest.mark.parametrize("verb", VERBS)
async def test_what_cannot_be_read_is_an_error_and_changes_nothing(
    service: Service, verb: str, body: bytes
) -> None:
    before = service.state()

    answer = await service.ask(verb, body)

    assert list(answer) == ["Error"]
    assert answer["Error"].startswith(f"{verb}: ")
    assert "%" not in answer["Error"]
    assert service.state() == before
    assert service.scene.binder.calls == []


@pytest.mark.parametrize("body", [body for why, body in BAD_BODIES.items() if "deep" not in why])
async def test_the_error_says_what_is_wrong_with_the_request(service: Service, body: bytes) -> None:
    answer = await service.ask("filter", body)

    assert "internal error" not in answer["Error"]


@pytest.mark.parametrize("names", ['"node-0"', "{}", "7", "[1]", '[["node-0"]]'])
async def test_node_names_that_are_none_are_an_error(service: Service, names: str) -> None:
    """without a plan anywhere a plain pod's NodeNames are sent back unread."""
    pod = {"metadata": {"name": "p", "namespace": "ns", "uid": "p"}}

    answer = await service.ask(
        "filter", f'{{"Pod": {json.dumps(pod)}, "Nodes": null, "NodeNames": {names}}}'.encode()
    )

    assert list(answer) == ["Error"]


@pytest.mark.parametrize("verb", VERBS)
async def test_a_body_over_the_limit_is_an_error(service: Service, verb: str) -> None:
    answer = await service.ask(verb, b" " * (SMALL_BODY + 1))

    size = SMALL_BODY + 1
    want = f"{verb}: the body of {size} bytes is over the limit of {SMALL_BODY}"
    assert answer == {"Error": want}


async def test_a_body_of_unknown_length_over_the_limit_is_an_error(service: Service) -> None:
    async def chunks() -> Any:
        for _ in range(5):
            yield b" " * (SMALL_BODY // 4)

    answer = await service.http.post("/filter", content=chunks())

    assert answer.status_code == 200
    assert "over the limit" in answer.json()["Error"]


async def test_a_body_at_the_limit_is_read(service: Service) -> None:
    body = json.dumps(recorded("names", "filter")).encode()

    answer = await service.ask("filter", body + b" " * (SMALL_BODY - len(body)))

    assert answer["Error"] == ""


@pytest.mark.parametrize("verb", VERBS)
async def test_nothing_is_answered_before_the_caches_are_filled(
    service: Service, verb: str
) -> None:
    service.synced = False
    before = service.state()

    answer = await service.post(verb, recorded("names", verb))

    assert answer.json() == {"Error": f"{verb}: the extender has not seen the whole cluster yet"}
    # An answer of preempt has no field for an error: without one it would be "no victims".
    assert answer.status_code == (503 if verb == "preempt" else 200)
    assert service.state() == before
    assert service.scene.binder.calls == []


async def test_no_victim_is_chosen_while_a_watch_is_stale(service: Service) -> None:
    service.problems["pods"] = "nothing heard for 200 s, the limit is 120 s"

    answer = await service.post("preempt", recorded("names", "preempt"))

    assert answer.status_code == 503
    assert "nothing heard" in answer.json()["Error"]
    assert "Error" not in await service.ask("prioritize", recorded("names", "prioritize"))


async def test_readyz_names_the_cache_that_is_empty(service: Service) -> None:
    ready = await service.http.get("/readyz")
    service.problems["nodes"] = "not listed yet"
    not_ready = await service.http.get("/readyz")

    assert (ready.status_code, not_ready.status_code) == (200, 503)
    assert ready.text == "[+]pods\n[+]nodes\n[+]podgroups.scheduling.x-k8s.io\n"
    assert not_ready.text == "[+]pods\n[-]nodes: not listed yet\n[+]podgroups.scheduling.x-k8s.io\n"


async def test_livez_does_not_wait_for_caches(service: Service) -> None:
    service.synced = False

    assert (await service.http.get("/livez")).status_code == 200


@pytest.mark.parametrize("verb", VERBS)
async def test_verbs_are_only_for_post(service: Service, verb: str) -> None:
    assert (await service.http.get(f"/{verb}")).status_code == 405


WANT_MODELS = {
    "filter": ({"Pod", "Nodes", "NodeNames"}, "FilterResult"),
    "prioritize": ({"Pod", "Nodes", "NodeNames"}, "HostPriority"),
    "preempt": ({"Pod", "NodeNameToVictims", "NodeNameToMetaVictims"}, "PreemptionResult"),
    "bind": ({"PodName", "PodNamespace", "PodUID", "Node"}, "BindingResult"),
}


async def test_the_openapi_document_has_the_verbs_with_their_models(service: Service) -> None:
    document = (await service.http.get("/openapi.json")).json()

    for verb, (want_fields, want_result) in WANT_MODELS.items():
        operation = document["paths"][f"/{verb}"]["post"]
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        assert set(schema["properties"]) == want_fields
        result = json.dumps(operation["responses"]["200"])
        assert f"#/components/schemas/{want_result}" in result
    assert {"/livez", "/readyz", "/metrics"} < set(document["paths"])


async def test_metrics_can_be_parsed_and_count_what_happened(service: Service) -> None:
    await service.ask("filter", recorded("names", "filter"))
    await service.ask("bind", recorded("names", "bind"))
    await service.ask("filter", b"{")
    page = await service.http.get("/metrics")

    samples = {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(page.text)
        for sample in family.samples
    }
    decisions = "gang_extender_decisions_total"
    not_found = (("reason", "PodGroupNotFound"), ("verb", "filter"))
    assert samples[decisions, not_found] == 1
    assert samples[decisions, (("reason", "Error"), ("verb", "filter"))] == 1
    assert page.headers["content-type"].startswith("text/plain; version=0.0.4")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda part: (
        st.lists(part, max_size=3) | st.dictionaries(st.text(max_size=8), part, max_size=3)
    ),
    max_leaves=8,
)


def mutate(draw: st.DrawFn, part: Any) -> None:
    """Replace or drop something somewhere in a document."""
    name: Any = None
    while isinstance(part, dict | list) and part:
        keys = list(part) if isinstance(part, dict) else list(range(len(part)))
        name = draw(st.sampled_from(keys))
        if draw(st.booleans()) or not isinstance(part[name], dict | list):
            break
        part = part[name]
    else:
        return
    if draw(st.booleans()):
        part[name] = draw(JSON)
    else:
        del part[name]


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """Return a recorded request with some of its parts replaced, dropped or cut off."""
    verb, form = draw(st.sampled_from(VERBS)), draw(st.sampled_from(FORMS))
    document: Any = recorded(form, verb)
    for _ in range(draw(st.integers(0, 3))):
        mutate(draw, document)
    body = json.dumps(document).encode()
    return body[: draw(st.integers(0, len(body)))] if draw(st.integers(0, 5)) == 0 else body


BODIES = st.binary(max_size=64) | JSON.map(lambda value: json.dumps(value).encode()) | mutated()


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.sampled_from(VERBS), st.lists(BODIES, min_size=1, max_size=3))
def test_no_body_makes_the_service_fail(verb: str, bodies: list[bytes]) -> None:
    async def run() -> None:
        service = Service()
        async with service.http:
            for body in bodies:
                async with asyncio.timeout(60):
                    answer = await service.ask(verb, body)
                assert isinstance(answer, dict | list)
                if isinstance(answer, dict) and answer.get("Error"):
                    assert "internal error" not in answer["Error"], body
                if verb == "filter" and answer.get("NodeNames"):
                    sent = json.loads(body)["NodeNames"]
                    assert set(map(str, answer["NodeNames"])) <= set(map(str, sent))
                check_tables(service.scene.cluster)

    asyncio.run(run())
