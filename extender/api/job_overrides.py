"""The settings of their ClusterQueue that jobs may change, and within which bounds.

The annotation `scheduling.x-k8s.io/job-overrides` of a ClusterQueue, or `queue.jobOverrides` where
a ClusterQueue has none, is a list with commas. An entry is the name of a setting without its
prefix, alone or with a bound: `pods-ready-timeout<=2h, pods-ready-backoff-base>=10s,
release-quota`. `*` frees all settings that the list does not name, `none` fixes them. Settings that
are neither named nor covered by one of these two words may only be made stricter (`_STRICTER`).
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from extender.api import wellknown as names
from extender.api.values import SHOWN, remembered, seconds, whole

_ENTRY: Final = re.compile(r"([a-z-]+)\s*(?:(<=|>=)\s*(\S+))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Bound:
    """The least and largest value that a job may choose, in seconds for times. None: no bound."""

    least: float | None = None
    most: float | None = None

    def within(self, wanted: Any) -> Any:  # noqa: ANN401 - of the type of the setting
        """Return the nearest value that is allowed. The value None means without limit."""
        if self.most is not None and (wanted is None or wanted > self.most):
            return self.most
        if self.least is not None and wanted is not None and wanted < self.least:
            return self.least
        return wanted


@dataclass(frozen=True, slots=True)
class Overrides:
    """The settings that jobs may change."""

    others: Literal["stricter", "none", "any"] = "stricter"
    """The rule for settings that are not named."""
    named: Mapping[str, Bound | None] = field(default_factory=dict)
    """The bounds by setting. None: the entry is unreadable, so the setting may only be stricter."""

    def limited(self, setting: str, wanted: Any, ruled: Any) -> Any:  # noqa: ANN401
        """Return the value that counts if a job sets `wanted` and its queue `ruled`.

        `setting` is the whole name of the annotation.
        """
        bound = self.named.get(setting)
        if bound is not None:
            return bound.within(wanted)
        if setting not in self.named:
            if self.others == "any":
                return wanted
            if self.others == "none":
                return ruled
        return _STRICTER[setting](wanted, ruled)

    def frees(self, setting: str) -> bool:
        """Return whether jobs may choose a setting freely, not only make it stricter."""
        bound = self.named.get(setting)
        return bound is not None or (setting not in self.named and self.others == "any")


DEFAULT: Final = Overrides()


def overrides_of(annotations: Mapping[str, str], otherwise: Overrides) -> Overrides:
    """Return the settings that jobs of a ClusterQueue with these annotations may change."""
    said = annotations.get(names.JOB_OVERRIDES)
    return otherwise if said is None else parsed(said)[0]


@remembered(1024)  # there is about one text for each ClusterQueue
def parsed(said: str) -> tuple[Overrides, tuple[str, ...]]:
    """Return the overrides in a list, and a sentence for each entry that is ignored."""
    others: Literal["stricter", "none", "any"] = "stricter"
    found: dict[str, Bound | None] = {}
    wrong: list[str] = []
    for entry in filter(None, map(str.strip, said.split(","))):
        if entry in _WORDS:
            others = _WORDS[entry]
            continue
        setting, bound, problem = _entry(entry)
        if problem:
            wrong.append(f"{entry[:SHOWN]} is ignored: {problem}")
        if setting:
            before = found.get(setting) or Bound()
            least = bound.least if before.least is None else before.least
            most = bound.most if before.most is None else before.most
            found[setting] = None if problem else Bound(least, most)
    if wrong and others == "any":
        others = "stricter"  # an entry that cannot be read may have been a bound
    return Overrides(others, found), tuple(wrong)


def unreadable(annotations: Mapping[str, str]) -> list[str]:
    """Return the problems in the annotation of a ClusterQueue, one sentence for each entry."""
    said = annotations.get(names.JOB_OVERRIDES)
    return [f"{names.JOB_OVERRIDES}: {each}" for each in parsed(said)[1]] if said else []


def _entry(entry: str) -> tuple[str, Bound, str]:
    """Return the setting that an entry names, its bound, and why it is ignored."""
    match = _ENTRY.fullmatch(entry)
    setting = f"{names.OWN_PREFIX}{match[1]}" if match else ""
    if match is None or setting not in _STRICTER:
        known = ", ".join(each.removeprefix(names.OWN_PREFIX) for each in _STRICTER)
        return "", Bound(), f"it is to begin with one of {known}"
    if match[2] is None:
        return setting, Bound(), ""
    reads = _AMOUNTS.get(setting)
    if reads is None:
        return setting, Bound(), f"{match[1]} has no bound, it is to stand alone"
    read, wanted = reads
    value = read(match[3])
    if value is None:
        return setting, Bound(), f"after {match[2]} there is to be {wanted}"
    return setting, Bound(most=value) if match[2] == "<=" else Bound(least=value), ""


def _lower(wanted: float | None, ruled: float | None) -> float | None:
    """Return the smaller value. None means without limit."""
    if wanted is None or ruled is None:
        return ruled if wanted is None else wanted
    return min(wanted, ruled)


_WORDS: Final[Mapping[str, Literal["none", "any"]]] = {"*": "any", "none": "none"}
_STRICTER: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    names.WAIT_FOR_PODS_READY: lambda wanted, ruled: bool(wanted or ruled),
    names.PODS_READY_TIMEOUT: _lower,
    names.PODS_READY_RECOVERY_TIMEOUT: _lower,
    names.PODS_READY_BACKOFF_LIMIT: _lower,
    # A back-off protects others from a job that fails again and again: a job may not change it.
    names.PODS_READY_BACKOFF_BASE: lambda _, ruled: ruled,
    names.PODS_READY_BACKOFF_MAX: lambda _, ruled: ruled,
    # A job that waits for others may be the head of its queue, and hold up those behind it.
    names.PODS_READY_BLOCK_ADMISSION: lambda _, ruled: ruled,
    names.RELEASE_QUOTA: lambda wanted, ruled: wanted if wanted == "OnTerminal" else ruled,
}
"""Functions by setting that return the value that counts, given the job's and the queue's."""
_DURATION: Final = (seconds, "a duration such as 300, 90s or 5m")
_AMOUNTS: Final[Mapping[str, tuple[Callable[[str], float | None], str]]] = {
    names.PODS_READY_TIMEOUT: _DURATION,
    names.PODS_READY_RECOVERY_TIMEOUT: _DURATION,
    names.PODS_READY_BACKOFF_LIMIT: (whole, "a whole number, 0 or more"),
    names.PODS_READY_BACKOFF_BASE: _DURATION,
    names.PODS_READY_BACKOFF_MAX: _DURATION,
}
