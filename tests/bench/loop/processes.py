"""The stand-in and the process under test, driven from outside of both."""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import httpx
import yaml
from typing_extensions import override

from tests.harness.process import free_port
from tests.harness.started import Started

_LOOK_SECONDS: Final = 0.5
_QUIET_LOOKS: Final = 20
"""In a row: what a process does every now and then is met by few of them."""
_QUIET_SECONDS: Final = 2.0
_READY_SECONDS: Final = 600.0


class Processes(Started):
    """Both processes; use as a context manager."""

    def __init__(
        self, name: str, stage: str, sizes: tuple[int, int], settings: Mapping[str, Any]
    ) -> None:
        super().__init__()
        self._name = name
        self._stage = [stage, *map(str, sizes)]
        self._settings = settings

    @override
    def _start(self) -> None:
        folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory()))
        self._stand_in = self._spawn(folder, "tests.bench.loop.stand_in", *self._stage)
        assert self._stand_in.stdout is not None
        self._api = f"http://127.0.0.1:{int(self._stand_in.stdout.readline())}"
        kubeconfig, config = folder / "kubeconfig", folder / "config.yaml"
        kubeconfig.write_text(yaml.safe_dump(_kubeconfig(self._api)))
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        section = "listen" if self._name == "serve" else "reconcile"
        given = {**self._settings, section: {**self._settings.get(section, {}), "port": port}}
        config.write_text(yaml.safe_dump({"log": {"level": "warning"}, **given}))
        self._process = self._spawn(folder, *self._command(str(kubeconfig), str(config), port))
        self._http = self._stack.enter_context(
            httpx.Client(trust_env=False, timeout=_READY_SECONDS)
        )

    def _command(self, kubeconfig: str, config: str, port: int) -> list[str]:
        """Return the module of the process under test, and its arguments."""
        del port  # the settings have it
        return ["tests.bench.loop.measured", self._name, kubeconfig, config]

    def _spawn(self, folder: Path, module: str, *args: str) -> "subprocess.Popen[bytes]":
        errors = self._stack.enter_context((folder / f"{module}.log").open("wb"))
        process = subprocess.Popen(
            [sys.executable, "-m", module, *args],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
        )
        self._stack.callback(_end, process)
        self._log = folder / f"{module}.log"
        return process

    def take(self) -> dict[str, Any]:
        """Return what was measured since the last call."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(b"\n")
            self._process.stdin.flush()
            found: dict[str, Any] = json.loads(self._process.stdout.readline())
        except (BrokenPipeError, ValueError):
            raise RuntimeError(f"the process ended:\n{self._log.read_text()[-4000:]}") from None
        return found

    def bench(self, do: str, **more: Any) -> Any:
        """Have something happen in the stand-in."""
        return self._http.post(f"{self._api}/bench", json={"do": do, **more}).json()

    def get(self, path: str) -> int:
        """Return the status of an answer of the process."""
        return self._http.get(f"{self.url}{path}").status_code

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """Return the answer of the process."""
        return self._http.post(f"{self.url}{path}", json=body).json()

    def begin(self) -> None:
        """Have it list for the first time, once it serves; what was before is not measured."""
        self.wait_until("it serves", lambda: self.get("/livez") == httpx.codes.OK)
        self.take()
        self.bench("begin")

    def wait_ready(self) -> None:
        """Return when it has seen everything."""
        self.wait_until("it is ready", lambda: self.get("/readyz") == httpx.codes.OK)

    def wait_until(self, what: str, holds: Callable[[], bool]) -> None:
        """Return when something holds; RuntimeError when that takes minutes, or it ended."""
        until = time.monotonic() + _READY_SECONDS
        while True:
            try:
                if holds():
                    return
            except httpx.TransportError:
                pass
            if self._process.poll() is not None:
                raise RuntimeError(f"the process ended:\n{self._log.read_text()[-4000:]}")
            if time.monotonic() > until:
                raise RuntimeError(f"not in time: {what}\n{self._log.read_text()[-4000:]}")
            time.sleep(_LOOK_SECONDS)

    def wait_quiet(self, at_most: float) -> None:
        """Return when neither process works any more, or after so many seconds.

        A process that has work and no processor does not count as quiet.
        """
        until, quiet = time.monotonic() + at_most, 0
        while quiet < _QUIET_LOOKS and time.monotonic() < until:
            time.sleep(_QUIET_SECONDS / _QUIET_LOOKS)
            quiet = 0 if self._is_busy() else quiet + 1

    def _is_busy(self) -> bool:
        return any(_is_running(each.pid) for each in (self._process, self._stand_in))


def _is_running(pid: int) -> bool:
    """Return whether a process has, or waits for, a processor."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "R"


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Both end when their input does."""
    assert process.stdin is not None
    process.stdin.close()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    assert process.stdout is not None
    process.stdout.close()


def _kubeconfig(url: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "bench",
        "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": "bench"}}],
        "clusters": [{"name": "bench", "cluster": {"server": url}}],
        "users": [{"name": "bench", "user": {"token": "none"}}],
    }
