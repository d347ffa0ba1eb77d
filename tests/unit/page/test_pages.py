"""Each page is made of what the cluster has, for one who sees all and for a tenant."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import cache
from types import SimpleNamespace
from typing import Any, cast

import httpx
import pytest
from fastapi import FastAPI
from nicegui import Client, ui
from starlette.types import Receive, Scope, Send

from extender.config.settings import Settings
from extender.kube.client import KubeClient
from extender.state.queue import events as qv
from extender.state.queue.records import NamespaceInfo, OwnerRef
from gang_tools.page import views
from gang_tools.page.access import Viewer
from gang_tools.page.asking import Asking
from gang_tools.page.following import FollowedCluster
from gang_tools.page.pages import add_pages
from gang_tools.page.showing import Showing
from tests.makers import NAMESPACE, ManualClock, nodes, observe, pod, pod_group
from tests.queue_makers import cluster_queue, flavor, local_queue, meta, workload
from tests.unit.explain.scene import holding

ANN, BOB = Viewer("ann"), Viewer("bob", frozenset({"elsewhere"}))
"""A viewer who sees everything, and a tenant of another namespace."""


@cache
def shown() -> FastAPI:
    """Return the pages about two jobs, of which one waits, and a gang."""
    clock = ManualClock()
    followed = FollowedCluster(Settings(), cast("KubeClient", None), clock)
    members = [pod(f"m-{number}", 2, group="gang", on="n1") for number in range(2)]
    observe(followed._cluster, nodes(8, 8), pod_group("gang", 2), members)
    queue = NamespaceInfo(NAMESPACE), flavor(), cluster_queue("cq", 4), local_queue()
    twice = [
        workload(f"{kind}-twice", 9, owners=(OwnerRef(version, kind, "twice", kind),))
        for kind, version in (("Job", "batch/v1"), ("JobSet", "jobset.x-k8s.io/v1alpha2"))
    ]
    own = replace(local_queue(), meta=meta(local_queue().meta.name, "own"))
    quiet, secret = (replace(own, meta=meta("main", each)) for each in ("quiet", "secret"))
    others = NamespaceInfo("own"), own, quiet, secret, workload("mine", 9, meta=meta("mine", "own"))
    foreign = cluster_queue("other", 4), local_queue("other"), workload("foreign", 9, "other")
    for fact in (*queue, holding("holder", 4), workload("waits", 1), *others, *foreign):
        followed._queues.apply(qv.Applied(fact))
    for each in twice:
        followed._queues.apply(qv.Applied(each))
    app = FastAPI()
    app.state.showing = Showing(followed, clock)
    ui.run_with(app, show_welcome_message=False)
    add_pages(app.state.showing, followed, Asking(followed, clock))
    return app


@asynccontextmanager
async def opened(viewer: Viewer) -> AsyncIterator[httpx.AsyncClient]:
    """Return a browser without scripts."""
    app = shown()

    async def door(scope: Scope, receive: Receive, send: Send) -> None:
        await app({**scope, "viewer": viewer}, receive, send)

    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(door)
        async with httpx.AsyncClient(transport=transport, base_url="http://page") as browser:
            yield browser
        for page in [*Client.instances.values()]:
            page.delete()


async def page_of(browser: httpx.AsyncClient, path: str) -> Client:
    """Return the page at a path, before a socket is there."""
    before = {*Client.instances}
    answer = await browser.get(path)
    assert answer.status_code == 200
    [name] = Client.instances.keys() - before
    return Client.instances[name]


def content(page: Client) -> str:
    """Return all that a browser is sent of a page."""
    sent = [each._to_dict() for each in page.elements.values()]
    return json.dumps(sent, default=str, ensure_ascii=False)


async def connected(page: Client) -> str:
    """Return what a page shows once its socket is there."""
    await page.handle_handshake("test-socket", "tab", None, "document", 0)
    return content(page)


@pytest.mark.parametrize(
    ("path", "has"),
    [
        ("/queues", "4 of 4"),
        ("/queues?queue=cq&text=wai", "ns/waits"),
        ("/queues?queue=cq", "/workload/ns/holder"),
        ("/gangs", "/gang/ns/gang"),
        ("/nodes?resource=nonsense", "ns/gang"),
        ("/what-if", "What if this job came now?"),
        ("/time", "gangs that are partial now"),
        ("/workload/ns/waits", "kubectl describe workload waits -n ns"),
        ("/gang/ns/gang", "Gates before it starts"),
        ("/gang/ns/none", "There is no gang ns/none"),
    ],
)
async def test_a_page_shows_what_there_is_and_none_of_it_to_a_tenant(path: str, has: str) -> None:
    async with opened(ANN) as browser:
        assert has in await connected(await page_of(browser, path))
    async with opened(BOB) as browser:
        seen = await connected(await page_of(browser, path))
    for secret in ("ns/waits", "ns/holder", "ns/gang", "m-0", "kubectl describe"):
        assert secret in path or secret not in seen


async def test_a_story_says_when_a_workload_starts_if_that_is_known_while_it_waits() -> None:
    followed = shown().state.showing._followed
    async with opened(ANN) as browser:
        for start, says in ((90, "1970-01-01 00:01:30 UTC"), (None, "never")):
            followed.expect({"ns/waits": start, "ns/holder": start})
            seen = await connected(await page_of(browser, "/workload/ns/waits"))
            assert says in seen
            assert "jobs of unknown run time run forever" in seen
            of_holder = await connected(await page_of(browser, "/workload/ns/holder"))
            assert "Starts at the earliest" not in of_holder
        followed.expect({})
        assert "Starts at" not in await connected(await page_of(browser, "/workload/ns/waits"))


@pytest.mark.parametrize(
    ("path", "made"),
    [
        ("/queues", {"queues"}),
        ("/queues?queue=cq", {"queues", "holders"}),
        ("/gangs", {"gangs"}),
        ("/nodes", {"nodes"}),
        ("/gang/ns/gang", {"gang"}),
    ],
)
async def test_nothing_is_made_for_a_page_before_its_socket_is_there_or_kept_after_it(
    path: str, made: set[str]
) -> None:
    async with opened(ANN) as browser:
        page = await page_of(browser, path)
        showing = shown().state.showing
        assert (showing._made, showing._drawn) == ({}, {})
        empty = len(content(page))
        assert len(await connected(page)) > empty
        assert {view[0] for view in showing._made} == made
        page.delete()
        assert (showing._made, showing._last, showing._drawn) == ({}, {}, {})


async def test_a_page_whose_view_fails_says_so_and_goes_on_once_it_can() -> None:
    async with opened(ANN) as browser:
        page = await page_of(browser, "/queues")
        showing = shown().state.showing
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(showing, "_make", lambda _: 1 / 0)
            assert (await connected(page)).count('"bad", "hidden"') == 1  # of trouble
        showing._followed.notice()
        for key in [*showing._drawn]:
            await showing._refresh(key, told=False)
        assert content(page).count('"bad", "hidden"') == 2
        assert "ns/waits" in content(page)


async def test_jobs_of_one_name_and_several_kinds_have_one_page() -> None:
    async with opened(ANN) as browser:
        seen = await connected(await page_of(browser, "/workload/ns/twice"))
    assert "explain job twice -n ns --kind Job" in seen


def rows_of(page: Client) -> list[dict[str, Any]]:
    """Return the rows of the first table of a page."""
    return next(each.rows for each in page.elements.values() if isinstance(each, ui.table))


@pytest.mark.parametrize(
    ("query", "queues"),
    [
        ("", ["cq", "other"]),
        ("?queue=cq", ["cq"]),
        ("?queue=nothing", []),
        ("?namespace=own", ["cq"]),
        ("?namespace=quiet", ["cq"]),  # nothing waits there
        ("?namespace=secret", []),
        ("?text=mine", ["cq"]),
        ("?text=OTH", ["other"]),
        ("?text=nothing", []),
    ],
)
async def test_the_queues_are_those_of_what_is_chosen(query: str, queues: list[str]) -> None:
    async with opened(Viewer("cid", frozenset({"own", "quiet"}))) as browser:
        page = await page_of(browser, f"/queues{query}")
        await connected(page)
        assert [row["name"] for row in rows_of(page)] == queues


@pytest.mark.parametrize(("query", "others"), [("", 5), ("?queue=cq", 4), ("?queue=other", 1)])
async def test_others_are_counted_in_the_chosen_queue(query: str, others: int) -> None:
    async with opened(BOB) as browser:
        seen = await connected(await page_of(browser, f"/queues{query}"))
    assert f"{others} more are in other namespaces." in seen


@pytest.mark.parametrize(
    ("query", "there"),
    [
        ("", True),
        ("?namespace=ns", True),
        ("?namespace=own", False),
        ("?text=other", False),
        ("?queue=cq", False),
    ],
)
async def test_gangs_are_chosen_by_namespace_queue_and_text(query: str, *, there: bool) -> None:
    async with opened(ANN) as browser:
        seen = await connected(await page_of(browser, f"/gangs{query}"))
    assert ("/gang/ns/gang" in seen) == there


async def test_the_nodes_of_a_chosen_gang_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "_TILES", 1)
    async with opened(ANN) as browser:
        for query, first in (("", "n0"), ("?gang=ns/gang", "n1")):
            page = await page_of(browser, f"/nodes{query}")
            await connected(page)
            assert rows_of(page)[0]["nodes"][0]["name"] == first
        assert "ns/none has no node" in await connected(
            await page_of(browser, "/nodes?gang=ns/none")
        )


async def test_the_first_page_has_queues_where_there_are_some(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with opened(ANN) as browser:
        assert (await browser.get("/")).headers["location"] == "/queues"
        none = SimpleNamespace(cluster_queues={}, workloads={})
        monkeypatch.setattr(shown().state.showing._followed, "queues", none)
        assert (await browser.get("/")).headers["location"] == "/gangs"
        answer = await browser.get("/find", params={"name": "many"})
        assert answer.headers["location"] == "/gangs?text=many"


@pytest.mark.parametrize(
    ("viewer", "name", "leads"),
    [
        (ANN, "ns/gang", "/gang/ns/gang"),
        (BOB, "ns/gang", "/workload/ns/gang"),
        (ANN, "gang", "/gang/ns/gang"),
        (BOB, "gang", "/queues?text=gang"),
        (ANN, "mine", "/workload/own/mine"),
        (ANN, "ns", "/queues?text=ns"),
        (ANN, "a/b/c", "/queues?text=a%2Fb%2Fc"),
    ],
)
async def test_a_name_leads_to_its_page(viewer: Viewer, name: str, leads: str) -> None:
    async with opened(viewer) as browser:
        answer = await browser.get("/find", params={"name": name})
    assert answer.headers["location"] == leads
