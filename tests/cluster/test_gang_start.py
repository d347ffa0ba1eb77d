"""What a gang waits for besides room: its PodGroup and its pods, but for pods with gates."""

import pytest

from tests.cluster.conftest import NodeFactory
from tests.cluster.gangs import GATE, POD_GROUPS, Gangs
from tests.harness import objects
from tests.harness.client import Api, condition
from tests.harness.gang_scheduler import GangScheduler

WOKEN_SECONDS = 120
"""Far below the five minutes after which kube-scheduler tries every pod again by itself."""
LABELS = ("scheduling.x-k8s.io/pod-group", "pod-group.scheduling.sigs.k8s.io")
API_VERSIONS = ("scheduling.x-k8s.io/v1alpha1", "scheduling.sigs.k8s.io/v1alpha1")
FOREIGN_GATE = "example.com/not-ours"

pytestmark = pytest.mark.usefixtures("gang")


def test_pods_that_are_there_before_their_pod_group_start_with_it(
    gangs: Gangs, nodes: NodeFactory
) -> None:
    nodes()
    gangs.add("g", 3)
    gangs.await_refused("g", "there is no such PodGroup", count=3)

    gangs.create_group("g", 3)
    gangs.await_phases("g", Running=3, timeout=WOKEN_SECONDS)


def test_a_gang_starts_when_its_min_member_is_lowered(
    api: Api, gangs: Gangs, nodes: NodeFactory
) -> None:
    nodes()
    gangs.create("g", 2, min_member=3)
    gangs.await_refused("g", "2 of the 3 pods that it needs exist")

    api.patch(POD_GROUPS, "g", gangs.namespace, body={"spec": {"minMember": 2}})
    gangs.await_phases("g", Running=2, timeout=WOKEN_SECONDS)


def test_members_beyond_min_member_start_alone_as_they_come(
    gangs: Gangs, nodes: NodeFactory
) -> None:
    nodes()
    gangs.create("g", 2)
    gangs.await_phases("g", Running=2)

    for number in (2, 3):
        gangs.add("g", 1, start=number)
        gangs.await_phases("g", Running=number + 1, timeout=WOKEN_SECONDS)


@pytest.mark.parametrize("label", LABELS)
@pytest.mark.parametrize("api_version", API_VERSIONS)
def test_either_label_goes_with_either_api_group(
    label: str, api_version: str, api: Api, gangs: Gangs, nodes: NodeFactory
) -> None:
    nodes()
    gangs.create_group("g", 3, api_version=api_version)
    pods = [gangs.pod(f"g-{number}", group="g", label=label) for number in range(3)]

    def bound() -> int:
        return sum("nodeName" in pod["spec"] for pod in api.list("pods", gangs.namespace))

    api.create(*pods[:2])
    text = gangs.sentence("g", "2 of the 3 pods that it needs exist")
    api.wait_for("we refused", lambda: any(text in failure for failure in gangs.failures()), 120)
    assert bound() == 0
    api.create(pods[2])
    api.wait_for("all three are bound", lambda: bound() == 3)


def test_our_gate_is_taken_away_when_the_gang_has_its_pods(
    gangs: Gangs, nodes: NodeFactory
) -> None:
    nodes()
    gangs.create("g", 2, min_member=3, gates=[GATE])
    gangs.create("later", 2, gates=[GATE])
    gangs.await_phases("later", Running=2)  # that decision has seen the first gang too
    assert [len(pod["spec"]["schedulingGates"]) for pod in gangs.members("g")] == [1, 1]

    gangs.add("g", 1, start=2, gates=[GATE])
    gangs.await_phases("g", Running=3)
    assert all("schedulingGates" not in pod["spec"] for pod in gangs.members("g"))


def test_a_foreign_gate_is_left_alone_and_holds_the_whole_gang_back(
    api: Api, gangs: Gangs, nodes: NodeFactory
) -> None:
    nodes()
    gangs.create("g", 2, min_member=3, gates=[GATE])
    gangs.add("g", 1, start=2, gates=[FOREIGN_GATE, GATE])
    gangs.create("later", 2, gates=[GATE])
    gangs.await_phases("later", Running=2)
    gates = {
        pod["metadata"]["name"]: [gate["name"] for gate in pod["spec"].get("schedulingGates", ())]
        for pod in gangs.members("g")
    }
    assert gates == {"g-0": [GATE], "g-1": [GATE], "g-2": [FOREIGN_GATE, GATE]}

    taken_away = [{"op": "remove", "path": "/spec/schedulingGates/0"}]
    api.patch("pods", "g-2", gangs.namespace, body=taken_away, how="json")
    gangs.await_phases("g", Running=3)


def test_an_indexed_job_runs_to_its_end_as_a_gang(
    gang: GangScheduler, api: Api, gangs: Gangs, nodes: NodeFactory
) -> None:
    [node] = nodes(1, "2")
    gangs.create_group("g", 3)
    namespace = gangs.namespace
    job = objects.job(
        "job", 3, namespace=namespace, cpu="1", group="g", indexed=True, run_for="200ms"
    )
    api.create(job)
    gangs.await_refused("g", "2 of the 3 pods that it still needs fit")
    gangs.retry(gang, node, attempts=3)
    assert gangs.bound("g") == set()

    nodes(1, "2", prefix="new")
    api.wait_for(
        "the Job completes",
        lambda: condition(api.get("batch/v1/jobs", "job", namespace), "Complete"),
    )
    assert api.get("batch/v1/jobs", "job", namespace)["status"]["completedIndexes"] == "0-2"
    assert len(gangs.placements()) == 3


def test_a_gang_of_a_name_whose_former_pods_are_still_going_does_not_count_them(
    gangs: Gangs, api: Api, nodes: NodeFactory
) -> None:
    """`kubectl delete job` and `kubectl apply` again: the old pods take their time to end."""
    nodes(1, "4")
    old = gangs.create("g", 2, cpu="1")
    gangs.await_phases("g", Running=2)
    for name in old:
        body = {"metadata": {"finalizers": ["example.com/slow"]}}
        api.patch("pods", name, gangs.namespace, body=body)
        api.delete("pods", name, gangs.namespace, grace_seconds=0)
    gangs.await_seen()

    [new] = gangs.add("g", 1, start=2, cpu="1")
    gangs.await_refused("g", "1 of the 2 pods that it still needs can start")
    assert new not in gangs.bound("g")

    gangs.add("g", 1, start=3, cpu="1")
    api.wait_for("both new ones are bound", lambda: len(gangs.bound("g") - set(old)) == 2)
    for name in old:
        api.patch("pods", name, gangs.namespace, body={"metadata": {"finalizers": None}})
