"""What a snapshot holds, what it does not, and what is explained from it."""

import json
from base64 import b64decode
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from extender.api.core_v1 import LabelSelector
from extender.api.wellknown import GROUP_NATIVE
from extender.explain.explanation import explain
from extender.gang.options import GangOptions
from extender.kube.decode import Decoder
from extender.kube.decode_queues import QueueDecoder
from extender.snapshot.header import SnapshotError, SnapshotHeader, WatchState
from extender.snapshot.memory_part import QueueMemo
from extender.snapshot.reading import Snapshot, read
from extender.snapshot.redaction import redacted
from extender.snapshot.writing import Belief, written
from extender.state.cluster import events as ev
from extender.state.cluster.records import (
    BudgetInfo,
    ConditionInfo,
    Grant,
    JobInfo,
    NominatedRoom,
    PodGroupInfo,
    PodGroupStatusInfo,
    PreemptedRoom,
    VictimInfo,
)
from extender.state.cluster.reservations import Claim
from extender.state.cluster.store import Cluster
from extender.state.cluster.view import ClusterView
from extender.state.queue import events as queue_events
from extender.state.queue.records import OwnerRef
from extender.state.queue.store import Queues
from extender.wiring.explain import ExplainTarget, NothingToExplainError
from extender.wiring.explain_snapshot import group_then, pod_then, workload_then
from tests.makers import (
    cluster_of,
    key,
    node,
    nodes,
    observe,
    planned,
    pod,
    pod_group,
    pods,
    requests,
)
from tests.queue_makers import Admissions, cluster_queue, local_queue, workload
from tests.unit.explain.scene import facts, holding

SECRET = "hunter2"


def file_of(
    cluster: Cluster | None = None, queues: Admissions | Queues | None = None, **header: Any
) -> bytes:
    """Return a snapshot; of what a reconciler remembers where there are queues with cycles."""
    memo = None
    if isinstance(queues, Admissions):
        pending = queues.pending
        memo = QueueMemo(pending.preemptors.states(), [k for _, k in pending.blocking_heads()])
    stored = queues.queues if isinstance(queues, Admissions) else queues
    said = {"process": "extender" if queues is None else "reconciler", "now": 1e6, **header}
    return b"".join(
        written(
            Belief(
                SnapshotHeader(**said),
                GangOptions(aging=7.0),
                (cluster or Cluster()).copied(),
                admission=queues.options if isinstance(queues, Admissions) else None,
                queues=stored.copied() if stored is not None else None,
                waiting=memo,
            )
        )
    )


def everything() -> Cluster:
    """Return a cluster with every kind of object and of reserved room."""
    grant = Grant({"n1": requests(2)}, until=2e6)
    cluster = cluster_of(
        nodes(4, 4, 4, 4, labels={"zone": "east"}),
        pod_group("granted", 2, grant=grant),
        pod_group("late", 2, grant=grant),
        pod_group("claiming", 2, created=1.0),
        pod_group("preempting", 2),
        pod_group("east-gang", 2),
        pod_group("ended-gang", 1),
        pods(2, group="claiming", created=1.0),
        pods(2, group="preempting", priority=7),
        pods(2, group="east-gang"),
        pod("done-0", group="ended-gang", finished=True, phase="Succeeded"),
        pod("web-0", on="n0", priority=3, labels={"app": "web"}),
        pod("leaving", on="n3", terminating=True),
    )
    budget = BudgetInfo("ns", "web", LabelSelector(match_labels={"app": "web"}), 1)
    rooms = {"n2": NominatedRoom(("preempting-0",), requests(2))}
    victims = (VictimInfo("Pod", "leaving", ("leaving",)),)
    claim = Claim(key("claiming"), 0, {"n3": requests(2)}, barred=frozenset(("n3",)))
    observe(
        cluster,
        ev.NativesDecided(ours=True, fixed=True),
        pod_group("native", 1, api_group=GROUP_NATIVE),
        pod("native-0", group="native", native=key("native")),
        ev.BatchJobApplied(JobInfo("job", key("east-gang"), 2, 0, held_by_queue="ns/held")),
        ev.BudgetApplied(budget),
        ev.GrantsEnded([key("late")]),
        planned(east_gang_0="n0", east_gang_1="n0"),
        ev.PodWaiting(pod("east-gang-0", group="east-gang"), "n0"),
        ev.Claimed([replace(claim, fits_since=5.0)]),
        ev.Nominated(key("preempting"), PreemptedRoom(1.0, rooms, victims)),
        ev.PodSeen(pod("first")),
        ev.PodsListing(),
        ev.PodSeen(pod("second")),
        ev.PodRefused(pod("claiming-0", group="claiming", created=1.0), "NoRoom"),
        ev.GroupFailed(key("claiming"), 9.0),
        ev.AllUnseen(is_so=True),
    )
    return cluster


def test_every_kind_of_object_and_of_room_comes_again() -> None:
    cluster = everything()
    watches = {"pods": WatchState(1.5, "nothing heard")}

    data = file_of(cluster, watches=watches, unready="pods: nothing heard")
    found = read(data)

    found.cluster.validate()
    assert file_of(found.cluster, watches=watches, unready="pods: nothing heard") == data
    view, live = found.cluster.view(), cluster.view()
    assert [*view.grants] == [*live.grants] == [key("granted")]
    assert view.claims[key("claiming")].fits_since == 5.0
    assert view.nominated == live.nominated
    assert view.budget("ns", "web") == live.budget("ns", "web")
    assert [*view.finished(key("ended-gang"))] == ["done-0"]
    assert [*view.queue] == [*live.queue]
    assert view.unseen.everywhere
    assert (found.header.watches, found.gang.aging) == (watches, 7.0)


def test_room_that_was_nominated_keeps_the_priority_that_it_had() -> None:
    cluster = everything()
    observe(cluster, pod("preempting-2", group="preempting", priority=1))

    found = read(file_of(cluster)).cluster.view()

    assert found.tally(key("preempting")).priority == 1
    assert found.nominated[key("preempting")].priority == 7


def test_a_pod_that_is_bound_to_a_node_that_went_is_unseen_there() -> None:
    cluster = cluster_of(nodes(4, 4), pod_group("g", 2), pods(2, group="g"), planned(g_0="n1"))
    observe(cluster, ev.BoundAhead({"g-0": "n1"}), ev.NodeDeleted("n1"))

    found = read(file_of(cluster)).cluster

    found.validate()
    assert found.view().unseen.node("g-0") == "n1"
    assert [*found.view().nodes] == ["n0"]


def test_pods_of_one_shape_have_one_shape_again() -> None:
    found = read(file_of(cluster_of(pods(3), pod("other", 2)))).cluster.view()

    shapes = {pod.name: pod.shape for pod in found.pods.values()}
    assert shapes["gang-0"] is shapes["gang-1"] is shapes["gang-2"] is not shapes["other"]


def test_members_keep_their_order_in_the_group_that_they_came_to() -> None:
    cluster = cluster_of(pod("a", group="one"), pod("b", group="two"), pod("a", group="two"))

    found = read(file_of(cluster)).cluster

    assert [*found.view().tally(key("two")).members] == ["b", "a"]
    assert cluster.copied().members == {key("two"): ["b", "a"]}
    observe(cluster, ev.PodDeleted("a"), ev.PodDeleted("b"), pods(2, group="two"))
    assert cluster.copied().members == {}, "an order of its own is all that costs time"


def test_the_known_groups_are_those_of_the_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    pod_group_of = ClusterView.pod_group

    def asking(view: ClusterView, key: str) -> PodGroupInfo | None:
        asked.append(key)
        return pod_group_of(view, key)

    native = pod_group("native", 2, api_group=GROUP_NATIVE)
    both, empty, gone = (pod_group(name) for name in ("both", "empty", "gone"))
    cluster = cluster_of(native, both, empty, gone, pods(2, group="pods"), pods(1, group="both"))
    monkeypatch.setattr(ClusterView, "pod_group", asking)
    found = cluster.view().known_groups()

    assert next(found) == key("pods")
    assert not asked, "the first step is short, however many groups there are"
    cluster.apply(ev.PodGroupDeleted(gone.api_group, gone.key))
    cluster.apply(ev.PodGroupApplied(pod_group("later")))
    cluster.apply(ev.PodDeleted("both-0"))
    assert [*found] == [key("both"), key("empty")]
    assert [*cluster_of(ev.NativesDecided(ours=True), native).view().known_groups()] == [native.key]


NATIVE = pod_group("native", 2, api_group=GROUP_NATIVE)
CONDITION = ConditionInfo("PodGroupScheduled", "False", "Unschedulable")
TRIED = replace(NATIVE, status=PodGroupStatusInfo(conditions=(CONDITION,)))


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param([], id="not known"),
        pytest.param([ev.NativesDecided(ours=True)], id="ours"),
        pytest.param([ev.NativesDecided(ours=False, fixed=True)], id="theirs by the settings"),
        pytest.param([ev.NativesDecided(ours=True, fixed=True), TRIED], id="ours in spite of all"),
        pytest.param([TRIED, ev.NativesDecided(ours=True)], id="ours since a condition"),
        pytest.param(
            [TRIED, ev.PodGroupDeleted(GROUP_NATIVE, NATIVE.key)], id="theirs by one that is gone"
        ),
        pytest.param([replace(NATIVE, min_member=0), ev.NativesDecided(ours=True)], id="no gang"),
    ],
)
def test_native_gangs_are_as_far_as_they_were(facts: list[Any]) -> None:
    members = [pod(name, group="native", native=NATIVE.key) for name in "ab"]
    cluster = cluster_of(nodes(4), NATIVE, members, facts)
    data = file_of(cluster)

    found = read(data).cluster

    found.validate()
    assert file_of(found) == data
    view, live = found.view(), cluster.view()
    assert view.natives_are_ours == live.natives_are_ours
    assert view.has_group_cycles == live.has_group_cycles
    assert view.pod_group(NATIVE.key) == live.pod_group(NATIVE.key)
    assert [*view.queue] == [*live.queue]
    assert [each.group for each in view.pods.values()] == [e.group for e in live.pods.values()]


def test_a_native_gang_is_explained_as_the_extender_does() -> None:
    members = [pod("a", group="native", native=NATIVE.key)]
    cluster = cluster_of(nodes(4), ev.NativesDecided(ours=True, fixed=True), NATIVE, members)

    found = group_then(NATIVE.key, read(file_of(cluster)))

    assert (found.state, found.reason) == ("Waiting", "NotEnoughPods")


def test_a_file_that_says_nothing_of_native_gangs_can_be_read() -> None:
    document = json.loads(file_of(everything()))
    del document["cluster"]["natives"]

    view = read(json.dumps(document).encode()).cluster.view()

    assert view.natives_are_ours is None
    assert key("claiming") in view.pod_groups


def test_preemptors_wait_for_the_same_victims() -> None:
    queues = waiting()
    queues.pending.preemptors.expect("ns/second", ["ns/first"], chosen=True)
    queues.pending.preemptors.chose("ns/second", {"main": 1})
    queues.pending.preemptors.count_for_room("ns/second", 9.0)

    found = read(file_of(queues=queues)).pending().preemptors

    assert found.states() == queues.pending.preemptors.states()
    assert found.victims("ns/second") == {"ns/first"}


def job(name: str) -> dict[str, Any]:
    """Return a Job with secrets wherever a user may put some."""
    container = {
        "name": "c",
        "env": [{"name": "PASSWORD", "value": SECRET}],
        "args": [SECRET],
        "resources": {"requests": {"cpu": "1"}},
    }
    applied = {"kubectl.kubernetes.io/last-applied-configuration": SECRET}
    return {
        "metadata": {
            "name": name,
            "namespace": "ns",
            "uid": name,
            "resourceVersion": "5",
            "annotations": {**applied, "kueue.x-k8s.io/job-min-parallelism": "1"},
        },
        "spec": {
            "template": {
                "metadata": {
                    "annotations": applied,
                    "labels": {"scheduling.x-k8s.io/pod-group": "mine"},
                },
                "spec": {"containers": [container]},
            }
        },
    }


def test_no_secret_of_a_template_or_an_annotation_is_in_the_file() -> None:
    decoder, queues = QueueDecoder(Decoder()), Queues()
    raw = job("train")
    template = raw["spec"]["template"]
    pod_sets = [{"name": "main", "count": 2, "template": template}]
    stored = {"metadata": raw["metadata"], "spec": {"queueName": "cq", "podSets": pod_sets}}
    queues.apply(queue_events.Applied(decoder.workload(json.dumps(stored).encode())))
    read_job = decoder.job(json.dumps(raw).encode(), kind="batch/job")
    queues.apply(queue_events.JobApplied(read_job))
    queues.apply(queue_events.Applied(cluster_queue()))

    data = file_of(queues=queues)

    assert SECRET in repr(queues.view().workloads["ns/train"].pod_sets[0].template)
    assert not [each for each in strings(json.loads(data)) if SECRET.encode() in each]
    found = read(data).queues
    assert found is not None
    [pod_set] = found.view().workloads["ns/train"].pod_sets
    assert json.loads(pod_set.template)["metadata"]["labels"] == template["metadata"]["labels"]
    [known] = found.view().jobs.values()
    assert known.meta.annotations == {"kueue.x-k8s.io/job-min-parallelism": "1"}


def strings(value: Any) -> Iterator[bytes]:
    """Yield all strings of a document, also those that are bytes in base64."""
    if isinstance(value, dict):
        for name, each in value.items():
            yield from (*strings(name), *strings(each))
    elif isinstance(value, list):
        for each in value:
            yield from strings(each)
    elif isinstance(value, str):
        yield value.encode()
        with suppress(ValueError):
            yield b64decode(value)


def waiting() -> Admissions:
    """Return a queue that one workload has, for which a second waits."""
    owner = (OwnerRef("batch/v1", "Job", "second", "job-uid"),)
    queues = Admissions(cluster_queue(cpu=4), local_queue())
    queues.put(holding("first", 3), workload("second", 2, owners=owner))
    queues.run()
    return queues


def test_a_workload_is_explained_as_the_reconciler_does() -> None:
    queues = waiting()

    snapshot = read(file_of(queues=queues))

    live = explain("ns/second", facts(queues))
    by_name = workload_then(ExplainTarget("ns", "second", is_job=False), snapshot)
    by_job = workload_then(ExplainTarget("ns", "second", is_job=True, kind="Job"), snapshot)
    assert by_name == by_job == live
    assert (by_name.reason, by_name.waiting_for[0].resource) == ("WaitingForQuota", "cpu")


def test_what_a_snapshot_lacks_is_said() -> None:
    extender = read(file_of(everything()))
    reconciler = read(file_of(queues=waiting()))

    with pytest.raises(SnapshotError, match="of the extender, which has no queues: take the rec"):
        workload_then(ExplainTarget("ns", "a", is_job=True), extender)
    for call in (
        lambda: workload_then(ExplainTarget("ns", "a", is_job=True), reconciler),
        lambda: workload_then(ExplainTarget("ns", "a", is_job=False), reconciler),
        lambda: group_then("ns/none", extender),
        lambda: pod_then("ns/none", extender),
    ):
        with pytest.raises(NothingToExplainError, match=r"in the snapshot|the snapshot has no"):
            call()


def test_a_job_without_a_workload_is_told_from_one_that_is_not_there() -> None:
    queues = waiting()
    plain = QueueDecoder(Decoder()).job(json.dumps(job("plain")).encode(), kind="batch/job")
    queues.apply(queue_events.JobApplied(plain))

    snapshot = read(file_of(queues=queues))

    with pytest.raises(NothingToExplainError, match=r"has no label kueue\.x-k8s\.io/queue-name"):
        workload_then(ExplainTarget("ns", "plain", is_job=True), snapshot)


def test_a_reconciler_explains_groups_with_plans_of_its_own() -> None:
    cluster = cluster_of(nodes(4), pod_group("g", 2), pods(2, 3, group="g"))

    found = group_then(key("g"), read(file_of(cluster, waiting())))

    assert (found.source, found.state) == ("ApiServer", "Waiting")
    assert found.room is not None
    assert found.room.fit == 1


def change(data: bytes, **fields: object) -> bytes:
    return json.dumps({**json.loads(data), **fields}).encode()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        pytest.param(lambda _: b"", "no whole JSON document", id="nothing"),
        pytest.param(lambda data: data[:-10], "no whole JSON document", id="a part"),
        pytest.param(lambda _: b"[]", "no whole JSON document", id="a list"),
        pytest.param(lambda _: b"{}", "no snapshot of gang-extender", id="another object"),
        pytest.param(
            lambda data: change(data, format=2),
            "it has format 2, and this release reads format 1",
            id="a later format",
        ),
        pytest.param(lambda data: change(data, cluster={}), "cannot be read", id="no lists"),
        pytest.param(
            lambda data: change(data, shared={"shapes": [], "patterns": []}),
            "cannot be read",
            id="no shapes",
        ),
    ],
)
def test_what_is_no_snapshot_is_said(make: Any, words: str) -> None:
    with pytest.raises(SnapshotError, match=words):
        read(make(file_of(everything())))


def names(snapshot: Snapshot) -> set[str]:
    view = snapshot.cluster.view()
    return {*view.nodes, *(pod.name for pod in view.pods.values()), *view.pod_groups}


def test_a_redacted_snapshot_has_no_name_and_the_same_explanations() -> None:
    cluster, queues = everything(), waiting()
    observe(cluster, node("secret-host", labels={"team": "blue-team"}))
    data = file_of(cluster, queues, host="secret-host", watches={"pods": WatchState(1.0)})

    hidden = redacted(data, b"key")

    for word in (b"secret-host", b"blue-team", b"claiming", b"preempting-0", b'"second"'):
        assert word in data
        assert word not in hidden
    found = read(hidden)
    found.cluster.validate()
    assert found.header.redacted
    assert names(found).isdisjoint(names(read(data)))
    queue = found.queues
    assert queue is not None
    [waits] = [w for w in queue.view().workloads.values() if not w.admission]
    asked = ExplainTarget(waits.meta.namespace, waits.meta.name, is_job=False)
    assert workload_then(asked, found).reason == "WaitingForQuota"
    assert redacted(data, b"key") == hidden != redacted(data, b"other")
