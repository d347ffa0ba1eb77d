"""No order of events gives more quota than there is, lets one pass, or leaves anybody behind."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from typing_extensions import override

from extender.api.queue_wire import Eviction, FlavorFungibility
from extender.queueing.cycle import Admit, Outcome, Preempt
from extender.queueing.flavors import counts
from extender.queueing.nominate import Nomination, Nominator
from extender.queueing.rules import queue_order
from extender.queueing.status import Queued, standing
from extender.state.queue import events as ev
from extender.state.queue.records import (
    AdmissionInfo,
    FlavorResource,
    Quota,
    RequeueInfo,
    ResourceGroupInfo,
    WorkloadInfo,
)
from extender.steps import at_once
from tests.effort import examples
from tests.queue_makers import (
    Admissions,
    admission,
    cluster_queue,
    cohort,
    condition,
    flavor,
    group,
    local_queue,
    pod_set,
    quota,
    validate_queues,
    workload,
)

INDEX = st.integers(0, 30)
LIMIT = st.sampled_from([None, None, 0, 1, 3])
POLICY = st.fixed_dictionaries(
    {
        "within_cluster_queue": st.sampled_from(
            ["LowerOrNewerEqualPriority", "LowerPriority", "LowerPriority", "Never"]
        ),
        "reclaim_within_cohort": st.sampled_from(["Any", "Any", "LowerPriority", "Never"]),
        "borrow_within_cohort": st.sampled_from(["LowerPriority", "Never"]),
        "borrow_max_priority": st.sampled_from([None, 1]),
    }
)
STEPS: list[Literal["MayStopSearch", "TryNextFlavor"]] = ["MayStopSearch", "TryNextFlavor"]
STEP = st.sampled_from(STEPS)
ACTS = [
    *("nothing", "create", "finish", "leave", "end a pod"),
    *("change a priority", "delete what waits", "enlarge"),
]


@dataclass
class Part:
    """A ClusterQueue or a cohort, counted here once more and more simply."""

    quotas: Mapping[FlavorResource, Quota]
    usage: Mapping[FlavorResource, int] = field(default_factory=dict)
    children: list["Part"] = field(default_factory=list)

    def has(self, what: FlavorResource) -> int:
        own = self.quotas.get(what, Quota()).nominal
        return own + sum(child.has(what) - child.keeps(what) for child in self.children)

    def keeps(self, what: FlavorResource) -> int:
        limit = self.quotas.get(what, Quota()).lending_limit
        return 0 if limit is None else max(0, self.has(what) - limit)

    def used(self, what: FlavorResource) -> int:
        lent = (max(0, child.used(what) - child.keeps(what)) for child in self.children)
        return self.usage.get(what, 0) + sum(lent)

    def check(self, what: FlavorResource, *, top: bool) -> None:
        limit = 0 if top else self.quotas.get(what, Quota()).borrowing_limit
        if limit is not None:
            assert self.used(what) <= self.has(what) + limit, f"{what} is exceeded in {self}"
        for child in self.children:
            child.check(what, top=False)


class Queueing(RuleBasedStateMachine):
    """A few queues in cohorts, their workloads, and a shell that is late now and then."""

    def __init__(self) -> None:
        super().__init__()
        self.world = Admissions()
        self.made = 0
        self.names: list[str] = []

    @initialize(data=st.data(), queues=st.integers(1, 4), parents=st.integers(0, 2))
    def begin(self, data: st.DataObject, queues: int, parents: int) -> None:
        draw = data.draw
        self.world.put(flavor("other"))
        names = [f"co{number}" for number in range(3)]
        for number in range(parents):
            own = draw(st.builds(quota, st.integers(0, 3), LIMIT))
            self.world.put(cohort(names[number], names[number + 1], own))
        for number in range(queues):
            name = f"q{number}"
            inside = draw(st.sampled_from([*names[: parents + 1], None]))
            self.names.append(name)
            fungibility = FlavorFungibility(
                draw(STEP), draw(STEP), draw(st.sampled_from([None, "PreemptionOverBorrowing"]))
            )
            self.world.put(
                cluster_queue(
                    name,
                    self.group(data, inside=inside is not None),
                    inside,
                    strategy=draw(st.sampled_from(["BestEffortFIFO", "StrictFIFO"])),
                    preemption=draw(POLICY),
                    fungibility=fungibility,
                ),
                local_queue(name),
            )

    def group(self, data: st.DataObject, *, inside: bool) -> ResourceGroupInfo:
        limit = LIMIT if inside else st.none()
        amount = st.sampled_from([3, 2, 4, 1, 0])
        flavors = {"default": data.draw(st.builds(quota, amount, limit, limit))}
        if data.draw(st.booleans()):
            flavors["other"] = data.draw(st.builds(quota, amount, limit, limit))
        return group(**flavors)

    # --- what users do ------------------------------------------------------------------------

    @rule(
        index=INDEX,
        cpu=st.integers(1, 3),
        pods=st.integers(1, 3),
        least=st.sampled_from([None, None, 1]),
        priority=st.integers(0, 2),
        again=st.integers(1, 4),
    )
    def create(
        self, index: int, cpu: int, pods: int, least: int | None, priority: int, again: int
    ) -> None:
        for number in range(again):
            self.made += 1
            queue = self.names[(index + number) % len(self.names)]
            pod = pod_set(cpu, pods, least=least)
            self.world.put(workload(f"w{self.made}", pod, queue, priority))

    @rule(index=INDEX, cpu=st.integers(1, 3), priority=st.integers(0, 1), pods=st.integers(1, 6))
    def fill(self, index: int, cpu: int, priority: int, pods: int) -> None:
        """Leave no quota over, so that the next has to wait or to push others out."""
        for number in range(pods):
            self.create(index, 1 + (cpu + number) % 3, 1, None, (priority + number) % 2, 1)
        self.cycle(late=False)

    @rule(index=INDEX, cpu=st.sampled_from([3, 2, 4, 1]), priority=st.integers(1, 3))
    def press(self, index: int, cpu: int, priority: int) -> None:
        self.create(index, cpu, 1, None, priority, 1)
        self.victims_are_needed(index)
        self.cycle(late=False)

    @precondition(lambda self: self.waiting())
    @rule(index=INDEX)
    def delete_waiting(self, index: int) -> None:
        self.world.drop(pick(self.waiting(), index))

    @precondition(lambda self: self.waiting())
    @rule(index=INDEX, priority=st.integers(0, 3))
    def change_priority(self, index: int, priority: int) -> None:
        self.change(pick(self.waiting(), index), priority=priority)

    @precondition(lambda self: self.waiting())
    @rule(index=INDEX, seconds=st.sampled_from([5, 50]))
    def back_off(self, index: int, seconds: int) -> None:
        until = RequeueInfo(1, self.world.now + seconds)
        self.change(pick(self.waiting(), index), requeue=until)

    @rule(index=INDEX, more=st.integers(0, 2))
    def enlarge(self, index: int, more: int) -> None:
        before = self.world.view.cluster_queues[self.names[index % len(self.names)]]
        (old,) = before.resource_groups
        quotas = {
            x.flavor: replace(x.resources["cpu"], nominal=x.resources["cpu"].nominal + more * 1000)
            for x in old.flavors
        }
        newer = cluster_queue(before.name).meta
        self.world.put(replace(before, meta=newer, resource_groups=(group(**quotas),)))

    # --- what jobs, and the other controllers do ----------------------------------------------

    @precondition(lambda self: self.holding())
    @rule(index=INDEX)
    def finish(self, index: int) -> None:
        done = pick(self.holding(), index)
        self.change(done, conditions=(*done.conditions, condition("Finished")))

    @precondition(lambda self: self.holding())
    @rule(index=INDEX)
    def delete_holding(self, index: int) -> None:
        self.world.drop(pick(self.holding(), index))

    @precondition(lambda self: self.holding())
    @rule(index=INDEX)
    def end_a_pod(self, index: int) -> None:
        found = pick(self.holding(), index)
        done = min(found.pod_sets[0].count, found.reclaimable.get("main", 0) + 1)
        self.change(found, reclaimable={"main": done})

    @precondition(lambda self: self.leaving())
    @rule(index=INDEX)
    def leave(self, index: int) -> None:
        self.let_go(pick(self.leaving(), index))

    # --- what our own shell does --------------------------------------------------------------

    @rule(late=st.booleans())
    def cycle(self, late: bool) -> None:
        outcomes = self.world.decide()
        freed = self.world.last.freed  # what shares quota with these is tried again
        self.take(outcomes, late=late)
        if not late:
            again = self.world.decide()
            preempting = {x.workload for x in again if isinstance(x, Preempt)}
            assert freed or not preempting, "victims twice"
            before = {x.workload for x in outcomes if isinstance(x, Preempt)}
            assert not preempting & before, "victims twice for one"
            self.take(again, late=False)

    @rule(data=st.data(), pieces=st.sampled_from([1, 2, 4]))
    def cycle_with_pauses(self, data: st.DataObject, pieces: int) -> None:
        """Run a cycle that others are let in after every few pieces of."""
        decided: list[Outcome] = []
        preempting: list[Preempt] = []
        for number, piece in enumerate(self.world.decide_slowly()):
            decided += [piece] if piece is not None else []
            if number % pieces == 0:
                preempting += self.take_admissions(decided)
                decided = []
                self.books_are_right()
                self.someone_acts(data.draw(st.sampled_from(ACTS)), data.draw(INDEX))
        preempting += self.take_admissions(decided)
        for outcome in preempting:
            self.evict(outcome, late=True)

    def take_admissions(self, outcomes: list[Outcome]) -> list[Preempt]:
        admissions = tuple(x for x in outcomes if isinstance(x, Admit))
        self.take(admissions, late=False)
        return [x for x in outcomes if isinstance(x, Preempt)]

    def someone_acts(self, act: str, index: int) -> None:
        waiting, holding, leaving = self.waiting(), self.holding(), self.leaving()
        match act:
            case "create":
                self.create(index, 1 + index % 3, 1, None, index % 3, 1)
            case "enlarge":
                self.enlarge(index, 1)
            case "change a priority" if waiting:
                self.change_priority(index, index % 4)
            case "delete what waits" if waiting:
                self.delete_waiting(index)
            case "finish" if holding:
                self.finish(index)
            case "end a pod" if holding:
                self.end_a_pod(index)
            case "leave" if leaving:
                self.leave(index)
            case _:
                pass

    @rule()
    def settle(self) -> None:
        self.run_down()
        for _ in self.world.pending.requeue_all(self.world.view, self.world.now):
            pass
        outcomes = self.world.decide()
        # Those admitted meanwhile may be victims of one that found none before.
        assert not [x for x in outcomes if isinstance(x, Admit)], "a workload was not tried"
        self.take(outcomes, late=False)

    @precondition(lambda self: self.assumed())
    @rule(index=INDEX, written=st.booleans())
    def answer(self, index: int, written: bool) -> None:
        found = pick(self.assumed(), index)
        if written:
            self.confirm(found)
        else:
            self.world.apply(ev.Forgotten(found.key))

    @rule(seconds=st.sampled_from([1, 10, 100]))
    def advance(self, seconds: int) -> None:
        self.world.now += seconds
        self.world.pending.end_backoffs(self.world.now)

    @rule(index=INDEX)
    def victims_are_needed(self, index: int) -> None:
        head = self.world.pending.queue(self.names[index % len(self.names)]).head(blocking=True)
        if head is not None:
            nomination = self.nominate(head)
            if nomination.plan is not None and nomination.plan.victims:
                assert any(self.is_minimal(nomination, borrowing=b) for b in (True, False))

    # --- what must hold -----------------------------------------------------------------------

    @invariant()
    def books_are_right(self) -> None:
        validate_queues(self.world.queues)
        for top, part in self.parts():
            for what in (("default", "cpu"), ("other", "cpu")):
                part.check(what, top=top)

    @invariant()
    def all_that_may_be_queued_are(self) -> None:
        world, view = self.world, self.world.view
        want = {
            key
            for key, each in view.workloads.items()
            if isinstance(standing(each, view, now=world.now), Queued)
        }
        have = {key for name in self.names for key in world.pending.queue(name).in_order()}
        assert have == want
        sizes = [world.pending.queue(name).counts() for name in self.names]
        assert sum(x.active + x.inadmissible for x in sizes) == len(want)

    @override
    def teardown(self) -> None:
        if not self.names:
            return
        self.world.now += 1000
        for _ in range(2 * self.made + 2):
            self.run_down()
            if not self.holding():
                break
            for each in self.holding():
                self.world.drop(each)
        assert not self.holding()
        for name in self.names:
            waiting = self.world.pending.queue(name).in_order()
            strict = self.world.view.cluster_queues[name].strategy == "StrictFIFO"
            for key in waiting[:1] if strict else waiting:
                assert not self.nominate(key).fits, f"{key} was forgotten"

    # --- pieces -------------------------------------------------------------------------------

    def take(self, outcomes: tuple[Outcome, ...], *, late: bool) -> None:
        reported = [each.workload for each in outcomes]
        assert len(reported) == len(set(reported)), "two answers for one"
        self.no_workload_passes(outcomes)
        for outcome in outcomes:
            if isinstance(outcome, Admit):
                self.world.apply(ev.Assumed(outcome.workload, outcome.admission))
            elif isinstance(outcome, Preempt) and not late:
                self.evict(outcome)
            elif isinstance(outcome, Preempt):
                for victim in outcome.victims:
                    self.world.pending.drop_victim(victim.workload)

    def no_workload_passes(self, outcomes: tuple[Outcome, ...]) -> None:
        world = self.world
        for outcome in outcomes:
            if not isinstance(outcome, Admit):
                continue
            name = outcome.admission.cluster_queue
            if world.view.cluster_queues[name].strategy != "StrictFIFO":
                continue
            mine = queue_order(world.view.workloads[outcome.workload], world.options)
            for other in world.pending.queue(name).in_order():
                info = world.view.workloads[other]
                if info.requeue is None or (info.requeue.at or 0) <= world.now:
                    assert queue_order(info, world.options) > mine, f"{other} was passed"

    def evict(self, outcome: Preempt, *, late: bool = False) -> None:
        for victim in outcome.victims:
            found = self.world.view.workloads.get(victim.workload)
            held = self.world.view.admission(victim.workload)
            if late and (found is None or held is None):
                continue  # it has ended since the decision
            assert found is not None
            assert not found.leaves, "evicted twice"
            evicted = condition("Evicted", "Preempted", at=self.world.now)
            counted = (Eviction("Preempted", "", 1),)
            self.change(found, admission=held, conditions=(evicted,), evictions=counted)

    def run_down(self) -> None:
        """Run cycles, and let victims go, until nothing happens any more."""
        for _ in range(4 * self.made + 4):
            outcomes = self.world.decide()
            self.take(outcomes, late=False)
            gone = self.leaving()
            for each in gone:
                self.let_go(each)
            if not outcomes and not gone and not self.world.pending.ready():
                return
        raise AssertionError("it never comes to rest")

    def let_go(self, found: WorkloadInfo) -> None:
        self.change(found, admission=None, reclaimable={})

    def confirm(self, found: WorkloadInfo) -> None:
        held = self.world.view.admission(found.key)
        reserved = condition("QuotaReserved", at=self.world.now)
        self.change(found, admission=held, conditions=(reserved,))

    def change(self, found: WorkloadInfo, **fields: object) -> None:
        newer = replace(workload(found.meta.name).meta, created=found.meta.created)
        self.world.put(replace(found, meta=newer, **fields))  # type: ignore[arg-type]

    def waiting(self) -> list[WorkloadInfo]:
        found = (key for name in self.names for key in self.world.pending.queue(name).in_order())
        return [self.world.view.workloads[key] for key in found]

    def holding(self) -> list[WorkloadInfo]:
        return [w for w in self.workloads() if self.held(w) is not None]

    def leaving(self) -> list[WorkloadInfo]:
        return [w for w in self.holding() if w.evicted and w.admission]

    def assumed(self) -> list[WorkloadInfo]:
        return [w for w in self.workloads() if self.world.view.is_assumed(w.key)]

    def workloads(self) -> list[WorkloadInfo]:
        return list(self.world.view.workloads.values())

    def held(self, found: WorkloadInfo) -> AdmissionInfo | None:
        return self.world.view.admission(found.key)

    def parts(self) -> Iterator[tuple[bool, Part]]:
        """Yield the tops of the trees, counted anew."""
        view = self.world.view
        cohorts: dict[str, Part] = {}
        tops: dict[str, Part] = {}
        for name, found in view.cohorts.items():
            cohorts[name] = Part(quotas(found.resource_groups))
        for queue in view.cluster_queues.values():
            part = Part(quotas(queue.resource_groups), view.usage(queue.name))
            if queue.cohort is None:
                yield True, part
            else:
                cohorts.setdefault(queue.cohort, Part({})).children.append(part)
        for name, found in view.cohorts.items():
            if found.parent:
                cohorts.setdefault(found.parent, Part({})).children.append(cohorts[name])
        tops = {
            name: part
            for name, part in cohorts.items()
            if name not in view.cohorts or view.cohorts[name].parent is None
        }
        yield from ((True, part) for part in tops.values())

    def nominate(self, key: str) -> Nomination:
        world = self.world
        world.tree = world.tree.current(world.view, world.tree)
        world.tree.begin()
        nominator = Nominator(
            world.view, world.pending, tree=world.tree, rules=world.rules, now=0.0
        )
        return at_once(nominator.nominating(key))

    def is_minimal(self, nomination: Nomination, *, borrowing: bool) -> bool:
        """Return whether it fits without all victims, and with any one of them it does not."""
        assert nomination.plan is not None
        tree, plan = self.world.tree, nomination.plan
        for key in plan.leaving:
            self.give(key)
        victims = [victim.workload for victim in plan.victims]
        for key in victims:
            self.give(key)
        enough = self.fits(nomination, borrowing=borrowing)
        spare = []
        for key in victims:
            mark = tree.mark()
            self.give(key, back=True)
            spare += [key] if self.fits(nomination, borrowing=borrowing) else []
            tree.undo(mark)
        tree.undo(0)
        return enough and not spare

    def give(self, key: str, *, back: bool = False) -> None:
        tree, held = self.world.tree, self.world.view.admission(key)
        assert held is not None
        node = tree.queue(held.cluster_queue)
        usage = tree.holders.held_in(held.cluster_queue).holders[key].usage
        (tree.take if back else tree.give)(node, usage)

    def fits(self, nomination: Nomination, *, borrowing: bool) -> bool:
        node = nomination.node
        return all(
            node.available(what) >= amount and (borrowing or not node.borrows(what, amount))
            for what, amount in nomination.proposal.usage.items()
            if amount
        )


def quotas(groups: tuple[ResourceGroupInfo, ...]) -> dict[FlavorResource, Quota]:
    return {(x.flavor, "cpu"): x.resources["cpu"] for each in groups for x in each.flavors}


def pick(options: list[WorkloadInfo], index: int) -> WorkloadInfo:
    return options[index % len(options)]


def test_no_order_of_events_exceeds_quota() -> None:
    run_state_machine_as_test(
        Queueing,
        settings=settings(
            max_examples=examples(60),
            stateful_step_count=25,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
        ),
    )


HELD = st.tuples(st.integers(1, 4), st.integers(0, 3), st.sampled_from("ab"))


@settings(max_examples=examples(150))
@given(
    held=st.lists(HELD, min_size=1, max_size=8),
    room=st.integers(0, 3),
    mine=POLICY,
    cpu=st.integers(1, 8),
    share=st.integers(0, 8),
)
def test_no_more_have_to_go_than_must(
    held: list[tuple[int, int, str]], room: int, mine: dict[str, Any], cpu: int, share: int
) -> None:
    """Two queues divide what is used and a little more between them, in one way or another."""
    total = sum(cores for cores, _, _ in held) + room
    machine = Queueing()
    world = machine.world
    world.put(
        cluster_queue("a", min(share, total), "all", preemption=mine),
        cluster_queue("b", max(0, total - share), "all"),
        local_queue("a"),
    )
    for number, (cores, priority, name) in enumerate(held):
        made = workload(f"w{number}", cores, "a", priority)
        world.put(replace(made, admission=admission(made, name)))
    world.put(workload("new", cpu, "a", 2))
    nomination = machine.nominate("ns/new")
    event("fits" if nomination.fits else "plan" if nomination.plan else "none")
    if nomination.plan is not None:
        event(f"{len(nomination.plan.victims)} victims")
        assert any(machine.is_minimal(nomination, borrowing=each) for each in (True, False))


def test_what_preempts_for_fewer_pods_gets_no_more() -> None:
    """Else it borrows what it does not need, the other reclaims that, and so on forever."""
    machine = Queueing()
    for name, own in (("q0", 3), ("q1", 2)):
        machine.names.append(name)
        queue = cluster_queue(name, own, "co", preemption={"reclaim_within_cohort": "Any"})
        machine.world.put(queue, local_queue(name))
    machine.create(index=0, cpu=2, pods=2, least=1, priority=0, again=4)

    machine.settle()

    held = [machine.world.view.admission(each.key) for each in machine.holding()]
    assert sorted(each.assignments[0].count for each in held if each is not None) == [1, 1]


def test_pods_that_are_done_are_not_asked_for() -> None:
    done = replace(workload("a", pod_set(1, 5)), reclaimable={"main": 2})
    assert counts(done) == {"main": 3}
