"""A kube-scheduler whose watch lags behind, and the extender's decisions, without loop or network.

What the API server holds is one log of events. The extender and kube-scheduler read it each at its
own pace. kube-scheduler believes what it has read and what it has assumed since, and no more: pods
that are bound ahead of it are news to it. Between the answer to filter and the bind request, and
between a decision and its Binding, anything may happen.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from extender.fit.candidates import clashes
from extender.gang import ahead
from extender.gang.ahead import Left
from extender.gang.filter import usable
from extender.gang.verdicts import AnyNode, GangOptions, OneNode, OneOf, Refuse
from extender.gang.wake import decide_group, deciding_room
from extender.permit.ahead import NextGroups
from extender.permit.filter import PodFilter
from extender.permit.group_memory import GroupMemory, SchedulerLag
from extender.permit.plans import DryRounds, Plans
from extender.permit.timing import UNSURE_SECONDS
from extender.resources.quantity import Resources, add
from extender.state.cluster import events as ev
from extender.state.cluster.records import NodeInfo, Pattern, PodInfo, Shape
from extender.state.cluster.reservations import ReservationKind
from extender.state.cluster.store import Cluster
from extender.steps import at_once
from tests.makers import NAMESPACE, ManualClock, deleted, key, node, pod, pod_group, shape
from tests.unit.server.scene import NoClaims, callbacks_of

CPU: Final = 4
SLOTS: Final = 4
QUIET: Final = 70
"""Seconds in which everything has happened that a clock sets off."""
PORT: Final = frozenset((("TCP", 80, ""),))
SHAPES: Final = {
    (cpu, port): replace(shape(cpu), host_ports=PORT, one_per_node=True) if port else shape(cpu)
    for cpu in (1, 2, 3)
    for port in (False, True)
}
PATTERNS: Final = {each: Pattern(each, NAMESPACE, {}, frozenset()) for each in SHAPES.values()}
FEW: Final = 8
"""While so many Bindings are on their way no group begins in its turn."""
Call = tuple[str, str]
"""A pod's UID and a node."""


def fits(nodes: dict[str, NodeInfo], name: str, pods: Iterable[PodInfo]) -> bool:
    """Return whether pods have room beside each other on an empty node."""
    used, ports = Resources(), list[Shape]()
    for each in pods:
        add(used, each.shape.requests)
        if any(clashes(other.host_ports, each.shape.host_ports) for other in ports):
            return False
        ports.append(each.shape)
    return all(amount <= nodes[name].allocatable.get(what, 0) for what, amount in used.items())


@dataclass
class Scheduler:
    """What kube-scheduler knows."""

    nodes: dict[str, NodeInfo]
    read: int = 0
    """How much of the log."""
    there: dict[str, PodInfo] = field(default_factory=dict)
    assumed: dict[str, PodInfo] = field(default_factory=dict)
    queue: dict[str, PodInfo] = field(default_factory=dict)
    asleep: set[str] = field(default_factory=set)
    gone: set[str] = field(default_factory=set)

    def see(self, event: ev.ClusterEvent) -> None:
        """Take in an event of the log; each one about a pod on a node wakes those that sleep."""
        match event:
            case ev.ObjectApplied(PodInfo() as each) if each.node is not None:
                self.queue.pop(each.uid, None)
                self.assumed.pop(each.uid, None)
                self.there[each.uid] = each
                self.asleep.clear()
            case ev.ObjectApplied(PodInfo() as each):
                if each.uid not in self.assumed:
                    self.queue[each.uid] = each
            case ev.ObjectDeleted(_, str(uid)):
                self.gone.add(uid)
                self.queue.pop(uid, None)
                if self.there.pop(uid, None) is not None:
                    self.asleep.clear()
            case _:
                raise AssertionError(event)

    def feasible(self, each: PodInfo) -> list[str]:
        """Return the nodes that its own filters leave for a pod."""
        believed = [*self.there.values(), *self.assumed.values()]
        return [
            name
            for name in self.nodes
            if each.only_node in (None, name)
            and fits(self.nodes, name, [each, *(o for o in believed if o.node == name)])
        ]

    def forget(self, uid: str) -> None:
        """Take a pod back whose binding failed: it is tried again, unless it is gone."""
        each = self.assumed.pop(uid, None)
        if each is not None:
            self.asleep.clear()  # its room is free again
        if each is not None and uid not in self.gone:
            self.queue[uid] = replace(each, node=None)


class World:
    """The API server, kube-scheduler and the extender."""

    def __init__(self, count: int) -> None:
        nodes = {f"n{n}": node(f"n{n}", CPU, slots=SLOTS) for n in range(count)}
        self.clock = ManualClock()
        self.cluster = Cluster()
        self.view = self.cluster.view()
        options = GangOptions(aging=0.0)
        self.verdicts = GroupMemory(self.cluster, options=options, clock=self.clock)
        self.plans = Plans(self.cluster, self.verdicts)
        callbacks = callbacks_of(wake_after=self._wake_after)
        self.lag = SchedulerLag(self.cluster, clock=self.clock, wake_after=self._wake_after)
        self.filter = PodFilter(
            *(self.cluster, self.plans),
            DryRounds(self.cluster, NoClaims(), clock=self.clock, wake_after=self._wake_after),
            scheduler_lag=self.lag,
            callbacks=callbacks,
            no_node=self._no_node,
        )
        self.next_groups = NextGroups(self.cluster, self.plans, is_open=self.is_open, ask=self.ask)
        self.sent: dict[Pattern, set[str]] = {}
        """Nodes that kube-scheduler has sent for each pattern."""
        self.in_turn = 0
        """How many groups began without a request."""
        self.pods: dict[str, PodInfo] = {}
        self.log: list[ev.ClusterEvent] = []
        self.read = 0
        self.nodes = nodes
        self.scheduler = Scheduler(nodes)
        self.calls: list[Call] = []
        """Bind requests that are on their way to the extender."""
        self.writes: list[Call] = []
        """Bindings that are on their way to the API server."""
        self.lost: dict[str, tuple[str, float]] = {}
        """Bindings that were given up and may be made: the node, and when that is over, by UID."""
        self.timers: dict[str, float] = {}
        self.room = False
        self.ahead = 0
        """How many pods were bound ahead."""
        self.given_up = 0
        """How many Bindings were given up."""
        self.created = 0
        self.cluster.subscribe(self._changed)
        for each in nodes.values():
            self.cluster.apply(ev.ObjectApplied(each))

    # --- what users do -----------------------------------------------------------------------

    def create_pod(self, *, cpu: int, port: bool, priority: int = 0, on: str | None = None) -> None:
        """Create a pod of no gang; one of a DaemonSet of the cluster's own if it has one node."""
        self.created += 1
        namespace = "kube-system" if on is not None else NAMESPACE
        self._put(
            pod(
                f"pod-{self.created}",
                SHAPES[cpu, port],
                priority=priority,
                only_node=on,
                namespace=namespace,
            )
        )

    def create_gang(self, size: int, *, cpu: int, port: bool) -> None:
        """Create a gang that all nodes together have room for."""
        self.created += 1
        name, asks = f"gang-{self.created}", SHAPES[cpu, port]
        per_node = 1 if port else min(CPU // cpu, SLOTS)
        size = min(size, per_node * len(self.nodes))
        self.cluster.apply(ev.ObjectApplied(pod_group(name, size)))
        for number in range(size):
            self._put(pod(f"{name}-{number}", asks, group=name, pattern=PATTERNS[asks]))

    def delete(self, uid: str) -> None:
        """Delete a pod, with its gang."""
        group = self.pods[uid].group
        for each in [p for p in self.pods.values() if p.uid == uid or (group and p.group == group)]:
            del self.pods[each.uid]
            self.log.append(deleted(each.uid))

    def _put(self, each: PodInfo) -> None:
        self.pods[each.uid] = each
        self.log.append(ev.ObjectApplied(each))

    # --- watches and writes ------------------------------------------------------------------

    def deliver_to_us(self, count: int) -> None:
        """Show the extender the next events."""
        for event in self.log[self.read : self.read + count]:
            self.read += 1
            gone = str(event.key) if isinstance(event, ev.ObjectDeleted) else ""
            held = self.view.reservation(gone)
            if held is not None and held.kind is ReservationKind.WAITING:
                self.scheduler.forget(held.owner)
            # A pattern is that of a pod without a node.
            match event:
                case ev.ObjectApplied(PodInfo() as pod) if pod.node is not None:
                    event = ev.ObjectApplied(replace(pod, pattern=None))
            self.cluster.apply(event)

    def deliver_to_scheduler(self, count: int) -> None:
        """Show kube-scheduler the next events."""
        for event in self.log[self.scheduler.read : self.scheduler.read + count]:
            self.scheduler.read += 1
            self.scheduler.see(event)

    def write(self, number: int) -> None:
        """Have a Binding be made, and the request answered that asked for it, if one did."""
        uid, name = self.writes.pop(number % len(self.writes))
        known = self.pods.get(uid)
        if known is None:
            self.cluster.apply(ev.Unreserved((uid,)))
            self.scheduler.forget(uid)
            return
        assert known.node in (None, name), f"{uid} is bound to two nodes"
        self._put(replace(known, node=name))
        self.check()

    def give_up(self, number: int) -> None:
        """Have a Binding be given up whose outcome is not known: `BindingWriter` keeps its room."""
        uid, name = self.writes.pop(number % len(self.writes))
        held = self.view.reservation(uid)
        if held is not None and held.kind is ReservationKind.BINDING:
            self.lost[uid] = name, self.clock.now + UNSURE_SECONDS
            self.cluster.apply(ev.BoundAhead({uid: name}))
            self.given_up += 1
        self.scheduler.forget(uid)

    def make_lost(self, number: int) -> None:
        """Have a Binding be made that was given up."""
        uid = [*self.lost][number % len(self.lost)]
        known, (name, _) = self.pods.get(uid), self.lost[uid]
        if known is not None and known.node is None:
            self._put(replace(known, node=name))
            self.check()

    def _end_doubts(self) -> None:
        for uid in [uid for uid, (_, until) in self.lost.items() if self.clock.now >= until]:
            name, _ = self.lost.pop(uid)
            held = self.view.reservation(uid)
            if held is None or held.kind is not ReservationKind.BINDING:
                continue
            if (uid, name) not in self.writes:
                grouped = self.view.pods[uid].group is not None
                self.cluster.apply(ev.Planned({uid: name}) if grouped else ev.Unreserved((uid,)))

    # --- kube-scheduler ----------------------------------------------------------------------

    def awake(self) -> list[str]:
        """Return the UIDs of the pods that kube-scheduler may try."""
        return [uid for uid in self.scheduler.queue if uid not in self.scheduler.asleep]

    def cycle(self, uid: str, choose: int) -> None:
        """Have kube-scheduler try a pod, at times with a sample of the nodes."""
        each = self.scheduler.queue[uid]
        sent = self.scheduler.feasible(each)
        sent = sent[1:] or sent if choose % 4 == 3 else sent
        allowed = self._filtered(each, sent) if sent else ()
        if not allowed:
            self.scheduler.asleep.add(uid)
            return
        chosen = allowed[choose % len(allowed)]
        del self.scheduler.queue[uid]
        self.scheduler.assumed[uid] = replace(each, node=chosen)
        self.calls.append((uid, chosen))

    def _filtered(self, each: PodInfo, sent: Sequence[str]) -> Sequence[str]:
        known = self.view.pods.get(each.uid) or each.as_requested()
        if known.pattern is not None:
            self.sent.setdefault(known.pattern, set()).update(sent)
        match self.filter.decide(known, each.group, sent):
            case AnyNode():
                return sent
            case OneOf(nodes):
                return nodes
            case OneNode(name):
                return (name,)
            case Refuse():
                return ()

    # --- the extender ------------------------------------------------------------------------

    def bind(self, number: int) -> None:
        """Have a bind request come."""
        uid, name = self.calls.pop(number % len(self.calls))
        if not self._bind(uid, name):
            self.scheduler.forget(uid)

    def _bind(self, uid: str, name: str) -> bool:
        """Return whether the request is held, or answered with success."""
        each = self.view.pods.get(uid)
        if each is None:
            return False
        self.verdicts.known_schedulers.bound(each)
        self.verdicts.awaiting_bind.end(uid)
        bound = self.view.bound_node(each)
        if bound is not None:
            if uid in self.lost and bound == name and each.node is None:
                if (uid, name) not in self.writes:
                    self.writes.append((uid, name))
            elif bound == name:
                self.lag.bound(uid)
            return bound == name
        if isinstance(usable(each, (name,), view=self.view), Refuse):
            return False
        if each.group is None:
            self.cluster.apply(ev.PodBinding(each, name))
            self.writes.append((uid, name))
            return True
        self.cluster.apply(ev.PodWaiting(each, name))
        self.bind_ahead(each.group)
        return True

    def bind_ahead(self, group: str) -> None:
        """Bind what may be of a gang, and release those that wait if it has its quorum."""
        steps = ahead.members_able(
            group,
            view=self.view,
            schedulers=self.plans.schedulers,
            proven=self.verdicts.known_schedulers,
            in_hand=self.verdicts.awaiting_bind,
            barred=Left.BEHIND if self.lag.behind else None,
        )
        found = at_once(steps)
        if found.nodes:
            self.cluster.apply(ev.BoundAhead(found.nodes))
            self.ahead += len(found.nodes)
            self.writes.extend(found.nodes.items())
        known, tally = self.view.pod_group(group), self.view.tally(group)
        if known is not None and tally.assigned >= self.view.quorum(known):
            for uid in [*tally.waiting]:
                held = self.view.reservation(uid)
                assert held is not None
                self.cluster.apply(ev.PodBinding(self.view.pods[uid], held.node))
                self.writes.append((uid, held.node))

    def is_open(self) -> bool:
        """Whether a group may begin in its turn."""
        return not self.lag.behind and len(self.writes) < FEW

    def ask(self, group: str) -> None:
        """Begin a group in its turn: no pod of higher priority waits, and no node is unproven."""
        priority, there = self.view.tally(group).priority, len(self.writes)
        self.bind_ahead(group)
        begun = self.writes[there:]
        self.in_turn += bool(begun)
        for uid, name in begun:
            pattern = self.view.pods[uid].pattern
            assert pattern is not None
            assert name in self.sent.get(pattern, ()), f"{name} was not sent for {uid}"
            higher = [
                p for p in self.view.pods.values() if p.group is None and p.priority > priority
            ]
            waits = [p.uid for p in higher if p.only_node is None and self._waits(p)]
            assert not waits, f"{group} passes {waits}"

    def _waits(self, each: PodInfo) -> bool:
        return each.node is None and self.view.reservation(each.uid) is None

    def begin_in_turn(self) -> None:
        """Begin the groups whose turn it is."""
        at_once(self.next_groups.looking())

    def end_waits(self, groups: Iterable[str]) -> None:
        """Refuse all members of gangs that wait."""
        for group in groups:
            tally = self.view.tally(group)
            waiting = [*tally.waiting]
            self.cluster.apply(ev.Unreserved([*waiting, *tally.planned]))
            for uid in waiting:
                self.scheduler.forget(uid)

    def _no_node(self, uid: str) -> None:
        group = self.view.pods[uid].group
        assert group is not None
        self.end_waits((group,))

    # --- what wakes pods ---------------------------------------------------------------------

    def _wake_after(self, what: str, seconds: float) -> None:
        at = self.clock.now + seconds
        self.timers[what] = min(at, self.timers.get(what, at))

    def _changed(self, change: ev.ClusterChange) -> None:
        for group in change.groups:
            self._wake_after(group, 0.0)
        self.room = self.room or change.room

    def wake(self) -> None:
        """Wake what is due."""
        now = self.clock.now
        for what in [each for each, at in self.timers.items() if at <= now]:
            del self.timers[what]
            grouped = decide_group(what, view=self.view).retry if "/" in what else ()
            self._woken([each.uid for each in grouped] if grouped else [what])
        if self.room:
            self.room = False
            self._woken([each.uid for each in at_once(deciding_room(view=self.view)).retry])

    def _woken(self, uids: list[str]) -> None:
        there = [uid for uid in uids if uid in self.view.refused]
        self.cluster.apply(ev.PodsTried(there))
        self.scheduler.asleep.difference_update(there)

    def advance(self, seconds: int) -> None:
        """Have time pass."""
        for _ in range(seconds):
            self.clock.now += 1.0
            self._end_doubts()
            self.lag.look()
            self.wake()

    # --- what has to be so -------------------------------------------------------------------

    def check(self) -> None:
        """Assert that no node has more than fits on it, and no host port twice."""
        for name in self.nodes:
            there = [each for each in self.pods.values() if each.node == name]
            assert fits(self.nodes, name, there), f"{name} has {[each.uid for each in there]}"

    def pending(self) -> list[str]:
        """Return the UIDs of the pods without a node."""
        return [each.uid for each in self.pods.values() if each.node is None]

    def settle(self) -> None:
        """Have everything happen that is to happen without news from users."""
        quiet = 0
        while quiet < QUIET:
            before = len(self.log)
            self.deliver_to_us(len(self.log))
            self.deliver_to_scheduler(len(self.log))
            self.wake()
            for uid in self.awake():
                if uid in self.scheduler.queue:
                    self.cycle(uid, 0)
            while self.calls:
                self.bind(0)
            self.begin_in_turn()
            while self.writes:
                self.write(0)
            quiet = quiet + 1 if before == len(self.log) else 0
            self.advance(1)

    def finish(self) -> None:
        """Assert that every pod starts in the end, if those that run end one day."""
        self.settle()
        while self.pending():
            before = len(self.pending())
            self.end_waits([*self.view.groups])
            for each in [each for each in self.pods.values() if each.node is not None]:
                if each.uid in self.pods:
                    self.delete_one(each.uid)
            self.settle()
            assert len(self.pending()) < before, f"{self.pending()} do not start on empty nodes"

    def delete_one(self, uid: str) -> None:
        """Have a pod finish, and its PodGroup need one fewer."""
        group = self.pods.pop(uid).group
        self.log.append(deleted(uid))
        if group is not None:
            left = sum(each.group == group for each in self.pods.values())
            name = group.split("/")[1]
            self.cluster.apply(ev.ObjectApplied(pod_group(name, max(1, left))))
            assert group == key(name)
