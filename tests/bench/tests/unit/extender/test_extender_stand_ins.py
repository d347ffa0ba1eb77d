"""The stand-ins around the extender: what they show, and how they ask."""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from extender.kube.decode import Decoder
from tests.bench.extender.api_server import JOBS, NODES, POD_GROUPS, PODS, StandIn
from tests.bench.extender.sample import Nodes, nodes_to_find
from tests.bench.extender.scene import (
    SCHEDULER_NAME,
    Objects,
    Scene,
    node_number,
    pod_name,
    pod_uid,
)
from tests.bench.extender.scheduling_queue import SchedulingQueue
from tests.harness import objects

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


def test_a_node_has_as_many_places_as_by_its_requests() -> None:
    decoder, objects = Decoder(), Objects(SCENE)
    node = decoder.node(objects.node(0))
    asked = decoder.pod(objects.waiting(0, version=1, created="2026-01-01T00:00:00Z"))
    runs = decoder.pod(objects.running(0))
    for what, amount in {"cpu": SCENE.places(0), "pods": SCENE.places(0)}.items():
        per_pod = asked.shape.requests.get(what, 1)
        used = SCENE.on(0) * runs.shape.requests.get(what, 1)
        assert amount * per_pod <= node.allocatable[what] - used


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


def test_a_condition_is_kept_and_other_writes_are_counted(client: Client) -> None:
    client.ask("POST", "/bench/begin", {})
    path = f"/api/v1/namespaces/bench/pods/{pod_name(SCENE, 7)}"
    text = 'it says "no"'
    condition = {"type": "PodScheduled", "status": "False", "message": text}
    client.ask("PATCH", f"{path}/status", {"status": {"conditions": [condition]}})
    shown = client.ask("PATCH", path, {"metadata": {"annotations": {"a": "b"}}})
    assert Decoder().pod(json.dumps(shown).encode()).unschedulable == text
    writes = client.ask("POST", "/bench/state", {})["writes"]
    assert writes == {"PATCH pods/status": 1, "PATCH pods": 1}


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


def test_plain_pods_come_after_the_members_of_a_gang() -> None:
    scene = Scene(nodes=20, running=103, gangs=3, size=2, ahead=2, plain=1)
    client = Client(StandIn(scene))
    client.ask("POST", "/bench/begin", {})
    pods = [Decoder().pod(raw) for raw in client.list(PODS)][103:]
    assert [(pod.name, pod.group is not None) for pod in pods] == [
        ("gang-0-0", True),
        ("gang-0-1", True),
        ("beside-0-2", False),
        ("gang-1-0", True),
        ("gang-1-1", True),
        ("beside-1-2", False),
    ]
    assert [scene.number(pod.name) for pod in pods] == [*range(6)]
    asked = json.loads(Objects(scene).asked(2, created="2026-01-01T00:00:00Z"))
    assert objects.POD_GROUP_LABEL not in asked["metadata"]["labels"]


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


def test_a_refused_pod_whose_backoff_is_over_goes_first_by_its_age() -> None:
    clock = Clock()
    queue = SchedulingQueue(clock)
    queue.add(1)
    queue.pop()
    queue.refuse(1)
    queue.move()
    clock.now += 1.0
    queue.add(2)
    assert (queue.pop(), queue.pop()) == (1, 2)


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


def test_a_pod_with_a_node_is_not_tried() -> None:
    queue = SchedulingQueue(Clock())
    queue.add(1)
    queue.add(2)
    queue.remove(1)
    assert (queue.pop(), queue.pop(), queue.has(1)) == (2, None, False)
