"""The two processes: what an extender says of itself, and whether a reconciler leads."""

from collections.abc import Iterator, Sequence
from typing import Final

from extender.check.facts import ClusterFacts, ExtenderFacts, LeaseFacts, MetricSample, Unknown
from extender.check.findings import Finding, failure, ok, warning

SILENT_SECONDS: Final = 180.0
"""After which a watch counts as silent: a bookmark comes once a minute."""
_LOG: Final = "look at the extender's log"


def extender(facts: ClusterFacts) -> Iterator[Finding]:
    """Yield what is to be said of the extender, where one was named."""
    found = facts.extender
    if found is None:
        yield warning(
            "extender.ready",
            "no extender was asked",
            "give its URL with --extender, or kube-scheduler's file with --scheduler-config",
        )
        return
    yield _ready(found)
    if isinstance(found.ready, Unknown):
        return
    if isinstance(found.samples, Unknown):
        why = f"{found.url}/metrics cannot be read: {found.samples.why}"
        yield warning("extender.metrics", why, _LOG)
        return
    yield from _metrics(found.samples)


def _ready(found: ExtenderFacts) -> Finding:
    name = "extender.ready"
    if isinstance(found.ready, Unknown):
        return failure(
            name,
            f"{found.url} does not answer: {found.ready.why}",
            "start it; until then kube-scheduler places no pod where it asks this extender",
        )
    status, text = found.ready
    if status == 200:
        return ok(name, f"{found.url} is ready")
    troubles = [line[3:] for line in text.splitlines() if line.startswith("[-]")]
    said = "; ".join(troubles) or text.strip()[:200] or f"status {status}"
    mend = "a CRD or a right is missing, or a watch is silent: see the lines above, and its log"
    return failure(name, f"{found.url} is not ready: {said}", mend)


def _metrics(samples: Sequence[MetricSample]) -> Iterator[Finding]:
    def values(name: str) -> list[MetricSample]:
        return [each for each in samples if each.name == name]

    ages = {x.labels.get("kind", ""): x.value for x in values("gang_extender_watch_age_seconds")}
    silent = [f"{kind} for {age:.0f} s" for kind, age in ages.items() if age > SILENT_SECONDS]
    if silent:
        found = f"nothing has come on the watch of {', '.join(silent)}"
        yield failure("extender.watches", found, "see that it reaches the API server; " + _LOG)
    elif ages:
        yield ok("extender.watches", f"all {len(ages)} watches are fresh")
    for name, metric, cost, mend in _WRONG:
        count = sum(each.value for each in values(metric))
        if count > 0:
            yield warning(f"extender.{name}", f"{count:.0f} {cost}", mend)
    calls = values("gang_extender_request_duration_seconds_count")
    if calls and not any(each.value for each in calls if each.labels.get("verb") == "filter"):
        yield warning(
            "extender.asked",
            "kube-scheduler has not asked it about a pod since its start",
            "start a pod (--smoke does); only the kube-scheduler that leads asks, its own extender",
        )


_WRONG: Final = (
    (
        "errors",
        "gang_extender_internal_errors_total",
        "internal errors since its start",
        _LOG,
    ),
    (
        "disagreements",
        "gang_extender_scheduler_disagreements",
        "pods about which it disagrees with kube-scheduler",
        "name the resource in gang.ignoredResources; Events of the pods say which",
    ),
    (
        "refusals",
        "gang_extender_credential_refusals_total",
        "requests whose credentials the API server refused",
        "renew its kubeconfig (docs/operations.md, Credentials)",
    ),
    (
        "objects",
        "gang_extender_objects_set_aside",
        "objects that it cannot read",
        "look at Events with the reason Unreadable",
    ),
)
"""Metrics that should be 0."""


def reconciler(facts: ClusterFacts) -> Iterator[Finding]:
    """Yield whether a reconciler leads, where one is elected."""
    if not facts.elects:
        return
    name, lease = "reconciler.lease", facts.lease
    mend = "kubectl -n gang-extender-system get pods, and look at the log of a replica"
    if lease is None:
        found = "no reconciler has led yet: no job is admitted, PodGroups get no status"
        yield warning(name, found, "apply the manifests (docs/operations.md, Install)")
    elif isinstance(lease, Unknown):
        why = f"the Lease cannot be read: {lease.why}"
        yield warning(name, why, "use a kubeconfig that may read it")
    else:
        yield _lease(lease, mend)


def _lease(lease: LeaseFacts, mend: str) -> Finding:
    name = "reconciler.lease"
    if not lease.holder:
        return failure(name, "no reconciler leads: the last one let the Lease go", mend)
    if lease.age > lease.seconds:
        found = f"{lease.holder} renewed the Lease {lease.age:.0f} s ago: no reconciler leads"
        return failure(name, found, mend)
    return ok(name, f"{lease.holder} leads")
