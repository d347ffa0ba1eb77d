"""The manifests of the tutorial do what its lessons say."""

from collections.abc import Sequence
from typing import Any

import pytest
import yaml

from tests.cluster.conftest import NodeFactory
from tests.cluster.queues import JOBS, condition
from tests.documents import ROOT
from tests.harness.client import Api, Object

TUTORIAL = ROOT / "docs/tutorial"
CLUSTER_WIDE = ("ResourceFlavor", "ClusterQueue")
NODES, CPU = 4, "4"
SECONDS = 120
GROUPS = "scheduling.x-k8s.io/v1alpha1/podgroups"
WORKLOADS = "kueue.x-k8s.io/v1beta2/workloads"


def lesson(name: str, namespace: str) -> list[Object]:
    """Return the objects of a lesson, in a namespace."""
    found: list[Any] = [each for each in yaml.safe_load_all((TUTORIAL / name).read_text()) if each]
    for each in found:
        if each["kind"] not in CLUSTER_WIDE:
            each["metadata"]["namespace"] = namespace
    return found


def placed(api: Api, namespace: str) -> dict[str, int]:
    """Return how many pods of each job have a node, by the first part of their names."""
    counts: dict[str, int] = {}
    for pod in api.list("pods", namespace):
        name = pod["metadata"]["name"].split("-")[0]
        counts[name] = counts.get(name, 0) + ("nodeName" in pod["spec"])
    return counts


def reason(api: Api, namespace: str, job: str) -> tuple[str, str]:
    """Return the reason and the message of a workload's QuotaReserved."""
    for each in api.list(WORKLOADS, namespace):
        if each["metadata"]["name"].startswith(f"job-{job}-"):
            found = condition(each, "QuotaReserved")
            return found.get("reason", ""), found.get("message", "")
    return "", ""


@pytest.mark.usefixtures("gang")
def test_two_jobs_block_each_other(api: Api, namespace: str, nodes: NodeFactory) -> None:
    nodes(NODES, CPU)
    for each in lesson("pods.yaml", namespace):
        api.create(each)
    want = {"blue": 2, "green": 2}
    api.wait_for("both are half placed", lambda: placed(api, namespace) == want, SECONDS)


@pytest.mark.usefixtures("gang", "reconciler")
def test_one_gang_runs_and_then_the_other(api: Api, namespace: str, nodes: NodeFactory) -> None:
    nodes(NODES, CPU)
    for each in lesson("gangs.yaml", namespace):
        api.create(each)
    whole: Sequence[dict[str, int]] = ({"blue": 3, "green": 0}, {"blue": 0, "green": 3})
    api.wait_for("one is whole", lambda: placed(api, namespace) in whole, SECONDS)

    first, second = sorted(placed(api, namespace).items(), key=lambda each: -each[1])

    def waits() -> bool:
        said = api.get(GROUPS, second[0], namespace).get("status", {}).get("conditions", ())
        return any("1 of the 3 pods that it still needs fit" in each["message"] for each in said)

    api.wait_for("its PodGroup says what is short", waits, SECONDS)
    for pod in api.list("pods", namespace):
        if pod["metadata"]["name"].startswith(first[0]):
            api.delete("pods", pod["metadata"]["name"], namespace)
    want = {second[0]: 3}
    api.wait_for("the other is whole", lambda: placed(api, namespace) == want, SECONDS)


@pytest.mark.usefixtures("gang", "reconciler")
def test_a_job_with_quota_waits_for_room(api: Api, namespace: str, nodes: NodeFactory) -> None:
    nodes(NODES, CPU)
    shown = lesson("room.yaml", namespace)
    for each in shown:
        if each["kind"] == "Job":
            each["spec"]["template"]["metadata"]["annotations"]["harness/run-for"] = "5s"
    made = [each for each in shown if each["kind"] in CLUSTER_WIDE]
    api.apply(shown)
    try:
        short = ("WaitingForRoom", "quota yes; room for 1 of 3: 6 cpu short on 4 nodes")
        jobs = ("left", "right")

        def lacks_room() -> bool:
            return short in {reason(api, namespace, job) for job in jobs}

        def are_done() -> bool:
            return all(condition(api.get(JOBS, job, namespace), "Complete") for job in jobs)

        api.wait_for("one lacks room", lacks_room, SECONDS)
        api.wait_for("both end, one after the other", are_done, SECONDS)
    finally:
        for each in reversed(made):
            api.delete(f"{each['apiVersion']}/{each['kind'].lower()}s", each["metadata"]["name"])
