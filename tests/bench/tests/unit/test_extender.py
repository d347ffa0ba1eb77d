"""The benchmark of the extender alone: its stand-ins, what they add up, and one whole run."""

import json
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from rich.console import Console

from extender.kube.decode import Decoder
from tests.bench.extender.api_server import JOBS, NODES, POD_GROUPS, PODS, StandIn
from tests.bench.extender.ledger import Ledger
from tests.bench.extender.runs import API_SERVER, EXTENDER, SCHEDULER, Bench
from tests.bench.extender.sample import Nodes, nodes_to_find
from tests.bench.extender.scene import SCHEDULER_NAME, Scene, node_number, pod_name, pod_uid
from tests.bench.extender.scheduler import Arguments, Scheduler
from tests.bench.extender.scheduling_queue import SchedulingQueue
from tests.bench.series import Limits


@pytest.mark.timeout(600)
def test_all_gangs_are_whole_and_every_process_is_measured() -> None:
    scene = Scene(nodes=20, running=20 * 108, gangs=2, size=5)  # two more have room on each
    # Machines that test have other work too.
    bench = Bench([scene], {}, Limits(stall=120.0), 1)
    bench.run(lambda: None)

    assert bench.failures == []
    [found] = bench.results
    assert found.bound == 10
    assert found.counts["filters"] >= found.counts["binds"] >= 1
    assert found.writes["bindings"] == 10
    assert found.events["kube-scheduler: Scheduled"] == found.counts["binds"]
    assert found.unannounced == 0
    assert found.cpu_seconds.keys() >= {EXTENDER, SCHEDULER, API_SERVER}
    assert found.late_cpu >= found.cpu_seconds[EXTENDER] > 0
    assert found.peak_mib[EXTENDER] > 10
    console = Console(width=140)
    with console.capture() as captured:
        bench.show(console)
    for line in ("20 nodes", "pods/s, first filter to", "to the Event", "to the Binding"):
        assert line in captured.get()


FOUR = Scene(nodes=4, running=8, gangs=2, size=5)
WHOLE = [(number, number % 4) for number in range(10)]


def faults(bindings: list[tuple[int, int]], scene: Scene = FOUR) -> list[str]:
    ledger = Ledger(scene)
    for number, node in bindings:
        ledger.bind(number, node)
    return ledger.faults()


@pytest.mark.parametrize(
    ("bindings", "want"),
    [
        pytest.param(WHOLE, [], id="all is well"),
        pytest.param(WHOLE[:-1], ["gang-1 has 4 of 5 members on nodes"], id="a partial gang"),
        pytest.param(
            WHOLE[:5], ["1 gangs have no member on a node"], id="a gang that did not start"
        ),
        pytest.param(
            [*WHOLE, (7, 2)],
            ["gang-1-2 is on node-00003 and was bound to node-00002"],
            id="bound twice",
        ),
        pytest.param(
            [*WHOLE, (7, 3)],
            ["gang-1-2 is on node-00003 and was bound to node-00003"],
            id="bound twice to one node",
        ),
    ],
)
def test_what_must_not_be_is_named(bindings: list[tuple[int, int]], want: list[str]) -> None:
    assert faults(bindings) == want


@pytest.mark.parametrize(
    ("running", "want"),
    [
        pytest.param(100, ["node-00000 has 110 pods, and 111 are used"], id="by number"),
        pytest.param(1, ["node-00000 has 32000 cpu, and 32200 are used"], id="by CPU"),
    ],
)
def test_an_overcommitted_node_is_named(running: int, want: list[str]) -> None:
    """The pods that ran before count too."""
    scene = Scene(nodes=1, running=running, gangs=1, size=1000)
    places = scene.places(0)
    full = Ledger(scene)
    for number in range(places):
        full.bind(number, 0)
    assert full.faults() == [f"gang-0 has {places} of 1000 members on nodes"]
    full.bind(places, 0)
    assert full.faults()[1:] == want


SCENE = Scene(nodes=20, running=103, gangs=3, size=5, ahead=2)


class Client:
    """A connection that keeps what it is sent."""

    def __init__(self, stand_in: StandIn) -> None:
        self._stand_in = stand_in
        self.status, self.chunks = 0, list[bytes]()
        self.is_open = True

    def send(self, body: bytes, status: int = 200) -> None:
        self.status, self._body = status, body

    def stream(self) -> None:
        self.status = 200

    def chunk(self, data: bytes) -> None:
        self.chunks.append(data)

    def ask(self, method: str, target: str, body: Any = None) -> Any:
        raw = b"" if body is None else json.dumps(body).encode()
        self._stand_in.answer(self, method, target, raw)  # type: ignore[arg-type]
        return json.loads(self._body) if method != "GET" or "watch" not in target else None

    def list(self, path: str) -> Iterator[bytes]:
        """Yield the objects of all pages."""
        token = "0"
        while token:
            page = self.ask("GET", f"{path}?limit=7&continue={token}")
            yield from (json.dumps(each).encode() for each in page["items"])
            token = page["metadata"].get("continue", "")


@pytest.fixture
def client() -> Client:
    return Client(StandIn(SCENE))


def bind(client: Client, number: int, node: int, uid: str = "") -> int:
    path = f"/api/v1/namespaces/bench/pods/{pod_name(SCENE, number)}/binding"
    target = {"kind": "Node", "name": f"node-{node:05}"}
    client.ask("POST", path, {"metadata": {"uid": uid or pod_uid(number)}, "target": target})
    return client.status


def test_the_extender_can_read_what_is_listed(client: Client) -> None:
    client.ask("POST", "/bench/begin", {})
    decoder = Decoder()
    nodes = {decoder.node(raw).name: decoder.node(raw) for raw in client.list(NODES)}
    pods = [decoder.pod(raw) for raw in client.list(PODS)]
    jobs = {decoder.job(raw).uid for raw in client.list(JOBS)}
    groups = {
        found.key: found.min_member
        for raw in client.list(POD_GROUPS)
        for found in [decoder.pod_group(raw, api_group="scheduling.x-k8s.io")]
    }
    assert (len(nodes), len({pod.uid for pod in pods})) == (20, 103 + 2 * 5)
    running = [pod for pod in pods if pod.node]
    assert Counter(pod.node for pod in running) == {
        name: SCENE.on(node_number(name)) for name in nodes
    }
    members = Counter(pod.group for pod in pods if pod.group)
    assert members == groups == dict.fromkeys(groups, 5)
    assert {pod.controller for pod in pods if pod.group} == jobs
    assert len({pod.shape for pod in pods if not pod.node}) == 1


def test_a_binding_is_shown_to_both(client: Client) -> None:
    stand_in = client._stand_in
    extender, scheduler = Client(stand_in), Client(stand_in)
    extender.ask("GET", f"{PODS}?watch=1&resourceVersion=1")
    client.ask("POST", "/bench/begin", {})
    scheduler._stand_in.answer(scheduler, "GET", "/bench/watch", b"")  # type: ignore[arg-type]
    assert [json.loads(each)["type"] for each in extender.chunks] == ["ADDED"] * 10
    assert bind(client, 3, 4) == 201
    shown = json.loads(extender.chunks[-1])
    assert shown["type"] == "MODIFIED"
    pod = Decoder().pod(json.dumps(shown["object"]).encode())
    assert (pod.uid, pod.node) == (pod_uid(3), "node-00004")
    assert scheduler.chunks == [b"gang 0\n", b"gang 1\n", b"bound 3 4\n"]


def test_a_binding_is_refused_to_a_pod_with_a_node_and_to_another_uid(client: Client) -> None:
    client.ask("POST", "/bench/begin", {})
    assert bind(client, 3, 4, uid="another") == 409
    assert bind(client, 3, 4) == 201
    assert bind(client, 3, 4) == 409


def test_the_next_gang_comes_when_one_is_whole(client: Client) -> None:
    client.ask("POST", "/bench/begin", {})
    for number in range(4):
        bind(client, number, number)
    assert len([*client.list(PODS)]) == 103 + 10
    bind(client, 4, 4)
    assert len([*client.list(PODS)]) == 103 + 15


def record(client: Client, number: int, whose: str, reason: str = "Scheduled") -> None:
    event = {
        "reason": reason,
        "reportingController": whose,
        "regarding": {"uid": pod_uid(number)},
    }
    client.ask("POST", "/apis/events.k8s.io/v1/namespaces/bench/events", event)


def test_events_are_counted_by_who_wrote_them_and_two_about_one_pod_are_a_fault(
    client: Client,
) -> None:
    record(client, 1, SCHEDULER_NAME)
    record(client, 1, SCHEDULER_NAME, "FailedScheduling")
    record(client, 2, "gang-extender")
    state = client.ask("POST", "/bench/state", {})
    assert state["events"] == {
        "kube-scheduler: Scheduled": 1,
        "kube-scheduler: FailedScheduling": 1,
        "extender: Scheduled": 1,
    }
    assert state["writes"] == {}
    assert not [each for each in state["faults"] if "Events" in each]
    record(client, 2, SCHEDULER_NAME)
    faults = client.ask("POST", "/bench/state", {})["faults"]
    assert "1 pods have two Events Scheduled" in faults


def test_a_pod_that_was_bound_during_its_cycle_is_shown_with_what_is_said_of_it(
    client: Client,
) -> None:
    client.ask("POST", "/bench/begin", {})
    assert bind(client, 3, 4) == 201
    path = f"/api/v1/namespaces/bench/pods/{pod_name(SCENE, 3)}"
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "SchedulerError",
        "message": "it is in the cache",
    }
    client.ask("PATCH", f"{path}/status", {"status": {"conditions": [condition]}})
    shown = client.ask("GET", path)
    assert shown["spec"]["nodeName"] == "node-00004"
    assert [each["reason"] for each in shown["status"]["conditions"]] == ["SchedulerError"]
    state = client.ask("POST", "/bench/state", {})
    assert (state["collided"], state["unannounced"]) == (1, 1)
    record(client, 3, SCHEDULER_NAME)
    assert client.ask("POST", "/bench/state", {})["unannounced"] == 0


@pytest.mark.parametrize(
    ("nodes", "want"), [(20, 20), (99, 99), (150, 100), (1000, 420), (5000, 500), (20_000, 1000)]
)
def test_a_sample_has_as_many_nodes_as_kube_scheduler_takes(nodes: int, want: int) -> None:
    assert nodes_to_find(nodes) == want
    scene = Scene(nodes=nodes, running=0, gangs=1)
    assert len(Nodes(scene).sample().split(b",")) == want


def test_a_sample_begins_where_the_last_one_ended_and_has_no_full_nodes() -> None:
    nodes = Nodes(Scene(nodes=250, running=0, gangs=1))
    assert nodes.sample() == sample_of(range(120))
    assert nodes.sample() == sample_of([*range(120, 240)])
    places = nodes.free("node-00000")
    for _ in range(places):
        nodes.take(0)
    assert nodes.sample() == sample_of([*range(240, 250), *range(1, 111)])
    nodes.give_back(0)
    nodes.sample()
    assert b"node-00000" in nodes.sample()


def sample_of(numbers: Any) -> bytes:
    return b",".join(b'"node-%05d"' % number for number in numbers)


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_refused_pod_is_tried_again_after_an_event_once_no_other_waits() -> None:
    """By the gate SchedulerPopFromBackoffQ, on since 1.33."""
    clock = Clock()
    queue = SchedulingQueue(clock)
    queue.add(1)
    queue.add(2)
    assert queue.pop() == 1
    queue.refuse(1)
    queue.move()
    assert queue.pop() == 2, "the other one goes first, for there is a backoff"
    queue.refuse(2)
    assert (queue.seconds(), queue.pop(), queue.pop()) == (0.0, 1, None)
    queue.move()  # an event while it was tried
    queue.refuse(1)
    assert queue.seconds() == 0.0


def test_a_pod_whose_cycle_failed_waits_for_its_backoff_whatever_happens() -> None:
    clock = Clock()
    queue = SchedulingQueue(clock)
    queue.add(1)
    queue.pop()
    queue.fail(1)
    queue.move()
    assert (queue.pop(), queue.seconds()) == (None, 1.0)
    clock.now += 1.0
    assert queue.pop() == 1
    queue.fail(1)
    assert queue.seconds() == 2.0


def test_a_pod_that_changed_is_tried_again_and_no_other() -> None:
    clock = Clock()
    queue = SchedulingQueue(clock)
    for number in (1, 2):
        queue.add(number)
        assert queue.pop() == number
        queue.refuse(number)
    queue.wake(2)
    clock.now += 60.0
    assert (queue.pop(), queue.pop()) == (2, None)


PAIR = Scene(nodes=10, running=0, gangs=1, size=2)
NODE = "node-00004"
Answer = Callable[[str, dict[str, Any]], Awaitable[Any] | Any]


class Server:
    """In place of connections: keeps what is sent, and answers it."""

    def __init__(self, answer: Answer) -> None:
        self.sent: list[tuple[str, dict[str, Any]]] = []
        self._answer = answer

    async def post(self, path: str, body: bytes, method: str = "POST") -> bytes:
        asked = json.loads(body)
        self.sent.append((f"{method} {path.rpartition('/')[2]}", asked))
        answer = self._answer(path, asked)
        return json.dumps(await answer if isinstance(answer, Awaitable) else answer).encode()


def place(path: str, asked: dict[str, Any]) -> Any:
    """Answer one node."""
    del asked
    return {"NodeNames": [NODE]} if path == "/filter" else {}


def scheduler(answer: Answer) -> tuple[Scheduler, Server]:
    made = Scheduler(Arguments(scene=PAIR, extender_port=1, api_port=1))
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
    number = PAIR.number(pod)
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
    assert api.sent[0][1]["regarding"]["name"] == pod_name(PAIR, 0)


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
