"""The benchmark of the event loop: what it shows, and how it reads what it measured."""

from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from extender.kube.decode import Decoder
from extender.kube.decode_queues import QueueDecoder
from tests.bench.loop import report
from tests.bench.loop.scenes import Row
from tests.bench.loop.stage import NODES, POD_GROUPS, PODS, QUEUE_API, STAGES, Collection
from tests.bench.loop.steps import Meter


def row(name: str, longest: float = 3.0) -> Row:
    return Row(name, longest, 10.0, int(longest > report.LIMIT), 1.0, "somewhere", 2**20)


def test_steps_over_the_limit_are_named() -> None:
    assert report.too_long([row("a"), row("b", 51.0)]) == ["b: a step of 51 ms in somewhere"]


def test_rows_are_kept_and_shown_beside_later_ones(tmp_path: Path) -> None:
    file = tmp_path / "before.json"
    report.write(file, [row("a", 444.0)], how="by hand")
    console = Console(width=140)
    with console.capture() as captured:
        console.print(report.table([row("a"), row("b", 77.0)], report.read(file)))
    text = captured.get()
    assert "444" in text
    assert "77 !" in text


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


@pytest.mark.parametrize("stage", ["cluster", "waiting", "gang", "pod groups"])
def test_the_processes_can_read_what_is_shown(stage: str) -> None:
    decoder, shown = Decoder(), STAGES[stage](1000, 100)
    pods = [decoder.pod(each) for each in raw(shown[PODS])]
    nodes = {decoder.node(each).name for each in raw(shown[NODES])}
    assert len({pod.uid for pod in pods}) == len(pods) >= 1000
    assert {pod.node for pod in pods if pod.node} <= nodes
    if POD_GROUPS in shown:
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


def test_an_object_that_was_written_is_shown_as_written() -> None:
    pods = STAGES["gang"](10, 10)[PODS]
    assert pods.find("bench", "gang-3") == 3
    assert pods.find("bench", "other") is None
    pods.gone.add(4)
    assert len(raw(pods)) == 9
    pods.variants[3], pods.versions[3] = 1, 77
    meta = msgspec.json.decode(pods.raw([3])[0])["metadata"]
    assert (meta["resourceVersion"], meta["generation"]) == ("77", 2)
