"""The benchmark of the extender alone: its stand-ins, what they add up, and one whole run."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from rich.console import Console

from tests.bench.extender.api_server import StandIn
from tests.bench.extender.ledger import Ledger
from tests.bench.extender.runs import API_SERVER, EXTENDER, SCHEDULER, Bench
from tests.bench.extender.sample import Nodes, nodes_to_find
from tests.bench.extender.scene import SCHEDULER_NAME, Scene, pod_name, pod_uid
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


def test_a_binding_is_refused_to_a_pod_with_a_node_and_to_another_uid(client: Client) -> None:
    client.ask("POST", "/bench/begin", {})
    assert bind(client, 3, 4, uid="another") == 409
    assert bind(client, 3, 4) == 201
    assert bind(client, 3, 4) == 409


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


@pytest.mark.parametrize(
    ("nodes", "want"), [(20, 20), (99, 99), (150, 100), (1000, 420), (5000, 500), (20_000, 1000)]
)
def test_a_sample_has_as_many_nodes_as_kube_scheduler_takes(nodes: int, want: int) -> None:
    assert nodes_to_find(nodes) == want
    scene = Scene(nodes=nodes, running=0, gangs=1)
    assert len(Nodes(scene).sample().split(b",")) == want
