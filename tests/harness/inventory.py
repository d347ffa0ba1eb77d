"""What there is in a cluster, a line each: what a test that failed may have met."""

from collections.abc import Callable, Iterator
from typing import Final

import httpx

from tests.harness.client import Api, ApiError, Object

_MOST: Final = 40


def inventory(api: Api) -> str:
    """Return the namespaces that end, the nodes, pods, jobs and workloads, or why it cannot."""
    try:
        return "\n".join(_lines(api))
    except (httpx.TransportError, ApiError) as error:
        return repr(error)


def _lines(api: Api) -> Iterator[str]:
    ending = [each for each in api.list("namespaces") if _ends(each)]
    yield from _table("namespaces that end", ending, _conditions)
    yield from _table("nodes", api.list("nodes"), lambda node: str(node["status"]["allocatable"]))
    yield from _table("pods", api.list("pods"), _pod)
    yield from _table("jobs", api.list("batch/v1/jobs"), _conditions)
    crds = api.list("apiextensions.k8s.io/v1/customresourcedefinitions")
    if any(each["metadata"]["name"] == "workloads.kueue.x-k8s.io" for each in crds):
        workloads = api.list("kueue.x-k8s.io/v1beta2/workloads")
        yield from _table("workloads", workloads, _conditions)


def _table(title: str, objects: list[Object], say: Callable[[Object], str]) -> Iterator[str]:
    yield f"{len(objects)} {title}"
    for each in objects[:_MOST]:
        meta = each["metadata"]
        held = f" held by {', '.join(meta['finalizers'])}" if meta.get("finalizers") else ""
        ends = f" ends since {_ends(each)}{held}" if _ends(each) else ""
        name = "/".join(filter(None, (meta.get("namespace"), meta["name"])))
        yield f"  {name} of {meta['creationTimestamp']}{ends}: {say(each)}"
    if len(objects) > _MOST:
        yield f"  and {len(objects) - _MOST} more"


def _ends(each: Object) -> str:
    return str(each["metadata"].get("deletionTimestamp", ""))


def _pod(pod: Object) -> str:
    return f"{pod['status'].get('phase')} on {pod['spec'].get('nodeName', 'no node')}"


def _conditions(each: Object) -> str:
    found = each.get("status", {}).get("conditions") or ()
    return ", ".join(f"{c['type']}={c['status']} {c.get('reason', '')}".strip() for c in found)
