"""The one writer of the state.

`Cluster.apply` is the only way in. Facts (what the API server says) always win over assumptions
(what we are about to do): a pod that the watch shows on a node has its assumption dropped in the
same step, so that its room is counted once, whichever of the two arrives first. A list replaces
everything of its kind, and whatever it lacks is treated as deleted: that is what makes a relist
after `410 Gone` correct. It is taken in a few objects at a time: see `state.relist`.

Room is counted in two tables. `used` is what kube-scheduler also counts: bound pods, and pods
whose bind request is held or being answered. `reserved` is what only we know: the room that a
plan keeps for members that kube-scheduler has not placed yet.

Nothing here awaits, and nothing reads a clock; `validate` recounts everything from scratch.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from extender.resources.quantity import Resources, add, subtract
from extender.state import events as ev
from extender.state import pod_changes, relist
from extender.state.assumed import Assumption, Refusal, Stage
from extender.state.events import Change, Event, Listed
from extender.state.group_tally import GroupTally
from extender.state.jobs import JobInfo
from extender.state.pod_groups import PodGroupInfo
from extender.state.pods import PodInfo
from extender.state.snapshot import Snapshot, Tables

_NOTHING = Change()
_RECOUNTED: Final = (
    *("pods", "groups", "controlled", "of_workload", "on_node", "jobs"),
    *("assumed", "assumed_on", "used", "reserved"),
)
_REMEMBERED: Final = 10_000
"""Deleted pods whose UIDs are kept, so that a late request does not bring one back."""


class Cluster:
    """Belief about the cluster, changed by events and read through snapshots."""

    def __init__(self) -> None:
        self._tables = Tables()
        self._snapshot = Snapshot(self._tables)
        self._gone: dict[str, None] = {}
        self._unsorted: set[str] = set()
        """Groups whose place in the queue may be another one now."""
        self._listeners: list[Callable[[Change], None]] = []
        self._on_room: list[Callable[[], None]] = []
        self.on_fault: Callable[[Exception], None] | None = None
        """Takes the error of a listener; without it the error is raised."""
        self._handlers: dict[type, Callable[[Any], Change]] = {
            ev.PodApplied: self._pod_applied,
            ev.PodSeen: self._pod_seen,
            ev.SeenEnded: self._seen_ended,
            ev.PodsListing: self._pods_listing,
            ev.PodDeleted: self._pod_deleted,
            ev.NodeApplied: self._node_applied,
            ev.NodeDeleted: self._node_deleted,
            ev.PodGroupApplied: self._pod_group_applied,
            ev.PodGroupDeleted: self._pod_group_deleted,
            ev.JobApplied: self._job_applied,
            ev.JobDeleted: self._job_deleted,
            ev.Planned: self._planned,
            ev.PodWaiting: self._pod_waiting,
            ev.PodBinding: self._pod_binding,
            ev.Unreserved: self._unreserved,
            ev.GroupFailed: self._group_failed,
            ev.Claimed: self._claimed,
            ev.GrantsEnded: self._grants_ended,
            ev.PodRefused: self._pod_refused,
            ev.PodsTried: self._pods_tried,
        }

    def apply(self, event: Event | Listed) -> Change:
        """Take one event in, return what it touched, and tell the listeners.

        A listener may apply events of its own: it is called when the tables are whole again.
        """
        if isinstance(event, Listed):
            return _merge(self.replace(event))
        return self._take((event,))

    def replace(self, listed: Listed) -> Iterator[Change]:
        """Take a list in, and yield what each slice of it touched.

        The tables are whole between two slices, and other events may come there.
        """
        for events in relist.slices(listed, self._tables):
            yield self._take(events)

    def _take(self, events: Sequence[Event]) -> Change:
        self._tables.version += 1
        version = self._tables.gained.version
        change = _merge(self._handlers[type(event)](event) for event in events)
        if self._unsorted and self._sort():
            change = replace(change, room=True)
        if change is not _NOTHING:
            for listener in self._listeners:
                self._call(listener, change)
        if change.groups or change.room or version != self._tables.gained.version:
            for told in self._on_room:
                self._call(told)
        return change

    def _call(self, listener: Callable[..., None], *given: Change) -> None:
        """Call a listener; one that fails keeps the others from nothing, and the writer neither."""
        try:
            listener(*given)
        except Exception as error:
            if self.on_fault is None:
                raise
            self.on_fault(error)

    def watch_room(self, listener: Callable[[], None]) -> None:
        """Have `listener` called when there may be room, or room that was kept is used at last."""
        self._on_room.append(listener)

    def subscribe(self, listener: Callable[[Change], None]) -> None:
        """Have every change told to `listener`, in the order of subscription."""
        self._listeners.append(listener)

    def snapshot(self) -> Snapshot:
        """Return the read-only view; not to be kept across an `await`."""
        return self._snapshot

    # --- facts -----------------------------------------------------------------------------

    def _pod_applied(self, event: ev.PodApplied) -> Change:
        pod = event.pod
        if pod.finished:
            return self._pod_finished(pod)
        tables = self._tables
        self._forget_ended(pod.uid)
        tables.seen.pop(pod.uid, None)
        before = tables.pods.get(pod.uid)
        if before == pod:
            return _NOTHING
        assumption = tables.assumed.get(pod.uid)
        if assumption is not None:
            self._drop_assumption(assumption)
        if before is not None:
            self._uncount(before)
            if before.group != pod.group:
                self._leave_group(before)
        tables.pods[pod.uid] = pod
        if pod.node is not None:
            self._tried(pod.uid)
        granted = pod.group in tables.set_aside.grants
        self._count(pod)
        stays = not pod.terminating and before is not None and before.group == pod.group
        if assumption is not None and pod.node is None and stays:
            self._assume(pod, assumption.node, assumption.stage)
        # Somebody else may have bound it, to another node than that on which its room was kept.
        kept = assumption.node if assumption is not None else None
        given_back = kept is not None and pod.node != kept and not (stays and pod.node is None)
        resized = before is not None and before.shape is not pod.shape
        tables.gained.note(_gained(pod, kept if given_back else None, resized=resized))
        # The room that was granted to its group is not all taken, perhaps.
        fulfilled = granted and pod.group not in tables.set_aside.grants
        return Change(
            groups=pod_changes.touched(before, pod),
            unschedulable=pod_changes.found_no_node(before, pod),
            room=given_back or fulfilled,
            statuses=pod_changes.told(before, pod),
        )

    def _pod_finished(self, pod: PodInfo) -> Change:
        change = self._forget_pod(pod.uid, has_ended=True)
        tables = self._tables
        if pod.group is None or tables.ended.get(pod.uid) == pod:
            return change
        self._forget_ended(pod.uid)  # its label may name another group now
        tables.ended[pod.uid] = pod
        tables.finished.setdefault(pod.group, {})[pod.uid] = pod
        return replace(change, statuses=frozenset((pod.group,)))

    def _forget_ended(self, uid: str) -> Change:
        pod = self._tables.ended.pop(uid, None)
        if pod is None or pod.group is None:
            return _NOTHING
        there = self._tables.finished[pod.group]
        del there[uid]
        if not there:
            del self._tables.finished[pod.group]
        return Change(statuses=frozenset((pod.group,)))

    def _pod_seen(self, event: ev.PodSeen) -> Change:
        # A request may be older than the deletion that the watch has told already.
        if event.pod.uid in self._tables.pods or event.pod.uid in self._gone:
            return _NOTHING
        change = self._pod_applied(ev.PodApplied(event.pod.as_requested()))
        self._tables.seen[event.pod.uid] = False
        return change

    def _pods_listing(self, _: ev.PodsListing) -> Change:
        self._tables.seen = dict.fromkeys(self._tables.seen, True)
        return _NOTHING

    def _seen_ended(self, event: ev.SeenEnded) -> Change:
        tables = self._tables
        ended = []
        for uid in event.uids:
            assumption = tables.assumed.get(uid)
            # Whether a Binding works says whether there is such a pod.
            binding = assumption is not None and assumption.stage is Stage.BINDING
            if uid in tables.seen and not binding:
                ended.append(self._drop_pod(uid))
        return _merge(ended)

    def _pod_deleted(self, event: ev.PodDeleted) -> Change:
        return self._forget_pod(event.uid)

    def _node_applied(self, event: ev.NodeApplied) -> Change:
        before = self._tables.nodes.get(event.node.name)
        if before == event.node:
            return _NOTHING
        self._tables.nodes[event.node.name] = event.node
        self._nodes_changed((event.node.name,))
        if before is None or before.ready == event.node.ready:
            return _NOTHING
        pods = map(self._tables.pods.__getitem__, self._tables.on_node.get(event.node.name, ()))
        return Change(statuses=frozenset(pod.group for pod in pods if pod.group))

    def _nodes_changed(self, names: Collection[str]) -> None:
        self._tables.gained.note(names)
        self._tables.changed.note(names)

    def _node_deleted(self, event: ev.NodeDeleted) -> Change:
        tables = self._tables
        if tables.nodes.pop(event.name, None) is None:
            return _NOTHING
        tables.changed.note((event.name,))
        lost = [
            uid
            for uid in tables.assumed_on.get(event.name, ())
            if tables.assumed[uid].stage is not Stage.BINDING
        ]
        change = self._unreserved(ev.Unreserved(lost))
        # kube-scheduler wakes nobody because a node went; who waits behind a group that now never
        # fits has its turn.
        return replace(change, room=True)

    def _pod_group_applied(self, event: ev.PodGroupApplied) -> Change:
        pod_group, pod_groups = event.pod_group, self._tables.pod_groups
        before = pod_groups.get((pod_group.api_group, pod_group.key))
        if before is not None and before.uid == pod_group.uid:
            pod_group = replace(pod_group, version=before.version)
        pod_groups[pod_group.api_group, pod_group.key] = pod_group
        told = frozenset((pod_group.key,))
        if before is None or before.grant != pod_group.grant:
            self._grant(pod_group)
        if before == pod_group:  # only its status changed
            return Change(statuses=told) if before.status != pod_group.status else _NOTHING
        self._unsorted.add(pod_group.key)
        if before is not None and before.uid != pod_group.uid:
            self._tables.failed_at.pop(pod_group.key, None)
        # One that asks for less may now do with the room that was too little before.
        return Change(groups=told, room=before is not None, statuses=told)

    def _pod_group_deleted(self, event: ev.PodGroupDeleted) -> Change:
        if self._tables.pod_groups.pop((event.api_group, event.key), None) is None:
            return _NOTHING
        self._unsorted.add(event.key)
        told = frozenset((event.key,))
        ended, other = self._end_grant(event.key), self._snapshot.pod_group(event.key)
        if other is not None:
            self._grant(other)
        return Change(groups=told, statuses=told, room=ended)

    def _job_applied(self, event: ev.JobApplied) -> Change:
        job, jobs = event.job, self._tables.jobs
        before = jobs.by_uid.get(job.uid)
        known = before is not None or job.group or job.held_by_queue or job.maker
        if before == job or not known:
            return _NOTHING
        jobs.put(job)
        return self._job_changed(before, job)

    def _job_deleted(self, event: ev.JobDeleted) -> Change:
        before = self._tables.jobs.by_uid.get(event.uid)
        if before is None:
            return _NOTHING
        self._tables.jobs.drop(event.uid)
        return self._job_changed(before, None)

    def _job_changed(self, before: JobInfo | None, after: JobInfo | None) -> Change:
        """Return what a Job's new version touches; a queue that lets go of one may give room."""
        jobs = filter(None, (before, after))
        groups = frozenset(job.group for job in jobs if job.group and job.begun)
        self._unsorted |= groups
        held, holds = (job.held_by_queue if job else None for job in (before, after))
        return Change(groups=groups, room=bool(held and not holds))

    # --- steps of our own ------------------------------------------------------------------

    def _planned(self, event: ev.Planned) -> Change:
        groups: set[str | None] = set()
        moved = self._fulfil(event.placements)
        # A node may go while a Binding to it is being written: there is no room to be kept then.
        there = self._tables.nodes
        gone = [uid for uid, node in event.placements.items() if node not in there]
        for uid, node in event.placements.items():
            pod = self._tables.pods.get(uid) if node in there else None
            if pod is not None and pod.node is None:
                before = self._tables.assumed.get(uid)
                if before is None or before.stage is not Stage.PLANNED:
                    groups.add(pod.group)
                elif before.node != node:
                    moved = True
                    self._tables.gained.note((before.node,))
                self._assume(pod, node, Stage.PLANNED)
        lost = self._unreserved(ev.Unreserved(gone)) if gone else _NOTHING
        if not groups and not moved:
            return lost
        change = Change(groups=frozenset(filter(None, groups)), room=moved)
        return _merge((change, lost)) if gone else change

    def _pod_waiting(self, event: ev.PodWaiting) -> Change:
        self._assume(event.pod, event.node, Stage.WAITING)
        return _NOTHING

    def _pod_binding(self, event: ev.PodBinding) -> Change:
        self._assume(event.pod, event.node, Stage.BINDING)
        return _NOTHING

    def _unreserved(self, event: ev.Unreserved) -> Change:
        groups = set()
        for uid in event.uids:
            assumption = self._tables.assumed.get(uid)
            if assumption is not None:
                self._drop_assumption(assumption)
                self._tables.gained.note((assumption.node,))
                groups.add(assumption.pod.group)
        return Change(groups=frozenset(filter(None, groups)), room=bool(groups))

    def _group_failed(self, event: ev.GroupFailed) -> Change:
        self._tables.failed_at[event.group] = event.at
        self._unsorted.add(event.group)
        return _NOTHING

    def _claimed(self, event: ev.Claimed) -> Change:
        aside = self._tables.set_aside
        before = aside.claims
        ended = aside.claim(event.claims)
        if before == aside.claims:
            return _NOTHING
        self._tables.gained.note(ended)
        return Change(room=any(aside.claims.get(group) != claim for group, claim in before.items()))

    def _grant(self, pod_group: PodGroupInfo) -> None:
        """Keep the room that a group is given from now on; one that has begun needs none."""
        self._end_grant(pod_group.key)
        asks = self._snapshot.pod_group(pod_group.key)
        grant = asks.grant if asks is not None else None
        if grant is not None and not self._snapshot.tally(pod_group.key).committed:
            self._tables.set_aside.grant(pod_group.key, grant)

    def _fulfil(self, placements: Iterable[str]) -> bool:
        """End the grants of the groups of pods that have a plan; return whether there were any."""
        if not self._tables.set_aside.grants:
            return False
        pods = map(self._tables.pods.get, placements)
        groups = {pod.group for pod in pods if pod is not None and pod.group}
        return sum(map(self._end_grant, groups)) > 0

    def _end_grant(self, group: str) -> bool:
        ended = group in self._tables.set_aside.grants
        self._tables.gained.note(self._tables.set_aside.end_grant(group))
        return ended

    def _grants_ended(self, event: ev.GrantsEnded) -> Change:
        ended = sum(map(self._end_grant, event.groups))
        return Change(room=True) if ended else _NOTHING

    def _pod_refused(self, event: ev.PodRefused) -> Change:
        if event.pod.uid in self._tables.pods:
            self._tried(event.pod.uid)
            self._tables.refused[event.pod.uid] = Refusal(event.pod, event.reason)
            if event.pod.group:
                self._tables.refused_of.setdefault(event.pod.group, {})[event.pod.uid] = None
        return _NOTHING

    def _pods_tried(self, event: ev.PodsTried) -> Change:
        for uid in event.uids:
            self._tried(uid)
        return _NOTHING

    def _tried(self, uid: str) -> None:
        refusal = self._tables.refused.pop(uid, None)
        group = refusal.pod.group if refusal is not None else None
        if group is not None:
            there = self._tables.refused_of[group]
            del there[uid]
            if not there:
                del self._tables.refused_of[group]

    # --- the queue -------------------------------------------------------------------------

    def _sort(self) -> bool:
        """Give groups their places in the queue; return whether a claim ended."""
        unsorted, self._unsorted = self._unsorted, set()
        ended = False
        for group in unsorted:
            pod_group = self._snapshot.pod_group(group)
            tally = self._tables.groups.get(group)
            quorum = self._snapshot.quorum(pod_group) if pod_group else 0
            if pod_group is None or tally is None or tally.assigned >= quorum:
                self._tables.failed_at.pop(group, None)
            if pod_group and tally and tally.waits_for_room(quorum):
                self._tables.queue.put(self._snapshot.turn(pod_group))
            elif self._tables.queue.drop(group):
                ended = self._end_claim(group) or ended
        return ended

    def _end_claim(self, group: str) -> bool:
        ended = group in self._tables.set_aside.claims
        self._tables.gained.note(self._tables.set_aside.end_claim(group))
        return ended

    # --- counting --------------------------------------------------------------------------

    def _assume(self, pod: PodInfo, node: str, stage: Stage) -> None:
        tables = self._tables
        known = tables.pods.get(pod.uid)
        if known is None or known.node is not None or known.terminating:
            return  # gone or going, or a fact already
        before = tables.assumed.get(pod.uid)
        if before is not None:
            self._drop_assumption(before)
        assumption = Assumption(known, node, stage)
        tables.assumed[pod.uid] = assumption
        tables.assumed_on.setdefault(node, set()).add(pod.uid)
        if stage is Stage.PLANNED:
            tables.reserved.setdefault(node, {})[pod.uid] = assumption
            kept = tables.kept.setdefault(node, {}).setdefault(known.priority, {})
            add(kept, known.shape.requests)
        else:
            add(tables.used.setdefault(node, {}), known.shape.requests)
        tally = self._tally_of(known)
        if tally is not None:
            tally.assume(known, stage)

    def _drop_assumption(self, assumption: Assumption) -> None:
        tables = self._tables
        pod, node = assumption.pod, assumption.node
        del tables.assumed[pod.uid]
        _discard(tables.assumed_on, node, pod.uid)
        if assumption.stage is Stage.PLANNED:
            there = tables.reserved[node]
            del there[pod.uid]
            subtract(tables.kept[node][pod.priority], pod.shape.requests)
            if not there:
                del tables.reserved[node]
                del tables.kept[node]
        else:
            _take_off(tables.used, node, pod.shape.requests)
        tally = self._tally_of(pod)
        if tally is not None:
            tally.drop_assumption(pod, assumption.stage)

    def _count(self, pod: PodInfo) -> None:
        tables = self._tables
        tables.pod_log.note(pod)
        if pod.node is not None:
            add(tables.used.setdefault(pod.node, {}), pod.shape.requests)
        for index, name in _indexes(tables, pod):
            index.setdefault(name, set()).add(pod.uid)
        if pod.group is None:
            return
        self._unsorted.add(pod.group)
        tally = tables.groups.setdefault(pod.group, GroupTally())
        tally.add(pod)
        if pod.uid in tally.bound:
            self._end_grant(pod.group)

    def _uncount(self, pod: PodInfo) -> None:
        """Take a pod off the tables; its place among the members is kept for `_count`."""
        tables = self._tables
        tables.pod_log.note(pod)
        if pod.node is not None:
            _take_off(tables.used, pod.node, pod.shape.requests)
        for index, name in _indexes(tables, pod):
            _discard(index, name, pod.uid)
        tally = self._tally_of(pod)
        if tally is not None:
            tally.remove(pod)

    def _tally_of(self, pod: PodInfo) -> GroupTally | None:
        """Return the tally of a pod's group, which is about to change."""
        if pod.group is None:
            return None
        self._unsorted.add(pod.group)
        return self._tables.groups.get(pod.group)

    def _leave_group(self, pod: PodInfo) -> None:
        tally = self._tally_of(pod)
        if tally is not None and pod.group is not None:
            del tally.members[pod.uid]
            if not tally.members:
                del self._tables.groups[pod.group]

    def _forget_pod(self, uid: str, *, has_ended: bool = False) -> Change:
        told = _NOTHING if has_ended else self._forget_ended(uid)
        self._gone[uid] = None
        while len(self._gone) > _REMEMBERED:
            del self._gone[next(iter(self._gone))]
        return _merge((told, self._drop_pod(uid)))

    def _drop_pod(self, uid: str) -> Change:
        tables = self._tables
        tables.seen.pop(uid, None)
        pod = tables.pods.pop(uid, None)
        if pod is None:
            return _NOTHING
        assumption = tables.assumed.get(uid)
        if assumption is not None:
            self._drop_assumption(assumption)
        self._tried(uid)
        tables.gained.note(filter(None, (pod.node, assumption.node if assumption else None)))
        self._uncount(pod)
        self._leave_group(pod)
        groups = frozenset((pod.group,)) if pod.group else frozenset()
        return Change(groups=groups, room=assumption is not None, statuses=groups)

    def validate(self) -> None:
        """Recount everything from pods and Jobs; raises AssertionError where a table disagrees."""
        recount = Cluster()
        fresh = recount._tables
        fresh.nodes = dict(self._tables.nodes)
        fresh.pod_groups = dict(self._tables.pod_groups)
        fresh.failed_at = dict(self._tables.failed_at)
        for job in self._tables.jobs.by_uid.values():
            fresh.jobs.put(job)
        for pod in self._tables.pods.values():
            recount.apply(ev.PodApplied(pod))
        for assumption in self._tables.assumed.values():
            recount._assume(assumption.pod, assumption.node, assumption.stage)
        recount._sort()
        assert list(self._tables.queue) == list(fresh.queue), "the queue is not the recount"
        for name in _RECOUNTED:
            have, want = getattr(self._tables, name), getattr(fresh, name)
            assert have == want, f"{name}: {have} is not the recount {want}"
        for node, levels in self._tables.kept.items():
            other = fresh.kept.get(node, {})
            assert {p: r for p, r in levels.items() if r} == {p: r for p, r in other.items() if r}
        for tally in self._tables.groups.values():
            stages = [
                *(tally.bound, tally.binding, tally.waiting, tally.planned),
                *(tally.gated, tally.held_back, tally.leaving),
            ]
            assert sum(map(len, stages)) == len(set().union(*stages)), f"overlap in {tally}"
            ours = {uid for uid in tally.members if self._tables.pods[uid].is_held_back}
            assert tally.behind_ours.keys() == ours, f"gates in {tally}"
        assert self._tables.refused.keys() <= self._tables.pods.keys()
        by_group = {(r.pod.group, uid) for uid, r in self._tables.refused.items() if r.pod.group}
        assert by_group == {(g, uid) for g, uids in self._tables.refused_of.items() for uid in uids}
        self._tables.set_aside.validate()


def _gained(pod: PodInfo, kept: str | None, *, resized: bool) -> Iterable[str]:
    """Return the nodes that may have more room with a pod's new version.

    `kept` is the node on which it had room kept that it does not need any more.
    """
    return {node for node in (kept, pod.node if resized else None) if node is not None}


def _indexes(tables: Tables, pod: PodInfo) -> list[tuple[dict[str, set[str]], str]]:
    """Return where a pod is found by the name of something else."""
    found = (
        (tables.controlled, pod.controller),
        (tables.of_workload, pod.workload),
        (tables.on_node, pod.node),
    )
    return [(index, name) for index, name in found if name is not None]


def _discard(index: dict[str, set[str]], name: str, uid: str) -> None:
    there = index[name]
    there.discard(uid)
    if not there:
        del index[name]


def _take_off(used: dict[str, Resources], node: str, requests: Mapping[str, int]) -> None:
    there = used[node]
    subtract(there, requests)
    if not there:
        del used[node]


def _merge(changes: Iterable[Change]) -> Change:
    changes = [change for change in changes if change is not _NOTHING]
    if len(changes) <= 1:
        return changes[0] if changes else _NOTHING
    return Change(
        groups=frozenset().union(*(change.groups for change in changes)),
        unschedulable=frozenset().union(*(change.unschedulable for change in changes)),
        room=any(change.room for change in changes),
        statuses=frozenset().union(*(change.statuses for change in changes)),
    )
