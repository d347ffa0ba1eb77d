"""Why a gang, or a pod of one, is where it is: on the command line and from the extender."""

import json
import subprocess
from typing import Any

import httpx
import pytest

from tests.cluster.conftest import NodeFactory
from tests.cluster.gangs import Gangs, await_held
from tests.harness.client import Api
from tests.harness.control_plane import ControlPlane
from tests.harness.gang_scheduler import GangScheduler
from tests.harness.process import run_command

pytestmark = pytest.mark.usefixtures("gang")


class Explain:
    """Runs `gang-extender explain` as a user with all rights."""

    def __init__(self, control_plane: ControlPlane, namespace: str) -> None:
        self._kubeconfig = str(control_plane.admin_kubeconfig)
        self._namespace = namespace

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        where = ["-n", self._namespace, "--kubeconfig", self._kubeconfig]
        return run_command("explain", *words, *where)

    def text(self, *words: str) -> str:
        """Return the text, made to one line with single spaces."""
        done = self.run(*words)
        assert (done.returncode, done.stderr) == (0, "")
        return " ".join(done.stdout.split())

    def json(self, *words: str) -> dict[str, Any]:
        done = self.run(*words, "-o", "json")
        assert (done.returncode, done.stderr) == (0, "")
        found: dict[str, Any] = json.loads(done.stdout)
        return found


def shown(scheduler: GangScheduler, path: str, **params: str) -> dict[str, Any]:
    """Return what the extender answers."""
    answer = httpx.get(f"{scheduler.url}{path}", params=params, trust_env=False, timeout=60)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


@pytest.fixture
def explain(control_plane: ControlPlane, gangs: Gangs) -> Explain:
    return Explain(control_plane, gangs.namespace)


def gate(found: dict[str, Any], name: str) -> tuple[str, str | None]:
    """Return the answer of a gate, and the reason of a refusal."""
    [passed] = [each for each in found["gates"] if each["gate"] == name]
    return passed["answer"], passed["reason"]


def test_a_gang_that_is_short_of_pods(gangs: Gangs, nodes: NodeFactory, explain: Explain) -> None:
    nodes(2)
    gangs.create("g", 2, min_member=3)

    found, said = explain.json("podgroup", "g"), explain.text("podgroup", "g")

    assert (found["state"], found["reason"]) == ("Waiting", "NotEnoughPods")
    assert gate(found, "PodGroup") == ("Passed", None)
    assert gate(found, "Pods") == ("Refused", "NotEnoughPods")
    assert gate(found, "Room") == ("NotAsked", None)
    assert found["wouldHelp"] == ["1 pod more"]
    assert "2 of the 3 pods that it needs exist" in said


def test_the_extender_shows_what_it_holds(
    api: Api, gang: GangScheduler, patient_gang: GangScheduler, gangs: Gangs, nodes: NodeFactory
) -> None:
    nodes(3, "4")
    gangs.hold("g")
    await_held(api, patient_gang, 2)

    found = shown(patient_gang, f"/podgroups/{gangs.namespace}/g")

    assert (found["source"], found["state"]) == ("Extender", "Held")
    assert gate(found, "Quorum") == ("Refused", "WaitingForBind")
    assert (found["pods"]["held"], found["pods"]["planned"]) == (2, 1)
    held = [each for each in found["members"] if each["state"] == "Held"]
    assert all(each["node"] for each in held)
    assert {each["kind"] for each in found["kept"]} == {"Held", "Plan"}

    [line] = shown(patient_gang, "/podgroups", namespace=gangs.namespace)["items"]
    assert (line["name"], line["state"], line["needed"]) == ("g", "Held", 3)
    absent = httpx.get(f"{gang.url}/podgroups/{gangs.namespace}/h", trust_env=False, timeout=60)
    assert (absent.status_code, absent.json()["reason"]) == (404, "NotFound")

    api.create(gangs.anchor())
    gangs.await_phases("g", Running=3)

    def has_started() -> bool:
        now = shown(patient_gang, f"/podgroups/{gangs.namespace}/g")
        return (now["state"], now["kept"]) == ("Started", [])

    api.wait_for("the extender has seen it, too", has_started)


def test_a_gang_that_runs_and_pods_that_are_no_members(
    api: Api, gangs: Gangs, nodes: NodeFactory, explain: Explain
) -> None:
    nodes(2, "4")
    gangs.create("g", 3)
    gangs.await_phases("g", Running=3)
    api.create(gangs.pod("large", cpu="100"))

    found, said = explain.json("podgroup", "g"), explain.text("podgroup", "g")

    assert (found["state"], found["reason"], found["pods"]["bound"]) == ("Started", "Scheduled", 3)
    assert {each["answer"] for each in found["gates"]} == {"Passed"} | {"Unknown"}
    assert gate(found, "Quorum") == ("Passed", None)
    assert {each["state"] for each in found["members"]} == {"Bound"}
    assert "3 exist: 3 bound; 3 needed" in said

    plain = explain.json("pod", "large")
    assert plain["group"] is None
    assert "it is no member of a gang; 0 of 2 nodes have room for it" in plain["message"]
    assert "PodGroup none" in explain.text("pod", "large")
    assert "State Bound it has a node" in explain.text("pod", "g-0")
