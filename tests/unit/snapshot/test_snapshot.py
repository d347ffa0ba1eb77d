"""The objects in a snapshot, what is left out of them, and what is explained from it."""

import json
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import msgspec
import pytest

from extender.api.wellknown import EXPECTED_RUN, INDEX_LABEL
from extender.config.settings import Settings
from extender.kube.decode import Decoder
from extender.kube.decode_queues import QueueDecoder
from extender.kube.errors import ForbiddenError, NotFoundError
from gang_tools.explanations import (
    ExplainTarget,
    NothingToExplainError,
    explained,
    explained_group,
    explained_pod,
)
from gang_tools.snapshot.file import ObjectSource, Snapshot, SnapshotError, StoppedClock, load, save
from gang_tools.snapshot.objects import reduced
from gang_tools.snapshot.taking import taken
from tests.snapshots import JOBS, NAMESPACES, NODES, NOW, POD_GROUPS, PODS, QUEUES, snapshot_of

SECRET = "hunter2"
APPLIED = {"kubectl.kubernetes.io/last-applied-configuration": SECRET}
CONTAINER = {
    "name": "c",
    "image": f"registry/{SECRET}",
    "command": [SECRET],
    "args": [SECRET],
    "env": [{"name": "PASSWORD", "value": SECRET}],
    "envFrom": [{"secretRef": {"name": SECRET}}],
    "livenessProbe": {"exec": {"command": [SECRET]}},
    "ports": [{"containerPort": 80, "hostPort": 8080}],
    "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}},
}
POD_SPEC = {
    "containers": [CONTAINER],
    "initContainers": [{**CONTAINER, "name": "i", "restartPolicy": "Always"}],
    "imagePullSecrets": [{"name": SECRET}],
    "nodeSelector": {"disk": "ssd"},
    "tolerations": [{"key": "gpu", "operator": "Exists"}],
    "topologySpreadConstraints": [{"whenUnsatisfiable": "DoNotSchedule", "topologyKey": "zone"}],
    "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}}]}},
    "schedulerName": "gang",
    "priority": 7,
    "preemptionPolicy": "Never",
    "overhead": {"cpu": "100m"},
    "readinessGates": [{"conditionType": "ready"}],
    "schedulingGates": [{"name": "gate"}],
    "volumes": [
        {"name": "a", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "b", "secret": {"secretName": SECRET}},
        {"name": "c", "hostPath": {"path": SECRET}},
    ],
}  # fmt: skip
TEMPLATE = {
    "metadata": {"annotations": APPLIED, "labels": {"scheduling.x-k8s.io/pod-group": "mine"}},
    "spec": POD_SPEC,
}


def named(name: str, **more: Any) -> dict[str, Any]:
    """Return the metadata of an object with an annotation that may have a secret."""
    managed = {"managedFields": [{"manager": SECRET}], "annotations": {**APPLIED}}
    found = {"name": name, "namespace": "ns", "uid": name, "resourceVersion": "5"}
    return {**found, **managed, **more}


POD = {
    "metadata": named(
        "p",
        labels={"scheduling.x-k8s.io/pod-group": "g"},
        annotations={**APPLIED, EXPECTED_RUN: "1h", INDEX_LABEL: "3"},
        ownerReferences=[{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "j",
                          "controller": True}],
    ),
    "spec": {**POD_SPEC, "nodeName": "n0"},
    "status": {
        "phase": "Running",
        "startTime": "2026-01-01T00:00:00Z",
        "nominatedNodeName": "n1",
        "conditions": [{"type": "Ready", "status": "True"}],
        "containerStatuses": [
            {"name": "c", "resources": {"requests": {"cpu": "3"}}, "image": SECRET,
             "lastState": {"terminated": {"message": SECRET}}},
        ],
    },
}  # fmt: skip
NODE = {
    "metadata": named("n0", labels={"zone": "east"}),
    "spec": {"unschedulable": True, "taints": [{"key": "a", "effect": "NoSchedule"}]},
    "status": {
        "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"},
        "conditions": [{"type": "Ready", "status": "True"}],
        "images": [{"names": [SECRET]}],
    },
}
JOB = {
    "metadata": named("j", annotations={**APPLIED, "kueue.x-k8s.io/job-min-parallelism": "1"}),
    "spec": {"parallelism": 3, "completions": 5, "completionMode": "Indexed",
             "activeDeadlineSeconds": 60, "template": TEMPLATE},
    "status": {"active": 1, "succeeded": 2},
}  # fmt: skip
WORKLOAD = {
    "metadata": named("w", finalizers=["a/b"]),
    "spec": {
        "queueName": "queue",
        "priority": 3,
        "maximumExecutionTimeSeconds": 9,
        "podSets": [{"name": "main", "count": 2, "minCount": 1, "template": TEMPLATE}],
    },
    "status": {
        "conditions": [{"type": "QuotaReserved", "status": "False", "reason": "Pending",
                        "lastTransitionTime": "2026-01-01T00:00:00Z"}],
    },
}  # fmt: skip
GROUP = {"metadata": named("g"), "spec": {"minMember": 2}, "status": {"phase": "Pending"}}


@pytest.mark.parametrize(
    ("path", "given"),
    [(PODS, POD), (NODES, NODE), (JOBS, JOB), (f"{QUEUES}/workloads", WORKLOAD),
     (POD_GROUPS, GROUP)],
)  # fmt: skip
def test_no_secret_of_an_object_is_kept_and_all_that_decisions_read(
    path: str, given: dict[str, Any]
) -> None:
    before = deepcopy(given)

    found = reduced(given, path)

    assert given == before
    assert SECRET in json.dumps(given)
    assert SECRET not in json.dumps(found)
    assert repr(read(path, found)) == repr(read(path, given)), (
        "shapes are equal by their fields alone"
    )


def read(path: str, given: dict[str, Any]) -> object:
    """Return what decisions read of an object."""
    decoder, raw = Decoder(placement="Annotation"), json.dumps(given).encode()
    of_queues = QueueDecoder(decoder)
    match path.rpartition("/")[2]:
        case "pods":
            found = decoder.pod(raw)
            return found, found.shape
        case "nodes":
            return decoder.node(raw)
        case "jobs":
            job = of_queues.job(raw, kind="batch/job")
            return decoder.job(raw), job.queue_name, job.meta.labels, job.owner
        case "workloads":
            workload = of_queues.workload(raw)
            [pod_set] = workload.pod_sets
            shape = Decoder().template(pod_set.template)
            return workload.priority, workload.queue_name, workload.conditions, pod_set.count, shape
        case _:
            return decoder.pod_group(raw, api_group="scheduling.x-k8s.io")


@pytest.fixture
def snapshot() -> Snapshot:
    """A snapshot of one object of each kind."""
    other = {**POD, "metadata": {**POD["metadata"], "namespace": "other"}}
    return snapshot_of(
        {PODS: [POD, other], NODES: [NODE], NAMESPACES: [{"metadata": {"name": "ns"}}]}
    )


async def test_a_snapshot_answers_as_the_api_server(snapshot: Snapshot) -> None:
    def names(answer: bytes) -> list[str]:
        return [each["metadata"]["namespace"] for each in json.loads(answer)["items"]]

    assert names(await snapshot.request("GET", f"{PODS}?limit=1000")) == ["ns", "other"]
    of_one = "/api/v1/namespaces/other/pods"
    assert names(await snapshot.request("GET", of_one)) == ["other"]
    assert json.loads(await snapshot.request("GET", f"{of_one}/p"))["metadata"]["uid"] == "p"
    for path in (f"{of_one}/q", "/api/v1/namespaces/ns/secrets", "/api/v1/secrets", "/api/v1"):
        with pytest.raises(NotFoundError):
            await snapshot.request("GET", path)


def source(reader: Any) -> ObjectSource:
    return ObjectSource(reader, StoppedClock(NOW))


async def test_lists_that_are_not_there_or_forbidden_are_left_out(snapshot: Snapshot) -> None:
    class Lacking:
        async def request(self, method: str, path: str, **_: Any) -> bytes:
            if "namespaces" in path:
                raise ForbiddenError(path)
            return await snapshot.request(method, path)

    settings: dict[str, Any] = {"gang": {}, "queue": {}}
    memory = {"process": "extender", "settings": settings, "pods": []}

    found = await taken(source(Lacking()), memory)

    assert NAMESPACES not in found.lists
    assert POD_GROUPS not in found.lists
    assert (found.memory, found.settings) == ({"process": "extender", "pods": []}, settings)
    assert SECRET.encode() not in msgspec.json.encode(found)

    class Refusing:
        async def request(self, method: str, path: str, **_: Any) -> bytes:
            raise ForbiddenError(path)

    with pytest.raises(ForbiddenError):
        await taken(source(Refusing()), {})


def test_settings_come_again() -> None:
    settings = Settings.model_validate({"gang": {"agingSeconds": 7}, "queue": {"enabled": True}})
    found = settings.model_dump(mode="json", by_alias=True, include={"gang", "queue"})
    again = Settings.model_validate(json.loads(json.dumps(found)))
    assert (again.gang, again.queue) == (settings.gang, settings.queue)


# --- what is explained ---------------------------------------------------------------------------


def gang() -> Snapshot:
    """Return a snapshot of a gang that lacks a pod."""
    group = {"metadata": {**named("g")}, "spec": {"minMember": 2}}
    return snapshot_of({PODS: [POD], NODES: [NODE], POD_GROUPS: [group]})


async def test_a_gang_and_its_pods_are_explained() -> None:
    there, settings = source(gang()), Settings()

    group = await explained_group(there, settings, key="ns/g")
    pod = await explained_pod(there, settings, key="ns/p")

    assert (group.source, group.state, group.reason) == ("ApiServer", "Waiting", "NotEnoughPods")
    assert pod.group is not None
    assert pod.group.reason == "NotEnoughPods"
    with pytest.raises(NothingToExplainError, match="there is no PodGroup ns/h"):
        await explained_group(there, settings, key="ns/h")
    with pytest.raises(NothingToExplainError, match="there is no Pod ns/q"):
        await explained_pod(there, settings, key="ns/q")


def waiting() -> Snapshot:
    """Return a snapshot of a queue without enough quota for the workload of a job."""
    quota = {"name": "cpu", "nominalQuota": "1"}
    group = {"coveredResources": ["cpu"], "flavors": [{"name": "default", "resources": [quota]}]}
    queue = {"metadata": {"name": "cq", "uid": "cq", "resourceVersion": "3"},
             "spec": {"resourceGroups": [group], "namespaceSelector": {}}}  # fmt: skip
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "j", "controller": True}
    workload = deepcopy(WORKLOAD)
    workload["metadata"]["ownerReferences"] = [owner]
    return snapshot_of(
        {
            NAMESPACES: [{"metadata": {"name": "ns"}}],
            JOBS: [{**JOB, "metadata": named("plain")}],
            f"{QUEUES}/resourceflavors": [{"metadata": {"name": "default"}, "spec": {}}],
            f"{QUEUES}/clusterqueues": [queue],
            f"{QUEUES}/localqueues": [
                {"metadata": {"name": "queue", "namespace": "ns"}, "spec": {"clusterQueue": "cq"}}
            ],
            f"{QUEUES}/workloads": [reduced(workload, f"{QUEUES}/workloads")],
        }
    )


async def test_a_workload_is_explained_by_its_name_or_by_that_of_its_job() -> None:
    for target in (
        ExplainTarget("ns", "w", is_job=False),
        ExplainTarget("ns", "j", is_job=True, kind="Job"),
    ):
        found = await explained(source(waiting()), Settings(), asked=target)
        assert found.waiting_for[0].resource == "cpu"
    for name, words in (("plain", "has no label"), ("none", "there is no job ns/none")):
        asked = ExplainTarget("ns", name, is_job=True)
        with pytest.raises(NothingToExplainError, match=words):
            await explained(source(waiting()), Settings(), asked=asked)


# --- files ---------------------------------------------------------------------------------------


def whole() -> bytes:
    return msgspec.json.encode(gang())


def changed(**fields: object) -> bytes:
    return json.dumps({**json.loads(whole()), **fields}).encode()


def wrong() -> Iterator[Any]:
    yield pytest.param(b"", "no snapshot of gang-extender", id="nothing")
    yield pytest.param(whole()[:-10], "no snapshot of gang-extender", id="a part")
    yield pytest.param(b"[]", "no snapshot of gang-extender", id="a list")
    yield pytest.param(b"{}", "no snapshot of gang-extender", id="another object")
    yield pytest.param(changed(format=1, version="0.9"), "format 1, and this", id="an old format")
    yield pytest.param(changed(lists=[]), "no snapshot of gang-extender", id="no lists")


@pytest.mark.parametrize(("data", "words"), [*wrong()])
def test_what_is_no_snapshot_is_said(data: bytes, words: str, tmp_path: Path) -> None:
    save(tmp_path / "a.json", data)
    with pytest.raises(SnapshotError, match=words):
        load(tmp_path / "a.json")


@pytest.mark.parametrize("name", ["a.json", "a.json.gz"])
def test_a_file_is_read_as_it_was_written(name: str, tmp_path: Path) -> None:
    save(tmp_path / name, whole())
    assert load(tmp_path / name) == gang()
