"""For how many pods a Workload is admitted, read alone and out of the whole."""

from typing import Any

import msgspec
import pytest

from extender.kube.decode import DecodeError, Decoder
from extender.kube.decode_queues import QueueDecoder, admitted_pods_of, read_job, read_workload
from extender.state.cluster.records import JobInfo

OWNER = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "j", "controller": True}
POD = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "p"}
Sets = dict[str, int]


def workload(
    asked: Sets, given: Sets | None, done: Sets, *conditions: str, owner: Any = OWNER
) -> bytes:
    status: dict[str, Any] = {
        "conditions": [{"type": each, "status": "True", "reason": "R"} for each in conditions],
        "reclaimablePods": [{"name": name, "count": n} for name, n in done.items()],
    }
    if given is not None:
        sets = [{"name": name, "count": n} for name, n in given.items()]
        status["admission"] = {"clusterQueue": "q", "podSetAssignments": sets}
    sets = [{"name": n, "count": count, "template": {"spec": {}}} for n, count in asked.items()]
    meta = {"name": "w", "namespace": "ns", "uid": "w", "ownerReferences": [owner]}
    return msgspec.json.encode({"metadata": meta, "spec": {"podSets": sets}, "status": status})


WANT: dict[str, tuple[bytes, int]] = {
    "waits": (workload({"main": 4}, None, {}), 0),
    "has quota and is not admitted": (workload({"main": 4}, {"main": 4}, {}, "QuotaReserved"), 0),
    "admitted": (workload({"main": 4}, {"main": 4}, {}, "Admitted"), 4),
    "all pod sets": (workload({"a": 4, "b": 1}, {"a": 4, "b": 1}, {}, "Admitted"), 5),
    "for fewer": (workload({"main": 4}, {"main": 2}, {}, "Admitted"), 2),
    "some are done": (workload({"main": 4}, {"main": 4}, {"main": 1}, "Admitted"), 3),
    "some were done before": (workload({"main": 4}, {"main": 3}, {"main": 1}, "Admitted"), 3),
    "evicted": (workload({"main": 4}, {"main": 4}, {}, "Admitted", "Evicted"), 4),
    "ended": (workload({"main": 4}, {"main": 4}, {}, "Admitted", "Finished"), 0),
}


@pytest.mark.parametrize(("raw", "want"), WANT.values(), ids=WANT)
def test_the_number_is_the_same_however_it_is_read(raw: bytes, want: int) -> None:
    found = read_workload(raw)
    assert (found.key, found.owners, found.pods, found.is_of_pods) == ("ns/w", ("j",), want, False)
    assert admitted_pods_of(QueueDecoder(Decoder()).workload(raw)) == found


def test_plain_pods_are_its_job_where_all_owners_are_pods() -> None:
    raw = workload({"main": 1}, None, {}, owner=POD)
    assert read_workload(raw).is_of_pods
    assert admitted_pods_of(QueueDecoder(Decoder()).workload(raw)).is_of_pods


def test_what_is_no_workload_is_refused() -> None:
    with pytest.raises(DecodeError, match="not a readable Workload"):
        read_workload(b'{"status": 3}')


@pytest.mark.parametrize(
    ("labels", "spec", "owner", "held"),
    [
        ({"kueue.x-k8s.io/queue-name": "q"}, {}, {}, "ns/j"),
        ({}, {}, {}, None),
        ({"kueue.x-k8s.io/queue-name": "q"}, {"clusterSelector": {"a": "b"}}, {}, None),
        ({"kueue.x-k8s.io/queue-name": "q"}, {}, {"kind": "RayJob"}, None),
    ],
)
def test_of_another_job_its_queue_and_its_maker_are_read(
    labels: Any, spec: Any, owner: Any, held: str | None
) -> None:
    meta = {
        "name": "j",
        "namespace": "ns",
        "uid": "u",
        "labels": labels,
        "ownerReferences": [OWNER | owner],
    }
    raw = msgspec.json.encode({"metadata": meta, "spec": spec})
    found = read_job(raw, kind="ray.io/RayJob")
    assert found == JobInfo(
        "u", held_by_queue=held, maker="j", kind="ray.io/RayJob", needs_quota=not (spec or owner)
    )
