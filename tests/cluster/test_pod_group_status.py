"""What the status and the Events of a group say, from its creation to its end."""

from collections import Counter
from typing import Any

import pytest

from tests.cluster.conftest import NodeFactory
from tests.cluster.gangs import PATIENT, POD_GROUPS, Gangs, await_held
from tests.cluster.groups import SECONDS, Groups
from tests.harness import objects
from tests.harness.client import Api
from tests.harness.gang_scheduler import GangScheduler
from tests.harness.objects import Object
from tests.harness.reconciler import Reconciler

pytestmark = pytest.mark.usefixtures("gang", "reconciler")

NEVER = ["harness/never"]


@pytest.fixture
def groups(api: Api, namespace: str) -> Groups:
    return Groups(api, namespace)


def rest_stays(before: Object, after: Object) -> None:
    """Check that two readings are the same, times of conditions included."""
    assert {**after, "conditions": None} == {**before, "conditions": None}
    assert reported_by_us(after) == reported_by_us(before)


def reported_by_us(status: Object) -> list[str]:
    """Return the conditions that the reconciler writes; the extender may add that of a wait."""
    return sorted(str(each) for each in status["conditions"] if each["type"] != "Permitted")


def test_a_jobs_gang_is_reported_in_each_phase_and_after_a_restart_the_same(
    reconciler: Reconciler, api: Api, gangs: Gangs, groups: Groups, nodes: NodeFactory
) -> None:
    events: list[str] = []

    def settles(*reasons: str, **want: Any) -> Object:
        status = groups.await_status(**want)
        events.extend(reasons)
        api.wait_for(f"the Events are {events}", lambda: groups.reasons() == events, SECONDS)
        reconciler.restart()
        reconciler.await_looks()
        rest_stays(status, groups.await_status(**want))
        return status

    gangs.create_group("g", 3)
    settles(phase="Pending", scheduled=0)
    job = objects.job(
        "work",
        3,
        namespace=gangs.namespace,
        group="g",
        indexed=True,
        run_for="1h",
        pod_spec={"schedulingGates": [{"name": NEVER[0]}]},
    )
    api.create(job)
    status = settles("Gated", phase="PreScheduling", occupiedBy=f"{gangs.namespace}/work")
    started = status["scheduleStartTime"]
    assert groups.reported() == (
        "False",
        "Gated",
        "0 of the 3 pods that it needs are free of gates",
    )

    nodes(1)
    for pod in gangs.members("g"):
        gate = [{"op": "remove", "path": "/spec/schedulingGates"}]
        api.patch("pods", pod["metadata"]["name"], gangs.namespace, body=gate, how="json")
    status = settles("Scheduled", phase="Running", scheduled=3, running=3, succeeded=0)
    assert status["scheduleStartTime"] == started
    assert groups.reported()[:2] == ("True", "Scheduled")
    assert groups.reported(kind="Running")[:2] == ("True", "Running")

    for pod in gangs.members("g"):
        body = {"metadata": {"annotations": {objects.RUN_FOR: "1ms"}}}
        api.patch("pods", pod["metadata"]["name"], gangs.namespace, body=body)
    status = settles(phase="Finished", scheduled=3, running=0, succeeded=3, failed=0)
    assert status["scheduleStartTime"] == started
    assert groups.reported(kind="Running")[:2] == ("False", "Finished")

    api.delete("batch/v1/jobs", "work", gangs.namespace)
    api.wait_for("the pods are gone", lambda: not gangs.members("g"), SECONDS)
    settles(phase="Finished", scheduled=3, succeeded=3, occupiedBy=f"{gangs.namespace}/work")
    assert groups.reasons() == events


def test_a_group_of_the_older_api_group_is_reported_as_well(
    api: Api, gangs: Gangs, nodes: NodeFactory
) -> None:
    nodes(1)
    sigs = "scheduling.sigs.k8s.io/v1alpha1"
    api.create(objects.pod_group("g", 2, namespace=gangs.namespace, api_version=sigs))
    gangs.add("g", 2, label="pod-group.scheduling.sigs.k8s.io")

    def phase() -> str | None:
        found = api.get(f"{sigs}/podgroups", "g", gangs.namespace)
        return (found.get("status") or {}).get("phase")

    api.wait_for("it runs", lambda: phase() == "Running", SECONDS)


def test_a_failed_pod_that_is_not_replaced_fails_the_group(
    gangs: Gangs, groups: Groups, nodes: NodeFactory
) -> None:
    nodes(1)
    gangs.create_group("g", 3)
    gangs.add("g", 2)
    gangs.add("g", 1, start=2, run_for="1s", annotations={objects.EXIT_CODE: "1"})

    groups.await_status(phase="Failed", running=2, failed=1)
    want = "1 failed, and 2 of the 3 pods that it needs are left"
    assert groups.reported() == ("False", "PodsFailed", want)

    gangs.add("g", 1, start=3)
    groups.await_status(phase="Running", running=3, failed=1)


def test_what_a_group_waits_for_is_reported_with_numbers_and_one_event_each(
    api: Api, gangs: Gangs, groups: Groups, nodes: NodeFactory
) -> None:
    taken, *_ = nodes(3, "4")
    api.create(gangs.pod("guest", cpu="3", node_name=taken))
    gangs.create_group("g", 3)
    gangs.add("g", 2, cpu="3")
    groups.await_reported("NotEnoughPods", "2 of the 3 pods that it needs exist")
    gangs.add("g", 1, start=2, cpu="3")
    short = (
        "3 pods exist, 2 of the 3 pods that it still needs fit, short of cpu 3, "
        "on 3 usable of 3 nodes"
    )
    groups.await_reported("NotEnoughResources", short)
    gangs.delete(["guest"])
    groups.await_status(phase="Running")

    # An Event is written after the status that it goes with.
    api.wait_for(
        "the last one is reported", lambda: groups.reasons()[-1:] == ["Scheduled"], SECONDS
    )
    seen = groups.reasons()
    assert seen[0] == "NotEnoughResources"
    assert Counter(seen).most_common(1)[0][1] == 1, seen
    notes = {event["reason"]: event["note"] for event in groups.events()}
    # Behind that may stand the gang of an earlier test, which is on its way out.
    assert notes["NotEnoughResources"].startswith(short)


def test_no_endpoint_is_ready_before_enough_members_are(
    api: Api, gangs: Gangs, nodes: NodeFactory
) -> None:
    nodes(1)
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "shards", "namespace": gangs.namespace},
        "spec": {
            "clusterIP": "None",
            "selector": {objects.POD_GROUP_LABEL: "g"},
            "ports": [{"port": 80}],
        },
    }
    api.create(service)
    gate = [{"conditionType": "scheduling.x-k8s.io/gang-ready"}]
    gangs.create_group("g", 1)
    gangs.add("g", 1, readinessGates=gate)

    def ready() -> list[bool]:
        slices = api.list("discovery.k8s.io/v1/endpointslices", gangs.namespace)
        ends = [end for each in slices for end in each["endpoints"] or ()]
        return sorted(bool(end["conditions"]["ready"]) for end in ends)

    def gang_ready() -> list[str]:
        return sorted(
            f"{each['status']} {each['reason']}"
            for pod in gangs.members("g")
            for each in pod["status"].get("conditions", ())
            if each["type"] == "scheduling.x-k8s.io/gang-ready"
        )

    api.wait_for("the only one is ready", lambda: ready() == [True], SECONDS)

    api.patch(POD_GROUPS, "g", gangs.namespace, body={"spec": {"minMember": 3}})
    api.wait_for("it alone is not enough", lambda: ready() == [False], SECONDS)
    assert gang_ready() == ["False GangNotReady"]

    gangs.add("g", 2, start=1, readinessGates=gate)
    api.wait_for("all are ready", lambda: ready() == [True] * 3, SECONDS)
    assert gang_ready() == ["True GangReady"] * 3


def test_why_a_group_was_denied_is_reported_until_it_starts(
    api: Api, gangs: Gangs, groups: Groups, nodes: NodeFactory
) -> None:
    def await_permitted(status: str, reason: str) -> str:
        def reported() -> bool:
            return groups.reported(kind="Permitted")[:2] == (status, reason)

        api.wait_for(f"{reason} is reported", reported, SECONDS)
        return groups.reported(kind="Permitted")[2]

    nodes(1, "2")
    gangs.create("g", 3, cpu="1")
    said = await_permitted("False", "RecentlyDenied")
    assert said.startswith("failed recently, 2 of the 3 pods that it still needs fit, short of cpu")
    # Whatever happens to it meanwhile, it is the same group and has not started.
    gangs.add("g", 1, start=3, cpu="1")
    api.wait_for("it is seen", lambda: groups.reported()[2].startswith("4 pods exist"), SECONDS)
    assert groups.reported(kind="Permitted")[:2] == ("False", "RecentlyDenied")

    nodes(1, "2", prefix="new")
    gangs.await_phases("g", Running=4)
    assert await_permitted("True", "QuorumReached") == ""


def test_what_the_extender_says_and_what_we_say_stand_side_by_side(
    patient_gang: GangScheduler, api: Api, gangs: Gangs, groups: Groups, nodes: NodeFactory
) -> None:
    nodes(2)
    gangs.hold("g")
    await_held(api, patient_gang, 2)
    groups.await_status(phase="Scheduling", scheduled=0)
    groups.await_reason("MemberUnschedulable")
    want = ("False", "WaitingForBind", "2/3 pods have a node and wait for the others")
    api.wait_for("both are held", lambda: groups.reported(kind="Permitted") == want, SECONDS)

    api.create(gangs.anchor(scheduler_name=PATIENT))
    groups.await_status(phase="Running", scheduled=3)
    api.wait_for(
        "the extender is content",
        lambda: groups.reported(kind="Permitted")[:2] == ("True", "QuorumReached"),
        SECONDS,
    )
    assert groups.reported()[:2] == ("True", "Scheduled")


@pytest.mark.usefixtures("gang", "reconciler")
def test_members_that_were_left_behind_at_a_start_follow(
    api: Api, gangs: Gangs, nodes: NodeFactory
) -> None:
    """As after a crash between two Bindings of a gang, whose first members end before long."""
    [node] = nodes(1, "2")
    gangs.create_group("g", 4)
    first = gangs.add("g", 2, cpu="1", node_name=node, run_for="1h")
    gangs.add("g", 2, start=2, cpu="1")
    gangs.await_phases("g", Running=2, Pending=2)
    for name in first:
        body = {"metadata": {"annotations": {objects.RUN_FOR: "1ms"}}}
        api.patch("pods", name, gangs.namespace, body=body)

    gangs.await_phases("g", Running=2, Succeeded=2, timeout=120)
