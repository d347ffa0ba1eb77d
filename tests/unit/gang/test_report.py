"""What is reported about one group, and what is done: conditions, Events, evictions, readiness."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.api.reasons import Reason
from extender.api.wellknown import ConditionType, Phase
from extender.gang import status
from extender.gang.phase import Watched, policy
from extender.gang.status import (
    LOOK_AGAIN,
    LOOKS_A_SECOND,
    Report,
    Waiting,
    ours,
    permitted_condition,
    waiting_of,
)
from extender.gang.verdicts import GangOptions, OnPartial, OnPartialOverrides, Refuse
from extender.kube.decode import Decoder
from extender.kube.pod_groups import as_json
from extender.state.cluster import events as ev
from extender.state.cluster.records import ConditionInfo, PodGroupInfo, PodGroupStatusInfo, PodInfo
from extender.state.cluster.reservations import Claim
from extender.state.cluster.store import Cluster
from tests.makers import (
    cluster_of,
    deleted,
    key,
    node,
    nodes,
    observe,
    planned,
    pod,
    pod_group,
    pods,
)

NOW = 5000.5
RUNS: dict[str, Any] = {"on": "n0", "phase": "Running", "ready": True, "owners": ("ns/job",)}
DONE: dict[str, Any] = {"on": "n0", "phase": "Succeeded", "finished": True}
OPTIONS = GangOptions(schedule_timeout=60)


class Bench:
    """One group of three, whose report is stored before the next one."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.stored = PodGroupStatusInfo()
        self.now = NOW
        self.on_partial = OnPartial.KEEP
        self.overrides: OnPartialOverrides = "evict"
        self.watched = 1000.0
        self.options = OPTIONS
        self.group: PodGroupInfo = pod_group(generation=1)
        observe(cluster, node("n0", 100), self.group)

    def observe(self, *facts: Any) -> Report:
        observe(self.cluster, *facts)
        return self.report()

    def apply(self, **changes: Any) -> Report:
        self.group = replace(self.group, **changes)
        return self.observe(self.group)

    def report(self) -> Report:
        found = status.decide(
            self.group,
            view=self.cluster.view(),
            stored=self.stored,
            now=self.now,
            options=self.options,
            watched=Watched(self.on_partial, self.watched, self.overrides),
        )
        told = status.changes(self.stored, found.status)
        self.stored = found.status
        return replace(found, notices=(*told, *found.notices))

    def reported(self, kind: str = "Scheduled") -> tuple[str, str, str]:
        found = self.stored.condition(kind)
        return (found.status, found.reason, found.message) if found else ("", "", "")


@pytest.fixture
def bench(cluster: Cluster) -> Bench:
    return Bench(cluster)


def permitted(reason: str, message: str = "says the extender") -> PodGroupStatusInfo:
    condition = ConditionInfo("Permitted", "False", reason, message)
    return PodGroupStatusInfo(conditions=(condition,))


def lost_one() -> list[Any]:
    """Return a gang of three of which two have a node, and one that came late has none."""
    return [*pods(2, **RUNS), pod("gang-2", group="gang")]


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        ("NotEnoughPods", False),
        ("WaitingForBind", False),
        ("PartiallyScheduled", False),
        ("NotEnoughResources", True),
        ("Scheduled", True),
    ],
)
def test_what_every_gang_passes_gets_no_event(reason: str, told: bool) -> None:
    after = PodGroupStatusInfo(conditions=(ConditionInfo("Scheduled", "False", reason, "so"),))
    found = [each.reason for each in status.changes(PodGroupStatusInfo(), after)]
    assert found == [reason] * told
    assert not [*status.changes(after, after)]


def test_too_few_pods_are_reported_with_numbers(bench: Bench) -> None:
    bench.observe(pods(2))

    assert bench.reported() == ("False", "NotEnoughPods", "2 of the 3 pods that it needs exist")
    assert bench.reported("Running") == ("False", "NotScheduled", "0 of 3 pods run, 0 are done")
    assert bench.reported("Partial") == ("", "", "")


def test_what_the_extender_says_counts_where_nothing_else_is_in_the_way(bench: Bench) -> None:
    bench.observe(pods(3))
    assert bench.reported()[1] == "WaitingForBind"
    bench.apply(status=permitted("ScheduleTimeout"))
    assert bench.reported() == ("False", "ScheduleTimeout", "says the extender")
    bench.observe(pod("gang-2", group="gang", gates=("other",)))
    assert bench.reported()[1] == "Gated"


def test_an_extender_that_is_content_is_not_repeated(bench: Bench) -> None:
    bench.observe(pods(3))
    content = ConditionInfo("Permitted", "True", "QuorumReached", "")
    bench.apply(status=PodGroupStatusInfo(conditions=(content,)))

    assert bench.reported()[1] == "WaitingForBind"


def test_a_scheduled_and_running_group(bench: Bench) -> None:
    bench.observe(pods(2, **RUNS), pod("gang-2", group="gang", on="n0"))
    text = "3 of the 3 pods that it needs have a node or are done"
    assert bench.reported() == ("True", "Scheduled", text)
    assert bench.reported("Running") == ("False", "NotRunning", "2 of 3 pods run, 0 are done")
    bench.observe(pods(3, **RUNS))
    assert bench.reported("Running") == ("True", "Running", "3 of 3 pods run, 0 are done")


def test_the_ends(bench: Bench) -> None:
    bench.observe(
        pods(2, **RUNS), pod("gang-2", group="gang", on="n0", phase="Failed", finished=True)
    )
    text = "1 failed, and 2 of the 3 pods that it needs are left"
    assert bench.reported() == ("False", "PodsFailed", text)
    assert bench.reported("Running") == ("False", "PodsFailed", text)
    bench.observe(pods(3, **DONE))
    assert (bench.reported()[:2], bench.reported("Running")[:2]) == (
        ("True", "Scheduled"),
        ("False", "Finished"),
    )


def test_a_time_changes_with_the_value_and_not_with_the_reason(bench: Bench) -> None:
    bench.observe(pods(2))
    bench.now += 100
    bench.observe(pod("gang-2", group="gang", gates=("other",)))
    condition = bench.stored.condition("Scheduled")
    assert condition is not None
    assert (condition.reason, condition.transition, condition.generation) == ("Gated", 5000.0, 1)

    bench.observe(pods(3, **RUNS))
    condition = bench.stored.condition("Scheduled")
    assert condition is not None
    assert condition.transition == 5100.0


def test_the_same_again_is_the_same_report_without_a_notice(bench: Bench) -> None:
    first = bench.observe(pods(3, gates=("other",)))
    bench.now += 30
    again = bench.report()

    assert first.notices
    assert (again.status, again.notices) == (first.status, ())


def test_a_notice_for_each_reason_and_not_for_each_number(bench: Bench) -> None:
    seen = [
        [(n.reason, n.warning) for n in bench.observe(fact).notices]
        for fact in (
            pods(1),
            pods(2),
            pod("gang-2", 200, group="gang"),
            pods(3, **RUNS),
        )
    ]

    assert seen == [
        [],
        [],
        [("NeverFits", True)],
        [("Scheduled", False)],
    ]


def test_a_wait_for_nodes_that_an_autoscaler_adds_is_no_warning() -> None:
    found = Bench(Cluster(growing=True)).observe(pods(3, 200)).notices

    assert [(each.reason, each.warning) for each in found] == [("WaitingForNodes", False)]


def test_mixed_priorities_are_reported_by_their_values(bench: Bench) -> None:
    [notice] = bench.observe(pods(2), pod("gang-2", group="gang", priority=5)).notices

    assert (notice.reason, notice.warning, notice.key) == ("MixedPriorities", True, "0, 5")
    assert notice.note == "its pods have the priorities 0, 5; 0 counts"


def test_a_waiting_group_is_looked_at_again_because_others_make_room(bench: Bench) -> None:
    assert bench.report().look_again is None
    assert bench.observe(pods(3)).look_again == LOOK_AGAIN
    assert bench.observe(pods(3, **RUNS)).look_again is None


def test_many_waiting_groups_are_looked_at_less_often(bench: Bench) -> None:
    others = [
        (pod_group(f"g{n}", 1), pod(f"p{n}", 200, group=f"g{n}"))
        for n in range(int(LOOK_AGAIN * LOOKS_A_SECOND) + 20)
    ]
    bench.observe(others)

    assert bench.observe(pods(3)).look_again == len(bench.cluster.view().queue) / LOOKS_A_SECOND
    assert bench.report().look_again > LOOK_AGAIN  # type: ignore[operator]


def test_a_partial_gang_has_its_time_out_to_become_whole(bench: Bench) -> None:
    bench.observe(pods(3, **RUNS))
    bench.now += 100
    bench.apply(schedule_timeout=8.0)
    found = bench.observe(lost_one())
    text = "2 of the 3 pods that it still needs have a node"
    assert bench.reported("Partial") == ("True", "PartiallyScheduled", text)
    assert found.look_again == 8.5  # from the next whole second: never too early
    assert "PartialGang" not in {notice.reason for notice in found.notices}

    bench.observe(pods(3, **RUNS))
    assert bench.reported("Partial") == ("False", "Whole", "")


@pytest.mark.parametrize("annotation", [None, "keep", "kepe"])
def test_a_gang_that_stays_partial_is_kept_and_gets_one_event(
    bench: Bench, annotation: str | None
) -> None:
    bench.apply(on_partial=annotation)
    bench.observe(lost_one())
    bench.now += 61
    found = bench.report()
    again = bench.report()

    reported = [(n.reason, n.warning) for n in found.notices if not n.key]
    assert reported == [("PartialGang", True)]
    assert [n for n in again.notices if not n.key] == []
    assert (found.evict, again.evict) == ((), ())
    assert bench.reported("Partial")[:2] == ("True", "PartialGang")


REFUSED: dict[str, Any] = {"phase": "Failed", "finished": True, "on": "n1"}
STARTED: dict[str, Any] = {**RUNS, "created": 100.0, "bound_at": 110.0}


def refused(created: float = 100.0, at: float = 110.0) -> list[Any]:
    """Return a gang of three of which one was refused by its node, and the one in its place."""
    gone = pod("gang-2", group="gang", created=created, refused_at=at, **REFUSED)
    return [*pods(2, **STARTED), gone, pod("gang-3", group="gang", created=111.0)]


def test_a_gang_of_which_a_node_refused_a_pod_at_the_start_starts_again(bench: Bench) -> None:
    bench.observe(refused())
    bench.now += 59
    assert bench.report().evict == ()
    bench.now += 2
    assert {each.name for each in bench.report().evict} == {"gang-0", "gang-1"}


@pytest.mark.parametrize(
    "members",
    [refused(created=110.5), refused(at=99.0), lost_one()],
    ids=["in place of one that ran", "at an earlier start", "lost for another reason"],
)
def test_a_gang_that_was_whole_is_kept_when_one_is_refused(
    bench: Bench, members: list[Any]
) -> None:
    bench.observe(members)
    bench.now += 1000

    assert bench.report().evict == ()


def test_a_refused_pod_whose_replacement_has_a_node_costs_nothing(bench: Bench) -> None:
    bench.observe(refused(), pod("gang-3", group="gang", **STARTED))
    bench.now += 1000

    assert bench.report().evict == ()
    assert bench.reported("Partial")[0] != "True"


@pytest.mark.parametrize("by", ["setting", "annotation"])
def test_a_gang_of_which_a_pod_was_refused_is_kept_where_that_is_said(
    bench: Bench, by: str
) -> None:
    if by == "setting":
        bench.options = replace(OPTIONS, on_refused=OnPartial.KEEP)
    else:
        bench.apply(on_partial="keep")
    bench.observe(refused())
    bench.now += 1000

    assert bench.report().evict == ()


def test_an_unknown_policy_gets_an_event(bench: Bench) -> None:
    assert [n.key for n in bench.apply(on_partial="keep").notices if n.key] == []
    [notice] = [n for n in bench.apply(on_partial="kill").notices if n.key]

    assert (notice.reason, notice.warning) == ("UnknownPolicy", True)
    assert (
        notice.note
        == "scheduling.x-k8s.io/on-partial should be keep, evict or restart; keep counts"
    )


@pytest.mark.parametrize(
    ("asked", "default", "overrides", "counts"),
    [
        ("keep", "evict", "evict", "evict"),
        ("keep", "evict", "any", "keep"),
        ("evict", "keep", "evict", "evict"),
        ("evict", "keep", "any", "evict"),
        ("evict", "keep", "none", "keep"),
        ("restart", "keep", "evict", "restart"),
        ("restart", "keep", "none", "keep"),
        (None, "evict", "none", "evict"),
    ],
)
def test_what_a_group_may_ask_for_is_bounded_and_reported(
    bench: Bench, asked: str | None, default: str, overrides: Any, counts: str
) -> None:
    bench.on_partial, bench.overrides = OnPartial(default), overrides
    assert policy(asked, OnPartial(default), overrides) == counts
    reported = [n for n in bench.apply(on_partial=asked).notices if n.key]
    if asked in (None, counts):
        assert reported == []
    else:
        [notice] = reported
        assert notice.reason == "PolicyLimited"
        words = f"on-partial={asked} is not allowed by the settings; {counts} counts"
        assert notice.note.endswith(words)


@pytest.mark.parametrize("by", ["setting", "annotation"])
def test_a_gang_that_stays_partial_is_evicted_if_that_is_asked_for(bench: Bench, by: str) -> None:
    if by == "setting":
        bench.on_partial = OnPartial.EVICT
    else:
        bench.apply(on_partial="evict")
    assert (
        bench.observe(lost_one(), pod("gang-3", group="gang", terminating=True, **RUNS)).evict == ()
    )
    bench.now += 61
    found = bench.report()
    assert {each.name for each in found.evict} == {"gang-0", "gang-1"}
    assert [n.reason for n in found.notices] == ["PartialGang"]

    found = bench.observe(pods(2, terminating=True, **RUNS))
    assert (found.evict, bench.reported("Partial")[:2]) == ((), ("False", "NotScheduled"))


@pytest.mark.parametrize("generation", [1, 2])
def test_a_gang_that_lost_a_member_is_restarted_at_once_if_that_is_asked_for(
    bench: Bench, generation: int
) -> None:
    bench.apply(on_partial="restart", generation=generation)
    assert bench.observe(pods(2, **RUNS), pod("gang-2", group="gang")).evict == ()  # it starts
    bench.observe(pods(3, **RUNS))
    found = bench.observe(deleted("gang-2"))
    assert {each.name for each in found.evict} == {"gang-0", "gang-1"}
    assert bench.reported("Partial")[:2] == ("True", "Evicted")
    # It starts again: these are no members that it lost.
    assert bench.observe(pods(2, terminating=True, **RUNS)).evict == ()
    again = [pod(f"new-{n}", group="gang", created=NOW + 9, **RUNS) for n in range(2)]
    assert bench.observe(deleted("gang-0"), deleted("gang-1"), again).evict == ()


def test_a_gang_that_begins_in_the_place_of_one_that_was_whole_is_not_restarted(
    bench: Bench,
) -> None:
    bench.apply(on_partial="restart")
    bench.observe(pods(3, **RUNS))
    gone = [deleted(f"gang-{n}") for n in range(3)]
    again = [pod(f"new-{n}", group="gang", created=NOW + 9, **RUNS) for n in range(2)]
    assert bench.observe(gone, again).evict == ()


def test_members_that_are_done_are_not_lost(bench: Bench) -> None:
    bench.apply(on_partial="restart")
    bench.observe(pods(3, **RUNS))
    assert bench.observe(pod("gang-2", group="gang", **DONE)).evict == ()


NOT_EVICTED: dict[str, Any] = {
    "another scheduler gave them their nodes": [
        pods(2, scheduler="other", **RUNS),
        pod("gang-2", group="gang"),
    ],
    "no controller would make them anew": [
        pods(2, **{**RUNS, "owners": ()}),
        pod("gang-2", group="gang"),
    ],
}


@pytest.mark.parametrize("members", NOT_EVICTED.values(), ids=NOT_EVICTED)
def test_not_evicted_are_pods_of_which(bench: Bench, members: list[Any]) -> None:
    bench.on_partial = OnPartial.EVICT
    bench.observe(members)
    bench.now += 1000

    assert bench.report().evict == ()


def test_a_running_gang_that_is_to_grow_is_not_evicted(bench: Bench) -> None:
    bench.on_partial = OnPartial.EVICT
    bench.apply(generation=1)
    bench.observe(pods(3, **RUNS))
    bench.apply(min_member=5, generation=2)
    bench.observe(pod("gang-3", group="gang"), pod("gang-4", group="gang"))
    bench.now += 1000
    assert bench.report().evict == ()

    bench.observe(pods(5, **RUNS))
    bench.observe(deleted("gang-4"), pod("gang-5", group="gang"))
    bench.now += 1000
    assert bench.report().evict


LACKS = "2 of the 3 pods that it still needs have a node, and it has no others"


@pytest.mark.parametrize(
    ("generation", "meanwhile"), [(1, ("", "", "")), (2, ("False", "NotEnoughPods", LACKS))]
)
def test_a_gang_whose_lost_pod_is_replaced_later_may_be_partial(
    bench: Bench, generation: int, meanwhile: tuple[str, str, str]
) -> None:
    """A controller makes the pod in its place when the lost one is gone.

    That the gang was whole is to be remembered where its PodGroup was changed.
    """
    bench.on_partial = OnPartial.EVICT
    bench.apply(generation=generation)
    bench.observe(pods(3, **RUNS))
    for _ in range(2):
        bench.observe(deleted("gang-2"))
        assert bench.reported("Partial") == meanwhile
        assert bench.reported()[1] == "NotEnoughPods"
    bench.observe(pod("gang-3", group="gang"))
    assert bench.reported("Partial")[:2] == ("True", "PartiallyScheduled")
    bench.now += 1000
    assert bench.report().evict


def test_partial_says_whole_of_a_gang_that_is(bench: Bench) -> None:
    bench.apply(generation=2)
    bench.observe(pods(3, **RUNS))
    bench.observe(deleted("gang-2"))
    bench.apply(min_member=4, generation=3)
    assert bench.reported("Partial")[:2] == ("False", "NotScheduled")
    bench.observe(pods(4, **RUNS))
    assert bench.reported("Partial")[:2] == ("False", "Whole")


def test_a_gang_that_lost_a_pod_and_is_to_grow_is_not_partial(bench: Bench) -> None:
    bench.on_partial = OnPartial.EVICT
    bench.observe(pods(4, **RUNS))
    bench.observe(deleted("gang-2"), deleted("gang-3"))
    bench.apply(min_member=5, generation=2)
    bench.observe(*(pod(f"gang-{number}", group="gang") for number in range(4, 7)))
    bench.now += 1000
    assert bench.report().evict == ()


def test_a_running_gang_that_grows_at_once_is_not_evicted(bench: Bench) -> None:
    bench.on_partial = OnPartial.EVICT
    bench.observe(pods(3, **RUNS))
    observe(bench.cluster, pod("gang-3", group="gang"), pod("gang-4", group="gang"))
    bench.apply(min_member=5, generation=2)
    assert bench.reported("Partial") == ("", "", "")
    bench.now += 1000

    assert bench.report().evict == ()


def test_pods_that_have_ended_have_no_say_in_whether_a_gang_has_begun(bench: Bench) -> None:
    bench.on_partial = OnPartial.EVICT
    ended: dict[str, Any] = {"on": "n0", "phase": "Failed", "finished": True, "scheduler": "other"}
    bench.observe(lost_one(), pod("gang-3", group="gang", **ended))
    bench.now += 61

    assert bench.report().evict


def test_no_gang_is_evicted_that_this_process_has_not_watched(bench: Bench) -> None:
    bench.on_partial, bench.watched = OnPartial.EVICT, 0.0
    bench.observe(lost_one())
    bench.now += 1000
    assert bench.report().evict == ()
    bench.watched = 59.0
    assert bench.report().evict == ()
    bench.watched = 60.0
    assert bench.report().evict


def test_a_gang_that_merely_begins_is_not_partial_for_long(bench: Bench) -> None:
    bench.observe(lost_one())
    bench.now += 59
    assert bench.report().evict == ()
    bench.observe(pods(3, **RUNS))
    bench.now += 1000
    bench.observe(lost_one())
    assert bench.reported("Partial")[1] == "PartiallyScheduled"


NOT_PARTIAL = {
    "none has a node": pods(3),
    "no pod waits for a node": pods(2, **RUNS),
    "one that is through counts": [
        *pods(2, **RUNS),
        pod("gang-2", group="gang", **DONE),
        pod("gang-3", group="gang"),
    ],
    "one beyond the quorum waits": [*pods(3, **RUNS), pod("gang-3", group="gang")],
}


@pytest.mark.parametrize("members", NOT_PARTIAL.values(), ids=NOT_PARTIAL)
def test_not_partial_is_a_gang_of_which(bench: Bench, members: list[Any]) -> None:
    bench.observe(members)

    assert bench.reported("Partial") == ("", "", "")


GATE: dict[str, Any] = {"readiness_gate": True}


def ready_reported(found: Report) -> tuple[bool, set[str]]:
    assert found.readiness is not None
    return found.readiness.ready, {pod.name for pod in found.readiness.pods}


def test_a_gang_is_ready_when_enough_of_its_members_are(bench: Bench) -> None:
    few = [*pods(2, **RUNS, **GATE), pod("gang-2", group="gang", on="n0", **GATE)]
    assert ready_reported(bench.observe(few)) == (False, set())
    assert ready_reported(bench.observe(pods(3, **RUNS, **GATE))) == (
        True,
        {"gang-0", "gang-1", "gang-2"},
    )
    reported = pods(3, gang_ready=True, **RUNS, **GATE)
    assert ready_reported(bench.observe(reported)) == (True, set())
    fell = replace(reported[0], ready=False)
    assert ready_reported(bench.observe(fell)) == (False, {"gang-0", "gang-1", "gang-2"})


def test_only_pods_with_the_gate_get_the_condition_and_those_that_are_done_count(
    bench: Bench,
) -> None:
    members = [
        pod("gang-0", group="gang", **DONE),
        pod("gang-1", group="gang", **RUNS),
        pod("gang-2", group="gang", **RUNS, **GATE),
        pod("gang-3", group="gang", terminating=True, **RUNS, **GATE),
    ]
    assert ready_reported(bench.observe(members)) == (True, {"gang-2"})


def test_groups_of_one_name_in_two_namespaces(bench: Bench) -> None:
    bench.observe(replace(pods(1)[0], uid="far", namespace="far", group="far/gang"), pods(2))

    assert bench.stored.phase == "Pending"
    assert key("gang") == bench.group.key


KINDS: list[dict[str, Any]] = [
    {},
    {"gates": ("other",)},
    {"on": "n0"},
    RUNS,
    {**RUNS, "terminating": True},
    DONE,
    {**DONE, "phase": "Failed"},
]
GROUPS = st.lists(st.sampled_from(KINDS), max_size=6)


@given(history=st.lists(GROUPS, min_size=1, max_size=4), policy=st.sampled_from(OnPartial))
def test_a_new_process_reports_the_same_from_what_is_stored_and_nothing_again(
    history: list[list[dict[str, Any]]], policy: OnPartial
) -> None:
    first = Bench(Cluster())
    first.on_partial = policy
    for step, kinds in enumerate(history):
        members = [pod(f"p-{step}-{n}", group="gang", **kind) for n, kind in enumerate(kinds)]
        first.now += 100
        first.cluster.apply(ev.ObjectsListed(PodInfo, members))
        found = first.report()

        other = Bench(Cluster())
        other.on_partial, other.now = policy, first.now + 7
        other.stored = stored_and_read(found.status)
        again = other.observe(members)
        if found.status.condition("Partial") == again.status.condition("Partial"):
            assert (again.status, again.notices) == (found.status, ())


def stored_and_read(status: PodGroupStatusInfo) -> PodGroupStatusInfo:
    raw = json.dumps({"metadata": {}, "status": as_json(status)}).encode()
    return ours(Decoder().pod_group(raw, api_group="x").status)


def test_members_on_a_node_that_is_not_heard_of_are_not_ready(bench: Bench) -> None:
    gated = [replace(each, readiness_gate=True) for each in pods(3, **RUNS)]
    said = bench.observe(node("n0"), gated).readiness
    assert said is not None
    assert said.ready

    said = bench.observe(node("n0", ready=False)).readiness
    assert said is not None
    assert not said.ready


def test_a_node_that_is_not_known_is_not_broken(bench: Bench) -> None:
    gated = [replace(each, readiness_gate=True) for each in pods(3, **{**RUNS, "on": "news"})]

    assert ready_reported(bench.observe(gated)) == (True, {"gang-0", "gang-1", "gang-2"})


def test_a_finished_group_stays_scheduled_though_its_pods_are_gone(bench: Bench) -> None:
    ended = pods(3, phase="Succeeded", finished=True)
    bench.observe(ended)
    assert bench.reported()[:2] == ("True", "Scheduled")
    bench.observe(*(deleted(each.uid) for each in ended))

    assert bench.reported()[:2] == ("True", "Scheduled")
    assert bench.stored.phase == "Finished"


def test_a_group_that_may_claim_no_nodes_says_so_while_it_waits(bench: Bench) -> None:
    bench.observe(pods(3, 30), pod("busy", 90, on="n0"))
    observe(bench.cluster, ev.Claimed([Claim(bench.group.key, 0, {}, limit=2)]))
    found = bench.report()
    assert "no nodes are set aside for it" in bench.reported()[2]
    assert "may claim 2 nodes" in bench.reported()[2]
    [notice] = [each for each in found.notices if each.reason == "ClaimLimited"]
    assert "gang.claimNodesPercentage" in notice.note

    observe(bench.cluster, ev.Claimed([Claim(bench.group.key, 0, {"n0": {"cpu": 1}})]))
    found = bench.report()
    assert "set aside" not in bench.reported()[2]
    assert "ClaimLimited" not in {each.reason for each in found.notices}


def scheduled(holds: str = "False", phase: str = Phase.PRE_SCHEDULING) -> PodGroupStatusInfo:
    said = ConditionInfo(ConditionType.SCHEDULED, holds, "NotEnoughResources", "", transition=100)
    return PodGroupStatusInfo(phase=phase, conditions=(said,))


def test_a_group_waits_since_its_condition_says_so() -> None:
    members = [pod("a", created=50), pod("b", created=200)]
    assert waiting_of(scheduled(), members) == Waiting("NotEnoughResources", 100)


def test_a_group_waits_no_longer_than_its_oldest_pod() -> None:
    members = [pod("a", created=300), pod("b", created=200), pod("c", created=1, terminating=True)]
    assert waiting_of(scheduled(), members) == Waiting("NotEnoughResources", 200)


@pytest.mark.parametrize(
    "found", [scheduled("True"), scheduled(phase=Phase.FAILED), PodGroupStatusInfo()], ids=str
)
def test_a_group_that_is_scheduled_or_has_failed_does_not_wait(found: PodGroupStatusInfo) -> None:
    assert waiting_of(found, [pod("a")]) is None


def test_a_group_without_live_pods_does_not_wait() -> None:
    assert waiting_of(scheduled(), []) is None
    assert waiting_of(scheduled(), [pod("a", terminating=True)]) is None


A, B, C = pods(3)
HELD = ConditionInfo(
    "Permitted", "False", "WaitingForBind", "1/3 pods have a node and wait for the others", 50.0, 7
)
DENIED = ConditionInfo(
    "Permitted", "False", "RecentlyDenied", "failed recently, 1 of 3 got a node", 90.0, 7
)
QUORUM = ConditionInfo("Permitted", "True", "QuorumReached", "", 90.0, 7)
TIMEOUT = Refuse(Reason.SCHEDULE_TIMEOUT, "gang ns/gang: 1 of 3 got a node", deny=True)
ONE_WAITS = [A, B, C, ev.PodWaiting(A, "n0")]
WHOLE = [A, B, C, *(ev.PodBinding(each, "n0") for each in (A, B, C))]

WANT: dict[str, tuple[Sequence[Any], ConditionInfo | None, Refuse | None, ConditionInfo | None]] = {
    "nothing has happened": ([A, B, C], None, None, None),
    "planned, and no member waits yet": ([A, B, C, planned(gang_0="n0")], None, None, None),
    "one waits": (ONE_WAITS, None, None, replace(HELD, transition=90.0)),
    "the same again": (ONE_WAITS, HELD, None, None),
    "another waits: the time of the change is kept": (
        [*ONE_WAITS, ev.PodWaiting(B, "n0")],
        HELD,
        None,
        replace(HELD, message="2/3 pods have a node and wait for the others"),
    ),
    "denied": ([A, B, C], None, TIMEOUT, DENIED),
    "denied after a wait": ([A, B, C], HELD, TIMEOUT, replace(DENIED, transition=50.0)),
    "waiting again after a denial": (ONE_WAITS, DENIED, TIMEOUT, replace(HELD, transition=90.0)),
    "no member waits any more": (
        [A, B, C],
        HELD,
        None,
        ConditionInfo("Permitted", "Unknown", "NotTried", "no pod waits with a node now", 90.0, 7),
    ),
    "a denial has had its time": (
        [A, B, C],
        DENIED,
        None,
        ConditionInfo("Permitted", "Unknown", "NotTried", "no pod waits with a node now", 90.0, 7),
    ),
    "denied, and it has too few pods since": (
        [A, B],
        DENIED,
        TIMEOUT,
        ConditionInfo("Permitted", "Unknown", "NotTried", "no pod waits with a node now", 90.0, 7),
    ),
    "it started as it should": (WHOLE, None, None, None),
    "it started after a wait": (WHOLE, HELD, None, QUORUM),
    "that it started is known": (WHOLE, QUORUM, None, None),
}


@pytest.mark.parametrize(("there", "stored", "denied", "want"), WANT.values(), ids=WANT)
def test_what_the_extender_says(
    there: Sequence[Any],
    stored: ConditionInfo | None,
    denied: Refuse | None,
    want: ConditionInfo | None,
) -> None:
    status = PodGroupStatusInfo(conditions=(stored,) if stored else ())
    group = pod_group(generation=7, status=status)
    view = cluster_of(nodes(8), group, there).view()

    assert permitted_condition(key("gang"), view=view, denied=denied, now=90.0) == want


def test_nothing_is_said_of_a_group_without_a_pod_group() -> None:
    view = cluster_of(ONE_WAITS).view()

    assert permitted_condition(key("gang"), view=view, denied=TIMEOUT, now=90.0) is None


def test_a_replica_that_was_not_asked_withdraws_no_denial() -> None:
    status = PodGroupStatusInfo(conditions=(HELD,))
    view = cluster_of(nodes(8), pod_group(generation=7, status=status), A, B, C).view()

    assert permitted_condition(key("gang"), view=view, denied=None, now=90.0, asked=False) is None
    assert (
        permitted_condition(key("gang"), view=view, denied=None, now=90.0, asked=True) is not None
    )
