"""The pods and schedulers that requests tell us about before any watch does.

kube-scheduler assumes a pod that passed filter on a node until it sends the bind request. The
cluster's state shows no more than the plan of that pod, if there is one. So the pod does not swap
rooms with a sibling, and no pod is bound ahead to a node where kube-scheduler may assume it.
"""

from collections.abc import Iterator
from itertools import takewhile
from typing import NamedTuple

from extender.permit.timing import ASSUMED_SECONDS, BACK_OFF_SECONDS, LOOK_SECONDS, REMEMBERED
from extender.runtime.clock import Clock
from extender.state.cluster.records import PodInfo


class _FilterAnswer(NamedTuple):
    at: float
    node: str | None


class AwaitingBind:
    """The pods that passed filter and whose bind request we expect, by UID."""

    def __init__(self, clock: Clock) -> None:
        self._now = clock.monotonic
        self._answers: dict[str, _FilterAnswer] = {}
        """The answers by UID, the oldest first."""
        self._on: dict[str | None, dict[str, None]] = {}
        """UIDs by node."""

    def __contains__(self, uid: object) -> bool:
        """Return whether a pod passed filter a moment ago."""
        found = self._answers.get(uid) if isinstance(uid, str) else None
        return found is not None and found.at + BACK_OFF_SECONDS > self._now()

    @property
    def coming(self) -> frozenset[str]:
        """Return the pods that were given one node, and whose bind request is due."""
        since = self._now() - LOOK_SECONDS
        latest = takewhile(lambda each: each[1].at > since, reversed(self._answers.items()))
        return frozenset(uid for uid, answer in latest if answer.node is not None)

    def assumed_on(self, node: str | None) -> Iterator[str]:
        """Yield the pods that were given this node; for None, those that were given a choice."""
        late = self._now() - ASSUMED_SECONDS
        return (uid for uid in self._on.get(node, ()) if self._answers[uid].at > late)

    def begin(self, uid: str, node: str | None) -> None:
        """Add a pod that filter has just given one node, or a choice (None)."""
        now, answers = self._now(), self._answers
        self.end(uid)
        answers[uid] = _FilterAnswer(now, node)
        self._on.setdefault(node, {})[uid] = None
        first = next(iter(answers))
        if answers[first].at + ASSUMED_SECONDS <= now or len(answers) > REMEMBERED:
            self.end(first)  # one is dropped for each that is added

    def end(self, uid: str) -> None:
        """Remove a pod: its bind request has come, or kube-scheduler has given it up."""
        answer = self._answers.pop(uid, None)
        if answer is not None:
            there = self._on[answer.node]
            del there[uid]
            if not there:
                del self._on[answer.node]


class KnownSchedulers:
    """The names of the schedulers known to call us for every pod, in filter and in bind.

    An entry of `extenders` with `managedResources` is asked only about pods that name one of the
    listed extended resources. So a scheduler that asks about a pod without any of them asks about
    all pods. Filter and bind may be in different entries.
    """

    def __init__(self) -> None:
        self._filter: set[str] = set()
        self._bind: set[str] = set()

    def __contains__(self, scheduler: object) -> bool:
        return scheduler in self._filter and scheduler in self._bind

    def filtered(self, pod: PodInfo) -> None:
        """Count a filter request."""
        if not pod.shape.extended:
            self._filter.add(pod.scheduler)

    def bound(self, pod: PodInfo) -> None:
        """Count a bind request."""
        if not pod.shape.extended:
            self._bind.add(pod.scheduler)
