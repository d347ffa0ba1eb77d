"""The PodGroup that is made for a job which brings none."""

from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import pytest
from typing_extensions import override

from extender.api.wellknown import POD_GROUP_LABEL, POD_GROUP_LABEL_SIGS
from extender.jobs.actions import (
    Context,
    DropGrant,
    MakePodGroup,
    PodGroupState,
    ReleaseQuota,
    SetReclaimable,
    StartJob,
    StopJob,
)
from extender.jobs.decide import decide
from extender.jobs.job import GenericJob
from extender.jobs.registry import builtin
from extender.jobs.templates import group_name
from extender.jobs.workload import pod_group_key
from extender.state.cluster.records import DomainAssignment, in_order
from extender.state.queue.records import Meta, WorkloadInfo
from tests.harness.kinds import jobset, pytorchjob
from tests.unit.jobs.scene import (
    CONTEXT,
    FLAVOR,
    NS,
    UID,
    Object,
    body_of,
    first,
    job,
    only,
    sent,
    workload,
)

MADE = PodGroupState(made_by_queue=True)
ALL_LABELS = POD_GROUP_LABEL, POD_GROUP_LABEL_SIGS


@dataclass(frozen=True)
class Gangs(Context):
    """A context in which every workload has a PodGroup of the same state."""

    state: PodGroupState = MADE

    @override
    def pod_group(self, workload: WorkloadInfo) -> PodGroupState:
        return self.state


GANGS = Gangs(flavors={"spot": FLAVOR})


def knowing(**facts: Any) -> Context:
    """Return the same with something known about PodGroups."""
    return replace(GANGS, state=replace(MADE, **facts))


def started(kind: str, work: GenericJob, admitted: WorkloadInfo) -> tuple[MakePodGroup, Any]:
    """Return the PodGroup that is made for a job, and the job as it is started."""
    made, start, *_ = decide(work, [admitted], GANGS)
    assert isinstance(made, MakePodGroup)
    assert isinstance(start, StartJob)
    return made, builtin()[kind].wrap(sent(work, *start.steps))


def label_of(made: dict[str, Any]) -> str | None:
    found: dict[str, str] = made["spec"]["template"]["metadata"].get("labels", {})
    return found.get(POD_GROUP_LABEL)


def test_it_is_made_before_the_job_starts() -> None:
    work = job(parallelism=3)
    admitted = workload(work, admitted=True)
    made, start, *_ = decide(work, [admitted], GANGS)

    name = admitted.meta.name
    owner: Object = {"apiVersion": "batch/v1", "kind": "Job", "name": "work", "uid": UID}
    assert made == MakePodGroup(NS, name, 3, [owner], room_of=admitted.key)
    assert isinstance(start, StartJob)
    assert label_of(sent(work, *start.steps)) == name
    assert pod_group_key(admitted) == f"{NS}/{name}"


def test_pods_that_are_done_are_not_waited_for() -> None:
    work = job(parallelism=4, indexed=True)
    admitted = workload(work, admitted=True, reclaimable={"main": 2})
    made = first(MakePodGroup, decide(work, [admitted], GANGS))
    assert made.min_member == 2


@pytest.mark.parametrize("parallelism", [1, 4])
def test_one_pod_alone_is_no_gang(parallelism: int) -> None:
    work = job(parallelism=parallelism, indexed=True)
    admitted = workload(work, admitted=True, reclaimable={"main": parallelism - 1})
    start = first(StartJob, decide(work, [admitted], GANGS))
    assert label_of(sent(work, *start.steps)) is None


def test_what_has_ended_by_the_start_is_not_waited_for_either() -> None:
    """It is written in the same look; until then the workload knows nothing of it."""
    work = job(parallelism=4, status={"succeeded": 1})
    made, _, said = decide(work, [workload(work, admitted=True)], GANGS)
    assert isinstance(made, MakePodGroup)
    assert made.min_member == 3
    assert isinstance(said, SetReclaimable)
    assert said.counts == {"main": 1}


def test_jobs_that_have_succeeded_are_not_waited_for_though_they_keep_quota() -> None:
    """A restart of all would need it; a start goes on with those that are left."""
    source = jobset()
    source["metadata"] |= {"namespace": NS, "uid": UID}
    source["spec"]["failurePolicy"] = {"maxRestarts": 3}
    source["status"] = {"replicatedJobsStatus": [{"name": "workers", "succeeded": 1}]}
    work = builtin()["jobset.x-k8s.io/jobset"].wrap(source)
    made, *others = decide(work, [workload(work, admitted=True)], GANGS)
    assert isinstance(made, MakePodGroup)
    assert made.min_member == 3
    assert not any(isinstance(each, SetReclaimable) for each in others)


def test_with_fewer_pods_it_wants_fewer() -> None:
    least = {"kueue.x-k8s.io/job-min-parallelism": "1"}
    work = job(parallelism=4, own_annotations=least)
    made = first(
        MakePodGroup, decide(work, [workload(work, admitted=True, counts={"main": 2})], GANGS)
    )
    assert made.min_member == 2


@pytest.mark.parametrize(
    ("label", "options"),
    [
        (POD_GROUP_LABEL, {"group": "own", "label": POD_GROUP_LABEL}),
        (POD_GROUP_LABEL_SIGS, {"group": "own", "label": POD_GROUP_LABEL_SIGS}),
        (None, {"pod_spec": {"schedulingGroup": {"podGroupName": "own"}}}),
    ],
    ids=["ours", "the older one", "native"],
)
def test_pods_that_bring_one_keep_it(label: str | None, options: dict[str, Any]) -> None:
    work = job(**options)
    admitted = workload(work, admitted=True)
    start = first(StartJob, decide(work, [admitted], GANGS))
    labels: Any = sent(work, *start.steps)["spec"]["template"]["metadata"]["labels"]
    known = {name: text for name, text in labels.items() if name in ALL_LABELS}
    assert known == ({label: "own"} if label else {})
    assert pod_group_key(admitted) == f"{NS}/own"


def test_without_the_setting_there_is_none() -> None:
    work = job()
    start = first(StartJob, decide(work, [workload(work, admitted=True)], CONTEXT))
    assert label_of(sent(work, *start.steps)) is None


def test_a_job_that_runs_gets_nothing_new() -> None:
    work = job()
    admitted = workload(work, admitted=True)
    _, runs = started("batch/job", work, admitted)
    assert not decide(runs, [admitted], knowing(size=(2, 0)))
    fewer = replace(admitted, reclaimable={"main": 1})
    runs.object["status"] = {"succeeded": 1, "active": 1}
    assert not decide(runs, [fewer], knowing(size=(2, 0)))


def test_a_group_that_is_gone_is_made_again() -> None:
    work = job()
    admitted = workload(work, admitted=True)
    made, runs = started("batch/job", work, admitted)
    assert decide(runs, [admitted], GANGS) == (replace(made, room_of=""),)
    del body_of(runs)["spec"]["template"]["metadata"]["labels"][POD_GROUP_LABEL]  # it had none
    assert not decide(runs, [admitted], GANGS)


def test_a_group_follows_its_pods_to_other_hosts() -> None:
    work = job()
    admitted = _on(workload(work, admitted=True), "a", "b")
    _, runs = started("batch/job", work, admitted)
    before = {"main": on_hosts("a", "b")}
    assert not decide(runs, [admitted], knowing(size=(2, 1), domains=before))
    moved = _on(admitted, "a", "c")
    made = only(MakePodGroup, decide(runs, [moved], knowing(size=(2, 1), domains=before)))
    assert made.domains == {"main": on_hosts("a", "c")}
    assert (made.min_member, made.done, made.room_of) == (2, 1, "")


def on_hosts(*names: str) -> DomainAssignment:
    return in_order(("kubernetes.io/hostname",), [(name,) for name in names])


def _on(admitted: WorkloadInfo, *names: str) -> WorkloadInfo:
    held = admitted.admission
    assert held is not None
    given = tuple(replace(each, topology=on_hosts(*names)) for each in held.assignments)
    return replace(admitted, admission=replace(held, assignments=given))


def test_a_group_wants_what_can_still_come() -> None:
    """A worker that is made in place of one that was lost does not wait for one that is done."""
    work: Any = builtin()["kubeflow.org/pytorchjob"].wrap(pytorchjob())
    work.object["metadata"] |= {"namespace": NS, "uid": UID}
    admitted = workload(work, admitted=True)
    made, runs = started("kubeflow.org/pytorchjob", work, admitted)
    assert made.min_member == 4
    runs.object["status"] = {
        "conditions": [{"type": "Running", "status": "True"}],
        "replicaStatuses": {"Master": {"active": 1}, "Worker": {"active": 2, "succeeded": 1}},
    }
    regrouped, said = decide(runs, [admitted], knowing(size=(4, 0)))
    assert regrouped == replace(made, done=1, room_of="")
    assert isinstance(said, SetReclaimable)
    reported = replace(admitted, reclaimable={"worker": 1})
    assert not decide(runs, [reported], knowing(size=(4, 1)))


def test_a_group_of_which_all_run_again_wants_all() -> None:
    source = jobset()
    source["metadata"] |= {"namespace": NS, "uid": UID}
    work = builtin()["jobset.x-k8s.io/jobset"].wrap(source)
    admitted = workload(work, admitted=True)
    made, runs = started("jobset.x-k8s.io/jobset", work, admitted)
    for size in ((3, 0), (5, 2)):
        assert decide(runs, [admitted], knowing(size=size)) == (replace(made, room_of=""),)


def test_a_job_that_loses_its_quota_before_its_pods_come_gives_back_the_room_first() -> None:
    work = job()
    evicted = workload(work, "Evicted", admitted=True)
    dropped, release = decide(work, [evicted], knowing(granted=True))
    assert dropped == DropGrant(evicted.key)
    assert isinstance(release, ReleaseQuota)
    only(ReleaseQuota, decide(work, [evicted], GANGS))


def test_the_label_goes_when_the_job_stops() -> None:
    work = job()
    admitted = workload(work, admitted=True)
    _, half = started("batch/job", work, admitted)
    half.object["spec"]["suspend"] = True
    half.object["metadata"]["annotations"] = {"kueue.x-k8s.io/stopping": "true"}
    evicted = workload(work, "Evicted", admitted=True)
    stop = next(x for x in decide(half, [evicted], GANGS) if isinstance(x, StopJob))
    assert label_of(sent(half, *stop.steps)) is None


def test_a_name_is_as_long_as_a_label_may_be() -> None:
    work = job()
    long = workload(work, meta=Meta("job-" + "a" * 53 + "-." + "b" * 40, NS))
    other = workload(work, meta=Meta("job-" + "a" * 53 + "-." + "c" * 40, NS))
    assert len(group_name(long.meta.name)) <= 63
    assert group_name(long.meta.name) != group_name(other.meta.name)
    assert group_name(long.meta.name).startswith("job-" + "a" * 53 + "-")
    assert workload(work).meta.name == group_name(workload(work).meta.name)


def ray() -> Any:
    template = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
    return {
        "apiVersion": "ray.io/v1", "kind": "RayJob",
        "metadata": {"name": "work", "namespace": NS, "uid": UID,
                     "labels": {"kueue.x-k8s.io/queue-name": "q"}},
        "spec": {"suspend": True, "shutdownAfterJobFinishes": True,
                 "submitterPodTemplate": deepcopy(template), "rayClusterSpec": {
            "headGroupSpec": {"template": deepcopy(template)},
            "workerGroupSpecs": [{"groupName": "w", "replicas": 2, "template": template}]}},
    }  # fmt: skip


def test_pods_that_come_when_others_run_are_no_members() -> None:
    work = builtin()["ray.io/rayjob"].wrap(ray())
    made, runs = started("ray.io/rayjob", work, workload(work, admitted=True))
    assert made.min_member == 3
    spec = runs.object["spec"]
    said = [
        each["metadata"]
        for each in (
            spec["rayClusterSpec"]["headGroupSpec"]["template"],
            spec["rayClusterSpec"]["workerGroupSpecs"][0]["template"],
            spec["submitterPodTemplate"],
        )
    ]
    labels = [each["labels"].get(POD_GROUP_LABEL) for each in said]
    assert labels == [made.name, made.name, None]
    whose = [each["annotations"]["kueue.x-k8s.io/workload"] for each in said]
    assert whose == [workload(work).meta.name] * 3


def replicated(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "template": {"spec": {"template": {}}}, **more}


LATE: dict[str, tuple[str, dict[str, Any], set[str]]] = {
    "a launcher that waits": (
        "kubeflow.org/mpijob", {"launcherCreationPolicy": "WaitForWorkersReady"}, {"launcher"}),
    "a launcher that does not": ("kubeflow.org/mpijob", {}, set()),
    "jobs in order": (
        "jobset.x-k8s.io/jobset",
        {"startupPolicy": {"startupPolicyOrder": "InOrder"},
         "replicatedJobs": [replicated("a"), replicated("b")]},
        {"b"}),
    "jobs that depend on others": (
        "jobset.x-k8s.io/jobset",
        {"replicatedJobs": [replicated("a"), replicated("b", dependsOn=[{"name": "a"}])]},
        {"b"}),
    "jobs at once": (
        "jobset.x-k8s.io/jobset", {"replicatedJobs": [replicated("a"), replicated("b")]}, set()),
    "pods": ("batch/job", {}, set()),
}  # fmt: skip


@pytest.mark.parametrize(("kind", "spec", "late"), LATE.values(), ids=LATE)
def test_which_pod_sets_wait_for_others(kind: str, spec: dict[str, Any], late: set[str]) -> None:
    assert set(builtin()[kind].wrap({"spec": spec}).late_pod_sets()) == late
