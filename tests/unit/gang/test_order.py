"""The order of groups, the points of nodes, and what preemption may do."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from extender.gang import preempt
from extender.gang.gates import sort_key
from extender.gang.score import score
from extender.state.cluster import events as ev
from extender.state.cluster.records import DomainAssignment, NominatedRoom, PodInfo, PreemptedRoom
from tests.makers import cluster_of, key, node, nodes, planned, pod, pod_group, pods, requests

WANT_KEY: dict[str, tuple[Sequence[Any], tuple[int, float, int, str]]] = {
    "priority, age, name": (
        [pod_group(created=7.0), pods(2, priority=3)],
        (-3, 7.0, 0, "ns/gang"),
    ),
    "the lowest priority of the members counts": (
        [pod_group(created=7.0), pod("a", group="gang", priority=9), pods(1, priority=3)],
        (-3, 7.0, 0, "ns/gang"),
    ),
    "a group without pods": ([pod_group(created=7.0)], (0, 7.0, 0, "ns/gang")),
    "a group without a PodGroup comes last": ([pods(1)], (0, float("inf"), 0, "ns/gang")),
}


@pytest.mark.parametrize(("there", "want"), WANT_KEY.values(), ids=WANT_KEY)
def test_sort_key(there: Sequence[Any], want: tuple[int, float, int, str]) -> None:
    assert sort_key(key("gang"), view=cluster_of(there).view()) == want


MEMBER, SIBLING = pods(2)
OUTSIDER = pod("outsider")
SENT = ("n0", "n1", "n2")
ROOM = nodes(4, 4, 4)

WANT_SCORE: dict[str, tuple[PodInfo | None, Sequence[Any], Mapping[str, int]]] = {
    "nothing to distinguish": (OUTSIDER, [], {}),
    "a pod that is not known": (None, [], {}),
    "a member is drawn to where a sibling runs": (
        MEMBER,
        [pod("s", group="gang", on="n1")],
        {"n0": 0, "n1": 10, "n2": 0},
    ),
    "a member is drawn to where a sibling waits or is planned": (
        MEMBER,
        [SIBLING, pod("s", group="gang"), ev.PodWaiting(SIBLING, "n1"), planned(s="n2")],
        {"n0": 0, "n1": 10, "n2": 10},
    ),
    "a member without placed siblings is kept off the plans of others": (
        MEMBER,
        [pods(1, group="rival"), planned(rival_0="n0")],
        {"n0": 0, "n1": 10, "n2": 10},
    ),
    "an outsider is kept off plans": (
        OUTSIDER,
        [SIBLING, planned(gang_1="n1")],
        {"n0": 10, "n1": 0, "n2": 10},
    ),
    "an unknown pod is kept off plans": (
        None,
        [SIBLING, planned(gang_1="n1")],
        {"n0": 10, "n1": 0, "n2": 10},
    ),
    "an outsider does not mind pods that wait": (
        OUTSIDER,
        [SIBLING, ev.PodWaiting(SIBLING, "n1")],
        {},
    ),
}


@pytest.mark.parametrize(("subject", "there", "want"), WANT_SCORE.values(), ids=WANT_SCORE)
def test_score(subject: PodInfo | None, there: Sequence[Any], want: Mapping[str, int]) -> None:
    facts = [fact for fact in (subject, *there) if fact is not None]

    assert score(subject, SENT, view=cluster_of(ROOM, facts).view()) == want


RUNNING = [pod(f"runs-{n}", group="runs", on=f"n{n}") for n in range(3)]
EXTRA = pod("runs-3", group="runs", on="n2")
WHOLE = [pod_group("whole", 2), *(pod(f"whole-{n}", group="whole", on="n1") for n in range(2))]
BOTH = ["whole-0", "whole-1"]
PLAIN = [pod(f"plain-{n}", on=f"n{n}") for n in range(3)]
URGENT = pod("urgent", priority=1)
PREEMPTER, _ = MEMBERS = pods(2, group="preempts", priority=5)
PREEMPTING = [
    pod_group("preempts", 2),
    *MEMBERS,
    ev.Nominated(
        key("preempts"), PreemptedRoom(1.0, {"n0": NominatedRoom(("preempts-0",), requests(1))}, ())
    ),
]
ALL = {"n0": ["plain-0"], "n1": ["plain-1"]}
IN_SET = replace(MEMBER, pod_set="main")
CHOSEN = DomainAssignment(("rack",), ((("a",), 1), (("b",), 1)))

WANT_PREEMPTION: dict[
    str, tuple[PodInfo | None, Sequence[Any], Mapping[str, Collection[str]], set[str]]
] = {
    "a pod outside any gang": (OUTSIDER, PLAIN, ALL, {"n0", "n1"}),
    "a pod that is not known": (None, PLAIN, ALL, {"n0", "n1"}),
    "a member whose gang has nothing": (MEMBER, [pod_group(), *pods(3), *PLAIN], ALL, set()),
    "a member whose gang has no PodGroup": (MEMBER, [*pods(3), *PLAIN], ALL, set()),
    "the member that makes the quorum full": (
        MEMBER,
        [pod_group(min_member=2), *pods(2), ev.PodWaiting(SIBLING, "n2"), *PLAIN],
        ALL,
        {"n0", "n1"},
    ),
    "a member whose gang is planned": (
        MEMBER,
        [pod_group(min_member=2), *pods(2), planned(gang_0="n0", gang_1="n1"), *PLAIN],
        ALL,
        {"n0", "n1"},
    ),
    "a member that is one of two that are missing": (
        MEMBER,
        [pod_group(), *pods(3), ev.PodWaiting(SIBLING, "n2"), *PLAIN],
        ALL,
        set(),
    ),
    "its own plan does not count twice": (
        MEMBER,
        [pod_group(), *pods(3), planned(gang_0="n0", gang_1="n1"), *PLAIN],
        ALL,
        set(),
    ),
    "a pod that is bound needs no room": (pod("bound", on="n0"), [], ALL, set()),
    "neither does a pod that is being bound": (
        OUTSIDER,
        [ev.PodBinding(OUTSIDER, "n0")],
        ALL,
        set(),
    ),
    "nor a member that is being bound, whose gang has its quorum": (
        MEMBER,
        [pod_group(min_member=1), ev.PodBinding(MEMBER, "n0")],
        ALL,
        set(),
    ),
    "a gang that would break is spared": (
        OUTSIDER,
        [pod_group("runs", 3), *RUNNING, *PLAIN],
        {"n0": ["runs-0"], "n1": ["plain-1"]},
        {"n1"},
    ),
    "a gang with one to spare is not": (
        OUTSIDER,
        [pod_group("runs", 3), *RUNNING, EXTRA, *PLAIN],
        {"n0": ["runs-0"], "n1": ["plain-1"]},
        {"n0", "n1"},
    ),
    "two of a gang with one to spare are": (
        OUTSIDER,
        [pod_group("runs", 3), *RUNNING, EXTRA, *PLAIN],
        {"n2": ["runs-2", "runs-3"], "n1": ["plain-1"]},
        {"n1"},
    ),
    "a gang without quorum has nothing to lose": (
        OUTSIDER,
        [pod_group("runs", 4), *RUNNING, *PLAIN],
        {"n0": ["runs-0"], "n1": ["plain-1"]},
        {"n0", "n1"},
    ),
    "where every choice breaks a gang all are left": (
        URGENT,
        [pod_group("runs", 3), *RUNNING],
        {"n0": ["runs-0"], "n1": ["runs-1"]},
        {"n0", "n1"},
    ),
    "of gangs that break one goes whole": (
        URGENT,
        [pod_group("runs", 3), *RUNNING, *WHOLE],
        {"n0": ["runs-0"], "n1": BOTH, "n2": ["runs-2"]},
        {"n1"},
    ),
    "even that is worse than to break none": (
        URGENT,
        [pod_group("runs", 3), *RUNNING, *WHOLE, *PLAIN],
        {"n0": ["runs-0"], "n1": BOTH, "n2": ["plain-2"]},
        {"n2"},
    ),
    "a gang that runs on elsewhere does not go whole": (
        URGENT,
        [pod_group("runs", 3), *RUNNING, *WHOLE, pod("whole-2", group="whole", on="n2")],
        {"n0": ["runs-0"], "n1": BOTH},
        {"n0", "n1"},
    ),
    "but one does of which the others leave anyway": (
        URGENT,
        [
            *(pod_group("runs", 3), *RUNNING, *WHOLE),
            pod("whole-2", group="whole", on="n2", terminating=True),
        ],
        {"n0": ["runs-0"], "n1": BOTH},
        {"n1"},
    ),
    "one that goes whole does not make up for a part of another": (
        URGENT,
        [pod_group("runs", 3), *RUNNING, *WHOLE],
        {"n0": ["runs-0"], "n1": [*BOTH, "runs-1"]},
        {"n0", "n1"},
    ),
    "a pod that leaves anyway is no loss to its gang": (
        URGENT,
        [pod_group("runs", 2), *RUNNING, replace(EXTRA, terminating=True)],
        {"n1": ["runs-1"], "n2": ["runs-2", "runs-3"]},
        {"n1", "n2"},
    ),
    "kube-scheduler goes on where it has begun": (
        replace(URGENT, nominated="n1"),
        [pod_group("runs", 3), *RUNNING],
        {"n0": ["runs-0"], "n1": ["runs-1"]},
        {"n1"},
    ),
    "but not where more harm is done than elsewhere": (
        replace(URGENT, nominated="n1"),
        [pod_group("runs", 3), *RUNNING, *PLAIN],
        {"n0": ["plain-0"], "n1": ["runs-1"]},
        {"n0"},
    ),
    "for a pod that is not known a gang goes whole too": (
        None,
        [pod_group("runs", 3), *RUNNING, *WHOLE],
        {"n0": ["runs-0"], "n1": BOTH},
        {"n1"},
    ),
    "a gang of the same priority does not break": (
        OUTSIDER,
        [pod_group("runs", 3), *RUNNING],
        {"n0": ["runs-0"], "n1": ["runs-1"]},
        set(),
    ),
    "nor does one of which another pod is worth as much": (
        URGENT,
        [pod_group("runs", 3), *RUNNING[1:], pod("runs-0", group="runs", on="n0", priority=1)],
        {"n1": ["runs-1"]},
        set(),
    ),
    "room that victims leave to a gang is not given to others": (
        replace(OUTSIDER, priority=4),
        [*PREEMPTING, *PLAIN, pod("large", 3, on="n0")],
        ALL,
        {"n1"},
    ),
    "a gang for which victims make room evicts no others": (
        PREEMPTER,
        [*PREEMPTING, planned(preempts_0="n0", preempts_1="n1"), *PLAIN],
        ALL,
        set(),
    ),
    "but to a higher priority it is": (
        replace(OUTSIDER, priority=6),
        [*PREEMPTING, *PLAIN, pod("large", 3, on="n0")],
        ALL,
        {"n0", "n1"},
    ),
    "nor is the cluster's own pod kept from it": (
        replace(OUTSIDER, only_node="n0", namespace="kube-system"),
        [*PREEMPTING, *PLAIN, pod("large", 3, on="n0")],
        ALL,
        {"n0", "n1"},
    ),
    "a member comes to the domain of its gang alone": (
        MEMBER,
        [
            *(node(f"n{n}", 4, labels={"rack": "ab"[n % 2]}) for n in range(2)),
            pod_group(min_member=2, required_topology="rack"),
            *(MEMBER, pod("gang-1", group="gang", on="n1"), *PLAIN),
        ],
        ALL,
        {"n1"},
    ),
    "a member comes to the domain that its queue chose, and not to that of another": (
        IN_SET,
        [
            *(node(f"n{n}", 4, labels={"rack": "abc"[n]}) for n in range(3)),
            pod_group(min_member=2, assigned={"main": CHOSEN}),
            *(pod("gang-1", group="gang", pod_set="main", on="n1"), *PLAIN),
        ],
        {**ALL, "n2": ["plain-2"]},
        {"n0"},
    ),
    "a pod set without domains comes to any": (
        MEMBER,
        [
            *(node(f"n{n}", 4, labels={"rack": "abc"[n]}) for n in range(3)),
            pod_group(min_member=2, assigned={"main": CHOSEN}),
            *(pod("gang-1", group="gang", pod_set="main", on="n1"), *PLAIN),
        ],
        ALL,
        {"n0", "n1"},
    ),
    "victims that are not known break nothing": (
        OUTSIDER,
        [],
        {"n0": ["ghost"]},
        {"n0"},
    ),
    "no victims break nothing": (OUTSIDER, [], {"n0": []}, {"n0"}),
}


@pytest.mark.parametrize(
    ("subject", "there", "victims", "want"), WANT_PREEMPTION.values(), ids=WANT_PREEMPTION
)
def test_preemption(
    subject: PodInfo | None,
    there: Sequence[Any],
    victims: Mapping[str, Collection[str]],
    want: set[str],
) -> None:
    facts = [fact for fact in (subject, *there) if fact is not None]
    view = cluster_of(ROOM, facts).view()

    assert set(preempt.decide_proposals(subject, victims, view=view)) == want
