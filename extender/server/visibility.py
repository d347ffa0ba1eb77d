"""Who waits in which queue and why, over HTTP: under short paths, and under the visibility API's.

What is told is the leader's: another replica answers 503 and says who leads.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Final

from fastapi import FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError

from extender.api.visibility_v1beta2 import (
    API_VERSION,
    Explanation,
    PendingWorkloadsSummary,
    Status,
)
from extender.explain import summary
from extender.explain.explanation import explain
from extender.explain.summary import DEFAULT_LIMIT
from extender.explain.view import View

PREFIX: Final = f"/apis/{API_VERSION}"
_IN_NAMESPACE: Final = "/namespaces/{namespace}/localqueues"
_GROUP: Final = "kueue.x-k8s.io"
_RESPONSES: Final[dict[int | str, dict[str, Any]]] = {
    400: {"model": Status, "description": "A number that is none, or below zero."},
    404: {"model": Status, "description": "There is no such queue or workload."},
    503: {"model": Status, "description": "This replica does not lead."},
}

Offset = Annotated[int, Query(ge=0, description="How many to leave out, first ones first.")]
Limit = Annotated[int, Query(ge=0, description="How many at most; 100000 are told at most.")]


@dataclass(frozen=True, slots=True)
class Visibility:
    """What a replica knows: the view if it leads, else who does if that is known."""

    view: Callable[[], View | None]
    leader: Callable[[], str | None]


class _StatusError(Exception):
    """The answer is a Status."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status = Status(message=message, reason=reason, code=code)


def add_visibility(app: FastAPI, visibility: Visibility) -> None:
    """Serve what waits and why."""
    _add_queues(app, visibility)
    _add_explanation(app, visibility)
    app.add_exception_handler(_StatusError, _as_status)
    app.add_exception_handler(RequestValidationError, _as_bad_request)


def _add_queues(app: FastAPI, visibility: Visibility) -> None:
    async def of_cluster_queue(
        name: str, *, offset: Offset = 0, limit: Limit = DEFAULT_LIMIT
    ) -> PendingWorkloadsSummary:
        found = summary.of_cluster_queue(name, _view(visibility), offset=offset, limit=limit)
        return found or _missing("clusterqueues", name)

    async def of_local_queue(
        namespace: str, name: str, *, offset: Offset = 0, limit: Limit = DEFAULT_LIMIT
    ) -> PendingWorkloadsSummary:
        key, view = f"{namespace}/{name}", _view(visibility)
        found = summary.of_local_queue(key, view, offset=offset, limit=limit)
        return found or _missing("localqueues", key)

    for root, local in (("", "/localqueues/{namespace}"), (PREFIX, _IN_NAMESPACE)):
        _add(app, f"{root}/clusterqueues/{{name}}/pendingworkloads", of_cluster_queue)
        _add(app, f"{root}{local}/{{name}}/pendingworkloads", of_local_queue)


def _add_explanation(app: FastAPI, visibility: Visibility) -> None:
    async def explanation(namespace: str, name: str) -> Explanation:
        key = f"{namespace}/{name}"
        return explain(key, _view(visibility)) or _missing("workloads", key)

    for path in ("/workloads/{namespace}", f"{PREFIX}/namespaces/{{namespace}}/workloads"):
        _add(app, f"{path}/{{name}}/explanation", explanation)


def _add(app: FastAPI, path: str, answer: Callable[..., Any]) -> None:
    summary_line = "Why a workload is where it is"
    if path.endswith("pendingworkloads"):
        summary_line = "The workloads that wait in a queue"
    app.add_api_route(path, answer, summary=summary_line, responses=_RESPONSES)


def _view(visibility: Visibility) -> View:
    view = visibility.view()
    if view is not None:
        return view
    leader = visibility.leader()
    who = f"{leader} does" if leader else "nobody is known to"
    message = f"this replica does not lead, {who}"
    raise _StatusError(503, "ServiceUnavailable", message)


def _missing(resource: str, name: str) -> Any:  # noqa: ANN401 - it never returns
    message = f'{resource}.{_GROUP} "{name}" not found'
    raise _StatusError(404, "NotFound", message)


async def _as_status(_: Request, error: Exception) -> Response:
    assert isinstance(error, _StatusError)
    return _answer(error.status)


async def _as_bad_request(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    words = "; ".join(f"{each['loc'][-1]}: {each['msg']}" for each in error.errors())
    return _answer(Status(message=words, reason="BadRequest", code=400))


def _answer(status: Status) -> Response:
    body = status.model_dump_json(by_alias=True)
    return Response(body, status.code, media_type="application/json")
