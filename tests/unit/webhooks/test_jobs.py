"""The webhook for jobs: it holds them from their creation."""

import base64
import json
from copy import deepcopy

import pytest

from extender.jobs.registry import Integration, builtin
from extender.webhooks.jobs import (
    MalformedReviewError,
    answer,
    by_kind,
    mutate,
    read,
)
from tests.harness import objects
from tests.harness.objects import Object
from tests.job_rules import QUEUE, Said
from tests.unit.jobs.scene import merged

SUSPEND = {"op": "add", "path": "/spec/suspend", "value": True}
GATE = {"name": "kueue.x-k8s.io/admission"}
ESCAPED = "/metadata/labels/kueue.x-k8s.io~1queue-name"


class Known:
    """LocalQueues by `namespace/name`, and namespaces in which all jobs are held."""

    def __init__(self, *queues: str, all_in: str = "") -> None:
        self._queues, self._all_in = queues, all_in

    def has_local_queue(self, namespace: str, name: str) -> bool:
        return f"{namespace}/{name}" in self._queues

    def holds_all(self, namespace: str) -> bool:
        return namespace == self._all_in


class Other:
    """A foreign kind."""

    def __init__(self, source: Object) -> None:
        self.object = source

    def is_suspended(self) -> bool:
        return bool(self.object["spec"].get("paused"))

    def suspend(self) -> None:
        self.object["spec"]["paused"] = True


OTHER = Integration("example.com/other", "Other", "example.com", "v1", "others", Other)  # type: ignore[arg-type]
KINDS = by_kind([*builtin().values(), OTHER])
NO_QUEUES = Known()


def review(
    new: Object, old: Object | None = None, *, kind: str = "Job", group: str = "batch"
) -> Object:
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "42",
            "operation": "CREATE" if old is None else "UPDATE",
            "kind": {"group": group, "version": "v1", "kind": kind},
            "namespace": "default",
            "object": new,
            "oldObject": old,
        },
    }


def stored(said: Said) -> Object:
    """Return a job as the API server keeps it: without what is null."""
    job: Object = merged({}, said.job())
    return job


def owned(by: str, kind: str, *, controller: bool = True) -> Object:
    owner = {"apiVersion": by, "kind": kind, "name": "o", "uid": "1", "controller": controller}
    job = stored(Said(spec={"suspend": False}))
    job["metadata"]["ownerReferences"] = [owner]
    return job


QUEUED = stored(Said(spec={"suspend": False}))
LOOSE = stored(Said(queue=None, spec={"suspend": False}))
BY_DEFAULT = Known("default/default")
TO_DEFAULT = {"op": "add", "path": ESCAPED, "value": "default"}
WANT_MUTATED: dict[str, tuple[Object, Known, list[Object]]] = {
    "of a queue": (QUEUED, NO_QUEUES, [SUSPEND]),
    "of a queue, without suspend": (stored(Said(spec={"suspend": None})), NO_QUEUES, [SUSPEND]),
    "suspended": (stored(Said()), NO_QUEUES, []),
    "of no queue": (LOOSE, NO_QUEUES, []),
    "of no queue, where there is a default one": (LOOSE, BY_DEFAULT, [TO_DEFAULT, SUSPEND]),
    "of an empty queue, where there is a default one": (
        *(stored(Said(queue="")), BY_DEFAULT, [TO_DEFAULT]),
    ),
    "of a queue, where there is a default one": (stored(Said()), BY_DEFAULT, []),
    "of no queue, where all are held": (LOOSE, Known(all_in="default"), [SUSPEND]),
    "of no queue, where all are held elsewhere": (LOOSE, Known(all_in="other"), []),
    "of a CronJob": (owned("batch/v1", "CronJob"), NO_QUEUES, [SUSPEND]),
    "of another kind of job": (owned("example.com/v2", "Other"), NO_QUEUES, []),
    "owned by another kind of job": (
        owned("example.com/v1", "Other", controller=False),
        NO_QUEUES,
        [SUSPEND],
    ),
    "of a kind of another group": (owned("example.org/v1", "Other"), NO_QUEUES, [SUSPEND]),
}


@pytest.mark.parametrize(("job", "known", "want"), WANT_MUTATED.values(), ids=WANT_MUTATED)
def test_a_new_job_is_held(job: Object, known: Known, want: list[Object]) -> None:
    before = deepcopy(job)

    assert mutate(read(review(job)), KINDS, known) == want
    assert job == before


def test_a_job_without_labels_gets_them_with_the_default_queue() -> None:
    job = stored(Said(queue=None))
    del job["metadata"]["labels"]

    [operation] = mutate(read(review(job)), KINDS, Known("default/default"))

    assert operation == {"op": "add", "path": "/metadata/labels", "value": {QUEUE: "default"}}


def test_a_kind_that_was_added_is_held_in_its_own_way() -> None:
    named = {"apiVersion": "example.com/v1", "kind": "Other"}
    body: Object = {**named, "metadata": {"labels": {QUEUE: "q"}}, "spec": {}}
    request = read(review(body, kind="Other", group="example.com"))

    want = {"op": "add", "path": "/spec/paused", "value": True}
    assert mutate(request, KINDS, NO_QUEUES) == [want]


def test_a_change_is_not_held_and_nor_is_a_kind_that_is_not_queued() -> None:
    for asked in (review(QUEUED, QUEUED), review(QUEUED, kind="CronJob")):
        assert mutate(read(asked), KINDS, NO_QUEUES) == []


def controlled(by: str, kind: str, workload: str = "") -> Object:
    pod = objects.pod("p", labels={QUEUE: "q"})
    if workload:
        pod["metadata"]["annotations"] = {"kueue.x-k8s.io/workload": workload}
    pod["metadata"]["ownerReferences"] = [{"apiVersion": by, "kind": kind, "controller": True}]
    return pod


WANT_GATES: dict[str, tuple[Object, list[Object] | None]] = {
    "of a queue": (objects.pod("p", labels={QUEUE: "q"}), [GATE]),
    "of no queue": (objects.pod("p"), None),
    "with a gate": (
        objects.pod("p", labels={QUEUE: "q"}, gates=["example.com/own"]),
        [{"name": "example.com/own"}, GATE],
    ),
    "with the gate": (objects.pod("p", labels={QUEUE: "q"}, gates=[GATE["name"]]), None),
    "with its node": (objects.pod("p", labels={QUEUE: "q"}, node_name="n"), None),
    "of a Job that is queued": (controlled("batch/v1", "Job", "w"), None),
    "of a Job that is not queued": (controlled("batch/v1", "Job"), [GATE]),
    "of a kind that others have added": (controlled("example.com/v1", "Other", "w"), None),
    "of a job of a kind that is not queued": (controlled("kubeflow.org/v1", "MXJob"), [GATE]),
    "of a ReplicaSet": (controlled("apps/v1", "ReplicaSet"), [GATE]),
}


@pytest.mark.parametrize(("pod", "want"), WANT_GATES.values(), ids=WANT_GATES)
def test_a_plain_pod_of_a_queue_is_gated(pod: Object, want: list[Object] | None) -> None:
    request = read(review(pod, kind="Pod", group=""))

    patch = mutate(request, KINDS, NO_QUEUES)

    operation = {"op": "add", "path": "/spec/schedulingGates", "value": want}
    assert patch == ([] if want is None else [operation])


def test_without_the_integration_of_pods_none_is_gated() -> None:
    only_jobs = by_kind([builtin()["batch/job"]])
    pod = objects.pod("p", labels={QUEUE: "q"})

    assert mutate(read(review(pod, kind="Pod", group="")), only_jobs, NO_QUEUES) == []


@pytest.mark.parametrize("kind", ["MPIJob", "TFJob"])
def test_a_training_job_is_suspended_where_it_can_be(kind: str) -> None:
    body = {"metadata": {"labels": {QUEUE: "q"}}, "spec": {"runPolicy": {"suspend": False}}}
    named = {"apiVersion": "kubeflow.org/v1", "kind": kind, **body}
    request = read(review(named, kind=kind, group="kubeflow.org"))

    want = {"op": "add", "path": "/spec/runPolicy/suspend", "value": True}
    assert mutate(request, KINDS, NO_QUEUES) == [want]


def test_a_patch_is_answered_in_base64() -> None:
    request = read(review(QUEUED))

    response = answer(request, mutate(request, KINDS, NO_QUEUES))["response"]

    assert isinstance(response, dict)
    assert response["patchType"] == "JSONPatch"
    assert json.loads(base64.b64decode(response["patch"])) == [SUSPEND]


def test_without_a_patch_there_is_no_type_of_one() -> None:
    request = read(review(stored(Said())))

    want = {"uid": "42", "allowed": True}
    assert answer(request, mutate(request, KINDS, NO_QUEUES))["response"] == want


MALFORMED: dict[str, Object] = {
    "nothing": {},
    "another version": {**review({}), "apiVersion": "admission.k8s.io/v1beta1"},
    "another kind": {**review({}), "kind": "ConversionReview"},
    "no request": {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"},
    "a request that is none": {**review({}), "request": []},
}


@pytest.mark.parametrize("body", MALFORMED.values(), ids=MALFORMED)
def test_what_is_no_review_is_said_to_be_none(body: Object) -> None:
    with pytest.raises(MalformedReviewError):
        read(body)


def test_the_templates_of_a_service_in_a_queue_say_what_its_pods_need() -> None:
    made = objects.deployment("web")
    path = "/spec/template/metadata"
    assert mutate(read(review(made, kind="Deployment", group="apps")), KINDS, NO_QUEUES) == []

    made["metadata"]["labels"] = {QUEUE: "q"}
    for before in (None, made):
        asked = read(review(made, before, kind="Deployment", group="apps"))
        assert mutate(asked, KINDS, NO_QUEUES) == [
            {"op": "add", "path": f"{path}/labels/kueue.x-k8s.io~1queue-name", "value": "q"},
            {"op": "add", "path": f"{path}/labels/kueue.x-k8s.io~1managed", "value": "true"},
            {
                "op": "add",
                "path": f"{path}/annotations",
                "value": {"kueue.x-k8s.io/pod-suspending-parent": "deployment"},
            },
        ]


def test_a_pod_of_a_service_names_its_workload() -> None:
    made = objects.pod("web-0", labels={QUEUE: "q"})
    parent = "kueue.x-k8s.io/pod-suspending-parent"
    made["metadata"]["annotations"] = {parent: "statefulset"}
    by = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "1"}
    made["metadata"]["ownerReferences"] = [{**by, "controller": True}]

    patch = mutate(read(review(made, kind="Pod", group="")), KINDS, NO_QUEUES)

    label = "/metadata/labels/kueue.x-k8s.io~1pod-group-name"
    assert {"op": "add", "path": label, "value": "sts-web"} in patch
    assert {"op": "add", "path": "/spec/schedulingGates", "value": [GATE]} in patch
