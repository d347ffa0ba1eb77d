"""Every property of the queue's CRDs and every name of Kueue is honoured, refused, or named."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from extender.api import wellknown
from extender.api.wellknown import (
    FIELDS_WITHOUT_EFFECT,
    INFORMATIVE,
    POD_SET_FIELDS_WITHOUT_EFFECT,
    names_without_effect,
    no_effect_sentence,
)
from extender.kube.decode import Decoder
from extender.kube.decode_queues import QueueDecoder
from extender.state.queue.records import Meta

CRDS = Path(__file__).parents[3] / "manifests" / "crds"


def words(text: str) -> list[str]:
    """Return the words of a text."""
    return text.split()


_QUOTAS = words(
    """
    resourceGroups resourceGroups[].coveredResources resourceGroups[].flavors
    resourceGroups[].flavors[].name resourceGroups[].flavors[].resources
    resourceGroups[].flavors[].resources[].name
    resourceGroups[].flavors[].resources[].nominalQuota
    resourceGroups[].flavors[].resources[].borrowingLimit
    resourceGroups[].flavors[].resources[].lendingLimit
    """
)
_TOLERATION = ["", ".key", ".operator", ".value", ".effect", ".tolerationSeconds"]
_REQUEST = "podSets[].topologyRequest"
_BACKOFF = ("LimitCount", "BaseSeconds", "MaxSeconds")

HONOURED: dict[str, list[str]] = {
    "ClusterQueue": [
        *_QUOTAS,
        *["queueingStrategy", "namespaceSelector", "namespaceSelector.matchLabels"],
        *(f"namespaceSelector.matchExpressions{x}" for x in ("", "[].key", "[].operator")),
        *["namespaceSelector.matchExpressions[].values", "stopPolicy", "cohortName"],
        *["preemption", "preemption.reclaimWithinCohort", "preemption.withinClusterQueue"],
        *(f"preemption.borrowWithinCohort{x}" for x in ("", ".policy", ".maxPriorityThreshold")),
        *(f"flavorFungibility{x}" for x in ("", ".whenCanBorrow", ".whenCanPreempt")),
        *("flavorFungibility.preference", "admissionChecksStrategy"),
        *(f"admissionChecksStrategy.admissionChecks{x}" for x in ("", "[].name", "[].onFlavors")),
    ],
    "AdmissionCheck": [
        *("controllerName", *(f"parameters{x}" for x in ("", ".apiGroup", ".kind", ".name"))),
    ],
    "ProvisioningRequestConfig": [
        *("provisioningClassName", "parameters", "managedResources", "podSetMergePolicy"),
        *("retryStrategy", *(f"retryStrategy.backoff{x}" for x in _BACKOFF)),
        *("podSetUpdates", "podSetUpdates.nodeSelector", "podSetUpdates.nodeSelector[].key"),
        "podSetUpdates.nodeSelector[].valueFromProvisioningClassDetail",
    ],
    "Cohort": ["parentName", *_QUOTAS],
    "LocalQueue": ["clusterQueue", "stopPolicy"],
    "ResourceFlavor": [
        *["nodeLabels", "topologyName", "nodeTaints", "nodeTaints[].key", "nodeTaints[].value"],
        # The API server of a node writes the time; it says nothing about what tolerates the taint.
        *("nodeTaints[].effect", "nodeTaints[].timeAdded"),
        *("tolerations", *(f"tolerations[]{each}" for each in _TOLERATION[1:])),
    ],
    "Topology": ["levels", "levels[].nodeLabel"],
    "WorkloadPriorityClass": [],
    "Workload": [
        *[
            "podSets",
            "podSets[].name",
            "podSets[].count",
            "podSets[].minCount",
            "podSets[].template",
        ],
        "podSets[].template.spec",
        *(
            f"podSets[].template.spec.{each}{path}"
            for each in ("containers", "initContainers")
            for path in ("", "[].name", "[].resources", "[].resources.requests")
        ),
        *(
            f"podSets[].template.spec.{each}[].resources.limits"
            for each in ("containers", "initContainers")
        ),
        *(f"{_REQUEST}{each}" for each in ("", ".required", ".preferred", ".unconstrained")),
        *(f"{_REQUEST}.podSetSlice{each}" for each in ("RequiredTopology", "Size")),
        *["queueName", "priority", "active", "maximumExecutionTimeSeconds"],
        *["preemptionGates", "preemptionGates[].name"],
        *(f"priorityClassRef{each}" for each in ("", ".group", ".kind", ".name")),
    ],
}
"""The properties of `spec` that decide something, by kind."""

REFUSED: dict[str, list[str]] = {
    # The Workload is Misconfigured.
    "Workload": [
        f"{_REQUEST}.podSetGroupName",
        *(
            f"{_REQUEST}.podsetSliceRequiredTopologyConstraints{x}"
            for x in ("", "[].topology", "[].size")
        ),
    ],
}
"""The properties that keep the object from being used, with a reason."""

KUEUE_NAMES = words(
    """
    admission admission-gated-by auto-generated cluster-queue-name component-workload-index
    concurrent-admission concurrent-admission-parent elastic-job is-group-workload
    job-completions-equal-parallelism job-min-parallelism job-owner-gvk job-owner-name job-uid
    local-queue-name managed manager max-exec-time-seconds multikueue-origin multikueue-origin-uid
    multikueue-worker-workload-pod pod-group-fast-admission pod-group-name pod-group-pod-index
    pod-group-pod-index-label pod-group-serving pod-group-total-count pod-index-offset
    pod-suspending-parent podset podset-group-name podset-preferred-topology
    podset-required-topology podset-slice-required-topology
    podset-slice-required-topology-constraints podset-slice-size podset-unconstrained-topology
    prebuilt-workload-name preemption-config-name priority-boost priority-class queue-name
    raycluster-generation raycluster-podset-replica-sizes resource-in-use retriable-in-group
    role-hash safe-to-forcefully-delete stopping topology wait-for-pods-ready workload
    workload-allowed-resource-flavors workload-slice-name workload-slice-replacement-for
    """
)
"""The labels, annotations, gates and finalizers that Kueue 0.20 reads or writes."""

HONOURED_NAMES = words(
    """
    admission admission-gated-by job-completions-equal-parallelism job-min-parallelism job-uid
    managed max-exec-time-seconds pod-group-name pod-group-total-count pod-suspending-parent podset
    podset-group-name
    podset-preferred-topology podset-required-topology podset-slice-required-topology
    podset-slice-required-topology-constraints podset-slice-size podset-unconstrained-topology
    prebuilt-workload-name priority-class queue-name resource-in-use retriable-in-group role-hash
    stopping topology workload
    """
)


def documents() -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield each kind of the queue, and the schema of its properties."""
    for path in sorted(CRDS.glob("kueue.x-k8s.io_*.yaml")):
        crd = yaml.safe_load(path.read_text())
        version = next(x for x in crd["spec"]["versions"] if x["name"] == "v1beta2")
        schema = version["schema"]["openAPIV3Schema"]["properties"]
        yield crd["spec"]["names"]["kind"], schema.get("spec", {})


def paths(schema: Mapping[str, Any], before: str = "") -> Iterator[str]:
    """Yield the paths of all properties of a schema."""
    for name, each in schema.get("properties", {}).items():
        path = f"{before}.{name}" if before else name
        yield path
        yield from paths(each, path)
        yield from paths(each.get("items", {}), f"{path}[]")


@pytest.mark.parametrize(("kind", "schema"), [*documents()], ids=[x for x, _ in documents()])
def test_each_property_is_honoured_refused_or_named(kind: str, schema: Mapping[str, Any]) -> None:
    named = set(FIELDS_WITHOUT_EFFECT.get(kind, ()))
    if kind == "Workload":
        named = {f"{_REQUEST}.{each}" for each in POD_SET_FIELDS_WITHOUT_EFFECT}
    known = {*HONOURED[kind], *REFUSED.get(kind, ())}
    assert known.isdisjoint(named)
    there = set(paths(schema))
    undecided = {
        path
        for path in there - known
        if not any(path == each or path.startswith(f"{each}.") for each in named)
    }
    assert undecided == set(), "say whether these are honoured, refused, or have no effect"
    assert known <= there, "these are no properties any more"


def test_the_fields_of_our_first_release_are_no_properties_any_more() -> None:
    found = dict(documents())
    assert "wallTimePolicy" not in found["LocalQueue"]["properties"]
    assert "resourceWeights" not in found["ResourceFlavor"]["properties"]


@pytest.mark.parametrize("name", KUEUE_NAMES)
def test_each_name_of_kueue_is_honoured_or_named(name: str) -> None:
    full = f"kueue.x-k8s.io/{name}"
    known = full in vars(wellknown).values()
    assert known is (name in HONOURED_NAMES)
    assert names_without_effect([full]) == (() if known or full in INFORMATIVE else (full,))


def test_names_of_others_and_provisioning_parameters_are_left_alone() -> None:
    mine = {"example.com/a": "", "scheduling.x-k8s.io/pod-group": "g", "app": "x"}
    assert names_without_effect(mine, {}) == ()
    asked = "provreq.kueue.x-k8s.io/maxRunDurationSeconds"
    assert names_without_effect(mine, [asked]) == ()


def test_what_has_no_effect_is_said_in_a_sentence() -> None:
    assert no_effect_sentence([]) == ""
    assert (
        no_effect_sentence(["spec.fairSharing"])
        == "spec.fairSharing has no effect: see docs/reference/kueue.md"
    )
    assert no_effect_sentence(["a", "b"]).startswith("a, b have no effect")


SPECS: dict[str, dict[str, Any]] = {
    "cluster_queue": {
        "fairSharing": {"weight": "2"},
        "admissionScope": {"admissionMode": "NoAdmissionFairSharing"},
        "concurrentAdmissionPolicy": {},
    },
    "cohort": {"fairSharing": {}},
    "local_queue": {"clusterQueue": "cq", "fairSharing": {}, "wallTimePolicy": {}},
    "flavor": {"resourceWeights": {"cpu": "1"}, "nodeLabels": {"a": "b"}},
}


@pytest.mark.parametrize("method", SPECS)
def test_decoded_objects_know_what_of_them_has_no_effect(method: str) -> None:
    decode = getattr(QueueDecoder(Decoder()), method)
    metadata = {"name": "x", "annotations": {"kueue.x-k8s.io/priority-boost": "1"}}
    found: Meta = decode(msgspec.json.encode({"metadata": metadata, "spec": SPECS[method]})).meta
    fields = [f"spec.{x}" for x in SPECS[method] if x not in {"clusterQueue", "nodeLabels"}]
    assert list(found.ignored) == [*fields, "kueue.x-k8s.io/priority-boost"]
    assert decode(msgspec.json.encode({"metadata": {"name": "x"}})).meta.ignored == ()


def test_a_workload_names_the_parts_of_a_topology_request_that_have_no_effect() -> None:
    request = {"required": "rack", "podIndexLabel": "example.com/index", "subGroupCount": 2}
    template: dict[str, Any] = {"spec": {"containers": []}}
    sets = [{"name": "main", "template": template, "topologyRequest": request}]
    body = {"metadata": {"name": "w", "namespace": "ns"}, "spec": {"podSets": sets}}
    found = QueueDecoder(Decoder()).workload(msgspec.json.encode(body))
    where = "spec.podSets[main].topologyRequest"
    assert found.meta.ignored == (f"{where}.podIndexLabel", f"{where}.subGroupCount")
    request["podIndexLabel"] = wellknown.INDEX_LABEL
    del request["subGroupCount"]
    assert QueueDecoder(Decoder()).workload(msgspec.json.encode(body)).meta.ignored == ()


def test_names_in_a_pod_template_are_said_once() -> None:
    names = {"kueue.x-k8s.io/no-such": "a", "kueue.x-k8s.io/podset": "main", "other/name": "b"}
    template = {"metadata": {"labels": names, "annotations": {"kueue.x-k8s.io/odd": ""}}}
    pod_sets = [{"name": name, "template": template} for name in ("a", "b")]
    meta = {"name": "w", "labels": {"kueue.x-k8s.io/odd": ""}}
    raw = msgspec.json.encode({"metadata": meta, "spec": {"podSets": pod_sets}})
    found = QueueDecoder(Decoder()).workload(raw)
    assert found.meta.ignored == ("kueue.x-k8s.io/odd", "kueue.x-k8s.io/no-such")
