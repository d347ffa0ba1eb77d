"""Whatever JSON an object holds, a decoder returns a value or raises DecodeError, and no more."""

import json
from collections.abc import Callable, Mapping
from copy import deepcopy
from functools import partial
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extender.api import wellknown
from extender.api.queue_wire import LimitRangeItem
from extender.jobs import registry
from extender.kube.decode import DecodeError, Decoder
from extender.kube.decode_queues import QueueDecoder
from extender.kube.reflector import identify
from extender.server.webhooks import webhooks_app
from extender.state.queue import events as ev
from extender.state.queue.records import WorkloadInfo
from extender.state.queue.store import Queues
from extender.webhooks import conversion
from extender.webhooks.jobs import by_kind
from tests.effort import examples
from tests.queue_makers import validate_queues

NESTED = 3000
DEEP = "\0deep"
"""Stands for what is nested deeply: the encoder could not write it."""
ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=20),
    st.sampled_from([
        *("", "-1", "-100", "1e400", "1e-400", "9" * 5000, "NaN", "Inf", "0x10", "1_0", "\u0661"),
        *("0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "2026-01-01T00:00:00", DEEP),
        *("\ud800", "\u0000", "a" * 7_000),
    ]),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.text(max_size=5), st.integers(), max_size=2),
)  # fmt: skip
JSON = st.recursive(
    ODD,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)

META = {
    "name": "a",
    "namespace": "ns",
    "uid": "u",
    "resourceVersion": "7",
    "generation": 3,
    "creationTimestamp": "2026-01-01T00:00:00Z",
    "deletionTimestamp": "2026-01-02T00:00:00Z",
    "labels": {"kueue.x-k8s.io/queue-name": "q", "scheduling.x-k8s.io/pod-group": "g"},
    "annotations": {
        "scheduling.x-k8s.io/granted-room": '{"until": "2026-01-01T00:00:00Z", "nodes": {}}',
        "batch.kubernetes.io/job-completion-index": "3",
    },
    "finalizers": ["f"],
    "ownerReferences": [
        {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "ju", "controller": True}
    ],
}
CONDITION = {
    "type": "Ready",
    "status": "True",
    "reason": "R",
    "message": "m",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
    "observedGeneration": 1,
}
AMOUNTS = {"cpu": "1", "memory": "1Gi", "example.com/gpu": 2}
CONTAINER = {
    "name": "c",
    "resources": {"requests": AMOUNTS, "limits": AMOUNTS},
    "restartPolicy": "Always",
    "ports": [{"hostPort": 80, "hostIP": "1.2.3.4", "protocol": "TCP"}],
}
SELECTOR = {
    "matchLabels": {"a": "b"},
    "matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}],
}
POD_SPEC = {
    "priority": 5,
    "schedulerName": "s",
    "schedulingGates": [{"name": "g"}],
    "containers": [CONTAINER],
    "initContainers": [CONTAINER],
    "overhead": AMOUNTS,
    "resources": {"requests": AMOUNTS, "limits": AMOUNTS},
    "nodeSelector": {"a": "b"},
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]
            }
        },
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "kubernetes.io/hostname", "labelSelector": SELECTOR}
            ]
        },
    },
    "tolerations": [{"key": "a", "operator": "Exists", "tolerationSeconds": 3}],
    "volumes": [{"persistentVolumeClaim": {"claimName": "c"}}],
    "runtimeClassName": "r",
}
TEMPLATE = {"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}, "spec": POD_SPEC}
QUOTAS = [
    {
        "coveredResources": ["cpu"],
        "flavors": [
            {"name": "f", "resources": [{"name": "cpu", "nominalQuota": 1, "lendingLimit": "1"}]}
        ],
    }
]
LIMITS = (LimitRangeItem("Container", {"cpu": "2"}, {"cpu": "1"}, {"cpu": "1m"}, {"cpu": "100"}),)

JOB = {
    "spec": {
        "suspend": True,
        "parallelism": 3,
        "completions": 4,
        "completionMode": "Indexed",
        "template": TEMPLATE,
    },
    "status": {
        "active": 1,
        "succeeded": 2,
        "failedIndexes": "1,3-5",
        "completedIndexes": "0",
        "conditions": [CONDITION],
    },
}
JOBSET = {
    "spec": {
        "replicatedJobs": [
            {
                "name": "r",
                "replicas": 2,
                "template": {"spec": JOB["spec"]},
                "dependsOn": [{"name": "r", "status": "Ready"}],
            }
        ],
        "failurePolicy": {"maxRestarts": 1, "rules": [{"action": "FailJobSet"}]},
    },
    "status": {"replicatedJobsStatus": [{"name": "r", "ready": 1, "succeeded": 1, "active": 1}]},
}
REPLICAS = {
    name: {"replicas": 2, "template": TEMPLATE} for name in ("Master", "Worker", "Launcher", "PS")
}
TRAINING = {
    "spec": {
        "runPolicy": {"suspend": True, "schedulingPolicy": {"priorityClass": "p"}},
        **dict.fromkeys(
            (*("mpiReplicaSpecs", "pytorchReplicaSpecs"), *("tfReplicaSpecs", "xgbReplicaSpecs")),
            REPLICAS,
        ),
    },
    "status": {"replicaStatuses": {"Worker": {"active": 1}}, "conditions": [CONDITION]},
}
RAY = {
    "spec": {
        "rayClusterSpec": {
            "headGroupSpec": {"template": TEMPLATE},
            "workerGroupSpecs": [{"groupName": "W", "replicas": 2, "template": TEMPLATE}],
        },
        "submissionMode": "K8sJobMode",
    },
    "status": {"jobDeploymentStatus": "Running", "rayClusterStatus": {"state": "ready"}},
}
POD = {
    "spec": POD_SPEC,
    "status": {
        "phase": "Running",
        "conditions": [CONDITION, {**CONDITION, "type": "PodScheduled", "status": "False"}],
    },
}
WORKLOAD = {
    "spec": {
        "podSets": [{"name": "main", "count": 2, "minCount": 1, "template": TEMPLATE}],
        "queueName": "q",
        "priority": 1,
        "priorityClassRef": {"group": "g", "kind": "k", "name": "n"},
        "active": True,
        "maximumExecutionTimeSeconds": 5,
    },
    "status": {
        "admission": {
            "clusterQueue": "cq",
            "podSetAssignments": [
                {"name": "main", "flavors": {"cpu": "f"}, "resourceUsage": AMOUNTS, "count": 2}
            ],
        },
        "conditions": [CONDITION],
        "requeueState": {"count": 1, "requeueAt": "2026-01-01T00:00:00Z"},
        "reclaimablePods": [{"name": "main", "count": 1}],
        "schedulingStats": {"evictions": [{"reason": "r", "underlyingCause": "c", "count": 1}]},
    },
}
CLUSTER_QUEUE = {
    "spec": {
        "resourceGroups": QUOTAS,
        "cohortName": "c",
        "queueingStrategy": "StrictFIFO",
        "namespaceSelector": SELECTOR,
        "flavorFungibility": {"whenCanBorrow": "MayStopSearch"},
        "preemption": {"borrowWithinCohort": {"policy": "Never", "maxPriorityThreshold": 3}},
        "admissionChecksStrategy": {"admissionChecks": [{"name": "c", "onFlavors": []}]},
    },
    "status": {"conditions": [CONDITION]},
}

_CORE, _QUEUES = Decoder(), QueueDecoder(Decoder())
DECODERS: dict[str, tuple[Callable[[bytes], object], Mapping[str, Any]]] = {
    "pod": (_CORE.pod, POD),
    "node": (
        _CORE.node,
        {
            "spec": {"taints": [{"key": "k"}]},
            "status": {"allocatable": AMOUNTS, "conditions": [CONDITION]},
        },
    ),
    "job": (_CORE.job, JOB),
    "pod group": (
        partial(_CORE.pod_group, api_group=wellknown.GROUP_X),
        {
            "spec": {"minMember": 3, "minResources": AMOUNTS, "scheduleTimeoutSeconds": 5},
            "status": {
                "phase": "Running",
                "scheduled": 1,
                "scheduleStartTime": "2026-01-01T00:00:00Z",
                "conditions": [CONDITION],
            },
        },
    ),
    "template": (_CORE.template, TEMPLATE),
    "flavor": (
        _QUEUES.flavor,
        {"spec": {"nodeLabels": {"a": "b"}, "nodeTaints": [{"key": "k"}], "tolerations": []}},
    ),
    "cluster queue": (_QUEUES.cluster_queue, CLUSTER_QUEUE),
    "cohort": (_QUEUES.cohort, {"spec": {"parentName": "p", "resourceGroups": QUOTAS}}),
    "local queue": (
        _QUEUES.local_queue,
        {"spec": {"clusterQueue": "cq"}, "status": {"conditions": [CONDITION]}},
    ),
    "namespace": (_QUEUES.namespace, {}),
    "priority class": (_QUEUES.priority_class, {"value": 3}),
    "workload priority class": (_QUEUES.workload_priority_class, {"value": 3}),
    "limit range": (
        _QUEUES.limit_range,
        {"spec": {"limits": [{"type": "Container", "default": AMOUNTS, "min": AMOUNTS}]}},
    ),
    "runtime class": (_QUEUES.runtime_class, {"overhead": {"podFixed": AMOUNTS}}),
    "workload": (_QUEUES.workload, WORKLOAD),
    "identity": (identify, {"apiVersion": "v1", "kind": "Pod"}),
}
JOBS: dict[str, Mapping[str, Any]] = {
    "batch/job": JOB,
    "jobset.x-k8s.io/jobset": JOBSET,
    "ray.io/rayjob": RAY,
    "pod": POD,
}
INTEGRATIONS = registry.builtin()
DECODERS |= {
    f"queued {name}": (
        partial(_QUEUES.job, kind=name, group_of=each.group_of, done=each.done),
        JOBS.get(name, TRAINING),
    )
    for name, each in INTEGRATIONS.items()
}


def encoded(found: object) -> bytes:
    """Return JSON as the API server may send it; what is odd stays so."""
    text = json.dumps(found, ensure_ascii=True)
    deep = '{"a":' * NESTED + "1" + "}" * NESTED
    return text.replace(json.dumps(DEEP), deep).encode()


def places(found: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths to everything inside of an object."""
    inside: list[tuple[Any, Any]] = []
    if isinstance(found, dict):
        inside = list(found.items())
    elif isinstance(found, list):
        inside = list(enumerate(found))
    below = [each for name, value in inside for each in places(value, (*path, name))]
    return [path, *below] if path else below


@st.composite
def mutated(draw: st.DrawFn, source: Mapping[str, Any]) -> Any:
    """Return an object of which one or two parts are something else, or gone."""
    found = deepcopy({"metadata": META, **source})
    for _ in range(draw(st.integers(1, 2))):
        there = places(found)
        if not there:
            break
        path = draw(st.sampled_from(there))
        where: Any = found
        for name in path[:-1]:
            where = where[name]
        if draw(st.booleans()) or isinstance(where, list):
            where[path[-1]] = draw(JSON)
        else:
            del where[path[-1]]
    return found


def reads(decode: Callable[[bytes], object], raw: bytes) -> object | None:
    """Return what is read, None where it is said to be unreadable."""
    try:
        return decode(raw)
    except DecodeError:
        return None


@pytest.mark.parametrize("kind", DECODERS)
@given(st.data())
def test_a_decoder_reads_or_says_that_it_cannot(kind: str, data: st.DataObject) -> None:
    decode, source = DECODERS[kind]
    found = data.draw(mutated(source))
    read = reads(decode, encoded(found))
    if isinstance(read, WorkloadInfo):
        queues = Queues(_QUEUES.completed)
        queues.apply(ev.Applied(read))
        validate_queues(queues)
        for each in read.pod_sets:
            assert _QUEUES.completed(each, LIMITS, {}).name == each.name


@pytest.mark.parametrize("kind", DECODERS)
@settings(max_examples=examples(40))
@given(JSON)
def test_a_decoder_reads_any_json_or_says_that_it_cannot(kind: str, found: Any) -> None:
    reads(DECODERS[kind][0], encoded(found))
    reads(DECODERS[kind][0], encoded({"metadata": META, "spec": found, "status": found}))


@pytest.mark.parametrize("kind", DECODERS)
@settings(max_examples=examples(40))
@given(st.binary())
def test_a_decoder_reads_any_bytes_or_says_that_it_cannot(kind: str, raw: bytes) -> None:
    reads(DECODERS[kind][0], raw)


@pytest.mark.parametrize("kind", DECODERS)
def test_the_objects_that_are_mutated_can_be_read(kind: str) -> None:
    decode, source = DECODERS[kind]
    found = decode(encoded({"metadata": META, **source}))
    assert getattr(found, "unreadable", "") == ""


@pytest.mark.parametrize("kind", DECODERS)
def test_duplicate_keys_are_read_as_one(kind: str) -> None:
    decode, source = DECODERS[kind]
    raw = encoded({"metadata": META, **source})
    assert reads(decode, raw[:-1] + b"," + raw[1:]) is not None


class _Queues:
    def has_local_queue(self, namespace: str, name: str) -> bool:
        return False

    def holds_all(self, namespace: str) -> bool:
        return True


@pytest.mark.parametrize("kind", INTEGRATIONS)
@settings(max_examples=examples(40))
@given(st.data())
async def test_the_job_webhooks_answer_whatever_a_job_holds(kind: str, data: st.DataObject) -> None:
    each = INTEGRATIONS[kind]
    found = data.draw(mutated({"kind": each.kind, **JOBS.get(kind, TRAINING)}))
    old = data.draw(st.sampled_from([None, {"metadata": META, **JOBS.get(kind, TRAINING)}]))
    request = {
        "uid": "1",
        "operation": "CREATE" if old is None else "UPDATE",
        "kind": {"group": each.group, "version": each.version, "kind": each.kind},
        "namespace": "ns",
        "object": found,
        "oldObject": old,
    }
    body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    for path in ("/mutate-job", "/validate-job"):
        status, answer = await posted(path, encoded(body))
        assert status in {200, 400, 413}
        if status == 200:
            assert isinstance(answer["response"]["allowed"], bool)


@pytest.mark.parametrize("kind", ["Workload", "ClusterQueue"])
@pytest.mark.parametrize("version", [conversion.OLDER, conversion.NEWER])
@settings(max_examples=examples(40))
@given(st.data())
async def test_conversion_answers_whatever_an_object_holds(
    kind: str, version: str, data: st.DataObject
) -> None:
    source = WORKLOAD if kind == "Workload" else CLUSTER_QUEUE
    said = {"apiVersion": conversion.NEWER, "kind": kind}
    found = data.draw(mutated({**said, **source}))
    request = {"uid": "1", "desiredAPIVersion": version, "objects": [found]}
    status, answer = await posted(
        "/convert", encoded({"kind": "ConversionReview", "request": request})
    )
    assert status in {200, 400, 413}
    if status == 200:
        assert answer["response"]["result"]["status"] in {"Success", "Failed"}


async def posted(path: str, body: bytes) -> tuple[int, Any]:
    """Return the status and the answer of a webhook."""
    app = webhooks_app(by_kind(INTEGRATIONS.values()), _Queues(), ready=lambda: True)
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="https://hooks") as client:
        answer = await client.post(path, content=body)
    deep = b'{"a":' * 900
    readable = answer.status_code == 200 and deep not in answer.content
    return answer.status_code, answer.json() if readable else {
        "response": {"allowed": True, "result": {"status": "Success"}}
    }
