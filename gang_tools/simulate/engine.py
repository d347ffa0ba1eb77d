"""One simulation: what happens, in the order of time, and what is decided about it.

The state is that of both processes, changed by the same events through the same writers. Instead of
watches the models here say what happens: jobs come, pods appear, get nodes, run for their time and
end. All that happens within one step of time is decided on together, as the processes gather
changes.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from heapq import heapify, heappop, heappush
from math import inf
from typing import Any, Final

from extender.api.reasons import Preempted
from extender.api.wellknown import GROUP_X
from extender.jobs.workload import pod_group_key
from extender.permit.background import NodeClaims
from extender.queueing.preempt import Victim
from extender.queueing.rules import requires_room
from extender.room.pods import PodSetCount, PodShapes
from extender.state.cluster import events as ce
from extender.state.cluster.records import Grant, JobInfo, NodeInfo, PodGroupInfo, PodInfo
from extender.state.cluster.store import Cluster
from extender.state.queue import events as qe
from extender.state.queue.records import AdmissionInfo, ClusterQueueInfo, PodSetInfo, WorkloadInfo
from extender.state.queue.store import Queues
from extender.steps import at_once
from gang_tools.simulate.admission import MOST_CYCLES, AdmissionModel, CircularError, QueueOutlet
from gang_tools.simulate.books import Books
from gang_tools.simulate.scheduling import PreemptionModel, SchedulerModel
from gang_tools.simulate.world import MOST_PODS, SimJob, World
from gang_tools.snapshot.file import StoppedClock

IDLE: Final = 7200.0
"""Seconds without any job that comes, starts or ends after which a simulation is over: claims of
gangs that wait and back-offs of evicted jobs have had their time."""
AGING_LOOKS: Final = 30
"""Checks for gangs that have waited long, in each `gang.agingSeconds`."""
GRANTED: Final = 60.0
"""Seconds for which room is granted to pods that are not there yet."""

_Do = Callable[[], None]
_Event = tuple[float, int, Callable[..., None], tuple[Any, ...]]
"""A time, a number that orders equal times, a function and its arguments."""


class Simulation:
    """Plays a world from its beginning."""

    def __init__(self, world: World, *, alone: bool = False) -> None:
        """Prepare a simulation. With `alone` there are no gangs and no queues."""
        self.alone = alone
        if alone:  # the same nodes and pods
            jobs = [replace(job, pod_group=None, workload=None) for job in world.jobs]
            world = replace(world, jobs=jobs, records=())
        self.world = world
        self.clock = StoppedClock(world.began)
        self.cluster, self.queues = Cluster(growing=world.gang.growing), Queues(world.complete)
        self.view, self.queue_view = self.cluster.view(), self.queues.view()
        self.books = Books(world.nodes)
        self.arrived = self.finished = 0
        self.preemptions = self.evictions = self.half_placed = 0
        self._events = len(world.jobs)
        self._moved = 0.0
        """The last time at which a job came, or a pod got a node or ended."""
        self._agenda: list[_Event] = []
        """The events to come: arrivals of jobs and ends of pods."""
        self._looks: list[_Event] = []
        """The checks to come, which move no job by themselves."""
        self._number = world.version
        """Grows with each object: its resourceVersion."""
        self._job_of: dict[str, SimJob] = {}
        self._by_workload: dict[str, SimJob] = {}
        # The jobs to look at once everything of a moment has been decided.
        self._touched: dict[SimJob, list[str]] = {}
        """The UIDs of pods that got a node, by job."""
        self._half_placed: set[SimJob] = set()
        """Jobs that may have nodes for too few of the pods that start together."""
        self._begun: list[SimJob] = []
        """Jobs that were admitted."""
        self.cluster.apply(ce.ObjectsListed(NodeInfo, [*world.nodes]))
        for record in world.records:
            if isinstance(record, ClusterQueueInfo):
                # No controller plays, so all checks are passed.
                record = replace(record, admission_checks=())
            self.queues.apply(qe.Applied(record))
        self.scheduler = SchedulerModel(
            self.cluster, self.clock, options=world.gang, bound=self._on_bound
        )
        outlet = QueueOutlet(
            start=self._start_admitted,
            stop=self._stop_evicted,
            after=self.after,
            is_ready=self._is_ready,
        )
        self.admission = AdmissionModel(
            self.queues, self.view, self.clock, options=world.queue, outlet=outlet
        )
        self._shapes = PodShapes(self.queue_view, self.view)
        self.preemption = PreemptionModel(
            self.cluster,
            self.scheduler.plans,
            self.clock,
            evict=self._preempt_pods,
            after=self.after,
        )
        self._aging = NodeClaims(
            self.cluster,
            options=world.gang,
            clock=self.clock,
            schedulers=self.scheduler.plans.schedulers,
        )
        known: list[PodGroupInfo | JobInfo] = [*world.pod_groups, *world.batch_jobs]
        for each in known:
            self.cluster.apply(ce.ObjectApplied(each))
        for job in world.running:
            self._adopt(job)
        self._agenda += [(job.arrival, n, self._arrive, (job,)) for n, job in enumerate(world.jobs)]
        heapify(self._agenda)

    _ages = False
    """True if the next check for gangs that have waited long is planned."""

    # --- time ----------------------------------------------------------------------------------

    def after(self, seconds: float, do: _Do) -> None:
        """Call a function after so many seconds of virtual time, if anything happens until then."""
        self._events += 1
        heappush(self._looks, (self.clock.now + max(0.0, seconds), self._events, do, ()))

    def run(self, until: float | None = None, *, stop: Callable[[], bool] = lambda: False) -> None:
        """Play until nothing happens any more, or until a time, or until `stop` says so."""
        step, last = self.world.step, -self.world.step
        self._decide()
        while not stop():
            first = self._next_time()
            self.books.sample(self.clock.now, inf if first is None else first)
            if first is None:
                self.clock.now = self._moved
                return
            if until is not None and first > until:
                self.clock.now = max(self.clock.now, until)
                return
            due = max(first, last + step)
            for heap in (self._agenda, self._looks):
                while heap and heap[0][0] <= due:
                    when, _, do, given = heappop(heap)
                    self.clock.now = max(self.clock.now, when)
                    do(*given)
            last = self.clock.now = due
            self._decide()

    def _next_time(self) -> float | None:
        """Return when something happens next; None where what waits then waits forever."""
        comes = self._agenda[0][0] if self._agenda else None
        if comes is None and self.finished == self.arrived:
            return None
        looks = self._looks[0][0] if self._looks else None
        if looks is None or (comes is not None and comes <= looks):
            return comes
        if looks - self._moved <= IDLE:
            return looks
        if comes is not None:  # what waits has nothing to look for until then
            self._looks = [(max(comes, when), n, do, given) for when, n, do, given in self._looks]
            heapify(self._looks)
        return comes

    def _decide(self) -> None:
        """Decide until nothing follows from what was decided."""
        for _ in range(MOST_CYCLES):
            again = self.admission.run()
            again = self.scheduler.run() or again
            again = self.preemption.run() or again
            self._begin_work()
            if not again:
                break
        else:
            raise CircularError(f"more than {MOST_CYCLES} rounds of decisions in one moment")
        self._count_half_placed()
        self._age_later()
        begun, self._begun = self._begun, []
        for job in begun:
            if not job.is_running and job.workload is not None:
                self.admission.await_pods(job.workload.key)
        self.books.look_at_quota(self.queue_view, self.clock.now)

    def _age_later(self) -> None:
        if self._ages or not self.world.gang.aging or not len(self.view.queue):
            return
        self._ages = True

        def look() -> None:
            self._ages = False
            at_once(self._aging.looking())

        self.after(self.world.gang.aging / AGING_LOOKS, look)

    def why_waiting(self, job: SimJob) -> str:
        """Return why a job waits now, or nothing where that is not known."""
        if job.started is not None:
            return ""
        if job.workload is not None:
            absent = self.admission.absent(job.workload.key)
            if absent or not job.pods:
                wait = self.admission.waits.get(job.workload.key)
                return absent or (wait.message if wait is not None else "")
        if not job.pods:
            return ""
        group = next(iter(job.pods.values())).group
        if group is not None:
            return self.scheduler.why_no_room(group)
        left = len(job.pods) - len(job.bound)
        text = f"no node has room for {left} of its {job.pod_count} pods"
        if job.gang_size and job.bound:
            text += f"; {len(job.bound)} have nodes and do nothing"
        return text

    # --- jobs come -----------------------------------------------------------------------------

    def _arrive(self, job: SimJob) -> None:
        self.arrived += 1
        self.books.waits(job)
        self._moved = self.clock.now
        if job.pod_group is not None:
            self.cluster.apply(ce.ObjectApplied(job.pod_group))
        if job.workload is None:
            group_key = job.pod_group.key if job.pod_group is not None else None
            self._appear(job, job.pod_sets, group_key)
            return
        self._by_workload[job.workload.key] = job
        self.queues.apply(qe.Applied(job.workload))

    def _adopt(self, job: SimJob) -> None:
        """Take over a job that was there at the beginning, with the pods that it has."""
        self.arrived += 1
        self.books.waits(job)
        pods, job.pods = [*job.pods.values()], {}
        job.pod_count = len(pods)
        if job.workload is not None:
            self._by_workload[job.workload.key] = job
        if pods:
            job.is_running = False
        for pod in pods:
            self._job_of[pod.uid] = job
            job.pods[pod.uid] = pod
            self.cluster.apply(ce.ObjectApplied(pod))
            if pod.node is not None:
                self._on_bound(pod)
            elif pod.group is None:
                self.scheduler.add([((-pod.priority, job.arrival, 0, 0), pod)])

    def _appear(self, job: SimJob, members: Iterable[PodSetInfo], group: str | None) -> None:
        """Make the pods of a job, as its controller does."""
        self._number += 1
        now, first = self.clock.now, self._number
        job.is_running = False
        job.attempt += 1
        job.finished_pods, job.bound = 0, set()
        held = job.workload.key if job.workload is not None else None
        job.pods = {}
        index = 0
        for each in members:
            for _ in range(min(each.count, MOST_PODS)):
                uid = f"{job.uid}.{job.attempt}.{index}"
                job.pods[uid] = PodInfo(
                    uid,
                    job.namespace,
                    f"{job.name}-{index}",
                    each.shape,
                    group=group,
                    priority=job.priority,
                    created=self.clock.wall(),
                    owners=(job.key,),
                    controller=job.uid,
                    pod_set=each.name if held else None,
                    workload=held,
                )
                self._job_of[uid] = job
                index += 1
        job.pod_count = index
        if group is None:
            order = (-job.priority, now)
            self.scheduler.add(((*order, n, first), pod) for n, pod in enumerate(job.pods.values()))
            return
        self.cluster.apply(ce.ObjectApplied(JobInfo(job.uid, group, job.pod_count)))
        for pod in job.pods.values():
            self.cluster.apply(ce.ObjectApplied(pod))

    # --- the queue -----------------------------------------------------------------------------

    def _start_admitted(self, key: str, admission: AdmissionInfo) -> None:
        job, workload = self._by_workload[key], self.queue_view.workloads[key]
        job.workload = workload
        self._begun.append(job)
        if job.admitted is None:
            job.admitted = self.clock.now
        by_name = {each.name: each for each in workload.pod_sets}
        members = []
        for given in admission.assignments:
            pods = PodSetCount(by_name[given.name], given, given.count)
            shape = self._shapes.of_pod_set(workload, pods).shape
            members.append(PodSetInfo(given.name, given.count, shape))
        self._appear(job, members, self._group_of(job, workload, admission))

    def _group_of(self, job: SimJob, workload: WorkloadInfo, held: AdmissionInfo) -> str | None:
        """Return the PodGroup of a job's pods: its own one, or one that the queue makes."""
        if job.pod_group is not None:
            return job.pod_group.key
        queue = self.queue_view.cluster_queues[held.cluster_queue]
        count = sum(each.count for each in held.assignments)
        by_room = requires_room(queue, self.world.queue, self.queue_view.flavors)
        if count <= 1 or not by_room or not self.world.makes_groups:
            return None
        key, now = pod_group_key(workload), self.clock.wall()
        rooms = self.admission.room.found_for(workload.key)
        self._number += 1
        self.cluster.apply(
            ce.ObjectApplied(
                PodGroupInfo(
                    workload.meta.namespace,
                    key.partition("/")[2],
                    GROUP_X,
                    count,
                    uid=f"group-{job.uid}",
                    created=now,
                    version=self._number,
                    assigned={x.name: x.topology for x in held.assignments if x.topology},
                    grant=Grant(rooms, now + GRANTED + 0.1 * count) if rooms else None,
                )
            )
        )
        job.gang_size = count
        return key

    def _stop_evicted(self, key: str) -> None:
        """Stop the job of a workload that has to go; its quota is free at once."""
        job, workload = self._by_workload[key], self.queue_view.workloads[key]
        self._stop(job, preempted=workload.holds("Preempted"))
        self.admission.release(key)

    def _is_ready(self, workload: WorkloadInfo) -> bool:
        job = self._by_workload.get(workload.key)
        return job is not None and job.is_running

    # --- pods get nodes ------------------------------------------------------------------------

    def _on_bound(self, pod: PodInfo) -> None:
        job = self._job_of[pod.uid]
        self._moved = self.clock.now
        job.pods[pod.uid] = pod
        job.bound.add(pod.uid)
        self._touched.setdefault(job, []).append(pod.uid)
        self.books.begin(pod, self.clock.now)

    def _begin_work(self) -> None:
        """Have pods run that can: those that start together when enough of them have nodes."""
        touched, self._touched = self._touched, {}
        now = self.clock.now
        for job, uids in touched.items():
            there, needed = len(job.bound) + job.finished_pods, job.gang_size or job.pod_count
            if not job.is_running and there >= needed:
                job.is_running = True
                self.books.starts(job)
                job.started = now if job.started is None else job.started
                uids = [*job.bound] if job.gang_size else uids
                if job.workload is not None:
                    self.admission.ready(job.workload.key)
            if job.gang_size:
                self._half_placed.add(job)
            if job.is_running or not job.gang_size:
                for left, some in self.world.seconds_left(job, uids, now).items():
                    self._events += 1
                    ends = (now + left, self._events, self._finish, (job, job.attempt, some))
                    heappush(self._agenda, ends)

    def _count_half_placed(self) -> None:
        """Count gangs with nodes for some of the pods that start together, and too few."""
        for job in [*self._half_placed]:
            job.is_half_placed = bool(job.bound) and not job.is_running
            if not job.is_half_placed:
                self._half_placed.discard(job)
            elif not job.was_half_placed:
                job.was_half_placed = True
                self.half_placed += 1

    # --- pods end ------------------------------------------------------------------------------

    def _finish(self, job: SimJob, attempt: int, uids: list[str]) -> None:
        if job.attempt != attempt:
            return
        self._moved = self.clock.now
        for uid in uids:
            self._end(job, uid)
        job.finished_pods += len(uids)
        if job.pods:
            self._ended_in_part(job)
            return
        self.finished += 1
        job.ended = self.clock.now
        group = job.pod_group.key if job.pod_group is not None else None
        if job.gang_size and group is None and job.workload is not None:
            group = pod_group_key(job.workload)
        if group is not None:
            self.cluster.apply(ce.ObjectDeleted(JobInfo, job.uid))
            self.cluster.apply(ce.ObjectDeleted(PodGroupInfo, (GROUP_X, group)))
        if job.workload is not None:
            workload = self.queue_view.workloads.get(job.workload.key)
            self._by_workload.pop(job.workload.key, None)
            if workload is not None:
                self.queues.apply(qe.Deleted(workload))

    def _ended_in_part(self, job: SimJob) -> None:
        """Give quota back for pods that are done, and have the gang do without them."""
        group = next(iter(job.pods.values())).group
        if group is not None:
            done = JobInfo(job.uid, group, job.pod_count, job.finished_pods)
            self.cluster.apply(ce.ObjectApplied(done))
        if job.workload is None:
            return
        workload = self.queue_view.workloads.get(job.workload.key)
        if workload is not None and len(workload.pod_sets) == 1:
            reclaimable = {workload.pod_sets[0].name: job.finished_pods}
            self.queues.apply(qe.Applied(replace(workload, reclaimable=reclaimable)))

    def _end(self, job: SimJob, uid: str) -> None:
        """Take a pod off its node, or out of its queue."""
        pod = job.pods.pop(uid)
        del self._job_of[uid]
        if uid in job.bound:
            job.bound.discard(uid)
            self.books.end(pod, self.clock.now)
        self.cluster.apply(ce.ObjectDeleted(PodInfo, uid))

    # --- pods have to go -----------------------------------------------------------------------

    def _stop(self, job: SimJob, *, preempted: bool) -> None:
        """Delete the pods of a job: it begins anew, with all of its time before it."""
        if preempted:
            job.preempted += 1
            self.preemptions += 1
        else:
            self.evictions += 1
        self.books.waits(job)
        self.scheduler.drop(job.pods)
        self._touched.pop(job, None)
        for uid in [*job.pods]:
            self._end(job, uid)
        job.attempt += 1

    def _preempt_pods(self, group: str, pods: list[PodInfo]) -> None:
        """Evict what makes room for a gang: a whole job for each of its pods that has to go."""
        for job in dict.fromkeys(self._job_of[pod.uid] for pod in pods if pod.uid in self._job_of):
            key = job.workload.key if job.workload is not None else None
            held = self.queue_view.workloads.get(key) if key is not None else None
            message = f"Preempted by PodGroup {group.partition('/')[2]}"
            if held is not None and held.admission is not None:
                self.admission.evict(Victim(held.key, Preempted.FOR_GANG, message))
                continue
            self._stop(job, preempted=True)
            group_key = job.pod_group.key if job.pod_group is not None else None
            self._appear(job, job.pod_sets, group_key)
