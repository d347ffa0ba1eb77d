"""One measured run: the three processes, the gangs, and what that took."""

import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx
import msgspec
import psutil
import yaml
from typing_extensions import override

from tests.bench.extender import api_server, scheduler
from tests.bench.extender.scene import Scene
from tests.bench.meter import Meter
from tests.bench.progress import Progress
from tests.bench.scheduled import LONG_QUIET_SECONDS, MOST_LATE_SECONDS, QUIET_SECONDS
from tests.harness.certificates import Authority
from tests.harness.kubeconfig import Kubeconfig
from tests.harness.process import Component, free_port
from tests.harness.started import Started, is_ready

EXTENDER: Final = "extender"
SCHEDULER: Final = "kube-scheduler's stand-in"
API_SERVER: Final = "API server's stand-in"
_POLL_SECONDS: Final = 0.2
_QUIET_LOOKS: Final = 10
"""In a row: the extender has read what there is when it wants no processor so many times."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """When a run is ended that is not at its end, in seconds."""

    ready: float = 600.0
    run: float = 300.0
    stall: float = 60.0
    """Without one more pod that has a node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What one run gave; times in seconds."""

    scene: Scene
    repeat: int
    bound: int
    seconds: float
    """From the first filter to the last binding."""
    cpu: Mapping[str, float]
    """By process, from when the first gang came to the last binding; of the stand-in for
    kube-scheduler from the first filter."""
    late_cpu: float
    """The extender's, to the last Event."""
    events: Mapping[str, int]
    """By who wrote them, and why."""
    unannounced: int
    """Pods with a node and without an Event Scheduled."""
    peak_mib: float
    """Of the extender, from its start."""
    counts: Mapping[str, float]
    """Those of the stand-in for kube-scheduler, none where it did not come to its end."""
    writes: Mapping[str, int]
    partial_peak: int
    """Gangs that had some members on nodes and not all, at most at one moment."""
    faults: Sequence[str]

    @property
    def pods_per_second(self) -> float | None:
        """Pods that got a node."""
        return self.bound / self.seconds if self.seconds > 0 else None

    def cpu_milliseconds(self, process: str) -> float | None:
        """Return the CPU of a process for each pod."""
        return 1000 * self.cpu[process] / self.bound if self.bound else None

    @property
    def late_milliseconds(self) -> float | None:
        """The extender's CPU for each pod, until the last Event was written."""
        return 1000 * self.late_cpu / self.bound if self.bound else None

    def events_of(self, what: str) -> float | None:
        """Return how many of these Events there are for each pod."""
        return self.events.get(what, 0) / self.bound if self.bound else None

    @property
    def alone(self) -> float | None:
        """Pods that would get a node each second if the extender had a processor for itself."""
        milliseconds = self.cpu_milliseconds(EXTENDER)
        return 1000 / milliseconds if milliseconds else None

    def a_pod(self, count: str) -> float | None:
        """Return how often kube-scheduler's stand-in did something, for each pod."""
        return self.counts[count] / self.bound if self.bound and count in self.counts else None

    @property
    def busy(self) -> float | None:
        """How much of a processor the extender used from the first filter on, roughly."""
        return self.cpu[EXTENDER] / self.seconds if self.seconds > 0 else None

    @property
    def other_writes(self) -> float | None:
        """Writes beside bindings, for each pod."""
        others = sum(count for what, count in self.writes.items() if what != "bindings")
        return others / self.bound if self.bound else None


class Processes(Started):
    """The extender and its stand-ins; use as a context manager."""

    def __init__(
        self,
        scene: Scene,
        meter: Meter,
        *,
        settings: Mapping[str, Any],
        lag: float,
        seconds: float,
    ) -> None:
        super().__init__()
        self._lag = lag
        self._scene, self._meter = scene, meter
        self._settings, self._seconds = settings, seconds

    @override
    def _start(self) -> None:
        self._folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory()))
        authority = Authority(self._folder / "pki")
        pair = authority.serving("api-server")
        port, tls_port, self._port = free_port(), free_port(), free_port()
        self._api_port = port
        arguments = api_server.Arguments(
            scene=self._scene,
            tls_port=tls_port,
            port=port,
            certificate=str(pair.certificate),
            key=str(pair.key),
        )
        self._http = self._stack.enter_context(
            httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=30.0)
        )
        server = self._spawn(API_SERVER, _stand_in(api_server.__name__, arguments))
        self._wait("the API server's stand-in serves", server, self._serves)
        kubeconfig = Kubeconfig(f"https://127.0.0.1:{tls_port}", authority.ca, token="none").write(
            self._folder / "kubeconfig", user="bench"
        )
        config = self._folder / "config.yaml"
        config.write_text(yaml.safe_dump(dict(self._settings)))
        self.extender = self._spawn(
            EXTENDER,
            [
                *(sys.executable, "-m", "extender", "serve", "--kubeconfig", kubeconfig),
                *("--config", config, "--port", str(self._port)),
            ],
        )

    def _spawn(self, name: str, argv: Sequence[str | Path]) -> Component:
        log = self._folder / f"{name.replace(' ', '-')}.log"
        component = self._stack.enter_context(Component(name, argv, log_path=log))
        self._meter.add(name, component.pid)
        return component

    def wait_ready(self) -> None:
        """Return when the extender has seen everything."""
        url = f"http://127.0.0.1:{self._port}"
        self._wait("the extender is ready", self.extender, lambda: is_ready(self.extender, url))

    def begin(self) -> None:
        """Have the first gangs come; return when the extender has read them."""
        self._http.post("/bench/begin")
        process, quiet = psutil.Process(self.extender.pid), 0

        def rests() -> bool:
            nonlocal quiet
            quiet = 0 if process.status() == psutil.STATUS_RUNNING else quiet + 1
            return quiet >= _QUIET_LOOKS

        self._wait("the extender has read the first gangs", self.extender, rests)

    def schedule(self) -> Component:
        """Start the stand-in for kube-scheduler, and return it."""
        arguments = scheduler.Arguments(
            scene=self._scene, extender_port=self._port, api_port=self._api_port, lag=self._lag
        )
        return self._spawn(SCHEDULER, _stand_in(scheduler.__name__, arguments))

    def state(self) -> dict[str, Any]:
        """Return what the stand-in for the API server says of the run."""
        found: dict[str, Any] = self._http.get("/bench/state").json()
        return found

    def _serves(self) -> bool:
        try:
            return bool(self.state())
        except httpx.TransportError:
            return False

    def _wait(self, what: str, process: Component, holds: Callable[[], bool]) -> None:
        """Return when something holds; RuntimeError where it takes too long, or it ended."""
        until = time.monotonic() + self._seconds
        while not holds():
            if not process.running or time.monotonic() > until:
                raise RuntimeError(f"not in time: {what}\n{process.tail(40)}")
            time.sleep(_POLL_SECONDS)


def _stand_in(module: str, arguments: api_server.Arguments | scheduler.Arguments) -> list[str]:
    return [sys.executable, "-m", module, msgspec.json.encode(arguments).decode()]


def measure(
    scene: Scene,
    *,
    repeat: int,
    settings: Mapping[str, Any],
    limits: Limits,
    progress: Progress,
    lag: float = 0.0,
) -> Result:
    """Return what a run of the scene gave; kube-scheduler's stand-in is so many seconds late."""
    meter = Meter()
    progress.title = f"{scene.nodes} nodes, run {repeat}"
    with (
        meter,
        Processes(scene, meter, settings=settings, lag=lag, seconds=limits.ready) as processes,
    ):
        progress.say(f"{progress.title}: the extender reads {scene.running} pods")
        processes.wait_ready()
        processes.begin()
        ended = _follow(processes, scene, limits, progress)
        state = _await_events(processes)
    counts = state["scheduler"] or {}
    last = state["last_bound"]
    first = counts.get("first_filter", last)
    cpu = meter.cpu_seconds(state["began"], last)
    cpu[SCHEDULER] = meter.cpu_seconds(first, last)[SCHEDULER]
    return Result(
        scene=scene,
        repeat=repeat,
        bound=state["bound"],
        seconds=last - first,
        cpu=cpu,
        late_cpu=meter.cpu_seconds(state["began"], max(last, state["last_event"]))[EXTENDER],
        events=state["events"],
        unannounced=state["unannounced"],
        peak_mib=meter.peak_mib()[EXTENDER],
        counts=counts,
        writes=state["writes"],
        partial_peak=state["partial_peak"],
        faults=[f"{progress.title}: {fault}" for fault in (*ended, *state["faults"])],
    )


def _await_events(processes: Processes) -> dict[str, Any]:
    """Return the state once no more Events come."""
    until = time.monotonic() + MOST_LATE_SECONDS
    while True:
        time.sleep(_POLL_SECONDS)
        state = processes.state()
        now, last = time.monotonic(), max(state["last_bound"], state["last_event"])
        quiet = LONG_QUIET_SECONDS if state["unannounced"] else QUIET_SECONDS
        if now - last > quiet or now > until:
            return state


def _follow(
    processes: Processes, scene: Scene, limits: Limits, progress: Progress
) -> Sequence[str]:
    """Return when kube-scheduler's stand-in is at its end; why, where it did not come to it."""
    scheduling = processes.schedule()
    began = changed = time.monotonic()
    before, trouble = 0, ""
    while scheduling.running and not trouble:
        time.sleep(_POLL_SECONDS)
        now, bound = time.monotonic(), processes.state()["bound"]
        if bound > before:
            before, changed = bound, now
        progress(f"{bound} of {scene.pods} pods have a node, {now - began:.0f} s")
        if now - changed > limits.stall:
            trouble = f"no pod got a node for {limits.stall:g} s"
        elif now - began > limits.run:
            trouble = f"it took more than {limits.run:g} s"
    if not trouble and not scheduling.exit_code:
        return []
    logs = "".join(each.tail(10) for each in (processes.extender, scheduling))
    return [f"{trouble or f'{SCHEDULER} failed'}\n{logs}"]
