"""A TCP proxy that can lose answers: what was asked for is done, and no answer comes."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import Self

_CHUNK = 2**16
_HANDSHAKE = 1
"""Chunks that a TLS client sends before it can have asked for anything."""


class LossyProxy:
    """Forwards connections to an address of 127.0.0.1. Use as a context manager."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.lost = 0
        """Connections whose answers were lost."""
        self._to_lose = 0
        self._silent = False
        self._mute: list[socket.socket] = []
        self._lock = threading.Lock()
        self._open: list[socket.socket] = []

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._to_lose = 0
        for each in (self._listener, *self._open):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def lose(self, connections: int) -> None:
        """Lose what is answered on the next so many connections that something is asked on."""
        self._to_lose = connections

    @contextlib.contextmanager
    def silence(self) -> Iterator[None]:
        """Lose all answers, those of connections that were there before too; then break these."""
        self._silent = True
        yield
        with self._lock:
            self._silent = False
            _close(*self._mute)
            self._mute.clear()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                try:
                    server = socket.create_connection(("127.0.0.1", self._target))
                except OSError:
                    client.close()  # as the target has it; it may be there for the next one
                    continue
                self._open += client, server
                lost = threading.Event()
                for pump in (self._ask, self._answer):
                    args = client, server, lost
                    threading.Thread(target=pump, args=args, daemon=True).start()

    def _ask(self, client: socket.socket, server: socket.socket, lost: threading.Event) -> None:
        chunks = 0
        with contextlib.suppress(OSError):
            while data := client.recv(_CHUNK):
                chunks += 1
                if chunks > _HANDSHAKE and not lost.is_set() and self._is_to_be_lost():
                    lost.set()
                server.sendall(data)
        _close(client, server)

    def _answer(self, client: socket.socket, server: socket.socket, lost: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while data := server.recv(_CHUNK):
                if not lost.is_set() and self._silences(client):
                    lost.set()
                if not lost.is_set():
                    client.sendall(data)
        _close(client, server)

    def _silences(self, client: socket.socket) -> bool:
        with self._lock:
            if self._silent:
                self._mute.append(client)
                self.lost += 1
            return self._silent

    def _is_to_be_lost(self) -> bool:
        with self._lock:
            if self._to_lose == 0:
                return False
            self._to_lose -= 1
            self.lost += 1
            return True


def _close(*sockets: socket.socket) -> None:
    for each in sockets:
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
