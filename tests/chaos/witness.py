"""What the API server stored, by a watch of its own that outlives restarts of the API server."""

import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Self

import httpx

from tests.harness.client import Api, ApiError, Object, path_of, version_of

RESOURCES: Final = {
    "Pod": "pods",
    "Job": "batch/v1/jobs",
    "Workload": "kueue.x-k8s.io/v1beta2/workloads",
    "PodGroup": "scheduling.x-k8s.io/v1alpha1/podgroups",
}
_PAUSE = 0.1
_WATCH_SECONDS = 600


class Witness:
    """Follows all objects of a namespace. Use as a context manager."""

    def __init__(self, kubeconfig: Path, namespace: str) -> None:
        self._kubeconfig = kubeconfig
        self._namespace = namespace
        self._lock = threading.Lock()
        self._events: list[tuple[int, str, str, Object]] = []
        self._versions: dict[str, str] = {}
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._follow, args=item, daemon=True)
            for item in RESOURCES.items()
        ]
        self.gaps = 0
        """How often a watch could not go on; the versions in between were read one by one."""
        self.breaks = 0
        """How often a watch broke and went on where it was."""
        self._last: dict[str, dict[str, Object]] = {kind: {} for kind in RESOURCES}

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()

    def last(self, kind: str) -> dict[str, Object]:
        """Return the newest state of each object of a kind, by name."""
        with self._lock:  # a dict that is copied item by item must not change meanwhile
            return dict(self._last[kind])

    def history(self) -> list[tuple[str, str, Object]]:
        """Return type, kind and object of each event, in the order in which they were stored."""
        with self._lock:
            events = sorted(self._events, key=lambda each: each[0])
        return [(kind, of, found) for _, kind, of, found in events]

    def _follow(self, kind: str, resource: str) -> None:
        while not self._stop.is_set():
            try:
                self._look(kind, resource)
            except (httpx.TransportError, ApiError) as error:
                if isinstance(error, ApiError) and error.status == httpx.codes.GONE:
                    self._lose(kind)
                self.breaks += 1
                time.sleep(_PAUSE)

    def _look(self, kind: str, resource: str) -> None:
        with Api(self._kubeconfig) as api:
            if kind not in self._versions:
                self._versions[kind] = self._list(api, kind, resource)
            self._watch(api, kind, resource)

    def _lose(self, kind: str) -> None:
        """List anew: what happened in between is not known."""
        self.gaps += 1
        del self._versions[kind]

    def _list(self, api: Api, kind: str, resource: str) -> str:
        answer: Mapping[str, Any] = api.request("GET", path_of(resource, self._namespace)).json()
        there = {each["metadata"]["name"] for each in answer["items"]}
        newest = answer["metadata"]["resourceVersion"]
        for name in [name for name in self._last[kind] if name not in there]:
            self._take("DELETED", kind, self._last[kind][name], int(newest))
        for each in answer["items"]:
            known = self._last[kind].get(each["metadata"]["name"])
            since = version_of(known) if known is not None else 0
            for version in reversed(list(_kept(api.versions(resource, each, since)))):
                self._take("MODIFIED", kind, {**version, "kind": kind}, version_of(version))
        return str(newest)

    def _watch(self, api: Api, kind: str, resource: str) -> None:
        since = self._versions[kind]
        for event in api.watch(resource, self._namespace, since, seconds=_WATCH_SECONDS):
            if self._stop.is_set():
                return
            found = event["object"]
            if event["type"] == "ERROR":
                if found.get("code") == httpx.codes.GONE:
                    self._lose(kind)
                return
            version = self._versions[kind] = found["metadata"]["resourceVersion"]
            if event["type"] != "BOOKMARK":
                self._take(event["type"], kind, {**found, "kind": kind}, int(version))

    def _take(self, event: str, kind: str, found: Object, version: int) -> None:
        with self._lock:
            self._events.append((version, event, kind, found))
            if event == "DELETED":
                self._last[kind].pop(found["metadata"]["name"], None)
            else:
                self._last[kind][found["metadata"]["name"]] = found


def _kept(versions: Iterator[Object]) -> Iterator[Object]:
    """Yield the versions up to the first that etcd does not have any more."""
    try:
        yield from versions
    except ApiError as error:
        if error.status != httpx.codes.GONE:
            raise
