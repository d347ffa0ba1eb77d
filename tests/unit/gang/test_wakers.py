"""Each reason with which filter refuses a pod has something that wakes the pod."""

import re
from pathlib import Path

import pytest

from extender.api.reasons import Reason
from extender.gang.filter import DRY_ROUND
from extender.gang.wake import WOKEN_BY, Occasion, decide_group, deciding_room
from extender.state.cluster import events as ev
from extender.steps import at_once
from tests.makers import cluster_of, key, nodes, pod_group, pods

SOURCE = Path(__file__).parents[3] / "extender"
FILTERS = (
    *("gang/filter.py", "gang/gates.py", "gang/verdicts.py"),
    *("permit/filter.py", "permit/plans.py"),
)


@pytest.mark.parametrize("name", FILTERS)
def test_every_refusal_of_filter_is_in_the_table(name: str) -> None:
    text = (SOURCE / name).read_text()
    reasons = {Reason[found] for found in re.findall(r"Refuse\(\s*Reason\.([A-Z_]+)", text)}
    assert reasons, "the pattern finds no refusal any more"
    # A dry round wakes its members itself, and kube-scheduler sees new volumes.
    dry = {*DRY_ROUND, Reason.NOT_ENOUGH_VOLUMES} if name == "permit/plans.py" else set()
    assert reasons <= WOKEN_BY.keys() | dry


@pytest.mark.parametrize("reason", WOKEN_BY)
def test_a_pod_is_woken_on_the_occasions_of_its_reason(reason: Reason) -> None:
    members = pods(3)
    refused = [ev.PodRefused(member, reason) for member in members]
    view = cluster_of(pod_group(), nodes(8), *members, *refused).view()

    on_group = bool(decide_group(key("gang"), view=view).retry)
    on_room = bool(at_once(deciding_room(view=view)).retry)

    woken_by = WOKEN_BY[reason]
    assert (on_group, on_room) == (Occasion.GROUP in woken_by, Occasion.ROOM in woken_by)
