"""The disruption budget of a group, and the groups that have none."""

from typing import Any

import pytest

from extender.api.core_v1 import LabelSelector
from extender.api.wellknown import GROUP_NATIVE, GROUP_SIGS, POD_GROUP_LABEL, POD_GROUP_LABEL_SIGS
from extender.gang.budgets import AFTER, BudgetStep, decide
from extender.state.cluster import events as ev
from extender.state.cluster.records import (
    BudgetInfo,
    ConditionInfo,
    NominatedRoom,
    PodGroupStatusInfo,
    PreemptedRoom,
    VictimInfo,
)
from tests.makers import NAMESPACE, cluster_of, node, pod_group, pods, requests

NOW = 1000.0
LABELS = {POD_GROUP_LABEL: "gang", "app": "a"}
RUNS: dict[str, Any] = {"on": "n0", "phase": "Running", "labels": LABELS}
MEMBERS = pods(3, **RUNS)
OURS = BudgetInfo(
    NAMESPACE,
    "gang-gang",
    LabelSelector(match_labels={POD_GROUP_LABEL: "gang"}),
    gang="gang",
    gang_uid="u",
    need=3,
)
LESS = BudgetInfo(NAMESPACE, "gang-gang", OURS.selector, gang="gang", gang_uid="u", need=2)
OLD = BudgetInfo(NAMESPACE, "gang-gang", OURS.selector, gang="gang", gang_uid="before", need=3)
OTHERS = BudgetInfo(NAMESPACE, "mine", LabelSelector(match_labels={"app": "a"}))
OF_OTHER_PODS = BudgetInfo(NAMESPACE, "mine", LabelSelector(match_labels={"app": "b"}))
NAMESAKE = BudgetInfo(NAMESPACE, "gang-gang", LabelSelector(match_labels={"app": "b"}))
SIGS = BudgetInfo(
    NAMESPACE,
    "gang-gang",
    LabelSelector(match_labels={POD_GROUP_LABEL_SIGS: "gang"}),
    gang="gang",
    gang_uid="u",
    need=3,
)


def status(phase: str = "Running", runs: str = "True", seconds: float = AFTER) -> Any:
    said = ConditionInfo("Running", runs, "Running", "", NOW - seconds)
    return PodGroupStatusInfo(phase=phase, conditions=(said,))


LATER = BudgetStep(look_again=60.0)
NOTHING = BudgetStep()
CASES: dict[str, tuple[list[Any], dict[str, Any], Any, BudgetStep]] = {
    "it runs": ([MEMBERS], {}, status(), BudgetStep(apply=OURS)),
    "it has it": ([MEMBERS, OURS], {}, status(), NOTHING),
    "it has run for a moment": ([MEMBERS], {}, status(seconds=2), BudgetStep(look_again=AFTER - 2)),
    "it has not started": ([MEMBERS], {}, status("Scheduled", "False"), NOTHING),
    "it lost a member": ([pods(2, **RUNS), OURS], {}, status("Pending", "False"), NOTHING),
    "minMember changed": ([MEMBERS, LESS], {}, status(), BudgetStep(apply=OURS)),
    "it was made anew": ([MEMBERS, OLD], {}, status(), BudgetStep(apply=OURS)),
    "it has ended": ([OURS], {}, status("Finished", "False"), BudgetStep(delete=OURS)),
    "it has failed": ([OURS], {}, status("Failed", "False"), BudgetStep(delete=OURS)),
    "a pod of it goes on": ([MEMBERS, OURS], {}, status("Failed", "False"), NOTHING),
    "it never began": ([], {}, status("Pending", "False"), NOTHING),
    "another covers it": ([MEMBERS, OTHERS], {}, status(), LATER),
    "another came": (
        [MEMBERS, OURS, OTHERS],
        {},
        status(),
        BudgetStep(delete=OURS, look_again=60.0),
    ),
    "others are covered": ([MEMBERS, OF_OTHER_PODS], {}, status(), BudgetStep(apply=OURS)),
    "someone has its name": ([MEMBERS, NAMESAKE], {}, status(), LATER),
    "not wanted": (
        [MEMBERS, OURS],
        {"disruption_budget": "false"},
        status(),
        BudgetStep(delete=OURS),
    ),
    "wanted": ([MEMBERS], {"disruption_budget": "true"}, status(), BudgetStep(apply=OURS)),
    "an unknown word": ([MEMBERS], {"disruption_budget": "no"}, status(), BudgetStep(apply=OURS)),
    "no gang": ([MEMBERS], {"min_member": 1}, status(), NOTHING),
    "a native one": ([MEMBERS], {"api_group": GROUP_NATIVE}, status(), NOTHING),
    "an older one": ([MEMBERS], {"api_group": GROUP_SIGS}, status(), BudgetStep(apply=SIGS)),
}


@pytest.mark.parametrize(("facts", "more", "said", "want"), CASES.values(), ids=CASES)
def test_what_becomes_of_the_budget(
    facts: list[Any], more: dict[str, Any], said: Any, want: BudgetStep
) -> None:
    group = pod_group(uid="u", **more)
    view = cluster_of(node("n0", 100), group, facts).view()
    assert decide(group, said, view=view, now=NOW, enabled=True) == want


def test_a_setting_takes_them_all_back() -> None:
    group = pod_group(uid="u")
    view = cluster_of(node("n0", 100), group, MEMBERS, OURS).view()
    step = decide(group, status(), view=view, now=NOW, enabled=False)
    assert step == BudgetStep(delete=OURS)


def test_a_long_name_is_that_of_the_uid() -> None:
    group = pod_group("g" * 250, uid="u")
    view = cluster_of(node("n0", 100), group).view()
    step = decide(group, status(), view=view, now=NOW, enabled=True)
    assert step.apply is not None
    assert step.apply.name == "gang-u"


def test_a_victim_gets_none() -> None:
    group = pod_group(uid="u")
    cluster = cluster_of(node("n0", 100), group, MEMBERS, pod_group("high"))
    victims = (VictimInfo("PodGroup", "u", tuple(each.uid for each in MEMBERS)),)
    rooms = {"n0": NominatedRoom(("high-0",), requests(1))}
    cluster.apply(ev.Nominated("ns/high", PreemptedRoom(NOW, rooms, victims)))
    step = decide(group, status(), view=cluster.view(), now=NOW, enabled=True)
    assert step == BudgetStep(look_again=AFTER)


def test_budgets_of_gangs_are_no_budgets_of_others() -> None:
    cluster = cluster_of(OURS, OTHERS)
    view = cluster.view()
    assert list(view.budgets(NAMESPACE)) == [OTHERS]
    changed = cluster.apply(ev.ObjectApplied(BudgetInfo(NAMESPACE, "more", OTHERS.selector)))
    assert changed.statuses == {"ns/gang"}
    assert not cluster.apply(
        ev.ObjectApplied(BudgetInfo(NAMESPACE, "more", OTHERS.selector, 2))
    ).statuses

    cluster.apply(ev.ObjectApplied(BudgetInfo(NAMESPACE, OURS.name, OURS.selector)))
    assert view.gang_budget(NAMESPACE, OURS.name) is None
    assert len(view.budgets(NAMESPACE)) == 3
    cluster.apply(ev.ObjectApplied(OURS))
    assert view.budget(NAMESPACE, OURS.name) == OURS
    assert len(view.budgets(NAMESPACE)) == 2
    gone = cluster.apply(ev.ObjectDeleted(BudgetInfo, OURS.key))
    assert gone.statuses == {"ns/gang"}
    assert view.budget(NAMESPACE, OURS.name) is None
