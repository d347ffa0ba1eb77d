"""The kinds of the queue on a real API server: defaults, rules, columns, names."""

from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import yaml

from extender.webhooks.conversion import convert
from gang_tools.manifests import crds as shipped_crds
from tests.cluster.alone import alone
from tests.harness.client import Api, ApiError
from tests.harness.objects import Object, condition

MANIFESTS = Path(__file__).parents[2] / "manifests"
GROUP = "kueue.x-k8s.io"
NEWER, OLDER = f"{GROUP}/v1beta2", f"{GROUP}/v1beta1"
ALONE = "older.example.com/v1beta1"
"""The older version of what needs a webhook, as the only version of a group of its own."""
SINCE = "2026-11-21T08:54:00Z"


# The reconciler of the others would write the status of queues and Workloads.
control_plane, api = alone()


def of_group(group: str, plural: str, version: str) -> Object:
    """Return a CRD of ours with one version, for another group."""
    name = f"{plural}.{GROUP}"
    [found] = [deepcopy(dict(x)) for x in shipped_crds() if x["metadata"]["name"] == name]
    [only] = [each for each in found["spec"]["versions"] if each["name"] == version]
    only.pop("deprecated", None)
    only.pop("deprecationWarning", None)
    names = {key: found["spec"]["names"][key] for key in ("kind", "listKind", "plural", "singular")}
    versions = [{**only, "served": True, "storage": True}]
    return {
        **found,
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {**found["spec"], "group": group, "names": names, "versions": versions},
    }


@pytest.fixture(autouse=True, scope="module")
def crds(api: Api) -> Iterator[None]:
    api.apply(MANIFESTS / "crds")
    group, version = ALONE.split("/")
    alone = [of_group(group, plural, version) for plural in ("clusterqueues", "workloads")]
    api.apply(alone)
    yield
    for each in alone:
        name = each["metadata"]["name"]
        api.delete("apiextensions.k8s.io/v1/customresourcedefinitions", name)


@pytest.fixture
def unique(api: Api) -> Iterator[Callable[[Object], Object]]:
    """Create an object of the whole cluster under a name of its own; it goes after the test."""
    made: list[Object] = []

    def create(each: Object) -> Object:
        name = f"test-{uuid4().hex[:8]}"
        made.append(api.create({**each, "metadata": {"name": name}}))
        return made[-1]

    yield create
    for each in made:
        plural = f"{each['kind'].lower()}s"
        api.delete(f"{each['apiVersion']}/{plural}", each["metadata"]["name"])


def of(kind: str, spec: Any = None, version: str = NEWER, **more: Any) -> Object:
    parts = {} if spec is None else {"spec": spec}
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "one"}, **parts, **more}


def quota(name: str = "cpu", nominal: str | int = 10, **limits: str | int) -> Object:
    return {"name": name, "nominalQuota": nominal, **limits}


def flavor(name: str = "default", *quotas: Object) -> Object:
    return {"name": name, "resources": list(quotas) or [quota()]}


def covers(*flavors: Object, resources: tuple[str, ...] = ("cpu",)) -> Object:
    return {"coveredResources": list(resources), "flavors": list(flavors) or [flavor()]}


def queue(*groups: Object, **more: Any) -> Object:
    return of("ClusterQueue", {"resourceGroups": list(groups) or [covers()], **more})


def pod_set(name: str = "main", count: int = 3, **more: Any) -> Object:
    container = {"name": "main", "resources": {"requests": {"cpu": "1"}}}
    return {"name": name, "count": count, "template": {"spec": {"containers": [container]}}, **more}


def workload(*pod_sets: Object, **spec: Any) -> Object:
    return of("Workload", {"podSets": list(pod_sets) or [pod_set()], **spec})


def container_with(**amounts: Any) -> Object:
    template = {"spec": {"containers": [{"name": "main", "resources": amounts}]}}
    return workload({"name": "main", "template": template})


PREEMPTION = {
    "reclaimWithinCohort": "Never",
    "borrowWithinCohort": {"policy": "Never"},
    "withinClusterQueue": "Never",
}
QUEUE_DEFAULTS = {
    "queueingStrategy": "BestEffortFIFO",
    "stopPolicy": "None",
    "flavorFungibility": {"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "TryNextFlavor"},
    "preemption": PREEMPTION,
}
WANT_DEFAULTS: dict[str, tuple[Object, Object]] = {
    "a cluster queue": (of("ClusterQueue", {}), QUEUE_DEFAULTS),
    "a cluster queue that says a part": (
        of(
            "ClusterQueue",
            {"preemption": {"reclaimWithinCohort": "Any"}, "fairSharing": {}, "stopPolicy": "Hold"},
        ),
        {
            **QUEUE_DEFAULTS,
            "stopPolicy": "Hold",
            "fairSharing": {"weight": 1},
            "preemption": {**PREEMPTION, "reclaimWithinCohort": "Any"},
        },
    ),
    "a local queue": (
        of("LocalQueue", {"clusterQueue": "all"}),
        {"clusterQueue": "all", "stopPolicy": "None"},
    ),
    "a workload": (
        of("Workload", {"podSets": [{"template": {"spec": {"containers": []}}}]}),
        {
            "active": True,
            "podSets": [{"name": "main", "count": 1, "template": {"spec": {"containers": []}}}],
        },
    ),
    "an older cluster queue": (
        of("ClusterQueue", {"cohort": "team"}, ALONE),
        {
            **QUEUE_DEFAULTS,
            "cohort": "team",
            "flavorFungibility": {"whenCanBorrow": "Borrow", "whenCanPreempt": "TryNextFlavor"},
        },
    ),
    "an older workload": (
        of("Workload", {"podSets": [pod_set()]}, ALONE),
        {"active": True, "podSets": [pod_set()], "priorityClassSource": ""},
    ),
    "a flavor has none": (of("ResourceFlavor", {}), {}),
    "a cohort has none": (of("Cohort", {}), {}),
}


@pytest.mark.parametrize(("each", "want"), WANT_DEFAULTS.values(), ids=WANT_DEFAULTS)
def test_what_is_not_said_has_its_default(api: Api, each: Object, want: Object) -> None:
    assert api.tried(each)["spec"] == want


TAINT = {"key": "spot", "value": "true", "effect": "NoSchedule"}
MANY = [covers(flavor(f"f{n}", quota(f"r{n}")), resources=(f"r{n}",)) for n in range(17)]
SETS_OF = [pod_set(f"s{n}") for n in range(19)]
FLAVORS = [flavor(f"f{n}", *(quota(f"r{m}") for m in range(9))) for n in range(57)]
WIDE = [
    covers(*(flavor(f"g{g}f{n}", quota(f"r{g}")) for n in range(64)), resources=(f"r{g}",))
    for g in range(5)
]
DEEP = [
    covers(
        flavor(f"g{g}", *(quota(f"g{g}r{n}") for n in range(64))),
        resources=tuple(f"g{g}r{n}" for n in range(64)),
    )
    for g in range(5)
]

ROWS: dict[str, dict[str, Object]] = yaml.safe_load(
    (Path(__file__).parent / "queue_crd_rows.yaml").read_text()
)


def read(row: Object) -> Object:
    """Return the object of a row."""
    version = ALONE if row.get("older") else NEWER
    more = {key: each for key, each in row.items() if key not in {"want", "kind", "older", "spec"}}
    return of(row["kind"], row.get("spec"), version, **more)


WANT_TAKEN: dict[str, Object] = {
    **{name: read(row) for name, row in ROWS["taken"].items()},
    "as many groups as there may be": queue(*MANY[:16]),
    "as many quotas in a group as there may be": queue(
        covers(
            *(flavor(f"f{n}", *(quota(f"r{m}") for m in range(8))) for n in range(64)),
            resources=tuple(f"r{m}" for m in range(8)),
        )
    ),
    "as many pod sets as there may be": workload(*SETS_OF[:18]),
}


@pytest.mark.parametrize("each", WANT_TAKEN.values(), ids=WANT_TAKEN)
def test_a_right_object_is_taken_as_it_was_written(api: Api, each: Object) -> None:
    stored = api.tried(each)

    kept = {**stored.get("spec", {}), **each["spec"]} if "spec" in each else None
    assert stored.get("spec") == kept
    assert stored.get("value") == each.get("value")


WANT_REFUSED: dict[str, tuple[Object, str]] = {
    **{name: (read(row), row["want"]) for name, row in ROWS["refused"].items()},
    "nine taints": (
        of("ResourceFlavor", {"nodeTaints": [{**TAINT, "key": f"t{n}"} for n in range(9)]}),
        "at most 8",
    ),
    "nine labels": (
        of("ResourceFlavor", {"nodeLabels": {f"l{n}": "" for n in range(9)}}),
        "at most 8",
    ),
    "nine tolerations": (
        of("ResourceFlavor", {"tolerations": [{"operator": "Exists"}] * 9}),
        "at most 8",
    ),
    "a description that is too long": (
        of("WorkloadPriorityClass", value=1, description="a" * 2049),
        "2048",
    ),
    "seventeen groups": (queue(*MANY), "at most 16"),
    "too many quotas in a group": (
        queue(covers(*FLAVORS, resources=tuple(f"r{m}" for m in range(9)))),
        "at most 512",
    ),
    "too many flavors": (queue(*WIDE), "at most 256 flavors"),
    "too many resources": (queue(*DEEP), "at most 256 resources"),
    "nineteen pod sets": (workload(*SETS_OF), "at most 18"),
}


@pytest.mark.parametrize(("each", "want"), WANT_REFUSED.values(), ids=WANT_REFUSED)
def test_a_wrong_object_is_refused_with_the_reason(api: Api, each: Object, want: str) -> None:
    with pytest.raises(ApiError) as refused:
        api.tried(each)

    assert refused.value.status == 422
    assert want in str(refused.value)


def test_the_cluster_queue_of_a_local_queue_stays(api: Api, namespace: str) -> None:
    local = of("LocalQueue", {"clusterQueue": "one"})
    api.create({**local, "metadata": {"name": "users", "namespace": namespace}})
    plural = f"{NEWER}/localqueues"

    for other in ("two", None):
        with pytest.raises(ApiError, match="clusterQueue cannot be changed"):
            api.patch(plural, "users", namespace, body={"spec": {"clusterQueue": other}})
    stopped = api.patch(plural, "users", namespace, body={"spec": {"stopPolicy": "Hold"}})
    assert stopped["spec"] == {"clusterQueue": "one", "stopPolicy": "Hold"}


def test_a_local_queue_without_a_cluster_queue_may_get_one(api: Api, namespace: str) -> None:
    api.create({**of("LocalQueue", {}), "metadata": {"name": "users", "namespace": namespace}})

    changed = api.patch(
        f"{NEWER}/localqueues", "users", namespace, body={"spec": {"clusterQueue": "one"}}
    )

    assert changed["spec"]["clusterQueue"] == "one"


def test_a_flavor_with_a_topology_stays(api: Api, unique: Callable[[Object], Object]) -> None:
    plain = unique(of("ResourceFlavor", {"nodeLabels": {"a": "b"}}))["metadata"]["name"]
    plural = f"{NEWER}/resourceflavors"

    api.patch(plural, plain, body={"spec": {"nodeLabels": {"a": "c"}, "topologyName": "racks"}})
    for change in ({"nodeLabels": {"a": "d"}}, {"topologyName": "rows"}, {"topologyName": None}):
        with pytest.raises(ApiError, match="with a topology cannot be changed"):
            api.patch(plural, plain, body={"spec": change})


def reported(kind: str, status: str = "True") -> Object:
    return condition(kind, status, reason=kind)


def assignment(name: str = "main", count: int = 3) -> Object:
    return {"name": name, "flavors": {"cpu": "spot"}, "resourceUsage": {"cpu": "3"}, "count": count}


def admission(*assignments: Object, cluster_queue: str = "all") -> Object:
    return {"clusterQueue": cluster_queue, "podSetAssignments": list(assignments)}


def hosts(name: str) -> Object:
    """Return a topologyAssignment of three pods on one host."""
    return {
        "levels": ["kubernetes.io/hostname"],
        "slices": [
            {
                "domainCount": 1,
                "valuesPerLevel": [{"universal": name}],
                "podCounts": {"universal": 3},
            }
        ],
    }


RESERVED: Object = {
    "conditions": [reported("QuotaReserved")],
    "admission": admission(assignment()),
    "reclaimablePods": [{"name": "main", "count": 1}],
}
ADMITTED = {**RESERVED, "conditions": [reported("QuotaReserved"), reported("Admitted")]}
PENDING = {"reclaimablePods": [{"name": "main", "count": 1}]}
LATER = {"conditions": [reported("QuotaReserved", "False")], "admission": None}
OF_QUEUE = {"group": GROUP, "kind": "WorkloadPriorityClass", "name": "high"}
OF_PODS = {"group": "scheduling.k8s.io", "kind": "PriorityClass", "name": "high"}
SPEC = {"queueName": "users", "maximumExecutionTimeSeconds": 9, "priority": 1}


class Stored:
    """A workload on the API server, as far as it has come."""

    def __init__(self, api: Api, namespace: str, version: str) -> None:
        self._api, self._namespace, self._version = api, namespace, version
        self._plural = f"{version}/workloads"

    def create(self, status: Object, **spec: Any) -> None:
        made = {**workload(**{**SPEC, **spec}), "apiVersion": self._version}
        self._api.create({**made, "metadata": {"name": "one", "namespace": self._namespace}})
        self.status(status)

    def status(self, status: Object) -> Object:
        body = {"status": status}
        return self._api.patch(
            self._plural, "one", self._namespace, body=body, subresource="status"
        )

    def spec(self, spec: Object) -> Object:
        return self.whole({"spec": spec})

    def whole(self, change: Object) -> Object:
        return self._api.patch(self._plural, "one", self._namespace, body=change)


@pytest.fixture
def stored(api: Api, namespace: str) -> Stored:
    return Stored(api, namespace, NEWER)


@pytest.fixture
def older(api: Api, namespace: str) -> Stored:
    return Stored(api, namespace, ALONE)


MORE_PODS = {"podSets": [pod_set(count=4)]}
OTHER_TEMPLATE = {
    "podSets": [
        {
            **pod_set(),
            "template": {
                "spec": {
                    "containers": [
                        {"name": "main", "image": "b", "resources": {"requests": {"cpu": "1"}}}
                    ]
                }
            },
        }
    ]
}
OF_AN_INIT_CONTAINER = {
    "spec": {
        "initContainers": [{"name": "first", "resources": {"limits": {"pods": 1}}}],
        "containers": [{"name": "main"}],
    }
}
WANT_SPEC_REFUSED: dict[str, tuple[Object, Object, Object, str]] = {
    "more pods": (RESERVED, {}, MORE_PODS, "podSets cannot be changed"),
    "other pods": (RESERVED, {}, OTHER_TEMPLATE, "podSets cannot be changed"),
    "another queue": (RESERVED, {}, {"queueName": "b"}, "queueName cannot be changed"),
    "no queue": (RESERVED, {}, {"queueName": None}, "queueName cannot be changed"),
    "more time": (
        ADMITTED,
        {},
        {"maximumExecutionTimeSeconds": 10},
        "maximumExecutionTimeSeconds cannot be changed",
    ),
    "a class comes": (RESERVED, {}, {"priorityClassRef": OF_QUEUE}, "cannot come or go"),
    "a class goes": (
        RESERVED,
        {"priorityClassRef": OF_QUEUE},
        {"priorityClassRef": None},
        "cannot come or go",
    ),
    "a class of another kind": (
        RESERVED,
        {"priorityClassRef": OF_QUEUE},
        {"priorityClassRef": OF_PODS},
        "group and kind of priorityClassRef",
    ),
    "another class of pods": (
        RESERVED,
        {"priorityClassRef": OF_PODS},
        {"priorityClassRef": {"name": "low"}},
        "another PriorityClass cannot be named",
    ),
    "two sets that could be smaller": (
        PENDING,
        {},
        {"podSets": [pod_set("a", minCount=1), pod_set("b", minCount=1)]},
        "only one pod set has a minCount",
    ),
    "more pods are enough than there are": (
        PENDING,
        {},
        {"podSets": [pod_set(minCount=4)]},
        "minCount is at most count",
    ),
    "the resource pods is asked for": (
        PENDING,
        {},
        container_with(requests={"pods": 1})["spec"],
        "counted by itself",
    ),
    "the resource pods is asked for first": (
        PENDING,
        {},
        {"podSets": [pod_set(template=OF_AN_INIT_CONTAINER)]},
        "counted by itself",
    ),
    "the priority of a class goes": (
        PENDING,
        {"priorityClassRef": OF_QUEUE},
        {"priority": None},
        "with priorityClassRef there is a priority",
    ),
}


@pytest.mark.parametrize(
    ("status", "spec", "change", "want"), WANT_SPEC_REFUSED.values(), ids=WANT_SPEC_REFUSED
)
def test_what_quota_was_given_for_stays(
    stored: Stored, status: Object, spec: Object, change: Object, want: str
) -> None:
    stored.create(status, **spec)

    with pytest.raises(ApiError, match=want) as refused:
        stored.spec(change)
    assert refused.value.status == 422


def test_a_status_in_a_write_of_the_spec_hides_nothing(stored: Stored) -> None:
    """The rules of the spec are left out where the status changes: here it cannot."""
    stored.create(RESERVED)

    with pytest.raises(ApiError, match="podSets cannot be changed") as refused:
        stored.whole({"spec": MORE_PODS, "status": LATER})
    assert refused.value.status == 422


WRONG_SETS = [pod_set("a", minCount=1), pod_set("b", 1, minCount=2)]


def test_a_workload_that_is_older_than_the_rules_goes_on(api: Api, namespace: str) -> None:
    group = "lenient.example.com"
    strict = of_group(group, "workloads", "v1beta2")
    lenient = deepcopy(strict)
    whole = lenient["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    del whole["x-kubernetes-validations"]
    api.apply([lenient])
    stored = Stored(api, namespace, f"{group}/v1beta2")
    stored.create({}, podSets=WRONG_SETS)
    api.apply([strict])
    another = {**workload(*WRONG_SETS), "apiVersion": f"{group}/v1beta2"}
    api.wait_for("the rules hold", lambda: not is_taken(api, another))

    assignments = [assignment("a"), assignment("b", 1)]
    stored.status({**ADMITTED, "admission": admission(*assignments), "reclaimablePods": None})
    stored.spec({"active": False})
    stored.whole({"metadata": {"labels": {"a": "b"}}})
    with pytest.raises(ApiError, match="podSets cannot be changed"):
        stored.spec({"podSets": [pod_set("a", minCount=2), WRONG_SETS[1]]})
    api.delete("apiextensions.k8s.io/v1/customresourcedefinitions", strict["metadata"]["name"])


def is_taken(api: Api, each: Object) -> bool:
    try:
        api.tried(each)
    except ApiError as error:
        if error.status == 422:
            return False
        raise
    return True


WANT_SPEC_TAKEN: dict[str, tuple[Object, Object, Object]] = {
    "more pods while it waits": (PENDING, {}, MORE_PODS),
    "other pods while it waits": (PENDING, {}, OTHER_TEMPLATE),
    "another queue while it waits": (PENDING, {}, {"queueName": "b"}),
    "a class comes while it waits": (PENDING, {}, {"priorityClassRef": OF_QUEUE}),
    "a class of another kind while it waits": (
        PENDING,
        {"priorityClassRef": OF_QUEUE},
        {"priorityClassRef": OF_PODS},
    ),
    "another class of the queue": (
        RESERVED,
        {"priorityClassRef": OF_QUEUE},
        {"priorityClassRef": {"name": "low"}, "priority": -1},
    ),
    "more time before it is admitted": (RESERVED, {}, {"maximumExecutionTimeSeconds": 10}),
    "another priority": (ADMITTED, {}, {"priority": 5}),
    "it is deactivated": (ADMITTED, {}, {"active": False}),
    "the same pods": (ADMITTED, {}, {"podSets": [pod_set()]}),
}


@pytest.mark.parametrize(
    ("status", "spec", "change"), WANT_SPEC_TAKEN.values(), ids=WANT_SPEC_TAKEN
)
def test_everything_else_of_a_workload_may_change(
    stored: Stored, status: Object, spec: Object, change: Object
) -> None:
    stored.create(status, **spec)

    stored.spec(change)


WANT_STATUS_REFUSED: dict[str, tuple[Object, Object, str]] = {
    "another queue": (
        RESERVED,
        {"admission": admission(assignment(), cluster_queue="b")},
        "set or cleared, but not edited",
    ),
    "other flavors": (
        RESERVED,
        {"admission": admission({**assignment(), "flavors": {"cpu": "b"}})},
        "set or cleared, but not edited",
    ),
    "no domains for pods that had some": (
        {**RESERVED, "admission": admission({**assignment(), "topologyAssignment": hosts("a")})},
        {"admission": admission(assignment())},
        "set or cleared, but not edited",
    ),
    "other domains and another count": (
        {**RESERVED, "admission": admission({**assignment(), "topologyAssignment": hosts("a")})},
        {"admission": admission({**assignment(count=2), "topologyAssignment": hosts("b")})},
        "set or cleared, but not edited",
    ),
    "quota without an admission": (
        {},
        {"conditions": [reported("QuotaReserved")]},
        "QuotaReserved needs status.admission",
    ),
    "the admission goes and the quota stays": (
        RESERVED,
        {"admission": None},
        "QuotaReserved needs status.admission",
    ),
    "an admission of nothing": (
        {},
        {**RESERVED, "admission": admission()},
        "admission is for each of the pod sets",
    ),
    "an admission for something else": (
        {},
        {**RESERVED, "admission": admission(assignment("other"))},
        "admission is for each of the pod sets",
    ),
    "an admission for something more": (
        {},
        {**RESERVED, "admission": admission(assignment(), assignment("other"))},
        "admission is for each of the pod sets",
    ),
    "pods of no set": (
        {},
        {"reclaimablePods": [{"name": "other", "count": 1}]},
        "reclaimablePods are of pod sets",
    ),
    "more pods than there are": (
        {},
        {"reclaimablePods": [{"name": "main", "count": 4}]},
        "reclaimablePods are of pod sets",
    ),
    "fewer pods": (
        RESERVED,
        {"reclaimablePods": [{"name": "main", "count": 0}]},
        "reclaimablePods cannot become fewer",
    ),
    "no pods": (RESERVED, {"reclaimablePods": None}, "reclaimablePods cannot become fewer"),
    "none of the pods": (RESERVED, {"reclaimablePods": []}, "reclaimablePods cannot become fewer"),
    "another cluster": (
        {"clusterName": "a"},
        {"clusterName": "b"},
        "clusterName cannot be changed",
    ),
    "a cluster that is still asked for": (
        {},
        {"clusterName": "a", "nominatedClusterNames": ["a"]},
        "exclude each other",
    ),
    "two conditions of one type": (
        {},
        {"conditions": [reported("Finished"), reported("Finished", "False")]},
        "Duplicate value",
    ),
    "too many conditions": (
        {},
        {"conditions": [reported(f"C{n}") for n in range(17)]},
        "at most 16",
    ),
}


@pytest.mark.parametrize(
    ("status", "change", "want"), WANT_STATUS_REFUSED.values(), ids=WANT_STATUS_REFUSED
)
def test_a_wrong_status_is_refused(
    stored: Stored, status: Object, change: Object, want: str
) -> None:
    stored.create(status)

    with pytest.raises(ApiError, match=want) as refused:
        stored.status(change)
    assert refused.value.status == 422


def test_a_workload_goes_through_its_life(stored: Stored) -> None:
    """Every step that the reconciler takes is one that the rules allow."""
    stored.create({"conditions": [reported("QuotaReserved", "False")]})
    stored.status({**ADMITTED, "reclaimablePods": None})
    stored.status({"reclaimablePods": [{"name": "main", "count": 1}]})
    stored.status({"reclaimablePods": [{"name": "main", "count": 3}]})
    evictions = [{"reason": "Preempted", "underlyingCause": "", "count": 1}]
    stats = {"schedulingStats": {"evictions": evictions}}
    stored.status({**LATER, **stats, "accumulatedPastExecutionTimeSeconds": 4})
    stored.status(
        {
            "reclaimablePods": None,
            "requeueState": {"count": 1, "requeueAt": SINCE},
            "resourceRequests": [{"name": "main", "resources": {"cpu": "3"}}],
        }
    )
    stored.spec({"queueName": "others", **MORE_PODS})
    again = admission(assignment(count=4), cluster_queue="b")
    ended = stored.status({**ADMITTED, "admission": again, "requeueState": None})
    stored.status({"conditions": [*ended["status"]["conditions"], reported("Finished")]})


def test_the_domains_of_an_admission_may_come_later_and_change(stored: Stored) -> None:
    one, other = (
        admission({**assignment(), "topologyAssignment": hosts(host)}) for host in ("a", "b")
    )
    stored.create(RESERVED)
    assert stored.status({**ADMITTED, "admission": one})["status"]["admission"] == one
    assert stored.status({"admission": other})["status"]["admission"] == other


def test_a_writer_owns_a_condition_as_a_whole_and_no_other(
    api: Api, namespace: str, stored: Stored
) -> None:
    stored.create({})

    for each in ("First", "Second"):
        api.request(
            "PATCH",
            f"/apis/{NEWER}/namespaces/{namespace}/workloads/one/status",
            body={**of("Workload"), "status": {"conditions": [reported(each)]}},
            params={"fieldManager": each},
            content_type="application/apply-patch+yaml",
        )
    answer = api.get(f"{NEWER}/workloads", "one", namespace)

    assert {each["type"] for each in answer["status"]["conditions"]} == {"First", "Second"}
    assert {
        each["manager"]: each["fieldsV1"]
        for each in answer["metadata"]["managedFields"]
        if each["operation"] == "Apply"
    } == {
        each: {"f:status": {"f:conditions": {f'k:{{"type":"{each}"}}': {}}}}
        for each in ("First", "Second")
    }


def test_the_fields_of_what_is_written_as_a_whole_have_no_owners(
    api: Api, namespace: str, stored: Stored
) -> None:
    stored.create(ADMITTED)

    found = api.get(f"{NEWER}/workloads", "one", namespace)["metadata"]["managedFields"]
    owned = {
        "f:spec" if "f:spec" in each["fieldsV1"] else "f:status": each["fieldsV1"] for each in found
    }

    assert owned["f:status"]["f:status"]["f:admission"] == {}
    [pod_sets] = [v for k, v in owned["f:spec"]["f:spec"]["f:podSets"].items() if k != "."]
    assert pod_sets["f:template"] == {}


OLDER_OF_QUEUE = {
    "priorityClassName": "high",
    "priorityClassSource": "kueue.x-k8s.io/workloadpriorityclass",
}
OLDER_OF_PODS = {
    "priorityClassName": "high",
    "priorityClassSource": "scheduling.k8s.io/priorityclass",
}


def test_the_older_version_has_the_same_rules(older: Stored) -> None:
    older.create(ADMITTED, **OLDER_OF_QUEUE)

    of_spec: tuple[tuple[Object, str], ...] = (
        (MORE_PODS, "podSets cannot be changed"),
        ({"queueName": "b"}, "queueName cannot be changed"),
        ({"maximumExecutionTimeSeconds": 10}, "maximumExecutionTimeSeconds cannot be changed"),
        ({"priorityClassSource": ""}, "priorityClassSource cannot be changed"),
        (OLDER_OF_PODS, "priorityClassSource cannot be changed"),
    )
    of_status: tuple[tuple[Object, str], ...] = (
        ({"admission": None}, "QuotaReserved needs status.admission"),
        ({"admission": {"clusterQueue": "b"}}, "set or cleared, but not edited"),
        ({"reclaimablePods": []}, "reclaimablePods cannot become fewer"),
    )
    for change, want in of_spec:
        with pytest.raises(ApiError, match=want):
            older.spec(change)
    for change, want in of_status:
        with pytest.raises(ApiError, match=want):
            older.status(change)
    older.spec({"priorityClassName": "low", "priority": 0})
    older.status({**LATER, "accumulatedPastExexcutionTimeSeconds": 3})


def test_the_older_version_keeps_the_class_of_pods(older: Stored) -> None:
    older.create(RESERVED, **OLDER_OF_PODS)

    with pytest.raises(ApiError, match="another PriorityClass cannot be named"):
        older.spec({"priorityClassName": "low"})


def table(api: Api, path: str) -> tuple[list[tuple[str, int]], dict[str, Any]]:
    """Return the columns of a list with their priorities, and the cells of its only row."""
    answer = api._http.get(
        f"/apis/{NEWER}/{path}", headers={"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    ).json()
    columns = [(each["name"], each["priority"]) for each in answer["columnDefinitions"]]
    [row] = answer["rows"]
    return columns, dict(zip((name for name, _ in columns), row["cells"], strict=True))


def test_the_columns_of_a_cluster_queue(api: Api, unique: Callable[[Object], Object]) -> None:
    name = unique(queue(cohortName="team"))["metadata"]["name"]
    status = {"pendingWorkloads": 2, "reservingWorkloads": 4, "admittedWorkloads": 3}
    api.patch(f"{NEWER}/clusterqueues", name, body={"status": status}, subresource="status")

    columns, shown = table(api, f"clusterqueues?fieldSelector=metadata.name={name}")

    assert columns == [
        ("Name", 0),
        ("Cohort", 0),
        ("Strategy", 1),
        ("Pending Workloads", 0),
        ("Admitted Workloads", 1),
    ]
    assert shown == {
        "Name": name,
        "Cohort": "team",
        "Strategy": "BestEffortFIFO",
        "Pending Workloads": 2,
        "Admitted Workloads": 3,
    }


def test_the_columns_of_a_local_queue(api: Api, namespace: str) -> None:
    local = of("LocalQueue", {"clusterQueue": "all"})
    api.create({**local, "metadata": {"name": "users", "namespace": namespace}})
    status = {"pendingWorkloads": 2, "admittedWorkloads": 0}
    plural = f"{NEWER}/localqueues"
    api.patch(plural, "users", namespace, body={"status": status}, subresource="status")

    columns, shown = table(api, f"namespaces/{namespace}/localqueues")

    assert {priority for _, priority in columns} == {0}
    assert shown == {
        "Name": "users",
        "ClusterQueue": "all",
        "Pending Workloads": 2,
        "Admitted Workloads": 0,
    }


def test_the_columns_of_a_workload(api: Api, namespace: str, stored: Stored) -> None:
    stored.create(
        {**ADMITTED, "conditions": [*ADMITTED["conditions"], reported("Finished", "False")]}
    )

    columns, shown = table(api, f"namespaces/{namespace}/workloads")

    assert [name for name, priority in columns if priority] == ["Reason"]
    assert shown.pop("Age")
    assert shown == {
        "Name": "one",
        "Queue": "users",
        "Reserved in": "all",
        "Admitted": "True",
        "Finished": "False",
        "Reason": "QuotaReserved",
    }


def test_the_columns_of_a_priority_class(api: Api) -> None:
    name = f"test-{uuid4().hex[:8]}"
    api.create({**of("WorkloadPriorityClass", value=7), "metadata": {"name": name}})

    _, shown = table(api, f"workloadpriorityclasses?fieldSelector=metadata.name={name}")
    api.delete(f"{NEWER}/workloadpriorityclasses", name)

    assert shown == {"Name": name, "Value": 7}


def test_workloads_are_selected_by_the_queue_that_admitted_them(
    api: Api, namespace: str, stored: Stored
) -> None:
    stored.create(ADMITTED)
    api.create({**workload(), "metadata": {"name": "two", "namespace": namespace}})

    def found(selector: str) -> set[str]:
        listed = api.list(f"{NEWER}/workloads", namespace, fields=selector)
        return {each["metadata"]["name"] for each in listed}

    assert found("status.admission.clusterQueue=all") == {"one"}
    assert found("status.admission.clusterQueue!=all") == {"two"}
    assert found("status.admission.clusterQueue=other") == set()


def test_kinds_that_say_the_same_in_both_versions_are_served_in_both_by_the_api_server_alone(
    api: Api, unique: Callable[[Object], Object]
) -> None:
    labels = {"nodeLabels": {"a": "b"}}
    name = unique(of("ResourceFlavor", labels, OLDER))["metadata"]["name"]

    for version in (NEWER, OLDER):
        stored = api.get(f"{version}/resourceflavors", name)
        assert (stored["apiVersion"], stored["spec"]) == (version, labels)


WANT_NAMES = {
    "admissionchecks": (False, {"ac"}),
    "clusterqueues": (False, {"cq"}),
    "cohorts": (False, {"co"}),
    "localqueues": (True, {"queue", "queues", "lq"}),
    "provisioningrequestconfigs": (False, {"prc"}),
    "resourceflavors": (False, {"flavor", "flavors", "rf"}),
    "topologies": (False, {"topo"}),
    "workloadpriorityclasses": (False, {"wpc"}),
    "workloads": (True, {"kwl", "kueueworkload", "kueueworkloads"}),
}


def test_the_kinds_are_found_by_their_names(api: Api) -> None:
    resources = api.request("GET", f"/apis/{NEWER}").json()["resources"]

    assert {
        each["name"]: (each["namespaced"], set(each.get("shortNames", ())))
        for each in resources
        if "/" not in each["name"]
    } == WANT_NAMES


def test_the_newer_version_is_preferred_and_stored_and_the_older_one_deprecated(api: Api) -> None:
    group = api.request("GET", f"/apis/{GROUP}").json()

    assert group["preferredVersion"]["version"] == "v1beta2"
    for plural in WANT_NAMES:
        definition = api.get(
            "apiextensions.k8s.io/v1/customresourcedefinitions", f"{plural}.{GROUP}"
        )
        versions = {each["name"]: each for each in definition["spec"]["versions"]}
        assert {name: each["storage"] for name, each in versions.items()} == {
            "v1beta2": True,
            "v1beta1": False,
        }
        assert "deprecated" not in versions["v1beta2"]
        assert "v1beta2" in versions["v1beta1"]["deprecationWarning"]


WANT_SAMPLES = {
    "cohort.yaml": {"borrower", "owner"},
    "fixed-size-cluster.yaml": {"left", "right"},
    "gpu-queue.yaml": {"train-on-gpus"},
    "indexed-job.yaml": {"ring"},
    "kueue.x-k8s.io_v1beta1.yaml": {"older"},
    "priority-classes.yaml": {"nightly", "urgent"},
    "queued-gang.yaml": {"train"},
    "single-clusterqueue.yaml": {"first", "second"},
}


def test_every_sample_of_the_queue_is_looked_at() -> None:
    samples = (MANIFESTS / "samples").glob("*.yaml")

    assert {each.name for each in samples if f"{GROUP}/" in each.read_text()} == set(WANT_SAMPLES)


@pytest.mark.parametrize(("name", "jobs"), WANT_SAMPLES.items(), ids=WANT_SAMPLES)
def test_a_sample_is_taken_and_its_parts_are_there(api: Api, name: str, jobs: set[str]) -> None:
    objects = list(yaml.safe_load_all((MANIFESTS / "samples" / name).read_text()))
    names: dict[str, set[str]] = {}
    for each in objects:
        # Without its webhook the API server cannot store the older version.
        api.tried(convert(each, NEWER) if each["apiVersion"] == OLDER else each)
        names.setdefault(each["kind"], set()).add(each["metadata"]["name"])

    assert names["Job"] == jobs
    for kind, referred in references(objects):
        assert referred in names[kind]


def references(objects: list[Object]) -> Iterator[tuple[str, str]]:
    """Yield the kind and the name of everything that one object of a sample says of another."""
    for each in objects:
        labels, spec = each["metadata"].get("labels", {}), each.get("spec", {})
        match each["kind"]:
            case "Job":
                assert spec["suspend"] is True
                yield "LocalQueue", labels[f"{GROUP}/queue-name"]
                if f"{GROUP}/priority-class" in labels:
                    yield "WorkloadPriorityClass", labels[f"{GROUP}/priority-class"]
            case "LocalQueue":
                yield "ClusterQueue", spec["clusterQueue"]
            case "ClusterQueue":
                for group in spec["resourceGroups"]:
                    yield from (("ResourceFlavor", each["name"]) for each in group["flavors"])
            case _:
                pass
