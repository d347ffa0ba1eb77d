"""The maths of quota in a tree of cohorts."""

from typing import Any

import pytest

from extender.queueing.quota import QuotaNode, QuotaTree, level
from extender.state.queue import events as ev
from extender.state.queue.events import Record
from extender.state.queue.store import Queues
from tests.queue_makers import admission, cluster_queue, cohort, quota, workload

CPU = ("default", "cpu")


def tree(*records: Record, **used: float) -> QuotaTree:
    """Return a tree in which queues use so many cores, in one workload each."""
    queues = Queues()
    for record in records:
        queues.apply(ev.Applied(record))
    for name, cores in used.items():
        made = workload(f"in-{name}", cores)
        queues.apply(ev.Applied(made))
        queues.apply(ev.Assumed(made.key, admission(made, name)))
    return QuotaTree(queues.view())


def cores(amount: int) -> float:
    return amount / 1000


def a_and_b(**limits: Any) -> list[Record]:
    return [cluster_queue("a", quota(4, **limits), "all"), cluster_queue("b", quota(6), "all")]


Case = tuple[list[Record], dict[str, float], float, float]
"""Records, cores used by queue, and what is available and possible in `a`."""

WANT: dict[str, Case] = {
    "alone": ([cluster_queue("a", 4)], {"a": 1}, 3, 4),
    "alone, over its quota": ([cluster_queue("a", 4)], {"a": 5}, -1, 4),
    "an empty cohort is all ours": (a_and_b(), {}, 10, 10),
    "what others use is not there": (a_and_b(), {"b": 5}, 5, 10),
    "others borrow from us": (a_and_b(), {"b": 8}, 2, 10),
    "no more than the borrowing limit": (a_and_b(borrow=2), {}, 6, 6),
    "the limit counts what is borrowed": (a_and_b(borrow=2), {"a": 5}, 1, 6),
    "no borrowing": (a_and_b(borrow=0), {"a": 1}, 3, 4),
    "what we do not lend stays ours": (a_and_b(lend=1), {"b": 7}, 3, 10),
    "what we keep and use is not free": (a_and_b(lend=1), {"a": 2, "b": 7}, 1, 10),
    "others lend us a part": (
        [cluster_queue("a", 4, "all"), cluster_queue("b", quota(6, lend=2), "all")],
        {},
        6,
        6,
    ),
    "what others keep for themselves does not concern us": (
        [cluster_queue("a", 4, "all"), cluster_queue("b", quota(6, lend=2), "all")],
        {"b": 4},
        6,
        6,
    ),
    "a cohort has quota of its own": (
        [cluster_queue("a", 1, "all"), cohort("all", cpu=5)],
        {},
        6,
        6,
    ),
    "a cohort around the cohort": (
        [
            cluster_queue("a", 1, "in"),
            cluster_queue("b", 2, "out"),
            cohort("in", "out"),
            cohort("out", cpu=3),
        ],
        {"b": 4},
        2,
        6,
    ),
    "a cohort that borrows no more than its limit": (
        [
            cluster_queue("a", 1, "in"),
            cluster_queue("b", 2, "out"),
            cohort("in", "out", quota(0, borrow=1)),
        ],
        {},
        2,
        2,
    ),
    "a cohort that keeps some for its own": (
        [
            cluster_queue("a", 3, "in"),
            cluster_queue("b", 2, "out"),
            cohort("in", "out", quota(0, lend=1)),
        ],
        {"b": 3},
        2,
        5,
    ),
}


@pytest.mark.parametrize(("records", "used", "free", "most"), WANT.values(), ids=WANT)
def test_what_a_queue_may_use(
    records: list[Record], used: dict[str, float], free: float, most: float
) -> None:
    node = tree(*records, **used).queue("a")
    assert cores(node.available(CPU)) == free
    assert cores(node.potential(CPU)) == most


def nested() -> QuotaTree:
    return tree(
        cluster_queue("a", 2, "in"),
        cluster_queue("b", 2, "in"),
        cluster_queue("c", 4, "out"),
        cohort("in", "out"),
    )


@pytest.mark.parametrize(
    ("amount", "want"), [(2, (0, True)), (3, (1, True)), (4, (1, True)), (5, (2, False))]
)
def test_how_far_up_it_borrows(amount: int, want: tuple[int, bool]) -> None:
    assert level(nested().queue("a"), CPU, amount * 1000) == want


def test_a_trial_leaves_no_trace() -> None:
    found = nested()
    a, c = found.queue("a"), found.queue("c")
    before = everything(found)
    mark = found.mark()
    found.take(a, {CPU: 3000})
    assert cores(c.available(CPU)) == 5
    found.give(a, {CPU: 1000})
    assert cores(c.available(CPU)) == 6
    found.undo(mark)
    assert everything(found) == before


def everything(found: QuotaTree) -> list[int]:
    return [found.queue(name).available(CPU) for name in "abc"]


def test_usage_is_read_again_when_a_cycle_begins() -> None:
    queues = Queues()
    for record in a_and_b():
        queues.apply(ev.Applied(record))
    found = QuotaTree(queues.view())
    assert cores(found.queue("a").available(CPU)) == 10
    made = workload("w", 3)
    queues.apply(ev.Applied(made))
    queues.apply(ev.Assumed(made.key, admission(made, "b")))

    found.begin()
    assert cores(found.queue("a").available(CPU)) == 7
    queues.apply(ev.Deleted(made))
    found.begin()
    assert cores(found.queue("a").available(CPU)) == 10


def test_the_tree_lasts_as_long_as_the_structure() -> None:
    queues = Queues()
    queues.apply(ev.Applied(cluster_queue("a", 4)))
    first = QuotaTree.current(queues.view())
    assert QuotaTree.current(queues.view(), first) is first
    queues.apply(ev.Applied(cluster_queue("a", 5)))
    assert cores(QuotaTree.current(queues.view(), first).queue("a").available(CPU)) == 5


def test_cohorts_in_a_circle_hold_nothing_together() -> None:
    found = tree(
        cluster_queue("a", 4, "x"), cluster_queue("b", 4, "y"), cohort("x", "y"), cohort("y", "x")
    )
    assert list(found.sharing_with("a")) == ["a"]
    assert cores(found.queue("a").available(CPU)) == 4


def test_which_queues_share_quota() -> None:
    found = nested()
    assert sorted(found.sharing_with("a")) == ["a", "b", "c"]
    assert list(found.sharing_with("none")) == []
    inner = found.cohort("in")
    assert isinstance(inner, QuotaNode)
    assert [each.name for each in inner.queues] == ["a", "b"]
