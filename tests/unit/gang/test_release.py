"""The domain of a gang that is released on a cluster that grows."""

from dataclasses import replace
from typing import Any

import pytest

from extender.api.wellknown import DOMAIN_LABEL, GANG_GATE, HOSTNAME_LABEL
from extender.gang.release import ANYWHERE, PROBE, AwaitedNodes, Release, awaited, choosing, movable
from extender.state.cluster.records import (
    ConditionInfo,
    JobInfo,
    NodeInfo,
    PodGroupStatusInfo,
    PodInfo,
)
from extender.state.cluster.store import Cluster
from extender.steps import at_once
from tests.makers import key, node, observe, pod, pod_group, shape, taint

ZONE = "zone"


def gated(*names: str, **more: Any) -> list[PodInfo]:
    return [pod(name, 2, group="gang", gates=(GANG_GATE,), **more) for name in names]


def released(*names: str, domain: str | None = None, **more: Any) -> list[PodInfo]:
    """Return pods whose gate is gone, and which ask for a domain."""
    if domain is None:
        return [pod(name, 2, group="gang", **more) for name in names]
    labels, asked = {DOMAIN_LABEL: domain}, shape(2, selector={ZONE: domain})
    return [pod(name, asked, group="gang", labels=labels, **more) for name in names]


def in_zone(name: str, zone: str, cpu: int = 4, **more: Any) -> NodeInfo:
    return node(name, cpu, labels={ZONE: zone}, **more)


GROUP = pod_group(min_member=4, required_topology=ZONE)
PODS = gated("a", "b", "c", "d")
SMALL, LARGE = in_zone("n0", "a"), in_zone("n1", "b", 8)
TWO = in_zone("n2", "a", 2)


def tried(*domains: str) -> PodGroupStatusInfo:
    said = ConditionInfo("DomainsTried", "True", "NoNodesInTime", ", ".join(domains))
    return PodGroupStatusInfo(conditions=(said,))


def to(domain: str) -> Release:
    return Release((ZONE, domain))


CASES: dict[str, tuple[list[Any], Release]] = {
    "the domain that takes most": ([GROUP, PODS, SMALL, LARGE], to("b")),
    "that which fits": ([GROUP, PODS, in_zone("n0", "a", 8), in_zone("n1", "b", 2)], to("a")),
    "the one with more nodes where none has room": (
        [GROUP, PODS, in_zone("n0", "a", 1), in_zone("n1", "a", 1), in_zone("n2", "b", 1)],
        to("a"),
    ),
    "taken room does not count": ([GROUP, PODS, SMALL, LARGE, pod("x", 7, on="n1")], to("a")),
    "where its other pods are": ([GROUP, PODS, SMALL, LARGE, released("e", on="n0")], to("a")),
    "where its other pods are to go": (
        [GROUP, PODS, SMALL, LARGE, released("e", domain="a")],
        to("a"),
    ),
    "not where one is leaving": (
        [GROUP, PODS, SMALL, LARGE, released("e", domain="a", terminating=True)],
        to("b"),
    ),
    "no node shows a domain": ([GROUP, PODS], PROBE),
    "none that it may use does": ([GROUP, PODS, in_zone("n0", "a", taints=(taint(),))], PROBE),
    "no node has the label": ([GROUP, PODS, node("n0")], PROBE),
    "one was given up": (
        [replace(GROUP, status=tried("b")), PODS, SMALL, LARGE],
        to("a"),
    ),
    "its other pods are still to leave where it was given up": (
        [replace(GROUP, status=tried("a")), PODS, SMALL, LARGE, released("e", domain="a")],
        to("b"),
    ),
    "they are to leave, and all were given up": (
        [replace(GROUP, status=tried("a", "b")), PODS, SMALL, LARGE, released("e", domain="b")],
        to("a"),
    ),
    "they are to go where it was given up before": (
        [replace(GROUP, status=tried("a", "b")), PODS, SMALL, LARGE, released("e", domain="a")],
        to("a"),
    ),
    "all were given up": ([replace(GROUP, status=tried("b", "a")), PODS, SMALL, LARGE], to("b")),
    "none is asked for": ([pod_group(min_member=4), PODS, SMALL, LARGE], ANYWHERE),
    "one is preferred": (
        [pod_group(min_member=4, preferred_topology=ZONE), PODS, SMALL, LARGE],
        ANYWHERE,
    ),
    "one host": ([replace(GROUP, required_topology=HOSTNAME_LABEL), PODS, SMALL], ANYWHERE),
    "no pod is gated": ([GROUP, released("a", "b", "c", "d"), SMALL, LARGE], ANYWHERE),
}


@pytest.mark.parametrize(("facts", "want"), CASES.values(), ids=CASES)
def test_the_domain_of_released_pods(facts: list[Any], want: Release) -> None:
    cluster = Cluster(growing=True)
    observe(cluster, facts)
    assert at_once(choosing(key("gang"), view=cluster.view())) == want


def test_where_nothing_grows_the_plan_chooses() -> None:
    cluster = Cluster()
    observe(cluster, GROUP, PODS, SMALL, LARGE)
    assert at_once(choosing(key("gang"), view=cluster.view())) == ANYWHERE


AWAITED: dict[str, tuple[list[Any], AwaitedNodes | None]] = {
    "it waits": (
        [released("a", "b", "c", "d", domain="a"), SMALL, LARGE],
        AwaitedNodes("a", 1, others=True),
    ),
    "more nodes have come": (
        [released("a", "b", "c", "d", domain="a"), SMALL, TWO],
        AwaitedNodes("a", 2, others=False),
    ),
    "the first went alone": (
        [released("a"), released("b", "c", "d", domain="a"), LARGE],
        AwaitedNodes("a", 0, others=True),
    ),
    "two processes have released it": (
        [released("a", "b", domain="b"), released("c", "d", domain="a"), SMALL, LARGE],
        AwaitedNodes("a", 1, others=True, split=True),
    ),
    "it begins": (
        [released("a", domain="a", on="n0"), released("b", "c", "d", domain="a"), SMALL],
        None,
    ),
    "it is incomplete": ([released("a", "b", "c", domain="a"), SMALL], None),
    "some are gated": ([released("a", "b", domain="a"), gated("c", "d"), SMALL], None),
    "its owner chose": ([released("a", "b", "c", "d"), SMALL], None),
}


@pytest.mark.parametrize(("facts", "want"), AWAITED.values(), ids=AWAITED)
def test_where_a_gang_waits_for_nodes(facts: list[Any], want: AwaitedNodes | None) -> None:
    cluster = Cluster(growing=True)
    observe(cluster, GROUP, facts)
    assert awaited(GROUP, view=cluster.view()) == want


OF_JOB: dict[str, Any] = {"controller": "u-job", "owners": ("ns/job",), "domain": "a"}
JOB = JobInfo("u-job", key("gang"), 4)


@pytest.mark.parametrize(
    ("facts", "want"),
    [
        ([JOB, released("a", "b", **OF_JOB)], {"a", "b"}),
        ([replace(JOB, maker="u-set"), released("a", "b", **OF_JOB)], set()),
        ([replace(JOB, held_by_queue="ns/job"), released("a", "b", **OF_JOB)], set()),
        ([released("a", "b", domain="a", controller="u-set", owners=("ns/set",))], {"a", "b"}),
        ([released("a", "b", domain="a")], set()),
    ],
)
def test_which_pods_are_made_anew_for_another_domain(facts: list[Any], want: set[str]) -> None:
    cluster = Cluster(growing=True)
    observe(cluster, GROUP, facts)
    assert {each.name for each in movable(GROUP, view=cluster.view())} == want
