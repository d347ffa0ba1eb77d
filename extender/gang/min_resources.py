"""Whether the nodes that a group could use have its minResources free, taken together."""

from collections.abc import Mapping
from typing import Final

from extender.gang.fit import packer_of
from extender.gang.room import Room
from extender.resources.quantity import PODS, Resources, add, show
from extender.state.cluster.records import PodGroupInfo
from extender.state.cluster.view import ClusterView
from extender.steps import Steps

MOST: Final = 64
"""How many resources minResources may name; a node has fewer than that."""


def shortage(
    pod_group: PodGroupInfo, *, view: ClusterView, room: Room = Room.FREE
) -> Steps[Resources]:
    """Return, by name, how much is missing; nothing where minResources are met or not set.

    Free room and what the group's own pods have already are added up. Nodes that none of its pods
    may use are left out. An overcommitted node counts as full, not as a debt. Members that are done
    have their part behind them.
    """
    wanted = {name: n for name, n in pod_group.min_resources.items() if name != PODS}
    quorum = view.quorum(pod_group)
    if quorum < pod_group.min_member:
        wanted = _of_the_rest(wanted, pod_group, quorum, view=view)
    if not wanted:
        return {}
    group = pod_group.key
    shapes = {member.shape for member in view.members(group)}
    packer = packer_of(group, view=view, room=room)
    there = yield from packer.total(shapes, wanted)
    if room is not Room.EMPTY:
        for member in view.members(group):
            if member.node is not None or view.reservation(member.uid) is not None:
                add(there, {name: member.shape.requests.get(name, 0) for name in wanted})
    return {name: n - there.get(name, 0) for name, n in wanted.items() if n > there.get(name, 0)}


def _of_the_rest(
    wanted: Mapping[str, int], pod_group: PodGroupInfo, quorum: int, *, view: ClusterView
) -> Resources:
    """Return what of minResources is for members that are not done, which ask for no more."""
    asked: Resources = {}
    for member in view.members(pod_group.key):
        add(asked, member.shape.requests)
    share = {name: n * quorum // pod_group.min_member for name, n in wanted.items()}
    return {name: min(n, asked.get(name, 0)) for name, n in share.items()}


def sentence(short: Mapping[str, int]) -> str:
    """Return a shortage as text."""
    return ", ".join(f"{name} {show(name, value)}" for name, value in sorted(short.items()))
