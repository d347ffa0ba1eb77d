"""Explains to users why a group is not scheduled yet, with numbers and with the groups ahead of it.

The answer is based on API objects alone, so that a process beside the extender can give it. The
extender itself writes what only it knows (which pods wait with a node for their siblings, which
group was just denied) to the group's Permitted condition.
"""

from collections.abc import Iterable
from itertools import islice
from typing import Final

from extender.api.reasons import Reason
from extender.fit.candidates import is_feasible
from extender.gang import gates
from extender.gang.fit import Fit, candidates, finds_no_node
from extender.gang.gates import cannot_start
from extender.gang.verdicts import GangOptions, Pending, Refuse, about, not_admitted
from extender.state.cluster.records import PodGroupInfo, PodInfo
from extender.state.cluster.view import ClusterView
from extender.steps import Steps, at_once

NAMED: Final = 3
"""The number of groups ahead that are named; the others are counted."""

_ROOM: Final = frozenset((Reason.NOT_ENOUGH_RESOURCES, Reason.NEVER_FITS, Reason.WAITING_FOR_TURN))


def decide(group: str, *, view: ClusterView, options: GangOptions) -> Pending:
    """Return the answer of `deciding`, however long it takes."""
    return at_once(deciding(group, view=view, options=options))


def deciding(group: str, *, view: ClusterView, options: GangOptions) -> Steps[Pending]:
    """Return what a group waits for; WaitingForBind if nothing keeps it from starting."""
    early = before_plan(group, view=view)
    pod_group = view.pod_group(group)
    if early is not None or pod_group is None:
        return early or Pending(Reason.POD_GROUP_NOT_FOUND, "")
    pods = candidates(None, group, view=view)
    found = yield from gates.plan_gang(pods[0], pod_group, view=view)
    return of_plan(found, pods, pod_group, view=view, options=options)


def before_plan(group: str, *, view: ClusterView) -> Pending | None:
    """Return what a group waits for besides room; None if only a plan can tell."""
    refusal = cannot_start(group, view=view)
    pod_group = view.pod_group(group)
    if refusal is not None or pod_group is None:
        reason = refusal.reason if refusal else Reason.POD_GROUP_NOT_FOUND
        text = _bare(refusal.message if refusal else "", group)
        lacks = reason is Reason.NOT_ENOUGH_PODS
        return Pending(reason, text + (why_no_more_pods(view.members(group)) if lacks else ""))
    leaving = len(view.tally(group).leaving)
    if leaving and leaving == len(view.tally(group).members):
        return Pending(Reason.NOT_ENOUGH_PODS, f"all {leaving} pods are being deleted")
    has_room = view.tally(group).committed >= view.quorum(pod_group)
    if not has_room and candidates(None, group, view=view):
        return None
    waiting = (pod for pod in view.members(group) if pod.node is None and not has_room)
    held = next(filter(None, map(view.awaits_admission, waiting)), None)
    if held is not None:
        return Pending(Reason.NOT_ADMITTED, not_admitted(held).message)
    return Pending(Reason.WAITING_FOR_BIND, "its pods are on their way")


def of_plan(
    found: Fit | Refuse,
    pods: list[PodInfo],
    pod_group: PodGroupInfo,
    *,
    view: ClusterView,
    options: GangOptions,
) -> Pending:
    """Return what a group waits for, given its plan or the refusal; `pods` could be placed."""
    if isinstance(found, Refuse):
        return _refused(found, pods[0], pod_group, view=view)
    if options.strict_order and next(view.queue.ahead_of(view.turn(pod_group)), None):
        text = "it would fit, but the order is strict" + _ahead(pod_group, view)
        return Pending(Reason.WAITING_FOR_TURN, text)
    text = f"{len(pods)} pods can start, {found.wanted} are needed and fit"
    text += _ahead(pod_group, view)
    return _stuck(pods, pod_group) or Pending(Reason.WAITING_FOR_BIND, text)


def _refused(
    refusal: Refuse, pod: PodInfo, pod_group: PodGroupInfo, *, view: ClusterView
) -> Pending:
    text = _bare(refusal.message, pod_group.key)
    if refusal.reason in _ROOM:
        usable = sum(is_feasible(pod.shape, node) for node in view.nodes.values())
        exist = len(view.tally(pod_group.key).members)
        text = f"{exist} pods exist, {text}, on {usable} usable of {len(view.nodes)} nodes"
    if refusal.reason is not Reason.NEVER_FITS:
        text += _ahead(pod_group, view)
    return Pending(refusal.reason, text)


def _stuck(pods: list[PodInfo], pod_group: PodGroupInfo) -> Pending | None:
    """Return that kube-scheduler finds no node for some pods, for a reason that no plan sees."""
    stuck = [pod for pod in pods if finds_no_node(pod, pod_group.key)]
    if not stuck:
        return None
    said = stuck[0].unschedulable or ""
    text = f"kube-scheduler finds no node for {len(stuck)} of its pods: {said}"
    return Pending(Reason.MEMBER_UNSCHEDULABLE, text)


def _ahead(pod_group: PodGroupInfo, view: ClusterView) -> str:
    """Return the groups that go first, as the end of a sentence; those of other namespaces unnamed.

    A user who may read the groups of one namespace may not be allowed to read the others.
    """
    turn = view.turn(pod_group)
    position = view.queue.position(turn)
    if not position:
        return ""
    own = pod_group.namespace + "/"
    first = islice(view.queue.ahead_of(turn), gates.AHEAD)
    named = [key for key in first if key.startswith(own)][:NAMED]
    if not named:
        return f"; ahead of it: {position} of other namespaces"
    rest = f" and {position - len(named)} more" if position > len(named) else ""
    return f"; ahead of it: {', '.join(named)}{rest}"


def _bare(message: str, group: str) -> str:
    return message.removeprefix(about(group))


# --- controllers that make a pod only when others are ready: their pods cannot be one gang -----


_WAYS: Final = {
    "leaderworkerset.sigs.k8s.io/name": (
        "a LeaderWorkerSet makes workers when their leader is ready, unless its startupPolicy is "
        "LeaderCreated; all its groups are one gang"
    ),
    "jobset.sigs.k8s.io/jobset-name": (
        "a JobSet makes pods when others are ready where it has dependsOn, or the "
        "startupPolicyOrder InOrder"
    ),
    "spark-role": "a Spark driver makes its executors when it runs",
    "statefulset.kubernetes.io/pod-name": (
        "a StatefulSet makes a pod when the one before is ready, unless its podManagementPolicy is "
        "Parallel"
    ),
}
"""The reasons why a controller may make no more pods, by a label of its pods; the first counts."""


def why_no_more_pods(pods: Iterable[PodInfo]) -> str:
    """Return why more pods of a gang may not come, as the end of a sentence."""
    labels = {label for pod in pods for label in pod.labels}
    return next((f"; {text}" for label, text in _WAYS.items() if label in labels), "")
