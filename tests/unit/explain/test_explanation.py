"""Everything that is said of one workload."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from extender.api.explanations import Explanation
from extender.explain.workload import explain, look_at_nodes
from extender.fit.candidates import RoomLeft
from extender.queueing.quota import QuotaTree
from extender.queueing.rules import AdmissionOptions
from extender.state.cluster import events as cluster_events
from extender.state.cluster.records import NodeInfo, PodGroupInfo, PodGroupStatusInfo, PodInfo
from extender.state.cluster.store import Cluster
from extender.state.queue.records import CheckState, OwnerRef, RequeueInfo
from gang_tools.cli.explain_text import workload_text
from tests.makers import cluster_of, key, node, nodes, shape
from tests.queue_makers import (
    Admissions,
    admission,
    cluster_queue,
    condition,
    flavor,
    group,
    local_queue,
    meta,
    pod_set,
    quota,
    workload,
)
from tests.unit.explain.scene import facts, holding
from tests.waiting_room import AGING, World

OWNER = OwnerRef("batch/v1", "Job", "train", "job-uid")


def position(found: Explanation) -> int | None:
    """Return how many workloads are before it in its ClusterQueue."""
    place = found.position_in_cluster_queue
    return place.index if place else None


def reported(queues: Admissions, name: str, **more: object) -> Explanation:
    tree = QuotaTree.current(queues.view, queues.tree)
    found = explain(key(name), replace(facts(queues, **more), tree=tree))  # type: ignore[arg-type]
    assert found is not None
    return found


def test_nothing_of_what_is_not_there() -> None:
    assert explain("ns/none", facts(Admissions())) is None


def test_what_a_workload_waits_for() -> None:
    small, large = quota(4, borrow=0), quota("1Gi", resource="memory")
    flavors = group(
        fast={"cpu": small, "memory": large},
        slow={"cpu": quota(2), "memory": large},
    )
    records = cluster_queue(cpu=flavors, cohort="team"), local_queue()
    queues = Admissions(flavor("fast"), flavor("slow"), *records)
    pods = pod_set(shape(1, memory="100Mi"), 3)
    has = workload("has", pods, priority=7)
    queues.put(
        workload(
            "has",
            pods,
            priority=7,
            admission=admission(has, flavor="fast"),
            conditions=(condition("QuotaReserved", at=1),),
        ),
        workload("before", 9, priority=3),
        workload("waits", pods, owners=(OWNER,), priority_class=("g", "k", "low")),
    )

    found = reported(queues, "waits")

    assert (found.state, found.reason) == ("Pending", "WaitingForQuota")
    assert [(each.kind, each.name, each.controller) for each in found.owners] == [
        ("Job", "train", True)
    ]
    assert (found.cluster_queue, found.cohort, found.priority_class) == ("cq", "team", "low")
    assert found.position_in_cluster_queue is not None
    place = found.position_in_cluster_queue
    assert (place.index, place.of) == (1, 2)
    rows = {(row.flavor, row.resource): row for row in found.quotas}
    assert set(rows) == {(f, r) for f in ("fast", "slow") for r in ("cpu", "memory")}
    cpu = rows["fast", "cpu"]
    assert (cpu.asked, cpu.nominal, cpu.borrowing_limit) == ("3", "4", "0")
    assert (cpu.used, cpu.available, cpu.missing) == ("3", "1", "2")
    memory = rows["fast", "memory"]
    assert (memory.used, memory.available, memory.missing) == ("300Mi", "724Mi", "0")
    assert rows["slow", "cpu"].borrowing_limit is None
    fast = next(each for each in found.waiting_for if each.flavor == "fast")
    assert (fast.missing, [each.name for each in fast.holders]) == ("2", ["has"])
    [asked] = found.pod_sets
    assert (asked.count, asked.each["memory"], asked.total["cpu"]) == (3, "100Mi", "3")


def test_the_explanation_names_the_victims_of_a_workload_that_may_preempt() -> None:
    queues = Admissions(
        cluster_queue(cpu=2, preemption={"within_cluster_queue": "LowerPriority"}), local_queue()
    )
    queues.put(holding("low", 2), workload("high", 2, priority=1))

    found = reported(queues, "high")

    assert "preemption of 1 workload" in found.message
    assert [each.name for each in found.waiting_for[0].holders] == ["low"]


def test_where_an_admitted_workload_runs() -> None:
    template = b'{"metadata":{"labels":{"scheduling.x-k8s.io/pod-group":"gang"}}}'
    queues, cluster = Admissions(cluster_queue(), local_queue()), Cluster()
    pods = pod_set(1, 2)
    asks = workload("runs", type(pods)(pods.name, 2, pods.shape, None, template))
    queues.put(
        workload(
            "runs",
            asks.pod_sets,
            owners=(OWNER,),
            admission=admission(asks),
            conditions=(condition("QuotaReserved"), condition("Admitted")),
        )
    )
    status = PodGroupStatusInfo(phase="Running", scheduled=2, running=1)
    cluster.apply(cluster_events.ObjectApplied(_group(status)))
    for number, controller in enumerate(("job-uid", "job-uid", "other")):
        cluster.apply(
            cluster_events.ObjectApplied(
                PodInfo(
                    f"p{number}",
                    "ns",
                    f"p{number}",
                    pods.shape,
                    node=f"node-{number}",
                    controller=controller,
                )
            )
        )

    found = reported(queues, "runs", cluster=cluster)

    assert (found.state, found.nodes) == ("Admitted", {"node-0": 1, "node-1": 1})
    assert found.pod_group is not None
    assert (found.pod_group.min_member, found.pod_group.scheduled) == (2, 2)
    [row] = found.quotas
    assert (row.flavor, row.asked, row.used, row.missing) == ("default", "2", "2", "0")
    assert found.pod_sets[0].flavors == {"cpu": "default"}
    assert found.position_in_cluster_queue is None


def _group(status: PodGroupStatusInfo) -> PodGroupInfo:
    return PodGroupInfo("ns", "gang", "scheduling.x-k8s.io", 2, status=status)


@pytest.mark.parametrize(
    ("conditions", "more", "state", "reason"),
    [
        pytest.param(("Finished",), {}, "Finished", "Finished", id="finished"),
        pytest.param(
            ("Admitted", "Evicted", "QuotaReserved"), {}, "Evicted", "Evicted", id="evicted"
        ),
        pytest.param(("QuotaReserved",), {}, "QuotaReserved", "QuotaReserved", id="reserved"),
        pytest.param((), {"admission": None, "active": False}, "Pending", "Deactivated", id="off"),
        pytest.param(
            (), {"admission": None, "queue": "none"}, "Pending", "Misconfigured", id="no queue"
        ),
        pytest.param(
            (), {"meta": meta("w", "ns", terminating=True)}, "Terminating", "Deleted", id="going"
        ),
    ],
)
def test_each_state_of_a_workload_is_explained(
    conditions: tuple[str, ...], more: dict[str, object], state: str, reason: str
) -> None:
    queues = Admissions(cluster_queue(), local_queue())
    fields = {"admission": admission(workload("w")), **more}
    queues.put(workload("w", conditions=tuple(map(condition, conditions)), **fields))  # type: ignore[arg-type]

    found = reported(queues, "w")

    assert (found.state, found.reason, position(found)) == (state, reason, None)
    assert found.cluster_queue == (None if "queue" in more else "cq")


def test_the_text() -> None:
    queues = Admissions(cluster_queue("cq", 4, "team"), local_queue())
    queues.put(
        holding("has", 3, owners=(OWNER,)),
        workload(
            "waits",
            pod_set(1, 2),
            meta=meta("waits", "ns", created=1000),
            conditions=(condition("QuotaReserved", "WaitingForQuota", true=False, at=1010),),
        ),
    )

    said = workload_text(reported(queues, "waits"), datetime.fromtimestamp(1000 + 3725, UTC))

    assert (
        said
        == """\
Workload      ns/waits
Queue         LocalQueue cq, ClusterQueue cq, cohort team
Priority      0
Created       62m ago
State         Pending (WaitingForQuota)
              couldn't assign flavors to pod set main: insufficient unused quota for cpu in \
flavor default, 1 more needed
Position      1 of 1 in the ClusterQueue, 1 of 1 in the LocalQueue

Waits for 1 more cpu of flavor default. Held by:
  WORKLOAD  JOB        CLUSTERQUEUE  CPU  PRIORITY  SINCE
  ns/has    Job/train  cq            3    0         77m ago

Quota of ClusterQueue cq
  FLAVOR   RESOURCE  ASKED  NOMINAL  BORROWING LIMIT  USED  AVAILABLE  MISSING
  default  cpu       2      4        none             3     1          1

Pods
  POD SET  PODS  EACH   TOGETHER  FLAVORS
  main     2     cpu 1  cpu 2     -

Conditions
  TYPE           STATUS  REASON           SINCE    MESSAGE
  QuotaReserved  False   WaitingForQuota  61m ago
"""
    )


def test_quota_is_there_and_room_is_not() -> None:
    queues = Admissions(
        cluster_queue("cq", 10), local_queue(), options=AdmissionOptions(require_room=True)
    )
    queues.put(workload("w", pod_set(1, 4)))
    found = reported(queues, "w", cluster=cluster_of(node("n", 3)))
    assert (found.reason, found.message) == (
        "WaitingForRoom",
        "quota yes; room for 3 of 4: 1 cpu short on 1 node",
    )
    assert not found.waiting_for


def test_room_is_kept_for_it_or_for_others() -> None:
    world = World(4, 4)
    world.submit("runs", 6)
    world.cycle()
    world.submit("wide", 4)
    world.pass_time(AGING + 2.0)
    world.submit("small", 2)
    world.pass_time(1.0)
    wide = reported(world.queues, "wide", cluster=world.cluster)
    assert wide.message.endswith("; room for 4 pods is kept on 1 node")
    assert not wide.notes
    small = reported(world.queues, "small", cluster=world.cluster)
    assert small.reason == "WaitingForRoom"
    assert small.notes == ["room is kept for 1 workload(s) before it that have waited for long"]


def test_what_is_asked_of_the_nodes_is_asked_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once it was asked the explanation looks at no node, however many kinds of pods there are."""
    looks, free = [0], RoomLeft.on

    def looked(self: RoomLeft, node: NodeInfo) -> dict[str, int]:
        looks[-1] += 1
        return free(self, node)

    cluster = cluster_of(nodes(*[2] * 3000))
    queues = Admissions(
        cluster_queue("cq", 90_000), local_queue(), options=AdmissionOptions(require_room=True)
    )
    sets = [pod_set(shape(cpu), 2500, name=f"s{cpu}") for cpu in (1, 2, 3, 4)]
    queues.put(workload("w", tuple(sets)))
    seen = facts(queues, cluster=cluster)
    monkeypatch.setattr(RoomLeft, "on", looked)
    looks.extend(0 for _ in look_at_nodes(key("w"), seen))
    whole, most = sum(looks), max(looks)
    found = explain(key("w"), seen)

    assert found is not None
    assert found.reason == "WaitingForRoom"
    assert whole > 10_000
    assert most <= 2 * 3000
    assert sum(looks) == whole


def test_what_is_missing() -> None:
    queues = Admissions(
        cluster_queue("a", 4, "all"),
        cluster_queue("b", 4, "all"),
        local_queue("a"),
        local_queue("b"),
    )
    queues.put(workload("x", 2, "a", 7), workload("y", 5, "b"), workload("big", 6, "a"))
    assert queues.admitted() == ["x", "y"]
    queues.put(workload("w", 2, "a"))

    found = reported(queues, "w")
    assert (position(found), found.cluster_queue, found.reason) == (1, "a", "WaitingForQuota")
    assert found.message == (
        "couldn't assign flavors to pod set main: "
        "insufficient unused quota for cpu in flavor default, 1 more needed"
    )
    assert found.notes == []
    assert queues.admitted() == []


def test_which_workloads_could_be_preempted() -> None:
    queues = Admissions(
        cluster_queue(cpu=1, preemption={"within_cluster_queue": "LowerPriority"}), local_queue()
    )
    queues.put(workload("low"))
    assert queues.admitted() == ["low"]
    queues.put(workload("high", priority=1))
    assert reported(queues, "high").notes[-1] == "ns/low could be preempted (InClusterQueue)"
    queues.run()
    found = reported(queues, "high")
    assert found.reason == "WaitingForPreemptedWorkloads"
    assert found.notes[-1] == "ns/low is releasing its quota"


def test_which_workload_is_next() -> None:
    queues = Admissions(cluster_queue(), local_queue(), workload("w"))
    found = reported(queues, "w")
    assert (position(found), found.reason) == (0, "PendingEvaluation")
    assert found.message == "there is quota for it; 0 workload(s) are before it"


def test_which_workloads_stand_behind_a_strict_head() -> None:
    queues = Admissions(cluster_queue(strategy="StrictFIFO"), local_queue())
    queues.put(workload("big", 9), workload("small"))
    queues.run()
    found = reported(queues, "small")
    assert position(found) == 1
    assert found.notes == ["ns/big is first in a StrictFIFO queue: no other workload may pass it"]


def test_a_workload_that_was_requeued() -> None:
    queues = Admissions(cluster_queue(), local_queue())
    queues.put(workload("w", requeue=RequeueInfo(1, queues.now + 60)))
    assert reported(queues, "w").reason == "OnHold"


def test_a_workload_with_quota_has_nothing_to_be_explained() -> None:
    queues = Admissions(cluster_queue(), local_queue(), workload("w"))
    queues.run()
    found = reported(queues, "w")
    assert (position(found), found.cluster_queue, found.state) == (None, "cq", "QuotaReserved")
    assert (found.waiting_for, found.notes) == ([], [])


def test_the_states_of_admission_checks_are_told() -> None:
    waits = holding("w", 1)
    checks = (CheckState("budget", "Ready"), CheckState("nodes", message="in 5 minutes"))
    admission = replace(waits.admission, reserved_only=True)  # type: ignore[type-var]
    conditions = (
        condition("QuotaReserved", at=100),
        condition("Admitted", "UnsatisfiedChecks", true=False, at=100),
    )
    waits = replace(waits, admission=admission, conditions=conditions, checks=checks)
    found = explain(waits.key, facts(Admissions(cluster_queue(), local_queue(), waits)))
    assert found is not None
    assert (found.state, found.reason) == ("QuotaReserved", "UnsatisfiedChecks")
    assert found.notes == [
        "admission check budget is Ready",
        "admission check nodes is Pending: in 5 minutes",
    ]
