"""The hours before the page started, from a Prometheus that scrapes the reconciler."""

import asyncio
from collections import defaultdict
from math import floor
from pathlib import Path
from typing import Final

import httpx
import structlog

from gang_tools.page.following import FollowedCluster
from gang_tools.page.history import MOST, SAMPLE_SECONDS, Sample

_log = structlog.get_logger(__name__)

USE: Final = """max by (cluster_queue) (
  100 * kueue_cluster_queue_resource_reservation / (kueue_cluster_queue_nominal_quota > 0)
)"""
WAITING: Final = """sum by (cluster_queue) (
  max by (cluster_queue, status) (kueue_pending_workloads)
)"""
# Unlike increase() it neither extrapolates nor misses the first of a series. A counter that came
# or fell counts whole, but not where Prometheus has only begun to scrape an old process.
_COUNTED: Final = """sum(
  ({0} - last_over_time({0}[10m] offset 1m)) >= 0
  or {0} and on (job, instance) last_over_time(gang_extender_leader[10m] offset 1m)
)"""
STARTED: Final = _COUNTED.format("kueue_admitted_workloads_total")
PREEMPTED: Final = _COUNTED.format('kueue_evicted_workloads_total{reason="Preempted"}')


async def recall(url: str, token_file: Path | None, followed: FollowedCluster) -> None:
    """Put what Prometheus knows before the history of the page; try until that has succeeded."""
    await followed.watches.wait()
    followed.remember()
    history, note = followed.history, followed.history.note
    while True:
        try:
            history.put_before(await _samples(url, token_file, floor(history.samples[0].at)))
        except Exception as error:  # noqa: BLE001 - the page works without it
            told = f"{note} Prometheus: {type(error).__name__}: {error}"
            if told != history.note:
                history.note = told
                followed.notice()
                _log.warning("no history from Prometheus", error=repr(error))
        else:
            history.note = "Six hours at most; those before the page started are from Prometheus."
            followed.notice()
            return
        await asyncio.sleep(SAMPLE_SECONDS)


async def _samples(url: str, token_file: Path | None, until: int) -> list[Sample]:
    """Return a sample for each minute that Prometheus knows, and one for the last in any case."""
    async with httpx.AsyncClient(headers=_headers(token_file), timeout=30) as client:
        queries = USE, WAITING, STARTED, PREEMPTED
        found = [await _values(client, url, query, until=until) for query in queries]
    use, waiting, started, preempted = found
    if not waiting.keys() - {until}:
        raise ValueError("it has no metrics of queues from before the page ran")
    return [
        Sample(at, use[at], waiting[at], started[at].get("", 0), preempted[at].get("", 0))
        for at in sorted({*waiting, until})
    ]


def _headers(token_file: Path | None) -> dict[str, str]:
    # Without the whitespace: an error about a header with a line end would show the token.
    token = "".join(token_file.read_text().split()) if token_file else ""
    return {"Authorization": f"Bearer {token}"} if token else {}


async def _values(
    client: httpx.AsyncClient, url: str, query: str, *, until: int
) -> defaultdict[float, dict[str, int]]:
    """Return the values that are not zero, by time and ClusterQueue; a sum has no queue."""
    step = round(SAMPLE_SECONDS)
    span = {"start": until - step * (MOST - 1), "end": until, "step": step}
    params = httpx.QueryParams({"query": query, **span})
    answer = await client.get(f"{url.rstrip('/')}/api/v1/query_range", params=params)
    if answer.status_code != httpx.codes.OK:
        raise ValueError(f"{answer.status_code}: {answer.text[:200]}")
    found = defaultdict[float, dict[str, int]](dict)
    for series in answer.json()["data"]["result"]:
        queue = series["metric"].get("cluster_queue", "")
        for at, value in series["values"]:
            found[at] |= {queue: amount} if (amount := round(float(value))) else {}
    return found
