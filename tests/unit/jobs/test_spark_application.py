"""SparkApplications: what they ask for, their start and stop, and what is refused."""

from dataclasses import replace
from typing import Any

import pytest

from extender.api.wellknown import STOPPED_ANNOTATION
from extender.jobs import actions as act
from extender.jobs.decide import decide
from extender.jobs.job import GenericJob
from extender.jobs.templates import Placement
from extender.jobs.workload import refusal
from extender.state.cluster.records import DomainAssignment
from tests.harness.kinds import sparkapplication
from tests.unit.jobs.scene import CONTEXT, Object, only, sent, workload
from tests.unit.jobs.test_kinds import wrap

NAME = "sparkoperator.k8s.io/sparkapplication"
GPU = {"name": "nvidia.com/gpu", "quantity": 2}
TEMPLATE: Any = {
    "spec": {
        "nodeSelector": {"disk": "ssd"},
        "containers": [
            {"name": "main", "resources": {"requests": {"cpu": "9", "example.com/nic": "1"}}},
            {"name": "beside", "resources": {"requests": {"cpu": "1"}}},
        ],
    }
}


def app(*, driver: Any = None, executor: Any = None, **spec: Any) -> Object:
    source = sparkapplication()
    source["spec"]["driver"] |= driver or {}
    source["spec"]["executor"] |= executor or {}
    source["spec"] |= spec
    return source


def status(state: str, **executors: str) -> Any:
    return {"applicationState": {"state": state}, "executorState": executors}


def place(job: GenericJob, **more: Any) -> list[Placement]:
    return [
        Placement(each.name, each.count, {"pool": "a"}, labels={"set": each.name}, **more)
        for each in job.pod_sets()
    ]


AMOUNTS: dict[str, tuple[Object, tuple[str, str], tuple[str, str]]] = {
    "of Scala": (app(), ("1", "896Mi"), ("2", "1408Mi")),
    "of Python": (app(type="Python"), ("1", "896Mi"), ("2", "1433Mi")),
    "with more memory": (app(driver={"memory": "10G"}), ("1", "11264Mi"), ("2", "1408Mi")),
    "with a factor": (
        app(memoryOverheadFactor="0.5"),
        ("1", "896Mi"),
        ("2", "1536Mi"),
    ),
    "with an overhead": (app(driver={"memoryOverhead": "100"}), ("1", "612Mi"), ("2", "1408Mi")),
    "with a request": (app(driver={"coreRequest": "250m"}), ("250m", "896Mi"), ("2", "1408Mi")),
    "without amounts": (
        app(driver={"cores": None, "memory": None}),
        ("1", "1408Mi"),
        ("2", "1408Mi"),
    ),
    "with memory for Python": (
        app(type="Python", sparkConf={"spark.executor.pyspark.memory": "2g"}),
        ("1", "896Mi"),
        ("2", "3481Mi"),
    ),
    "with memory off the heap": (
        app(
            sparkConf={
                "spark.memory.offHeap.enabled": "true",
                "spark.memory.offHeap.size": "1073741824",
            }
        ),
        ("1", "896Mi"),
        ("2", "2432Mi"),
    ),
}


@pytest.mark.parametrize(("source", "driver", "executor"), AMOUNTS.values(), ids=AMOUNTS)
def test_its_pods_ask_for_what_spark_asks_for(
    source: Object, driver: tuple[str, str], executor: tuple[str, str]
) -> None:
    asked = [requests(each.template)[0] for each in wrap(NAME, source).pod_sets()]
    assert [(each["cpu"], each["memory"]) for each in asked] == [driver, executor]


def requests(template: Any) -> list[Any]:
    return [each["resources"]["requests"] for each in template["spec"]["containers"]]


def test_what_the_operator_adds_counts_and_so_does_a_template_in_its_place() -> None:
    sidecar = {"name": "beside", "resources": {"requests": {"cpu": "1"}}}
    added = {"gpu": GPU, "sidecars": [sidecar], "initContainers": [sidecar]}
    (_, executor) = wrap(NAME, app(executor=added)).pod_sets()
    spec: Any = executor.template["spec"]
    assert requests(executor.template)[0]["nvidia.com/gpu"] == "2"
    assert requests(executor.template)[1] == {"cpu": "1"}
    assert spec["initContainers"] == [sidecar]

    (_, executor) = wrap(NAME, app(executor={**added, "template": TEMPLATE})).pod_sets()
    main, beside = requests(executor.template)
    assert main == {"cpu": "2", "example.com/nic": "1", "memory": "1408Mi"}
    assert beside == {"cpu": "1"}
    assert "initContainers" not in executor.template["spec"]  # type: ignore[operator]


COUNTS: dict[str, tuple[Object, int]] = {
    "a number": (app(), 2),
    "none": (app(executor={"instances": None}), 2),
    "a dynamic number": (
        app(dynamicAllocation={"enabled": True, "minExecutors": 1, "maxExecutors": 7}),
        7,
    ),
}


@pytest.mark.parametrize(("source", "want"), COUNTS.values(), ids=COUNTS)
def test_executors_count_as_many_as_there_may_be(source: Object, want: int) -> None:
    assert wrap(NAME, source).pod_sets()[1].count == want


def test_a_selector_for_both_moves_at_the_start_and_comes_back() -> None:
    source = app(nodeSelector={"zone": "z"})
    held = wrap(NAME, source)
    asked = workload(held, admitted=True)
    running = wrap(NAME, sent(held, *held.start_steps(place(held))))
    spec: Any = running.object["spec"]
    assert "nodeSelector" not in spec
    assert spec["driver"]["nodeSelector"] == {"zone": "z", "pool": "a"}
    assert spec["executor"]["nodeSelector"] == {"zone": "z", "pool": "a"}
    assert running.equivalent_to_workload(asked)

    (stop,) = act.stop(running, "m", workload=asked)
    assert isinstance(stop, act.StopJob)
    stopped = sent(running, *stop.steps)
    assert stopped["spec"] == source["spec"]
    assert list(stopped["metadata"]["annotations"]) == [STOPPED_ANNOTATION]


def test_with_a_template_the_directives_go_into_it() -> None:
    source = app(driver={"template": TEMPLATE})
    held = wrap(NAME, source)
    asked = workload(held, admitted=True)
    started = sent(held, *held.start_steps(place(held)))
    assert started["spec"]["driver"]["template"]["spec"]["nodeSelector"] == {
        "disk": "ssd",
        "pool": "a",
    }
    assert started["spec"]["driver"]["labels"] == {"set": "driver"}
    running = wrap(NAME, started)
    (stop,) = act.stop(running, "m", workload=asked)
    assert isinstance(stop, act.StopJob)
    assert sent(running, *stop.steps)["spec"] == source["spec"]


def test_gates_need_a_template() -> None:
    with_one = app(driver={"template": TEMPLATE}, executor={"template": TEMPLATE})
    assert wrap(NAME, with_one).start_steps(place(wrap(NAME, with_one), gates=("g",)))
    end, _ = decide(wrap(NAME, app()), [gated(wrap(NAME, app()))], CONTEXT)
    assert isinstance(end, act.FinishWorkload)


def gated(job: GenericJob) -> Any:
    found = workload(job, admitted=True)
    assert found.admission is not None
    topology = DomainAssignment(("zone",), ((("a",), 1), (("b",), 1)))
    given = tuple(replace(each, topology=topology) for each in found.admission.assignments)
    return replace(found, admission=replace(found.admission, assignments=given))


PROBLEMS: dict[str, tuple[Object, str]] = {
    "memory of Kubernetes": (app(driver={"memory": "1Gi"}), "spec.driver.memory: '1Gi'"),
    "no limit": (
        app(dynamicAllocation={"enabled": True}),
        "spec.dynamicAllocation.maxExecutors: ",
    ),
    "amounts elsewhere": (
        app(sparkConf={"spark.executor.instances": "50"}),
        "spec.sparkConf: spark.executor.instances",
    ),
    "cores elsewhere": (
        app(sparkConf={"spark.kubernetes.driver.request.cores": "5"}),
        "spec.sparkConf: spark.kubernetes.driver.request.cores",
    ),
}


@pytest.mark.parametrize(
    "key",
    [
        "spark.kubernetes.driver.podTemplateFile",
        "spark.driver.minMemoryOverhead",
        "spark.executor.memoryOverheadFactor",
        "spark.yarn.executor.memoryOverhead",
    ],
)
def test_what_makes_pods_larger_is_said_in_fields(key: str) -> None:
    refused = refusal(wrap(NAME, app(sparkConf={key: "9g"})))
    assert refused is not None
    assert refused.message.startswith(f"spec.sparkConf: {key} is not counted")


@pytest.mark.parametrize(("source", "want"), PROBLEMS.values(), ids=PROBLEMS)
def test_what_cannot_be_counted_is_refused_with_the_field(source: Object, want: str) -> None:
    refused = refusal(wrap(NAME, source))
    assert refused is not None
    assert refused.reason == "Invalid"
    assert refused.message.startswith(want)


def test_an_operator_that_cannot_suspend_is_named_and_not_asked_again() -> None:
    """The API server drops a field that its CRD has not."""
    source = app()
    del source["spec"]["suspend"]
    running = wrap(NAME, source)
    stop = only(act.StopJob, decide(running, [], CONTEXT))
    stored = sent(running, *stop.steps)
    del stored["spec"]["suspend"]
    report = only(act.ReportRefusal, decide(wrap(NAME, stored), [], CONTEXT))
    assert report.message.startswith("spec.suspend: ")
    assert "2.4.0" in report.message


READY: dict[str, tuple[Any, bool, bool]] = {
    "new": (status(""), False, False),
    "submitted": (status("SUBMITTED"), False, True),
    "without executors": (status("RUNNING"), False, True),
    "with some": (status("RUNNING", a="RUNNING", b="PENDING"), False, True),
    "with all": (status("RUNNING", a="RUNNING", b="COMPLETED"), True, True),
    "stopping": (status("SUSPENDING"), False, True),
    "stopped": (status("SUSPENDED"), False, False),
    "submission failed": (status("SUBMISSION_FAILED"), False, True),
    "failed": (status("FAILED"), False, False),
}


@pytest.mark.parametrize(("said", "ready", "active"), READY.values(), ids=READY)
def test_it_is_ready_with_its_executors_and_active_until_it_is_at_rest(
    said: Any, ready: bool, active: bool
) -> None:
    job = wrap(NAME, app(), **said)
    assert (job.pods_ready(), job.is_active()) == (ready, active)


@pytest.mark.parametrize(
    ("state", "want"),
    [("COMPLETED", True), ("FAILED", False), ("SUBMISSION_FAILED", None), ("FAILING", None)],
)
def test_it_has_ended_when_no_retry_is_left(state: str, want: bool | None) -> None:
    found = wrap(NAME, app(), **status(state)).finished()
    assert (None if found is None else found.success) == want
