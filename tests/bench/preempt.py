"""Gangs of low priority that fill all nodes, and then gangs of high priority that come.

All pods are equal but for their priority, so it is known how many must go. The first ones have
their nodes when they are created: no scheduler decides where they are, and all sides begin alike.
They end at once when they are deleted (a grace period of zero), since there are no kubelets; and
nothing makes new ones in their place.
"""

import asyncio
import dataclasses
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, cast

from typing_extensions import override

from extender.resources.quantity import CPU, amount
from tests.bench import load as base
from tests.bench.load import CONNECTIONS, NAMESPACE, GroupKind, LoadError, Progress, gang_of
from tests.bench.meter import Meter
from tests.bench.runs import PROCESSES, MeteredControlPlane, client, rate_of
from tests.bench.series import Limits, Row, Run, Series, await_count, of_processes
from tests.bench.sides import CRDS, OURS, Settings, Side
from tests.bench.sightings import ON_NODE, Sightings
from tests.harness import objects
from tests.harness.books.bookkeeper import Bookkeeper
from tests.harness.client import Api, Object
from tests.harness.control_plane import ControlPlane
from tests.harness.process import Component
from tests.harness.reconciler import Reconciler
from tests.harness.sessions import session

LOW, HIGH = "low", "high"
"""Names of the PriorityClasses, and how the names of gangs begin."""
_VALUES = {LOW: 100, HIGH: 1000}
_EVICTED = "DisruptionTarget"
_POLL_SECONDS = 0.1
_QUIET_SECONDS = 3.0
"""Without one more eviction after which no more come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """How many of what; `preemptors` are the gangs of high priority."""

    nodes: int
    gangs: int
    size: int
    preemptors: int
    node_cpu: str = "8"

    def __post_init__(self) -> None:
        if self.gangs * self.size % self.nodes:
            raise LoadError(
                f"{self.gangs} gangs of {self.size} do not fill {self.nodes} nodes evenly: "
                "take a shape of which the pods are a multiple of the nodes"
            )
        if self.preemptors > self.gangs:
            raise LoadError(
                f"{self.preemptors} gangs of high priority need more room than {self.gangs} leave"
            )

    @property
    def on_each(self) -> int:
        """How many pods fill a node."""
        return self.gangs * self.size // self.nodes

    @property
    def low(self) -> base.Load:
        """The gangs that fill the nodes."""
        cpu = amount(CPU, self.node_cpu) // self.on_each
        return base.Load(
            nodes=self.nodes,
            gangs=self.gangs,
            size=self.size,
            node_cpu=self.node_cpu,
            pod_cpu=f"{cpu}m",
        )

    @property
    def wanted(self) -> int:
        """How many pods of high priority there are: as many others must go, and no more."""
        return self.preemptors * self.size

    def names(self, kind: str) -> list[str]:
        """Return the names of the gangs of a priority."""
        count = self.gangs if kind == LOW else self.preemptors
        return [f"{kind}-{number:05}" for number in range(count)]

    def pod_names(self, kind: str) -> list[str]:
        """Return the names of the pods of a priority, in the order of their nodes."""
        return [f"{gang}-{member}" for gang in self.names(kind) for member in range(self.size)]


def fill(kubeconfig: Path, load: Load, kind: GroupKind, progress: Progress) -> None:
    """Create priorities, nodes and the gangs that fill them."""
    with Api(kubeconfig) as api:
        api.create(*(_priority_class(name, value) for name, value in _VALUES.items()))
    base.create(kubeconfig, load.low, kind, progress, pods=False)
    asyncio.run(_create(kubeconfig, LOW, load, kind, progress))


async def _create(
    kubeconfig: Path, priority: str, load: Load, kind: GroupKind, progress: Progress
) -> None:
    path = f"namespaces/{NAMESPACE}"
    parts = (
        ("groups", f"/apis/{kind.api_version}/{path}/podgroups", _groups(priority, load, kind)),
        ("pods", f"/api/v1/{path}/pods", _pods(priority, load, kind)),
    )
    async with session(kubeconfig, connections=CONNECTIONS) as http:
        for what, url, bodies in parts:
            count = base.counted(progress, f"{what} of {priority} priority")
            await base.post_all(http, url, bodies, count)


def _groups(priority: str, load: Load, kind: GroupKind) -> Iterator[bytes]:
    for name in load.names(priority):
        yield base.encoded(kind.group(name, load.size))


def _pods(priority: str, load: Load, kind: GroupKind) -> Iterator[bytes]:
    for number, name in enumerate(load.pod_names(priority)):
        node = f"node-{number // load.on_each:05}" if priority == LOW else None
        pod = objects.pod(
            name,
            load.low.pod_cpu,
            base.POD_MEMORY,
            namespace=NAMESPACE,
            group=base.gang_of(name),
            priority_class=priority,
            node_name=node,
            terminationGracePeriodSeconds=0,
        )
        yield base.encoded(pod)


def _priority_class(name: str, value: int) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Measures:
    """What became of the gangs of both priorities; times in seconds."""

    bound: int
    """Pods of high priority with a node."""
    whole: int
    """Gangs of high priority with all of their pods on nodes."""
    partial: int
    """Those with some."""
    evictions: int
    """Pods of low priority that are gone, are being deleted, or are about to be."""
    gangs_hit: int
    """Gangs of low priority that lost pods."""
    left_partial: int
    """Those that kept some: their pods run, and are fewer than minMember."""
    seconds: float | None
    """From the first pod of high priority created to the last one on a node, if all have one."""


def measure(
    pods: Sequence[Object], load: Load, *, times: Mapping[str, float], began: float
) -> Measures:
    """Return what the pods at the end, and the times at which they had nodes, come to.

    `began` is when the first pod of high priority was created.
    """
    high = Counter(gang_of(_name(pod)) for pod in pods if _is(HIGH, pod) and _has_node(pod))
    low = Counter(gang_of(_name(pod)) for pod in pods if _is(LOW, pod) and not _goes(pod))
    bound = [at for name, at in times.items() if name.startswith(f"{HIGH}-")]
    return Measures(
        bound=high.total(),
        whole=sum(high[name] >= load.size for name in load.names(HIGH)),
        partial=sum(0 < high[name] < load.size for name in load.names(HIGH)),
        evictions=load.gangs * load.size - low.total(),
        gangs_hit=sum(low[name] < load.size for name in load.names(LOW)),
        left_partial=sum(0 < low[name] < load.size for name in load.names(LOW)),
        seconds=max(bound) - began if len(bound) >= load.wanted else None,
    )


def _is(priority: str, pod: Object) -> bool:
    return _name(pod).startswith(f"{priority}-")


def _goes(pod: Object) -> bool:
    if pod["metadata"].get("deletionTimestamp"):
        return True
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(each["type"] == _EVICTED and each["status"] == "True" for each in conditions)


def _has_node(pod: Object) -> bool:
    return bool(pod["spec"].get("nodeName")) and not pod["metadata"].get("deletionTimestamp")


def _name(pod: Object) -> str:
    name: str = pod["metadata"]["name"]
    return name


@dataclass(frozen=True, slots=True, kw_only=True)
class Result(Run):
    """What one run gave; CPU is until no more evictions came."""

    derived: ClassVar[Sequence[str]] = ()
    load: Load
    measures: Measures
    overcommits: Sequence[str]
    collisions: int

    @property
    @override
    def faults(self) -> list[str]:
        """What must not be; kube-scheduler alone breaks gangs by its nature."""
        found, made = list(self.overcommits), self.measures
        if self.side != OURS:
            return found
        if made.whole < self.load.preemptors or made.partial:
            found.append(f"{made.whole} of {self.load.preemptors} gangs of high priority are whole")
        if made.evictions != self.load.wanted:
            found.append(f"{made.evictions} pods were evicted, and {self.load.wanted} were to be")
        if made.left_partial:
            found.append(f"{made.left_partial} gangs of low priority are left in part")
        return found


class Bench(Series[Side, Result]):
    """One load of both priorities, by every side; ours have the process that evicts."""

    def __init__(
        self,
        load: Load,
        qps: str,
        sides: Sequence[Side],
        settings: Mapping[str, Any] | None,
        *,
        limits: Limits,
        repeat: int,
    ) -> None:
        name = (
            f"{load.nodes} nodes full of {load.gangs} gangs of {load.size}, then "
            f"{load.preemptors} of higher priority, {rate_of(qps)}"
        )
        with_reconciler = [
            _with_reconciler(each, settings) if each.key == OURS else each for each in sides
        ]
        super().__init__(name, with_reconciler, repeat, load=load)
        self._load, self._qps, self._limits = load, qps, limits

    @override
    def measure(self, side: Side, repeat: int) -> Result:
        load, meter = self._load, Meter()
        self.progress("starts a control plane")
        with ExitStack() as stack:
            plane = stack.enter_context(MeteredControlPlane(side, meter, controllers=False))
            kubeconfig = plane.admin_kubeconfig
            api = stack.enter_context(Api(kubeconfig))
            api.apply(CRDS)
            fill(kubeconfig, load, side.kind, self.progress)
            books = stack.enter_context(Bookkeeper(kubeconfig))
            seen = stack.enter_context(Sightings(kubeconfig, fields=ON_NODE))
            self.progress("starts the scheduler")
            scheduler = side.start(plane, client(self._qps))
            with meter:
                began = time.monotonic()
                asyncio.run(_create(kubeconfig, HIGH, load, side.kind, self.progress))
                note = await_count(
                    lambda: _high(seen),
                    load.wanted,
                    "pods of high priority have a node",
                    limits=self._limits,
                    process=scheduler,
                    say=self.progress,
                )
                pods = _settled(api)
                ended = time.monotonic()
                time.sleep(2 * _POLL_SECONDS)  # one more sample of the meter
            books.settle(api)
            findings = books.ask()
            if note:
                self.progress(f"{note}\n{plane.tails()}")
        return Result(
            side=side.key,
            title=side.title,
            repeat=repeat,
            load=load,
            measures=measure(pods, load, times=seen.times(), began=began),
            overcommits=findings.breaches,
            collisions=len(findings.collisions),
            cpu_seconds=meter.cpu_seconds(began, ended),
            peak_mib=meter.peak_mib(),
            notes=[note] if note else [],
        )

    @override
    def summary(self, result: Result) -> str:
        made = result.measures
        seconds = "not all bound" if made.seconds is None else f"{made.seconds:.1f} s"
        return (
            f"{seconds}, {made.whole} of {result.load.preemptors} gangs whole, {made.evictions} "
            f"evictions of {result.load.wanted}, partial gangs left behind: {made.left_partial}, "
            f"overcommits: {len(result.overcommits)}"
        )

    @override
    def rows(self) -> Sequence[Row[Result]]:
        return _ROWS


_ROWS: Sequence[Row[Result]] = (
    Row("seconds, first created to last on a node", lambda run: run.measures.seconds, "{:.1f}"),
    Row("pods of high priority on nodes", lambda run: run.measures.bound),
    Row("gangs of high priority whole", lambda run: run.measures.whole),
    Row("gangs of high priority partial", lambda run: run.measures.partial),
    Row("evictions", lambda run: run.measures.evictions),
    Row("evictions, at least", lambda run: run.load.wanted),
    Row("gangs that lost pods", lambda run: run.measures.gangs_hit),
    Row("gangs that lost pods, at least", lambda run: run.load.preemptors),
    Row("partial gangs left behind", lambda run: run.measures.left_partial),
    Row("overcommits", lambda run: len(run.overcommits)),
    Row("collisions", lambda run: run.collisions),
    *cast("list[Row[Result]]", of_processes(PROCESSES)),
)


def _with_reconciler(side: Side, settings: Mapping[str, Any] | None = None) -> Side:
    given = dict(settings or {})
    alone = {**given, "reconcile": {**given.get("reconcile", {}), "leaderElect": False}}

    def start(control_plane: ControlPlane, to_scheduler: Settings) -> Component:
        reconciler = Reconciler(control_plane, settings=alone)
        reconciler.wait_leading()
        return side.start(control_plane, to_scheduler)

    return dataclasses.replace(side, start=start)


def _high(seen: Sightings) -> int:
    seen.count()  # raises where the watch broke
    return sum(name.startswith(f"{HIGH}-") for name in seen.times())


def _settled(api: Api) -> list[Object]:
    """Return all pods, once no more of low priority go."""
    before, changed, pods = -1, time.monotonic(), list[Object]()
    while time.monotonic() - changed < _QUIET_SECONDS:
        pods = api.list("pods", NAMESPACE)
        stay = sum(_is(LOW, pod) and not _goes(pod) for pod in pods)
        if stay != before:
            before, changed = stay, time.monotonic()
        time.sleep(_POLL_SECONDS)
    return pods
