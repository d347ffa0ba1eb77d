"""What is written about pods, and what the answers mean."""

from typing import Any

import pytest

from extender.kube.client import JSON, JSON_PATCH, MERGE_PATCH
from extender.kube.errors import (
    ApiError,
    ConflictError,
    InvalidError,
    NotFoundError,
    UnavailableError,
    UnknownOutcomeError,
    from_response,
)
from extender.kube.pods import PodRef, PodWriter
from tests.unit.kube.recorded import Recorded

REF = PodRef("ns", "p", "u")
PATH = "/api/v1/namespaces/ns/pods/p"
CONFLICT = ConflictError("taken", status=409)
LOST = UnknownOutcomeError("half an answer")


def writer(client: Recorded) -> PodWriter:
    return PodWriter(client)  # type: ignore[arg-type]


def bound(uid: str, node: str | None) -> dict[str, Any]:
    return {"metadata": {"name": "p", "uid": uid}, "spec": {"nodeName": node}}


async def test_a_binding_names_node_and_uid() -> None:
    client = Recorded()
    await writer(client).bind(REF, "n0")

    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "p", "namespace": "ns", "uid": "u"},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "n0"},
    }
    assert client.requests == [("POST", f"{PATH}/binding", body, JSON)]


async def test_a_name_stays_one_part_of_the_path() -> None:
    """The API server would refuse such a pod; the caller names it all the same."""
    client = Recorded()
    await writer(client).bind(PodRef("a/b", "p HTTP/1.1\r\nX: y?", "u"), "n0")

    path = "/api/v1/namespaces/a%2Fb/pods/p%20HTTP%2F1.1%0D%0AX%3A%20y%3F/binding"
    assert [each[1] for each in client.requests] == [path]


@pytest.mark.parametrize("error", [CONFLICT, LOST])
async def test_a_pod_that_is_there_already_is_a_success(error: ApiError) -> None:
    client = Recorded(error, bound("u", "n0"))
    await writer(client).bind(REF, "n0")

    assert client.requests[1:] == [("GET", PATH, None, JSON)]


@pytest.mark.parametrize(
    ("found", "raised"),
    [(bound("u", None), UnknownOutcomeError), (UnavailableError("down"), UnavailableError)],
)
async def test_a_binding_without_an_answer_may_stay_unknown(
    found: dict[str, Any] | ApiError, raised: type[ApiError]
) -> None:
    with pytest.raises(raised):
        await writer(Recorded(LOST, found)).bind(REF, "n0")


ELSE: dict[str, dict[str, Any] | ApiError] = {
    "on another node": bound("u", "n1"),
    "being deleted": {
        "metadata": {"name": "p", "uid": "u", "deletionTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {},
    },
    "a namesake on the node": bound("other", "n0"),
    "gone meanwhile": NotFoundError("gone", status=404),
}


@pytest.mark.parametrize("found", ELSE.values(), ids=ELSE)
async def test_any_other_conflict_is_an_error(found: dict[str, Any] | ApiError) -> None:
    with pytest.raises(ConflictError, match="taken"):
        await writer(Recorded(CONFLICT, found)).bind(REF, "n0")


async def test_a_conflict_with_nothing_is_passing_trouble() -> None:
    """The API server answers so when etcd does not."""
    client = Recorded(CONFLICT, bound("u", None))
    with pytest.raises(UnavailableError, match="taken"):
        await writer(client).bind(REF, "n0")


async def test_waking_patches_an_annotation_of_that_very_pod() -> None:
    client = Recorded()
    await writer(client).wake(REF, at="now")

    body = {"metadata": {"uid": "u", "annotations": {"scheduling.x-k8s.io/woken-at": "now"}}}
    assert client.requests == [("PATCH", PATH, body, MERGE_PATCH)]


@pytest.mark.parametrize("node", [None, "n0"])
async def test_trying_beside_siblings_patches_a_label_and_nominates_a_node_for_a_moment(
    node: str | None,
) -> None:
    client = Recorded()
    await writer(client).try_beside(REF, at=7, node=node)

    label = {"metadata": {"uid": "u", "labels": {"scheduling.x-k8s.io/tried-beside": "7"}}}
    nominated: list[Any] = [
        {"metadata": {"uid": "u"}, "status": {"nominatedNodeName": name}} for name in (node, None)
    ]
    status = [("PATCH", f"{PATH}/status", body, MERGE_PATCH) for body in nominated if node]
    assert client.requests == [("PATCH", PATH, label, MERGE_PATCH), *status]


async def test_ungating_takes_our_gate_from_that_very_pod() -> None:
    client = Recorded()
    await writer(client).ungate(REF)

    body = [
        {"op": "test", "path": "/metadata/uid", "value": "u"},
        {
            "op": "test",
            "path": "/spec/schedulingGates/0/name",
            "value": "scheduling.x-k8s.io/gang",
        },
        {"op": "remove", "path": "/spec/schedulingGates/0"},
    ]
    assert client.requests == [("PATCH", PATH, body, JSON_PATCH)]


@pytest.mark.parametrize("error", [NotFoundError("gone", status=404), CONFLICT])
async def test_a_pod_that_is_gone_or_another_need_not_be_woken(error: ApiError) -> None:
    await writer(Recorded(error)).wake(REF, at="now")
    await writer(Recorded(error)).ungate(REF)


STATUS = b'{"kind": "Status", "message": "no such pod"}'

WANT_ERROR: dict[str, tuple[int, bytes, type[ApiError], str]] = {
    "418": (418, STATUS, ApiError, "GET /x: 418 no such pod"),
    "422": (422, STATUS, InvalidError, "GET /x: 422 no such pod"),
    "another kind of object may hold secrets": (
        404,
        b'{"kind": "Secret", "message": "hunter2"}',
        NotFoundError,
        "GET /x: 404",
    ),
    "no JSON": (502, b"<html>", UnavailableError, "GET /x: 502"),
    "a long message is cut": (
        404,
        b'{"kind": "Status", "message": "' + b"x" * 2000 + b'"}',
        NotFoundError,
        "GET /x: 404 " + "x" * 1024,
    ),
}


@pytest.mark.parametrize(
    ("status", "body", "want_kind", "want"), WANT_ERROR.values(), ids=WANT_ERROR
)
def test_an_answer_becomes_an_error(
    status: int, body: bytes, want_kind: type[ApiError], want: str
) -> None:
    error = from_response(status, body, doing="GET /x")

    assert (type(error), str(error), error.status) == (want_kind, want, status)
