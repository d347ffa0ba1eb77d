"""What is written about groups, and what the answers mean."""

import json
from typing import Any

import pytest
from typing_extensions import override

from extender.kube.client import APPLY_PATCH
from extender.kube.decode import Decoder
from extender.kube.errors import UndeclaredFieldsError, from_response
from extender.kube.pod_groups import PodGroupWriter, PreemptorWriter, as_json
from extender.state.cluster.records import ConditionInfo, PodGroupStatusInfo
from gang_tools.manifests import faults, schema_for
from tests.makers import pod_group
from tests.unit.kube.recorded import Recorded

GROUP = pod_group(uid="u-1")
STATUS = PodGroupStatusInfo(
    phase="Running",
    occupied_by="ns/job",
    scheduled=4,
    running=3,
    succeeded=1,
    failed=2,
    started=1000.0,
    conditions=(ConditionInfo("Scheduled", "True", "Scheduled", "4 of 4", 1060.0, 7),),
)


def writer(client: Recorded) -> PodGroupWriter:
    return PodGroupWriter(client)  # type: ignore[arg-type]


async def test_a_status_is_applied_by_our_field_manager_to_this_very_group() -> None:
    client = Recorded()
    await writer(client).apply_status(GROUP, STATUS)

    path = (
        "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/ns/podgroups/gang/status"
        "?fieldManager=gang-extender-reconciler&force=true"
    )
    body = {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": "gang", "namespace": "ns", "uid": "u-1"},
        "status": as_json(STATUS),
    }
    assert client.requests == [("PATCH", path, body, APPLY_PATCH)]


@pytest.mark.parametrize(
    ("names", "status"), [(("n0", "n1"), {"keptNodes": ["n0", "n1"]}), ((), {})]
)
async def test_kept_nodes_have_a_field_manager_of_their_own_and_are_read_again(
    names: tuple[str, ...], status: dict[str, Any]
) -> None:
    client = Recorded()
    await PreemptorWriter(client).apply_kept(GROUP, names)  # type: ignore[arg-type]

    [(_, path, body, _)] = client.requests
    assert "fieldManager=gang-extender-claims&" in path
    assert body["status"] == status
    raw = json.dumps(body).encode()
    assert Decoder().pod_group(raw, api_group=GROUP.api_group).kept_nodes == names


async def test_fields_that_a_crd_lacks_are_left_out_of_the_status() -> None:
    refused = [["conditions", "scheduled"], ["occupiedBy"]]

    class Strict(Recorded):
        @override
        async def request(self, *args: Any, **options: Any) -> bytes:
            answer = await super().request(*args, **options)
            if not refused:
                return answer
            lines = [f".status.{name}: field not declared in schema" for name in refused.pop(0)]
            said = {"kind": "Status", "message": "failed to create: errors:\n" + "\n".join(lines)}
            raise from_response(500, json.dumps(said).encode(), doing="PATCH it")

    client = Strict()
    assert await writer(client).apply_status(GROUP, STATUS) is False

    left_out = {"conditions", "scheduled", "occupiedBy"}
    wanted = {name: value for name, value in as_json(STATUS).items() if name not in left_out}
    assert client.body["status"] == wanted


async def test_an_undeclared_field_that_was_not_written_is_an_error() -> None:
    text = ".status.other[0].name: field not declared in schema"
    said = json.dumps({"kind": "Status", "message": text}).encode()
    with pytest.raises(UndeclaredFieldsError, match="other"):
        await writer(Recorded(from_response(500, said, doing="PATCH it"))).apply_status(
            GROUP, STATUS
        )


def test_a_status_is_read_as_it_was_written_and_is_one_of_the_crd() -> None:
    reported = as_json(STATUS)
    schema = schema_for("scheduling.x-k8s.io/v1alpha1", "PodGroup")
    assert schema is not None
    assert [*faults({"status": reported}, schema)] == []
    raw = json.dumps({"metadata": {"name": "gang"}, "status": reported}).encode()

    assert Decoder().pod_group(raw, api_group="x").status == STATUS


def test_what_there_is_not_is_not_written() -> None:
    assert as_json(PodGroupStatusInfo(phase="Pending")).keys() == {
        "phase", "scheduled", "running", "succeeded", "failed", "conditions"
    }  # fmt: skip
