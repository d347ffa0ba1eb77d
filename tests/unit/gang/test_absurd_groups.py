"""PodGroups with absurd numbers: a clear refusal, and no other group is held up."""

import json
from typing import Any

import pytest

from extender.api.reasons import Reason
from extender.api.wellknown import GROUP_X
from extender.gang.gates import MOST_MIN_RESOURCES as MOST
from extender.gang.status import pending_of
from extender.gang.verdicts import GangOptions, OneNode, Refuse
from extender.kube.decode import DecodeError, Decoder
from extender.state.cluster.records import PodGroupInfo
from tests.makers import cluster_of, key, nodes, observe, pod_group, pods
from tests.unit.gang import filtered


def decoded(**spec: Any) -> PodGroupInfo:
    meta = {"name": "gang", "namespace": "ns", "uid": "u"}
    raw = {"metadata": meta, "spec": {"minMember": 2, **spec}}
    return Decoder().pod_group(json.dumps(raw).encode(), api_group=GROUP_X)


ABSURD: dict[str, tuple[dict[str, Any], Reason, str]] = {
    "more members than there can be": (
        {"minMember": 2**31},
        Reason.NOT_ENOUGH_PODS,
        "2 of the 2147483648 pods that it needs exist",
    ),
    "more than any cluster has": (
        {"minResources": {"cpu": "9E"}},
        Reason.NEVER_FITS,
        "its minResources are short of cpu 8999999999999999996, even with all nodes empty",
    ),
    "thousands of resources": (
        {"minResources": {f"example.com/r{n}": 1 for n in range(5000)}},
        Reason.NEVER_FITS,
        f"its minResources name 5000 resources, and may name {MOST}",
    ),
}


@pytest.mark.parametrize(("spec", "reason", "text"), ABSURD.values(), ids=ABSURD)
def test_it_is_refused_clearly_and_others_start(
    spec: dict[str, Any], reason: Reason, text: str
) -> None:
    cluster = cluster_of(nodes(2, 2), decoded(**spec), pods(2, 1))
    view = cluster.view()
    member, *_ = view.members(key("gang"))
    found = filtered.decide(member, key("gang"), ["n0", "n1"], view=view, denied=None)
    assert isinstance(found, Refuse)
    assert (found.reason, found.message) == (reason, f"gang ns/gang: {text}")
    reported = pending_of(key("gang"), view=view, options=GangOptions())
    assert reported.reason is reason
    assert text in reported.message

    observe(cluster, pod_group("other", 2), pods(2, 1, group="other"))
    other, *_ = view.members(key("other"))
    answer = filtered.decide(other, key("other"), ["n0", "n1"], view=view, denied=None)
    assert isinstance(answer, OneNode)


@pytest.mark.parametrize("seconds", [2**31, 2**62, -5, 0])
def test_a_time_out_is_bounded_by_the_settings(seconds: int) -> None:
    group, options = decoded(scheduleTimeoutSeconds=seconds), GangOptions()
    wanted = options.schedule_timeout if seconds <= 0 else options.max_schedule_timeout
    assert options.timeout(group.schedule_timeout) == wanted


def test_fewer_than_no_members_cannot_be_read() -> None:
    with pytest.raises(DecodeError, match="minMember"):
        decoded(minMember=-1)
