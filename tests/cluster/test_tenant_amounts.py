"""Absurd amounts in every kind of object that a tenant may queue: what becomes of each of them.

The API server looks into Jobs and pods and refuses much; of the kinds that operators bring it takes
everything. What it takes is counted rightly, or waits forever, or is set aside with an Event. No
quota ever becomes negative, and others start as if nothing were there.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import httpx
import pytest

from extender.resources.quantity import parse
from tests.cluster.queues import API, QUEUE, WORKLOADS, Queues, condition
from tests.cluster.tenants import Others, Tenant
from tests.harness import kinds, objects
from tests.harness.client import Api, ApiError, Object
from tests.harness.kinds import CRDS
from tests.harness.reconciler import Reconciler
from tests.tiers import long_but_for

QUEUES = f"{API}/clusterqueues"
GATE = "kueue.x-k8s.io/admission"
GROUP = "kueue.x-k8s.io/pod-group-name"
TOTAL = "kueue.x-k8s.io/pod-group-total-count"

BELOW_ZERO = ("-1", "-9e18", "-1n")
UNREADABLE = ("lots", "NaN", "")
ENDLESS = ("1e1000", "9" * 400)
"""The API server takes these for quantities."""
HUGE = ("9e18", "1e30")
TINY: Mapping[Any, str] = {"1n": "1m", "0": "0", 0.001: "1m"}
"""And what one pod then has of the quota."""
PLACES = ("requests", "limits", "overhead", "pod")
COUNTS = (-1, -(2**31), 2**31 - 1, 2**31, 2**62)

Spec = dict[str, Any]


def specs(found: Any) -> Iterator[Spec]:
    """Yield the specs of all pods that an object is about."""
    if isinstance(found, dict):
        if "containers" in found:
            yield found
        for each in found.values():
            yield from specs(each)
    elif isinstance(found, list):
        for each in found:
            yield from specs(each)


def put_amount(body: Object, place: str, amount: Any) -> None:
    """Have all pods of an object say an amount of CPU at one place."""
    said = {"cpu": amount}
    for spec in specs(body):
        resources: dict[str, Any] = {"requests": {"cpu": "0", "memory": "1Mi"}}
        match place:
            case "requests":
                resources["requests"] |= said
            case "limits":
                resources = {"limits": said}
            case "overhead":
                spec["overhead"] = said
            case _:
                resources = {}
                spec["resources"] = {"requests": said}
        for container in spec["containers"]:
            container["resources"] = resources


def put_count(body: Any, count: int) -> None:
    """Have an object want so many pods."""
    if isinstance(body, list):
        for each in body:
            put_count(each, count)
    if not isinstance(body, dict):
        return
    for name, each in body.items():
        if name in {"replicas", "parallelism", "completions", "numOfHosts", TOTAL, "count"}:
            body[name] = str(count) if name == TOTAL else count
        else:
            put_count(each, count)


# -- kinds


def of_kind(source: Object) -> Callable[[str], list[Object]]:
    def make(name: str) -> list[Object]:
        body = deepcopy(source)
        body["metadata"] = {"name": name, "labels": {QUEUE: "queue"}}
        return [body]

    return make


def a_job(name: str) -> list[Object]:
    body = objects.job(name, queue="queue", suspend=True, run_for="1h")
    del body["metadata"]["namespace"]
    return [body]


def a_pod(name: str) -> list[Object]:
    labels = {QUEUE: "queue", "kueue.x-k8s.io/managed": "true"}
    return [objects.pod(name, labels=labels, gates=[GATE], run_for="1h")]


def a_group(name: str) -> list[Object]:
    made = []
    for number in range(2):
        [body] = a_pod(f"{name}-{number}")
        body["metadata"]["labels"][GROUP] = name
        body["metadata"]["annotations"][TOTAL] = "2"
        made.append(body)
    return made


def a_workload(name: str) -> list[Object]:
    pod_set = {"name": "main", "count": 1, "template": kinds.template(restartPolicy="Never")}
    spec = {"queueName": "queue", "podSets": [pod_set]}
    return [{"apiVersion": API, "kind": "Workload", "metadata": {"name": name}, "spec": spec}]


KINDS: Mapping[str, Callable[[str], list[Object]]] = {
    "Job": a_job,
    "Pod": a_pod,
    "PodGroup": a_group,
    "Workload": a_workload,
    "JobSet": of_kind(kinds.jobset()),
    "MPIJob": of_kind(kinds.mpijob()),
    "PyTorchJob": of_kind(kinds.pytorchjob()),
    "TFJob": of_kind(kinds.tfjob()),
    "XGBoostJob": of_kind(kinds.xgboostjob()),
    "RayJob": of_kind(kinds.rayjob()),
}
TYPED = ("Job", "Pod", "PodGroup")
"""Kinds into which the API server looks itself."""


# -- what became of them


@dataclass
class Trial:
    """The odd objects of one kind: what each of them is about, and whether it was taken."""

    tenant: Tenant
    kind: str
    taken: dict[str, tuple[str, Any]] = field(default_factory=dict)
    refused: dict[str, tuple[str, Any]] = field(default_factory=dict)

    @property
    def incomplete(self) -> set[str]:
        """Groups of which most pods are not there: nothing is said of them before they come."""
        odd = {n for n, about in self.taken.items() if about[0] == "count" and about[1] > 0}
        return odd if self.kind == "PodGroup" else set()

    def send(self, name: str, about: tuple[str, Any], bodies: list[Object]) -> None:
        """Create an object as the tenant."""
        for body in bodies:
            body["metadata"]["namespace"] = self.tenant.namespace
        try:
            self.tenant.api.create(*bodies)
        except ApiError as error:
            if error.status not in {400, 403, 422}:
                raise
            self.refused[name] = about
        else:
            self.taken[name] = about

    def workloads(self) -> dict[str, Object]:
        """Return the workloads, by the name of what they are for."""
        found = {}
        for each in self.tenant.api.list(WORKLOADS, self.tenant.namespace):
            meta = each["metadata"]
            owners = [owner["name"] for owner in meta.get("ownerReferences", [])]
            single = len(owners) == 1 and self.kind != "PodGroup"
            found[owners[0] if single else meta["name"]] = each
        return found

    def outcomes(self) -> dict[str, str]:
        """Return what is known of each: its quota, or the reason for which it has none."""
        said: dict[str, str] = {}
        for event in self.tenant.api.list("events.k8s.io/v1/events", self.tenant.namespace):
            if event.get("type") == "Warning":
                name = event["regarding"]["name"]
                said[name.removesuffix("-0") if self.kind == "PodGroup" else name] = event["reason"]
        for name, each in self.workloads().items():
            quota = condition(each, "QuotaReserved")
            if quota.get("status") == "True":
                said[name] = "Reserved"
            elif quota:
                said[name] = quota["reason"]
        return said

    def await_outcomes(self, fit: Collection[Any]) -> dict[str, str]:
        """Return the outcomes, once each object has the right one: quota where its amount fits.

        One that fits may first wait for other reasons, as long as its queue has not been read.
        """
        last: dict[str, str] = {}

        def wrong() -> dict[tuple[str, Any], str | None]:
            last.clear()
            last.update(self.outcomes())
            return {
                about: last.get(name)
                for name, about in self.taken.items()
                if (last.get(name) == "Reserved") != (about[1] in fit)
                or (name not in last and name not in self.incomplete)
            }

        try:
            self.tenant.api.wait_for("each has its outcome", lambda: not wrong(), 120)
        except AssertionError:
            raise AssertionError(f"of these it is another one: {wrong()}") from None
        return last


def errors(reconciler: Reconciler) -> list[str]:
    """Return the samples of unexpected errors."""
    page = httpx.get(f"{reconciler.url}/metrics", trust_env=False, timeout=60).text
    return [line for line in page.splitlines() if line.startswith("gang_extender_internal_errors_")]


def below_zero(reconciler: Reconciler) -> list[str]:
    """Return the samples of queues that are below zero."""
    page = httpx.get(f"{reconciler.url}/metrics", trust_env=False, timeout=60).text
    return [
        line
        for line in page.splitlines()
        if line.startswith("kueue_") and line.rpartition(" ")[2].startswith("-")
    ]


def held(api: Api, queue: str) -> Decimal:
    """Return the CPU that a ClusterQueue says is reserved; nothing that it says is negative."""
    status = api.get(QUEUES, queue).get("status", {})
    amounts = [
        (table, each)
        for table in ("flavorsReservation", "flavorsUsage")
        for flavor in status.get(table, [])
        for each in flavor["resources"]
    ]
    for _, each in amounts:
        assert min(parse(each[name]) for name in ("total", "borrowed") if name in each) >= 0, each
    cpu = (parse(e["total"]) for t, e in amounts if (t, e["name"]) == ("flavorsReservation", "cpu"))
    return sum(cpu, Decimal(0))


def pods_of(workload: Object) -> int:
    return sum(int(pod_set["count"]) for pod_set in workload["spec"]["podSets"])


def usage(workload: Object) -> Decimal:
    """Return the CPU that a workload has quota for."""
    given = workload["status"]["admission"]["podSetAssignments"]
    return sum((parse(each["resourceUsage"].get("cpu", "0")) for each in given), Decimal(0))


@pytest.mark.usefixtures("gang")
@pytest.mark.parametrize("kind", long_but_for(KINDS, "Job", "JobSet"))
def test_absurd_amounts_concern_their_tenant_alone(
    api: Api, reconciler: Reconciler, tenant: Tenant, others: Others, queues: Queues, kind: str
) -> None:
    api.apply(CRDS)
    # They could borrow from a queue that is not in use.
    cohort = queues.name("cohort")
    queue = queues.cluster_queue("tenant", cpu=1, cohortName=cohort)
    queues.cluster_queue("lender", cpu=1, cohortName=cohort)
    tenant.queues.local_queue("queue", queue)
    before, trial = errors(reconciler), Trial(tenant, kind)
    amounts = (*BELOW_ZERO, *UNREADABLE, *ENDLESS, *HUGE, *TINY)
    for place in PLACES:
        for number, amount in enumerate(amounts):
            name = f"{place}-{number}"
            bodies = KINDS[kind](name)
            put_amount({"all": bodies}, place, amount)
            trial.send(name, (place, amount), bodies)
    for number, count in enumerate(COUNTS if kind != "Pod" else ()):
        bodies = KINDS[kind](f"count-{number}")
        put_amount({"all": bodies}, "requests", "1m")
        put_count(bodies, count)
        trial.send(f"count-{number}", ("count", count), bodies)
    for name in trial.taken if kind == "MPIJob" else ():  # it is queued when its operator knows it
        noticed = {"status": {"conditions": [{"type": "Suspended", "status": "True"}]}}
        mpi = "kubeflow.org/v2beta1/mpijobs"
        api.patch(mpi, name, tenant.namespace, body=noticed, subresource="status")

    found = trial.await_outcomes(TINY)
    if kind in TYPED:
        odd = {*BELOW_ZERO, *UNREADABLE, *(COUNTS[:2] if kind == "Job" else ())}
        assert not [about for about in trial.taken.values() if about[1] in odd]

    workloads = trial.workloads().items()
    reserved = {name: each for name, each in workloads if found.get(name) == "Reserved"}
    for name, each in reserved.items():
        assert usage(each) == pods_of(each) * parse(TINY[trial.taken[name][1]]), (name, each)
    total = sum(map(usage, reserved.values()))
    api.wait_for("the queue counts what they have", lambda: held(api, queue) == total)
    assert below_zero(reconciler) == []
    assert errors(reconciler) == before
    others.start()
