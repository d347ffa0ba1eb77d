"""The readiness gate of gangs: no member takes requests before enough of them could.

Only pods that name the gate in their spec wait for it, and only those are told.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from extender.api.wellknown import Told
from extender.state.pods import PodInfo


@dataclass(frozen=True, slots=True)
class Readiness:
    """What is to be said to which pods."""

    ready: bool
    message: str
    tell: tuple[PodInfo, ...] = ()

    @property
    def reason(self) -> str:
        """Why."""
        return Told.GANG_READY if self.ready else Told.GANG_NOT_READY


def decide(
    pods: Iterable[PodInfo], *, need: int, done: int, broken: Collection[str] = ()
) -> Readiness:
    """Return what the members with the gate are to be told that they have not been told yet.

    `done` members are through with their work; they count as ready, as they do towards quorum. A
    member on one of the `broken` nodes does not: its kubelet, which would say so, is not heard of.
    """
    live = [pod for pod in pods if not pod.finished and not pod.terminating]
    able = sum(pod.ready and pod.node not in broken for pod in live)
    ready = able + done >= need
    return Readiness(
        ready=ready,
        message=f"{able} of the {max(0, need - done)} pods that it needs are ready",
        tell=tuple(pod for pod in live if pod.readiness_gate and pod.gang_ready != ready),
    )
