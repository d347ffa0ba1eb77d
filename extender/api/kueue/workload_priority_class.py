"""WorkloadPriorityClass: a priority in the queue, apart from that of the pods."""

from typing import Annotated, Literal

from pydantic import Field

from extender.api.meta_v1 import Int32, ObjectMeta, Read


class WorkloadPriorityClass(Read):
    """A named priority in the queue, for its order and for preemption.

    A job names it with the label `kueue.x-k8s.io/priority-class: NAME`. The priority of its pods is
    another thing.
    """

    api_version: Literal["kueue.x-k8s.io/v1beta2"]
    kind: Literal["WorkloadPriorityClass"]
    metadata: ObjectMeta
    value: Int32
    """The priority; higher goes first."""
    description: Annotated[str, Field(max_length=2048)] | None = None
    """What the class is for, in words."""
