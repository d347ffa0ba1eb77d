"""The states of admission checks, as they are read and written."""

import json
from dataclasses import replace
from typing import Any

from extender.api.core_v1 import Toleration
from extender.api.queue_wire import PodSetUpdate, ProvisioningRequestSpec, RetryStrategy
from extender.kube.decode import Decoder
from extender.kube.decode_queues import QueueDecoder
from extender.kube.queues import status_patch
from extender.state.queue.events import Applied, Deleted
from extender.state.queue.records import (
    AdmissionCheckInfo,
    CheckRule,
    CheckState,
    ProvisioningRequestInfo,
)
from tests.queue_makers import Admissions, cluster_queue, meta
from tests.queue_makers import workload as asks

READY = {
    "name": "nodes",
    "state": "Ready",
    "message": "they are there",
    "lastTransitionTime": "2026-01-02T03:04:05Z",
    "requeueAfterSeconds": 60,
    "retryCount": 2,
    "podSetUpdates": [
        {
            "name": "main",
            "labels": {"a": "b"},
            "annotations": {"c": "d"},
            "nodeSelector": {"pool": "new"},
            "tolerations": [{"key": "new", "operator": "Exists", "effect": "NoSchedule"}],
        }
    ],
}
PENDING = {
    "name": "budget",
    "state": "Pending",
    "message": "",
    "lastTransitionTime": "2026-01-02T03:04:05Z",
    "retryCount": 0,
}


def workload(checks: list[dict[str, Any]]) -> bytes:
    metadata = {"name": "w", "namespace": "ns", "uid": "u", "resourceVersion": "7"}
    return json.dumps({"metadata": metadata, "status": {"admissionChecks": checks}}).encode()


def test_the_states_of_checks_are_read_and_written_as_they_are() -> None:
    found = QueueDecoder(Decoder()).workload(workload([PENDING, READY]))
    assert found.checks == (
        CheckState("budget", last_transition=1767323045.0),
        CheckState(
            "nodes",
            "Ready",
            "they are there",
            1767323045.0,
            (
                PodSetUpdate(
                    "main",
                    {"a": "b"},
                    {"c": "d"},
                    {"pool": "new"},
                    [Toleration("new", "Exists", "", "NoSchedule")],
                ),
            ),
            60,
            2,
        ),
    )
    bare = replace(found, checks=())
    # A count of zero need not be said.
    said = {name: value for name, value in PENDING.items() if value != 0}
    assert status_patch(bare, found) == {"admissionChecks": [said, READY]}
    assert status_patch(found, bare) == {"admissionChecks": None}
    assert status_patch(found, replace(found)) == {}


def test_a_queue_says_which_flavors_need_a_check() -> None:
    rules = [{"name": "nodes", "onFlavors": ["spot"]}, {"name": "budget"}]
    spec = {"admissionChecksStrategy": {"admissionChecks": rules}}
    raw = json.dumps({"metadata": {"name": "cq"}, "spec": spec}).encode()
    assert QueueDecoder(Decoder()).cluster_queue(raw).admission_checks == (
        CheckRule("nodes", frozenset(("spot",))),
        CheckRule("budget"),
    )


def raw(spec: dict[str, Any], status: dict[str, Any] | None = None, **more: Any) -> bytes:
    metadata = {"name": "one", "uid": "u", "resourceVersion": "7", **more}
    return json.dumps({"metadata": metadata, "spec": spec, "status": status or {}}).encode()


def test_a_check_its_configuration_and_a_request_are_read() -> None:
    decoder = QueueDecoder(Decoder())
    of = {"apiGroup": "kueue.x-k8s.io", "kind": "ProvisioningRequestConfig", "name": "config"}
    active = {"type": "Active", "status": "True", "reason": "Active", "message": ""}
    check = decoder.admission_check(
        raw({"controllerName": "x/y", "parameters": of}, {"conditions": [active]})
    )
    assert (check.controller, check.parameters) == ("x/y", tuple(of.values()))
    assert check.active
    assert not decoder.admission_check(raw({"controllerName": "x/y"})).active

    label = {"key": "pool", "valueFromProvisioningClassDetail": "Pool"}
    config = decoder.provisioning_config(
        raw(
            {
                "provisioningClassName": "atomic",
                "parameters": {"a": "b"},
                "managedResources": ["gpu"],
                "retryStrategy": {"backoffLimitCount": 1},
                "podSetMergePolicy": "IdenticalPodTemplates",
                "podSetUpdates": {"nodeSelector": [label]},
            }
        )
    )
    spec = config.spec
    assert (spec.provisioning_class_name, spec.parameters) == ("atomic", {"a": "b"})
    assert (spec.managed_resources, spec.pod_set_merge_policy) == (["gpu"], "IdenticalPodTemplates")
    assert spec.retry_strategy == RetryStrategy(1, 60, 1800)
    assert spec.pod_set_updates == {"nodeSelector": [label]}

    owner = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "name": "w", "uid": "x"}
    pods = {"podTemplateRef": {"name": "ppt-one-main"}, "count": 2}
    request = decoder.provisioning_request(
        raw(
            {"provisioningClassName": "atomic", "podSets": [pods]},
            {"provisioningClassDetails": {"Pool": "p"}, "conditions": [active]},
            namespace="ns",
            ownerReferences=[owner],
        )
    )
    assert (request.workload, request.details) == ("ns/w", {"Pool": "p"})
    assert request.spec.pod_sets[0].pod_template_ref == {"name": "ppt-one-main"}
    assert request.spec.provisioning_class_name == "atomic"
    assert request.condition("Active") is not None


def test_what_belongs_to_checks_says_what_it_concerns() -> None:
    check = AdmissionCheckInfo(meta("nodes"), "x/y")
    listing = cluster_queue("lists", admission_checks=(CheckRule("nodes"),))
    queues = Admissions(listing, cluster_queue("other"), asks("w"))
    view = queues.view
    change = queues.queues.apply(Applied(check))
    assert (change.structure, change.cluster_queues, change.checks) == (
        True,
        frozenset(("lists",)),
        frozenset(("nodes",)),
    )
    same = replace(check, meta=replace(check.meta, version=check.meta.version + 1))
    assert not queues.queues.apply(Applied(same)).structure
    request = ProvisioningRequestInfo(meta("r", "ns"), "ns/w", ProvisioningRequestSpec())
    assert queues.queues.apply(Applied(request)).workloads == {"ns/w"}
    assert view.requests_of("ns/w") == [request]
    assert queues.queues.apply(Deleted(request)).workloads == {"ns/w"}
    assert view.requests_of("ns/w") == []
    assert queues.queues.apply(Deleted(check)).checks == set()
