"""What the two identities may change: their roles know no fields, the policies do."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest

from extender.jobs.job import GenericJob
from extender.jobs.registry import builtin
from extender.jobs.templates import Placement, same
from extender.kube.claims import ClaimWriter
from extender.kube.client import KubeClient
from extender.kube.credentials import keyring
from extender.kube.errors import InvalidError
from extender.kube.queues import JobWriter
from extender.state.cluster.records import (
    ClaimInfo,
)
from tests.cluster.alone import alone, unswept
from tests.cluster.served import CRDS
from tests.harness import kinds, objects
from tests.harness.client import Api, ApiError
from tests.harness.control_plane import ControlPlane
from tests.harness.gang_scheduler import NAMESPACE, ROOT, install
from tests.harness.kinds import POD_SETS, QUEUE, fresh, jobset, rayjob, trainjob
from tests.harness.objects import Object, condition

EXTENDER, RECONCILER = "gang-extender", "gang-reconciler"
GANG, ADMISSION = "scheduling.x-k8s.io/gang", "kueue.x-k8s.io/admission"
POD_GROUPS = "scheduling.x-k8s.io/v1alpha1/podgroups"
QUEUES = "kueue.x-k8s.io/v1beta2/clusterqueues"
CLAIMS = "resource.k8s.io/v1/resourceclaims"
READY = "scheduling.x-k8s.io/gang-ready"
SECONDS = 120

control_plane, api = alone()


@pytest.fixture(scope="module", autouse=True)
def installed(control_plane: ControlPlane, api: Api) -> None:
    """What an administrator applies, and jobs of all kinds."""
    install(control_plane)
    api.apply(kinds.CRDS)


def as_account(control_plane: ControlPlane, api: Api, name: str) -> Iterator[Api]:
    """Yield the API server as an account sees it, once its role and the policies are in force."""
    with Api(control_plane.service_account_kubeconfig(NAMESPACE, name)) as account:
        name = f"probe-{uuid4().hex[:8]}"
        api.create(objects.pod(name))
        api.create(objects.pod_group(name, 2))
        fields = {"pods": ["message"], POD_GROUPS: ["occupiedBy", "keptNodes"]}

        def is_refused(resource: str, field: str) -> bool:
            value = ["n"] if field == "keptNodes" else "x"
            change = put("/status", {field: value})
            return bool(refused(account, resource, name, "default", change, subresource="status"))

        def held() -> bool:
            return all(any(is_refused(each, x) for x in fields[each]) for each in fields)

        api.wait_for("the policies are in force", held, SECONDS)
        yield account


Writing = Callable[[KubeClient], Awaitable[None]]
Write = Callable[[Writing], None]


@pytest.fixture(scope="module")
def extender(control_plane: ControlPlane, api: Api, installed: None) -> Iterator[Api]:
    yield from as_account(control_plane, api, EXTENDER)


@pytest.fixture(scope="module")
def reconciler(control_plane: ControlPlane, api: Api, installed: None) -> Iterator[Api]:
    yield from as_account(control_plane, api, RECONCILER)


namespace = unswept


def put(path: str, value: Any, op: str = "add") -> Object:
    return {"op": op, "path": path, "value": value}


def key(name: str) -> str:
    return name.replace("/", "~1")


def refused(
    account: Api,
    resource: str,
    name: str,
    namespace: str | None,
    *changes: Object,
    subresource: str = "",
) -> str:
    """Return what the policy says to a change, nothing where it is taken."""
    try:
        account.patch(
            resource, name, namespace, body=list(changes), how="json", subresource=subresource
        )
    except ApiError as error:
        if "ValidatingAdmissionPolicy" not in str(error):
            raise
        return str(error)
    return ""


CONTAINER = "/spec/containers/0/image"
ANY = {"operator": "Exists"}
OWNER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "b"}
LIMIT = put("/spec/activeDeadlineSeconds", 1)
EXTENDER_MAY_NOT = {
    "an image": [put(CONTAINER, "evil", "replace")],
    "a deadline": [LIMIT],
    "tolerations": [put("/spec/tolerations/-", ANY)],
    "a node selector": [put("/spec/nodeSelector", {"a": "b"})],
    "two labels of nodes with its gate": [
        put("/spec/nodeSelector", {"a": "b", "c": "d"}),
        {"op": "remove", "path": "/spec/schedulingGates/1"},
    ],
    "a label": [put("/metadata/labels/app", "b", "replace")],
    "a label that goes": [{"op": "remove", "path": "/metadata/labels/app"}],
    "all labels": [{"op": "remove", "path": "/metadata/labels"}],
    "an annotation": [put("/metadata/annotations/other", "b")],
    "an annotation that goes": [{"op": "remove", "path": "/metadata/annotations/kept"}],
    "a finalizer": [put("/metadata/finalizers", ["a.example/b"])],
    "an owner": [put("/metadata/ownerReferences", [OWNER])],
    "another's gate": [put("/spec/schedulingGates", [{"name": GANG}], "replace")],
    "all gates": [{"op": "remove", "path": "/spec/schedulingGates"}],
    "an image beside what it may": [
        put(f"/metadata/annotations/{key('scheduling.x-k8s.io/woken-at')}", "now"),
        put(CONTAINER, "evil", "replace"),
    ],
}


def gated(namespace: str, **more: Any) -> Object:
    return objects.pod(
        "p",
        namespace=namespace,
        labels={"app": "a", **more},
        annotations={"kept": "a"},
        gates=[ADMISSION, GANG, "example.com/other"],
    )


@pytest.mark.parametrize("changes", EXTENDER_MAY_NOT.values(), ids=EXTENDER_MAY_NOT)
def test_the_extender_may_not_change_other_fields_of_a_pod(
    api: Api, extender: Api, namespace: str, changes: Sequence[Object]
) -> None:
    before = api.create(gated(namespace))
    said = refused(extender, "pods", "p", namespace, *changes)
    assert "of a pod the extender only changes" in said
    assert (
        api.get("pods", "p", namespace)["metadata"]["resourceVersion"]
        == (before["metadata"]["resourceVersion"])
    )


def test_the_extender_adds_the_domain_of_a_gang_with_its_gate(
    api: Api, extender: Api, namespace: str
) -> None:
    api.create(gated(namespace))
    domain = [
        put("/spec/nodeSelector", {"zone": "a"}),
        put(f"/metadata/labels/{key('scheduling.x-k8s.io/domain')}", "a"),
        {"op": "remove", "path": "/spec/schedulingGates/1"},
    ]
    assert refused(extender, "pods", "p", namespace, *domain) == ""


@pytest.fixture(scope="module")
def node(api: Api) -> str:
    api.create(objects.node("n", labels={"topology.kubernetes.io/zone": "z"}))
    return "n"


def binding(pod: Object, node: str, **metadata: Any) -> Object:
    meta = pod["metadata"]
    names = {"name": meta["name"], "namespace": meta["namespace"], "uid": meta["uid"]}
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": names | metadata,
        "target": target,
    }


@pytest.mark.parametrize(
    "metadata", [{"uid": ""}, {"annotations": {"a": "b"}}, {"labels": {"a": "b"}}], ids=str
)
def test_the_extenders_bindings_bring_nothing_along(
    api: Api, extender: Api, namespace: str, node: str, metadata: Object
) -> None:
    pod = api.create(objects.pod("p", namespace=namespace))
    path = f"/api/v1/namespaces/{namespace}/pods/p/binding"
    with pytest.raises(ApiError, match=r"the extender('s)? bind"):
        extender.request("POST", path, body=binding(pod, node, **metadata))
    assert "nodeName" not in api.get("pods", "p", namespace)["spec"]

    extender.request("POST", path, body=binding(pod, node))
    assert api.get("pods", "p", namespace)["spec"]["nodeName"] == node


def test_of_resource_claims_the_extender_only_takes_devices_back(
    api: Api, extender: Api, namespace: str, as_extender: Write
) -> None:
    meta = {"name": "c", "namespace": namespace}
    request = {"name": "one", "exactly": {"deviceClassName": "gpu"}}
    group = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim"}
    api.create({**group, "metadata": meta, "spec": {"devices": {"requests": [request]}}})
    result = {"request": "one", "driver": "a.example", "pool": "p", "device": "d"}
    given = {
        "allocation": {"devices": {"results": [result]}},
        "reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}],
    }
    note = "of a ResourceClaim the extender only removes what status has"
    status = put("/status", given)
    assert note in refused(extender, CLAIMS, "c", namespace, status, subresource="status")
    stored = api.patch(CLAIMS, "c", namespace, body=[status], how="json", subresource="status")
    part = {"op": "remove", "path": "/status/reservedFor"}
    assert note in refused(extender, CLAIMS, "c", namespace, part, subresource="status")

    def taken_back(version: str) -> Writing:
        claim = ClaimInfo(
            f"resourceclaims/{namespace}/c", stored["metadata"]["uid"], version=version
        )
        return lambda client: ClaimWriter(client).deallocate(claim)

    as_extender(taken_back("1"))
    assert api.get(CLAIMS, "c", namespace)["status"] == stored["status"], "it has changed since"
    as_extender(taken_back(stored["metadata"]["resourceVersion"]))
    assert api.get(CLAIMS, "c", namespace).get("status", {}) == {}


BY_ROLE = "cannot (create|patch|delete) resource"


@pytest.mark.parametrize("account", [EXTENDER, RECONCILER])
def test_other_verbs_are_refused(
    api: Api, extender: Api, reconciler: Api, namespace: str, account: str
) -> None:
    account_api = {EXTENDER: extender, RECONCILER: reconciler}[account]
    api.create(objects.pod("p", namespace=namespace))
    with pytest.raises(ApiError, match=BY_ROLE):
        account_api.create(objects.pod("mine", namespace=namespace))
    refuses = "ValidatingAdmissionPolicy" if account == RECONCILER else BY_ROLE
    with pytest.raises(ApiError, match=refuses):
        account_api.delete("pods", "p", namespace)
    debug = {"ephemeralContainers": [{"name": "x", "image": "evil"}]}
    with pytest.raises(ApiError, match=BY_ROLE):
        account_api.patch(
            "pods",
            "p",
            namespace,
            body={"spec": debug},
            how="strategic",
            subresource="ephemeralcontainers",
        )


@pytest.fixture
def group(api: Api, namespace: str) -> str:
    api.create(objects.pod_group("g", 2, namespace=namespace))
    status = {"status": {"phase": "Pending", "conditions": [condition("Scheduled", "False")]}}
    api.patch(POD_GROUPS, "g", namespace, body=status, subresource="status")
    return namespace


STATUS_CHANGES = {
    "the phase": put("/status/phase", "Running"),
    "a condition": put("/status/conditions/0/status", "True"),
    "a condition that goes": put("/status/conditions", []),
    "another condition": put("/status/conditions/-", condition("Running")),
}


@pytest.mark.parametrize("change", STATUS_CHANGES.values(), ids=STATUS_CHANGES)
def test_the_extender_changes_one_condition_of_a_group(
    api: Api, extender: Api, group: str, change: Object
) -> None:
    permitted = put("/status/conditions/-", condition("Permitted", "False"))
    assert refused(extender, POD_GROUPS, "g", group, permitted, subresource="status") == ""
    said = refused(extender, POD_GROUPS, "g", group, change, subresource="status")
    assert "status: of a PodGroup's status the extender only changes" in said
    with pytest.raises(ApiError, match=BY_ROLE):
        extender.patch(POD_GROUPS, "g", group, body={"spec": {"minMember": 1}})


def test_preemption_is_the_extenders_alone(
    control_plane: ControlPlane, api: Api, extender: Api, reconciler: Api, group: str
) -> None:
    preempting = {"since": "2026-01-01T00:00:00Z", "nodes": [], "victims": []}

    def say(account: Api, *changes: Object) -> str:
        return refused(account, POD_GROUPS, "g", group, *changes, subresource="status")

    field = put("/status/preemption", preempting)
    said = put("/status/conditions/-", condition("Preempting"))
    assert "status.preemption: only the extender writes it" in say(api, field)
    assert "status.preemption: only the extender writes it" in say(reconciler, field)
    assert "conditions other than Permitted and Preempting" in say(reconciler, said)
    assert say(extender, field, said) == ""
    assert say(reconciler, put("/status/conditions/-", condition("Preempted"))) == ""
    kept = put("/status/keptNodes", ["n"])
    assert "status.keptNodes" in say(api, kept)
    assert "status.keptNodes" in say(reconciler, kept)
    assert say(extender, kept) == ""
    removed = {"op": "remove", "path": "/status/preemption"}
    assert "only the extender" in say(api, removed)
    assert say(api, put("/status/phase", "Running")) == ""
    assert say(extender, removed) == ""


def test_of_the_status_of_pods_the_extender_writes_the_nominated_node(
    api: Api, extender: Api, namespace: str
) -> None:
    api.create(objects.pod("p", namespace=namespace))

    def say(change: Object) -> str:
        return refused(extender, "pods", "p", namespace, change, subresource="status")

    assert say(put("/status/nominatedNodeName", "n")) == ""
    conditions = api.get("pods", "p", namespace)["status"].get("conditions", [])
    for change in (
        put("/status/conditions", [*conditions, condition(READY)]),
        put("/status/podIP", "10.0.0.1"),
        put("/metadata/labels", {"a": "b"}),
    ):
        assert "of a pod the extender only changes" in say(change), change


def test_the_reconciler_marks_victims_and_nominates_nodes(
    api: Api, reconciler: Api, namespace: str
) -> None:
    api.create(objects.pod("p", namespace=namespace))
    marked = {**condition("DisruptionTarget"), "reason": "PreemptionByScheduler"}

    def say(*changes: Object) -> str:
        return refused(reconciler, "pods", "p", namespace, *changes, subresource="status")

    with pytest.raises(ApiError, match="only deletes pods of queues"):
        reconciler.delete("pods", "p", namespace)
    conditions = api.get("pods", "p", namespace)["status"].get("conditions", [])
    other = [*conditions, condition("DisruptionTarget")]
    assert "only says PreemptionByScheduler" in say(put("/status/conditions", other))
    assert say(put("/status/nominatedNodeName", "n")) == ""
    assert say(put("/status/conditions", [*conditions, marked])) == ""
    assert "of any pod's status it only changes" in say(put("/status/message", "evil"))
    mark = put("/metadata/annotations", {"kueue.x-k8s.io/workload": "w"})
    assert OF_QUEUES in refused(reconciler, "pods", "p", namespace, mark)
    reconciler.delete("pods", "p", namespace)


def test_the_reconciler_makes_the_budgets_of_pod_groups_and_touches_no_other(
    api: Api, reconciler: Api, group: str
) -> None:
    budgets = "policy/v1/poddisruptionbudgets"
    of_group = {"matchLabels": {objects.POD_GROUP_LABEL: "g"}}
    ours: Object = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {
            "name": "gang-g",
            "namespace": group,
            "labels": {"app.kubernetes.io/managed-by": "gang-extender"},
            "ownerReferences": [objects.owner(api.get(POD_GROUPS, "g", group))],
        },
        "spec": {"minAvailable": 2, "selector": of_group},
    }
    theirs = {**ours, "metadata": {"name": "gang-theirs", "namespace": group}}
    everything = {**ours, "spec": {"minAvailable": 2, "selector": {}}}
    api.create(theirs)
    with pytest.raises(ApiError, match="only makes, changes and deletes the disruption budgets"):
        reconciler.create({**theirs, "metadata": {"name": "other", "namespace": group}})
    with pytest.raises(ApiError, match="selects the pods of one PodGroup"):
        reconciler.create(everything)
    with pytest.raises(ApiError, match="only makes, changes and deletes the disruption budgets"):
        reconciler.delete(budgets, "gang-theirs", group)
    label = put("/metadata/labels", ours["metadata"]["labels"])
    assert "metadata: " in refused(reconciler, budgets, "gang-theirs", group, label)
    reconciler.create(ours)
    need = put("/spec/minAvailable", 3)
    assert refused(reconciler, budgets, "gang-g", group, need) == ""
    reconciler.delete(budgets, "gang-g", group)


OF_QUEUES = "of pods of queues it only changes"
RECONCILER_MAY_NOT = {
    "an image": [put(CONTAINER, "evil", "replace")],
    "a deadline": [LIMIT],
    "a label": [put("/metadata/labels/app", "b", "replace")],
    "a label that goes": [{"op": "remove", "path": "/metadata/labels/app"}],
    "an annotation": [put("/metadata/annotations/other", "b")],
    "a finalizer": [put("/metadata/finalizers", ["a.example/b"])],
    "an owner": [put("/metadata/ownerReferences", [OWNER])],
    "another's gate": [put("/spec/schedulingGates", [{"name": ADMISSION}], "replace")],
}


@pytest.mark.parametrize("changes", RECONCILER_MAY_NOT.values(), ids=RECONCILER_MAY_NOT)
def test_the_reconciler_may_not_change_other_fields_of_a_pod(
    api: Api, reconciler: Api, namespace: str, changes: Sequence[Object]
) -> None:
    api.create(gated(namespace, **{QUEUE: "q"}))
    assert OF_QUEUES in refused(reconciler, "pods", "p", namespace, *changes)


def test_the_reconciler_lets_pods_of_queues_go_and_no_others(
    api: Api, reconciler: Api, namespace: str
) -> None:
    api.create(objects.pod("plain", namespace=namespace))
    mark = put("/metadata/annotations", {"kueue.x-k8s.io/workload": "w"})
    assert OF_QUEUES in refused(reconciler, "pods", "plain", namespace, mark)
    with pytest.raises(ApiError, match="only deletes pods of queues"):
        reconciler.delete("pods", "plain", namespace)

    stored = api.create(gated(namespace, **{QUEUE: "q"}))
    job = builtin()["pod"].wrap(deepcopy(stored))
    [name] = [each.name for each in job.pod_sets()]
    [step] = job.start_steps([placement(name)])
    reconciler.patch("pods", "p", namespace, body=step.patch)
    found = api.get("pods", "p", namespace)
    assert [each["name"] for each in found["spec"]["schedulingGates"]] == [
        GANG,
        "example.com/other",
    ]
    assert found["spec"]["nodeSelector"] == {"pool": "a"}
    reconciler.delete("pods", "p", namespace)


def test_a_pod_that_starts_gets_what_admission_checks_add(
    api: Api, reconciler: Api, namespace: str
) -> None:
    stored = api.create(gated(namespace, **{QUEUE: "q"}))
    job = builtin()["pod"].wrap(deepcopy(stored))
    [name] = [each.name for each in job.pod_sets()]
    consumes = {"autoscaling.x-k8s.io/consume-provisioning-request": "r"}
    given = placement(name)
    given = replace(
        given,
        labels={**given.labels, "paid-by": "team"},
        annotations={**given.annotations, **consumes},
    )
    [step] = job.start_steps([given])
    started = {"op": "remove", "path": "/spec/schedulingGates/0"}
    changed = [put("/metadata/labels/app", "b", "replace"), started]
    assert OF_QUEUES in refused(reconciler, "pods", "p", namespace, *changed)
    reconciler.patch("pods", "p", namespace, body=step.patch)
    found = api.get("pods", "p", namespace)["metadata"]
    assert found["labels"]["paid-by"] == "team"
    assert consumes.items() <= found["annotations"].items()
    later = put("/metadata/labels/more", "b")
    assert OF_QUEUES in refused(reconciler, "pods", "p", namespace, later)


def test_the_reconciler_asks_for_nodes_for_workloads_and_touches_no_other_template(
    api: Api, reconciler: Api, namespace: str
) -> None:
    owner = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "name": "w", "uid": "u"}
    theirs: Object = {
        "apiVersion": "v1",
        "kind": "PodTemplate",
        "metadata": {"name": "theirs", "namespace": namespace},
        "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}},
    }
    api.create(theirs)
    with pytest.raises(ApiError, match="only makes and deletes what asks for nodes"):
        reconciler.delete("podtemplates", "theirs", namespace)
    other = {**theirs, "metadata": {"name": "other", "namespace": namespace}}
    with pytest.raises(ApiError, match="only makes and deletes what asks for nodes"):
        reconciler.create(other)
    metadata = {"name": "ours", "namespace": namespace, "ownerReferences": [owner]}
    reconciler.create({**theirs, "metadata": metadata})
    gang = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup", "name": "g"}
    owned = {"name": "kept", "namespace": namespace, "ownerReferences": [{**gang, "uid": "u"}]}
    reconciler.create({**theirs, "metadata": owned})
    reconciler.delete("podtemplates", "kept", namespace)
    label = put("/metadata/labels", {"a": "b"})
    with pytest.raises(ApiError, match=BY_ROLE):
        refused(reconciler, "podtemplates", "ours", namespace, label)
    reconciler.delete("podtemplates", "ours", namespace)


def test_the_reconciler_says_of_a_pod_whether_its_gang_is_ready_and_nothing_else(
    api: Api, reconciler: Api, namespace: str
) -> None:
    api.create(objects.pod("p", namespace=namespace, readinessGates=[{"conditionType": READY}]))

    def say(kind: str) -> None:
        body = {"status": {"conditions": [condition(kind)]}}
        reconciler.patch("pods", "p", namespace, body=body, how="strategic", subresource="status")

    say(READY)
    note = "of any pod's status it only changes"
    with pytest.raises(ApiError, match=note):
        say("Ready")
    for change in (put("/status/phase", "Running"), put("/status/podIP", "10.0.0.1")):
        said = refused(reconciler, "pods", "p", namespace, change, subresource="status")
        assert note in said
    label = put("/metadata/labels", {"a": "b"})
    assert note in refused(reconciler, "pods", "p", namespace, label, subresource="status")


def placement(name: str, **more: Any) -> Placement:
    return Placement(
        name=name,
        count=1,
        node_selector={"pool": "a"},
        tolerations=({"key": "pool", "operator": "Exists"},),
        labels={"kueue.x-k8s.io/podset": name, "scheduling.x-k8s.io/pod-group": "g"},
        annotations={"kueue.x-k8s.io/workload": "w"},
        **more,
    )


KINDS = ["batch/job", *POD_SETS]


def stored_job(api: Api, kind: str, namespace: str) -> tuple[str, Object]:
    """Create a suspended job; return its resource, and how it is stored."""
    found = builtin()[kind]
    resource = f"{found.group}/{found.version}/{found.plural}"
    if kind == "batch/job":
        body = objects.job("work", 2, namespace=namespace, queue="q", suspend=True)
    else:
        body = fresh(POD_SETS[kind][0](), namespace=namespace, queue="q")
    return resource, api.create(body)


@pytest.mark.parametrize("kind", KINDS)
def test_the_reconciler_starts_and_stops_jobs(
    api: Api, reconciler: Api, namespace: str, kind: str
) -> None:
    resource, stored = stored_job(api, kind, namespace)
    wrap = builtin()[kind].wrap
    before = wrap(deepcopy(stored)).pod_sets()
    steps = wrap(deepcopy(stored)).start_steps([placement(each.name) for each in before])
    started = [reconciler.patch(resource, "work", namespace, body=x.patch) for x in steps][-1]
    assert not wrap(deepcopy(started)).is_suspended()
    assert wrap(deepcopy(started)).pod_sets() != before

    # What a controller says when it has started it, and when it has ended its pods.
    if kind == "batch/job":
        at = {"status": {"startTime": "2026-11-22T00:00:00Z"}}
        started = api.patch(resource, "work", namespace, body=at, subresource="status")
    for _ in range(2):
        for step in wrap(deepcopy(started)).stop_steps(before):
            started = reconciler.patch(
                resource, "work", namespace, body=step.patch, subresource=step.subresource
            )
    assert wrap(deepcopy(started)).is_suspended()
    after = wrap(deepcopy(started)).pod_sets()
    pairs = zip(after, before, strict=True)
    assert all(same(one.template, other.template) for one, other in pairs)


def test_the_reconciler_writes_no_submitter_but_the_default_one(
    api: Api, reconciler: Api, namespace: str
) -> None:
    integration = builtin()["ray.io/rayjob"]
    body: Any = fresh(rayjob(), namespace=namespace, queue="q")
    del body["spec"]["submitterPodTemplate"]
    resource, wrap = f"{integration.api_version}/{integration.plural}", integration.wrap
    stored = api.create(body)
    pod_sets = wrap(deepcopy(stored)).pod_sets()
    (start,) = wrap(deepcopy(stored)).start_steps([placement(each.name) for each in pod_sets])
    patch: Any = start.patch
    written = patch["spec"]["submitterPodTemplate"]
    for field, value in (("command", ["evil"]), ("image", "evil"), ("name", "evil")):
        evil = deepcopy(written)
        evil["spec"]["containers"][0][field] = value
        said = refused(reconciler, resource, "work", namespace, put(TEMPLATE, evil))
        assert "denied request: spec: " in said, field
    evil = {**written, "spec": {**written["spec"], "hostNetwork": True}}
    said = refused(reconciler, resource, "work", namespace, put(TEMPLATE, evil))
    assert "denied request: spec: " in said

    started = reconciler.patch(resource, "work", namespace, body=start.patch)
    (stop,) = wrap(deepcopy(started)).stop_steps(pod_sets)
    stopped = reconciler.patch(resource, "work", namespace, body=stop.patch)
    assert "submitterPodTemplate" not in stopped["spec"]


PATCHED = "/spec/runtimePatches/0/trainingRuntimeSpec/template/spec/replicatedJobs/0"


def test_the_reconciler_writes_overrides_of_its_own_into_trainjobs(
    api: Api, reconciler: Api, namespace: str
) -> None:
    """Trainer's own API server rules are not in force here, and no Trainer makes a JobSet."""
    integration = builtin()["trainer.kubeflow.org/trainjob"]
    resource = f"{integration.api_version}/{integration.plural}"
    stored = api.create(fresh(trainjob(), namespace=namespace, queue="q"))

    def job(source: Object) -> GenericJob:
        wrapped = integration.wrap(deepcopy(source))
        wrapped.child = jobset()
        return wrapped

    pod_sets = job(stored).pod_sets()
    steps = job(stored).start_steps([placement(each.name, gates=("g",)) for each in pod_sets])
    started = [reconciler.patch(resource, "work", namespace, body=x.patch) for x in steps][-1]
    mine = "/spec/podTemplateOverrides/1"
    for change, field in (
        (put(f"{mine}/spec/serviceAccountName", "evil"), "spec"),
        (put(f"{mine}/metadata/annotations", {"a": "b"}), "spec"),
        (put(f"{mine}/metadata/finalizers", ["a.example/b"]), "spec"),
        (put("/spec/podTemplateOverrides/0/metadata/labels/team", "evil"), "spec"),
        ({"op": "remove", "path": "/spec/podTemplateOverrides/0"}, "spec"),
        (put("/spec/runtimePatches/0/manager", "evil.example.com/x"), "spec"),
        (put(f"{PATCHED}/template/spec/template/spec/serviceAccountName", "evil"), "spec"),
        (put(f"{PATCHED}/template/spec/parallelism", 9), "spec"),
        (put("/spec/trainer", {"numNodes": 9}), "spec"),
        (put("/spec/runtimeRef/name", "evil"), "spec"),
        (put("/metadata/labels/other", "b"), "metadata"),
    ):
        said = refused(reconciler, resource, "work", namespace, change)
        assert f"denied request: {field}: " in said, change

    for _ in range(2):
        for step in job(started).stop_steps(pod_sets):
            started = reconciler.patch(resource, "work", namespace, body=step.patch)
    assert started["spec"] == stored["spec"]


TEMPLATE = "/spec/submitterPodTemplate"
IMAGES = {
    "batch/job": "/spec/template/spec/containers/0/image",
    "jobset.x-k8s.io/jobset": (
        "/spec/replicatedJobs/1/template/spec/template/spec/containers/0/image"
    ),
    "kubeflow.org/mpijob": "/spec/mpiReplicaSpecs/Worker/template/spec/containers/0/image",
    "kubeflow.org/pytorchjob": "/spec/pytorchReplicaSpecs/Master/template/spec/containers/0/image",
    "kubeflow.org/tfjob": "/spec/tfReplicaSpecs/PS/template/spec/containers/0/image",
    "kubeflow.org/xgboostjob": "/spec/xgbReplicaSpecs/Worker/template/spec/containers/0/image",
    "kubeflow.org/jaxjob": "/spec/jaxReplicaSpecs/Worker/template/spec/containers/0/image",
    "kubeflow.org/paddlejob": "/spec/paddleReplicaSpecs/Master/template/spec/containers/0/image",
    "ray.io/raycluster": "/spec/workerGroupSpecs/1/template/spec/containers/0/image",
    "ray.io/rayjob": "/spec/rayClusterSpec/workerGroupSpecs/1/template/spec/containers/0/image",
}
OTHER_FIELDS = {
    "batch/job": [put("/spec/ttlSecondsAfterFinished", 0), put("/spec/backoffLimit", 9)],
    "jobset.x-k8s.io/jobset": [
        put("/spec/replicatedJobs/1/replicas", 9),
        put("/spec/replicatedJobs/1/template/spec/parallelism", 9),
        {"op": "remove", "path": "/spec/replicatedJobs/0"},
        put("/spec/failurePolicy", {"maxRestarts": 1}),
    ],
    "kubeflow.org/mpijob": [
        put("/spec/mpiReplicaSpecs/Worker/replicas", 9),
        put("/spec/runPolicy/backoffLimit", 9),
        {"op": "remove", "path": "/spec/mpiReplicaSpecs/Launcher"},
        put("/spec/slotsPerWorker", 2),
    ],
    "ray.io/raycluster": [
        put("/spec/rayVersion", "1"),
        put("/spec/workerGroupSpecs/0/replicas", 9),
        {"op": "remove", "path": "/spec/workerGroupSpecs/0"},
        put("/spec/headGroupSpec/rayStartParams", {"a": "b"}),
    ],
    "workload.codeflare.dev/appwrapper": [
        put("/spec/components/0/template/spec/replicatedJobs/0/replicas", 9),
        put("/spec/components/2/podSets/0/replicas", 1),
        put("/spec/components/0/podSets", [{"path": "template"}]),
        {"op": "remove", "path": "/spec/components/1"},
    ],
    "sparkoperator.k8s.io/sparkapplication": [
        put("/spec/driver/image", "evil"),
        put("/spec/executor/instances", 9),
        put("/spec/driver/template", {"spec": {"hostNetwork": True}}),
        put("/spec/mainApplicationFile", "evil"),
    ],
    "ray.io/rayjob": [
        put("/spec/rayClusterSpec/suspend", True),
        put("/spec/entrypoint", "evil"),
        put("/spec/rayClusterSpec/workerGroupSpecs/0/replicas", 9),
        {"op": "remove", "path": "/spec/rayClusterSpec/workerGroupSpecs/0"},
        put("/spec/rayClusterSpec/headGroupSpec/rayStartParams", {"a": "b"}),
        {"op": "remove", "path": "/spec/submitterPodTemplate"},
    ],
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_reconciler_may_not_change_other_fields_of_a_job(
    api: Api, reconciler: Api, namespace: str, kind: str
) -> None:
    resource, _ = stored_job(api, kind, namespace)

    def say(change: Object) -> str:
        return refused(reconciler, resource, "work", namespace, change)

    # The API server itself takes no other image for a Job.
    if kind == "batch/job":
        changes = OTHER_FIELDS[kind]
    else:
        where = IMAGES.get(kind)
        assert where is None or "template: of a pod template" in say(put(where, "evil", "replace"))
        changes = OTHER_FIELDS.get(kind, [])
    for change in changes:
        assert "denied request: spec: " in say(change), change
    for change in (
        put("/metadata/labels/other", "b"),
        put("/metadata/ownerReferences", [OWNER]),
        put("/metadata/finalizers", ["a.example/b"]),
    ):
        assert "denied request: metadata: " in say(change), change
    with pytest.raises(ApiError, match=BY_ROLE):
        reconciler.delete(resource, "work", namespace)


def test_the_reconciler_starts_a_part_of_another_job_and_makes_it_no_larger(
    api: Api, reconciler: Api, namespace: str
) -> None:
    body = objects.job("work", 2, namespace=namespace, suspend=True)
    of = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "a", "uid": "b"}
    body["metadata"]["ownerReferences"] = [{**of, "controller": True}]
    api.create(body)
    jobs = "batch/v1/jobs"
    larger = put("/spec/parallelism", 3)
    assert "makes it larger" in refused(reconciler, jobs, "work", namespace, larger)
    assert refused(reconciler, jobs, "work", namespace, put("/spec/suspend", False)) == ""


def test_the_reconciler_may_not_say_that_a_job_is_done(
    api: Api, reconciler: Api, namespace: str
) -> None:
    resource, _ = stored_job(api, "batch/job", namespace)
    at = {"status": {"startTime": "2026-11-22T00:00:00Z"}}
    api.patch(resource, "work", namespace, body=at, subresource="status")
    done = put("/status/succeeded", 2)
    said = refused(reconciler, resource, "work", namespace, done, subresource="status")
    assert "only removes startTime" in said


def test_the_reconciler_may_not_give_itself_quota(api: Api, reconciler: Api) -> None:
    queue = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "ClusterQueue",
        "metadata": {"name": "q"},
        "spec": {"namespaceSelector": {}},
    }
    api.create(queue)
    mine = put("/metadata/finalizers", ["kueue.x-k8s.io/resource-in-use"])
    assert refused(reconciler, QUEUES, "q", None, mine) == ""
    for change in (
        put("/spec/cohortName", "c"),
        put("/metadata/labels", {"a": "b"}),
        put("/metadata/finalizers/-", "a.example/b"),
    ):
        said = refused(reconciler, QUEUES, "q", None, change)
        assert "only changes the finalizer" in said
    with pytest.raises(ApiError, match=BY_ROLE):
        reconciler.create({**queue, "metadata": {"name": "mine"}})


def test_the_reconciler_may_not_change_other_fields_of_a_crd(api: Api, reconciler: Api) -> None:
    name = "clusterqueues.kueue.x-k8s.io"
    client = {"url": "https://127.0.0.1:1/convert"}
    webhook = {"clientConfig": client, "conversionReviewVersions": ["v1"]}
    converts = put("/spec/conversion", {"strategy": "Webhook", "webhook": webhook})
    assert refused(reconciler, CRDS, name, None, converts) == ""
    for change, field in (
        (put("/spec/conversion", {"strategy": "None"}), "spec.conversion.strategy: "),
        (put("/spec/versions/0/schema/openAPIV3Schema/description", "x"), "spec: "),
        (put("/spec/names/categories", ["all"]), "spec: "),
        (put("/metadata/labels", {"a": "b"}), "metadata: "),
        (put("/metadata/annotations", {"a": "b"}), "metadata: "),
    ):
        assert f"denied request: {field}" in refused(reconciler, CRDS, name, None, change), change
    with pytest.raises(ApiError, match=BY_ROLE):
        refused(reconciler, CRDS, "podgroups.scheduling.x-k8s.io", None, converts)
    api.apply(ROOT / "manifests" / "crds" / "kueue.x-k8s.io_clusterqueues.yaml")
    api.patch(CRDS, name, body={"spec": {"conversion": {"strategy": "None", "webhook": None}}})


@pytest.fixture
def room(api: Api) -> None:
    """The field is in the schema, also where the CRD of this checkout does not have it."""
    status = "/spec/versions/0/schema/openAPIV3Schema/properties/status"
    for each in ("podgroups.scheduling.x-k8s.io",):
        loose = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        change = [put(f"{status}/properties/grantedRoom", loose)]
        api.patch(CRDS, each, body=change, how="json")
        api._await_crd(each)


@pytest.fixture
def as_reconciler(control_plane: ControlPlane, reconciler: Api) -> Write:
    """Have the code of the reconciler write with its account; raises what the code raises."""
    return writing_as(control_plane, RECONCILER)


@pytest.fixture
def as_extender(control_plane: ControlPlane, extender: Api) -> Write:
    """Have the code of the extender write with its account; raises what the code raises."""
    return writing_as(control_plane, EXTENDER)


def writing_as(control_plane: ControlPlane, account: str) -> Write:
    kubeconfig = control_plane.service_account_kubeconfig(NAMESPACE, account)

    def write(what: Callable[[KubeClient], Awaitable[None]]) -> None:
        async def run() -> None:
            async with KubeClient(await keyring(kubeconfig)) as client:
                await what(client)

        asyncio.run(run())

    return write


def making(namespace: str, members: int, name: str = "made", **more: Any) -> Writing:
    """Return what makes the PodGroup of a job, as the code does."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": uuid4().hex}

    async def make(client: KubeClient) -> None:
        writer = JobWriter(client, lambda *_: pytest.fail("no job is read"))
        await writer.make_pod_group(namespace, name, min_member=members, owners=[owner], **more)

    return make


def test_a_pod_group_of_a_tenant_with_the_name_of_a_workload_is_left_alone(
    api: Api, as_reconciler: Write, namespace: str
) -> None:
    """InvalidError is the one that becomes an Event of the job."""
    before = api.create(objects.pod_group("made", 2, namespace=namespace))
    with pytest.raises(InvalidError, match=r"metadata\.name: .* has the name of the job's"):
        as_reconciler(making(namespace, 3))
    after = api.get(POD_GROUPS, "made", namespace)
    assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]


GROUP_CHANGES = {
    "a label": (put("/metadata/labels", {"a": "b"}), "metadata: "),
    "a finalizer": (put("/metadata/finalizers", ["a.example/b"]), "metadata: "),
    "an annotation": (put("/metadata/annotations", {"a": "b"}), "metadata.annotations: "),
    "no owner": (put("/metadata/ownerReferences", []), "metadata.ownerReferences: "),
    "a controller": (
        put("/metadata/ownerReferences", [{**OWNER, "controller": True}]),
        "metadata.ownerReferences: ",
    ),
    "a time-out": (put("/spec/scheduleTimeoutSeconds", 1), "spec: "),
    "resources": (put("/spec/minResources", {"cpu": "1"}), "spec: "),
}


@pytest.mark.parametrize(("change", "field"), GROUP_CHANGES.values(), ids=GROUP_CHANGES)
def test_the_reconciler_may_not_change_other_fields_of_a_pod_group_that_it_made(
    reconciler: Api, as_reconciler: Write, namespace: str, change: Object, field: str
) -> None:
    as_reconciler(making(namespace, 2))
    assert f"denied request: {field}" in refused(reconciler, POD_GROUPS, "made", namespace, change)


def test_the_reconciler_makes_no_other_pod_groups_and_deletes_none(
    api: Api, reconciler: Api, as_reconciler: Write, namespace: str
) -> None:
    as_reconciler(making(namespace, 2))
    for resource, version in (
        (POD_GROUPS, "scheduling.x-k8s.io/v1alpha1"),
        ("scheduling.sigs.k8s.io/v1alpha1/podgroups", "scheduling.sigs.k8s.io/v1alpha1"),
    ):
        body = objects.pod_group("forged", 2, namespace=namespace, api_version=version)
        with pytest.raises(ApiError, match=f"ValidatingAdmissionPolicy|{BY_ROLE}"):
            reconciler.create(body)
        assert api.find(resource, "forged", namespace) is None
    owned = objects.pod_group("forged", 2, namespace=namespace)
    owned["metadata"] |= {"ownerReferences": [OWNER], "labels": {"a": "b"}}
    with pytest.raises(ApiError, match="denied request: metadata: "):
        reconciler.create(owned)
    with pytest.raises(ApiError, match=BY_ROLE):
        reconciler.delete(POD_GROUPS, "made", namespace)


def test_the_reconciler_may_not_change_other_fields_of_a_status(
    api: Api, reconciler: Api, group: str
) -> None:
    def say(*changes: Object) -> str:
        return refused(reconciler, POD_GROUPS, "g", group, *changes, subresource="status")

    permitted = put("/status/conditions/-", condition("Permitted", "False"))
    assert "status: of a PodGroup's status" in say(permitted)
    assert say(put("/status/phase", "Running")) == ""


@pytest.mark.usefixtures("room")
def test_room_is_kept_by_the_reconciler_alone_and_for_groups_that_it_made(
    api: Api, reconciler: Api, as_reconciler: Write, group: str
) -> None:
    as_reconciler(making(group, 2))

    def say(account_api: Api, cpu: str, name: str = "made") -> str:
        change = put("/status", {"grantedRoom": {"nodes": {"n": {"cpu": cpu}}}})
        return refused(account_api, POD_GROUPS, name, group, change, subresource="status")

    def stored() -> bool:
        say(reconciler, "1")
        return "grantedRoom" in api.get(POD_GROUPS, "made", group)["status"]

    api.wait_for("the field is known", stored, SECONDS)
    assert "status.grantedRoom: only the reconciler writes it" in say(api, "2")
    removed = {"op": "remove", "path": "/status/grantedRoom"}
    assert "only the reconciler" in refused(
        api, POD_GROUPS, "made", group, removed, subresource="status"
    )
    assert say(api, "1") == ""
    phase = {"status": {"phase": "Running"}}
    api.patch(POD_GROUPS, "made", group, body=phase, subresource="status")
    api.patch(POD_GROUPS, "made", group, body={"spec": {"minMember": 1}})
    assert say(reconciler, "3") == ""
    assert "for PodGroups that it made" in say(reconciler, "1", "g")


def test_the_extender_writes_the_first_condition_of_a_group(
    api: Api, extender: Api, namespace: str
) -> None:
    """Where no reconciler has written a status, its counts come with the condition."""
    api.create(objects.pod_group("new", 2, namespace=namespace))
    change = put("/status", {"conditions": [condition("Permitted", "False")]})
    assert refused(extender, POD_GROUPS, "new", namespace, change, subresource="status") == ""
    change = put("/status", {"conditions": [condition("Permitted", "False")], "running": 1})
    assert refused(extender, POD_GROUPS, "new", namespace, change, subresource="status") != ""
