"""Which tests of the real control plane are left to `make test-long`, and which begin.

`make test` has what proves one thing once. Repetitions, races at length and large numbers are long.
"""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Final, Protocol, TypeVar

import pytest

LONG: Final = pytest.mark.long


class _Item(Protocol):
    """A test that was collected."""

    @property
    def path(self) -> Path:
        """Its file."""


T = TypeVar("T", bound=_Item)

FIRST: Final = (
    "test_pods_ready",
    "test_oversized",
    "test_chart",
    "test_two_schedulers",
    "test_preemption",
    "test_queue_topology",
    "test_alert_rules",
    "test_pod_group_status",
    "test_queue_faults",
    "test_reclaimable",
    "test_bound_together",
    "test_tenant_groups",
    "test_gang_order",
    "test_tenants",
    "test_restarts",
    "test_gang_races",
    "test_gang_changes",
    "test_admitted_numbers",
    "test_installed_beside",
    "test_webhooks",
    "test_claims",
    "test_kueue_manifests",
    "test_credentials",
    "test_harness",
    "test_operators",
    "test_require_room",
    "test_alerts",
    "test_check_smoke",
    "test_default_set",
    "test_serve",
    "test_check",
    "test_confined",
    "test_gang_permit",
    "test_crds",
    "test_chaos",
)
"""The files of `tests/cluster` that take longest: one that began last would keep one worker busy
while the others have ended. Those that are not named follow by their numbers of tests."""


def in_order(items: Iterable[T]) -> list[T]:
    """Return the tests, file by file: the longest files first, then those with most tests."""
    found = list(items)
    counts = Counter(item.path for item in found)
    ranks = {name: rank for rank, name in enumerate(FIRST)}
    return sorted(found, key=lambda i: (ranks.get(i.path.stem, len(FIRST)), -counts[i.path]))


def long_but_for(values: Iterable[str], *kept: str) -> list[object]:
    """Return the values of a parameter, of which only `kept` are played in `make test`.

    ValueError where one that is kept is none of the values.
    """
    given = list(values)
    if unknown := set(kept) - set(given):
        raise ValueError(f"no such values: {sorted(unknown)}")
    return [pytest.param(each, marks=() if each in kept else LONG) for each in given]
