"""How often the API server was asked to write, by its own count."""

import re
import time
from collections import Counter
from collections.abc import Mapping
from typing import Final

from tests.harness.client import Api
from tests.harness.control_plane import ControlPlane

_SETTLE_SECONDS, _QUIET_SECONDS = 60.0, 5.0
_LINE = re.compile(r"apiserver_request_total\{(?P<labels>.*)\} (?P<value>\S+)")
_LABEL = re.compile(r'(\w+)="([^"]*)"')
_WRITES: Final = {
    "POST": "POST",
    "PUT": "PUT",
    "PATCH": "PATCH",
    "APPLY": "PATCH",  # server-side apply is counted as a verb of its own
    "DELETE": "DELETE",
    "DELETECOLLECTION": "DELETE",
}
# Renewed by the API server itself, and by each leader: they go with time and not with work.
_NO_WORK = {"leases"}


def parse(page: str) -> Counter[str]:
    """Return the requests that write, refused ones too, of a page of metrics.

    They are counted by "VERB resource". The page has tens of thousands of lines, so only these few
    are looked at.
    """
    counts: Counter[str] = Counter()
    for found in _LINE.finditer(page):
        labels = dict(_LABEL.findall(found["labels"]))
        verb = _WRITES.get(labels["verb"])
        if verb is None or labels["resource"] in _NO_WORK or labels.get("dry_run"):
            continue
        resource = "/".join(filter(None, (labels["resource"], labels["subresource"])))
        counts[f"{verb} {resource}"] += round(float(found["value"]))
    return counts


def page(control_plane: ControlPlane) -> str:
    """Return the API server's page of metrics."""
    with Api(control_plane.admin_kubeconfig) as api:
        return api.request("GET", "/metrics").text


def settled(control_plane: ControlPlane) -> str:
    """Return the page once nothing has been written for five seconds, or after a minute."""
    deadline = time.monotonic() + _SETTLE_SECONDS
    last = page(control_plane)
    while time.monotonic() < deadline:
        time.sleep(_QUIET_SECONDS)
        before, last = last, page(control_plane)
        if parse(before) == parse(last):
            break
    return last


def between(before: Counter[str], after: Counter[str], own: Mapping[str, int]) -> dict[str, int]:
    """Return what was written between two counts by others, the most frequent first."""
    others = after - before - Counter(own)
    return dict(others.most_common())
