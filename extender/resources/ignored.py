"""Extended resources that kube-scheduler does not look for on nodes.

kube-scheduler skips them in its own filter, because another extender answers for them or because
its configuration says so. A plan that looked for them on nodes would never fit.
Source: https://kubernetes.io/docs/reference/config-api/kube-scheduler-config.v1/
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Self

DEVICE_CLASSES: Final = "deviceclass.resource.kubernetes.io"
"""The group of the resources that stand for a DeviceClass (KEP-5004). No node offers them;
kube-scheduler allocates a device for each."""
_NATIVE: Final = "kubernetes.io/"


@dataclass(frozen=True, slots=True)
class ResourceNames:
    """Names of resources, and of groups, which are the part of a name before the slash."""

    names: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()

    @classmethod
    def parse(cls, patterns: Iterable[str]) -> Self:
        """Return the names in patterns such as `example.com/name` and `example.com/*`.

        Raises ValueError for a native resource, such as cpu, and for a text that is not a name.
        """
        names, groups = set(), set()
        for pattern in patterns:
            group, _, name = pattern.partition("/")
            if not is_extended(pattern):
                raise ValueError(
                    f"{pattern!r:.80} is not an extended resource: write example.com/name, or "
                    "example.com/* for all of that domain; kube-scheduler always counts native "
                    "resources such as cpu"
                )
            if name == "*":
                groups.add(group)
            else:
                names.add(pattern)
        return cls(frozenset(names), frozenset(groups))

    def __contains__(self, name: str) -> bool:
        """Return whether a resource is one of these."""
        return name in self.names or name.partition("/")[0] in self.groups

    def __or__(self, other: Self) -> Self:
        """Return the names of both."""
        return type(self)(self.names | other.names, self.groups | other.groups)


NO_NAMES: Final = ResourceNames()


@dataclass(frozen=True, slots=True)
class IgnoredResources:
    """The resources that kube-scheduler ignores: for all pods, and for the pods of one profile."""

    everywhere: ResourceNames = NO_NAMES
    by_scheduler: Mapping[str, ResourceNames] = field(default_factory=dict)
    """The resources of each profile, by its `schedulerName`."""

    def is_ignored(self, name: str, scheduler: str) -> bool:
        """Return whether kube-scheduler places pods of a profile without looking for a resource."""
        if "/" not in name:
            return False
        if stands_for_device_class(name):
            return True
        return name in self.everywhere or name in self.by_scheduler.get(scheduler, NO_NAMES)

    def is_ignored_by_any(self, name: str) -> bool:
        """Return whether any profile ignores a resource."""
        return any(self.is_ignored(name, scheduler) for scheduler in ("", *self.by_scheduler))


IGNORE_NOTHING: Final = IgnoredResources()


def is_extended(name: str) -> bool:
    """Return whether a resource is in a domain that is not Kubernetes' own."""
    group, slash, rest = name.partition("/")
    return bool(group and slash and rest and "/" not in rest) and _NATIVE not in name


def stands_for_device_class(name: str) -> bool:
    """Return whether a resource stands for a device, which no node counts."""
    return name.startswith(f"{DEVICE_CLASSES}/")
