"""The readiness gate of gangs: no member takes requests before enough of them could.

Only pods that name the gate in their spec wait for it, and only their condition is set.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from extender.api.reasons import EventReason
from extender.state.cluster.records import PodInfo


@dataclass(frozen=True, slots=True)
class Readiness:
    """The condition, and the pods on which it is to be set."""

    ready: bool
    message: str
    pods: tuple[PodInfo, ...] = ()

    @property
    def reason(self) -> str:
        """The reason of the condition."""
        return EventReason.GANG_READY if self.ready else EventReason.GANG_NOT_READY


def decide(
    pods: Iterable[PodInfo], *, need: int, done: int, broken: Collection[str] = ()
) -> Readiness:
    """Return the condition of the members with the gate, and those on which it is not set yet.

    `done` members are through with their work; they count as ready, as they do towards quorum. A
    member on one of the `broken` nodes does not: its kubelet, which reports readiness, does not
    answer.
    """
    live = [pod for pod in pods if not pod.finished and not pod.terminating]
    able = sum(pod.ready and pod.node not in broken for pod in live)
    ready = able + done >= need
    return Readiness(
        ready=ready,
        message=f"{able} of the {max(0, need - done)} pods that it needs are ready",
        pods=tuple(pod for pod in live if pod.readiness_gate and pod.gang_ready != ready),
    )
