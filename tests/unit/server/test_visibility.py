"""What is served of the queue by a replica that leads, and by one that does not."""

from collections.abc import Callable

import httpx
import pytest
from fastapi import FastAPI

from extender.explain.view import View
from extender.runtime.pacer import Pacer
from extender.server.status import add_statuses
from extender.server.visibility import Visibility, add_visibility
from tests.makers import ManualClock
from tests.queue_makers import Admissions, cluster_queue, local_queue, workload
from tests.unit.explain.scene import view

PATHS = (
    "/clusterqueues/cq/pendingworkloads",
    "/localqueues/ns/cq/pendingworkloads",
    "/workloads/ns/waits/explanation",
)
PREFIX = "/apis/visibility.kueue.x-k8s.io/v1beta2"


def serve(seen: Callable[[], View | None], leader: str | None = None) -> httpx.AsyncClient:
    app = FastAPI()
    add_statuses(app)
    add_visibility(app, Visibility(seen, lambda: leader, Pacer(ManualClock())))
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://any")


@pytest.fixture
def leads() -> httpx.AsyncClient:
    queues = Admissions(cluster_queue(cpu=0), local_queue())
    queues.put(workload("waits", 1))
    return serve(lambda: view(queues))


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("leader", ["host_1", None])
async def test_another_replica_says_who_leads(path: str, leader: str | None) -> None:
    answer = await serve(lambda: None, leader).get(path)

    assert answer.status_code == 503
    told = answer.json()
    assert (told["kind"], told["reason"], told["code"]) == ("Status", "ServiceUnavailable", 503)
    assert (leader or "nobody") in told["message"]


@pytest.mark.parametrize(
    ("short", "whole"),
    [
        (PATHS[0], f"{PREFIX}/clusterqueues/cq/pendingworkloads"),
        (PATHS[1], f"{PREFIX}/namespaces/ns/localqueues/cq/pendingworkloads"),
        (PATHS[2], f"{PREFIX}/namespaces/ns/workloads/waits/explanation"),
    ],
)
async def test_both_paths_say_the_same(leads: httpx.AsyncClient, short: str, whole: str) -> None:
    answers = [await leads.get(path) for path in (short, whole)]

    assert [answer.status_code for answer in answers] == [200, 200]
    assert answers[0].json() == answers[1].json()


async def test_fields_are_named_as_the_api_names_them(leads: httpx.AsyncClient) -> None:
    [item] = (await leads.get(PATHS[0])).json()["items"]

    assert set(item) == {
        "metadata",
        "priority",
        "localQueueName",
        "positionInClusterQueue",
        "positionInLocalQueue",
        "reason",
        "message",
        "waitingFor",
    }


@pytest.mark.parametrize(
    "path", [path.replace("cq", "no").replace("waits", "no") for path in PATHS]
)
async def test_what_is_not_there(leads: httpx.AsyncClient, path: str) -> None:
    answer = await leads.get(path)

    assert (answer.status_code, answer.json()["reason"]) == (404, "NotFound")


@pytest.mark.parametrize("query", ["offset=-1", "limit=-1", "limit=many"])
async def test_numbers_that_are_none(leads: httpx.AsyncClient, query: str) -> None:
    answer = await leads.get(f"{PATHS[0]}?{query}")

    assert (answer.status_code, answer.json()["reason"]) == (400, "BadRequest")
    assert query.partition("=")[0] in answer.json()["message"]


async def test_a_limit_above_the_largest_is_no_error(leads: httpx.AsyncClient) -> None:
    answer = await leads.get(f"{PATHS[0]}?limit=1000000")

    assert len(answer.json()["items"]) == 1


async def test_it_is_documented(leads: httpx.AsyncClient) -> None:
    document = (await leads.get("/openapi.json")).json()

    assert "PendingWorkloadsSummary" in document["components"]["schemas"]
    parameters = document["paths"]["/clusterqueues/{name}/pendingworkloads"]["get"]["parameters"]
    assert {each["name"] for each in parameters} == {"name", "offset", "limit"}
