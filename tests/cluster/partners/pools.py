"""Pools of nodes that Karpenter grows: what a test asks for, and which nodes it got."""

from collections.abc import Sequence
from typing import Any, Final
from uuid import uuid4

from tests.harness.client import Api, Object

POOL: Final = "example.com/pool"
NODE_POOLS: Final = "karpenter.sh/v1/nodepools"
_NODE_CLASSES: Final = "karpenter.kwok.sh/v1alpha1/kwoknodeclasses"
NODE_CLAIMS: Final = "karpenter.sh/v1/nodeclaims"
ZONE: Final = "topology.kubernetes.io/zone"
_MILLICPU: Final = 4100
"""The CPUs of one node, which leaves 4 of them for pods."""
SECONDS: Final = 180


class Pools:
    """NodePools of one test, whose nodes have a label that no other pod selects."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.name = f"pool-{uuid4().hex[:8]}"
        self.selector = {POOL: self.name}
        """The node selector of the pods of the test."""
        self._made: list[str] = []

    def create(
        self,
        most: int = 20,
        *,
        zones: Sequence[str] = ("zone-a",),
        consolidate: bool = False,
        boot_seconds: int = 0,
    ) -> None:
        """Make a NodePool without nodes, of nodes with 4 CPUs for pods, at most so many.

        These are there so many seconds after they were bought.
        """
        name = f"{self.name}-{len(self._made)}"
        self._made.append(name)
        boots = {"nodeRegistrationDelay": f"{boot_seconds}s"}
        self.api.create(_object("karpenter.kwok.sh/v1alpha1", "KWOKNodeClass", name, boots))
        template = {
            "metadata": {"labels": self.selector},
            "spec": {
                "nodeClassRef": {
                    "group": "karpenter.kwok.sh",
                    "kind": "KWOKNodeClass",
                    "name": name,
                },
                "requirements": [{"key": ZONE, "operator": "In", "values": [*zones]}],
                "expireAfter": "Never",
            },
        }
        spec = {
            "template": template,
            "limits": {"cpu": f"{_MILLICPU * most}m"},
            "disruption": {
                "consolidationPolicy": "WhenEmptyOrUnderutilized",
                "consolidateAfter": "1s" if consolidate else "Never",
                "budgets": [{"nodes": "100%"}],
            },
        }
        self.api.create(_object("karpenter.sh/v1", "NodePool", name, spec))

    def nodes(self) -> list[Object]:
        """Return the nodes that are there."""
        return self.api.list("nodes", labels=f"{POOL}={self.name}")

    def bought(self) -> int:
        """Return how many nodes Karpenter has asked its cloud for."""
        return len(self.api.list(NODE_CLAIMS, labels=f"{POOL}={self.name}"))

    def clean(self) -> None:
        """Delete the pools; Karpenter ends their nodes."""
        for name in self._made:
            self.api.delete(NODE_POOLS, name)
        self.api.wait_for("no node is left", lambda: not self.bought(), SECONDS)
        for name in self._made:
            self.api.delete(_NODE_CLASSES, name)


def _object(version: str, kind: str, name: str, spec: dict[str, Any]) -> Object:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec}
