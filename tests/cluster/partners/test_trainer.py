"""TrainJobs and their JobSets: which of the two is queued, and that nobody fights for the other."""

import pytest

from tests.cluster.conftest import NodeFactory
from tests.cluster.partners.work import SECONDS, Works
from tests.cluster.queues import QUEUE, WORKLOADS
from tests.harness.client import Object

JOBSETS = "jobset.x-k8s.io/v1alpha2/jobsets"


def label_its_jobset(spec: Object) -> None:
    spec["labels"] = {QUEUE: "queue"}


@pytest.mark.kinds("TrainJob")
def test_a_jobset_of_a_queued_trainjob_is_not_queued_itself(
    works: Works, nodes: NodeFactory
) -> None:
    nodes(2, "4")
    cluster_queue, _ = works.queues.simple(cpu=8)
    works.create("work", suspended=False, change=label_its_jobset)

    works.await_reserved("work")
    works.await_running("work")

    assert works.api.get(JOBSETS, "work", works.namespace)["metadata"]["labels"][QUEUE] == "queue"
    owners = {
        each["kind"]
        for workload in works.api.list(WORKLOADS, works.namespace)
        for each in workload["metadata"]["ownerReferences"]
    }
    assert owners == {"TrainJob"}
    works.api.wait_for("its quota is in use", lambda: works.used(cluster_queue) == "3", SECONDS)
    works.finish("work")
    assert not works.api.notes(works.namespace, "SuspendContested")


@pytest.mark.kinds("TrainJob")
@pytest.mark.misplaces("its pods are admitted by no queue: the queue leaves the JobSet to Trainer")
def test_a_jobset_alone_in_a_queue_is_left_to_trainer_with_an_event(
    works: Works, nodes: NodeFactory
) -> None:
    """The label is in the TrainJob's `spec.labels`, and not its own."""
    nodes(2, "4")
    works.queues.simple(cpu=1)  # no quota for it
    works.create("work", suspended=False, labels={QUEUE: ""}, change=label_its_jobset)

    works.api.wait_for(
        "its JobSet is contested",
        lambda: works.api.notes(works.namespace, "SuspendContested", kind="JobSet"),
        SECONDS,
    )

    def is_running() -> bool:
        return works.api.get(JOBSETS, "work", works.namespace)["spec"]["suspend"] is False

    works.api.wait_for("Trainer has started it again", is_running, SECONDS)
    # It is made, stopped once, and started again. Nothing more is written.
    generation = works.api.get(JOBSETS, "work", works.namespace)["metadata"]["generation"]
    assert generation <= 4
    works.delete("work")
