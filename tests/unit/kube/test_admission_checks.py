"""The states of admission checks, as they are read and written."""

import json
from dataclasses import replace
from typing import Any

from extender.api.core_v1 import Toleration
from extender.api.queue_wire import PodSetUpdate
from extender.kube.decode import Decoder
from extender.kube.decode_queues import QueueDecoder
from extender.kube.queues import status_patch
from extender.state.queue.records import CheckRule, CheckState

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
