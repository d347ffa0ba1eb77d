"""Workloads that the API server takes and nobody can read: an error of that one object."""

import json
from typing import Any

import pytest

from extender.kube.decode import DecodeError, Decoder
from extender.kube.decode_queues import QueueDecoder
from extender.kube.errors import InvalidError
from extender.kube.queues import WorkloadWriter
from extender.state.queues.records import Meta

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
async def test_what_cannot_be_read_is_an_error_of_one_object(spec: dict[str, Any]) -> None:
    decoder, raw = QueueDecoder(Decoder()), odd(**spec)
    with pytest.raises(DecodeError):
        decoder.workload(raw)
    writer = WorkloadWriter(Client(raw), decoder)  # type: ignore[arg-type]
    with pytest.raises(InvalidError):
        await writer.read(Meta("w", "ns"))
    with pytest.raises(InvalidError):
        await writer.patch(Meta("w", "ns"), {"spec": {"active": False}})
