"""Services: their workloads, their pods, and what is decided about both."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from extender.api.wellknown import (
    ADMISSION_GATE,
    MANAGED_LABEL,
    QUEUE_LABEL,
    QUEUE_POD_GROUP_LABEL,
    ROLE_HASH,
    SUSPENDING_PARENT,
    WORKLOAD_ANNOTATION,
)
from extender.jobs import actions as act
from extender.jobs.actions import Ancestor, Context
from extender.jobs.decide import decide
from extender.jobs.fields import Object
from extender.jobs.kinds.plain_pods import WORKER_INDEX, PlainPods, pod_of
from extender.jobs.kinds.services import (
    LeaderWorkerGroup,
    StatefulSet,
    group_of,
    groups_of,
    prepare,
)
from extender.jobs.templates import Placement
from tests.harness.kinds import template
from tests.unit.jobs.scene import CONTEXT, workload

TOLD = {SUSPENDING_PARENT: "statefulset"}


def pod_template(cpu: str = "1", **annotations: str) -> Object:
    return {**template(cpu), "metadata": {"annotations": {**TOLD, **annotations}}}


def made(kind: str, spec: Object, **more: Any) -> Object:
    versions = {"StatefulSet": "apps/v1", "LeaderWorkerSet": "leaderworkerset.x-k8s.io/v1"}
    meta = {"name": "web", "namespace": "ns", "uid": "u", "labels": {QUEUE_LABEL: "q"}}
    return {"apiVersion": versions[kind], "kind": kind, "metadata": meta, "spec": spec, **more}


def stateful_set(replicas: int = 3, **spec: Any) -> StatefulSet:
    return StatefulSet(
        made("StatefulSet", {"replicas": replicas, "template": pod_template(), **spec})
    )


def leader_worker_set(replicas: int = 2, size: int = 3, **more: Any) -> Object:
    parts: Object = {"size": size, "workerTemplate": pod_template()}
    status = more.pop("status", {})
    if "leader" in more:
        parts["leaderTemplate"] = more.pop("leader")
    spec = {"replicas": replicas, "leaderWorkerTemplate": parts, **more}
    return made("LeaderWorkerSet", spec, status=status)


def service_pod(name: str, *, held: bool = True, role: str = "", index: str = "") -> Object:
    """Return a pod of a service; one that was let go has its role."""
    annotations = {**TOLD, **({} if held else {ROLE_HASH: role, WORKLOAD_ANNOTATION: "sts-web"})}
    own = {QUEUE_LABEL: "q", MANAGED_LABEL: "true", QUEUE_POD_GROUP_LABEL: "sts-web"}
    own |= {WORKER_INDEX: index} if index else {}
    by = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "controller": True}
    meta = {"name": name, "uid": name, "labels": own, "annotations": annotations}
    gates = [{"name": ADMISSION_GATE}] if held else []
    spec = {**template()["spec"], "schedulingGates": gates}
    return {"metadata": {**meta, "namespace": "ns", "ownerReferences": [by]}, "spec": spec}


def pods(*found: Object) -> PlainPods:
    return PlainPods([pod_of(each) for each in found])


@pytest.mark.parametrize(
    ("source", "want"),
    [
        (leader_worker_set(), [("main", 3)]),
        (leader_worker_set(leader=pod_template("2")), [("leader", 1), ("worker", 2)]),
        (leader_worker_set(startupPolicy="LeaderReady"), [("leader", 1), ("worker", 2)]),
    ],
)
def test_each_replica_of_a_leader_worker_set_is_a_service(
    source: Object, want: Sequence[tuple[str, int]]
) -> None:
    groups = groups_of(source)

    assert [each.workload_name() for each in groups] == ["lws-web-0", "lws-web-1"]
    assert [(each.name, each.count) for each in groups[1].slots()] == want


def test_a_replica_that_is_there_stays_a_service_beyond_the_number_that_is_asked_for() -> None:
    assert len(groups_of(leader_worker_set(1, status={"replicas": 3}))) == 3
    many = groups_of(leader_worker_set(10**9))
    assert len(many) == 200
    assert "use 200 at most" in many[0].problem()


@pytest.mark.parametrize(
    ("service", "late"),
    [
        (stateful_set(), ["main"]),
        (stateful_set(podManagementPolicy="Parallel"), []),
        (LeaderWorkerGroup(leader_worker_set()), []),
        (LeaderWorkerGroup(leader_worker_set(startupPolicy="LeaderReady")), ["worker"]),
    ],
)
def test_pods_that_are_made_when_others_run_are_no_part_of_a_gang(
    service: StatefulSet, late: list[str]
) -> None:
    assert [*service.late_pod_sets()] == late


def test_a_workload_is_made_before_there_are_pods() -> None:
    create = decide(stateful_set(), [], Context())

    assert isinstance(create[0], act.CreateWorkload)
    stored: Any = create[0].object
    assert stored["metadata"]["name"] == "sts-web"
    assert [(p["name"], p["count"]) for p in stored["spec"]["podSets"]] == [("main", 3)]


def test_a_taken_name_a_template_that_was_not_prepared_and_no_replicas() -> None:
    taken, again = decide(stateful_set(), [], Context(is_taken=lambda name: name == "sts-web"))
    assert again == act.AwaitPods()  # a workload of that name that goes is no change of the job
    (bare,) = decide(stateful_set(template=template()), [], Context())

    assert isinstance(taken, act.ReportRefusal)
    assert taken.reason == "WorkloadOwnedByAnother"
    assert isinstance(bare, act.ReportRefusal)
    assert "spec.template lacks the annotation" in bare.message
    assert decide(stateful_set(0), [], Context()) == ()


@pytest.mark.parametrize(
    ("owner", "name", "labels", "word", "want"),
    [
        ("web", "web-0", {}, "statefulset", "sts-web"),
        ("web", "web-0", {WORKER_INDEX: "0"}, "leaderworkerset", "lws-web-0"),
        ("web-0", "web-0-1", {WORKER_INDEX: "1"}, "leaderworkerset", "lws-web-0"),
        ("web-7d4b", "web-7d4b-x", {}, "deployment", ""),
        ("", "web-0", {}, "statefulset", ""),
    ],
)
def test_a_pod_names_the_workload_of_its_service(
    owner: str, name: str, labels: Mapping[str, str], word: str, want: str
) -> None:
    by = [{"name": owner, "controller": True}] if owner else []
    meta = {"name": name, "labels": labels, "annotations": {SUSPENDING_PARENT: word}}

    assert group_of({"metadata": {**meta, "ownerReferences": by}}) == want


def test_templates_get_what_their_pods_need() -> None:
    source = leader_worker_set(leader=template())
    del source["spec"]["leaderWorkerTemplate"]["workerTemplate"]["metadata"]  # type: ignore[index]
    source["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = "high"  # type: ignore[index]

    prepare(source, "leaderworkerset.x-k8s.io", "LeaderWorkerSet")

    parts: Any = source["spec"]
    for each in ("leaderTemplate", "workerTemplate"):
        assert parts["leaderWorkerTemplate"][each]["metadata"] == {
            "labels": {
                QUEUE_LABEL: "q",
                "kueue.x-k8s.io/priority-class": "high",
                MANAGED_LABEL: "true",
            },
            "annotations": {SUSPENDING_PARENT: "leaderworkerset"},
        }


def test_pods_are_let_go_up_to_the_number_that_is_admitted() -> None:
    found = pods(
        service_pod("web-0", held=False, role="main"), service_pod("web-1"), service_pod("web-2")
    )

    steps = found.start_steps([Placement("main", 2)])

    assert [each.member for each in steps] == ["web-1"]


@pytest.mark.parametrize(("index", "role"), [("0", "leader"), ("2", "worker")])
def test_a_pod_of_a_leader_worker_set_is_of_the_pod_set_of_its_index(index: str, role: str) -> None:
    found = pods(service_pod("web-0", index=index))

    for name in ("leader", "worker", "main"):
        steps: Any = found.start_steps([Placement(name, 3)])
        assert len(steps) == (name in (role, "main"))
        if steps:
            assert steps[0].patch["metadata"]["annotations"][ROLE_HASH] == name


def test_pods_without_an_admitted_service_are_deleted_and_those_that_wait_are_left() -> None:
    runs = pods(service_pod("web-0", held=False, role="main"), service_pod("web-1"))
    evicted = Ancestor("StatefulSet web", admitted=False)

    for above in (None, evicted):
        (stopped,) = decide(runs, [], Context(ancestor=above))
        assert isinstance(stopped, act.StopJob)
        assert all(step.delete for step in stopped.steps)
        assert decide(pods(service_pod("web-1")), [], Context(ancestor=above)) == ()


def test_a_service_that_is_not_known_yet_starts_nothing_and_stops_nothing() -> None:
    held = workload(stateful_set(), admitted=True)
    above = Ancestor("StatefulSet web", admitted=True, workload=held)
    found = pods(service_pod("web-0", held=False, role="main"), service_pod("web-1"))

    assert decide(found, [], replace(CONTEXT, ancestor=above)) == ()

    waits, *_ = decide(found, [], replace(CONTEXT, ancestor=replace(above, late=())))[-1:]
    assert waits == act.AwaitPods()


def test_a_larger_pod_waits_and_is_told() -> None:
    held = workload(stateful_set(), admitted=True)
    above = Ancestor(
        *("StatefulSet web", True), workload=held, late=(), fitting=["web-1"], larger=["web-2"]
    )
    found = pods(service_pod("web-1"), service_pod("web-2"))

    start, told = decide(found, [], replace(CONTEXT, ancestor=above))

    assert isinstance(start, act.StartJob)
    assert [step.member for step in start.steps] == ["web-1"]
    assert isinstance(told, act.ReportRefusal)
    assert told.reason == "EditIgnored"


def test_a_pod_that_fits_in_no_flavor_any_more_ends_nothing_while_others_run() -> None:
    """The others would run without quota."""
    asked = workload(stateful_set(), admitted=True)
    above = Ancestor("StatefulSet web", True, workload=asked, late=(), fitting=["web-1"])
    odd: Any = service_pod("web-1")
    odd["spec"]["nodeSelector"] = {"tier": "other"}
    alone, beside = pods(odd), pods(odd, service_pod("web-0", held=False, role="main"))

    found = [decide(each, [], replace(CONTEXT, ancestor=above)) for each in (alone, beside)]

    assert isinstance(found[0][0], act.FinishWorkload)
    (told,) = found[1]
    assert isinstance(told, act.ReportRefusal)
    assert "nodeSelector" in told.message
