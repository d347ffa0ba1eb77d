"""The extender alone, by the number of nodes: the three processes, the gangs, what that took."""

import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

import httpx
import msgspec
import psutil
import yaml
from typing_extensions import override

from tests.bench.extender import api_server, scheduler
from tests.bench.extender.scene import Scene
from tests.bench.meter import Meter
from tests.bench.series import Limits, Progress, Row, Run, Series
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
_READY_SECONDS: Final = 600.0
_QUIET_SECONDS: Final = 4.0
"""Without one more Event after which no more come: some are written late on purpose."""
_LONG_QUIET_SECONDS: Final = 15.0
"""The same where pods have none yet."""
_MOST_LATE_SECONDS: Final = 150.0
"""After so long it is waited no more, whatever comes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result(Run):
    """What one run gave; times in seconds.

    CPU is from when the first gang came to the last binding; of the stand-in for kube-scheduler
    from the first filter.
    """

    derived: ClassVar[Sequence[str]] = ("pods_per_second",)
    scene: Scene
    bound: int
    seconds: float
    """From the first filter to the last binding."""
    late_cpu: float
    """The extender's, to the last Event."""
    events: Mapping[str, int]
    """By who wrote them, and why."""
    unannounced: int
    """Pods with a node and without an Event Scheduled."""
    counts: Mapping[str, float]
    """Those of the stand-in for kube-scheduler, none where it did not come to its end."""
    writes: Mapping[str, int]
    wrong: Sequence[str]
    """What must not be, as sentences."""

    @property
    @override
    def faults(self) -> Sequence[str]:
        return self.wrong

    @property
    def pods_per_second(self) -> float | None:
        """Pods that got a node."""
        return self.bound / self.seconds if self.seconds > 0 else None

    def a_pod(self, count: float | None) -> float | None:
        """Return a count for each pod."""
        return count / self.bound if self.bound and count is not None else None

    def milliseconds(self, process: str) -> float | None:
        """Return the CPU of a process for each pod."""
        return self.a_pod(1000 * self.cpu_seconds[process])


class Bench(Series[Scene, Result]):
    """Plays scenes, each in its turn."""

    def __init__(
        self, scenes: Sequence[Scene], settings: Mapping[str, Any], limits: Limits, repeat: int
    ) -> None:
        name = "The extender alone, with stand-ins around it"
        super().__init__(name, scenes, repeat, load=scenes)
        self._settings, self._limits = settings, limits

    @override
    def measure(self, side: Scene, repeat: int) -> Result:
        return measure(
            side,
            repeat=repeat,
            settings=self._settings,
            limits=self._limits,
            progress=self.progress,
        )

    @override
    def summary(self, result: Result) -> str:
        rate, cpu = result.pods_per_second or 0.0, result.milliseconds(EXTENDER) or 0.0
        memory = result.peak_mib[EXTENDER]
        return f"{rate:.0f} pods/s, {cpu:.3f} ms of CPU a pod, {memory:.0f} MiB"

    @override
    def rows(self) -> Sequence[Row[Result]]:
        return _ROWS


def _count(name: str) -> Callable[[Result], float | None]:
    return lambda run: run.a_pod(run.counts.get(name))


def _events(what: str) -> Callable[[Result], float | None]:
    return lambda run: run.a_pod(run.events.get(what, 0))


def _cpu(process: str) -> Callable[[Result], float | None]:
    return lambda run: run.milliseconds(process)


_ROWS: Sequence[Row[Result]] = (
    Row("running pods", lambda run: run.scene.running),
    Row("pods that came", lambda run: run.scene.pods),
    Row("pods with a node", lambda run: run.bound),
    Row("pods/s, first filter to last binding", lambda run: run.pods_per_second),
    Row("filter calls a pod", _count("filters"), "{:.2f}"),
    Row("of them refused", _count("refused"), "{:.2f}"),
    Row("prioritize calls a pod", _count("prioritizes"), "{:.2f}"),
    Row("bind calls a pod", _count("binds"), "{:.2f}"),
    Row("collisions", lambda run: run.counts.get("collisions")),
    Row("Events Scheduled a pod, kube-scheduler", _events("kube-scheduler: Scheduled"), "{:.2f}"),
    Row("Events Scheduled a pod, extender", _events("extender: Scheduled"), "{:.2f}"),
    Row("pods without an Event Scheduled", lambda run: run.unannounced),
    Row("peak MiB, extender", lambda run: run.peak_mib.get(EXTENDER)),
    Row(f"CPU ms a pod, {API_SERVER}", _cpu(API_SERVER), "{:.3f}"),
    Row(f"CPU ms a pod, {SCHEDULER}", _cpu(SCHEDULER), "{:.3f}"),
    Row("CPU ms a pod, extender, to the Event", lambda r: r.a_pod(1000 * r.late_cpu), "{:.3f}"),
    Row("CPU ms a pod, extender, to the Binding", _cpu(EXTENDER), "{:.3f}"),
)


class Processes(Started):
    """The extender and its stand-ins; use as a context manager."""

    def __init__(
        self,
        scene: Scene,
        meter: Meter,
        *,
        settings: Mapping[str, Any],
        seconds: float,
    ) -> None:
        super().__init__()
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
                *(sys.executable, "-m", "gang_tools", "serve", "--kubeconfig", kubeconfig),
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
            scene=self._scene, extender_port=self._port, api_port=self._api_port
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
) -> Result:
    """Return what a run of the scene gave."""
    meter = Meter()
    with (
        meter,
        Processes(scene, meter, settings=settings, seconds=_READY_SECONDS) as processes,
    ):
        progress(f"the extender reads {scene.running} pods")
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
        side=str(scene.nodes),
        title=scene.title,
        repeat=repeat,
        scene=scene,
        bound=state["bound"],
        seconds=last - first,
        cpu_seconds=cpu,
        late_cpu=meter.cpu_seconds(state["began"], max(last, state["last_event"]))[EXTENDER],
        events=state["events"],
        unannounced=state["unannounced"],
        peak_mib=meter.peak_mib(),
        counts=counts,
        writes=state["writes"],
        wrong=[*ended, *state["faults"]],
    )


def _await_events(processes: Processes) -> dict[str, Any]:
    """Return the state once no more Events come."""
    until = time.monotonic() + _MOST_LATE_SECONDS
    while True:
        time.sleep(_POLL_SECONDS)
        state = processes.state()
        now, last = time.monotonic(), max(state["last_bound"], state["last_event"])
        quiet = _LONG_QUIET_SECONDS if state["unannounced"] else _QUIET_SECONDS
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
