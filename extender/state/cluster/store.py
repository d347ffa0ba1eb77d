"""The one writer of the state.

`Cluster.apply` is the only way in. Facts (what the API server says) always win over our own
steps (what we are about to do): a pod that the watch shows on a node loses its reservation in the
same step, so that its room is counted once, whichever of the two arrives first.

A list replaces everything of its kind, and whatever it lacks is treated as deleted: that is what
makes a relist after `410 Gone` correct. It is complete before any of it counts. Then what it lacks
is deleted, and after that its objects are applied, a slice at a time. In this order nothing is
counted twice: a pod and the one made in its place are never both there. Requests, steps of our own
and facts of other kinds may come between two slices, but no facts of the same kind: one task reads
the list and then the watch that begins where the list ended.

Reserved room is in `state.cluster.reservations`, whatever it is reserved for. Nothing here awaits,
and nothing reads a clock.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from extender.api.reasons import Reason
from extender.api.wellknown import ENDS, GROUP_NATIVE, NATIVE_SCHEDULED
from extender.state.cluster import events as ev
from extender.state.cluster.events import ClusterChange, ClusterEvent, ObjectsListed
from extender.state.cluster.index import GroupTally, change_of_pod
from extender.state.cluster.records import (
    REMEMBERED,
    AdmittedPods,
    BudgetInfo,
    ClaimInfo,
    ClaimObject,
    JobInfo,
    NodeInfo,
    PodGroupInfo,
    PodInfo,
    Refusal,
    StorageClassInfo,
    VolumeInfo,
)
from extender.state.cluster.reservations import (
    NEVER,
    YIELDS,
    Reservation,
    ReservationKind,
    VictimsRoom,
)
from extender.state.cluster.view import NO_GROUP, ClusterTables, ClusterView
from extender.steps import PIECE, cut

_NOTHING = ClusterChange()


class Cluster:
    """Belief about the cluster, changed by events and read through views."""

    def __init__(self, *, growing: bool = False) -> None:
        self._tables = ClusterTables()
        self._view = ClusterView(self._tables, growing=growing)
        self._gone: dict[str, None] = {}
        self._gone_nodes: dict[str, None] = {}
        self._unsorted: set[str] = set()
        """Groups whose place in the queue may be another one now."""
        self._listeners: list[Callable[[ClusterChange], None]] = []
        self._on_room: list[Callable[[], None]] = []
        self.on_fault: Callable[[Exception], None] | None = None
        """Takes the error of a listener; without it the error is raised."""
        claim_objects = self._claim_object_applied, self._claim_object_deleted
        kinds: dict[type, tuple[Callable[[Any], ClusterChange], Callable[[Any], ClusterChange]]] = {
            PodInfo: (self._pod_applied, self._forget_pod),
            NodeInfo: (self._node_applied, self._node_deleted),
            PodGroupInfo: (self._pod_group_applied, self._pod_group_deleted),
            JobInfo: (self._job_applied, self._job_deleted),
            AdmittedPods: (self._workload_applied, self._workload_deleted),
            BudgetInfo: (self._budget_applied, self._budget_deleted),
            ClaimInfo: claim_objects,
            VolumeInfo: claim_objects,
            StorageClassInfo: claim_objects,
        }
        self._handlers: dict[type, Callable[[Any], ClusterChange]] = {
            ev.ObjectApplied: lambda event: kinds[type(event.record)][0](event.record),
            ev.ObjectDeleted: lambda event: kinds[event.type][1](event.key),
            ev.PodSeen: self._pod_seen,
            ev.SeenEnded: self._seen_ended,
            ev.PodsListing: self._pods_listing,
            ev.NativesDecided: self._native_gangs,
            ev.AdmissionKnown: self._admission_known,
            ev.JobsManaged: self._jobs_managed,
            ev.Planned: self._planned,
            ev.PodWaiting: self._pod_waiting,
            ev.PodBinding: self._pod_binding,
            ev.BoundAhead: self._bound_ahead,
            ev.Sighted: self._sighted,
            ev.AllUnseen: self._all_unseen,
            ev.Unreserved: self._unreserved,
            ev.GroupFailed: self._group_failed,
            ev.Claimed: self._claimed,
            ev.GrantsEnded: self._grants_ended,
            ev.Nominated: self._nominated,
            ev.NominationsEnded: self._nominations_ended,
            ev.PodRefused: self._pod_refused,
            ev.PodsTried: self._pods_tried,
            ev.Looked: self._looked,
        }

    def apply(self, event: ClusterEvent | ObjectsListed) -> ClusterChange:
        """Apply one event, call the listeners, and return what it touched.

        A listener may apply events of its own: it is called when the tables are whole again.
        """
        if isinstance(event, ObjectsListed):
            return _merge(self.replace(event))
        return self._take((event,))

    def delete(self, record: ev.Record) -> ClusterChange:
        """Apply the deletion of an object, of which any version may be given."""
        return self.apply(ev.ObjectDeleted(type(record), _key_of(record)))

    def replace(self, listed: ObjectsListed) -> Iterator[ClusterChange]:
        """Apply a list, and yield what each slice of it touched.

        The tables are whole between two slices, and other events may come there. So what the list
        lacks is looked up slice by slice.
        """
        tables = self._tables
        if listed.type is JobInfo:
            tables.jobs.watched.add(listed.part)
        there = {_key_of(record) for record in listed.records}
        for keys in cut(_known_keys(tables, listed), 16 * PIECE):
            gone = [ev.ObjectDeleted(listed.type, key) for key in keys if key not in there]
            for some in cut(gone) if gone else ((),):
                yield self._take(some)
        for records in cut(listed.records):
            yield self._take([ev.ObjectApplied(record) for record in records])

    def _take(self, events: Sequence[ClusterEvent]) -> ClusterChange:
        self._tables.version += 1
        version = self._tables.gained.version
        change = _merge(self._handlers[type(event)](event) for event in events)
        if self._unsorted and self._sort():
            change = replace(change, room=True)
        if change is not _NOTHING:
            for listener in self._listeners:
                self._call(listener, change)
        if change.groups or change.room or version != self._tables.gained.version:
            for on_room in self._on_room:
                self._call(on_room)
        return change

    def _call(self, listener: Callable[..., None], *given: ClusterChange) -> None:
        """Call a listener; one that fails keeps the others from nothing, and the writer neither."""
        try:
            listener(*given)
        except Exception as error:
            if self.on_fault is None:
                raise
            self.on_fault(error)

    def watch_room(self, listener: Callable[[], None]) -> None:
        """Call `listener` when there may be room, or when reserved room is used at last."""
        self._on_room.append(listener)

    def subscribe(self, listener: Callable[[ClusterChange], None]) -> None:
        """Call `listener` with every change, in the order of subscription."""
        self._listeners.append(listener)

    def view(self) -> ClusterView:
        """Return the view for decisions; no value read from it survives an `await`."""
        return self._view

    # --- facts -----------------------------------------------------------------------------

    def _pod_applied(self, pod: PodInfo) -> ClusterChange:
        pod = self._tables.natives.take(pod)
        if pod.finished:
            return self._pod_finished(pod)
        tables = self._tables
        self._forget_ended(pod.uid)
        tables.seen.pop(pod.uid, None)
        before = tables.pods.get(pod.uid)
        if before == pod:
            return _NOTHING
        reservation = tables.reservations.pods.get(pod.uid)
        if reservation is not None:
            self._release(reservation)
        if before is not None:
            self._uncount(before)
            if before.group != pod.group:
                self._leave_group(before)
        tables.pods[pod.uid] = pod
        if pod.node is not None:
            self._tried(pod.uid)
        granted = pod.group in tables.reservations.grants
        self._count(pod)
        stays = not pod.terminating and before is not None and before.group == pod.group
        if reservation is not None and pod.node is None and stays:
            self._reserve(pod, reservation.node, reservation.kind)
        self._look_for_unseen(pod, before, reservation)
        # Another client may have bound it, to another node than that on which its room was kept.
        kept = reservation.node if reservation is not None else None
        given_back = kept is not None and pod.node != kept and not (stays and pod.node is None)
        resized = before is not None and before.shape is not pod.shape
        tables.gained.note(_gained(pod, kept if given_back else None, resized=resized))
        # The room that was granted to its group is not all taken, perhaps.
        fulfilled = granted and pod.group not in tables.reservations.grants
        return change_of_pod(before, pod, room=given_back or fulfilled)

    def _pod_finished(self, pod: PodInfo) -> ClusterChange:
        change = self._forget_pod(pod.uid, has_ended=True)
        tables = self._tables
        if pod.group is None or tables.ended.get(pod.uid) == pod:
            return change
        self._forget_ended(pod.uid)  # its label may name another group now
        tables.ended[pod.uid] = pod
        tables.finished.setdefault(pod.group, {})[pod.uid] = pod
        return replace(change, statuses=frozenset((pod.group,)))

    def _forget_ended(self, uid: str) -> ClusterChange:
        pod = self._tables.ended.pop(uid, None)
        if pod is None or pod.group is None:
            return _NOTHING
        there = self._tables.finished[pod.group]
        del there[uid]
        if not there:
            del self._tables.finished[pod.group]
        return ClusterChange(statuses=frozenset((pod.group,)))

    def _pod_seen(self, event: ev.PodSeen) -> ClusterChange:
        # A request may be older than the deletion that the watch has shown already.
        if event.pod.uid in self._tables.pods or event.pod.uid in self._gone:
            return _NOTHING
        change = self._pod_applied(event.pod.as_requested())
        self._tables.seen[event.pod.uid] = False
        return change

    def _pods_listing(self, _: ev.PodsListing) -> ClusterChange:
        self._tables.seen = dict.fromkeys(self._tables.seen, True)
        return _NOTHING

    def _seen_ended(self, event: ev.SeenEnded) -> ClusterChange:
        tables = self._tables
        ended = []
        for uid in event.uids:
            reservation = tables.reservations.pods.get(uid)
            # Whether a Binding works says whether there is such a pod.
            binding = reservation is not None and reservation.kind is ReservationKind.BINDING
            if uid in tables.seen and not binding:
                ended.append(self._drop_pod(uid))
        return _merge(ended)

    def _node_applied(self, node: NodeInfo) -> ClusterChange:
        before = self._tables.nodes.get(node.name)
        if before == node:
            return _NOTHING
        self._tables.nodes[node.name] = node
        doubted = before is not None and before.features != node.features
        self._tables.feasible_by_pattern.forget(node.name, doubted=doubted)
        self._nodes_changed((node.name,))
        if before is None:
            return _NOTHING
        change = self._relabelled(before.labels, node.labels)
        if before.ready == node.ready:
            return change
        if node.name in self._tables.ending and self._tables.unadmitted:
            change = replace(change, room=True)  # pods that are being deleted there may be lost
        pods = map(self._tables.pods.__getitem__, self._tables.on_node.get(node.name, ()))
        return replace(change, statuses=frozenset(pod.group for pod in pods if pod.group))

    def _relabelled(self, before: Mapping[str, str], after: Mapping[str, str]) -> ClusterChange:
        """Return what other labels of a node may end: refusals of groups that ask for domains.

        kube-scheduler tries their pods again, but it may see the labels before we do, and then it
        gets the answer of the old ones.
        """
        if before == after:
            return _NOTHING
        asking = self._tables.asking_for_label
        changed = {label for label, _ in before.items() ^ after.items()} & asking.keys()
        keys = (key for label in changed for _, key in asking[label])
        groups = frozenset(key for key in keys if key in self._tables.refused_of)
        return ClusterChange(groups=groups, room=True) if groups else _NOTHING

    def _nodes_changed(self, names: Collection[str]) -> None:
        self._tables.gained.note(names)
        self._resized(names)

    def _resized(self, names: Collection[str]) -> None:
        self._tables.changed.note(names)
        self._tables.left.note(*names)
        self._tables.whole.note(*names)

    def _node_deleted(self, name: str) -> ClusterChange:
        tables = self._tables
        if tables.nodes.pop(name, None) is None:
            return _NOTHING
        # Another one of that name may declare other features.
        tables.feasible_by_pattern.forget(name, doubted=True)
        self._resized((name,))
        oldest = _added(self._gone_nodes, name)
        if oldest is not None and oldest not in tables.nodes:
            tables.changed.forget(oldest)
            tables.gained.forget(oldest)
        reserved = tables.reservations
        lost = [
            *reserved.there(name, ReservationKind.WAITING),
            *reserved.there(name, ReservationKind.PLANNED),
        ]
        change = self._unreserved(ev.Unreserved(lost))
        # kube-scheduler wakes no pod because a node went; a group behind one that now never fits
        # has its turn.
        return replace(change, room=True)

    def _pod_group_applied(self, pod_group: PodGroupInfo) -> ClusterChange:
        pod_groups = self._tables.pod_groups
        before = pod_groups.get((pod_group.api_group, pod_group.key))
        if before is not None and before.uid == pod_group.uid:
            pod_group = replace(pod_group, version=before.version)
        pod_groups[pod_group.api_group, pod_group.key] = pod_group
        self._note_labels(before, pod_group)
        regrouped = _NOTHING
        if pod_group.api_group == GROUP_NATIVE:
            regrouped = self._native_applied(pod_group)
        return _merge((self._group_changed(before, pod_group), regrouped))

    def _note_labels(self, before: PodGroupInfo | None, after: PodGroupInfo | None) -> None:
        """Update the PodGroups that ask for domains of a label."""
        asking = self._tables.asking_for_label
        if before is not None:
            for label in before.topology_labels:
                asking[label].discard((before.api_group, before.key))
                if not asking[label]:
                    del asking[label]
        if after is not None:
            for label in after.topology_labels:
                asking.setdefault(label, set()).add((after.api_group, after.key))

    def _group_changed(self, before: PodGroupInfo | None, pod_group: PodGroupInfo) -> ClusterChange:
        concerned = frozenset((pod_group.key,))
        if before is None or before.grant != pod_group.grant:
            self._grant(pod_group.key, is_new=before is None)
        if before == pod_group:  # only its status changed
            said = before.status, before.nomination
            same = said == (pod_group.status, pod_group.nomination)
            return _NOTHING if same else ClusterChange(statuses=concerned)
        self._unsorted.add(pod_group.key)
        if before is not None and before.uid != pod_group.uid:
            self._tables.failed_at.pop(pod_group.key, None)
        # One that asks for less may now do with the room that was too little before.
        return ClusterChange(groups=concerned, room=before is not None, statuses=concerned)

    def _pod_group_deleted(self, name: tuple[str, str]) -> ClusterChange:
        gone = self._tables.pod_groups.pop(name, None)
        if gone is None:
            return _NOTHING
        api_group, key = name
        self._note_labels(gone, None)
        if api_group == GROUP_NATIVE and key in self._tables.natives.basic:
            self._tables.natives.basic.remove(key)
            return self._regroup(self._tables.natives.members(key))
        self._unsorted.add(key)
        concerned = frozenset((key,))
        ended = self._end_grants((key,))
        self._grant(key, is_new=True)  # by one of another API group, perhaps
        return ClusterChange(groups=concerned, statuses=concerned, room=ended)

    def _native_applied(self, pod_group: PodGroupInfo) -> ClusterChange:
        """Read off a native PodGroup whether it is a gang, and whether kube-scheduler looks at it.

        kube-scheduler writes its condition to every native PodGroup that it tries, where it tries
        groups as a whole; gang-extender writes none of that type.
        """
        natives, key = self._tables.natives, pod_group.key
        written = any(each.type in NATIVE_SCHEDULED for each in pod_group.status.conditions)
        natives.cycles = natives.cycles or written
        changed = []
        if (pod_group.min_member == 0) != (key in natives.basic):
            natives.basic ^= {key}
            changed.append(self._regroup(natives.members(key)))
        if written and natives.ours is not False and not natives.fixed:
            changed.append(self._native_gangs(ev.NativesDecided(ours=False)))
        return _merge(changed)

    def _native_gangs(self, event: ev.NativesDecided) -> ClusterChange:
        natives = self._tables.natives
        if natives.fixed and not event.fixed:
            return _NOTHING
        natives.ours, natives.fixed = event.ours, event.fixed
        if natives.ours is None and natives.cycles:
            natives.ours = False
        groups = frozenset(key for api, key in self._tables.pod_groups if api == GROUP_NATIVE)
        self._unsorted |= groups
        changed = self._regroup([*natives.pods])
        return _merge((changed, ClusterChange(groups=groups, statuses=groups)))

    def _regroup(self, uids: Iterable[str]) -> ClusterChange:
        """Give pods of native PodGroups the group that they are members of now."""
        tables, changes = self._tables, []
        for uid in uids:
            before = tables.pods.get(uid)
            if before is None:
                continue
            refused, seen = uid in tables.refused, tables.seen.get(uid)
            self._tried(uid)
            changes.append(self._pod_applied(tables.natives.pods[uid]))
            if seen is not None:
                tables.seen[uid] = seen
            pod = tables.pods[uid]
            if refused:
                # In the words of what wakes it now: its group, or room.
                reason = Reason.RESERVED if pod.group is None else Reason.POD_GROUP_NOT_FOUND
                self._pod_refused(ev.PodRefused(pod, reason))
                changes.append(ClusterChange(room=True))
        return _merge(changes)

    def _job_applied(self, job: JobInfo) -> ClusterChange:
        jobs = self._tables.jobs
        before = jobs.by_uid.get(job.uid)
        if before == job:
            return _NOTHING
        jobs.put(job)
        return self._job_changed(before, job)

    def _job_deleted(self, uid: str) -> ClusterChange:
        before = self._tables.jobs.by_uid.get(uid)
        if before is None:
            return _NOTHING
        self._tables.jobs.drop(uid)
        return self._job_changed(before, None)

    def _job_changed(self, before: JobInfo | None, after: JobInfo | None) -> ClusterChange:
        """Return what a Job's new version touches; a queue that lets go of one may give room."""
        jobs = filter(None, (before, after))
        groups = frozenset(job.group for job in jobs if job.group and job.begun)
        self._unsorted |= groups
        held, holds = (job.held_by_queue if job else None for job in (before, after))
        seen = before is None and bool(self._tables.unadmitted)  # its pods may have waited for that
        return ClusterChange(groups=groups, room=seen or bool(held and not holds))

    def _workload_applied(self, workload: AdmittedPods) -> ClusterChange:
        table = self._tables.admissions
        before = table.workloads.get(workload.key)
        if before == workload:
            return _NOTHING
        table.put(workload)
        return ClusterChange(room=workload.pods > 0)

    def _workload_deleted(self, key: str) -> ClusterChange:
        gone = key in self._tables.admissions.workloads
        self._tables.admissions.drop(key)
        return ClusterChange(room=True) if gone else _NOTHING

    def _admission_known(self, event: ev.AdmissionKnown) -> ClusterChange:
        table = self._tables.admissions
        before, table.in_use = table.in_use, event.in_use
        return ClusterChange(room=True) if before is not event.in_use else _NOTHING

    def _jobs_managed(self, event: ev.JobsManaged) -> ClusterChange:
        before, self._tables.jobs.managed = self._tables.jobs.managed, event
        return ClusterChange(room=True) if before != event else _NOTHING

    def _budget_applied(self, budget: BudgetInfo) -> ClusterChange:
        # It makes no room: whether it lets pods go is read when that is asked.
        before = self._view.budget(budget.namespace, budget.name)
        if before is not None and bool(before.gang) != bool(budget.gang):
            self._budget_deleted(budget.key)
        tables = self._tables
        table = tables.gang_budgets if budget.gang else tables.budgets
        table.setdefault(budget.namespace, {})[budget.name] = budget
        if before is not None and before.asks_like(budget):
            return _NOTHING
        # Where it is about pods of a gang too, that keeps none of ours.
        ours = tables.gang_budgets.get(budget.namespace, {}).values()
        gangs = [budget.gang] if budget.gang else [each.gang for each in ours]
        return ClusterChange(statuses=frozenset(f"{budget.namespace}/{gang}" for gang in gangs))

    def _budget_deleted(self, key: str) -> ClusterChange:
        namespace, _, name = key.partition("/")
        there = self._view.budget(namespace, name)
        for table in (self._tables.budgets, self._tables.gang_budgets):
            of_namespace = table.get(namespace, {})
            of_namespace.pop(name, None)
            if not of_namespace:
                table.pop(namespace, None)
        group = there.gang if there is not None else ""
        return ClusterChange(statuses=frozenset((f"{namespace}/{group}",))) if group else _NOTHING

    def _claim_object_applied(self, found: ClaimObject) -> ClusterChange:
        if isinstance(found, VolumeInfo) and not found.free:
            return self._claim_object_deleted(found.key)
        self._tables.claim_objects[found.key] = found
        return ClusterChange(claims=frozenset((found.key,)))

    def _claim_object_deleted(self, key: str) -> ClusterChange:
        self._tables.claim_objects.pop(key, None)
        return ClusterChange(claims=frozenset((key,)))

    # --- steps of our own ------------------------------------------------------------------

    def _planned(self, event: ev.Planned) -> ClusterChange:
        groups: set[str | None] = set()
        moved = self._fulfil(event.placements)
        # A node may go while a Binding to it is being written: there is no room to be kept then.
        there = self._tables.nodes
        gone = [uid for uid, node in event.placements.items() if node not in there]
        for uid, node in event.placements.items():
            pod = self._tables.pods.get(uid) if node in there else None
            if pod is not None and pod.node is None:
                before = self._tables.reservations.pods.get(uid)
                if before is None or before.kind is not ReservationKind.PLANNED:
                    groups.add(pod.group)
                elif before.node != node:
                    moved = True
                    self._tables.gained.note((before.node,))
                self._reserve(pod, node, ReservationKind.PLANNED)
        lost = self._unreserved(ev.Unreserved(gone)) if gone else _NOTHING
        if not groups and not moved:
            return lost
        change = ClusterChange(groups=frozenset(filter(None, groups)), room=moved)
        return _merge((change, lost)) if gone else change

    def _pod_waiting(self, event: ev.PodWaiting) -> ClusterChange:
        self._reserve(event.pod, event.node, ReservationKind.WAITING)
        return _NOTHING

    def _pod_binding(self, event: ev.PodBinding) -> ClusterChange:
        self._reserve(event.pod, event.node, ReservationKind.BINDING)
        return _NOTHING

    def _bound_ahead(self, event: ev.BoundAhead) -> ClusterChange:
        tables = self._tables
        for uid, node in event.placements.items():
            reservation = tables.reservations.pods.get(uid)
            if reservation is None or reservation.kind is ReservationKind.WAITING:
                continue  # gone, or kube-scheduler has asked for it
            if reservation.node != node:
                tables.gained.note((reservation.node,))
            self._reserve(tables.pods[uid], node, ReservationKind.BINDING)
            tables.unseen.put(tables.pods[uid], node)
        return _NOTHING

    def _sighted(self, event: ev.Sighted) -> ClusterChange:
        for uid in event.uids:
            self._tables.unseen.drop(uid)
        return _NOTHING

    def _all_unseen(self, event: ev.AllUnseen) -> ClusterChange:
        self._tables.unseen.everywhere = event.is_so
        return _NOTHING

    def _look_for_unseen(
        self, pod: PodInfo, before: PodInfo | None, kept: Reservation | None
    ) -> None:
        """Give a pod that was bound ahead its number once it is there; drop it where it is not.

        One that had no more than planned room was bound by another client, or by a write of ours
        that was given up: kube-scheduler was not answered that it is bound.
        """
        unseen = self._tables.unseen
        planned = kept is not None and kept.kind is ReservationKind.PLANNED
        if planned and before is not None and pod.node is not None:
            unseen.put(before, pod.node)
        node = unseen.node(pod.uid)
        if node is not None and pod.node == node:
            unseen.show(pod.uid)
        elif node is not None and self._view.bound_node(pod) != node:
            unseen.drop(pod.uid)

    def _unreserved(self, event: ev.Unreserved) -> ClusterChange:
        groups = set()
        for uid in event.uids:
            reservation = self._tables.reservations.pods.get(uid)
            if reservation is not None:
                self._release(reservation)
                self._tables.unseen.drop(uid)
                self._tables.gained.note((reservation.node,))
                groups.add(self._tables.pods[uid].group)
        return ClusterChange(groups=frozenset(filter(None, groups)), room=bool(groups))

    def _group_failed(self, event: ev.GroupFailed) -> ClusterChange:
        self._tables.failed_at[event.group] = event.at
        self._unsorted.add(event.group)
        return _NOTHING

    def _claimed(self, event: ev.Claimed) -> ClusterChange:
        ended = self._tables.reservations.claim(event.claims)
        self._tables.gained.note({node for claim in ended for node in claim.amounts})
        return ClusterChange(room=True) if ended else _NOTHING

    def _grant(self, key: str, *, is_new: bool) -> None:
        """Reserve the room that a group is given from now on; one that has begun needs none.

        The pods of a new one that has ended may be gone. One that is known begins anew.
        """
        self._end_of_group(key, self._tables.reservations.grants)
        asks = self._view.pod_group(key)
        if asks is None or (grant := asks.grant) is None:
            return
        ended = is_new and asks.status.phase in ENDS
        if not ended and not self._view.tally(key).committed:
            given = Reservation(key, 0, grant.rooms, ReservationKind.GRANTED, until=grant.until)
            self._tables.reservations.put(given)

    def _fulfil(self, placements: Iterable[str]) -> bool:
        """End the grants of the groups of pods that have a plan; return whether there were any."""
        if not self._tables.reservations.grants:
            return False
        pods = map(self._tables.pods.get, placements)
        return self._end_grants({pod.group for pod in pods if pod is not None and pod.group})

    def _end_grants(self, groups: Iterable[str]) -> bool:
        """End the grants of groups; return whether there were any."""
        grants = self._tables.reservations.grants
        return sum(self._end_of_group(group, grants) for group in groups) > 0

    def _end_of_group(self, group: str, table: Mapping[str, Reservation]) -> bool:
        """End the reservation of a group in one of the tables; return whether it has one there."""
        ended = table.get(group)
        if ended is not None:
            self._tables.reservations.drop(ended)
            self._tables.gained.note(ended.amounts)
        return ended is not None

    def _grants_ended(self, event: ev.GrantsEnded) -> ClusterChange:
        return ClusterChange(room=True) if self._end_grants(event.groups) else _NOTHING

    def _nominated(self, event: ev.Nominated) -> ClusterChange:
        kept = self._tables.reservations.nominated
        ended = self._end_of_group(event.group, kept)
        now = self._view.tally(event.group).priority
        priority = event.priority if event.priority is not None else now
        chosen = event.nomination
        victims = frozenset(uid for victim in chosen.victims for uid in victim.pods)
        self._tables.reservations.put(
            VictimsRoom(event.group, priority, chosen.amounts, victims=victims)
        )
        self._unsorted.add(event.group)  # it ends at once where the group has started by now
        return ClusterChange(room=True) if ended else _NOTHING

    def _nominations_ended(self, event: ev.NominationsEnded) -> ClusterChange:
        kept = self._tables.reservations.nominated
        ended = sum(self._end_of_group(group, kept) for group in event.groups)
        return ClusterChange(room=True) if ended else _NOTHING

    def _pod_refused(self, event: ev.PodRefused) -> ClusterChange:
        known = self._tables.pods.get(event.pod.uid)
        if known is not None and known.node is None:
            self._tried(event.pod.uid)
            self._tables.refused[event.pod.uid] = Refusal(event.pod, event.reason)
            if event.reason == Reason.NOT_ADMITTED:
                self._tables.unadmitted.add(event.pod.uid)
            self._tables.fresh.drop(event.pod.uid)
            group = event.pod.group or NO_GROUP
            self._tables.refused_of.setdefault(group, {})[event.pod.uid] = None
        return _NOTHING

    def _pods_tried(self, event: ev.PodsTried) -> ClusterChange:
        for uid in event.uids:
            self._tried(uid)
        return _NOTHING

    def _looked(self, event: ev.Looked) -> ClusterChange:
        nodes = self._tables.nodes
        there = [nodes[name].name for name in event.names if name in nodes]
        self._tables.schedulers.pass_time(event.at)
        self._tables.feasible_by_pattern.add(event.pattern, there, at=event.at, agrees=event.agrees)
        return _NOTHING

    def _tried(self, uid: str) -> None:
        refusal = self._tables.refused.pop(uid, None)
        self._tables.unadmitted.discard(uid)
        if refusal is not None:
            if uid in self._tables.pods:
                self._look_whether_it_waits(self._tables.pods[uid])
            group = refusal.pod.group or NO_GROUP
            there = self._tables.refused_of[group]
            del there[uid]
            if not there:
                del self._tables.refused_of[group]

    # --- the queue -------------------------------------------------------------------------

    def _sort(self) -> bool:
        """Give groups their places in the queue; return whether room that one kept is free now.

        A claim ends when its group leaves the queue. Room that victims leave is kept on until the
        group starts: it may lack a pod for a moment, and a plan may fail.
        """
        unsorted, self._unsorted = self._unsorted, set()
        reserved = self._tables.reservations
        ended, claims, nominated = False, reserved.claims, reserved.nominated
        for group in unsorted:
            pod_group = self._view.pod_group(group)
            tally = self._tables.groups.get(group)
            quorum = self._view.quorum(pod_group) if pod_group else 0
            if pod_group is None or tally is None or tally.assigned >= quorum:
                self._tables.failed_at.pop(group, None)
            if pod_group and tally and tally.waits_for_room(quorum):
                self._tables.queue.put(self._view.turn(pod_group))
            elif self._tables.queue.drop(group):
                ended = self._end_of_group(group, claims) or ended
            if group in nominated:
                starts = tally is not None and tally.assigned >= quorum
                if pod_group is None or starts:
                    ended = self._end_of_group(group, nominated) or ended
        return ended

    # --- counting --------------------------------------------------------------------------

    def _reserve(self, pod: PodInfo, node: str, kind: ReservationKind) -> None:
        """Reserve a node's room for a pod, in place of the reservation that it has."""
        tables = self._tables
        known = tables.pods.get(pod.uid)
        if known is None or known.node is not None or known.terminating:
            return  # gone or going, or a fact already
        before = tables.reservations.pods.get(pod.uid)
        if before is not None:
            self._release(before)
        if kind is not ReservationKind.BINDING:
            tables.unseen.drop(pod.uid)
        amounts = {node: known.shape.requests}
        tables.reservations.put(Reservation(known.uid, known.priority, amounts, kind))
        tables.admissions.take(known)
        tables.fresh.drop(known.uid)
        tables.plain.drop(known.uid)
        if YIELDS[kind] is NEVER:
            tables.left.note(node)
        tally = self._tally_of(known)
        if tally is not None:
            tally.reserve(known, kind)

    def _release(self, reservation: Reservation) -> None:
        """End the reservation of a pod."""
        tables, kind = self._tables, reservation.kind
        tables.reservations.drop(reservation)
        if YIELDS[kind] is NEVER:
            tables.left.note(reservation.node)
        pod = tables.pods[reservation.owner]
        tables.admissions.give(pod)
        self._look_whether_it_waits(pod)
        tally = self._tally_of(pod)
        if tally is not None:
            tally.release(pod, kind)

    def _look_whether_it_waits(self, pod: PodInfo) -> None:
        """Count a pod that waits: without a group, or before anything was said of it."""
        tables, judged = self._tables, pod.unschedulable is not None
        if pod.node is not None or pod.gates or pod.terminating:
            return
        if pod.uid in tables.reservations.pods:
            return
        # A pod of a DaemonSet that found no room waits for its own node alone.
        if pod.group is None and not (pod.only_node and judged):
            tables.plain.put(pod)
        if not judged and pod.uid not in tables.refused:
            tables.fresh.put(pod)

    def _count(self, pod: PodInfo) -> None:
        tables = self._tables
        tables.pod_log.note(pod)
        if pod.node is not None:
            tables.reservations.use(pod.node, pod.shape.requests)
            tables.admissions.take(pod)
            tables.left.note(pod.node)
            tables.schedulers.count(pod.scheduler, pod.node)
            tables.priorities[pod.priority] = tables.priorities.get(pod.priority, 0) + 1
        if pod.shape.shuns or pod.shape.seeks:
            tables.pod_affinity_index.add(pod)
        self._look_whether_it_waits(pod)
        for index, name in _indexes(tables, pod):
            index.setdefault(name, set()).add(pod.uid)
        if pod.group is None:
            return
        self._unsorted.add(pod.group)
        tally = tables.groups.setdefault(pod.group, GroupTally())
        tally.add(pod)
        if pod.uid in tally.bound:
            self._end_grants((pod.group,))

    def _uncount(self, pod: PodInfo) -> None:
        """Undo `_count`; the pod keeps its place among the members."""
        tables = self._tables
        tables.pod_log.note(pod)
        if pod.node is not None:
            tables.reservations.stop_using(pod.node, pod.shape.requests)
            tables.admissions.give(pod)
            tables.left.note(pod.node)
            tables.schedulers.uncount(pod.scheduler, pod.node)
            tables.priorities[pod.priority] -= 1
            if not tables.priorities[pod.priority]:
                del tables.priorities[pod.priority]
        if pod.shape.shuns or pod.shape.seeks:
            tables.pod_affinity_index.remove(pod)
        tables.fresh.drop(pod.uid)
        tables.plain.drop(pod.uid)
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
        """Take a pod out of its group; it may be counted in another one."""
        tally = self._tally_of(pod)
        if tally is not None and pod.group is not None:
            del tally.members[pod.uid]
            if not tally.members:
                del self._tables.groups[pod.group]

    def _forget_pod(self, uid: str, *, has_ended: bool = False) -> ClusterChange:
        forgotten = _NOTHING if has_ended else self._forget_ended(uid)
        _added(self._gone, uid)
        return _merge((forgotten, self._drop_pod(uid)))

    def _drop_pod(self, uid: str) -> ClusterChange:
        tables = self._tables
        tables.seen.pop(uid, None)
        pod = tables.pods.get(uid)
        if pod is None:
            return _NOTHING
        reservation = tables.reservations.pods.get(uid)
        if reservation is not None:
            self._release(reservation)
        del tables.pods[uid]
        tables.natives.forget(uid)
        tables.unseen.drop(uid)
        self._tried(uid)
        tables.gained.note(filter(None, (pod.node, reservation.node if reservation else None)))
        self._uncount(pod)
        self._leave_group(pod)
        groups = frozenset((pod.group,)) if pod.group else frozenset()
        room = reservation is not None or self._makes_way(pod)
        return ClusterChange(groups=groups, room=room, statuses=groups)

    def _makes_way(self, pod: PodInfo) -> bool:
        """Return whether another pod of the same job may wait for this one to go."""
        return bool(self._tables.unadmitted) and self._view.is_admitted_by_number(pod)


def _added(names: dict[str, None], name: str) -> str | None:
    """Add a name as the latest; return the oldest one, if there are too many now.

    The UIDs of deleted pods are kept so that a late request does not bring one back, and the names
    of deleted nodes so that readers see them among the changed ones: all look before so many go.
    """
    names.pop(name, None)
    names[name] = None
    oldest = next(iter(names)) if len(names) > REMEMBERED else None
    if oldest is not None:
        del names[oldest]
    return oldest


def _gained(pod: PodInfo, kept: str | None, *, resized: bool) -> Iterable[str]:
    """Return the nodes that may have more room with a pod's new version.

    `kept` is the node on which it had room kept that it does not need any more.
    """
    return {node for node in (kept, pod.node if resized else None) if node is not None}


def _indexes(tables: ClusterTables, pod: PodInfo) -> list[tuple[dict[str, set[str]], str]]:
    """Return where a pod is found by the name of something else."""
    found = (
        (tables.controlled, pod.controller),
        (tables.of_workload, pod.workload),
        (tables.on_node, pod.node),
        (tables.ending, pod.node if pod.terminating else None),
        (tables.nominated, pod.nominated if pod.node is None else None),
        (tables.shunning, pod.node if pod.shape.one_per_node else None),
    )
    claims = [(tables.claimed, key) for key in pod.claim_keys]
    if claims and pod.node is None and pod.group is not None:
        claims.append((tables.claiming, pod.group))
    return claims + [(index, name) for index, name in found if name is not None]


def _discard(index: dict[str, set[str]], name: str, uid: str) -> None:
    there = index[name]
    there.discard(uid)
    if not there:
        del index[name]


def _merge(changes: Iterable[ClusterChange]) -> ClusterChange:
    changes = [change for change in changes if change is not _NOTHING]
    if len(changes) <= 1:
        return changes[0] if changes else _NOTHING
    return ClusterChange(
        groups=frozenset().union(*(change.groups for change in changes)),
        unschedulable=frozenset().union(*(change.unschedulable for change in changes)),
        room=any(change.room for change in changes),
        statuses=frozenset().union(*(change.statuses for change in changes)),
        gated=frozenset().union(*(change.gated for change in changes)),
        claims=frozenset().union(*(change.claims for change in changes)),
    )


def _key_of(record: ev.Record) -> ev.Key:
    match record:
        case PodInfo() | JobInfo():
            return record.uid
        case NodeInfo():
            return record.name
        case PodGroupInfo():
            return record.api_group, record.key
        case _:
            return record.key


def _known_keys(tables: ClusterTables, listed: ObjectsListed) -> Iterator[ev.Key]:
    """Yield the keys of what there is of a listed type; a caller may change the tables meanwhile.

    A pod that only a request has shown is left out if it was shown after the list was asked for:
    it may be newer than the list. One that was shown before has gone, or has ended.
    """
    part = listed.part
    if listed.type is PodInfo:
        pods = [*tables.pods, *tables.ended]
        yield from (uid for uid in pods if tables.seen.get(uid) is not False)
    elif listed.type is NodeInfo:
        yield from [*tables.nodes]
    elif listed.type is PodGroupInfo:
        yield from [name for name in tables.pod_groups if name[0] == part]
    elif listed.type is JobInfo:
        yield from [uid for uid, job in tables.jobs.by_uid.items() if job.kind == part]
    elif listed.type is AdmittedPods:
        yield from [*tables.admissions.workloads]
    elif listed.type is BudgetInfo:
        every = [*tables.budgets.values(), *tables.gang_budgets.values()]
        yield from [each.key for found in every for each in found.values()]
    else:
        yield from [key for key in tables.claim_objects if key.startswith(part)]
