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
    def __init__(self, *, manages_all: bool = True) -> None:
        self.queues = Queues()
        view = self.queues.view()
        options = JobOptions(
            builtin(), LabelSelector(), NoPodGroups(), manage_without_queue_name=manages_all
        )
        self.facts = JobFacts(view, options, clock=ManualClock())
        self._version = 0

    def parent(self, kind: str, source: dict[str, Any], *, admitted: bool = True) -> None:
        """Have a parent, and its workload."""
        self._version += 1
        self._kind = kind
        whole = {"metadata": {"name": "parent"}, **source}
        found = JobObject(
            kind, Meta("parent", NAMESPACE, "parent-uid", self._version), json.dumps(whole).encode()
        )
        self.queues.apply(ev.JobApplied(found))
        made = workload("w")
        held = admission(made) if admitted else None
        conditions = (condition("Admitted"),) if admitted else ()
        self.queues.apply(
            ev.Applied(workload("w", admission=held, conditions=conditions, owners=(PARENT,)))
        )

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
    scene = Scene()
    scene.parent("jobset.x-k8s.io/jobset", JOB_SET)
    found = scene.ancestor(name)
    assert found is not None
    assert found.admitted

    scene = Scene()
    scene.parent("jobset.x-k8s.io/jobset", JOB_SET, admitted=False)
    found = scene.ancestor(name)
    assert found is not None
    assert not found.admitted


@pytest.mark.parametrize(
    "name",
    ["mine", "parent-w-a-3", "parent-w-a-00", "parent-one-1", "parent-other-0", "parent-w-a"],
)
def test_a_job_that_only_says_so_stands_for_itself(name: str) -> None:
    scene = Scene()
    scene.parent("jobset.x-k8s.io/jobset", JOB_SET)
    assert scene.ancestor(name) is None


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
    scene.parent("jobset.x-k8s.io/jobset", JOB_SET)
    assert scene.owned_by(OwnerRef(*said, "parent-uid"), "parent-w-a-0") is None
    newer = OwnerRef("jobset.x-k8s.io/v1beta1", "JobSet", "parent", "parent-uid")
    assert scene.owned_by(newer, "parent-w-a-0") is not None


def test_a_job_makes_no_jobs() -> None:
    scene = Scene()
    scene.parent("batch/job", {"spec": {}})
    assert scene.ancestor("parent-0") is None


@pytest.mark.parametrize(
    ("kind", "name", "is_made"),
    [
        ("kubeflow.org/mpijob", "parent-launcher", True),
        ("kubeflow.org/mpijob", "parent-worker", False),
        ("kubeflow.org/pytorchjob", "parent-launcher", False),
        ("ray.io/rayjob", "parent", True),
        ("ray.io/rayjob", "parent-2", False),
    ],
)
def test_other_kinds_make_what_their_operators_make(kind: str, name: str, *, is_made: bool) -> None:
    scene = Scene()
    scene.parent(kind, {"spec": {}})
    assert (scene.ancestor(name) is not None) == is_made


def test_a_parent_that_has_ended_gives_its_quota_to_nothing() -> None:
    scene = Scene()
    scene.parent("jobset.x-k8s.io/jobset", {**JOB_SET, "status": DONE})
    assert scene.ancestor("parent-w-a-0") is None


def test_a_parent_of_another_namespace_is_none() -> None:
    scene = Scene()
    scene.parent("jobset.x-k8s.io/jobset", JOB_SET)
    assert scene.ancestor("parent-w-a-0", namespace="elsewhere") is None


def test_a_parent_that_is_not_managed_holds_nothing() -> None:
    scene = Scene(manages_all=False)
    scene.parent("jobset.x-k8s.io/jobset", JOB_SET)
    assert scene.ancestor("parent-w-a-0") is None


def test_a_parent_that_cannot_be_read_is_none() -> None:
    scene = Scene()
    scene.parent("jobset.x-k8s.io/jobset", JOB_SET)
    deep = b'{"spec": ' + b'{"a":' * 3000 + b"1" + b"}" * 3001
    found = JobObject("jobset.x-k8s.io/jobset", Meta("parent", NAMESPACE, "parent-uid", 99), deep)
    scene.queues.apply(ev.JobApplied(found))
    assert scene.ancestor("parent-w-a-0") is None
