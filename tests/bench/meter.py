"""CPU seconds and peak memory of processes over a stretch of time, by sampling."""

import threading
import time
from bisect import bisect_left
from collections.abc import Sequence
from typing import Self

import psutil

_INTERVAL_SECONDS = 0.1
_MIB = 1024 * 1024

Sample = tuple[float, float]  # monotonic time, CPU seconds since the process began


class Meter:
    """Samples processes by name from when they are added until they end or the context does."""

    def __init__(self) -> None:
        self._processes: dict[str, psutil.Process] = {}
        self._samples: dict[str, list[Sample]] = {}
        self._peaks: dict[str, float] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="meter", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def add(self, name: str, pid: int) -> None:
        """Sample that process too."""
        self._samples[name] = []
        self._peaks[name] = 0.0
        self._processes = {**self._processes, name: psutil.Process(pid)}

    def cpu_seconds(self, start: float, end: float) -> dict[str, float]:
        """Return what each process used between two monotonic times."""
        return {name: used(samples, start, end) for name, samples in self._samples.items()}

    def peak_mib(self) -> dict[str, float]:
        """Return the largest resident set of each process."""
        return dict(self._peaks)

    def _run(self) -> None:
        while not self._stop.wait(_INTERVAL_SECONDS):
            for name, process in self._processes.items():
                self._sample(name, process)

    def _sample(self, name: str, process: psutil.Process) -> None:
        try:
            cpu, resident = process.cpu_times(), process.memory_info().rss
        except psutil.NoSuchProcess:
            return
        self._samples[name].append((time.monotonic(), cpu.user + cpu.system))
        self._peaks[name] = max(self._peaks[name], resident / _MIB)


def used(samples: Sequence[Sample], start: float, end: float) -> float:
    """Return the growth of a counter between two times, interpolated between its samples."""
    return _at(samples, end) - _at(samples, start) if samples else 0.0


def _at(samples: Sequence[Sample], time: float) -> float:
    after = bisect_left(samples, time, key=lambda sample: sample[0])
    if after == 0:
        return samples[0][1]
    if after == len(samples):
        return samples[-1][1]
    (left, low), (right, high) = samples[after - 1 : after + 1]
    return low + (high - low) * (time - left) / (right - left)
