"""What is written of preemptors and victims, and what the answers mean."""

from typing import Any

import pytest

from extender.kube.client import APPLY_PATCH, JSON, STRATEGIC_PATCH
from extender.kube.errors import (
    ApiError,
    BudgetError,
    ConflictError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    ThrottledError,
    from_response,
)
from extender.kube.pod_groups import (
    NotStoredError,
    PodGroupWriter,
    PreemptorWriter,
    TooManyVictimsError,
)
from extender.kube.pods import PodRef
from extender.state.cluster.records import (
    ConditionInfo,
    NominatedRoom,
    PodGroupStatusInfo,
    PreemptedRoom,
    VictimInfo,
)
from gang_tools.manifests import faults, schema_for
from tests.makers import pod_group, requests
from tests.unit.kube.recorded import Recorded

POD = PodRef("ns", "p", "u")
GROUP = pod_group("g", uid="u-1")
SAID = ConditionInfo("Preempting", "True", "Evicting", "2 pods", 1000.0, 7)
CHOSEN = PreemptedRoom(
    1000.0,
    {"n0": NominatedRoom(("g-0",), requests(4))},
    (VictimInfo("PodGroup", "u-2", ("a", "b")), VictimInfo("Pod", "c", ("c",))),
)
BASE = "/api/v1/namespaces/ns/pods/p"
NOMINATED = f"{BASE}/status?fieldManager=gang-extender-reconciler-preemption&force=true"
GROUP_STATUS = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/ns/podgroups/g/status"


def victims(client: Recorded) -> PodGroupWriter:
    return PodGroupWriter(client)  # type: ignore[arg-type]


def preemptors(client: Recorded) -> PreemptorWriter:
    return PreemptorWriter(client)  # type: ignore[arg-type]


async def test_the_choice_and_its_condition_are_one_write() -> None:
    client = Recorded()
    await preemptors(client).apply(GROUP, CHOSEN, SAID)

    [(method, path, body, content_type)] = client.requests
    assert (method, content_type) == ("PATCH", APPLY_PATCH)
    assert path == f"{GROUP_STATUS}?fieldManager=gang-extender-preemption&force=true"
    status = body["status"]
    assert status["preemption"] == {
        "since": "1970-01-01T00:16:40Z",
        "nodes": [{"name": "n0", "pods": ["g-0"], "room": {"cpu": "4", "pods": "1"}}],
        "victims": [
            {"kind": "PodGroup", "uid": "u-2", "pods": ["a", "b"]},
            {"kind": "Pod", "uid": "c"},
        ],
    }
    assert [each["type"] for each in status["conditions"]] == ["Preempting"]
    schema = schema_for("scheduling.x-k8s.io/v1alpha1", "PodGroup")
    assert schema is not None
    assert [*faults({"status": status}, schema)] == []

    await preemptors(client).apply(GROUP, None, SAID)
    assert client.body["status"].keys() == {"conditions"}


@pytest.mark.parametrize("status", [{}, {"status": {"phase": "Pending"}}])
async def test_a_server_that_drops_the_choice_is_found_out(status: dict[str, Any]) -> None:
    answer: dict[str, Any] = {"kind": "PodGroup", **status}
    client = Recorded(answer, answer)
    with pytest.raises(NotStoredError, match=r"podgroups\.scheduling\.x-k8s\.io .* manifests/crds"):
        await preemptors(client).apply(GROUP, CHOSEN, SAID)
    await preemptors(client).apply(GROUP, None, SAID)

    kept = {"kind": "PodGroup", "status": {"preemption": {"nodes": []}}}
    await preemptors(Recorded(kept)).apply(GROUP, CHOSEN, SAID)


async def test_too_many_victims_are_not_written() -> None:
    many = VictimInfo("PodGroup", "u", tuple(f"{number:036}" for number in range(20_000)))
    client = Recorded()
    with pytest.raises(TooManyVictimsError, match="1 victims are too many"):
        await preemptors(client).apply(GROUP, PreemptedRoom(0.0, {}, (many,)), SAID)
    assert client.requests == []


def said(kind: str, reason: str, message: str) -> dict[str, Any]:
    """Return a status with one condition that is true since second 1000."""
    condition = {"type": kind, "status": "True", "reason": reason, "message": message}
    return {"status": {"conditions": [{**condition, "lastTransitionTime": "1970-01-01T00:16:40Z"}]}}


WRITES: dict[str, tuple[Any, tuple[str, str, str], dict[str, Any]]] = {
    "a nominated node": (
        lambda w: w.nominate(POD, "n0"),
        ("PATCH", NOMINATED, APPLY_PATCH),
        {"status": {"nominatedNodeName": "n0"}},
    ),
    "none any more": (
        lambda w: w.nominate(POD, None),
        ("PATCH", NOMINATED, APPLY_PATCH),
        {"status": {}},
    ),
    "an eviction": (
        lambda w: w.evict(POD),
        ("POST", f"{BASE}/eviction", JSON),
        {"deleteOptions": {"preconditions": {"uid": "u"}}},
    ),
    "whether it may be evicted": (
        lambda w: w.evict(POD, dry_run=True),
        ("POST", f"{BASE}/eviction?dryRun=All", JSON),
        {"deleteOptions": {"preconditions": {"uid": "u"}}},
    ),
    "a deletion": (
        lambda w: w.delete(POD),
        ("DELETE", BASE, JSON),
        {"preconditions": {"uid": "u"}},
    ),
    "readiness": (
        lambda w: w.set_gang_ready(POD, ready=True, reason="R", message="m", at=1000.0),
        ("PATCH", f"{BASE}/status", STRATEGIC_PATCH),
        {"metadata": {"uid": "u"}, **said("scheduling.x-k8s.io/gang-ready", "R", "m")},
    ),
    "the status of a group": (
        lambda w: w.apply_status(GROUP, PodGroupStatusInfo(phase="Pending")),
        (
            "PATCH",
            f"{GROUP_STATUS}?fieldManager=gang-extender-reconciler&force=true",
            APPLY_PATCH,
        ),
        {"kind": "PodGroup"},
    ),
    "a mark": (
        lambda w: w.mark(POD, "for g", at=1000.0),
        ("PATCH", f"{BASE}/status", STRATEGIC_PATCH),
        {"metadata": {"uid": "u"}, **said("DisruptionTarget", "PreemptionByScheduler", "for g")},
    ),
}


@pytest.mark.parametrize(("write", "request_", "body"), WRITES.values(), ids=WRITES)
async def test_what_is_written_of_pods_names_the_very_pod(
    write: Any, request_: tuple[str, str, str], body: dict[str, Any]
) -> None:
    client = Recorded()
    await write(victims(client))
    [(method, path, sent, content_type)] = client.requests
    assert (method, path, content_type) == request_
    assert body.items() <= sent.items()
    assert "'uid': 'u" in str(sent)

    for gone in (NotFoundError("gone", status=404), ConflictError("another", status=409)):
        await write(victims(Recorded(gone)))
    if "nominatedNodeName" in str(body):
        await write(victims(Recorded(InvalidError("it is bound", status=422))))
    with pytest.raises(ForbiddenError):
        await write(victims(Recorded(ForbiddenError("no", status=403))))


@pytest.mark.parametrize(
    ("cause", "want"), [("DisruptionBudget", BudgetError), ("Other", ThrottledError)]
)
def test_a_disruption_budget_is_no_busy_server(cause: str, want: type[ApiError]) -> None:
    body = b'{"kind": "Status", "message": "m", "details": {"causes": [{"reason": "%b"}]}}'
    found = from_response(429, body % cause.encode(), doing="POST /")
    assert type(found) is want
