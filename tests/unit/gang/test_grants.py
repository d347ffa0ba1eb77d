"""Room that a queue has found for a group is kept for it until the group has its plan."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from extender.api.wellknown import GANG_GATE, GROUP_X, POD_GROUP_GROUPS
from extender.gang.filter import beside_plans
from extender.gang.fit import Fit, Offer, candidates
from extender.gang.score import score
from extender.gang.verdicts import AnyNode, GangOptions, OneOf, Refuse
from extender.kube.decode import Decoder
from extender.kube.stored import grant_as_json, read_grant
from extender.permit.background import NodeClaims
from extender.state.cluster import events as ev
from extender.state.cluster.records import Grant, PodGroupInfo, PodGroupStatusInfo
from extender.state.cluster.store import Cluster
from extender.steps import at_once
from tests.at_once import make_plan
from tests.makers import (
    ManualClock,
    cluster_of,
    deleted,
    key,
    nodes,
    observe,
    planned,
    pod,
    pod_group,
    pods,
    requests,
)

UNTIL = 1060.0


def granted(name: str = "gang", until: float = UNTIL, **rooms: Any) -> PodGroupInfo:
    """Return a PodGroup of two with so much CPU of nodes."""
    found = {node: requests(cpu) for node, cpu in rooms.items()}
    return pod_group(name, 2, grant=Grant(found, until))


def planned_for(cluster: Cluster, name: str) -> Mapping[str, str]:
    """Return where the members of a group would go, by name; nothing where they find no room."""
    view = cluster.view()
    first, *_ = candidates(None, key(name), view=view)
    group = view.pod_group(key(name))
    assert group is not None
    found = make_plan(first, group, view=view)
    return found.placements if isinstance(found, Fit) else {}


def test_others_find_no_room_there_and_the_group_does() -> None:
    cluster = cluster_of(nodes(4, 4), granted(n0=4, n1=4), pod_group("other", 2))
    observe(cluster, pods(2, 4, group="other"), pods(2, 4))
    assert planned_for(cluster, "other") == {}
    assert planned_for(cluster, "gang") == {"gang-0": "n0", "gang-1": "n1"}


def test_the_group_goes_there_first() -> None:
    cluster = cluster_of(nodes(4, 4, 4, 4), granted(n2=4, n3=4), pods(2, 4))
    assert planned_for(cluster, "gang") == {"gang-0": "n2", "gang-1": "n3"}


def test_no_more_of_them_go_there_than_it_was_found_for() -> None:
    cluster = cluster_of(nodes(8, 8), granted(n0=1, n1=4), pods(3, 1))
    found = planned_for(cluster, "gang")
    assert sorted(found.values()) == ["n0", "n1"]
    both = cluster_of(nodes(8, 8), granted(n0=1, n1=1), pod_group("other", 2), pods(2, 1))
    assert sorted(planned_for(both, "gang").values()) == ["n0", "n1"]


def test_the_group_goes_elsewhere_if_need_be() -> None:
    cluster = cluster_of(nodes(4, 4), granted(n0=4, gone=4), pods(2, 4))
    assert set(planned_for(cluster, "gang").values()) == {"n0", "n1"}


def test_what_is_left_beside_it_is_free() -> None:
    cluster = cluster_of(nodes(4, 4), granted(n0=3, n1=3), pod_group("other", 2))
    observe(cluster, pods(2, 1, group="other"))
    assert set(planned_for(cluster, "other").values()) == {"n0", "n1"}


def test_pods_of_no_gang_are_kept_away() -> None:
    cluster = cluster_of(nodes(4, 4), granted(n0=4))
    alone = pod("alone", 1)
    view = cluster.view()
    assert beside_plans(alone, ["n0", "n1"], view=view) == OneOf(("n1",))
    assert isinstance(beside_plans(alone, ["n0"], view=view), Refuse)
    assert score(alone, ["n0", "n1"], view=view) == {"n0": 0, "n1": 10}


def test_the_cluster_s_own_pods_are_not() -> None:
    cluster = cluster_of(nodes(4), granted(n0=4))
    critical = pod("critical", 1, priority=2_000_001_000)
    assert beside_plans(critical, ["n0"], view=cluster.view()) == AnyNode()


def test_nodes_that_were_sent_go_before_others_that_were_granted() -> None:
    cluster = cluster_of(nodes(*[4] * 6), granted(n5=4, n4=4), pods(2, 4))
    group, view = granted(n5=4, n4=4), cluster.view()
    first, *_ = candidates(None, group.key, view=view)
    found = make_plan(first, group, view=view, offer=Offer(["n0", "n4"]))
    assert isinstance(found, Fit)
    assert found.placements == {"gang-0": "n4", "gang-1": "n5"}


def test_pods_that_are_done_are_not_waited_for() -> None:
    cluster = cluster_of(nodes(4), pods(2, 1), pod_group("gang", 3, done=1))
    assert planned_for(cluster, "gang").keys() == {"gang-0", "gang-1"}
    assert cluster_of(pod_group("gang", 3, done=9)).view().quorum(pod_group(done=9)) == 1


def ends_with_a_plan(cluster: Cluster) -> None:
    observe(cluster, planned(gang_0="n0", gang_1="n0"))


def ends_with_a_bound_member(cluster: Cluster) -> None:
    observe(cluster, pod("gang-0", 1, group="gang", on="n0"))


def ends_with_its_pod_group(cluster: Cluster) -> None:
    observe(cluster, deleted((granted().api_group, key("gang")), PodGroupInfo))


def ends_when_the_pod_group_says_so(cluster: Cluster) -> None:
    observe(cluster, pod_group("gang", 2))


def ends_in_time(cluster: Cluster) -> None:
    clock = ManualClock(UNTIL - 1)
    aging = NodeClaims(cluster, options=GangOptions(), clock=clock)
    at_once(aging.looking())
    assert cluster.view().grants
    clock.now += 1
    at_once(aging.looking())


@pytest.mark.parametrize(
    "end",
    [
        ends_with_a_plan,
        ends_with_a_bound_member,
        ends_with_its_pod_group,
        ends_when_the_pod_group_says_so,
        ends_in_time,
    ],
)
def test_it_ends(end: Any) -> None:
    cluster = cluster_of(nodes(4, 4), pods(2, 1, gates=(GANG_GATE,)), granted(n0=2, n1=2))
    alone = pod("alone", 4)
    view = cluster.view()
    assert isinstance(beside_plans(alone, ["n1"], view=view), Refuse)
    version = view.capacity_version
    end(cluster)
    assert beside_plans(alone, ["n1"], view=view) == AnyNode()
    assert not view.grants
    assert view.capacity_version > version


def test_one_that_has_begun_is_granted_nothing() -> None:
    cluster = cluster_of(nodes(4, 4), pod("gang-0", 1, group="gang", on="n0"), granted(n1=4))
    assert not cluster.view().grants


def test_what_has_ended_does_not_come_back_with_a_new_status() -> None:
    group = granted(n0=4)
    cluster = cluster_of(nodes(4), group, ev.GrantsEnded([key("gang")]))
    observe(cluster, ev.ObjectsListed(PodGroupInfo, [group], group.api_group), group)
    assert not cluster.view().grants


@pytest.mark.parametrize("phase", ["Failed", "Finished"])
def test_a_new_one_counts_whatever_the_phase_still_says(phase: str) -> None:
    """A job that was evicted may be admitted again before the phase of its group moves on."""
    used, ended = granted(n0=4), PodGroupStatusInfo(phase=phase)
    cluster = cluster_of(nodes(4, 4), replace(used, status=ended))
    assert not cluster.view().grants, "its pods may be gone"
    again = replace(granted(until=UNTIL + 1, n1=4), status=ended)
    observe(cluster, again)
    assert cluster.view().grants.keys() == {key("gang")}
    observe(cluster, replace(again, status=PodGroupStatusInfo(phase="PreScheduling")))
    assert cluster.view().grants.keys() == {key("gang")}


def test_one_without_end_is_not_believed() -> None:
    cluster = cluster_of(nodes(4), granted(until=1e12, n0=4))
    at_once(NodeClaims(cluster, options=GangOptions(), clock=ManualClock()).looking())
    assert not cluster.view().grants


def test_as_it_is_stored() -> None:
    rooms = {"n0": {"cpu": 1500, "memory": 1 << 30, "pods": 2}, "n1": {"example.com/gpu": 8}}
    grant = Grant(rooms, 1700000000.0)
    stored = grant_as_json(grant)
    assert stored is not None
    assert stored["nodes"]["n0"]["cpu"] == "1500m"
    assert stored["until"] == "2023-11-14T22:13:20Z"
    assert read_grant(json.dumps(stored).encode()) == grant


def test_one_that_is_too_large_is_neither_stored_nor_read() -> None:
    many = {f"node-{n}": {"cpu": 1000} for n in range(30_000)}
    assert grant_as_json(Grant(many, 1.0)) is None
    stored = {"until": "2023-11-14T22:13:20Z", "nodes": {node: {"cpu": "1"} for node in many}}
    assert read_grant(json.dumps(stored).encode()) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        '"soon"',
        "{}",
        '{"until":"never","nodes":{}}',
        '{"until":"2023-11-14T22:13:20Z","nodes":{"n":{"cpu":"much"}}}',
        '{"until":"2023-11-14T22:13:20Z","nodes":["n"]}',
        '{"until":"2023-11-14T22:13:20Z","nodes":{"n":{"cpu":"-1"}}}',
        '{"until":"2023-11-14T22:13:20Z","nodes":{"n":{"cpu":"99E"}}}',
        '{"until":"0001-01-01T00:00:00","nodes":{}}',
        '{"until":"9999-12-31T23:59:59","nodes":{"n":{"cpu":"9E99999"}}}',
        "[" * 10_000,
    ],
)
def test_what_cannot_be_believed_keeps_nothing(text: str) -> None:
    assert read_grant(text.encode()) is None


@pytest.mark.parametrize(
    "rooms",
    [{"n0": {"cpu": 4001}}, {"n0": {"cpu": 1000, "example.com/gpu": 1}}, {"unknown": {"cpu": 1}}],
    ids=["more than the node has", "what the node has not", "of a node that is unknown"],
)
def test_what_was_never_found_on_a_node_keeps_nothing_there(
    rooms: Mapping[str, Mapping[str, int]],
) -> None:
    found = {node: dict(amounts) for node, amounts in rooms.items()}
    cluster = cluster_of(nodes(4), pod_group("gang", 2, grant=Grant(found, UNTIL)))
    alone = pod("alone", 4)
    assert beside_plans(alone, ["n0"], view=cluster.view()) == AnyNode()


@pytest.mark.parametrize("api_group", POD_GROUP_GROUPS)
def test_an_annotation_grants_nothing_and_the_status_does(api_group: str) -> None:
    room = {"until": "2023-11-14T22:13:20Z", "nodes": {"n0": {"cpu": "4"}}}
    meta = {"name": "gang", "namespace": "ns"}
    said = {"scheduling.x-k8s.io/granted-room": json.dumps(room)}
    written = {"metadata": {**meta, "annotations": said}, "spec": {"minMember": 2}}
    decode = Decoder().pod_group
    assert decode(json.dumps(written).encode(), api_group=api_group).grant is None
    stored = {"metadata": meta, "spec": {"minMember": 2}, "status": {"grantedRoom": room}}
    found = decode(json.dumps(stored).encode(), api_group=api_group)
    assert found.grant == Grant({"n0": {"cpu": 4000}}, 1700000000.0)


def test_a_status_that_cannot_be_read_does_not_hide_its_pod_group() -> None:
    raw = {"metadata": {"name": "gang"}, "spec": {"minMember": 2}, "status": {"grantedRoom": [7]}}
    found = Decoder().pod_group(json.dumps(raw).encode(), api_group=GROUP_X)
    assert (found.min_member, found.grant) == (2, None)
