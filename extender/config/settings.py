"""All sections in one model, and how it is read: a file, and flags on top."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, ValidationError
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails

from extender.config.gang import Gang
from extender.config.queue import Queue
from extender.config.sections import Positive, Section, SettingsError, read_yaml
from extender.config.serving import Listen, Reconcile, Webhooks


def _collector(address: str) -> str:
    """Return the address of a collector."""
    parts = urlsplit(address)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError("should be the address of a collector, such as http://collector:4318")
    return address


class TraceSettings(Section):
    """Traces of gangs and admissions, sent by OpenTelemetry's protocol (OTLP) over HTTP."""

    enabled: bool = False
    """whether traces are sent; the packages are an extra: pip install 'gang-extender[otel]'"""
    endpoint: Annotated[str, AfterValidator(_collector)] | None = None
    """address of the collector; default: what the environment says (`OTEL_EXPORTER_OTLP_ENDPOINT`
    and the other standard variables), else http://localhost:4318"""
    sample_ratio: float = Field(default=1.0, ge=0, le=1)
    """share of the traces that are sent; a gang or an admission has all of its spans or none"""


class Telemetry(Section):
    """Traces that are sent to a collector; metrics and logs are there without it."""

    traces: TraceSettings = TraceSettings()
    """traces of gangs and admissions"""


class Kube(Section):
    """Calls of the API server."""

    connections: int = Field(default=64, ge=32)
    """connections to the API server; the reconciler's watches take up to twenty, half of the
    extender's are for Bindings and Events alone"""
    timeout_seconds: Positive = 10
    """time-out of one request"""
    stale_seconds: float = Field(default=180, ge=120, allow_inf_nan=False)
    """a watch without any event for so long is stale: the process is not ready and no gang starts;
    bookmarks come about once a minute"""


class Health(Section):
    """Limits from which `/livez` fails."""

    max_loop_lag_seconds: float = Field(default=30, ge=0, le=60)
    """total lag of the event loop within a minute from which `/livez` answers 503; lags of a second
    and more count, each up to a third of this; 0: `/livez` ignores the lag"""


class Log(Section):
    """Logs, to standard error."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """least level"""
    format: Literal["console", "json"] = "console"
    """form of a line"""


class Settings(Section):
    """All settings; each section names the commands that read it."""

    listen: Listen = Listen()
    """`serve`"""
    gang: Gang = Gang()
    """`serve`, `reconcile` and `explain`"""
    reconcile: Reconcile = Reconcile()
    """`reconcile`"""
    queue: Queue = Queue()
    """`reconcile` and `explain`"""
    webhooks: Webhooks = Webhooks()
    """`reconcile`"""
    kube: Kube = Kube()
    """`serve` and `reconcile`"""
    health: Health = Health()
    """`serve` and `reconcile`"""
    log: Log = Log()
    """`serve` and `reconcile`"""
    telemetry: Telemetry = Telemetry()
    """`serve` and `reconcile`"""


def load(path: Path | None, overrides: dict[str, dict[str, object]]) -> Settings:
    """Return the settings of a file with single fields replaced; None leaves a field alone.

    Raises SettingsError.
    """
    given = _read(path) if path else {}
    for section, fields in overrides.items():
        wanted = {to_camel(name): value for name, value in fields.items() if value is not None}
        if wanted:
            given[section] = _over(given.get(section), wanted)
    try:
        settings = Settings.model_validate(given, by_alias=True, by_name=False)
    except ValidationError as error:
        where = f"{path}: " if path else ""
        raise SettingsError(where + problems(error)) from None
    settings.gang.ignored()
    return settings


def _read(path: Path) -> dict[str, object]:
    parsed = read_yaml(path)
    if parsed is None:
        return {}
    if not isinstance(parsed, dict):
        raise SettingsError(f"{path}: should be a mapping of sections, such as `listen:`")
    # A section whose lines are all commented out counts as left out.
    return {name: section for name, section in parsed.items() if section is not None}


def _over(before: object, wanted: Mapping[str, object]) -> object:
    """Return a file's value with single fields replaced; validation refuses other types."""
    if before is None:
        before = {}
    if not isinstance(before, dict):
        return before
    nested = {k: _over(before.get(k), v) for k, v in wanted.items() if isinstance(v, dict)}
    return {**before, **wanted, **nested}


def problems(error: ValidationError) -> str:
    """Return what is wrong with each field, in one line."""
    return "; ".join(map(_sentence, error.errors()))


def _sentence(error: ErrorDetails) -> str:
    field = ".".join(str(part) for part in error["loc"])
    match error["type"]:
        case "extra_forbidden":
            text = "there is no such field"
        case "missing":
            text = "is missing"
        case "model_type":
            text = "should be a mapping of fields"
        case "float_parsing" | "int_parsing" if field.endswith("Seconds"):
            text = f"{error['input']!r:.40} should be seconds, or a duration such as 5m or 1h30m"
        case _:
            text = error["msg"].removeprefix("Value error, ")
    return f"{field}: {text}" if field else text
