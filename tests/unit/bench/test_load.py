"""The order in which pods are created, and which gang they are of."""

from tests.bench.load import Load, gang_of


def test_gang_after_gang() -> None:
    load = Load(nodes=1, gangs=2, size=2)

    assert load.pods == 4
    assert load.pod_names() == ["gang-00000-0", "gang-00000-1", "gang-00001-0", "gang-00001-1"]


def test_interleaved() -> None:
    load = Load(nodes=1, gangs=2, size=2, interleave=True)

    assert load.pod_names() == ["gang-00000-0", "gang-00001-0", "gang-00000-1", "gang-00001-1"]


def test_every_pod_is_of_one_of_the_gangs() -> None:
    load = Load(nodes=1, gangs=3, size=11)

    assert {gang_of(name) for name in load.pod_names()} == set(load.gang_names())
