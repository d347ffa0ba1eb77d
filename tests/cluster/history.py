"""Every version of the Workloads and Jobs of a namespace, and whether each was as it must be."""

import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx

from extender.resources.quantity import CPU, amount
from tests.cluster.queues import JOBS, WORKLOADS, condition
from tests.harness.client import Api, ApiError, Object

_SECONDS = 10
_PAUSE = 0.2


class History:
    """Follows both kinds with watches of its own; use as a context manager."""

    def __init__(self, kubeconfig: Path, namespace: str) -> None:
        self._kubeconfig, self._namespace = kubeconfig, namespace
        self._events: list[tuple[int, str, Object]] = []
        self._versions: dict[str, str] = {}
        self._ended = threading.Event()
        self._threads: list[threading.Thread] = []
        self.gaps = 0
        """How often a watch could not go on where it had been, so that versions may be missing."""

    def __enter__(self) -> Self:
        for resource in (WORKLOADS, JOBS):
            thread = threading.Thread(target=self._follow, args=(resource,), daemon=True)
            thread.start()
            self._threads.append(thread)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join(60)

    def caught_up(self, api: Api) -> bool:
        """Return whether it has all that is stored now."""
        last = {str(version) for version, _, _ in self._events}
        stored = [each for kind in (WORKLOADS, JOBS) for each in api.list(kind, self._namespace)]
        return {each["metadata"]["resourceVersion"] for each in stored} <= last

    def versions(self) -> Iterator[tuple[str, Object]]:
        """Yield what happened, in the order of the resource versions, which all kinds share."""
        ordered = sorted(self._events, key=lambda event: event[0])
        yield from ((kind, found) for _, kind, found in ordered)

    def _follow(self, resource: str) -> None:
        with Api(self._kubeconfig) as api:
            while not self._ended.is_set():
                with suppress(httpx.TransportError, ApiError):
                    self._watch(api, resource)
                self._ended.wait(_PAUSE)

    def _watch(self, api: Api, resource: str) -> None:
        version = self._versions.get(resource) or self._list(api, resource)
        for event in api.watch(resource, self._namespace, version, seconds=_SECONDS):
            if event["type"] == "ERROR":
                self._versions[resource] = ""
                self.gaps += 1
                return
            self._versions[resource] = event["object"]["metadata"]["resourceVersion"]
            self._add(event["type"], event["object"])

    def _list(self, api: Api, resource: str) -> str:
        *group_version, plural = resource.split("/")
        path = f"/apis/{'/'.join(group_version)}/namespaces/{self._namespace}/{plural}"
        found = api.request("GET", path).json()
        kind = found["kind"].removesuffix("List")
        for each in found["items"]:
            self._add("ADDED", {**each, "kind": kind})
        version = str(found["metadata"]["resourceVersion"])
        self._versions[resource] = version
        return version

    def _add(self, what: str, found: Object) -> None:
        if what != "BOOKMARK":
            self._events.append((int(found["metadata"]["resourceVersion"]), what, found))


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

    def replay(self, history: History) -> Self:
        """Take in everything."""
        for what, found in history.versions():
            step = self._job if found["kind"] == "Job" else self._workload
            step(found, gone=what == "DELETED")
        return self

    def workloads_of(self, job: str) -> int:
        """Return how many Workloads a Job has had."""
        return len(self._made.get(self._jobs[job]["metadata"]["uid"], ()))

    def _workload(self, after: Object, *, gone: bool) -> None:
        name = after["metadata"]["name"]
        before = self._workloads.pop(name, None)
        for owner in after["metadata"].get("ownerReferences", []):
            self._made.setdefault(owner["uid"], set()).add(after["metadata"]["uid"])
        if not gone:
            self._workloads[name] = after
        held = sum(map(_held, self._workloads.values()))
        self.most = max(self.most, held)
        if held > self.quota:
            self.faults.append(f"{held}m of {self.quota}m are held with {name}")
        if before is not None and _held(before) and (gone or not _held(after)):
            self._released(after)

    def _released(self, workload: Object) -> None:
        job = self._job_of(workload)
        if job is not None and _runs(job):
            self.faults.append(f"{job['metadata']['name']} runs on when its quota is given back")

    def _job(self, after: Object, *, gone: bool) -> None:
        name = after["metadata"]["name"]
        before = self._jobs.get(name)
        self._jobs[name] = after
        if gone:
            return
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


def _held(workload: Object) -> int:
    status: dict[str, Any] = workload.get("status", {})
    if condition(workload, "Finished").get("status") == "True":
        return 0
    given = (status.get("admission") or {}).get("podSetAssignments", [])
    return sum(amount(CPU, each.get("resourceUsage", {}).get(CPU, 0)) for each in given)


def _runs(job: Object) -> bool:
    ended = (condition(job, kind).get("status") == "True" for kind in ("Complete", "Failed"))
    return not job["spec"].get("suspend") and not any(ended)
