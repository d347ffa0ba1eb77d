"""A gang that is to be in one domain of a label, or in as few as possible."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from extender.api.reasons import Reason
from extender.fit.candidates import Candidates
from extender.gang import topology
from extender.gang.filter import follow_plan
from extender.gang.fit import NO_OFFER, Fit, Offer
from extender.gang.gates import cannot_start
from extender.gang.status import pending_of
from extender.gang.verdicts import AnyNode, GangOptions, OneNode, OneOf, Refuse
from extender.state.cluster.records import NodeInfo, PodInfo
from extender.state.cluster.store import Cluster
from tests.at_once import due_claims, make_plan
from tests.makers import (
    cluster_of,
    key,
    node,
    observe,
    planned,
    pod,
    pod_group,
    pods,
    requests,
    shape,
)
from tests.unit.gang import filtered

RACK = "example.com/rack"
GANG = key("gang")


def racks(**cpus: tuple[int, ...]) -> list[NodeInfo]:
    """Return nodes `RACK0`, `RACK1`... with so much CPU each."""
    return [
        node(f"{rack}{number}", cpu, labels={RACK: rack})
        for rack, sizes in cpus.items()
        for number, cpu in enumerate(sizes)
    ]


def required(min_member: int, label: str = RACK, **more: Any) -> Any:
    return pod_group(min_member=min_member, required_topology=label, **more)


def preferred(min_member: int, label: str = RACK) -> Any:
    return pod_group(min_member=min_member, preferred_topology=label)


def plan(cluster: Cluster, offer: tuple[str, ...] = (), *, complete: bool = False) -> Fit | Refuse:
    waiting = next(each for each in cluster.view().members(GANG) if each.node is None)
    return plan_of(cluster, waiting.name, Offer(offer, complete))


def plan_of(cluster: Cluster, name: str, offer: Offer = NO_OFFER) -> Fit | Refuse:
    view = cluster.view()
    group = view.pod_group(GANG)
    assert group is not None
    return make_plan(view.pods[name], group, view=view, offer=offer)


def used(found: Fit | Refuse) -> list[str]:
    """Return the nodes of a plan."""
    assert isinstance(found, Fit), found
    assert found.complete
    return sorted(found.placements.values())


def refused(found: Fit | Refuse) -> Refuse:
    assert isinstance(found, Refuse)
    return found


def test_one_domain_is_chosen_the_smallest_that_takes_all() -> None:
    there = racks(a=(4, 4, 4), b=(2, 2), c=(4, 4), d=(3,))
    found = plan(cluster_of(there, required(4), pods(4, 2)))
    assert used(found) == ["c0", "c0", "c1", "c1"]


def test_members_of_other_sizes_are_in_the_same_domain() -> None:
    there = racks(a=(6,), b=(4, 2), c=(4, 1, 1))
    launcher = pod("launcher", 4, group="gang")
    workers = [pod(f"worker-{number}", 1, group="gang") for number in range(2)]
    assert used(plan(cluster_of(there, required(3), launcher, workers)))[0][0] in "abc"
    there = racks(a=(3, 3), b=(2, 2, 2), c=(4, 1, 1))
    assert used(plan(cluster_of(there, required(3), launcher, workers))) == ["c0", "c1", "c2"]


def test_what_one_domain_takes_is_said_and_no_node_is_named() -> None:
    there = racks(a=(4,), b=(6,), c=(2, 2, 2, 2, 2))
    cluster = cluster_of(there, required(6), pods(6, 2))
    found = refused(plan(cluster))
    assert found.reason is Reason.NEVER_FITS
    assert found.message == (
        "gang ns/gang: 5 of the 6 pods that it still needs fit in one domain of "
        "'example.com/rack', short of cpu 2, even with all nodes empty"
    )
    observe(cluster, node("c9", 2, labels={RACK: "c"}), pod("plain", 2, on="c9"))
    found = refused(plan(cluster))
    assert found.reason is Reason.NOT_ENOUGH_RESOURCES
    answer = pending_of(GANG, view=cluster.view(), options=GangOptions())
    assert "5 of the 6 pods that it still needs fit in one domain of" in answer.message


@pytest.mark.parametrize("reserved", [False, True])
def test_members_that_are_there_pin_the_domain(*, reserved: bool) -> None:
    there = racks(a=(8,), b=(2, 2))
    members = pods(3, 2)
    if not reserved:
        members[0] = replace(members[0], node="b0")
    cluster = cluster_of(there, required(3), members)
    if reserved:
        observe(cluster, planned(gang_0="b0"))
    found = refused(plan(cluster))
    assert "1 of the 2 pods that it still needs fit in its domain of" in found.message
    observe(cluster, node("b7", 2, labels={RACK: "b"}))
    assert used(plan_of(cluster, "gang-1")) == ["b1", "b7"]


def test_members_that_leave_pin_nothing() -> None:
    leaving = pod("old", 2, group="gang", on="b0", terminating=True)
    cluster = cluster_of(racks(a=(8,), b=(2, 2)), required(3), leaving, pods(3, 2))
    assert used(plan_of(cluster, "gang-0")) == ["a0", "a0", "a0"]


def test_members_in_two_domains_cannot_be_completed_in_one() -> None:
    there = [pod("x", 1, group="gang", on="a0"), pod("y", 1, group="gang", on="b0")]
    found = refused(plan(cluster_of(racks(a=(8,), b=(2, 2)), required(3), there, pods(1, 1))))
    assert found.reason is Reason.INVALID_TOPOLOGY
    assert "more than one domain of 'example.com/rack' already" in found.message


@pytest.mark.parametrize("make", [required, preferred])
def test_a_label_that_no_node_has_is_named_with_its_annotation(make: Any) -> None:
    group = make(2, "no/such")
    cluster = cluster_of(racks(a=(8,)), group, pods(2))
    found = refused(plan(cluster))
    assert found.reason is Reason.NEVER_FITS
    annotation = topology.topology_of(group)
    assert annotation is not None
    assert f"no node has the label 'no/such' that its annotation {annotation.annotation}" in (
        found.message
    )
    assert "label the nodes, or correct the annotation" in found.message


def test_both_annotations_are_refused() -> None:
    group = required(2, preferred_topology=RACK)
    view = cluster_of(racks(a=(8,)), group, pods(2)).view()
    refusal = cannot_start(GANG, view=view)
    assert refusal is not None
    assert refusal.reason is Reason.INVALID_TOPOLOGY
    assert refusal.message.endswith("remove one of them")
    assert pending_of(GANG, view=view, options=GangOptions()).reason is refusal.reason


@pytest.mark.parametrize("make", [required, preferred])
@pytest.mark.parametrize("said", ["", "a b", "50%d", "rack\nmore", "/rack", "-rack", "r" * 64])
def test_what_is_no_key_of_a_label_is_refused_and_not_repeated(make: Any, said: str) -> None:
    group = make(2, said)
    view = cluster_of(racks(a=(8,)), group, pods(2)).view()
    for refusal in (cannot_start(GANG, view=view), topology.impossible(group, view=view)):
        assert refusal is not None
        assert refusal.reason is Reason.INVALID_TOPOLOGY
        assert refusal.message.endswith("-topology is no key of a label: correct or remove it")
        assert not said or said not in refusal.message
    assert pending_of(GANG, view=view, options=GangOptions()).reason is (Reason.INVALID_TOPOLOGY)


def test_members_on_nodes_without_the_label_cannot_be_completed_in_one_domain() -> None:
    there = [*racks(a=(8,)), node("bare", 8)]
    gone = pod("gone", 1, group="gang", on="deleted")
    old = pod("old", 1, group="gang", on="bare")
    found = refused(plan(cluster_of(there, required(2), gone, old, pods(1, 1))))
    assert found.reason is Reason.INVALID_TOPOLOGY
    assert "its pods are on nodes without the label 'example.com/rack' already" in found.message
    extra = pod("extra", 1, group="gang")
    for started, want in (([old], ()), ([old, pod("in", 1, group="gang", on="a0")], ("a0",))):
        view = cluster_of(there, required(1), started, extra).view()
        assert topology.nodes_within(GANG, ("a0", "bare"), view=view) == want
    fits = plan(cluster_of(there, preferred(2), old, pods(1, 1)))
    assert used(fits) == ["a0"]


def test_what_is_lost_goes_where_the_others_are_before_it_goes_to_another_domain() -> None:
    there = racks(a=(2, 2), b=(2, 2), c=(4, 4))
    old = [pod(f"old-{n}", 2, group="gang", on=on) for n, on in enumerate(("a0", "b0"))]
    assert used(plan(cluster_of(there, preferred(4), old, pods(2, 2)))) == ["a1", "b1"]
    assert used(plan(cluster_of(there, preferred(5), old, pods(3, 2)))) == ["a1", "b1", "c0"]


def test_as_few_domains_as_possible_the_last_the_smallest_that_takes_the_rest() -> None:
    there = racks(a=(4, 4), b=(6,), c=(2,), d=(4,))
    found = plan(cluster_of(there, preferred(5), pods(5, 2)))
    assert used(found) == ["a0", "a0", "a1", "a1", "c0"]


def test_nodes_without_the_label_are_used_where_domains_are_too_few() -> None:
    there = [*racks(a=(2,), b=(2,)), node("none", 2)]
    assert used(plan(cluster_of(there, preferred(3), pods(3, 2)))) == ["a0", "b0", "none"]


def test_a_domain_with_nodes_that_were_sent_goes_first() -> None:
    there = racks(a=(4,), b=(8,))
    found = plan(cluster_of(there, required(2), pods(2, 2)), ("b0",))
    assert used(found) == ["b0", "b0"]


def test_a_complete_offer_is_all_there_is() -> None:
    there = racks(a=(2, 2, 2), b=(8,))
    found = refused(plan(cluster_of(there, required(3), pods(3, 2)), ("a0", "a1"), complete=True))
    assert "2 of the 3" in found.message


MEMBERS = pods(3, 2)
STARTED: Mapping[str, PodInfo] = {
    each.name: replace(each, node=on) for each, on in zip(MEMBERS, ("b0", "b1"), strict=False)
}


def beside(sent: tuple[str, ...]) -> object:
    there = racks(a=(8,), b=(2, 2, 2))
    cluster = cluster_of(there, required(2), [*STARTED.values()], MEMBERS[2])
    return filtered.decide(MEMBERS[2], GANG, sent, view=cluster.view(), denied=None)


def test_a_member_beyond_the_quorum_is_in_the_domain_of_the_others() -> None:
    assert beside(("a0", "b2")) == OneOf(("b2",))
    assert beside(("b2",)) == AnyNode()
    refusal = beside(("a0",))
    assert isinstance(refusal, Refuse)
    assert refusal.reason is Reason.OUTSIDE_TOPOLOGY


def test_a_planned_member_moves_within_its_domain_alone() -> None:
    there = racks(a=(8,), b=(2, 2, 2, 2))
    cluster = cluster_of(there, required(3), MEMBERS)
    observe(cluster, planned(gang_0="b0", gang_1="b1", gang_2="b2"))
    view = cluster.view()
    moved = follow_plan(MEMBERS[0], GANG, ("a0", "b3"), view=view)
    assert moved == OneNode("b3", {"gang-0": "b3"})
    assert isinstance(follow_plan(MEMBERS[0], GANG, ("a0",), view=view), Refuse)


@pytest.mark.parametrize(
    "changed",
    [
        {"required_topology": "50%d"},
        {"required_topology": "no/such"},
        {"required_topology": RACK, "preferred_topology": RACK},
        {"required_topology": RACK},
        {"placement": "packed"},
        {},
    ],
    ids=str,
)
def test_what_is_planned_is_bound_whatever_becomes_of_the_annotations(
    changed: dict[str, str],
) -> None:
    """Half of the gang waits with a node: another answer for the rest would leave it in two."""
    there = racks(a=(2, 2), b=(2, 2))
    cluster = cluster_of(there, preferred(3), MEMBERS)
    observe(cluster, planned(gang_0="a0", gang_1="a1", gang_2="b0"))
    observe(cluster, replace(MEMBERS[0], node="a0"))
    observe(cluster, pod_group(min_member=3, **changed))
    for number, planned_on in ((1, "a1"), (2, "b0")):
        found = filtered.decide(
            MEMBERS[number], GANG, ("a1", "b0", "b1"), view=cluster.view(), denied=None
        )
        assert found == OneNode(planned_on)


def test_indexes_follow_domains_and_the_names_of_nodes() -> None:
    names = ("n10", "n2", "n9", "n1")
    there = [node(name, 2, labels={RACK: "a"}) for name in names]
    members = [replace(each, index=number) for number, each in enumerate(pods(4, 2))]
    found = plan(cluster_of(there, required(4), members))
    assert isinstance(found, Fit)
    assert [found.placements[f"gang-{n}"] for n in range(4)] == ["n1", "n2", "n9", "n10"]
    found = plan(cluster_of(there, required(4), members), ("n9",))
    assert isinstance(found, Fit)
    assert [found.placements[f"gang-{n}"] for n in range(4)] == ["n9", "n2", "n1", "n10"]


def test_the_pod_that_is_tried_exchanges_its_node_with_the_one_nearest_in_rank() -> None:
    there = [node(f"n{number}", 2) for number in range(5)]
    members = [replace(each, index=number) for number, each in enumerate(pods(5, 2))]
    cluster = cluster_of(there, pod_group(min_member=5), members)
    found = plan_of(cluster, "gang-3", Offer(("n0", "n1")))
    assert isinstance(found, Fit)
    assert [found.placements[f"gang-{n}"] for n in range(5)] == ["n0", "n3", "n2", "n1", "n4"]


def test_the_nodes_of_a_domain_are_sorted_once_for_all_kinds_of_pods(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Thousands of nodes for each of sixteen kinds would be one long step."""
    sorts, in_order = [], Candidates._sorted

    def counted(self: Candidates, names: Iterable[str], resource: str) -> list[tuple[int, str]]:
        sorts.append(resource)
        return in_order(self, names, resource)

    monkeypatch.setattr(Candidates, "_sorted", counted)
    members = [pod(f"gang-{n}", shape(1, memory=f"{n}Mi"), group="gang") for n in range(1, 30)]
    there = [NodeInfo("n", {**requests(64, memory="64Gi"), "pods": 110}, {RACK: "a"})]
    assert used(plan(cluster_of(there, required(29), members))) == ["n"] * 29
    assert len(sorts) <= 2


def test_only_the_pod_that_is_tried_leaves_the_order_of_indexes() -> None:
    there = [node(f"n{number}", 4, labels={RACK: "a"}) for number in range(4)]
    tried = pod("launcher", 3, group="gang")
    members = [replace(each, index=number) for number, each in enumerate(pods(3, 4))]
    cluster = cluster_of(there, required(4), tried, members)
    found = plan(cluster, ("n1", "n3"))
    assert isinstance(found, Fit)
    assert found.placements["launcher"] in {"n1", "n3"}
    workers = [found.placements[f"gang-{number}"] for number in range(3)]
    assert workers == sorted(workers)


def test_a_claim_is_in_one_domain() -> None:
    taken = {"a0": 1, "a1": 3, "b0": 1, "b1": 3, "c0": 1}
    full = [pod(f"plain-{name}", cpu, on=name) for name, cpu in taken.items()]
    there = racks(a=(4, 4), b=(4, 4), c=(4,))
    cluster = cluster_of(there, required(2, created=1.0), full, pods(2, shape(4), created=1.0))
    options = GangOptions(aging=10.0, claim_nodes_percentage=100)
    [claim] = due_claims(view=cluster.view(), now=12.0, options=options)
    assert set(claim.amounts) == {"a0", "a1"}
