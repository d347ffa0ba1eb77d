"""The health and the metrics of an extender, asked over HTTP."""

from base64 import b64decode
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from prometheus_client.parser import text_string_to_metric_families

from gang_tools.check.findings import RENEWAL, Finding, certificate, failure, ok, warning
from gang_tools.check.reading import UNREADABLE
from gang_tools.snapshot.taking import ProcessClient

EXTENDER_SECONDS: Final = 10.0
"""The time that an extender has for an answer."""
WRONG_METRICS: Final = (
    ("errors", "internal_errors_total", "internal errors since its start", ""),
    (
        "disagreements",
        "scheduler_disagreements",
        "pods about which it disagrees with kube-scheduler",
        "name the resource in gang.ignoredResources; Events of the pods say which",
    ),
    (
        "refusals",
        "credential_refusals_total",
        "requests whose credentials the API server refused",
        "renew its kubeconfig (docs/tasks/admin/credentials.md)",
    ),
    (
        "objects",
        "objects_set_aside",
        "objects that it cannot read",
        "look at Events with the reason Unreadable",
    ),
)
"""The metrics that should be 0: the id, the metric, what it counts, and the mend."""
_LOG: Final = "look at the extender's log"


def extender(url: str, tls: Mapping[str, str], now: float) -> Iterator[Finding]:
    """Yield what an extender says of itself; `tls` is the tlsConfig of kube-scheduler's entry."""
    if not url:
        mend = "give its URL with --extender, or kube-scheduler's file with --scheduler-config"
        yield warning("extender.ready", "no extender was asked", mend)
        return
    try:
        client = _client(url, tls)
        status, body = client.get("/readyz", seconds=EXTENDER_SECONDS)
    except UNREADABLE as error:
        mend = "start it; until then kube-scheduler places no pod where it asks this extender"
        yield failure("extender.ready", f"{url} does not answer: {error}", mend)
        return
    yield readiness(url, status, body.decode(errors="replace"))
    try:
        status, body = client.get("/metrics", seconds=EXTENDER_SECONDS)
        if status != 200:
            raise ValueError(f"status {status}")
        yield from metrics(body.decode(errors="replace"), now)
    except UNREADABLE as error:
        yield warning("extender.metrics", f"{url}/metrics cannot be read: {error}", _LOG)


def readiness(url: str, status: int, text: str) -> Finding:
    """Return what an answer of /readyz says."""
    if status == 200:
        return ok("extender.ready", f"{url} is ready")
    troubles = [line[3:] for line in text.splitlines() if line.startswith("[-]")]
    said = "; ".join(troubles) or text.strip()[:200] or f"status {status}"
    mend = "a CRD or a right is missing, or a watch is silent: see the lines above, and its log"
    return failure("extender.ready", f"{url} is not ready: {said}", mend)


def metrics(page: str, now: float) -> Iterator[Finding]:
    """Yield what is wrong by a page of metrics, and the ends of certificates and tokens."""
    values: dict[str, list[tuple[Mapping[str, str], float]]] = defaultdict(list)
    for family in text_string_to_metric_families(page):
        for each in family.samples:
            values[each.name.removeprefix("gang_extender_")].append((each.labels, each.value))
    for name, metric, what, mend in WRONG_METRICS:
        count = sum(value for _, value in values[metric])
        if count > 0:
            yield warning(f"extender.{name}", f"{count:.0f} {what}", mend or _LOG)
    calls = values["request_duration_seconds_count"]
    if calls and not any(value for labels, value in calls if labels.get("verb") == "filter"):
        yield warning(
            "extender.asked",
            "kube-scheduler has not asked it about a pod since its start",
            "start a pod (--smoke does); only the kube-scheduler that leads asks, its own extender",
        )
    for label in ("credential", "certificate"):
        for labels, ends in values[f"{label}_end_timestamp_seconds"]:
            what = labels.get(label, "").replace("_", " ")
            name, title = f"extender-{what.replace(' ', '-')}", f"the extender's {what}"
            yield certificate(name, title, ends, mend=RENEWAL, now=now, is_brief=what == "token")


def _client(url: str, tls: Mapping[str, str]) -> ProcessClient:
    """Return what asks an extender as kube-scheduler does. Raises ValueError."""
    own, key, authority = (tls.get(f"{name}File") for name in ("cert", "key", "ca"))
    has_own = own and key and Path(own).exists()
    return ProcessClient(
        url,
        ca_file=Path(authority) if authority else None,
        ca_data=b64decode(tls.get("caData", "")).decode() or None,
        cert_file=Path(own) if own and has_own else None,
        key_file=Path(key) if key and has_own else None,
        server_name=tls.get("serverName"),
    )
