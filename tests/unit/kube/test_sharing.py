"""Equal parts of Workloads are in memory once, and unequal ones stay what they are."""

import json
from typing import Any

import pytest

from extender.api.values import LONG_TEXT
from extender.kube.decode import Decoder
from extender.kube.decode_queues import QueueDecoder
from extender.state.queue.records import WorkloadInfo

TOPOLOGY = {"levels": ["host"], "domains": [{"values": ["n0"], "count": 2}]}


def workload(number: int, **changed: Any) -> bytes:
    """Return one of many Workloads, with what is changed of it."""
    container = {"name": "c", "resources": {"requests": {"cpu": changed.get("cpu", "1")}}}
    pod_set = {
        "name": "main",
        "count": changed.get("count", 2),
        "template": {"spec": {"containers": [container]}},
    }
    if "min_count" in changed:
        pod_set["minCount"] = changed["min_count"]
    given = {
        "name": "main",
        "count": 2,
        "flavors": {"cpu": changed.get("flavor", "default")},
        "resourceUsage": {"cpu": changed.get("usage", "2")},
    }
    if "topology" in changed:
        given["topologyAssignment"] = changed["topology"]
    condition = {
        "type": "Admitted",
        "status": "True",
        "reason": "Admitted",
        "message": "The workload is admitted",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    metadata = {
        "name": f"w-{number}",
        "namespace": "ns",
        "uid": f"u-{number}",
        "labels": {"class": changed.get("label", "small")},
        "annotations": {"runtime": "200"},
    }
    admission = {"clusterQueue": changed.get("queue", "q"), "podSetAssignments": [given]}
    return json.dumps(
        {
            "metadata": metadata,
            "spec": {"queueName": "q", "podSets": [pod_set]},
            "status": {"admission": admission, "conditions": [condition]},
        }
    ).encode()


@pytest.fixture
def decoder() -> QueueDecoder:
    return QueueDecoder(Decoder())


def shared(one: WorkloadInfo, other: WorkloadInfo) -> dict[str, bool]:
    """Return which parts of two workloads are one object."""
    first, second = one.conditions[0], other.conditions[0]
    return {
        "pod set": one.pod_sets[0] is other.pod_sets[0],
        "admission": one.admission is other.admission,
        "labels": one.meta.labels is other.meta.labels,
        "annotations": one.meta.annotations is other.meta.annotations,
        "texts": first.message is second.message and first.type is second.type,
    }


def test_equal_parts_are_one(decoder: QueueDecoder) -> None:
    one, other = (decoder.workload(workload(number)) for number in range(2))

    assert (one.meta.name, other.meta.name) == ("w-0", "w-1")
    assert all(shared(one, other).values()), shared(one, other)


@pytest.mark.parametrize(
    ("changed", "part"),
    [
        ({"count": 3}, "pod set"),
        ({"min_count": 1}, "pod set"),
        ({"cpu": "2"}, "pod set"),
        ({"flavor": "spot"}, "admission"),
        ({"usage": "3"}, "admission"),
        ({"queue": "r"}, "admission"),
        ({"topology": TOPOLOGY}, "admission"),
        ({"label": "large"}, "labels"),
    ],
)
def test_what_differs_in_one_part_shares_the_others(
    decoder: QueueDecoder, changed: dict[str, Any], part: str
) -> None:
    """And reads as it does alone."""
    one, other = decoder.workload(workload(0)), decoder.workload(workload(1, **changed))

    assert [name for name, same in shared(one, other).items() if not same] == [part]
    alone = QueueDecoder(Decoder()).workload(workload(1, **changed))
    assert repr(other) == repr(alone)  # shapes are equal where they are the same


def test_where_pods_go_is_each_workloads_own(decoder: QueueDecoder) -> None:
    one, other = (decoder.workload(workload(number, topology=TOPOLOGY)) for number in range(2))

    assert one.admission == other.admission
    assert one.admission is not other.admission


def test_what_users_write_at_length_is_not_kept(decoder: QueueDecoder) -> None:
    text = "x" * (LONG_TEXT + 1)
    one, other = (decoder.workload(workload(number, label=text)) for number in range(2))

    assert one.meta.labels == other.meta.labels
    assert one.meta.labels is not other.meta.labels


def test_labels_that_are_unique_are_not_kept(decoder: QueueDecoder) -> None:
    raw = workload(0).replace(b'"class"', b'"kueue.x-k8s.io/job-uid"')
    one, other = decoder.workload(raw), decoder.workload(raw)

    assert one.meta.labels == other.meta.labels
    assert one.meta.labels is not other.meta.labels
