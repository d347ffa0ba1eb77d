"""Gangs whose queue has chosen domains for their pods."""

from dataclasses import replace
from typing import Any

from extender.api.wellknown import HOSTNAME_LABEL
from extender.gang.filter import beside_siblings, follow_plan
from extender.gang.fit import Offer, fitting
from extender.gang.verdicts import OneNode, OneOf, Refuse
from extender.state.cluster import events as ev
from extender.state.cluster.records import DomainAssignment, JobInfo, NodeInfo, PodInfo
from extender.state.cluster.store import Cluster
from tests.at_once import fit
from tests.makers import cluster_of, key, node, observe, planned, pod, pod_group, shape

RACK = "example.com/rack"
IN_RACKS = DomainAssignment((RACK,), ((("a",), 2), (("b",), 1)))
ON_HOSTS = DomainAssignment((HOSTNAME_LABEL,), ((("a1",), 1), (("b1",), 2)))


def racks(cpu: int = 4) -> list[NodeInfo]:
    names = ("a1", "a2", "b1", "b2", "c1")
    return [node(name, cpu, labels={RACK: name[0], HOSTNAME_LABEL: name}) for name in names]


def member(number: int, cpu: int = 2, *, index: bool = True, **more: Any) -> PodInfo:
    said = {"pod_set": "main", "controller": "job", "index": number if index else None, **more}
    return pod(f"gang-{number}", cpu, group="gang", **said)


def cluster(given: DomainAssignment, *facts: Any) -> Cluster:
    return cluster_of(racks(), pod_group(min_member=3, assigned={"main": given}), *facts)


def placed(there: Cluster, *pods: PodInfo, **more: Any) -> dict[str, str]:
    return dict(fit(pods, len(pods), group=key("gang"), view=there.view(), **more).placements)


def test_each_index_goes_to_its_domain() -> None:
    pods = [member(n) for n in range(3)]
    assert placed(cluster(ON_HOSTS, pods), *pods) == {
        "gang-0": "a1", "gang-1": "b1", "gang-2": "b1",
    }  # fmt: skip
    found = placed(cluster(IN_RACKS, pods), *pods)
    assert {uid: name[0] for uid, name in found.items()} == {
        "gang-0": "a", "gang-1": "a", "gang-2": "b",
    }  # fmt: skip


def test_a_full_domain_is_lacking_although_others_have_room() -> None:
    full = pod("other", 4, on="a1")
    pods = [member(n) for n in range(3)]
    found = fit(
        pods[1:] + pods[:1], 3, group=key("gang"), view=cluster(ON_HOSTS, full, pods).view()
    )
    assert found.placements == {"gang-1": "b1", "gang-2": "b1"}
    assert "in the domains that its queue chose" in found.sentence()


def test_a_pod_that_comes_in_place_of_another_goes_where_that_was() -> None:
    there = cluster(ON_HOSTS, member(0, on="a1"), member(2, on="b1"), member(1))
    assert placed(there, member(1)) == {"gang-1": "b1"}
    nameless = [member(n, index=False, on=on) for n, on in ((0, "b1"), (1, "b1"), (2, None))]
    assert placed(cluster(ON_HOSTS, nameless), nameless[2]) == {"gang-2": "a1"}


def test_a_host_that_stands_twice_in_a_list_has_as_many_places_as_both_say() -> None:
    """As after a replacement: of three hosts the first has taken the place of the last."""
    given = DomainAssignment((HOSTNAME_LABEL,), ((("a1",), 1), (("b1",), 1), (("a1",), 1)))
    on = {0: "a1", 1: "b1", 2: None}
    there = cluster(given, pods := [member(n, on=on[n]) for n in range(3)])
    assert placed(there, pods[2]) == {"gang-2": "a1"}
    for last in ("a1", "b1"):
        nameless = [member(n, index=False, on=on) for n, on in ((0, "a1"), (1, None), (2, last))]
        want = "b1" if last == "a1" else "a1"
        assert placed(cluster(given, nameless), nameless[1]) == {"gang-1": want}


def test_indexes_of_the_jobs_of_a_job_set_follow_one_another() -> None:
    given = DomainAssignment(
        (HOSTNAME_LABEL,), ((("a2",), 1), (("a1",), 1), (("b2",), 1), (("b1",), 1))
    )
    jobs = [JobInfo(f"job-{n}", key("gang"), begun=2) for n in range(2)]
    pods = [
        member(
            2 * job + index,
            index=False,
            controller=f"job-{job}",
            labels={"jobset.sigs.k8s.io/job-index": str(job)},
        )
        for job in range(2)
        for index in range(2)
    ]
    pods = [replace(each, index=number % 2) for number, each in enumerate(pods)]
    there = cluster(given, [ev.ObjectApplied(each) for each in jobs], pods)
    want = {"gang-0": "a2", "gang-1": "a1", "gang-2": "b2", "gang-3": "b1"}
    assert placed(there, *pods[::-1]) == want
    again = cluster(
        given,
        [ev.ObjectApplied(each) for each in jobs],
        [replace(each, node=want[each.name]) for each in pods[:3]],
        pods[3],
    )
    assert placed(again, pods[3]) == {"gang-3": "b1"}


def test_a_plan_is_moved_only_within_its_domain() -> None:
    pods = [member(n) for n in range(3)]
    there = cluster(IN_RACKS, pods)
    observe(there, planned(**{"gang-0": "a1", "gang-1": "a1", "gang-2": "b1"}))
    view = there.view()
    verdict = follow_plan(pods[0], key("gang"), ("b1", "b2", "c1", "a2"), view=view)
    assert isinstance(verdict, OneNode)
    assert verdict.node == "a2"
    assert isinstance(follow_plan(pods[2], key("gang"), ("a1", "a2", "c1"), view=view), Refuse)


def test_a_member_beyond_the_quorum_has_a_domain_too() -> None:
    there = cluster(IN_RACKS, member(0, on="a1"), member(2, on="b1"), member(1))
    verdict = beside_siblings(member(1), key("gang"), ("a2", "b2", "c1"), view=there.view())
    assert verdict == OneOf(("a2",))


def test_nodes_that_are_all_there_are_limit_the_domain() -> None:
    pods = [member(n) for n in range(3)]
    offer = Offer(("a2", "b2"), complete=True)
    found = placed(cluster(IN_RACKS, pods), *pods, offer=offer)
    assert found == {"gang-0": "a2", "gang-1": "a2", "gang-2": "b2"}


def test_many_kinds_of_pods_in_a_large_domain_are_placed_in_pieces() -> None:
    """Each kind looks at all nodes of its domain: at least one pause between two of them."""
    kinds, size = 20, 100
    there = [node(f"a{n}", 1, labels={RACK: "a"}) for n in range(size)]
    given = DomainAssignment((RACK,), ((("a",), kinds),))
    pods = [replace(member(n), shape=shape(1, memory=f"{n}")) for n in range(kinds)]
    group = pod_group(min_member=kinds, assigned={"main": given})
    view = cluster_of(there, group, pods).view()
    assert sum(1 for _ in fitting(pods, kinds, group=key("gang"), view=view)) > kinds
