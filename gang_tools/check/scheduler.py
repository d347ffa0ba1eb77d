"""kube-scheduler's configuration, field by field; scheduler-config/README.md has the reasons.

Source: https://kubernetes.io/docs/reference/config-api/kube-scheduler-config.v1/
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from extender.api.scheduler_config import (
    GANG_SCHEDULING,
    SchedulerConfigError,
    speaks_against_together,
)
from extender.api.values import seconds
from extender.config.sections import is_loopback
from gang_tools.check.findings import Finding, failure, ok, warning

VERBS: Final = ("filter", "prioritize", "preempt", "bind")
DEFAULT_TIMEOUT: Final = 5.0
"""The time-out in seconds of an entry that has none."""
SPARE_SECONDS: Final = 10.0
"""The time in which the bindings are made after the longest wait."""
PLAN_SECONDS: Final = (1.0, 30.0)
"""The least and the largest sensible time-out of the plan entry."""
SAMPLE_PERCENT: Final = 50
"""The share of nodes from which kube-scheduler sends more than the extender has use for."""
_SHIPPED: Final = "take the entries of scheduler-config/kube-scheduler.yaml"
_RESTART: Final = ", then restart kube-scheduler"
_COST: Final[Mapping[str, str]] = {
    "filter": "no gang is planned",
    "bind": "no pod waits for its gang, and half gangs start",
    "preempt": "pods of a group that cannot start evict others",
    "prioritize": "pods go where a plan keeps room, and members do not stand together",
}
"""The loss without a verb."""
_TOP: Final = frozenset((
    "apiVersion", "kind", "parallelism", "leaderElection", "clientConnection", "enableProfiling",
    "enableContentionProfiling", "percentageOfNodesToScore", "podInitialBackoffSeconds",
    "podMaxBackoffSeconds", "profiles", "extenders", "delayCacheUntilActive",
))  # fmt: skip
_ENTRY: Final = frozenset((
    "urlPrefix", *(f"{verb}Verb" for verb in VERBS), "weight", "enableHTTPS", "tlsConfig",
    "httpTimeout", "nodeCacheCapable", "managedResources", "ignorable",
))  # fmt: skip
_TLS: Final = frozenset((
    "insecure", "serverName", "certFile", "keyFile", "caFile", "certData", "keyData", "caData",
))  # fmt: skip


@dataclass(frozen=True, slots=True)
class Entry:
    """One extender that kube-scheduler asks, `said` as it is written in the file."""

    path: str
    """The path in the file, such as `extenders[0]`."""
    said: Mapping[str, Any]

    def verb(self, name: str) -> str:
        """Return the path of a verb, empty where the entry does not have it."""
        return str(self.said.get(f"{name}Verb") or "")

    @property
    def url(self) -> str:
        """The address, without a slash at the end."""
        return str(self.said.get("urlPrefix") or "").rstrip("/")

    @property
    def timeout(self) -> float | None:
        """The time-out in seconds; None where that cannot be read."""
        said = self.said.get("httpTimeout")
        if said is None or said in {"0", "0s"}:
            return DEFAULT_TIMEOUT
        # Go takes no number without a unit.
        return seconds(said) if isinstance(said, str) and not said.isdigit() else None

    @property
    def tls(self) -> Mapping[str, Any]:
        """The section `tlsConfig`."""
        found = self.said.get("tlsConfig")
        return found if isinstance(found, Mapping) else {}

    @property
    def managed(self) -> list[str]:
        """The resources that a pod must request for it to be asked."""
        return [each["name"] for each in self.said.get("managedResources") or ()]


def entries(document: Mapping[str, Any]) -> list[Entry]:
    """Return all entries of a document that `speaks_against_together` could read."""
    said = document.get("extenders") or ()
    return [Entry(f"extenders[{number}]", each) for number, each in enumerate(said)]


def ours(found: Sequence[Entry]) -> list[Entry]:
    """Return the entries of the extender: the service that binds, else all that have our verbs."""
    binds = {entry.url for entry in found if entry.verb("bind")}
    if binds:
        return [entry for entry in found if entry.url in binds]
    return [entry for entry in found if entry.verb("filter").strip("/") == "filter"]


def scheduler(path: str, document: object, longest_wait: float) -> Iterator[Finding]:
    """Yield what is to be said of a file; binds are held for `longest_wait` seconds at most."""
    try:
        against = speaks_against_together(document)
    except SchedulerConfigError as error:
        mend = "mend the field: kube-scheduler does not start with such a file"
        yield failure("scheduler.file", f"{path}: {error}", mend)
        return
    assert isinstance(document, Mapping)
    yield ok("scheduler.file", f"{path} is a KubeSchedulerConfiguration")
    found = entries(document)
    yield from _unknown(document, _TOP, "")
    for entry in found:
        yield from _unknown(entry.said, _ENTRY, f"{entry.path}.")
        yield from _unknown(entry.tls, _TLS, f"{entry.path}.tlsConfig.")
    mine = ours(found)
    yield from _entries(found, mine)
    for entry in mine:
        yield from _entry(entry)
    yield from _timeouts(mine, longest_wait)
    yield from _managed(mine)
    yield from _sampling(document)
    yield from _plugins(document)
    if mine and against:
        yield warning(
            "scheduler.together",
            f"members are bound one by one: {against}",
            "nothing, where that is meant; give the extender this file with --scheduler-config",
        )


def _unknown(said: Mapping[str, Any], known: frozenset[str], prefix: str) -> Iterator[Finding]:
    """Yield each field that kube-scheduler refuses, with the spelling that may be meant."""
    spelt = {name.lower(): name for name in known}
    for name in said:
        if name not in known:
            meant = spelt.get(str(name).lower())
            hint = f"it is spelt {meant}" if meant else "take it out"
            found = f"there is no field {prefix}{name}: kube-scheduler does not start"
            yield failure("scheduler.fields", found, hint)


def _entries(found: Sequence[Entry], mine: Sequence[Entry]) -> Iterator[Finding]:
    name = "scheduler.entries"
    binding = [entry for entry in found if entry.verb("bind")]
    said = {verb for entry in mine for verb in VERBS if entry.verb(verb)}
    if not mine:
        yield failure(
            name, "no entry under `extenders` is the extender's: gangs start pod by pod", _SHIPPED
        )
        return
    for verb, cost in _COST.items():
        if verb not in said:
            level = failure if verb in ("filter", "bind") else warning
            yield level(name, f"no entry has {verb}Verb: {cost}", _SHIPPED + _RESTART)
    if len(binding) > 1:
        where = " and ".join(entry.path for entry in binding)
        found_ = f"{where} have a bindVerb: kube-scheduler starts with one only"
        yield failure(name, found_, "leave the one of the extender")
    for entry in mine:
        if entry.verb("filter") and entry.verb("bind"):
            yield warning(
                name,
                f"{entry.path} has filterVerb and bindVerb: one httpTimeout for both, so an "
                "extender that hangs stops all scheduling for as long",
                f"make two entries of it: {_SHIPPED}",
            )
    if said >= {*VERBS} and len(binding) == 1 and len(mine) > 1:
        yield ok(name, f"{' and '.join(entry.path for entry in mine)} have all verbs")


def _entry(entry: Entry) -> Iterator[Finding]:
    for verb in VERBS:
        word = entry.verb(verb)
        if word and word.strip("/") != verb:
            found = f"{entry.path}.{verb}Verb is {word!r}, and the extender answers at /{verb}"
            yield failure("scheduler.verbs", found, f"{verb}Verb: {verb}" + _RESTART)
    weight = entry.said.get("weight")
    if entry.verb("prioritize") and (not isinstance(weight, int) or weight <= 0):
        found = f"{entry.path} has a prioritizeVerb and no weight: kube-scheduler does not start"
        yield failure("scheduler.weight", found, "weight: 1")
    asks_about_nodes = any(entry.verb(name) for name in VERBS if name != "bind")
    if entry.said.get("ignorable") is True:
        cost = "kube-scheduler binds what the extender refused: half gangs"
        if not entry.verb("bind"):
            cost = "groups are not planned while the extender is away"
        level = failure if entry.verb("bind") else warning
        mend = "ignorable: false" + _RESTART
        yield level("scheduler.ignorable", f"{entry.path}.ignorable is true: {cost}", mend)
    if asks_about_nodes and entry.said.get("nodeCacheCapable") is not True:
        yield failure(
            "scheduler.names",
            f"{entry.path}.nodeCacheCapable is not true: kube-scheduler sends whole nodes, and the "
            "extender answers with names",
            "nodeCacheCapable: true" + _RESTART,
        )
    yield from _tls(entry)


def _tls(entry: Entry) -> Iterator[Finding]:
    name, path = "scheduler.tls", entry.path
    see = "see scheduler-config/README.md (Over a network)"
    enables_https = entry.said.get("enableHTTPS") is True
    if not enables_https and not entry.url.startswith("https:"):
        try:
            host = urlsplit(entry.url).hostname or ""
        except ValueError:
            host = ""
        if not is_loopback(host):
            found = f"{path}.urlPrefix {entry.url}: plain HTTP, which the extender serves on "
            yield failure(name, found + "loopback alone", f"use https and tlsConfig: {see}")
        return
    if not (entry.tls.get("caFile") or entry.tls.get("caData")):
        found = f"{path} has no caFile: any server that answers there decides where pods go"
        yield failure(name, found, f"name the authority in tlsConfig.caFile: {see}")
    elif entry.tls.get("insecure"):
        found = f"{path}.tlsConfig.insecure is true: the server's certificate is not verified"
        yield failure(name, found, "take `insecure` out" + _RESTART)
    if not any(entry.tls.get(f"cert{x}") and entry.tls.get(f"key{x}") for x in ("File", "Data")):
        found = f"{path} has no client certificate: the extender turns such a client away"
        yield failure(name, found, f"name certFile and keyFile in tlsConfig: {see}")
    if not enables_https:
        found = f"{path} has an https URL, and enableHTTPS is not true"
        yield failure(name, found, "enableHTTPS: true" + _RESTART)


def _timeouts(mine: Sequence[Entry], longest: float) -> Iterator[Finding]:
    name, (least, most) = "scheduler.timeouts", PLAN_SECONDS
    for entry in mine:
        path, timeout, needed = entry.path, entry.timeout, longest + SPARE_SECONDS
        if timeout is None:
            found = f"{path}.httpTimeout {entry.said['httpTimeout']!r} is no duration"
            yield failure(name, found, "use one like 910s")
        elif not entry.verb("bind"):
            if not least <= timeout <= most:
                cost = "a slow answer fails" if timeout < least else "a hang stops scheduling"
                found = f"{path}.httpTimeout is {timeout:g} s: {cost}"
                yield warning(name, found, "httpTimeout: 5s" + _RESTART)
        elif timeout >= needed:
            found = f"{path}.httpTimeout {timeout:g} s is above the longest wait, {longest:g} s"
            yield ok(name, found)
        else:
            yield failure(
                name,
                f"{path}.httpTimeout is {timeout:g} s, and members wait up to {longest:g} s: "
                "kube-scheduler gives up pods that are about to be bound",
                f"httpTimeout: {needed:g}s{_RESTART}, or lower gang.maxScheduleTimeoutSeconds",
            )


def _managed(mine: Sequence[Entry]) -> Iterator[Finding]:
    name, by_entry = "scheduler.managed", {entry.path: entry.managed for entry in mine}
    if not any(by_entry.values()):
        return
    without = [path for path, names in by_entry.items() if not names]
    if without:
        found = f"{' and '.join(without)} has no managedResources, and another entry has: "
        cost = "pods are planned and not held, or held and not planned"
        yield failure(name, found + cost, "give each entry one, or none")
        return
    all_names = [each for names in by_entry.values() for each in names]
    if len({*all_names}) < len(all_names):
        found = "a resource is managed by two entries: kube-scheduler does not start"
        yield failure(name, found, "give each entry a name of its own")
        return
    listed = ", ".join(all_names)
    found = f"only pods that request {listed} are sent; all others may take planned room"
    yield warning(name, found, "nothing, where that is meant (scheduler-config/README.md, Scope)")


def _sampling(document: Mapping[str, Any]) -> Iterator[Finding]:
    profiles = document.get("profiles") or ()
    shares = [each.get("percentageOfNodesToScore") for each in (document, *profiles)]
    largest = max((share for share in shares if isinstance(share, int)), default=0)
    if largest >= SAMPLE_PERCENT:
        yield warning(
            "scheduler.sampling",
            f"percentageOfNodesToScore is {largest}: from 100 nodes on kube-scheduler looks at "
            "them all for each pod, and is several times slower with thousands",
            "take the field out, unless pods need it" + _RESTART,
        )
    else:
        yield ok("scheduler.sampling", "percentageOfNodesToScore leaves the sample to be small")


def _plugins(document: Mapping[str, Any]) -> Iterator[Finding]:
    for profile in document.get("profiles") or ():
        points = (profile.get("plugins") or {}).values()
        names = {each["name"] for point in points for each in (point or {}).get("enabled") or ()}
        names |= {each["name"] for each in profile.get("pluginConfig") or ()}
        named = profile.get("schedulerName") or "default-scheduler"
        for each in sorted(names & {"Coscheduling"}):
            found = f"the profile {named} has the plugin {each}: two components hold the same pods"
            yield failure("scheduler.plugins", found, f"take {each} out of the profile")
        for each in sorted(names & {GANG_SCHEDULING}):
            found = f"the profile {named} has the plugin {each}, kube-scheduler's own gangs"
            mend = "use either for a pod, not both"
            yield warning("scheduler.plugins", found, mend)
