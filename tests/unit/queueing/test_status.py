"""The numbers in the status of a queue."""

import pytest

from extender.queueing.status import Used, cluster_queue_status
from tests.queue_makers import Admissions, admission, cluster_queue, local_queue, workload


@pytest.mark.parametrize(("cohort", "borrowed"), [(None, 0), ("shared", 2000)])
def test_only_a_queue_of_a_cohort_borrows(cohort: str | None, borrowed: int) -> None:
    large = cluster_queue("cq", 3, cohort)
    held = workload("w", 3)
    queues = Admissions(large, local_queue())
    queues.put(workload("w", 3, meta=held.meta, admission=admission(held)))
    queues.put(cluster_queue("cq", 1, cohort))

    status = cluster_queue_status(queues.view.cluster_queues["cq"], queues.view)

    assert status.reservation == (Used("default", "cpu", 3000, borrowed),)
