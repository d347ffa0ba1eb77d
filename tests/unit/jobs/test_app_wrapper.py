"""AppWrappers: the pod sets of what they wrap, what a start adds to them, and their end."""

from copy import deepcopy
from typing import Any

import pytest

from extender.jobs import actions as act
from extender.jobs.job import GenericJob
from extender.jobs.workload import refusal
from tests.harness.kinds import appwrapper, kubeflow, rayjob, template
from tests.unit.jobs.scene import Object, sent, workload
from tests.unit.jobs.test_kinds import wrap
from tests.unit.jobs.test_spark_application import place

NAME = "workload.codeflare.dev/appwrapper"


def holding(*components: Any) -> GenericJob:
    source = appwrapper()
    source["spec"]["components"] = list(components)
    return wrap(NAME, source)


def component(api_version: str, kind: str, spec: Any, **more: Any) -> Object:
    return {"template": {"apiVersion": api_version, "kind": kind, "spec": spec}, **more}


PODS = component("v1", "Pod", template()["spec"])
WANT: dict[str, tuple[Object, list[int]]] = {
    "a Job": (component("batch/v1", "Job", {"parallelism": 3, "template": template()}), [3]),
    "a Pod": (PODS, [1]),
    "a Deployment": (
        component("apps/v1", "Deployment", {"replicas": 2, "template": template()}),
        [2],
    ),
    "a PyTorchJob": (
        {"template": kubeflow("PyTorchJob", "pytorchReplicaSpecs", Worker=3, Master=1)},
        [1, 3],
    ),
    "a RayJob": ({"template": rayjob()}, [1, 2, 8, 1]),
    "what is not known": (component("example.com/v1", "Odd", {}), []),
    "what declares its pods": (
        component("v1", "Odd", {"pods": template()}, podSets=[{"path": "template.spec.pods"}]),
        [1],
    ),
    "a known kind that declares its own": (
        component(
            "batch/v1",
            "Job",
            {"parallelism": 3, "template": template()},
            podSets=[{"path": "template.spec.template", "replicas": 3}],
        ),
        [3],
    ),
}


@pytest.mark.parametrize(("source", "want"), WANT.values(), ids=WANT)
def test_the_pods_of_a_component_are_known_or_declared(source: Object, want: list[int]) -> None:
    found = holding(source).pod_sets()
    assert [each.count for each in found] == want
    assert [each.name for each in found] == [f"work-{index}" for index in range(len(want))]
    assert all(each.template["spec"]["containers"] for each in found)  # type: ignore[index]


def test_a_start_writes_beside_the_components_and_a_stop_takes_it_away() -> None:
    held = wrap(NAME, appwrapper())
    asked = workload(held, admitted=True)
    started = sent(held, *held.start_steps(place(held)))
    first, config, odd = started["spec"]["components"]
    assert [each["labels"] for each in first["podSetInfos"]] == [
        {"set": "work-0"},
        {"set": "work-1"},
    ]
    assert "podSetInfos" not in config
    assert odd["podSetInfos"] == [{"labels": {"set": "work-2"}, "nodeSelector": {"pool": "a"}}]
    running = wrap(NAME, started)
    assert [each.template for each in running.pod_sets()] != [
        each.template for each in held.slots()
    ]
    assert running.equivalent_to_workload(asked)

    (stop,) = act.stop(running, "m", workload=asked)
    assert isinstance(stop, act.StopJob)
    assert sent(running, *stop.steps)["spec"] == appwrapper()["spec"]


def test_a_copy_of_one_that_ran_is_started_with_what_it_is_given_itself() -> None:
    held = wrap(NAME, appwrapper())
    copied = wrap(NAME, {**sent(held, *held.start_steps(place(held)))})
    copied.suspend()
    found: Any = sent(copied, *copied.start_steps(place(copied)))
    assert len(found["spec"]["components"][0]["podSetInfos"]) == 2


@pytest.mark.parametrize("path", ["spec.pods", "template.spec.none", "template[0]", "template..x"])
def test_a_path_that_leads_nowhere_is_refused(path: str) -> None:
    source = component("v1", "Odd", {"pods": template()}, podSets=[{"path": path}])
    refused = refusal(holding(PODS, source))
    assert refused is not None
    assert refused.message.startswith(f"spec.components[1].podSets[0].path: {path!r} is no object")


def test_no_component_starts_with_fewer_pods_than_it_makes() -> None:
    """A component is immutable, so it would run with all pods when admitted for fewer."""
    spec = {"parallelism": 3, "template": template()}
    job: Any = component("batch/v1", "Job", spec)
    job["template"]["metadata"] = {"annotations": {"kueue.x-k8s.io/job-min-parallelism": "1"}}
    assert [each.min_count for each in holding(job).pod_sets()] == [None]


GROWS: Any = rayjob()
GROWS["spec"]["rayClusterSpec"]["enableInTreeAutoscaling"] = True
LESS: Any = {
    "template": kubeflow("PyTorchJob", "pytorchReplicaSpecs", Worker=3, Master=1),
    "podSets": [{"path": "template.spec.pytorchReplicaSpecs.Master.template"}],
}


@pytest.mark.parametrize(
    ("source", "want"),
    [
        ({"template": GROWS}, "spec.components[0].template.spec.rayClusterSpec.enableInTreeAuto"),
        (LESS, "spec.components[0].podSets: 'worker' of the PyTorchJob"),
    ],
)
def test_a_component_that_could_get_more_pods_than_are_counted_is_refused(
    source: Object, want: str
) -> None:
    refused = refusal(holding(source))
    assert refused is not None
    assert refused.message.startswith(want)


def test_pods_that_are_made_late_in_a_component_are_no_members_of_the_gang() -> None:
    assert holding(PODS, {"template": rayjob()}).late_pod_sets() == {"work-4"}


def test_it_makes_its_components_and_nothing_else() -> None:
    job = deepcopy(PODS["template"]) | {"metadata": {"generateName": "some-"}}
    held = holding(*appwrapper()["spec"]["components"], {"template": job})
    assert held.makes("jobset.x-k8s.io/jobset", "wrapped")
    assert held.makes("pod", "some-x1")
    assert not held.makes("jobset.x-k8s.io/jobset", "config")
    assert not held.makes("batch/job", "wrapped")


def status(phase: str, *holds: str) -> Any:
    return {"phase": phase, "conditions": [{"type": each, "status": "True"} for each in holds]}


DEPLOYED = "ResourcesDeployed"
ENDS: dict[str, tuple[Any, bool | None]] = {
    "runs": (status("Running", "QuotaReserved", DEPLOYED, "PodsReady"), None),
    "succeeded": (status("Succeeded", DEPLOYED), True),
    "failed, and its objects are there": (status("Failed", DEPLOYED, "QuotaReserved"), None),
    "failed": (status("Failed"), False),
}


@pytest.mark.parametrize(("said", "want"), ENDS.values(), ids=ENDS)
def test_one_that_failed_ends_when_its_objects_are_gone(said: Any, want: bool | None) -> None:
    job = wrap(NAME, appwrapper(), **said)
    found = job.finished()
    assert (None if found is None else found.success) is want
    assert job.is_active() is ("QuotaReserved" in str(said))
    assert job.pods_ready() is ("PodsReady" in str(said))
