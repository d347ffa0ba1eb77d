"""Why a pod is where it is, as far as gangs have to do with it."""

from extender.api.gang_explanations import GroupExplanation, PodOutlook
from extender.api.reasons import Reason
from extender.explain.gang import explain_group
from extender.explain.gang_facts import GroupFacts
from extender.explain.gang_members import member
from extender.fit.candidates import is_feasible
from extender.gang.filter import beside_plans
from extender.gang.room import without_room
from extender.gang.verdicts import OneOf, Refuse, not_admitted
from extender.state.cluster.records import PodInfo
from extender.steps import Steps


def explain_pod(pod: PodInfo, facts: GroupFacts) -> Steps[PodOutlook]:
    """Return what there is to say of a pod, and of its group."""
    group = None
    if pod.group is not None:
        group = yield from explain_group(pod.group, facts)
    shown = member(pod, facts.view)
    reason, message = _why(pod, group, facts)
    return PodOutlook(
        namespace=pod.namespace,
        name=pod.name,
        state=shown.state,
        node=shown.node,
        priority=pod.priority,
        scheduler_name=pod.scheduler,
        gates=shown.gates,
        reason=reason,
        message=message,
        said=pod.unschedulable,
        group=group,
    )


def _why(pod: PodInfo, group: GroupExplanation | None, facts: GroupFacts) -> tuple[str | None, str]:
    view, held = facts.view, facts.view.awaits_admission(pod)
    if pod.finished or pod.node is not None:
        return None, "it has ended" if pod.finished else "it has a node"
    if held is not None:
        return Reason.NOT_ADMITTED, not_admitted(held).message
    if view.reservation(pod.uid) is not None:
        return None, "room is taken or kept for it"
    if pod.gates and not pod.is_gated_by_us:
        return Reason.GATED, "scheduling gates of others hold it back"
    return _member_of(group) if group is not None else _alone(pod, facts)


def _member_of(group: GroupExplanation) -> tuple[str | None, str]:
    if group.state in ("Started", "Binding"):
        return None, "its gang has started without it: it comes as a plain pod does"
    return group.reason, f"it waits with its gang: {group.message}"


def _alone(pod: PodInfo, facts: GroupFacts) -> tuple[str | None, str]:
    """Return what the extender says of a pod that is no member of a group."""
    view = facts.view
    usable = [name for name, node in view.nodes.items() if is_feasible(pod.shape, node)]
    full = set(without_room(pod.shape, usable, view))
    free = [name for name in usable if name not in full]
    start = f"it is no member of a gang; {len(free)} of {len(view.nodes)} nodes have room for it"
    if not free:
        return None, f"{start}, which kube-scheduler alone decides"
    verdict = beside_plans(pod, free, view=view)
    if isinstance(verdict, Refuse):
        return verdict.reason, f"{start}, and on all of them it is kept for gangs that go first"
    if isinstance(verdict, OneOf):
        kept = len(free) - len(verdict.nodes)
        return None, f"{start}, and on {kept} of them it is kept for gangs that go first"
    return None, f"{start}, and the extender keeps it from none of them"
