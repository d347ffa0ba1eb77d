"""Finds the pods that have to go so that others fit; the rest may stay.

All of them count as gone first. If the others fit then, each unit of pods is put back in turn, the
one first that is to stay most, as long as the others still fit. A unit that is in the way nowhere
where they fit stays without a question. Of others several are put back at once: where that is
possible twice as many are tried next, and else half of them.

The packer is exact for equal pods, and then so is this: a unit goes only where no other answer lets
it stay together with all that stay before it, and no unit goes that could stay beside the rest.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from extender.fit.candidates import Placed
from extender.fit.packer import Found, Packer, Wanted
from extender.state.cluster.records import NodeInfo
from extender.steps import Steps, cut

Unit = Sequence[Placed]
"""Pods that go or stay together."""
_NONE: Final[Mapping[int, Collection[int]]] = {}


def fewest_to_leave(
    packer: Packer,
    wanted: Collection[Wanted],
    units: Sequence[Unit],
    *,
    along: Mapping[int, Collection[int]] = _NONE,
) -> Steps[list[int] | None]:
    """Return the numbers of the units that have to leave; None where not all pods fit even then.

    If a unit leaves, all units that go `along` leave too; these have higher numbers. The packer
    counts all units as gone, and is of no use after this.
    """
    if len(wanted) == 1:
        return (yield from _of_equal(packer, *wanted, units=units, along=along))
    found = yield from packer.fill(wanted)
    if found.missing:
        return None
    search = _Reprieve(packer, wanted, found)
    going = set[int]()
    at, batch, grows = 0, 1, True
    while at < len(units):
        yield
        if at in going or search.stays(units[at]):
            at += 1
            continue
        end = min(at + batch, len(units))
        some = [units[number] for number in range(at, end) if number not in going]
        if (yield from search.stay_together(some)):
            at, batch = end, 2 * batch if grows else max(1, batch // 2)
            grows = grows or batch == 1
        elif end - at > 1:
            batch, grows = (end - at) // 2, False
        else:
            going.update([at], along.get(at, ()))
            at, batch, grows = end, 1, True
    return sorted(going)


def _of_equal(
    packer: Packer,
    wanted: Wanted,
    *,
    units: Sequence[Unit],
    along: Mapping[int, Collection[int]],
) -> Steps[list[int] | None]:
    """Return the same for equal pods, from how many of them each node takes.

    To look for their places anew for each unit that has to leave would take minutes where thousands
    do.
    """
    pod, count = wanted
    spare, going = -count, set[int]()
    for some in cut([*packer.nodes.values()]):
        spare += packer.capacity(pod, some)
        yield
    if spare < 0:
        return None
    for number, unit in enumerate(units):
        yield
        if number in going:
            continue
        nodes = {each.node.name: each.node for each in unit}.values()
        before = packer.capacity(pod, nodes)
        packer.put(unit)
        lost = before - packer.capacity(pod, nodes)
        if lost > spare:
            packer.take_off(unit)
            going.update([number], along.get(number, ()))
        else:
            spare -= lost
    return sorted(going)


class _Reprieve:
    """The places of the pods while some units are put back and the others are gone."""

    def __init__(self, packer: Packer, wanted: Collection[Wanted], found: Found) -> None:
        self._packer, self._wanted = packer, wanted
        shapes = [pod.shape for pod, _ in wanted]
        self._asked = {name for each in shapes for name, amount in each.requests.items() if amount}
        self._shares_not = any(each.one_per_node for each in shapes)
        self._found = found
        self._used = _nodes(found)

    def stays(self, unit: Unit) -> bool:
        """Put a unit back if it is in the way of no pod; return whether it was put back."""
        both = [self._used[each.node.name] for each in unit if each.node.name in self._used]
        if both and self._shares_not and any(each.pod.shape.one_per_node for each in unit):
            return False
        self._packer.put(unit)
        if both and self._packer.is_overdrawn(both, self._asked):
            self._packer.take_off(unit)
            return False
        return True

    def stay_together(self, units: Sequence[Unit]) -> Steps[bool]:
        """Put units back if the pods then fit elsewhere, and return whether they do."""
        packer = self._packer
        packer.undo(self._found)
        for unit in units:
            packer.put(unit)
            yield
        found = yield from packer.fill(self._wanted)
        if not found.missing:
            self._found, self._used = found, _nodes(found)
            return True
        packer.undo(found)
        for unit in units:
            packer.take_off(unit)
            yield
        packer.redo(self._found)
        return False


def _nodes(found: Found) -> dict[str, NodeInfo]:
    return {each.node.name: each.node for each in found.placed}
