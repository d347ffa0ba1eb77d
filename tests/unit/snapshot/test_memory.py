"""What a process remembers, as plain values."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from extender.state.cluster import events as ev
from extender.state.cluster.records import (
    NominatedRoom,
    PodGroupInfo,
    PodInfo,
    PreemptedRoom,
    VictimInfo,
)
from extender.state.cluster.reservations import Claim
from extender.state.cluster.view import ClusterView
from extender.wiring.memory import cluster_memory, queue_memory, queue_objects
from tests.makers import cluster_of, key, nodes, observe, planned, pod, pod_group, pods, requests
from tests.queue_makers import Admissions, cluster_queue, local_queue, workload
from tests.unit.explain.scene import holding


def as_json(found: dict[str, Any]) -> dict[str, Any]:
    """Return sections as they are after they were written."""
    lists = {name: [*part] if isinstance(part, Iterator) else part for name, part in found.items()}
    written: dict[str, Any] = json.loads(msgspec.json.encode(lists))
    return written


def test_room_refusals_and_unseen_pods_are_in_it() -> None:
    cluster = cluster_of(
        nodes(4, 4, 4, 4),
        pod_group("claiming", 2),
        pod_group("preempting", 2),
        pod_group("east", 2),
        pods(2, group="claiming"),
        pods(2, group="preempting", priority=7),
        pods(2, group="east"),
        pod("ahead"),
        pod("leaving", on="n3", terminating=True),
    )
    rooms = {"n2": NominatedRoom(("preempting-0",), requests(2))}
    victims = (VictimInfo("Pod", "leaving", ("leaving",)),)
    claim = Claim(key("claiming"), 0, {"n3": requests(2)}, barred=frozenset(("n3",)))
    observe(
        cluster,
        planned(east_0="n0", east_1="n0", ahead="n1"),
        ev.PodWaiting(pod("east-0", group="east"), "n0"),
        ev.BoundAhead({"ahead": "n1"}),
        ev.Claimed([replace(claim, fits_since=5.0)]),
        ev.Nominated(key("preempting"), PreemptedRoom(1.0, rooms, victims)),
        ev.PodRefused(pod("claiming-0", group="claiming"), "NoRoom"),
    )

    found = as_json(cluster_memory(cluster.view()))

    kinds = {each["pod"]: (each["kind"], each["node"]) for each in found["pods"]}
    assert kinds == {
        key("ahead"): ("binding", "n1"),
        key("east-0"): ("waiting", "n0"),
        key("east-1"): ("planned", "n0"),
    }
    room = {each["kind"]: each for each in found["room"]}
    assert room["claimed"]["barred"] == ["n3"]
    assert room["claimed"]["fitsSince"] == "1970-01-01T00:00:05+00:00"
    assert room["nominated"]["victims"] == ["leaving"]
    assert (room["nominated"]["priority"], room["nominated"]["nodes"]) == (7, {"n2": requests(2)})
    assert found["refused"] == [{"pod": key("claiming-0"), "reason": "NoRoom"}]
    assert found["unseen"] == [{"pod": key("ahead"), "node": "n1"}]
    assert found["allUnseen"] is False


def test_workloads_that_wait_are_in_it() -> None:
    queues = Admissions(cluster_queue(cpu=4), local_queue())
    queues.put(holding("first", 3), workload("second", 2))
    queues.run()
    queues.pending.preemptors.expect("ns/second", ["ns/first"], chosen=True)

    found = as_json(
        queue_memory(
            queues.queues.view(),
            queues.pending.preemptors,
            blocking=["ns/second"],
            reasons=[("ns/second", ("WaitingForQuota", "cpu"))],
            kept=[("ns/second", (2, 1))],
        )
    )

    assert found == {
        "preemptors": [{"workload": "ns/second", "victims": ["ns/first"]}],
        "blocking": ["ns/second"],
        "reasons": [{"workload": "ns/second", "reason": "WaitingForQuota", "message": "cpu"}],
        "kept": [{"workload": "ns/second", "pods": 2, "nodes": 1}],
        "assumed": [],
    }
    assert queue_objects(queues.queues.view())["localQueues"] == [
        *queues.queues.view().local_queues
    ]


def test_the_known_groups_are_those_of_the_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    pod_group_of = ClusterView.pod_group

    def asking(view: ClusterView, key: str) -> PodGroupInfo | None:
        asked.append(key)
        return pod_group_of(view, key)

    both, empty, gone = (pod_group(name) for name in ("both", "empty", "gone"))
    cluster = cluster_of(both, empty, gone, pods(2, group="pods"), pods(1, group="both"))
    monkeypatch.setattr(ClusterView, "pod_group", asking)
    found = cluster.view().known_groups()

    assert next(found) == key("pods")
    assert not asked, "the first step is short, however many groups there are"
    cluster.apply(ev.ObjectDeleted(PodGroupInfo, (gone.api_group, gone.key)))
    cluster.apply(ev.ObjectApplied(pod_group("later")))
    cluster.apply(ev.ObjectDeleted(PodInfo, "both-0"))
    assert [*found] == [key("both"), key("empty")]
