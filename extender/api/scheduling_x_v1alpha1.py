"""PodGroup of `scheduling.x-k8s.io/v1alpha1`: so many pods run together, or none of them does.

The models read manifests that people write and are the source of the CRD (see `extender.api.crds`);
what the watch delivers is decoded elsewhere, in slim records. The descriptions are what
`kubectl explain podgroup` shows.
"""

import re
from datetime import datetime
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, WithJsonSchema
from pydantic.alias_generators import to_camel

from extender.api.wellknown import GROUP_X, Phase

GROUP: Final = GROUP_X
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"

_NUMBER: Final = r"([0-9]+(\.[0-9]*)?|\.[0-9]+)"
_QUANTITY: Final = rf"^\+?{_NUMBER}([KMGTPE]i|[numkMGTPE]|[eE][+-]?{_NUMBER})?$"

_DNS_LABEL: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_QUALIFIED: Final = (
    rf"^({_DNS_LABEL}(\.{_DNS_LABEL})*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
)
"""The form of a condition's type: the API conventions' qualified name."""


def _not_negative(quantity: int | str) -> int | str:
    negative = isinstance(quantity, int) and quantity < 0
    if negative or not re.fullmatch(_QUANTITY, str(quantity)):
        raise ValueError(f"{quantity!r} is not an amount such as 500m, 2 or 1Gi")
    return quantity


Quantity = Annotated[
    int | str,
    AfterValidator(_not_negative),
    # No `type`: the API server then applies the pattern to text and the minimum to numbers.
    WithJsonSchema({"x-kubernetes-int-or-string": True, "pattern": _QUANTITY, "minimum": 0}),
]
"""An amount of a resource, zero or more, as a number or as text."""

Count = Annotated[int, Field(ge=0, le=2**31 - 1, json_schema_extra={"format": "int32"})]
Positive = Annotated[int, Field(ge=1, le=2**31 - 1, json_schema_extra={"format": "int32"})]


class _Read(BaseModel):
    """Tolerates what it does not know: a newer server or another writer may say more."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="ignore", frozen=True
    )


class Condition(_Read):
    """One aspect of the group's state, in the form that all Kubernetes conditions have."""

    type: Annotated[str, Field(max_length=316, pattern=_QUALIFIED)] = Field(
        description="Which aspect is meant, such as Scheduled; there is one condition of each type."
    )
    status: Literal["True", "False", "Unknown"] = Field(
        description="Whether the condition holds: True, False or Unknown."
    )
    reason: Annotated[
        str,
        Field(min_length=1, max_length=1024, pattern="^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"),
    ] = Field(description="One CamelCase word that says why the status is what it is.")
    message: Annotated[str, Field(max_length=32768)] = Field(
        description="The reason told to a person, with the numbers behind it. May be empty."
    )
    last_transition_time: datetime = Field(description="When the status last changed its value.")
    observed_generation: (
        Annotated[int, Field(ge=0, json_schema_extra={"format": "int64"})] | None
    ) = Field(default=None, description="The metadata.generation that the condition was set for.")


class PodGroupSpec(_Read):
    """What the owner of the group asks for. A misspelt field is an error, not a silence."""

    model_config = ConfigDict(extra="forbid", strict=True)

    min_member: Positive = Field(
        description="How many pods must be able to run at the same time before any of them may "
        "start. Pods beyond this number are scheduled as room allows."
    )
    min_resources: dict[str, Quantity] | None = Field(
        default=None,
        description="What the cluster must have free, all nodes together, before the group is "
        "tried: amount by resource name. An early check for groups whose pods are not all alike.",
    )
    schedule_timeout_seconds: Positive | None = Field(
        default=None,
        description="How long the first members may wait for the others once they have a node. "
        "When the time is over all of them give their room back. Unset: the extender's default.",
    )


class PodGroupStatus(_Read):
    """What was last seen of the group. Written by gang-extender's reconciler only."""

    phase: Phase | None = Field(default=None, description="Where the group is in its life.")
    occupied_by: str | None = Field(
        default=None,
        description="Who owns the pods of the group: <namespace>/<name> of their owners, sorted, "
        "separated by commas.",
    )
    scheduled: Count = Field(
        default=0, description="How many pods of the group have a node or have succeeded."
    )
    running: Count = Field(default=0, description="How many pods of the group are running.")
    succeeded: Count = Field(default=0, description="How many pods of the group have succeeded.")
    failed: Count = Field(default=0, description="How many pods of the group have failed.")
    schedule_start_time: datetime | None = Field(
        default=None, description="When the group had enough pods and was first tried."
    )
    conditions: list[Condition] | None = Field(
        default=None,
        description="The state of the group by aspect, each with a reason and a message.",
        json_schema_extra={
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
        },
    )


class ObjectMeta(_Read):
    """What a reader of manifests needs of the metadata; the server checks the rest."""

    name: str
    namespace: str = "default"
    uid: str = ""
    creation_timestamp: datetime | None = None


class PodGroup(_Read):
    """A set of pods of which at least minMember must run together, or none may start.

    A pod joins with the label `scheduling.x-k8s.io/pod-group: NAME` in its own namespace.
    """

    api_version: Literal["scheduling.x-k8s.io/v1alpha1"]
    kind: Literal["PodGroup"]
    metadata: ObjectMeta
    spec: PodGroupSpec = Field(description="What the owner of the group asks for.")
    status: PodGroupStatus | None = Field(None, description="What was last seen of the group.")
