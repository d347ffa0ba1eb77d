"""Values of annotations, labels and fields that are text. None stands for what is no such value.

No value is too large to compute with.

`Overrides` are the settings of their ClusterQueue that jobs may change, and within which bounds.
The annotation `scheduling.x-k8s.io/job-overrides` of a ClusterQueue, or `queue.jobOverrides` where
a ClusterQueue has none, is a list with commas. An entry is the name of a setting without its
prefix, alone or with a bound: `pods-ready-timeout<=2h, pods-ready-backoff-base>=10s,
release-quota`. `*` frees all settings that the list does not name, `none` fixes them. Settings that
are neither named nor covered by one of these two words may only be made stricter (`_STRICTER`).

Last come completion indexes of a Job, such as `1,3-5,7`, and how many pods it runs at once. Source:
https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/job-v1/#JobStatus
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, wraps
from itertools import islice, pairwise
from operator import lt
from typing import Any, Final, Literal, ParamSpec, TypeVar

import msgspec

from extender.api import wellknown as names

LONGEST: Final = 10 * 365 * 86400.0
"""Ten years, in seconds. A longer duration is a mistake, and could end after the last date."""
_DIGITS: Final = 18
"""The most digits of a number. Python refuses to read one of thousands of digits."""
_UNITS: Final = {
    "h": 3600.0,
    "m": 60.0,
    r"(?:s|\Z)": 1.0,
    "ms": 1e-3,
    "[u\u00b5]s": 1e-6,
    "ns": 1e-9,
}
_NUMBER: Final = rf"(\d{{1,{_DIGITS}}}(?:\.\d{{1,{_DIGITS}}})?)"
_DURATION: Final = re.compile("".join(rf"(?:{_NUMBER}{unit})?" for unit in _UNITS), re.ASCII)
_DNS: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_KEY: Final = re.compile(
    rf"({_DNS}(\.{_DNS})*/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?", re.ASCII
)
_LABEL_VALUE: Final = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?", re.ASCII)
LONGEST_NAME: Final = 253
"""Characters of a DNS name: of an object, or of what stands before the `/` of a label."""
LONGEST_LABEL: Final = 63
"""Characters of a label's value, and of its key behind the `/`."""
_SWITCH: Final = {"true": True, "false": False}
KNOWN_TEXTS: Final = 4096
"""Enough answers to be remembered: different templates and annotations in a cluster."""
LONG_TEXT: Final = KNOWN_TEXTS
"""The most characters of a text that is remembered when nothing has it any more."""
SHOWN: Final = 40
"""The most characters of a value that a message shows."""

P = ParamSpec("P")
R = TypeVar("R")


def remembered(most: int) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Remember up to `most` answers about texts, like `lru_cache`, but none about a long text."""

    def wrap(read: Callable[P, R]) -> Callable[P, R]:
        known = lru_cache(most)(read)

        @wraps(read)
        def answer(*args: P.args, **kwargs: P.kwargs) -> R:
            texts = (each for each in args if isinstance(each, (str, bytes)))
            long = any(len(each) > LONG_TEXT for each in texts)
            return read(*args, **kwargs) if long else known(*args, **kwargs)  # type: ignore[arg-type]

        return answer

    return wrap


def whole(said: str) -> int | None:
    """Return a whole number of zero or more."""
    return int(said) if said.isascii() and said.isdigit() and len(said) <= _DIGITS else None


def seconds(said: str) -> float | None:
    """Return a duration, such as `300`, `300s`, `5m`, `1h30m` or `500ms`, in seconds."""
    found = _DURATION.fullmatch(said)
    if found is None or not said:
        return None
    parts = zip(found.groups(), _UNITS.values(), strict=True)
    total = sum(float(number or 0) * unit for number, unit in parts)
    return total if total <= LONGEST else None


def switch(said: str) -> bool | None:
    """Return the boolean of `true` or `false`."""
    return _SWITCH.get(said)


def is_label_key(said: str) -> bool:
    """Return whether the API server accepts a text as the key of a label."""
    prefix, _, name = said.rpartition("/")
    short = len(prefix) <= LONGEST_NAME and len(name) <= LONGEST_LABEL
    return short and _KEY.fullmatch(said) is not None


def wrong_label(labels: Mapping[str, str]) -> str:
    """Return the first label that the API server refuses, as `key=value`, or an empty text."""
    for key, said in labels.items():
        if not is_label_key(key) or len(said) > LONGEST_LABEL or not _LABEL_VALUE.fullmatch(said):
            return f"{key[:SHOWN]}={said[:SHOWN]}"
    return ""


def limited(name: str, said: str, counts: str) -> str:
    """Return the message about a value that exceeds what the ClusterQueue allows its jobs."""
    return f"{name}={said[:SHOWN]} counts as {counts}: its ClusterQueue allows its jobs no more"


def ignored(name: str, said: str, wanted: str) -> str:
    """Return the message about a value that cannot be read."""
    return f"{name}={said[:SHOWN]} is ignored: it is to be {wanted}"


def value_taken(name: str, value: int) -> str:
    """Return the annotation `PRIORITY_TAKEN` of a Workload: its class, and the value of that class.

    If the class has another value now, it was changed since. `spec.priority` may also be changed by
    hand, and then stays.
    """
    return f"{name}={value}"


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


DEFAULT_OVERRIDES: Final = Overrides()


def overrides_of(annotations: Mapping[str, str], otherwise: Overrides) -> Overrides:
    """Return the settings that jobs of a ClusterQueue with these annotations may change."""
    said = annotations.get(names.JOB_OVERRIDES)
    return otherwise if said is None else parsed_overrides(said)[0]


@remembered(1024)  # there is about one text for each ClusterQueue
def parsed_overrides(said: str) -> tuple[Overrides, tuple[str, ...]]:
    """Return the overrides in a list, and a sentence for each entry that is ignored."""
    others: Literal["stricter", "none", "any"] = "stricter"
    found: dict[str, Bound | None] = {}
    wrong: list[str] = []
    for entry in filter(None, map(str.strip, said.split(","))):
        if entry in _OTHERS:
            others = _OTHERS[entry]
            continue
        setting, bound, problem = _override(entry)
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


def unreadable_overrides(annotations: Mapping[str, str]) -> list[str]:
    """Return the problems in the annotation of a ClusterQueue, one sentence for each entry."""
    said = annotations.get(names.JOB_OVERRIDES)
    return [f"{names.JOB_OVERRIDES}: {each}" for each in parsed_overrides(said)[1]] if said else []


def _override(entry: str) -> tuple[str, Bound, str]:
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


_OTHERS: Final[Mapping[str, Literal["none", "any"]]] = {"*": "any", "none": "none"}
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
_A_DURATION: Final = (seconds, "a duration such as 300, 90s or 5m")
_AMOUNTS: Final[Mapping[str, tuple[Callable[[str], float | None], str]]] = {
    names.PODS_READY_TIMEOUT: _A_DURATION,
    names.PODS_READY_RECOVERY_TIMEOUT: _A_DURATION,
    names.PODS_READY_BACKOFF_LIMIT: (whole, "a whole number, 0 or more"),
    names.PODS_READY_BACKOFF_BASE: _A_DURATION,
    names.PODS_READY_BACKOFF_MAX: _A_DURATION,
}

_PART: Final = re.compile(r"(?:^|(?<=,))([0-9]{1,10})(?:-([0-9]{1,10}))?(?=,|\Z)")
"""An index or a range. Longer numbers are not indexes, and slow to read."""
INDEX_END: Final = 10**10
"""No index is so large."""
_CHARACTERS: Final = b"0123456789,-"
_TWO_DASHES: Final = re.compile(r"-[0-9]*-")
_numbers = msgspec.json.Decoder(list[int]).decode

Bounds = tuple[list[int], list[int]]
"""The first and the last index of each part."""


@lru_cache(maxsize=8)  # a job is asked about several times in a row
def count_below(end: int, *texts: str) -> int:
    """Count the indexes below `end` that are in any list, without parts that are not a range."""
    found = [_index_bounds(text) for text in texts if text]
    firsts = [index for each, _ in found for index in each]
    lasts = [index for _, each in found for index in each]
    pairs = (firsts, lasts) if len(found) < 2 else (sorted(firsts), sorted(lasts))
    if _are_apart(*pairs):
        return _sum_below(end, *pairs)
    return _sweep(end, firsts, lasts)


def indexes_below(end: int, *texts: str) -> frozenset[int]:
    """Return the indexes below `end` that are in any list."""
    found = (zip(*_index_bounds(text), strict=True) for text in texts if text)
    return frozenset(
        index
        for each in found
        for first, last in each
        for index in range(first, min(last + 1, end))
    )


def _index_bounds(text: str) -> Bounds:
    """Return the parts of a list.

    A list as the job controller writes it is read as JSON, with the last index of each range as a
    negative number, which is much faster than taking it apart as text.
    """
    if text.isascii() and not text.encode().translate(None, _CHARACTERS):
        try:
            return _signed(text)
        except (msgspec.MsgspecError, ValueError):
            pass
    pairs = [*_index_ranges(text)]
    return [first for first, _ in pairs], [last for _, last in pairs]


def _signed(text: str) -> Bounds:
    """Return the parts of a list. Raises MsgspecError or ValueError if a part is not a range."""
    numbers = _numbers(f"[{text.replace('-', ',-')}]")
    if "-" not in text:
        firsts, lasts = numbers, numbers
    elif _TWO_DASHES.search(text):
        raise ValueError("a part with two dashes")
    else:
        firsts = [number for number in numbers if number >= 0]
        numbers.append(0)
        lasts = [-then if then < 0 else number for number, then in pairwise(numbers) if number >= 0]
    backward = firsts is not lasts and any(map(lt, lasts, firsts))
    if backward or len(firsts) != text.count(",") + 1 or max(lasts) >= INDEX_END:
        raise ValueError("a part that is no range")
    return firsts, lasts


def _are_apart(firsts: list[int], lasts: list[int]) -> bool:
    """Return whether the parts are in order and do not overlap."""
    return all(map(lt, lasts, islice(firsts, 1, None)))


def _sum_below(end: int, firsts: list[int], lasts: list[int]) -> int:
    count = bisect_left(firsts, end)
    beyond = max(0, lasts[count - 1] + 1 - end) if count else 0
    return sum(lasts[:count]) - sum(firsts[:count]) + count - beyond


def _sweep(end: int, firsts: list[int], lasts: list[int]) -> int:
    total = reached = 0
    for first, last in sorted(zip(firsts, lasts, strict=True)):
        after = min(last + 1, end)
        if after > reached:
            total += max(0, after - max(first, reached))
            reached = after
    return total


def _index_ranges(text: str) -> Iterator[tuple[int, int]]:
    for low, high in _PART.findall(text):
        first, last = int(low), int(high or low)
        if first <= last:
            yield first, last


def pods_at_first(parallelism: int, completions: int | None) -> int:
    """Return the number of pods that a Job starts with."""
    return parallelism if completions is None else min(parallelism, completions)


def pods_left(parallelism: int, completions: int | None, *, done: int, active: int) -> int:
    """Return how many pods a Job will run at once, given the number that are done for good.

    A Job without `completions` is a work queue: once a pod has succeeded, no other is created, so
    that only the `active` pods are left.
    """
    if completions is not None:
        return min(parallelism, max(0, completions - done))
    return min(parallelism, active) if done else parallelism
