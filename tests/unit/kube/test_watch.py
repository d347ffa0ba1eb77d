"""The stream of five events against a scripted API server."""

import json
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest
from structlog.testing import capture_logs

from extender.kube.decode import DecodeError, readable
from extender.kube.errors import (
    ApiError,
    ForbiddenError,
    GoneError,
    InvalidError,
    NotFoundError,
    SilentError,
    UnavailableError,
)
from extender.kube.reflector import Feed, Reflector
from extender.kube.watch import (
    Apply,
    Delete,
    Freshness,
    Init,
    InitApply,
    InitDone,
    Watcher,
    WatchEvent,
)
from extender.runtime.clock import Pacer, SystemClock
from extender.runtime.faults import FAULTS, Backoff
from tests.makers import ManualClock

PATH = "/api/v1/things"


class Finished(Exception):  # noqa: N818 - not an error: the script is at its end
    pass


def thing(name: str, version: int = 1) -> dict[str, Any]:
    return {"metadata": {"name": name, "resourceVersion": str(version)}}


def page(*names: str, version: int = 1, more: str = "") -> bytes:
    meta = {"resourceVersion": str(version), "continue": more}
    return json.dumps({"metadata": meta, "items": [thing(name) for name in names]}).encode()


def line(kind: str, name: str = "x", version: int = 1) -> bytes:
    return json.dumps({"type": kind, "object": thing(name, version)}).encode() + b"\n"


def error_line(code: int) -> bytes:
    status = {"kind": "Status", "code": code, "message": "no"}
    return json.dumps({"type": "ERROR", "object": status}).encode() + b"\n"


class Script:
    """Answers lists with pages and watches with chunks, in the order given; an error is raised.

    What follows an error among the chunks of a watch is never sent. At the end it is `Finished`.
    """

    def __init__(self, *steps: bytes | ApiError | Sequence[bytes | ApiError]) -> None:
        self._steps = list(steps)
        self.asked: list[dict[str, str]] = []
        self.pauses: list[float] = []
        self.after: tuple[int, Callable[[], None]] = (-1, lambda: None)
        """What is done before the step of that number is answered."""

    def _next(self, path: str) -> Any:
        parts = urlsplit(path)
        assert parts.path == PATH
        self.asked.append({name: values[0] for name, values in parse_qs(parts.query).items()})
        if len(self.asked) == self.after[0] + 1:
            self.after[1]()
        if not self._steps:
            raise Finished
        return self._steps.pop(0)

    async def request(self, method: str, path: str, **_: object) -> bytes:
        assert method == "GET"
        step = self._next(path)
        if isinstance(step, ApiError):
            raise step
        assert isinstance(step, bytes), "a list was asked for where the script has a watch"
        return step

    @asynccontextmanager
    async def stream(
        self, path: str, *, idle_seconds: float
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        assert 60 < idle_seconds < 290  # longer than the bookmarks' pause
        step = self._next(path)
        if isinstance(step, ApiError):
            raise step
        assert not isinstance(step, bytes), "a watch was asked for where the script has a list"
        yield self._chunks(step)

    async def _chunks(self, step: Sequence[bytes | ApiError]) -> AsyncIterator[bytes]:
        for chunk in step:
            if isinstance(chunk, ApiError):
                raise chunk
            yield chunk

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)

    def watcher(self, **options: Any) -> Watcher:
        """Return a watcher that asks this server."""
        return Watcher(
            self,  # type: ignore[arg-type]
            PATH,
            sleep=self.sleep,
            backoff=Backoff(1.0, 8.0, jitter=lambda: 1.0),
            **options,
        )

    async def run(self, **options: Any) -> list[str]:
        """Return the events in short: `Init`, `+a`, `Done`, `=a`, `-a`."""
        watcher = self.watcher(**options)
        seen: list[str] = []
        with pytest.raises(Finished):
            await follow(watcher, seen)
        return seen

    def versions(self) -> list[str]:
        """Return what each request started from; `list` for lists."""
        return [asked.get("resourceVersion", "list") for asked in self.asked]


async def follow(watcher: Watcher, seen: list[str]) -> None:
    async for event in watcher.events():
        seen.append(short(event))  # noqa: PERF401 - what came before the error counts


def name_in(raw: bytes) -> str:
    """Return the name of an object."""
    name: str = json.loads(raw)["metadata"]["name"]
    return name


def short(event: WatchEvent) -> str:
    match event:
        case Init():
            return "Init"
        case InitDone():
            return "Done"
        case InitApply(raw):
            return "+" + name_in(raw)
        case Apply(raw):
            return "=" + name_in(raw)
        case Delete(raw):
            return "-" + name_in(raw)


async def test_a_list_and_then_a_watch() -> None:
    script = Script(
        page("a", "b", version=5),
        [line("ADDED", "c", 6), line("MODIFIED", "a", 7) + line("DELETED", "b", 8)],
    )

    assert await script.run() == ["Init", "+a", "+b", "Done", "=c", "=a", "-b"]
    assert script.versions() == ["list", "5", "8"]
    assert script.asked[0] == {"limit": "1000"}
    assert script.asked[1] == {
        "watch": "1",
        "allowWatchBookmarks": "true",
        "timeoutSeconds": "290",
        "resourceVersion": "5",
    }


async def test_a_field_selector_is_sent_with_every_request() -> None:
    script = Script(page("a", more="t/="), page("b", version=5), [])
    await script.run(selectors={"fieldSelector": "status.phase!=Failed"})

    assert {asked["fieldSelector"] for asked in script.asked} == {"status.phase!=Failed"}
    assert script.asked[1]["continue"] == "t/="


async def test_a_list_comes_page_by_page() -> None:
    script = Script(page("a", version=4, more="t1"), page("b", more="t2"), page("c", version=5), [])

    assert await script.run() == ["Init", "+a", "+b", "+c", "Done"]
    assert [asked.get("continue") for asked in script.asked] == [None, "t1", "t2", None, None]
    assert script.versions()[3:] == ["5", "5"]


async def test_the_end_of_a_watch_is_followed_by_another_after_a_moment() -> None:
    script = Script(page(version=5), [line("ADDED", "a", 6)], [line("ADDED", "b", 7)])

    assert await script.run() == ["Init", "Done", "=a", "=b"]
    assert script.versions() == ["list", "5", "6", "7"]
    assert script.pauses == [1.0, 1.0]


async def test_a_bookmark_moves_the_version_and_says_nothing() -> None:
    script = Script(page(version=5), [line("BOOKMARK", "", 90)], [])

    assert await script.run() == ["Init", "Done"]
    assert script.versions() == ["list", "5", "90", "90"]


STARTS_OVER: dict[str, Any] = {
    "410 for the watch itself": GoneError("too old", status=410),
    "410 in the stream": [line("ADDED", "b", 6), error_line(410)],
    "a version that the server cannot read": InvalidError("what?", status=400),
    "a server that cannot serve a version": [line("ADDED", "b", 6), error_line(500)],
    # A list is an answer also where a watch gives none: the kind never changed.
    "silence": [line("ADDED", "b", 6), SilentError("nothing came for 100 s")],
}


@pytest.mark.parametrize("trouble", STARTS_OVER.values(), ids=STARTS_OVER)
async def test_a_watch_that_cannot_go_on_starts_over_with_a_list(trouble: Any) -> None:
    script = Script(page("a", version=5), trouble, page("c", version=2), [])
    seen = ["=b"] if isinstance(trouble, list) else []

    assert await script.run() == ["Init", "+a", "Done", *seen, "Init", "+c", "Done"]
    assert script.versions() == ["list", "5", "list", "2", "2"]
    assert script.pauses, "a server that answers so every time is not flooded"


async def test_410_between_pages_starts_over() -> None:
    script = Script(
        page("a", more="t1"), GoneError("expired", status=410), page("a", "b", version=9), []
    )

    assert await script.run() == ["Init", "+a", "Init", "+a", "+b", "Done"]


async def test_the_server_is_given_the_time_that_it_asks_for() -> None:
    busy = UnavailableError("busy", status=429, retry_after=30)
    script = Script(busy, page(version=5), [])
    await script.run()

    assert script.pauses[0] == 30


def absent() -> UnavailableError:
    error = UnavailableError("connection refused")
    error.is_unsent = True
    return error


@pytest.mark.parametrize(("version", "told"), [(7, 0), (9, 9)], ids=["set back", "as it was left"])
async def test_an_api_server_that_was_away_may_come_back_with_an_older_store(
    version: int, told: int
) -> None:
    """It sends nothing from a version that it has not reached yet."""
    broken: list[bytes | ApiError] = [line("ADDED", "b", 9), UnavailableError("connection reset")]
    script = Script(
        page("a", version=5), broken, absent(), absent(), page("a", version=version), []
    )
    listed: list[int] = []

    async def follow_lists() -> None:
        async for event in script.watcher().events():
            listed.extend([event.version] if isinstance(event, InitDone) else [])

    with pytest.raises(Finished):
        await follow_lists()
    known = str(version)
    assert script.versions() == ["list", "5", "9", "list", "list", known, known]
    assert listed == [5, told]


async def test_a_broken_stream_resumes_from_the_last_version() -> None:
    broken = UnavailableError("connection reset")
    script = Script(page(version=5), [line("ADDED", "a", 6), broken], [line("ADDED", "b", 7)])

    assert await script.run() == ["Init", "Done", "=a", "=b"]
    assert script.versions() == ["list", "5", "6", "7"]


async def test_a_list_that_breaks_off_starts_over() -> None:
    broken = UnavailableError("connection reset")
    script = Script(page("a", more="t1"), broken, page("b", version=5), [])

    assert await script.run() == ["Init", "+a", "Init", "+b", "Done"]
    assert script.pauses == [1.0, 1.0]


async def test_pauses_grow_until_something_is_heard() -> None:
    down = UnavailableError("down")
    script = Script(page(version=5), down, down, down, down, down, [line("ADDED"), down], down)
    await script.run()

    assert script.pauses == [1.0, 2.0, 4.0, 8.0, 8.0, 1.0, 2.0]


async def test_missing_rights_are_waited_out_too() -> None:
    script = Script(ForbiddenError("no", status=403), page(version=5), [])

    assert await script.run() == ["Init", "Init", "Done"]
    assert script.pauses == [1.0, 1.0]


@pytest.mark.parametrize("chunk", [b"{\n", b"[]\n", b'{"type": "ADDED"}\n', b"\xff\n"])
async def test_a_line_that_cannot_be_read_is_trouble(chunk: bytes) -> None:
    script = Script(page(version=5), [chunk, line("ADDED", "never")], [line("ADDED", "a", 6)])

    assert await script.run() == ["Init", "Done", "=a"]
    assert script.versions()[1:3] == ["5", "5"]


async def test_a_list_that_cannot_be_read_is_trouble() -> None:
    script = Script(b"<html>", page(version=5), [])

    assert await script.run() == ["Init", "Init", "Done"]


STEPS: dict[str, tuple[Any, bool]] = {
    "a list": (page(version=5), True),
    "an event": ([line("ADDED", "a", 6)], True),
    "a bookmark": ([line("BOOKMARK", "", 6)], True),
    "a watch that says nothing": ([], False),
    "an error on the watch": ([error_line(500)], False),
    "no connection": (UnavailableError("down"), False),
    "a refusal": (ForbiddenError("no", status=403), False),
    "too old a version": (GoneError("too old", status=410), False),
}


@pytest.mark.parametrize(("step", "fresh"), STEPS.values(), ids=STEPS)
async def test_what_counts_as_heard(
    step: Any,
    fresh: bool,
) -> None:
    clock = ManualClock()
    before = [] if isinstance(step, bytes) else [page(version=5)]
    script = Script(*before, step)
    watcher = script.watcher()
    watcher.freshness = Freshness(clock)

    def late() -> None:
        clock.now += 1000

    script.after = len(before), late
    with pytest.raises(Finished):
        await follow(watcher, [])

    assert watcher.freshness.age == (0 if fresh else 1000)
    trouble = isinstance(step, ApiError) or step == [error_line(500)]
    assert bool(watcher.freshness.trouble) is trouble


async def test_a_resource_that_is_not_there_is_heard_of() -> None:
    clock = ManualClock()
    script = Script(NotFoundError("no such resource", status=404))
    watcher = script.watcher(optional=True)
    watcher.freshness = Freshness(clock)
    clock.now += 1000
    with pytest.raises(Finished):
        await follow(watcher, [])

    assert watcher.freshness.age == 0


def test_a_watch_is_stale_past_its_limit_and_says_why() -> None:
    clock = ManualClock()
    freshness = Freshness(clock)
    clock.now += 180
    assert freshness.stale(180) is None
    clock.now += 1
    assert freshness.stale(180) == "nothing heard for 181 s, the limit is 180 s"
    freshness.failed(UnavailableError("GET /api/v1/pods: 401 Unauthorized"))
    assert str(freshness.stale(180)).endswith("180 s: GET /api/v1/pods: 401 Unauthorized")
    freshness.heard()
    assert (freshness.stale(180), freshness.trouble) == (None, "")


async def test_lines_may_be_cut_anywhere() -> None:
    stream = line("ADDED", "a", 6) + b"\n" + line("ADDED", "b", 7)
    script = Script(page(version=5), [stream[n : n + 1] for n in range(len(stream))])

    assert await script.run() == ["Init", "Done", "=a", "=b"]


async def test_half_a_line_at_the_end_is_dropped_and_comes_again() -> None:
    whole = line("ADDED", "b", 7)
    script = Script(page(version=5), [line("ADDED", "a", 6), whole[:-5]], [whole])

    assert await script.run() == ["Init", "Done", "=a", "=b"]
    assert script.versions() == ["list", "5", "6", "7"]


class Recorded:
    """What a reflector reported."""

    def __init__(self, script: Script) -> None:
        self.reported: list[Any] = []
        self.synced: list[bool] = []
        self.known = False
        """Whether the state has what cannot be read any more, under its name in capitals."""
        watcher = Watcher(
            script,  # type: ignore[arg-type]
            PATH,
            sleep=script.sleep,
            backoff=Backoff(1.0, 8.0, jitter=lambda: 1.0),
        )
        self.reflector = Reflector[str](
            "things",
            watcher,
            self._decode,
            feed=Feed(
                listed=self._listed,
                applied=lambda name: self._record(f"={name}"),
                deleted=lambda name: self._record(f"-{name}"),
                known=lambda which: which.name.upper() if self.known else None,
            ),
        )

    def _decode(self, raw: bytes) -> str:
        name = str(json.loads(raw)["metadata"]["name"])
        if name == "bad":
            raise DecodeError("not a thing")
        return name

    def _listed(self, names: Sequence[str], _: int) -> Iterator[None]:
        self._record("list")
        for name in names:
            self._record(name)
            yield

    def _record(self, what: Any) -> None:
        self.reported.append(what)
        self.synced.append(self.reflector.synced)

    async def run(self) -> list[Any]:
        with pytest.raises(Finished):
            await self.reflector.run(Pacer(SystemClock()))
        return self.reported


async def test_a_reflector_passes_on_whole_lists_and_single_changes() -> None:
    stream = [line("ADDED", "c", 6), line("DELETED", "a", 7), error_line(410)]
    reported = Recorded(
        Script(page("a", more="t"), page("b", version=5), stream, page("c", version=9), [])
    )

    assert await reported.run() == ["list", "a", "b", "=c", "-a", "list", "c"]
    assert reported.synced == [*[False] * 3, *[True] * 4]


async def test_a_reflector_is_not_synced_by_half_a_list() -> None:
    reported = Recorded(Script(page("a", more="t"), UnavailableError("down")))

    assert await reported.run() == []
    assert not reported.reflector.synced


DOWN = UnavailableError("down")
REPORTS: dict[str, tuple[list[Any], list[str], list[str]]] = {
    "half a list leaves nothing in the next": (
        [page("a", more="t"), DOWN, page("b", version=5), []],
        ["list", "b"],
        [],
    ),
    "what cannot be read stops no other": (
        [page("bad", "a", version=5), [line("ADDED", "bad", 6), line("ADDED", "b", 7)]],
        ["list", "a", "=b"],
        ["bad"],
    ),
    "what cannot be read any more is not taken for gone": (
        [page("bad", "a", version=5), [error_line(410)], page("bad", version=9), []],
        ["list", "BAD", "a", "list", "BAD"],
        ["bad"],
    ),
    "what cannot be read can be deleted": (
        [page("bad", version=5), [line("DELETED", "bad", 6)]],
        ["list", "BAD", "-BAD"],
        [],
    ),
}


@pytest.mark.parametrize(("steps", "want", "aside"), REPORTS.values(), ids=REPORTS)
async def test_what_a_reflector_reports_and_sets_aside(
    steps: list[Any], want: list[str], aside: list[str]
) -> None:
    reported = Recorded(Script(*steps))
    reported.known = "BAD" in want

    assert await reported.run() == want
    assert [each.object.name for each in reported.reflector.aside] == aside
    assert reported.reflector.synced


async def test_a_version_that_cannot_be_read_is_logged_once() -> None:
    stream = [line("MODIFIED", "bad", 6), line("MODIFIED", "bad", 7), error_line(410)]
    meta = {"name": "bad", "resourceVersion": "7"}
    again = json.dumps({"metadata": {"resourceVersion": "9"}, "items": [{"metadata": meta}]})
    reported = Recorded(
        Script(
            page("bad", version=5), stream, again.encode(), [error_line(410)], again.encode(), []
        )
    )
    with capture_logs() as logs:
        await reported.run()
    aside = [each["version"] for each in logs if each["event"] == "object set aside"]
    assert aside == ["1", "6", "7"]


async def test_a_state_that_fails_at_one_object_takes_the_others() -> None:
    reported = Recorded(
        Script(page("a", version=5), [line("ADDED", "b", 6), line("ADDED", "c", 7)])
    )
    record = reported._record

    def fail(what: Any) -> None:
        if what == "=b":
            raise KeyError("bug")
        record(what)

    reported._record = fail  # type: ignore[method-assign]
    before = FAULTS.counts.get("state", 0)
    assert await reported.run() == ["list", "a", "=c"]
    assert FAULTS.counts["state"] == before + 1


async def test_a_page_is_read_whatever_is_nested_in_one_object() -> None:
    deep = b'{"a":' * 3000 + b"1" + b"}" * 3000
    odd = b'{"metadata": {"name": "deep", "resourceVersion": "3"}, "spec": ' + deep + b"}"
    whole = json.loads(page("a", version=5))
    plain = json.dumps(whole["items"][0]).encode()
    listed = b'{"metadata": {"resourceVersion": "5"}, "items": [' + odd + b"," + plain + b"]}"
    event = b'{"type": "ADDED", "object": ' + odd + b"}\n"
    reported = Recorded(Script(listed, [event, line("ADDED", "b", 6)]))

    def decode(raw: bytes) -> str:
        name: str = msgspec.json.decode(raw)["metadata"]["name"]
        return name

    reported.reflector._decode_raw = readable("thing")(decode)
    assert await reported.run() == ["list", "a", "=b"]
    assert [each.object.name for each in reported.reflector.aside] == ["deep"]
