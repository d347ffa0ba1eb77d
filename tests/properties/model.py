"""A small kube-scheduler and API server around the real decisions, without a network.

What the API server holds is true at once for this kube-scheduler, as it is for its own cache; the
extender learns of it through a queue that is delivered later, in order, or all at once by a relist.
Everything else (filter, bind, time-outs, hang-ups, failed writes) is the extender's own code on a
loop whose time is virtual.
"""

import asyncio
import contextlib
import json
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Final

import looptime
import msgspec

from extender.gang.verdicts import GangOptions
from extender.kube.decode import Decoder
from extender.kube.errors import ApiError, ConflictError, NotFoundError, UnavailableError
from extender.kube.pods import PodRef
from extender.kube.shapes import Patterns
from extender.permit.background import NodeClaims
from extender.runtime.faults import FAULTS
from extender.server.verbs import LIKEWISE, read_filter
from extender.state.cluster import events as ev
from extender.state.cluster.records import NodeInfo, PodGroupInfo, PodInfo
from extender.state.cluster.store import Cluster
from extender.steps import at_once
from tests.makers import NAMESPACE, LoopClock, deleted, node, pod_group, pod_json
from tests.recount import check_tables
from tests.unit.server.scene import Scene

TIMEOUT = 20.0
AGING: Final = 2 * TIMEOUT
TURNS = 40
"""Enough turns of the loop for whatever one step sets off."""


@dataclass
class Pod:
    """A pod as the API server holds it."""

    uid: str
    cpu: int
    group: str | None
    node: str | None = None
    unschedulable: str | None = None
    terminating: bool = False

    def json(self) -> dict[str, Any]:
        document = pod_json(self.uid, self.cpu, group=self.group)
        if self.node is not None:
            document["spec"]["nodeName"] = self.node
        if self.unschedulable is not None:
            condition = {
                "type": "PodScheduled",
                "status": "False",
                "reason": "Unschedulable",
                "message": self.unschedulable,
            }
            document["status"]["conditions"] = [condition]
        if self.terminating:
            document["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        return document


def _not_noted() -> int:
    return FAULTS.counts.get("gang-starts", 0)


@dataclass
class Request:
    """A bind request that is under way."""

    pod: str
    node: str
    task: "asyncio.Task[bytes]"
    gone: asyncio.Event


@dataclass
class World:
    """The API server, kube-scheduler and the extender."""

    together: bool = True
    """Whether equal members are bound together."""
    in_turn: bool = False
    """Whether groups begin without a request too."""
    loop: Any = field(default_factory=lambda: looptime.new_event_loop(start=0))
    cluster: Cluster = field(default_factory=Cluster)
    decoder: Decoder = field(default_factory=lambda: Decoder(patterns=Patterns()))
    pods: dict[str, Pod] = field(default_factory=dict)
    nodes: dict[str, int] = field(default_factory=dict)
    pod_groups: dict[str, PodGroupInfo] = field(default_factory=dict)
    watch: deque[ev.ClusterEvent] = field(default_factory=deque)
    assumed: dict[str, str] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)
    failures: dict[str, list[ApiError]] = field(default_factory=dict)
    bound: dict[str, str | None] = field(default_factory=dict)
    """Groups of the pods that are bound as far as the extender can know, by UID."""
    writing: dict[str, str | None] = field(default_factory=dict)
    started: dict[str, str | None] = field(default_factory=dict)
    """Groups of the pods whose Binding was begun in this step."""
    leaving: set[str] = field(default_factory=set)
    """Pods that the extender has seen being deleted."""
    ended: set[str] = field(default_factory=set)
    """Pods with a node that are gone, and have finished as far as the extender can know."""
    begun_with: dict[str, set[str]] = field(default_factory=dict)
    """Members with which a member's Binding was begun, by its UID."""
    orphans: list[Request] = field(default_factory=list)
    """Bind requests that no client waits for any more."""
    sent: dict[str, str] = field(default_factory=dict)
    """The node by UID of each pod of which a Binding is on its way."""
    answered: set[str] = field(default_factory=set)
    """Pods that filter has answered, and whose bind requests have not come."""
    not_noted: int = field(default_factory=_not_noted)
    created: int = 0
    broken: bool = False

    def __post_init__(self) -> None:
        self.loop.run_until_complete(self._build())

    async def _build(self) -> None:
        options = GangOptions(
            schedule_timeout=TIMEOUT,
            max_schedule_timeout=TIMEOUT,
            aging=AGING,
            claim_nodes_percentage=100,
        )
        self.extender = Scene(
            self.cluster,
            options=options,
            patient=True,
            together=self.together,
            in_turn=self.in_turn,
            decoder=self.decoder,
            bind=self.bind,
        )
        self.ahead, self.waiting = self.extender.ahead, self.extender.waiting
        self.aging = NodeClaims(self.cluster, options=self.extender.options, clock=LoopClock())

    # --- the API server ----------------------------------------------------------------------

    async def bind(self, pod: PodRef, node: str) -> None:
        """Take a Binding, as PodWriter would."""
        if pod.uid not in self.writing:  # else it is the same request, tried again
            self.started[pod.uid] = self.writing[pod.uid] = self._group_of(pod.uid)
        assert pod.uid not in self.sent, f"{pod.uid} is being bound to {self.sent[pod.uid]} already"
        self.sent[pod.uid] = node
        try:
            await asyncio.sleep(0)
        finally:
            del self.sent[pod.uid]
        failures = self.failures.get(pod.uid)
        if failures:
            raise failures.pop(0)
        known = self.pods.get(pod.uid)
        if known is None:
            raise NotFoundError("no such pod", status=404)
        if known.node not in (None, node):
            raise ConflictError("bound elsewhere", status=409)
        if known.node is None:
            known.node, known.unschedulable = node, None
            self.bound[pod.uid] = self.writing[pod.uid]
            self.observe_pod(known)

    def _group_of(self, uid: str) -> str | None:
        info = self.cluster.view().pods.get(uid)
        if info is None or info.group is None:
            return None
        return info.group

    def info(self, pod: Pod) -> PodInfo:
        return self.decoder.pod(json.dumps(pod.json()).encode())

    def observe_pod(self, pod: Pod) -> None:
        self.watch.append(ev.ObjectApplied(self.info(pod)))

    def create_pod(self, cpu: int, group: str | None) -> str:
        self.created += 1
        pod = Pod(f"pod-{self.created}", cpu, group)
        self.pods[pod.uid] = pod
        self.observe_pod(pod)
        return pod.uid

    def delete_pod(self, uid: str) -> None:
        """Delete a pod; one with a node is shown as terminating before it is gone."""
        pod = self.pods[uid]
        if pod.node is not None:
            pod.terminating = True
            self.observe_pod(pod)
        self.end_pod(uid)

    def end_pod(self, uid: str) -> None:
        """Have a pod be gone, as one that has finished is for the extender."""
        del self.pods[uid]
        self.assumed.pop(uid, None)
        self.watch.append(deleted(uid))

    def put_pod_group(self, name: str, min_member: int) -> None:
        group = pod_group(name, min_member)
        self.pod_groups[name] = group
        self.watch.append(ev.ObjectApplied(group))

    def delete_pod_group(self, name: str) -> None:
        group = self.pod_groups.pop(name)
        self.watch.append(deleted((group.api_group, group.key), PodGroupInfo))

    def put_node(self, name: str, cpu: int) -> None:
        self.nodes[name] = cpu
        self.watch.append(ev.ObjectApplied(node(name, cpu)))

    def delete_node(self, name: str) -> None:
        del self.nodes[name]
        self.watch.append(deleted(name, NodeInfo))
        for pod in [pod for pod in self.pods.values() if pod.node == name]:
            self.delete_pod(pod.uid)

    # --- the extender's watches ------------------------------------------------------------------

    def deliver(self, count: int) -> None:
        for _ in range(min(count, len(self.watch))):
            event = self.watch.popleft()
            self._apply(event)

    def relist(self) -> None:
        self.watch = deque(
            event
            for event in self.watch
            if isinstance(event, ev.ObjectDeleted) and event.type is not PodInfo
        )
        self._apply(ev.ObjectsListed(PodInfo, [self.info(pod) for pod in self.pods.values()]))

    def _apply(self, event: ev.ClusterEvent | ev.ObjectsListed) -> None:
        def apply() -> None:
            self.cluster.apply(event)

        self.step(apply)
        known = self.cluster.view().pods
        record = event.record if isinstance(event, ev.ObjectApplied) else None
        if isinstance(record, PodInfo) and record.terminating:
            self.leaving.add(record.uid)
        for uid in [uid for uid in self.bound if uid not in self.pods and uid not in known]:
            del self.bound[uid]
            if uid not in self.leaving:
                self.ended.add(uid)

    # --- kube-scheduler ---------------------------------------------------------------------------

    def free(self, name: str) -> int:
        taken = sum(pod.cpu for pod in self.pods.values() if pod.node == name)
        taken += sum(
            self.pods[uid].cpu
            for uid, node in self.assumed.items()
            if node == name and self.pods[uid].node is None
        )
        return self.nodes[name] - taken

    def placed(self) -> list[str]:
        return [uid for uid, pod in self.pods.items() if pod.node is not None]

    def unplaced(self) -> list[str]:
        return [u for u, pod in self.pods.items() if pod.node is None and u not in self.assumed]

    def schedule(self, uid: str, choose: int, *, bind: bool) -> None:
        """Run one scheduling cycle; `choose` picks among the nodes that are left."""
        pod = self.pods[uid]
        sent = [name for name in self.nodes if self.free(name) >= pod.cpu]
        if not sent:
            self._no_node(pod, f"0/{len(self.nodes)} nodes are available: Insufficient cpu.")
            return
        request = {"Pod": pod.json(), "Nodes": None, "NodeNames": sent}
        answers: list[bytes] = []
        verbs, asked = self.extender.verbs, read_filter(msgspec.json.encode(request))
        self.step(lambda: answers.append(verbs.decide(*asked)))
        answer = msgspec.json.decode(answers[0])
        assert answer["Error"] == ""
        left = answer["NodeNames"]
        assert set(left) <= set(sent)
        assert set(left).isdisjoint(answer["FailedAndUnresolvableNodes"])
        if not left:
            (text,) = {*answer["FailedAndUnresolvableNodes"].values()} - {LIKEWISE}
            self._no_node(pod, f"0/{len(self.nodes)} nodes are available: {text}.")
            return
        self.assumed[uid] = left[choose % len(left)]
        self.answered.add(uid)
        # A pod that no plan keeps room for is bound at once: what is assumed without our knowledge
        # is a gap of milliseconds that no bookkeeping can close.
        if bind or self.cluster.view().planned_node(uid) is None:
            self.send_bind(uid)

    def _no_node(self, pod: Pod, message: str) -> None:
        if pod.unschedulable != message:
            pod.unschedulable = message
            self.observe_pod(pod)

    def to_bind(self) -> list[str]:
        sent = {request.pod for request in self.requests}
        return [u for u in self.assumed if u not in sent and self.pods[u].node is None]

    def send_bind(self, uid: str) -> None:
        body = {
            "PodName": uid,
            "PodNamespace": NAMESPACE,
            "PodUID": uid,
            "Node": self.assumed[uid],
        }

        self.answered.discard(uid)

        def send() -> None:
            gone = asyncio.Event()

            async def hung_up() -> None:
                await gone.wait()

            task = self.loop.create_task(
                self.extender.verbs.bind(msgspec.json.encode(body), hung_up)
            )
            self.requests.append(Request(uid, self.assumed[uid], task, gone))

        self.step(send)

    def hang_up(self, request: Request) -> None:
        self.step(request.gone.set)

    def restart_scheduler(self, *, noticed: bool) -> None:
        """Forget everything that was assumed; the connections break now, or go unnoticed."""
        held = list(self.requests)
        self.assumed.clear()
        self.requests.clear()
        self.orphans += held
        if noticed:
            for request in held:
                self.hang_up(request)

    def look_for_aged(self) -> None:
        self.step(lambda: at_once(self.aging.looking()))

    def advance(self, seconds: float) -> None:
        self.step(lambda: None, seconds)

    # --- steps ---------------------------------------------------------------------------------

    def step(self, action: Any, seconds: float = 0.0) -> None:
        """Do one thing, let it have all its effects, and check that no gang was broken."""
        self.started.clear()

        async def run() -> None:
            action()
            for _ in range(TURNS):
                await asyncio.sleep(0)
            if seconds:
                await asyncio.sleep(seconds)
                for _ in range(TURNS):
                    await asyncio.sleep(0)

        self.broken = True
        self.loop.run_until_complete(run())
        self._check_started()
        self._take_answers()
        self.broken = False

    def _check_started(self) -> None:
        """Check that each gang that Bindings were begun for has its quorum bound or being bound.

        A member whose Binding failed follows its gang alone, where none of the members with which
        it began was deleted since, as far as the extender can know: others may have ended by
        then, and others may follow later.
        """
        for group in sorted({group for group in self.started.values() if group is not None}):
            known = self.cluster.view().pod_group(group)
            assert known is not None, f"{group} was started without its PodGroup"
            all_placed = {**self.bound, **self.writing, **self.started, **self._due()}
            together = {uid for uid, of in all_placed.items() if of == group}
            now = [uid for uid, of in self.started.items() if of == group]
            before = [self.begun_with.get(uid, set()) for uid in now]
            there = self.cluster.view().pods.keys() - self.leaving
            together |= set().union(*before) & (self.ended | there)
            due = [uid for uid, of in self._due().items() if of == group]
            for uid in (*now, *due):
                self.begun_with[uid] = together
            assert len(together) >= known.min_member, (
                f"{group}: {sorted(together)} are fewer than {known.min_member}"
            )

    def _due(self) -> dict[str, str | None]:
        """Return the groups of the pods that kube-scheduler is about to ask for.

        They count where members are bound together, for one is nearly always on its way; also
        those that are gone, as long as the extender cannot know.
        """
        there = self.answered & self.cluster.view().pods.keys() if self.together else set()
        return {uid: self._group_of(uid) for uid in there}

    def _take_answers(self) -> None:
        for request in [request for request in self.requests if request.task.done()]:
            self.requests.remove(request)
            error = msgspec.json.decode(request.task.result())["Error"]
            assert "%" not in error
            self.assumed.pop(request.pod, None)
            pod = self.pods.get(request.pod)
            if error == "" and pod is not None:
                assert pod.node == request.node
        self.orphans = [request for request in self.orphans if not request.task.done()]
        alive = {request.pod for request in (*self.requests, *self.orphans)}
        alive |= self.ahead.writing
        for uid in [uid for uid in self.writing if uid not in alive]:
            del self.writing[uid]

    def check(self) -> None:
        """Check what holds between any two steps."""
        self.broken = True
        check_tables(self.cluster)
        view = self.cluster.view()
        waiting = sum(len(view.tally(group).waiting) for group in view.groups)
        assert self.waiting.held == waiting
        assert _not_noted() == self.not_noted, "what happens to a gang could not be noted"
        for name, there in view.nodes.items():
            kept = [each.amounts[name]["cpu"] for each in view.planned_on(name).values()]
            assert sum(kept) <= there.allocatable["cpu"]
        self.broken = False

    def finish(self) -> None:
        """Let all time pass: no request may be left hanging."""
        self.deliver(len(self.watch))
        for _ in range(4):
            self.advance(2 * TIMEOUT)
        assert self.requests == []
        assert self.orphans == []
        assert self.waiting.held == 0
        assert not self.cluster.view().planned
        self.check()

    def close(self) -> None:
        """Leave nothing behind, whatever happened."""
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        with contextlib.suppress(Exception):
            self.loop.run_until_complete(asyncio.sleep(0.1))
        self.loop.close()


def unavailable(times: int) -> list[ApiError]:
    return [UnavailableError("down", status=503) for _ in range(times)]
