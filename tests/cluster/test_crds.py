"""The manifests against a real API server: what it takes, what it refuses and what it shows."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.alone import alone
from tests.harness import objects
from tests.harness.client import Api, ApiError
from tests.harness.control_plane import ControlPlane
from tests.harness.gang_scheduler import NAMESPACE
from tests.harness.objects import Object, condition

MANIFESTS = Path(__file__).parents[2] / "manifests"
X, SIGS = "scheduling.x-k8s.io/v1alpha1", "scheduling.sigs.k8s.io/v1alpha1"
LABELS = {X: "scheduling.x-k8s.io/pod-group", SIGS: "pod-group.scheduling.sigs.k8s.io"}
QUEUE = "kueue.x-k8s.io/"
GATE = {"name": "scheduling.x-k8s.io/gang"}
BOTH_GROUPS = pytest.mark.parametrize("api_version", [X, SIGS])


# The reconciler of the others would write the status of PodGroups.
control_plane, api = alone(controllers=True)


@pytest.fixture(autouse=True)
def crds(api: Api) -> None:
    api.apply(MANIFESTS / "crds")


@pytest.fixture
def gate_policy(api: Api, namespace: str) -> Iterator[None]:
    """The optional policy, in force; it changes pods of all namespaces, so it goes at the end."""
    applied = api.apply(MANIFESTS / "optional" / "gang-gate-policy.yaml")

    def in_force() -> bool:
        probe = objects.pod("probe", group="probe", namespace=namespace)
        gates = gates_of(api, probe)
        api.delete("pods", "probe", namespace, grace_seconds=0)
        return gates == [GATE]

    api.wait_for("the policy is in force", in_force)
    yield
    for each in reversed(applied):
        plural = {
            "MutatingAdmissionPolicy": "mutatingadmissionpolicies",
            "MutatingAdmissionPolicyBinding": "mutatingadmissionpolicybindings",
        }[each["kind"]]
        api.delete(f"{each['apiVersion']}/{plural}", each["metadata"]["name"])


def gates_of(api: Api, pod: Object) -> list[dict[str, str]]:
    """Return the gates that the pod has once it is created."""
    gates: list[dict[str, str]] = api.create(pod)["spec"].get("schedulingGates", [])
    return gates


def group(spec: Any, namespace: str, *, api_version: str) -> Object:
    metadata = {"name": "group", "namespace": namespace}
    return {"apiVersion": api_version, "kind": "PodGroup", "metadata": metadata, "spec": spec}


WANT_REFUSED: dict[str, tuple[Any, str]] = {
    "minMember is zero": ({"minMember": 0}, "spec.minMember"),
    "minMember is beyond int32": ({"minMember": 2**31}, "spec.minMember"),
    "an amount has a unit that there is not": (
        {"minMember": 1, "minResources": {"memory": "1GiB"}},
        "spec.minResources.memory",
    ),
    "an amount is a bare fraction": (
        {"minMember": 1, "minResources": {"cpu": 1.5}},
        "spec.minResources.cpu",
    ),
}


@BOTH_GROUPS
@pytest.mark.parametrize(("spec", "want"), WANT_REFUSED.values(), ids=WANT_REFUSED)
def test_a_wrong_group_is_refused_with_the_name_of_the_field(
    api: Api, namespace: str, api_version: str, spec: Any, want: str
) -> None:
    with pytest.raises(ApiError) as refused:
        api.create(group(spec, namespace, api_version=api_version))

    assert refused.value.status == 422
    assert want in str(refused.value)


WANT_TAKEN: dict[str, Any] = {
    "no minMember": {},
    "a timeout of zero": {"minMember": 1, "scheduleTimeoutSeconds": 0},
    "a timeout below zero": {"minMember": 1, "scheduleTimeoutSeconds": -1},
    "an amount below zero": {"minMember": 1, "minResources": {"cpu": -1}},
    "an amount below zero in text": {"minMember": 1, "minResources": {"cpu": "-500m"}},
}
"""What the CRD of scheduler-plugins takes, whether or not it makes sense: clients write it."""


@BOTH_GROUPS
@pytest.mark.parametrize("spec", WANT_TAKEN.values(), ids=WANT_TAKEN)
def test_a_group_is_taken_that_the_other_project_takes(
    api: Api, namespace: str, api_version: str, spec: Any
) -> None:
    assert api.create(group(spec, namespace, api_version=api_version))["spec"] == spec


@BOTH_GROUPS
def test_a_group_without_a_spec_is_taken(api: Api, namespace: str, api_version: str) -> None:
    bare = group({}, namespace, api_version=api_version)
    del bare["spec"]

    assert "spec" not in api.create(bare)


@BOTH_GROUPS
def test_a_group_is_kept_as_it_was_written(api: Api, namespace: str, api_version: str) -> None:
    spec = {
        "minMember": 4,
        "minResources": {"cpu": 12, "memory": "2Gi", "example.com/gpu": "1.5k"},
        "scheduleTimeoutSeconds": 10,
    }

    assert api.create(group(spec, namespace, api_version=api_version))["spec"] == spec


@BOTH_GROUPS
def test_the_status_is_a_subresource(api: Api, namespace: str, api_version: str) -> None:
    plural = f"{api_version}/podgroups"
    created = api.create(
        {**group({"minMember": 4}, namespace, api_version=api_version), "status": {"running": 9}}
    )
    assert "status" not in created

    change = {"spec": {"minMember": 1}, "status": {"phase": "Scheduling", "running": 3}}
    api.patch(plural, "group", namespace, body=change, subresource="status")

    stored = api.get(plural, "group", namespace)
    assert stored["spec"] == {"minMember": 4}
    assert stored["status"] == {
        "phase": "Scheduling",
        "scheduled": 0,
        "running": 3,
        "succeeded": 0,
        "failed": 0,
    }


WITHOUT_REASON = {k: v for k, v in condition("Scheduled").items() if k != "reason"}
WANT_STATUS_REFUSED: dict[str, tuple[Any, str]] = {
    "a phase that there is not": ({"phase": "Done"}, "status.phase"),
    "a negative count": ({"running": -1}, "status.running"),
    "a condition without a reason": (
        {"conditions": [WITHOUT_REASON]},
        "reason: Required",
    ),
    "two conditions of one type": (
        {"conditions": [condition("Scheduled", status) for status in ("True", "False")]},
        "Duplicate value",
    ),
}


@pytest.mark.parametrize(("status", "want"), WANT_STATUS_REFUSED.values(), ids=WANT_STATUS_REFUSED)
def test_a_wrong_status_is_refused(api: Api, namespace: str, status: Any, want: str) -> None:
    api.create(group({"minMember": 4}, namespace, api_version=X))

    with pytest.raises(ApiError, match=want):
        api.patch(
            f"{X}/podgroups", "group", namespace, body={"status": status}, subresource="status"
        )


@BOTH_GROUPS
def test_kubectl_get_shows_how_far_the_group_is(api: Api, namespace: str, api_version: str) -> None:
    api.create(group({"minMember": 4}, namespace, api_version=api_version))
    status = {
        "phase": "Running",
        "scheduled": 5,
        "running": 4,
        "succeeded": 1,
        "failed": 0,
        "conditions": [condition("Scheduled", "True", "Scheduled", "5 of the 4 pods")],
    }
    plural = f"{api_version}/podgroups"
    api.patch(plural, "group", namespace, body={"status": status}, subresource="status")

    table = api._http.get(
        f"/apis/{api_version}/namespaces/{namespace}/podgroups",
        headers={"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"},
    ).json()

    names = [column["name"] for column in table["columnDefinitions"]]
    wide = [column["name"] for column in table["columnDefinitions"] if column["priority"]]
    [row] = table["rows"]
    shown = dict(zip(names, row["cells"], strict=True))
    assert wide == ["Message"]
    assert shown.pop("Age")
    assert shown == {
        "Name": "group",
        "Phase": "Running",
        "MinMember": 4,
        "Scheduled": 5,
        "Running": 4,
        "Succeeded": 1,
        "Failed": 0,
        "Reason": "Scheduled",
        "Message": "5 of the 4 pods",
    }


WANT_PODS = {
    "readiness-gate.yaml": 3,
    "scheduling.sigs.k8s.io.yaml": 6,
    "scheduling.x-k8s.io.yaml": 6,
}


def test_every_sample_is_looked_at() -> None:
    """Those of the queue are looked at with the queue's kinds."""
    samples = (MANIFESTS / "samples").glob("*.yaml")

    assert {path.name for path in samples if QUEUE not in path.read_text()} == set(WANT_PODS)


@pytest.mark.parametrize("name", WANT_PODS)
def test_a_sample_gives_a_group_and_its_pods(api: Api, namespace: str, name: str) -> None:
    pod_group, *others = yaml.safe_load_all((MANIFESTS / "samples" / name).read_text())
    for each in (pod_group, *others):
        api.create({**each, "metadata": {**each["metadata"], "namespace": namespace}})

    members = f"{LABELS[pod_group['apiVersion']]}={pod_group['metadata']['name']}"
    api.wait_for(
        "the pods of the sample are there",
        lambda: len(api.list("pods", namespace, labels=members)) == WANT_PODS[name],
    )


WANT_GATES: dict[str, tuple[Object, list[dict[str, str]]]] = {
    "a member by the newer label": (objects.pod("p", group="g", label=LABELS[X]), [GATE]),
    "a member by the older label": (objects.pod("p", group="g", label=LABELS[SIGS]), [GATE]),
    "a member with a gate of its own": (
        objects.pod("p", group="g", gates=["example.com/quota"]),
        [{"name": "example.com/quota"}, GATE],
    ),
    "a member that has the gate": (objects.pod("p", group="g", gates=[GATE["name"]]), [GATE]),
    "a member with its node": (objects.pod("p", group="g", node_name="some-node"), []),
    "a pod with other labels": (objects.pod("p", labels={"app": "web"}), []),
    "a pod without labels": (objects.pod("p"), []),
}


@pytest.mark.usefixtures("gate_policy")
def test_the_policy_gates_new_members_and_no_other_pods(api: Api, namespace: str) -> None:
    for number, (sentence, (pod, want)) in enumerate(WANT_GATES.items()):
        named = {**pod["metadata"], "name": f"p-{number}", "namespace": namespace}

        assert gates_of(api, {**pod, "metadata": named}) == want, sentence


MAY = {
    ("", "pods", ""): {"get", "list", "watch", "patch"},
    ("", "pods", "binding"): {"create"},
    ("", "pods", "eviction"): set(),
    ("", "nodes", ""): {"list", "watch"},
    ("", "pods", "status"): {"patch"},
    ("", "events", ""): set(),
    ("events.k8s.io", "events", ""): {"create"},
    ("scheduling.x-k8s.io", "podgroups", ""): {"list", "watch"},
    ("scheduling.x-k8s.io", "podgroups", "status"): {"patch"},
    ("batch", "jobs", ""): {"list", "watch"},
    ("scheduling.sigs.k8s.io", "podgroups", ""): {"list", "watch"},
    ("", "secrets", ""): set(),
}
FOLLOWS = {"list", "watch"}
STARTS = FOLLOWS | {"get", "patch"}
RECONCILER_MAY = {
    ("", "pods", ""): STARTS | {"delete"},
    ("", "pods", "binding"): set(),
    ("", "pods", "eviction"): {"create"},
    ("", "pods", "status"): {"patch"},
    ("", "nodes", ""): FOLLOWS,
    ("", "namespaces", ""): FOLLOWS,
    ("scheduling.k8s.io", "priorityclasses", ""): FOLLOWS,
    ("", "limitranges", ""): FOLLOWS,
    ("node.k8s.io", "runtimeclasses", ""): FOLLOWS,
    ("batch", "jobs", ""): STARTS,
    ("batch", "jobs", "status"): {"patch"},
    ("batch", "jobs", "finalizers"): {"update"},
    ("batch", "cronjobs", ""): set(),
    ("batch", "cronjobs", "finalizers"): set(),
    ("jobset.x-k8s.io", "jobsets", ""): STARTS,
    ("kubeflow.org", "pytorchjobs", ""): STARTS,
    ("kubeflow.org", "pytorchjobs", "status"): set(),
    ("kubeflow.org", "pytorchjobs", "finalizers"): {"update"},
    ("ray.io", "rayjobs", ""): STARTS,
    ("kueue.x-k8s.io", "workloads", ""): STARTS | {"create", "delete"},
    ("kueue.x-k8s.io", "workloads", "status"): {"patch"},
    ("kueue.x-k8s.io", "clusterqueues", ""): FOLLOWS | {"patch"},
    ("kueue.x-k8s.io", "clusterqueues", "status"): {"patch"},
    ("kueue.x-k8s.io", "localqueues", ""): FOLLOWS,
    ("kueue.x-k8s.io", "localqueues", "status"): {"patch"},
    ("kueue.x-k8s.io", "resourceflavors", ""): FOLLOWS | {"patch"},
    ("kueue.x-k8s.io", "cohorts", ""): FOLLOWS,
    ("kueue.x-k8s.io", "topologies", ""): FOLLOWS,
    ("kueue.x-k8s.io", "admissionchecks", ""): FOLLOWS | {"patch"},
    ("kueue.x-k8s.io", "admissionchecks", "status"): {"patch"},
    ("kueue.x-k8s.io", "provisioningrequestconfigs", ""): FOLLOWS,
    ("kueue.x-k8s.io", "workloadpriorityclasses", ""): FOLLOWS,
    ("scheduling.x-k8s.io", "podgroups", ""): FOLLOWS | {"create", "patch"},
    ("scheduling.x-k8s.io", "podgroups", "status"): {"patch"},
    ("scheduling.sigs.k8s.io", "podgroups", "status"): {"patch"},
    ("events.k8s.io", "events", ""): {"create"},
    ("coordination.k8s.io", "leases", ""): set(),
    ("", "secrets", ""): set(),
}
VERBS = ("get", "list", "watch", "create", "update", "patch", "delete")


@pytest.mark.parametrize("identity", ["service account", "client certificate"])
def test_the_extender_may_do_what_it_needs_and_no_more(
    control_plane: ControlPlane, api: Api, identity: str
) -> None:
    api.apply(MANIFESTS / "namespace.yaml")
    api.apply(MANIFESTS / "rbac")
    kubeconfig = (
        control_plane.service_account_kubeconfig("gang-extender-system", "gang-extender")
        if identity == "service account"
        else control_plane.kubeconfig("gang-extender")
    )

    with Api(kubeconfig) as extender:
        extender.wait_for(
            "the rights are in force", lambda: allowed(extender, "watch", ("", "pods", ""))
        )
        found = {what: {verb for verb in VERBS if allowed(extender, verb, what)} for what in MAY}

    assert found == MAY


def test_the_reconciler_may_do_what_it_needs_and_no_more(
    control_plane: ControlPlane, api: Api
) -> None:
    api.apply(MANIFESTS / "namespace.yaml")
    api.apply(MANIFESTS / "rbac")
    kubeconfig = control_plane.service_account_kubeconfig("gang-extender-system", "gang-reconciler")

    with Api(kubeconfig) as reconciler:
        reconciler.wait_for(
            "the rights are in force", lambda: allowed(reconciler, "watch", ("", "pods", ""))
        )
        found = {
            what: {verb for verb in VERBS if allowed(reconciler, verb, what)}
            for what in RECONCILER_MAY
        }

    assert found == RECONCILER_MAY


def test_the_deployment_and_its_pods_are_such_that_the_namespace_takes_them(api: Api) -> None:
    """The namespace enforces the restricted profile, on pods."""
    api.apply(MANIFESTS / "namespace.yaml")
    deployment = yaml.safe_load((MANIFESTS / "reconciler" / "deployment.yaml").read_text())
    pod = {"apiVersion": "v1", "kind": "Pod", **deployment["spec"]["template"]}
    pod["metadata"] = {**pod["metadata"], "name": "reconciler"}
    pod["metadata"]["namespace"] = NAMESPACE

    for body in (deployment, pod):
        api.tried(body)
    with pytest.raises(ApiError, match="violates PodSecurity"):
        api.create(objects.pod("loose", namespace=NAMESPACE))


def allowed(api: Api, verb: str, what: tuple[str, str, str]) -> bool:
    """Ask the API server whether its caller may do that."""
    api_group, resource, subresource = what
    attributes = {"verb": verb, "group": api_group, "resource": resource}
    review = api.create(
        {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "metadata": {},
            "spec": {"resourceAttributes": {**attributes, "subresource": subresource}},
        }
    )
    return bool(review["status"]["allowed"])


def test_the_static_pod_is_one_that_the_api_server_takes(api: Api) -> None:
    pod = yaml.safe_load((MANIFESTS / "static-pod" / "gang-extender.yaml").read_text())

    taken = api.request(
        "POST", "/api/v1/namespaces/kube-system/pods", body=pod, params={"dryRun": "All"}
    )

    assert taken.json()["spec"]["hostNetwork"] is True
