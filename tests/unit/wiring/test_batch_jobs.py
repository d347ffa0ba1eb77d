"""The one watch of batch Jobs, and what either state has of it."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any, NoReturn

import pytest

from extender.api.wellknown import POD_GROUP_LABEL, QUEUE_LABEL
from extender.jobs import registry
from extender.kube.decode import Decoder
from extender.kube.decode_queues import QueueDecoder
from extender.kube.errors import NotFoundError
from extender.kube.reflector import Reflector
from extender.kube.watch import Apply, Delete, Init, InitApply, InitDone, WatchEvent
from extender.runtime.clock import SystemClock
from extender.runtime.pacer import Pacer
from extender.state.cluster.store import Cluster
from extender.state.queue import events as ev
from extender.state.queue.store import Queues
from extender.wiring import reflectors as wiring
from extender.wiring.batch_jobs import INTEGRATION, BatchJobs, SeenJob
from extender.wiring.queue_sources import Sources

QUEUED = {QUEUE_LABEL: "queue"}


def job(name: str, version: int, *, labels: dict[str, str] | None = None, **spec: Any) -> bytes:
    """Return a Job whose pods are members of the PodGroup of its name."""
    pods = {"metadata": {"labels": {POD_GROUP_LABEL: name}}}
    meta = {"name": name, "namespace": "ns", "uid": name, "resourceVersion": str(version)}
    return json.dumps({
        "metadata": {**meta, "labels": labels or {}},
        "spec": {"parallelism": 2, "template": pods, **spec},
    }).encode()  # fmt: skip


def listed(*objects: bytes, version: int) -> Iterator[WatchEvent]:
    yield Init()
    yield from map(InitApply, objects)
    yield InitDone(version)


class Watched:
    """Both states behind the watch, which sends what it is given."""

    def __init__(self, *, all_jobs: bool = False) -> None:
        self.cluster, self.queues = Cluster(), Queues()
        self.events_taken: list[ev.Event | ev.JobsListed] = []
        apply = self.queues.apply

        def applied(event: ev.Event | ev.Listed | ev.JobsListed) -> ev.QueueChange:
            assert not isinstance(event, ev.Listed)
            self.events_taken.append(event)
            return apply(event)

        self.queues.apply = applied  # type: ignore[method-assign]
        decoder = QueueDecoder(Decoder())
        both = BatchJobs(
            self.cluster,
            self.queues,
            read_info=decoder.job_info,
            read_job=lambda raw: decoder.job(raw, kind=INTEGRATION),
            all_jobs=all_jobs,
        )
        self._next: list[WatchEvent] = []
        self.reflector: Reflector[SeenJob] = both.reflector(self)  # type: ignore[arg-type]

    async def events(self) -> AsyncIterator[WatchEvent]:
        """Yield what it was given, as the watcher that it stands for."""
        for each in self._next:
            yield each

    async def send(self, *events: WatchEvent) -> None:
        """Have the watch send these events."""
        self._next = [*events]
        self.events_taken.clear()
        await self.reflector.run(Pacer(SystemClock()))

    @property
    def queued(self) -> dict[str, int]:
        """The versions of the Jobs in the queue's state, by name."""
        return {each.meta.name: each.meta.version for each in self.queues.view().jobs.values()}

    def in_cluster(self, *names: str) -> set[str]:
        """Return those of these Jobs that the cluster's state has."""
        view = self.cluster.view()
        return {name for name in names if view.job(name) is not None}

    @property
    def aside(self) -> list[tuple[str, str]]:
        """The kind and the name of what is set aside."""
        return [(each.kind, each.object.name) for each in self.reflector.aside]


@pytest.fixture
def watched() -> Watched:
    return Watched()


async def test_one_event_feeds_both_states(watched: Watched) -> None:
    await watched.send(*listed(job("q", 1, labels=QUEUED), job("plain", 2), version=5))
    await watched.send(Apply(job("new", 6, labels=QUEUED, parallelism=3)))

    assert watched.queued == {"q": 1, "new": 6}
    assert watched.in_cluster("q", "plain", "new") == {"q", "plain", "new"}
    info = watched.cluster.view().job("new")
    assert info is not None
    assert (info.begun, info.held_by_queue) == (3, "ns/new")

    await watched.send(Delete(job("new", 7, labels=QUEUED)))
    assert watched.queued == {"q": 1}
    assert watched.in_cluster("q", "plain", "new") == {"q", "plain"}


async def test_a_job_without_a_queue_is_not_kept_whole(watched: Watched) -> None:
    """Not even for as long as a list is taken in."""
    assert watched.reflector._decode_raw(job("plain", 2)).job is None
    mentions = job("plain", 2, labels={"note": QUEUE_LABEL})
    assert watched.reflector._decode_raw(mentions).job is None
    await watched.send(Apply(job("plain", 2)), Apply(mentions), Delete(job("plain", 3)))
    assert watched.events_taken == []


async def test_a_job_that_loses_its_queue_label_is_deleted_though_not_for_good(
    watched: Watched,
) -> None:
    await watched.send(*listed(job("q", 1, labels=QUEUED), version=5))
    await watched.send(Apply(job("q", 6)))

    [event] = watched.events_taken
    assert isinstance(event, ev.JobDeleted)
    assert (event.job.meta.version, event.for_good) == (6, False)
    assert watched.queued == {}
    assert watched.in_cluster("q") == {"q"}

    await watched.send(Apply(job("q", 7)))
    assert watched.events_taken == [], "only the loss of the label is news for the queue"
    await watched.send(Apply(job("q", 8, labels=QUEUED)))
    assert watched.queued == {"q": 8}


async def test_a_job_that_was_read_without_a_label_is_left_alone(watched: Watched) -> None:
    """The workload of such a Job asks for it: the watch says nothing of it to the queue."""
    await watched.send(*listed(version=5))
    decoder = QueueDecoder(Decoder())
    watched.queues.apply(ev.JobApplied(decoder.job(job("read", 6), kind=INTEGRATION)))
    await watched.send(Apply(job("read", 7)), Delete(job("read", 8)))

    assert watched.queued == {"read": 6}
    assert watched.events_taken == []


async def test_an_empty_queue_name_is_a_label_too(watched: Watched) -> None:
    await watched.send(Apply(job("q", 1, labels={QUEUE_LABEL: ""})))
    assert watched.queued == {"q": 1}


async def test_all_jobs_are_kept_where_all_are_managed() -> None:
    watched = Watched(all_jobs=True)
    await watched.send(*listed(job("q", 1, labels=QUEUED), job("plain", 2), version=5))
    await watched.send(Apply(job("q", 6)), Apply(job("plain", 7)))
    assert watched.queued == {"q": 6, "plain": 7}

    await watched.send(Delete(job("plain", 8)))
    assert watched.queued == {"q": 6}


async def test_a_list_replaces_what_both_states_have(watched: Watched) -> None:
    first = (job("gone", 1, labels=QUEUED), job("unlabelled", 2, labels=QUEUED), job("plain", 3))
    await watched.send(*listed(*first, version=5))
    second = (job("unlabelled", 6), job("new", 7, labels=QUEUED))
    await watched.send(*listed(*second, version=9))

    assert watched.queued == {"new": 7}
    assert watched.in_cluster("gone", "unlabelled", "plain", "new") == {"unlabelled", "new"}
    await watched.send(Apply(job("unlabelled", 10)))
    assert watched.events_taken == []


async def test_what_is_newer_than_a_list_outlives_it_in_the_queue(watched: Watched) -> None:
    decoder = QueueDecoder(Decoder())
    newer = decoder.job(job("newer", 8, labels=QUEUED), kind=INTEGRATION)
    watched.queues.apply(ev.JobApplied(newer))
    await watched.send(*listed(version=5))
    assert watched.queued == {"newer": 8}


async def test_a_job_that_neither_state_can_read_is_set_aside_alone(watched: Watched) -> None:
    both = (job("bad", 1, labels=QUEUED), job("good", 2, labels=QUEUED))
    await watched.send(*listed(*both, version=5))
    bad = job("bad", 6, labels=QUEUED, parallelism="two").replace(b'"ns"', b'"ns", "finalizers": 5')
    await watched.send(Apply(bad), Apply(job("good", 7, labels=QUEUED)))

    assert watched.aside == [("jobs", "bad")]
    assert watched.queued == {"bad": 1, "good": 7}
    assert watched.in_cluster("bad", "good") == {"bad", "good"}
    await watched.send(*listed(bad, job("good", 7, labels=QUEUED), version=9))
    assert watched.queued == {"bad": 1, "good": 7}, "the list must not delete it"
    assert watched.in_cluster("bad", "good") == {"bad", "good"}


async def test_the_queue_has_the_version_that_only_it_can_read(watched: Watched) -> None:
    """Its decision reports in an Event what is wrong with it."""
    await watched.send(*listed(job("odd", 1, labels=QUEUED), version=5))
    await watched.send(Apply(job("odd", 6, labels=QUEUED, parallelism="two")))

    assert watched.aside == [("jobs", "odd")]
    assert watched.queued == {"odd": 6}
    info = watched.cluster.view().job("odd")
    assert info is not None
    assert info.begun == 2, "the last version that could be read"

    await watched.send(Apply(job("odd", 7, parallelism="two")))
    assert watched.queued == {}
    await watched.send(Apply(job("odd", 8)))
    assert watched.aside == []


async def test_the_cluster_has_the_version_that_only_it_can_read(watched: Watched) -> None:
    def odd(version: int, parallelism: int) -> bytes:
        found = job("odd", version, labels=QUEUED, parallelism=parallelism)
        return found.replace(b'"ns"', b'"ns", "annotations": {"a": 5}')

    def begun() -> int | None:
        info = watched.cluster.view().job("odd")
        return info.begun if info is not None else None

    await watched.send(*listed(job("odd", 1, labels=QUEUED), version=5))
    await watched.send(Apply(odd(6, 3)))
    assert (begun(), watched.queued, watched.aside) == (3, {"odd": 1}, [("jobs", "odd")])

    await watched.send(*listed(odd(7, 4), version=9))
    assert (begun(), watched.queued, watched.aside) == (4, {"odd": 1}, [("jobs", "odd")])

    await watched.send(Apply(job("odd", 10, labels=QUEUED)))
    assert (begun(), watched.queued, watched.aside) == (2, {"odd": 10}, [])

    await watched.send(Apply(odd(11, 3)), Delete(odd(12, 3)))
    assert (begun(), watched.queued, watched.aside) == (None, {}, [])


async def test_a_list_counts_for_the_queue_when_its_part_begins(watched: Watched) -> None:
    """Until then the queue still has the Jobs of the list before, and an event may hide one."""
    await watched.send(*listed(job("q", 1, labels=QUEUED), version=5))
    read = watched.reflector._decode_raw
    steps = watched.reflector.feed.listed([read(job("q", 6))], 9)
    next(steps)
    await watched.send(Apply(job("q", 10)))
    assert watched.queued == {}


class Vanished:
    """An API server that lists a Job, and does not have the resource from then on."""

    def __init__(self, *pages: bytes) -> None:
        self._pages = [*pages]

    async def request(self, _method: str, _path: str, **_: object) -> bytes:
        """Return the next page."""
        if not self._pages:
            raise NotFoundError("no such resource", status=404)
        return self._pages.pop(0)

    def stream(self, _path: str, *, idle_seconds: float) -> NoReturn:
        """Refuse a watch."""
        raise NotFoundError(f"no such resource for {idle_seconds} s", status=404)


async def test_jobs_outlive_a_resource_that_seems_to_be_gone() -> None:
    """Every cluster has batch Jobs: a 404 is an error, which makes the watch stale."""
    page = b'{"metadata": {"resourceVersion": "5"}, "items": [%s]}' % job("q", 1, labels=QUEUED)
    sources, cluster, queues = sources_of(Vanished(page))
    [reflector] = [each for each in sources.reflectors if each.kind == "jobs"]
    pauses = iter(range(3))

    async def sleep(_seconds: float) -> None:
        if next(pauses, None) is None:
            raise asyncio.CancelledError

    reflector._watcher._sleep = sleep
    with pytest.raises(asyncio.CancelledError):
        await reflector.run(Pacer(SystemClock()))

    assert cluster.view().job("q") is not None
    assert [each.meta.name for each in queues.view().jobs.values()] == ["q"]
    assert "no such resource" in reflector.freshness.trouble


def sources_of(client: Any) -> tuple[Sources, Cluster, Queues]:
    """Return the sources of the queue with a client, and the states that they feed."""
    cluster, queues = Cluster(), Queues()
    sources = Sources(
        client,
        queues,
        QueueDecoder(Decoder()),
        cluster=cluster,
        integrations=registry.select(None),
        job_selector=QUEUE_LABEL,
    )
    return sources, cluster, queues


def test_reconcile_watches_batch_jobs_once() -> None:
    """And `serve`, which has no queue, watches them for the cluster's state alone."""
    client: Any = None
    decoder = Decoder()
    sources, cluster, _ = sources_of(client)
    own = wiring.reflectors(client, cluster, decoder, pods="", jobs=False)
    paths = [each._watcher._path for each in (*own, *sources.reflectors)]
    assert paths.count("/apis/batch/v1/jobs") == 1
    assert [each.kind for each in sources.reflectors].count("jobs") == 1

    alone = wiring.reflectors(client, cluster, decoder, pods="")
    assert [each.kind for each in alone].count("jobs") == 1


def test_only_a_process_that_chooses_victims_watches_disruption_budgets() -> None:
    client: Any = None
    for wanted in (True, False):
        made = wiring.reflectors(client, Cluster(), Decoder(), pods="", budgets=wanted)
        assert [each.kind for each in made].count("poddisruptionbudgets") == wanted
