"""Indexes of an Indexed Job that are done: pods of these never come again."""

from typing import Final

import msgspec

from extender.api.batch_v1 import indexes_below
from extender.api.core_v1 import Wire
from extender.api.values import remembered
from extender.state.queue.records import JobObject

_JOBS: Final = 256


class _RankedSpec(Wire, frozen=True):
    completions: int | None = None


class _RankedStatus(Wire, frozen=True):
    completed_indexes: str | None = None
    failed_indexes: str | None = None


class _RankedJob(Wire, frozen=True):
    spec: _RankedSpec = _RankedSpec()
    status: _RankedStatus = _RankedStatus()


_decode: Final = msgspec.json.Decoder(_RankedJob).decode


def done_ranks(job: JobObject | None, places: int) -> frozenset[int] | None:
    """Return the indexes that are done of a Job with a place for each index.

    None for other jobs, of which it is not known which pod had which place.
    """
    if job is None or job.completion_mode != "Indexed":
        return None
    return _read(job.raw, places)


@remembered(_JOBS)
def _read(raw: bytes, places: int) -> frozenset[int] | None:
    try:
        found = _decode(raw)
    except (msgspec.MsgspecError, RecursionError):
        return None
    completions, status = found.spec.completions, found.status
    if completions is None or completions > places:
        return None
    return indexes_below(places, status.completed_indexes or "", status.failed_indexes or "")
