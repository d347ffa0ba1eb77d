"""The read-only side of the state, which is all that decisions see.

A snapshot shares the live tables instead of copying them: with thousands of nodes a copy for each
filter call would cost more than the decision. It stays consistent because everything runs on one
event loop and neither the writer nor a decision ever awaits; so a snapshot must not be kept
across an `await`.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from extender.api.wellknown import POD_GROUP_GROUPS
from extender.resources.quantity import Resources, add
from extender.state.assumed import Assumption, Refusal, Stage
from extender.state.claims import Claim, Grant
from extender.state.gains import Gains
from extender.state.group_queue import GroupQueue, Turn
from extender.state.group_tally import GroupTally
from extender.state.job_table import JobTable
from extender.state.jobs import JobInfo
from extender.state.nodes import NodeInfo
from extender.state.pod_groups import PodGroupInfo
from extender.state.pod_log import PodLog
from extender.state.pods import PodInfo
from extender.state.set_aside import SetAside


@dataclass(slots=True)
class Tables:
    """Everything the state holds. Written by `Cluster` only."""

    pods: dict[str, PodInfo] = field(default_factory=dict)
    nodes: dict[str, NodeInfo] = field(default_factory=dict)
    pod_groups: dict[tuple[str, str], PodGroupInfo] = field(default_factory=dict)
    groups: dict[str, GroupTally] = field(default_factory=dict)
    controlled: dict[str, set[str]] = field(default_factory=dict)
    """By UID of an owner: the pods that it makes others in place of."""
    of_workload: dict[str, set[str]] = field(default_factory=dict)
    """By Workload: the UIDs of the pods that say that they are its."""
    on_node: dict[str, set[str]] = field(default_factory=dict)
    """By node: the UIDs of the pods that the API shows on it."""
    seen: dict[str, bool] = field(default_factory=dict)
    """UIDs of pods that only requests have shown yet, and no watch; whether a list has begun since,
    which must then have them."""
    assumed: dict[str, Assumption] = field(default_factory=dict)
    assumed_on: dict[str, set[str]] = field(default_factory=dict)
    """By node: the UIDs of the pods that room there is planned for, held or being taken by."""
    refused: dict[str, Refusal] = field(default_factory=dict)
    refused_of: dict[str, dict[str, None]] = field(default_factory=dict)
    """By group: the UIDs of its pods among these, in order."""
    used: dict[str, Resources] = field(default_factory=dict)
    """By node: bound pods, and those that wait or are being bound."""
    reserved: dict[str, dict[str, Assumption]] = field(default_factory=dict)
    """By node: the planned pods, by UID."""
    kept: dict[str, dict[int, Resources]] = field(default_factory=dict)
    """By node: what these ask for, added up by priority."""
    gained: Gains = field(default_factory=Gains)
    """Nodes that have more room since, or take other pods."""
    changed: Gains = field(default_factory=Gains)
    """Nodes that came, went or changed."""
    pod_log: PodLog = field(default_factory=PodLog)
    version: int = 0
    ended: dict[str, PodInfo] = field(default_factory=dict)
    """Finished members by UID, as far as they are watched."""
    finished: dict[str, dict[str, PodInfo]] = field(default_factory=dict)
    """The same by group."""
    jobs: JobTable = field(default_factory=JobTable)
    failed_at: dict[str, float] = field(default_factory=dict)
    queue: GroupQueue = field(default_factory=GroupQueue)
    set_aside: SetAside = field(default_factory=SetAside)


SYSTEM_CRITICAL: Final = 2_000_000_000
"""From this priority on pods are the cluster's own."""
_NO_GROUP = GroupTally()
_NO_PODS: Mapping[str, PodInfo] = {}
_NO_CLAIMS: Mapping[str, Claim] = {}


class Snapshot:
    """Queries about the cluster as it is believed to be now."""

    __slots__ = ("_aside", "_jobs", "_tables")

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._aside = tables.set_aside
        self._jobs = tables.jobs

    @property
    def nodes(self) -> Mapping[str, NodeInfo]:
        """All nodes by name."""
        return self._tables.nodes

    @property
    def pods(self) -> Mapping[str, PodInfo]:
        """All pods that have not finished, by UID."""
        return self._tables.pods

    @property
    def seen(self) -> Collection[str]:
        """UIDs of the pods that only requests have shown, oldest first."""
        return self._tables.seen.keys()

    @property
    def refused(self) -> Mapping[str, Refusal]:
        """Pods that were refused and have not been tried since, by UID."""
        return self._tables.refused

    @property
    def groups(self) -> Collection[str]:
        """Keys of the groups that have pods."""
        return self._tables.groups.keys()

    @property
    def pod_groups(self) -> Collection[str]:
        """Keys of the groups that have a PodGroup of either API group."""
        return {key for _, key in self._tables.pod_groups}

    def pod_group(self, key: str) -> PodGroupInfo | None:
        """Return the PodGroup of that `namespace/name`; the newer API group wins."""
        for api_group in POD_GROUP_GROUPS:
            found = self._tables.pod_groups.get((api_group, key))
            if found is not None:
                return found
        return None

    def pod_group_of(self, api_group: str, key: str) -> PodGroupInfo | None:
        """Return the PodGroup of one API group with that `namespace/name`."""
        return self._tables.pod_groups.get((api_group, key))

    def quorum(self, pod_group: PodGroupInfo) -> int:
        """Return how many members the group needs now.

        That is minMember, or fewer where its unfinished Jobs have so many pods behind them that
        fewer remain to run: when such a Job starts again, the pods that remain are the gang. Of
        others the PodGroup says how many are done.
        """
        need = pod_group.min_member
        begun, done = self._jobs.work.get(pod_group.key, (0, 0))
        beyond = max(0, begun - need)  # pods that the group can do without, and another Job's
        through = max(0, done - beyond) + (pod_group.done or self._left_behind(pod_group))
        return max(min(need, 1), need - through)

    def _left_behind(self, pod_group: PodGroupInfo) -> int:
        """Return how many members have succeeded that began without others of the same start.

        A Binding may fail after its gang was released, and this process may end before it is
        tried again: members that were there at the start, and have no node, are to follow. Pods
        that came later are another run of the group, which starts as a whole.
        """
        group, started = pod_group.key, pod_group.started
        if not pod_group.succeeded or started is None or group in self._jobs.work:
            return 0
        if len(self.tally(group).members) >= pod_group.min_member:
            return 0
        behind = any(pod.node is None and pod.created <= started for pod in self.members(group))
        return pod_group.succeeded if behind else 0

    def has_unfinished_jobs(self, key: str) -> bool:
        """Return whether a Job whose pods are members has not ended."""
        return key in self._jobs.work

    def job(self, uid: str) -> JobInfo | None:
        """Return a Job with members, or one that something has made."""
        return self._jobs.by_uid.get(uid)

    def finished(self, key: str) -> Mapping[str, PodInfo]:
        """Return the finished pods of a group by UID; none where those are not watched."""
        return self._tables.finished.get(key, _NO_PODS)

    @property
    def queue(self) -> GroupQueue:
        """Groups that have their pods and no room yet, in the order of their turns."""
        return self._tables.queue

    @property
    def claims(self) -> Mapping[str, Claim]:
        """Claims to room of groups that have waited long, by group."""
        return self._aside.claims

    @property
    def grants(self) -> Mapping[str, Grant]:
        """Return the room that queues have found for groups which have no plan yet, by group."""
        return self._aside.grants

    def stored_grants(self, key: str) -> list[PodGroupInfo]:
        """Return the PodGroups of that `namespace/name` that room is granted to, used or not."""
        found = (self._tables.pod_groups.get((group, key)) for group in POD_GROUP_GROUPS)
        return [each for each in found if each is not None and each.grant is not None]

    def claims_on(self, node: str) -> Mapping[str, Claim]:
        """Return the claims to room on a node, by group."""
        return self._aside.claimed.get(node, _NO_CLAIMS)

    def turn(self, pod_group: PodGroupInfo) -> Turn:
        """Return what groups are ordered by: priority, age or last failure, arrival, name."""
        key = pod_group.key
        since = self._tables.failed_at.get(key, pod_group.created)
        return -self.tally(key).priority, since, pod_group.version, key

    def tally(self, key: str) -> GroupTally:
        """Return the pods of a group; empty where it has none."""
        return self._tables.groups.get(key, _NO_GROUP)

    def members(self, key: str) -> Iterator[PodInfo]:
        """Yield the pods of a group in order of arrival."""
        pods = self._tables.pods
        return (pods[uid] for uid in self.tally(key).members)

    def pods_on(self, node: str) -> Collection[str]:
        """Return the UIDs of the pods that the API shows on a node and that have not finished."""
        return self._tables.on_node.get(node, ())

    def assumed_on(self, node: str) -> Collection[str]:
        """Return the UIDs of the pods without a node that room on one is kept or taken for."""
        return self._tables.assumed_on.get(node, ())

    def refused_of(self, group: str) -> Collection[str]:
        """Return the UIDs of a group's pods that were refused and have not been tried since."""
        return self._tables.refused_of.get(group, ())

    def controlled_by(self, owner: str) -> Collection[str]:
        """Return the UIDs of the pods whose controller has that UID."""
        return self._tables.controlled.get(owner, ())

    def made_by(self, maker: str) -> Collection[str]:
        """Return the UIDs of the Jobs whose controller has that UID."""
        return self._jobs.made.get(maker, ())

    def of_workload(self, key: str) -> Collection[str]:
        """Return the UIDs of the pods that say that they are a Workload's, by `namespace/name`."""
        return self._tables.of_workload.get(key, ())

    @property
    def pods_version(self) -> int:
        """Return a number that grows whenever a pod came, went or changed."""
        return self._tables.pod_log.version

    def pods_since(self, version: int) -> Collection[PodInfo] | None:
        """Return the pods that came, went or changed since; None where they are too many."""
        return self._tables.pod_log.since(version)

    @property
    def version(self) -> int:
        """Return a number that grows with each event."""
        return self._tables.version

    @property
    def nodes_version(self) -> int:
        """Return a number that grows whenever a node came, went or changed."""
        return self._tables.changed.version

    def changed_since(self, version: int) -> Iterator[str]:
        """Yield the nodes that came, went or changed after a `nodes_version`."""
        return self._tables.changed.since(version)

    @property
    def capacity_version(self) -> int:
        """Return a number that grows whenever a node has gained room, or takes other pods."""
        return self._tables.gained.version

    def gained_since(self, version: int) -> Iterator[str]:
        """Yield the nodes that have gained room after a `capacity_version`."""
        return self._tables.gained.since(version)

    def assumption(self, uid: str) -> Assumption | None:
        """Return the room that is kept or taken for a pod that the API shows without a node."""
        return self._tables.assumed.get(uid)

    def planned_node(self, uid: str) -> str | None:
        """Return the node where a plan keeps room for the pod."""
        found = self._tables.assumed.get(uid)
        return found.node if found is not None and found.stage is Stage.PLANNED else None

    def reserved(self, node: str) -> Mapping[str, Assumption]:
        """Return the planned pods on a node, by UID."""
        return self._tables.reserved.get(node, {})

    @property
    def reserved_nodes(self) -> Collection[str]:
        """Names of the nodes on which a plan keeps room."""
        return self._tables.reserved.keys()

    def is_kept(self, node: str) -> bool:
        """Return whether anybody has room kept for it, or a claim to room, on a node."""
        aside = self._aside
        return node in self._tables.reserved or node in aside.claimed or node in aside.granted

    def awaits_admission(self, pod: PodInfo) -> str | None:
        """Return the Job with a queue whose pod this is, if it was started without being admitted.

        Pods of an admitted Job say so in a label that the queue writes into their template.
        """
        queued = self._jobs.queued
        if not queued or pod.admitted or pod.controller is None:
            return None
        return queued.get(pod.controller)

    @property
    def keeps_room(self) -> bool:
        """Whether room is kept or claimed anywhere."""
        aside = self._aside
        return bool(self._tables.reserved or aside.claimed or aside.granted)

    def used(self, node: str) -> Mapping[str, int]:
        """Return what the pods on a node take, those that wait for quorum included."""
        return self._tables.used.get(node, {})

    def is_overcommitted(self, node: str, resources: Iterable[str]) -> bool:
        """Return whether pods and plans take more of one of these than a node has.

        A plan may have been made for room that kube-scheduler had given to another pod already.
        """
        found, used = self.nodes.get(node), self.used(node)
        levels = self._tables.kept.get(node, {}).values()
        return found is None or any(
            used.get(what, 0) + sum(kept.get(what, 0) for kept in levels)
            > found.allocatable.get(what, 0)
            for what in resources
        )

    def free(
        self, node: NodeInfo, *, priority: int, without: str = "", group: str | None = None
    ) -> Resources:
        """Return what a pod of that priority may still take on a node; may be negative.

        Room that a plan keeps counts as taken unless the plan's pod has a lower priority, or is
        the pod `without` itself. So does room that another group than `group` has a claim to; but
        a group that has begun completes itself before others of its priority begin. What a queue
        has granted to another group is nobody's but the cluster's own pods'.
        """
        free = dict(node.allocatable)
        for name, value in self._tables.used.get(node.name, {}).items():
            free[name] = free.get(name, 0) - value
        for level, amounts in self._tables.kept.get(node.name, {}).items():
            if level >= priority:
                for name, value in amounts.items():
                    free[name] = free.get(name, 0) - value
        own = self._tables.reserved.get(node.name, {}).get(without) if without else None
        if own is not None and own.pod.priority >= priority:
            add(free, own.pod.shape.requests)
        aside = self._aside
        if node.name in aside.claimed:
            least = priority + self._has_begun(group)
            aside.subtract_claims(free, node.name, least=least, group=group)
        if node.name in aside.granted and priority < SYSTEM_CRITICAL:
            aside.subtract_grants(free, node, group=group)
        return free

    def _has_begun(self, key: str | None) -> bool:
        """Return whether a group has room for some of its members, and not yet nodes for enough."""
        pod_group = self.pod_group(key) if key else None
        if pod_group is None:
            return False
        tally = self.tally(pod_group.key)
        return tally.committed > 0 and tally.assigned < self.quorum(pod_group)
