"""All checks, in the order in which their findings are shown."""

from collections.abc import Callable, Iterator

from extender.check.crds import crds
from extender.check.endings import certificates, webhooks
from extender.check.facts import ClusterFacts, Unknown
from extender.check.findings import Finding
from extender.check.others import others
from extender.check.processes import extender, reconciler
from extender.check.queued import queued
from extender.check.rights import policies, rights
from extender.check.scheduler import scheduler
from extender.check.server import server

Check = Callable[[ClusterFacts], Iterator[Finding]]


def check(facts: ClusterFacts) -> list[Finding]:
    """Return everything there is to say; nothing about a cluster that does not answer."""
    if isinstance(facts.server, Unknown):
        each: tuple[Check, ...] = (server, scheduler, extender)
    else:
        each = (
            *(server, crds, rights, policies, scheduler, others),
            *(queued, extender, reconciler, webhooks, certificates),
        )
    return [finding for one in each for finding in one(facts)]
