"""The client of the tests calls again where the API server asks for it, and only there."""

from collections.abc import Iterator

import httpx
import pytest

from tests.harness.client import Api, ApiError, Patient


def answering(*answers: tuple[int, str]) -> Api:
    """Return a client of an API server that gives these answers, a status and a message each."""
    left: Iterator[tuple[int, str]] = iter(answers)

    def answer(_: httpx.Request) -> httpx.Response:
        status, message = next(left)
        return httpx.Response(status, json={"message": message, "items": []})

    api = Api.__new__(Api)
    api._http = httpx.Client(transport=Patient(httpx.MockTransport(answer)), base_url="https://api")
    return api


def test_a_kind_whose_storage_is_being_prepared_is_asked_for_again() -> None:
    api = answering((429, "storage is (re)initializing"), (200, ""))
    assert api.list("pods") == []


def test_another_429_is_the_answer() -> None:
    api = answering((429, "Cannot evict pod as it would violate the pod's disruption budget."))
    with pytest.raises(ApiError) as refused:
        api.list("pods")
    assert refused.value.status == httpx.codes.TOO_MANY_REQUESTS
