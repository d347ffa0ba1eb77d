"""The four verbs, and the application that serves them.

A verb decodes a request, asks for a decision, and encodes the answer.

kube-scheduler's scheduling loop waits for filter, prioritize and preempt, which do not await. Bind
is Permit for members of a gang, then one write to the API server. A pod has one Binding: where
kube-scheduler asks for a pod whose Binding is being written, because it was started anew or has not
seen yet what was written, that request waits for the write and has the same answer.

A refusal is put so that kube-scheduler reads and writes as little as possible. kube-scheduler
composes the text of a pod's condition from what the extender says of nodes, and from what its own
filters say of those that it came across: on large clusters that is another number of nodes each
time. It writes each new text to the pod, with an Event, and tries a pod that the extender refused
and that was written to once more. So pods that wait would be tried without end (decision 69).
"""

import json
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, Final

import msgspec
from fastapi import FastAPI
from msgspec import Struct
from starlette.types import Message, Receive, Scope, Send
from typing_extensions import override

from extender.api import extender_v1 as wire
from extender.api.core_v1 import ObjectMeta
from extender.api.extender_v1 import (
    BindingArgs,
    BindingResult,
    ExtenderArgs,
    FilterResult,
    HostPriority,
    MetaPod,
    MetaVictims,
    NodeItems,
    ObjectHead,
    PreemptionArgs,
    PreemptionResult,
    error_text,
)
from extender.api.reasons import Reason
from extender.gang import preempt
from extender.gang.filter import KEPT_FOR_GANG, NOT_SEEN
from extender.gang.score import score
from extender.gang.verdicts import AnyNode, FilterVerdict, OneNode, OneOf, Refuse
from extender.kube.decode import Decoder, group_of
from extender.permit.ahead import Ahead
from extender.permit.bind import BindRequest, Binds
from extender.permit.filter import PodFilter
from extender.permit.hold import Gone
from extender.runtime.faults import FAULTS
from extender.runtime.process import version
from extender.server.connections import Caller
from extender.server.health import Probes, add_health
from extender.state.cluster.records import PodInfo
from extender.state.cluster.view import ClusterView
from extender.telemetry.metrics import Metrics

LIKEWISE: Final = "likewise"
"""The text for all nodes but the first."""

_encode = msgspec.json.Encoder().encode


def said_once(names: Iterable[str], text: str) -> dict[str, str]:
    """Return a text for the first of the nodes that it is about; nothing where there are none.

    What is in no list counts as unresolvable, and has no text. One for each of some hundred nodes
    would take kube-scheduler's loop half a millisecond to read.
    """
    return dict.fromkeys(islice(names, 1), text)


class AllNodes:
    """Refuses every node of the cluster, those too that kube-scheduler's own filters rejected.

    What is said of these takes the place of what the filters said. So the text is the same at each
    attempt, and kube-scheduler looks for nothing to preempt.
    """

    def __init__(self, view: ClusterView) -> None:
        self._view = view
        self._version = -1
        self._first = ""
        self._others = b""
        """The nodes but for the first one, encoded: they are the same until nodes come or go."""

    def refused(self, text: str) -> msgspec.Raw:
        """Return a text for the first node, and for the others that it is the same with them.

        There must be one.
        """
        if self._version != self._view.nodes_version:
            self._version = self._view.nodes_version
            names = iter(sorted(self._view.nodes))
            self._first = next(names)
            rest = _encode(dict.fromkeys(names, LIKEWISE))[1:-1]
            self._others = b"," + rest if rest else b""
        return msgspec.Raw(b"{%b:%b%b}" % (_encode(self._first), _encode(text), self._others))


_decode_args = msgspec.json.Decoder(ExtenderArgs).decode
_decode_preemption = msgspec.json.Decoder(PreemptionArgs).decode
_decode_head = msgspec.json.Decoder(ObjectHead).decode
_decode_binding = msgspec.json.Decoder(BindingArgs).decode
_decode_names = msgspec.json.Decoder(list[str] | None).decode


def read_filter(body: bytes) -> tuple[ExtenderArgs, ObjectMeta]:
    """Return a request of filter, and the metadata of its pod. Raises ValueError."""
    args = _decode_args(body)
    head = _decode_head(args.pod).metadata
    if not head.uid:
        raise ValueError("Pod.metadata.uid is missing")
    return args, head


class SchedulingVerbs:
    """Answers in bytes to requests in bytes; raises ValueError for what cannot be read."""

    def __init__(
        self,
        view: ClusterView,
        decoder: Decoder,
        pod_filter: PodFilter,
        *,
        ahead: Ahead,
        binds: Binds,
        may_preempt: Callable[[str | None], bool] = lambda _: True,
    ) -> None:
        """Take `may_preempt`, which returns whether a group, or a pod without one, may do so."""
        self._view = view
        self._may_preempt = may_preempt
        self._decoder = decoder
        self._filter = pod_filter
        self._ahead = ahead
        self._binds = binds
        self._all_nodes = AllNodes(view)

    async def filter(self, body: bytes, gone: Gone) -> bytes:
        """Return the nodes that the pod may use, or one text for why there is none."""
        args, head = read_filter(body)
        await self._ahead.written(head.uid, gone)
        return self.decide(args, head)

    def decide(self, args: ExtenderArgs, head: ObjectMeta) -> bytes:
        """Return the answer to a request of filter that has been read."""
        pod = self._view.pods.get(head.uid) or self._decoder.pod(args.pod).as_requested()
        sent, group = _names(args), group_of(head.namespace, head.labels)
        if pod.native is not None:
            group = self._view.member_of(pod, group)
            pod = pod if pod.group == group else replace(pod, group=group)
        self._ahead.filtered(pod)
        verdict = self._filter.decide(pod, group, sent)
        if isinstance(verdict, Refuse) and verdict.pauses:
            return _encode(FilterResult(error=error_text(verdict.message)))
        if isinstance(verdict, Refuse) and self._is_in_vain(pod, verdict):
            return _encode(_only((), args, self._all_nodes.refused(verdict.message)))
        return _encode(_result(verdict, sent, args))

    def _is_in_vain(self, pod: PodInfo, refusal: Refuse) -> bool:
        """Return whether a refused pod could start on no node, whatever kube-scheduler evicts."""
        if not self._view.nodes:
            return False
        settled = refusal.reason in (Reason.NOT_ADMITTED, Reason.ALREADY_BOUND)
        return settled or preempt.is_in_vain(pod, view=self._view)

    def prioritize(self, body: bytes) -> bytes:
        """Return points by node."""
        args = _decode_args(body)
        pod = self._view.pods.get(_decode_head(args.pod).metadata.uid)
        points = score(pod, _names(args), view=self._view)
        return _encode([HostPriority(host, value) for host, value in points.items()])

    def preempt(self, body: bytes) -> bytes:
        """Return the nodes on which preemption may go on, with their victims by UID."""
        args = _decode_preemption(body)
        offers = args.node_name_to_meta_victims or {
            node: MetaVictims(
                pods=[MetaPod(uid=pod.metadata.uid) for pod in victims.pods or ()],
                num_pdb_violations=victims.num_pdb_violations,
            )
            for node, victims in (args.node_name_to_victims or {}).items()
        }
        # A member that no watch has shown yet must not evict others for a gang that cannot start.
        requested = self._decoder.pod(args.pod)
        pod = self._view.pods.get(requested.uid) or requested.as_requested()
        # kube-scheduler has just nominated the node, and our watch may show that later.
        pod = replace(pod, nominated=requested.nominated)
        self._filter.asked(pod)
        uids = {node: [victim.uid for victim in offer.pods or ()] for node, offer in offers.items()}
        # Each is asked, so that its time begins.
        uids = uids if self._may_preempt(pod.group) else {}
        kept = preempt.decide_proposals(pod, uids, view=self._view)
        return _encode(PreemptionResult({node: offers[node] for node in kept}))

    async def bind(self, body: bytes, gone: Gone) -> bytes:
        """Bind a pod; the answer's error is empty when the pod is on the node."""
        args = _decode_binding(body)
        request = BindRequest(args.pod_uid, args.pod_namespace, args.pod_name, args.node)
        return _encode(BindingResult(error_text(await self._binds.bind(request, gone))))


def _names(args: ExtenderArgs) -> list[str]:
    if args.nodes is not None and args.nodes.items is not None:
        return [_decode_head(item).metadata.name for item in args.nodes.items]
    return _decode_names(args.node_names) or []


def _result(verdict: FilterVerdict, sent: Sequence[str], args: ExtenderArgs) -> FilterResult:
    match verdict:
        case AnyNode():
            return FilterResult(node_names=args.node_names, nodes=args.nodes)
        case OneOf(nodes, enough=True):
            return _only(nodes, args, {})
        case OneOf(nodes, not_seen):
            left = {*nodes, *not_seen}
            kept = (name for name in sent if name not in left)
            refused = said_once(kept, KEPT_FOR_GANG)
            return _only(nodes, args, refused | said_once(not_seen, NOT_SEEN))
        case OneNode(node):
            return _only((node,), args, {})
        case Refuse(_, message):
            return _only((), args, said_once(sent, message))


def _only(
    nodes: Sequence[str], args: ExtenderArgs, refused: dict[str, str] | msgspec.Raw
) -> FilterResult:
    """Return an answer in the form of the request: names, or the nodes as they were sent.

    Other nodes are unresolvable: an eviction does not make a gang complete.
    """
    if args.nodes is None:
        return FilterResult(node_names=list(nodes), failed_and_unresolvable_nodes=refused)
    wanted = set(nodes)
    items = [i for i in args.nodes.items or () if _decode_head(i).metadata.name in wanted]
    return FilterResult(nodes=NodeItems(items), failed_and_unresolvable_nodes=refused)


# --- the application -------------------------------------------------------------------------
#
# FastAPI would spend most of a verb's time in layers that a verb does not need (middlewares,
# parameters, validation), and the time of filter limits the throughput of the whole cluster. So a
# POST to a verb goes straight to its ASGI application, a `Verb`: raw body in, raw answer out. That
# takes 90 microseconds per call, compared with 145 through FastAPI. All other requests go through
# FastAPI.
#
# kube-scheduler drops the text of any status but 200, so each problem is in the field `Error`. But
# the answer of preempt has no such field: without one its 503 is what says that nothing was
# decided.

Answer = Callable[[bytes, Gone], Awaitable[bytes]]
"""Takes a body and a way to wait for the client to hang up; ValueError for what it cannot read."""


class Verb:
    """Reads, answers and measures one verb."""

    def __init__(
        self,
        name: str,
        answer: Answer,
        *,
        metrics: Metrics,
        unready: Callable[[], str],
        max_body_bytes: int,
    ) -> None:
        """Take `unready`, which returns why the verb answers with an Error now, or nothing."""
        self.name = name
        self._answer = answer
        self._unready = unready
        self._unready_status = 503 if name == "preempt" else 200
        self._max_body_bytes = max_body_bytes
        self._seconds = metrics.request_seconds.labels(name)
        self._errors = metrics.decisions.labels(name, "Error")
        # Bind is mostly waiting, and is measured where it waits.
        self._measured = name != "bind"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        began = time.perf_counter()
        content, status = await self._serve(scope, receive)
        await send(_start(len(content), status))
        await send({"type": "http.response.body", "body": content})
        if self._measured:
            self._seconds.observe(time.perf_counter() - began)

    async def _serve(self, scope: Scope, receive: Receive) -> tuple[bytes, int]:
        """Return the answer and its status."""
        try:
            body = await _read(scope, receive, self._max_body_bytes)
            if why := self._unready():
                return self._problem(why), self._unready_status
            return await self._answer(body, lambda: _disconnected(receive)), 200
        except ValueError as error:
            text = str(error)
        except RecursionError:
            text = "the request is nested too deeply"
        except Exception as error:  # noqa: BLE001 - kube-scheduler must get an answer
            FAULTS.report("verb", error, key=self.name)
            text = "internal error, see the log of gang-extender"
        return self._problem(text), 200

    def _problem(self, text: str) -> bytes:
        self._errors.inc()
        return json.dumps({"Error": error_text(f"{self.name}: {text}")}).encode()


def _start(length: int, status: int) -> Message:
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % length)]
    return {"type": "http.response.start", "status": status, "headers": headers}


async def _read(scope: Scope, receive: Receive, limit: int) -> bytes:
    """Return the body; raises ValueError without keeping more than the limit."""
    for name, value in scope["headers"]:
        if name == b"content-length":
            _check(int(value), limit)
    chunks: list[bytes] = []
    size, more = 0, True
    while more:
        message = await receive()
        chunk, more = message.get("body", b""), message.get("more_body", False)
        size += len(chunk)
        if size <= limit:
            chunks.append(chunk)
    _check(size, limit)
    return b"".join(chunks)


def _check(size: int, limit: int) -> None:
    if size > limit:
        raise ValueError(f"the body of {size} bytes is over the limit of {limit}")


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class ExtenderApp(FastAPI):
    """FastAPI with a shortcut for the verbs."""

    def __init__(self, **options: Any) -> None:  # noqa: ANN401 - those of FastAPI
        super().__init__(**options)
        self.verbs: dict[str, Verb] = {}
        self.caller: Caller | None = None

    @override
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or the lifespan."""
        verb = self.verbs.get(scope["path"]) if scope["type"] == "http" else None
        if verb is not None and scope["method"] == "POST":
            if self.caller is not None:
                self.caller.called(scope, verb.name)
            await verb(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)

    @override
    def openapi(self) -> dict[str, Any]:
        """Return the OpenAPI document."""
        document = super().openapi()
        parts = _components(
            *(each for asked, answers in _WIRES.values() for each in (asked, *answers))
        )
        document.setdefault("components", {}).setdefault("schemas", {}).update(parts)
        return document


def create_app(
    verbs: SchedulingVerbs,
    *,
    metrics: Metrics,
    probes: Probes,
    max_body_bytes: int,
    caller: Caller | None = None,
) -> ExtenderApp:
    """Return the application; `caller` takes note of calls of filter and bind.

    Verbs are answered with an Error for less than what makes a process not ready, because with an
    Error kube-scheduler schedules nothing at all: `probes.unready` returns why. But no victim is
    chosen while a watch is stale: preempt needs all that readiness does.
    """
    app = ExtenderApp(
        title="gang-extender",
        version=version(),
        description="The webhooks of kube-scheduler's extender protocol, for gangs of pods.",
        docs_url=None,
        redoc_url=None,
    )
    app.caller = caller

    def all_problems() -> str:
        return probes.unready() or next(filter(None, probes.ready().values()), "")

    answers: dict[str, Answer] = {
        "filter": verbs.filter,
        "prioritize": _at_once(verbs.prioritize),
        "preempt": _at_once(verbs.preempt),
        "bind": verbs.bind,
    }
    for name, answer in answers.items():
        app.verbs[f"/{name}"] = Verb(
            *(name, answer),
            metrics=metrics,
            unready=all_problems if name == "preempt" else probes.unready,
            max_body_bytes=max_body_bytes,
        )
        _document(app, name)

    async def page() -> bytes:
        return metrics.render()

    add_health(app, page, probes)
    return app


def _at_once(answer: Callable[[bytes], bytes]) -> Answer:
    async def answered(body: bytes, _gone: Gone) -> bytes:
        return answer(body)

    return answered


_WIRES: Final[dict[str, tuple[type[Struct], Sequence[object]]]] = {
    "filter": (wire.ExtenderArgs, (wire.FilterResult, wire.Problem)),
    "prioritize": (wire.ExtenderArgs, (list[wire.HostPriority], wire.Problem)),
    "preempt": (wire.PreemptionArgs, (wire.PreemptionResult, wire.Problem)),
    "bind": (wire.BindingArgs, (wire.BindingResult,)),
}


_COMPONENT: Final = "#/components/schemas/{name}"


def _components(*wires: object) -> dict[str, Any]:
    """Return the schemas of types by name, and of the types that these refer to."""
    return msgspec.json.schema_components(wires, ref_template=_COMPONENT)[1]


def _document(app: ExtenderApp, name: str) -> None:
    """Add a verb to the OpenAPI document, and refuse other methods than POST with 405."""

    async def never_called() -> None:
        raise AssertionError("the shortcut serves POST")

    def content(schema: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
        return {"content": {"application/json": {"schema": schema}}}

    asked, answers = _WIRES[name]
    schemas, _ = msgspec.json.schema_components(answers, ref_template=_COMPONENT)
    answer = schemas[0] if len(schemas) == 1 else {"anyOf": list(schemas)}
    body = {"required": True, **content(_components(asked)[asked.__name__])}
    app.add_api_route(
        f"/{name}",
        never_called,
        methods=["POST"],
        name=name,
        summary=f"kube-scheduler's {name} webhook",
        responses={200: content(answer)},
        openapi_extra={"requestBody": body},
    )
