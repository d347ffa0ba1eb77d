"""Each page is made of what the cluster has, for one who sees all and for a tenant."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from typing import cast

import httpx
import pytest
from fastapi import FastAPI
from nicegui import ui
from starlette.types import Receive, Scope, Send

from extender.config.settings import Settings
from extender.kube.client import KubeClient
from extender.state.queue import events as qv
from extender.state.queue.records import NamespaceInfo
from gang_tools.page.access import Viewer
from gang_tools.page.asking import Asking
from gang_tools.page.following import FollowedCluster
from gang_tools.page.pages import add_pages
from gang_tools.page.showing import Showing
from tests.makers import NAMESPACE, ManualClock, nodes, observe, pod, pod_group
from tests.queue_makers import cluster_queue, flavor, local_queue, workload
from tests.unit.explain.scene import holding

ANN, BOB = Viewer("ann"), Viewer("bob", frozenset({"elsewhere"}))
"""One who sees all, and a tenant of another namespace."""


@cache
def shown() -> FastAPI:
    """Return the pages about two jobs, of which one waits, and a gang."""
    clock = ManualClock()
    followed = FollowedCluster(Settings(), cast("KubeClient", None), clock)
    members = [pod(f"m-{number}", 2, group="gang", on="n0") for number in range(2)]
    observe(followed._cluster, nodes(8), pod_group("gang", 2), members)
    queue = NamespaceInfo(NAMESPACE), flavor(), cluster_queue("cq", 4), local_queue()
    for fact in (*queue, holding("holder", 4), workload("waits", 1)):
        followed._queues.apply(qv.Applied(fact))
    app = FastAPI()
    ui.run_with(app, show_welcome_message=False)
    add_pages(Showing(followed, clock), followed, Asking(followed, clock))
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


@pytest.mark.parametrize(
    ("path", "has"),
    [
        ("/queues", "4 of 4"),
        ("/queues?queue=cq&text=wai", "ns/waits"),
        ("/gangs", "/gang/ns/gang"),
        ("/nodes?resource=nonsense", "cpu in all"),
        ("/what-if", "What if this job came now?"),
        ("/time", "gangs that are partial now"),
        ("/workload/ns/waits", "kubectl describe workload waits -n ns"),
        ("/gang/ns/gang", "Gates before it starts"),
        ("/gang/ns/none", "There is no gang ns/none"),
    ],
)
async def test_a_page_shows_what_there_is_and_none_of_it_to_a_tenant(path: str, has: str) -> None:
    async with opened(ANN) as browser:
        answer = await browser.get(path)
    assert (answer.status_code, has in answer.text) == (200, True)
    async with opened(BOB) as browser:
        answer = await browser.get(path)
    assert answer.status_code == 200
    for secret in ("ns/waits", "m-0", "kubectl describe"):
        assert secret in path or secret not in answer.text


@pytest.mark.parametrize(
    ("viewer", "name", "leads"),
    [
        (ANN, "ns/gang", "/gang/ns/gang"),
        (BOB, "ns/gang", "/workload/ns/gang"),
        (ANN, "ns", "/queues?namespace=ns"),
    ],
)
async def test_a_name_leads_to_its_page(viewer: Viewer, name: str, leads: str) -> None:
    async with opened(viewer) as browser:
        answer = await browser.get("/find", params={"name": name})
    assert answer.headers["location"] == leads
