"""Why a group is not scheduled yet, for people who ask: with numbers, and with who is ahead.

The answer is read from the API's facts alone, so that a process beside the extender can give it.
What only the extender knows (who waits with a node for the others, who has just been denied) it
says itself, in the group's Permitted condition.
"""

from itertools import islice
from typing import Final

from extender.api.wellknown import Reason
from extender.gang import plan
from extender.gang.feasibility import is_feasible
from extender.gang.options import Options
from extender.gang.pre_filter import check_group
from extender.gang.verdicts import Refuse, about
from extender.gang.waits_for import Pending
from extender.state.pod_groups import PodGroupInfo
from extender.state.pods import PodInfo
from extender.state.snapshot import Snapshot
from extender.steps import Steps, at_once

NAMED: Final = 3
"""How many of those ahead are named; the others are counted."""

_ROOM: Final = frozenset((Reason.NOT_ENOUGH_RESOURCES, Reason.NEVER_FITS, Reason.WAITING_FOR_TURN))
_LONGEST: Final = 300
_SEARCHED: Final = 50


def decide(group: str, *, snapshot: Snapshot, options: Options) -> Pending:
    """Return the answer of `deciding`, however long it takes."""
    return at_once(deciding(group, snapshot=snapshot, options=options))


def deciding(group: str, *, snapshot: Snapshot, options: Options) -> Steps[Pending]:
    """Return what a group waits for; WaitingForBind where nothing speaks against it."""
    refusal = check_group(group, snapshot=snapshot)
    pod_group = snapshot.pod_group(group)
    if refusal is not None or pod_group is None:
        reason = refusal.reason if refusal else Reason.POD_GROUP_NOT_FOUND
        return Pending(reason, _bare(refusal.message if refusal else "", group))
    pods = plan.candidates(None, group, snapshot=snapshot)
    leaving = len(snapshot.tally(group).leaving)
    if leaving and leaving == len(snapshot.tally(group).members):
        return Pending(Reason.NOT_ENOUGH_PODS, f"all {leaving} pods are being deleted")
    if not pods or snapshot.tally(group).committed >= snapshot.quorum(pod_group):
        return Pending(Reason.WAITING_FOR_BIND, "its pods are on their way")
    found = yield from plan.making(pods[0], pod_group, snapshot=snapshot)
    if isinstance(found, Refuse):
        return _refused(found, pods[0], pod_group, snapshot=snapshot)
    if options.strict_order and next(snapshot.queue.ahead_of(snapshot.turn(pod_group)), None):
        text = "it would fit, but the order is strict" + _ahead(pod_group, snapshot)
        return Pending(Reason.WAITING_FOR_TURN, text)
    text = f"{len(pods)} pods can start, {found.wanted} are needed and fit"
    text += _ahead(pod_group, snapshot)
    return _stuck(pods, pod_group) or Pending(Reason.WAITING_FOR_BIND, text)


def _refused(
    refusal: Refuse, pod: PodInfo, pod_group: PodGroupInfo, *, snapshot: Snapshot
) -> Pending:
    text = _bare(refusal.message, pod_group.key)
    if refusal.reason in _ROOM:
        usable = sum(is_feasible(pod.shape, node) for node in snapshot.nodes.values())
        exist = len(snapshot.tally(pod_group.key).members)
        text = f"{exist} pods exist, {text}, on {usable} usable of {len(snapshot.nodes)} nodes"
    if refusal.reason is not Reason.NEVER_FITS:
        text += _ahead(pod_group, snapshot)
    return Pending(refusal.reason, text)


def _stuck(pods: list[PodInfo], pod_group: PodGroupInfo) -> Pending | None:
    """Return that kube-scheduler finds no node for some, for a reason that no plan sees."""
    stuck = [pod for pod in pods if plan.finds_no_node(pod, pod_group.key)]
    if not stuck:
        return None
    said = (stuck[0].unschedulable or "")[:_LONGEST]
    text = f"kube-scheduler finds no node for {len(stuck)} of its pods: {said}"
    return Pending(Reason.MEMBER_UNSCHEDULABLE, text)


def _ahead(pod_group: PodGroupInfo, snapshot: Snapshot) -> str:
    """Return who goes first, as the end of a sentence; those of other namespaces without a name.

    Who may read one namespace's groups may not read the others'.
    """
    turn = snapshot.turn(pod_group)
    position = snapshot.queue.position(turn)
    if not position:
        return ""
    own = pod_group.namespace + "/"
    first = islice(snapshot.queue.ahead_of(turn), _SEARCHED)
    named = [key for key in first if key.startswith(own)][:NAMED]
    if not named:
        return f"; ahead of it: {position} of other namespaces"
    rest = f" and {position - len(named)} more" if position > len(named) else ""
    return f"; ahead of it: {', '.join(named)}{rest}"


def _bare(message: str, group: str) -> str:
    return message.removeprefix(about(group))
