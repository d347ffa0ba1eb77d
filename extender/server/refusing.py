"""How a refusal is put so that kube-scheduler reads and writes as little as can be.

kube-scheduler composes the text of a pod's condition from what the extender says of nodes, and from
what its own filters say of those that it came across: on large clusters that is another number of
nodes each time. It writes each new text to the pod, with an Event, and tries a pod that the
extender refused and that was written to once more. So pods that wait would be tried without end
(decision 69).
"""

from collections.abc import Iterable
from itertools import islice
from typing import Final

import msgspec

from extender.state.cluster.view import ClusterView

LIKEWISE: Final = "likewise"
"""What is said of all nodes but the first."""

_encode = msgspec.json.Encoder().encode


def said_once(names: Iterable[str], text: str) -> dict[str, str]:
    """Return a text for the first of the nodes that it is about; nothing where there are none.

    What is in no list counts as unresolvable, and has no text. One for each of some hundred nodes
    would take kube-scheduler's loop half a millisecond to read.
    """
    return dict.fromkeys(islice(names, 1), text)


class AllNodes:
    """Refuses every node of the cluster, those too that kube-scheduler's own filters rejected.

    What is said of these takes the place of what the filters said. So the text is the same at each
    attempt, and kube-scheduler looks for nothing to preempt.
    """

    def __init__(self, view: ClusterView) -> None:
        self._view = view
        self._version = -1
        self._first = ""
        self._others = b""
        """The nodes but for the first one, encoded: they are the same until nodes come or go."""

    @property
    def are_known(self) -> bool:
        """Whether there are any."""
        return bool(self._view.nodes)

    def refused(self, text: str) -> msgspec.Raw:
        """Return a text for the first node, and for the others that it is the same with them.

        There must be one.
        """
        if self._version != self._view.nodes_version:
            self._read()
        return msgspec.Raw(b"{%b:%b%b}" % (_encode(self._first), _encode(text), self._others))

    def _read(self) -> None:
        self._version = self._view.nodes_version
        names = iter(sorted(self._view.nodes))
        self._first = next(names)
        rest = _encode(dict.fromkeys(names, LIKEWISE))[1:-1]
        self._others = b"," + rest if rest else b""
