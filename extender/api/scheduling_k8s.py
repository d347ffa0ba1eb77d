"""PodGroup of `scheduling.k8s.io`, which kube-scheduler may schedule itself: v1alpha2 and v1beta1.

What differs between the two is not read: `disruptionMode` is a word in v1alpha2, and an object in
v1beta1.
"""

from typing import Annotated

from msgspec import Meta

from extender.api.core_v1 import AnnotatedMeta, Condition, Wire


class BasicPolicy(Wire, frozen=True):
    """Its pods are scheduled one by one."""


class GangPolicy(Wire, frozen=True):
    """Its pods start together."""

    min_count: Annotated[int, Meta(ge=0)] = 0


class SchedulingPolicy(Wire, frozen=True):
    """One of the two."""

    basic: BasicPolicy | None = None
    gang: GangPolicy | None = None


class TopologyConstraint(Wire, frozen=True):
    """The label of which all nodes of the group have the same value."""

    key: str = ""


class SchedulingConstraints(Wire, frozen=True):
    """Of the group as a whole; at most one topology."""

    topology: list[TopologyConstraint] | None = None


class NativePodGroupSpec(Wire, frozen=True):
    """What is read of it."""

    scheduling_policy: SchedulingPolicy = SchedulingPolicy()
    scheduling_constraints: SchedulingConstraints | None = None


class NativePodGroupStatus(Wire, frozen=True):
    """What is read of it."""

    conditions: list[Condition] | None = None


class NativePodGroup(Wire, frozen=True):
    """PodGroup of `scheduling.k8s.io`."""

    metadata: AnnotatedMeta = AnnotatedMeta()
    spec: NativePodGroupSpec = NativePodGroupSpec()
    status: NativePodGroupStatus = NativePodGroupStatus()
