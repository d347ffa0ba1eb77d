"""Types that the kinds of all our groups share: conditions, amounts, names, metadata."""

import re
from datetime import datetime
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, WithJsonSchema
from pydantic.alias_generators import to_camel

_NUMBER: Final = r"([0-9]+(\.[0-9]*)?|\.[0-9]+)"
_QUANTITY: Final = rf"^\+?{_NUMBER}([KMGTPE]i|[numkMGTPE]|[eE][+-]?{_NUMBER})?$"

_DNS_LABEL: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
QUALIFIED: Final = rf"^({_DNS_LABEL}(\.{_DNS_LABEL})*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
"""A qualified name of the API conventions: the type of a condition, the key of a label."""


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


def _signed(quantity: int | str) -> int | str:
    _not_negative(str(quantity).removeprefix("-"))
    return quantity


SignedQuantity = Annotated[
    int | str,
    AfterValidator(_signed),
    WithJsonSchema(
        {
            "x-kubernetes-int-or-string": True,
            "pattern": _QUANTITY.replace(r"\+?", "[+-]?", 1),
        }
    ),
]
"""An amount that may be negative: a kind of another project takes it, so ours does too."""

Int32 = Annotated[int, Field(ge=-(2**31), le=2**31 - 1, json_schema_extra={"format": "int32"})]
Int64 = Annotated[int, Field(json_schema_extra={"format": "int64"})]
Count = Annotated[int, Field(ge=0, le=2**31 - 1, json_schema_extra={"format": "int32"})]
Positive = Annotated[int, Field(ge=1, le=2**31 - 1, json_schema_extra={"format": "int32"})]

DnsLabel = Annotated[str, Field(max_length=63, pattern=f"^{_DNS_LABEL}$")]
DnsName = Annotated[str, Field(max_length=253, pattern=rf"^{_DNS_LABEL}(\.{_DNS_LABEL})*$")]
"""The name of an object: labels of DNS with points between them."""

ATOMIC: Final[dict[str, Any]] = {"x-kubernetes-map-type": "atomic"}
"""Of an object that is replaced as a whole: no second writer can add a field to it."""
LIST_BY_TYPE: Final[dict[str, Any]] = {
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["type"],
}


class Read(BaseModel):
    """Ignores unknown fields: a newer server or another writer may add some."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        extra="ignore",
        frozen=True,
        use_attribute_docstrings=True,
    )


class Written(Read):
    """Part of a manifest. An unknown field is an error, because it may be misspelt."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Condition(Read):
    """One aspect of the object's state, in the form that all Kubernetes conditions have."""

    type: Annotated[str, Field(max_length=316, pattern=QUALIFIED)]
    """Which aspect is meant, such as Scheduled; there is one condition of each type."""
    status: Literal["True", "False", "Unknown"]
    """Whether the condition holds: True, False or Unknown."""
    reason: Annotated[
        str,
        Field(min_length=1, max_length=1024, pattern="^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"),
    ]
    """One CamelCase word that says why the status is what it is."""
    message: Annotated[str, Field(max_length=32768)]
    """The reason in words, with the numbers behind it. May be empty."""
    last_transition_time: datetime
    """When the status last changed its value."""
    observed_generation: (
        Annotated[int, Field(ge=0, json_schema_extra={"format": "int64"})] | None
    ) = None
    """The metadata.generation that the condition was set for."""


class ObjectMeta(Read):
    """The metadata that a reader of manifests needs; the server checks the rest."""

    name: str
    namespace: str = "default"
    uid: str = ""
    creation_timestamp: datetime | None = None
