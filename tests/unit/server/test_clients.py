"""Which clients may ask for what."""

from typing import Any

import httpx
import pytest

from extender.server.connections import names_of
from extender.server.tls import NamedClients

NAME = "system:kube-scheduler"


def certificate(common_name: str, *names: tuple[str, str]) -> dict[str, Any]:
    subject = ((("organizationName", "o"),), (("commonName", common_name),))
    return {"subject": subject, "subjectAltName": names}


@pytest.mark.parametrize(
    ("shown", "want"),
    [
        (None, set()),
        ({}, set()),
        (certificate(NAME), {NAME}),
        (certificate("a", ("DNS", "b"), ("URI", "spiffe://c")), {"a", "b", "spiffe://c"}),
        (certificate("a", ("IP Address", "127.0.0.1"), ("email", "x@y")), {"a"}),
    ],
)
def test_the_names_of_a_certificate(shown: Any, want: set[str]) -> None:
    assert names_of(shown) == want


async def answer(names: set[str], method: str, path: str) -> httpx.Response:
    async def inner(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"in"})

    guarded = NamedClients(inner, [NAME, "other"])

    async def app(scope: Any, receive: Any, send: Any) -> None:
        scope["state"] = {"client_names": frozenset(names)}
        await guarded(scope, receive, send)

    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="https://x") as client:
        return await client.request(method, path)


@pytest.mark.parametrize(
    "path", ["/filter", "/prioritize", "/preempt", "/bind", "/podgroups", "/podgroups/a/b", "/"]
)
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_only_named_clients_reach_what_is_not_open(method: str, path: str) -> None:
    for names in (set[str](), {"system:node:n0"}, {"SYSTEM:KUBE-SCHEDULER"}):
        refused = await answer(names, method, path)
        assert refused.status_code == 403
        assert refused.headers["connection"] == "close"
        assert "listen.tls.clientNames" in refused.text
    assert (await answer({"a", NAME}, method, path)).text == "in"


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/metrics", "/openapi.json"])
async def test_what_only_reads_is_open_to_all_clients_of_the_authority(path: str) -> None:
    assert (await answer({"prometheus"}, "GET", path)).text == "in"


async def test_the_refusal_says_which_names_were_shown() -> None:
    assert "(a, b)" in (await answer({"b", "a"}, "POST", "/bind")).text
    assert "(none)" in (await answer(set(), "POST", "/bind")).text
