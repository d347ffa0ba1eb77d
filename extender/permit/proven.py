"""Of which schedulers it is known that every pod of theirs passes our filter and our bind.

An entry of `extenders` with `managedResources` is asked only about pods that name one of these
resources, which are extended ones. So a scheduler that asks about a pod that names none asks about
all pods. Filter and bind may be in different entries.
"""

from extender.state.cluster.records import PodInfo


class Proven:
    """Names of such schedulers."""

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
