"""Gates are honoured, claims are refused, and what has no effect is named."""

from functools import partial
from typing import Any

import pytest

from tests.cluster.alone import in_place_of
from tests.cluster.conftest import NodeFactory
from tests.cluster.queues import JOBS, QUEUE, Queues
from tests.harness import objects
from tests.harness.client import Api
from tests.harness.control_plane import ControlPlane
from tests.harness.reconciler import Reconciler

pytestmark = pytest.mark.usefixtures("gang", "reconciler")

GATED_BY = "kueue.x-k8s.io/admission-gated-by"
BOOST = "kueue.x-k8s.io/priority-boost"


def gated_job(queues: Queues, name: str, by: str, **options: Any) -> None:
    """Create a Job of a queue that controllers hold back."""
    body = objects.job(
        name, 1, namespace=queues.namespace, queue="queue", suspend=True, cpu="1", **options
    )
    body["metadata"].setdefault("annotations", {})[GATED_BY] = by
    queues.api.create(body)


def test_a_gated_job_gets_its_quota_when_the_last_gate_is_gone(
    api: Api, queues: Queues, nodes: NodeFactory
) -> None:
    nodes(1, "4")
    queues.simple(cpu=1)
    gated_job(queues, "held", "example.com/budget,example.com/data", run_for="1h")
    said = queues.await_condition("held", "QuotaReserved", "False", reason="AdmissionGated")
    assert said["message"] == "Admission is gated by: example.com/budget,example.com/data"

    queues.job("other", 1, run_for="1h")
    queues.await_started("other")  # the younger one has the quota

    def annotate(value: str | None) -> None:
        body = {"metadata": {"annotations": {GATED_BY: value}}}
        api.patch(JOBS, "held", queues.namespace, body=body)

    annotate("example.com/data")
    api.wait_for(
        "the message names the gate that is left",
        lambda: (
            queues.condition("held", "QuotaReserved").get("message")
            == "Admission is gated by: example.com/data"
        ),
    )
    annotate(None)
    queues.await_condition("held", "QuotaReserved", "False", reason="WaitingForQuota")
    api.delete(JOBS, "other", queues.namespace)
    queues.await_started("held")
    workload = queues.its_workload("held")
    name = workload["metadata"]["name"]
    api.wait_for(
        "both Events are there",
        lambda: (
            api.notes(queues.namespace, "AdmissionGated", name=name)
            and api.notes(queues.namespace, "AdmissionGateCleared", name=name)
        ),
    )


def test_a_job_with_resource_claims_waits_and_says_why(queues: Queues, nodes: NodeFactory) -> None:
    nodes(1, "4")
    queues.simple(cpu=4)
    body = objects.job("claims", 1, namespace=queues.namespace, queue="queue", suspend=True)
    claim = {"name": "gpu", "resourceClaimTemplateName": "gpus"}
    body["spec"]["template"]["spec"]["resourceClaims"] = [claim]
    queues.api.create(body)
    said = queues.await_condition("claims", "QuotaReserved", "False", reason="Misconfigured")
    assert "DRA resource claims not supported" in said["message"]
    assert queues.is_suspended("claims")


def test_fields_and_annotations_without_effect_are_named_once(
    api: Api, queues: Queues, reconciler: Reconciler
) -> None:
    shares: dict[str, Any] = {"fairSharing": {"weight": "2"}}
    cohort = queues.create("Cohort", "cohort", shares)
    cluster_queue = queues.cluster_queue(cpu=4, cohortName=cohort, **shares)
    queues.local_queue("queue", cluster_queue, **shares)
    body = objects.job("boosted", 1, namespace=queues.namespace, queue="queue", suspend=True)
    body["metadata"].setdefault("annotations", {})[BOOST] = "5"
    api.create(body)

    def told(namespace: str, name: str, what: str) -> bool:
        notes = api.notes(namespace, "NotHonoured", name=name)
        return notes == [f"{what} has no effect: see docs/reference/kueue.md"]

    for namespace, name, what in (
        ("default", cohort, "spec.fairSharing"),
        ("default", cluster_queue, "spec.fairSharing"),
        (queues.namespace, "queue", "spec.fairSharing"),
        (queues.namespace, "boosted", BOOST),
    ):
        api.wait_for(f"{name} is told", partial(told, namespace, name, what))
    metric = 'gang_extender_queue_ignored_fields{field="spec.fairSharing",kind="LocalQueue"}'
    assert reconciler.metric(metric) >= 1


def test_a_deployment_whose_pods_are_not_queued_is_told_once(
    api: Api, queues: Queues, reconciler: Reconciler
) -> None:
    queues.simple()
    body = objects.deployment("web", 0, namespace=queues.namespace)
    body["metadata"]["labels"] = {QUEUE: "queue"}
    api.create(body)

    def told() -> bool:
        [note] = api.notes(queues.namespace, "NotQueued", name="web") or [""]
        return "its pod template does not name the queue: apply manifests/optional" in note

    api.wait_for("it is told", told)
    reconciler.restart()
    reconciler.wait_leading()
    body = {"metadata": {"labels": {"x": "y"}}}
    api.patch("apps/v1/deployments", "web", queues.namespace, body=body)
    assert told()


def test_an_object_of_a_kind_that_the_settings_leave_out_is_told(
    api: Api, queues: Queues, control_plane: ControlPlane, reconciler: Reconciler
) -> None:
    settings = {"queue": {"integrations": ["batch/job"]}}
    with in_place_of(reconciler, control_plane, "jobs-alone", settings):
        queues.simple()
        meta = {"name": "web", "namespace": queues.namespace, "labels": {QUEUE: "queue"}}
        spec = {**objects.deployment("web", 0)["spec"], "serviceName": "web"}
        kind = {"apiVersion": "apps/v1", "kind": "StatefulSet"}
        api.create({**kind, "metadata": meta, "spec": spec})

        def told() -> bool:
            notes = api.notes(queues.namespace, "NotQueued", name="web")
            return ["queue.integrations does not name its kind" in each for each in notes] == [True]

        api.wait_for("it is told", told)
