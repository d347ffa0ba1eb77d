"""Webhooks that the API server must reach, and what ends at some time."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

from extender.check.facts import CertificateFacts, ClusterFacts, Unknown, WebhookFacts
from extender.check.findings import Finding, failure, ok, warning

SOON_SECONDS: Final = 7 * 86400.0
_DAY: Final = 86400.0


def webhooks(facts: ClusterFacts) -> Iterator[Finding]:
    """Yield whether the API server reaches each webhook that it is to call."""
    found = facts.webhooks
    if isinstance(found, Unknown):
        why = f"webhooks cannot be looked at: {found.why}"
        yield warning("webhooks.known", why, "use a kubeconfig that may read their configurations")
        return
    for each in found:
        yield _webhook(each)


def _webhook(each: WebhookFacts) -> Finding:
    name = f"webhooks.{each.name}"
    if not each.has_authority:
        return failure(
            name,
            "the API server has no certificate to trust for it, which the reconciler writes: "
            "every call fails",
            "start a reconciler, and look at its log",
        )
    if isinstance(each.trouble, Unknown):
        why = f"a request cannot be tried: {each.trouble.why}"
        return warning(name, why, "use a kubeconfig that may create such an object")
    if each.trouble:
        mend = "see that a reconciler runs, and that the control plane reaches port 9443 of it"
        return failure(name, f"the API server does not reach it: {each.trouble}", mend)
    return ok(name, "the API server reaches it")


def certificates(facts: ClusterFacts) -> Iterator[Finding]:
    """Yield when each certificate ends."""
    for each in facts.certificates:
        yield _certificate(each, facts.now)


def _certificate(each: CertificateFacts, now: float) -> Finding:
    name = f"certificates.{each.name}"
    if isinstance(each.ends, Unknown):
        why = f"{each.title} cannot be read: {each.ends.why}"
        return warning(name, why, "run the command where it can be read, with the rights for it")
    left = each.ends - now
    day = datetime.fromtimestamp(each.ends, UTC).strftime("%Y-%m-%d %H:%M UTC")
    if left <= 0:
        return failure(name, f"{each.title} ended {day}", each.renewal)
    if left < SOON_SECONDS and not each.is_brief:
        return warning(name, f"{each.title} ends {day}, in {left / _DAY:.1f} days", each.renewal)
    return ok(name, f"{each.title} ends {day}")
