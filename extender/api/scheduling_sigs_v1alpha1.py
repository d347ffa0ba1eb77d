"""PodGroup of `scheduling.sigs.k8s.io/v1alpha1`, the group's older name, with the older pod label.

The shape is that of `scheduling.x-k8s.io/v1alpha1`: only the group and the label differ.
"""

from typing import Final, Literal

from extender.api import scheduling_x_v1alpha1 as newer
from extender.api.wellknown import GROUP_SIGS

GROUP: Final = GROUP_SIGS
VERSION: Final = newer.VERSION
API_VERSION: Final = f"{GROUP}/{VERSION}"


class PodGroup(newer.PodGroup):
    """A set of pods of which at least minMember must run together, or none may start.

    A pod joins with the label `pod-group.scheduling.sigs.k8s.io: NAME` in its own namespace. New
    manifests should use `scheduling.x-k8s.io/v1alpha1`; groups of both kinds are treated alike.
    """

    api_version: Literal["scheduling.sigs.k8s.io/v1alpha1"]  # type: ignore[assignment]  # its name is all that differs
