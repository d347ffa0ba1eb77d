"""Kueue's topology API: pods of queued jobs in domains of nodes."""

from typing import Any

import pytest

from tests.cluster.conftest import NodeFactory
from tests.cluster.gangs import Gangs
from tests.cluster.queues import API, Queues, condition
from tests.harness.client import Api, Object
from tests.harness.gang_scheduler import GangScheduler

pytestmark = pytest.mark.usefixtures("gang", "reconciler")

BLOCK, RACK, HOST = "example.com/block", "example.com/rack", "kubernetes.io/hostname"
POOL = "example.com/pool"
REQUIRED = "kueue.x-k8s.io/podset-required-topology"
PREFERRED = "kueue.x-k8s.io/podset-preferred-topology"
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
        found = self.api.list("pods", self.queues.namespace, labels=f"job-name={job}")
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
        workload = self.queues.workload(job)
        assert workload is not None
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
    racks.job("wide", 4, **{REQUIRED: RACK})

    def active() -> tuple[str, str]:
        found = api.get(f"{API}/clusterqueues", cluster_queue).get("status") or {}
        said = condition(found and {"status": found}, "Active")
        return said.get("status", ""), said.get("reason", "")

    api.wait_for("the topology is missing", lambda: active() == ("False", "TopologyNotFound"))
    racks.topology()
    assert set(racks.await_placed("train", 3).values()) == {*three}
    workload = queues.workload("train")
    assert workload is not None
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


def test_pods_without_a_pod_group_of_the_queue_go_to_their_domains_by_index(
    racks: Racks, api: Api, queues: Queues, gangs: Gangs
) -> None:
    racks.rack("r1", 2)
    racks.rack("r2", 3)
    racks.queue()
    gangs.create_group("own", 2)
    racks.queues.job(
        "train", 4, cpu="3", indexed=True, group="own", run_for="1h", annotations={PREFERRED: RACK}
    )
    found = racks.await_placed("train", 4)
    assigned = racks.hosts("train")
    assert [found[index] for index in sorted(found)] == assigned
    pods = api.list("pods", queues.namespace, labels="job-name=train")
    assert all(pod["spec"]["nodeSelector"][HOST] == pod["spec"]["nodeName"] for pod in pods)

    name = racks.pod("train", "1")
    api.delete("pods", name, queues.namespace)
    api.wait_for("another pod has the index", lambda: racks.pod("train", "1") not in {"", name})
    assert racks.await_placed("train", 4) == found
