"""What there is: nodes, pods that run on them, and gangs that come one after the other.

Objects are JSON with holes, which are filled when an object is asked for: a stand-in that spends
long on its own answers would be what is measured.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tests.bench.loop import stage
from tests.harness import objects

NAMESPACE: Final = stage.NAMESPACE
SCHEDULER_NAME: Final = "default-scheduler"
"""What kube-scheduler signs its Events with."""
NODE: Final = {"cpu": 32_000, "pods": 110}
"""What a node has, in milli-CPU and in number."""
RUNNING: Final = {"cpu": 200, "pods": 1}
"""What a pod asks for that runs from the start."""
MEMBER: Final = {"cpu": 1000, "pods": 1}
"""What a member of a gang asks for."""
_LONG_AGO: Final = b"2026-01-01T00:00:00Z"
_JOB: Final = "batch.kubernetes.io"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """How much there is of everything."""

    nodes: int
    running: int
    gangs: int
    size: int = 50
    ahead: int = 10
    """Gangs that wait, the one that is being scheduled among them."""

    @property
    def title(self) -> str:
        """What its column is called."""
        return f"{self.nodes} nodes"

    @property
    def pods(self) -> int:
        """How many pods come."""
        return self.gangs * self.size

    @property
    def running_gangs(self) -> int:
        """How many gangs run from the start: half of the running pods are their members."""
        return self.running // 2 // self.size

    @property
    def room(self) -> int:
        """How many of the pods that come have room."""
        return sum(map(self.places, range(self.nodes)))

    def on(self, node: int) -> int:
        """Return how many pods run on a node from the start."""
        return self.running // self.nodes + (node < self.running % self.nodes)

    def places(self, node: int) -> int:
        """Return how many of the pods that come a node has room for."""
        on = self.on(node)
        return max(0, min((NODE[what] - on * RUNNING[what]) // MEMBER[what] for what in NODE))

    def gang_of(self, number: int) -> int:
        """Return the gang with which a pod comes."""
        return number // self.size

    def of(self, gang: int) -> range:
        """Return the pods that come with a gang."""
        return range(gang * self.size, (gang + 1) * self.size)

    def number(self, name: str) -> int | None:
        """Return the number of a pod that comes, by its name."""
        kind, gang, index = name.rsplit("-", 2)
        return int(gang) * self.size + int(index) if kind == "gang" else None


def node_name(node: int) -> str:
    """Return a name."""
    return f"node-{node:05}"


def node_number(name: str) -> int:
    """Return the number of a node."""
    return int(name.removeprefix("node-"))


def pod_name(scene: Scene, number: int) -> str:
    """Return the name of a pod that comes."""
    return f"gang-{number // scene.size}-{number % scene.size}"


def pod_uid(number: int) -> str:
    """Return the UID of a pod that comes."""
    return f"00000000-aaaa-4000-8000-{number:012}"


class Objects:
    """The objects of a scene, as the API server shows them."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._node = _holes(_node())
        self._running = _holes(_pod(node="%(node)s", cpu=RUNNING["cpu"]))
        self._waiting = _holes(_pod(node=None, cpu=MEMBER["cpu"]))
        refused = [{"reason": "Unschedulable", "message": "%(text)s", **_scheduled("False")}]
        self._refused = _holes(_pod(node=None, cpu=MEMBER["cpu"], conditions=refused))
        bound = _pod(node=None, cpu=MEMBER["cpu"], conditions=[_scheduled("True")])
        bound["spec"]["nodeName"] = "%(node)s"
        self._bound = _holes(bound)
        asked = _pod(node=None, cpu=MEMBER["cpu"])
        del asked["metadata"]["managedFields"]  # kube-scheduler drops them
        del asked["kind"], asked["apiVersion"]
        self._asked = _holes(asked)
        self._pod_group = _holes(_pod_group(scene.size))
        self._job = _holes(_job(scene.size))

    def node(self, node: int) -> bytes:
        """Return a node."""
        return self._node % {b"name": node_name(node).encode(), b"zone": b"z%d" % (node % 3)}

    def running(self, number: int) -> bytes:
        """Return a pod that runs from the start."""
        scene = self._scene
        gang, index = divmod(number, scene.size)
        kind = b"runs" if gang < scene.running_gangs else b"plain"
        made = self._running % {
            **_names(kind, gang, index=index, uid=f"11111111-aaaa-4000-8000-{number:012}"),
            b"node": node_name(number % scene.nodes).encode(),
            b"version": b"1",
            b"created": _LONG_AGO,
        }
        return made if kind == b"runs" else _ordinary(made)

    def waiting(self, number: int, *, version: int, created: str, text: str = "") -> bytes:
        """Return a pod that has no node; `text` is why, where kube-scheduler has said so."""
        holes = {**self._member(number, version, created), b"text": text.encode()}
        return (self._refused if text else self._waiting) % holes

    def bound(self, number: int, *, version: int, created: str, node: int) -> bytes:
        """Return a pod that the API server has put on a node, and whose kubelet is silent yet."""
        holes = {**self._member(number, version, created), b"node": node_name(node).encode()}
        return self._bound % holes

    def asked(self, number: int, *, created: str) -> bytes:
        """Return a pod as kube-scheduler puts it into a request."""
        return self._asked % self._member(number, 1, created)

    def running_group(self, gang: int) -> bytes:
        """Return the PodGroup of a gang that runs from the start."""
        return self._pod_group % _of_gang(b"runs", gang, version=1, created=_LONG_AGO)

    def group(self, gang: int, *, version: int, created: str) -> bytes:
        """Return the PodGroup of a gang that comes."""
        return self._pod_group % _of_gang(b"gang", gang, version=version, created=created.encode())

    def running_job(self, gang: int) -> bytes:
        """Return the Job of a gang that runs from the start."""
        return self._job % _of_gang(b"runs", gang, version=1, created=_LONG_AGO)

    def job(self, gang: int, *, version: int, created: str) -> bytes:
        """Return the Job of a gang that comes."""
        return self._job % _of_gang(b"gang", gang, version=version, created=created.encode())

    def _member(self, number: int, version: int, created: str) -> dict[bytes, bytes]:
        gang, index = divmod(number, self._scene.size)
        return {
            **_names(b"gang", gang, index=index, uid=pod_uid(number)),
            b"version": b"%d" % version,
            b"created": created.encode(),
        }


_GROUP_LABEL: Final = json.dumps(objects.POD_GROUP_LABEL).encode()


_REPLICA_SET: Final = b'"apiVersion":"apps/v1","kind":"ReplicaSet"'


def _ordinary(pod: bytes) -> bytes:
    """Return a pod of a ReplicaSet in place of a member: no queue is concerned with those."""
    owner = pod.replace(b'"apiVersion":"batch/v1","kind":"Job"', _REPLICA_SET)
    return owner.replace(_GROUP_LABEL, b'"app"')


def _holes(made: Mapping[str, Any]) -> bytes:
    return json.dumps(made, separators=(",", ":")).encode()


def _names(kind: bytes, gang: int, *, index: int, uid: str) -> dict[bytes, bytes]:
    return {
        b"group": b"%s-%d" % (kind, gang),
        b"index": b"%d" % index,
        b"uid": uid.encode(),
    }


def _of_gang(kind: bytes, gang: int, *, version: int, created: bytes) -> dict[bytes, bytes]:
    return {
        b"group": b"%s-%d" % (kind, gang),
        b"version": b"%d" % version,
        b"created": created,
    }


def _scheduled(status: str) -> dict[str, Any]:
    return {"type": "PodScheduled", "status": status, "lastTransitionTime": "%(created)s"}


def _node() -> dict[str, Any]:
    labels = {"topology.kubernetes.io/zone": "%(zone)s", "kubernetes.io/os": "linux"}
    cpu, pods = f"{NODE['cpu']}m", NODE["pods"]
    made = objects.node("%(name)s", cpu, "256Gi", pods=pods, labels=labels)
    made["metadata"] |= {"uid": "%(name)s", "resourceVersion": "1"}
    made["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    return made


def _pod(
    *, node: str | None, cpu: int, conditions: list[dict[str, Any]] | None = None
) -> dict[str, Any]:
    """Return the member of a gang, as the controller of an Indexed Job makes it."""
    made = stage.pod(0, node=node, group="%(group)s", cpu=f"{cpu}m")
    made["metadata"] |= {
        "name": "%(group)s-%(index)s",
        "uid": "%(uid)s",
        "resourceVersion": "%(version)s",
        "creationTimestamp": "%(created)s",
    }
    made["metadata"]["labels"] |= {
        f"{_JOB}/job-name": "%(group)s",
        f"{_JOB}/controller-uid": "%(group)s",
        f"{_JOB}/job-completion-index": "%(index)s",
    }
    made["spec"]["hostname"] = "%(group)s-%(index)s"
    if conditions:
        made["status"]["conditions"] = conditions
    return made


def _pod_group(size: int) -> dict[str, Any]:
    made = objects.pod_group("%(group)s", size, namespace=NAMESPACE)
    made["metadata"] |= _stamps("group")
    return made


def _job(size: int) -> dict[str, Any]:
    made = objects.job(
        "%(group)s", size, namespace=NAMESPACE, cpu=1, indexed=True, group="%(group)s"
    )
    made["metadata"] |= _stamps("job")
    made["status"] = {"active": size, "ready": 0}
    return made


def _stamps(kind: str) -> dict[str, str]:
    return {
        "uid": "%(group)s" if kind == "job" else f"{kind}-%(group)s",
        "resourceVersion": "%(version)s",
        "creationTimestamp": "%(created)s",
    }
