"""The benchmark of the event loop: what it shows, and how it reads what it measured."""

from collections.abc import Sequence

import pytest
from rich.console import Console

from extender.kube.decode import Decoder
from extender.kube.decode_queues import QueueDecoder
from tests.bench.loop.__main__ import LIMIT, table, too_long
from tests.bench.loop.scenes import Row
from tests.bench.loop.stage import NODES, POD_GROUPS, PODS, QUEUE_API, STAGES, Collection
from tests.bench.loop.steps import Meter


def row(name: str, longest: float = 3.0) -> Row:
    return Row(name, longest, 10.0, int(longest > LIMIT), 1.0, "somewhere", 2**20)


def test_steps_over_the_limit_are_named_and_marked() -> None:
    rows = [row("a"), row("b", 51.0)]
    console = Console(width=140)
    with console.capture() as captured:
        console.print(table(rows))
    assert "51 !" in captured.get()
    assert too_long(rows) == ["b: a step of 51 ms in somewhere"]


def test_a_meter_times_each_step_alone() -> None:
    meter = Meter()
    for seconds in (0.01, 0.09, 0.06, 0.02):
        meter._note(seconds, len)
    found = meter.take()
    assert (found["count"], found["longest"], found["slow"]) == (4, 0.09, 2)
    assert found["total"] == pytest.approx(0.18)
    assert meter.take()["count"] == 0


def raw(collection: Collection) -> Sequence[bytes]:
    return collection.raw(range(collection.count))


@pytest.mark.parametrize("stage", ["cluster", "waiting", "page"])
def test_the_processes_can_read_what_is_shown(stage: str) -> None:
    decoder, shown = Decoder(), STAGES[stage](1000, 100)
    pods = [decoder.pod(each) for each in raw(shown[PODS])]
    nodes = {decoder.node(each).name for each in raw(shown[NODES])}
    assert len({pod.uid for pod in pods}) == len(pods) >= 1000
    assert {pod.node for pod in pods if pod.node} <= nodes
    groups = {
        decoder.pod_group(each, api_group="scheduling.x-k8s.io").key
        for each in raw(shown[POD_GROUPS])
    }
    assert {pod.group for pod in pods if pod.group} == groups


def test_workloads_of_a_queue_fit_nowhere_and_are_no_equals() -> None:
    shown = STAGES["queues"](8, 4)
    decoder = QueueDecoder(Decoder())
    found = [decoder.workload(each) for each in raw(shown[f"{QUEUE_API}/workloads"])]
    asked = {(each.queue, each.pod_sets[0].shape.requests["cpu"]) for each in found}
    assert len(asked) == len(found) == 32
    quota = [decoder.cluster_queue(each) for each in raw(shown[f"{QUEUE_API}/clusterqueues"])]
    nominal = sum(each.resource_groups[0].flavors[0].resources["cpu"].nominal for each in quota)
    assert all(cpu > nominal for _, cpu in asked)
