"""Explanations over HTTP: workloads that wait in queues by the reconciler, gangs by the extender.

The leader answers for workloads, on short paths and on those of Kueue's visibility API; another
replica answers 503 and names the leader. Where there is a guard a caller is shown what its user may
`get`, by the names of that API: a ClusterQueue's or a LocalQueue's `pendingworkloads`, or a
Workload.

The extender shows all groups to every client that may ask it for a decision: on loopback each
process of the machine, else a client whose certificate has one of the names in `clientNames`.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Final

from fastapi import FastAPI, Query, Request, Response
from pydantic import NonNegativeInt

from extender.api.explanations import (
    API_VERSION,
    Explanation,
    GroupExplanation,
    GroupList,
    PendingWorkloadsSummary,
)
from extender.api.wellknown import QUEUE_GROUP
from extender.explain import lists
from extender.explain.facts import LARGEST_LIMIT, Facts, GroupFacts
from extender.explain.gang import explain_group
from extender.explain.lists import PageRequest, group_list, within
from extender.explain.workload import explain, look_at_nodes
from extender.kube.reviews import Access, User
from extender.runtime.clock import Pacer, in_slices
from extender.server.access import ERRORS, Guard, StatusError, Turnstile, add_statuses
from extender.steps import Steps

PREFIX: Final = f"/apis/{API_VERSION}"
_VISIBILITY_GROUP: Final = f"visibility.{QUEUE_GROUP}"
_CLUSTER_QUEUES: Final = "clusterqueues/pendingworkloads"
_LOCAL_QUEUES: Final = "localqueues/pendingworkloads"

Offset = Annotated[
    NonNegativeInt, Query(description="The number of items to leave out, from the first on.")
]
Limit = Annotated[
    NonNegativeInt, Query(description=f"The most items to return, at most {LARGEST_LIMIT}.")
]
Namespace = Annotated[str | None, Query(description="Return the groups of this namespace only.")]


def add_visibility(
    app: FastAPI,
    facts: Callable[[], Facts | None],
    leader: Callable[[], str | None],
    *,
    pacer: Pacer,
    guard: Guard | None = None,
) -> None:
    """Add the routes for waiting workloads and explanations.

    `facts` returns None on a replica that does not lead, and `leader` the name of the leader if it
    is known. Without a guard every client that reaches the port may read.
    """
    answers = _Answers(facts, leader, pacer=pacer, guard=guard)
    pending = "{name}/pendingworkloads"
    for path, answer in (
        (f"/clusterqueues/{pending}", answers.of_cluster_queue),
        (f"{PREFIX}/clusterqueues/{pending}", answers.of_cluster_queue),
        (f"/localqueues/{{namespace}}/{pending}", answers.of_local_queue),
        (f"{PREFIX}/namespaces/{{namespace}}/localqueues/{pending}", answers.of_local_queue),
    ):
        app.add_api_route(
            path,
            answer,
            summary="The workloads that wait in a queue",
            responses=ERRORS,
            response_model=PendingWorkloadsSummary,
        )
    for root in ("/workloads/{namespace}", f"{PREFIX}/namespaces/{{namespace}}/workloads"):
        app.add_api_route(
            f"{root}/{{name}}/explanation",
            answers.explanation,
            summary="Why a workload is where it is",
            responses=ERRORS,
            response_model=Explanation,
        )


class _Answers:
    """The answers; lists are made one after the other, in slices of the loop's time."""

    def __init__(
        self,
        facts: Callable[[], Facts | None],
        leader: Callable[[], str | None],
        *,
        pacer: Pacer,
        guard: Guard | None,
    ) -> None:
        self._facts, self._leader, self._pacer, self._guard = facts, leader, pacer, guard
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
        queue = self._seen().queues.local_queues.get(key)
        everything = queue is None or await self._sees_all(caller, queue.cluster_queue)
        async with self._turnstile.turn(_name(caller)):
            found = await in_slices(lists.of_local_queue(key, self._seen, page), self._pacer)
            if found is None:
                raise _missing("localqueues", key)
            return await self._written(found, only=None if everything else namespace)

    async def explanation(self, request: Request, namespace: str, name: str) -> Response:
        caller = await self._check(request, Access(QUEUE_GROUP, "workloads", name, namespace))
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
        return await self._guard.check(request, access) if self._guard is not None else None

    async def _sees_all(self, caller: User | None, cluster_queue: str | None) -> bool:
        """Return whether a caller may see the other workloads of a ClusterQueue."""
        if self._guard is None or caller is None:
            return True
        return cluster_queue is not None and await self._guard.may(
            caller, _cluster_queue(cluster_queue)
        )

    def _seen(self) -> Facts:
        facts = self._facts()
        if facts is not None:
            return facts
        leader = self._leader() or "unknown"
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


def add_pod_groups(
    app: FastAPI,
    facts: Callable[[], GroupFacts],
    *,
    unready: Callable[[], str],
    pacer: Pacer,
) -> None:
    """Serve GET /podgroups and /podgroups/{namespace}/{name}.

    `unready` returns why the extender cannot be asked now, or an empty text.
    """
    turnstile = Turnstile()

    def seen() -> GroupFacts:
        if why := unready():
            raise StatusError(503, why)
        return facts()

    async def groups(
        *, namespace: Namespace = None, offset: Offset = 0, limit: Limit = LARGEST_LIMIT
    ) -> Response:
        async with turnstile.turn():
            steps = group_list(seen, PageRequest(offset, limit), namespace=namespace)
            return _json((await in_slices(steps, pacer)).model_dump_json(by_alias=True))

    async def group(namespace: str, name: str) -> Response:
        async with turnstile.turn():
            found = await in_slices(explain_group(f"{namespace}/{name}", seen()), pacer)
            if found is None:
                raise StatusError(404, f'podgroups "{namespace}/{name}" not found')
            return _json(found.model_dump_json(by_alias=True))

    for path, answer, line, model in (
        ("/podgroups", groups, "The gangs, and how far each is", GroupList),
        ("/podgroups/{namespace}/{name}", group, "Why a gang is where it is", GroupExplanation),
    ):
        app.add_api_route(path, answer, summary=line, responses=ERRORS, response_model=model)
    add_statuses(app)


def _cluster_queue(name: str) -> Access:
    return Access(_VISIBILITY_GROUP, _CLUSTER_QUEUES, name)


def _name(caller: User | None) -> str:
    return caller.name if caller is not None else ""


def _missing(resource: str, name: str) -> StatusError:
    return StatusError(404, f'{resource}.{QUEUE_GROUP} "{name}" not found')


def _json(body: str) -> Response:
    return Response(body, media_type="application/json")
