"""The API server: its version, and its clock."""

from collections.abc import Iterator
from typing import Final

from extender.check.facts import ClusterFacts, Unknown
from extender.check.findings import Finding, failure, ok, warning

LEAST: Final = (1, 31)
"""The CRDs need selectable fields, and CEL's `sets` and `quantity`."""
TESTED: Final = (1, 36)
MOST_SECONDS: Final = 5.0
"""By which clocks may differ: holders of a Lease that renew every two seconds allow for more."""
REACH_IT: Final = "name a kubeconfig with --kubeconfig, or see why the API server does not answer"


def server(facts: ClusterFacts) -> Iterator[Finding]:
    """Yield what is to be said of the API server."""
    found = facts.server
    if isinstance(found, Unknown):
        yield failure("server.version", f"the API server does not answer: {found.why}", REACH_IT)
        return
    yield _version(found.version, found.minor)
    if found.ahead is not None:
        yield _clock(found.ahead)


def _version(version: str, minor: tuple[int, int] | None) -> Finding:
    name = "server.version"
    least, tested = (f"{major}.{part}" for major, part in (LEAST, TESTED))
    if minor is None:
        return warning(name, f"{version} is no version of Kubernetes", f"use {least} or later")
    if minor < LEAST:
        return failure(
            name,
            f"Kubernetes {version}: the CRDs need {least}",
            f"upgrade the cluster to {least} or later",
        )
    if minor < TESTED:
        found = f"Kubernetes {version}; gang-extender is tested on {tested}"
        return warning(name, found, "try it with --smoke before you rely on it")
    return ok(name, f"Kubernetes {version}")


def _clock(ahead: float) -> Finding:
    name = "server.clock"
    if abs(ahead) <= MOST_SECONDS:
        return ok(name, f"the API server's clock is within {MOST_SECONDS:g} s of this machine's")
    side = "ahead of" if ahead > 0 else "behind"
    return warning(
        name,
        f"the API server's clock is {abs(ahead):.0f} s {side} this machine's",
        "synchronise the clocks (NTP): waits and back-offs are counted from times in objects",
    )
