"""Requests to an autoscaler for workloads that await nodes, and their withdrawal."""

import asyncio
import json
from typing import Any, cast

import pytest

from extender.controllers.node_requests import NodeRequests
from extender.controllers.workload import Workloads
from extender.kube.autoscaling import Autoscaling
from extender.kube.client import KubeClient
from extender.kube.errors import ConflictError, ForbiddenError, NotFoundError, UnavailableError
from extender.kube.recorder import Event
from extender.queueing import lifecycle
from extender.room.nodes import NodeRoom
from extender.state.queue import events as ev
from extender.state.queue.records import AdmissionInfo, WorkloadInfo
from extender.state.queue.store import Queues
from extender.steps import Steps
from tests.makers import ManualClock, cluster_of, key
from tests.queue_makers import admission, flavor, meta, pod_set, workload
from tests.unit.controllers.queue_server import Server

BUFFERS, REQUESTS = "capacitybuffers", "provisioningrequests"
ROOT = "/apis/autoscaling.x-k8s.io"


class Store:
    """The API server, as far as an autoscaler is asked for nodes."""

    def __init__(self, **served: str) -> None:
        self.served = served
        """The version by resource."""
        self.objects: dict[str, dict[str, Any]] = {}
        self.error: Exception | None = None
        self.failing = ""
        """The beginning of the calls that end with the error."""
        self.refused = ""
        """The kind that may not be created."""
        self.calls: list[str] = []

    async def request(self, method: str, path: str, body: bytes = b"") -> bytes:
        self.calls.append(f"{method} {path}")
        if path.count("/") == ROOT.count("/") + 1 and method == "GET":
            found = [name for name, version in self.served.items() if path == f"{ROOT}/{version}"]
            if not found:
                raise NotFoundError("no such version")
            return json.dumps({"resources": [{"name": name} for name in found]}).encode()
        if self.error is not None and self.calls[-1].startswith(self.failing):
            raise self.error
        if method == "POST":
            made = json.loads(body)
            if made["kind"] == self.refused:
                raise ForbiddenError("exceeded quota")
            where = f"{path}/{made['metadata']['name']}"
            if where in self.objects:
                raise ConflictError("exists")
            self.objects[where] = made
            return body
        if "labelSelector" in path:
            plural = path.partition("?")[0].rpartition("/")[2]
            items = [each for name, each in self.objects.items() if f"/{plural}/" in name]
            return json.dumps({"items": items}).encode()
        if path not in self.objects:
            raise NotFoundError("gone")
        found_object = self.objects[path]
        if method == "DELETE":
            del self.objects[path]
        return json.dumps(found_object).encode()

    def kinds(self) -> list[str]:
        return sorted(each["kind"] for each in self.objects.values())

    def one(self, kind: str) -> dict[str, Any]:
        (found,) = [each for each in self.objects.values() if each["kind"] == kind]
        return found


class Bench:
    """The controller beside the state of the queues."""

    def __init__(self, store: Store, class_name: str = "") -> None:
        self.store, self.queues, self.events = store, Queues(), list[Event]()
        self.queues.apply(ev.Applied(flavor()))
        view = self.queues.view()
        self.server = Server()
        self.requests = NodeRequests(
            view,
            Workloads(self.queues, self.server, record=self.events.append),
            Autoscaling(cast("KubeClient", store)),
            room=NodeRoom(view, cluster_of().view()),
            record=self.events.append,
            clock=ManualClock(),
            class_name=class_name,
        )
        self.noticed: list[str] = []
        self.woken = 0

    async def look(self) -> None:
        """Have it look once at what is served."""

        def wake() -> None:
            self.woken += 1

        task = asyncio.create_task(self.requests.run(self.noticed.append, wake))
        for _ in range(100):
            await asyncio.sleep(0)
        task.cancel()

    def put(self, found: WorkloadInfo) -> WorkloadInfo:
        self.server.stored[found.key] = found
        self.queues.apply(ev.Applied(found))
        return found

    def waiting(self, name: str = "w") -> WorkloadInfo:
        """Have a workload of four pods hold quota, and await nodes."""
        waits = workload(name, pod_set(1, 4), meta=meta(name, "ns"))
        given = admission(waits)
        reserved = AdmissionInfo(given.cluster_queue, given.assignments, reserved_only=True)
        return self.put(lifecycle.reserved(waits, reserved, 1000.0))

    async def reconcile(self, name: str = "w") -> float | None:
        return await self.requests.reconcile(key(name))


async def test_a_buffer_with_its_template_goes_once_the_workload_is_admitted() -> None:
    bench = Bench(Store(capacitybuffers="v1beta1"))
    await bench.look()
    assert (bench.requests.can_ask(), bench.woken) == (True, 1)
    waits = bench.waiting()
    again = await bench.reconcile()
    assert again is not None
    assert bench.store.kinds() == ["CapacityBuffer", "PodTemplate"]
    buffer, template = bench.store.one("CapacityBuffer"), bench.store.one("PodTemplate")
    name = template["metadata"]["name"]
    assert buffer["spec"] == {"podTemplateRef": {"name": name}, "replicas": 4}
    assert buffer["metadata"]["ownerReferences"] == template["metadata"]["ownerReferences"]
    assert [each.reason for each in bench.events] == ["NodesRequested"]

    calls = len(bench.store.calls)
    await bench.reconcile()
    assert len(bench.store.calls) == calls, "it is asked for once"

    assert waits.admission is not None
    given = AdmissionInfo(waits.admission.cluster_queue, waits.admission.assignments)
    bench.put(lifecycle.admitted(waits, given, 1001.0))
    assert await bench.reconcile() is None
    assert bench.store.kinds() == []


@pytest.mark.parametrize(
    ("class_name", "served", "kind"),
    [
        ("", {BUFFERS: "v1beta1", REQUESTS: "v1"}, "CapacityBuffer"),
        ("atomic", {BUFFERS: "v1beta1", REQUESTS: "v1"}, "ProvisioningRequest"),
        ("atomic", {REQUESTS: "v1beta1"}, "ProvisioningRequest"),
        ("atomic", {BUFFERS: "v1beta1"}, "CapacityBuffer"),
    ],
)
async def test_what_is_served_decides_how_nodes_are_asked_for(
    class_name: str, served: dict[str, str], kind: str
) -> None:
    bench = Bench(Store(**served), class_name)
    await bench.look()
    bench.waiting()
    await bench.reconcile()
    assert bench.store.one(kind)


async def test_nothing_is_asked_for_where_nothing_is_served() -> None:
    bench = Bench(Store(provisioningrequests="v1"))
    await bench.look()
    assert not bench.requests.can_ask()
    bench.waiting()
    assert await bench.reconcile() is not None
    assert bench.store.objects == {}


async def test_a_request_that_failed_releases_the_quota() -> None:
    bench = Bench(Store(provisioningrequests="v1"), "atomic")
    await bench.look()
    bench.waiting()
    assert await bench.reconcile() is not None
    failed = {"type": "Failed", "status": "True", "message": "capacity is not found"}
    bench.store.one("ProvisioningRequest")["status"] = {"conditions": [failed]}
    assert await bench.reconcile() is None
    evicted = bench.server.stored[key("w")].condition("Evicted")
    assert evicted is not None
    assert (evicted.reason, evicted.message) == ("NodesTimeout", "capacity is not found")
    await bench.reconcile()
    assert bench.store.kinds() == []


async def test_what_the_api_server_refuses_releases_the_quota() -> None:
    bench = Bench(Store(capacitybuffers="v1beta1"))
    await bench.look()
    bench.waiting()
    bench.store.error = ForbiddenError("exceeded quota")
    assert await bench.reconcile() is None
    evicted = bench.server.stored[key("w")].condition("Evicted")
    assert evicted is not None
    assert evicted.message == "nodes cannot be asked for: exceeded quota"


async def test_a_request_that_was_made_in_part_is_completed() -> None:
    bench = Bench(Store(capacitybuffers="v1beta1"))
    await bench.look()
    bench.waiting()
    bench.store.error = UnavailableError("away")
    with pytest.raises(UnavailableError):
        await bench.reconcile()
    bench.store.error = None
    await bench.reconcile()
    assert bench.store.kinds() == ["CapacityBuffer", "PodTemplate"]


async def test_another_leader_goes_on_and_takes_back_what_is_not_needed() -> None:
    store = Store(capacitybuffers="v1beta1", provisioningrequests="v1")
    first = Bench(store)
    await first.look()
    for name in ("stays", "goes"):
        first.waiting(name)
        await first.reconcile(name)
    assert len(store.objects) == 4

    second = Bench(store)
    second.waiting("stays")
    second.put(workload("goes", meta=meta("goes", "ns")))
    await second.look()
    assert sorted(second.noticed) == [key("goes"), key("stays")]
    for name in ("goes", "stays"):
        await second.reconcile(name)
    assert store.kinds() == ["CapacityBuffer", "PodTemplate"]
    assert store.one("CapacityBuffer")["metadata"]["ownerReferences"][0]["name"] == "stays"

    third = Bench(store, "atomic")
    third.waiting("stays")
    await third.look()
    await third.reconcile("stays")
    assert "CapacityBuffer" not in store.kinds()
    assert store.one("ProvisioningRequest")


async def test_what_went_with_its_definition_is_asked_for_again() -> None:
    bench = Bench(Store(capacitybuffers="v1beta1"))
    await bench.look()
    bench.waiting()
    await bench.reconcile()
    served, bench.store.served = bench.store.served, {}
    bench.store.objects.clear()
    await bench.look()
    assert not bench.requests.can_ask()
    bench.store.served = served
    await bench.look()
    await bench.reconcile()
    assert bench.store.kinds() == ["CapacityBuffer", "PodTemplate"]


async def test_templates_of_a_request_that_is_refused_go() -> None:
    bench = Bench(Store(provisioningrequests="v1"), "atomic")
    await bench.look()
    bench.waiting()
    bench.store.refused = "ProvisioningRequest"
    assert await bench.reconcile() is None
    assert bench.store.kinds() == ["PodTemplate"]
    await bench.reconcile()
    assert bench.store.kinds() == []


async def test_nothing_is_asked_for_what_changes_while_its_domain_is_looked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = Bench(Store(capacitybuffers="v1beta1"))
    await bench.look()
    waits = bench.waiting()

    def changing(*_: object, **__: object) -> Steps[dict[str, dict[str, str]]]:
        bench.put(lifecycle.unreserved(waits, "Suspended", "stopped", now=1001.0))
        yield
        return {}

    monkeypatch.setattr(NodeRoom, "to_grow", changing)
    await bench.reconcile()
    assert bench.store.kinds() == []
