"""`python -m tests.bench.loop.stand_in STAGE SIZE SIZE`: lists, watches and writes, nothing else.

It stands in for an API server where its load is not the question: objects are made when they are
asked for, a watch shows what the benchmark says, and a write is merged and shown. The first line on
standard output is its port. `POST /bench` takes what is to happen.
"""

import asyncio
import json
import sys
from collections.abc import Sequence
from typing import Any

from aiohttp import web

from tests.bench.loop.stage import STAGES, Collection

_GONE = 410
_BOOKMARK_SECONDS = 30.0
"""Less than the silence after which a client takes a watch for broken."""
_EMPTY = b'{"metadata":{"resourceVersion":"1"},"items":[]}'


class StandIn:
    """The objects of one stage, over HTTP."""

    def __init__(self, collections: dict[str, Collection]) -> None:
        self._collections = collections
        self._version = 1
        self._watches: dict[asyncio.Queue[bytes | None], str] = {}
        self._begun = asyncio.Event()
        """Nothing is listed before: how a process starts is not measured."""
        self.writes = 0

    def app(self) -> web.Application:
        """Return the application."""
        app = web.Application(client_max_size=2**26)
        app.router.add_post("/bench", self._bench)
        app.router.add_route("*", "/{path:.*}", self._answer)
        return app

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        if request.method != "GET":
            return await self._write(request)
        await self._begun.wait()
        if "watch" in request.query:
            return await self._watch(request)
        found = self._collections.get(request.path)
        if "labelSelector" in request.query:
            return _json(_EMPTY)  # objects of queues, of which there are none
        if found is None:
            of = self._named(request.path)
            if of is None:
                return _json(_EMPTY)
            return _json(of[0].raw([of[1]])[0])
        first = int(request.query.get("continue", "0"))
        limit = int(request.query.get("limit", "500"))
        after = min(first + limit, found.count)
        meta = {"resourceVersion": str(self._version)}
        if after < found.count:
            meta["continue"] = str(after)
        items = b",".join(found.raw(range(first, after)))
        return _json(b'{"metadata":%s,"items":[%s]}' % (json.dumps(meta).encode(), items))

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        lines: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._watches[lines] = "" if "labelSelector" in request.query else request.path
        try:
            while (line := await self._next(lines)) is not None:
                await response.write(line)
        finally:
            del self._watches[lines]
        return response

    async def _next(self, lines: asyncio.Queue[bytes | None]) -> bytes | None:
        """Return what a watch sends next: without changes a bookmark, as the API server does."""
        try:
            return await asyncio.wait_for(lines.get(), _BOOKMARK_SECONDS)
        except TimeoutError:
            version = {"metadata": {"resourceVersion": str(self._version)}}
            return json.dumps({"type": "BOOKMARK", "object": version}).encode() + b"\n"

    def _named(self, path: str) -> tuple[Collection, int, str] | None:
        """Return where the object of a path is, and the path of its resource."""
        parts = path.removesuffix("/status").split("/")
        namespace = ""
        if "namespaces" in parts[:-2]:
            at = parts.index("namespaces")
            namespace = parts[at + 1]
            parts = parts[:at] + parts[at + 2 :]
        of = "/".join(parts[:-1])
        found = self._collections.get(of)
        number = found.find(namespace, parts[-1]) if found else None
        return None if found is None or number is None else (found, number, of)

    async def _write(self, request: web.Request) -> web.Response:
        """Merge a change into an object and show it; what is not known is answered as it came."""
        self.writes += 1
        body = json.loads(await request.read() or b"{}")
        named = self._named(request.path)
        if named is None:
            known = {"resourceVersion": str(self._version), "uid": "new"}
            return _json(
                json.dumps({**body, "metadata": known | body.get("metadata", {})}).encode()
            )
        found, number, path = named
        stored = found.object(number)
        for part in ("metadata", "spec", "status"):
            if part in body:
                change = {k: v for k, v in body[part].items() if k != "resourceVersion"}
                stored[part] = {**stored.get(part, {}), **change}
        found.stored[number] = stored
        raw = self._changed(path, found, number)
        self._show(path, [b'{"type":"MODIFIED","object":%s}\n' % raw])
        return _json(raw)

    def _changed(self, path: str, found: Collection, number: int) -> bytes:
        self._version += 1
        found.versions[number] = self._version
        return found.raw([number])[0]

    def _show(self, path: str, lines: Sequence[bytes]) -> None:
        for queue, watched in self._watches.items():
            if watched == path:
                queue.put_nowait(b"".join(lines))

    async def _bench(self, request: web.Request) -> web.Response:
        asked: dict[str, Any] = await request.json()
        done = getattr(self, f"do_{asked.pop('do')}")(**asked)
        return web.json_response(done)

    # -- what the benchmark asks for

    def do_begin(self) -> None:
        """Answer from now on."""
        self._begun.set()

    def do_open(self) -> dict[str, int]:
        """Return how many watches there are, and how much was written."""
        return {"watches": len(self._watches), "writes": self.writes}

    def do_expire(self, path: str = "") -> None:
        """End watches in a way that has their objects listed anew."""
        error = {"type": "ERROR", "object": {"kind": "Status", "code": _GONE, "message": "old"}}
        for queue, watched in self._watches.items():
            if not path or path == watched:
                queue.put_nowait(json.dumps(error).encode() + b"\n")
                queue.put_nowait(None)

    def do_vary(self, path: str, first: int, count: int, step: int, variant: int) -> None:
        """Have objects be others, which no watch shows."""
        found = self._collections[path]
        for number in range(first, first + count * step, step):
            self._version += 1
            found.variants[number] = variant
            found.versions[number] = self._version

    def do_send(self, path: str, first: int, count: int, variant: int) -> None:
        """Have objects be others, and show it."""
        found = self._collections[path]
        lines = []
        for number in range(first, first + count):
            found.variants[number] = variant
            found.stored.pop(number, None)
            raw = self._changed(path, found, number)
            lines.append(b'{"type":"MODIFIED","object":%s}\n' % raw)
        self._show(path, lines)

    def do_delete(self, path: str, first: int, count: int) -> None:
        """Have objects be gone, and show it."""
        found = self._collections[path]
        lines = [
            b'{"type":"DELETED","object":%s}\n' % self._changed(path, found, number)
            for number in range(first, first + count)
        ]
        found.gone.update(range(first, first + count))
        self._show(path, lines)

    def do_object(self, path: str, number: int) -> Any:
        """Return an object."""
        return self._collections[path].object(number)


def _json(body: bytes) -> web.Response:
    return web.Response(body=body, content_type="application/json")


async def main(stage: str, sizes: Sequence[int]) -> None:
    """Serve until the input ends."""
    stand_in = StandIn(STAGES[stage](*sizes))
    runner = web.AppRunner(stand_in.app(), access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = site._server.sockets[0].getsockname()[1]  # type: ignore[union-attr]
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.read)
    await runner.cleanup()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], [int(size) for size in sys.argv[2:]]))
