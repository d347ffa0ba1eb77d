"""Whatever happens to a group and when: what is written of it in the end is what is decided."""

import asyncio
from dataclasses import replace
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import override

from extender.controllers.pod_group import PodGroupController
from extender.controllers.timing import LOOK_AGAIN
from extender.gang import status
from extender.gang.verdicts import GangOptions, OnPartial
from extender.kube.errors import UnavailableError
from extender.kube.pod_groups import PodGroupWriter
from extender.kube.pods import PodRef
from extender.state.cluster.records import PodGroupInfo, PodGroupStatusInfo
from extender.state.cluster.store import Cluster
from tests.makers import ManualClock, cluster_of, deleted, key, node, observe, pod, pod_group

GROUP = key("gang")
NAMES = st.sampled_from([f"gang-{number}" for number in range(5)])
STAGES = st.sampled_from((
    {},
    {"on": "n0"},
    {"on": "n0", "phase": "Running"},
    {"on": "n0", "phase": "Succeeded", "finished": True},
    {"on": "n0", "phase": "Failed", "finished": True},
    {"gates": ("gate",)},
))  # fmt: skip
FACTS: st.SearchStrategy[Any] = st.one_of(
    st.builds(lambda name, stage: pod(name, group="gang", **stage), NAMES, STAGES),
    NAMES.map(deleted),
)
STEPS = st.lists(st.tuples(FACTS, st.sampled_from((0.0, 0.1, 0.4, 1.5))), max_size=30)
FAILURES = st.sets(st.integers(0, 20), max_size=5)


class Writer(PodGroupWriter):
    """Keeps what is written, and when, and has the watch show it; some writes fail."""

    def __init__(self, cluster: Cluster, clock: ManualClock, failures: set[int]) -> None:
        self.cluster, self.clock, self.failures = cluster, clock, failures
        self.calls = 0
        self.statuses: list[tuple[float, PodGroupStatusInfo]] = []

    @override
    async def apply_status(self, pod_group: PodGroupInfo, status: PodGroupStatusInfo) -> bool:
        self.calls += 1
        if self.calls - 1 in self.failures:
            raise UnavailableError("down")
        self.statuses.append((self.clock.now, status))
        observe(self.cluster, replace(pod_group, status=status))
        return True

    @override
    async def evict(self, pod: PodRef, *, dry_run: bool = False) -> None:
        raise AssertionError("gangs are kept")


class Play:
    """A controller of one group, which is called as `runtime.controller` would call it."""

    def __init__(self, cluster: Cluster, failures: set[int]) -> None:
        self.cluster, self.clock = cluster, ManualClock()
        self.writer = Writer(cluster, self.clock, failures)
        self.options = GangOptions()
        self.controller = PodGroupController(
            *(cluster, self.writer),
            record=lambda _: None,
            clock=self.clock,
            options=self.options,
            on_partial=OnPartial.KEEP,
        )
        self.due: float | None = None

    async def look(self) -> None:
        """Have one look, and note when the next one is due."""
        try:
            again = await self.controller.reconcile(GROUP)
        except UnavailableError:
            again = 0.2
        self.due = None if again is None else self.clock.now + again

    async def pass_time(self, seconds: float) -> None:
        """Have the looks that are due within so many seconds."""
        end = self.clock.now + seconds
        while self.due is not None and self.due <= end:
            self.clock.now = self.due
            await self.look()
        self.clock.now = end

    def decided(self) -> PodGroupStatusInfo:
        """Return what is decided now of the group whose status is what was written last."""
        found = self.cluster.view().pod_group(GROUP)
        assert found is not None
        return status.decide(
            found,
            view=self.cluster.view(),
            stored=self.writer.statuses[-1][1],
            now=self.clock.now,
            options=self.options,
        ).status


@given(STEPS, FAILURES)
def test_what_is_written_last_is_what_is_decided_at_rest(
    steps: list[tuple[Any, float]], failures: set[int]
) -> None:
    play = Play(cluster_of(node("n0", 100), pod_group(uid="u-1")), failures)

    async def run() -> None:
        await play.look()
        for fact, pause in steps:
            observe(play.cluster, fact)
            await play.look()
            await play.pass_time(pause)
        await play.pass_time(3 * LOOK_AGAIN)

    asyncio.run(run())
    written = play.writer.statuses
    assert written[-1][1] == play.decided()
    for (at, before), (then, after) in pairwise(written):
        assert before != after
        if status.may_wait(before, after):
            assert then - at >= LOOK_AGAIN - 1e-6
