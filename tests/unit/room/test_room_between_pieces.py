"""What a cycle sees of nodes and pods that change between two of its pieces."""

from dataclasses import replace

import pytest

from extender.api.wellknown import REQUIRE_ROOM_ANNOTATION
from extender.queueing.cycle import Admit, Wait
from extender.queueing.options import Options
from extender.room.awaited import Awaited
from extender.room.nodes import NodeRoom
from extender.room.packing import Packing
from extender.state import events as ev
from extender.state.cluster import Cluster
from extender.state.nodes import NodeInfo
from extender.state.pod_log import PodLog
from extender.state.pods import PodInfo
from extender.state.queues.records import WorkloadInfo
from tests.makers import cluster_of, key, node, pod, shape
from tests.queue_makers import (
    Admissions,
    admission,
    cluster_queue,
    condition,
    local_queue,
    meta,
    pod_set,
    workload,
)

ONE = shape(1)


def scene(*cpus: int) -> tuple[Admissions, Cluster]:
    """Return a queue with more quota than there are nodes for, and the nodes."""
    cluster = cluster_of(*(node(f"n{number}", cpu) for number, cpu in enumerate(cpus)))
    options = Options(require_room=True)
    queues = Admissions(cluster_queue(cpu=100), local_queue(), options=options, cluster=cluster)
    return queues, cluster


def asks(name: str, pods: int) -> WorkloadInfo:
    return workload(name, pod_set(ONE, pods))


def admitted(queues: Admissions, name: str, pods: int) -> WorkloadInfo:
    """Have a workload admitted, and return it."""
    made = asks(name, pods)
    conditions = (condition("QuotaReserved"), condition("Admitted"))
    held = replace(made, admission=admission(made), conditions=conditions)
    queues.put(held)
    return held


def runs(of: str, number: int, on: str | None) -> PodInfo:
    return replace(pod(f"{of}-{number}"), shape=ONE, node=on, workload=key(of))


def room(queues: Admissions) -> NodeRoom:
    assert queues.room is not None
    return queues.room


def free(queues: Admissions) -> int:
    """Return for how many pods of one CPU there is room."""
    found = room(queues)
    asked = asks("probe", 99)
    text = found.lack(asked, admission(asked).assignments)
    assert text is not None
    return int(text.split(" of ")[0].removeprefix("room for "))


def looked_at(queues: Admissions) -> NodeRoom:
    found = room(queues)
    found.begin()
    for _ in found.prepare():
        pass
    return found


def test_a_pod_that_was_bound_in_between_takes_room() -> None:
    queues, cluster = scene(4, 4)
    found = looked_at(queues)
    cluster.apply(ev.PodApplied(replace(pod("other"), shape=ONE, node="n0")))

    assert found.look_again()
    assert free(queues) == 7
    assert not found.look_again()


def test_a_pod_that_went_in_between_gives_room() -> None:
    queues, cluster = scene(4)
    other = replace(pod("other"), shape=ONE, node="n0")
    cluster.apply(ev.PodApplied(other))
    found = looked_at(queues)
    assert free(queues) == 3
    cluster.apply(ev.PodDeleted(other.uid))

    assert found.look_again()
    assert free(queues) == 4


def test_a_pod_that_an_admitted_workload_got_in_between_is_counted_once() -> None:
    queues, cluster = scene(4, 4)
    admitted(queues, "a", 3)
    found = looked_at(queues)
    assert free(queues) == 5
    cluster.apply(ev.PodApplied(runs("a", 0, "n1")))

    assert found.look_again()
    assert free(queues) == 5


def test_what_an_admitted_workload_lost_in_between_is_free() -> None:
    queues, _ = scene(4, 4)
    held = admitted(queues, "a", 3)
    found = looked_at(queues)
    queues.drop(held)

    assert found.look_again()
    assert free(queues) == 8


def test_nodes_that_come_and_go_in_between_are_counted() -> None:
    queues, cluster = scene(4, 4)
    found = looked_at(queues)
    assert free(queues) == 8
    cluster.apply(ev.NodeApplied(node("new", 3)))
    assert found.look_again()
    assert free(queues) == 11
    cluster.apply(ev.NodeDeleted("n0"))
    assert found.look_again()
    assert free(queues) == 7


def test_what_was_taken_stays_taken() -> None:
    queues, cluster = scene(4, 4)
    found = looked_at(queues)
    given = asks("a", 3)
    found.take(given, admission(given).assignments)
    cluster.apply(ev.PodApplied(replace(pod("other"), shape=ONE, node="n0")))

    assert found.look_again()
    assert free(queues) == 4


def test_a_question_before_all_is_looked_at_has_the_same_answer() -> None:
    queues, _ = scene(4, 4)
    admitted(queues, "a", 3)
    found = room(queues)
    found.begin()
    next(found.prepare())
    assert free(queues) == 5


@pytest.mark.parametrize("events", [3, 30_000])
def test_more_pods_than_are_remembered_are_all_seen(events: int) -> None:
    queues, cluster = scene(4)
    other = replace(pod("other"), shape=ONE)
    found = looked_at(queues)
    for number in range(events // 2):
        cluster.apply(ev.PodApplied(replace(other, node=None, priority=number)))
    cluster.apply(ev.PodApplied(replace(other, node="n0", priority=-1)))

    assert found.look_again()
    assert free(queues) == 3


def test_a_log_knows_how_far_it_reaches() -> None:
    log = PodLog()
    log.note(pod("a"))
    log.note(pod("b"))
    assert [each.name for each in log.since(1) or ()] == ["b"]
    assert log.since(2) == []
    for _ in range(20_000):
        log.note(pod("c"))
    assert log.since(1) is None


def test_a_workload_whose_pods_all_run_is_looked_at_again_when_one_of_them_goes() -> None:
    queues, cluster = scene(4)
    held = admitted(queues, "a", 2)
    for number in range(2):
        cluster.apply(ev.PodApplied(runs("a", number, "n0")))
    looks = 0

    def done(_: WorkloadInfo) -> dict[str, int]:
        nonlocal looks
        looks += 1
        return {}

    awaited = Awaited(queues.snapshot, cluster.snapshot(), done)
    assert held.admission is not None
    assert [awaited.of(held, held.admission)[0] for _ in range(3)] == [[], (), ()]
    assert looks == 1
    cluster.apply(ev.PodDeleted(runs("a", 0, "n0").uid))
    (left,), begun = awaited.of(held, held.admission)
    assert (left.count, begun, looks) == (1, True, 2)


def mixed(nodes: int) -> tuple[Admissions, Cluster]:
    """Return a queue that asks for room, `by-room`, and one that does not, `plain`."""
    cluster = cluster_of([node(f"n{number}", 1) for number in range(nodes)])
    asks_for_room = meta("by-room", annotations={REQUIRE_ROOM_ANNOTATION: "true"})
    lower = {"within_cluster_queue": "LowerPriority"}
    queues = Admissions(
        cluster_queue("by-room", 10, preemption=lower, meta=asks_for_room),
        local_queue("by-room"),
        cluster_queue("plain", 10),
        local_queue("plain"),
        cluster=cluster,
    )
    return queues, cluster


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return how many nodes are looked at: the last number grows."""
    found, look_at = [0], Packing.look_at

    def counting(self: Packing, node: NodeInfo) -> None:
        found[-1] += 1
        look_at(self, node)

    monkeypatch.setattr(Packing, "look_at", counting)
    return found


def test_nodes_are_looked_at_in_pieces_for_a_head_that_waits_for_victims(looks: list[int]) -> None:
    queues, _ = mixed(2500)
    low = workload("low", pod_set(ONE, 10), "by-room")
    conditions = (condition("QuotaReserved"), condition("Admitted"))
    queues.put(replace(low, admission=admission(low, "by-room"), conditions=conditions))
    queues.put(workload("high", pod_set(ONE, 10), "by-room", 9))
    queues.decide()
    assert key("high") in queues.pending.preempting()
    queues.put(workload("small", 1, "plain"))
    assert list(queues.pending.ready()) == ["plain"]

    looks[:] = [0]
    outcomes = []
    for outcome in queues.decide_slowly():
        looks.append(0)
        outcomes.append(outcome)
    found = {each.workload: type(each) for each in outcomes if each is not None}
    assert found == {key("high"): Wait, key("small"): Admit}
    assert sum(looks) == 2500
    assert max(looks) <= 500


def test_nodes_are_looked_at_in_pieces_for_a_queue_that_got_its_head_in_between(
    looks: list[int],
) -> None:
    queues, _ = mixed(2500)
    queues.put(cluster_queue("plain", 10, "all"))
    queues.put(
        replace(queues.snapshot.cluster_queues["by-room"], cohort="all"),
        workload("small", 1, "plain"),
    )
    outcomes = []
    for number, outcome in enumerate(queues.decide_slowly()):
        looks.append(0)
        outcomes.append(outcome)
        if number == 0:
            queues.put(workload("late", pod_set(ONE, 3), "by-room"))
    found = {each.workload: type(each) for each in outcomes if each is not None}
    assert found == {key("small"): Admit, key("late"): Admit}
    assert sum(looks) == 2500
    assert max(looks) <= 500
