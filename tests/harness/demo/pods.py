"""What the demo knows of the pods of a namespace: every change, in the order of the API server.

It is a watch and not a poll because of what must never happen: a gang that was partial for a
moment between two looks would not be noticed.
"""

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import httpx

from tests.harness.client import Api
from tests.harness.objects import POD_GROUP_LABEL

_WATCH_SECONDS = 2  # after each the watch goes on where it was, unless it has been told to end
_PAUSE_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Pod:
    """One pod, as a table shows it; `since` is when we saw it first, in monotonic seconds."""

    uid: str
    name: str
    group: str
    phase: str
    ready: bool
    node: str
    reason: str
    since: float


class Placement(NamedTuple):
    """A pod was given a node, and when we heard of it."""

    at: float
    group: str
    pod: str


def phases(pods: Iterable[Pod]) -> str:
    """Return how many are in each phase: `4 Running, 2 Pending`; zeros of these two are said."""
    counts = Counter({"Running": 0, "Pending": 0})
    counts.update(pod.phase for pod in pods)
    others = sorted(counts.keys() - {"Running", "Pending"})
    done = others and not counts["Running"] and not counts["Pending"]
    shown = others if done else ["Running", "Pending", *others]
    return ", ".join(f"{counts[phase]} {phase}" for phase in shown)


class PodWatch:
    """Follows the pods of one namespace from its start on, in a thread of its own."""

    def __init__(self, kubeconfig: Path, namespace: str) -> None:
        self._api = Api(kubeconfig)
        self._path = f"/api/v1/namespaces/{namespace}/pods"
        self._changed = threading.Condition()
        self._pods: dict[str, Pod] = {}
        self._placed: dict[str, Placement] = {}
        self._ending = threading.Event()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="pod-watch")
        self._followed: Future[None] | None = None

    def __enter__(self) -> Self:
        pods = self._api.request("GET", self._path).json()
        for pod in pods["items"]:
            self._apply("ADDED", pod)
        self._followed = self._pool.submit(self._follow, pods["metadata"]["resourceVersion"])
        self._followed.add_done_callback(lambda _: self._tell())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # Nobody waits for it: it notices at its next look.
        self._ending.set()
        self._pool.shutdown(wait=False)

    def pods(self, group: str | None = None) -> list[Pod]:
        """Return the pods that there are, or those of a group, by group and name."""
        with self._changed:
            found = [pod for pod in self._pods.values() if group is None or pod.group == group]
        return sorted(found, key=lambda pod: (pod.group, pod.name))

    def placements(self) -> list[Placement]:
        """Return every placement so far, in order; a pod that has ended is still among them."""
        with self._changed:
            return list(self._placed.values())

    def placed(self, group: str) -> int:
        """Return how many pods of a group have ever had a node."""
        return sum(placement.group == group for placement in self.placements())

    def partial_seconds(self, group: str, need: int) -> float:
        """Return for how long some, but fewer than `need` pods of a group have had a node."""
        times = [placement.at for placement in self.placements() if placement.group == group]
        if not times:
            return 0.0
        end = times[need - 1] if len(times) >= need else time.monotonic()
        return end - times[0]

    def wait_for(self, predicate: Callable[[], bool], timeout: float) -> bool:
        """Return whether `predicate`, asked after each change, came true within the time."""
        with self._changed:
            reached = self._changed.wait_for(lambda: self._broken() or predicate(), timeout)
        if self._broken():
            assert self._followed is not None
            self._followed.result()  # raises what it died of
        return reached

    def _broken(self) -> bool:
        return self._followed is not None and self._followed.done() and not self._ending.is_set()

    def _tell(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _follow(self, version: str) -> None:
        with self._api:
            while not self._ending.is_set():
                try:
                    version = self._read(version)
                except httpx.TransportError:
                    self._ending.wait(_PAUSE_SECONDS)

    def _read(self, version: str) -> str:
        params = {
            "watch": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(_WATCH_SECONDS),
        }
        with self._api._http.stream("GET", self._path, params=params) as response:
            response.raise_for_status()
            for line in response.iter_lines():
                event = json.loads(line)
                if event["type"] == "ERROR":
                    raise RuntimeError(f"the watch of the pods broke: {event['object']}")
                self._apply(event["type"], event["object"])
                version = event["object"]["metadata"]["resourceVersion"]
                if self._ending.is_set():
                    break
        return version

    def _apply(self, kind: str, document: dict[str, Any]) -> None:
        now = time.monotonic()
        uid = document["metadata"]["uid"]
        with self._changed:
            before = self._pods.get(uid)
            pod = _decode(document, since=before.since if before else now)
            if pod.node and uid not in self._placed:
                self._placed[uid] = Placement(now, pod.group, pod.name)
            if kind == "DELETED":
                self._pods.pop(uid, None)
            else:
                self._pods[uid] = pod
            self._changed.notify_all()


def by_group(pods: Sequence[Pod]) -> str:
    """Return the phases of each group in one line, for a progress line."""
    groups = sorted({pod.group for pod in pods})
    return "; ".join(
        f"{group}: {phases(pod for pod in pods if pod.group == group)}" for group in groups
    )


def _decode(document: dict[str, Any], *, since: float) -> Pod:
    metadata, status = document["metadata"], document.get("status", {})
    conditions = {each["type"]: each for each in status.get("conditions", ())}
    ready = conditions.get("Ready", {}).get("status") == "True"
    return Pod(
        uid=metadata["uid"],
        name=metadata["name"],
        group=metadata.get("labels", {}).get(POD_GROUP_LABEL, ""),
        phase=status.get("phase", ""),
        ready=ready,
        node=document["spec"].get("nodeName", ""),
        reason=conditions.get("PodScheduled", {}).get("message", ""),
        since=since,
    )
