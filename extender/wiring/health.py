"""The watches of a process: whether they are filled, and whether they are fresh."""

from collections.abc import Iterable
from typing import Any

from prometheus_client import CollectorRegistry

from extender.kube.client import KubeClient
from extender.kube.credentials import Keyring
from extender.kube.reflector import Reflector
from extender.telemetry.access import AccessMetrics, AccessState


def watches(
    reflectors: Iterable[Reflector[Any]],
    client: KubeClient,
    registry: CollectorRegistry,
    *,
    stale_seconds: float,
) -> "Watches":
    """Return the watches of a process, whose age is on its metrics page from now on."""
    found = Watches(reflectors, stale_seconds=stale_seconds)
    registry.register(AccessMetrics(lambda: found.access(client.keyring)))
    return found


class Watches:
    """All watches of a process; one is stale after so many seconds in which nothing came."""

    def __init__(self, reflectors: Iterable[Reflector[Any]], *, stale_seconds: float) -> None:
        self.reflectors = list(reflectors)
        self._limit = stale_seconds

    @property
    def synced(self) -> bool:
        """Whether each has been filled once."""
        return all(reflector.synced for reflector in self.reflectors)

    def checks(self) -> dict[str, str | None]:
        """Return by kind the problem of its watch, or None."""
        return {each.kind: self._problem(each) for each in self.reflectors}

    def stale(self) -> str | None:
        """Return the first kind whose watch is stale."""
        stale = (each for each in self.reflectors if each.freshness.age > self._limit)
        return next((each.kind for each in stale), None)

    def access(self, keyring: Keyring) -> AccessState:
        """Return the values of the metrics."""
        return AccessState(
            ages={each.kind: each.freshness.age for each in self.reflectors},
            ends=keyring.current.ends,
            reads=keyring.counts,
            refusals=keyring.refusals,
        )

    def _problem(self, reflector: Reflector[Any]) -> str | None:
        freshness = reflector.freshness
        if reflector.synced:
            return freshness.stale(self._limit)
        trouble = f": {freshness.trouble}" if freshness.trouble else ""
        return f"not listed yet{trouble}"
