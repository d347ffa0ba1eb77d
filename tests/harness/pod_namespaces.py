"""Holds the namespaces of one pod, in which containers can be started by `in_pod.py`.

    python pod_namespaces.py READY_FILE API_HOST API_PORT POD_ADDRESS [PORT]

The pod has a loopback device of its own, so two pods may listen on the same port. Its only way out
is 127.0.0.1:443, which leads to the API server: the socket is made inside, and what calls it is
connected by this process, which has stayed outside. With PORT it has a way in: a port of 127.0.0.1
outside that leads to this one of the pod. READY_FILE gets the id of the process inside, and the
port outside or 0.
"""

import asyncio
import ctypes
import fcntl
import os
import signal
import socket
import struct
import sys
from contextlib import suppress
from pathlib import Path

_NEW_USER, _NEW_NET = 0x10000000, 0x40000000  # linux/sched.h
_SET_FLAGS, _SET_ADDRESS = 0x8914, 0x8916  # linux/sockios.h
_UP_AND_RUNNING = 0x1 | 0x40
_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_CHUNK = 1 << 16

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")


def _unshare() -> None:
    """Enter new namespaces, as root of a user namespace."""
    user, group = os.getuid(), os.getgid()
    _check(_libc.unshare(_NEW_USER | _NEW_NET), "unshare")
    own = Path("/proc/self")
    (own / "setgroups").write_text("deny")
    (own / "uid_map").write_text(f"0 {user} 1")
    (own / "gid_map").write_text(f"0 {group} 1")


def _bring_up(address: str) -> None:
    """Bring the loopback device up, with the pod's own address beside 127.0.0.1."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as device:
        flags = struct.pack("16sH14x", b"lo", _UP_AND_RUNNING)
        fcntl.ioctl(device, _SET_FLAGS, flags)
        packed = struct.pack("16sHH4s8x", b"lo:1", socket.AF_INET, 0, socket.inet_aton(address))
        fcntl.ioctl(device, _SET_ADDRESS, packed)


def _inside(
    outside: socket.socket, parent: int, address: str, way_in: socket.socket | None, port: int
) -> None:
    _unshare()
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit("the parent died")
    _bring_up(address)
    with socket.create_server(("127.0.0.1", 443)) as server:
        socket.send_fds(outside, [b"."], [server.fileno()])
    if way_in is not None:
        asyncio.run(_relay(way_in, address, port))
    signal.pause()


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(_CHUNK):
            writer.write(data)
            await writer.drain()
    writer.close()


async def _relay(server: socket.socket, host: str, port: int) -> None:
    async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, back = await asyncio.open_connection(host, port)
        except OSError:
            writer.close()
            return
        await asyncio.gather(_pipe(reader, back), _pipe(there, writer))

    async with await asyncio.start_server(connect, sock=server) as relay:
        await relay.serve_forever()


def main(*arguments: str) -> None:
    """Hold the namespaces until the end."""
    ready, host, port, address, *served = arguments
    parent = os.getpid()
    ours, theirs = socket.socketpair()
    way_in = socket.create_server(("127.0.0.1", 0)) if served else None
    child = os.fork()
    if child == 0:
        ours.close()
        _inside(theirs, parent, address, way_in, int(served[0]) if served else 0)
        return
    theirs.close()
    outside = 0
    if way_in is not None:
        outside = way_in.getsockname()[1]
        way_in.close()
    data, handles, *_ = socket.recv_fds(ours, 1, 1)
    if not data:
        sys.exit("the namespaces could not be made")
    part = Path(f"{ready}.part")
    part.write_text(f"{child} {outside}")
    part.rename(ready)
    asyncio.run(_relay(socket.socket(fileno=handles[0]), host, int(port)))


if __name__ == "__main__":
    main(*sys.argv[1:])
