"""Workloads that the API server takes and that cannot be read: an error of that one object."""

import json
from typing import Any

import pytest

from extender.kube.decode import DecodeError, Decoder
from extender.kube.decode_queues import QueueDecoder
from extender.kube.errors import InvalidError
from extender.kube.queues import WorkloadWriter
from extender.state.queue.records import Meta

LIMITS = {"resources": {"limits": {"cpu": "1"}}}


def odd(**spec: Any) -> bytes:
    """Return a Workload with an odd pod spec."""
    template = {"spec": {"containers": [{"name": "c", **LIMITS}], **spec}}
    metadata = {"name": "w", "namespace": "ns", "uid": "u", "resourceVersion": "7"}
    pod_sets = [{"name": "main", "count": 1, "template": template}]
    return json.dumps({"metadata": metadata, "spec": {"podSets": pod_sets}}).encode()


class Client:
    """Answers every request with the same."""

    def __init__(self, answer: bytes) -> None:
        self.answer = answer

    async def request(self, *_: object, **__: object) -> bytes:
        return self.answer


@pytest.mark.parametrize(
    "spec",
    [
        {"affinity": "somewhere"},
        {"containers": ["c", LIMITS]},
        {"initContainers": 1},
        {"containers": [{"resources": {"limits": {"cpu": "1"}, "requests": "much"}}]},
    ],
)
async def test_of_what_cannot_be_read_is_known_what_can_be(spec: dict[str, Any]) -> None:
    decoder, raw = QueueDecoder(Decoder()), odd(**spec)
    found = decoder.workload(raw)
    assert found.meta == Meta("w", "ns", "u", 7)
    assert [(each.name, each.count) for each in found.pod_sets] == [("main", 1)]
    assert "not a readable pod template" in found.unreadable

    writer = WorkloadWriter(Client(raw), decoder)  # type: ignore[arg-type]
    assert await writer.read(Meta("w", "ns")) == found
    assert await writer.patch(Meta("w", "ns"), {"spec": {"active": False}}) == found


async def test_what_has_no_readable_metadata_is_an_error() -> None:
    decoder, raw = QueueDecoder(Decoder()), b'{"metadata": {"name": 7}}'
    with pytest.raises(DecodeError):
        decoder.workload(raw)
    writer = WorkloadWriter(Client(raw), decoder)  # type: ignore[arg-type]
    with pytest.raises(InvalidError):
        await writer.read(Meta("w", "ns"))


def test_a_workload_that_is_nested_deeply_keeps_what_it_holds() -> None:
    held = {"clusterQueue": "q", "podSetAssignments": [{"name": "main", "count": 1}]}
    nested = b'{"a":' * 5000 + b"1" + b"}" * 5000
    template = b'{"spec": {"containers": [], "deep": ' + nested + b"}}"
    raw = (
        b'{"metadata": {"name": "w", "namespace": "ns", "uid": "u", "resourceVersion": "7"},'
        b'"spec": {"podSets": [{"name": "main", "count": 1, "template": ' + template + b"}]},"
        b'"status": {"admission": ' + json.dumps(held).encode() + b"}}"
    )
    found = QueueDecoder(Decoder()).workload(raw)
    assert found.meta == Meta("w", "ns", "u", 7)
    assert found.admission is not None
    assert found.admission.cluster_queue == "q"
    assert "recursion" in found.unreadable
