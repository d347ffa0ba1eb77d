"""What the stand-in for the API server adds up: partial gangs, pods bound twice, full nodes."""

import pytest

from tests.bench.extender.ledger import Ledger
from tests.bench.extender.scene import Scene

SCENE = Scene(nodes=4, running=8, gangs=2, size=5)
WHOLE = [(number, number % 4) for number in range(10)]


def faults(bindings: list[tuple[int, int]], scene: Scene = SCENE) -> list[str]:
    ledger = Ledger(scene)
    for number, node in bindings:
        ledger.bind(number, node)
    return ledger.faults()


@pytest.mark.parametrize(
    ("bindings", "want"),
    [
        pytest.param(WHOLE, [], id="all is well"),
        pytest.param(WHOLE[:-1], ["gang-1 has 4 of 5 members on nodes"], id="a partial gang"),
        pytest.param(
            WHOLE[:5], ["1 gangs have no member on a node"], id="a gang that did not start"
        ),
        pytest.param(
            [*WHOLE, (7, 2)],
            ["gang-1-2 is on node-00003 and was bound to node-00002"],
            id="bound twice",
        ),
        pytest.param(
            [*WHOLE, (7, 3)],
            ["gang-1-2 is on node-00003 and was bound to node-00003"],
            id="bound twice to one node",
        ),
    ],
)
def test_what_must_not_be_is_named(bindings: list[tuple[int, int]], want: list[str]) -> None:
    assert faults(bindings) == want


def test_plain_pods_are_of_no_gang_and_must_have_nodes_too() -> None:
    scene = Scene(nodes=4, running=8, gangs=2, size=2, plain=1)
    everything = [(number, number % 4) for number in range(scene.pods)]
    assert faults(everything, scene) == []
    assert faults(everything[:-1], scene) == ["1 plain pods have no node"]
    ledger = Ledger(scene)
    ledger.bind(2, 0)
    assert (ledger.whole, ledger.partial_peak) == (0, 0)


@pytest.mark.parametrize(
    ("running", "want"),
    [
        pytest.param(100, ["node-00000 has 110 pods, and 111 are used"], id="by number"),
        pytest.param(1, ["node-00000 has 32000 cpu, and 32200 are used"], id="by CPU"),
    ],
)
def test_an_overcommitted_node_is_named(running: int, want: list[str]) -> None:
    """The pods that ran before count too."""
    scene = Scene(nodes=1, running=running, gangs=1, size=1000)
    places = scene.places(0)
    full = Ledger(scene)
    for number in range(places):
        full.bind(number, 0)
    assert full.faults() == [f"gang-0 has {places} of 1000 members on nodes"]
    full.bind(places, 0)
    assert full.faults()[1:] == want


def test_gangs_that_are_partial_for_a_moment_are_counted() -> None:
    ledger = Ledger(SCENE)
    for number in (0, 5, 1, 2, 3, 4, 6, 7, 8, 9):
        ledger.bind(number, 0)
    assert (ledger.partial_peak, ledger.whole, ledger.faults()) == (2, 2, [])
