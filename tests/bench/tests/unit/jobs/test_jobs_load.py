"""The load, and the objects that it comes to."""

from collections import Counter

from extender.resources.quantity import CPU, amount
from tests.bench.jobs import manifests
from tests.bench.queue import manifests as queues
from tests.bench.tests.unit.jobs.makers import QUEUES, load


def test_each_queue_has_quota_for_some_jobs() -> None:
    quotas = load(quota=3).quotas()

    assert [queue.name for queue in quotas.queues()] == list(QUEUES)
    assert {queue.settings.nominal_quota for queue in quotas.queues()} == {600}
    assert load(quota=3, cohorts=2).at_once == 30


def test_all_jobs_are_suspended_and_in_a_queue_in_turn() -> None:
    jobs = list(manifests.jobs(load()))

    assert all(job["spec"]["suspend"] for job in jobs)
    assert len({job["metadata"]["name"] for job in jobs}) == 12
    label = "kueue.x-k8s.io/queue-name"
    by_queue = Counter(job["metadata"]["labels"][label] for job in jobs)
    assert by_queue == dict(zip(QUEUES, (3, 3, 2, 2, 2), strict=True))


def test_jobs_ask_for_what_the_queues_have() -> None:
    (job, *_) = manifests.jobs(load())
    (container,) = job["spec"]["template"]["spec"]["containers"]

    assert container["resources"]["requests"].keys() == {CPU}
    assert job["spec"]["completions"] * amount(CPU, container["resources"]["requests"][CPU]) == 200
    (queue, *_) = (
        each for each in queues.setting(load().quotas()) if each["kind"] == "ClusterQueue"
    )
    (group,) = queue["spec"]["resourceGroups"]
    assert group["coveredResources"] == [CPU]


def test_the_nodes_have_room_for_twice_what_has_quota() -> None:
    large = load(quota=40, cohorts=2)

    nodes = list(manifests.nodes(large))

    cpu = sum(amount(CPU, node["status"]["allocatable"][CPU]) for node in nodes)
    assert cpu >= 2 * large.at_once * large.request
    assert sum(int(node["status"]["allocatable"]["pods"]) for node in nodes) >= 4 * large.at_once
