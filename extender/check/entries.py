"""The entries of `extenders` in a KubeSchedulerConfiguration, as kube-scheduler reads them.

Source: https://kubernetes.io/docs/reference/config-api/kube-scheduler-config.v1/
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, Final
from urllib.parse import urlsplit

from extender.api.values import seconds

VERBS: Final = ("filter", "prioritize", "preempt", "bind")
DEFAULT_TIMEOUT: Final = 5.0
"""Seconds, where an entry says nothing."""
_TOP: Final = frozenset(
    (
        "apiVersion",
        "kind",
        "parallelism",
        "leaderElection",
        "clientConnection",
        "enableProfiling",
        "enableContentionProfiling",
        "percentageOfNodesToScore",
        "podInitialBackoffSeconds",
        "podMaxBackoffSeconds",
        "profiles",
        "extenders",
        "delayCacheUntilActive",
    )
)
_ENTRY: Final = frozenset(
    (
        "urlPrefix",
        *(f"{verb}Verb" for verb in VERBS),
        "weight",
        "enableHTTPS",
        "tlsConfig",
        "httpTimeout",
        "nodeCacheCapable",
        "managedResources",
        "ignorable",
    )
)
_TLS: Final = frozenset(
    (
        "insecure",
        "serverName",
        "certFile",
        "keyFile",
        "caFile",
        "certData",
        "keyData",
        "caData",
    )
)


@dataclass(frozen=True, slots=True)
class Entry:
    """One extender that kube-scheduler asks."""

    path: str
    """As `extenders[0]`."""
    said: Mapping[str, Any]

    def verb(self, name: str) -> str:
        """Return the path of a verb, empty where the entry has it not."""
        return str(self.said.get(f"{name}Verb") or "")

    @property
    def url(self) -> str:
        """Where it is, without a slash at the end."""
        return str(self.said.get("urlPrefix") or "").rstrip("/")

    @property
    def asks_about_nodes(self) -> bool:
        """Whether nodes are sent."""
        return any(self.verb(name) for name in VERBS if name != "bind")

    @property
    def names_only(self) -> bool:
        """Whether only the names of nodes are sent."""
        return self.said.get("nodeCacheCapable") is True

    @property
    def ignorable(self) -> bool:
        """Whether kube-scheduler goes on without it."""
        return self.said.get("ignorable") is True

    @property
    def weight(self) -> int:
        """What its points are multiplied by."""
        found = self.said.get("weight")
        return found if isinstance(found, int) else 0

    @property
    def said_timeout(self) -> object:
        """The time-out, as it is written."""
        return self.said.get("httpTimeout")

    @property
    def timeout(self) -> float | None:
        """The time-out in seconds; None where that cannot be read."""
        said = self.said_timeout
        if said is None or said in {"0", "0s"}:
            return DEFAULT_TIMEOUT
        # Go takes no number without a unit.
        return seconds(said) if isinstance(said, str) and not said.isdigit() else None

    @property
    def is_https(self) -> bool:
        """Whether it is asked with TLS."""
        return self.enables_https or self.url.startswith("https:")

    @property
    def enables_https(self) -> bool:
        """Whether the field says so, and not the URL alone."""
        return self.said.get("enableHTTPS") is True

    @property
    def is_local(self) -> bool:
        """Whether the URL stays on the machine."""
        host = ""
        try:
            host = urlsplit(self.url).hostname or ""
            return ip_address(host).is_loopback
        except ValueError:
            return host == "localhost"

    @property
    def tls(self) -> Mapping[str, Any]:
        """The section `tlsConfig`."""
        found = self.said.get("tlsConfig")
        return found if isinstance(found, Mapping) else {}

    @property
    def has_authority(self) -> bool:
        """Whether the server's certificate is verified by anything."""
        return bool(self.tls.get("caFile") or self.tls.get("caData"))

    @property
    def has_certificate(self) -> bool:
        """Whether kube-scheduler shows a certificate."""
        return any(
            self.tls.get(f"cert{form}") and self.tls.get(f"key{form}") for form in ("File", "Data")
        )

    @property
    def managed(self) -> list[str]:
        """The resources that a pod must request for it to be asked."""
        return [each["name"] for each in self.said.get("managedResources") or ()]


def entries(document: Mapping[str, Any]) -> list[Entry]:
    """Return all entries of a document that `speaks_against_together` could read."""
    said = document.get("extenders") or ()
    return [Entry(f"extenders[{number}]", each) for number, each in enumerate(said)]


def ours(found: Sequence[Entry]) -> list[Entry]:
    """Return those of the extender: the service that binds, or else all that have our verbs."""
    binds = {entry.url for entry in found if entry.verb("bind")}
    if binds:
        return [entry for entry in found if entry.url in binds]
    return [entry for entry in found if entry.verb("filter").strip("/") == "filter"]


def unknown_fields(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the path of each field that kube-scheduler refuses, and what may be meant."""
    return [*_unknown_fields(document)]


def _unknown_fields(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield from _unknown(document, _TOP, "")
    for entry in entries(document):
        yield from _unknown(entry.said, _ENTRY, f"{entry.path}.")
        yield from _unknown(entry.tls, _TLS, f"{entry.path}.tlsConfig.")


def _unknown(
    said: Mapping[str, Any], known: frozenset[str], prefix: str
) -> Iterator[tuple[str, str]]:
    spelt = {name.lower(): name for name in known}
    for name in said:
        if name not in known:
            yield f"{prefix}{name}", spelt.get(str(name).lower(), "")
