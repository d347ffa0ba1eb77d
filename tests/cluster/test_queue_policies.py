"""The policies for jobs of a queue, evaluated by a real API server.

On a control plane of their own: they change and refuse jobs of all namespaces.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import yaml

from tests.cluster.alone import alone, namespace_of
from tests.harness import objects
from tests.harness.client import Api, ApiError
from tests.harness.control_plane import ControlPlane
from tests.harness.kinds import CRDS, FOREIGN
from tests.harness.objects import Object
from tests.job_rules import CREATED, MAX_SECONDS, QUEUE, RUNNING, SUSPENDED, Said

MANIFESTS = Path(__file__).parents[2] / "manifests"
GATE = {"name": "kueue.x-k8s.io/admission"}
SECONDS = 120

control_plane, _ = alone()  # a Job stays as it was made


@pytest.fixture(scope="module")
def api(control_plane: ControlPlane) -> Iterator[Api]:
    with Api(control_plane.admin_kubeconfig) as api:
        api.apply(MANIFESTS / "crds")
        api.apply(CRDS)
        api.apply(MANIFESTS / "optional" / "queue-policies.yaml")
        api.apply(MANIFESTS / "optional" / "job-rules.yaml")
        namespace = fresh(api, default_queue=True)
        bad = Said(queue="Bad").job(namespace=namespace)
        unnamed = Said(queue=None, spec={"suspend": False})
        gated = objects.pod("probe", labels={QUEUE: "q"}, namespace=namespace)

        def in_force() -> bool:
            stored = created(api, unnamed.job(f"job-{uuid4().hex[:8]}", namespace))
            pod = api.request(
                "POST", f"/api/v1/namespaces/{namespace}/pods", body=gated, params=DRY_RUN
            ).json()
            return (
                stored["spec"]["suspend"] is True
                and all(
                    suspended(tried(api, of_kind(kind, namespace, {"x": 1}))) for kind in FOREIGN
                )
                and "schedulingGates" in pod["spec"]
                and "no name of a LocalQueue" in refusal(api, bad)
                and "cannot be removed" in change_refused(api, stored, labels={QUEUE: None})
            )

        api.wait_for("the policies are in force", in_force, SECONDS)
        yield api


DRY_RUN = {"dryRun": "All"}


def fresh(api: Api, *, default_queue: bool = False) -> str:
    name = namespace_of(api)
    if default_queue:
        api.create(
            {
                "apiVersion": "kueue.x-k8s.io/v1beta2",
                "kind": "LocalQueue",
                "metadata": {"name": "default", "namespace": name},
                "spec": {"clusterQueue": "cluster-queue"},
            }
        )
    return name


@pytest.fixture(scope="module")
def namespace(api: Api) -> str:
    """A namespace without a default queue."""
    return fresh(api)


@pytest.fixture(scope="module")
def with_default(api: Api) -> str:
    """A namespace with a default queue, which the policies know of."""
    name = fresh(api, default_queue=True)

    def known() -> bool:
        job = created(api, Said(queue=None).job(f"job-{uuid4().hex[:8]}", name))
        labels = job["metadata"]["labels"]
        # What is changed and what is refused are decided by what two watches have seen.
        return QUEUE in labels and "cannot be removed" in change_refused(
            api, job, labels={QUEUE: None}
        )

    api.wait_for("the default queue is seen", known, SECONDS)
    return name


def created(api: Api, body: Object) -> Object:
    return api.create({**body, "metadata": {"labels": {}, **body["metadata"]}})


def tried(api: Api, body: Object) -> Object:
    """Return what an object of another kind would be stored as; a kind that is new is not there."""
    plural = FOREIGN[body["kind"]][2]
    path = f"/apis/{body['apiVersion']}/namespaces/{body['metadata']['namespace']}/{plural}"
    result: Object = api.request("POST", path, body=body, params=DRY_RUN).json()
    return result


def refusal(api: Api, body: Object) -> str:
    """Return why an object is not created; empty when it would be."""
    path = f"/apis/{body['apiVersion']}/namespaces/{body['metadata']['namespace']}/jobs"
    try:
        api.request("POST", path, body=body, params=DRY_RUN)
    except ApiError as error:
        return str(error)
    return ""


def change_refused(api: Api, job: Object, *, labels: dict[str, Any]) -> str:
    meta = job["metadata"]
    try:
        api.patch(
            "batch/v1/jobs", meta["name"], meta["namespace"], body={"metadata": {"labels": labels}}
        )
    except ApiError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(("said", "want"), CREATED.values(), ids=CREATED)
def test_a_new_job_is_taken_or_refused_with_the_field(
    api: Api, namespace: str, said: Said, want: str
) -> None:
    reported = refusal(api, said.job(namespace=namespace))

    assert bool(reported) == bool(want), reported
    assert want in reported
    assert reported == "" or "gang-queue-rules" in reported


@pytest.mark.parametrize("running", [False, True], ids=["suspended", "running"])
def test_a_change_is_taken_or_refused_with_the_field(
    api: Api, namespace: str, *, running: bool
) -> None:
    for number, (sentence, case) in enumerate((RUNNING if running else SUSPENDED).items()):
        said, change, want = case
        name = f"{'running' if running else 'suspended'}-{number}"
        api.create(said.job(name, namespace))
        if running:
            start = {"spec": {"suspend": False}}
            api.patch("batch/v1/jobs", name, namespace, body=start)

        try:
            api.patch("batch/v1/jobs", name, namespace, body=change)
            reported = ""
        except ApiError as error:
            reported = str(error)

        assert bool(reported) == bool(want), f"{sentence}: {reported}"
        assert want in reported, sentence


def test_what_was_bad_before_can_still_be_ended(api: Api, namespace: str) -> None:
    """A bad label from before the policies must not keep a finalizer on the job."""
    binding = "admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
    said = Said({MAX_SECONDS: "0"})
    bad, probe = said.job("bad", namespace), said.job("probe", namespace)
    api.delete(binding, "gang-queue-rules")
    try:
        api.wait_for("the rules are off", lambda: refusal(api, bad) == "", SECONDS)
        bad["metadata"]["finalizers"] = ["example.com/held"]
        api.create(bad)
    finally:
        api.apply(MANIFESTS / "optional" / "job-rules.yaml")
    api.wait_for("the rules are on", lambda: refusal(api, probe) != "", SECONDS)

    api.patch("batch/v1/jobs", "bad", namespace, body={"metadata": {"finalizers": None}})

    stored = api.get("batch/v1/jobs", "bad", namespace)
    assert "finalizers" not in stored["metadata"]


def test_a_job_of_a_queue_starts_suspended(api: Api, namespace: str) -> None:
    running: dict[str, Any] = {"spec": {"suspend": False}}
    owner = {"apiVersion": "example.com/v1", "kind": "Thing", "name": "owner", "uid": "1"}
    job_set = {**owner, "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet"}
    cron = {**owner, "apiVersion": "batch/v1", "kind": "CronJob", "controller": True}
    katib = {**owner, "apiVersion": "kubeflow.org/v1beta1", "kind": "Trial", "controller": True}
    want: dict[str, tuple[Said, list[Object], bool]] = {
        "without suspend": (Said(spec={"suspend": None}), [], True),
        "not to be suspended": (Said(**running), [], True),
        "suspended": (Said(), [], True),
        "of no queue": (Said(queue=None, **running), [], False),
        "of an empty queue": (Said(queue="", **running), [], False),
        "of a CronJob": (Said(**running), [cron], True),
        "of a parent with another kind": (Said(**running), [katib], True),
        "of a JobSet": (Said(**running), [{**job_set, "controller": True}], False),
        "of a JobSet that does not control it": (Said(**running), [job_set], True),
    }
    for number, (sentence, (said, owners, suspended)) in enumerate(want.items()):
        body = said.job(f"start-{number}", namespace)
        body["metadata"]["ownerReferences"] = owners

        assert created(api, body)["spec"]["suspend"] is suspended, sentence


def test_a_job_of_the_system_is_left_alone(api: Api) -> None:
    job = api.create(Said(queue="Bad", spec={"suspend": False}).job("system", "kube-system"))

    assert job["spec"]["suspend"] is False


def of_kind(kind: str, namespace: str, spec: Object, *, queue: str | None = "q") -> Object:
    group, version, _ = FOREIGN[kind]
    labels = {} if queue is None else {"labels": {QUEUE: queue}}
    return {
        "apiVersion": f"{group}/{version}",
        "kind": kind,
        "metadata": {"generateName": f"{kind.lower()}-", "namespace": namespace, **labels},
        "spec": spec,
    }


def suspended(body: Object) -> Any:
    spec = body["spec"]
    return spec["runPolicy"].get("suspend") if "runPolicy" in spec else spec.get("suspend")


@pytest.mark.parametrize("kind", FOREIGN)
def test_every_kind_starts_suspended_and_keeps_its_queue_while_it_runs(
    api: Api, namespace: str, kind: str
) -> None:
    group, version, plural = FOREIGN[kind]
    specs: list[Object] = [{"x": 1}]
    if group == "kubeflow.org":
        specs += [{"runPolicy": {}}, {"runPolicy": {"suspend": False, "backoffLimit": 3}}]
    made = [api.create(of_kind(kind, namespace, spec)) for spec in specs]
    assert [suspended(each) for each in made] == [True] * len(specs)
    stored = made[-1]
    if group == "kubeflow.org":
        assert stored["spec"]["runPolicy"]["backoffLimit"] == 3
    unqueued = api.create(of_kind(kind, namespace, {"suspend": False}, queue=None))
    assert unqueued["spec"] == {"suspend": False}

    resource, name = f"{group}/{version}/{plural}", stored["metadata"]["name"]
    other = {"metadata": {"labels": {QUEUE: "other"}}}
    api.patch(resource, name, namespace, body=other)
    off = {"suspend": False}
    start = {"spec": {"runPolicy": off} if group == "kubeflow.org" else off}
    api.patch(resource, name, namespace, body=start)
    field = "spec.runPolicy.suspend" if group == "kubeflow.org" else "spec.suspend"
    with pytest.raises(ApiError, match=f"{QUEUE}.*{field}: true"):
        api.patch(resource, name, namespace, body={"metadata": {"labels": {QUEUE: "q"}}})


@pytest.mark.parametrize("kind", ["Job", *FOREIGN])
def test_a_job_without_a_queue_gets_the_default_one(
    api: Api, with_default: str, namespace: str, kind: str
) -> None:
    for where, want in ((with_default, "default"), (namespace, None)):
        body = (
            Said(queue=None, spec={"suspend": False}).job("unnamed", where)
            if kind == "Job"
            else of_kind(kind, where, {"x": 1}, queue=None)
        )
        body["metadata"].pop("labels", None)

        stored = api.create(body)

        assert stored["metadata"].get("labels", {}).get(QUEUE) == want
        assert bool(suspended(stored)) is bool(want)


def test_the_default_queue_holds_by_itself(api: Api, with_default: str) -> None:
    """Policies are evaluated in any order, and the other one may have passed the job already."""
    runs = {"suspend": False}
    bindings = "admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings"

    def held(queue: str | None) -> bool:
        body = Said(queue=queue, spec=runs).job(f"job-{uuid4().hex[:8]}", with_default)
        return api.create(body)["spec"]["suspend"] is True

    api.delete(bindings, "gang-queue-suspend")
    try:
        api.wait_for("the other policy is off", lambda: not held("q"), SECONDS)
        assert held(None)
    finally:
        api.apply(MANIFESTS / "optional" / "queue-policies.yaml")
    api.wait_for("the other policy is on", lambda: held("q"), SECONDS)


def test_the_default_queue_leaves_other_jobs_alone(api: Api, with_default: str) -> None:
    named = api.create(Said(queue="mine").job("named", with_default))
    body = Said(queue=None, spec={"suspend": False}).job("child", with_default)
    meta = {"name": "j", "uid": "1"}
    by = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": meta}
    body["metadata"]["ownerReferences"] = [objects.owner(by)]
    child = api.create(body)

    assert named["metadata"]["labels"][QUEUE] == "mine"
    assert QUEUE not in child["metadata"].get("labels", {})
    assert child["spec"]["suspend"] is False


def test_no_job_leaves_the_queues_where_there_is_a_default_one(
    api: Api, with_default: str, namespace: str
) -> None:
    for where, want in ((with_default, "cannot be removed"), (namespace, "")):
        job = api.create(Said().job("leaves", where))

        reported = change_refused(api, job, labels={QUEUE: None})
        assert bool(reported) == bool(want)
        assert want in reported
    job = api.get("batch/v1/jobs", "leaves", with_default)
    assert change_refused(api, job, labels={QUEUE: "other"}) == ""


def test_plain_pods_of_a_queue_wait_behind_the_gate(api: Api, namespace: str) -> None:
    job = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "1", "controller": True}
    replicas = {**job, "apiVersion": "apps/v1", "kind": "ReplicaSet"}
    other = {**job, "apiVersion": "kubeflow.org/v1", "kind": "MXJob"}
    queued: dict[str, Any] = {"labels": {QUEUE: "q"}}
    want: dict[str, tuple[Object, list[Object], list[Object]]] = {
        "alone": (objects.pod("p", **queued), [], [GATE]),
        "in a group": (objects.pod("p", group="g", **queued), [], [GATE]),
        "with a gate of its own": (
            objects.pod("p", gates=["example.com/own"], **queued),
            [],
            [{"name": "example.com/own"}, GATE],
        ),
        "with the gate": (objects.pod("p", gates=[GATE["name"]], **queued), [], [GATE]),
        "of a ReplicaSet": (objects.pod("p", **queued), [replicas], [GATE]),
        "of a Job that is not queued": (objects.pod("p", **queued), [job], [GATE]),
        "of a Job that is queued": (
            objects.pod("p", annotations={"kueue.x-k8s.io/workload": "w"}, **queued),
            [job],
            [],
        ),
        "of a job of a kind that is not queued": (objects.pod("p", **queued), [other], [GATE]),
        "with its node": (objects.pod("p", node_name="node", **queued), [], []),
        "of no queue": (objects.pod("p"), [], []),
    }
    for number, (sentence, (pod, owners, gates)) in enumerate(want.items()):
        pod["metadata"] |= {"name": f"pod-{number}", "namespace": namespace}
        pod["metadata"]["ownerReferences"] = owners

        assert api.create(pod)["spec"].get("schedulingGates", []) == gates, sentence


def test_every_policy_is_bound() -> None:
    names = ("queue-policies.yaml", "job-rules.yaml")
    texts = [(MANIFESTS / "optional" / name).read_text() for name in names]
    documents = [each for text in texts for each in yaml.safe_load_all(text)]
    policies = {each["metadata"]["name"] for each in documents if "mutations" in each["spec"]}
    policies |= {each["metadata"]["name"] for each in documents if "validations" in each["spec"]}

    assert policies == {each["spec"].get("policyName") for each in documents} - {None}


def test_a_ray_job_that_uses_a_cluster_which_exists_is_not_held(api: Api) -> None:
    """KubeRay would refuse it: it suspends none of these."""
    ray = of_kind("RayJob", fresh(api, default_queue=True), {"clusterSelector": {"a": "b"}})
    assert "suspend" not in created(api, ray)["spec"]
