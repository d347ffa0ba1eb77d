"""What is served of the queue by a replica that leads, and by one that does not."""

from collections.abc import Callable
from dataclasses import replace

import httpx
import pytest
from fastapi import FastAPI

from extender.explain.facts import Facts
from extender.fit.packer import Packer
from extender.queueing.rules import AdmissionOptions
from extender.runtime.clock import Pacer
from extender.server.access import add_statuses
from extender.server.explanations import add_visibility
from extender.state.cluster import events as ev
from extender.state.cluster.records import NodeInfo
from tests.makers import ManualClock, cluster_of, node, pod
from tests.queue_makers import Admissions, cluster_queue, local_queue, workload
from tests.unit.explain.scene import facts

PATHS = (
    "/clusterqueues/cq/pendingworkloads",
    "/localqueues/ns/cq/pendingworkloads",
    "/workloads/ns/waits/explanation",
)
PREFIX = "/apis/visibility.kueue.x-k8s.io/v1beta2"


def serve(
    seen: Callable[[], Facts | None], leader: str | None = None, pacer: Pacer | None = None
) -> httpx.AsyncClient:
    app = FastAPI()
    add_statuses(app)
    add_visibility(app, seen, lambda: leader, pacer=pacer or Pacer(ManualClock()))
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://any")


@pytest.fixture
def leads() -> httpx.AsyncClient:
    queues = Admissions(cluster_queue(cpu=0), local_queue())
    queues.put(workload("waits", 1))
    return serve(lambda: facts(queues))


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("leader", ["host_1", None])
async def test_another_replica_names_the_leader(path: str, leader: str | None) -> None:
    answer = await serve(lambda: None, leader).get(path)

    assert answer.status_code == 503
    reported = answer.json()
    assert (reported["kind"], reported["reason"], reported["code"]) == (
        "Status",
        "ServiceUnavailable",
        503,
    )
    assert f"the leader is {leader or 'unknown'}" in reported["message"]


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
async def test_what_is_not_there_is_not_found(leads: httpx.AsyncClient, path: str) -> None:
    answer = await leads.get(path)

    assert (answer.status_code, answer.json()["reason"]) == (404, "NotFound")


@pytest.mark.parametrize("query", ["offset=-1", "limit=-1", "limit=many"])
async def test_numbers_that_are_none_are_bad_requests(leads: httpx.AsyncClient, query: str) -> None:
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


def restless(meanwhile: Callable[[], None]) -> Pacer:
    """Return a pacer that rests after each step, and has something done in each rest."""
    pacer = Pacer(ManualClock(), at_once=0)
    rest = pacer.rest

    async def rest_and_more() -> None:
        meanwhile()
        await rest()

    pacer.rest = rest_and_more  # type: ignore[method-assign]
    return pacer


async def test_an_explanation_looks_at_many_nodes_with_rests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = cluster_of([node(f"n{number}", 1) for number in range(2500)])
    queues = Admissions(
        cluster_queue(cpu=9000),
        local_queue(),
        workload("waits", 9000),
        options=AdmissionOptions(require_room=True),
        cluster=cluster,
    )
    looks, look_at = [0], Packer.look_at

    def counting(self: Packer, node: NodeInfo) -> None:
        looks[-1] += 1
        look_at(self, node)

    monkeypatch.setattr(Packer, "look_at", counting)
    client = serve(lambda: facts(queues, cluster=cluster), pacer=restless(lambda: looks.append(0)))
    reported = (await client.get(PATHS[2])).json()

    assert reported["message"].startswith("quota yes; room for 0 of 1"), reported["message"]
    assert sum(looks) == 2500
    assert max(looks) <= 500


async def test_what_changes_in_a_rest_is_in_the_explanation() -> None:
    cluster = cluster_of([node(f"n{number}", 1) for number in range(1200)])
    queues = Admissions(
        cluster_queue(cpu=9000),
        local_queue(),
        workload("waits", 2),
        options=AdmissionOptions(require_room=True),
        cluster=cluster,
    )
    rests = 0

    def change() -> None:
        nonlocal rests
        rests += 1
        if rests == 2:
            cluster.apply(ev.ObjectApplied(node("n0", 5)))
            cluster.apply(ev.ObjectApplied(replace(pod("late", 1), node="n0")))

    client = serve(lambda: facts(queues, cluster=cluster), pacer=restless(change))
    reported = (await client.get(PATHS[2])).json()

    assert rests > 2
    assert (reported["reason"], reported["message"]) == (
        "PendingEvaluation",
        "there is quota for it; 0 workload(s) are before it",
    )


async def test_a_replica_that_leads_no_more_after_a_rest_says_so() -> None:
    cluster = cluster_of([node("n0", 1)])
    queues = Admissions(
        cluster_queue(cpu=9),
        local_queue(),
        workload("waits", 2),
        options=AdmissionOptions(require_room=True),
        cluster=cluster,
    )
    views = [facts(queues, cluster=cluster)]
    client = serve(lambda: views[0] if views else None, pacer=restless(views.clear))

    assert (await client.get(PATHS[2])).status_code == 503
