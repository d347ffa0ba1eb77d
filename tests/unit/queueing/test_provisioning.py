"""The built-in check that asks an autoscaler for nodes: what it writes, and what it makes of it."""

import json
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from extender.api.core_v1 import Toleration
from extender.api.queue_wire import (
    ProvisioningConfigSpec,
    ProvisioningRequestSpec,
    RetryStrategy,
)
from extender.queueing import lifecycle as to
from extender.queueing import provisioning
from extender.state.cluster.records import ConditionInfo
from extender.state.queue.records import (
    AdmissionCheckInfo,
    CheckState,
    FlavorInfo,
    PodSetInfo,
    ProvisioningConfigInfo,
    ProvisioningRequestInfo,
    WorkloadInfo,
)
from tests.makers import shape
from tests.queue_makers import Admissions, admission, meta, pod_set, workload

NOW = 1_000_000.0
RESERVED = NOW - 60
SPOT = FlavorInfo(
    meta("spot"),
    node_labels={"tier": "spot"},
    tolerations=(Toleration("spot", "Exists", "", "NoSchedule"),),
)
FLAVORS = {"spot": SPOT}
SPEC = ProvisioningConfigSpec("atomic", {"size": "big"})
CONFIG = ProvisioningConfigInfo(meta("config"), SPEC)
REQUEST = "w-nodes-1"


def config(**more: Any) -> ProvisioningConfigInfo:
    """Return the configuration with other fields."""
    return replace(CONFIG, spec=msgspec.structs.replace(SPEC, **more))


def pods(name: str = "main", count: int = 2, *, spec: Any = None, **more: Any) -> PodSetInfo:
    container = {"name": "c", "resources": {"limits": {"cpu": "2"}, "requests": {"memory": "1Gi"}}}
    body: dict[str, Any] = {
        "metadata": {"labels": {"app": "x"}},
        "spec": spec or {"containers": [container]},
    }
    body["spec"].setdefault("schedulingGates", [{"name": "kueue.x-k8s.io/admission"}])
    made = pod_set(more.pop("cpu", 2), count, name=name)
    return replace(made, template=json.dumps(body).encode(), **more)


def holds(*pod_sets: PodSetInfo, check: CheckState | None = None, **more: Any) -> WorkloadInfo:
    """Return a workload that holds quota in the flavor `spot`, and is not admitted."""
    asks = workload("w", pod_sets or (pods(),), **more)
    held = to.reserved(asks, admission(asks, flavor="spot"), RESERVED)
    states = (check or CheckState("nodes", last_transition=RESERVED),)
    return replace(to.without(held, "Admitted"), checks=states)  # type: ignore[arg-type]


def asked(
    *said: tuple[str, str], of: WorkloadInfo | None = None, name: str = REQUEST, **more: Any
) -> ProvisioningRequestInfo:
    """Return a request with these conditions, True but for those whose type begins with a `-`."""
    conditions = tuple(
        ConditionInfo(kind.lstrip("-"), "False" if kind.startswith("-") else "True", "R", text)
        for kind, text in said
    )
    where = more.pop("meta", {})
    annotations = {"scheduling.x-k8s.io/reserved-at": str(int(RESERVED))}
    details = more.pop("details", {})
    fields = {"provisioning_class_name": "atomic", "parameters": {"size": "big"}, **more}
    found, spec = (
        meta(name, "ns", **{"annotations": annotations, **where}),
        ProvisioningRequestSpec(**fields),
    )
    return ProvisioningRequestInfo(found, "ns/w", spec, details, conditions)


def decided(
    of: WorkloadInfo, *requests: ProvisioningRequestInfo, config: Any = CONFIG
) -> provisioning.RequestsStep:
    return provisioning.decide(of, {"nodes": config}, requests, now=NOW)


def test_a_template_asks_for_what_the_pods_will() -> None:
    (found,) = provisioning.pod_templates(holds(), FLAVORS, REQUEST)
    assert (found.name, found.count, found.pod_sets) == ("ppt-w-nodes-1-main", 2, ("main",))
    assert found.template == {
        "apiVersion": "v1",
        "kind": "PodTemplate",
        "metadata": {
            "name": "ppt-w-nodes-1-main",
            "namespace": "ns",
            "labels": {"kueue.x-k8s.io/managed": "true"},
            "ownerReferences": [
                {
                    "apiVersion": "kueue.x-k8s.io/v1beta2",
                    "kind": "Workload",
                    "name": "w",
                    "uid": "w",
                    "controller": True,
                }
            ],
        },
        "template": {
            "metadata": {"labels": {"app": "x"}},
            "spec": {
                "containers": [
                    {
                        "name": "c",
                        "resources": {
                            "limits": {"cpu": "2"},
                            "requests": {"cpu": "2", "memory": "1Gi"},
                        },
                    }
                ],
                "nodeSelector": {"tier": "spot"},
                "tolerations": [{"key": "spot", "operator": "Exists", "effect": "NoSchedule"}],
            },
        },
    }


def test_a_request_names_the_templates_and_the_parameters_of_both() -> None:
    annotations = {"provreq.kueue.x-k8s.io/size": "small", "provreq.kueue.x-k8s.io/noRetry": "true"}
    of = holds(meta=meta("w", "ns", annotations=annotations))
    templates = provisioning.pod_templates(of, FLAVORS, REQUEST)
    parameters = {"size": "big", "x": "y"}
    found: Any = provisioning.request(
        of, REQUEST, templates, class_name="atomic", parameters=parameters, version="v1beta1"
    )
    assert found["apiVersion"] == "autoscaling.x-k8s.io/v1beta1"
    assert found["metadata"]["annotations"] == {"scheduling.x-k8s.io/reserved-at": "999940"}
    assert found["spec"] == {
        "provisioningClassName": "atomic",
        "podSets": [{"podTemplateRef": {"name": "ppt-w-nodes-1-main"}, "count": 2}],
        "parameters": {"size": "small", "x": "y", "noRetry": "true"},
    }


GPU = {"cpu": shape(2, gpu=1)}


def test_only_pods_that_still_need_managed_resources_are_asked_for() -> None:
    of = holds(
        pods("main", 3),
        pods("gpus", 2, **GPU),
        pods("none", 0, **GPU),
        pods("done", 1, **GPU),
        reclaimable={"gpus": 1, "done": 1},
    )
    names = [each.pod_sets for each in provisioning.pod_templates(of, FLAVORS, "r")]
    assert names == [("main",), ("gpus",)]
    (resource,) = (name for name in GPU["cpu"].requests if "gpu" in name)
    (one,) = provisioning.pod_templates(of, FLAVORS, "r", managed=(resource,))
    assert (one.pod_sets, one.count) == (("gpus",), 1)


@pytest.mark.parametrize(
    ("merge", "want"),
    [
        ("", [("a",), ("b",), ("c",), ("d",)]),
        ("IdenticalPodTemplates", [("a", "b"), ("c",), ("d",)]),
        ("IdenticalWorkloadSchedulingRequirements", [("a", "b", "c"), ("d",)]),
    ],
)
def test_equal_pod_sets_are_merged_as_the_policy_says(
    merge: str, want: list[tuple[str, ...]]
) -> None:
    renamed = {
        "containers": [
            {"name": "other", "resources": {"limits": {"cpu": "2"}, "requests": {"memory": "1Gi"}}}
        ]
    }
    smaller = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}
    sets = (pods("a", 1), pods("b", 2), pods("c", 3, spec=renamed), pods("d", 4, spec=smaller))
    found = provisioning.pod_templates(holds(*sets), FLAVORS, "r", merge=merge)
    assert [each.pod_sets for each in found] == want
    assert sum(each.count for each in found) == 10


def test_long_names_keep_each_attempt_apart() -> None:
    long = "w" * 250
    names = {provisioning.request_name(long, "nodes", n) for n in range(1, 20)}
    assert len(names) == 19
    assert {len(name) for name in names} == {253}
    assert provisioning.request_name("w", "nodes", 2) == "w-nodes-2"


RETRY = {"requeue_after_seconds": 60}


@pytest.mark.parametrize(
    ("said", "want"),
    [
        ([], ("Pending", "")),
        ([("Accepted", "soon")], ("Pending", "soon")),
        ([("Accepted", "soon"), ("-Provisioned", "in 5 min")], ("Pending", "in 5 min")),
        ([("Accepted", "soon"), ("Provisioned", "there")], ("Ready", "there")),
        ([("Failed", "none"), ("Provisioned", "x")], ("Retry", "Retrying after failure: none")),
        ([("-Failed", "none")], ("Pending", "")),
        (
            [("Provisioned", "x"), ("BookingExpired", "late")],
            ("Retry", "Retrying after booking expired: late"),
        ),
        ([("Provisioned", "x"), ("CapacityRevoked", "taken")], ("Rejected", "taken")),
        ([("CapacityRevoked", "taken"), ("Failed", "no")], ("Retry", "Retrying after failure: no")),
    ],
)
def test_the_conditions_of_a_request_say_the_state(
    said: list[tuple[str, str]], want: tuple[str, str]
) -> None:
    found = decided(holds(), asked(*said))
    (state,) = found.checks
    assert (state.state, state.message) == want
    moved = want[0] != "Pending"
    assert state.last_transition == (NOW if moved else RESERVED)
    assert state.requeue_after_seconds == (60 if want[0] == "Retry" else None)
    assert (found.create, found.delete) == ({}, ())


@pytest.mark.parametrize(
    ("retries", "want"),
    [(0, ("Retry", 60)), (1, ("Retry", 120)), (2, ("Retry", 200)), (3, ("Rejected", None))],
)
def test_retries_pause_longer_each_time_until_there_are_no_more(
    retries: int, want: tuple[str, int | None]
) -> None:
    slow = config(retry_strategy=RetryStrategy(backoff_max_seconds=200))
    of = holds(check=CheckState("nodes", retry_count=retries))
    failed = asked(("Failed", "x"), name=f"w-nodes-{retries + 1}")
    (state,) = decided(of, failed, config=slow).checks
    assert (state.state, state.requeue_after_seconds) == want


def test_ready_hands_the_booking_to_the_pods() -> None:
    wanted = {"pool": "Pool", "zone": "absent"}.items()
    labels = [{"key": k, "valueFromProvisioningClassDetail": name} for k, name in wanted]
    labelled = config(pod_set_updates={"nodeSelector": labels})
    found = asked(("Provisioned", "there"), details={"Pool": "p-1"})
    of = holds(pods("main"), pods("other"))
    (state,) = decided(of, found, config=labelled).checks
    assert [each.name for each in state.pod_set_updates] == ["main", "other"]
    for each in state.pod_set_updates:
        assert each.annotations == {
            "autoscaling.x-k8s.io/consume-provisioning-request": REQUEST,
            "autoscaling.x-k8s.io/provisioning-class-name": "atomic",
        }
        assert each.node_selector == {"pool": "p-1"}
    again = replace(of, checks=(state,))
    assert decided(again, found, config=labelled).checks == (state,)


def test_a_request_is_made_once_for_each_attempt() -> None:
    assert decided(holds()).create == {"nodes": REQUEST}
    again = holds(check=CheckState("nodes", retry_count=1))
    old = asked(("Failed", "x"))
    found = decided(again, old)
    assert (found.create, found.delete) == ({"nodes": "w-nodes-2"}, (old,))


@pytest.mark.parametrize(
    "old",
    [
        {"provisioning_class_name": "other"},
        {"parameters": {}},
        {"meta": {"annotations": {}}},
        {"meta": {"annotations": {"scheduling.x-k8s.io/reserved-at": "7"}}},
    ],
)
def test_a_request_that_asks_for_something_else_is_made_anew(old: dict[str, Any]) -> None:
    stale = asked(("Provisioned", "there"), **old)
    found = decided(holds(), stale)
    assert found.delete == (stale,)
    assert (found.create, found.checks[0].state) == ({}, "Pending")
    going = replace(stale, meta=replace(stale.meta, terminating=True))
    found = decided(holds(), going)
    assert (found.create, found.delete, found.checks[0].state) == ({}, (), "Pending")


def test_without_quota_no_request_is_left() -> None:
    found = asked(("Provisioned", "there"))
    held = holds()
    for of in (
        replace(held, admission=None),
        to.preempted(held, "InClusterQueue", "for another", now=NOW),
        to.finished(held, "Succeeded", "done", now=NOW),
        replace(held, active=False),
    ):
        step = decided(of, found)
        assert (step.checks, step.delete, step.create) == (of.checks, (found,), {})


@pytest.mark.parametrize(
    ("said", "want"),
    [("Failed", "Ready"), ("BookingExpired", "Ready"), ("CapacityRevoked", "Rejected")],
)
def test_an_admitted_workload_loses_its_check_by_revoked_capacity_alone(
    said: str, want: str
) -> None:
    held = holds(check=CheckState("nodes", "Ready", "there"))
    runs = to.with_conditions(held, NOW, to.condition("Admitted", "Admitted", ""))
    found = decided(runs, asked(("Provisioned", "there"), (said, "why")))
    assert found.checks[0].state == want
    added = replace(runs, checks=(CheckState("nodes"),))
    assert decided(added).create == {}, "its pods have their nodes"


def test_nodes_that_nobody_needs_are_not_asked_for() -> None:
    found = decided(holds(), config=config(managed_resources=["example.com/gpu"]))
    assert found.checks[0].state == "Ready"
    assert found.checks[0].message == "the provisioning request is not needed"
    assert found.create == {}


def test_a_check_that_is_not_active_is_pending() -> None:
    found = decided(holds(check=CheckState("nodes", "Ready")), config=None)
    assert (found.checks[0].state, found.checks[0].message) == (
        "Pending",
        "the check is not active",
    )
    assert found.create == {}


def test_checks_of_others_are_left_alone() -> None:
    other = CheckState("budget", "Ready", "yes")
    held = replace(holds(), checks=(other,))
    found = provisioning.decide(held, {}, (), now=NOW)
    assert (found.checks, found.create, found.delete) == ((other,), {}, ())


@pytest.mark.parametrize(
    ("parameters", "found"),
    [
        (("kueue.x-k8s.io", "ProvisioningRequestConfig", "config"), CONFIG),
        (("kueue.x-k8s.io", "ProvisioningRequestConfig", "other"), None),
        (("example.com", "ProvisioningRequestConfig", "config"), None),
        (None, None),
    ],
)
def test_a_check_names_its_configuration(
    parameters: tuple[str, str, str] | None, found: ProvisioningConfigInfo | None
) -> None:
    check = AdmissionCheckInfo(meta("nodes"), provisioning.CONTROLLER, parameters)
    assert provisioning.config_of(check, {"config": CONFIG}) is found
    assert provisioning.config_of(None, {"config": CONFIG}) is None


def test_where_a_check_asks_for_nodes_nothing_else_does() -> None:
    queues = Admissions(
        AdmissionCheckInfo(meta("nodes"), provisioning.CONTROLLER),
        AdmissionCheckInfo(meta("budget"), "example.com/budget"),
    )
    held = holds()
    assert provisioning.asks_for_nodes(held, queues.view)
    other = replace(held, checks=(CheckState("budget"), CheckState("gone")))
    assert not provisioning.asks_for_nodes(other, queues.view)
