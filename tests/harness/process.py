"""Child processes that can be stopped, killed and restarted, and that never outlive us."""

import atexit
import fcntl
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Self
from weakref import WeakSet

from tests.harness.warm import WarmProcess, WarmStarter, can_start

_LAUNCHER = Path(__file__).parent / "die_with_parent.py"
_TERMINATION_SECONDS = 10.0

_started: "WeakSet[Component]" = WeakSet()
_starter: WarmStarter | None = None


@contextmanager
def warm_starts() -> Iterator[None]:
    """Start our own commands without their imports, as `warm` says, within the block."""
    global _starter  # one for each process
    starter = _starter = WarmStarter()
    yield
    _starter = None
    starter.close()


def run_command(*words: object, timeout: float = 120) -> subprocess.CompletedProcess[str]:
    """Run `gang-extender` with these words, and return what it said once it has ended."""
    argv = [sys.executable, "-m", "gang_tools", *map(str, words)]
    if _starter is None or not can_start(argv, {}):
        return subprocess.run(argv, capture_output=True, text=True, timeout=timeout, check=False)
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
        process = _starter.start(argv, _environment(), out.fileno(), errors.fileno())
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise
        out.seek(0)
        errors.seek(0)
        return subprocess.CompletedProcess(argv, code, out.read(), errors.read())


class Component:
    """One program of the control plane, or one of ours, with a log file of its own.

    Start it from the main thread, or from one that lives as long: on Linux the child is killed
    when the thread that started it ends.
    """

    def __init__(
        self,
        name: str,
        argv: Sequence[str | Path],
        *,
        log_path: Path,
        env: Mapping[str, str] | None = None,
        url: str = "",
    ) -> None:
        self.name = name
        self.argv = [str(argument) for argument in argv]
        self.env = dict(env or {})
        self.log_path = log_path
        self.url = url  # where it serves, if it does
        self._process: subprocess.Popen[bytes] | WarmProcess | None = None
        self.was_stopped = False  # by us; it may have ended before

    def __enter__(self) -> Self:
        if not self.running:
            self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def running(self) -> bool:
        """True from start until the process has ended, for whatever reason."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """Process id of the running child."""
        if self._process is None or not self.running:
            raise RuntimeError(f"{self.name} is not running\n{self.tail(20)}")
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """How the last run ended; None before the first run and during one."""
        return self._process.poll() if self._process else None

    def start(self) -> None:
        """Start the process; its log is continued. Returns at once, before it is ready."""
        if self.running:
            raise RuntimeError(f"{self.name} runs already")
        self.was_stopped = False
        launcher = [sys.executable, "-I", "-S", str(_LAUNCHER), str(os.getpid())]
        env = {**_environment(), **self.env}
        with self.log_path.open("ab") as log:
            if _starter is not None and can_start(self.argv, self.env):
                self._process = _starter.start(self.argv, env, log.fileno(), log.fileno())
                _started.add(self)
                return
            self._process = subprocess.Popen(
                [*launcher, *self.argv],
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                process_group=0,  # Ctrl-C in a terminal is for us; we stop our children
            )
        _started.add(self)

    def stop(self, timeout: float = _TERMINATION_SECONDS) -> None:
        """Ask the process and its children to end with SIGTERM.

        SIGKILL to all of them if the process itself has not ended after `timeout` seconds.
        """
        if self._process is not None and self.running:
            os.killpg(self._process.pid, signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout)
            self.was_stopped = True
        self.kill()

    def kill(self) -> None:
        """End the process and its children with SIGKILL, and wait for it."""
        if self._process is None or self not in _started:
            return
        if self._process.poll() is None:  # else the id may be another process's by now
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        _started.discard(self)

    def restart(self) -> None:
        """Stop and start."""
        self.stop()
        self.start()

    def wait(self, timeout: float) -> int:
        """Return the exit code, once the process has ended by itself."""
        assert self._process is not None
        return self._process.wait(timeout)

    def tail(self, lines: int = 20) -> str:
        """Return the last lines of the log."""
        if not self.log_path.exists():
            return ""
        with self.log_path.open(errors="replace") as log:
            return "".join(deque(log, maxlen=lines))


def _environment() -> dict[str, str]:
    """Return our environment, in which bytecode is written: without it a start takes twice as long.

    Some environments forbid it.
    """
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


@atexit.register
def _kill_all() -> None:
    for component in list(_started):
        component.kill()


_reservations: list[IO[str]] = []


def free_port() -> int:
    """Return a TCP port on 127.0.0.1 that no other caller gets while this process lives.

    Taken from below the range of outgoing connections (32768 on Linux): a port must still be
    free when a component that was killed comes back to it.
    """
    folder = Path(tempfile.gettempdir()) / f"gang-extender-ports-{os.getuid()}"
    folder.mkdir(exist_ok=True)
    choices = random.SystemRandom()  # tests seed the ordinary one
    while True:
        port = choices.randrange(15000, 32000)
        reservation = (folder / str(port)).open("w")
        if _lock(reservation) and _bindable(port):
            _reservations.append(reservation)
            return port
        reservation.close()


def _lock(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _bindable(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
