"""What the demo knows of the workloads of a namespace, and of the quota that they have."""

from collections.abc import Mapping, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typing_extensions import override

from extender.resources.quantity import amount
from tests.harness.demo.follow import Follower

RESOURCE = "kueue.x-k8s.io/v1beta2/workloads"


@dataclass(frozen=True, slots=True)
class Workload:
    """One workload; `cpu` is what it has of the quota, in thousandths."""

    name: str
    job: str
    state: str
    cpu: int
    conditions: Mapping[str, Mapping[str, str]]

    @property
    def waits(self) -> Mapping[str, str]:
        """The condition QuotaReserved where it says why there is no quota; {} elsewhere."""
        reserved = self.conditions.get("QuotaReserved", {})
        return reserved if reserved.get("status") == "False" else {}


class WorkloadWatch(Follower):
    """Follows the workloads of one namespace."""

    def __init__(self, kubeconfig: Path, namespace: str) -> None:
        super().__init__(
            kubeconfig, f"/apis/kueue.x-k8s.io/v1beta2/namespaces/{namespace}/workloads"
        )
        self._workloads: dict[str, Workload] = {}
        self._admitted: list[str] = []
        self._most_cpu = 0

    def of(self, job: str) -> Workload | None:
        """Return the workload of a Job."""
        with self._changed:
            found = (each for each in self._workloads.values() if each.job == job)
            return next(found, None)

    def states(self, *jobs: str) -> str:
        """Return `first Admitted, second Waiting`."""
        found = ((job, self.of(job)) for job in jobs)
        return ", ".join(f"{job} {each.state if each else 'unknown'}" for job, each in found)

    @property
    def admitted(self) -> str:
        """The Jobs that were given quota, in order: `first, then second`."""
        with self._changed:
            return ", then ".join(self._admitted)

    @property
    def most_cpu(self) -> int:
        """How many thousandths of a CPU of the quota were in use at most at one time."""
        with self._changed:
            return self._most_cpu

    @override
    def take(self, kind: str, document: dict[str, Any]) -> None:
        """Take one change of a workload."""
        uid = document["metadata"]["uid"]
        before, after = self._workloads.get(uid), _decode(document)
        if after.state == "Admitted" and (before is None or before.state != "Admitted"):
            self._admitted.append(after.job)
        if kind == "DELETED":
            self._workloads.pop(uid, None)
        else:
            self._workloads[uid] = after
        self._most_cpu = max(self._most_cpu, sum(each.cpu for each in self._workloads.values()))


def _decode(document: dict[str, Any]) -> Workload:
    metadata, status = document["metadata"], document.get("status", {})
    conditions = {each["type"]: each for each in status.get("conditions", ())}
    holds = {kind for kind, each in conditions.items() if each["status"] == "True"}
    owners = [owner["name"] for owner in metadata.get("ownerReferences", ())]
    return Workload(
        name=metadata["name"],
        job=owners[0] if owners else "",
        state=_state(holds, has_quota="admission" in status),
        cpu=0 if "Finished" in holds else _cpu(status),
        conditions=conditions,
    )


def _state(holds: Set[str], *, has_quota: bool) -> str:
    if "Finished" in holds:
        return "Finished"
    if has_quota and "Evicted" in holds:
        return "Evicted"  # it says so until it has quota again
    return "Admitted" if "Admitted" in holds else "Waiting"


def _cpu(status: Mapping[str, Any]) -> int:
    """Return what a workload has; pods that have ended do not count any more."""
    done = {each["name"]: each["count"] for each in status.get("reclaimablePods", ())}
    total = 0
    for given in status.get("admission", {}).get("podSetAssignments", ()):
        each = amount("cpu", given["resourceUsage"]["cpu"]) // given["count"]
        total += each * (given["count"] - done.get(given["name"], 0))
    return total
