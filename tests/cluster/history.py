"""Every version of the Workloads and Jobs of a namespace, and whether each was as it must be."""

from dataclasses import dataclass, field
from typing import Self

from extender.resources.quantity import CPU, amount
from tests.cluster.queues import JOBS, WORKLOADS, condition
from tests.harness.client import Api, Object, version_of


def versions(api: Api, namespace: str) -> list[Object]:
    """Return all that was ever stored of what is there now, in the order in which it was.

    All kinds share the order.
    """
    found = [
        {**version, "kind": kind}
        for resource, kind in ((WORKLOADS, "Workload"), (JOBS, "Job"))
        for each in api.list(resource, namespace)
        for version in api.versions(resource, each)
    ]
    return sorted(found, key=version_of)


@dataclass(slots=True)
class Judge:
    """Replays a history: `faults` says, as sentences, what should never have been.

    Quota is thousandths of a core, of one ClusterQueue for all Workloads.
    """

    quota: int
    faults: list[str] = field(default_factory=list)
    most: int = 0
    """The most that was held at any time."""
    stops: int = 0
    """How many Jobs were suspended again."""
    _workloads: dict[str, Object] = field(default_factory=dict)
    _jobs: dict[str, Object] = field(default_factory=dict)
    _made: dict[str, set[str]] = field(default_factory=dict)

    def replay(self, history: list[Object]) -> Self:
        """Take in everything."""
        for found in history:
            (self._job if found["kind"] == "Job" else self._workload)(found)
        return self

    def workloads_of(self, job: str) -> int:
        """Return how many Workloads a Job has had."""
        return len(self._made.get(self._jobs[job]["metadata"]["uid"], ()))

    def _workload(self, after: Object) -> None:
        name = after["metadata"]["name"]
        before = self._workloads.get(name)
        self._workloads[name] = after
        for owner in after["metadata"].get("ownerReferences", []):
            self._made.setdefault(owner["uid"], set()).add(after["metadata"]["uid"])
        held = sum(map(_held, self._workloads.values()))
        self.most = max(self.most, held)
        if held > self.quota:
            self.faults.append(f"{held}m of {self.quota}m are held with {name}")
        if before is not None and _given(before) and not _given(after):
            self._released(after)

    def _released(self, workload: Object) -> None:
        job = self._job_of(workload)
        if job is not None and _runs(job):
            self.faults.append(f"{job['metadata']['name']} runs on when its quota is given back")

    def _job(self, after: Object) -> None:
        name = after["metadata"]["name"]
        before = self._jobs.get(name)
        self._jobs[name] = after
        if before is not None and _runs(before) and after["spec"].get("suspend"):
            self.stops += 1
        if _runs(after) and not (before is not None and _runs(before)):
            mine = [w for w in self._workloads.values() if self._job_of(w) is after]
            if not any(condition(w, "Admitted").get("status") == "True" for w in mine):
                self.faults.append(f"{name} is started and was not admitted")

    def _job_of(self, workload: Object) -> Object | None:
        owners = {owner["uid"] for owner in workload["metadata"].get("ownerReferences", [])}
        found = (job for job in self._jobs.values() if job["metadata"]["uid"] in owners)
        return next(found, None)


def _given(workload: Object) -> list[Object]:
    """Return what each pod set of a Workload was given; nothing when it has ended."""
    if condition(workload, "Finished").get("status") == "True":
        return []
    admission = workload.get("status", {}).get("admission") or {}
    given: list[Object] = admission.get("podSetAssignments", [])
    return given


def _held(workload: Object) -> int:
    """Return what its pods hold that are not done: as many as were given, or as are left."""
    done = {x["name"]: x["count"] for x in workload.get("status", {}).get("reclaimablePods", [])}
    asked = {each["name"]: each.get("count", 1) for each in workload["spec"]["podSets"]}
    held = 0
    for each in _given(workload):
        name, count = each["name"], each.get("count", 1)
        left = min(count, asked[name] - done.get(name, 0))
        held += amount(CPU, each.get("resourceUsage", {}).get(CPU, 0)) * left // max(1, count)
    return held


def _runs(job: Object) -> bool:
    ended = (condition(job, kind).get("status") == "True" for kind in ("Complete", "Failed"))
    return not job["spec"].get("suspend") and not any(ended)
