"""What the demo knows of the pods of a namespace."""

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from typing_extensions import override

from extender.resources.quantity import amount
from tests.harness.demo.follow import Follower
from tests.harness.objects import POD_GROUP_LABEL

_JOB_LABEL = "batch.kubernetes.io/job-name"


@dataclass(frozen=True, slots=True)
class Pod:
    """One pod, as a table shows it; `since` is when we saw it first, in monotonic seconds.

    `group` is its Job, or its PodGroup where it has no Job, and `cpu` what it has while it is not
    asked to end, in thousandths.
    """

    uid: str
    name: str
    group: str
    phase: str
    ready: bool
    node: str
    reason: str
    since: float
    cpu: int


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


class PodWatch(Follower):
    """Follows the pods of one namespace."""

    def __init__(self, kubeconfig: Path, namespace: str) -> None:
        super().__init__(kubeconfig, f"/api/v1/namespaces/{namespace}/pods")
        self._pods: dict[str, Pod] = {}
        self._placed: dict[str, Placement] = {}
        self._most_cpu = 0

    @property
    def most_cpu(self) -> int:
        """How many thousandths of a CPU all pods had at most at one time."""
        with self._changed:
            return self._most_cpu

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

    @override
    def take(self, kind: str, document: dict[str, Any]) -> None:
        """Take one change of a pod."""
        now = time.monotonic()
        uid = document["metadata"]["uid"]
        before = self._pods.get(uid)
        pod = _decode(document, since=before.since if before else now)
        if pod.node and uid not in self._placed:
            self._placed[uid] = Placement(now, pod.group, pod.name)
        if kind == "DELETED":
            self._pods.pop(uid, None)
        else:
            self._pods[uid] = pod
        self._most_cpu = max(self._most_cpu, sum(pod.cpu for pod in self._pods.values()))


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
    labels, phase = metadata.get("labels", {}), status.get("phase", "")
    ended = phase in {"Succeeded", "Failed"} or "deletionTimestamp" in metadata
    return Pod(
        uid=metadata["uid"],
        name=metadata["name"],
        group=labels.get(_JOB_LABEL) or labels.get(POD_GROUP_LABEL, ""),
        phase=phase,
        ready=ready,
        node=document["spec"].get("nodeName", ""),
        reason=conditions.get("PodScheduled", {}).get("message", ""),
        since=since,
        cpu=0 if ended else sum(map(_cpu, document["spec"]["containers"])),
    )


def _cpu(container: dict[str, Any]) -> int:
    return amount("cpu", container.get("resources", {}).get("requests", {}).get("cpu", 0))
