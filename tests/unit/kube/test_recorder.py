"""Events: what they say, and that there are never too many. Time is virtual."""

import asyncio
import json
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from extender.kube.errors import (
    LONGEST_NOTE,
    ApiError,
    ConflictError,
    ForbiddenError,
    UnavailableError,
)
from extender.kube.recorder import (
    BURST,
    INTERVAL,
    PAUSES,
    WRITERS,
    Event,
    ObjectRef,
    Recorder,
)
from extender.runtime.faults import REMEMBERED
from tests.makers import LoopClock, ManualClock, until

DOWN = UnavailableError("down", status=503)
ABOUT = ObjectRef("scheduling.x-k8s.io/v1alpha1", "PodGroup", "ns", "g", "u-g")
EVENT = Event(ABOUT, "Gated", "3 of 4", "Scheduling", warning=True, occasion="1")


class Client:
    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.errors: list[ApiError] = []
        self.seconds = 0.0
        self.posting = 0
        self.blocked = asyncio.Event()
        self.blocked.set()

    async def post(self, path: str, body: bytes) -> None:
        await self.blocked.wait()
        if self.seconds:
            await asyncio.sleep(self.seconds)
        self.bodies.append(json.loads(body))
        namespace = self.bodies[-1]["metadata"]["namespace"]
        assert path == f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"
        if self.errors:
            raise self.errors.pop(0)


class Bench:
    def __init__(self, *, looptime: bool = False) -> None:
        self.client, self.clock, self.counts = Client(), ManualClock(), Counter[str]()
        self.recorder = Recorder(
            self.client,  # type: ignore[arg-type]
            clock=LoopClock() if looptime else self.clock,
            instance="me",
            count=lambda result: self.counts.update([result]),
        )

    async def written(self, *events: Event) -> list[dict[str, Any]]:
        running = asyncio.ensure_future(self.recorder.run())
        want = self.counts.total() + len(events)
        for event in events:
            self.recorder.record(event)
        await until(lambda: self.counts.total() == want)
        running.cancel()
        return self.client.bodies


@pytest.fixture
async def bench() -> Bench:
    return Bench()


@pytest.mark.parametrize("text", ["x" * 2000, "\u2588" * 2000, "x" + "\u2588" * 2000])
async def test_a_note_is_cut_to_the_bytes_that_the_api_server_takes(
    bench: Bench, text: str
) -> None:
    named = structs.replace(ABOUT, name="n" * 253)
    [body] = await bench.written(replace(EVENT, note=text, about=named))
    assert len(body["metadata"]["name"]) <= 253
    note = body["note"]
    assert text.startswith(note)
    assert LONGEST_NOTE - 4 < len(note.encode()) <= LONGEST_NOTE


async def test_an_event_names_its_source_action_and_reason(bench: Bench) -> None:
    [body] = await bench.written(EVENT)

    name = body["metadata"].pop("name")
    assert name.startswith("g.")
    assert body == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"namespace": "ns"},
        "eventTime": "1970-01-01T00:16:40.000000Z",
        "reportingController": "scheduling.x-k8s.io/gang-extender",
        "reportingInstance": "me",
        "action": "Scheduling",
        "reason": "Gated",
        "type": "Warning",
        "note": "3 of 4",
        "regarding": {
            "apiVersion": "scheduling.x-k8s.io/v1alpha1",
            "kind": "PodGroup",
            "namespace": "ns",
            "name": "g",
            "uid": "u-g",
        },
    }
    assert bench.counts == {"written": 1}


async def test_an_event_about_what_is_in_no_namespace_is_in_default(bench: Bench) -> None:
    [body] = await bench.written(replace(EVENT, about=structs.replace(ABOUT, namespace="")))
    assert body["metadata"]["namespace"] == "default"
    assert not body["regarding"]["namespace"]


OTHERS = {
    "occasion": replace(EVENT, occasion="2"),
    "reason": replace(EVENT, reason="Other"),
    "object": replace(EVENT, about=structs.replace(ABOUT, uid="u-h")),
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
async def test_the_name_is_that_of_the_occasion(bench: Bench, other: Event) -> None:
    later = replace(EVENT, note="2 of 4")
    bodies = await bench.written(EVENT, later, other)

    names = [body["metadata"]["name"] for body in bodies]
    assert names[0] == names[1] != names[2]


async def test_an_event_that_exists_already_is_no_error(bench: Bench) -> None:
    bench.client.errors = [ConflictError("exists", status=409)]
    await bench.written(EVENT, EVENT)

    assert bench.counts == {"known": 1, "written": 1}


async def test_an_event_that_cannot_be_written_is_let_go(bench: Bench) -> None:
    bench.client.errors = [ForbiddenError("no", status=403)]
    bodies = await bench.written(EVENT, replace(EVENT, reason="Next"))

    assert [body["reason"] for body in bodies] == ["Gated", "Next"]
    assert bench.counts == {"failed": 1, "written": 1}


async def test_one_object_gets_so_many_and_others_are_not_concerned(bench: Bench) -> None:
    many = [replace(EVENT, occasion=str(number)) for number in range(BURST + 5)]
    other = replace(EVENT, about=structs.replace(ABOUT, uid="other"))
    await bench.written(*many, other)
    assert bench.counts == {"written": BURST + 1, "dropped": 5}

    bench.clock.now += 2 * INTERVAL
    await bench.written(*many[:3])
    assert bench.counts == {"written": BURST + 3, "dropped": 6}


def of(namespace: str, number: int, *, warning: bool = False) -> Event:
    about = structs.replace(ABOUT, namespace=namespace, uid=f"{namespace}-{number}")
    return replace(EVENT, about=about, warning=warning)


async def test_only_so_many_wait_while_the_server_is_slow(bench: Bench) -> None:
    bench.client.blocked.clear()
    for number in range(REMEMBERED + 1000):
        bench.recorder.record(of("ns", number))

    assert bench.counts == {"dropped": 1000}


async def test_a_flood_drops_its_own(bench: Bench) -> None:
    """Events of another namespace, and Warnings of the same, have room and come soon."""
    for number in range(2 * REMEMBERED):
        bench.recorder.record(of("flood", number))
    few = [of("other", 1), of("flood", -1, warning=True), of("other", 2, warning=True)]
    for event in few:
        bench.recorder.record(event)
    assert bench.counts == {"dropped": REMEMBERED + len(few)}

    running = asyncio.ensure_future(bench.recorder.run())
    await until(lambda: len(bench.client.bodies) >= 4)
    running.cancel()
    first = [(b["regarding"]["uid"], b["type"]) for b in bench.client.bodies[:4]]
    assert first == [
        ("flood-0", "Normal"), ("other-1", "Normal"),
        ("flood--1", "Warning"), ("other-2", "Warning"),
    ]  # fmt: skip


@pytest.mark.looptime
async def test_writing_takes_a_part_of_the_time_and_each_event_has_its_own_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The slower the API server, the fewer Events."""
    monkeypatch.setattr("extender.kube.recorder.REMEMBERED", WRITERS + 2)
    bench = Bench(looptime=True)
    bench.client.seconds = 0.1
    running = asyncio.ensure_future(bench.recorder.run())
    for number in range(WRITERS + 5):
        bench.recorder.record(of("ns", number))
    await asyncio.sleep(1.0)  # as many as there are writers, each with a rest of a second behind it
    written = [*bench.client.bodies]
    running.cancel()

    assert bench.counts == {"written": WRITERS, "dropped": 3}
    assert len({each["eventTime"] for each in written}) == 1


@pytest.mark.looptime
@pytest.mark.parametrize(("seconds", "events"), [(0.002, 5000), (0.01, 1000), (0.1, 50)])
async def test_after_a_burst_each_event_is_written_within_seconds(
    seconds: float, events: int
) -> None:
    bench = Bench(looptime=True)
    bench.client.seconds = seconds
    running = asyncio.ensure_future(bench.recorder.run())
    for number in range(events):
        bench.recorder.record(of("ns", number))
    await asyncio.sleep(5)
    running.cancel()

    assert bench.counts == {"written": events}


@pytest.mark.looptime
async def test_late_events_do_not_hurry_while_bindings_are_under_way() -> None:
    bench = Bench(looptime=True)
    bench.client.seconds, bench.client.posting = 0.01, 32
    running = asyncio.ensure_future(bench.recorder.run())
    for number in range(2000):
        bench.recorder.record(of("ns", number))
    await asyncio.sleep(8)
    assert bench.counts["written"] == pytest.approx(400, abs=4)  # half of one at a time

    bench.client.posting = 0
    await asyncio.sleep(5)
    running.cancel()
    assert bench.counts == {"written": 2000}


async def in_a_minute(errors: list[ApiError], *events: Event) -> Bench:
    """Return a bench that has had Events for a minute, of which the first requests failed."""
    bench = Bench(looptime=True)
    bench.client.errors = errors
    running = asyncio.ensure_future(bench.recorder.run())
    for event in events:
        bench.recorder.record(event)
    await asyncio.sleep(60)
    running.cancel()
    return bench


@pytest.mark.looptime
async def test_an_event_is_written_when_trouble_has_passed() -> None:
    """An answer that was lost may have been a yes."""
    errors = [DOWN, DOWN, ConflictError("there", status=409)]
    bench = await in_a_minute(errors, EVENT, replace(EVENT, occasion="2"))

    assert bench.counts == {"known": 1, "written": 1}
    assert len(bench.client.bodies) == 4


@pytest.mark.looptime
async def test_trouble_that_lasts_ends_an_event() -> None:
    bench = await in_a_minute([DOWN] * 99, EVENT)

    assert bench.counts == {"failed": 1}
    assert len(bench.client.bodies) == 1 + len(PAUSES)


@pytest.mark.looptime
async def test_of_many_events_few_are_lost_while_the_server_is_away() -> None:
    bench = Bench(looptime=True)
    bench.client.errors = [DOWN] * 1000
    running = asyncio.ensure_future(bench.recorder.run())
    for number in range(3 * WRITERS):
        bench.recorder.record(of("ns", number))
    await asyncio.sleep(sum(PAUSES) + 1)
    bench.client.errors.clear()
    await asyncio.sleep(60)
    running.cancel()

    assert bench.counts == {"failed": 1, "written": 3 * WRITERS - 1}


@pytest.mark.looptime
async def test_an_event_that_a_webhook_keeps_from_one_namespace_holds_up_no_other() -> None:
    """500 may be about the namespace alone: what is wrong with all is said otherwise."""
    failing = UnavailableError("the webhook failed", status=500)
    bench = await in_a_minute([failing] * 2, EVENT, OTHERS["object"], of("other", 1))

    assert bench.counts == {"failed": 2, "written": 1}
