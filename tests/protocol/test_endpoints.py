"""Every endpoint of both processes, played by schemathesis from its OpenAPI document.

Whatever is sent: no 5xx, no hang, and no status, type or body but what the document says.
"""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import httpx
import pytest
import schemathesis
from fastapi import FastAPI
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.core.errors import InvalidSchema
from schemathesis.core.result import Ok, Result
from schemathesis.schemas import APIOperation
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)
from starlette.applications import Starlette
from starlette.types import ASGIApp

from extender.jobs.registry import builtin
from extender.runtime.clock import Pacer, SystemClock
from extender.server.access import Guard
from extender.server.explanations import add_visibility
from extender.server.health import Probes, health_app
from extender.server.webhooks import webhooks_app
from extender.telemetry.metrics import ReconcilerMetrics, page
from extender.webhooks.jobs import by_kind
from tests.protocol.served import served
from tests.protocol.service import Service
from tests.queue_makers import Admissions, cluster_queue, local_queue, workload
from tests.unit.explain.scene import facts
from tests.unit.server.scene import Reviewer

Operation = APIOperation[Any, Any, Any, Any]

SECONDS = 60
"""Within which there is an answer, on a machine that has much else to do."""
HEADERS = {"Authorization": "Bearer known"}
CHECKS = (
    schemathesis.checks.not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    unsupported_method,
)
EXAMPLES = settings(
    max_examples=15,
    deadline=None,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)

pytestmark = pytest.mark.timeout(300)


class NoQueues:
    def has_local_queue(self, namespace: str, name: str) -> bool:
        return name == "default"

    def holds_all(self, namespace: str) -> bool:
        return True


def extender() -> FastAPI:
    return Service().app


def reconciler(guard: Guard | None = None) -> FastAPI:
    queues = Admissions(cluster_queue(cpu=0), local_queue())
    queues.put(workload("waits", 1))
    metrics = partial(page, ReconcilerMetrics().registry, Pacer(SystemClock()))
    app = health_app(metrics, Probes(lambda: {"pods": None}), guard=guard)
    pacer = Pacer(SystemClock())
    add_visibility(app, lambda: facts(queues), lambda: "us", pacer=pacer, guard=guard)
    return app


def guarded() -> FastAPI:
    """Return the reconciler's as it is off loopback."""
    return reconciler(Guard(Reviewer("known", allows=lambda _, access: len(access.name) % 2 == 0)))


def webhooks() -> Starlette:
    return webhooks_app(by_kind(builtin().values()), NoQueues(), ready=lambda: True)


@pytest.mark.parametrize("make", [extender, reconciler, guarded])
def test_whatever_is_sent_the_answer_is_as_documented(make: Callable[[], FastAPI]) -> None:
    with served(make) as url:
        document = schemathesis.openapi.from_url(f"{url}/openapi.json")
        played = [play(operation_in(found)) for found in document.get_all_operations()]
    assert len(played) >= 3


def operation_in(found: Result[Operation, InvalidSchema]) -> Operation:
    """Return an operation of the document; AssertionError where it cannot be read."""
    assert isinstance(found, Ok), found
    return found.ok()


def play(operation: Operation) -> str:
    """Send what fits the document, and what does not; return what was played."""
    for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
        with suppress(Unsatisfiable):  # nothing is wrong with a request that takes nothing

            @EXAMPLES
            @given(operation.as_strategy(generation_mode=mode))
            def send(case: schemathesis.Case[Any]) -> None:
                case.call_and_validate(checks=list(CHECKS), timeout=SECONDS, headers=HEADERS)

            send()
    return operation.label


DEEP = 100_000
HOSTILE: dict[str, bytes] = {
    "arrays in arrays": b"[" * DEEP,
    "objects in objects": b'{"a":' * DEEP,
    "a pod in deep labels": b'{"Pod":{"metadata":{"labels":' + b'{"a":' * 900 + b"1" + b"}" * 903,
    "a review of deep objects": b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview",'
    b'"request":{"uid":"1","operation":"CREATE","kind":{"group":"batch","kind":"Job"},"object":'
    + b'{"a":' * 600
    + b"1"
    + b"}" * 602,
    "objects of deep parts": b'{"kind":"ConversionReview","request":{"desiredAPIVersion":'
    b'"kueue.x-k8s.io/v1beta2","objects":[{"kind":"Workload","apiVersion":"kueue.x-k8s.io/v1beta1",'
    b'"spec":' + b'{"a":' * 5000 + b"1" + b"}" * 5001 + b"]}}",
    "objects that are none": b'{"kind":"ConversionReview","request":{"objects":[1,null,"x",[]]}}',
    "parts that are none": b'{"kind":"ConversionReview","request":{"desiredAPIVersion":'
    b'"kueue.x-k8s.io/v1beta1","objects":[{"kind":"Workload","apiVersion":"kueue.x-k8s.io/v1beta2",'
    b'"metadata":7,"status":[],"spec":{"priorityClassRef":[1],"priorityClassName":{}}},'
    b'{"kind":"ClusterQueue","apiVersion":"kueue.x-k8s.io/v1beta2","spec":{"flavorFungibility":'
    b'{"whenCanBorrow":[1]},"admissionChecksStrategy":{"admissionChecks":[1,{}]}}}]}}',
    "a kind that is an object": b'{"kind":"ConversionReview","request":{"objects":[{"kind":{}}]}}',
    "keys that come twice": b'{"Pod":{"metadata":{"uid":"a","uid":"b"}},"Pod":{},"kind":"x",'
    b'"kind":"AdmissionReview","request":{},"request":null}',
    "no number": b'{"Pod":NaN,"request":Infinity,"kind":-Infinity}',
    "a number without end": b'{"Pod":{"spec":{"priority":' + b"9" * 4_000 + b"}}}",
    "not UTF-8": b'{"Pod":{"metadata":{"name":"\xff\xfe"}},"request":{"uid":"\xc0\x80"}}',
    "half a surrogate": b'{"Pod":{"metadata":{"name":"\\ud800"}},"request":{"uid":"\\ud800"}}',
    "zeros": bytes(10_000),
    "many values": b'{"Pod":[' + b"[]," * 500_000 + b"0]}",
    "larger than any": b" " * (9 * 2**20),
}


@pytest.mark.parametrize(
    ("make", "paths"),
    [
        (extender, ("/filter", "/prioritize", "/preempt", "/bind")),
        (webhooks, ("/mutate-job", "/validate-job", "/convert")),
    ],
)
def test_hostile_bodies_are_refused(make: Callable[[], ASGIApp], paths: tuple[str, ...]) -> None:
    with (
        served(make) as url,
        httpx.Client(base_url=url, timeout=SECONDS, trust_env=False) as client,
    ):
        reported = {
            (path, why): client.post(path, content=body)
            for path in paths
            for why, body in HOSTILE.items()
        }

    for asked, answer in reported.items():
        assert answer.status_code in {200, 400, 413}, (asked, answer.text)
        assert "internal error" not in answer.text, asked
