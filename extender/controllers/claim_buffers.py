"""Shows autoscalers that nodes which are set aside for groups are not free.

They ask no extender: they take what a claim keeps for free, and add no node for the pods that are
kept off. So each claimed node has a CapacityBuffer of one pod, which can be on this node alone and
takes all that is free there. Cluster Autoscaler places pods in the order of priority, Karpenter in
the order of size: in both this one comes before all that would fit.

A buffer is never changed: its name has a hash of what it says, and other room is another buffer.
"""

import asyncio
from hashlib import sha1
from typing import Final

import msgspec
import structlog

from extender.api.wellknown import HOSTNAME_LABEL
from extender.controllers.timing import LATE, SETTLE
from extender.gang.aging import free_on_claimed
from extender.jobs.fields import Object
from extender.kube.autoscaling import BUFFERS, TEMPLATES, Autoscaling, buffer
from extender.kube.errors import ApiError, RefusedError
from extender.kube.pod_groups import owned
from extender.queueing.provisioning import short_name
from extender.resources.quantity import Resources, exact
from extender.runtime.clock import Clock, in_turns
from extender.state.cluster.records import NodeInfo, PodGroupInfo
from extender.state.cluster.reservations import SYSTEM_CRITICAL
from extender.state.cluster.view import ClusterView
from extender.steps import PIECE, Steps

_CLASS: Final = "system-cluster-critical"
"""A PriorityClass of every cluster. Its value has to stand beside it: Cluster Autoscaler reads that
alone."""
_log = structlog.get_logger(__name__)


class ClaimBuffers:
    """Keeps a buffer for each node that is set aside, and no other ones of PodGroups."""

    def __init__(
        self, view: ClusterView, autoscaling: Autoscaling, *, clock: Clock, on: bool
    ) -> None:
        self._view, self._autoscaling = view, autoscaling
        self._clock, self._on = clock, on
        self._version: str | None = None
        """The version in which buffers are served: nothing if in none, None at first."""
        self._there: set[tuple[str, str]] = set()
        """The namespaces and names of buffers that there may be."""
        self._read_at: float | None = None

    async def run(self) -> None:
        """Work until cancelled, or, where the setting is off, until no buffer is left."""
        while True:
            try:
                await self.look()
                if not self._on:
                    return
            except ApiError as error:
                self._read_at = None
                _log.warning("could not show which nodes are set aside", error=str(error))
            await asyncio.sleep(SETTLE if self._on else LATE)

    async def look(self) -> None:
        """Create the buffers that are missing, and delete the others. Raises ApiError."""
        now = self._clock.monotonic()
        if self._read_at is None or now - self._read_at >= LATE:
            await self._recall()
            self._read_at = now
        if not self._version:
            return
        wanted = await in_turns(buffers(self._view), self._clock) if self._on else {}
        for key in wanted.keys() - self._there:
            self._there.add(key)  # one that is refused is tried again after the next recall
            try:
                for plural, each in zip((TEMPLATES, BUFFERS), wanted[key], strict=True):
                    await self._autoscaling.create(plural, each)
            except RefusedError as error:
                _log.warning("a buffer was refused", namespace=key[0], error=str(error))
        for key in self._there - wanted.keys():
            where = {"version": self._version, "namespace": key[0]}
            await self._autoscaling.delete(BUFFERS, key[1], **where)
            await self._autoscaling.delete(TEMPLATES, key[1], **{**where, "version": "v1"})
            self._there.discard(key)

    async def _recall(self) -> None:
        """Read which buffers there are: another leader made some, and anyone may delete them."""
        version = await self._autoscaling.version(BUFFERS)
        if self._on and not version and version != self._version:
            _log.warning("gang.publishKeptRoom has no effect: no CapacityBuffers are served")
        kind = "PodGroup"
        found = await self._autoscaling.owners(BUFFERS, version, kind) if version else []
        self._there = {(group.partition("/")[0], name) for group, name in found}
        self._version = version


def buffers(view: ClusterView) -> Steps[dict[tuple[str, str], tuple[Object, Object]]]:
    """Return the PodTemplate and the CapacityBuffer of each node, by namespace and name."""
    found = dict[tuple[str, str], tuple[Object, Object]]()
    for number, (node, (group, free)) in enumerate(free_on_claimed(view).items(), 1):
        pod_group, there = view.pod_group(group), view.nodes.get(node)
        if pod_group is not None and there is not None and HOSTNAME_LABEL in there.labels:
            name, made = _buffer(pod_group, there, free)
            found[pod_group.namespace, name] = made
        if number % PIECE == 0:
            yield
    return found


def _buffer(
    pod_group: PodGroupInfo, node: NodeInfo, free: Resources
) -> tuple[str, tuple[Object, Object]]:
    amounts = {what: exact(what, value) for what, value in free.items()}
    resources = {"requests": amounts, "limits": amounts}
    spec: Object = {
        "nodeSelector": {HOSTNAME_LABEL: node.labels[HOSTNAME_LABEL]},
        "tolerations": [{"operator": "Exists"}],
        "priorityClassName": _CLASS,
        "priority": SYSTEM_CRITICAL,
        "containers": [{"name": "kept", "image": "registry.k8s.io/pause", "resources": resources}],
    }
    said = msgspec.json.encode((pod_group.uid, spec))
    name = short_name(f"kept-{node.name}-{sha1(said, usedforsecurity=False).hexdigest()[:10]}")
    metadata = owned(pod_group, name)
    of, asks = {"apiVersion": "v1", "kind": "PodTemplate"}, {"template": {"spec": spec}}
    template: Object = {**of, "metadata": metadata, **asks}
    return name, (template, buffer(metadata, 1))
