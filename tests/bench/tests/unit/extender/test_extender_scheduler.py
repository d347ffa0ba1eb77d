"""The stand-in for kube-scheduler: what it does about a pod that another has bound."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from tests.bench.extender.scene import Scene, pod_name
from tests.bench.extender.scheduler import Arguments, Scheduler

SCENE = Scene(nodes=10, running=0, gangs=1, size=2)
NODE = "node-00004"
Answer = Callable[[str, dict[str, Any]], Awaitable[Any] | Any]


class Server:
    """In place of connections: keeps what is sent, and answers it."""

    def __init__(self, answer: Answer) -> None:
        self.sent: list[tuple[str, dict[str, Any]]] = []
        self._answer = answer
        self.opened = 0

    async def post(self, path: str, body: bytes, method: str = "POST") -> bytes:
        asked = json.loads(body)
        self.sent.append((f"{method} {path.rpartition('/')[2]}", asked))
        answer = self._answer(path, asked)
        return json.dumps(await answer if isinstance(answer, Awaitable) else answer).encode()


def place(path: str, asked: dict[str, Any]) -> Any:
    """Answer one node."""
    del asked
    return {"NodeNames": [NODE]} if path == "/filter" else {}


def scheduler(answer: Answer, lag: float = 0.0) -> tuple[Scheduler, Server]:
    made = Scheduler(Arguments(scene=SCENE, extender_port=1, api_port=1, lag=lag))
    extender, api = Server(answer), Server(lambda *_: {})
    made._cycles = made._bindings = extender  # type: ignore[assignment]
    made._api = api  # type: ignore[assignment]
    return made, api


def said(api: Server) -> list[tuple[str, str]]:
    """Return the Events and conditions, each with its reason."""
    return [
        (what, body["reason"] if "reason" in body else body["status"]["conditions"][0]["reason"])
        for what, body in api.sent
    ]


def bound(pod: str) -> bytes:
    """Return the news that a pod is on the node."""
    number = SCENE.number(pod)
    assert number is not None
    return b"bound %d 4\n" % number


async def test_a_pod_that_it_binds_gets_its_event() -> None:
    made, api = scheduler(place)
    made.heard(b"gang 0\n")

    def bind(path: str, asked: dict[str, Any]) -> Any:
        if path == "/bind":
            made.heard(bound(asked["PodName"]))
        return place(path, asked)

    made._bindings = Server(bind)  # type: ignore[assignment]
    await made.run()
    assert (made.counts.binds, made.counts.collisions) == (2, 0)
    assert said(api) == [("POST events", "Scheduled")] * 2
    assert api.sent[0][1]["regarding"]["name"] == pod_name(SCENE, 0)


async def test_a_pod_that_is_bound_during_its_cycle_ends_in_an_error() -> None:
    def bound_meanwhile(path: str, asked: dict[str, Any]) -> Any:
        made.heard(bound(asked["Pod"]["metadata"]["name"]))
        return place(path, asked)

    made, api = scheduler(bound_meanwhile)
    made.heard(b"gang 0\n")
    await made.run()
    assert (made.counts.binds, made.counts.collisions) == (0, 2)
    assert sorted(said(api)) == [
        *[("PATCH status", "SchedulerError")] * 2,
        *[("POST events", "FailedScheduling")] * 2,
    ]


async def test_a_pod_that_is_bound_before_its_cycle_is_dropped() -> None:
    made, api = scheduler(place)
    made.heard(b"gang 0\nbound 0 4\nbound 1 4\n")
    await made.run()
    assert (made.counts.filters, api.sent) == (0, [])


async def test_one_that_lags_tries_a_pod_that_has_a_node_already() -> None:
    made, api = scheduler(place, lag=0.05)
    made.heard(b"gang 0\n")
    running = asyncio.create_task(made.run())
    await made._news.wait()
    made.heard(b"bound 0 4\nbound 1 4\n")
    await running
    assert (made.counts.in_vain, made.counts.collisions, made.counts.binds) == (2, 0, 2)
    assert said(api) == [("POST events", "Scheduled")] * 2


async def test_one_that_lags_hears_everything_in_order() -> None:
    made, _ = scheduler(place, lag=0.01)
    for gang in range(100):
        made.heard(b"gang %d\n" % gang)
    assert made._queue.pop() is None
    while made._late:
        made._news.clear()
        await made._news.wait()
    assert [made._queue.pop() for _ in range(200)] == [*range(200)]


async def test_the_same_refusal_is_written_once() -> None:
    made, api = scheduler(place)
    for message in ("no", "no", "still no"):
        await made._say(0, "Unschedulable", message)
    assert said(api) == [("POST events", "FailedScheduling"), ("PATCH status", "Unschedulable")] * 2


async def test_a_bind_that_fails_is_tried_again_unless_another_has_bound_the_pod() -> None:
    made, api = scheduler(lambda path, _: {"Error": "no"} if path == "/bind" else {})
    for number in (0, 1):
        made._queue.add(number)
        made._queue.pop()
        made._assumed[number] = 4
    made.heard(b"bound 1 5\n")
    for number in (0, 1):
        await made._bind(number, 4)
    assert (made._queue.seconds() is not None, made.counts.failed) == (True, 2)
    assert [each for each in said(api) if each[0] == "PATCH status"] == [
        ("PATCH status", "SchedulerError")
    ] * 2
    assert [number for *_, number in made._queue._failed] == [0]
