"""Whose quota a job may use: that of a job whose controller makes it, and of no other one."""

import json
from typing import Any

import pytest

from extender.api.core_v1 import LabelSelector
from extender.controllers.job_facts import JobFacts, JobOptions
from extender.jobs.actions import Ancestor
from extender.jobs.registry import builtin
from extender.state.queue import events as ev
from extender.state.queue.records import JobObject, Meta, OwnerRef
from extender.state.queue.store import Queues
from tests.makers import NAMESPACE, ManualClock
from tests.queue_makers import admission, condition, workload
from tests.unit.controllers.queue_server import NoPodGroups

PARENT = OwnerRef("", "", "parent", "parent-uid")
KINDS = {name: (each.api_version, each.kind) for name, each in builtin().items()}
JOB_SET = {
    "spec": {"replicatedJobs": [{"name": "w-a", "replicas": 3}, {"name": "one"}]},
}
DONE = {"conditions": [{"type": "Completed", "status": "True"}]}


class Scene:
    """A job, and its workload; by default it is a JobSet."""

    def __init__(
        self,
        kind: str = "jobset.x-k8s.io/jobset",
        source: Any = None,
        *,
        admitted: bool = True,
        manages_all: bool = True,
    ) -> None:
        self.queues, self._kind = Queues(), kind
        view = self.queues.view()
        options = JobOptions(
            builtin(), LabelSelector(), NoPodGroups(), manage_without_queue_name=manages_all
        )
        self.facts = JobFacts(view, options, clock=ManualClock())
        whole = {"metadata": {"name": "parent"}, **(source or JOB_SET)}
        self.put(json.dumps(whole).encode(), 1)
        made = workload("w")
        held = admission(made) if admitted else None
        conditions = (condition("Admitted"),) if admitted else ()
        self.queues.apply(
            ev.Applied(workload("w", admission=held, conditions=conditions, owners=(PARENT,)))
        )

    def put(self, raw: bytes, version: int) -> None:
        """Have the job stored."""
        of = Meta("parent", NAMESPACE, "parent-uid", version)
        self.queues.apply(ev.JobApplied(JobObject(self._kind, of, raw)))

    def ancestor(
        self, name: str, kind: str = "batch/job", namespace: str = NAMESPACE
    ) -> Ancestor | None:
        owner = OwnerRef(*KINDS[self._kind], "parent", "parent-uid")
        return self.owned_by(owner, name, kind, namespace)

    def owned_by(
        self, owner: OwnerRef, name: str, kind: str = "batch/job", namespace: str = NAMESPACE
    ) -> Ancestor | None:
        return self.facts.ancestor(JobObject(kind, Meta(name, namespace), b"{}", owner=owner))


@pytest.mark.parametrize("name", ["parent-w-a-0", "parent-w-a-2", "parent-one-0"])
def test_a_job_of_a_job_set_is_held_with_it(name: str) -> None:
    for admitted in (True, False):
        assert Scene(admitted=admitted).ancestor(name) == Ancestor(
            "jobset.x-k8s.io/jobset parent", admitted
        )


@pytest.mark.parametrize(
    "name",
    ["mine", "parent-w-a-3", "parent-w-a-00", "parent-one-1", "parent-other-0", "parent-w-a"],
)
def test_a_job_that_only_says_so_stands_for_itself(name: str) -> None:
    assert Scene().ancestor(name) is None


@pytest.mark.parametrize(
    "said",
    [
        ("v1", "ConfigMap", "parent"),
        ("example.com/v1", "JobSet", "parent"),
        ("jobset.x-k8s.io/v1alpha2", "JobSets", "parent"),
        ("jobset.x-k8s.io/v1alpha2", "JobSet", "other"),
    ],
)
def test_a_reference_that_names_another_object_by_the_same_uid_counts_for_nothing(
    said: tuple[str, str, str],
) -> None:
    """The policy for such Jobs looks at the kind and the name that the reference says."""
    scene = Scene()
    assert scene.owned_by(OwnerRef(*said, "parent-uid"), "parent-w-a-0") is None
    newer = OwnerRef("jobset.x-k8s.io/v1beta1", "JobSet", "parent", "parent-uid")
    assert scene.owned_by(newer, "parent-w-a-0") is not None


def test_a_job_makes_no_jobs() -> None:
    assert Scene("batch/job", {"spec": {}}).ancestor("parent-0") is None


@pytest.mark.parametrize(
    ("kind", "name", "is_made"),
    [
        ("kubeflow.org/mpijob", "parent-launcher", True),
        ("kubeflow.org/mpijob", "parent-worker", False),
        ("kubeflow.org/pytorchjob", "parent-launcher", False),
        ("ray.io/rayjob", "parent", True),
        ("ray.io/rayjob", "parent-2", False),
        ("ray.io/raycluster", "parent-redis-cleanup", True),
        ("ray.io/raycluster", "parent", False),
    ],
)
def test_other_kinds_make_what_their_operators_make(kind: str, name: str, *, is_made: bool) -> None:
    assert (Scene(kind, {"spec": {}}).ancestor(name) is not None) == is_made


@pytest.mark.parametrize("admitted", [True, False])
def test_a_jobset_of_a_trainjob_is_started_and_stopped_by_trainer(*, admitted: bool) -> None:
    scene = Scene("trainer.kubeflow.org/trainjob", {"spec": {}}, admitted=admitted)
    found = scene.ancestor("parent", "jobset.x-k8s.io/jobset")
    assert found == Ancestor("trainer.kubeflow.org/trainjob parent", admitted, starts_it=True)
    assert scene.ancestor("other", "jobset.x-k8s.io/jobset") is None


def test_a_parent_that_has_ended_gives_its_quota_to_nothing() -> None:
    assert Scene(source={**JOB_SET, "status": DONE}).ancestor("parent-w-a-0") is None


def test_a_parent_of_another_namespace_is_none() -> None:
    assert Scene().ancestor("parent-w-a-0", namespace="elsewhere") is None


def test_a_parent_that_is_not_managed_holds_nothing() -> None:
    assert Scene(manages_all=False).ancestor("parent-w-a-0") is None


def test_a_parent_that_cannot_be_read_is_none() -> None:
    scene = Scene()
    deep = b'{"spec": ' + b'{"a":' * 3000 + b"1" + b"}" * 3001
    scene.put(deep, 99)
    assert scene.ancestor("parent-w-a-0") is None
