"""Native gangs in one namespace."""

from typing import Any

from tests.cluster.gangs import Gangs
from tests.harness.client import PATIENCE_SECONDS
from tests.harness.natives import NATIVE_GROUPS, bound, in_group, native_group
from tests.harness.objects import Object


class NativeGangs:
    """Makes native PodGroups with pods, and reads what became of them."""

    def __init__(self, gangs: Gangs, scheduler: str | None = None) -> None:
        self.gangs, self.api, self._scheduler = gangs, gangs.api, scheduler

    def create(
        self,
        name: str,
        pods: int,
        min_count: int | None,
        *,
        topology: str | None = None,
        **pod: Any,
    ) -> None:
        """Make a PodGroup and its pods; options of objects.pod."""
        space = self.gangs.namespace
        self.api.create(native_group(name, min_count, namespace=space, topology=topology))
        options = {"scheduler_name": self._scheduler, **in_group(name), **pod}
        self.api.create(*(self.gangs.pod(f"{name}-{n}", **options) for n in range(pods)))

    def nodes(self, name: str) -> list[str]:
        """Return the nodes of its pods, as far as they have one."""
        return bound(self.api.list("pods", self.gangs.namespace), name)

    def await_bound(self, name: str, count: int, timeout: float = PATIENCE_SECONDS) -> list[str]:
        """Return the nodes of so many pods, when these have one."""
        what = f"{count} pods of {name} have a node"
        self.api.wait_for(what, lambda: len(self.nodes(name)) == count, timeout)
        return self.nodes(name)

    def conditions(self, name: str) -> list[Object]:
        """Return the conditions of its PodGroup."""
        found = self.api.get(NATIVE_GROUPS, name, self.gangs.namespace)
        conditions: list[Object] = found.get("status", {}).get("conditions", [])
        return conditions
