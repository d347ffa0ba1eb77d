"""Explanations over HTTP: workloads that wait in queues by the reconciler, gangs by the extender.

The leader answers for workloads, on short paths and on those of Kueue's visibility API; another
replica answers 503 and names the leader. Where there is a guard a caller is shown what its user may
`get`, by the names of that API: a ClusterQueue's or a LocalQueue's `pendingworkloads`, or a
Workload.

The extender shows all groups to every client that may ask it for a decision: on loopback each
process of the machine, else a client whose certificate has one of the names in `clientNames`.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Final

from fastapi import FastAPI, Query, Request, Response

from extender.api.explanations import (
    API_VERSION,
    Explanation,
    GroupExplanation,
    GroupList,
    PendingWorkloadsSummary,
    Status,
)
from extender.explain import lists
from extender.explain.facts import Facts, GroupFacts
from extender.explain.gang import explain_group
from extender.explain.lists import LARGEST_LIMIT, PageRequest, group_list, within
from extender.explain.workload import explain, look_at_nodes
from extender.kube.reviews import Access, User
from extender.runtime.pacer import Pacer, in_slices
from extender.server import openapi
from extender.server.access import REFUSALS, Guard, StatusError, Turnstile, add_statuses
from extender.state.cluster.view import ClusterView
from extender.steps import Steps

if TYPE_CHECKING:  # the reconciler needs neither
    from extender.permit.plans import Plans
    from extender.permit.status import GroupState

PREFIX: Final = f"/apis/{API_VERSION}"
_IN_NAMESPACE: Final = "/namespaces/{namespace}/localqueues"
_GROUP: Final = "kueue.x-k8s.io"
_VISIBILITY_GROUP: Final = API_VERSION.partition("/")[0]
_CLUSTER_QUEUES: Final = "clusterqueues/pendingworkloads"
_LOCAL_QUEUES: Final = "localqueues/pendingworkloads"
_WRONG_NUMBER: Final[dict[int | str, dict[str, Any]]] = {
    400: {"model": Status, "description": "A number that is none, or below zero."}
}
_RESPONSES: Final[dict[int | str, dict[str, Any]]] = {
    **_WRONG_NUMBER,
    **REFUSALS,
    404: {"model": Status, "description": "There is no such queue or workload."},
    503: {
        "model": Status,
        "description": "This replica does not lead, or cannot check the user's rights.",
    },
}
_GROUP_RESPONSES: Final[dict[int | str, dict[str, Any]]] = {
    **_WRONG_NUMBER,
    404: {"model": Status, "description": "There is no such PodGroup, and no pod names it."},
    429: {"model": Status, "description": "Too many requests; Retry-After says when to come."},
    503: {"model": Status, "description": "The extender does not know the whole cluster yet."},
}

Offset = Annotated[int, Query(ge=0, description="How many to leave out, first ones first.")]
Limit = Annotated[int, Query(ge=0, description=f"How many at most; {LARGEST_LIMIT} are the most.")]
Namespace = Annotated[str | None, Query(description="Of this namespace alone.")]


@dataclass(frozen=True, slots=True)
class Visibility:
    """The facts of a replica that leads; of another replica the name of the leader, if known."""

    facts: Callable[[], Facts | None]
    leader: Callable[[], str | None]
    pacer: Pacer
    guard: Guard | None = None
    """Checks whether a user may read; None where every client that reaches the port may."""


def add_visibility(app: FastAPI, visibility: Visibility) -> None:
    """Add the routes for waiting workloads and explanations."""
    answers = _Answers(visibility)
    for root, local in (("", "/localqueues/{namespace}"), (PREFIX, _IN_NAMESPACE)):
        _add(app, f"{root}/clusterqueues/{{name}}/pendingworkloads", answers.of_cluster_queue)
        _add(app, f"{root}{local}/{{name}}/pendingworkloads", answers.of_local_queue)
    for path in ("/workloads/{namespace}", f"{PREFIX}/namespaces/{{namespace}}/workloads"):
        _add(app, f"{path}/{{name}}/explanation", answers.explanation)
    openapi.without_422(app)


class _Answers:
    """The answers; lists are made one after the other, in slices of the loop's time."""

    def __init__(self, visibility: Visibility) -> None:
        self._of = visibility
        self._pacer = visibility.pacer
        self._turnstile = Turnstile()

    async def of_cluster_queue(
        self, request: Request, name: str, *, offset: Offset = 0, limit: Limit = LARGEST_LIMIT
    ) -> Response:
        caller = await self._check(request, _cluster_queue(name))
        page = PageRequest(offset, limit)
        async with self._turnstile.turn(_name(caller)):
            found = await in_slices(lists.of_cluster_queue(name, self._seen, page), self._pacer)
            if found is None:
                raise _missing("clusterqueues", name)
            return await self._written(found)

    async def of_local_queue(
        self,
        request: Request,
        namespace: str,
        name: str,
        *,
        offset: Offset = 0,
        limit: Limit = LARGEST_LIMIT,
    ) -> Response:
        asked = Access(_VISIBILITY_GROUP, _LOCAL_QUEUES, name, namespace)
        caller = await self._check(request, asked)
        key, page = f"{namespace}/{name}", PageRequest(offset, limit)
        async with self._turnstile.turn(_name(caller)):
            queue = self._seen().queues.local_queues.get(key)
            everything = queue is None or await self._sees_all(caller, queue.cluster_queue)
            found = await in_slices(lists.of_local_queue(key, self._seen, page), self._pacer)
            if found is None:
                raise _missing("localqueues", key)
            return await self._written(found, only=None if everything else namespace)

    async def explanation(self, request: Request, namespace: str, name: str) -> Response:
        caller = await self._check(request, Access(_GROUP, "workloads", name, namespace))
        key = f"{namespace}/{name}"
        async with self._turnstile.turn(_name(caller)):
            rules = (seen := self._seen()).rules  # its room keeps the answers
            await in_slices(look_at_nodes(key, seen), self._pacer)
            found = explain(key, replace(self._seen(), rules=rules))
            if found is None:
                raise _missing("workloads", key)
            if not await self._sees_all(caller, found.cluster_queue):
                found = within(found, namespace)
            return _json(found.model_dump_json(by_alias=True))

    async def _check(self, request: Request, access: Access) -> User | None:
        guard = self._of.guard
        return await guard.check(request, access) if guard is not None else None

    async def _sees_all(self, caller: User | None, cluster_queue: str | None) -> bool:
        """Return whether a caller may see the other workloads of a ClusterQueue."""
        guard = self._of.guard
        if guard is None or caller is None:
            return True
        return cluster_queue is not None and await guard.may(caller, _cluster_queue(cluster_queue))

    def _seen(self) -> Facts:
        facts = self._of.facts()
        if facts is not None:
            return facts
        leader = self._of.leader() or "unknown"
        raise StatusError(503, f"this replica is not the leader; the leader is {leader}")

    async def _written(
        self, found: PendingWorkloadsSummary, *, only: str | None = None
    ) -> Response:
        """Return a list as JSON; of workloads of other namespaces than `only` without names."""
        return _json(await in_slices(_as_json(found, only), self._pacer))


def _as_json(found: PendingWorkloadsSummary, only: str | None) -> Steps[str]:
    items: list[str] = []
    for each in found.items:
        yield
        shown = each if only is None else within(each, only)
        items.append(shown.model_dump_json(by_alias=True))
    rest = found.model_copy(update={"items": []}).model_dump_json(by_alias=True, exclude={"items"})
    return f'{rest[:-1]},"items":[{",".join(items)}]}}'


@dataclass(frozen=True, slots=True)
class GroupsShown:
    """The facts that the extender knows, and the reason why it cannot be asked now, if any."""

    facts: Callable[[], GroupFacts]
    unready: Callable[[], str]
    pacer: Pacer


def believed(view: ClusterView, plans: "Plans", memory: "GroupState") -> Callable[[], GroupFacts]:
    """Return a function that gives the extender's own facts, as they are when it is called."""

    def facts() -> GroupFacts:
        return GroupFacts(
            view,
            plans.verdicts.options,
            plans.clock.wall(),
            source="Extender",
            remembered=memory.of,
            never_starts=plans.never_starts,
        )

    return facts


def add_pod_groups(app: FastAPI, shown: GroupsShown) -> None:
    """Serve GET /podgroups and /podgroups/{namespace}/{name}."""
    answers = _GroupAnswers(shown)
    _add(app, "/podgroups", answers.all)
    _add(app, "/podgroups/{namespace}/{name}", answers.one)
    add_statuses(app)
    openapi.without_422(app)


class _GroupAnswers:
    """The answers, made one after the other, in slices of the loop's time."""

    def __init__(self, shown: GroupsShown) -> None:
        self._shown = shown
        self._turnstile = Turnstile()

    async def all(
        self, *, namespace: Namespace = None, offset: Offset = 0, limit: Limit = LARGEST_LIMIT
    ) -> Response:
        async with self._turnstile.turn():
            steps = group_list(self._seen, PageRequest(offset, limit), namespace=namespace)
            found = await in_slices(steps, self._shown.pacer)
            return _json(found.model_dump_json(by_alias=True))

    async def one(self, namespace: str, name: str) -> Response:
        async with self._turnstile.turn():
            steps = explain_group(f"{namespace}/{name}", self._seen())
            found = await in_slices(steps, self._shown.pacer)
            if found is None:
                raise StatusError(404, f'podgroups "{namespace}/{name}" not found')
            return _json(found.model_dump_json(by_alias=True))

    def _seen(self) -> GroupFacts:
        why = self._shown.unready()
        if why:
            raise StatusError(503, why)
        return self._shown.facts()


_ROUTES: Final[dict[str, tuple[str, type, dict[int | str, dict[str, Any]]]]] = {
    "pendingworkloads": (
        "The workloads that wait in a queue",
        PendingWorkloadsSummary,
        _RESPONSES,
    ),
    "explanation": ("Why a workload is where it is", Explanation, _RESPONSES),
    "podgroups": ("The gangs, and how far each is", GroupList, _GROUP_RESPONSES),
    "{name}": ("Why a gang is where it is", GroupExplanation, _GROUP_RESPONSES),
}
"""The summary, the answer and the errors of a route, by the last part of its path."""


def _add(app: FastAPI, path: str, answer: Callable[..., Any]) -> None:
    line, model, responses = _ROUTES[path.rpartition("/")[2]]
    app.add_api_route(path, answer, summary=line, responses=responses, response_model=model)


def _cluster_queue(name: str) -> Access:
    return Access(_VISIBILITY_GROUP, _CLUSTER_QUEUES, name)


def _name(caller: User | None) -> str:
    return caller.name if caller is not None else ""


def _missing(resource: str, name: str) -> StatusError:
    return StatusError(404, f'{resource}.{_GROUP} "{name}" not found')


def _json(body: str) -> Response:
    return Response(body, media_type="application/json")
