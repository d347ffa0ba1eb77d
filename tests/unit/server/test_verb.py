"""A verb may pause before it answers."""

from collections.abc import Callable

import httpx
import pytest

from extender.permit.hold import Gone
from extender.server.app import Verb
from extender.telemetry.metrics import Metrics

SECONDS = 5.0
COUNTED = "gang_extender_request_duration_seconds_sum"


class Paused:
    """A verb that answers its body, and that is held back for five seconds, so it says."""

    def __init__(self) -> None:
        self.why = ""
        self.metrics = Metrics()
        self.verb = Verb(
            *("filter", self._answer),
            metrics=self.metrics,
            unready=lambda: self.why,
            max_body_bytes=100,
            pause=self._pause,
        )
        self.then: Callable[[], None] = lambda: None

    async def _answer(self, body: bytes, _: Gone) -> bytes:
        return body

    async def _pause(self, body: bytes, gone: Gone) -> float:
        assert body == b"a request"
        self.then()
        return SECONDS

    async def ask(self) -> bytes:
        transport = httpx.ASGITransport(self.verb)
        async with httpx.AsyncClient(transport=transport, base_url="http://extender") as http:
            return (await http.post("/filter", content=b"a request")).content


async def test_what_a_request_is_held_does_not_count_as_time_to_answer_it() -> None:
    paused = Paused()

    assert await paused.ask() == b"a request"
    counted = paused.metrics.registry.get_sample_value(COUNTED, {"verb": "filter"})
    assert counted == pytest.approx(-SECONDS, abs=SECONDS / 2)


async def test_what_ends_while_a_request_is_held_is_not_answered() -> None:
    paused = Paused()
    paused.then = lambda: setattr(paused, "why", "it is shutting down")

    assert await paused.ask() == b'{"Error": "filter: it is shutting down"}'
