"""Quota that is held while nodes are awaited: who gets it, and who is admitted when nodes come."""

from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import override

from extender.queueing import lifecycle
from extender.queueing.cycle import Admit, NotAdmitted
from extender.queueing.rules import AdmissionOptions
from extender.state.queue import events as ev
from tests.makers import node, observe
from tests.properties.test_room import SIZES, Machine
from tests.queue_makers import Admissions, cluster_queue, local_queue, validate_queues

STEPS = st.lists(
    st.tuples(st.sampled_from(("come", "place", "end", "grow", "late")), st.integers(1, 6)),
    max_size=30,
)


class Growing(Machine):
    """Nodes that are added, and two ClusterQueues that ask for them."""

    def __init__(self, sizes: list[int], each: int) -> None:
        super().__init__(sizes, each)
        self.queues = Admissions(
            *(cluster_queue("cq", 10_000), local_queue()),
            *(cluster_queue("other", 10_000), local_queue("other")),
            options=AdmissionOptions(require_room=True, provision=True),
            cluster=self.cluster,
        )

    def grow(self, size: int) -> None:
        number = len(self.free)
        self.free[number] = size
        observe(self.cluster, node(f"n{number}", size))

    def late(self, _: int) -> None:
        """Have the time for nodes end for all that await some."""
        for key in sorted(self.queues.view.reserved_only):
            waits = self.queues.view.workloads[key]
            step = lifecycle.nodes_refused(waits, "late", now=self.queues.now)
            assert step.after is not None
            after = lifecycle.released(step.after, self.queues.now)
            self.queues.apply(ev.Applied(lifecycle.requeued(after, "again", "", now=1.0)))

    @override
    def cycle(self) -> None:
        view, now = self.queues.view, self.queues.now
        self.queues.pending.sweep()
        awaited = view.reserved_only & view.workloads.keys()
        for outcome in self.queues.run():
            key, before = outcome.workload, view.workloads[outcome.workload]
            if isinstance(outcome, NotAdmitted):
                assert self.asked[key] > self.room() or key not in awaited, "it has its nodes"
                continue
            assert isinstance(outcome, Admit)
            if outcome.admission.reserved_only:
                after = lifecycle.reserved(before, outcome.admission, now)
            else:
                self.admit(key)
                after = lifecycle.admitted(before, outcome.admission, now)
                if before.admission is None:
                    after = lifecycle.reserved(before, outcome.admission, now)
            self.queues.apply(ev.Applied(after))
        validate_queues(self.queues.queues)
        for name in ("cq", "other"):
            asking = view.reserved_only & {*view.reserving(name)}
            assert len(asking) <= 1, "two of a ClusterQueue ask at once"
            waiting = self.queues.waiting(name)
            assert asking or not waiting, "nobody asks for the nodes of those that wait"


@given(sizes=SIZES, each=st.integers(1, 3), steps=STEPS)
def test_one_asks_and_is_admitted_once_its_nodes_are_there(
    sizes: list[int], each: int, steps: list[tuple[str, int]]
) -> None:
    machine = Growing(sizes, each)
    for what, count in steps:
        getattr(machine, what)(count)
        machine.cycle()
