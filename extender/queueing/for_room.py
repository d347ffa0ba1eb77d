"""Chooses the workloads to evict so that the pods of another one fit on nodes.

They are of lower priority, and of the preemptor's ClusterQueue or its cohort. A ClusterQueue that
asks for no room has no victims: its workloads would be admitted again at once, and their pods
would take the nodes that they left. Nor has another ClusterQueue that may reclaim quota from any
priority: a workload of it would come back in place of what is more important than itself, and that
would have victims, too. A preemptor that borrows has victims in its own ClusterQueue only: others
could reclaim its quota and come back, and it would evict them again.

All workloads that leave anyway count as gone. Then all possible victims do, and stay one after the
other where the pods still fit: the highest priority first, and of equal ones the oldest.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace

from extender.api.reasons import Preempted
from extender.queueing.preempt import Leaving, Plan, Preemptor, victim
from extender.queueing.quota import QuotaHolder, QuotaNode, QuotaTree, level
from extender.queueing.rules import requires_room
from extender.room.nodes import NodeRoom
from extender.state.queue.records import AdmissionInfo, Assignment, WorkloadInfo
from extender.state.queue.usage import usage
from extender.state.queue.view import QueueView
from extender.steps import Steps

_Held = tuple[QuotaNode, QuotaHolder]
_Rank = tuple[int, float, str]
_EVEN_THEN = "no room even without all workloads of lower priority"


@dataclass(slots=True)
class ForRoom:
    """The search for one preemptor, on the tree as it is now."""

    preemptor: Preemptor
    room: NodeRoom
    view: QueueView
    tree: QuotaTree
    leaving: Leaving
    away: frozenset[str]
    """Victims whose pods still end, and from the beginning of the search all that leave."""
    protected: Collection[str]
    """Never victims."""
    may_choose: bool = True
    """True if victims may be chosen; if not, it can only wait for workloads that leave anyway."""
    candidates: dict[str, _Held] = field(default_factory=dict)
    """The possible victims, those first that are to stay most."""

    def begin(self) -> Steps[None]:
        """Find out what may go, before anything else."""
        self.away |= {
            key for name in self.view.cluster_queues for key in self.leaving.leaving_from(name)
        }
        found = [*self._lower()] if self.may_choose else []
        yield
        found.sort()  # no two have the same UID and key
        yield
        self.candidates = {key: (node, holder) for _, key, node, holder in found}
        yield

    def _lower(self) -> Iterator[tuple[_Rank, str, QuotaNode, QuotaHolder]]:
        priority, options = self.preemptor.workload.priority, self.preemptor.options
        for node in self.preemptor.node.root.queues:
            queue, held = self.view.cluster_queues[node.name], self.tree.holders.held_in(node.name)
            if held.lowest >= priority or not requires_room(queue, options, self.view.flavors):
                continue
            if node is not self.preemptor.node and queue.preemption.reclaim_within_cohort == "Any":
                continue
            for key, each in held.holders.items():
                is_lower = each.workload.priority < priority
                if is_lower and key not in self.away and key not in self.protected:
                    yield each.rank, key, node, each

    @property
    def is_hopeless(self) -> bool:
        """Return whether there is no workload that could leave."""
        return not (self.candidates or self.away)

    def lack(self, workload: WorkloadInfo, assignments: Sequence[Assignment]) -> Steps[str | None]:
        """Return what pods lack without all of them; None where they would fit."""
        asked = usage(AdmissionInfo(self.preemptor.queue.name, tuple(assignments)), workload)
        node = self.preemptor.node
        borrows = any(level(node, what, amount)[0] for what, amount in asked.items())
        keys = self._possible(borrows=borrows)
        going = yield from self.room.needed(workload, assignments, keys, without=self.away)
        return _EVEN_THEN if going is None else None

    def plan(self, assignments: Sequence[Assignment], borrow: int) -> Steps[Plan | None]:
        """Return a plan for a preemptor that has quota; None where it would not fit."""
        return (yield from self._with_more(assignments, Plan(borrow=borrow)))

    def plan_with_quota(
        self,
        assignments: Sequence[Assignment],
        plan: Plan,
    ) -> Steps[Plan | None]:
        """Return a plan for quota with the victims for room that it needs more."""
        found = yield from self._with_more(assignments, plan)
        return None if found == plan else found

    def _with_more(self, assignments: Sequence[Assignment], plan: Plan) -> Steps[Plan | None]:
        needed, workload = self.room.needed, self.preemptor.workload
        chosen = self._gone(plan)
        more = [key for key in self._possible(borrows=plan.borrow > 0) if key not in chosen]
        going = yield from needed(workload, assignments, more, without=self.away | chosen)
        if going is None:
            return None
        gone = chosen.union(going)
        waits = yield from needed(workload, assignments, sorted(self.away - gone), without=gone)
        if waits is None or not (going or waits or plan.victims):
            return None  # nodes have changed meanwhile: it is tried again
        victims = (
            victim(holder, node, of=self.preemptor, reason=Preempted.FOR_ROOM)
            for node, holder in (self.candidates[key] for key in going)
        )
        leaving = tuple(dict.fromkeys([*plan.leaving, *waits]))
        return replace(plan, victims=(*plan.victims, *victims), leaving=leaving)

    def _possible(self, *, borrows: bool) -> tuple[str, ...]:
        """Return the possible victims; one that borrows has those of its own ClusterQueue."""
        own = self.preemptor.node
        return tuple(
            key for key, (node, _) in self.candidates.items() if not borrows or node is own
        )

    def _gone(self, plan: Plan) -> frozenset[str]:
        return frozenset([*plan.leaving, *(each.workload for each in plan.victims)])
