"""The page of metrics, made with pauses: with many queues it is long."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import cast

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric

from extender.runtime.pacer import Pacer


async def page(registry: CollectorRegistry, pacer: Pacer, prepare: Iterable[None] = ()) -> bytes:
    """Return all metrics in Prometheus' text format; the steps of `prepare` are taken first."""
    with suppress(Exception):  # the collector meets the same error, and its guard reports it
        await pacer.go_through(prepare)
    parts: list[bytes] = []
    for family in registry.collect():
        parts.append(generate_latest(cast("CollectorRegistry", _One(family))))
        if pacer.is_due:
            await pacer.rest()
    return b"".join(parts)


class _One:
    """A registry of one family."""

    def __init__(self, family: Metric) -> None:
        self._family = family

    def collect(self) -> Iterator[Metric]:
        """Yield the family."""
        yield self._family
