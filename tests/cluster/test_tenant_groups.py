"""Absurd PodGroups, and everything that a tenant can say on its objects of both API groups.

What the API server refuses is listed here too: a CRD that takes more has to be looked at again.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest

from extender.api.wellknown import JOB_OVERRIDES
from tests.cluster.gangs import Gangs
from tests.cluster.queues import API
from tests.cluster.tenants import Others, Tenant, bind
from tests.harness import kinds, objects
from tests.harness.client import Api, ApiError, Object
from tests.harness.gang_scheduler import GangScheduler
from tests.harness.reconciler import Reconciler
from tests.tiers import LONG, long_but_for

VERSIONS = ("scheduling.x-k8s.io/v1alpha1", "scheduling.sigs.k8s.io/v1alpha1")
LABELS = {
    VERSIONS[0]: "scheduling.x-k8s.io/pod-group",
    VERSIONS[1]: "pod-group.scheduling.sigs.k8s.io",
}
SOURCES = Path(__file__).parents[2] / "extender"
FAR = 2**31 - 1

TAKEN: Mapping[str, Object] = {
    "many": {"minMember": FAR},
    "long": {"minMember": 1, "scheduleTimeoutSeconds": FAR},
    "much": {"minMember": 2, "minResources": {"cpu": "9" * 15, "memory": "8Ei"}},
    "little": {"minMember": 2, "minResources": {"cpu": "1n", "memory": "1e-9"}},
    "unknown": {"minMember": 2, "minResources": {"example.com/none": "1", "": "1", "a b": "1"}},
    "more": {"minMember": 2, "other": {"deep": [{"a": 1}]}},
    "no-time": {"minMember": 1, "scheduleTimeoutSeconds": 0},
    "missing": {},
    "less-time": {"minMember": 1, "scheduleTimeoutSeconds": -1},
}
REFUSED: Mapping[str, Any] = {
    "none": {"minMember": 0},
    "fewer": {"minMember": -5},
    "beyond": {"minMember": 2**31},
    "far-beyond": {"minMember": 2**63},
    "fraction": {"minMember": 1.5},
    "word": {"minMember": "1"},
    "list": [],
    "more-time": {"minMember": 1, "scheduleTimeoutSeconds": 2**31},
    "unreadable": {"minMember": 2, "minResources": {"cpu": "lots"}},
    "deep": {"minMember": 2, "minResources": {"cpu": {"cpu": "1"}}},
    "word-of-all": {"minMember": 2, "minResources": "all"},
}
EITHER: Mapping[str, Object] = {
    "negative": {"minMember": 2, "minResources": {"cpu": "-1000000"}},
    "endless": {"minMember": 2, "minResources": {"cpu": "1e1000"}},
    "digits": {"minMember": 2, "minResources": {"cpu": "9" * 400}},
}
"""Versions of the API server differ in what a quantity is."""

SAID = (
    "",
    "-1",
    str(FAR),
    "9" * 400,
    "1e400",
    "NaN",
    "true",
    "{" * 2000,
    "../../etc",
    "\u202e\u0661",
)
LABELLED = ("", "9" * 63, "true", "1e400", "x.y-z")


def names() -> list[str]:
    """Return every annotation and label that the code knows, wherever it is written."""
    own = r'"((?:[a-z0-9-]+\.)*(?:x-k8s|sigs\.k8s|kubernetes)\.io/[a-z0-9][a-z0-9-]*)"'
    found = {
        name for path in SOURCES.rglob("*.py") for name in re.findall(own, path.read_text("utf-8"))
    }
    versions = {name for name in found if re.search(r"/v[0-9]+((alpha|beta)[0-9]+)?$", name)}
    others = {LABELS[VERSIONS[1]], JOB_OVERRIDES, "scheduling.x-k8s.io/granted-room"}
    return sorted(found - versions | others)


def test_the_names_are_those_that_the_code_reads() -> None:
    """The list is made from the sources, so that it may not silently become an empty one."""
    some = {
        "scheduling.x-k8s.io/done-pods",
        "scheduling.x-k8s.io/on-partial",
        "scheduling.x-k8s.io/pods-ready-timeout",
        "scheduling.x-k8s.io/priority-taken",
        "kueue.x-k8s.io/queue-name",
        "kueue.x-k8s.io/pod-group-total-count",
        "kueue.x-k8s.io/job-min-parallelism",
        "batch.kubernetes.io/job-completion-index",
    }
    assert some <= {*names()}
    assert len(names()) > 30


def errors(*urls: str) -> dict[str, list[str]]:
    """Return the samples of unexpected errors, by process."""
    return {url: samples(url, "gang_extender_internal_errors_") for url in urls}


def samples(url: str, name: str) -> list[str]:
    """Return the samples of a process whose names begin so.

    Where it breaks the connection off, the AssertionError says what it has counted of that.
    """
    try:
        page = httpx.get(f"{url}/metrics", trust_env=False, timeout=60).text
    except httpx.RemoteProtocolError as error:
        page = httpx.get(f"{url}/metrics", trust_env=False, timeout=60).text
        cut = [line for line in page.splitlines() if "closed_connections" in line]
        raise AssertionError(f"{url}: {error}", cut) from error
    return [line for line in page.splitlines() if line.startswith(name)]


@pytest.fixture
def _faultless(gang: GangScheduler, reconciler: Reconciler) -> Iterator[None]:
    """Nothing unexpected happens in either process."""
    before = errors(gang.url, reconciler.url)
    yield
    assert errors(gang.url, reconciler.url) == before


def group(namespace: str, name: str, spec: Any, version: str) -> Object:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": version, "kind": "PodGroup", "metadata": metadata, "spec": spec}


def sent(api: Api, *bodies: Object) -> list[bool]:
    """Return which objects the API server took."""
    taken = []
    for body in bodies:
        try:
            api.create(body)
        except ApiError as error:
            if error.status not in {400, 422}:
                raise
            taken.append(False)
        else:
            taken.append(True)
    return taken


@pytest.mark.usefixtures("_faultless")
@pytest.mark.parametrize("version", long_but_for(VERSIONS, VERSIONS[0]))
def test_absurd_groups_concern_their_tenant_alone(
    tenant: Tenant, others: Others, version: str
) -> None:
    def make(specs: Mapping[str, Any]) -> list[bool]:
        return sent(
            tenant.api, *(group(tenant.namespace, n, spec, version) for n, spec in specs.items())
        )

    assert dict(zip(TAKEN, make(TAKEN), strict=True)) == dict.fromkeys(TAKEN, True)
    assert dict(zip(REFUSED, make(REFUSED), strict=True)) == dict.fromkeys(REFUSED, False)
    make(EITHER)
    for name in (*TAKEN, *REFUSED, *EITHER):
        # Groups that do not exist have pods too.
        tenant.gangs.add(name, 2, cpu="1m", label=LABELS[version], run_for="1h")
    other = next(each for each in VERSIONS if each != version)
    tenant.api.create(
        # The same name in both API groups, and a name that no label can say.
        group(tenant.namespace, "many", {"minMember": 1}, other),
        group(tenant.namespace, "g" * 253, {"minMember": 1}, version),
        group(tenant.namespace, "end", {"minMember": 2}, version),
    )
    both = {LABELS[version]: "many", LABELS[other]: "long"}
    odd: Iterable[dict[str, Any]] = (
        {"labels": both},
        {"labels": {LABELS[other]: "end"}},
        {"labels": {LABELS[version]: ""}},
        {"labels": {LABELS[version]: "G" * 63}},
        {"labels": {LABELS[version]: "end"}, "node_name": "no-such-node"},
        {"labels": {LABELS[version]: "end"}, "priority_class": "system-node-critical"},
        {"labels": {LABELS[version]: "end"}, "scheduler_name": "none"},
        {"labels": {LABELS[version]: "end"}, "gates": ["scheduling.x-k8s.io/gang", "a.b/c"]},
    )
    for number, options in zip(count(), odd, strict=False):
        tenant.api.create(tenant.gangs.pod(f"odd-{number}", cpu="1m", run_for="1h", **options))
    others.gangs.await_seen()
    others.start()


def every(namespace: str) -> Iterator[Object]:
    """Yield one object of each kind that a tenant may write and that the code reads."""
    number = count()
    for version in VERSIONS:
        yield group(namespace, f"g-{next(number)}", {"minMember": 1}, version)
    yield objects.pod("p", "1m", namespace=namespace, run_for="1h")
    yield objects.pod("m", "1m", namespace=namespace, group="g-0", run_for="1h")
    gated = {"kueue.x-k8s.io/queue-name": "queue"}
    gates = ["kueue.x-k8s.io/admission", "scheduling.x-k8s.io/gang"]
    yield objects.pod("q", "1m", namespace=namespace, labels=gated, gates=gates, run_for="1h")
    yield objects.job("j", cpu="1m", namespace=namespace, queue="queue", suspend=True, run_for="1h")
    pod_set = {"name": "main", "count": 1, "template": kinds.template("1m", restartPolicy="Never")}
    yield {
        "apiVersion": API,
        "kind": "Workload",
        "metadata": {"name": "w", "namespace": namespace},
        "spec": {"queueName": "queue", "podSets": [pod_set]},
    }
    yield {
        "apiVersion": API,
        "kind": "LocalQueue",
        "metadata": {"name": "l", "namespace": namespace},
        "spec": {"clusterQueue": "none"},
    }


@pytest.mark.usefixtures("_faultless")
def test_whatever_is_said_on_objects_concerns_their_tenant_alone(
    tenant: Tenant, others: Others
) -> None:
    """Every annotation and every label that the code reads, with absurd values, on every kind."""
    tenant.queues.local_queue("queue", others.queues.name("cq"))
    taken = []
    for number, (where, said) in enumerate(
        [
            *(("annotations", text) for text in SAID),
            *(("labels", text) for text in LABELLED),
        ]
    ):
        for body in every(tenant.namespace):
            body["metadata"]["name"] += f"-{number}"
            body["metadata"][where] = {
                **dict.fromkeys(names(), said),
                **body["metadata"].get(where, {}),
            }
            taken += sent(tenant.api, body)
    assert all(taken)
    others.gangs.await_seen()
    others.start()


@LONG
@pytest.mark.usefixtures("_faultless")
def test_a_group_of_many_pods_concerns_its_tenant_alone(tenant: Tenant, others: Others) -> None:
    """More pods than all nodes have places for, and half of them of another priority."""
    tenant.gangs.create("crowd", 250, min_member=500, cpu="1m")
    tenant.gangs.add("crowd", 250, start=250, cpu="1m", priority_class="system-cluster-critical")
    others.start(timeout=120)
    assert tenant.gangs.bound("crowd") == set()


def odd_statuses() -> list[Object]:
    """Return statuses of PodGroups that only a person with too many rights could write."""
    moment = "2026-01-01T00:00:00Z"

    def condition(kind: str, reason: str, message: str, status: str = "False") -> Object:
        said = {"type": kind, "status": status, "reason": reason, "message": message}
        return {"conditions": [{**said, "lastTransitionTime": moment}]}

    return [
        {"phase": "Finished", "scheduled": FAR, "running": FAR, "succeeded": FAR, "failed": FAR},
        {"phase": "Running", "scheduleStartTime": "0001-01-01T00:00:00Z", "occupiedBy": "x" * 5000},
        condition("Permitted", "WaitingForBind", "m" * 30000),
        condition("Permitted", "QuorumReached", "", "True"),
        condition("Scheduled", "Scheduled", "", "True"),
        condition("Partial", "Evicted", "", "True"),
    ]


@pytest.mark.usefixtures("_faultless")
@pytest.mark.parametrize("version", long_but_for(VERSIONS, VERSIONS[0]))
def test_a_status_is_not_the_tenants_to_write(
    api: Api, tenant: Tenant, others: Others, version: str
) -> None:
    """With the rights of `edit` none; with more than that, what it writes harms itself alone."""
    plural = f"{version}/podgroups"
    amounts = {name: {"cpu": "4"} for name in others.nodes}
    granted = {"grantedRoom": {"until": "2099-01-01T00:00:00Z", "nodes": amounts}}
    for number, status in enumerate([granted, *odd_statuses()]):
        body = group(tenant.namespace, f"g-{number}", {"minMember": 2}, version)
        stored = tenant.api.create({**body, "status": status})
        assert not stored.get("status")
        assert tenant.forbidden(plural, f"g-{number}", status)

    role = "tenant-writes-status"
    rule = {
        "apiGroups": ["scheduling.x-k8s.io", "scheduling.sigs.k8s.io"],
        "resources": ["podgroups/status"],
        "verbs": ["*"],
    }
    kind = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole"}
    api.apply({**kind, "metadata": {"name": role}, "rules": [rule]})
    api.create(bind(tenant.namespace, role))

    def may_write(number: int, status: Object) -> bool:
        return not tenant.forbidden(plural, f"g-{number}", status)

    for number, status in enumerate(odd_statuses(), 1):
        gangs: Gangs = tenant.gangs
        api.wait_for("it may write a status", partial(may_write, number, status))
        gangs.add(f"g-{number}", 2, cpu="1m", label=LABELS[version], run_for="1h")
    with pytest.raises(ApiError, match="only the reconciler writes it"):
        tenant.api.patch(
            plural, "g-0", tenant.namespace, body={"status": granted}, subresource="status"
        )
    others.gangs.await_seen()
    others.start()
