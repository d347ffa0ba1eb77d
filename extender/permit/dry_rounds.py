"""Gangs that claim volumes or devices: their dry rounds, and the devices of refused members.

In a dry round members are refused until kube-scheduler has found nodes for enough of them at the
same time; then all may pass. If the gang loses its plan first, it begins anew. While a gang passes,
no other one of the same StorageClass or DeviceClass does: neither waits for what the other has.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import structlog
from cachetools import LRUCache

from extender.api.reasons import Reason
from extender.gang import dry_round, hold
from extender.gang.verdicts import FilterVerdict, OneNode, Refuse, about
from extender.kube.claims import ClaimWriter
from extender.kube.errors import ApiError
from extender.permit.timing import BACK_OFF_SECONDS, CHECK_SECONDS, REMEMBERED, SLICE_SECONDS
from extender.runtime.clock import Clock
from extender.runtime.controller import WorkQueue
from extender.runtime.faults import FAULTS
from extender.state.cluster.events import ClusterChange
from extender.state.cluster.records import NodeInfo, PodInfo, VolumeInfo
from extender.state.cluster.store import Cluster

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Round:
    found: dict[str, tuple[float, Sequence[NodeInfo]]] = field(default_factory=dict)
    """The nodes that kube-scheduler found for each member, and the time of it, by UID."""
    need: int = 0
    passed: frozenset[str] | None = None
    """The classes of its claims, once its members may pass."""
    volumes: Mapping[str, VolumeInfo] = field(default_factory=dict)
    """The volume that is there for each claim, by its key, where volumes are made by hand."""


class DryRounds:
    """Judges members that claim something, and takes back devices allocated in vain."""

    def __init__(
        self,
        cluster: Cluster,
        writer: ClaimWriter,
        *,
        clock: Clock,
        wake_after: Callable[[str, float], None],
    ) -> None:
        """`wake_after` takes the UID of a pod or a group, and seconds."""
        self._writer = writer
        self._view = cluster.view()
        self._now = clock.monotonic
        self._wake_after = wake_after
        self._rounds: dict[str, _Round] = {}
        self._blocked: dict[str, None] = {}
        """Groups that wait for a class that another group uses, first come first."""
        self._refused: LRUCache[str, None] = LRUCache(REMEMBERED)
        """UIDs of pods whose last answer was a refusal."""
        self._queue: WorkQueue[str] = WorkQueue()
        cluster.subscribe(self.on_change)

    # --- dry rounds --------------------------------------------------------------------------

    def judge(
        self, pod: PodInfo, group: str, verdict: FilterVerdict, *, sent: Sequence[str]
    ) -> FilterVerdict:
        """Return the verdict about a member, or a refusal while its siblings have no nodes."""
        view, pod_group = self._view, self._view.pod_group(group)
        if isinstance(verdict, Refuse) or not view.claiming(group) or pod_group is None:
            return verdict
        dry = self._rounds.get(group) or _Round()
        later = hold.come_later(group, view=view) - dry.found.keys()
        dry.need = view.quorum(pod_group) - view.tally(group).assigned - len(later)
        is_cycle = group == pod.native and view.has_group_cycles
        if dry.passed is not None:
            return dry_round.beside_volumes(pod, verdict, sent, volumes=dry.volumes, view=view)
        if dry.need <= 0 or is_cycle:
            return verdict
        lacking = dry_round.lacking_claims(group, view=view)
        if not lacking:
            return verdict
        self._rounds[group] = dry
        if isinstance(verdict, OneNode):
            nodes = [node for node in map(view.nodes.get, sent) if node is not None]
            dry.found[pod.uid] = self._now(), nodes
        refusal = self._refusal(group, dry, dry_round.classes_of(lacking, view=view))
        if refusal is None:
            self._wake(group)
            return dry_round.beside_volumes(pod, verdict, sent, volumes=dry.volumes, view=view)
        kept = verdict.reserve if isinstance(verdict, OneNode) and not refusal.deny else {}
        return replace(refusal, reserve=kept)

    def _refusal(self, group: str, dry: _Round, classes: frozenset[str]) -> Refuse | None:
        """Return why the members of a gang may not pass yet; None if they may from now on."""
        in_use = {name for other in self._rounds.values() for name in other.passed or ()}
        used = min(classes & in_use, default=None)
        if used is not None:
            self._blocked[group] = None
            dry.found.clear()  # the other gang may be given what was found
            text = f"{about(group)}another gang is being given what it claims of {used}"
            return Refuse(Reason.CLASS_IN_USE, text)
        good = {uid: nodes for uid, (_, nodes) in [*dry.found.items()] if self._holds(uid, dry)}
        complete = len(good) >= dry.need
        able: Mapping[str, Sequence[NodeInfo] | None] = good if complete else {}
        if not complete and len(good) <= 1:
            # kube-scheduler has not said where the members fit that have no node.
            able = {pod.uid: None for pod in self._view.members(group) if pod.node is None}
        volumes = dry_round.match_volumes(able, dry.need, view=self._view) if able else {}
        if isinstance(volumes, str):
            text = f"{about(group)}too few free volumes of {volumes} for the pods that it needs"
            return Refuse(Reason.NOT_ENOUGH_VOLUMES, text, deny=True, lost=True)
        if not complete:
            text = (
                f"{about(group)}its claims are written when kube-scheduler has found nodes for "
                f"all {dry.need} pods that it needs"
            )
            return Refuse(Reason.NODES_FOR_ALL_FIRST, text)
        dry.passed, dry.volumes = classes, volumes
        return None

    def _holds(self, uid: str, dry: _Round) -> bool:
        """Return whether a member still has one of the nodes that were found for it.

        A member whose nodes were found too long ago is tried once more.
        """
        at, nodes = dry.found[uid]
        pod = self._view.pods.get(uid)
        lasts = CHECK_SECONDS + dry.need * 2 * SLICE_SECONDS
        if pod is None or pod.node is not None:
            del dry.found[uid]
            return False
        if self._now() < at + lasts and any(self._view.nodes.get(n.name) is n for n in nodes):
            return True
        self._wake_after(uid, 0.0)
        return False

    def _wake(self, group: str) -> None:
        for uid in self._view.refused_of(group):
            self._wake_after(uid, 0.0)

    def on_change(self, change: ClusterChange) -> None:
        """End the rounds of groups that have started or lost their plan; look at claims again."""
        for key in change.claims:
            self._queue.add(key)
        for group in change.groups if self._rounds or self._refused else ():
            waits = self._view.claiming(group)
            if not self._is_over(group):
                continue
            for uid in [uid for uid in waits if uid in self._refused]:
                self.refused(self._view.pods[uid])
            ended = self._rounds.pop(group, None)
            if ended is not None and ended.passed is not None:
                # The groups that waited for a class that this one used are tried again.
                blocked, self._blocked = self._blocked, {}
                for other in blocked:
                    self._wake_after(other, 0.0)
                    self._wake(other)

    def _is_over(self, group: str) -> bool:
        tally, pod_group = self._view.tally(group), self._view.pod_group(group)
        on_their_way = tally.planned or tally.waiting or tally.binding
        has_started = pod_group is None or tally.assigned >= self._view.quorum(pod_group)
        return has_started or not on_their_way

    # --- devices that refused members leave --------------------------------------------------

    def answered(self, pod: PodInfo, *, refused: bool) -> None:
        """Take note whether kube-scheduler may bind a pod that filter was asked about."""
        if refused:
            self.refused(pod)
        else:
            self._refused.pop(pod.uid, None)

    def refused(self, pod: PodInfo) -> None:
        """Take note that kube-scheduler may not bind a pod, and look at what it claims."""
        if pod.claim_keys and pod.group is not None:
            self._refused[pod.uid] = None
            for key in pod.claim_keys:
                self._queue.add(key)

    async def run(self) -> None:
        """Take devices back until cancelled."""
        while True:
            key = await self._queue.get()
            claim = self._view.claim(key)
            if claim is None or not dry_round.may_be_deallocated(
                claim, view=self._view, refused=self._refused
            ):
                continue
            try:
                await self._writer.deallocate(claim)
                _log.info("devices were taken back", claim=key)
            except ApiError as error:
                _log.warning("devices were not taken back", claim=key, error=str(error))
                self._queue.add_after(key, BACK_OFF_SECONDS)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is this claim's alone
                FAULTS.report("dry-rounds", error, key=key)
                self._queue.add_after(key, BACK_OFF_SECONDS)
