"""The kinds of KubeRay: what it makes of them, and which could become more than that."""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest

from extender.jobs import actions as act
from extender.jobs.actions import PodGroupState
from extender.jobs.decide import decide
from extender.jobs.job import GenericJob
from extender.jobs.registry import builtin
from extender.jobs.templates import Placement
from tests.harness.kinds import raycluster, rayjob, template
from tests.unit.jobs.scene import CONTEXT, first, only, sent, workload

SUBMITTER = {
    "name": "ray-job-submitter",
    "image": "example.invalid/nothing",
    "resources": {
        "requests": {"cpu": "500m", "memory": "200Mi"},
        "limits": {"cpu": "1", "memory": "1Gi"},
    },
}


def ray(cluster: Mapping[str, Any] | None = None, status: Any = None, **spec: Any) -> GenericJob:
    source: Any = deepcopy(rayjob())
    source["spec"] |= spec
    source["spec"]["rayClusterSpec"] |= cluster or {}
    if status is not None:
        source["status"] = status
    source["spec"] = {name: each for name, each in source["spec"].items() if each is not None}
    return builtin()["ray.io/rayjob"].wrap(source)


def started(job: GenericJob) -> GenericJob:
    places = [Placement(each.name, each.count, {"pool": "a"}) for each in job.pod_sets()]
    return builtin()["ray.io/rayjob"].wrap(sent(job, *job.start_steps(places)))


@pytest.mark.parametrize(
    ("group", "want"),
    [
        ({"replicas": 3}, 3),
        ({}, 0),
        ({"minReplicas": 4}, 4),
        ({"replicas": None, "minReplicas": 4}, 4),
        ({"replicas": 2, "minReplicas": 4, "maxReplicas": 8}, 4),
        ({"replicas": 5, "maxReplicas": 2}, 2),
        ({"replicas": 5, "minReplicas": 3, "maxReplicas": 2}, 2),
        ({"replicas": 5, "maxReplicas": 2, "numOfHosts": 4}, 8),
        ({"replicas": 5, "minReplicas": 5, "suspend": True}, 0),
    ],
)
def test_workers_are_counted_as_kuberay_makes_them(group: Any, want: int) -> None:
    job = ray({"workerGroupSpecs": [{"groupName": "w", "template": template(), **group}]})
    assert [each.count for each in job.pod_sets() if each.name == "w"] == [want]


@pytest.mark.parametrize("field", ["replicas", "minReplicas", "maxReplicas", "numOfHosts"])
def test_a_number_below_zero_is_refused(field: str) -> None:
    group = {"groupName": "w", "replicas": 1, "template": template(), field: -1}
    refused = only(act.ReportRefusal, decide(ray({"workerGroupSpecs": [group]}), [], CONTEXT))
    assert "pods: use a number from 0" in refused.message


def head_of(job: GenericJob) -> Any:
    return job.pod_sets()[0].template["spec"]


def test_the_submitter_in_the_head_pod_needs_quota() -> None:
    job = ray(submissionMode="SidecarMode", submitterPodTemplate=None)
    assert head_of(job)["containers"][1:] == [SUBMITTER]
    assert [each.name for each in job.pod_sets()] == ["head", "cpu", "tpu"]
    running = started(job)
    containers: Any = running.object["spec"]
    assert len(containers["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]["containers"]) == 1
    assert running.equivalent_to_workload(workload(job, admitted=True))


@pytest.mark.parametrize(
    ("cluster", "annotations", "want"),
    [
        ({}, {}, False),
        ({"gcsFaultToleranceOptions": {}}, {}, True),
        ({"gcsFaultToleranceOptions": {"redisAddress": "redis:6379"}}, {}, True),
        ({"gcsFaultToleranceOptions": {"backend": "rocksdb"}}, {}, False),
        ({}, {"ray.io/ft-enabled": "True"}, True),
        ({}, {"ray.io/ft-enabled": "false"}, False),
    ],
)
def test_the_pod_that_cleans_redis_needs_the_quota_of_the_head(
    cluster: Any, annotations: Any, want: bool
) -> None:
    job = ray(cluster)
    job.object["metadata"]["annotations"] = annotations  # type: ignore[index]
    found = head_of(job).get("initContainers", [])
    assert [each["resources"]["requests"] for each in found] == [
        {"cpu": "200m", "memory": "256Mi"}
    ] * want


def test_the_default_submitter_is_sent_where_its_quota_is() -> None:
    job = ray(submitterPodTemplate=None)
    stored = workload(job, admitted=True)
    running = started(job)
    written: Any = running.object["spec"]
    assert written["submitterPodTemplate"]["spec"] == {
        "containers": [SUBMITTER],
        "restartPolicy": "Never",
        "nodeSelector": {"pool": "a"},
    }
    assert running.equivalent_to_workload(stored)
    stopped = sent(running, *running.stop_steps(job.pod_sets()))
    assert "submitterPodTemplate" not in stopped["spec"]


def test_a_submitter_of_the_users_stays() -> None:
    job = ray()
    running = started(job)
    stopped: Any = sent(running, *running.stop_steps(job.pod_sets()))
    assert stopped["spec"]["submitterPodTemplate"]["spec"]["containers"]


def cluster(status: Any = None, **spec: Any) -> GenericJob:
    source: Any = deepcopy(raycluster())
    source["spec"] |= spec
    return builtin()["ray.io/raycluster"].wrap({**source, "status": status or {}})


def group(name: str) -> Any:
    return {"groupName": name, "replicas": 1, "template": template()}


@pytest.mark.parametrize(
    ("job", "field"),
    [
        (cluster(enableInTreeAutoscaling=True), "spec.enableInTreeAutoscaling: "),
        (cluster(workerGroupSpecs=[group("w"), group("Head")]), "spec.workerGroupSpecs: 'head'"),
        (cluster(workerGroupSpecs=[group("w"), group("W")]), "spec.workerGroupSpecs: 'w'"),
        (ray({"workerGroupSpecs": [group("submitter")]}), "rayClusterSpec.workerGroupSpecs: 'subm"),
        (ray({"enableInTreeAutoscaling": True}), "enableInTreeAutoscaling"),
        (ray(shutdownAfterJobFinishes=False), "shutdownAfterJobFinishes"),
        (ray(shutdownAfterJobFinishes=None), "shutdownAfterJobFinishes"),
        (ray(status={"jobDeploymentStatus": "ValidationFailed", "message": "no x"}), "no x"),
    ],
)
def test_a_job_that_could_become_more_than_its_workload_is_refused(
    job: GenericJob, field: str
) -> None:
    refused = only(act.ReportRefusal, decide(job, [], CONTEXT))
    assert (refused.reason, field in refused.message) == ("Invalid", True)


def test_a_waiting_job_that_is_edited_to_be_refused_loses_its_workload() -> None:
    before, after = ray(), ray({"enableInTreeAutoscaling": True})
    for admitted in (False, True):
        actions = decide(after, [workload(before, admitted=admitted)], CONTEXT)
        assert isinstance(actions[-2], act.DeleteWorkload)
        assert isinstance(actions[-1], act.ReportRefusal)


def test_a_running_job_that_kuberay_would_not_suspend_is_stopped() -> None:
    job = ray(suspend=False, shutdownAfterJobFinishes=None)
    stop = only(act.StopJob, decide(job, [], CONTEXT))
    after: Any = sent(job, *stop.steps)["spec"]
    assert (after["suspend"], after["shutdownAfterJobFinishes"]) == (True, True)
    assert stop.note is not None
    assert "shutdownAfterJobFinishes is now true" in stop.note.message


def test_what_ended_and_was_refused_later_gets_no_event() -> None:
    ended = {"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED"}
    assert decide(ray(shutdownAfterJobFinishes=None, status=ended), [], CONTEXT) == ()


@pytest.mark.parametrize("cluster", [{"rayClusterName": "c"}, {"rayClusterStatus": {"state": ""}}])
def test_an_unknown_state_counts_as_active_where_there_is_a_cluster(cluster: Any) -> None:
    assert not ray(status={"jobDeploymentStatus": "Novel"}).is_active()
    assert ray(status={"jobDeploymentStatus": "Novel", **cluster}).is_active()
    assert not ray(status={"jobDeploymentStatus": "Suspended", **cluster}).is_active()


@pytest.mark.parametrize("word", ["Complete", "Failed", "ValidationFailed"])
@pytest.mark.parametrize("evicted", [False, True])
def test_a_job_that_ended_keeps_its_quota_until_its_pods_are_gone(word: str, evicted: bool) -> None:
    status = {"jobDeploymentStatus": word, "rayClusterName": "c", "message": "m"}
    job = ray(suspend=False, status=status)
    held = workload(job, *(["Evicted"] if evicted else []), admitted=True)
    running = replace(CONTEXT, has_pods=lambda _: True)
    awaits = only(act.AwaitPods, decide(job, [held], running))
    assert awaits.note is not None
    assert awaits.note.reason == "PodsRemain"
    finish = first(act.FinishWorkload, decide(job, [held], CONTEXT))
    assert (finish.reason, finish.message) == ("Failed", "m")


def test_a_cluster_of_a_rayjob_is_left_to_it_and_one_of_a_rayservice_is_queued() -> None:
    for kind, version, count in (
        ("RayJob", "v1", 0),
        ("RayJob", "v1alpha1", 0),
        ("RayService", "v1", 1),
    ):
        owned = cluster()
        owner = {"apiVersion": f"ray.io/{version}", "kind": kind, "controller": True}
        owned.object["metadata"]["ownerReferences"] = [owner]  # type: ignore[index]
        assert len(decide(owned, [], CONTEXT)) == count


def test_a_cluster_that_is_scaled_is_stopped_and_asks_for_its_new_size() -> None:
    held = cluster()
    admitted = workload(held, admitted=True)
    running = builtin()["ray.io/raycluster"].wrap(
        sent(held, *only(act.StartJob, decide(held, [admitted], CONTEXT)).steps)
    )
    more: Any = deepcopy(running.object)
    more["spec"]["workerGroupSpecs"][0]["replicas"] = 3
    scaled = builtin()["ray.io/raycluster"].wrap(more)

    stop = only(act.StopJob, decide(scaled, [admitted], CONTEXT))

    gone = {"conditions": [{"type": "RayClusterSuspended", "status": "True"}]}
    stopped = builtin()["ray.io/raycluster"].wrap({**sent(scaled, *stop.steps), "status": gone})
    assert isinstance(decide(stopped, [admitted], CONTEXT)[-1], act.DeleteWorkload)
    assert [each.count for each in stopped.pod_sets()] == [1, 3, 8]


def test_a_running_cluster_that_could_grow_from_now_on_is_stopped() -> None:
    running = cluster(suspend=False)
    admitted = workload(running, admitted=True)
    assert decide(running, [admitted], CONTEXT) == ()
    grows = cluster(suspend=False, enableInTreeAutoscaling=True)
    only(act.StopJob, decide(grows, [admitted], CONTEXT))


def test_a_cluster_that_was_stopped_starts_when_kuberay_has_deleted_its_pods() -> None:
    running = cluster(suspend=False)
    mark = only(act.StopJob, decide(running, [], CONTEXT)).steps
    for status, want in (
        ({}, False),
        ({"state": "ready"}, False),
        ({"conditions": [{"type": "RayClusterSuspended", "status": "False"}]}, False),
        ({"conditions": [{"type": "RayClusterSuspended", "status": "True"}]}, True),
        ({"state": "suspended"}, True),
    ):
        stopped = builtin()["ray.io/raycluster"].wrap({**sent(running, *mark), "status": status})
        assert stopped.has_stopped() is want


@pytest.mark.parametrize(
    ("spec", "known", "done"),
    [
        ({"gcsFaultToleranceOptions": {}}, PodGroupState(size=(11, 0)), [10]),
        ({"gcsFaultToleranceOptions": {}}, PodGroupState(size=(11, 10)), []),
        ({"gcsFaultToleranceOptions": {}}, PodGroupState(), []),
        ({}, PodGroupState(size=(11, 0)), []),
    ],
)
def test_the_pod_that_cleans_redis_waits_for_no_other_one(
    spec: Any, known: PodGroupState, done: list[int]
) -> None:
    deleted = cluster(suspend=False, **spec)
    held = workload(deleted, admitted=True)
    deleted.object["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"  # type: ignore[index]
    actions = decide(deleted, [held], replace(CONTEXT, pod_groups={held.key: known}))
    made = [each for each in actions if isinstance(each, act.MakePodGroup)]
    assert [(each.min_member, each.done) for each in made] == [(11, number) for number in done]
