"""What pods may use of nodes on which kube-scheduler has not seen all pods.

Pods that are bound ahead are on their nodes, while kube-scheduler believes their room free until
its watch shows them. Meanwhile our books decide there, for every pod: whatever its priority, and
whether or not it is a member or one of a DaemonSet. What plans keep is judged elsewhere.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence

from extender.api.reasons import Reason
from extender.fit.conflicts import clashes
from extender.gang.verdicts import Refuse, about
from extender.resources.quantity import subtract
from extender.state.cluster.records import PodInfo
from extender.state.cluster.reservations import ReservationKind
from extender.state.cluster.shunned import may_name
from extender.state.cluster.view import ClusterView

NOT_SEEN = "kube-scheduler has not seen all pods on the nodes to choose from"


def usable(pod: PodInfo, sent: Sequence[str], *, view: ClusterView) -> Sequence[str] | Refuse:
    """Return the nodes on which a pod has room beside all pods that are there, of those sent.

    A node on which kube-scheduler has seen all pods is one of them, unread. But a pod whose own
    terms may be about pods that it has not seen is refused: they may reach beyond a node.
    """
    if not view.unseen.exist:
        return sent
    if (pod.shape.shuns or pod.shape.seeks) and _is_about_unseen(pod, view):
        return _not_seen(pod)
    judged = sent if view.unseen.everywhere else view.unseen.nodes.keys() & sent
    without = set(_without_room(pod, judged, view)) if judged else judged
    if not without:
        return sent
    return [name for name in sent if name not in without] or _not_seen(pod)


def has_room_without(
    pod: PodInfo, node: str, victims: Collection[str], *, view: ClusterView
) -> bool:
    """Return whether a pod may have room on a node once victims have left it, by their UIDs.

    True where kube-scheduler has seen all pods that are there.
    """
    known = view.nodes.get(node)
    if known is None or not (view.unseen.everywhere or node in view.unseen.nodes):
        return True
    left = dict(view.used(node))
    for uid in victims:
        if uid in view.pods_on(node):
            subtract(left, view.pods[uid].shape.requests)
    whole = known.allocatable
    return all(
        left.get(resource, 0) + amount <= whole[resource]
        for resource, amount in pod.shape.requests.items()
        if amount and resource in whole
    )


def _not_seen(pod: PodInfo) -> Refuse:
    prefix = about(pod.group) if pod.group else ""
    return Refuse(Reason.NOT_SEEN_YET, prefix + NOT_SEEN)


def _is_about_unseen(pod: PodInfo, view: ClusterView) -> bool:
    """Return whether affinity between pods, or a spread constraint, may be about unseen pods.

    Where pods may be unseen that are not known, it is about every gang in a namespace.
    """
    terms, there = (*pod.shape.shuns, *pod.shape.seeks), pod.namespace
    if view.unseen.everywhere:
        namespaces = {group.split("/")[0] for group in view.groups if view.tally(group).bound}
        if any(term.covers(name, own=there) for term in terms for name in namespaces):
            return True
    return any(each is None or may_name(terms, there, each) for each in view.unseen.patterns)


def _without_room(pod: PodInfo, names: Iterable[str], view: ClusterView) -> Iterator[str]:
    """Yield the nodes on which pods leave too little of what they have, or take a host port.

    What a node does not have at all is not judged: no pod that is bound ahead uses it.
    """
    held = view.reservation(pod.uid)
    own = held.node if held is not None and held.kind is ReservationKind.WAITING else None
    nodes, left_on, ports = view.nodes, view.left.all(), bool(pod.shape.host_ports)
    asked = [(resource, amount) for resource, amount in pod.shape.requests.items() if amount]
    for name in names:
        left = left_on.get(name)
        if left is None or name == own:  # its own room is taken for itself
            continue
        for resource, amount in asked:
            if left.get(resource, amount) < amount and resource in nodes[name].allocatable:
                yield name
                break
        else:
            if ports and _port_taken(pod, name, view):
                yield name


def _port_taken(pod: PodInfo, node: str, view: ClusterView) -> bool:
    """Return whether a pod on a node, or one that is being bound to it, has one of its ports."""
    planned, ports = view.planned_on(node), pod.shape.host_ports
    there = (each for each in view.shunning(node) if each.uid != pod.uid)
    return any(clashes(o.shape.host_ports, ports) for o in there if o.uid not in planned)
