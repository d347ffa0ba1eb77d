"""Which kinds there are, and how others are added."""

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from extender.jobs import actions as act
from extender.jobs.decide import decide
from extender.jobs.job import GenericJob
from extender.jobs.kinds.batch_job import BatchJob
from extender.jobs.registry import IntegrationError, builtin, load, select
from extender.kube.decode import Decoder
from extender.kube.decode_queues import QueueDecoder
from tests.harness.kinds import jobset, template
from tests.unit.jobs.scene import CONTEXT, end_of, only, sent, workload

DOCS = Path(__file__).parents[3] / "docs"


def test_our_own_kinds_are_there_by_the_names_that_settings_have() -> None:
    where = {name: f"{each.api_version}/{each.plural}" for name, each in builtin().items()}
    assert where == {
        "batch/job": "batch/v1/jobs",
        "jobset.x-k8s.io/jobset": "jobset.x-k8s.io/v1alpha2/jobsets",
        "kubeflow.org/mpijob": "kubeflow.org/v2beta1/mpijobs",
        "kubeflow.org/pytorchjob": "kubeflow.org/v1/pytorchjobs",
        "kubeflow.org/tfjob": "kubeflow.org/v1/tfjobs",
        "kubeflow.org/xgboostjob": "kubeflow.org/v1/xgboostjobs",
        "kubeflow.org/jaxjob": "kubeflow.org/v1/jaxjobs",
        "kubeflow.org/paddlejob": "kubeflow.org/v1/paddlejobs",
        "ray.io/rayjob": "ray.io/v1/rayjobs",
        "ray.io/raycluster": "ray.io/v1/rayclusters",
        "sparkoperator.k8s.io/sparkapplication": "sparkoperator.k8s.io/v1beta2/sparkapplications",
        "workload.codeflare.dev/appwrapper": "workload.codeflare.dev/v1beta2/appwrappers",
        "statefulset": "apps/v1/statefulsets",
        "leaderworkerset.x-k8s.io/leaderworkerset": "leaderworkerset.x-k8s.io/v1/leaderworkersets",
        "trainer.kubeflow.org/trainjob": "trainer.kubeflow.org/v1alpha1/trainjobs",
        "pod": "v1/pods",
    }


def test_an_object_out_of_a_list_gets_its_kind() -> None:
    found = builtin()["batch/job"].wrap({"metadata": {"name": "x"}})
    assert (found.object["apiVersion"], found.object["kind"]) == ("batch/v1", "Job")


def test_several_objects_are_a_job_only_of_a_kind_that_is_made_of_several() -> None:
    with pytest.raises(TypeError, match="Job"):
        builtin()["batch/job"].wrap_all([])


@pytest.mark.parametrize(
    ("reference", "want"),
    [
        ("nothing", "module:Class"),
        (":Class", "module:Class"),
        ("no.such.module:Kind", "cannot import no.such.module"),
        ("kinds_of_others:Missing", "there is no Missing in kinds_of_others"),
        ("kinds_of_others:value", "is not a class"),
        ("kinds_of_others:Nameless", "Nameless does not set its integration, kind"),
        ("kinds_of_others:Other", "Other is no subclass of extender.jobs.job.GenericJob"),
        ("kinds_of_others:Half", "Half lacks finished, pods_ready, slots"),
    ],
)
def test_what_is_no_integration_is_an_error(
    reference: str, want: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = dict(zip(("integration", "kind", "group", "version", "plural"), "abcde", strict=True))
    module: Any = ModuleType("kinds_of_others")
    module.value, module.Nameless = 1, type("Nameless", (), {})
    module.Other = type("Other", (), said)
    module.Half = type("Half", (GenericJob,), {**said, "is_active": lambda _: True})
    monkeypatch.setitem(sys.modules, "kinds_of_others", module)
    with pytest.raises(IntegrationError, match=want):
        load(reference)


def test_a_rayservice_is_queued_by_its_rayclusters() -> None:
    names = [each.name for each in select(["ray.io/rayservice", "batch/job", "ray.io/raycluster"])]
    assert names == ["ray.io/raycluster", "batch/job"]
    with pytest.raises(IntegrationError, match=r"'ray.io/other'; there are .*ray.io/rayservice"):
        select(["ray.io/other"])


def test_a_class_of_ours_can_be_named_too() -> None:
    assert load("extender.jobs.kinds.batch_job:BatchJob").build is BatchJob


def test_the_example_is_queued_started_and_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(DOCS / "examples"))
    integration = load("render_farm:Render")
    source = {
        "metadata": {
            "name": "film",
            "namespace": "ns",
            "uid": "u1",
            "labels": {"kueue.x-k8s.io/queue-name": "q"},
        },
        "spec": {"paused": True, "frames": {"workers": 3, "template": template()}},
    }
    held = integration.wrap(source)
    only(act.CreateWorkload, decide(held, [], CONTEXT))
    assert [(each.name, each.count) for each in held.pod_sets()] == [("frames", 3)]

    admitted = workload(held, admitted=True)
    start = only(act.StartJob, decide(held, [admitted], CONTEXT))
    running = integration.wrap({**sent(held, *start.steps), "status": {"running": 3}})
    assert running.pods_ready()
    assert decide(running, [admitted], CONTEXT) == ()
    only(act.StopJob, decide(running, [workload(held, "Evicted", admitted=True)], CONTEXT))

    rendered = integration.wrap({**running.object, "status": {"rendered": True}})
    assert end_of(decide(rendered, [admitted], CONTEXT)).reason == "Succeeded"


def test_what_a_kind_knows_to_be_done_is_read_with_the_object() -> None:
    source = {**jobset(), "status": {"replicatedJobsStatus": [{"name": "workers", "succeeded": 1}]}}
    kinds = builtin()
    decoder, raw = QueueDecoder(Decoder()), json.dumps(source).encode()
    done = {name: decoder.job(raw, kind=name, done=each.done).done for name, each in kinds.items()}
    assert {name: each for name, each in done.items() if each} == {
        "jobset.x-k8s.io/jobset": {"workers": 2}
    }
