"""Which flavors pod sets get, as seen in what is admitted and in the reasons of the others."""

from typing import Any

import pytest

from extender.api.core_v1 import NodeSelectorTerm, Requirement, Toleration
from extender.api.queue_wire import FlavorFungibility
from extender.queueing.cycle import Admit, NotAdmitted, Preempt
from extender.queueing.rules import AdmissionOptions
from extender.state.queue.events import Record
from extender.state.queue.records import PodSetInfo, Quota
from tests.makers import affinity, labelled, shape, taint
from tests.queue_makers import (
    Admissions,
    cluster_queue,
    flavor,
    group,
    local_queue,
    pod_set,
    quota,
    workload,
)

SPOT = flavor("spot", node_labels={"kind": "spot"})
FAST = flavor("fast", node_labels={"kind": "fast"})
TAINTED = flavor("tainted", node_taints=(taint(),))
TOLERATES = Toleration(key="dedicated", value="ml")
BOTH = group(spot=2, fast=4)


def decided(
    pods: Any, *records: Record, options: AdmissionOptions | None = None, **queue: Any
) -> object:
    """Return what becomes of one workload: its flavors, or the reason and the message."""
    queues = Admissions(
        SPOT, FAST, TAINTED, *records, cluster_queue(**queue), local_queue(), options=options
    )
    queues.put(workload("w", pods))
    (outcome,) = queues.run()
    if isinstance(outcome, Admit):
        return [dict(each.flavors) for each in outcome.admission.assignments]
    assert isinstance(outcome, NotAdmitted)
    return str(outcome.reason), outcome.message.removeprefix("couldn't assign flavors to pod set ")


def to(kind: str) -> PodSetInfo:
    return pod_set(shape(1, affinity=affinity(labelled("kind", "In", kind))))


NO_LABEL = NodeSelectorTerm([Requirement("zone", "In", ["a"])])
MEMORY = {"cpu": quota(2), "memory": quota("1Gi", resource="memory")}
NO_MATCH = "NoMatchingFlavor"

WANT: dict[str, tuple[dict[str, Any], Any, object]] = {
    "the first flavor that has room": ({"cpu": BOTH}, 1, [{"cpu": "spot"}]),
    "the next one if it has none": ({"cpu": BOTH}, 3, [{"cpu": "fast"}]),
    "earlier pod sets count": (
        {"cpu": BOTH},
        (pod_set(2, name="a"), pod_set(2, name="b")),
        [{"cpu": "spot"}, {"cpu": "fast"}],
    ),
    "pod sets together are too large": (
        {"cpu": 3},
        (pod_set(2, name="a"), pod_set(2, name="b")),
        (
            "ExceedsMaxQuota",
            "b: insufficient quota for cpu in flavor default, 1 more than its maximum capacity (3)",
        ),
    ),
    "a node selector chooses": (
        {"cpu": BOTH},
        pod_set(shape(1, selector={"kind": "fast"})),
        [{"cpu": "fast"}],
    ),
    "a node selector of labels that no flavor names": (
        {"cpu": BOTH},
        pod_set(shape(1, selector={"zone": "a"})),
        [{"cpu": "spot"}],
    ),
    "affinity chooses": ({"cpu": BOTH}, to("fast"), [{"cpu": "fast"}]),
    "affinity to labels that no flavor names": (
        {"cpu": BOTH},
        pod_set(shape(1, affinity=affinity(NO_LABEL))),
        [{"cpu": "spot"}],
    ),
    "one of two terms is enough": (
        {"cpu": BOTH},
        pod_set(shape(1, affinity=affinity(labelled("kind", "In", "fast"), NO_LABEL))),
        [{"cpu": "spot"}],
    ),
    "affinity to no flavor": (
        {"cpu": BOTH},
        to("slow"),
        (
            NO_MATCH,
            "main: flavor spot doesn't match node affinity, "
            "flavor fast doesn't match node affinity",
        ),
    ),
    "a taint": (
        {"cpu": group(tainted=4)},
        1,
        (NO_MATCH, "main: untolerated taint dedicated=ml:NoSchedule in flavor tainted"),
    ),
    "a tolerated taint": (
        {"cpu": group(tainted=4)},
        pod_set(shape(1, tolerations=[TOLERATES])),
        [{"cpu": "tainted"}],
    ),
    "all resources of a group from one flavor": (
        {"cpu": group(default=MEMORY, spot={**MEMORY, "memory": quota("4Gi", resource="memory")})},
        pod_set(shape(1, memory="2Gi")),
        [{"cpu": "spot", "memory": "spot"}],
    ),
    "groups choose on their own": (
        {
            "cpu": (
                group(spot=1, fast=4),
                group(default={"memory": quota("4Gi", resource="memory")}),
            )
        },
        pod_set(shape(2, memory="2Gi")),
        [{"cpu": "fast", "memory": "default"}],
    ),
    "a resource that is not covered": (
        {},
        pod_set(shape(1, memory="2Gi")),
        (NO_MATCH, "main: resource memory unavailable in ClusterQueue"),
    ),
    "nothing of a resource that is not covered": (
        {},
        pod_set(shape(1, memory=0)),
        [{"cpu": "default"}],
    ),
    "pods are counted where they are covered": (
        {"cpu": group(default={"cpu": quota(9), "pods": quota(2, resource="pods")})},
        pod_set(1, 3),
        (
            "ExceedsMaxQuota",
            "main: insufficient quota for pods in flavor default, "
            "1 more than its maximum capacity (2)",
        ),
    ),
    "as many as there is quota for": (
        {"cpu": group(default={"cpu": quota(9), "pods": quota(3, resource="pods")})},
        pod_set(1, 3),
        [{"cpu": "default", "pods": "default"}],
    ),
    "no pods at all": ({"cpu": 0}, pod_set(1, 0), [{"cpu": "default"}]),
}


@pytest.mark.parametrize(("queue", "pods", "want"), WANT.values(), ids=WANT)
def test_which_flavors_pods_are_given(queue: dict[str, Any], pods: Any, want: object) -> None:
    assert decided(pods, **queue) == want


def test_a_flavor_may_bring_the_toleration_along() -> None:
    kind = flavor("reserved", node_taints=(taint(),), tolerations=(TOLERATES,))
    assert decided(1, kind, cpu=group(reserved=4)) == [{"cpu": "reserved"}]


def test_resources_that_no_queue_declares_may_be_ignored() -> None:
    options = AdmissionOptions(quota_check="IgnoreUndeclared")
    assert decided(pod_set(shape(1, memory="2Gi")), options=options) == [{"cpu": "default"}]


def test_as_many_pods_as_there_is_quota_for() -> None:
    queues = Admissions(cluster_queue(cpu=5), local_queue())
    queues.put(workload("w", pod_set(1, 9, least=2)))
    (outcome,) = queues.run()
    assert isinstance(outcome, Admit)
    assert outcome.admission.assignments[0].count == 5
    assert outcome.admission.assignments[0].usage == {"cpu": 5000}


@pytest.mark.parametrize(("least", "want"), [(5, Admit), (6, NotAdmitted), (9, NotAdmitted)])
def test_not_fewer_pods_than_are_of_use(least: int, want: type) -> None:
    queues = Admissions(cluster_queue(cpu=5), local_queue())
    queues.put(workload("w", pod_set(1, 9, least=least)))
    assert [type(x) for x in queues.run()] == [want]


def test_pods_that_are_done_need_no_quota() -> None:
    queues = Admissions(cluster_queue(cpu=3), local_queue())
    queues.put(workload("w", pod_set(1, 5), reclaimable={"main": 2}))
    (outcome,) = queues.run()
    assert isinstance(outcome, Admit)
    assert outcome.admission.assignments[0].count == 3
    assert queues.view.usage("cq") == {("default", "cpu"): 3000}


BORROW, SEARCH = "MayStopSearch", "TryNextFlavor"
Fungible = tuple[str, str, str | None]
WANT_FUNGIBLE: dict[str, tuple[Fungible, Quota, Quota, str]] = {
    "borrowing ends the search": ((BORROW, SEARCH, None), quota(1), quota(4), "spot"),
    "rather another flavor than to borrow": ((SEARCH, SEARCH, None), quota(1), quota(4), "fast"),
    "borrowing after all": ((SEARCH, SEARCH, None), quota(1), quota(0, borrow=0), "spot"),
    "another flavor rather than preemption": ((BORROW, SEARCH, None), quota(3), quota(4), "fast"),
    "preemption ends the search": ((BORROW, BORROW, None), quota(3), quota(4), "preempts"),
    "rather borrow than preempt": ((SEARCH, SEARCH, None), quota(3), quota(0), "fast"),
    "rather preempt than borrow": (
        (SEARCH, SEARCH, "PreemptionOverBorrowing"),
        quota(3),
        quota(0),
        "preempts",
    ),
}


@pytest.mark.parametrize(
    ("fungible", "spot", "fast", "want"), WANT_FUNGIBLE.values(), ids=WANT_FUNGIBLE
)
def test_when_the_search_may_stop(fungible: Fungible, spot: Quota, fast: Quota, want: str) -> None:
    """Another queue lends four of each; where `spot` has three, a lesser workload uses them."""
    preempts = spot.nominal == 3000
    lent = quota(0 if preempts else 4), quota(4)
    queues = Admissions(
        SPOT,
        FAST,
        cluster_queue(
            "cq",
            group(spot=spot, fast=fast),
            "all",
            fungibility=FlavorFungibility(*fungible),
            preemption={"within_cluster_queue": "LowerPriority"},
        ),
        cluster_queue("lender", group(spot=lent[0], fast=lent[1]), "all"),
        local_queue(),
    )
    if preempts:
        queues.put(workload("lesser", 3))
        assert queues.admitted() == ["lesser"]
    queues.put(workload("w", 2, priority=1))
    (outcome,) = queues.run()
    if isinstance(outcome, Preempt):
        assert want == "preempts"
    else:
        assert isinstance(outcome, Admit)
        assert outcome.admission.assignments[0].flavors == {"cpu": want}
