"""Label selectors of the API's usual form."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from extender.api.kueue.fields import ATOMIC, ATOMIC_MAP, ruled
from extender.api.meta_v1 import Written


class LabelSelectorRequirement(Written):
    """One requirement on the labels; a selector matches where all of them hold."""

    model_config = ruled({
        "In and NotIn need values, Exists and DoesNotExist have none": (
            "(self.operator in ['In', 'NotIn']) == (has(self.values) && size(self.values) > 0)"
        )
    })  # fmt: skip

    key: str
    """The label."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    """How the label is compared with the values."""
    values: list[str] | None = Field(default=None, json_schema_extra=ATOMIC)
    """The values, for the operators In and NotIn."""


class LabelSelector(Written):
    """Matches objects by their labels; an empty one matches all."""

    model_config = ConfigDict(json_schema_extra=ATOMIC_MAP)

    match_labels: dict[str, str] | None = None
    """Labels that must be there with just these values."""
    match_expressions: Annotated[list[LabelSelectorRequirement], Field(max_length=256)] | None = (
        Field(default=None, json_schema_extra=ATOMIC)
    )
    """Requirements that must all hold."""
