"""The base of all sections: strict models, kinds of values, and reading a file."""

import ipaddress
from pathlib import Path
from typing import Annotated

import yaml
from pydantic import (
    AllowInfNan,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    NonNegativeFloat,
    PositiveFloat,
    model_validator,
)
from pydantic.alias_generators import to_camel

from extender.api.values import LONGEST, seconds


class SettingsError(Exception):
    """A setting is wrong; the text names each field and what is wrong with it."""


def read_yaml(path: Path) -> object:
    """Return what a file holds; SettingsError where it cannot be read."""
    try:
        parsed: object = yaml.safe_load(path.read_text())
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: not YAML: {error}") from error
    return parsed


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Section(BaseModel):
    """A mapping of settings: an unknown field is refused, and nothing changes after the start."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        alias_generator=to_camel,
        populate_by_name=True,
        use_attribute_docstrings=True,
    )

    @model_validator(mode="before")
    @classmethod
    def _in_seconds(cls, given: object) -> object:
        """Convert durations such as `5m` to seconds; pydantic refuses other text."""
        if not isinstance(given, dict):
            return given
        return {name: _read_seconds(name, value) for name, value in given.items()}


def _read_seconds(name: object, value: object) -> object:
    if not (isinstance(name, str) and name.endswith("Seconds") and isinstance(value, str)):
        return value
    found = seconds(value)
    return value if found is None else found


def _duration(value: object) -> object:
    """Read a duration such as `5m`, or seconds."""
    found = seconds(value) if isinstance(value, str) else value
    if found is None or isinstance(found, bool):
        raise ValueError(
            f"{value!r:.40} should be seconds, or a duration such as 5m or 1h30m, of ten years at "
            "most"
        )
    return found


Seconds = Annotated[NonNegativeFloat, AllowInfNan(False)]  # noqa: FBT003 - its only argument
Positive = Annotated[PositiveFloat, AllowInfNan(False)]  # noqa: FBT003 - its only argument
Duration = Annotated[Seconds, Field(le=LONGEST), BeforeValidator(_duration)]
Percentage = Annotated[int, Field(ge=0, le=100)]
Port = Annotated[int, Field(ge=0, le=65535)]
Name = Annotated[str, Field(min_length=1)]
