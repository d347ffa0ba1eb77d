"""Where traces go: nowhere, or to OpenTelemetry, whose packages are an extra."""

from collections.abc import Callable
from importlib.metadata import version
from typing import Protocol

from extender.telemetry.spans import Trace

EXTRA = "gang-extender[otel]"


class TracesUnavailableError(Exception):
    """Traces cannot be made; the text says why, and what mends it."""


class Traces(Protocol):
    """Takes traces that are over."""

    def add(self, trace: Trace) -> None:
        """Queue the spans of a trace."""

    def close(self, seconds: float) -> None:
        """Send what is queued, for so many seconds at most."""


def traces(
    service: str, *, endpoint: str | None, ratio: float, count: Callable[[str, int], None]
) -> Traces:
    """Return what sends traces of a service; the arguments are those of `OtelTraces`.

    Raises TracesUnavailableError.
    """
    try:
        from extender.telemetry.otel import OtelTraces
    except ImportError as error:
        raise TracesUnavailableError(
            f"the packages of OpenTelemetry are missing ({error.name or error}): "
            f"pip install '{EXTRA}'"
        ) from error
    try:
        return OtelTraces(
            service, version("gang-extender"), endpoint=endpoint, ratio=ratio, count=count
        )
    except (OSError, ValueError) as error:  # what the environment says
        raise TracesUnavailableError(f"OpenTelemetry cannot be set up: {error}") from error
