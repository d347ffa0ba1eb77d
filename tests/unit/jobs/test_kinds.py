"""The kinds that other operators look after: pod sets, start, stop, and what their status says."""

from copy import deepcopy
from typing import Any

import pytest

from extender.jobs import actions as act
from extender.jobs import templates
from extender.jobs.decide import decide
from extender.jobs.job import GenericJob
from extender.jobs.registry import builtin
from extender.jobs.templates import Placement
from tests.harness.kinds import POD_SETS, jobset, kubeflow, made, mpijob, rayjob, template
from tests.unit.jobs.scene import CONTEXT, end_of, first, only, sent, workload

KINDS = sorted(POD_SETS)


def wrap(name: str, source: Any, **status: Any) -> GenericJob:
    return builtin()[name].wrap({**deepcopy(source), **({"status": status} if status else {})})


def job(name: str, **status: Any) -> GenericJob:
    return wrap(name, POD_SETS[name][0](), **status)


@pytest.mark.parametrize("name", KINDS)
def test_a_kind_has_its_pod_sets_in_order(name: str) -> None:
    found = job(name).pod_sets()
    assert [(each.name, each.count) for each in found] == list(POD_SETS[name][1].items())
    assert all(each.template["spec"]["containers"] for each in found)  # type: ignore[index]


@pytest.mark.parametrize("name", KINDS)
def test_a_kind_is_queued_started_kept_and_stopped(name: str) -> None:
    held = job(name)
    only(act.CreateWorkload, decide(held, [], CONTEXT))

    admitted = workload(held, admitted=True)
    start = only(act.StartJob, decide(held, [admitted], CONTEXT))
    assert len(start.steps) == 1
    running = wrap(name, sent(held, *start.steps))
    assert not running.is_suspended()
    assert all(
        each.template["spec"]["nodeSelector"] == {"tier": "spot"}  # type: ignore[index]
        and each.template["metadata"]["labels"] == {"kueue.x-k8s.io/podset": each.name}  # type: ignore[index]
        and each.template["metadata"]["annotations"]  # type: ignore[index]
        == {"kueue.x-k8s.io/workload": admitted.meta.name}
        for each in running.pod_sets()
    )
    assert decide(running, [admitted], CONTEXT) == ()

    evicted = workload(held, "Evicted", admitted=True)
    stop = only(act.StopJob, decide(running, [evicted], CONTEXT))
    stopped = wrap(name, sent(running, *stop.steps))
    assert stopped.is_suspended()
    pairs = zip(stopped.pod_sets(), held.pod_sets(), strict=True)
    assert all(templates.same(after.template, before.template) for after, before in pairs)
    only(act.ReleaseQuota, decide(stopped, [evicted], CONTEXT))


MADE: dict[str, tuple[str | int, ...]] = {
    "sparkoperator.k8s.io/sparkapplication": ("executor",),
    "workload.codeflare.dev/appwrapper": (
        *("components", 2, "template"),
        *("spec", "groups", 1, "pods", "spec"),
    ),
}
"""The field that holds a selector, for kinds whose templates are no parts of their objects."""


@pytest.mark.parametrize("name", KINDS)
def test_a_kind_that_asks_for_more_asks_anew(name: str) -> None:
    held = job(name)
    before = workload(held)
    more = job(name)
    if name in MADE:
        reach: Any = more.object["spec"]
        for step in MADE[name]:
            reach = reach[step]
    else:
        reach = more.slots()[-1].template["spec"]
    reach["priorityClassName"] = "high"
    assert held.equivalent_to_workload(before)
    assert not more.equivalent_to_workload(before)


CONDITIONS = {
    "jobset.x-k8s.io/jobset": ("Completed", "Failed"),
    **{name: ("Succeeded", "Failed") for name in KINDS if name.startswith("kubeflow")},
}


@pytest.mark.parametrize("name", sorted(CONDITIONS))
def test_a_condition_says_how_a_job_ended(name: str) -> None:
    for kind, success in zip(CONDITIONS[name], (True, False), strict=True):
        said = {"type": kind, "status": "True", "message": "m"}
        ended = job(name, conditions=[said]).finished()
        assert ended is not None
        assert (ended.success, ended.message) == (success, "m")
        assert job(name, conditions=[{**said, "status": "False"}]).finished() is None


@pytest.mark.parametrize(
    ("deployment", "status", "want"),
    [
        ("Running", "RUNNING", None),
        ("Complete", "SUCCEEDED", True),
        ("Complete", "FAILED", False),
        ("Failed", "", False),
        ("", "", None),
    ],
)
def test_the_status_of_a_rayjob_says_how_it_ended(
    deployment: str, status: str, want: bool | None
) -> None:
    found = job("ray.io/rayjob", jobDeploymentStatus=deployment, jobStatus=status, message="m")
    ended = found.finished()
    assert (None if ended is None else ended.success) is want


def suspended(status: str, **more: Any) -> Any:
    """Return the status of a RayCluster as KubeRay writes it since 1.3."""
    return {"conditions": [{"type": "RayClusterSuspended", "status": status}], **more}


REPLICAS = {"replicaStatuses": {"Worker": {"active": 0}, "Launcher": {"active": 1}}}


@pytest.mark.parametrize(
    ("name", "active", "idle"),
    [
        (
            "jobset.x-k8s.io/jobset",
            {"replicatedJobsStatus": [{"name": "workers", "active": 1}]},
            {"replicatedJobsStatus": [{"name": "workers", "active": 0}]},
        ),
        ("kubeflow.org/mpijob", REPLICAS, {"replicaStatuses": {"Worker": {"active": 0}}}),
        ("kubeflow.org/tfjob", REPLICAS, {"replicaStatuses": {"Worker": {}}}),
        (
            "ray.io/rayjob",
            {"jobDeploymentStatus": "Running"},
            {"jobDeploymentStatus": "Suspended"},
        ),
        ("ray.io/rayjob", {"jobDeploymentStatus": "Suspending"}, {}),
        ("ray.io/raycluster", {"state": "ready"}, {"state": "suspended"}),
        ("ray.io/raycluster", suspended("False", state="suspended"), suspended("True")),
        ("ray.io/raycluster", suspended("False"), {}),
    ],
)
def test_each_kind_says_whether_pods_run(name: str, active: Any, idle: Any) -> None:
    assert job(name, **active).is_active()
    assert not job(name, **idle).is_active()


def test_a_jobset_is_ready_when_each_job_is_or_has_succeeded() -> None:
    def ready(driver: dict[str, int], workers: dict[str, int]) -> bool:
        reported = [{"name": "driver", **driver}, {"name": "workers", **workers}]
        return job("jobset.x-k8s.io/jobset", replicatedJobsStatus=reported).pods_ready()

    assert ready({"ready": 1}, {"ready": 2})
    assert ready({"succeeded": 1}, {"ready": 1, "succeeded": 1})
    assert not ready({"ready": 1}, {"ready": 1})
    assert not ready({"ready": 0}, {"ready": 3})
    assert not job("jobset.x-k8s.io/jobset").pods_ready()


@pytest.mark.parametrize(
    ("first", "second", "third", "want"),
    [
        ({"ready": 1}, {}, {}, True),
        ({}, {}, {}, False),
        ({"succeeded": 1}, {}, {}, False),
        ({"succeeded": 1}, {"ready": 1}, {}, False),
        ({"succeeded": 1}, {"ready": 1}, {"ready": 1}, True),
    ],
)
def test_a_jobset_does_not_expect_jobs_that_wait_for_others_to_succeed(
    first: dict[str, int], second: dict[str, int], third: dict[str, int], want: bool
) -> None:
    depends = {
        "one": [],
        "two": [{"name": "one", "status": "Complete"}],
        "three": [{"name": "two", "status": "Ready"}],
    }
    source = jobset()
    source["spec"]["replicatedJobs"] = [
        {"name": name, "replicas": 1, "dependsOn": on, "template": {"spec": {}}}
        for name, on in depends.items()
    ]
    numbers = (first, second, third)
    reported = [{"name": n, **each} for n, each in zip(depends, numbers, strict=True)]
    assert (
        wrap("jobset.x-k8s.io/jobset", source, replicatedJobsStatus=reported).pods_ready() is want
    )


def test_a_jobset_needs_no_quota_for_jobs_that_have_succeeded() -> None:
    def spare(**workers: int) -> Any:
        reported = [{"name": "workers", **workers}]
        found = job("jobset.x-k8s.io/jobset", replicatedJobsStatus=reported)
        return found.reclaimable_pods()

    assert spare(succeeded=1) == {"workers": 2}
    assert spare(succeeded=3) == {"workers": 4}
    assert spare(active=1) == {}


@pytest.mark.parametrize(
    ("policy", "restarts", "failed", "want"),
    [
        ({"maxRestarts": 1}, 0, 0, {}),
        ({"maxRestarts": 1}, 1, 0, {"workers": 2}),
        # The Jobs of the run before the restart are counted until those of the next are there.
        ({"maxRestarts": 1}, 1, 1, {}),
        ({"maxRestarts": 0}, 0, 0, {"workers": 2}),
        ({"rules": [{"action": "FailJobSet"}]}, 0, 0, {"workers": 2}),
        ({"rules": [{"action": "RestartJobSetAndIgnoreMaxRestarts"}]}, 3, 0, {}),
    ],
)
def test_a_jobset_keeps_quota_for_what_a_restart_would_do_again(
    policy: Any, restarts: int, failed: int, want: dict[str, int]
) -> None:
    reported = [{"name": "driver", "failed": failed}, {"name": "workers", "succeeded": 1}]
    status = {"replicatedJobsStatus": reported, "restartsCountTowardsMax": restarts}
    found = job("jobset.x-k8s.io/jobset", **status)
    found.object["spec"]["failurePolicy"] = policy  # type: ignore[index]
    assert found.reclaimable_pods() == want


@pytest.mark.parametrize(
    ("statuses", "want"),
    [
        ({}, {}),
        ({"Worker": {"active": 1, "succeeded": 1}, "Launcher": {"active": 1}}, {"worker": 1}),
        ({"Worker": {"failed": 2}, "Launcher": {"succeeded": 3}}, {"launcher": 1}),
        ({"Sidekick": {"succeeded": 1}}, {}),
    ],
)
def test_a_training_job_needs_no_quota_for_replicas_that_have_succeeded(
    statuses: Any, want: dict[str, int]
) -> None:
    found = job("kubeflow.org/mpijob", replicaStatuses=statuses)
    assert found.reclaimable_pods() == {}
    found.unsuspend()
    assert found.reclaimable_pods() == want


@pytest.mark.parametrize("name", [name for name in KINDS if name.startswith("kubeflow")])
def test_what_succeeded_before_a_stop_is_made_anew(name: str) -> None:
    """The statuses of replicas stay as they were until the operator looks at it again."""
    statuses = {"Worker": {"active": 0, "succeeded": 2}}
    stopped = job(name, replicaStatuses=statuses)
    reset = only(
        act.SetReclaimable, decide(stopped, [workload(stopped, reclaimable={"worker": 2})], CONTEXT)
    )
    assert reset.counts == {}

    running = [{"type": "Running", "status": "True"}]
    runs = job(name, replicaStatuses=statuses, conditions=running)
    runs.unsuspend()
    said = only(act.SetReclaimable, decide(runs, [workload(stopped, admitted=True)], CONTEXT))
    assert said.counts == {"worker": 2}

    started = job(name, replicaStatuses=statuses, conditions=[{**running[0], "status": "False"}])
    started.unsuspend()
    said_early = decide(started, [workload(stopped, admitted=True)], CONTEXT)
    assert bool(said_early) is (name == "kubeflow.org/mpijob")


def test_the_quota_of_all_is_given_back_with_what_will_be_done_once_more() -> None:
    """Else it could be admitted again for less than it starts with."""
    stopped = job("kubeflow.org/pytorchjob", replicaStatuses={"Worker": {"succeeded": 2}})
    evicted = workload(stopped, "Evicted", admitted=True, reclaimable={"worker": 2})
    release = first(act.ReleaseQuota, decide(stopped, [evicted], CONTEXT))
    assert release.reclaimable == {}

    reported = [{"name": "workers", "succeeded": 1}]
    jobs = job("jobset.x-k8s.io/jobset", replicatedJobsStatus=reported)
    evicted = workload(jobs, "Evicted", admitted=True, reclaimable={"workers": 2})
    release = first(act.ReleaseQuota, decide(jobs, [evicted], CONTEXT))
    assert release.reclaimable == {"workers": 2}


@pytest.mark.parametrize("name", [name for name in KINDS if name.startswith("kubeflow")])
def test_a_training_job_is_ready_when_all_its_replicas_run_or_have(name: str) -> None:
    def ready(said: str = "True", **worker: int) -> bool:
        spec: Any = job(name).object["spec"]
        [roles] = [value for field, value in spec.items() if field.endswith("ReplicaSpecs")]
        reported = {role: {"active": each["replicas"]} for role, each in roles.items()}
        running = [{"type": "Running", "status": said}]
        statuses = {**reported, "Worker": worker}
        return job(name, conditions=running, replicaStatuses=statuses).pods_ready()

    assert ready(active=3)
    assert ready(active=1, succeeded=2)
    assert not ready(active=2)
    assert not ready(active=2, failed=1)
    assert not ready()
    assert not ready("False", active=3)
    assert not job(name, conditions=[{"type": "Running", "status": "True"}]).pods_ready()


def test_a_rayjob_is_ready_with_its_cluster() -> None:
    assert job("ray.io/rayjob", rayClusterStatus={"state": "ready"}).pods_ready()
    assert not job("ray.io/rayjob", rayClusterStatus={"state": "suspended"}).pods_ready()


def test_the_scheduling_policy_names_the_class_before_the_pods() -> None:
    source = mpijob()
    worker = source["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]
    worker["priorityClassName"] = "pods"
    assert wrap("kubeflow.org/mpijob", source).priority_class() == "pods"
    source["spec"]["runPolicy"]["schedulingPolicy"] = {"priorityClass": "policy"}
    assert wrap("kubeflow.org/mpijob", source).priority_class() == "policy"


def test_unknown_replica_types_are_no_pod_sets() -> None:
    source = kubeflow("PyTorchJob", "pytorchReplicaSpecs", Master=1, Sidekick=1)
    found = wrap("kubeflow.org/pytorchjob", source).pod_sets()
    assert [each.name for each in found] == ["master"]


def test_a_rayjob_that_uses_a_cluster_is_not_ours() -> None:
    source = made("ray.io/v1", "RayJob", {"clusterSelector": {"ray.io/cluster": "c"}})
    found = wrap("ray.io/rayjob", source)
    assert found.skip()
    assert decide(found, [], CONTEXT) == ()


@pytest.mark.parametrize(
    ("mode", "want"), [("", ["submitter"]), ("K8sJobMode", ["submitter"]), ("HTTPMode", [])]
)
def test_a_submitter_counts_where_it_is_a_pod_of_its_own(mode: str, want: list[str]) -> None:
    source = rayjob()
    source["spec"]["submissionMode"] = mode
    del source["spec"]["submitterPodTemplate"]
    found = wrap("ray.io/rayjob", source)
    assert [each.name for each in found.pod_sets()][3:] == want


def test_a_list_is_replaced_only_in_the_version_that_was_read() -> None:
    source = jobset()
    source["metadata"]["resourceVersion"] = "7"
    held = wrap("jobset.x-k8s.io/jobset", source)
    places = [Placement(each.name, each.count, {"a": "b"}) for each in held.pod_sets()]
    (start,) = held.start_steps(places)
    assert start.patch["metadata"] == {"uid": "u1", "resourceVersion": "7"}
    (stop,) = wrap("jobset.x-k8s.io/jobset", sent(held, start)).stop_steps(None)
    assert stop.patch["metadata"] == {"uid": "u1"}


def test_pods_that_want_other_nodes_keep_the_whole_job_from_starting() -> None:
    source = jobset()
    workers = source["spec"]["replicatedJobs"][1]["template"]["spec"]
    workers["template"] = template(nodeSelector={"tier": "other"})
    held = wrap("jobset.x-k8s.io/jobset", source)
    assert end_of(decide(held, [workload(held, admitted=True)], CONTEXT)).reason == "FailedToStart"
    assert held.is_suspended()


@pytest.mark.parametrize(
    ("name", "path", "count"),
    [
        ("jobset.x-k8s.io/jobset", ("replicatedJobs", 0, "replicas"), -2),
        ("kubeflow.org/pytorchjob", ("pytorchReplicaSpecs", "Worker", "replicas"), -2),
        ("kubeflow.org/pytorchjob", ("pytorchReplicaSpecs", "Worker", "replicas"), 2**31),
        ("ray.io/rayjob", ("rayClusterSpec", "workerGroupSpecs", 0, "replicas"), -2),
    ],
)
def test_a_number_of_pods_that_cannot_be_is_refused(name: str, path: Any, count: int) -> None:
    source = deepcopy(POD_SETS[name][0]())
    where: Any = source["spec"]
    for each in path[:-1]:
        where = where[each]
    where[path[-1]] = count
    if name.startswith("jobset"):
        where["template"]["spec"]["parallelism"] = -3  # two odd numbers do not make a good one
    refused = only(act.ReportRefusal, decide(wrap(name, source), [], CONTEXT))
    assert refused.reason == "Invalid"
    assert "pods: use a number from 0" in refused.message
