"""Pods that kube-scheduler is binding as far as we know: filter has answered them nodes.

Until the bind request comes, state shows no more than a plan, if there is one. kube-scheduler has
assumed the pod on a node all the same. The room of a member's plan is not to be exchanged with a
sibling's, and no pod is bound ahead of kube-scheduler to where it may have assumed another one.
"""

from collections.abc import Iterator
from itertools import takewhile
from typing import Final, NamedTuple

from extender.runtime.clock import Clock

IN_HAND_SECONDS: Final = 10.0
"""How long a bind request may take to come; most come within milliseconds."""
COMING_SECONDS: Final = 1.0
"""How long it counts as one that comes."""
ASSUMED_SECONDS: Final = 900.0
"""How long kube-scheduler may hold a pod: until its volumes are there, ten minutes as a rule."""
_MOST: Final = 10_000
"""Of more pods the first are forgotten: those of a scheduler that binds without asking."""


class _FilterAnswer(NamedTuple):
    at: float
    node: str | None


class InHand:
    """UIDs of such pods."""

    def __init__(self, clock: Clock) -> None:
        self._now = clock.monotonic
        self._answers: dict[str, _FilterAnswer] = {}
        """By UID, the first one first."""
        self._on: dict[str | None, dict[str, None]] = {}
        """UIDs by node."""

    def __contains__(self, uid: object) -> bool:
        """Return whether filter answered a pod just now."""
        found = self._answers.get(uid) if isinstance(uid, str) else None
        return found is not None and found.at + IN_HAND_SECONDS > self._now()

    @property
    def coming(self) -> frozenset[str]:
        """Return those that were answered one node, and whose bind request is due."""
        since = self._now() - COMING_SECONDS
        latest = takewhile(lambda each: each[1].at > since, reversed(self._answers.items()))
        return frozenset(uid for uid, answer in latest if answer.node is not None)

    def assumed_on(self, node: str | None) -> Iterator[str]:
        """Yield the pods that filter answered a node; with None those to which it left a choice."""
        late = self._now() - ASSUMED_SECONDS
        return (uid for uid in self._on.get(node, ()) if self._answers[uid].at > late)

    def begin(self, uid: str, node: str | None) -> None:
        """Add a pod that filter has just answered a node, or left the choice."""
        now, answers = self._now(), self._answers
        self.end(uid)
        answers[uid] = _FilterAnswer(now, node)
        self._on.setdefault(node, {})[uid] = None
        first = next(iter(answers))
        if answers[first].at + ASSUMED_SECONDS <= now or len(answers) > _MOST:
            self.end(first)  # one for each that begins keeps them few

    def end(self, uid: str) -> None:
        """Remove a pod: its bind request has come, or kube-scheduler has let go of it."""
        answer = self._answers.pop(uid, None)
        if answer is not None:
            there = self._on[answer.node]
            del there[uid]
            if not there:
                del self._on[answer.node]
