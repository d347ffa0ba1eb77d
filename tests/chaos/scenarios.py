"""The scenarios: each runs a load, makes things fail, and returns what it saw.

A scenario ends when everything that was created has ended, and the cluster is empty again.
"""

import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Protocol

import httpx
import psutil

from tests.chaos.judge import Judge
from tests.chaos.load import Load, create
from tests.chaos.world import World
from tests.cluster.leftovers import sweep
from tests.harness import objects
from tests.harness.client import Api, Object
from tests.harness.client import condition as is_true
from tests.harness.faulty_proxy import Fault
from tests.harness.process import Component

SETTLE_SECONDS: Final = 420.0
_RESTART_SECONDS: Final = 120.0
_KWOK_SECONDS: Final = 60.0
"""After how long kwok is started anew where, at the end, a pod has a node and does not run."""
_MEBIBYTE: Final = 2**20
POD_GROUPS: Final = "scheduling.x-k8s.io/v1alpha1/podgroups"
WEATHER: Final = {
    Fault.THROTTLED: 0.08,
    Fault.BROKEN: 0.08,
    Fault.HANG: 0.01,
    Fault.LOST: 0.08,
    Fault.CUT: 0.5,
    Fault.EXPIRED: 0.1,
}
"""How likely each fault is for one request while the API server is unreliable."""


class Say(Protocol):
    """Prints one line of progress."""

    def __call__(self, text: str) -> None:
        """Print `text`."""
        ...


@dataclass(slots=True)
class Outcome:
    """What one scenario saw; `lost` is what should not have been, as sentences."""

    name: str
    gangs: int = 0
    jobs: int = 0
    kills: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    figures: dict[str, str] = field(default_factory=dict)
    lost: list[str] = field(default_factory=list)
    seconds: float = 0.0


class _Submission:
    """Creates a load in the background, a share of it whenever it is asked for one."""

    def __init__(self, world: World, load: Load, shares: int) -> None:
        items = load.items()
        size = -(-len(items) // shares)
        self._shares = [items[at : at + size] for at in range(0, len(items), size)]
        self._kubeconfig = world.plane.admin_kubeconfig
        self._threads: list[threading.Thread] = []
        self.errors: list[str] = []

    def submit(self) -> None:
        """Create the next share, while whatever happens happens."""
        if self._shares:
            share = self._shares.pop(0)
            thread = threading.Thread(target=self._create, args=(share,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def finish(self) -> None:
        """Create what is left and wait until all is created."""
        while self._shares:
            self.submit()
        for thread in self._threads:
            thread.join(300)

    def _create(self, share: Sequence[Sequence[Object]]) -> None:
        with Api(self._kubeconfig) as api:
            for each in (each for item in share for each in item):
                try:
                    create(api, each)
                except Exception as error:  # noqa: BLE001 - a thread's error must not be lost
                    self.errors.append(f"{each['metadata']['name']}: {error}")


def kills(load: Load, count: int, say: Say) -> Outcome:
    """Kill and restart every component at random moments of the load."""
    outcome = Outcome("kill -9")
    chosen = random.Random(load.seed)
    with _clock(outcome), World(load, proxied=False) as world:
        submission = _Submission(world, load, count)
        names = list(world.components)
        victims = [names[number % len(names)] for number in range(count)]
        chosen.shuffle(victims)
        for number, victim in enumerate(victims, 1):
            submission.submit()
            time.sleep(chosen.uniform(0.0, 2.5))  # the moment is what is random here
            say(f"kill {number}/{count}: {victim}; {_progress(world)}")
            component = world.components[victim]
            component.kill()
            component.start()
            outcome.kills[victim] += 1
            world.restart_ended()
            _await_plane(world)
        _settle(world, load, submission, outcome, say)
    return outcome


def unreliable_api(load: Load, say: Say) -> Outcome:
    """Put proxies before the API server that answer 429 and 500, hang, and lose answers."""
    outcome = Outcome("unreliable API server")
    with _clock(outcome), World(load, proxied=True) as world:
        shares = 10
        submission = _Submission(world, load, shares)
        for proxy in world.proxies:
            proxy.set_chances(WEATHER)
        for number in range(1, shares + 1):
            submission.submit()
            _await_share(world, load, number / shares * 0.7)
            say(f"share {number}/{shares}; {_progress(world)}")
            outcome.figures["restarts of ended processes"] = str(
                int(outcome.figures.get("restarts of ended processes", 0))
                + len(world.restart_ended())
            )
        for proxy in world.proxies:
            proxy.set_chances({})
        _settle(world, load, submission, outcome, say)
        for proxy in world.proxies:
            outcome.faults.update({fault.value: n for fault, n in proxy.faults.items()})
    return outcome


def leadership(load: Load, changes: int, say: Say) -> Outcome:
    """Run two reconcilers, and cut the one that leads off until the other one leads."""
    outcome = Outcome("Lease lost and regained")
    with _clock(outcome), World(load, proxied=True, replicas=2) as world:
        submission = _Submission(world, load, changes)
        for number in range(1, changes + 1):
            submission.submit()
            leader = _leader(world)
            proxy = world.proxies[1 + leader]
            other = 1 - leader
            say(f"change {number}/{changes}: reconciler {leader} is cut off; {_progress(world)}")
            proxy.block()
            world.await_all(
                "the other reconciler leads", partial(_leads, world, other), _RESTART_SECONDS
            )
            proxy.unblock()
            outcome.faults["leader cut off"] += 1
            world.await_all(
                "the former leader is a follower again",
                partial(_follows, world, leader),
                _RESTART_SECONDS,
            )
        _settle(world, load, submission, outcome, say)
    return outcome


def compaction(load: Load, rounds: int, say: Say) -> Outcome:
    """Cut all watches and compact etcd, so that they find their history gone."""
    outcome = Outcome("etcd compacted")
    with _clock(outcome), World(load, proxied=True) as world:
        submission = _Submission(world, load, rounds)
        for number in range(1, rounds + 1):
            submission.submit()
            _await_share(world, load, (number - 0.5) / rounds)
            for proxy in world.proxies:
                proxy.block()
            revision = _compact(world)
            # A new API server has no history in memory: only what etcd still has.
            world.plane.apiserver.kill()
            world.plane.apiserver.start()
            _await_plane(world, gang=False)
            for proxy in world.proxies:
                proxy.unblock()
            world.restart_ended()
            outcome.faults["compaction"] += 1
            say(f"compaction {number}/{rounds} at revision {revision}; {_progress(world)}")
        _settle(world, load, submission, outcome, say)
    return outcome


def sigterm(count: int, say: Say, *, together: bool = True) -> Outcome:
    """Have many binds held for one gang and end the extender with SIGTERM."""
    outcome = Outcome("SIGTERM with held binds", gangs=1)
    load = Load(gangs=0, jobs=0, nodes=4, node_cpu=64000, together=together)
    with _clock(outcome), World(load, proxied=False) as world:
        api = world.api
        for number in range(-(-count // 100)):
            api.create(objects.node(f"wide-{number}", "100", pods=110))
        group, size = "wide", count + 1
        api.create(objects.pod_group(group, size, namespace=load.namespace, timeout=600))
        for number in range(count):
            _pod(api, load, f"{group}-{number}", group)
        # The extender plans room for the last member too; kube-scheduler finds none for it.
        last = _near_anchor(load, f"{group}-{count}", group)
        api.create(last)
        held = "gang_extender_waiting_pods"
        world.await_all(
            f"{count} binds are held", lambda: world.gang.metric(held) >= count, SETTLE_SECONDS
        )
        say(f"{count} binds are held; SIGTERM")
        began = time.monotonic()
        world.gang.extender.stop(30)
        outcome.figures["seconds from SIGTERM to the end"] = f"{time.monotonic() - began:.1f}"
        outcome.kills["SIGTERM to extender"] += 1
        if world.gang.extender.exit_code != 0:
            outcome.lost.append(f"the extender ended with {world.gang.extender.exit_code}")
        placed = [pod for pod in api.list("pods", load.namespace) if pod["spec"].get("nodeName")]
        if placed:
            outcome.lost.append(f"{len(placed)} members were bound without the others")
        world.gang.extender.start()
        world.gang.wait_ready()
        api.create(objects.pod("anchor", namespace=load.namespace, labels=_ANCHOR))
        world.await_all(
            "the gang starts", lambda: len(_placed(api, load, group)) == size, SETTLE_SECONDS
        )
        _empty(world, load, outcome)
    return outcome


def churn(seconds: float, say: Say, *, seed: int = 0, together: bool = True) -> Outcome:
    """Let gangs and Jobs come and go for so long and compare the memory at start and end."""
    outcome = Outcome("churn")
    namespace = "chaos"
    empty = Load(gangs=0, jobs=0, seed=seed, together=together)
    with _clock(outcome), World(empty, proxied=False) as world:
        memory = {name: _Memory(world.components[name]) for name in ("extender", "reconciler")}
        began, number = time.monotonic(), 0
        while time.monotonic() - began < seconds:
            load = Load(gangs=4, jobs=12, seed=seed + number)
            items = _renamed(load.items(), f"r{number}")
            for item in items:
                world.api.create(*item)
            names = {each["metadata"]["name"] for item in items for each in item}
            _await_ended(world, {name for item in items for name in _names(item)})
            _delete(world, names)
            outcome.gangs += load.gangs
            outcome.jobs += load.jobs
            world.restart_ended()
            for each in memory.values():
                each.sample(time.monotonic() - began)
            number += 1
            sizes = ", ".join(f"{name} {each.now:.0f} MiB" for name, each in memory.items())
            say(f"{time.monotonic() - began:.0f} of {seconds:.0f} s, round {number}: {sizes}")
        for name, each in memory.items():
            if each.restarts:
                outcome.figures[f"restarts of the {name}"] = str(each.restarts)
            early, late = each.early_and_late()
            outcome.figures[f"memory of the {name}, second quarter to last"] = (
                f"{early:.1f} -> {late:.1f} MiB"
            )
            if late > early * 1.10 + 4:
                outcome.lost.append(f"memory of the {name} grew from {early:.1f} to {late:.1f} MiB")
        _empty(world, Load(namespace=namespace), outcome)
    return outcome


@dataclass(slots=True)
class _Memory:
    """What a process used, since its last start: one that lost its Lease was started anew."""

    component: Component
    now: float = 0.0
    samples: list[tuple[float, float]] = field(default_factory=list)
    restarts: int = 0
    _pid: int = 0

    def sample(self, at: float) -> None:
        if self.component.pid != self._pid:
            self.restarts += bool(self._pid)
            self._pid = self.component.pid
            self.samples.clear()
        self.now = psutil.Process(self._pid).memory_info().rss / _MEBIBYTE
        self.samples.append((at, self.now))

    def early_and_late(self) -> tuple[float, float]:
        """Return the median of the second quarter and of the last one."""
        began, end = self.samples[0][0], self.samples[-1][0]
        parts = [((at - began) / max(1.0, end - began), size) for at, size in self.samples]
        second = [size for part, size in parts if 0.25 <= part < 0.5]
        last = [size for part, size in parts if part >= 0.75] or [self.now]
        return _median(second or last), _median(last)


def _median(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 2]


# --- what all have in common ---------------------------------------------------------------


@contextmanager
def _clock(outcome: Outcome) -> Iterator[None]:
    began = time.monotonic()
    yield
    outcome.seconds = time.monotonic() - began


def _settle(world: World, load: Load, submission: _Submission, outcome: Outcome, say: Say) -> None:
    """Wait until everything has ended, and say what should not have been."""
    submission.finish()
    outcome.lost += submission.errors
    outcome.gangs, outcome.jobs = load.gangs, load.jobs
    deadline = time.monotonic() + SETTLE_SECONDS
    nudge = time.monotonic() + _KWOK_SECONDS
    while (waiting := _unfinished(world, load)) and time.monotonic() < deadline:
        world.restart_ended()
        if time.monotonic() > nudge and world.has_forgotten_pods():
            outcome.figures["restarts of kwok, which had forgotten pods"] = str(
                world.restart_kwok()
            )
            nudge = time.monotonic() + _KWOK_SECONDS
        say(f"{len(waiting)} gangs and Jobs have not ended")
        time.sleep(1.0)
    outcome.lost += [f"not ended after {SETTLE_SECONDS:g} s: {each}" for each in waiting]
    outcome.lost += [line for each in waiting[:3] for line in _story(world, each)]
    _judge(world, load, outcome)
    _empty(world, load, outcome)


def _story(world: World, name: str) -> list[str]:
    """Return what is known of something that has not ended."""
    last = world.witness.last
    found = [
        (kind, each)
        for kind in ("PodGroup", "Job", "Workload", "Pod")
        for each in last(kind).values()
        if each["metadata"]["name"].startswith((name, f"job-{name}"))
    ]
    return [
        f"  {kind} {each['metadata']['name']}: {json.dumps(each.get('status', {}))[:600]}"
        for kind, each in found[:12]
    ]


def _judge(world: World, load: Load, outcome: Outcome) -> None:
    minimum = {
        item[0]["metadata"]["name"]: item[0]["spec"]["minMember"]
        for item in load.items()
        if item[0]["kind"] == "PodGroup"
    }
    judge = Judge(load.node_cpu, load.quota, minimum).replay(world.witness.history())
    outcome.lost += judge.faults
    outcome.lost += [f"partial gang: {each}" for each in judge.partial()]
    outcome.lost += [f"gang that never started: {each}" for each in judge.unplaced()]
    for number in range(load.jobs):
        count = judge.workloads_of(f"job-{number}")
        if count != 1:
            outcome.lost.append(f"job-{number} had {count} Workloads")
    outcome.figures["most of a node taken"] = f"{judge.busiest}m of {load.node_cpu}m"
    for queue, held in sorted(judge.held.items()):
        outcome.figures[f"most quota held in {queue}"] = f"{held}m of {load.quota}m"
    outcome.figures["Jobs stopped again"] = str(judge.stops())
    outcome.figures["breaks and gaps of the witness"] = (
        f"{world.witness.breaks}, {world.witness.gaps}"
    )


def _empty(world: World, load: Load, outcome: Outcome) -> None:
    """Delete everything, and look whether anything is kept for what is gone."""
    world.api.delete_all("batch/v1/jobs", load.namespace)
    world.api.delete_all("pods", load.namespace, grace_seconds=0)
    world.await_all("the pods are gone", lambda: not world.witness.last("Pod"), _RESTART_SECONDS)
    sweep(world.api, load.namespace)
    deadline = time.monotonic() + 60
    kept: Mapping[str, float] = {}
    while time.monotonic() < deadline:
        kept = world.reservations()
        if not kept:
            return
        time.sleep(0.2)
    outcome.lost += [f"{name} is {value:g} in an empty cluster" for name, value in kept.items()]


def _await_plane(world: World, *, gang: bool = True) -> None:
    """Wait until what was killed works again, or was started anew where it had ended."""
    world.plane.wait_ready(_RESTART_SECONDS)
    if gang:
        world.await_all("the extender is ready", lambda: _gang_ready(world), _RESTART_SECONDS)
        world.await_all("a reconciler leads", world.leads, _RESTART_SECONDS)


def _gang_ready(world: World) -> bool:
    return httpx.get(f"{world.gang.url}/readyz", trust_env=False).status_code == httpx.codes.OK


def _leader(world: World) -> int:
    """Return which reconciler leads; there may be none for a while, where the machine is busy."""
    leaders: list[int] = []

    def one_leads() -> bool:
        leaders[:] = [index for index in range(len(world.reconcilers)) if _leads(world, index)]
        return bool(leaders)

    world.await_all("a reconciler leads", one_leads, _RESTART_SECONDS)
    return leaders[0]


def _leads(world: World, index: int) -> bool:
    try:
        return world.reconcilers[index].leads
    except httpx.TransportError:
        return False


def _follows(world: World, index: int) -> bool:
    url = world.reconcilers[index].url
    return httpx.get(f"{url}/readyz", trust_env=False).status_code == httpx.codes.OK


def _compact(world: World) -> int:
    """Have etcd forget all history up to now; return the revision."""
    url = world.plane.etcd.url
    with httpx.Client(trust_env=False, timeout=60) as client:
        answer = client.post(f"{url}/v3/kv/range", content=json.dumps({"key": "AA=="}))
        answer.raise_for_status()
        revision = int(answer.json()["header"]["revision"])
        body = json.dumps({"revision": str(revision), "physical": True})
        client.post(f"{url}/v3/kv/compaction", content=body).raise_for_status()
    return revision


def _ended(world: World) -> set[str]:
    """Return the names of the Jobs and the gangs' pods that have ended."""
    last = world.witness.last
    jobs = {name for name, each in last("Job").items() if is_true(each, "Complete")}
    workloads = {
        owner["name"]
        for each in last("Workload").values()
        if is_true(each, "Finished")
        for owner in each["metadata"].get("ownerReferences", [])
    }
    pods = {
        name for name, each in last("Pod").items() if each["status"].get("phase") == "Succeeded"
    }
    return (jobs & workloads) | pods


def _names(item: Sequence[Object]) -> set[str]:
    """Return what must end of a gang or a Job: the pods, or the Job itself."""
    return {each["metadata"]["name"] for each in item if each["kind"] != "PodGroup"}


def _unfinished(world: World, load: Load) -> list[str]:
    ended = _ended(world)
    return [item[0]["metadata"]["name"] for item in load.items() if not _names(item) <= ended]


def _await_share(world: World, load: Load, share: float) -> None:
    """Wait until a share of everything has ended, or half a minute is over."""
    wanted = share * (load.gangs + load.jobs)
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if load.gangs + load.jobs - len(_unfinished(world, load)) >= wanted:
            return
        world.restart_ended()
        time.sleep(0.2)


def _await_ended(world: World, names: set[str]) -> None:
    world.await_all("the round has ended", lambda: names <= _ended(world), SETTLE_SECONDS)


def _delete(world: World, names: set[str]) -> None:
    last = world.witness.last
    for kind, resource in (("Job", "batch/v1/jobs"), ("Pod", "pods"), ("PodGroup", POD_GROUPS)):
        for name in sorted(names & set(last(kind))):
            world.api.delete(resource, name, "chaos", grace_seconds=0)
    world.await_all(
        "nothing of the round is left",
        lambda: not any(last(kind) for kind in ("Job", "Pod", "Workload")),
        SETTLE_SECONDS,
    )


def _renamed(items: list[list[Object]], prefix: str) -> list[list[Object]]:
    for item in items:
        for each in item:
            each["metadata"]["name"] = f"{prefix}-{each['metadata']['name']}"
            labels: dict[str, Any] = each["metadata"].get("labels", {})
            if objects.POD_GROUP_LABEL in labels:
                group = labels[objects.POD_GROUP_LABEL]
                labels[objects.POD_GROUP_LABEL] = f"{prefix}-{group}"
    return items


def _progress(world: World) -> str:
    last = world.witness.last
    return f"{len(_ended(world))} of {len(last('Pod')) + len(last('Job'))} pods and Jobs ended"


_ANCHOR: Final = {"anchor": "here"}


def _pod(api: Api, load: Load, name: str, group: str) -> None:
    api.create(objects.pod(name, "10m", "1Mi", namespace=load.namespace, group=group))


def _near_anchor(load: Load, name: str, group: str) -> Object:
    near = {"labelSelector": {"matchLabels": _ANCHOR}, "topologyKey": "kubernetes.io/hostname"}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [near]}}
    return objects.pod(name, "10m", "1Mi", namespace=load.namespace, group=group, affinity=affinity)


def _placed(api: Api, load: Load, group: str) -> list[Object]:
    label = f"{objects.POD_GROUP_LABEL}={group}"
    pods = api.list("pods", load.namespace, labels=label)
    return [pod for pod in pods if pod["spec"].get("nodeName")]


SCENARIOS: Final[Mapping[str, Callable[..., Outcome]]] = {
    "kills": kills,
    "api": unreliable_api,
    "leadership": leadership,
    "compaction": compaction,
    "sigterm": sigterm,
    "churn": churn,
}
