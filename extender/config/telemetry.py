"""The section `telemetry`."""

from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from extender.config.sections import Section


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
    """What is sent to others; metrics and logs are there without it."""

    traces: TraceSettings = TraceSettings()
    """traces of gangs and admissions"""
