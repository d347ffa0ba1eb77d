"""A kubelet's admission: the pod that comes to a full node later is refused, as `OutOfcpu`.

KWOK lets every pod run. Pods with the annotation `STRICT` are left to this one, which looks when it
is asked to, node by node, and takes new pods in the order in which they were bound.
"""

from collections import defaultdict
from collections.abc import Collection
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, Final

from tests.harness.books.amounts import nanos
from tests.harness.client import Api, ApiError

Object = dict[str, Any]

STRICT: Final = {"harness/strict-kubelet": "true"}
"""The annotation of pods that are looked at here."""


class StrictKubelet:
    """The kubelets of some nodes; CPU is what they look at."""

    def __init__(self, api: Api, nodes: Collection[str]) -> None:
        self._api, self._nodes = api, set(nodes)
        self.refused: list[str] = []
        """Names of pods that were refused, in order."""

    def look(self, first: Collection[str] = ()) -> None:
        """Let new pods run, or refuse them; those named `first` came before the others."""
        room = {
            each["metadata"]["name"]: nanos(each["status"]["allocatable"]["cpu"])
            for each in self._api.list("nodes")
            if each["metadata"]["name"] in self._nodes
        }
        new: dict[str, list[Object]] = defaultdict(list)
        for pod in self._api.list("pods"):
            node, phase = pod["spec"].get("nodeName"), pod["status"]["phase"]
            if node not in room:
                continue
            if phase == "Running":
                room[node] -= _cpu(pod)
            elif phase == "Pending" and "deletionTimestamp" not in pod["metadata"]:
                new[node].append(pod)
        for node, pods in new.items():
            for pod in sorted(pods, key=lambda p: (_name(p) not in first, _version(p))):
                if _cpu(pod) <= room[node]:
                    room[node] -= _cpu(pod)
                    self._say(pod, _running(pod))
                else:
                    self.refused.append(_name(pod))
                    self._say(pod, _refused())

    def _say(self, pod: Object, status: Object) -> None:
        body = {"status": {"startTime": _now(), **status}}
        namespace = pod["metadata"]["namespace"]
        try:
            self._api.patch("pods", _name(pod), namespace, body=body, subresource="status")
        except ApiError as error:
            if error.status != HTTPStatus.NOT_FOUND:  # it may have been deleted meanwhile
                raise


def _refused() -> Object:
    """Return what a kubelet writes: conditions go, that of the scheduler too."""
    message = "Pod was rejected: Node didn't have enough resource: cpu"
    return {"phase": "Failed", "reason": "OutOfcpu", "message": message, "conditions": None}


def _running(pod: Object) -> Object:
    kept = pod["status"].get("conditions", [])
    types = ("Initialized", "ContainersReady", "Ready")
    ready = [{"type": each, "status": "True", "lastTransitionTime": _now()} for each in types]
    scheduled = [each for each in kept if each["type"] not in types]
    return {"phase": "Running", "conditions": [*scheduled, *ready]}


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _cpu(pod: Object) -> int:
    containers = pod["spec"]["containers"]
    return sum(nanos(each["resources"]["requests"]["cpu"]) for each in containers)


def _name(pod: Object) -> str:
    name: str = pod["metadata"]["name"]
    return name


def _version(pod: Object) -> int:
    return int(pod["metadata"]["resourceVersion"])
