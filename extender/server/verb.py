"""One verb as an ASGI application: raw body in, raw answer out.

kube-scheduler drops the text of any status but 200, so each problem is in the field `Error`. But
the answer of preempt has no such field: without one its 503 is what says that nothing was decided.
"""

import json
import time
from collections.abc import Awaitable, Callable

import structlog
from starlette.types import Message, Receive, Scope, Send

from extender.api.extender_v1 import error_text
from extender.permit.waiting_pods import Gone
from extender.runtime.faults import FAULTS
from extender.telemetry.metrics import Metrics

_log = structlog.get_logger(__name__)

Answer = Callable[[bytes, Gone], Awaitable[bytes]]
"""Takes a body and a way to wait for the client to hang up; ValueError for what it cannot read."""
Pause = Callable[[bytes, Gone], Awaitable[float]]
"""Takes the same, and returns when the request may be answered, with the seconds that this took."""


class BodyTooLargeError(ValueError):
    """The request is larger than the configured limit."""


class Verb:
    """Reads, answers and measures one verb."""

    def __init__(
        self,
        name: str,
        answer: Answer,
        *,
        metrics: Metrics,
        unready: Callable[[], str],
        max_body_bytes: int,
        pause: Pause | None = None,
    ) -> None:
        """`unready` returns why the verb answers with an Error now, or nothing."""
        self.name = name
        self._answer = answer
        self._unready = unready
        self._unready_status = 503 if name == "preempt" else 200
        self._max_body_bytes = max_body_bytes
        self._pause = pause
        self._seconds = metrics.request_seconds.labels(name)
        self._errors = metrics.decisions.labels(name, "Error")
        # Bind is mostly waiting, and is measured where it waits.
        self._measured = name != "bind"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        began = time.perf_counter()
        content, held, status = await self._serve(scope, receive)
        await send(_start(len(content), status))
        await send({"type": "http.response.body", "body": content})
        if self._measured:
            self._seconds.observe(time.perf_counter() - began - held)

    async def _serve(self, scope: Scope, receive: Receive) -> tuple[bytes, float, int]:
        """Return the answer, for how many seconds it was held back, and its status."""
        held = 0.0
        try:
            body = await _read(scope, receive, self._max_body_bytes)
            if self._pause is not None and not self._unready():
                held = await self._pause(body, lambda: _disconnected(receive))
            if why := self._unready():
                return self._problem(why), held, self._unready_status
            return await self._answer(body, lambda: _disconnected(receive)), held, 200
        except ValueError as error:
            text = str(error)
        except RecursionError:
            text = "the request is nested too deeply"
        except Exception as error:  # noqa: BLE001 - kube-scheduler must get an answer
            FAULTS.report("verb", error, key=self.name)
            text = "internal error, see the log of gang-extender"
        return self._problem(text), held, 200

    def _problem(self, text: str) -> bytes:
        self._errors.inc()
        return json.dumps({"Error": error_text(f"{self.name}: {text}")}).encode()


def _start(length: int, status: int) -> Message:
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % length)]
    return {"type": "http.response.start", "status": status, "headers": headers}


async def _read(scope: Scope, receive: Receive, limit: int) -> bytes:
    """Return the body; raises BodyTooLargeError without keeping more than the limit."""
    for name, value in scope["headers"]:
        if name == b"content-length":
            _check(int(value), limit)
    chunks: list[bytes] = []
    size, more = 0, True
    while more:
        message = await receive()
        chunk, more = message.get("body", b""), message.get("more_body", False)
        size += len(chunk)
        if size <= limit:
            chunks.append(chunk)
    _check(size, limit)
    return b"".join(chunks)


def _check(size: int, limit: int) -> None:
    if size > limit:
        raise BodyTooLargeError(f"the body of {size} bytes is over the limit of {limit}")


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
