"""Writes that the API server refuses for good: each has an Event about its object."""

import pytest

from extender.kube.errors import ApiError, ConflictError, UnavailableError, from_response
from extender.kube.recorder import Event, ObjectRef
from extender.telemetry.metrics import ReconcilerMetrics
from extender.wiring.reconcile import KeyObserver

ABOUT = ObjectRef("v1", "Thing", "ns", "name", "uid")


def reported(error: Exception, about: ObjectRef | None = ABOUT) -> list[Event]:
    events: list[Event] = []
    metrics = ReconcilerMetrics()
    KeyObserver(metrics, "things", {"key": about}.get, record=events.append).failed(
        "key", error, 1.0
    )
    failed = metrics.registry.get_sample_value(
        "gang_extender_reconciles_total", {"controller": "things", "result": "failed"}
    )
    assert failed == 1
    return events


@pytest.mark.parametrize("status", [400, 403, 413, 422])
def test_a_refusal_for_good_is_reported_once(status: int) -> None:
    error = from_response(status, b"", doing="PATCH /apis")
    [event], [again] = reported(error), reported(error)
    assert (event.about, event.reason, event.warning) == (ABOUT, "Invalid", True)
    assert str(status) in event.note
    assert event.occasion == again.occasion
    assert reported(error, None) == []


@pytest.mark.parametrize(
    "error",
    [ConflictError("", status=409), UnavailableError("", status=503), ApiError(""), ValueError()],
)
def test_other_errors_are_none_of_the_users(error: Exception) -> None:
    assert reported(error) == []
