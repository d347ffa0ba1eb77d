"""What a cycle sees of nodes and pods that change between two of its pieces."""

from dataclasses import replace
from typing import Any

import pytest

from extender.api.core_v1 import Toleration
from extender.api.wellknown import REQUIRE_ROOM_ANNOTATION
from extender.fit import candidates, packer
from extender.fit.candidates import RoomLeft
from extender.fit.packer import Packer
from extender.queueing.cycle import Admit, NotAdmitted
from extender.queueing.rules import AdmissionOptions
from extender.room import pods as room_pods
from extender.room.nodes import NodeRoom
from extender.room.pods import Awaited
from extender.state.cluster import events as ev
from extender.state.cluster.index import PodLog
from extender.state.cluster.records import NodeInfo, PodInfo
from extender.state.cluster.store import Cluster
from extender.state.queue.records import WorkloadInfo
from extender.steps import at_once
from tests.makers import cluster_of, deleted, key, node, observe, pod, shape
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
    options = AdmissionOptions(require_room=True)
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
    text = at_once(found.lack(asked, admission(asked).assignments))
    assert text is not None
    return int(text.split(" of ")[0].removeprefix("room for "))


def looked_at(queues: Admissions) -> NodeRoom:
    found = room(queues)
    found.begin()
    for _ in found.prepare():
        pass
    return found


OTHER = replace(pod("other"), shape=ONE, node="n0")
NEWS: dict[str, tuple[list[Any], list[Any], int]] = {
    "a pod is bound": ([], [OTHER], 7),
    "a pod goes": ([OTHER], [deleted("other")], 8),
    "a pod of an admitted workload, which counts once": ([], [runs("a", 0, "n1")], 8),
    "a node comes": ([], [node("new", 3)], 11),
    "a node goes": ([], [deleted("n0", NodeInfo)], 4),
}


@pytest.mark.parametrize(("before", "news", "left"), NEWS.values(), ids=NEWS)
def test_what_changes_in_between_is_seen(before: list[Any], news: list[Any], left: int) -> None:
    queues, cluster = scene(4, 4)
    observe(cluster, *before)
    admitted(queues, "a", 1)
    found = looked_at(queues)
    assert free(queues) == 7 - len(before)
    observe(cluster, *news)

    assert found.look_again()
    assert free(queues) == left - 1
    assert not found.look_again()


def test_a_node_that_was_full_only_while_it_was_asked_about_is_found_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(candidates, "PIECE", 2)
    queues, cluster = scene(4, 4, 4)
    cluster.apply(ev.ObjectApplied(node("n3", 4, gpu=1)))
    found = looked_at(queues)
    asked = workload("w", pod_set(shape(4, gpu=1), 1))
    steps = found.lack(asked, admission(asked).assignments)
    next(steps)
    assert found.asking
    other = replace(pod("other"), shape=ONE, node="n3")
    cluster.apply(ev.ObjectApplied(other))
    assert cluster.view().left.all()["n3"]["cpu"] == 3000
    at_once(steps)
    cluster.apply(deleted(other.uid))

    assert found.look_again()
    found.judge()
    assert at_once(found.lack(asked, admission(asked).assignments)) is None


def test_what_an_admitted_workload_lost_in_between_is_free() -> None:
    queues, _ = scene(4, 4)
    held = admitted(queues, "a", 3)
    found = looked_at(queues)
    queues.drop(held)

    assert found.look_again()
    assert free(queues) == 8


def test_victims_that_are_needed_no_more_after_a_change_stay() -> None:
    """The search is part of a longer judgement, and is not done once more as a whole."""
    queues, cluster = scene(4)
    for name, count in (("a", 2), ("b", 1)):
        admitted(queues, name, count)
        observe(cluster, *(runs(name, number, "n0") for number in range(count)))
    observe(cluster, OTHER)
    found, asked = looked_at(queues), workload("p", pod_set(1, 3))

    def needed() -> Any:
        return at_once(found.needed(asked, admission(asked).assignments, (key("b"), key("a"))))

    assert needed() == (key("b"), key("a"))
    observe(cluster, deleted(OTHER.uid))
    assert found.look_again()
    assert needed() == (key("a"),)
    observe(cluster, OTHER)
    assert found.look_again()
    assert needed() == (key("a"),), "it is looked at again once in a judgement"


def test_of_possible_victims_those_are_read_again_whose_pods_have_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    queues, cluster = scene(4, 4)
    for name, on in (("a", "n0"), ("b", "n1")):
        admitted(queues, name, 1)
        observe(cluster, runs(name, 0, on))
    read, members = list[str](), room_pods.members

    def counted(of: WorkloadInfo, **there: Any) -> Any:
        read.append(of.meta.name)
        return members(of, **there)

    def search(pods: int) -> list[str]:
        found, asked = looked_at(queues), workload("p", pod_set(1, pods))
        with monkeypatch.context() as patch:
            patch.setattr(room_pods, "members", counted)
            at_once(found.needed(asked, admission(asked).assignments, (key("a"), key("b"))))
        return [read.pop(0) for _ in [*read]]

    assert search(7) == ["a", "b"]
    observe(cluster, OTHER)
    assert search(7) == []
    observe(cluster, deleted(runs("b", 0, "n1").uid))
    assert search(6) == ["b"]


def test_what_was_taken_stays_taken() -> None:
    queues, cluster = scene(4, 4)
    found = looked_at(queues)
    given = asks("a", 3)
    found.take(given, admission(given).assignments)
    cluster.apply(ev.ObjectApplied(replace(pod("other"), shape=ONE, node="n0")))

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
        cluster.apply(ev.ObjectApplied(replace(other, node=None, priority=number)))
    cluster.apply(ev.ObjectApplied(replace(other, node="n0", priority=-1)))

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
        cluster.apply(ev.ObjectApplied(runs("a", number, "n0")))
    looks = 0

    def done(_: WorkloadInfo) -> dict[str, int]:
        nonlocal looks
        looks += 1
        return {}

    awaited = Awaited(queues.view, cluster.view(), done)
    assert held.admission is not None
    assert [awaited.without_node(held, held.admission)[0] for _ in range(3)] == [[], (), ()]
    assert looks == 1
    cluster.apply(deleted(runs("a", 0, "n0").uid))
    (left,), begun = awaited.without_node(held, held.admission)
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
    found, look_at = [0], Packer.look_at

    def counting(self: Packer, node: NodeInfo) -> None:
        found[-1] += 1
        look_at(self, node)

    monkeypatch.setattr(Packer, "look_at", counting)
    return found


def test_nodes_are_looked_at_in_pieces_for_a_head_that_waits_for_victims(looks: list[int]) -> None:
    queues, _ = mixed(2500)
    low = workload("low", pod_set(ONE, 10), "by-room")
    conditions = (condition("QuotaReserved"), condition("Admitted"))
    queues.put(replace(low, admission=admission(low, "by-room"), conditions=conditions))
    queues.put(workload("high", pod_set(ONE, 10), "by-room", 9))
    queues.decide()
    assert key("high") in queues.pending.preemptors
    queues.put(workload("small", 1, "plain"))
    assert list(queues.pending.ready()) == ["plain"]

    looks[:] = [0]
    outcomes = []
    for outcome in queues.decide_slowly():
        looks.append(0)
        outcomes.append(outcome)
    found = {each.workload: type(each) for each in outcomes if each is not None}
    assert found == {key("high"): NotAdmitted, key("small"): Admit}
    assert sum(looks) == 2500
    assert max(looks) <= 500


def test_nodes_are_looked_at_in_pieces_for_a_queue_that_got_its_head_in_between(
    looks: list[int],
) -> None:
    queues, _ = mixed(2500)
    queues.put(cluster_queue("plain", 10, "all"))
    queues.put(
        replace(queues.view.cluster_queues["by-room"], cohort="all"),
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


def unlike(name: str, *counts: int) -> WorkloadInfo:
    """Return a workload of pods of one CPU, of as many kinds as there are counts."""
    kinds = [replace(ONE, tolerations=(Toleration(f"t{n}"),)) for n in range(len(counts))]
    sets = enumerate(zip(kinds, counts, strict=True))
    return workload(name, tuple(pod_set(kind, n, name=f"s{number}") for number, (kind, n) in sets))


@pytest.fixture
def free_looks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return how often the room of a node is looked at: the last number grows."""
    found, free = [0], RoomLeft.on

    def counting(self: RoomLeft, node: NodeInfo) -> dict[str, int]:
        found[-1] += 1
        return free(self, node)

    monkeypatch.setattr(RoomLeft, "on", counting)
    return found


def test_a_question_of_many_kinds_is_answered_in_pieces(free_looks: list[int]) -> None:
    """A piece looks at some nodes, or takes back what was placed on all of them, once."""
    queues, _ = scene(*[2] * 3000)
    queues.put(cluster_queue(cpu=100_000))
    queues.put(unlike("w", *[1000] * 7))
    outcomes = []
    for outcome in queues.decide_slowly():
        free_looks.append(0)
        outcomes.append(outcome)

    assert [type(each) for each in outcomes if each is not None] == [NotAdmitted]
    assert sum(free_looks) > 20 * 3000
    assert max(free_looks) <= 2 * 3000


@pytest.fixture
def slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have one node looked at in each piece."""
    for module in (candidates, packer):
        monkeypatch.setattr(module, "PIECE", 1)


@pytest.mark.usefixtures("slowly")
def test_room_that_goes_while_it_is_asked_for_is_not_given() -> None:
    queues, cluster = scene(2, 2)
    queues.put(unlike("w", 2, 2))
    outcomes, pauses = [], 0
    for outcome in queues.decide_slowly():
        outcomes.append(outcome)
        pauses += room(queues).asking
        if pauses == 2 and room(queues).asking:
            cluster.apply(ev.ObjectApplied(replace(pod("other"), shape=ONE, node="n1")))

    assert pauses > 2
    [found] = [each for each in outcomes if each is not None]
    assert isinstance(found, NotAdmitted)
    assert "room for 3 of 4" in found.message


@pytest.mark.usefixtures("slowly")
def test_room_that_comes_while_it_is_asked_for_is_asked_for_soon() -> None:
    queues, cluster = scene(2, 1)
    queues.put(unlike("w", 2, 2))
    outcomes = []
    for outcome in queues.decide_slowly():
        outcomes.append(outcome)
        if room(queues).asking:
            cluster.apply(ev.ObjectApplied(node("n1", 2)))
    assert [type(each) for each in outcomes if each is not None] == [NotAdmitted]
    assert queues.last.moved

    queues.pending.sweep()
    assert queues.admitted() == ["w"]
    assert not queues.last.moved


@pytest.mark.usefixtures("slowly")
def test_a_judgement_ends_though_the_state_changes_in_each_pause() -> None:
    queues, cluster = scene(2, 2, 2)
    queues.put(unlike("w", 2, 2))
    outcomes = []
    for number, outcome in enumerate(queues.decide_slowly()):
        outcomes.append(outcome)
        cluster.apply(
            ev.ObjectApplied(replace(pod("other", priority=number), shape=ONE, node="n2"))
        )

    assert len(outcomes) > 10
    assert [type(each) for each in outcomes if each is not None] == [Admit]


def test_a_workload_with_quota_keeps_its_room_though_its_node_is_filled_by_another() -> None:
    queues, cluster = scene(1, 1)
    admitted(queues, "a", 1)
    found = looked_at(queues)
    [[kept]] = found._placed.values()
    cluster.apply(ev.ObjectApplied(replace(pod("other"), shape=ONE, node=kept.node.name)))

    assert found.look_again()
    assert free(queues) == 0
