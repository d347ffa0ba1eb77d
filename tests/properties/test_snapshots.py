"""Whatever happened, the state made again from a snapshot is the state that it was taken of."""

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import invariant, run_state_machine_as_test
from typing_extensions import override

from extender.gang.options import GangOptions
from extender.queueing.options import AdmissionOptions
from extender.snapshot.header import SnapshotHeader
from extender.snapshot.reading import Snapshot, read
from extender.snapshot.writing import Belief, written
from extender.state.cluster.store import Cluster
from extender.state.queue.store import Queues
from tests.effort import examples
from tests.properties.test_gangs import PHASES, Gangs, GangsInTurn
from tests.properties.test_queueing import Queueing
from tests.queue_makers import validate_queues


def file_of(cluster: Cluster, queues: Queues | None = None) -> bytes:
    """Return a snapshot of a state."""
    belief = Belief(
        SnapshotHeader("extender", 1.0),
        GangOptions(),
        cluster.copied(),
        admission=AdmissionOptions() if queues is not None else None,
        queues=queues.copied() if queues is not None else None,
    )
    return b"".join(written(belief))


def again(cluster: Cluster, queues: Queues | None = None) -> Snapshot:
    """Return the state that a snapshot gives, of which another snapshot is the same."""
    data = file_of(cluster, queues)
    found = read(data)
    found.cluster.validate()
    lines = file_of(found.cluster, found.queues).splitlines()
    assert lines == data.splitlines()
    return found


class GangSnapshots(Gangs):
    """A snapshot after each step."""

    @invariant()
    @override
    def books_are_right(self) -> None:
        live = self.world.cluster
        found = again(live).cluster.view()
        view = live.view()
        assert list(found.queue) == list(view.queue)
        for group in view.groups:
            assert found.tally(group) == view.tally(group)
        assert found.left.all() == view.left.all()


class GangSnapshotsInTurn(GangSnapshots, GangsInTurn):
    """The same where groups begin without a request too."""


class QueueSnapshots(Queueing):
    """A snapshot of the queues after each step."""

    @invariant()
    def comes_again(self) -> None:
        found = again(Cluster(), self.world.queues).queues
        assert found is not None
        validate_queues(found)
        view, live = found.view(), self.world.queues.view()
        for name in live.cluster_queues:
            assert view.usage(name) == live.usage(name)
            assert set(view.reserving(name)) == set(live.reserving(name))


@pytest.mark.parametrize(
    ("machine", "count"), [(GangSnapshots, 25), (GangSnapshotsInTurn, 25), (QueueSnapshots, 25)]
)
def test_the_state_of_a_snapshot_is_that_of_the_process(
    machine: type[Gangs | Queueing], count: int
) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples(count),
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
            phases=PHASES,
        ),
    )
