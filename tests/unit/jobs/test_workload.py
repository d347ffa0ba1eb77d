"""The workload of a job: its name and the object that is created."""

from dataclasses import replace
from hashlib import sha1
from typing import Any

import pytest

from extender.api.core_v1 import Toleration
from extender.api.queue_wire import PodSetUpdate
from extender.jobs.templates import PlacementError, extends, placements_of, same
from extender.jobs.workload import Priority, build
from extender.state.queue.records import Assignment, CheckState, FlavorInfo, Meta
from tests.unit.jobs.scene import FLAVOR, UID, body_of, job, workload


def test_a_workload_is_named_after_its_job_alone() -> None:
    want = sha1(f"Job\nbatch\nwork\n{UID}".encode()).hexdigest()[:5]
    assert job().workload_name() == f"job-work-{want}"
    other = job()
    body_of(other)["metadata"]["uid"] = "u2"
    assert other.workload_name() != job().workload_name()


def test_a_long_name_is_cut_before_what_makes_it_unique() -> None:
    name = job("w" * 300).workload_name()
    assert len(name) == 253
    assert name[:-5] == ("job-" + "w" * 300)[:247] + "-"


def test_a_workload_asks_for_what_the_job_does() -> None:
    labels = {"kueue.x-k8s.io/max-exec-time-seconds": "60"}
    work = job(labels=labels, own_annotations={"kueue.x-k8s.io/job-min-parallelism": "1"})
    source = ("kueue.x-k8s.io", "WorkloadPriorityClass", "high")
    made: Any = build(work, Priority(9, source))
    name = work.workload_name()
    assert made == {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {
            "name": name,
            "namespace": "ns",
            "labels": {"kueue.x-k8s.io/job-uid": UID},
            "finalizers": ["kueue.x-k8s.io/resource-in-use"],
            "annotations": {"scheduling.x-k8s.io/priority-taken": "high=9"},
            "ownerReferences": [
                {
                    "apiVersion": "batch/v1",
                    "kind": "Job",
                    "name": "work",
                    "uid": UID,
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {
            "podSets": [
                {
                    "name": "main",
                    "count": 2,
                    "minCount": 1,
                    "template": body_of(work)["spec"]["template"],
                }
            ],
            "queueName": "q",
            "priority": 9,
            "priorityClassRef": dict(zip(("group", "kind", "name"), source, strict=True)),
            "maximumExecutionTimeSeconds": 60,
        },
    }


@pytest.mark.parametrize("said", ["0", "-1", "soon", "1.5", "", "2147483648"])
def test_a_limit_that_is_none_is_left_out(said: str) -> None:
    made: Any = build(job(labels={"kueue.x-k8s.io/max-exec-time-seconds": said}), Priority())
    assert "maximumExecutionTimeSeconds" not in made["spec"]
    assert "priorityClassRef" not in made["spec"]


def test_a_fraction_of_a_processor_becomes_text_and_stays_the_same() -> None:
    """A kind that does not look into its templates has numbers there; a Workload takes none."""
    work = job()
    template: Any = body_of(work)["spec"]["template"]
    template["spec"]["containers"] = [{"name": "main", "resources": {"requests": {"cpu": 0.5}}}]
    made: Any = build(work, Priority())
    [written] = made["spec"]["podSets"]
    assert written["template"]["spec"]["containers"][0]["resources"] == {"requests": {"cpu": "0.5"}}
    assert same(template, written["template"])
    assert extends(template, written["template"])
    assert template["spec"]["containers"][0]["resources"] == {"requests": {"cpu": 0.5}}


def test_pods_get_the_labels_of_all_flavors_of_their_pod_set() -> None:
    held = workload(job(), admitted=True)
    disk = FlavorInfo(Meta("disk"), node_labels={"disk": "ssd"})
    both = Assignment("main", {"cpu": "spot", "storage": "disk", "memory": "spot"}, {}, 2)
    assert held.admission is not None
    held = replace(held, admission=replace(held.admission, assignments=(both,)))
    (place,) = placements_of(held, {"spot": FLAVOR, "disk": disk})
    assert place.node_selector == {"tier": "spot", "disk": "ssd"}
    assert len(place.tolerations) == 1

    with pytest.raises(PlacementError, match="tier"):
        placements_of(held, {"spot": FLAVOR, "disk": replace(disk, node_labels={"tier": "x"})})


UPDATE = PodSetUpdate(
    "main",
    {"a": "b"},
    {"note": "x"},
    {"pool": "new"},
    [Toleration("new", "Exists", "", "NoSchedule")],
)


def test_pods_get_what_admission_checks_add_to_what_flavors_give() -> None:
    other = PodSetUpdate("other", {"never": "here"})
    again = PodSetUpdate("main", {"a": "b", "c": "d"}, tolerations=UPDATE.tolerations)
    checks = (CheckState("x", pod_set_updates=(UPDATE, other)), CheckState("y", "Ready"))
    held = replace(workload(job(), admitted=True), checks=checks)
    (bare,) = placements_of(replace(held, checks=()), {"spot": FLAVOR})
    (place,) = placements_of(held, {"spot": FLAVOR})
    assert place.labels == {**bare.labels, "a": "b"}
    assert place.annotations == {**bare.annotations, "note": "x"}
    assert place.node_selector == {"tier": "spot", "pool": "new"}
    added = {"key": "new", "operator": "Exists", "effect": "NoSchedule"}
    assert place.tolerations == (*bare.tolerations, added)
    held = replace(held, checks=(*checks, CheckState("z", pod_set_updates=(again,))))
    (both,) = placements_of(held, {"spot": FLAVOR})
    assert both.labels == {**place.labels, "c": "d"}
    assert both.tolerations == place.tolerations


@pytest.mark.parametrize(
    ("updates", "said"),
    [
        (
            [PodSetUpdate("main", node_selector={"tier": "other"})],
            "admission check c0 gives node selector tier=other, "
            "but another check or a flavor gives spot",
        ),
        (
            [UPDATE, PodSetUpdate("main", {"a": "c"})],
            "admission check c1 gives label a=c, but another check or a flavor gives b",
        ),
        (
            [PodSetUpdate("main", {"kueue.x-k8s.io/podset": "mine"})],
            "gives label kueue.x-k8s.io/podset=mine, but another check or a flavor gives main",
        ),
        ([UPDATE, PodSetUpdate("main", annotations={"note": "y"})], "annotation note=y"),
    ],
)
def test_checks_that_contradict_what_pods_get_are_named(
    updates: list[PodSetUpdate], said: str
) -> None:
    states = tuple(CheckState(f"c{n}", pod_set_updates=(each,)) for n, each in enumerate(updates))
    held = replace(workload(job(), admitted=True), checks=states)
    with pytest.raises(PlacementError, match=f"pod set main: .*{said}"):
        placements_of(held, {"spot": FLAVOR})


def test_parameters_of_provisioning_requests_go_from_the_job_to_its_workload() -> None:
    asks = {"provreq.kueue.x-k8s.io/noRetry": "true"}
    made: Any = build(job(own_annotations={**asks, "other": "x"}), Priority())
    assert made["metadata"]["annotations"] == asks
