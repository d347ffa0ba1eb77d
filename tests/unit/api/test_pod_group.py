"""PodGroup manifests as people write them."""

import subprocess
import sys
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import ValidationError

from extender.api import scheduling_sigs_v1alpha1, scheduling_x_v1alpha1
from extender.api.meta_v1 import Condition, ObjectMeta
from extender.api.scheduling_x_v1alpha1 import PodGroup, PodGroupSpec, PodGroupStatus
from extender.api.wellknown import Phase

X, SIGS = "scheduling.x-k8s.io/v1alpha1", "scheduling.sigs.k8s.io/v1alpha1"


def manifest(spec: object, *, api_version: str = X, **more: Any) -> dict[str, Any]:
    head = {"apiVersion": api_version, "kind": "PodGroup", "metadata": {"name": "nginx"}}
    return {**head, "spec": spec, **more}


WANT_SPEC: dict[str, tuple[dict[str, Any], PodGroupSpec]] = {
    "minMember alone is enough": ({"minMember": 4}, PodGroupSpec(min_member=4)),
    "amounts are numbers or text": (
        {"minMember": 1, "minResources": {"cpu": 3, "memory": "500Mi", "example.com/gpu": "0"}},
        PodGroupSpec(
            min_member=1, min_resources={"cpu": 3, "memory": "500Mi", "example.com/gpu": "0"}
        ),
    ),
    "an amount may have a fraction or an exponent": (
        {"minMember": 1, "minResources": {"cpu": "1.5", "memory": "1E3", "pods": ".5k"}},
        PodGroupSpec(min_member=1, min_resources={"cpu": "1.5", "memory": "1E3", "pods": ".5k"}),
    ),
    "a timeout of one second is a timeout": (
        {"minMember": 1, "scheduleTimeoutSeconds": 1},
        PodGroupSpec(min_member=1, schedule_timeout_seconds=1),
    ),
    "without minMember": ({}, PodGroupSpec()),
    "a timeout of zero is none": (
        {"minMember": 1, "scheduleTimeoutSeconds": 0},
        PodGroupSpec(min_member=1, schedule_timeout_seconds=0),
    ),
    "an amount may be negative": (
        {"minMember": 1, "minResources": {"cpu": -1, "memory": "-5Mi"}},
        PodGroupSpec(min_member=1, min_resources={"cpu": -1, "memory": "-5Mi"}),
    ),
    "the largest int32 fits": (
        {"minMember": 2**31 - 1},
        PodGroupSpec(min_member=2**31 - 1),
    ),
}


@pytest.mark.parametrize(("spec", "want"), WANT_SPEC.values(), ids=WANT_SPEC)
def test_a_spec_is_read(spec: dict[str, Any], want: PodGroupSpec) -> None:
    group = PodGroup.model_validate(manifest(spec))

    assert group == PodGroup(
        api_version=X, kind="PodGroup", metadata=ObjectMeta(name="nginx"), spec=want
    )


WANT_REFUSED: dict[str, tuple[object, tuple[str, ...]]] = {
    "no spec": (None, ("spec",)),
    "minMember is zero": ({"minMember": 0}, ("spec", "minMember")),
    "minMember is negative": ({"minMember": -1}, ("spec", "minMember")),
    "minMember is text": ({"minMember": "4"}, ("spec", "minMember")),
    "minMember is not whole": ({"minMember": 4.0}, ("spec", "minMember")),
    "minMember is yes": ({"minMember": True}, ("spec", "minMember")),
    "minMember is beyond int32": ({"minMember": 2**31}, ("spec", "minMember")),
    "a field is misspelt": ({"minMember": 1, "minMembers": 2}, ("spec", "minMembers")),
    "an amount has a unit that there is not": (
        {"minMember": 1, "minResources": {"memory": "1GiB"}},
        ("spec", "minResources", "memory"),
    ),
    "an amount ends in a newline": (
        {"minMember": 1, "minResources": {"memory": "1Gi\n"}},
        ("spec", "minResources", "memory"),
    ),
    "an amount is a bare fraction": (
        {"minMember": 1, "minResources": {"cpu": 1.5}},
        ("spec", "minResources", "cpu"),
    ),
}


@pytest.mark.parametrize(("spec", "want"), WANT_REFUSED.values(), ids=WANT_REFUSED)
def test_a_wrong_spec_is_refused_with_its_place(spec: object, want: tuple[str, ...]) -> None:
    with pytest.raises(ValidationError) as refused:
        PodGroup.model_validate(manifest(spec))

    places = {tuple(str(part) for part in error["loc"]) for error in refused.value.errors()}
    assert {place[: len(want)] for place in places} == {want}


def test_a_status_is_read_and_what_is_unknown_in_it_is_let_pass() -> None:
    status = {
        "phase": "Scheduling",
        "occupiedBy": "default/nginx",
        "scheduled": 4,
        "running": 3,
        "scheduleStartTime": "2026-11-21T08:54:00Z",
        "conditions": [
            {
                "type": "Scheduled",
                "status": "True",
                "reason": "QuorumReached",
                "message": "",
                "lastTransitionTime": "2026-11-21T08:54:01Z",
                "observedGeneration": 2,
            }
        ],
        "newInTheNextVersion": 1,
    }

    group = PodGroup.model_validate(manifest({"minMember": 4}, status=status))

    assert group.status == PodGroupStatus(
        phase=Phase.SCHEDULING,
        occupied_by="default/nginx",
        scheduled=4,
        running=3,
        succeeded=0,
        failed=0,
        schedule_start_time=datetime(2026, 11, 21, 8, 54, tzinfo=UTC),
        conditions=[
            Condition(
                type="Scheduled",
                status="True",
                reason="QuorumReached",
                message="",
                last_transition_time=datetime(2026, 11, 21, 8, 54, 1, tzinfo=UTC),
                observed_generation=2,
            )
        ],
    )


def test_the_phases_are_those_that_dashboards_know() -> None:
    assert [phase.value for phase in Phase] == [
        "Pending",
        "PreScheduling",
        "Scheduling",
        "Scheduled",
        "Running",
        "Unknown",
        "Finished",
        "Failed",
    ]


def test_the_older_group_has_the_same_shape_under_its_own_name() -> None:
    older = scheduling_sigs_v1alpha1.PodGroup

    assert older.model_validate(manifest({"minMember": 4}, api_version=SIGS)).spec.min_member == 4
    with pytest.raises(ValidationError, match="apiVersion"):
        older.model_validate(manifest({"minMember": 4}, api_version=X))
    assert (scheduling_x_v1alpha1.API_VERSION, scheduling_sigs_v1alpha1.API_VERSION) == (X, SIGS)


def test_the_models_and_crds_import_nothing_that_acts() -> None:
    code = "import sys, extender.api.definitions as _; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    forbidden = {"asyncio", "fastapi", "kubernetes", "aiohttp", "structlog", "prometheus_client"}
    assert forbidden.isdisjoint(done.stdout.split())
