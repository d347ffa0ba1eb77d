"""Explanations of gangs over HTTP, from what the extender itself knows.

The extender shows all groups to every client that may ask it for a decision: on loopback each
process of the machine, else a client whose certificate has one of the names in `clientNames`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Final

from fastapi import FastAPI, Query, Response

from extender.api.explanations import GroupExplanation, GroupList, Status
from extender.explain.facts import GroupFacts
from extender.explain.gang import explain_group
from extender.explain.lists import DEFAULT_LIMIT, LARGEST_LIMIT, PageRequest, group_list
from extender.permit.memory import GroupMemory
from extender.permit.plans import Plans
from extender.runtime.pacer import Pacer, in_slices
from extender.server import openapi
from extender.server.access import StatusError, Turnstile, add_statuses
from extender.state.cluster.view import ClusterView

_RESPONSES: Final[dict[int | str, dict[str, Any]]] = {
    400: {"model": Status, "description": "A number that is none, or below zero."},
    404: {"model": Status, "description": "There is no such PodGroup, and no pod names it."},
    429: {"model": Status, "description": "Too many requests; Retry-After says when to come."},
    503: {"model": Status, "description": "The extender does not know the whole cluster yet."},
}

Offset = Annotated[int, Query(ge=0, description="How many to leave out, first ones first.")]
Limit = Annotated[int, Query(ge=0, description=f"How many at most; {LARGEST_LIMIT} are the most.")]
Namespace = Annotated[str | None, Query(description="Of this namespace alone.")]


@dataclass(frozen=True, slots=True)
class GroupsShown:
    """The facts that the extender knows, and the reason why it cannot be asked now, if any."""

    facts: Callable[[], GroupFacts]
    unready: Callable[[], str]
    pacer: Pacer


def believed(view: ClusterView, plans: Plans, memory: GroupMemory) -> Callable[[], GroupFacts]:
    """Return what gives the extender's own belief, as it is when it is asked for."""

    def facts() -> GroupFacts:
        return GroupFacts(
            view,
            plans.verdicts.options,
            plans.clock.wall(),
            source="Extender",
            remembered=memory.of,
            never_starts=memory.never_starts,
        )

    return facts


def add_pod_groups(app: FastAPI, shown: GroupsShown) -> None:
    """Serve GET /podgroups and /podgroups/{namespace}/{name}."""
    answers = _GroupAnswers(shown)
    for path, answer, summary, model in (
        ("/podgroups", answers.all, "The gangs, and how far each is", GroupList),
        (
            "/podgroups/{namespace}/{name}",
            answers.one,
            "Why a gang is where it is",
            GroupExplanation,
        ),
    ):
        app.add_api_route(path, answer, summary=summary, responses=_RESPONSES, response_model=model)
    add_statuses(app)
    openapi.without_422(app)


class _GroupAnswers:
    """The answers, made one after the other, in slices of the loop's time."""

    def __init__(self, shown: GroupsShown) -> None:
        self._shown = shown
        self._turnstile = Turnstile()

    async def all(
        self, *, namespace: Namespace = None, offset: Offset = 0, limit: Limit = DEFAULT_LIMIT
    ) -> Response:
        async with self._turnstile.turn():
            steps = group_list(self._seen, PageRequest(offset, limit), namespace=namespace)
            return _as_json(await in_slices(steps, self._shown.pacer))

    async def one(self, namespace: str, name: str) -> Response:
        async with self._turnstile.turn():
            steps = explain_group(f"{namespace}/{name}", self._seen())
            found = await in_slices(steps, self._shown.pacer)
            if found is None:
                raise StatusError(404, f'podgroups "{namespace}/{name}" not found')
            return _as_json(found)

    def _seen(self) -> GroupFacts:
        why = self._shown.unready()
        if why:
            raise StatusError(503, why)
        return self._shown.facts()


def _as_json(found: GroupExplanation | GroupList) -> Response:
    return Response(found.model_dump_json(by_alias=True), media_type="application/json")
