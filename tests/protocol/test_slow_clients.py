"""Clients that send little by little, or not at all, beside a kube-scheduler that asks."""

import contextlib
import json
import select
import socket
import threading
import time

import httpx
import pytest

from extender.server.connections import Limits
from tests.protocol.served import served
from tests.protocol.service import Service, recorded

pytestmark = pytest.mark.timeout(300)

LIMITS = Limits(read_seconds=2, connections=40)
HEAD = b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n"
REQUESTS = {
    "nothing": b"",
    "a byte of the request line at a time": HEAD,
    "a byte of the body at a time": HEAD + b" " * 1000,
    "half a request": HEAD + b"{",
}


def is_cut(client: socket.socket) -> bool:
    """Return whether the server has closed a connection; within milliseconds."""
    readable, _, _ = select.select([client], [], [], 0.02)
    if not readable:
        return False
    try:
        return client.recv(1000) == b""
    except ConnectionError:
        return True


def trickle(address: tuple[str, int], data: bytes, *, at_once: int, cut: threading.Event) -> None:
    """Send the first bytes at once and the others one by one; set the event when it is cut off."""
    pieces = [data[:at_once], *(data[at : at + 1] for at in range(at_once, len(data)))]
    with contextlib.suppress(ConnectionError), socket.create_connection(address) as client:
        for piece in pieces:
            client.sendall(piece)
            if is_cut(client):
                break
        while not is_cut(client):
            pass
    cut.set()


@pytest.mark.parametrize("what", REQUESTS)
def test_slow_clients_are_cut_and_kube_scheduler_is_answered_meanwhile(what: str) -> None:
    """More of them come at one time than there may be connections."""
    data = REQUESTS[what]
    at_once = len(HEAD) + 1 if "body" in what or "half" in what else 0
    filter_ = json.dumps(recorded("names", "filter"))
    with served(lambda: Service().app, LIMITS) as url:
        host, port = url.removeprefix("http://").split(":")
        cuts = [threading.Event() for _ in range(2 * LIMITS.connections)]
        with httpx.Client(base_url=url, trust_env=False, timeout=60) as client:
            assert client.post("/filter", content=filter_).json()["Error"] == ""
            threads = [
                threading.Thread(
                    target=trickle,
                    args=((host, int(port)), data),
                    kwargs={"at_once": at_once, "cut": cut},
                )
                for cut in cuts
            ]
            for thread in threads:
                thread.start()
            answered = 0
            deadline = time.monotonic() + 120
            while not all(cut.is_set() for cut in cuts):
                assert time.monotonic() < deadline, "they are not cut off"
                assert client.post("/filter", content=filter_).json()["Error"] == ""
                answered += 1
            for thread in threads:
                thread.join(60)
            assert client.get("/livez").status_code == 200
    assert answered > 0


def test_a_client_that_shuts_its_side_down_has_hung_up() -> None:
    """A half-closed connection is none to hold a bind for."""
    with served(lambda: Service().app) as url:
        host, port = url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=60) as client:
            client.sendall(HEAD)
            client.shutdown(socket.SHUT_WR)
            assert client.recv(1000) == b""
