"""What LimitRanges and a RuntimeClass make of a pod template, and what they refuse."""

import json
from typing import Any

import pytest

from extender.api.queue_wire import LimitRangeItem
from extender.kube.decode import Decoder
from extender.kube.decode_queues import QueueDecoder
from extender.state.queue import events as ev
from extender.state.queue.records import PodSetInfo, RuntimeClassInfo, WorkloadInfo
from extender.state.queue.store import Queues

Container = dict[str, Any]


def container(requests: Any = None, limits: Any = None, name: str = "c") -> Container:
    resources = {"requests": requests, "limits": limits}
    return {"name": name, "resources": {n: v for n, v in resources.items() if v is not None}}


def raw_workload(
    *containers: Container, namespace: str = "ns", version: int = 7, **spec: Any
) -> bytes:
    template = {"spec": {"containers": list(containers), **spec}}
    metadata = {"name": "w", "namespace": namespace, "uid": "u", "resourceVersion": str(version)}
    pod_sets = [{"name": "main", "count": 1, "template": template}]
    return json.dumps({"metadata": metadata, "spec": {"podSets": pod_sets}}).encode()


def limit_range(*items: Any, name: str = "lr", namespace: str = "ns", version: int = 1) -> bytes:
    metadata = {
        "name": name,
        "namespace": namespace,
        "uid": f"{namespace}/{name}",
        "resourceVersion": str(version),
    }
    return json.dumps({"metadata": metadata, "spec": {"limits": items}}).encode()


def per_container(**item: Any) -> dict[str, Any]:
    return {"type": "Container", **item}


class World:
    """A state that is fed with raw objects."""

    def __init__(self) -> None:
        self.decoder = QueueDecoder(Decoder())
        self.queues = Queues(self.decoder.completed)

    def put(self, raw: bytes) -> ev.QueueChange:
        return self.queues.apply(ev.Applied(self.decoder.workload(raw)))

    def limit(self, *items: Any, **where: Any) -> ev.QueueChange:
        found = self.decoder.limit_range(limit_range(*items, **where))
        return self.queues.apply(ev.Applied(found))

    def runtime_class(self, name: str, **overhead: str) -> ev.QueueChange:
        raw = {"metadata": {"name": name}, "overhead": {"podFixed": overhead}}
        found = self.decoder.runtime_class(json.dumps(raw).encode())
        return self.queues.apply(ev.Applied(found))

    @property
    def workload(self) -> WorkloadInfo:
        return self.queues.view().workloads["ns/w"]

    @property
    def pods(self) -> PodSetInfo:
        return self.workload.pod_sets[0]

    @property
    def asked(self) -> dict[str, int]:
        return {name: n for name, n in self.pods.shape.requests.items() if name != "pods"}


@pytest.fixture
def world() -> World:
    return World()


GIVEN = per_container(default={"cpu": "2"}, defaultRequest={"cpu": "500m", "memory": "1Gi"})


@pytest.mark.parametrize(
    ("container_spec", "asked"),
    [
        (container(), {"cpu": 500, "memory": 1 << 30}),
        (container({"cpu": "1"}), {"cpu": 1000, "memory": 1 << 30}),
        (container(limits={"cpu": "1"}), {"cpu": 1000, "memory": 1 << 30}),
        (container({"memory": "2Gi"}, {"cpu": "1"}), {"cpu": 1000, "memory": 2 << 30}),
    ],
)
def test_a_container_that_says_nothing_is_given_something(
    world: World, container_spec: Container, asked: dict[str, int]
) -> None:
    world.limit(GIVEN)
    world.put(raw_workload(container_spec))
    assert world.asked == asked
    assert world.pods.fault == ""


def test_each_container_is_given_it(world: World) -> None:
    world.limit(GIVEN)
    world.put(raw_workload(container(name="a"), container({"cpu": "1"}, name="b")))
    assert world.asked == {"cpu": 1500, "memory": 2 << 30}


def test_a_default_limit_is_a_request_too(world: World) -> None:
    world.limit(per_container(default={"cpu": "2"}))
    world.put(raw_workload(container()))
    assert world.asked == {"cpu": 2000}


def test_other_namespaces_are_others_business(world: World) -> None:
    world.limit(GIVEN, namespace="other")
    world.put(raw_workload(container()))
    assert world.asked == {}


def test_workloads_that_are_there_already_are_counted_anew(world: World) -> None:
    world.put(raw_workload(container()))
    change = world.limit(GIVEN)
    assert change.workloads == {"ns/w"}
    assert world.asked["cpu"] == 500

    assert not world.limit(GIVEN, namespace="other").workloads
    assert world.limit(per_container(defaultRequest={"cpu": "1"}), version=2).workloads
    assert world.asked == {"cpu": 1000}

    found = world.decoder.limit_range(limit_range(version=2))
    assert world.queues.apply(ev.Deleted(found)).workloads == {"ns/w"}
    assert world.asked == {}


def test_what_is_seen_again_is_no_news(world: World) -> None:
    world.limit(GIVEN)
    world.put(raw_workload(container()))
    assert world.put(raw_workload(container())) == ev.QueueChange()


def test_a_runtime_class_adds_its_overhead(world: World) -> None:
    world.put(raw_workload(container({"cpu": "1"}), runtimeClassName="vm"))
    assert world.asked == {"cpu": 1000}
    assert world.runtime_class("other", cpu="1").workloads == frozenset()
    assert world.runtime_class("vm", cpu="250m", memory="1Gi").workloads == {"ns/w"}
    assert world.asked == {"cpu": 1250, "memory": 1 << 30}


def test_an_overhead_that_a_template_has_stays(world: World) -> None:
    world.runtime_class("vm", cpu="250m")
    overhead = {"cpu": "1"}
    world.put(raw_workload(container({"cpu": "1"}), runtimeClassName="vm", overhead=overhead))
    assert world.asked == {"cpu": 2000}


@pytest.mark.parametrize(
    ("container_spec", "item", "fault"),
    [
        (container({"cpu": "2"}, {"cpu": "1"}), None,
         "container c asks for more cpu than its limit of 1"),
        (container({"cpu": "2"}), per_container(default={"cpu": "1"}),
         "container c asks for more cpu than its limit of 1"),
        (container({"cpu": "3"}), per_container(max={"cpu": "2"}),
         "container c may take 3 cpu, and a LimitRange allows 2"),
        (container({"cpu": "1"}, {"cpu": "3"}), per_container(max={"cpu": "2"}),
         "container c may take 3 cpu, and a LimitRange allows 2"),
        (container({"cpu": "100m"}), per_container(min={"cpu": "200m"}),
         "container c asks for 100m cpu, and a LimitRange demands 200m"),
        (container({"cpu": "3"}), {"type": "Pod", "max": {"cpu": "2"}},
         "a pod may take 3 cpu, and a LimitRange allows 2"),
        (container({"cpu": "2"}), {"type": "Pod", "max": {"cpu": "2"}},
         "a pod has no limit of cpu, and a LimitRange allows 2"),
        (container({"cpu": "1"}, {"cpu": "2"}), {"type": "Pod", "max": {"cpu": "2"}}, ""),
        (container({"memory": "1"}), per_container(min={"cpu": "0"}),
         "container c asks for 0 cpu, and a LimitRange demands 0"),
        (container({"cpu": "1"}, {"cpu": "3"}), per_container(maxLimitRequestRatio={"cpu": "2"}),
         "container c asks for 1 cpu with a limit of 3, "
         "and a LimitRange allows 2 times the request"),
        (container({"cpu": "1"}), {"type": "Pod", "maxLimitRequestRatio": {"cpu": "2"}},
         "a pod asks for 1 cpu with a limit of 0, and a LimitRange allows 2 times the request"),
        (container({"cpu": "1"}, {"cpu": "1500m"}),
         per_container(maxLimitRequestRatio={"cpu": "1.5"}), ""),
        (container({"cpu": "2"}), per_container(max={"cpu": "2"}, min={"cpu": "2"}), ""),
        (container({"cpu": "3"}), {"type": "PersistentVolumeClaim", "max": {"cpu": "2"}}, ""),
    ],
)  # fmt: skip
def test_pods_that_would_be_refused_have_a_fault(
    world: World, container_spec: Container, item: dict[str, Any] | None, fault: str
) -> None:
    if item:
        world.limit(item)
    world.put(raw_workload(container_spec))
    assert world.pods.fault == fault


def test_a_template_that_cannot_be_completed_is_a_fault_of_that_workload(world: World) -> None:
    world.put(raw_workload(container({"cpu": "1"}), runtimeClassName=["vm"]))
    world.runtime_class("vm", cpu="1")
    assert "not a readable pod template" in world.pods.fault


def test_completing_costs_nothing_where_there_is_nothing_to_add() -> None:
    decoder = QueueDecoder(Decoder())
    [pods] = decoder.workload(raw_workload(container({"cpu": "1"}))).pod_sets
    assert decoder.completed(pods, (), {}) is pods
    classes = {"vm": RuntimeClassInfo("vm", {"cpu": "1"})}
    assert decoder.completed(pods, (), classes) is pods
    item = LimitRangeItem("Container", requests={"cpu": "2"})
    assert decoder.completed(pods, (item,), classes).shape is pods.shape


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"overhead": {"cpu": "-100"}}, "spec.overhead[cpu]"),
        ({"resources": {"requests": {"cpu": "-1m"}}}, "spec.resources.requests[cpu]"),
        (
            {"initContainers": [container({"memory": "-1Gi"})]},
            "spec.initContainers[0].resources.requests[memory]",
        ),
        ({"resources": {"limits": {"cpu": "-5"}}}, "spec.resources.requests[cpu]"),
    ],
)
def test_an_amount_below_zero_is_refused_by_the_name_of_its_field(
    spec: dict[str, Any], field: str
) -> None:
    decoder = QueueDecoder(Decoder())
    containers = [] if "resources" in spec else [container({"cpu": "100"})]
    found = decoder.workload(raw_workload(*containers, **spec))
    assert f"{field} is below zero" in found.unreadable
    assert f"{field} is below zero" in found.pod_sets[0].fault


@pytest.mark.parametrize(
    ("resources", "cpu"),
    [
        ({"requests": {"cpu": "1m"}}, 100_000),
        ({"requests": {"cpu": "101"}}, 101_000),
        ({"limits": {"cpu": "200"}}, 100_000),
    ],
)
def test_pod_level_amounts_never_make_a_pod_smaller(resources: Any, cpu: int) -> None:
    raw = raw_workload(container({"cpu": "100"}), resources=resources)
    found = QueueDecoder(Decoder()).workload(raw)
    assert found.pod_sets[0].shape.requests["cpu"] == cpu


def test_a_pod_level_limit_is_a_request_where_no_container_asks() -> None:
    resources = {"limits": {"cpu": "2", "memory": "1Gi"}}
    raw = raw_workload(container({"memory": "1Mi"}), resources=resources)
    requests = QueueDecoder(Decoder()).workload(raw).pod_sets[0].shape.requests
    assert (requests["cpu"], requests["memory"]) == (2000, 2**20)


def test_a_limit_range_for_pods_bounds_pod_level_limits() -> None:
    decoder = QueueDecoder(Decoder())
    raw = raw_workload(container({"cpu": "1"}), resources={"limits": {"cpu": "4"}})
    [pods] = decoder.workload(raw).pod_sets
    most = (LimitRangeItem("Pod", most={"cpu": "3"}),)
    assert "may take 4 cpu" in decoder.completed(pods, most, {}).fault


@pytest.mark.parametrize(
    ("metadata", "spec", "fault"),
    [
        ({"labels": {"team": "no such value!"}}, {}, "label team=no such value!"),
        ({"labels": {"a b": ""}}, {}, "label a b="),
        ({"labels": {"team": "a" * 64}}, {}, "label team=aaa"),
        ({"annotations": {"a b": "c"}}, {}, "annotation a b="),
        ({}, {"nodeSelector": {"pool": "-"}}, "node selector pool=-"),
        ({"labels": {"a.b/C_d": "1.2-x"}, "annotations": {"A.b/c": "any !"}}, {}, ""),
    ],
)
def test_metadata_that_no_pod_can_have_is_a_fault(
    world: World, metadata: Any, spec: Any, fault: str
) -> None:
    found: Any = json.loads(raw_workload(container({"cpu": "1"}), **spec))
    found["spec"]["podSets"][0]["template"]["metadata"] = metadata
    world.put(json.dumps(found).encode())
    assert world.pods.fault.startswith(fault)
    assert bool(world.pods.fault) is bool(fault)
