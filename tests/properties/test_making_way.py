"""With room and preemption together no workload is one too many, evicted forever, or forgotten."""

from dataclasses import dataclass, replace
from random import Random

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from extender.queueing.cycle import Admit, Preempt
from extender.queueing.rules import AdmissionOptions
from extender.state.cluster import events as cluster_events
from extender.state.queue import events as ev
from extender.state.queue.records import OwnerRef
from tests.effort import examples, played
from tests.makers import cluster_of, deleted, nodes, pod
from tests.queue_makers import (
    Admissions,
    cluster_queue,
    condition,
    local_queue,
    pod_set,
    workload,
)

_PAUSES = 0.3
"""How often something happens between two pieces of a cycle."""
QUEUE = st.tuples(
    st.integers(2, 6),
    st.booleans(),
    st.sampled_from(["BestEffortFIFO", "BestEffortFIFO", "StrictFIFO"]),
    st.sampled_from(["LowerPriority", "LowerPriority", "Never"]),
    st.sampled_from(["Any", "LowerPriority", "Never"]),
)
"""Pods, whether it is in the cohort, and what may be preempted."""
COME = st.tuples(st.integers(0, 2), st.integers(1, 4), st.integers(0, 3))
"""The queue, pods and priority of a workload."""


@dataclass
class Job:
    """A workload, and where its pods are."""

    name: str
    queue: int
    count: int
    priority: int
    has_quota: bool = False
    leaves: bool = False
    times: int = 0
    """How often it was evicted."""
    pods: dict[str, int] | None = None
    """Node by name of a pod."""


class World:
    """Queues over nodes; pods are placed, and end once they are evicted, in any order."""

    def __init__(
        self,
        sizes: list[int],
        each: int,
        queues: list[tuple[int, bool, str, str, str]],
        rng: Random,
        pauses: Random | None = None,
        *,
        options: AdmissionOptions,
    ) -> None:
        self.each, self.rng, self.options = each, rng, options
        self.pauses = pauses
        """Draws what happens between two pieces of a cycle; None where nothing does."""
        self.free = dict(enumerate(sizes))
        self.slots = sum(size // each for size in sizes)
        self.cluster = cluster_of(nodes(*sizes))
        self.specs = queues
        self.queues = Admissions(options=options, cluster=self.cluster)
        for number, (quota, together, strategy, own, others) in enumerate(queues):
            spec = cluster_queue(
                f"q{number}",
                quota * each,
                "cohort" if together else None,
                strategy=strategy,
                preemption={"within_cluster_queue": own, "reclaim_within_cohort": others},
            )
            self.queues.put(spec, local_queue(f"q{number}"))
        self.jobs: dict[str, Job] = {}
        self.ending: dict[str, int] = {}
        """Node by name of a pod that still ends."""
        self.made = self.evictions = 0
        self.ended = 0
        """How often workloads ended or were withdrawn: a preemptor may need a victim again then."""
        self.reported: set[tuple[str, str, int, int]] = set()
        self.hopeful: set[str] = set()
        """Preemptors, for which others were evicted."""

    def come(self, queue: int, count: int, priority: int) -> None:
        self.made += 1
        job = Job(f"w{self.made}", queue % len(self.specs), count, priority)
        self.jobs[f"ns/{job.name}"] = job
        self.write(job)

    def write(self, job: Job) -> None:
        owner = OwnerRef("batch/v1", "Job", job.name, f"job-{job.name}")
        found = workload(
            job.name, pod_set(self.each, job.count), f"q{job.queue}", job.priority, owners=(owner,)
        )
        before = self.queues.view.workloads.get(found.key)
        if before is not None:
            found = replace(found, meta=replace(found.meta, created=before.meta.created))
        conditions = [condition("Evicted", "Preempted")] if job.leaves else []
        if job.has_quota:
            conditions.append(condition("QuotaReserved", at=self.queues.now))
            held = self.queues.view.admission(found.key)
            found = replace(found, admission=held, conditions=tuple(conditions))
        self.queues.put(found)

    # -- what happens by and by

    def decide(self) -> bool:
        self.queues.pending.sweep()
        self.queues.now += 3600  # no preemptor pauses
        something = False
        preempting: list[Preempt] = []
        for outcome in self.queues.decide_slowly():
            if isinstance(outcome, Admit):
                job = self.jobs[outcome.workload]
                self.queues.apply(ev.Assumed(outcome.workload, outcome.admission))
                job.has_quota, job.leaves, job.pods, something = True, False, {}, True
                assert self.unplaced() <= self.left(), "it was admitted without room"
            elif isinstance(outcome, Preempt):
                preempting.append(outcome)
            something = self.pause() or something
        for preempt in preempting:
            for victim in preempt.victims:
                self.evict(self.jobs[victim.workload], by=self.jobs[preempt.workload])
                something = True
        for job in self.jobs.values():
            if self.queues.view.is_assumed(f"ns/{job.name}"):
                self.write(job)
        last = self.queues.last  # others are tried again in the next cycle
        return something or last.more or bool(last.freed)

    def pause(self) -> bool:
        """Let something happen between two pieces of a cycle, now and then; return whether it has.

        The nodes change then, so that the next cycle tries again what lacked room.
        """
        if self.pauses is None or self.pauses.random() >= _PAUSES:
            return False
        return self.pauses.choice([self.end, self.stop, self._try_again])()

    def _try_again(self) -> bool:
        self.queues.pending.sweep()
        return False

    def evict(self, victim: Job, *, by: Job) -> None:
        assert victim.has_quota
        assert not victim.leaves, "evicted twice"
        assert victim.priority < by.priority or victim.queue != by.queue
        self.evictions += 1
        victim.leaves = True
        victim.times += 1
        once = (victim.name, by.name, by.times, self.ended)
        assert once not in self.reported, f"{victim.name} goes twice for {by.name}"
        self.reported.add(once)
        _, together, strategy, *_ = self.specs[by.queue]
        if strategy != "StrictFIFO" and not together:  # there others may come before it
            self.hopeful.add(by.name)
        self.write(victim)

    def place(self) -> bool:
        """Put pods of those that are admitted on nodes, as kube-scheduler may do."""
        missing = [
            job for job in self.jobs.values()
            if job.pods is not None and job.has_quota and not job.leaves
            and len(job.pods) < job.count
        ]  # fmt: skip
        fitting = [node for node, free in self.free.items() if free >= self.each]
        if not missing or not fitting:
            assert not missing, "what was admitted has no room"
            return False
        job, node = self.rng.choice(missing), self.rng.choice(fitting)
        assert job.pods is not None
        self.made += 1
        name = f"{job.name}-{self.made}"
        job.pods[name] = node
        self.free[node] -= self.each
        self.show(job, name, node)
        return True

    def stop(self) -> bool:
        """Have one that was evicted delete its pods, and give its quota back at once."""
        leaving = [job for job in self.jobs.values() if job.leaves and job.has_quota]
        if not leaving:
            return False
        job = self.rng.choice(leaving)
        for name, node in (job.pods or {}).items():
            self.show(job, name, node, terminating=True)
            self.ending[name] = node
        job.has_quota, job.pods = False, None
        self.write(job)
        return True

    def end(self) -> bool:
        """Have a pod end that is deleted."""
        if not self.ending:
            return False
        name = self.rng.choice(sorted(self.ending))
        self.free[self.ending.pop(name)] += self.each
        self.cluster.apply(deleted(name))
        return True

    def show(self, job: Job, name: str, node: int, *, terminating: bool = False) -> None:
        self.cluster.apply(
            cluster_events.ObjectApplied(
                pod(name, self.each, on=f"n{node}", controller=f"job-{job.name}",
                    workload=f"ns/{job.name}", terminating=terminating)
            )
        )  # fmt: skip

    def some(self, steps: int) -> None:
        for _ in range(steps):
            self.rng.choice([self.decide, self.place, self.stop, self.end])()

    def settle(self) -> None:
        """Go on until nothing happens any more, with cycles all the while."""
        steps = [self.decide, self.place, self.stop, self.end]
        for _ in range(200 * (len(self.jobs) + 1)):
            self.some(2)
            if not sum(step() for step in steps):
                for job in self.jobs.values():
                    assert job.has_quota or job.times or job.name not in self.hopeful, "in vain"
                return
        raise AssertionError("it never comes to rest")

    def withdraw(self) -> None:
        """Have a workload that waits be deleted."""
        waiting = sorted(key for key, job in self.jobs.items() if not job.has_quota)
        if waiting:
            key = self.rng.choice(waiting)
            self.ended += 1
            del self.jobs[key]
            self.queues.drop(self.queues.view.workloads[key])

    def missed(self) -> list[str]:
        """Return what is admitted when all are tried, at rest: no change had them tried."""
        for _ in self.queues.pending.requeue_all(self.queues.view, self.queues.now):
            pass
        outcomes = self.queues.decide()
        for outcome in outcomes:
            if isinstance(outcome, Preempt):  # nothing is evicted here, as after a failed write
                for victim in outcome.victims:
                    self.queues.pending.drop_victim(victim.workload)
        return [each.workload for each in outcomes if isinstance(each, Admit)]

    def finish(self) -> None:
        """Have all that run end."""
        self.ended += 1
        for key in [key for key, job in self.jobs.items() if job.has_quota]:
            job = self.jobs.pop(key)
            for name, node in (job.pods or {}).items():
                self.free[node] += self.each
                self.cluster.apply(deleted(name))
            self.queues.drop(self.queues.view.workloads[key])

    # -- what is there

    def left(self) -> int:
        return sum(free // self.each for free in self.free.values())

    def unplaced(self) -> int:
        there = [job for job in self.jobs.values() if job.has_quota and not job.leaves]
        return sum(job.count - len(job.pods or {}) for job in there)

    def fits_alone(self, job: Job) -> bool:
        quota, together, *_ = self.specs[job.queue]
        most = sum(spec[0] for spec in self.specs if spec[1]) if together else quota
        return job.count <= min(most, self.slots)


@dataclass(frozen=True)
class Course:
    """Nodes, queues, and which workload comes when."""

    sizes: list[int]
    each: int
    queues: list[tuple[int, bool, str, str, str]]
    comes: list[tuple[tuple[int, int, int], int]]
    seed: int
    pauses: bool = False
    """Whether pods end in the middle of a cycle, and workloads are tried again."""
    for_room: bool = False
    """Whether others are preempted for room alone."""

    def world(self) -> World:
        """Return the world as it begins."""
        pauses = Random(self.seed + 1) if self.pauses else None
        options = AdmissionOptions(
            require_room=True, preempt_for_room="LowerPriority" if self.for_room else "Never"
        )
        return World(self.sizes, self.each, self.queues, Random(self.seed), pauses, options=options)


def comes(text: str) -> list[tuple[tuple[int, int, int], int]]:
    """Return what comes: queue, pods and priority of each, and how many steps follow it."""
    digits = ([int(each) for each in word if each != ":"] for word in text.split())
    return [((queue, pods, priority), steps) for queue, pods, priority, steps in digits]


COURSES = st.builds(
    Course,
    sizes=st.lists(st.integers(1, 5), min_size=2, max_size=4),
    each=st.integers(1, 2),
    queues=st.lists(QUEUE, min_size=1, max_size=3),
    comes=st.lists(st.tuples(COME, st.integers(2, 9)), min_size=3, max_size=14),
    seed=st.integers(0, 9999),
    pauses=st.booleans(),
    for_room=st.booleans(),
)


WAITS = {
    "a head of a strict queue goes, for which quota was kept": Course(
        sizes=[3, 4, 1],
        each=1,
        queues=[
            (3, False, "BestEffortFIFO", "LowerPriority", "Never"),
            (5, True, "BestEffortFIFO", "LowerPriority", "Any"),
            (3, True, "StrictFIFO", "LowerPriority", "Any"),
        ],
        comes=comes("130:6 240:2 213:3 133:6"),
        seed=6467,
    ),
    "a victim is deleted while its pods still end": Course(
        sizes=[2, 2, 4, 2],
        each=2,
        queues=[(5, False, "BestEffortFIFO", "LowerPriority", "Any")],
        comes=comes(
            "020:4 010:5 020:7 010:7 012:6 010:2 010:2 032:4 010:3 023:9 010:4 010:3 010:7 021:8"
        ),
        seed=323,
    ),
    "the same, and another of its victims was admitted again meanwhile": Course(
        sizes=[4, 2, 3, 2],
        each=2,
        queues=[(5, False, "BestEffortFIFO", "LowerPriority", "Any")],
        comes=comes(
            "021:4 010:5 020:7 012:7 010:7 010:2 032:4 010:2 010:4 023:9 010:7 010:4 010:2"
        ),
        seed=8,
    ),
    "an equal that lacks quota is judged after one that waits for pods to end": Course(
        sizes=[2, 2, 4, 2],
        each=2,
        queues=[(5, False, "BestEffortFIFO", "LowerPriority", "Any")],
        comes=comes(
            "021:4 010:3 020:7 010:7 012:7 010:2 010:2 032:4 010:4 023:9 010:4 010:3 010:6 021:8"
        ),
        seed=323,
    ),
    "a workload that waits for its victims is tried twice in a cycle": Course(
        sizes=[1, 1],
        each=1,
        queues=[(2, False, "StrictFIFO", "LowerPriority", "Any")],
        comes=comes("010:2 010:2 011:2"),
        seed=5,
        pauses=True,
    ),
    "the same where it may be passed": Course(
        sizes=[1, 1],
        each=1,
        queues=[(2, False, "BestEffortFIFO", "LowerPriority", "Any")],
        comes=comes("010:2 010:2 011:2"),
        seed=5,
        pauses=True,
    ),
    "a pod of a victim ends while it is asked what the victims leave": Course(
        sizes=[2, 4, 4],
        each=2,
        queues=[(5, False, "BestEffortFIFO", "LowerPriority", "Any")],
        comes=comes("010:2 010:4 020:3 010:3 010:5 020:2 041:2 010:2"),
        seed=34,
        pauses=True,
    ),
    "the same, and a victim has to go twice": Course(
        sizes=[2, 5, 5],
        each=2,
        queues=[(5, False, "BestEffortFIFO", "LowerPriority", "Any")],
        comes=comes("010:2 010:3 020:3 010:5 020:2 010:5 041:8 020:2"),
        seed=162,
        pauses=True,
    ),
    "a preemptor is passed by a head of its strict queue, and its quota is free": Course(
        sizes=[3, 5],
        each=1,
        queues=[
            (2, False, "BestEffortFIFO", "LowerPriority", "Any"),
            (5, True, "StrictFIFO", "LowerPriority", "Any"),
            (2, True, "BestEffortFIFO", "LowerPriority", "Any"),
        ],
        comes=comes("130:2 010:3 010:4 010:6 010:6 230:4 010:5 120:5 141:4"),
        seed=0,
    ),
    "the same, and the head is withdrawn: the victim goes again": Course(
        sizes=[3, 5],
        each=1,
        queues=[
            (2, False, "BestEffortFIFO", "LowerPriority", "Any"),
            (5, True, "StrictFIFO", "LowerPriority", "Any"),
            (2, True, "BestEffortFIFO", "LowerPriority", "Any"),
        ],
        comes=comes("130:2 010:3 010:4 010:6 010:6 230:4 120:5 141:4"),
        seed=0,
    ),
}


@settings(max_examples=examples(150), suppress_health_check=[HealthCheck.too_slow])
@given(COURSES)
@played(WAITS)
def test_no_workload_waits_for_what_is_there(course: Course) -> None:
    """Once a workload goes that kept something from others, these are tried again."""
    world = course.world()
    for come, steps in course.comes:
        world.come(*come)
        world.some(steps)
        if steps % 3 == 0:
            world.withdraw()
    world.settle()
    for _ in course.comes:
        assert not world.missed()
        world.withdraw()
        world.settle()
        assert not world.missed()
        world.finish()
        world.settle()


RESTS = {
    "a preemptor takes what another one's victims leave": Course(
        sizes=[1, 5],
        each=1,
        queues=[(6, False, "BestEffortFIFO", "LowerPriority", "Never")],
        comes=comes("131:5 211:4 120:4 221:7 132:5 130:8 040:4 210:8 113:5 113:8 221:2"),
        seed=5186,
    ),
    "one that reclaims from any priority goes for room, and comes back in place of another": Course(
        sizes=[4, 4],
        each=1,
        queues=[
            (3, True, "BestEffortFIFO", "Never", "Any"),
            (2, True, "BestEffortFIFO", "LowerPriority", "Never"),
            (5, True, "BestEffortFIFO", "Never", "Never"),
        ],
        comes=comes("243:6 143:6 030:6 111:6 111:6"),
        seed=0,
        for_room=True,
    ),
    "a strict head keeps, within a cycle, the quota that a preemptor has victims for": Course(
        sizes=[4, 3, 2, 2],
        each=1,
        queues=[
            (6, True, "BestEffortFIFO", "LowerPriority", "Never"),
            (4, True, "StrictFIFO", "LowerPriority", "LowerPriority"),
        ],
        comes=comes("231:7 213:5 143:5 243:3 232:6 143:9"),
        seed=11,
        pauses=True,
        for_room=True,
    ),
}


@settings(max_examples=examples(150), suppress_health_check=[HealthCheck.too_slow])
@given(COURSES)
@played(RESTS)
def test_it_comes_to_rest_and_every_workload_has_a_turn(course: Course) -> None:
    world = course.world()
    for come, steps in course.comes:
        world.come(*come)
        world.some(steps)
    world.settle()
    event(f"evictions: {min(world.evictions, 5)}")
    assert world.evictions <= len(course.comes) ** 2
    for _ in course.comes:
        world.finish()
        world.settle()
    for job in world.jobs.values():
        strict = course.queues[job.queue][2] == "StrictFIFO"
        first = world.queues.waiting(f"q{job.queue}")[0] == job.name
        assert not world.fits_alone(job) or (strict and not first), f"{job} was forgotten"
