"""The watches of a process: whether they are filled, and whether they are fresh."""

from collections.abc import Iterable
from typing import Any

from prometheus_client import CollectorRegistry

from extender.kube.client import KubeClient
from extender.kube.credentials import Keyring
from extender.kube.reflector import Reflector
from extender.telemetry.metrics import AccessMetrics, AccessState


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
    """All watches of a process; one is stale if nothing came for `stale_seconds`."""

    def __init__(self, reflectors: Iterable[Reflector[Any]], *, stale_seconds: float) -> None:
        self.reflectors = list(reflectors)
        self.needed = [each for each in self.reflectors if each.needed]
        """The watches that all decisions need; each of the others concerns only some pods."""
        self._limit = stale_seconds

    @property
    def synced(self) -> bool:
        """True if every needed watch has been filled once."""
        return all(reflector.synced for reflector in self.needed)

    def checks(self) -> dict[str, str | None]:
        """Return the problem of each needed watch, or None, by kind."""
        return {each.kind: self._problem(each) for each in self.needed}

    def remarks(self) -> dict[str, str | None]:
        """Return the problem of each other watch, or None, by kind."""
        others = (each for each in self.reflectors if not each.needed)
        return {each.kind: self._problem(each) or each.forbidden or None for each in others}

    def states(self) -> dict[str, dict[str, object]]:
        """Return the age of each watch, in seconds, and its problem, by kind."""
        problems = {**self.checks(), **self.remarks()}
        return {
            each.kind: {"age": each.freshness.age, "problem": problems[each.kind]}
            for each in self.reflectors
        }

    def stale(self) -> str | None:
        """Return the first kind whose needed watch is stale."""
        stale = (each for each in self.needed if each.freshness.age > self._limit)
        return next((each.kind for each in stale), None)

    def unsure_of(self, kind: str) -> str | None:
        """Return a kind whose watch was never filled, or is stale; None for any other."""
        those = (each for each in self.reflectors if each.kind == kind)
        unsure = any(not each.synced or each.freshness.age > self._limit for each in those)
        return kind if unsure else None

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
