"""The reflectors of what pods claim, for the extender."""

import asyncio
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from extender.kube.claims import DECODERS
from extender.kube.client import KubeClient
from extender.kube.reflector import Feed, Reflector
from extender.kube.watch import Watcher
from extender.state.cluster import events as ev
from extender.state.cluster.records import ClaimObject
from extender.state.cluster.store import Cluster
from extender.wiring.reflectors import backoff


def claim_reflectors(client: KubeClient, cluster: Cluster) -> Iterator[Reflector[Any]]:
    """Yield a reflector for each kind; nothing waits for one but gangs with claims."""
    for path, (prefix, decode) in DECODERS.items():
        pauses = backoff(0.1, 5.0)
        reflector: Reflector[ClaimObject] = Reflector(
            path.rpartition("/")[2],
            Watcher(client, path, sleep=asyncio.sleep, backoff=pauses, optional=True),
            decode,
            feed=Feed(
                partial(_list_into, cluster, prefix),
                lambda found: cluster.apply(ev.ClaimObjectApplied(found)),
                lambda found: cluster.apply(ev.ClaimObjectDeleted(found)),
            ),
        )
        reflector.needed = False
        yield reflector


def _list_into(
    cluster: Cluster, prefix: str, found: Sequence[ClaimObject], _: int
) -> Iterator[object]:
    return cluster.replace(ev.ClaimObjectsListed(prefix, found))
