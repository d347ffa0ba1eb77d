"""The election, with virtual time and an API server of one object."""

import asyncio
import json
from typing import Any

import pytest
from typing_extensions import override

from extender.kube.client import JSON
from extender.kube.errors import ConflictError, NotFoundError, UnavailableError
from extender.kube.lease import LeadershipLost, LeaseElection, LeaseName, LeaseTimes
from tests.makers import LoopClock

pytestmark = pytest.mark.looptime

TIMES = LeaseTimes(duration=15, renew=10, retry=2)


class Server:
    """Keeps one Lease, and refuses what is based on an old version of it."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.version = 0
        self.down = False
        self.slow = 0.0
        self.requests: list[str] = []

    async def request(
        self, method: str, path: str, *, body: bytes | None = None, content_type: str = JSON
    ) -> bytes:
        assert path.startswith("/apis/coordination.k8s.io/v1/namespaces/ns/leases")
        self.requests.append(method)
        if self.down:
            raise UnavailableError("down")
        answer = json.dumps(self._answer(method, json.loads(body) if body else None)).encode()
        await asyncio.sleep(self.slow)
        return answer

    def _answer(self, method: str, body: Any) -> Any:
        if method == "GET":
            if self.lease is None:
                raise NotFoundError("none", status=404)
            return self.lease
        if method == "POST" and self.lease is not None:
            raise ConflictError("exists", status=409)
        if method == "PUT" and body["metadata"]["resourceVersion"] != str(self.version):
            raise ConflictError("changed", status=409)
        self.version += 1
        body["metadata"]["resourceVersion"] = str(self.version)
        self.lease = body
        return body

    @property
    def holder(self) -> str | None:
        assert self.lease is not None
        name: str | None = self.lease["spec"].get("holderIdentity")
        return name


class WrongClock(LoopClock):
    """A wall clock may be wrong by as much as it likes."""

    def __init__(self, wrong_by: float) -> None:
        self.wrong_by = wrong_by

    @override
    def wall(self) -> float:
        return self.monotonic() + 1e6 + self.wrong_by


def candidate(server: Server, name: str, *, wrong_by: float = 0.0) -> LeaseElection:
    return LeaseElection(
        server,  # type: ignore[arg-type]
        of=LeaseName("ns", "lease", name),
        times=TIMES,
        clock=WrongClock(wrong_by),
    )


def now() -> float:
    return round(asyncio.get_running_loop().time(), 2)


async def ends(keep: "asyncio.Task[None]") -> str:
    with pytest.raises(LeadershipLost) as lost:
        await keep
    return str(lost.value)


@pytest.fixture
def server() -> Server:
    return Server()


async def test_the_first_makes_the_lease_and_leads_at_once(server: Server) -> None:
    await candidate(server, "a").acquire()

    assert now() == 0
    assert server.lease is not None
    spec = server.lease["spec"]
    assert (spec["holderIdentity"], spec["leaseDurationSeconds"]) == ("a", 15)
    assert spec["acquireTime"] == spec["renewTime"] == "1970-01-12T13:46:40.000000Z"


async def test_a_lease_is_renewed_and_keeps_when_it_was_taken(server: Server) -> None:
    election = candidate(server, "a")
    await election.acquire()
    keep = asyncio.ensure_future(election.keep())
    await asyncio.sleep(60)

    assert not keep.done()
    assert server.lease is not None
    spec = server.lease["spec"]
    assert spec["acquireTime"] == "1970-01-12T13:46:40.000000Z"
    assert spec["renewTime"] == "1970-01-12T13:47:38.000000Z"
    assert spec["leaseTransitions"] == 0
    keep.cancel()


@pytest.mark.parametrize("wrong_by", [-3600.0, 3600.0])
async def test_a_dead_holder_is_waited_for_by_the_own_clock(
    server: Server, wrong_by: float
) -> None:
    await candidate(server, "a").acquire()
    await asyncio.sleep(100)  # what was before one looked does not count
    second = candidate(server, "b", wrong_by=wrong_by)
    began = now()
    await second.acquire()

    assert 15 <= now() - began <= 15 + TIMES.retry
    assert server.holder == "b"
    assert server.lease is not None
    assert server.lease["spec"]["leaseTransitions"] == 1


async def test_a_living_holder_is_never_ousted(server: Server) -> None:
    first, second = candidate(server, "a"), candidate(server, "b", wrong_by=3600)
    await first.acquire()
    keep = asyncio.ensure_future(first.keep())
    other = asyncio.ensure_future(second.acquire())
    await asyncio.sleep(300)

    assert not keep.done()
    assert not other.done()
    assert server.holder == "a"
    keep.cancel()
    other.cancel()


async def test_a_leader_that_cannot_renew_gives_up_before_another_may_begin(server: Server) -> None:
    first = candidate(server, "a")
    await first.acquire()
    keep = asyncio.ensure_future(first.keep())
    await asyncio.sleep(4.5)
    server.down = True
    text = await ends(keep)

    assert text == "the lease could not be renewed in time"
    assert now() == 14  # ten seconds after the renewal at 4


async def test_a_renewal_counts_from_when_it_was_asked_for(server: Server) -> None:
    """Others saw it then; the answer may have been long on its way."""
    first = candidate(server, "a")
    await first.acquire()
    keep = asyncio.ensure_future(first.keep())
    await asyncio.sleep(1)
    server.slow = 3.0  # each of the two requests of a renewal
    await asyncio.sleep(8)
    server.down = True
    await ends(keep)

    assert now() == 15  # asked for at 5, when the answer to the first request was there


async def test_a_short_trouble_is_waited_out(server: Server) -> None:
    first = candidate(server, "a")
    await first.acquire()
    keep = asyncio.ensure_future(first.keep())
    server.down = True
    await asyncio.sleep(8)
    server.down = False
    await asyncio.sleep(60)

    assert not keep.done()
    keep.cancel()


async def test_a_leader_that_finds_another_holder_gives_up(server: Server) -> None:
    first = candidate(server, "a")
    await first.acquire()
    keep = asyncio.ensure_future(first.keep())
    assert server.lease is not None
    server.lease["spec"]["holderIdentity"] = "b"
    server.version += 1
    server.lease["metadata"]["resourceVersion"] = str(server.version)

    assert await ends(keep) == "b leads now"
    assert server.holder == "b"


async def test_what_is_let_go_is_free_at_once(server: Server) -> None:
    first, second = candidate(server, "a"), candidate(server, "b")
    await first.acquire()
    other = asyncio.ensure_future(second.acquire())
    await asyncio.sleep(5)
    await first.release()
    assert server.holder is None
    await other

    assert now() <= 5 + TIMES.retry
    assert server.holder == "b"


async def test_only_what_is_held_is_let_go(server: Server) -> None:
    await candidate(server, "a").acquire()
    await candidate(server, "b").release()

    assert server.holder == "a"


async def test_of_two_that_take_it_at_once_one_leads(server: Server) -> None:
    server.slow = 0.1
    candidates = [candidate(server, name) for name in "ab"]
    tasks = [asyncio.ensure_future(each.acquire()) for each in candidates]
    await asyncio.sleep(10)

    assert [task.done() for task in tasks].count(True) == 1
    for task in tasks:
        task.cancel()


async def test_trouble_while_waiting_is_waited_out(server: Server) -> None:
    server.down = True
    waiting = asyncio.ensure_future(candidate(server, "a").acquire())
    await asyncio.sleep(5)
    assert not waiting.done()
    server.down = False
    await waiting

    assert now() == 6


async def test_an_error_that_is_no_trouble_of_the_api_server_is_not_hidden(server: Server) -> None:
    async def broken(*_: Any, **__: Any) -> bytes:
        raise KeyError("a bug")

    server.request = broken  # type: ignore[method-assign]
    with pytest.raises(KeyError):
        await candidate(server, "a").acquire()
