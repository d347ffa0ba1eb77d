"""What is concluded about native gangs while their PodGroups cannot be read."""

import asyncio
import json
from typing import Any

import pytest

from extender.config.settings import Settings
from extender.kube.decode import Decoder
from extender.kube.errors import ApiError, ForbiddenError, NotFoundError, UnavailableError
from extender.runtime.clock import Pacer, SystemClock
from extender.state.cluster import events as ev
from extender.state.cluster.store import Cluster
from extender.wiring.process import Watches
from extender.wiring.reflectors import LIVE_PODS, NATIVE_GROUPS, reflectors
from extender.wiring.serve import Extender

pytestmark = pytest.mark.looptime

NO, GONE = ForbiddenError("403", status=403), NotFoundError("404", status=404)
BROKEN = UnavailableError("500", status=500)


class Server:
    """Answers what is asked about native PodGroups with an error, or has none of them."""

    def __init__(self, error: ApiError | None) -> None:
        self.error = error

    async def request(self, _: str, path: str, **__: object) -> bytes:
        if self.error is not None:
            raise self.error
        if path.partition("?")[0].endswith("podgroups"):
            return b'{"metadata": {"resourceVersion": "5"}, "items": []}'
        return json.dumps({"resources": [{"name": "podgroups"}]}).encode()

    def stream(self, path: str, *, idle_seconds: float) -> Any:
        raise UnavailableError(f"{path} {idle_seconds}")


class Bench:
    def __init__(self, error: ApiError | None) -> None:
        self.server, self.cluster = Server(error), Cluster()
        client: Any = self.server
        found = reflectors(client, self.cluster, Decoder(), pods=LIVE_PODS)
        (self.reflector,) = (each for each in found if each.kind == NATIVE_GROUPS)
        self.watches = Watches(found, stale_seconds=180)
        for each in found:
            if each is not self.reflector:
                each.first_list.set()

    def ours(self) -> bool | None:
        """Return whether native gangs are ours, as far as it is known."""
        return self.cluster.view().natives_are_ours

    async def follow(self) -> None:
        """Follow the watch for a while."""
        work = asyncio.create_task(self.reflector.run(Pacer(SystemClock())))
        await asyncio.sleep(30)
        work.cancel()
        await asyncio.wait([work])


@pytest.mark.parametrize("error", [NO, GONE])
async def test_without_the_pod_groups_native_gangs_are_not_ours(error: ApiError) -> None:
    bench = Bench(error)
    await bench.follow()
    assert bench.ours() is False
    why = bench.watches.remarks()[NATIVE_GROUPS]
    assert why == ("403" if error is NO else None)

    bench.server.error = None
    await bench.follow()

    assert bench.ours() is None
    assert bench.watches.remarks()[NATIVE_GROUPS] is None


async def test_a_setting_says_more_than_an_absence() -> None:
    bench = Bench(GONE)
    bench.cluster.apply(ev.NativesDecided(ours=True, fixed=True))
    await bench.follow()
    assert (bench.ours(), bench.reflector.synced) == (True, True)


async def test_an_api_that_is_broken_holds_nothing_else_up() -> None:
    bench = Bench(BROKEN)

    await bench.follow()

    assert (bench.watches.synced, bench.watches.stale(), bench.ours()) == (True, None, None)
    assert bench.watches.unsure_of(NATIVE_GROUPS) == NATIVE_GROUPS
    assert bench.watches.remarks() == {NATIVE_GROUPS: "not listed yet: 500"}
    assert NATIVE_GROUPS not in bench.watches.checks()


async def test_the_extender_answers_though_native_groups_were_never_listed() -> None:
    client: Any = Server(BROKEN)
    extender = Extender(Settings(), client)
    for each in extender.watches.needed:
        each.first_list.set()
    assert extender.unready()

    work = asyncio.create_task(extender._when_synced())
    await asyncio.sleep(30)

    assert (extender.unready(), {*extender.ready().values()}) == ("", {None})
    work.cancel()
    await asyncio.wait([work])
