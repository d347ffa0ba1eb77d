"""An admission that makes a queue borrow concerns those that may reclaim from it."""

from extender.queueing.cycle import Preempt
from tests.makers import key
from tests.queue_makers import Admissions, cluster_queue, local_queue, workload


def test_an_admission_that_begins_to_borrow_has_those_tried_that_may_reclaim_now() -> None:
    """What stayed within its queue's quota may be made to leave once the queue borrows."""
    reclaims = {"reclaim_within_cohort": "LowerPriority"}
    queues = Admissions(
        cluster_queue("x", 4, "all", preemption=reclaims),
        cluster_queue("w", 4, "all"),
        cluster_queue("z", 4, "all"),
        *(local_queue(name) for name in "xwz"),
    )
    queues.put(workload("high", 6, "z", 9), workload("low", 3, "w", 0))
    assert sorted(queues.admitted()) == ["high", "low"]
    queues.put(workload("reclaims", 4, "x", 5))
    assert queues.admitted() == []
    queues.put(workload("more", 2, "w", 0))
    assert queues.admitted() == ["more"]
    assert "w" in queues.last.freed
    (outcome,) = queues.run()
    assert isinstance(outcome, Preempt)
    assert outcome.workload == key("reclaims")
    assert [each.workload for each in outcome.victims] == [key("low")]
