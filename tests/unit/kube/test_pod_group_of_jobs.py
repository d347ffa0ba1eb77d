"""The PodGroup that is applied for a job, as the API server gets it, and as it is read again."""

import json
from typing import Any

import pytest

from extender.api.wellknown import GROUP_X
from extender.kube.decode import Decoder
from extender.kube.queues import JobWriter
from extender.state.claims import Grant

OWNERS = [{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u"}]
GRANT = Grant({"n0": {"cpu": 1500, "pods": 2}}, 1700000000.0)
PATH = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/ns/podgroups/g"


class Client:
    """Keeps what is sent."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, str, Any, str]] = []

    async def request(self, method: str, path: str, *, body: bytes, content_type: str) -> bytes:
        self.sent.append((method, path, json.loads(body), content_type))
        return b"{}"


@pytest.fixture
def client() -> Client:
    return Client()


@pytest.fixture
def writer(client: Client) -> JobWriter:
    return JobWriter(client, lambda raw, kind: pytest.fail(f"{kind} {raw!r}"))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("more", "annotations"),
    [
        ({}, None),
        ({"done": 2}, {"scheduling.x-k8s.io/done-pods": "2"}),
        (
            {"grant": GRANT},
            {
                "scheduling.x-k8s.io/granted-room": '{"until":"2023-11-14T22:13:20Z",'
                '"nodes":{"n0":{"cpu":"1500m","pods":"2"}}}'
            },
        ),
        ({"grant": Grant({f"node-{n}": {"cpu": 1} for n in range(9000)}, 1.0)}, None),
    ],
    ids=["plain", "done", "granted", "too much"],
)
async def test_it_is_applied_whole_so_that_what_is_left_out_goes(
    client: Client, writer: JobWriter, more: dict[str, Any], annotations: dict[str, str] | None
) -> None:
    await writer.make_pod_group("ns", "g", min_member=4, owners=OWNERS, **more)
    [(method, path, body, content_type)] = client.sent
    assert (method, content_type) == ("PATCH", "application/apply-patch+yaml")
    assert path == f"{PATH}?fieldManager=gang-extender-queue&force=true"
    assert body["metadata"].get("annotations") == annotations
    assert body["metadata"]["ownerReferences"] == OWNERS
    assert body["spec"] == {"minMember": 4}

    read = Decoder().pod_group(json.dumps(body).encode(), api_group=GROUP_X)
    assert read.done == more.get("done", 0)
    assert read.grant == (GRANT if more.get("grant") is GRANT else None)


async def test_a_grant_is_dropped_and_nothing_else(client: Client, writer: JobWriter) -> None:
    await writer.drop_grant("ns", "g")
    annotations = {"scheduling.x-k8s.io/granted-room": None}
    patch = {"metadata": {"annotations": annotations}}
    assert client.sent == [("PATCH", PATH, patch, "application/merge-patch+json")]


@pytest.mark.parametrize("said", ["-1", "many", "9" * 5000, ""])
def test_a_count_that_is_none_is_zero(said: str) -> None:
    annotations = {"scheduling.x-k8s.io/done-pods": said}
    raw = {"metadata": {"name": "g", "annotations": annotations}, "spec": {"minMember": 2}}
    assert Decoder().pod_group(json.dumps(raw).encode(), api_group=GROUP_X).done == 0
