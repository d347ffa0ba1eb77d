"""The order in which pods are created, which gang they are of, and what the nodes take."""

import pytest

from tests.bench.load import Load, fits, gang_of


def test_a_pod_that_the_job_controller_names_is_of_its_job() -> None:
    assert gang_of("gang-00001-13-x7k2p") == "gang-00001"


def test_gangs_that_cannot_fit_are_created_in_turn_with_the_others() -> None:
    load = Load(nodes=1, gangs=2, size=2).churned()

    assert load.gang_names() == [
        "gang-00000",
        "impossible-00000",
        "gang-00001",
        "impossible-00001",
    ]
    assert load.pods == 4
    assert len(load.pod_names()) == 8
    assert sum(fits(name) for name in load.pod_names()) == 4


@pytest.mark.parametrize(("nodes", "size"), [(1000, 50), (20, 2), (3, 50)])
def test_gangs_that_cannot_fit_lack_a_node_for_one_pod_at_least(nodes: int, size: int) -> None:
    load = Load(nodes=nodes, gangs=1, size=size).churned()

    assert (load.large_node_cpu, load.impossible_cpu) == ("16000m", "8100m")
    assert 1 <= load.large_nodes < size
