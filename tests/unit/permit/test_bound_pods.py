"""What filter answers for a pod that is bound, or whose Binding is being written."""

from dataclasses import replace
from typing import Any

import pytest

from extender.api.reasons import Reason
from extender.gang.verdicts import FilterVerdict, OneNode, Refuse
from extender.state.cluster import events as ev
from extender.state.cluster.records import JobInfo, PodInfo
from extender.state.cluster.store import Cluster
from tests.makers import key, nodes, observe, pod, pod_group, pods
from tests.unit.server.scene import Scene

pytestmark = pytest.mark.looptime

A, B, C = pods(3)
PLAIN = pod("plain")
UNADMITTED = pod("unadmitted", controller="job")
SENT = ("n0", "n1", "n2")
FACTS = [*nodes(8, 8, 8), A, B, C, PLAIN, pod_group()]
TEXT = "this pod has a node already, and it is not among those to choose from"


def ask(scene: Scene, subject: PodInfo, sent: tuple[str, ...] = SENT) -> FilterVerdict:
    known = scene.view.pods.get(subject.uid, subject)
    return scene.decide(known, sent)


def bound(subject: PodInfo) -> Any:
    return replace(subject, node="n1")


def binding(subject: PodInfo) -> Any:
    return ev.PodBinding(subject, "n1")


@pytest.mark.parametrize("subject", [A, PLAIN], ids=lambda subject: subject.name)
@pytest.mark.parametrize("made", [bound, binding])
async def test_its_node_is_the_answer_where_it_was_sent(
    cluster: Cluster, subject: PodInfo, made: Any
) -> None:
    scene = Scene(cluster, FACTS, made(subject))

    assert ask(scene, subject) == OneNode("n1")
    assert scene.view.planned == []


@pytest.mark.parametrize(("subject", "prefix"), [(A, "gang ns/gang: "), (PLAIN, "")])
@pytest.mark.parametrize("made", [bound, binding])
async def test_it_is_refused_where_its_node_was_not_sent(
    cluster: Cluster, subject: PodInfo, prefix: str, made: Any
) -> None:
    scene = Scene(cluster, FACTS, made(subject))

    assert ask(scene, subject, ("n0", "n2")) == Refuse(Reason.ALREADY_BOUND, prefix + TEXT)


async def test_its_node_is_the_answer_though_the_gang_has_its_quorum(cluster: Cluster) -> None:
    scene = Scene(cluster, FACTS, *map(binding, (A, B, C)))

    assert [ask(scene, member) for member in (A, B, C)] == [OneNode("n1")] * 3


async def test_its_node_is_the_answer_though_its_label_or_its_queue_say_otherwise(
    cluster: Cluster,
) -> None:
    job = ev.ObjectApplied(JobInfo("job", None, held_by_queue="ns/job"))
    scene = Scene(cluster, FACTS, job, UNADMITTED, *map(binding, (A, UNADMITTED)))

    assert scene.pod_filter.decide(A, key("other"), SENT) == OneNode("n1")
    assert ask(scene, UNADMITTED) == OneNode("n1")


async def test_a_pod_whose_binding_fails_is_woken_with_its_gang(cluster: Cluster) -> None:
    """Only one that is bound needs nothing that wakes it."""
    scene = Scene(cluster, FACTS, binding(A), bound(B))
    for member in (A, B):
        ask(scene, member, ("n0", "n2"))

    assert list(scene.view.refused) == [A.uid]

    observe(cluster, bound(A))
    assert not scene.view.refused
