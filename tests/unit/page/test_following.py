"""The state that the page follows: what changes in it shows, and Events are not lost."""

from typing import cast

import pytest

from extender.config.settings import Settings
from extender.kube.client import KubeClient
from extender.kube.errors import UnavailableError
from extender.state.queue.events import Applied
from extender.state.queue.records import NamespaceInfo
from gang_tools.page.following import EVENTS_SECONDS, FollowedCluster
from gang_tools.page.history import SAMPLE_SECONDS
from tests.makers import NAMESPACE, ManualClock, key, nodes, observe, pod, pod_group, pods
from tests.queue_makers import cluster_queue, flavor, local_queue, workload

EVENT = b"""{"items": [{"metadata": {"uid": "1"}, "reason": "Bound", "lastTimestamp":
"2026-01-01T10:00:00Z", "involvedObject": {"kind": "Pod", "name": "m-0"}}]}"""


class Server:
    """Answers with one Event, or not at all."""

    def __init__(self) -> None:
        self.asked, self.away = 0, False

    async def request(self, *_: str) -> bytes:
        self.asked += 1
        if self.away:
            raise UnavailableError("away")
        return EVENT


def followed(server: Server, clock: ManualClock) -> FollowedCluster:
    """Return what follows a cluster, without a watch."""
    return FollowedCluster(Settings(), cast("KubeClient", server), clock)


async def test_room_that_a_story_has_set_aside_shows_with_the_next_look() -> None:
    clock = ManualClock(1e6)
    page = followed(Server(), clock)
    full = [pod(f"on-{n}", 4, on=f"n{n}") for n in range(10)]
    page.look()
    observe(page._cluster, nodes(*[4] * 10), full, pod_group("gang", 5), pods(5, 4))
    page.look()
    clock.now += 1000
    version = page.version

    assert page.group(key("gang")) is not None

    assert page.cluster.claims.keys() == {key("gang")}
    assert page.version == version
    page.look()
    assert page.version == version + 1
    page.look()
    assert page.version == version + 1


async def test_what_nodes_have_left_shows_with_the_next_look_if_it_is_another_amount() -> None:
    page = followed(Server(), ManualClock(1e6))
    page._queues.apply(Applied(flavor()))
    observe(page._cluster, nodes(4, 4))
    page.look()
    before = page.room
    assert before["default"][0]["cpu"] == 8000

    queues = page.queues_version
    observe(page._cluster, pod("waits", 1))
    version = page.version
    page.look()
    assert (page.room, page.version) == (before, version)

    observe(page._cluster, pod("runs", 1, on="n0"))
    version = page.version
    assert (page.room, page.queues_version) == (before, queues)
    page.look()
    assert (page.room["default"][0]["cpu"], page.version) == (7000, version + 1)
    assert page.queues_version == queues + 1
    page._queues.apply(Applied(flavor("other")))
    assert page.queues_version == queues + 2


async def test_how_the_queues_are_is_kept_each_minute() -> None:
    clock = ManualClock(1e6)
    page = followed(Server(), clock)
    for _ in range(3):
        page.remember()
        clock.now += SAMPLE_SECONDS / 2

    assert len(page.history.samples) == page.version == 2


async def test_events_are_read_again_after_a_while_and_never_none_for_an_error() -> None:
    server, clock = Server(), ManualClock()
    page = followed(server, clock)
    server.away = True
    with pytest.raises(UnavailableError):
        await page.events("ns", "m-0")
    server.away = False
    [found] = await page.events("ns", "m-0")
    assert (found["reason"], found["at"]) == ("Bound", "2026-01-01 10:00:00")
    await page.events("ns", "m-0")
    assert server.asked == 2
    clock.now += EVENTS_SECONDS - 0.1  # a page asks so often, and the answer took a moment
    await page.events("ns", "m-0")
    assert server.asked == 3


def test_an_event_of_one_workload_places_no_other_one(monkeypatch: pytest.MonkeyPatch) -> None:
    page = followed(Server(), ManualClock(1e6))
    for each in (NamespaceInfo(NAMESPACE), flavor(), cluster_queue("cq", 1), local_queue()):
        page._queues.apply(Applied(each))
    placed = list[str]()
    monkeypatch.setattr(page._pending, "update", lambda key, *_: placed.append(key))
    for name in ("first", "second"):
        page._queues.apply(Applied(workload(name, 1)))
    assert placed == ["ns/first", "ns/second"]
    page._queues.apply(Applied(local_queue(stop_policy="Hold")))
    assert sorted(placed[2:]) == ["ns/first", "ns/second"]
