"""Kueue's topology API: pods of queued jobs in domains of nodes."""

from functools import partial
from typing import Any

import pytest

from tests.cluster.conftest import NodeFactory
from tests.cluster.queues import API, Queues, condition
from tests.harness import objects
from tests.harness.client import Api, Object
from tests.harness.gang_scheduler import GangScheduler

pytestmark = pytest.mark.usefixtures("gang", "reconciler")

BLOCK, RACK, HOST = "example.com/block", "example.com/rack", "kubernetes.io/hostname"
POOL = "example.com/pool"
REQUIRED = "kueue.x-k8s.io/podset-required-topology"
SLICES = "kueue.x-k8s.io/podset-slice-required-topology"
SLICE_SIZE = "kueue.x-k8s.io/podset-slice-size"
INDEX = "batch.kubernetes.io/job-completion-index"


class Racks:
    """Nodes of one test in blocks and racks, and a queue with a flavor for them."""

    def __init__(self, api: Api, queues: Queues, nodes: NodeFactory) -> None:
        self.api, self.queues, self._nodes = api, queues, nodes
        self.rack_of: dict[str, str] = {}

    def rack(self, name: str, count: int, block: str = "b", cpu: int = 4) -> list[str]:
        labels = {BLOCK: block, RACK: name, POOL: self.queues.suffix}
        made = self._nodes(count, cpu, prefix=f"{block}{name}x{len(self.rack_of)}", labels=labels)
        self.rack_of |= dict.fromkeys(made, name)
        return made

    def queue(self, *levels: str, topology: bool = True) -> str:
        """Make a topology of these levels, and the LocalQueue `queue`; return the ClusterQueue."""
        name = self.queues.name("topology")
        if topology:
            self.topology(*levels)
        flavor = self.queues.flavor(nodeLabels={POOL: self.queues.suffix}, topologyName=name)
        return self.queues.simple(cpu=100, flavor=flavor)[0]

    def topology(self, *levels: str) -> None:
        spec = {"levels": [{"nodeLabel": each} for each in levels or (BLOCK, RACK, HOST)]}
        self.queues.create("Topology", "topology", spec)

    def job(self, name: str, pods: int, cpu: str = "3", **annotations: str) -> Object:
        return self.queues.job(
            name, pods, cpu=cpu, indexed=True, run_for="1h", annotations=annotations
        )

    def where(self, job: str) -> dict[str, str]:
        """Return the nodes of a job's pods that have one, by completion index or by name."""
        found = self.queues.pods(job)
        return {
            pod["metadata"]["labels"].get(INDEX, pod["metadata"]["name"]): pod["spec"]["nodeName"]
            for pod in found
            if pod["spec"].get("nodeName") and not pod["metadata"].get("deletionTimestamp")
        }

    def pod(self, job: str, index: str) -> str:
        """Return the name of the pod of an index that is not being deleted, or nothing."""
        labels = f"job-name={job},{INDEX}={index}"
        found = self.api.list("pods", self.queues.namespace, labels=labels)
        names = [
            pod["metadata"]["name"]
            for pod in found
            if not pod["metadata"].get("deletionTimestamp") and pod["status"]["phase"] != "Failed"
        ]
        return names[0] if len(names) == 1 else ""

    def lose(self, node: str, job: str) -> None:
        """Delete a node, and the pods of a job on it, as the garbage collector of pods does."""
        self.api.delete("nodes", node)
        for pod in self.queues.pods(job):
            if pod["spec"].get("nodeName") == node:
                self.api.delete(
                    "pods", pod["metadata"]["name"], self.queues.namespace, grace_seconds=0
                )

    def remove(self, job: str, index: str) -> None:
        """Delete the pod of an index, and wait until there is another."""
        name = self.pod(job, index)
        self.api.delete("pods", name, self.queues.namespace)
        self.api.wait_for(
            "another pod has the index", lambda: self.pod(job, index) not in {"", name}
        )

    def await_event(self, job: str, reason: str) -> None:
        """Wait for an Event about a job's workload."""
        workload = self.queues.its_workload(job)
        uid = workload["metadata"]["uid"]
        said = partial(self.api.notes, self.queues.namespace, reason, uid=uid)
        self.api.wait_for(f"Event {reason} of {job}", said)

    def hosts(self, job: str) -> list[str]:
        """Return the assigned host of each index."""
        [found] = self.assignment(job)["slices"]
        [said] = found["valuesPerLevel"]
        values = said["individual"]
        shared = values.get("prefix", ""), values.get("suffix", "")
        return [f"{shared[0]}{root}{shared[1]}" for root in values["roots"]]

    def await_placed(self, job: str, pods: int) -> dict[str, str]:
        """Wait until so many pods of a job have nodes; return these."""

        def placed() -> dict[str, str]:
            found = self.where(job)
            return found if len(found) == pods else {}

        return self.api.wait_for(f"{pods} pods of {job} have nodes", placed)

    def assignment(self, job: str) -> Any:
        workload = self.queues.its_workload(job)
        [given] = workload["status"]["admission"]["podSetAssignments"]
        return given.get("topologyAssignment")


@pytest.fixture
def racks(api: Api, queues: Queues, nodes: NodeFactory) -> Racks:
    """Nodes in racks, and queues for them."""
    return Racks(api, queues, nodes)


def test_a_job_is_in_the_one_rack_that_it_requires(racks: Racks, api: Api, queues: Queues) -> None:
    racks.rack("r1", 2)
    three = racks.rack("r2", 3)
    cluster_queue = racks.queue(topology=False)
    racks.job("train", 3, **{REQUIRED: RACK})
    api.wait_for("it has a workload, and comes first", lambda: queues.workload("train"))
    racks.job("wide", 4, **{REQUIRED: RACK})

    def active() -> tuple[str, str]:
        found = api.get(f"{API}/clusterqueues", cluster_queue).get("status") or {}
        said = condition(found and {"status": found}, "Active")
        return said.get("status", ""), said.get("reason", "")

    api.wait_for("the topology is missing", lambda: active() == ("False", "TopologyNotFound"))
    racks.topology()
    assert set(racks.await_placed("train", 3).values()) == {*three}
    workload = queues.its_workload("train")
    assert workload["spec"]["podSets"][0]["topologyRequest"] == {
        "required": RACK, "podIndexLabel": INDEX,
    }  # fmt: skip
    found = racks.assignment("train")
    assert found["levels"] == [HOST]
    assert found["slices"][0]["domainCount"] == 3
    said = queues.await_condition(
        "wide", "QuotaReserved", "False", reason="TopologyPlacementFailed"
    )
    assert "allows to fit only 2 out of 4 pod(s)" in said["message"]

    queues.end_pods("train")
    api.wait_for(
        "it would nearly fit",
        lambda: "3 out of 4" in queues.condition("wide", "QuotaReserved")["message"],
    )
    more = racks.rack("r2", 1)
    assert {*racks.await_placed("wide", 4).values()} == {*three, *more}


def test_slices_of_indexes_are_in_one_rack_each_and_what_is_lost_comes_back_there(
    gang: GangScheduler, racks: Racks, api: Api, queues: Queues
) -> None:
    racks.rack("r1", 3)
    racks.rack("r2", 2)
    racks.rack("r3", 1)
    racks.queue()
    racks.job("train", 4, **{REQUIRED: BLOCK, SLICES: RACK, SLICE_SIZE: "2"})
    found = racks.await_placed("train", 4)
    of = {index: racks.rack_of[node] for index, node in found.items()}
    assert of == {"0": "r1", "1": "r1", "2": "r2", "3": "r2"}

    gang.extender.kill()
    gang.scheduler.kill()
    gang.extender.start()
    gang.scheduler.start()
    gang.wait_ready()
    name = racks.pod("train", "2")
    api.delete("pods", name, queues.namespace)
    api.wait_for("another pod has the index", lambda: racks.pod("train", "2") not in {"", name})
    again = racks.await_placed("train", 4)
    assert again == found


def test_a_host_that_goes_away_is_replaced_in_the_same_rack(
    gang: GangScheduler, racks: Racks, api: Api, queues: Queues
) -> None:
    racks.rack("r1", 4)
    racks.rack("r2", 2)
    racks.queue()
    racks.job("train", 3, **{REQUIRED: RACK})
    before = racks.await_placed("train", 3)
    assert {racks.rack_of[node] for node in before.values()} == {"r1"}
    racks.lose(before["1"], "train")
    after = racks.await_placed("train", 3)
    assert racks.rack_of[after["1"]] == "r1"
    assert after["1"] not in before.values()
    assert {after["0"], after["2"]} == {before["0"], before["2"]}
    assert racks.hosts("train") == [after[index] for index in "012"]
    racks.await_event("train", "HostReplaced")

    gang.extender.kill()
    gang.extender.start()
    gang.wait_ready()
    racks.remove("train", "1")
    assert racks.await_placed("train", 3) == after


def test_without_another_host_a_gang_waits_or_is_evicted_as_it_says(
    racks: Racks, api: Api, queues: Queues
) -> None:
    racks.rack("r1", 2)
    racks.queue()
    racks.job("train", 2, **{REQUIRED: RACK})
    before = racks.await_placed("train", 2)
    racks.rack("r2", 2)
    racks.lose(before["1"], "train")
    said = queues.await_condition("train", "HostsLost", reason="NoReplacement")
    assert "allows to fit" in said["message"] or "any of 1" in said["message"]
    racks.await_event("train", "NoReplacement")
    assert racks.where("train") == {"0": before["0"]}
    [group] = api.list("scheduling.x-k8s.io/v1alpha1/podgroups", queues.namespace)
    asks = {"scheduling.x-k8s.io/on-partial": "evict"}
    change = {"metadata": {"annotations": asks}, "spec": {"scheduleTimeoutSeconds": 1}}
    api.patch(
        "scheduling.x-k8s.io/v1alpha1/podgroups",
        group["metadata"]["name"],
        queues.namespace,
        body=change,
    )
    again = racks.await_placed("train", 2)
    assert {racks.rack_of[node] for node in again.values()} == {"r2"}
    assert queues.condition("train", "Evicted")["message"].startswith("Previously: Host ")
    workload = queues.its_workload("train")
    [evicted] = workload["status"]["schedulingStats"]["evictions"]
    assert (evicted["reason"], evicted["count"]) == ("NodeFailures", 1)


def test_a_group_of_plain_pods_is_in_one_rack(racks: Racks, api: Api, queues: Queues) -> None:
    racks.rack("r1", 1)
    two = racks.rack("r2", 2)
    racks.queue()
    labels = {
        "kueue.x-k8s.io/queue-name": "queue",
        "kueue.x-k8s.io/managed": "true",
        "kueue.x-k8s.io/pod-group-name": "pair",
    }
    said = {"kueue.x-k8s.io/pod-group-total-count": "2", REQUIRED: RACK}
    for name in ("a", "b"):
        api.create(
            objects.pod(
                name,
                "3",
                namespace=queues.namespace,
                labels=labels,
                annotations=said,
                gates=["kueue.x-k8s.io/admission"],
                run_for="1h",
            )
        )

    def placed() -> bool:
        pods = api.list("pods", queues.namespace)
        return {pod["spec"].get("nodeName") for pod in pods} == {*two}

    api.wait_for("both pods are in the rack with two hosts", placed)
