"""Filter's answer to a member, with the plan made at once and nothing remembered."""

from collections.abc import Sequence

from extender.gang import filter as gang_filter
from extender.gang.fit import Offer
from extender.gang.gates import Known
from extender.gang.verdicts import FilterVerdict, Refuse
from extender.state.cluster.records import PodInfo
from extender.state.cluster.view import ClusterView
from tests.at_once import make_plan


def decide(
    pod: PodInfo,
    group: str,
    sent: Sequence[str],
    *,
    view: ClusterView,
    denied: Refuse | None,
    permitted: bool = False,
) -> FilterVerdict:
    """Return where a member may go."""
    refusal = gang_filter.recently_denied(denied)
    known = Known(failed=lambda _: refusal)
    verdict = gang_filter.decide(pod, group, sent, view=view, known=known)
    if not isinstance(verdict, Offer):
        return verdict
    pod_group = view.pod_group(group)
    assert pod_group is not None
    found = make_plan(pod, pod_group, view=view, offer=verdict, permitted=permitted)
    return gang_filter.placed(found, pod, sent, view=view)
