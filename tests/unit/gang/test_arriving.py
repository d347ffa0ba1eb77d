"""What else kube-scheduler has to do while a gang is being created."""

from extender.gang.begin import MOST_STUCK, others_wait
from tests.makers import cluster_of, key, node, pod, pod_group, pods

GANG = key("gang")


def wait(others: int, *, stuck: bool) -> bool:
    """Return whether so many pods beside a gang are waited for."""
    theirs = [pod(f"other-{number}") for number in range(others)]
    cluster = cluster_of(node("n0"), pod_group(min_member=5), pods(3), theirs)
    return others_wait(GANG, view=cluster.view(), is_stuck=lambda _: stuck)


def test_members_are_nothing_else() -> None:
    assert not wait(0, stuck=False)


def test_a_pod_beside_them_is() -> None:
    assert wait(1, stuck=False)


def test_pods_that_are_not_going_to_be_judged_are_not() -> None:
    assert not wait(MOST_STUCK, stuck=True)


def test_more_of_them_than_are_looked_at_are() -> None:
    assert wait(MOST_STUCK + 1, stuck=True)
