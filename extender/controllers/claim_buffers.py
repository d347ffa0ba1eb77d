"""Shows autoscalers that nodes which are set aside for groups are not free.

Autoscalers ask no extender, and add no node for pods that are kept off. So each such node has a
CapacityBuffer of one pod that can be there alone and takes all that is free. Cluster Autoscaler
places pods by priority, Karpenter by size: in both this one comes first. A buffer is never changed:
its name has a hash of what it says.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from hashlib import sha1
from typing import Final, TypeAlias

import msgspec
import structlog

from extender.api.wellknown import HOSTNAME_LABEL
from extender.controllers.timing import CONCURRENT_WRITES, LATE, SETTLE
from extender.gang.aging import free_on_kept
from extender.jobs.fields import Object
from extender.kube.autoscaling import BUFFERS, TEMPLATES, Autoscaling, buffer
from extender.kube.errors import ApiError, RefusedError
from extender.kube.pod_groups import owned
from extender.queueing.provisioning import short_name
from extender.resources.quantity import Resources, exact
from extender.runtime.clock import Clock, in_turns
from extender.runtime.faults import FAULTS
from extender.state.cluster.records import NodeInfo, PodGroupInfo
from extender.state.cluster.reservations import SYSTEM_CRITICAL
from extender.state.cluster.view import ClusterView
from extender.steps import PIECE, Steps

_CLASS: Final = "system-cluster-critical"
"""A PriorityClass of every cluster. Cluster Autoscaler reads only the value that is beside it."""
Key: TypeAlias = tuple[str, str]  # the namespace and the name of a buffer
_log = structlog.get_logger(__name__)


class ClaimBuffers:
    """Keeps one buffer for each node that is set aside, and deletes others that PodGroups own."""

    def __init__(
        self, view: ClusterView, autoscaling: Autoscaling, *, clock: Clock, on: bool
    ) -> None:
        self._view, self._autoscaling = view, autoscaling
        self._clock, self._on = clock, on
        self._version = ""
        """The version in which buffers are served, if in any."""
        self._there: set[Key] = set()  # with those that were refused
        self._read_at: float | None = None

    async def run(self) -> None:
        """Work until cancelled, or, where the setting is off, until no buffer is left."""
        while True:
            try:
                await self.look()
                if not self._on and self._read_at is not None:
                    return
            except ApiError as error:
                _log.warning("could not show which nodes are set aside", error=str(error))
            except Exception as error:  # noqa: BLE001 - the next look begins anew
                FAULTS.report("claim-buffers", error)
            await asyncio.sleep(SETTLE if self._on else LATE)

    async def look(self) -> None:
        """Delete buffers of room that is kept no longer; create missing ones. Raises ApiError."""
        now = self._clock.monotonic()
        if again := self._read_at is None or now - self._read_at >= LATE:
            # Another leader made some, and anyone may delete them.
            self._version = await self._autoscaling.version(BUFFERS)
            if self._version:  # otherwise the buffers are gone, and their templates are not
                found = await self._autoscaling.owners(BUFFERS, self._version, "PodGroup")
                self._there = {(group.partition("/")[0], name) for group, name in found}
            self._read_at = now
        shows = self._on and self._version
        wanted = await in_turns(buffers(self._view), self._clock) if shows else {}
        # Templates are not read: each is made again where it is missing.
        missing = wanted.keys() if again else wanted.keys() - self._there
        await self._each(self._there - wanted.keys(), self._delete)
        await self._each(missing, lambda key: self._create(key, *wanted[key]))
        self._there = {*wanted}

    async def _each(self, keys: Iterable[Key], write: Callable[[Key], Awaitable[None]]) -> None:
        """Write some at a time; what is refused is tried again after the next recall."""
        slots = asyncio.Semaphore(CONCURRENT_WRITES)

        async def one(key: Key) -> None:
            try:
                async with slots:
                    await write(key)
            except ApiError as error:
                _log.warning("a buffer was not written", namespace=key[0], error=str(error))
                if not self._on or not isinstance(error, RefusedError):
                    self._read_at = None

        async with asyncio.TaskGroup() as tasks:
            for key in keys:
                tasks.create_task(one(key))

    async def _create(self, key: Key, template: Object, shown: Object) -> None:
        try:
            await self._autoscaling.create(TEMPLATES, template)
            if key not in self._there:
                await self._autoscaling.create(BUFFERS, shown)
        except RefusedError:
            if key not in self._there:
                await self._delete(key)
            raise

    async def _delete(self, key: Key) -> None:
        """Delete the template first: only a buffer that is left is found again."""
        namespace, name = key
        await self._autoscaling.delete(TEMPLATES, name, version="v1", namespace=namespace)
        if version := self._version:
            await self._autoscaling.delete(BUFFERS, name, version=version, namespace=namespace)


def buffers(view: ClusterView) -> Steps[dict[Key, tuple[Object, Object]]]:
    """Return the PodTemplate and the CapacityBuffer of each node, by namespace and name."""
    found = dict[Key, tuple[Object, Object]]()
    for number, (node, (pod_group, free)) in enumerate(free_on_kept(view).items(), 1):
        there = view.nodes.get(node)
        if there is not None and HOSTNAME_LABEL in there.labels:
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
