"""What passes of kube-scheduler's preemption, against a count by hand of what gangs would keep."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hypothesis import event, given, settings
from hypothesis import strategies as st

from extender.gang import preempt
from extender.state.cluster import events as ev
from extender.state.cluster.records import PodInfo
from extender.state.cluster.view import ClusterView
from tests.effort import examples
from tests.makers import cluster_of, nodes, pod, pod_group

NODES = ("n0", "n1", "n2")
GANGS = ("a", "b", "c")
PRIORITIES = st.sampled_from([0, 0, 0, 1, 2, 3])
GOES = st.sampled_from([True, True, True, False])
STATES = st.sampled_from(["bound"] * 6 + ["waits", "leaves", "pends"])


@dataclass
class Play:
    """Gangs that run or do not, a pod that preempts, and what it would take of each node."""

    least: Mapping[str, int]
    """minMember by gang."""
    pods: Sequence[tuple[PodInfo, str, str]]
    """Each with its state and its node."""
    preempts: PodInfo
    victims: Mapping[str, Sequence[str]]

    def view(self) -> ClusterView:
        facts: list[object] = [*nodes(64, 64, 64), self.preempts]
        facts += [pod_group(name, least) for name, least in self.least.items()]
        for each, state, on in self.pods:
            facts.append(each)
            if state == "waits":
                facts.append(ev.PodWaiting(each, on))
        return cluster_of(facts).view()

    def decided(self) -> set[str]:
        return {*preempt.decide_proposals(self.preempts, self.victims, view=self.view())}

    def kept(self, node: str) -> dict[str, int]:
        """Return how many members each gang keeps that runs, and breaks without the victims."""
        broken = {}
        for name, least in self.least.items():
            runs = {
                each.uid
                for each, state, _ in self.pods
                if each.group == f"ns/{name}" and state in ("bound", "waits")
            }
            left = len(runs - {*self.victims[node]})
            if left < least <= len(runs):
                broken[name] = left
        return broken

    def is_forbidden(self, node: str) -> bool:
        """Return whether a gang breaks there of which any pod is as important."""
        worth = {
            name: max(each.priority for each in self.members(name)) for name in self.kept(node)
        }
        return any(highest >= self.preempts.priority for highest in worth.values())

    def members(self, name: str) -> list[PodInfo]:
        there = [each for each, _, _ in self.pods] + [self.preempts]
        return [each for each in there if each.group == f"ns/{name}"]

    def harm(self, node: str) -> int:
        """Return 0 where no gang breaks, 1 where those that do go whole, 2 where a part stays."""
        kept = self.kept(node)
        return 2 if any(kept.values()) else 1 if kept else 0


@st.composite
def plays(draw: st.DrawFn) -> Play:
    """Draw up to three gangs over three nodes; victims are less important, as kube-scheduler's."""
    least = {name: draw(st.sampled_from([1, 2, 2, 3])) for name in GANGS}
    own = draw(st.sampled_from([None, None, "own"]))
    preempts = pod("preempts", group=own, priority=draw(st.sampled_from([1, 3, 4])))
    if own is not None:
        least[own] = 1
    groups = st.sampled_from([*GANGS, *GANGS, *GANGS, own])
    pods: list[tuple[PodInfo, str, str]] = []
    for number in range(draw(st.integers(6, 12))):
        state, on = draw(STATES), draw(st.sampled_from(NODES))
        made = pod(
            f"p{number}",
            group=draw(groups),
            on=on if state in ("bound", "leaves") else None,
            priority=draw(PRIORITIES),
            terminating=state == "leaves",
        )
        pods.append((made, state, on))
    victims = {}
    for node in NODES:
        lower = [
            each.uid
            for each, state, on in pods
            if on == node and state != "pends" and each.priority < preempts.priority
        ]
        if lower:
            victims[node] = [uid for uid in lower if draw(GOES)]
    return Play(least, pods, preempts, victims)


@settings(max_examples=examples(500))
@given(plays())
def test_no_node_breaks_a_gang_that_is_as_important(play: Play) -> None:
    forbidden = {node for node in play.victims if play.is_forbidden(node)}
    event(f"forbidden {len(forbidden)}")

    assert not play.decided() & forbidden


@settings(max_examples=examples(500))
@given(plays())
def test_a_node_is_left_out_for_a_gang_that_breaks_and_for_nothing_else(play: Play) -> None:
    """Those with the least harm are left: none breaks, none is left in part, or all may be."""
    able = [node for node in play.victims if not play.is_forbidden(node)]
    least = min(map(play.harm, able), default=0)
    event(f"least harm {least} of {len({play.harm(node) for node in able})}")

    assert play.decided() == {node for node in able if play.harm(node) == least}
