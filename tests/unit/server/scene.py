"""A cluster, the waiting pods and a scripted writer, all on one loop."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec
from typing_extensions import override

from extender.gang import wake
from extender.gang.verdicts import FilterVerdict, GangOptions
from extender.kube.claims import ClaimWriter
from extender.kube.decode import Decoder
from extender.kube.errors import ApiError
from extender.kube.pods import PodRef
from extender.kube.recorder import Event
from extender.kube.reviews import Access, Reviews, User
from extender.permit.ahead import Ahead, Callbacks
from extender.permit.bind import Binds
from extender.permit.filter import PodFilter
from extender.permit.group_memory import GroupMemory, SchedulerLag
from extender.permit.hold import BindingWriter, WaitingPods
from extender.permit.plans import DryRounds, Plans
from extender.runtime.faults import Backoff, Retry
from extender.server.verbs import LIKEWISE, SchedulingVerbs, read_filter
from extender.state.cluster.records import PodInfo
from extender.state.cluster.store import Cluster
from extender.telemetry.metrics import Metrics
from tests.makers import NAMESPACE, LoopClock, ManualClock, never, observe, pod_json, until
from tests.recount import check_tables

Call = tuple[str, str]
"""A pod's name and its node."""


def said(answer: dict[str, Any]) -> str:
    """Return the one text of a filter answer about nodes that are refused; "" where none is."""
    (text,) = {*answer["FailedAndUnresolvableNodes"].values()} - {LIKEWISE} or {""}
    return str(text)


class Reviewer(Reviews):
    """Knows users by their tokens, and asks `allows` what one may do."""

    def __init__(self, *tokens: str, allows: Callable[[User, Access], bool]) -> None:
        self._tokens = tokens
        self._allows = allows

    @override
    async def user(self, token: str) -> User | None:
        return User(token) if token in self._tokens else None

    @override
    async def may(self, user: User, access: Access) -> bool:
        return self._allows(user, access)


class NoClaims(ClaimWriter):
    """Writes nothing."""

    def __init__(self) -> None: ...


def callbacks_of(metrics: Metrics | None = None, **more: Any) -> Callbacks:
    """Return a process that is connected, whose watches are fresh, and in which nothing is done."""
    nothing: Any = lambda *_: None  # noqa: E731 - it stands for several signatures
    whole = {
        "metrics": metrics or Metrics(),
        "wake_after": nothing,
        "record": nothing,
        "is_connected": lambda: True,
        "stale": lambda: None,
        "natives_stale": lambda: None,
    }
    return Callbacks(**whole | more)


def filter_of(cluster: Cluster, plans: Plans, **more: Any) -> PodFilter:
    """Return a filter; `more` is of its process, and `no_node`."""
    no_node = more.pop("no_node", lambda _: None)
    callbacks = callbacks_of(**more)
    clock, wake_after = plans.clock, callbacks.wake_after
    dry_rounds = DryRounds(cluster, NoClaims(), clock=clock, wake_after=wake_after)
    lag = SchedulerLag(cluster, clock=clock, wake_after=wake_after)
    return PodFilter(
        cluster, plans, dry_rounds, scheduler_lag=lag, callbacks=callbacks, no_node=no_node
    )


class ScriptedBinder:
    """Fails with what is scripted for a pod, one by one, then succeeds."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.script: dict[str, list[ApiError]] = {}
        self.before: Callable[[PodRef], Awaitable[None]] | None = None

    async def bind(self, pod: PodRef, node: str) -> None:
        self.calls.append((pod.name, node))
        if self.before is not None:
            await self.before(pod)
        errors = self.script.get(pod.name)
        if errors:
            raise errors.pop(0)


class Scene:
    """The server's parts around one cluster; `woken` and `pauses` record what they ask for."""

    def __init__(
        self,
        cluster: Cluster,
        *facts: Any,
        options: GangOptions | None = None,
        patient: bool = False,
        max_held: int = 20_000,
        together: bool = True,
        in_turn: bool = False,
        decoder: Decoder | None = None,
        bind: Callable[[PodRef, str], Awaitable[None]] | None = None,
    ) -> None:
        """Take facts; where it is `patient`, pauses between attempts take the loop's time.

        Bindings are written with `bind`, or by a binder that has a script. Equal members are bound
        `together`: those that have a pattern. Groups begin `in_turn`, without a request too.
        """
        observe(cluster, *facts)
        self.loop = asyncio.get_running_loop()
        self.cluster = cluster
        self.view = cluster.view()
        self.options = replace(options or GangOptions(), bind_equal=together)
        self.metrics = Metrics()
        self.clock = ManualClock()
        self.binder = ScriptedBinder()
        self.pauses: list[float] = []
        self.woken: list[tuple[str, float]] = []
        verdicts = GroupMemory(cluster, options=self.options, clock=LoopClock())
        self.verdicts = verdicts
        self.plans = Plans(cluster, verdicts)
        self.events: list[Event] = []
        self.is_connected = True
        self.stale: str | None = None
        self.natives_stale: str | None = None
        self.tried_beside: list[tuple[float, list[str]]] = []
        callbacks = callbacks_of(
            self.metrics,
            wake_after=self._wake_after,
            record=self.events.append,
            is_connected=lambda: self.is_connected,
            stale=lambda: self.stale,
            natives_stale=lambda: self.natives_stale,
        )
        dry_rounds = DryRounds(cluster, NoClaims(), clock=LoopClock(), wake_after=self._wake_after)
        self.waiting = WaitingPods(
            *(cluster, verdicts),
            metrics=self.metrics,
            try_beside=self._try_beside,
            max_held=max_held,
        )
        retry = Retry(lambda: Backoff(1.0, 8.0, jitter=lambda: 1.0), self._pause, self.clock)
        if patient:
            retry = replace(retry, sleep=asyncio.sleep, clock=LoopClock())
        self.writer = BindingWriter(
            cluster, self.waiting, bind or self.binder.bind, metrics=self.metrics, retry=retry
        )
        self.ahead = Ahead(
            cluster, self.waiting, self.writer, plans=self.plans, callbacks=callbacks
        )
        self.lag = self.ahead.lag
        self.pod_filter = PodFilter(
            *(cluster, self.plans, dry_rounds),
            scheduler_lag=self.lag,
            callbacks=callbacks,
            no_node=self.waiting.found_no_node,
        )
        self.works = [self.loop.create_task(self.ahead.write_on())] if together else []
        if in_turn:
            self.works.append(self.loop.create_task(self.ahead.next_groups.run()))
        self.binds = Binds(
            *(cluster, self.waiting, self.writer),
            ahead=self.ahead,
            dry_rounds=dry_rounds,
            longest_wait=self.options.max_schedule_timeout,
        )
        self.verbs = SchedulingVerbs(
            *(self.view, decoder or Decoder(), self.pod_filter), ahead=self.ahead, binds=self.binds
        )

    def decide(self, pod: PodInfo, sent: Sequence[str]) -> FilterVerdict:
        """Return what filter decides about a pod, as for a request."""
        self.ahead.filtered(pod)
        return self.pod_filter.decide(pod, pod.group, sent)

    def _try_beside(self, pods: Mapping[str, bool]) -> None:
        self.tried_beside.append((round(self.loop.time(), 1), sorted(pods)))

    def _wake_after(self, key: str, seconds: float) -> None:
        self.woken.append((key, seconds))

    async def _pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.clock.now += seconds

    async def hold(
        self, pod: PodInfo, node: str, gone: Callable[[], Awaitable[None]] = never
    ) -> str | None:
        """Return the reason of the refusal, or None where the member may be bound."""
        refusal = await self.waiting.wait(pod, node, gone)
        return refusal.reason if refusal else None

    async def holding(
        self, tasks: asyncio.TaskGroup, *members: PodInfo
    ) -> "list[asyncio.Task[str | None]]":
        """Return the holds of members on n0, which have begun."""
        held = [tasks.create_task(self.hold(each, "n0")) for each in members]
        await until(lambda: self.waiting.held == len(members))
        return held

    async def bind_all(self, *members: PodInfo) -> list[str]:
        """Return the errors of bind requests to n0 that are made at the same time."""
        return await asyncio.gather(*(self.bind(each, "n0") for each in members))

    async def bind(
        self, pod: PodInfo, node: str, gone: Callable[[], Awaitable[None]] = never
    ) -> str:
        """Return the error of a bind request."""
        request = {
            "PodName": pod.name,
            "PodNamespace": NAMESPACE,
            "PodUID": pod.uid,
            "Node": node,
        }
        answer = await self.verbs.bind(msgspec.json.encode(request), gone)
        error: str = msgspec.json.decode(answer)["Error"]
        return error

    def filter(self, name: str, sent: list[str], **pod: Any) -> dict[str, Any]:
        """Return the answer to a filter request, by names."""
        request = {"Pod": pod_json(name, **pod), "Nodes": None, "NodeNames": sent}
        answer: dict[str, Any] = msgspec.json.decode(
            self.verbs.decide(*read_filter(msgspec.json.encode(request)))
        )
        return answer

    def starts_when_woken(self, group: str, sent: list[str]) -> bool:
        """Return whether all members are planned once the member that is woken is tried.

        Fails where no member is woken, or the one that is has no node.
        """
        woken = wake.decide_group(group, view=self.view).retry
        assert woken, "no member is woken"
        answer = self.filter(woken[0].name, sent, group=group.partition("/")[2])
        assert answer["NodeNames"], said(answer)
        return len(self.view.tally(group).planned) == len(self.view.tally(group).members)

    def idle(self) -> None:
        """Assert that nothing is held or counted as waiting."""
        check_tables(self.cluster)
        assert self.waiting.held == 0
        assert self.waiting._holds == {}
        for group in self.view.groups:
            assert self.view.tally(group).waiting == set()
