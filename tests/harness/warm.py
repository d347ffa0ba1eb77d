"""Starts our own commands from a process that has imported them already.

A start of `python -m gang_tools serve` spends most of its CPU in imports. `WarmStarter` keeps one
process that has done them and forks it: the child then runs the module as `python -m` would, with
its own arguments, environment and log. It becomes a child of the process that asked, so that it is
waited for, killed and dies with its parent as one that was started the common way.

The command line that the kernel shows (`/proc/PID/cmdline`) stays that of the starter.
"""

import atexit
import ctypes
import gc
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parents[2]
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36  # linux/prctl.h
_MESSAGE_BYTES = 1 << 18
_POLL_SECONDS = 0.02
_PARENT_POLL_SECONDS = 0.001

_OF_THE_INTERPRETER = "PYTHON"
"""The interpreter reads variables that begin so before it runs anything."""
_FAULT_HANDLER = "PYTHONFAULTHANDLER"

_MODULES = {"extender", "gang_tools", "tests"}
_IMPORTED = (
    "gang_tools.cli.main",
    "extender.wiring.serve",
    "extender.wiring.reconcile",
    "gang_tools.explanations",
    "gang_tools.check.cluster",
    "gang_tools.cli.explain_text",
    "gang_tools.simulate.from_cluster",
    "gang_tools.snapshot.taking",
)


def can_start(argv: Sequence[str], env: Mapping[str, str]) -> bool:
    """Return whether a command is a module of ours, in an environment of the same interpreter."""
    ours = list(argv[:2]) == [sys.executable, "-m"] and argv[2].split(".")[0] in _MODULES
    return ours and all(
        os.environ.get(name) == value
        for name, value in env.items()
        if name.startswith(_OF_THE_INTERPRETER) and name != _FAULT_HANDLER
    )


class WarmProcess:
    """A child that the starter forked, with what `Component` uses of `subprocess.Popen`."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._exit_code: int | None = None

    def poll(self) -> int | None:
        """Return the exit code, negative for a signal; None while the process runs."""
        if self._exit_code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self._exit_code = os.waitstatus_to_exitcode(status)
        return self._exit_code

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code once it has ended; TimeoutExpired after `timeout` seconds."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while (code := self.poll()) is None:
            if deadline is not None and time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
            time.sleep(_POLL_SECONDS)
        return code


class WarmStarter:
    """One process that has imported `extender`, and forks itself for each start.

    It needs Linux. It ends with the process that made it.
    """

    def __init__(self) -> None:
        # Whoever loses its parent becomes a child of this process: so the starter hands over what
        # it has forked.
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._server = subprocess.Popen(
                [sys.executable, "-m", __name__, str(theirs.fileno())],
                cwd=_ROOT,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                process_group=0,
            )
        atexit.register(self.close)

    def start(
        self, argv: Sequence[str], env: Mapping[str, str], stdout: int, stderr: int
    ) -> WarmProcess:
        """Start a command of which `can_start` is true; the files become its standard output."""
        request = {"parent": os.getpid(), "argv": list(argv[2:]), "env": dict(env)}
        request["folder"] = str(Path.cwd())
        socket.send_fds(self._socket, [json.dumps(request).encode()], [stdout, stderr])
        answer = self._socket.recv(_MESSAGE_BYTES)
        if not answer:
            raise RuntimeError("the process that starts our commands has ended")
        return WarmProcess(int(answer))

    def close(self) -> None:
        """End the starter; what it has started runs on."""
        self._socket.close()
        self._server.wait()
        atexit.unregister(self.close)


def _serve(connection: socket.socket) -> dict[str, Any] | None:
    """Fork for each request. Return it in the child; None in the starter when nobody asks."""
    while True:
        message, files, _, _ = socket.recv_fds(connection, _MESSAGE_BYTES, 2)
        if not message:
            return None
        started, starting = os.pipe()
        between = os.fork()
        if between == 0:
            if os.fork():
                os._exit(0)  # the child has no parent then, and becomes the asker's
            connection.close()
            os.close(started)
            request: dict[str, Any] = json.loads(message)
            _become(request, files)
            os.write(starting, str(os.getpid()).encode())
            os.close(starting)
            return request
        os.close(starting)
        os.waitpid(between, 0)
        connection.send(os.read(started, 64))
        for file in (started, *files):
            os.close(file)


def _become(request: dict[str, Any], files: list[int]) -> None:
    """Take the parent, the process group, the folder, the environment and the files."""
    os.setpgid(0, 0)
    parent = request["parent"]
    while os.getppid() != parent:
        if os.getppid() == 1:
            os._exit(1)
        time.sleep(_PARENT_POLL_SECONDS)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)
    for file, own in zip(files, (1, 2), strict=True):
        os.dup2(file, own)
        os.close(file)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["env"])


def _run(request: dict[str, Any]) -> None:
    """Run the module as `python -m` does."""
    if _FAULT_HANDLER in os.environ:
        import faulthandler

        faulthandler.enable()
    module, *arguments = request["argv"]
    sys.argv = [module, *arguments]
    time.tzset()
    gc.enable()
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    for _name in _IMPORTED:
        import_module(_name)
    gc.disable()
    gc.collect()
    gc.freeze()
    if _request := _serve(socket.socket(fileno=int(sys.argv[1]))):
        _run(_request)
