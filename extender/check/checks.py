"""All checks, in the order in which their findings are shown."""

from extender.check.crds import crds
from extender.check.facts import ClusterFacts, Unknown
from extender.check.findings import Finding
from extender.check.rights import policies, rights
from extender.check.scheduler import scheduler
from extender.check.server import server


def check(facts: ClusterFacts) -> list[Finding]:
    """Return everything there is to say; nothing about a cluster that does not answer."""
    if isinstance(facts.server, Unknown):
        return [*server(facts), *scheduler(facts)]
    each = (server, crds, rights, policies, scheduler)
    return [finding for one in each for finding in one(facts)]
