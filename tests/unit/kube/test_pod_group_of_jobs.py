"""The PodGroup that is applied for a job, as the API server gets it, and as it is read again."""

import json
from typing import Any

import pytest

from extender.api.wellknown import GROUP_X, POD_GROUP_GROUPS
from extender.kube.decode import Decoder
from extender.kube.errors import (
    ApiError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    UnavailableError,
)
from extender.kube.queues import JobWriter
from extender.state.cluster.records import Grant
from tests.unit.kube.recorded import Recorded

OWNERS = [{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u"}]
GRANT = Grant({"n0": {"cpu": 1500, "pods": 2}}, 1700000000.0)
PATH = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/ns/podgroups/g"


STORED = {"metadata": {"uid": "stored"}}


def writer(client: Recorded) -> JobWriter:
    return JobWriter(client, lambda raw, kind: pytest.fail(f"{kind} {raw!r}"))  # type: ignore[arg-type]


async def made(client: Recorded, **more: Any) -> None:
    await writer(client).make_pod_group("ns", "g", min_member=4, owners=OWNERS, **more)


@pytest.mark.parametrize(
    ("more", "annotations"),
    [
        ({}, None),
        ({"done": 2}, {"scheduling.x-k8s.io/done-pods": "2"}),
        ({"grant": Grant({f"node-{n}": {"cpu": 1} for n in range(30_000)}, 1.0)}, None),
    ],
    ids=["plain", "done", "too much room"],
)
async def test_it_is_applied_whole_so_that_what_is_left_out_goes(
    more: dict[str, Any], annotations: dict[str, str] | None
) -> None:
    client = Recorded()
    await made(client, **more)
    [(method, path, body, content_type)] = client.requests
    assert (method, content_type) == ("PATCH", "application/apply-patch+yaml")
    assert path == f"{PATH}?fieldManager=gang-extender-queue&force=true"
    assert body["metadata"].get("annotations") == annotations
    assert body["metadata"]["ownerReferences"] == OWNERS
    assert body["spec"] == {"minMember": 4}
    read = Decoder().pod_group(json.dumps(body).encode(), api_group=GROUP_X)
    assert (read.done, read.grant) == (more.get("done", 0), None)


async def test_room_is_applied_to_the_status_of_that_very_pod_group() -> None:
    client = Recorded(STORED)
    await made(client, grant=GRANT)
    [(_, _, first, _), (method, path, body, content_type)] = client.requests
    assert "annotations" not in first["metadata"]
    assert (method, content_type) == ("PATCH", "application/apply-patch+yaml")
    assert path == f"{PATH}/status?fieldManager=gang-extender-room&force=true"
    assert body["metadata"] == {"name": "g", "namespace": "ns", "uid": "stored"}
    assert body["status"] == {
        "grantedRoom": {
            "until": "2023-11-14T22:13:20Z",
            "nodes": {"n0": {"cpu": "1500m", "pods": "2"}},
        }
    }
    read = Decoder().pod_group(json.dumps(body).encode(), api_group=GROUP_X)
    assert read.grant == GRANT


@pytest.mark.parametrize("error", [ForbiddenError("no", status=403), InvalidError("no")])
async def test_a_pod_group_is_made_where_its_room_is_refused(error: ApiError) -> None:
    client = Recorded(STORED, error)
    await made(client, grant=GRANT)
    assert [path.partition("?")[0] for _, path, _, _ in client.requests] == [PATH, f"{PATH}/status"]


@pytest.mark.parametrize(
    "answers",
    [
        [ForbiddenError("no", status=403)],
        [STORED, NotFoundError("gone", status=404)],
        [STORED, UnavailableError("later", status=503)],
    ],
)
async def test_what_may_be_tried_again_is_raised(answers: list[Any]) -> None:
    with pytest.raises(type(answers[-1])):
        await made(Recorded(*answers), grant=GRANT)


@pytest.mark.parametrize("api_group", POD_GROUP_GROUPS)
async def test_a_grant_is_dropped_and_nothing_else(api_group: str) -> None:
    client = Recorded()
    await writer(client).drop_grant("ns", "g", api_group=api_group)
    path = f"{PATH.replace(GROUP_X, api_group)}/status?fieldManager=gang-extender-room"
    patch = {"status": {"grantedRoom": None}}
    assert client.requests == [("PATCH", path, patch, "application/merge-patch+json")]


@pytest.mark.parametrize("said", ["-1", "many", "9" * 5000, ""])
def test_a_count_that_is_none_is_zero(said: str) -> None:
    annotations = {"scheduling.x-k8s.io/done-pods": said}
    raw = {"metadata": {"name": "g", "annotations": annotations}, "spec": {"minMember": 2}}
    assert Decoder().pod_group(json.dumps(raw).encode(), api_group=GROUP_X).done == 0
