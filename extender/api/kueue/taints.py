"""Taints and tolerations of flavors, with the rules that Pods have for them."""

from datetime import datetime
from typing import Annotated, Final, Literal

from pydantic import Field

from extender.api.kueue.fields import ruled, rules
from extender.api.meta_v1 import Int64, Written

Effect = Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]
_Key = Annotated[str, Field(max_length=317)]
_Value = Annotated[str, Field(max_length=63)]

UNIQUE_TAINTS: Final = rules({
    "there is one taint of each key and effect": (
        "self.all(a, self.exists_one(b, a.key == b.key && a.effect == b.effect))"
    )
})  # fmt: skip


class Taint(Written):
    """A taint that the nodes of a flavor have."""

    key: Annotated[str, Field(min_length=1, max_length=317)]
    """The key of the taint."""
    value: _Value | None = None
    """The value of the taint."""
    effect: Effect
    """What becomes of pods that do not tolerate the taint."""
    time_added: datetime | None = None
    """When the taint was put on the node. Not used."""


class Toleration(Written):
    """A toleration that pods get when they are started in a flavor."""

    model_config = ruled({
        "without a key the operator is Exists, which tolerates every taint": (
            "(has(self.key) && self.key != '') "
            "|| (has(self.operator) && self.operator == 'Exists')"
        ),
        "with the operator Exists there is no value": (
            "!has(self.operator) || self.operator != 'Exists' "
            "|| !has(self.value) || self.value == ''"
        ),
        "tolerationSeconds are for the effect NoExecute": (
            "!has(self.tolerationSeconds) "
            "|| (has(self.effect) && self.effect == 'NoExecute')"
        ),
    })  # fmt: skip

    key: _Key | None = None
    """The key of the taint; empty for any, with the operator Exists."""
    operator: Literal["Equal", "Exists"] | None = None
    """Whether the value counts: Equal, the default, or Exists."""
    value: _Value | None = None
    """The value of the taint, with the operator Equal."""
    effect: Literal["", "NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    """The effect of the taint; empty for any."""
    toleration_seconds: Int64 | None = None
    """For how long a pod stays once the taint is there."""
