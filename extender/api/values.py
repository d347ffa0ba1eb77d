"""Values of annotations and labels, read from text. None stands for text that is no such value.

No value is too large to compute with.
"""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache, wraps
from typing import Final, ParamSpec, TypeVar

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
_PREFIX: Final = 253
_NAME: Final = 63
_SWITCH: Final = {"true": True, "false": False}
KNOWN_TEXTS: Final = 4096
"""Enough answers to be remembered: different templates and annotations in a cluster."""
_LONG: Final = KNOWN_TEXTS
"""The most characters of a text for which an answer is remembered."""
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
            long = any(len(each) > _LONG for each in texts)
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
    short = len(prefix) <= _PREFIX and len(name) <= _NAME
    return short and _KEY.fullmatch(said) is not None


def wrong_label(labels: Mapping[str, str]) -> str:
    """Return the first label that the API server refuses, as `key=value`, or an empty text."""
    for key, said in labels.items():
        if not is_label_key(key) or len(said) > _NAME or not _LABEL_VALUE.fullmatch(said):
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
