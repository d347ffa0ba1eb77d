"""A pod of a Job that waits in a queue is refused, whatever started the Job."""

from extender.state.cluster import events as ev
from extender.state.cluster.records import BATCH_JOB, AdmittedPods, JobInfo
from extender.state.cluster.store import Cluster
from tests.makers import NAMESPACE, node, pod
from tests.unit.server.scene import Scene, said

KEY = f"{NAMESPACE}/job"
QUEUED = JobInfo("j", held_by_queue=KEY)
REFUSAL = f"job {KEY} has a queue and is not admitted"


async def _refusal(scene: Scene, name: str = "p") -> str:
    answer = scene.filter(name, ["n"])
    assert answer["Error"] == ""
    return said(answer)


async def test_pods_of_a_job_that_is_not_admitted_are_refused(cluster: Cluster) -> None:
    scene = Scene(cluster, node("n"), pod("p", owners=(KEY,), controller="j"))
    cluster.apply(ev.ObjectApplied(QUEUED))

    assert await _refusal(scene) == REFUSAL


async def test_pods_of_an_admitted_job_and_of_others_are_let_through(cluster: Cluster) -> None:
    admitted, other = (
        pod("a", owners=(KEY,), controller="j"),
        pod("o", owners=(KEY,), controller="of-another-kind"),
    )
    scene = Scene(cluster, node("n"), admitted, other)
    cluster.apply(ev.ObjectApplied(QUEUED))
    cluster.apply(ev.ObjectApplied(AdmittedPods(f"{NAMESPACE}/w", ("j",), 1)))

    assert await _refusal(scene, "a") == ""
    assert await _refusal(scene, "o") == ""


async def test_more_pods_than_were_admitted_are_refused_with_the_number(cluster: Cluster) -> None:
    there = [
        pod(name, owners=(KEY,), controller="j", on=on) for name, on in (("a", "n"), ("p", None))
    ]
    scene = Scene(cluster, node("n"), *there)
    cluster.apply(ev.ObjectApplied(QUEUED))
    cluster.apply(ev.ObjectApplied(AdmittedPods(f"{NAMESPACE}/w", ("j",), 1)))

    assert await _refusal(scene) == f"{REFUSAL} for more than 1 pod(s)"
    assert "not admitted" in await scene.bind(there[1], "n")


async def test_a_job_that_leaves_its_queue_frees_its_pods_and_has_them_woken(
    cluster: Cluster,
) -> None:
    scene = Scene(cluster, node("n"), pod("p", owners=(KEY,), controller="j"))
    cluster.apply(ev.ObjectApplied(QUEUED))
    assert await _refusal(scene)
    assert not cluster.apply(ev.ObjectApplied(JobInfo("j", begun=3, held_by_queue=KEY))).room

    assert cluster.apply(ev.ObjectApplied(JobInfo("j"))).room
    assert await _refusal(scene) == ""


async def test_what_the_template_says_is_no_admission(cluster: Cluster) -> None:
    forged = pod("p", owners=(KEY,), controller="j", pod_set="main", workload=f"{NAMESPACE}/w")
    scene = Scene(cluster, node("n"), forged)
    cluster.apply(ev.ObjectApplied(QUEUED))

    assert await _refusal(scene) == REFUSAL


async def test_a_job_that_is_gone_holds_no_pod_back(cluster: Cluster) -> None:
    scene = Scene(cluster, node("n"), pod("p", owners=(KEY,), controller="j"))
    cluster.apply(ev.ObjectApplied(QUEUED))

    assert cluster.apply(ev.ObjectsListed(JobInfo, (), BATCH_JOB)).room
    assert await _refusal(scene) == ""
