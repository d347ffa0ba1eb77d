"""How often we write for a gang from its creation to its end, by the API server's history."""

from collections import Counter
from datetime import datetime

import pytest

from extender.kube.pod_groups import FIELD_MANAGER
from extender.kube.queues import ROOM_FIELD_MANAGER
from tests.cluster.conftest import NodeFactory
from tests.cluster.gangs import POD_GROUPS
from tests.cluster.queues import JOBS, WORKLOADS, Queues
from tests.harness.client import Api, Object

EVENTS = Counter({
    ("Job", "Started"): 1,
    ("PodGroup", "Scheduled"): 1,
})  # fmt: skip


@pytest.mark.usefixtures("gang", "reconciler")
def test_a_job_of_three_pods_takes_few_writes_of_ours(
    api: Api, queues: Queues, nodes: NodeFactory
) -> None:
    nodes(1, "4")
    queues.require_room(queues.simple(cpu=4)[0])
    queues.job("work", 3, indexed=True, run_for="3s")
    queues.await_finished("work")

    def workload() -> Object:
        return queues.its_workload("work")

    def group() -> Object:
        (found,) = api.list(POD_GROUPS, queues.namespace)
        return found

    def ended() -> bool:
        return (
            "finalizers" not in workload()["metadata"]
            and group()["status"].get("phase") == "Finished"
        )

    def ours() -> Counter[tuple[str, str]]:
        found = api.list("events.k8s.io/v1/events", queues.namespace)
        own = [e for e in found if e["reportingController"] == "scheduling.x-k8s.io/gang-extender"]
        said = Counter((e["regarding"]["kind"], e["reason"]) for e in own)
        del said["Pod", "Scheduled"]  # of a member that was bound ahead: kube-scheduler writes none
        return said

    api.wait_for("all of it has ended", ended)
    api.wait_for("each fact has its Event", lambda: ours() >= EVENTS)
    said = api.list("events.k8s.io/v1/events", queues.namespace)
    assert ours() == EVENTS, [(event["reason"], event["note"]) for event in said]

    # Quota, ready pods, the end, and the finalizer behind its creation.
    assert len([*api.versions(WORKLOADS, workload())]) <= 5
    job = api.get(JOBS, "work", queues.namespace)
    assert job["metadata"]["generation"] == 2, "one write starts it"

    versions = [*api.versions(POD_GROUPS, group())]
    assert times(versions[0], ROOM_FIELD_MANAGER), "its room is never withdrawn"
    written = [time for each in versions for time in times(each, FIELD_MANAGER)]
    # It is made, gets room, and runs; a slow machine shows what is on its way, once a second.
    seconds = (max(written) - min(written)).total_seconds()
    assert len(versions) <= 4 + seconds, versions


def times(version: Object, manager: str) -> list[datetime]:
    """Return when a field manager wrote what is stored, if it has written."""
    found = (e for e in version["metadata"]["managedFields"] if e["manager"] == manager)
    return [datetime.fromisoformat(each["time"]) for each in found]
