"""Raw JSON to the records of the state."""

import json
from typing import Any

import pytest

from extender.api.core_v1 import LabelSelector, Taint, Toleration
from extender.api.values import KNOWN_TEXTS
from extender.api.wellknown import (
    GANG_READY,
    GROUP_SIGS,
    GROUP_X,
    INDEX_LABEL,
    MIN_RUN_SECONDS,
    MIRROR_ANNOTATION,
    POD_GROUP_LABEL,
    POD_GROUP_LABEL_SIGS,
    PREEMPTION_COST,
)
from extender.fit.candidates import is_feasible
from extender.kube.decode import DecodeError, Decoder
from extender.kube.sizes import NamespaceBytes, SharedLabels
from extender.resources.ignored import IgnoredResources, ResourceNames
from extender.state.cluster.records import (
    BudgetInfo,
    JobInfo,
    NodeInfo,
    PodGroupInfo,
    PodInfo,
    Resumption,
    Shape,
)
from tests.makers import node

HEAD = {"name": "p", "namespace": "ns", "uid": "u"}


def raw(document: Any) -> bytes:
    return json.dumps(document).encode()


def pod(spec: Any = None, *, status: Any = None, **metadata: Any) -> bytes:
    document: dict[str, Any] = {"metadata": {**HEAD, **metadata}}
    if spec is not None:
        document["spec"] = spec
    if status is not None:
        document["status"] = status
    return raw(document)


def decoded(body: bytes) -> PodInfo:
    return Decoder().pod(body)


CONTAINERS = {
    "containers": [{"name": "c", "resources": {"requests": {"cpu": "2", "memory": "1Ki"}}}]
}
CONDITION = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no"}


def want(shape: Shape, **fields: Any) -> PodInfo:
    plain = {"uid": "u", "namespace": "ns", "name": "p"}
    return PodInfo(**{**plain, "shape": shape, **fields})


WANT_POD: dict[str, tuple[bytes, dict[str, Any]]] = {
    "only a name": (pod(), {}),
    "an empty spec and status": (pod({}, status={}), {}),
    "the newer label": (pod(labels={POD_GROUP_LABEL: "g"}), {"group": "ns/g"}),
    "the older label": (pod(labels={POD_GROUP_LABEL_SIGS: "g"}), {"group": "ns/g"}),
    "both labels: the newer counts": (
        pod(labels={POD_GROUP_LABEL_SIGS: "old", POD_GROUP_LABEL: "new"}),
        {"group": "ns/new"},
    ),
    "an empty label is none": (
        pod(labels={POD_GROUP_LABEL: "", POD_GROUP_LABEL_SIGS: "old"}),
        {"group": "ns/old"},
    ),
    "no labels": (pod(labels=None), {}),
    "a node": (pod({"nodeName": "n0"}), {"node": "n0"}),
    "an empty node is none": (pod({"nodeName": ""}), {}),
    "a priority": (pod({"priority": -3}), {"priority": -3}),
    "no priority": (pod({"priority": None}), {}),
    "gates": (pod({"schedulingGates": [{"name": "a"}, {"name": "b"}]}), {"gates": ("a", "b")}),
    "being deleted": (
        pod(deletionTimestamp="1970-01-01T00:01:30Z"),
        {"terminating": True, "gone_by": 90.0},
    ),
    "a pod for which others are not evicted": (
        pod({"preemptionPolicy": "Never"}),
        {"preempts": False},
    ),
    "one for which they may be": (pod({"preemptionPolicy": "PreemptLowerPriority"}), {}),
    "a cost of preemption": (pod(annotations={PREEMPTION_COST: "7"}), {"cost": 7}),
    "a cost below zero": (pod(annotations={PREEMPTION_COST: "-7"}), {"cost": -7}),
    "no cost": (pod(annotations={PREEMPTION_COST: "7.5"}), {}),
    "no number after a sign": (pod(annotations={PREEMPTION_COST: "--7"}), {}),
    "a static pod": (pod(annotations={MIRROR_ANNOTATION: "0"}), {"mirror": True}),
    "bound at a time": (
        pod(
            {"nodeName": "n0"},
            status={
                "conditions": [
                    {"type": "Ready", "lastTransitionTime": "1970-01-01T00:03:00Z"},
                    {"type": "PodScheduled", "lastTransitionTime": "1970-01-01T00:02:00Z"},
                ]
            },
        ),
        {"node": "n0", "bound_at": 120.0},
    ),
    "bound at no time": (
        pod(
            {"nodeName": "n0"},
            status={"conditions": [{"type": "PodScheduled", "lastTransitionTime": None}]},
        ),
        {"node": "n0"},
    ),
    "created": (pod(creationTimestamp="1970-01-01T00:01:00Z"), {"created": 60.0}),
    "succeeded": (pod(status={"phase": "Succeeded"}), {"finished": True, "phase": "Succeeded"}),
    "failed": (pod(status={"phase": "Failed"}), {"finished": True, "phase": "Failed"}),
    "refused by its node": (
        pod(
            status={
                "phase": "Failed",
                "reason": "OutOfcpu",
                "startTime": "1970-01-01T00:02:00Z",
            }
        ),
        {"finished": True, "phase": "Failed", "refused_at": 120.0},
    ),
    "refused at no time": (
        pod(
            status={"phase": "Failed", "reason": "OutOfpods"},
            creationTimestamp="1970-01-01T00:01:00Z",
        ),
        {"finished": True, "phase": "Failed", "created": 60.0, "refused_at": 60.0},
    ),
    "evicted by its node": (
        pod(status={"phase": "Failed", "reason": "Evicted"}),
        {"finished": True, "phase": "Failed"},
    ),
    "running": (pod(status={"phase": "Running"}), {"phase": "Running"}),
    "nominated": (pod(status={"nominatedNodeName": "n1"}), {"nominated": "n1"}),
    "unschedulable": (pod(status={"conditions": [CONDITION]}), {"unschedulable": "no"}),
    "containers are ready": (
        pod(status={"conditions": [{"type": "ContainersReady", "status": "True"}]}),
        {"ready": True},
    ),
    "another scheduler": (pod({"schedulerName": "mine"}), {"scheduler": "mine"}),
    "owners": (
        pod(ownerReferences=[{"name": "a", "kind": "Job"}, {"name": "b"}]),
        {"owners": ("ns/a", "ns/b")},
    ),
    "the owner that makes another one": (
        pod(
            ownerReferences=[
                {"name": "a", "uid": "x"},
                {"name": "b", "uid": "y", "controller": True},
            ]
        ),
        {"owners": ("ns/a", "ns/b"), "controller": "y"},
    ),
    "admitted, with its workload": (
        pod(
            labels={"kueue.x-k8s.io/podset": "main"},
            annotations={"kueue.x-k8s.io/workload": "job-w", "a": "b"},
        ),
        {"pod_set": "main", "workload": "ns/job-w"},
    ),
    "other annotations": (pod(annotations={"a": "b"}), {}),
    "a completion index": (pod(labels={INDEX_LABEL: "12"}), {"index": 12}),
    "the first completion index": (pod(labels={INDEX_LABEL: "0"}), {"index": 0}),
    "a completion index of an older cluster": (
        pod(annotations={INDEX_LABEL: "12", "a": "b"}),
        {"index": 12},
    ),
    "the label before the annotation": (
        pod(labels={INDEX_LABEL: "1"}, annotations={INDEX_LABEL: "2"}),
        {"index": 1},
    ),
    "an annotation that is no completion index": (pod(annotations={INDEX_LABEL: "x"}), {}),
    "no annotations": (pod(annotations=None), {}),
    "no completion index": (pod(labels={INDEX_LABEL: "-1"}), {}),
    "the largest completion index": (pod(labels={INDEX_LABEL: "9" * 10}), {"index": 10**10 - 1}),
    "one that is too large": (pod(labels={INDEX_LABEL: "1" + "0" * 10}), {}),
    "no completion index at all": (pod(labels={INDEX_LABEL: "1" * 5000}), {}),
    "our readiness gate": (
        pod({"readinessGates": [{"conditionType": "x"}, {"conditionType": GANG_READY}]}),
        {"readiness_gate": True},
    ),
    "another controller's readiness gate": (pod({"readinessGates": [{"conditionType": "x"}]}), {}),
    "we said that the gang is ready": (
        pod(status={"conditions": [{"type": GANG_READY, "status": "True"}]}),
        {"gang_ready": True},
    ),
    "we said that it is not": (
        pod(status={"conditions": [{"type": GANG_READY, "status": "False"}]}),
        {},
    ),
    "gated is not unschedulable": (
        pod(status={"conditions": [{**CONDITION, "reason": "SchedulingGated"}]}),
        {},
    ),
    "an error of kube-scheduler is not unschedulable": (
        pod(status={"conditions": [{**CONDITION, "reason": "SchedulerError"}]}),
        {},
    ),
    "scheduled after all": (
        pod(status={"conditions": [{**CONDITION, "status": "True"}]}),
        {},
    ),
    "another condition": (pod(status={"conditions": [{**CONDITION, "type": "Ready"}]}), {}),
    "a pod with a node is not unschedulable": (
        pod({"nodeName": "n0"}, status={"conditions": [CONDITION]}),
        {"node": "n0"},
    ),
}


@pytest.mark.parametrize(("body", "fields"), WANT_POD.values(), ids=WANT_POD)
def test_a_pod_is_read(body: bytes, fields: dict[str, Any]) -> None:
    found, labels = decoded(body), json.loads(body)["metadata"].get("labels") or {}
    labels.pop(INDEX_LABEL, None)

    assert found == want(found.shape, labels=labels, **fields)
    assert found.shape.requests == {"pods": 1}


def test_pods_of_one_job_share_their_labels() -> None:
    decoder = Decoder()
    one = decoder.pod(pod(labels={INDEX_LABEL: "1", "app": "a"}))
    other = decoder.pod(pod(labels={INDEX_LABEL: "2", "app": "a"}))
    plain = decoder.pod(pod(labels={"app": "a"}))

    assert one.labels == {"app": "a"}
    assert one.labels is other.labels
    assert one.labels is plain.labels
    assert (one.index, other.index) == (1, 2)
    assert decoder.pod(pod(labels={"app": "b"})).labels == {"app": "b"}


def test_more_labels_than_are_remembered() -> None:
    shared = SharedLabels(NamespaceBytes())
    for number in range(KNOWN_TEXTS + 2):
        assert shared.of({"app": str(number)}, "ns") == {"app": str(number)}


def container(cpu: str, **more: Any) -> dict[str, Any]:
    return {"name": "c", "resources": {"requests": {"cpu": cpu}}, **more}


WANT_REQUESTS: dict[str, tuple[dict[str, Any], dict[str, int]]] = {
    "containers": (CONTAINERS, {"cpu": 2000, "memory": 1024, "pods": 1}),
    "a container that asks for nothing": ({"containers": [{"name": "c"}]}, {"pods": 1}),
    "empty resources": ({"containers": [{"name": "c", "resources": {}}]}, {"pods": 1}),
    "limits alone are not requests": (
        {"containers": [{"name": "c", "resources": {"limits": {"cpu": "1"}}}]},
        {"pods": 1},
    ),
    "an init container": (
        {"containers": [container("1")], "initContainers": [container("3")]},
        {"cpu": 3000, "pods": 1},
    ),
    "a sidecar": (
        {
            "containers": [container("1")],
            "initContainers": [container("3", restartPolicy="Always")],
        },
        {"cpu": 4000, "pods": 1},
    ),
    "overhead": (
        {"containers": [container("1")], "overhead": {"cpu": "250m"}},
        {"cpu": 1250, "pods": 1},
    ),
    "pod-level resources": (
        {"containers": [container("1")], "resources": {"requests": {"cpu": "5"}}},
        {"cpu": 5000, "pods": 1},
    ),
    "amounts that are no text": (
        {"containers": [{"name": "c", "resources": {"requests": {"cpu": 1, "memory": 1.5}}}]},
        {"cpu": 1000, "memory": 2, "pods": 1},
    ),
}


@pytest.mark.parametrize(("spec", "want_requests"), WANT_REQUESTS.values(), ids=WANT_REQUESTS)
def test_requests_are_read(spec: dict[str, Any], want_requests: dict[str, int]) -> None:
    assert decoded(pod(spec)).shape.requests == want_requests


def test_where_a_pod_may_go_is_read() -> None:
    terms = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]
    spec = {
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "k", "operator": "Exists", "tolerationSeconds": 300}],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}
            }
        },
    }
    shape = decoded(pod(spec)).shape

    assert shape.node_selector == {"disk": "ssd"}
    assert shape.tolerations == (Toleration("k", "Exists", toleration_seconds=300),)
    assert is_feasible(shape, node("n", labels={"zone": "a", "disk": "ssd"}))
    assert not is_feasible(shape, node("n", labels={"zone": "b", "disk": "ssd"}))


@pytest.mark.parametrize("field", ["affinity", "tolerations", "nodeSelector", "initContainers"])
def test_null_is_as_good_as_nothing(field: str) -> None:
    shape = decoded(pod({**CONTAINERS, field: None})).shape

    assert (shape.affinity, shape.tolerations, shape.node_selector) == (None, (), {})


IGNORED = IgnoredResources(ResourceNames.parse(["example.com/*"]))


def test_what_kube_scheduler_ignores_is_not_asked_of_nodes_and_counts_for_quota() -> None:
    asked = {"resources": {"requests": {"cpu": "1", "example.com/plan": 2}}}
    spec = {"containers": [{"name": "c", **asked}]}
    found, plain = Decoder(IGNORED).pod(pod(spec)).shape, decoded(pod(spec)).shape

    assert found.requests == {"cpu": 1000, "pods": 1}
    assert found.asked == plain.asked == {"cpu": 1000, "pods": 1, "example.com/plan": 2}
    assert plain.requests == plain.asked
    assert not found.individually_constrained


def test_pods_that_differ_in_what_is_ignored_are_of_two_shapes() -> None:
    decoder = Decoder(IGNORED)
    specs = (
        {"containers": [{"name": "c", "resources": {"requests": {"example.com/plan": n}}}]}
        for n in (1, 2)
    )
    one, two = (decoder.pod(pod(spec)).shape for spec in specs)
    assert one is not two


def test_a_request_of_a_device_class_is_judged_by_kube_scheduler_alone() -> None:
    name = "deviceclass.resource.kubernetes.io/gpu"
    found = decoded(
        pod({"containers": [{"name": "c", "resources": {"requests": {name: 1}}}]})
    ).shape

    assert found.requests == {"pods": 1}
    assert found.individually_constrained


def test_min_resources_are_not_summed_up_of_what_is_ignored() -> None:
    body = raw({"metadata": HEAD, "spec": {"minResources": {"cpu": "1", "example.com/plan": 2}}})

    assert Decoder(IGNORED).pod_group(body, api_group=GROUP_X).min_resources == {"cpu": 1000}


def test_shapes_are_not_kept_alive() -> None:
    decoder = Decoder()
    kept = decoder.pod(pod(CONTAINERS))
    decoder.pod(pod({"containers": [container("1")]}))

    assert len(decoder._shapes) == 1
    assert decoder.pod(pod(CONTAINERS)).shape is kept.shape


def anti_affinity(selector: Any, *, topology: str = "kubernetes.io/hostname", **more: Any) -> Any:
    term = {"topologyKey": topology, "labelSelector": selector, **more}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    return {"affinity": {"podAntiAffinity": required}}


WANT_ALONE: dict[str, tuple[dict[str, Any], bool]] = {
    "nothing of the kind": ({}, False),
    "anti-affinity to its own label": (anti_affinity({"matchLabels": {"app": "a"}}), True),
    "anti-affinity to another label": (anti_affinity({"matchLabels": {"app": "b"}}), False),
    "anti-affinity by expression": (
        anti_affinity({"matchExpressions": [{"key": "app", "operator": "In", "values": ["a"]}]}),
        True,
    ),
    "anti-affinity to all pods": (anti_affinity({}), True),
    "anti-affinity to no pods": (anti_affinity(None), False),
    "anti-affinity within a zone": (
        anti_affinity({"matchLabels": {"app": "a"}}, topology="topology.kubernetes.io/zone"),
        False,
    ),
    "anti-affinity in another namespace": (
        anti_affinity({"matchLabels": {"app": "a"}}, namespaces=["other"]),
        False,
    ),
    "anti-affinity in its own namespace by name": (
        anti_affinity({"matchLabels": {"app": "a"}}, namespaces=["ns"]),
        True,
    ),
    "preferred anti-affinity": (
        {
            "affinity": {
                "podAntiAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {"weight": 1, "podAffinityTerm": {"topologyKey": "kubernetes.io/hostname"}}
                    ]
                }
            }
        },
        False,
    ),
    "a host port": ({"containers": [{"name": "c", "ports": [{"hostPort": 80}]}]}, True),
    "a port of its own": ({"containers": [{"name": "c", "ports": [{"containerPort": 80}]}]}, False),
}


@pytest.mark.parametrize(("spec", "want_alone"), WANT_ALONE.values(), ids=WANT_ALONE)
def test_whether_anti_affinity_allows_one_pod_per_node(
    spec: dict[str, Any], want_alone: bool
) -> None:
    assert decoded(pod(spec, labels={"app": "a"})).shape.one_per_node is want_alone


def test_host_ports() -> None:
    ports = [
        {"hostPort": 80},
        {"hostPort": 81, "protocol": "UDP", "hostIP": "10.0.0.1"},
        {"hostPort": 82, "hostIP": "0.0.0.0"},
        {"containerPort": 83},
    ]
    found = decoded(pod({"containers": [{"name": "c", "ports": ports}, {"name": "d"}]})).shape
    assert found.host_ports == {("TCP", 80, ""), ("UDP", 81, "10.0.0.1"), ("TCP", 82, "")}


def test_host_ports_of_sidecars_are_taken_and_those_of_init_containers_are_not() -> None:
    sidecar = {"name": "s", "restartPolicy": "Always", "ports": [{"hostPort": 90}]}
    first = {"name": "i", "ports": [{"hostPort": 91}]}
    spec = {
        "containers": [{"name": "c", "ports": [{"hostPort": 92}]}],
        "initContainers": [sidecar, first],
    }
    found = decoded(pod(spec)).shape
    assert found.host_ports == {("TCP", 90, ""), ("TCP", 92, "")}


RESTART_ALL = {"restartPolicyRules": [{"action": "RestartAllContainers"}]}
FEATURES: dict[str, tuple[dict[str, Any], set[str]]] = {
    "nothing of the kind": ({"hostNetwork": True, "hostUsers": None}, set()),
    "host users on the host's network": ({"hostNetwork": True, "hostUsers": True}, set()),
    "its own users on its own network": ({"hostUsers": False}, set()),
    "its own users on the host's network": (
        {"hostNetwork": True, "hostUsers": False},
        {"UserNamespacesHostNetworkSupport"},
    ),
    "another rule": (
        {"containers": [{"name": "c", "restartPolicyRules": [{"action": "Restart"}]}]},
        set(),
    ),
    "one container restarts all": (
        {"containers": [{"name": "c"}, {"name": "d", **RESTART_ALL}]},
        {"RestartAllContainersOnContainerExits"},
    ),
    "an init container restarts all": (
        {"initContainers": [{"name": "i", **RESTART_ALL}]},
        {"RestartAllContainersOnContainerExits"},
    ),
}


@pytest.mark.parametrize(("spec", "want"), FEATURES.values(), ids=FEATURES)
def test_what_a_node_has_to_declare_for_a_pod(spec: dict[str, Any], want: set[str]) -> None:
    assert decoded(pod(spec)).shape.features == want


def sized(cpu: str, name: str = "c", **more: Any) -> dict[str, Any]:
    return {"name": name, "resources": {"requests": {"cpu": cpu}}, **more}


def reported(name: str = "c", *, allocated: str, actual: str | None) -> dict[str, Any]:
    resources = {"resources": {"requests": {"cpu": actual}}} if actual else {}
    return {"name": name, "allocatedResources": {"cpu": allocated}, **resources}


PENDING = {"type": "PodResizePending", "status": "True", "reason": "Deferred"}
INFEASIBLE = {**PENDING, "reason": "Infeasible"}
BIG = sized("4")
SMALL = sized("1")
SIDECAR = sized("1", "s", restartPolicy="Always")
IN_PLACE: dict[str, tuple[dict[str, Any], dict[str, Any], int]] = {
    "what was given back counts while the containers have it": (
        {"containers": [SMALL]},
        {"containerStatuses": [reported(allocated="1", actual="4")]},
        4000,
    ),
    "what the kubelet set aside counts": (
        {"containers": [SMALL]},
        {"containerStatuses": [reported(allocated="3", actual="2500m")]},
        3000,
    ),
    "what is wanted counts before it is there": (
        {"containers": [BIG]},
        {
            "containerStatuses": [reported(allocated="1", actual="1")],
            "conditions": [PENDING],
        },
        4000,
    ),
    "what the node can never give does not count": (
        {"containers": [BIG]},
        {
            "containerStatuses": [reported(allocated="1", actual="1")],
            "conditions": [INFEASIBLE],
        },
        1000,
    ),
    "a container that has not been started counts as it is asked for": (
        {"containers": [SMALL]},
        {"containerStatuses": [reported(allocated="4", actual=None)]},
        1000,
    ),
    "each container counts by its name": (
        {"containers": [SMALL, sized("1", "d")]},
        {
            "containerStatuses": [
                reported("d", allocated="1", actual="2"),
                reported("c", allocated="1", actual="4"),
            ]
        },
        6000,
    ),
    "sidecars count, other init containers as they are asked for": (
        {"containers": [SMALL], "initContainers": [SIDECAR, sized("1", "i")]},
        {
            "initContainerStatuses": [
                reported("s", allocated="3", actual="3"),
                reported("i", allocated="9", actual="9"),
            ]
        },
        4000,
    ),
    "the pod as a whole": (
        {"containers": [SMALL], "resources": {"requests": {"cpu": "2"}}},
        {
            "resources": {"requests": {"cpu": "5", "memory": "1Gi"}},
            "allocatedResources": {"cpu": "3"},
        },
        5000,
    ),
    "the pod as a whole, as its node can never have it": (
        {"containers": [SMALL], "resources": {"requests": {"cpu": "9"}}},
        {"resources": {"requests": {"cpu": "2"}}, "conditions": [INFEASIBLE]},
        2000,
    ),
    "a status that says nothing of it": ({"containers": [SMALL]}, {}, 1000),
}


@pytest.mark.parametrize(("spec", "status", "cpu"), IN_PLACE.values(), ids=IN_PLACE)
def test_a_pod_that_was_resized_in_place_counts_as_kube_scheduler_counts_it(
    spec: dict[str, Any], status: dict[str, Any], cpu: int
) -> None:
    body = pod({**spec, "nodeName": "n0"}, status=status, generation=2)

    assert decoded(body).shape.requests == {"cpu": cpu, "pods": 1}


def test_a_pod_that_was_resized_and_has_what_it_asks_for_has_the_shape_of_its_template() -> None:
    decoder, spec = Decoder(), {"containers": [sized("1500m")]}
    status = {"containerStatuses": [reported(allocated="1500m", actual="1.5")]}
    here = {**spec, "nodeName": "n0"}

    before = decoder.pod(pod(spec)).shape
    assert decoder.pod(pod(here, status=status, generation=2)).shape is before


BAD_PODS: dict[str, bytes] = {
    "nothing": b"",
    "no JSON": b"{",
    "an array": b"[]",
    "a bad quantity": pod({"containers": [container("much")]}),
    "a bad overhead": pod({"overhead": {"cpu": "1x"}}),
    "a quantity that is an object": pod({"containers": [container({})]}),  # type: ignore[arg-type]
    "containers that are text": pod({"containers": "c"}),
    "a bad toleration": pod({"tolerations": [{"key": 7}]}),
    "a bad affinity": pod({"affinity": []}),
    "a bad time": pod(creationTimestamp="yesterday"),
}


@pytest.mark.parametrize("body", BAD_PODS.values(), ids=BAD_PODS)
def test_what_is_no_pod_is_an_error(body: bytes) -> None:
    with pytest.raises(DecodeError, match=r"^not a readable Pod: "):
        decoded(body)


READY = {"type": "Ready", "status": "True"}
WANT_NODE: dict[str, tuple[dict[str, Any], NodeInfo]] = {
    "only a name": ({"metadata": {"name": "n"}}, NodeInfo("n")),
    "everything": (
        {
            "metadata": {"name": "n", "labels": {"zone": "a"}},
            "spec": {
                "unschedulable": True,
                "taints": [{"key": "k", "value": "v", "effect": "NoSchedule", "timeAdded": None}],
            },
            "status": {
                "allocatable": {"cpu": "1500m", "memory": "1Ki", "pods": "110"},
                "declaredFeatures": ["RestartAllContainersOnContainerExits"],
                "capacity": {"cpu": "8"},
                "conditions": [{"type": "DiskPressure", "status": "False"}, READY],
            },
        },
        NodeInfo(
            "n",
            {"cpu": 1500, "memory": 1024, "pods": 110},
            {"zone": "a"},
            (Taint("k", "v", "NoSchedule"),),
            unschedulable=True,
            features=frozenset({"RestartAllContainersOnContainerExits"}),
        ),
    ),
    "not ready": (
        {"metadata": {"name": "n"}, "status": {"conditions": [{**READY, "status": "False"}]}},
        NodeInfo("n", ready=False),
    ),
    "not ready for a while": (
        {
            "metadata": {"name": "n"},
            "status": {
                "conditions": [
                    {
                        **READY,
                        "status": "Unknown",
                        "lastTransitionTime": "1970-01-01T00:01:40Z",
                    }
                ]
            },
        },
        NodeInfo("n", ready=False, unready_since=100.0),
    ),
    "not heard of": (
        {"metadata": {"name": "n"}, "status": {"conditions": [{**READY, "status": "Unknown"}]}},
        NodeInfo("n", ready=False),
    ),
    "nulls": (
        {
            "metadata": {"name": "n", "labels": None},
            "spec": {"taints": None},
            "status": {"allocatable": None, "conditions": None},
        },
        NodeInfo("n"),
    ),
}


@pytest.mark.parametrize(("document", "want_node"), WANT_NODE.values(), ids=WANT_NODE)
def test_a_node_is_read(document: dict[str, Any], want_node: NodeInfo) -> None:
    assert Decoder().node(raw(document)) == want_node


@pytest.mark.parametrize("body", [b"{", raw({"status": {"allocatable": {"cpu": "x"}}})])
def test_what_is_no_node_is_an_error(body: bytes) -> None:
    with pytest.raises(DecodeError, match=r"^not a readable Node: "):
        Decoder().node(body)


WANT_GROUP: dict[str, tuple[dict[str, Any], str, PodGroupInfo]] = {
    "only a name": ({"metadata": HEAD}, GROUP_X, PodGroupInfo("ns", "p", GROUP_X, 0, "u")),
    "everything": (
        {
            "metadata": {**HEAD, "creationTimestamp": "1970-01-01T00:01:00Z"},
            "spec": {
                "minMember": 3,
                "minResources": {"cpu": "2"},
                "scheduleTimeoutSeconds": 5,
                "later": True,
            },
        },
        GROUP_SIGS,
        PodGroupInfo("ns", "p", GROUP_SIGS, 3, "u", {"cpu": 2000}, 5.0, 60.0),
    ),
    "a timeout of zero is none": (
        {"metadata": HEAD, "spec": {"minMember": 1, "scheduleTimeoutSeconds": 0}},
        GROUP_X,
        PodGroupInfo("ns", "p", GROUP_X, 1, "u"),
    ),
    "annotations": (
        {
            "metadata": {
                **HEAD,
                "annotations": {
                    "scheduling.x-k8s.io/on-partial": "evict",
                    PREEMPTION_COST: "-5",
                    MIN_RUN_SECONDS: "600",
                },
            }
        },
        GROUP_X,
        PodGroupInfo("ns", "p", GROUP_X, 0, "u", on_partial="evict", cost=-5, min_run=600),
    ),
    "annotations that are no numbers": (
        {
            "metadata": {
                **HEAD,
                "annotations": {PREEMPTION_COST: "much", MIN_RUN_SECONDS: "-1"},
            }
        },
        GROUP_X,
        PodGroupInfo("ns", "p", GROUP_X, 0, "u"),
    ),
}


@pytest.mark.parametrize(
    ("document", "api_group", "want_group"), WANT_GROUP.values(), ids=WANT_GROUP
)
def test_a_pod_group_is_read(
    document: dict[str, Any], api_group: str, want_group: PodGroupInfo
) -> None:
    assert Decoder().pod_group(raw(document), api_group=api_group) == want_group


def test_a_pod_group_has_the_placement_of_its_annotation_or_of_the_setting() -> None:
    def read(said: dict[str, str]) -> str | None:
        found = raw({"metadata": {**HEAD, "annotations": said}})
        return Decoder(placement="pack").pod_group(found, api_group=GROUP_SIGS).placement

    assert read({}) == "pack"
    assert read({"scheduling.x-k8s.io/placement": "spread"}) == "spread"
    assert read({"scheduling.x-k8s.io/placement": ""}) == ""


@pytest.mark.parametrize(
    "spec",
    [{"minMember": -1}, {"minMember": "3"}, {"minResources": {"cpu": "x"}}, []],
    ids=["negative", "text", "a bad amount", "an array"],
)
def test_what_is_no_pod_group_is_an_error(spec: Any) -> None:
    with pytest.raises(DecodeError, match=r"^not a readable PodGroup: "):
        Decoder().pod_group(raw({"metadata": HEAD, "spec": spec}), api_group=GROUP_X)


LABELLED = {"metadata": {"labels": {POD_GROUP_LABEL: "g"}}}
ENDED = {"type": "Complete", "status": "True"}


def work(begun: int, done: int, more: int = 0) -> JobInfo:
    return JobInfo("u", "ns/g", begun, done, more)


DONE: dict[str, tuple[Any, Any, JobInfo]] = {
    "new": ({"parallelism": 4, "completions": 4}, {}, work(4, 0)),
    "three of four": ({"parallelism": 4, "completions": 4}, {"succeeded": 3}, work(4, 3)),
    "as many left as run at once": (
        {"parallelism": 4, "completions": 8},
        {"succeeded": 4},
        work(4, 0, 4),
    ),
    "fewer left than run at once": (
        {"parallelism": 4, "completions": 8},
        {"succeeded": 5},
        work(4, 1, 4),
    ),
    "more at once than are wanted": (
        {"parallelism": 9, "completions": 4},
        {"succeeded": 1},
        work(4, 1),
    ),
    "failed indexes are not run again": (
        {"parallelism": 6, "completions": 6},
        {"succeeded": 1, "failedIndexes": "1,3-4"},
        work(6, 4),
    ),
    "all": ({"parallelism": 4, "completions": 4}, {"succeeded": 4}, work(4, 4)),
    "ended": (
        {"parallelism": 4, "completions": 4},
        {"succeeded": 4, "conditions": [ENDED]},
        work(0, 0),
    ),
    "a condition that does not hold": (
        {"parallelism": 2, "completions": 2},
        {"succeeded": 1, "conditions": [{**ENDED, "status": "False"}]},
        work(2, 1),
    ),
    "a work queue": ({"parallelism": 4}, {"active": 3}, work(4, 0)),
    "a work queue that makes no more pods": (
        {"parallelism": 4},
        {"succeeded": 1, "active": 1},
        work(4, 3),
    ),
    "failed indexes beyond the end": (
        {"parallelism": 2, "completions": 2},
        {"failedIndexes": "1,5-8"},
        work(2, 1),
    ),
    "failed indexes that are none": (
        {"parallelism": 2, "completions": 2},
        {"succeeded": 1, "failedIndexes": "3-1,x"},
        work(2, 1),
    ),
    "one pod": ({"completions": 1}, {"succeeded": 1}, work(1, 1)),
}


@pytest.mark.parametrize(("spec", "status", "want"), DONE.values(), ids=DONE)
def test_what_a_job_has_behind_it_is_read(spec: Any, status: Any, want: JobInfo) -> None:
    body = {"metadata": HEAD, "spec": {**spec, "template": LABELLED}, "status": status}

    assert Decoder().job(raw(body)) == want


def test_the_owner_of_a_job_is_read() -> None:
    owners = [{"name": "a", "uid": "x"}, {"name": "b", "uid": "y", "controller": True}]
    job = Decoder().job(raw({"metadata": {**HEAD, "ownerReferences": owners}}))
    assert job == JobInfo("u", None, 1, 0, maker="y")


OWNED = {"ownerReferences": [{"name": "s", "uid": "y", "controller": True}]}
STOPPED = {"conditions": [{"type": "Suspended", "status": "True"}]}
OURS = {"annotations": {"scheduling.x-k8s.io/restarting": "true"}}
OF_SET = {**OWNED, "annotations": {"scheduling.x-k8s.io/restarting": "set"}}
UNMARKED = {**OWNED, "labels": {"jobset.sigs.k8s.io/jobset-name": "set"}}
MADE_ANEW = {
    **OWNED,
    "labels": {**UNMARKED["labels"], "jobset.sigs.k8s.io/restart-attempt": "1"},  # type: ignore[dict-item]
}
OF_QUEUE = {**OURS, "labels": {"kueue.x-k8s.io/queue-name": "q"}}
ITSELF = Resumption("ns/p")


@pytest.mark.parametrize(
    ("meta", "suspend", "status", "want"),
    [
        (OURS, True, STOPPED, ITSELF),
        (OURS, True, {}, None),
        (OURS, True, {**STOPPED, "active": 1}, None),
        (OURS, False, {}, ITSELF),  # someone else has resumed it
        ({}, True, STOPPED, None),
        (OF_QUEUE, True, STOPPED, None),
        (OF_SET, True, STOPPED, Resumption("ns/p", "ns/set")),
        (OF_SET, False, {}, None),  # its JobSet is not suspended yet
        # Only another Job of the JobSet, or the JobSet itself, says that we have suspended it.
        (UNMARKED, True, STOPPED, Resumption("ns/p", "ns/set", may_be_ours=False)),
        (MADE_ANEW, True, STOPPED, Resumption("ns/p", "ns/set")),
        (MADE_ANEW, False, {}, None),
    ],
)
def test_which_job_is_to_go_on(meta: Any, suspend: Any, status: Any, want: Any) -> None:
    body = {"metadata": {**HEAD, **meta}, "spec": {"suspend": suspend}, "status": status}
    assert Decoder().job(raw(body)).resumes == want


def test_a_job_of_no_group_and_one_that_is_none_are_distinguished() -> None:
    assert Decoder().job(raw({"metadata": HEAD})) == JobInfo("u", None, 1, 0)
    with pytest.raises(DecodeError, match="not a readable Job"):
        Decoder().job(raw({"metadata": HEAD, "status": {"succeeded": "many"}}))


def test_a_disruption_budget_is_read() -> None:
    spec = {"selector": {"matchLabels": {"app": "a"}}, "minAvailable": "50%"}
    body = raw({"metadata": HEAD, "spec": spec, "status": {"disruptionsAllowed": 2}})

    want_selector = LabelSelector(match_labels={"app": "a"})
    assert Decoder().budget(body) == BudgetInfo("ns", "p", want_selector, 2)
    assert Decoder().budget(raw({"metadata": HEAD})) == BudgetInfo("ns", "p")
    with pytest.raises(DecodeError, match="not a readable PodDisruptionBudget"):
        Decoder().budget(raw({"metadata": HEAD, "status": {"disruptionsAllowed": "all"}}))
