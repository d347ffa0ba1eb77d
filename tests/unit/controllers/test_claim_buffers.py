"""Buffers that show autoscalers which nodes are set aside, and when they come and go."""

import asyncio
from typing import cast

import pytest

from extender.api.wellknown import HOSTNAME_LABEL
from extender.controllers.claim_buffers import ClaimBuffers
from extender.controllers.timing import LATE
from extender.kube.autoscaling import Autoscaling
from extender.kube.client import KubeClient
from extender.kube.errors import ForbiddenError, UnavailableError
from extender.state.cluster.records import NodeInfo, PodGroupInfo
from tests.makers import (
    ManualClock,
    cluster_of,
    deleted,
    key,
    node,
    observe,
    pod,
    pod_group,
    pods,
)
from tests.unit.controllers.test_node_requests import Store

SERVED = {"capacitybuffers": "v1beta1"}
BUFFERS = "/apis/autoscaling.x-k8s.io/v1beta1/namespaces/ns/capacitybuffers/"


THEIRS = {
    "of-a-workload": ("Workload", "kueue.x-k8s.io/v1beta2"),
    "of-another-api": ("PodGroup", "example.com/v1"),
    "of-another-kind": ("Workload", "scheduling.k8s.io/v1alpha1"),
}
"""Buffers with our label that no gang of ours has."""


class Bench:
    """The buffers of two nodes, with a claim of a gang."""

    def __init__(self, **served: str) -> None:
        self.store, self.clock = Store(**(served or SERVED)), ManualClock()
        self.cluster = cluster_of(host("n0"), host("n1"), pod("x", 3, on="n1"), pods(3, 4))
        self.buffers = self.made()
        self.keep("n0", "n1")

    def made(self, *, on: bool = True) -> ClaimBuffers:
        client = cast("KubeClient", self.store)
        view = self.cluster.view()
        return ClaimBuffers(view, Autoscaling(client), clock=self.clock, on=on)

    def keep(self, *names: str) -> None:
        observe(self.cluster, pod_group("gang", uid="u", kept_nodes=names))

    def rooms(self) -> dict[str, dict[str, str]]:
        """Return what is shown as taken, by node."""
        found = self.store.objects.values()
        templates = {each["metadata"]["name"]: each for each in found if "template" in each}
        named = [each["spec"]["podTemplateRef"]["name"] for each in found if "spec" in each]
        specs = [templates.pop(name)["template"]["spec"] for name in named]
        assert not templates, "each template has a buffer"
        return {
            each["nodeSelector"][HOSTNAME_LABEL]: each["containers"][0]["resources"]["requests"]
            for each in specs
        }


def host(name: str) -> NodeInfo:
    return node(name, 4, labels={HOSTNAME_LABEL: f"host-{name}"})


async def test_a_claimed_node_has_a_buffer_of_what_is_free_there() -> None:
    bench = Bench()
    await bench.buffers.look()

    assert bench.rooms() == {"host-n0": {"cpu": "4"}, "host-n1": {"cpu": "1"}}
    buffer = next(each for each in bench.store.objects.values() if "replicas" in str(each))
    assert buffer["spec"]["replicas"] == 1
    [owner] = buffer["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("PodGroup", "gang", "u")
    template = next(each for each in bench.store.objects.values() if "template" in each)
    spec = template["template"]["spec"]
    assert (spec["priorityClassName"], spec["priority"]) == ("system-cluster-critical", 2 * 10**9)
    assert spec["tolerations"] == [{"operator": "Exists"}]
    [asks] = [each["resources"] for each in spec["containers"]]
    assert asks["limits"] == asks["requests"]
    made = [call.rpartition("/")[2] for call in bench.store.calls if call.startswith("POST")]
    assert made == ["podtemplates", "capacitybuffers"] * 2
    calls = len(bench.store.calls)
    await bench.buffers.look()
    assert len(bench.store.calls) == calls, "nothing has changed"


async def test_other_room_is_another_buffer_and_none_is_left_after_the_claim() -> None:
    bench = Bench()
    await bench.buffers.look()
    observe(bench.cluster, pod("y", 2, on="n0"))
    await bench.buffers.look()
    assert bench.rooms() == {"host-n0": {"cpu": "2"}, "host-n1": {"cpu": "1"}}
    observe(bench.cluster, pod("z", 2, on="n0"))
    await bench.buffers.look()
    assert bench.rooms() == {"host-n1": {"cpu": "1"}}
    bench.keep()
    await bench.buffers.look()
    assert bench.store.objects == {}


async def test_a_group_or_a_node_that_is_gone_has_none() -> None:
    bench = Bench()
    await bench.buffers.look()
    bench.cluster.apply(deleted("n0", NodeInfo))
    await bench.buffers.look()
    assert [*bench.rooms()] == ["host-n1"]
    bench.cluster.apply(deleted((pod_group("gang").api_group, key("gang")), PodGroupInfo))
    await bench.buffers.look()
    assert bench.store.objects == {}


async def test_what_an_earlier_leader_left_for_gangs_goes_where_the_setting_is_off() -> None:
    bench = Bench()
    await bench.buffers.look()
    for name, (kind, version) in THEIRS.items():
        owner = {"kind": kind, "apiVersion": version, "name": "w"}
        meta = {"name": name, "namespace": "ns", "ownerReferences": [owner]}
        bench.store.objects[f"{BUFFERS}{name}"] = {"kind": "CapacityBuffer", "metadata": meta}

    await asyncio.wait_for(bench.made(on=False).run(), 5)

    assert [*bench.store.objects] == [f"{BUFFERS}{name}" for name in THEIRS]


async def test_another_leader_keeps_what_is_right_and_deletes_the_rest() -> None:
    bench = Bench()
    await bench.buffers.look()
    before = {*bench.store.objects}
    bench.keep("n1")
    await bench.made().look()
    assert {*bench.store.objects} < before
    assert [*bench.rooms()] == ["host-n1"]


async def test_a_buffer_that_someone_deletes_comes_again() -> None:
    bench = Bench()
    await bench.buffers.look()
    there = dict(bench.store.objects)
    bench.store.objects.clear()
    await bench.buffers.look()
    assert bench.store.objects == {}
    bench.clock.now += LATE
    await bench.buffers.look()
    assert bench.store.objects == there


async def test_a_template_that_someone_deletes_comes_again() -> None:
    bench = Bench()
    await bench.buffers.look()
    there = dict(bench.store.objects)
    for name in [name for name in there if "podtemplates" in name]:
        del bench.store.objects[name]
    bench.clock.now += LATE
    await bench.buffers.look()
    assert bench.store.objects == there


@pytest.mark.parametrize("kind", ["CapacityBuffer", "PodTemplate"])
async def test_one_that_is_refused_is_tried_again_after_a_minute(kind: str) -> None:
    bench = Bench()
    bench.store.refused = kind
    await bench.buffers.look()
    assert bench.store.objects == {}, "no template stays without its buffer"
    calls = len(bench.store.calls)
    bench.store.refused = ""
    await bench.buffers.look()
    assert len(bench.store.calls) == calls
    bench.clock.now += LATE
    await bench.buffers.look()
    assert len(bench.rooms()) == 2


async def test_where_no_buffers_are_served_none_is_made() -> None:
    bench = Bench(provisioningrequests="v1")
    await bench.buffers.look()
    assert bench.store.objects == {}
    bench.store.served = SERVED
    bench.clock.now += LATE
    await bench.buffers.look()
    assert len(bench.rooms()) == 2


async def test_other_room_of_a_refused_one_leaves_nothing_behind() -> None:
    bench = Bench()
    bench.store.refused = "CapacityBuffer"
    await bench.buffers.look()
    bench.store.refused = ""
    observe(bench.cluster, pod("y", 2, on="n0"))
    await bench.buffers.look()
    assert bench.rooms() == {"host-n0": {"cpu": "2"}}


async def test_a_delete_that_is_refused_keeps_back_no_other() -> None:
    bench = Bench()
    await bench.buffers.look()
    first = min(name for name in bench.store.objects if "capacitybuffers" in name)
    bench.store.error, bench.store.failing = ForbiddenError("a policy"), f"DELETE {first}"
    bench.keep()
    await bench.buffers.look()
    assert [*bench.store.objects] == [first]
    calls = len(bench.store.calls)
    await bench.buffers.look()
    assert len(bench.store.calls) == calls
    bench.store.error = None
    bench.clock.now += LATE
    await bench.buffers.look()
    assert bench.store.objects == {}


async def test_where_the_setting_is_off_a_delete_that_is_refused_is_repeated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = Bench()
    await bench.buffers.look()
    bench.store.error, bench.store.failing = ForbiddenError("a policy"), "DELETE"

    async def pause(_: float) -> None:
        bench.store.error = None

    monkeypatch.setattr("extender.controllers.claim_buffers.asyncio.sleep", pause)
    await asyncio.wait_for(bench.made(on=False).run(), 5)
    assert bench.store.objects == {}


async def test_the_template_goes_first_so_that_what_is_left_is_found_again() -> None:
    bench = Bench()
    await bench.buffers.look()
    there = {*bench.store.objects}
    bench.keep()
    bench.store.error, bench.store.failing = UnavailableError("down"), f"DELETE {BUFFERS}"
    await bench.made().look()
    assert {*bench.store.objects} == {name for name in there if BUFFERS in name}
    bench.store.error = None
    await bench.made().look()
    assert bench.store.objects == {}


async def test_a_node_without_a_host_name_has_none() -> None:
    bench = Bench()
    observe(bench.cluster, node("n0", 4))
    await bench.buffers.look()
    assert [*bench.rooms()] == ["host-n1"]


async def test_another_pod_group_of_the_same_name_has_buffers_of_its_own() -> None:
    bench = Bench()
    await bench.buffers.look()
    before = {*bench.store.objects}
    observe(bench.cluster, pod_group("gang", uid="other", kept_nodes=("n0", "n1")))
    await bench.buffers.look()
    assert len(bench.rooms()) == 2
    assert not before & {*bench.store.objects}


async def test_where_buffers_are_served_no_more_the_templates_go() -> None:
    bench = Bench()
    await bench.buffers.look()
    bench.store.served = {}
    bench.clock.now += LATE
    await bench.buffers.look()
    assert not [name for name in bench.store.objects if "podtemplates" in name]


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("error", [UnavailableError("down"), ValueError("a bug")])
async def test_an_error_is_no_end(
    error: Exception, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench, paused = Bench(), asyncio.Event()

    async def pause(_: float) -> None:
        if bench.store.error is None:
            paused.set()
            await asyncio.Event().wait()
        bench.store.error = None

    monkeypatch.setattr("extender.controllers.claim_buffers.asyncio.sleep", pause)
    bench.store.error, bench.store.failing = error, method
    running = asyncio.create_task(bench.buffers.run())
    await asyncio.wait_for(paused.wait(), 5)
    running.cancel()
    assert len(bench.rooms()) == 2
