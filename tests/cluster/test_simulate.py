"""The simulator and the real control plane: the same jobs, in the same order."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gang_tools.simulate import from_scenario
from gang_tools.simulate.engine import Simulation
from gang_tools.simulate.scenario import Scenario
from tests.cluster.conftest import NodeFactory
from tests.cluster.queues import API, Queues
from tests.harness import objects
from tests.harness.client import Api
from tests.harness.control_plane import ControlPlane
from tests.harness.process import run_command

pytestmark = pytest.mark.usefixtures("gang", "reconciler")

CPU = 4
"""Of each of the two nodes."""
QUOTA = 10
"""More than the nodes have: some jobs have quota and wait for room."""
EXPECTED = "scheduling.x-k8s.io/expected-run-seconds"


@dataclass(frozen=True)
class Wanted:
    """A job of the scenario."""

    name: str
    pods: int
    cpu: int
    seconds: int
    priority: int = 0


JOBS = (
    Wanted("later", 2, 2, 500),
    Wanted("small", 2, 1, 100),
    Wanted("whole", 1, 4, 400),
    Wanted("huge", 1, 5, 100),  # no node is so large
    Wanted("last", 1, 1, 450),
    Wanted("urgent", 2, 3, 200, priority=10),
    Wanted("wide", 4, 2, 100),
)


@dataclass(frozen=True)
class Moment:
    """Jobs that ended, and those that started then."""

    ended: frozenset[str]
    started: frozenset[str]


def simulated() -> list[Moment]:
    """Return what happens by the simulation, moment by moment."""
    scenario = Scenario.model_validate(
        {
            "nodes": [{"name": "node", "count": 2, "allocatable": {"cpu": CPU, "memory": "16Gi"}}],
            "queues": [{"name": "queue", "quota": {"cpu": QUOTA, "memory": "64Gi"},
                        "requireRoom": True}],
            "jobs": [
                {"name": each.name, "queue": "queue", "pods": each.pods, "runFor": each.seconds,
                 "priority": each.priority, "requests": {"cpu": each.cpu, "memory": "64Mi"}}
                for each in JOBS
            ],
            "step": 0,
            "until": 3600,
        }
    )  # fmt: skip
    played = Simulation(from_scenario.world_of(scenario))
    played.run(3600)
    jobs = {job.name.removesuffix("-0"): job for job in played.world.jobs}
    times = sorted({t for job in jobs.values() for t in (job.started, job.ended) if t is not None})
    return [
        Moment(
            frozenset(name for name, job in jobs.items() if job.ended == when),
            frozenset(name for name, job in jobs.items() if job.started == when),
        )
        for when in times
    ]


@pytest.fixture
def urgent(queues: Queues) -> str:
    """A WorkloadPriorityClass of 10."""
    return queues.priority_class("urgent", 10, description="first")


def create(queues: Queues, each: Wanted, urgent: str) -> None:
    labels = {"kueue.x-k8s.io/priority-class": urgent} if each.priority else {}
    body = objects.job(
        each.name, each.pods, namespace=queues.namespace, queue="queue", suspend=True,
        cpu=str(each.cpu), labels=labels, run_for="1h",
    )  # fmt: skip
    body["metadata"]["annotations"] = {EXPECTED: str(each.seconds)}
    queues.api.create(body)


def started(queues: Queues) -> set[str]:
    """Return the jobs that were started, and have all their pods on nodes, or had."""
    return {each.name for each in JOBS if queues.has_started(each.name)}


def ask(control_plane: ControlPlane, job: Path) -> dict[str, Any]:
    """Return what `explain job -f` answers about a job that is not there."""
    words = ["explain", "job", "-f", str(job), "--assume", "10m", "-o", "json"]
    words += ["--kubeconfig", str(control_plane.admin_kubeconfig)]
    done = run_command(*words)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_the_same_jobs_run_in_the_same_order_as_on_a_real_control_plane(
    control_plane: ControlPlane,
    api: Api,
    queues: Queues,
    nodes: NodeFactory,
    urgent: str,
    tmp_path: Path,
) -> None:
    """The jobs are ended in the order of the simulation: which ones start then is compared."""
    nodes(2, cpu=CPU)
    name, _ = queues.simple(cpu=QUOTA, stopPolicy="Hold")
    queues.require_room(name)
    for each in JOBS:  # one at a time: workloads of one second are tried in order of arrival
        create(queues, each, urgent)
        exists: Callable[[], object] = partial(queues.workload, each.name)
        api.wait_for(f"{each.name} has a workload", exists)
    api.patch(f"{API}/clusterqueues", name, body={"spec": {"stopPolicy": "None"}})

    moments, ran = simulated(), set[str]()
    assert any(len(moment.ended) and len(moment.started) for moment in moments)
    for moment in moments:
        for job in moment.ended:
            queues.end_pods(job)
        if moment.ended:
            queues.await_finished(*moment.ended)
        ran |= moment.started
        queues.await_started(*moment.started)
        for job in moment.started:
            count = next(each.pods for each in JOBS if each.name == job)
            api.wait_for(f"the pods of {job} have nodes", partial(have_nodes, queues, job, count))
        assert started(queues) == ran
        if moment is moments[0]:
            assert_forecast(control_plane, queues, tmp_path)
    assert ran == {each.name for each in JOBS} - {"huge"}


def have_nodes(queues: Queues, job: str, count: int) -> bool:
    pods = queues.pods(job)
    return sum(bool(pod["spec"].get("nodeName")) for pod in pods) == count


def assert_forecast(control_plane: ControlPlane, queues: Queues, tmp_path: Path) -> None:
    """Ask about a job while the first ones run: it waits for room, and until when is known."""
    job = objects.job("asked", 1, namespace=queues.namespace, queue="queue", cpu="1", suspend=True)
    path = tmp_path / "job.yaml"
    path.write_text(json.dumps(job))
    found = ask(control_plane, path)
    assert not found["startsNow"]
    assert "room for 0 of 1" in found["lacks"]
    assert 0 < found["startsInSeconds"] <= 600
