"""The state that the page shows: one watch of each kind, however many people look."""

import asyncio
import operator
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import quote

import msgspec
from cachetools import TTLCache
from prometheus_client import CollectorRegistry

from extender.api.explanations import Explanation, GroupExplanation
from extender.api.wellknown import QUEUE_LABEL, WorkloadCondition
from extender.config.settings import Settings
from extender.controllers.preemption import StoredNominations
from extender.explain.facts import Facts, GroupFacts
from extender.explain.gang import explain_group
from extender.explain.workload import explain, look_at_nodes
from extender.jobs.workload import pod_group_key
from extender.kube.client import KubeClient
from extender.kube.decode import Decoder
from extender.kube.decode_queues import QueueDecoder
from extender.kube.queues import objects
from extender.kube.reflector import ObjectsSetAside
from extender.permit.background import NodeClaims
from extender.queueing.pending import PendingQueues
from extender.queueing.quota import QuotaTree
from extender.queueing.rules import AdmissionRules
from extender.room.nodes import NodeRoom
from extender.runtime.clock import Clock, Pacer
from extender.state.cluster.events import ClusterChange, Unreserved
from extender.state.cluster.reservations import Claim
from extender.state.queue.events import QueueChange
from extender.state.queue.store import Queues
from extender.steps import at_once
from extender.wiring.process import Watches
from extender.wiring.queue import Sources
from extender.wiring.reflectors import ALL_PODS, empty_cluster, reflectors, set_aside
from gang_tools.explanations import ExplainTarget, facts_of, workload_of
from gang_tools.page.history import History
from gang_tools.page.views import Room, Starts, room_shown
from gang_tools.simulate.from_cluster import TakenState
from gang_tools.simulate.world import World

Event = dict[str, Any]

_CLAIMS_SECONDS: Final = 2.0
EVENTS_SECONDS: Final = 5.0
"""The largest age of the Events that are shown."""
_MOST_EVENTS: Final = 50


class FollowedCluster:
    """Queues, groups, pods and nodes as they are now, and the decisions' answers about them."""

    def __init__(self, settings: Settings, client: KubeClient, clock: Clock) -> None:
        """Follow by the settings of the processes. Raises SettingsError."""
        self._settings, self._client, self._clock = settings, client, clock
        self._gang, self._options = settings.gang.options(), settings.queue.options()
        self._cluster = cluster = empty_cluster(settings.gang)
        self.cluster = cluster.view()
        decoder = Decoder(settings.gang.ignored(), placement=settings.gang.placement)
        of_queues = QueueDecoder(decoder)
        self._queues = queues = Queues(of_queues.completed)
        self.queues = queues.view()
        sources = Sources(
            client,
            queues,
            of_queues,
            cluster=cluster,
            integrations=(),  # workloads say all that is shown of jobs
            job_selector=QUEUE_LABEL,
        )
        followed = [*reflectors(client, cluster, decoder, pods=ALL_PODS), *sources.reflectors]
        self.watches = Watches(followed, stale_seconds=settings.kube.stale_seconds)
        set_aside(cluster, followed, ObjectsSetAside(), registry=CollectorRegistry())
        self.version = self.queues_version = 0
        """Grow with each change that may show anywhere, and in the list of queues."""
        self.changed = asyncio.Event()
        self._quiet = False
        self.history = History()
        self._pending = PendingQueues(self._options)
        self._tree: QuotaTree | None = None
        self._nominations = StoredNominations(cluster)
        self._claims = NodeClaims(cluster, options=self._gang, clock=clock)
        self.changes = 0
        """Grows with each change of the cluster."""
        self._looked = 0, dict[str, Claim]()
        """The changes and the claims at the last look."""
        self.room: Room = {}
        """The room on the nodes of each flavor at the last look."""
        self.starts: Starts = {}
        """The last estimate of when workloads start."""
        self._events: TTLCache[tuple[str, str], list[Event]] = TTLCache(
            1024, EVENTS_SECONDS / 2, clock.monotonic
        )
        queues.subscribe(self._on_queues)
        cluster.subscribe(self._on_cluster)

    async def run(self) -> None:
        """Follow until cancelled."""
        pacer = Pacer(self._clock)
        async with asyncio.TaskGroup() as tasks:
            for each in self.watches.reflectors:
                tasks.create_task(each.run(pacer))
            await self.watches.wait()
            self._nominations.again()
            while True:
                self.look()
                self.remember()
                await asyncio.sleep(_CLAIMS_SECONDS)

    def look(self) -> None:
        """Set aside room that is due, and show new claims and the room on nodes."""
        with self._unnoticed():
            at_once(self._claims.looking())
        before, self._looked = self._looked, (self.changes, dict(self.cluster.claims))
        if self._looked != before:
            room, self.room = self.room, room_shown(self.cluster, self.queues.flavors.values())
            if room != self.room or before[1] != self._looked[1]:
                self.notice()

    def remember(self) -> None:
        """Record the state of the queues if a sample is due."""
        if self.history.is_due(self._clock.wall()):
            self.history.add(self.facts())
            self.notice()

    def expect(self, starts: Starts) -> None:
        """Show an estimate of when workloads start."""
        if starts != self.starts:
            self.starts = starts
            self.notice()

    @property
    def trouble(self) -> str:
        """The reason why what is shown may be old, or nothing."""
        stale = next(filter(None, self.watches.checks().values()), None)
        behind = [each.freshness.trouble for each in self.watches.needed if each.freshness.trouble]
        return stale or next(iter(behind), "")

    @contextmanager
    def _unnoticed(self) -> Iterator[None]:
        """Suppress notices of the changes that our own explanations make."""
        self._quiet = True
        try:
            yield
        finally:
            self._quiet = False

    def notice(self, *, queues: bool = True) -> None:
        """Have all views made again, or all but that of the queues."""
        self.version += 1
        self.queues_version += queues
        self.changed.set()

    def _on_queues(self, change: QueueChange) -> None:
        self.changes += 1
        self.notice()
        every = self.queues.workloads if change.structure else ()
        for key in {*every, *change.workloads}:
            self._pending.update(key, self.queues, self._clock.wall())

    def _on_cluster(self, _: ClusterChange) -> None:
        if not self._quiet:
            self.changes += 1
            self.notice(queues=False)  # it shows the cluster only as `room`

    def facts(self) -> Facts:
        """Return the queues as they are now; not to be kept across an `await`."""
        self._tree = QuotaTree.current(self.queues, self._tree)
        self._tree.begin()
        rules = AdmissionRules(
            self._options, NodeRoom(self.queues, self.cluster), self.queues.flavors
        )
        now = self._clock.wall()
        return Facts(
            self.queues, self._pending, self._tree, rules, self.cluster, now, self._written
        )

    def _written(self, key: str) -> tuple[str, str] | None:
        """Return the reason and message that the reconciler has written on a workload."""
        workload = self.queues.workloads.get(key)
        found = workload.condition(WorkloadCondition.QUOTA_RESERVED) if workload else None
        return (found.reason, found.message) if found and found.status == "False" else None

    def group_facts(self) -> GroupFacts:
        """Return the groups as they are now; not to be kept across an `await`."""
        return GroupFacts(self.cluster, self._gang, self._clock.wall())

    def workload(self, namespace: str, name: str) -> Explanation | None:
        """Return the explanation of a Workload, or of a job's; None if there is neither."""
        facts, key = self.facts(), f"{namespace}/{name}"
        if key not in self.queues.workloads:
            asked = ExplainTarget(namespace, name, is_job=True)
            found = workload_of(asked, self.queues.workloads.values(), of_any_kind=True)
            if found is None:
                return None
            key = found
        at_once(look_at_nodes(key, facts))
        return explain(key, facts)

    def group_of(self, found: Explanation) -> str | None:
        """Return the gang of a Workload's pods, `namespace/name`; None where they are in none."""
        workload = self.queues.workloads.get(f"{found.namespace}/{found.name}")
        key = pod_group_key(workload) if workload is not None else ""
        return key if self.cluster.pod_group(key) is not None else None

    def group(self, key: str) -> GroupExplanation | None:
        """Return the explanation of a gang, `namespace/name`; None if there is none.

        The room that the extender would keep for those ahead is kept for as long as that takes.
        """
        with self._unnoticed():
            facts = facts_of(self._cluster, key, self._gang, clock=self._clock, claims=self._claims)
            try:
                return at_once(explain_group(key, facts))
            finally:
                self._cluster.apply(Unreserved([*self.cluster.planned]))

    def world(self, assumed: float | None) -> World:
        """Return the current state as the start of a simulation.

        Pods that do not say how long they run, run for `assumed` seconds.
        """
        state, now = (self.cluster, self.queues, self._settings), self._clock.wall()
        return TakenState(*state, now=now, runs={}, assumed=assumed).world()

    async def events(self, namespace: str, *names: str) -> list[Event]:
        """Return the latest Events about objects with these names, the newest first.

        Raises ApiError.
        """
        found = [each for name in names for each in await self._events_of(namespace, name)]
        return sorted(found, key=operator.itemgetter("at"), reverse=True)[:_MOST_EVENTS]

    async def _events_of(self, namespace: str, name: str) -> list[Event]:
        known = self._events.get((namespace, name))
        if known is not None:
            return known
        path = objects("", "v1", "events", namespace=namespace)
        chosen = quote(f"involvedObject.name={name}")
        raw = await self._client.request("GET", f"{path}?fieldSelector={chosen}&limit=500")
        found = [_event(each) for each in msgspec.json.decode(raw)["items"]]
        self._events[namespace, name] = found
        return found


def _event(raw: Mapping[str, Any]) -> Event:
    series = raw.get("series") or {}
    times = (series.get("lastObservedTime"), raw.get("eventTime"), raw.get("lastTimestamp"))
    at = next(filter(None, times), raw["metadata"].get("creationTimestamp") or "")
    return {
        "at": at[:19].replace("T", " "),
        "count": series.get("count") or raw.get("count") or 1,
        "reason": raw.get("reason") or "",
        "about": f"{raw['involvedObject'].get('kind', '')}/{raw['involvedObject'].get('name', '')}",
        "message": raw.get("message") or "",
    }
