"""A server that resets connections: the client survives on uvloop, which could abort the process.

The client runs in a process of its own, so that an abort is an exit code.
"""

import asyncio
import socket
import ssl
import struct
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from threading import Thread

from extender.kube.client import KubeClient
from extender.kube.credentials import Credentials, Keyring
from extender.kube.errors import ApiError
from tests.makers import LoopClock

_AT_ONCE, _EACH = 100, 40
_RESET = struct.pack("ii", 1, 0)


def reset_all(listener: socket.socket) -> None:
    """Reset each connection as soon as it is made, until the listener is closed."""
    with suppress(OSError):
        while True:
            connection, _ = listener.accept()
            with connection:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)


async def ask(port: int) -> int:
    """Return how many requests failed with the error that callers expect."""
    found = Credentials(f"https://127.0.0.1:{port}", ssl.create_default_context())

    async def read() -> Credentials:
        return found

    keyring = Keyring(found, read, clock=LoopClock())
    async with KubeClient(keyring, timeout=60.0) as client:

        async def requests() -> int:
            failed = 0
            for _ in range(_EACH):
                try:
                    await client.request("GET", "/version")
                except ApiError:
                    failed += 1
            return failed

        return sum(await asyncio.gather(*(requests() for _ in range(_AT_ONCE))))


def test_connections_that_are_reset_are_errors_and_nothing_more() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=8) as listener:
        Thread(target=reset_all, args=(listener,), daemon=True).start()
        port = listener.getsockname()[1]
        done = subprocess.run(
            [sys.executable, "-m", __name__, str(port)],
            cwd=Path(__file__).parents[3],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        listener.shutdown(socket.SHUT_RDWR)
    assert (done.returncode, done.stdout.strip()) == (0, str(_AT_ONCE * _EACH)), done.stderr


if __name__ == "__main__":
    import uvloop

    print(uvloop.run(ask(int(sys.argv[1]))))
